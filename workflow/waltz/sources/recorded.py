"""Rows of recorded runs: the records of one model on one data set, and counts of all other rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.records import convert_to_records, get_layout
from waltz.model_registry import ModelSpec
from waltz.sources.records import RecordedRecord


@dataclass(frozen=True)
class RecordedRows:
    """The records of one model on one data set.

    Attributes:
        rows: Usable records, in the order of the source.
        facts: Entries of the run record: rejected rows by reason, rows of other models by model,
            commits, seeds.
        first_seed: Lowest seed of the rows; 0 without rows.
        read: Number of rows of the model on the data set with the requested kinds of record.
    """

    rows: Sequence[RecordedRecord]
    facts: Mapping[str, object]
    first_seed: int
    read: int


def read_recorded_runs(
    file: str | Path,
    model: ModelSpec,
    datasets: Iterable[str],
    profiles: Sequence[str],
    *kinds: str,
) -> Iterator[tuple[str, RecordedRows]]:
    """Yield each data set with the records of one model on it.

    Args:
        file: Rows of a source of recorded runs.
        model: The model; a row has its name or its weights, or names no model.
        profiles: Profiles of the study.
        kinds: Kinds of record: `answer`, `test`, `attribution`.
    Raises:
        UserError: The source has no rows of the model on a data set, or has rows of a profile that
            the study lacks.
    """
    table = parquet.read(file, get_layout(RecordedRecord))
    for dataset in datasets:
        of_dataset = table.filter(pc.equal(table.column("dataset"), dataset))
        records = list(convert_to_records(of_dataset, RecordedRecord))
        location = f"{model.name} on {dataset}"
        model_records = _select_model(file, records, model, location)
        _check_profiles(model_records, profiles, location)

        # The records of the stage, and counts for its run record.
        selected = [record for record in model_records if record.record in kinds]
        usable = [record for record in selected if record.rejected is None]
        reasons = Counter(record.rejected for record in selected if record.rejected)
        names = {record.model for record in model_records}
        other_models = Counter(
            record.model for record in records if record.model not in names
        )
        seeds = sorted({record.seed for record in selected})
        commits = {record.commit for record in model_records if record.commit}
        facts = {
            "source": model_records[0].source,
            "unusable": dict(reasons.most_common(10)),
            "other_models": dict(other_models),
            "commits": sorted(commits),
            "seeds": seeds,
            "device": "recorded",
        }
        first_seed = min(seeds, default=0)
        yield dataset, RecordedRows(usable, facts, first_seed, len(selected))


def _select_model(
    file: str | Path,
    records: Sequence[RecordedRecord],
    model: ModelSpec,
    location: str,
) -> list[RecordedRecord]:
    """Return the records of a model; without any, raise an error that names the models there are."""
    # Some formats name no model: their records belong to the model of the study's entry.
    names = {None, model.name, model.weights or None}
    model_records = [record for record in records if record.model in names]
    if model_records:
        return model_records
    recorded_models = sorted({str(record.model) for record in records})
    got = ", ".join(recorded_models) or "nothing"
    expected = model.name
    if model.weights:
        expected = f"{model.name} or {model.weights}"
    raise UserError(
        f"no records of {location}: {file} (got {got}, expected {expected}); correct the field model, or the study"
    )


def _check_profiles(
    records: Sequence[RecordedRecord], profiles: Sequence[str], location: str
) -> None:
    """Refuse records of a profile that the study does not name."""
    recorded_profiles = {record.profile for record in records}
    unknown = sorted(recorded_profiles - set(profiles))
    if unknown:
        raise UserError(
            f"study file: profiles: records of {location} are of profile {unknown[0]}"
            f" (got {', '.join(profiles)}, expected {unknown[0]} too); add it"
        )
