"""Check that numbers in one table come from compatible runs."""

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
    """Facts of a run record about the file next to it.

    Attributes:
        record: Path of the record.
        model: Name of the model.
        dataset: Name of the data set.
        facts: `profiles`, `dtype` and `data digest`, as texts.
    """

    record: str
    model: str
    dataset: str
    facts: Mapping[str, str]


def collect_run_facts(paths: Iterable[str | Path]) -> list[RunFacts]:
    """Read the facts of run records.

    Args:
        paths: Records `<stage>/<model>/[<kind>/]<dataset>.run.json`, each with one record or a list by shard.
    Raises:
        UserError: A record is missing or broken.
    """
    runs = []
    for path in map(Path, paths):
        try:
            records = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(
                f"{path}: run record cannot be read ({error}); delete the file next to it and run again"
            ) from None
        for record in records if isinstance(records, list) else [records]:
            model = str(record.get("model", {}).get("name", path.parent.name))
            dataset = str(record.get("dataset", path.name.removesuffix(".run.json")))
            runs.append(RunFacts(str(path), model, dataset, _extract_facts(record)))
    return runs


def write_run_facts(path: str | Path, runs: Sequence[RunFacts]) -> None:
    """Write the facts of run records, so that tables can check them across stages."""
    write_text(path, json.dumps([asdict(run) for run in runs], indent=1, sort_keys=True) + "\n")


def read_run_facts(path: str | Path) -> list[RunFacts]:
    """Read the file that `write_run_facts` wrote."""
    return [RunFacts(**run) for run in json.loads(Path(path).read_text(encoding="utf-8"))]


def check_compatible(runs: Sequence[RunFacts], profiles: Sequence[str]) -> None:
    """Raise an error if runs are not compatible.

    All hold the study's profiles; those of a model have one dtype; those on a data set have read the same items. Facts
    that a record does not state are not compared.

    Raises:
        UserError: Two runs are not compatible.
    """
    first_runs: dict[tuple[str, str], RunFacts] = {}
    for run in runs:
        missing = [profile for profile in profiles if profile not in run.facts["profiles"].split(", ")]
        if missing and run.facts["profiles"] != UNSTATED:
            raise UserError(
                f"{run.record}: profiles differ from the study (got {run.facts['profiles']}, expected"
                f" {', '.join(profiles)}); delete the file next to it and run again"
            )
        for fact, name in (("dtype", run.model), ("data digest", run.dataset)):
            if run.facts[fact] == UNSTATED:
                continue
            first_run = first_runs.setdefault((fact, name), run)
            if first_run.facts[fact] != run.facts[fact]:
                raise UserError(
                    f"{run.record}: {fact} of {name} differs from {first_run.record} (got {run.facts[fact]},"
                    f" expected {first_run.facts[fact]}); delete the file next to one of them and run again"
                )


def _extract_facts(record: Mapping[str, Any]) -> dict[str, str]:
    """Return profiles, dtype and data digest of a record."""
    settings = record.get("settings") or {}
    profiles = record.get("profiles") or [name for name in PROFILES if name in settings]
    return {
        "profiles": ", ".join(profiles) or UNSTATED,
        "dtype": str(record.get("model", {}).get("dtype", UNSTATED)),
        "data digest": str(record.get("data", UNSTATED)),
    }
