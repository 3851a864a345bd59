"""Refusing to put numbers of unlike runs into one table."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text

UNSTATED = "not stated"
PROFILES = ("equations", "published")


@dataclass(frozen=True)
class RunFacts:
    """What the record of a run says about the file beside it.

    Attributes:
        record: Path of the record.
        model: The model.
        dataset: The data set.
        facts: `profiles`, `dtype` and `data digest`, as texts.
    """

    record: str
    model: str
    dataset: str
    facts: Mapping[str, str]


def collect_run_facts(paths: Iterable[str | Path]) -> list[RunFacts]:
    """The runs behind some files.

    Args:
        paths: Records `<stage>/<model>/[<kind>/]<dataset>.run.json`, each one record or a list of those of its shards.
    Raises:
        UserError: A record is missing or broken.
    """
    found = []
    for path in map(Path, paths):
        try:
            records = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: no whole run record ({error}); delete the file beside it and run again") from None
        for record in records if isinstance(records, list) else [records]:
            model = str(record.get("model", {}).get("name", path.parent.name))
            dataset = str(record.get("dataset", path.name.removesuffix(".run.json")))
            found.append(RunFacts(str(path), model, dataset, _extract_facts(record)))
    return found


def write_run_facts(path: str | Path, runs: Sequence[RunFacts]) -> None:
    """Write what records say, for tables to check across stages."""
    write_text(path, json.dumps([asdict(run) for run in runs], indent=1, sort_keys=True) + "\n")


def read_run_facts(path: str | Path) -> list[RunFacts]:
    """What `write_made` wrote."""
    return [RunFacts(**run) for run in json.loads(Path(path).read_text(encoding="utf-8"))]


def check_compatible(runs: Sequence[RunFacts], profiles: Sequence[str]) -> None:
    """Refuse runs that do not belong together.

    All hold the study's profiles; those of a model have one dtype; those on a data set have read the same items. What a
    record does not state disagrees with nothing.

    Raises:
        UserError: The first two that disagree, and on what.
    """
    first: dict[tuple[str, str], RunFacts] = {}
    for run in runs:
        missing = [profile for profile in profiles if profile not in run.facts["profiles"].split(", ")]
        if missing and run.facts["profiles"] != UNSTATED:
            raise UserError(
                f"{run.record}: profiles {run.facts['profiles']}, but the study asks for {', '.join(profiles)};"
                " delete the file beside it and run again"
            )
        for fact, of in (("dtype", run.model), ("data digest", run.dataset)):
            if run.facts[fact] == UNSTATED:
                continue
            known = first.setdefault((fact, of), run)
            if known.facts[fact] != run.facts[fact]:
                raise UserError(
                    f"{run.record}: {fact} {run.facts[fact]}, but {known.record}: {known.facts[fact]};"
                    f" numbers of {of} cannot stand in one table: delete the file beside one of them and run again"
                )


def _extract_facts(record: Mapping[str, Any]) -> dict[str, str]:
    settings = record.get("settings") or {}
    profiles = record.get("profiles") or [name for name in PROFILES if name in settings]
    return {
        "profiles": ", ".join(profiles) or UNSTATED,
        "dtype": str(record.get("model", {}).get("dtype", UNSTATED)),
        "data digest": str(record.get("data", UNSTATED)),
    }
