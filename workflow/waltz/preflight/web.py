"""Files on the web, read in part: their size and first bytes, or the ranges that a reader asks for."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

import requests

from waltz.core.errors import UserError
from waltz.core.files.content_checks import HEAD_BYTES, find_head_fault
from waltz.core.files.downloads import apply_mirror, get_file_name

BLOCK_BYTES = 1 << 18
"""Least bytes of a request for a range."""
NO_HEAD_STATUSES = {403, 405, 501}
"""HTTP statuses of servers that answer GET and refuse HEAD."""
IDENTITY = {"Accept-Encoding": "identity"}


@dataclass(frozen=True)
class RemoteFile:
    """A file as its server describes it.

    Attributes:
        size: Bytes; None where the server does not say.
        has_ranges: Whether the server sends parts, so that an interrupted download continues.
    """

    size: int | None
    has_ranges: bool


def probe_file(url: str, timeout: float) -> RemoteFile:
    """Return size and abilities of a file, judged by HEAD and its first bytes.

    Args:
        url: Its address, which is requested from `$WALTZ_MIRROR` if that is set.
        timeout: Seconds for each answer.
    Raises:
        UserError: There is no such file, or what is there cannot be what its name says.
    """
    address, name = apply_mirror(url), get_file_name(url)
    try:
        described = requests.head(address, headers=IDENTITY, allow_redirects=True, timeout=timeout)
        if described.status_code not in NO_HEAD_STATUSES:
            _check_status(described)
        with requests.get(
            address, headers=IDENTITY | {"Range": f"bytes=0-{HEAD_BYTES - 1}"}, stream=True, timeout=timeout
        ) as response:
            empty = response.status_code == requests.codes.range_not_satisfiable
            if not empty:
                _check_status(response)
            head = b"" if empty else response.raw.read(HEAD_BYTES)
            page = response.headers.get("Content-Type", "").lower().startswith("text/html")
            has_ranges = response.status_code == requests.codes.partial_content
            total = response.headers.get("Content-Range", "").rpartition("/")[2] if has_ranges else ""
            lengths = (total, "" if has_ranges else response.headers.get("Content-Length", ""))
    except requests.Timeout:
        raise UserError(f"no answer within {timeout:g} s; run again, or set a higher --timeout") from None
    except requests.RequestException:
        raise UserError("no connection; check the network, or put a copy there by hand") from None
    fault = "it is a web page" if page and not name.endswith((".html", ".htm")) else find_head_fault(head, name)
    if fault:
        raise UserError(
            f"the server does not give the file ({fault}); open it in a browser, log in there if it asks to, and put"
            " a copy there by hand"
        )
    size = next((int(length) for length in lengths if length.isdecimal()), None)
    declared = described.headers.get("Content-Length", "") if described.ok else ""
    return RemoteFile(int(declared) if size is None and declared.isdecimal() else size, has_ranges)


def open_remote(url: str, size: int, timeout: float, headers: Mapping[str, str] | None = None) -> BinaryIO:
    """Open a file on the web for reading in parts.

    Args:
        url: Its address.
        size: Its bytes.
        timeout: Seconds for each answer.
        headers: Further headers of the requests.
    """
    return io.BufferedReader(RangeReader(url, size, timeout, headers or {}))


def _check_status(response: requests.Response) -> None:
    if not response.ok:
        advice = "run again later" if response.status_code >= 500 else "correct the url, or put a copy there by hand"
        raise UserError(f"HTTP {response.status_code} {response.reason}; {advice}")


class NoRangesError(UserError):
    """Answer of a server that sends whole files only."""


@dataclass(eq=False)
class RangeReader(io.RawIOBase):
    """A file on the web that is read like a local one, in blocks of its ranges.

    Attributes:
        url: Its address.
        size: Its bytes.
        timeout: Seconds for each answer.
        headers: Further headers of the requests.
        position: Where the next byte is read.
        blocks: What was received, by its first position.
    """

    url: str
    size: int
    timeout: float
    headers: Mapping[str, str] = field(default_factory=dict)
    position: int = 0
    blocks: dict[int, bytes] = field(default_factory=dict)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position, and return it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        self.position = max(0, start + offset)
        return self.position

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        """Read the next bytes into a buffer, and return their number."""
        content = self._read_range(self.position, min(self.size, self.position + len(buffer)))
        buffer[: len(content)] = content
        self.position += len(content)
        return len(content)

    def _read_range(self, start: int, stop: int) -> bytes:
        if start >= stop:
            return b""
        for first, block in self.blocks.items():
            if first <= start and stop <= first + len(block):
                return block[start - first : stop - first]
        begin = max(0, min(start, self.size - BLOCK_BYTES))
        last = min(self.size, max(stop, start + BLOCK_BYTES))
        headers = {**IDENTITY, **self.headers, "Range": f"bytes={begin}-{last - 1}"}
        with requests.get(self.url, headers=headers, stream=True, timeout=self.timeout) as response:
            _check_status(response)
            skipped = 0 if response.status_code == requests.codes.partial_content else begin
            if skipped > BLOCK_BYTES:
                raise NoRangesError("the server sends no ranges, so that weights are checked only when they are loaded")
            block = response.raw.read(skipped + last - begin)[skipped:]
        if len(block) < stop - begin:
            raise UserError(f"the connection ended after {len(block)} of {last - begin} bytes; run again")
        self.blocks[begin] = block
        return block[start - begin : stop - begin]
