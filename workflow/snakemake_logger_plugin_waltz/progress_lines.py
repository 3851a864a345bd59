"""Progress of a run as lines, for output that is not a terminal: logs of CI, nohup, Slurm and ssh."""

import threading
import time
from collections.abc import Callable

SECONDS = 60.0
"""Seconds between two lines."""
SHOWN_JOBS = 3
"""Largest number of running jobs that a line names; it states only the number of further jobs."""


class ProgressLines:
    """Counter of a run's jobs with a thread that prints the counts once a minute until it is
    stopped.

    Args:
        print_line: Function that prints one line.
        clock: Function that returns the time in seconds.
        seconds: Seconds between two lines.
    """

    def __init__(
        self,
        print_line: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        seconds: float = SECONDS,
    ) -> None:
        """Create the counter; it prints nothing before `start`."""
        self._print_line = print_line
        self._clock = clock
        self._seconds = seconds
        self._begin = 0.0
        self._total = 0
        self._done = 0
        self._failed: set[int] = set()
        self._running: dict[int, str] = {}
        self._is_stopped = threading.Event()
        self._counting = threading.Lock()
        self._thread = threading.Thread(target=self._print_lines, daemon=True)

    def start(self, total: int) -> None:
        """Start the thread that prints.

        Args:
            total: Number of jobs of the run.
        """
        self._total = total
        self._begin = self._clock()
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread that prints."""
        self._is_stopped.set()

    def count_start(self, job: int, name: str) -> None:
        """Count a job that starts; a job that starts again after a failure no longer counts as
        failed.
        """
        with self._counting:
            self._failed.discard(job)
            self._running[job] = name

    def count_end(self, job: int, is_done: bool) -> None:
        """Count a job that has finished (`is_done`) or failed."""
        with self._counting:
            self._running.pop(job, None)
            if is_done:
                self._done += 1
            else:
                self._failed.add(job)

    def describe(self) -> str:
        """Return a line with the numbers of done, failed and running jobs, and the estimated time
        left.
        """
        # Events of jobs come from other threads.
        with self._counting:
            n_failed = len(self._failed)
            counts = f"{self._done} of {self._total} jobs done, {n_failed} failed"
            return f"{counts}, {self._describe_running()}, {self._describe_time_left(n_failed)}"

    def _describe_running(self) -> str:
        """Return the number of running jobs and the names of the first ones."""
        names = list(self._running.values())
        if not names:
            return "0 running"
        # Jobs are listed in the order in which they started.
        shown = ", ".join(names[:SHOWN_JOBS])
        if len(names) > SHOWN_JOBS:
            shown += f" and {len(names) - SHOWN_JOBS} more"
        return f"{len(names)} running ({shown})"

    def _describe_time_left(self, n_failed: int) -> str:
        """Return the time that the remaining jobs take if they are as fast as the finished ones."""
        if not self._done:
            return "time left unknown"
        n_left = max(0, self._total - self._done - n_failed)
        # Elapsed time per finished job, which takes into account that several jobs run at once.
        seconds_per_job = (self._clock() - self._begin) / self._done
        return f"about {_format_duration(seconds_per_job * n_left)} left"

    def _print_lines(self) -> None:
        """Print a line at each interval until the counter is stopped."""
        while not self._is_stopped.wait(self._seconds):
            self._print_line(f"{time.strftime('%H:%M:%S')}  {self.describe()}")


def _format_duration(seconds: float) -> str:
    """Return a duration as text in minutes, or in hours and minutes from one hour on."""
    minutes = max(1, round(seconds / 60))
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
