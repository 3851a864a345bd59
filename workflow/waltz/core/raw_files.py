"""The raw files that a study names: their entries, names under which they are kept, and who fetches a shared one."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.core.files.urls import get_archive_member, get_file_name

IMAGES = "images"
"""Name of a source's images among its files."""


def files(config: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The entry of every file of every source by source and name.

    A source's images are called `images`; where they lie in several places, `images-1` and so on, and there is then
    no `images`.
    """
    found = {}
    for source, entry in config["sources"].items():
        for name, file in entry["files"].items():
            found[source, name] = file
        if isinstance(entry.get(IMAGES), list):
            for number, file in enumerate(entry[IMAGES], 1):
                found[source, f"{IMAGES}-{number}"] = file
        elif IMAGES in entry:
            found[source, IMAGES] = entry[IMAGES]
    return found


def image_parts(config: Mapping[str, Any], source: str) -> list[str]:
    """Names among `files` of the places where a source's images lie; none where it has no images."""
    return [name for (of, name) in files(config) if of == source and name.partition("-")[0] == IMAGES]


def owners(config: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, str]]:
    """Source and name of the first file of each url, which fetches it for the others.

    Returns:
        By url without the part behind #, and `file`, or `archive` where files of it are meant.
    Raises:
        UserError: Two files give the same url different checksums.
    """
    found: dict[tuple[str, str], tuple[str, str]] = {}
    entries = files(config)
    for key, file in entries.items():
        if "url" not in file:
            continue
        url = str(file["url"]).partition("#")[0]
        first = found.setdefault((url, "archive" if get_archive_member(str(file["url"])) else "file"), key)
        if entries[first]["sha256"] != file["sha256"]:
            raise UserError(
                f"study file: sources.{'.'.join(key)}.sha256: sources.{'.'.join(first)} gives the same url another"
            )
    return found


def file_name(file: Mapping[str, Any]) -> str:
    """Name under which a raw file is kept: that of its path, url, or place in the archive that the url gives."""
    if "path" in file:
        return str(file["path"]).rstrip("/").rsplit("/", 1)[-1]
    url = str(file["url"])
    return Path(get_archive_member(url)).name or get_file_name(url)


def local_copy(file: Mapping[str, Any]) -> Path | None:
    """The copy of a raw file below `$WALTZ_DATA`, where there is one."""
    folder = os.environ.get("WALTZ_DATA")
    if not folder or "local" not in file:
        return None
    path = Path(folder) / str(file["local"])
    return path if path.is_file() else None
