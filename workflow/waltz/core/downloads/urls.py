"""Addresses of files and servers: their parts, their names, and their mirror."""

import os
import re
from urllib.parse import urldefrag, urlsplit

from waltz.core.files.safe_names import is_safe_name
from waltz.core.redaction import has_user, name_url, redact_url

URL_PATTERN = "^https?://[^\\s/]\\S*$"
"""Pattern of the urls that a study may contain."""
MIRROR_VARIABLE = "WALTZ_MIRROR"
"""Environment variable with the address of a mirror; it replaces the scheme (`https://`) of every
url.
"""


def is_url(text: str) -> bool:
    """Return whether a text is the address of a file on the web."""
    return text.startswith(("http://", "https://"))


def check_user(url: str) -> str:
    """Return a url unchanged if it contains neither user nor password.

    Raises:
        ValueError: The url contains a user or password.
    """
    if not has_user(url):
        return url
    host = urlsplit(redact_url(url)).hostname or "HOST"
    raise ValueError(
        "the url holds a user or password, which files would show; remove them and write this line into ~/.netrc:"
        f" machine {host} login USER password PASSWORD"
    )


def name_origin(origin: str) -> str:
    """Return the name (`name_url`) of a url without the part after `#`; return an id on the hub
    unchanged.
    """
    return name_url(urldefrag(origin).url) if is_url(origin) else origin


def get_archive_member(url: str) -> str:
    """Return the path inside an archive, the part of a url after `#`; empty if the url has no such
    part.
    """
    return urldefrag(url).fragment if is_url(url) else ""


def get_url_file_name(url: str) -> str:
    """Return the name of the file that a url denotes; for a file in an archive, the name of the
    archive.
    """
    return urlsplit(url).path.rstrip("/").rsplit("/", 1)[-1]


def find_name_fault(url: str) -> str:
    """Return the reason why a url's file, or its member of an archive, has no usable name; empty if
    it has one.
    """
    name = get_url_file_name(url)
    if not is_safe_name(name):
        return f"no file can have the name that the url gives it (got {name[:80]!r}); name the url of a file"
    member = get_archive_member(url)
    if member and not is_safe_name(member):
        return "no file can have the name that the url gives it behind #; name a file of the archive"
    return ""


def get_copy_path(url: str) -> str:
    """Return the relative path under which a copy of a url's file is stored: host, path and a
    digest of the query.
    """
    return re.sub(r"[^\w./-]|\.\.", "_", name_origin(url).partition("://")[2])


def apply_mirror(url: str) -> str:
    """Return the address from which a url's file is fetched: on the mirror `$WALTZ_MIRROR` if set,
    and without `#`.
    """
    file_url = urldefrag(url).url
    mirror = os.environ.get(MIRROR_VARIABLE)
    if not mirror:
        return file_url
    _, _, path = file_url.partition("://")
    return f"{mirror.rstrip('/')}/{path}"
