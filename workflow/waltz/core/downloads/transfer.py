"""Raw files from a local copy or the network, checked against the study or the download lock file."""

import hashlib
import http
import logging
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit

from waltz.core.downloads.checksums import CHECKSUM, LOCK_ON_DOWNLOAD, compute_sha256
from waltz.core.downloads.http_limits import (
    TimeLimit,
    build_client,
    find_login,
    read_retry_after,
)
from waltz.core.downloads.lock_file import read_recorded, record_download, record_file
from waltz.core.downloads.secret_url import SecretUrl
from waltz.core.downloads.urls import MIRROR_VARIABLE, apply_mirror, get_url_file_name
from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file
from waltz.core.files.locks import hold_shared_lock
from waltz.core.files.safe_names import is_safe_name
from waltz.core.redaction import hide_secrets, redact_url

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

ATTEMPTS = 4
WAIT_SECONDS = 1.0
"""Seconds between the first two attempts; each further pause is twice as long."""
TIMEOUT_SECONDS = 30
"""Largest number of seconds in which a server sends nothing."""
ANSWER_SECONDS = 60.0
"""Largest number of seconds until a server sends the head of its answer, including all redirects.
"""
SLOWEST_SECONDS = 60.0
SLOWEST_BYTES = 10_000
"""Smallest number of bytes in `SLOWEST_SECONDS`; a slower download counts as broken."""
LARGEST_BYTES = 50_000_000_000
"""Largest size in bytes of a file whose size is not known, unless the study sets another limit."""
PAGE_TYPES = ("text/html", "application/xhtml")
"""Media types of web pages."""
PERMANENT_STATUSES = {400, 401, 403, 404, 410, 451}
"""HTTP statuses that a further attempt does not change."""


class RawFileEntry(TypedDict, total=False):
    """Entry of a raw file in a study: `plan.study.File` says what each key means."""

    url: SecretUrl
    sha256: str
    size: int | None
    local: str
    path: str


@dataclass(frozen=True)
class DownloadRequest:
    """File to fetch: its address, checksum and size.

    Attributes:
        url: Address; the part after `#` is ignored.
        checksum: SHA-256 of the file; `lock` if the lock file records it; None if it is not known.
        advice: Instruction for the error, by which a user provides the file by hand.
        size: Bytes of the file; None if they are not known.
        largest: Bytes at which the download stops if the size is not known.
    """

    url: str = field(repr=False)  # its query may be a key
    checksum: str | None
    advice: str
    size: int | None = None
    largest: int = LARGEST_BYTES

    @property
    def origin(self) -> str:
        """Return the address without the part after `#`."""
        return self.url.partition("#")[0]

    @property
    def short_name(self) -> str:
        """Return 16 digits that name the temporary files: from the checksum, or from the url's if
        it is not known.
        """
        return (self.checksum or hashlib.sha256(self.url.encode()).hexdigest())[:16]


def provide_raw_file(
    file: RawFileEntry,
    target: Path,
    lock_file: Path,
    cache: Path,
    largest: int = LARGEST_BYTES,
) -> None:
    """Copy or fetch a raw file: from the study's `path`, from a copy in the folder `$WALTZ_DATA`,
    or from the network.

    Args:
        file: The study's entry of the file.
        target: Path of the file.
        lock_file: The download lock file.
        cache: Folder of all fetched files, named by checksum.
        largest: Largest size in bytes of a file whose size is not known.
    Raises:
        UserError: The file is absent, differs from its checksum or from the lock file, or cannot be
            fetched.
    """
    expected = file.get("sha256")
    local = file.get("local")
    source = Path(file["path"]) if "path" in file else find_local_copy(local)
    # Neither the study nor WALTZ_DATA has the file: fetch it.
    if source is None:
        advice = (
            f"put a copy into a folder as {local or target.name} and set WALTZ_DATA to the folder, "
            "or name it as `path` in the study"
        )
        url = file["url"].get_secret_value()
        fetch(
            DownloadRequest(url, file["sha256"], advice, file.get("size"), largest),
            target,
            lock_file,
            cache,
        )
        return
    # A local copy counts as the first download.
    if expected == LOCK_ON_DOWNLOAD:
        record_file(lock_file, file["url"].get_secret_value(), source)
        expected = None  # the lock file has checked it
    copy_checked(source, target, expected)


def find_local_copy(name: str | None) -> Path | None:
    """Return the path of a raw file's copy in the folder `$WALTZ_DATA`; None if there is no copy.

    Args:
        name: Path of the copy in that folder, the key `local` of a study; None if it names no copy.
    Raises:
        UserError: The path leads out of the folder.
    """
    folder = os.environ.get("WALTZ_DATA")
    if not folder or name is None:
        return None
    # A study may come from somebody else.
    if not is_safe_name(name):
        raise UserError(
            f"local: {name[:80]!r} leads out of the folder WALTZ_DATA, or no file has such a name; correct it"
        )
    path = Path(folder) / name
    return path if path.is_file() else None


