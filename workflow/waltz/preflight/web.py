"""Files on the web that are read in part: size and first bytes, or the ranges that a reader
requests.
"""

import http
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

import httpx

from waltz.core.downloads.content_checks import HEAD_BYTES, find_head_fault
from waltz.core.downloads.http_limits import TimeLimit, build_client, find_login
from waltz.core.downloads.urls import apply_mirror, get_url_file_name
from waltz.core.errors import UserError
from waltz.core.redaction import hide_secrets
from waltz.preflight.checks import NoAnswerError

BLOCK_BYTES = 1 << 18
"""Minimum number of bytes of a request for a range."""
NO_HEAD_STATUSES = {403, 405, 501}
"""HTTP statuses by which servers refuse HEAD although they answer GET."""
IDENTITY = {"Accept-Encoding": "identity"}
"""Header that requests a file without compression, so that sizes and ranges are those of the file.
"""


@dataclass(frozen=True)
class RemoteFile:
    """Description of a file by its server.

    Attributes:
        size: Size in bytes; None if the server does not state it.
        has_ranges: Whether the server sends ranges, so that an interrupted download can continue.
    """

    size: int | None
    has_ranges: bool


def probe_file(url: str, timeout: float) -> RemoteFile:
    """Return the description of a file, from the answer to HEAD and the first bytes of the file.

    Args:
        url: Address of the file; it is requested from `$WALTZ_MIRROR` if that is set.
        timeout: Time limit in seconds for each answer.
    Raises:
        UserError: The file does not exist, its content does not fit its name, or the server gives
            no answer.
    """
    name = get_url_file_name(url)
    try:
        start = _request_start(apply_mirror(url), timeout)
    except httpx.TimeoutException:
        raise NoAnswerError(
            f"no answer within {timeout:g} s; run again, or set a higher --timeout"
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL):
        raise NoAnswerError(
            "no connection; check the network, or put a copy there by hand"
        ) from None
    fault = find_head_fault(start.head, name)
    if start.is_page and not name.endswith((".html", ".htm")):
        fault = "it is a web page"
    if fault:
        raise UserError(
            f"the server does not give the file ({fault}); open it in a browser, log in there if it asks to, and put"
            " a copy there by hand"
        )
    return RemoteFile(start.size, start.has_ranges)


@dataclass(frozen=True)
class FileStart:
    """Answers of a server to HEAD and to a request for the first bytes of a file.

    Attributes:
        head: First bytes of the file.
        is_page: Whether the server sends a web page.
        has_ranges: Whether the server sends ranges.
        size: Size in bytes; None if the server does not state it.
    """

    head: bytes
    is_page: bool
    has_ranges: bool
    size: int | None


def _request_start(address: str, timeout: float) -> FileStart:
    """Return the answers of a server to HEAD and to a request for the first bytes of a file."""
    # A server that refuses HEAD may still answer GET.
    with _request("HEAD", address, IDENTITY, timeout) as described:
        if described.status_code not in NO_HEAD_STATUSES:
            _check_status(described)
    declared = (
        described.headers.get("Content-Length", "") if described.is_success else ""
    )

    with _request(
        "GET", address, IDENTITY | {"Range": f"bytes=0-{HEAD_BYTES - 1}"}, timeout
    ) as response:
        head = b""
        # For an empty file, a server has no range to send.
        if response.status_code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            _check_status(response)
            head = _read_start(response, HEAD_BYTES)
        has_ranges = response.status_code == http.HTTPStatus.PARTIAL_CONTENT
        if has_ranges:
            size = response.headers.get("Content-Range", "").rpartition("/")[2]
        else:
            size = response.headers.get("Content-Length", "")
        is_page = (
            response.headers.get("Content-Type", "").lower().startswith("text/html")
        )
    # The answer to GET is more reliable than the answer to HEAD.
    for length in (size, declared):
        if length.isdecimal():
            return FileStart(head, is_page, has_ranges, int(length))
    return FileStart(head, is_page, has_ranges, None)


