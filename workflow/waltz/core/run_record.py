"""Run records: JSON files that say how an output was computed."""

import importlib.metadata
import json
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import waltz
from waltz.core.files.atomic import write_text

PACKAGES = ("torch", "transformers", "numpy", "pandas", "pyarrow", "snakemake", "shap")


def write_record(path: str | Path, *, rows_in: int, rows_out: int, seconds: float, **facts: Any) -> None:
    """Write one run record to a path of the form `<output>.run.json`; arguments as of `build_record`."""
    record = build_record(rows_in=rows_in, rows_out=rows_out, seconds=seconds, **facts)
    write_text(path, json.dumps(record, indent=1, sort_keys=True) + "\n")


def build_record(*, rows_in: int, rows_out: int, seconds: float, **facts: Any) -> dict[str, Any]:
    """Return one run record.

    Args:
        rows_in: Number of rows read.
        rows_out: Number of rows written.
        seconds: Wall time of the work.
        facts: Entries of the stage: model, revision, dtype, device, seed, settings.
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


def read_commit() -> str:
    """Return the commit of the checkout that runs, with `+changes` if files differ; `unknown` outside a checkout."""
    folder = Path(waltz.__file__).parent
    try:
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+changes" if changed else head
