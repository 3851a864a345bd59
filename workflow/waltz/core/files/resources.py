"""Paths of data files in the package or the checkout: prompts, words of WordNet, paper values,
small models.
"""

from pathlib import Path

import waltz

PACKAGE = Path(waltz.__file__).parent
"""Folder of the package waltz."""
RESOURCES = PACKAGE / "resources"
"""Folder of the package's data files."""


def locate_in_package(path: str) -> str:
    """Return the path of a package file for rules: relative if the file is inside the working
    directory.
    """
    return str(shorten_path(PACKAGE / path, Path.cwd()))


def shorten_path(path: Path, folder: Path) -> Path:
    """Return a path relative to a folder if it lies in that folder; else the path as it is."""
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def find_in_checkout(path: str) -> str:
    """Return a path unchanged if it exists, else the same path in the checkout if that exists, else
    it unchanged.
    """
    if not path or Path(path).exists():
        return path
    file = PACKAGE.parents[1] / path
    return str(file) if file.exists() else path


def find_resource(folder: str, name: str | Path) -> Path:
    """Return the path of a data file, which a user names either by a packaged file's name or by a
    path.

    Args:
        folder: Folder of the package's files of its kind, such as `prompts`.
        name: Name of a file in that folder, or the path of any other file.
    """
    packaged = RESOURCES / folder / name
    return packaged if packaged.is_file() else Path(name)
