"""What first downloads gave, so that later ones are held to it: the lock file of a study.

It is read and written by the jobs that fetch, and is no input of any rule, so that a new entry makes nothing run again.
"""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml

from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text

LOCK_ON_DOWNLOAD = "lock"
"""In the place of a checksum or commit that is not known: record it on the first download."""
HEADER = "# What was first fetched where no checksum is documented; later downloads must give the same.\n"


def read_recorded(file: Path, origin: str, key: str) -> str | None:
    """What the lock file holds for an origin.

    Args:
        file: The lock file, which need not exist.
        origin: A url, or an id on the hub.
        key: `sha256` or `commit`.
    Raises:
        UserError: The file is none that this module writes.
    """
    value = _read(file).get(origin, {}).get(key)
    return None if value is None else str(value)


def record_download(file: Path, origin: str, facts: Mapping[str, str | int]) -> None:
    """Add what an origin gave, with today's date; nothing is written where the same is recorded.

    Several processes may do so at once.

    Args:
        file: The lock file.
        origin: A url, or an id on the hub.
        facts: `sha256` and `size` (bytes) of a file, or the `commit` of a repository.
    Raises:
        UserError: Something else is recorded for the origin.
    """
    with _held(file):
        entries = _read(file)
        known = entries.get(origin)
        if known is None:
            entries[origin] = {**facts, "date": datetime.now(UTC).date().isoformat()}
            write_text(file, HEADER + yaml.safe_dump(entries, sort_keys=True, allow_unicode=True, width=1000))
            return
    for key, value in facts.items():
        if known.get(key) != value:
            raise UserError(
                f"{origin}: {key} is {value}, {file} says {known.get(key)} (recorded {known.get('date')}); get the same"
                " file again, or take the entry out of the lock file if the origin has changed for good"
            )


@contextmanager
def _held(file: Path) -> Iterator[None]:
    """One process at a time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_name(f".{file.name}.held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _read(file: Path) -> dict[str, dict[str, str | int]]:
    if not file.is_file():
        return {}
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise UserError(f"{file}: no lock file: {str(error).splitlines()[0]}; correct or delete it") from None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise UserError(f"{file}: no lock file: it is no list of origins with their facts; correct or delete it")
    return entries
