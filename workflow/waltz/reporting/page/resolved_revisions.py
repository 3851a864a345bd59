"""What was really fetched where a study says `lock`: commits and checksums of its lock file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from waltz.core.files.download_lock import LOCK_ON_DOWNLOAD, read_recorded
from waltz.core.files.urls import is_url
from waltz.plan.raw_files import IMAGES
from waltz.reporting.page.run_facts import Record


def resolve_revisions(records: Sequence[Record], origins: Mapping[str, str], lock: Path) -> list[Record]:
    """Run records whose models say the commit or the SHA-256 that the lock file holds in the place of `lock`.

    Args:
        records: Of a study.
        origins: Hub id or url of each such model's weights, by the model's name.
        lock: The lock file.
    """
    fetched = {name: _read_lock(origin, lock) for name, origin in origins.items()}

    def settled(model: Any) -> Any:
        if not isinstance(model, Mapping) or model.get("revision") != LOCK_ON_DOWNLOAD:
            return model
        return {**model, "revision": fetched.get(str(model.get("name")), LOCK_ON_DOWNLOAD)}

    def facts(record: Record) -> dict[str, Any]:
        found = dict(record.facts)
        if "model" in found:
            found["model"] = settled(found["model"])
        if found.get("models"):
            found["models"] = {role: settled(model) for role, model in found["models"].items()}
        return found

    return [replace(record, facts=facts(record)) for record in records]


def resolve_checksums(sources: Mapping[str, Mapping[str, Any]], lock: Path) -> dict[str, dict[str, Any]]:
    """A study's sources whose files say the SHA-256 that the lock file holds in the place of `lock`.

    Args:
        sources: As the study has them.
        lock: The lock file.
    """

    def settled(file: Mapping[str, Any]) -> dict[str, Any]:
        return (
            {**file, "sha256": _read_lock(file["url"], lock)} if file.get("sha256") == LOCK_ON_DOWNLOAD else dict(file)
        )

    def images(entry: Any) -> Any:
        return [settled(place) for place in entry] if isinstance(entry, list) else settled(entry)

    return {
        name: {
            **source,
            "files": {part: settled(file) for part, file in source["files"].items()},
            **({IMAGES: images(source[IMAGES])} if IMAGES in source else {}),
        }
        for name, source in sources.items()
    }


def _read_lock(origin: str, lock: Path) -> str:
    """What the lock file holds for an origin; `lock` where it holds nothing."""
    key = "sha256" if is_url(origin) else "commit"
    return read_recorded(lock, origin.partition("#")[0], key) or LOCK_ON_DOWNLOAD
