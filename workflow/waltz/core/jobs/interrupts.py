"""How a program ends that Ctrl-C stops."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

HIDE_INTERRUPTS = (
    "from waltz.core.jobs.interrupts import hide_interrupts; hide_interrupts()\n"
)
"""First line of a program that shows no traceback when Ctrl-C stops it, also while it imports."""
RUN_SNAKEMAKE = (
    f"{HIDE_INTERRUPTS}import runpy\n"
    "runpy.run_module('snakemake', run_name='__main__', alter_sys=True)\n"
)
"""Program of `python -m snakemake`, after that line."""


@contextmanager
def delay_interrupts() -> Iterator[None]:
    """Delay Ctrl-C: here until the end of the block, in programs that the block starts until they
    call `hide_interrupts`.
    """
    signals = {signal.SIGINT}
    # A new program inherits the mask of blocked signals.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hide_interrupts() -> None:
    """Let this program end without a traceback when Ctrl-C stops it."""
    sys.excepthook = _show_fault
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _show_fault(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Show the traceback of any other exception."""
    if kind is not KeyboardInterrupt:
        sys.__excepthook__(kind, error, traceback)
