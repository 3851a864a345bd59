"""Log file and run record of a job: messages, progress, and the facts about how the output was
computed.
"""

import importlib.metadata
import io
import json
import logging
import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

import waltz
from waltz.core.errors import convert_to_user_error
from waltz.core.files.atomic import write_text
from waltz.core.redaction import RedactingFormatter, hide_secrets

Facts = Mapping[str, Any]
"""Entries of a run record by name: JSON values that each stage chooses."""


@contextmanager
def log_job(log: str | Path) -> Iterator[None]:
    """Send log records and tracebacks to the rule's log file, and show one line on stderr if the
    block fails.

    A `UserError`, or an error of the operating system about space or permissions, is shown without
    a traceback. Any other exception is a fault of the program: its traceback goes to the log file,
    and the line names that file.

    Raises:
        SystemExit: The block raised an exception, or Ctrl-C stopped it; the status is 1.
    """
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Warnings of Python and of libraries go to the same file as log records.
    handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(
        RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    try:
        yield
    except KeyboardInterrupt:
        logging.getLogger("waltz").error("stopped by Ctrl-C")
        raise SystemExit(1) from None
    except Exception as error:
        # What the user can correct takes one line; anything else is a fault of the program.
        user_error = convert_to_user_error(error)
        if user_error is not None:
            logging.getLogger("waltz").error("%s", user_error)
            print(f"waltz: {user_error}", file=sys.stderr)
        else:
            logging.getLogger("waltz").exception("the job failed")
            print(
                f"waltz: {type(error).__name__}: {hide_secrets(str(error))} (traceback in {path})",
                file=sys.stderr,
            )
        raise SystemExit(1) from None
    finally:
        root.removeHandler(handler)
        handler.close()


LINE_SECONDS = 60.0
"""Smallest number of seconds between two lines about progress."""


class ProgressLines(tqdm):  # type: ignore[type-arg]
    """Progress bar for logs: it writes a line once a minute instead of drawing a bar.

    Args:
        write: Function that writes a line.
        settings: Settings of tqdm.
    """

    monitor_interval = 0  # no thread: `miniters` is 1

    def __init__(self, write: Callable[[str], object], **settings: Any) -> None:
        """Begin to count."""
        self._write = write
        super().__init__(
            file=io.StringIO(),
            disable=False,
            leave=False,
            mininterval=LINE_SECONDS,
            miniters=1,
            bar_format="{desc}: {n_fmt} of {total_fmt} {unit}, {elapsed} so far, {remaining} left",
            **settings,
        )

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write a line about the progress; write nothing when tqdm clears the bar."""
        if msg is None:
            self._write(str(self))


def show_progress(total: int, unit: str, label: str) -> "tqdm[Any]":
    """Return a counter whose progress the job's log shows at the start and once a minute; callers
    call `update(n)`.

    Args:
        total: Number of units; 0 if it is unknown.
        unit: Name of one unit in the singular.
        label: Text in front of the numbers.
    """
    return ProgressLines(
        logging.getLogger(__name__).info,
        total=total or None,
        unit=f"{unit}s",
        desc=label,
    )


MODEL_PACKAGES = ("torch", "transformers", "tokenizers", "shap")
"""Packages whose versions decide what a model computes."""
PACKAGES = (*MODEL_PACKAGES, "numpy", "pandas", "pyarrow", "snakemake")
"""Packages whose versions a run record contains."""


def write_record(
    path: str | Path, *, rows_in: int, rows_out: int, seconds: float, **facts: Any
) -> None:
    """Write one run record to a path of the form `<output>.run.json`; arguments as of
    `build_run_record`.
    """
    record = build_run_record(
        rows_in=rows_in, rows_out=rows_out, seconds=seconds, **facts
    )
    write_text(path, json.dumps(record, indent=1, sort_keys=True) + "\n")


def build_run_record(
    *, rows_in: int, rows_out: int, seconds: float, **facts: Any
) -> Facts:
    """Return one run record: rows read and written, wall time, facts of the stage, and the
    environment.

    Args:
        rows_in: Number of rows that the job read.
        rows_out: Number of rows that the job wrote.
        seconds: Wall time.
        facts: Further entries by name.
    """
    return {
        **facts,
        "rows_in": rows_in,
        "rows_out": rows_out,
        "wall_seconds": seconds,
        "peak_memory_mb": measure_peak_memory_mb(),
        "packages": read_versions(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "commit": read_commit(),
    }


def measure_peak_memory_mb() -> int:
    """Return the highest resident memory of this process so far, in MB."""
    # Linux counts in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 1_000_000


def read_versions() -> dict[str, str]:
    """Return the versions of waltz and of the packages that influence numbers."""
    versions = {"waltz": waltz.__version__}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def describe_model_packages(versions: Mapping[str, str]) -> str:
    """Return one text with the versions of the packages that decide what a model computes, without
    build labels.
    """
    return ", ".join(
        f"{name} {versions[name].partition('+')[0]}"
        for name in MODEL_PACKAGES
        if name in versions
    )


def read_commit() -> str:
    """Return the commit of the checkout that runs, with `+changes` if files differ; `unknown`
    outside a checkout.
    """
    # Untracked files do not count: results lie in the checkout as well.
    try:
        head = _run_git("rev-parse", "HEAD")
        changes = _run_git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+changes" if changes else head


def _run_git(*arguments: str) -> str:
    """Return what a git command prints in the folder of waltz."""
    folder = Path(waltz.__file__).parent
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()
