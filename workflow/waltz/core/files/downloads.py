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
PERMANENT_STATUSES = {400, 401, 403, 404, 410, 451}
"""HTTP statuses that do not change on a retry."""


def provide_raw_file(file: Mapping[str, Any], target: Path, lock_file: Path) -> None:
    """Copy or fetch a raw file: from the user's own path, a local copy below `$WALTZ_DATA`, or the network.

    Args:
        file: The study's entry of the file.
        target: Path of the file.
        lock_file: The download lock file.
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
        fetch(file["url"], target, file["sha256"], lock_file, advice, file.get("size"))
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
    advice: str,
    size: int | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch a file and check it against its checksum, or the one recorded at the first download.

    Args:
        url: Address; a part after `#` is ignored.
        target: Path of the file.
        checksum: SHA-256 of the file, or `lock`.
        lock_file: The download lock file.
        advice: Instruction to provide the file by hand, for the error.
        size: Bytes of the file, if known.
        wait: Called with the seconds between two attempts.
    Raises:
        UserError: As `download`, or the file differs from the lock file.
    """
    origin = url.partition("#")[0]
    if checksum != LOCK_ON_DOWNLOAD:
        download(url, target, checksum, advice, wait)
        return

    def check_and_record(part: Path) -> None:
        received = part.stat().st_size
        if size is not None and received != size:
            part.unlink()
            raise UserError(f"{target.name}: {origin} gave {received} bytes, the study says {size}; {advice}")
        record_file(lock_file, origin, part)

    recorded = read_recorded(lock_file, origin, "sha256")
    if recorded:
        advice = f"{lock_file} records the checksum of the first download; {advice}"
    download(url, target, recorded, advice, wait, check_and_record)


def download(
    url: str,
    target: Path,
    expected: str | None,
    advice: str,
    wait: Callable[[float], None] = time.sleep,
    check: Callable[[Path], None] = lambda part: None,
) -> None:
    """Fetch a file with retries that continue an interrupted download.

    The received part stays next to the target under a name with the checksum of the file (of the url, if that of the
    file is not known), so that a later run continues it too.

    Args:
        url: Address, which is requested from `$WALTZ_MIRROR` if that is set.
        target: Path of the file.
        expected: SHA-256 of the file; None if it is not known.
        advice: Instruction to provide the file by hand, for the error.
        wait: Called with the seconds between two attempts.
        check: Called with the complete file before it is renamed; may raise an error.
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
            _continue_download(apply_mirror(url), part)
        except _RefusedError as refusal:
            fault = str(refusal)
            break
        except OSError as error:
            fault = str(error)
        else:
            checksum = compute_sha256(part) if expected else None
            if checksum == expected:
                check(part)
                part.replace(target)
                return
            part.unlink()
            fault = f"the received file has sha256 {checksum}, not {expected}"
        log.warning("%s, attempt %d of %d: %s", url, attempt + 1, ATTEMPTS, fault)
    raise UserError(f"{target.name}: cannot be fetched from {url} ({fault}); {advice}")


class _RefusedError(Exception):
    """Answer of a server that a retry does not change."""


def _continue_download(url: str, part: Path) -> None:
    """Append what is missing of a file, or write the whole file if the server sends no ranges."""
    import requests  # takes 0.15 s, which processes that download nothing save

    received = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={received}-"} if received else {}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as response:
            if response.status_code in PERMANENT_STATUSES:
                raise _RefusedError(f"HTTP {response.status_code} {response.reason}")
            if received and response.status_code == requests.codes.range_not_satisfiable:
                return
            response.raise_for_status()
            is_page = response.headers.get("Content-Type", "").startswith("text/html")
            if is_page and not url.endswith((".html", ".htm")):
                raise _RefusedError("the server sent a web page instead of the file")
            resumed = received > 0 and response.status_code == requests.codes.partial_content
            with part.open("ab" if resumed else "wb") as file:
                for chunk in response.iter_content(CHUNK_BYTES):
                    file.write(chunk)
            length = response.headers.get("Content-Length")
            arrived = part.stat().st_size - (received if resumed else 0)
            if length and "Content-Encoding" not in response.headers and arrived < int(length):
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
    except yaml.YAMLError as error:
        raise UserError(f"{file}: not a lock file: {get_first_line(error)}; correct or delete it") from None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise UserError(f"{file}: not a lock file: expected a mapping of origins to facts; correct or delete it")
    return entries


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
