"""Download lock file of a study: checksums and commits recorded at first downloads, which later ones must match.

Jobs that fetch read and write it. It is no input of any rule, so that a new entry reruns nothing.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import yaml
from filelock import FileLock

from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text

LOCK_ON_DOWNLOAD = "lock"
"""Stands for a checksum or commit that is not known: it is recorded at the first download."""
HEADER = "# What was first fetched where no checksum is documented; later downloads must give the same.\n"


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
    value = _read(file).get(origin, {}).get(key)
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
        entries = _read(file)
        entry = entries.get(origin)
        if entry is None:
            entries[origin] = {**facts, "date": datetime.now(UTC).date().isoformat()}
            write_text(file, HEADER + yaml.safe_dump(entries, sort_keys=True, allow_unicode=True, width=1000))
            return
    for key, value in facts.items():
        if entry.get(key) != value:
            raise UserError(
                f"{origin}: {key} is {value}, {file} says {entry.get(key)} (recorded {entry.get('date')}); get the same"
                " file again, or delete the entry of the lock file if the origin has changed for good"
            )


def _read(file: Path) -> dict[str, dict[str, str | int]]:
    if not file.is_file():
        return {}
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise UserError(f"{file}: not a lock file: {str(error).splitlines()[0]}; correct or delete it") from None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise UserError(f"{file}: not a lock file: expected a mapping of origins to facts; correct or delete it")
    return entries
