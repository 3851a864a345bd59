"""Paths as people write them into studies: with `~` and environment variables."""

import os
import re
from pathlib import Path

VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")


def expand_path(path: str) -> str:
    """Return a path with `~`, `$NAME` and `${NAME}` replaced.

    A path that exists as it is written, and a url, stay unchanged.

    Raises:
        ValueError: A variable is not set, or the path contains braces, or a space at its start or end.
    """
    if "://" in path:
        return path
    expanded = path
    if not Path(path).exists():
        expanded = os.path.expanduser(os.path.expandvars(path))  # noqa: PTH111, keeps a final /
        unset = VARIABLE.search(expanded)
        if unset:
            raise ValueError(
                f"the environment variable {unset[1]} is not set (got {path!r}); set it, or write the"
                " whole path"
            )
    # Such a file may exist, and Snakemake only warns of its name and then does not find it.
    if expanded != expanded.strip():
        raise ValueError(
            f"a path with a space at its start or end (got {expanded!r}), which Snakemake does not take; remove it, or"
            " rename the file or folder"
        )
    # Snakemake takes braces in the names of files as wildcards.
    if "{" in expanded or "}" in expanded:
        raise ValueError(
            f"a path with braces (got {expanded!r}), which Snakemake takes as wildcards; rename the"
            " file or folder"
        )
    return expanded