def copy_checked(source: Path, target: Path, expected: str | None) -> None:
    """Copy a local file if it has the expected checksum, or if that is None.

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
    file: DownloadRequest,
    target: Path,
    lock_file: Path,
    cache: Path,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch a file once, and check it against its checksum, or the checksum that the first download
    recorded.

    The cache stores the file under its checksum, and the target is a link to it. A file in the
    cache is never fetched again, even if the target was deleted.

    Args:
        file: The file, with its checksum or `lock`.
        target: Path of the file.
        lock_file: The download lock file.
        cache: Folder of all fetched files, named by checksum.
        wait: Function that waits for a number of seconds between two attempts.
    Raises:
        UserError: As in `download`, or the file differs from the lock file, or its content does not
            fit its name.
    """
    cache.mkdir(parents=True, exist_ok=True)
    # Runs of several studies share the cache: the second run waits here, and then finds the file.
    with hold_shared_lock(
        cache / f".{hashlib.sha256(file.origin.encode()).hexdigest()[:16]}.lock"
    ):
        # The checksum of an earlier download holds for this one, too.
        if file.checksum == LOCK_ON_DOWNLOAD:
            file = replace(
                file, checksum=read_recorded(lock_file, file.origin, "sha256")
            )
            if file.checksum:
                advice = f"{lock_file} records the checksum of the first download; {file.advice}"
                file = replace(file, advice=advice)
        # What the cache holds is never fetched again.
        known = file.checksum
        if known and _link_cached(_get_cached_path(cache, known), known, target):
            return

        received = cache / f".{file.short_name}.received"
        download(file, received, target.name, wait)
        if known is None:
            known = _record_first_download(file, received, target.name, lock_file)
        cached = _get_cached_path(cache, known)
        received.replace(cached)
        _link(cached, target)


def _record_first_download(
    file: DownloadRequest, received: Path, name: str, lock_file: Path
) -> str:
    """Record the checksum of a received file, and return it.

    Raises:
        UserError: The file cannot be what its name says, or differs from the lock file.
    """
    # Its readers, which plans do not need.
    from waltz.core.downloads.content_checks import (
        find_content_fault,
    )

    fault = find_content_fault(received, get_url_file_name(file.origin))
    if fault:
        received.unlink()
        raise UserError(
            f"{name}: {redact_url(file.origin)} did not give the file ({fault}); {file.advice}"
        )
    checksum = compute_sha256(received)
    record_download(
        lock_file, file.origin, {"sha256": checksum, "size": received.stat().st_size}
    )
    return checksum


def _get_cached_path(cache: Path, checksum: str) -> Path:
    """Return the path of a file in the cache; every checksum from a study or lock file is checked
    here.

    Raises:
        UserError: The text is not a checksum and might lead out of the cache.
    """
    if not re.fullmatch(CHECKSUM, checksum):
        raise UserError(
            f"sha256: no checksum (got {checksum[:80]!r}, expected 64 hexadecimal digits); correct it"
        )
    return cache / checksum


def _link_cached(cached: Path, checksum: str, target: Path) -> bool:
    """Link a target to a file in the cache, and return whether the cache contains the file
    undamaged.
    """
    if not cached.is_file():
        return False
    if compute_sha256(cached) != checksum:
        log.warning("%s is damaged and is fetched again", cached)
        cached.unlink()
        return False
    _link(cached, target)
    return True


def _link(source: Path, target: Path) -> None:
    """Create a hard link, or a copy if the file system has no links."""
    with replace_file(target) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)


