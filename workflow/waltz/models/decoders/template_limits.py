"""Limits of time, memory and output of chat templates, which are programs that come with a model's
files.
"""

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import jinja2

MAX_SECONDS = 5
"""Maximum computing time of one conversation, in seconds; a real template takes milliseconds."""
MAX_BYTES = 1 << 30
"""Maximum memory of one conversation, in bytes."""
MAX_LETTERS = 1_000_000
"""Maximum number of letters of one rendered conversation."""
MAX_STEPS = 5_000_000
"""Maximum number of lines of Python in one conversation outside of the main thread, where no timer
can stop it.
"""
MEMORY_FILE = Path("/proc/self/statm")
"""On Linux, file with the number of memory pages of this process."""


class TemplateLimitError(Exception):
    """A template exceeds a limit."""


@contextmanager
def limit_template() -> Iterator[None]:
    """Limit the computing time and, on Linux, the memory of a `with` block.

    Raises:
        TemplateLimitError: The block exceeds the time limit.
        MemoryError: The block exceeds the memory limit.
    """
    # Signals reach the main thread only; elsewhere the steps of Python are counted.
    with _limit_memory():
        if threading.current_thread() is threading.main_thread():
            with _limit_time():
                yield
        else:
            with _limit_steps():
                yield


def check_operations(templates: Mapping[str, str]) -> None:
    """Refuse templates that compute powers, which no timer can interrupt; templates of real models
    compute none.

    Args:
        templates: Templates by their names.
    Raises:
        TemplateLimitError: A template has the power operator, or the filter `round`, which raises
            10 to its argument.
        jinja2.TemplateSyntaxError: A template has invalid syntax.
    """
    for template in templates.values():
        previous = ""
        for _, kind, text in jinja2.Environment().lex(template):
            if _is_power(kind, text, previous) or _is_rounding(kind, text):
                raise TemplateLimitError(
                    "it computes a power, by ** or round, which may take for ever"
                )
            if kind != "whitespace":
                previous = text


def _is_power(kind: str, text: str, previous: str) -> bool:
    # Behind a bracket or a comma, `**` passes named arguments.
    return kind == "operator" and text == "**" and previous not in ("(", ",")


def _is_rounding(kind: str, text: str) -> bool:
    return kind in ("name", "string") and text.strip("'\"") == "round"


def check_length(text: str) -> None:
    """Refuse a rendered conversation that is too long.

    Raises:
        TemplateLimitError: The conversation has more than `MAX_LETTERS` letters.
    """
    if len(text) > MAX_LETTERS:
        raise TemplateLimitError(
            f"its output is too long (got {len(text)} letters, expected {MAX_LETTERS} or fewer)"
        )


@contextmanager
def _limit_time() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TemplateLimitError(
            f"it takes more than {MAX_SECONDS} s of computing time"
        )

    # The virtual timer counts computing time, so that a busy machine does not end a harmless
    # template.
    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


@contextmanager
def _limit_steps() -> Iterator[None]:
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps > MAX_STEPS:
            raise TemplateLimitError(f"it takes more than {MAX_STEPS} steps")
        return count

    previous = sys.gettrace()
    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(previous)


@contextmanager
def _limit_memory() -> Iterator[None]:
    if not MEMORY_FILE.exists():
        yield
        return
    import resource  # on Unix alone

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    # The first number is the size of this process's address space, in pages.
    pages = int(MEMORY_FILE.read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MAX_BYTES
    if soft != resource.RLIM_INFINITY:
        limit = min(limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
