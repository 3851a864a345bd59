"""Checks of received files by their content, for files whose checksum is not known yet."""

import gzip
import json
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import ijson

from waltz.core.errors import get_first_line

HEAD_BYTES = 1024
"""Number of first bytes of a file by which web pages and texts are recognized."""
CHUNK_BYTES = 1 << 20
"""Number of bytes that are read at once."""
STARTS = (
    ((".gz", ".tgz"), (b"\x1f\x8b",)),
    ((".tar.bz2",), (b"BZh",)),
    ((".tar.xz",), (b"\xfd7zXZ",)),
    ((".zip", ".npz"), (b"PK",)),
    ((".json", ".jsonl"), (b"{", b"[", b'"', b"\xef\xbb\xbf")),
    ((".parquet",), (b"PAR1",)),
    ((".pth", ".pt", ".bin", ".pkl"), (b"PK\x03\x04", b"\x80", b"(", b"}")),
)
"""Possible first bytes of a file by the end of its name."""
PAGE_STARTS = (b"<!doctype html", b"<html", b"<head", b"<body")
"""First bytes of a web page, in lower case."""
XML_STARTS = (b"<?xml", b"<error>")
"""First bytes of the XML that file stores send instead of a file that is deleted or not public."""
COMMENTS = re.compile(rb"(\s|<!--.*?-->|<\?xml.*?\?>)*", re.DOTALL)
"""Pattern of what may precede the first tag of a web page: whitespace, comments and the XML
declaration.
"""
POINTER_START = b"version https://git-lfs.github.com/spec/"
"""First bytes of the text that Git LFS stores instead of a large file."""
IMAGE_STARTS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")
"""First bytes of PNG, JPEG, GIF, BMP and TIFF in either byte order."""
MAX_UNPACKED = 64 * 1024**3
"""Largest size of an unpacked file in bytes, as in `files.archives.MAX_BYTES`."""
LONGEST_LINE = 1 << 28
"""Largest number of bytes in a line of a JSON lines file."""
LARGEST_HEADER = 100_000_000
"""Largest number of bytes in the header of a safetensors file, a limit of that format."""


def find_content_fault(path: Path, name: str) -> str | None:
    """Return the reason why a file's content does not fit its name; None if no fault is found.

    No file may be empty or a web page. Archives, compressed files, JSON and safetensors are read to
    their end, so that an incomplete file is noticed; images, Parquet and PyTorch files are checked
    by their first and last bytes.

    Args:
        path: The file.
        name: Its name at its origin, such as `train.json.gz`.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    common_fault = _find_common_fault(head, name)
    if common_fault:
        return common_fault
    # The first entry that matches decides, so CHECKS lists .tar.gz before .gz.
    for suffixes, check in CHECKS:
        if not name.lower().endswith(suffixes):
            continue
        try:
            fault = check(path, head)
        except Exception as error:
            # Readers raise anything for a damaged or hostile file.
            fault = get_first_line(error)
        if fault is None:
            return None
        return f"it is no complete {suffixes[0].removeprefix('.')} file: {fault}"
    return None


def find_head_fault(head: bytes, name: str) -> str | None:
    """Return the reason why the first bytes of a file do not fit its name; None if no fault is
    found.

    Args:
        head: The first bytes, at most `HEAD_BYTES`.
        name: Its name at its origin.
    """
    common_fault = _find_common_fault(head, name)
    if common_fault:
        return common_fault
    # Only formats with known first bytes are compared.
    lowered = name.lower()
    for suffixes, starts in STARTS:
        if not lowered.endswith(suffixes):
            continue
        if head.lstrip().startswith(starts):
            return None
        return f"its first bytes are not those of a {Path(lowered).suffix.removeprefix('.')} file"
    return None


def _find_common_fault(head: bytes, name: str) -> str | None:
    """Return a fault that no format permits: an empty file, a Git LFS pointer or a web page; None
    if there is none.
    """
    if not head:
        return "it is empty"
    if head.startswith(POINTER_START):
        return "it is a pointer of Git LFS; take the address of the file itself"
    is_page_expected = name.lower().endswith((".html", ".htm"))
    if is_web_page(head) and not is_page_expected:
        return "it is a web page"
    return None


def is_web_page(head: bytes) -> bool:
    """Return whether the first bytes of a file belong to an HTML page."""
    start = _skip_mark(head)
    # XHTML begins with an XML declaration.
    is_xhtml = start.startswith(b"<?xml") and b"<html" in start
    return is_xhtml or COMMENTS.sub(b"", start, count=1).startswith(PAGE_STARTS)


def _skip_mark(head: bytes) -> bytes:
    """Return the first bytes in lower case, without a byte order mark and white space."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()


