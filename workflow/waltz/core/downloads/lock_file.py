"""The download lock file of a study: checksums and commits of first downloads, which later
downloads must match.

Jobs that fetch files read and write it. It is not an input of any rule, so a new entry does not
rerun any job.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from waltz.core.downloads.checksums import CHECKSUM, compute_sha256
from waltz.core.downloads.urls import name_origin
from waltz.core.errors import UserError, get_first_line
from waltz.core.files.atomic import write_text
from waltz.core.files.bounded_yaml import read_yaml
from waltz.core.files.locks import hold_shared_lock
from waltz.core.redaction import describe_value

LOCK_FILE_HEADER = "# What was first fetched where no checksum is documented; later downloads must give the same.\n"


class LockEntry(BaseModel):
    """Entry of an origin: checksum and size of the file, or commit of the repository, at the first
    download.

    Attributes:
        sha256: Checksum of the file; None for a repository.
        size: Size of the file in bytes; None for a repository.
        commit: Commit of the repository; None for a file.
        date: Date of the first download, as YYYY-MM-DD.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    sha256: Annotated[str, Field(pattern=CHECKSUM)] | None = None
    size: Annotated[int, Field(ge=0)] | None = None
    commit: Annotated[str, Field(pattern="^[0-9a-f]{1,64}$")] | None = None
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


LOCK_ENTRIES = TypeAdapter(dict[str, LockEntry])
"""Validator of the content of a lock file: entries by the name of their origin."""


def read_recorded(file: Path, origin: str, key: str) -> str | None:
    """Return the checksum or commit that the lock file records for an origin; None if it records
    none.

    Args:
        file: The lock file, which need not exist.
        origin: A url, or an id on the hub.
        key: `sha256` or `commit`.
    Raises:
        UserError: The file is not a lock file.
    """
    entry = _read_lock_file(file).get(name_origin(origin))
    value = getattr(entry, key, None)
    return None if value is None else str(value)


def record_download(file: Path, origin: str, facts: Mapping[str, str | int]) -> None:
    """Record checksum or commit of a download with today's date, or compare them with the existing
    entry.

    Several processes may call this at the same time.

    Args:
        file: The lock file.
        origin: A url, or an id on the hub.
        facts: `sha256` and `size` (bytes) of a file, or the `commit` of a repository.
    Raises:
        UserError: The entry of the origin differs.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    name = name_origin(origin)
    # Read and write under one lock, so that no process overwrites the entry of another.
    with hold_shared_lock(file.with_name(f".{file.name}.lock")):
        entries = _read_lock_file(file)
        entry = entries.get(name)
        if entry is None:
            entries[name] = _build_entry(name, facts)
            _write_lock_file(file, entries)
            return
    for key, value in facts.items():
        recorded = getattr(entry, key)
        if recorded != value:
            raise UserError(
                f"{name}: {key} is {value}, {file} says {recorded} (recorded {entry.date}); get the same"
                " file again, or delete the entry of the lock file if the origin has changed for good"
            )


def _build_entry(name: str, facts: Mapping[str, str | int]) -> LockEntry:
    """Return an entry with today's date (UTC).

    Raises:
        UserError: The facts are not a checksum and size, or a commit.
    """
    try:
        return LockEntry.model_validate(
            {**facts, "date": datetime.now(UTC).date().isoformat()}
        )
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]["msg"]
        raise UserError(
            f"{name}: gives no checksum or commit ({fault}); correct the address"
        ) from None


def _write_lock_file(file: Path, entries: Mapping[str, LockEntry]) -> None:
    """Write the entries of a lock file, sorted by origin."""
    content = {
        origin: entry.model_dump(exclude_none=True) for origin, entry in entries.items()
    }
    write_text(
        file,
        LOCK_FILE_HEADER
        + yaml.safe_dump(content, sort_keys=True, allow_unicode=True, width=1000),
    )


def record_file(lock_file: Path, origin: str, path: Path) -> None:
    """Record checksum and size of a downloaded file; see `record_download`."""
    record_download(
        lock_file, origin, {"sha256": compute_sha256(path), "size": path.stat().st_size}
    )


def _read_lock_file(file: Path) -> dict[str, LockEntry]:
    """Return the entries of a lock file by origin; no entries if the file is absent.

    Raises:
        UserError: The file is not a lock file.
    """
    if not file.exists():
        return {}
    if not file.is_file():
        raise UserError(
            f"{file}: not a lock file: it is a folder or device; remove it, or name another file"
        )
    try:
        entries = LOCK_ENTRIES.validate_python(read_yaml(file) or {})
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        key = ": ".join(map(str, detail["loc"]))
        fault = f"{key}: {detail['msg']} (got {describe_value(detail['input'])[:80]})"
        raise UserError(
            f"{file}: not a lock file: {fault}; correct or delete it"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(
            f"{file}: not a lock file: {get_first_line(error)}; correct or delete it"
        ) from None
    # Older files contain whole urls, whose queries may be keys.
    return {name_origin(origin): entry for origin, entry in entries.items()}
