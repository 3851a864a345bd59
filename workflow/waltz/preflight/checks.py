"""Results of a preflight, and the parallel execution of its requests within a time limit."""

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
    """State of a check; a study with a failure would stop early."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


class NoAnswerError(UserError):
    """Error about a server that gave no answer: no connection, no address for its name, or no reply
    in time.
    """


@dataclass(frozen=True)
class Check:
    """Result of one check: a row in the table of a preflight.

    Attributes:
        subject: `network`, `file`, `repository`, `model`, `disk`, `gpu`, `package`, `scheduler` or
            `work`.
        name: Key of the study, model, folder, package or stage.
        state: State of the check.
        finding: The finding; unless the state is `ok`, the text after the last semicolon says what
            to do.
    """

    subject: str
    name: str
    state: State
    finding: str


def run_at_once(
    tasks: Mapping[Key, Callable[[], Value]], seconds: float
) -> dict[Key, Value | UserError]:
    """Run each task in a thread, and return its value, or an error if it failed or took too long.

    Threads that take too long are abandoned; the program can still end.

    Args:
        tasks: Functions that wait for a server most of the time.
        seconds: Time limit in seconds for all tasks together.
    Returns:
        Value or error by the key of the task.
    """
    results: dict[Key, Value | UserError] = {}

    def run(key: Key, task: Callable[[], Value]) -> None:
        """Store the value of a task, or its error as a UserError."""
        try:
            results[key] = task()
        except UserError as error:
            results[key] = error
        except Exception as error:
            # Clients of the web and the hub raise errors of several libraries.
            results[key] = NoAnswerError(
                f"no answer ({get_first_line(error)}); check the network and run again"
            )

    # Daemon threads end with the program, so a server that never answers cannot delay its end.
    threads = [
        threading.Thread(target=run, args=item, daemon=True) for item in tasks.items()
    ]
    for thread in threads:
        thread.start()
    # All tasks share one deadline: a thread only waits for the time that is left.
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = NoAnswerError(
        f"no answer within {seconds:g} s; run again, or set a higher --timeout"
    )
    return {key: results.get(key, late) for key in tasks}
