"""Log file and run record of a job: how it went, and how its output was computed."""

import importlib.metadata
import json
import logging
import platform
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

import waltz
from waltz.core.errors import convert_to_user_error
from waltz.core.files.atomic import write_text


@contextmanager
def log_job(log: str | Path) -> Iterator[None]:
    """Send log records and tracebacks to the rule's log file, and show one line on stderr if the block fails.

    A `UserError`, and an error of the operating system about space or permissions, is shown without a traceback. Any
    other exception is a fault of the program: its traceback goes to the log file, whose path is in the line.

    Raises:
        SystemExit: The block raised an exception; the status is 1.
    """
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    try:
        yield
    except Exception as error:
        user_error = convert_to_user_error(error)
        if user_error is not None:
            logging.getLogger("waltz").error("%s", user_error)
            print(f"waltz: {user_error}", file=sys.stderr)
        else:
            logging.getLogger("waltz").exception("the job failed")
            print(f"waltz: {type(error).__name__}: {error} (traceback in {path})", file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        root.removeHandler(handler)
        handler.close()


def show_progress(total: int, unit: str, label: str) -> "tqdm[Any]":
    """Return a progress bar with items per second, shown on terminals only; the caller calls `update(n)`."""
    return tqdm(total=total, unit=unit, desc=label, disable=None, leave=False)


MODEL_PACKAGES = ("torch", "transformers", "tokenizers", "shap")
"""Packages whose versions decide what a model computes."""
PACKAGES = (*MODEL_PACKAGES, "numpy", "pandas", "pyarrow", "snakemake")


def write_record(path: str | Path, *, rows_in: int, rows_out: int, seconds: float, **facts: Any) -> None:
    """Write one run record to a path of the form `<output>.run.json`; arguments as of `build_record`."""
    record = build_record(rows_in=rows_in, rows_out=rows_out, seconds=seconds, **facts)
    write_text(path, json.dumps(record, indent=1, sort_keys=True) + "\n")


def build_record(*, rows_in: int, rows_out: int, seconds: float, **facts: Any) -> dict[str, Any]:
    """Return one run record: rows read and written, wall time, the stage's own facts, and the environment."""
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
    """Return the versions of the packages that decide what a model computes, without their builds, as one text."""
    return ", ".join(f"{name} {versions[name].partition('+')[0]}" for name in MODEL_PACKAGES if name in versions)


def read_commit() -> str:
    """Return the commit of the checkout that runs, with `+changes` if files differ; `unknown` outside a checkout."""
    try:
        head, changes = _run_git("rev-parse", "HEAD"), _run_git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+changes" if changes else head


def _run_git(*arguments: str) -> str:
    folder = Path(waltz.__file__).parent
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
