"""Raw files from a local copy or the network, checked against the study or the download lock file.

The download lock file of a study holds checksums and commits recorded at first downloads, which later ones must
match. Jobs that fetch read and write it. It is no input of any rule, so that a new entry reruns nothing.
"""

import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urlsplit

import yaml
from filelock import FileLock

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.atomic import replace_file, write_text

log = logging.getLogger(__name__)

ATTEMPTS = 4
WAIT_SECONDS = 1.0
TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 16
"""Most bytes that are lost if the connection breaks."""
LARGEST_BYTES = 50_000_000_000
"""Bytes at which the download of a file stops if its size is not known, unless the study says otherwise."""
PERMANENT_STATUSES = {400, 401, 403, 404, 410, 451}
"""HTTP statuses that do not change on a retry."""


def provide_raw_file(
    file: Mapping[str, Any], target: Path, lock_file: Path, cache: Path, largest: int = LARGEST_BYTES
) -> None:
    """Copy or fetch a raw file: from the user's own path, a local copy below `$WALTZ_DATA`, or the network.

    Args:
        file: The study's entry of the file.
        target: Path of the file.
        lock_file: The download lock file.
        cache: Folder of all that was fetched, by checksum.
        largest: Bytes at which the download of a file whose size is not known stops.
    Raises:
        UserError: The file is absent, differs from its checksum or from the lock file, or cannot be fetched.
    """
    expected = file.get("sha256")
    source = Path(file["path"]) if "path" in file else find_local_copy(file)
    if source is None:
        name = file.get("local", target.name)
        advice = (
            f"put a copy into a folder as {name} and set WALTZ_DATA to the folder, or name it as `path` in the study"
        )
        fetch(file["url"], target, file["sha256"], lock_file, cache, advice, file.get("size"), largest)
    elif expected == LOCK_ON_DOWNLOAD:
        record_file(lock_file, file["url"].partition("#")[0], source)
        copy_checked(source, target, None)
    else:
        copy_checked(source, target, expected)


def find_local_copy(file: Mapping[str, Any]) -> Path | None:
    """Return the copy of a raw file below `$WALTZ_DATA`, None where there is none.

    Args:
        file: Entry of the file in the study, with the path of its copy as `local`.
    """
    folder = os.environ.get("WALTZ_DATA")
    if not folder or "local" not in file:
        return None
    path = Path(folder) / str(file["local"])
    return path if path.is_file() else None


def copy_checked(source: Path, target: Path, expected: str | None) -> None:
    """Copy a local file after checking it.

    Raises:
        UserError: The file is absent or has another checksum.
    """
    if not source.is_file():
        raise UserError(
            f"{source}: no such file; correct the study's `path`, which is relative to where snakemake runs"
        )
    checksum = compute_sha256(source)
    if expected and checksum != expected:
        raise UserError(
            f"{source}: sha256 is {checksum}, the study says {expected}; get the file again or correct the study"
        )
    with replace_file(target) as temporary:
        shutil.copyfile(source, temporary)


