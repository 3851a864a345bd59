"""Files of data that are part of the package: prompts, chat templates, WordNet's words, paper values, the schema."""

from pathlib import Path

import waltz

RESOURCES = Path(waltz.__file__).parent / "resources"


def find_resource(folder: str, name: str | Path) -> Path:
    """Return the path of a file that is named as a user names it.

    Args:
        folder: Folder of the package's files of its kind, such as `prompts`.
        name: Name of a file in that folder, or the path of any other file.
    """
    own = RESOURCES / folder / name
    return own if own.is_file() else Path(name)