def open_remote(
    url: str, size: int, timeout: float, headers: Mapping[str, str] | None = None
) -> BinaryIO:
    """Open a file on the web for reading in ranges.

    Args:
        url: Address of the file.
        size: Size of the file in bytes.
        timeout: Time limit in seconds for each answer.
        headers: Further headers of the requests.
    """
    return io.BufferedReader(RangeReader(url, size, timeout, headers or {}))


@contextmanager
def _request(
    method: str, url: str, headers: Mapping[str, str], timeout: float
) -> Iterator[httpx.Response]:
    """Yield the answer of a server after redirects; its connection is cut after `timeout` seconds."""
    with (
        build_client(
            timeout=timeout, auth=find_login(), follow_redirects=True
        ) as client,
        TimeLimit(timeout, lambda: f"{get_url_file_name(url)}: no answer yet") as limit,
        client.stream(
            method, url, headers=headers, extensions=limit.extensions
        ) as response,
    ):
        yield response


def _read_start(response: httpx.Response, size: int) -> bytes:
    """Return the first `size` bytes of an answer, or fewer if it is shorter."""
    content = bytearray()
    for part in response.iter_raw():
        content += part
        if len(content) >= size:
            break
    return bytes(content[:size])


def _check_status(response: httpx.Response) -> None:
    """Refuse an answer with an HTTP status of an error."""
    if response.is_success:
        return
    advice = "correct the url, or put a copy there by hand"
    if response.status_code >= 500:
        advice = "run again later"
    urls = [str(reply.request.url) for reply in (*response.history, response)]
    reason = hide_secrets(response.reason_phrase, *urls)
    raise UserError(f"HTTP {response.status_code} {reason}; {advice}")


class NoRangesError(UserError):
    """Error about a server that sends only complete files."""


@dataclass(eq=False)
class RangeReader(io.RawIOBase):
    """File on the web that is read like a local file; ranges of it are requested in blocks.

    Attributes:
        url: Address of the file.
        size: Size of the file in bytes.
        timeout: Time limit in seconds for each answer.
        headers: Further headers of the requests.
        position: Position of the next byte that is read.
        blocks: Received blocks by the position of their first byte.
    """

    url: str
    size: int
    timeout: float
    headers: Mapping[str, str] = field(default_factory=dict)
    position: int = 0
    blocks: dict[int, bytes] = field(default_factory=dict)

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: the position can be set."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position relative to the start, the current position or the end (`whence`), and
        return it.
        """
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[
            whence
        ]
        self.position = max(0, start + offset)
        return self.position

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        """Read the next bytes into a buffer, and return their number."""
        content = self._read_range(
            self.position, min(self.size, self.position + len(buffer))
        )
        buffer[: len(content)] = content
        self.position += len(content)
        return len(content)

    def _read_range(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to before `stop`, from a received block or from a new
        request.
        """
        if start >= stop:
            return b""
        for first, block in self.blocks.items():
            has_range = first <= start and stop <= first + len(block)
            if has_range:
                return block[start - first : stop - first]
        # Request at least one block, since readers of checkpoints read many small pieces; at the
        # end of the file, the block reaches further back.
        begin = max(0, min(start, self.size - BLOCK_BYTES))
        last = min(self.size, max(stop, start + BLOCK_BYTES))
        headers = {**IDENTITY, **self.headers, "Range": f"bytes={begin}-{last - 1}"}
        with _request("GET", self.url, headers, self.timeout) as response:
            _check_status(response)
            # A server without ranges sends the file from its start: skip the bytes before the range
            # if they are few.
            skipped = begin
            if response.status_code == http.HTTPStatus.PARTIAL_CONTENT:
                skipped = 0
            if skipped > BLOCK_BYTES:
                raise NoRangesError(
                    "the server sends no ranges, so that weights are checked only when they are loaded"
                )
            block = _read_start(response, skipped + last - begin)[skipped:]
        if len(block) < stop - begin:
            raise UserError(
                f"the connection ended after {len(block)} of {last - begin} bytes; run again"
            )
        self.blocks[begin] = block
        return block[start - begin : stop - begin]