def _check_zip(path: Path, _: bytes) -> str | None:
    """Return a fault if a zip lacks the directory that it ends with."""
    if zipfile.is_zipfile(path):
        return None
    return "it has no directory at its end"


def _check_tar(path: Path, _: bytes) -> str | None:
    """Return a fault if a member of a tar ends too early; read each member's last byte only."""
    with tarfile.open(path) as archive:
        file = archive.fileobj
        assert file is not None  # only an archive that is being written may have none
        for member in archive:
            if not member.isreg():
                continue
            if not member.size:
                file.seek(member.offset_data)
                continue
            # A file that was cut ends before the last byte of a member.
            file.seek(member.offset_data + member.size - 1)
            if not file.read(1):
                return f"{member.name} is cut"
    return None


def _check_gzip(path: Path, _: bytes) -> str | None:
    """Return a fault if a gzip file unpacks to too many bytes; raise an error if its checksum is
    wrong.
    """
    size = 0
    with gzip.open(path) as file:
        # Reading to the end verifies the checksum in the last bytes; a few bytes may unpack to very
        # many.
        while chunk := file.read(CHUNK_BYTES):
            size += len(chunk)
            if size > MAX_UNPACKED:
                return f"it unpacks to more than {MAX_UNPACKED} bytes"
    return None


def _check_json(path: Path, _: bytes) -> str | None:
    """Return None after parsing all of a JSON file; the parser raises an error for a fault."""
    # ijson reads event by event, so that a large file takes little memory.
    with path.open("rb") as file:
        for _event in ijson.basic_parse(file):
            pass
    return None


def _check_json_lines(path: Path, _: bytes) -> str | None:
    """Return a fault if a line is too long; raise an error if a line is not JSON."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                return f"a line has more than {LONGEST_LINE} bytes"
            if line.strip():
                json.loads(line)
    return None


def _check_safetensors(path: Path, head: bytes) -> str | None:
    """Return a fault if a safetensors file has another size than its header says."""
    # Format: 8 bytes with the length of the header, the header as JSON, the tensors.
    length = int.from_bytes(head[:8], "little")
    size = path.stat().st_size
    is_too_long = length > min(size, LARGEST_HEADER)
    if len(head) < 9 or head[8:9] != b"{" or is_too_long:
        return "it does not begin with a header"
    with path.open("rb") as file:
        header = json.loads(file.read(8 + length)[8:])
    if not isinstance(header, dict):
        return "its header is no mapping"

    tensors_end = 0
    for name, entry in header.items():
        if name != "__metadata__":
            tensors_end = max(tensors_end, entry["data_offsets"][1])
    expected_size = 8 + length + tensors_end
    if size != expected_size:
        return f"it has {size} bytes, its header says {expected_size}"
    return None


def _check_parquet(path: Path, head: bytes) -> str | None:
    """Return a fault if a Parquet file lacks the marks at its begin or end."""
    with path.open("rb") as file:
        file.seek(-4, 2)
        end = file.read()
    if head[:4] == end == b"PAR1":
        return None
    return "it does not begin and end with PAR1"


def _check_torch(_: Path, head: bytes) -> str | None:
    """Return a fault if a PyTorch file is neither a zip nor a pickle (of PyTorch before 1.6)."""
    if head.startswith((b"PK\x03\x04", b"\x80")):
        return None
    return "it is neither a zip nor a pickle"


def _check_image(_: Path, head: bytes) -> str | None:
    """Return a fault if a file does not begin like any image format."""
    is_webp = head.startswith(b"RIFF") and head[8:12] == b"WEBP"
    if is_webp or head.startswith(IMAGE_STARTS):
        return None
    return "its first bytes are of no image format"


def _check_text(_: Path, head: bytes) -> str | None:
    """Return a fault if a text file is an error message in JSON or XML, or contains binary data."""
    start = _skip_mark(head)
    if start.startswith(b'{"'):
        return "it is JSON, as of an error"
    if start.startswith(XML_STARTS):
        return "it is XML, as of an error"
    if b"\0" in head:
        return "it contains binary data"
    return None


CHECKS: tuple[tuple[tuple[str, ...], Callable[[Path, bytes], str | None]], ...] = (
    ((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"), _check_tar),
    ((".gz",), _check_gzip),
    ((".zip", ".npz"), _check_zip),
    ((".jsonl", ".ndjson"), _check_json_lines),
    ((".json",), _check_json),
    ((".safetensors",), _check_safetensors),
    ((".parquet",), _check_parquet),
    ((".pth", ".pt", ".bin"), _check_torch),
    ((".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"), _check_image),
    ((".csv", ".tsv", ".tab", ".txt"), _check_text),
)
"""Check of each format by the ends of file names; the first entry that matches is used."""
