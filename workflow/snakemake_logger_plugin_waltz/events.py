"""Output of a run for the events that Snakemake reports: progress as bars on a terminal, else as
lines.

Names, paths and messages are printed literally, as `rich.text.Text`, in which `[x]` or `:key:` has
no effect.
"""

import re
import time
from collections.abc import Mapping, Sequence
from logging import LogRecord
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_logger_plugin_rich import events
from snakemake_logger_plugin_rich.event_handler import EventHandler as RichEventHandler

from snakemake_logger_plugin_waltz.progress_lines import ProgressLines

REASONS_OF_A_FIRST_RUN = (
    "input files updated by another job",
    "output files have to be generated",
)
"""Reasons of Snakemake that nearly every job of a first run has."""


class EventHandler(RichEventHandler):  # type: ignore[misc]
    """Handler of Snakemake's events that prints texts literally, and lines of progress if there is
    no terminal.

    Args:
        lines: Lines of progress; None on a terminal, which shows bars.
        verbose: Whether jobs are listed as they begin and end.
        settings: Settings of `snakemake_logger_plugin_rich.event_handler.EventHandler`.
    """

    def __init__(
        self, lines: ProgressLines | None, verbose: bool, **settings: Any
    ) -> None:
        """Create the handler; it lists jobs itself, because the parent would read their texts as
        markup.
        """
        # Without a terminal, the parent draws its bars on a console that prints nothing.
        if lines is not None:
            settings["live_display"] = Live(
                console=Console(quiet=True),
                redirect_stdout=False,
                redirect_stderr=False,
            )
        super().__init__(**settings, verbose=False)
        self.lines = lines
        self.lists_jobs = verbose

    def handle_run_info(self, event_data: events.RunInfo, **_: Any) -> None:
        """Start to show the progress when Snakemake knows the number of jobs."""
        super().handle_run_info(event_data)
        if self.lines is not None and not self.dryrun and event_data.total_job_count:
            self.lines.start(event_data.total_job_count)

    def handle_job_info(self, event_data: events.JobInfo, **_: Any) -> None:
        """Count a job that starts, and list it if the run is verbose."""
        super().handle_job_info(event_data)
        if self.lines is not None:
            name = " ".join(
                [
                    event_data.rule_name,
                    "/".join(map(str, event_data.wildcards.values())),
                ]
            )
            self.lines.count_start(event_data.jobid, name.strip())
        if self.lists_jobs:
            # A dry run lists the same jobs with the reason why they would run.
            details = {"message": event_data.rule_msg}
            title = "◯ Started"
            if self.dryrun:
                details["reason"] = event_data.reason
                title = "◌ Would run"
            if self.printshellcmds:
                details["command"] = event_data.shellcmd
            self._print_job(title, event_data.jobid, details)

    def handle_job_finished(self, event_data: events.JobFinished, **_: Any) -> None:
        """Count a job that has finished, and list it if the run is verbose."""
        super().handle_job_finished(event_data)
        if self.lines is not None:
            self.lines.count_end(event_data.job_id, is_done=True)
        if self.lists_jobs:
            self._print_job("◉ Finished", event_data.job_id, {})

    def handle(self, record: LogRecord, **_: Any) -> None:
        """Show an event; a failed job with its whole message and log files, of which the parent
        shows only a part.
        """
        # A group of jobs on a cluster fails as one job, with the facts of each of its jobs.
        match getattr(record, "event", None):
            case LogEvent.JOB_ERROR:
                self._show_failed_job(vars(record), [])
            case LogEvent.GROUP_ERROR:
                for facts in vars(record)["job_error_info"]:
                    self._show_failed_job(facts, vars(record)["aux_logs"])
            case _:
                super().handle(record)

    def _show_failed_job(
        self, facts: Mapping[str, Any], other_logs: Sequence[str]
    ) -> None:
        """Count a job that failed, and show its message, such as the message of a cluster, and its
        log files.

        Args:
            facts: Facts from Snakemake: `jobid`, `log` (log files of the job and of a cluster),
                perhaps `rule_msg`.
            other_logs: Further log files, of a group of jobs.
        """
        if self.lines is not None:
            self.lines.count_end(facts["jobid"], is_done=False)
        self._print_job(
            "✗ Failed",
            facts["jobid"],
            {"message": facts.get("rule_msg")},
            style="yellow",
        )
        # A log file may be named twice; each is shown once.
        for log in dict.fromkeys([*facts["log"], *other_logs]):
            self._print(f"log file {log}:", style="yellow")
            try:
                self._print(Path(log).read_text(encoding="utf-8", errors="replace"))
            except OSError as error:
                self._print(f"cannot be read: {error.strerror}")

    def handle_generic_record(self, record: LogRecord, **_: Any) -> None:
        """Show a message; print the path of the log at the end of a run literally, and of the
        reasons of a dry run only those that say what has changed.
        """
        # The path may contain a colon or brackets, which the parent would read as markup.
        message = record.getMessage()
        if message.startswith("Complete log"):
            self.console.rule("Workflow Finished", style="green")
            self._print(message.rstrip())
        elif message.startswith("Reasons:"):
            self._print_reasons(message)
        else:
            super().handle_generic_record(record)

    def _print_reasons(self, message: str) -> None:
        """Print the reasons of a dry run with their rules, a line for each; none of a first run."""
        for reason, rules in re.findall(
            r"^ {4}(\w.*):\n {8}(.*)$", message, re.MULTILINE
        ):
            if reason not in REASONS_OF_A_FIRST_RUN:
                self._print(f"{reason}: {rules}")

    def close(self) -> None:
        """Stop showing the progress."""
        if self.lines is not None:
            self.lines.stop()
        super().close()

    def _start_dag_status(self) -> None:
        """Show that Snakemake builds its graph: as a spinner on a terminal, else as a line."""
        if self.lines is None:
            super()._start_dag_status()
        else:
            self._print("Building workflow graph...")

    def _start_conda_status(self, env_name: str) -> None:
        """Show that an environment is being created; its name is escaped, since the parent reads it
        as markup.
        """
        super()._start_conda_status(escape(env_name))

    def _complete_conda_status(self, env_name: str) -> None:
        """Show that an environment was created; its name is escaped, since the parent reads it as
        markup.
        """
        super()._complete_conda_status(escape(env_name))

    def _print_job(
        self, title: str, job: int, details: Mapping[str, str | None], style: str = ""
    ) -> None:
        """Print a job with its rule and time, and a line for each wildcard and detail that has a
        value.
        """
        info = self.jobs_info.get(job, {"rule": "job", "wildcards": {}})
        self._print(
            f"{title} {info['rule']} (id: {job}) {time.strftime('%H:%M:%S')}", style
        )
        for name, value in {**info["wildcards"], **details}.items():
            if value:
                self._print(f"    {name}: {value}")

    def _print(self, text: str, style: str = "") -> None:
        """Print a text literally, without markup and without line breaks."""
        self.console.print(Text(text, style=style), soft_wrap=True)
