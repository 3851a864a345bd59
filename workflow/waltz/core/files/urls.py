"""Urls of files: what of an archive is meant, where a copy is kept, where it is asked for."""

import os
import re
from urllib.parse import urldefrag, urlsplit

MIRROR_VARIABLE = "WALTZ_MIRROR"
"""Environment variable with what stands before host and path of every url in the place of its scheme."""


def is_url(text: str) -> bool:
    """Whether a text is the address of a file on the web."""
    return text.startswith(("http://", "https://"))


def get_archive_member(url: str) -> str:
    """The path inside an archive that stands behind the `#` of a url; empty where the whole file is meant."""
    return urldefrag(url).fragment if is_url(url) else ""


def get_file_name(url: str) -> str:
    """Name of the file that a url gives, its query left out; of the archive where a file inside one is meant."""
    return urlsplit(url).path.rstrip("/").rsplit("/", 1)[-1]


def get_copy_path(url: str) -> str:
    """A path below which a copy of what a url gives is kept: host and path, with the query where it says which file."""
    parts = urlsplit(url)
    asked = f"_{parts.query}" if parts.query else ""
    return re.sub(r"[^\w./-]|\.\.", "_", f"{parts.netloc}{parts.path}{asked}")


def apply_mirror(url: str) -> str:
    """Where a url is asked for: itself without the part behind `#`, or the same below the mirror of `$WALTZ_MIRROR`."""
    whole = urldefrag(url).url
    mirror = os.environ.get(MIRROR_VARIABLE)
    return f"{mirror.rstrip('/')}/{whole.partition('://')[2]}" if mirror else whole
