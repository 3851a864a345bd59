"""Check of names from downloaded or foreign files before they are used as paths."""

from pathlib import PurePosixPath

COMPANIONS = {
    "__macosx",
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
    "@eadir",
    "#recycle",
    "$recycle.bin",
    "system volume information",
    "lost+found",
}
"""Files and folders, in small letters, that systems put next to a user's files."""
LONGEST_PART = 255
"""Largest number of bytes in one part of a path."""
LONGEST_NAME = 1000
"""Largest number of bytes in a path below a folder."""


def is_safe_name(name: str) -> bool:
    """Return whether a name is usable for a file and, joined to a folder, stays below that folder
    on every system.

    A safe name is neither absolute nor empty, and has no `..`, backslash or NUL, no half of a
    surrogate pair and no part that is too long. Links in the folder are not checked: the owner of
    the folder has created them.
    """
    try:
        content = name.encode()
    except UnicodeEncodeError:
        return False
    path = PurePosixPath(name)
    if not path.parts:
        return False
    # `is_absolute` also knows `//a`, whose first part is `//`.
    leaves_folder = path.is_absolute() or ".." in path.parts
    has_odd_character = "\\" in name or "\0" in name
    if leaves_folder or has_odd_character:
        return False
    # Systems limit bytes, not characters.
    longest_part = max(len(part.encode()) for part in path.parts)
    return len(content) <= LONGEST_NAME and longest_part <= LONGEST_PART


def is_companion(name: str) -> bool:
    """Return whether a path, relative to a user's folder or archive, is of a file that a system put
    there: hidden, or next to the user's own.
    """
    parts = PurePosixPath(name).parts
    return any(part.startswith(".") or part.lower() in COMPANIONS for part in parts)
