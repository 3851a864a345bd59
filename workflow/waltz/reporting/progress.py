"""Progress of a study, from Snakemake's summary and the logs: its files by stage, and the jobs that
run or failed.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from waltz.core.run_lock import StudyRun

STAGES = (
    "weights",
    "scene_models",
    "sources",
    "foils",
    "filters",
    "benchmark",
    "evaluation",
    "attribution",
    "consistency",
    "measures",
    "reporting",
    "export",
)
"""Names of the stages in their order: folders of results, and `weights` for the weights of models.
"""
Row = Mapping[str, str]
"""Line of `snakemake --summary` about one file of the study, by column."""
LOG_HEAD = re.compile(r"^[\d-]+ [\d:,]+ [A-Z]+ \S+: ")
"""Beginning of a line in a log: its time, level and logger."""
FAULT = " ERROR waltz: "
"""Text in the line with which a failed job ends its log or begins its traceback."""
NOT_ENDED = "it was stopped before it ended"


@dataclass(frozen=True)
class StageProgress:
    """Files of one stage.

    Attributes:
        stage: Name of the stage; `weights` for weights of models.
        done: Number of its files that are up to date.
        files: Number of all its files.
    """

    stage: str
    done: int
    files: int


@dataclass(frozen=True)
class Job:
    """A job that is running or failed.

    Attributes:
        name: Rule and wildcards of the job, such as `align clip/pairs`.
        log: Log file of the job.
        line: Last line of the log.
    """

    name: str
    log: Path
    line: str


@dataclass(frozen=True)
class Progress:
    """Progress of a study: its stages in their order, the jobs that run now, and those that failed."""

    stages: tuple[StageProgress, ...]
    running: tuple[Job, ...]
    failed: tuple[Job, ...]


def find_progress(
    summary: str, results: Path, logs: Path, run: StudyRun | None
) -> Progress:
    """Return the progress of a study.

    Args:
        summary: Output of `snakemake --summary`.
        results: Folder of the study's results, as the summary names it.
        logs: Folder of the study's logs.
        run: Last run of the study; None where it was never run.
    """
    # The summary has one line for each file, with tabs between its columns.
    rows = list(csv.DictReader(summary.splitlines(), delimiter="\t"))
    goes_on = run is not None and run.may_go_on
    running = []
    failed = []
    for log, name, pending in _list_pending_logs(rows, logs):
        content = log.read_text(encoding="utf-8", errors="replace")
        line = _get_last_line(content)
        # Logs of earlier runs stay where they are; the time of their last change tells them apart.
        is_of_this_run = (
            run is not None and datetime.fromtimestamp(log.stat().st_mtime) >= run.since
        )
        has_fault = FAULT in content
        # While a run goes on, only its own faults count: it may run earlier failed jobs again.
        if has_fault and (is_of_this_run or not goes_on):
            failed.append(Job(name, log, line))
        elif goes_on and is_of_this_run:
            running.append(Job(name, log, line))
        elif not goes_on and all(row["status"] == "missing" for row in pending):
            # The job began, has no file and no fault, and nothing goes on.
            failed.append(Job(name, log, f"{NOT_ENDED}; {line}" if line else NOT_ENDED))
    return Progress(tuple(_count_files(rows, results)), tuple(running), tuple(failed))


def _count_files(rows: Sequence[Row], results: Path) -> Iterator[StageProgress]:
    """Yield the progress of each stage: stages of unknown name first, then those of `STAGES` in
    their order.
    """
    stages: dict[str, list[bool]] = {}
    for row in rows:
        file = Path(row["output_file"])
        # Files outside the results are weights of models, in a folder that studies share.
        stage = (
            file.relative_to(results).parts[0]
            if file.is_relative_to(results)
            else "weights"
        )
        stages.setdefault(stage, []).append(not _is_pending(row))
    unknown = [stage for stage in stages if stage not in STAGES]
    known = [stage for stage in STAGES if stage in stages]
    for stage in (*unknown, *known):
        yield StageProgress(stage, sum(stages[stage]), len(stages[stage]))


def _is_pending(row: Row) -> bool:
    return row["plan"] == "update pending"


def _list_pending_logs(
    rows: Sequence[Row], logs: Path
) -> Iterator[tuple[Path, str, list[Row]]]:
    """Yield each job that began and is not done: its log, its name, and its files in the summary.

    The log of a job lies in the folder of its rule. Its name consists of the job's wildcards, which
    also occur in the names of the job's files.
    """
    pending = [row for row in rows if _is_pending(row)]
    for log in sorted(logs.rglob("*.log")):
        rule, *wildcards = log.relative_to(logs).with_suffix("").parts
        job_rows = [row for row in pending if _is_file_of_job(row, rule, wildcards)]
        if job_rows:
            name = f"{rule} {'/'.join(wildcards)}" if wildcards else rule
            yield log, name, job_rows


def _is_file_of_job(row: Row, rule: str, wildcards: Sequence[str]) -> bool:
    """Return whether a job makes a file: the rule is the same, and all wildcards occur in the
    file's path.
    """
    # Where there are wildcards, the folder of logs may be named after the beginning of the rule's
    # name.
    is_of_rule = row["rule"].startswith(rule) if wildcards else row["rule"] == rule
    parts = Path(row["output_file"]).parts
    stems = [Path(part).stem for part in parts]
    return is_of_rule and {*wildcards} <= {*parts, *stems}


def _get_last_line(content: str) -> str:
    """Return the last line of a log that is not empty, without time, level and logger; an empty
    text without a line.
    """
    lines = [line for line in content.splitlines() if line.strip()]
    return LOG_HEAD.sub("", lines[-1]).strip() if lines else ""