def download(
    file: DownloadRequest,
    target: Path,
    name: str = "",
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch a file in several attempts, which continue an interrupted download only if the checksum
    is known.

    The received part stays next to the target under a name with the checksum, so that a later run
    can continue it.

    Args:
        file: The file, which is requested from `$WALTZ_MIRROR` if that is set.
        target: Path of the file.
        name: Name of the file in messages; by default the name of the target.
        wait: Function that waits for a number of seconds between two attempts.
    Raises:
        UserError: No matching file was received; the message names file, url and what to do.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{file.short_name}.part")
    source = apply_mirror(file.url)
    shown = redact_url(file.url)
    reason = ""
    for attempt in range(ATTEMPTS):
        if file.checksum is None:
            part.unlink(missing_ok=True)  # it may belong to another version of the file
        fault = _try_download(file, source, part)
        if fault is None:
            log.info("%s: received", shown)
            part.replace(target)
            return
        reason = hide_secrets(str(fault), source)  # a server may repeat its url
        if fault.is_final:
            break
        log.warning("%s, attempt %d of %d: %s", shown, attempt + 1, ATTEMPTS, reason)
        if attempt + 1 < ATTEMPTS:
            # The pause doubles after each attempt, unless the server asks for a longer one.
            wait(max(WAIT_SECONDS * 2**attempt, fault.wait_seconds))

    # A later run continues a part only if the checksum is known; an empty part is useless.
    is_empty = part.exists() and not part.stat().st_size
    if file.checksum is None or is_empty:
        part.unlink(missing_ok=True)
    # Users need to know which of the two servers failed.
    server = shown
    if source != file.origin:
        server = (
            f"{redact_url(source)}, the mirror that {MIRROR_VARIABLE} names for {shown}"
        )
    raise UserError(
        f"{name or target.name}: cannot be fetched from {server} ({reason}); {file.advice}"
    )


def _try_download(
    file: DownloadRequest, source: str, part: Path
) -> "_FaultError | None":
    """Receive and check a file once; return the fault of the attempt, or None if it succeeded."""
    import httpx  # imported here because it takes 0.1 s, and most processes download nothing

    try:
        _receive(file, source, part)
        _check_part(file, part)
    except _FaultError as error:
        return error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return _FaultError(_describe(error, source, part))
    return None


class _FaultError(Exception):
    """Fault of an attempt to download a file.

    Attributes:
        is_final: Whether a further attempt would fail as well.
        wait_seconds: Seconds that the server asks to wait before a further attempt.
    """

    def __init__(
        self, fault: str, is_final: bool = False, wait_seconds: float = 0.0
    ) -> None:
        super().__init__(fault)
        self.is_final = is_final
        self.wait_seconds = wait_seconds


def _describe(error: Exception, url: str, part: Path) -> str:
    """Return the description of a connection's fault; of the url it contains only the host."""
    import httpx

    # From the most specific class of errors to the most general one.
    host = urlsplit(redact_url(url)).netloc
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        return f"no connection to {host}"
    if isinstance(error, httpx.TimeoutException):
        return f"{host} sends nothing, or less than {SLOWEST_BYTES} bytes in {SLOWEST_SECONDS:g} s"
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
        return f"{host} redirects to an address that is no url of the web"
    # httpx has no class for a reply that is shorter than announced, only a message.
    is_cut = isinstance(error, httpx.ReadError) or "complete message body" in str(error)
    if is_cut and part.exists():
        return f"the connection ended after {part.stat().st_size} bytes"
    return f"the reply of the server is broken: {type(error).__name__}"


def _check_part(file: DownloadRequest, part: Path) -> None:
    """Compare size and checksum of a received file with the requested ones; delete the file if they
    differ.

    Raises:
        _FaultError: Size or checksum differ.
    """
    fault = ""
    received = part.stat().st_size
    # The size is compared first; a wrong checksum replaces its message.
    if file.size not in (None, received):
        fault = f"the server gave {received} bytes, the study says {file.size}"
    if file.checksum is not None:
        checksum = compute_sha256(part)
        if checksum != file.checksum:
            fault = f"the received file has sha256 {checksum}, not {file.checksum}"
    if fault:
        part.unlink()
        raise _FaultError(fault)


def _receive(file: DownloadRequest, url: str, part: Path) -> None:
    """Receive the missing rest of a file and append it, or receive all of it if the server does not
    send ranges.

    Raises:
        _FaultError: The server does not send the file, or not all of it.
        httpx.HTTPError: The connection or the reply is broken.
    """
    import httpx

    is_checksum_unknown = file.checksum is None

    def refuse_plain_http(request: httpx.Request) -> None:
        """Refuse a redirect to plain http for a file that no checksum protects."""
        is_downgraded = url.startswith("https:") and request.url.scheme != "https"
        if is_checksum_unknown and is_downgraded:
            raise _FaultError(
                "the server redirects from https to http, where anybody can exchange it",
                is_final=True,
            )

    name = get_url_file_name(url)
    received = part.stat().st_size if part.exists() else 0
    # A compressed reply would have another length and range than the file.
    headers = {"Accept-Encoding": "identity"}
    if received:
        headers["Range"] = f"bytes={received}-"

    def describe() -> str:
        """Return the log line about the progress."""
        if not part.exists():
            return f"{name}: no answer yet"
        return f"{name}: {part.stat().st_size / 1e6:.1f} MB so far"

    hooks = {"request": [refuse_plain_http]}
    with (
        build_client(
            timeout=TIMEOUT_SECONDS,
            auth=find_login(),
            follow_redirects=True,
            event_hooks=hooks,
        ) as client,
        TimeLimit(ANSWER_SECONDS, describe) as limit,
        client.stream(
            "GET", url, headers=headers, extensions=limit.extensions
        ) as response,
    ):
        # Refuse a reply before any byte of it is written.
        _check_status(response, part, received)
        _check_content(response, name)
        is_resumed = _is_resumed(response, part, received)
        has_end = (
            "Content-Length" in response.headers
            or "Transfer-Encoding" in response.headers
        )
        if is_checksum_unknown and file.size is None and not has_end:
            raise _FaultError(
                "the server does not say how long the file is, so that a part of it could pass for all; name its"
                " sha256 or size in the study",
                is_final=True,
            )
        limit_bytes = file.largest if file.size is None else file.size
        with part.open("ab" if is_resumed else "wb") as stream:
            _write_stream(response, stream, limit_bytes, limit)


def _check_status(response: "httpx.Response", part: Path, received: int) -> None:
    """Refuse a reply whose status announces neither the file nor, after an interruption, the rest
    of the file.

    Raises:
        _FaultError: The reply does not hold what was requested.
    """
    status = response.status_code
    reason = _redact_reply(" ".join(response.reason_phrase.split()), response)
    shown = f"HTTP {status} {reason[:80]}"
    if status in PERMANENT_STATUSES:
        raise _FaultError(shown, is_final=True)
    # The file has changed: its received part is useless, so the next attempt starts from the
    # beginning.
    if status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        part.unlink(missing_ok=True)
        raise _FaultError(
            "the server has a file of another length than the received part"
        )
    # Other errors of client and server may be temporary.
    if status >= http.HTTPStatus.BAD_REQUEST:
        raise _FaultError(
            shown,
            wait_seconds=read_retry_after(response.headers.get("Retry-After", "")),
        )
    is_rest = received > 0 and status == http.HTTPStatus.PARTIAL_CONTENT
    if status != http.HTTPStatus.OK and not is_rest:
        raise _FaultError(f"{shown}, without the file", is_final=True)


def _check_content(response: "httpx.Response", name: str) -> None:
    """Refuse a compressed reply, and a web page instead of a file of another kind.

    Raises:
        _FaultError: The reply does not hold what was requested.
    """
    # The checksum belongs to the file without compression.
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        encoding = _redact_reply(encoding, response)[:40]
        raise _FaultError(
            f"the server sent the file in the encoding {encoding!r}, which was not requested",
            is_final=True,
        )
    is_page = response.headers.get("Content-Type", "").lower().startswith(PAGE_TYPES)
    is_page_expected = name.lower().endswith((".html", ".htm"))
    if is_page and not is_page_expected:
        raise _FaultError(
            "the server sent a web page instead of the file", is_final=True
        )


def _is_resumed(response: "httpx.Response", part: Path, received: int) -> bool:
    """Return whether the server sends only the missing rest of a file.

    Raises:
        _FaultError: The server sends another range than was requested.
    """
    if not received or response.status_code != http.HTTPStatus.PARTIAL_CONTENT:
        return False
    if not _is_rest(response.headers.get("Content-Range", ""), received):
        part.unlink()
        raise _FaultError("the server sent another range than was requested")
    return True


def _redact_reply(text: str, response: "httpx.Response") -> str:
    """Return a server's text without secrets; it may repeat the urls that were requested."""
    urls = [str(reply.request.url) for reply in (*response.history, response)]
    return hide_secrets(text, *urls)


def _is_rest(content_range: str, first: int) -> bool:
    """Return whether the header `Content-Range` announces all bytes of a file from byte `first` on."""
    match = re.fullmatch(
        "bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})", content_range.strip()
    )
    if match is None:
        return False
    start, last, total = map(int, match.groups())
    # The range must begin where the part ends, and reach the end of the file.
    return start == first and last == total - 1


def _write_stream(
    response: "httpx.Response", file: IO[bytes], largest: int, limit: TimeLimit
) -> None:
    """Write the content of a reply to a file; `limit` cuts the connection if the server is too
    slow.

    Raises:
        _FaultError: The file gets larger than `largest` bytes.
    """
    limit.deadline = time.monotonic() + SLOWEST_SECONDS
    new_bytes = 0
    for chunk in response.iter_raw():
        new_bytes += len(chunk)
        # Enough bytes came within the time: start the next interval.
        if new_bytes >= SLOWEST_BYTES:
            limit.deadline = time.monotonic() + SLOWEST_SECONDS
            new_bytes = 0
        # A server may send more bytes than it announced.
        if file.tell() + len(chunk) > largest:
            file.truncate(0)
            raise _FaultError(
                f"the server sent more than {largest} bytes", is_final=True
            )
        file.write(chunk)
