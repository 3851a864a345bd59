"""How a program ends that Ctrl-C stops."""

import sys
from types import TracebackType


def hide_interrupts() -> None:
    """Let this program end without a traceback when Ctrl-C stops it."""
    sys.excepthook = _show_fault


def _show_fault(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Show the traceback of any other exception."""
    if kind is not KeyboardInterrupt:
        sys.__excepthook__(kind, error, traceback)
