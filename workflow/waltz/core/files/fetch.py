"""Raw files from a local copy or the network, checked before they are used."""

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file
from waltz.core.files.download_lock import LOCK_ON_DOWNLOAD, compute_sha256, read_recorded, record_download
from waltz.core.files.urls import apply_mirror

log = logging.getLogger(__name__)

ATTEMPTS = 4
WAIT_SECONDS = 1.0
TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 16
"""Most bytes that are lost if the connection breaks."""
PERMANENT_STATUSES = {400, 401, 403, 404, 410, 451}
"""HTTP statuses that do not change on a retry."""


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
        record_download(lock_file, origin, {"sha256": compute_sha256(part), "size": received})

    recorded = read_recorded(lock_file, origin, "sha256")
    if recorded:
        advice = f"{lock_file} records the checksum of the first download; {advice}"
    download(url, target, recorded, advice, wait, check_and_record)


def check_against_lock(path: Path, origin: str, lock_file: Path) -> None:
    """Check a file that the user provided against the lock file, or record it there.

    Raises:
        UserError: The file differs from the lock file.
    """
    record_download(lock_file, origin, {"sha256": compute_sha256(path), "size": path.stat().st_size})


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
    received = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={received}-"} if received else {}
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as response:
        if response.status_code in PERMANENT_STATUSES:
            raise _RefusedError(f"HTTP {response.status_code} {response.reason}")
        if received and response.status_code == requests.codes.range_not_satisfiable:
            return
        response.raise_for_status()
        if response.headers.get("Content-Type", "").startswith("text/html") and not url.endswith((".html", ".htm")):
            raise _RefusedError("the server sent a web page instead of the file")
        resumed = received > 0 and response.status_code == requests.codes.partial_content
        with part.open("ab" if resumed else "wb") as file:
            for chunk in response.iter_content(CHUNK_BYTES):
                file.write(chunk)
        length = response.headers.get("Content-Length")
        arrived = part.stat().st_size - (received if resumed else 0)
        if length and "Content-Encoding" not in response.headers and arrived < int(length):
            raise OSError(f"the connection ended after {arrived} of {length} bytes")
