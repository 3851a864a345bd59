"""Parts of urls: the file in an archive, the path of a copy, the address at a mirror."""

import os
import re
from urllib.parse import urldefrag, urlsplit

MIRROR_VARIABLE = "WALTZ_MIRROR"
"""Environment variable with the address of a mirror, which replaces the scheme of every url."""


def is_url(text: str) -> bool:
    """Return True if a text is the address of a file on the web."""
    return text.startswith(("http://", "https://"))


def get_archive_member(url: str) -> str:
    """Return the path inside an archive, which a url gives after `#`; empty if the url denotes the whole file."""
    return urldefrag(url).fragment if is_url(url) else ""


def get_file_name(url: str) -> str:
    """Return the name of the file at a url without its query: the archive's name for a file inside one."""
    return urlsplit(url).path.rstrip("/").rsplit("/", 1)[-1]


def get_copy_path(url: str) -> str:
    """Return the relative path at which a copy of a url's file is stored: host, path and query."""
    parts = urlsplit(url)
    query = f"_{parts.query}" if parts.query else ""
    return re.sub(r"[^\w./-]|\.\.", "_", f"{parts.netloc}{parts.path}{query}")


def apply_mirror(url: str) -> str:
    """Return the url without the part after `#`, below the mirror of `$WALTZ_MIRROR` if that is set."""
    file_url = urldefrag(url).url
    mirror = os.environ.get(MIRROR_VARIABLE)
    return f"{mirror.rstrip('/')}/{file_url.partition('://')[2]}" if mirror else file_url