def fetch(
    url: str,
    target: Path,
    checksum: str,
    lock_file: Path,
    cache: Path,
    advice: str,
    size: int | None = None,
    largest: int = LARGEST_BYTES,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch a file once, and check it against its checksum, or the one recorded at the first download.

    The file is stored in the cache under its checksum and linked to its target. What the cache holds is never fetched
    again, even if the target was deleted.

    Args:
        url: Address; a part after `#` is ignored.
        target: Path of the file.
        checksum: SHA-256 of the file, or `lock`.
        lock_file: The download lock file.
        cache: Folder of all that was fetched, by checksum.
        advice: Instruction to provide the file by hand, for the error.
        size: Bytes of the file, if known.
        largest: Bytes at which a download stops if the size is not known.
        wait: Called with the seconds between two attempts.
    Raises:
        UserError: As `download`, or the file differs from the lock file, or cannot be what its name says.
    """
    origin = url.partition("#")[0]
    cache.mkdir(parents=True, exist_ok=True)
    # Runs of several studies share the cache; the second one waits, and finds the file.
    with FileLock(cache / f".{hashlib.sha256(origin.encode()).hexdigest()[:16]}.lock"):
        known: str | None = checksum
        if checksum == LOCK_ON_DOWNLOAD:
            known = read_recorded(lock_file, origin, "sha256")
            if known:
                advice = f"{lock_file} records the checksum of the first download; {advice}"
        if known and _link_cached(cache / known, known, target):
            return
        received = cache / f"{(known or hashlib.sha256(url.encode()).hexdigest())[:16]}-{target.name}"
        download(url, received, known, advice, size, largest, wait)
        if known is None:
            from waltz.core.files.content_checks import find_content_fault  # its readers, which plans do not need

            if fault := find_content_fault(received, get_file_name(origin)):
                received.unlink()
                raise UserError(f"{target.name}: {origin} did not give the file ({fault}); {advice}")
            known = compute_sha256(received)
            record_download(lock_file, origin, {"sha256": known, "size": received.stat().st_size})
        received.replace(cache / known)
        _link(cache / known, target)


def _link_cached(cached: Path, checksum: str, target: Path) -> bool:
    """Link a file of the cache to a target, and return whether the cache holds it undamaged."""
    if not cached.is_file():
        return False
    if compute_sha256(cached) != checksum:
        log.warning("%s is damaged and is fetched again", cached)
        cached.unlink()
        return False
    _link(cached, target)
    return True


def _link(source: Path, target: Path) -> None:
    """Create a hard link, or a copy where the file system has no links."""
    with replace_file(target) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)


def download(
    url: str,
    target: Path,
    expected: str | None,
    advice: str,
    size: int | None = None,
    largest: int = LARGEST_BYTES,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch a file with retries that continue an interrupted download.

    The received part stays next to the target under a name with the checksum of the file (of the url, if that of the
    file is not known), so that a later run continues it too. A part is continued only if the checksum will tell
    whether it fits, or if the server confirms that the file has not changed since (`If-Range`).

    Args:
        url: Address, which is requested from `$WALTZ_MIRROR` if that is set.
        target: Path of the file.
        expected: SHA-256 of the file; None if it is not known.
        advice: Instruction to provide the file by hand, for the error.
        size: Bytes of the file; None if they are not known.
        largest: Bytes at which the download stops if the size is not known.
        wait: Called with the seconds between two attempts.
    Raises:
        UserError: No matching file was received; the message names file, url and what to do.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    suffix = (expected or hashlib.sha256(url.encode()).hexdigest())[:16]
    part = target.with_name(f".{target.name}.{suffix}.part")
    fault = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            wait(WAIT_SECONDS * 2 ** (attempt - 1))
        try:
            _continue_download(apply_mirror(url), part, expected is not None, size, largest)
        except _RefusedError as refusal:
            fault = str(refusal)
            if part.exists() and not part.stat().st_size:
                _delete_part(part)
            break
        except OSError as error:
            fault = str(error)
        else:
            checksum = compute_sha256(part) if expected else None
            received = part.stat().st_size
            if checksum == expected and size in (None, received):
                part.replace(target)
                _delete_part(part)
                return
            _delete_part(part)
            fault = (
                f"the received file has sha256 {checksum}, not {expected}"
                if checksum != expected
                else f"the server gave {received} bytes, the study says {size}"
            )
        log.warning("%s, attempt %d of %d: %s", url, attempt + 1, ATTEMPTS, fault)
    source = apply_mirror(url)
    named = url if source == url.partition("#")[0] else f"{source}, the mirror that {MIRROR_VARIABLE} names for {url}"
    raise UserError(f"{target.name}: cannot be fetched from {named} ({fault}); {advice}")


class _RefusedError(Exception):
    """Answer of a server that a retry does not change."""


def _get_version_file(part: Path) -> Path:
    """Return the path of the file with the entity tag, or date of change, of a partly received file."""
    return part.with_name(f"{part.name}.version")


def _delete_part(part: Path) -> None:
    part.unlink(missing_ok=True)
    _get_version_file(part).unlink(missing_ok=True)


def _continue_download(url: str, part: Path, has_checksum: bool, size: int | None, largest: int) -> None:
    """Append what is missing of a file, or write the whole file if the server sends no ranges or has another version.

    Raises:
        _RefusedError: The server has no such file.
        OSError: The file is not complete; a further attempt may continue it.
    """
    import requests  # takes 0.15 s, which processes that download nothing save

    version_file = _get_version_file(part)
    version = version_file.read_text(encoding="utf-8") if version_file.exists() else ""
    if part.exists() and not has_checksum and not version:
        part.unlink()
    received = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"}
    if received:
        headers |= {"Range": f"bytes={received}-"} | ({"If-Range": version} if version else {})
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as response:
            status = response.status_code
            if status in PERMANENT_STATUSES:
                raise _RefusedError(f"HTTP {status} {response.reason}")
            if received and status == requests.codes.range_not_satisfiable:
                if response.headers.get("Content-Range", "") == f"bytes */{received}":
                    return
                part.unlink()
                raise OSError("the server has a file of another length than the received part")
            response.raise_for_status()
            resumed = received > 0 and status == requests.codes.partial_content
            if status != requests.codes.ok and not resumed:
                raise _RefusedError(f"HTTP {status} {response.reason}, without the file")
            if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {received}-"):
                part.unlink()
                raise OSError("the server sent another range than was requested")
            is_page = response.headers.get("Content-Type", "").lower().startswith("text/html")
            if is_page and not url.endswith((".html", ".htm")):
                raise _RefusedError("the server sent a web page instead of the file")
            new_version = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
            version_file.write_text("" if new_version.startswith("W/") else new_version, encoding="utf-8")
            limit = largest if size is None else size
            with part.open("ab" if resumed else "wb") as file:
                for chunk in response.iter_content(CHUNK_BYTES):
                    if file.tell() + len(chunk) > limit:
                        file.truncate(0)
                        raise _RefusedError(f"the server sent more than {limit} bytes")
                    file.write(chunk)
            length, arrived = response.headers.get("Content-Length", ""), response.raw.tell()
            if length.isdecimal() and arrived < int(length):
                raise OSError(f"the connection ended after {arrived} of {length} bytes")
    except requests.ConnectionError as error:
        log.warning("%s", error)
        raise OSError(f"no connection to {urlsplit(url).netloc}") from error
    except requests.exceptions.ChunkedEncodingError as error:
        arrived = part.stat().st_size if part.exists() else 0
        raise OSError(f"the connection ended after {arrived} bytes") from error


LOCK_ON_DOWNLOAD = "lock"
"""Stands for a checksum or commit that is not known: it is recorded at the first download."""
LOCK_FILE_HEADER = "# What was first fetched where no checksum is documented; later downloads must give the same.\n"


def compute_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_recorded(file: Path, origin: str, key: str) -> str | None:
    """Return what the lock file records about an origin, or None if it records nothing.

    Args:
        file: The lock file, which need not exist.
        origin: A url, or an id on the hub.
        key: `sha256` or `commit`.
    Raises:
        UserError: The file is not a lock file.
    """
    value = _read_lock_file(file).get(origin, {}).get(key)
    return None if value is None else str(value)


def record_download(file: Path, origin: str, facts: Mapping[str, str | int]) -> None:
    """Record what an origin gave, with today's date, or check it against the existing entry.

    Several processes may call this at the same time.

    Args:
        file: The lock file.
        origin: A url, or an id on the hub.
        facts: `sha256` and `size` (bytes) of a file, or the `commit` of a repository.
    Raises:
        UserError: The entry of the origin differs.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_name(f".{file.name}.lock")):
        entries = _read_lock_file(file)
        entry = entries.get(origin)
        if entry is None:
            entries[origin] = {**facts, "date": datetime.now(UTC).date().isoformat()}
            write_text(file, LOCK_FILE_HEADER + yaml.safe_dump(entries, sort_keys=True, allow_unicode=True, width=1000))
            return
    for key, value in facts.items():
        if entry.get(key) != value:
            raise UserError(
                f"{origin}: {key} is {value}, {file} says {entry.get(key)} (recorded {entry.get('date')}); get the same"
                " file again, or delete the entry of the lock file if the origin has changed for good"
            )


def record_file(lock_file: Path, origin: str, path: Path) -> None:
    """Record checksum and size of a file that an origin gave; see `record_download`."""
    record_download(lock_file, origin, {"sha256": compute_sha256(path), "size": path.stat().st_size})


def _read_lock_file(file: Path) -> dict[str, dict[str, str | int]]:
    if not file.is_file():
        return {}
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{file}: not a lock file: {get_first_line(error)}; correct or delete it") from None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise UserError(f"{file}: not a lock file: expected a mapping of origins to facts; correct or delete it")
    return entries


MIRROR_VARIABLE = "WALTZ_MIRROR"
"""Environment variable with the address of a mirror, which replaces the scheme of every url."""


def is_url(text: str) -> bool:
    """Return True if a text is the address of a file on the web."""
    return text.startswith(("http://", "https://"))


def may_hold_secret(url: str) -> bool:
    """Return True if the address of a server has a user, password or query, which may be a key."""
    return "@" in url or "?" in url


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
