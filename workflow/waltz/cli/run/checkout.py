"""The checkout in which commands run Snakemake."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import waltz
from waltz.core.errors import UserError


def find_checkout() -> Path:
    """Return the checkout around the current folder, or the one that waltz is installed from in editable mode.

    Raises:
        UserError: There is none.
    """
    here = Path.cwd()
    for folder in (here, *here.parents, Path(waltz.__file__).resolve().parents[2]):
        if (folder / "Snakefile").is_file() and (folder / "workflow" / "waltz").is_dir():
            return folder
    raise UserError(
        f"no checkout of waltz: {here} is in none, and waltz is not installed from one; run this in a clone of its"
        " repository"
    )


def start_snakemake(
    arguments: Sequence[str], checkout: Path, environment: Mapping[str, str] | None = None, quiet: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a checkout to its end.

    Args:
        environment: Variables that are set besides those of this process.
        quiet: Whether its output is returned and not shown.
    """
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments],
        cwd=checkout,
        env={**os.environ, **(environment or {})},
        capture_output=quiet,
        text=True,
        check=False,
    )
