"""Files of data that are part of the package or the checkout: prompts, WordNet's words, paper values, small models."""

from pathlib import Path

import waltz

PACKAGE = Path(waltz.__file__).parent
RESOURCES = PACKAGE / "resources"


def locate_in_package(path: str) -> str:
    """Return the path of a file of the package as rules name it: relative where it lies below the working directory."""
    file, here = PACKAGE / path, Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


def find_in_checkout(path: str) -> str:
    """Return a study's path, or that of the same file of the checkout where the working directory lacks it."""
    file = PACKAGE.parents[1] / path
    return str(file) if path and not Path(path).exists() and file.exists() else path


def find_resource(folder: str, name: str | Path) -> Path:
    """Return the path of a file that is named as a user names it.

    Args:
        folder: Folder of the package's files of its kind, such as `prompts`.
        name: Name of a file in that folder, or the path of any other file.
    """
    own = RESOURCES / folder / name
    return own if own.is_file() else Path(name)
