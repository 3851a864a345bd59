"""Logger of a run on a terminal: progress with the time left, and one line for what the user can mend.

Snakemake finds loggers by the prefix of their module; profiles/default names this one. Snakemake imports it before the
Snakefile says from which checkout to import waltz, so that this module imports nothing of waltz when it is imported.
"""

from logging import LogRecord
from pathlib import Path

from rich.progress import TimeRemainingColumn
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_logger_plugin_rich import LogHandler as RichLogHandler

RAISED_IN_RULE = "  UserError: "
"""Start of a line of Snakemake's message about a function that raised one."""


class LogHandler(RichLogHandler):  # type: ignore[misc]
    """Logger of snakemake-logger-plugin-rich with the additions of this module."""

    def __post_init__(self) -> None:
        """Add a column to the progress bars."""
        super().__post_init__()
        self.progress.columns = (*self.progress.columns, TimeRemainingColumn(compact=True))

    def emit(self, record: LogRecord) -> None:
        """Show a record; instead of the traceback of an option, show what is wrong with it."""
        if getattr(record, "event", None) == LogEvent.ERROR:
            from waltz.cli.run.targets import build_missing_file_error, build_target_error
            from waltz.core.errors import UserError

            try:
                check_options()
                if getattr(record, "exception", "") == "MissingRuleException":
                    raise build_target_error(record.getMessage().split()[5])
                if getattr(record, "exception", "") == "MissingInputException":
                    raise build_missing_file_error(record.getMessage())
                for line in record.getMessage().splitlines():
                    if line.startswith(RAISED_IN_RULE):  # by a function of a rule's input or resources
                        raise UserError(line.removeprefix(RAISED_IN_RULE))
            except UserError as error:
                record.msg, record.args = f"waltz: {error}", None
        super().emit(record)


def check_options() -> None:
    """Refuse what Snakemake reads before the Snakefile, and shows a traceback for.

    Raises:
        UserError: A file of `--configfile` is no study, or an entry of `--config` is no key with a value.
    """
    from snakemake.cli import get_argument_parser

    from waltz.core.errors import UserError
    from waltz.plan.read_study import load_yaml

    options = get_argument_parser().parse_args()
    for file in options.configfile or ():
        load_yaml(Path(file))
    for entry in options.config or ():
        name, sign, _ = entry.partition("=")
        if not sign or not name.isidentifier():
            raise UserError(
                f"--config: no key with a value (got {entry!r}, expected KEY=VALUE);"
                " run: snakemake --cores 2 --config study=scenes"
            )
