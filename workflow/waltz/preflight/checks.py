"""One result of a preflight, and checks that run at the same time and have a limit."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from waltz.core.errors import UserError, get_first_line

Key = TypeVar("Key")
Value = TypeVar("Value")


class State(StrEnum):
    """State of what was checked: only a failure lets a study end early."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class Check:
    """One row of the table of a preflight.

    Attributes:
        subject: `file`, `repository`, `model`, `disk`, `gpu`, `package`, `scheduler` or `work`.
        name: Key of the study, model, folder, package or stage.
        state: Its state.
        finding: What was found; where it is no `ok`, what to do after the last semicolon.
    """

    subject: str
    name: str
    state: State
    finding: str


def run_at_once(tasks: Mapping[Key, Callable[[], Value]], seconds: float) -> dict[Key, Value | UserError]:
    """Run tasks in a thread each, and return their values, or the error of each that failed or took too long.

    Threads that are late are left behind; they do not keep the program from ending.

    Args:
        tasks: Functions that wait for a server most of the time.
        seconds: Limit for all of them.
    """
    results: dict[Key, Value | UserError] = {}

    def run(key: Key, task: Callable[[], Value]) -> None:
        try:
            results[key] = task()
        except UserError as error:
            results[key] = error
        except Exception as error:  # clients of the web and the hub raise errors of several libraries
            results[key] = UserError(f"{get_first_line(error)}; check the network and run again")

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in tasks.items()]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = UserError(f"no answer within {seconds:g} s; run again, or set a higher --timeout")
    return {key: results.get(key, late) for key in tasks}
