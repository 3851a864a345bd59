"""Commits and checksums of the download lock file, in the place of `lock` in run records and sources."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from waltz.core.files.download_lock import LOCK_ON_DOWNLOAD, read_recorded
from waltz.core.files.urls import is_url
from waltz.plan.raw_files import IMAGES
from waltz.reporting.page.run_facts import Record


def resolve_revisions(records: Sequence[Record], origins: Mapping[str, str], lock: Path) -> list[Record]:
    """Return run records with the commits or SHA-256 of the lock file in the place of `lock`.

    Args:
        records: Run records of a study.
        origins: Hub id or URL of the weights of each such model, by its name.
        lock: The download lock file.
    """
    fetched = {name: _read_lock(origin, lock) for name, origin in origins.items()}

    def resolve_model(model: Any) -> Any:
        if not isinstance(model, Mapping) or model.get("revision") != LOCK_ON_DOWNLOAD:
            return model
        return {**model, "revision": fetched.get(str(model.get("name")), LOCK_ON_DOWNLOAD)}

    def resolve_facts(record: Record) -> dict[str, Any]:
        facts = dict(record.facts)
        if "model" in facts:
            facts["model"] = resolve_model(facts["model"])
        if facts.get("models"):
            facts["models"] = {role: resolve_model(model) for role, model in facts["models"].items()}
        return facts

    return [replace(record, facts=resolve_facts(record)) for record in records]


def resolve_checksums(sources: Mapping[str, Mapping[str, Any]], lock: Path) -> dict[str, dict[str, Any]]:
    """Return a study's sources with the SHA-256 of the lock file in the place of `lock`.

    Args:
        sources: The study's sources.
        lock: The download lock file.
    """

    def resolve_file(file: Mapping[str, Any]) -> dict[str, Any]:
        return (
            {**file, "sha256": _read_lock(file["url"], lock)} if file.get("sha256") == LOCK_ON_DOWNLOAD else dict(file)
        )

    def resolve_images(entry: Any) -> Any:
        return [resolve_file(file) for file in entry] if isinstance(entry, list) else resolve_file(entry)

    return {
        name: {
            **source,
            "files": {part: resolve_file(file) for part, file in source["files"].items()},
            **({IMAGES: resolve_images(source[IMAGES])} if IMAGES in source else {}),
        }
        for name, source in sources.items()
    }


def _read_lock(origin: str, lock: Path) -> str:
    """Return the commit or SHA-256 of an origin in the lock file; `lock` where there is none."""
    key = "sha256" if is_url(origin) else "commit"
    return read_recorded(lock, origin.partition("#")[0], key) or LOCK_ON_DOWNLOAD
