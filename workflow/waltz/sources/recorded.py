"""Rows of recorded runs: the records of one model on one data set, and counts of all other rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.records import from_row, get_layout
from waltz.sources.records import RecordedRecord


@dataclass(frozen=True)
class RecordedRows:
    """The records of one model on one data set.

    Attributes:
        rows: Usable records, in the order of the source.
        facts: Entries of the run record: rejected rows by reason, rows of other models by model,
            commits, seeds.
        read: Number of rows of the model on the data set with the requested kinds of record.
    """

    rows: Sequence[RecordedRecord]
    facts: Mapping[str, Any]
    read: int


def read_recorded_runs(
    file: str | Path,
    model: Mapping[str, Any],
    datasets: Iterable[str],
    profiles: Sequence[str],
    *kinds: str,
) -> Iterator[tuple[str, RecordedRows]]:
    """Yield each data set with the records of one model on it.

    Args:
        file: Rows of a source of recorded runs.
        model: Entry of the model, with `name` and `weights`; a row names one of these, or no model.
        profiles: Profiles of the study.
        kinds: Kinds of record: `answer`, `test`, `attribution`.
    Raises:
        UserError: The source has no rows of the model on a data set, or has rows of a profile that
            the study lacks.
    """
    table = parquet.read(file, get_layout(RecordedRecord))
    for dataset in datasets:
        dataset_table = table.filter(pc.equal(table.column("dataset"), dataset))
        records = [from_row(row, RecordedRecord) for row in dataset_table.to_pylist()]
        yield dataset, _select_rows(file, records, model, dataset, profiles, kinds)


def _select_rows(
    file: str | Path,
    records: Sequence[RecordedRecord],
    model: Mapping[str, Any],
    dataset: str,
    profiles: Sequence[str],
    kinds: Sequence[str],
) -> RecordedRows:
    """Select the records of one model among all records about a data set."""
    weights = model.get("weights")
    # Some formats name no model: their records belong to the model of the study's entry.
    names = {None, model["name"], weights or None}
    model_records = [record for record in records if record.model in names]
    if not model_records:
        recorded_models = sorted({str(record.model) for record in records})
        got = ", ".join(recorded_models) or "nothing"
        expected = f"{model['name']} or {weights}" if weights else model["name"]
        raise UserError(
            f"no records of {model['name']} on {dataset}: {file} (got {got}, expected {expected});"
            " correct the field model, or the study"
        )
    # The study must name the profile of every record.
    recorded_profiles = {record.profile for record in model_records}
    unknown_profiles = sorted(recorded_profiles - set(profiles))
    if unknown_profiles:
        raise UserError(
            f"study file: profiles: records of {model['name']} on {dataset} are of profile {unknown_profiles[0]}"
            f" (got {', '.join(profiles)}, expected {unknown_profiles[0]} too); add it"
        )

    # The records of the stage, and counts for its run record.
    usable: list[RecordedRecord] = []
    reasons: Counter[str] = Counter()
    seeds: set[int] = set()
    for record in model_records:
        if record.record not in kinds:
            continue
        seeds.add(record.seed)
        if record.rejected is None:
            usable.append(record)
        else:
            reasons[record.rejected] += 1
    other_models = Counter(
        record.model for record in records if record.model not in names
    )
    facts = {
        "source": model_records[0].source,
        "unusable": dict(reasons.most_common(10)),
        "other_models": dict(other_models),
        "commits": sorted({record.commit for record in model_records if record.commit}),
        "seeds": sorted(seeds),
        "device": "recorded",
    }
    return RecordedRows(usable, facts, len(usable) + reasons.total())
