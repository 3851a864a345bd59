"""Logger of a run: progress with the time left, and a one-line message for each mistake that the
user can correct.

Snakemake finds loggers by the prefix of their module; profiles/default names this logger. Snakemake
imports it before the Snakefile decides from which checkout waltz is imported, so this module
imports waltz only inside functions.
"""

from logging import LogRecord

from rich.progress import TimeRemainingColumn
from rich.text import Text
from snakemake.logging import is_quiet_about, logger
from snakemake_logger_plugin_rich import LogHandler as RichLogHandler

from snakemake_logger_plugin_waltz.events import EventHandler
from snakemake_logger_plugin_waltz.progress_lines import ProgressLines


class LogHandler(RichLogHandler):  # type: ignore[misc]
    """Logger that extends snakemake-logger-plugin-rich by progress lines and explained errors."""

    def __post_init__(self) -> None:
        """Add the time left to the progress bars, replace the handler of events, and explain
        errors.
        """
        super().__post_init__()
        self.progress.columns = (
            *self.progress.columns,
            TimeRemainingColumn(compact=True),
        )
        settings = self.common_settings
        self.event_handler = EventHandler(
            lines=None if self._has_bars() else ProgressLines(self._print_line),
            verbose=settings.verbose,
            console=self.console,
            progress=self.progress,
            live_display=self.live_display,
            dryrun=settings.dryrun,
            printshellcmds=settings.printshellcmds,
            show_failed_logs=settings.show_failed_logs,
        )
        # The filter also sees errors that Snakemake finds before it reads the Snakefile.
        logger.addFilter(explain_error)

    def _has_bars(self) -> bool:
        """Return whether the output is a terminal that can show bars; rich would also believe
        FORCE_COLOR.
        """
        return self.console.file.isatty() and not self.console.is_dumb_terminal

    def _print_line(self, line: str) -> None:
        """Print a line about the progress, unless the run is quiet about progress."""
        if not is_quiet_about(self.common_settings.quiet or (), "progress"):
            self.console.print(Text(line), soft_wrap=True)


def explain_error(record: LogRecord) -> bool:
    """Replace Snakemake's message about a mistake that the user can correct; return whether the
    record is shown.

    It runs in the thread that handles the exception.
    """
    # Imported late: the Snakefile decides from which checkout waltz is imported.
    from waltz.cli.run.explain import explain

    return explain(record)
