"""Checks of received files by their content, for files whose checksum is not known yet."""

import gzip
import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import ijson

from waltz.core.errors import get_first_line

HEAD_BYTES = 1024
"""Bytes at the start of a file that tell web pages and texts from other files."""
CHUNK_BYTES = 1 << 20
STARTS = (
    ((".gz", ".tgz"), (b"\x1f\x8b",)),
    ((".tar.bz2",), (b"BZh",)),
    ((".tar.xz",), (b"\xfd7zXZ",)),
    ((".zip", ".npz"), (b"PK",)),
    ((".json", ".jsonl"), (b"{", b"[", b'"', b"\xef\xbb\xbf")),
    ((".parquet",), (b"PAR1",)),
    ((".pth", ".pt", ".bin", ".pkl"), (b"PK\x03\x04", b"\x80", b"(", b"}")),
)
"""First bytes of files by the ends of their names."""
PAGE_STARTS = (b"<!doctype html", b"<html", b"<head", b"<body")
CONTENT_ERRORS = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, tarfile.TarError, ijson.JSONError)
"""Errors of readers for a file that is not of its format, or not complete."""


def find_content_fault(path: Path, name: str) -> str | None:
    """Return why a file cannot be what its name says, or None.

    Every file must not be empty or a web page. Archives, compressed files, JSON and safetensors are read to their end,
    so that a file that was cut is noticed; images, Parquet and PyTorch files are judged by their first and last bytes.

    Args:
        path: The file.
        name: Its name at its origin, such as `train.json.gz`.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        return "it is empty"
    if is_web_page(head) and not name.lower().endswith((".html", ".htm")):
        return "it is a web page"
    for suffixes, check in CHECKS:
        if name.lower().endswith(suffixes):
            try:
                fault = check(path, head)
            except CONTENT_ERRORS as error:
                fault = get_first_line(error)
            return f"it is no complete {suffixes[0].removeprefix('.')} file: {fault}" if fault else None
    return None


def find_head_fault(head: bytes, name: str) -> str | None:
    """Return why a file with these first bytes cannot be what its name says, or None.

    Args:
        head: The first bytes, at most `HEAD_BYTES`.
        name: Its name at its origin.
    """
    lowered = name.lower()
    if not head:
        return "it is empty"
    if is_web_page(head) and not lowered.endswith((".html", ".htm")):
        return "it is a web page"
    starts = next((starts for suffixes, starts in STARTS if lowered.endswith(suffixes)), None)
    if starts and not head.lstrip().startswith(starts):
        return f"its first bytes are not those of a {Path(lowered).suffix.removeprefix('.')} file"
    return None


def is_web_page(head: bytes) -> bool:
    """Return whether the first bytes of a file are those of an HTML page."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(PAGE_STARTS)


def _check_zip(path: Path, _: bytes) -> str | None:
    return None if zipfile.is_zipfile(path) else "it has no directory at its end"


def _check_tar(path: Path, _: bytes) -> str | None:
    with tarfile.open(path) as archive:
        for member in archive:
            if archive.fileobj and member.isreg():
                archive.fileobj.seek(member.offset_data + member.size - 1 if member.size else member.offset_data)
                if member.size and not archive.fileobj.read(1):
                    return f"{member.name} is cut"
    return None


def _check_gzip(path: Path, _: bytes) -> str | None:
    with gzip.open(path) as file:
        while file.read(CHUNK_BYTES):
            pass
    return None


def _check_json(path: Path, _: bytes) -> str | None:
    with path.open("rb") as file:
        for _event in ijson.basic_parse(file):
            pass
    return None


def _check_json_lines(path: Path, _: bytes) -> str | None:
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                json.loads(line)
    return None


def _check_safetensors(path: Path, head: bytes) -> str | None:
    length = int.from_bytes(head[:8], "little")
    size = path.stat().st_size
    if len(head) < 9 or head[8:9] != b"{" or length > size:
        return "it does not begin with a header"
    with path.open("rb") as file:
        header = json.loads(file.read(8 + length)[8:])
    end = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
    return None if size == 8 + length + end else f"it has {size} bytes, its header says {8 + length + end}"


def _check_parquet(path: Path, head: bytes) -> str | None:
    with path.open("rb") as file:
        file.seek(-4, 2)
        return None if head[:4] == file.read() == b"PAR1" else "it does not begin and end with PAR1"


def _check_torch(_: Path, head: bytes) -> str | None:
    return None if head.startswith((b"PK\x03\x04", b"\x80")) else "it is neither a zip nor a pickle"


def _check_image(_: Path, head: bytes) -> str | None:
    is_image = head.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")) or (
        head.startswith(b"RIFF") and head[8:12] == b"WEBP"
    )
    return None if is_image else "its first bytes are of no image format"


def _check_text(_: Path, head: bytes) -> str | None:
    return "it contains binary data" if b"\0" in head else None


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
"""Check of each format, by the ends of names; the first that matches holds."""
