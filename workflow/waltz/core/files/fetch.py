"""Raw files: from a local copy or the network, checked before they are taken."""

import hashlib
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import requests

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file
from waltz.core.files.download_lock import LOCK_ON_DOWNLOAD, read_recorded, record_download
from waltz.core.files.urls import apply_mirror

log = logging.getLogger(__name__)

ATTEMPTS = 4
WAIT_SECONDS = 1.0
TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 16
"""What a cut connection loses at most."""
PERMANENT_STATUSES = {400, 401, 403, 404, 410, 451}
"""HTTP statuses that a retry does not mend."""


def compute_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy_checked(source: Path, target: Path, expected: str | None) -> None:
    """Copy a local file to its place, after checking it.

    Raises:
        UserError: The file is absent or has another checksum.
    """
    if not source.is_file():
        raise UserError(
            f"{source}: no such file; correct the study's `path`, which is relative to where snakemake runs"
        )
    found = compute_sha256(source)
    if expected and found != expected:
        raise UserError(
            f"{source}: sha256 is {found}, the study says {expected}; get the file again or correct the study"
        )
    with replace_file(target) as temporary:
        shutil.copyfile(source, temporary)


def fetch(
    url: str,
    target: Path,
    said: str,
    lock: Path,
    where: str,
    size: int | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch a file and hold it to its checksum, or to the one that the lock file holds from the first download.

    Args:
        url: Where from; a part behind `#` is left out.
        target: Where to.
        said: SHA-256 of the file, or `lock`.
        lock: The lock file.
        where: How to provide the file by hand, for the error.
        size: Its bytes, where they are known.
        wait: Called with the seconds between two attempts.
    Raises:
        UserError: As `download`, or what came is not what the lock file says.
    """
    origin = url.partition("#")[0]
    if said != LOCK_ON_DOWNLOAD:
        download(url, target, said, where, wait)
        return

    def settle(part: Path) -> None:
        found = part.stat().st_size
        if size is not None and found != size:
            part.unlink()
            raise UserError(f"{target.name}: {origin} gave {found} bytes, the study says {size}; {where}")
        record_download(lock, origin, {"sha256": compute_sha256(part), "size": found})

    known = read_recorded(lock, origin, "sha256")
    download(url, target, known, f"{lock} holds what it gave first; {where}" if known else where, wait, settle)


def check_against_lock(path: Path, origin: str, lock: Path) -> None:
    """Hold a copy that the user has provided to the lock file, or record it there.

    Raises:
        UserError: It is not what the lock file says.
    """
    record_download(lock, origin, {"sha256": compute_sha256(path), "size": path.stat().st_size})


def download(
    url: str,
    target: Path,
    expected: str | None,
    where: str,
    wait: Callable[[float], None] = time.sleep,
    settle: Callable[[Path], None] = lambda part: None,
) -> None:
    """Fetch a file with retries; go on from where a cut connection left it.

    The part that has arrived stays beside the target under a name that holds the checksum (of the url, where that of
    the file is not known), so that a later run goes on with it too.

    Args:
        url: Where from; asked for below `$WALTZ_MIRROR` where that is set.
        target: Where to.
        expected: SHA-256 of the whole file; None where it is not known.
        where: How to provide the file by hand, for the error.
        wait: Called with the seconds between two attempts.
        settle: Called with the whole file before it takes its name; may refuse it by an error.
    Raises:
        UserError: Nothing that matches came; the message names file, url and what to do.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    mark = (expected or hashlib.sha256(url.encode()).hexdigest())[:16]
    part = target.with_name(f".{target.name}.{mark}.part")
    fault = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            wait(WAIT_SECONDS * 2 ** (attempt - 1))
        try:
            _continue(apply_mirror(url), part)
        except _Refused as refusal:
            fault = str(refusal)
            break
        except requests.ConnectionError as error:
            fault = f"no connection to {urlsplit(apply_mirror(url)).netloc}"
            log.warning("%s, attempt %d of %d: %s", url, attempt + 1, ATTEMPTS, error)
            continue
        except requests.exceptions.ChunkedEncodingError as error:
            fault = f"the connection ended after {part.stat().st_size if part.exists() else 0} bytes"
            log.warning("%s, attempt %d of %d: %s", url, attempt + 1, ATTEMPTS, error)
            continue
        except (requests.RequestException, OSError) as error:
            fault = str(error)
            log.warning("%s, attempt %d of %d: %s", url, attempt + 1, ATTEMPTS, fault)
            continue
        found = compute_sha256(part) if expected else None
        if found == expected:
            settle(part)
            part.replace(target)
            return
        part.unlink()
        fault = f"what came has sha256 {found}, not {expected}"
        log.warning("%s, attempt %d of %d: %s", url, attempt + 1, ATTEMPTS, fault)
    raise UserError(f"{target.name}: cannot be had from {url} ({fault}); {where}")


class _Refused(Exception):
    """The server said no for good."""


def _continue(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as answer:
        if answer.status_code in PERMANENT_STATUSES:
            raise _Refused(f"HTTP {answer.status_code} {answer.reason}")
        if have and answer.status_code == requests.codes.range_not_satisfiable:
            return
        answer.raise_for_status()
        if answer.headers.get("Content-Type", "").startswith("text/html") and not url.endswith((".html", ".htm")):
            raise _Refused("a web page came in the place of the file")
        resumed = have > 0 and answer.status_code == requests.codes.partial_content
        with part.open("ab" if resumed else "wb") as file:
            for chunk in answer.iter_content(CHUNK_BYTES):
                file.write(chunk)
        length = answer.headers.get("Content-Length")
        arrived = part.stat().st_size - (have if resumed else 0)
        if length and "Content-Encoding" not in answer.headers and arrived < int(length):
            raise OSError(f"the connection ended after {arrived} of {length} bytes")
