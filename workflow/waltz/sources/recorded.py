"""Rows of recorded runs: the records of one model on one data set, and counts of all other rows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.records import get_layout
from waltz.sources.records import RecordedRecord

Row = dict[str, Any]


@dataclass(frozen=True)
class RecordedRows:
    """The records of one model on one data set.

    Attributes:
        rows: Usable rows of the layout `RECORDED`, in the order of the source.
        facts: Entries of the run record: rejected rows by reason, rows of other models by model,
            commits, seeds.
        read: Number of rows of the model on the data set with the requested kinds of record.
    """

    rows: Sequence[Row]
    facts: Mapping[str, Any]
    read: int


def read_records(
    file: str | Path,
    model: Mapping[str, Any],
    datasets: Sequence[str],
    profiles: Sequence[str],
    *records: str,
) -> Iterator[tuple[str, RecordedRows]]:
    """Yield each data set with the records of one model on it.

    Args:
        file: Rows of a source of recorded runs.
        model: Entry of the model, with `name` and `weights`; a row names one of these, or no model.
        profiles: Profiles of the study.
        records: Kinds of record: `answer`, `test`, `attribution`.
    Raises:
        UserError: The source has no rows of the model on a data set, or has rows of a profile that
            the study lacks.
    """
    table = parquet.read(file, get_layout(RecordedRecord))
    for dataset in datasets:
        dataset_rows = table.filter(
            pc.equal(table.column("dataset"), dataset)
        ).to_pylist()
        yield (
            dataset,
            _select_rows(file, dataset_rows, model, dataset, profiles, records),
        )


def _select_rows(
    file: str | Path,
    dataset_rows: Sequence[Row],
    model: Mapping[str, Any],
    dataset: str,
    profiles: Sequence[str],
    records: Sequence[str],
) -> RecordedRows:
    """Select the records of one model among all rows about a data set."""
    weights = model.get("weights")
    # Some formats name no model: their rows belong to the model of the study's entry.
    names = {None, model["name"], weights or None}
    model_rows = [row for row in dataset_rows if row["model"] in names]
    if not model_rows:
        recorded_models = (
            ", ".join(sorted({row["model"] for row in dataset_rows})) or "nothing"
        )
        expected = f"{model['name']} or {weights}" if weights else model["name"]
        raise UserError(
            f"no records of {model['name']} on {dataset}: {file} (got {recorded_models}, expected {expected});"
            " correct the field model, or the study"
        )
    # The study must name the profile of every row.
    unknown_profiles = sorted({row["profile"] for row in model_rows} - set(profiles))
    if unknown_profiles:
        raise UserError(
            f"study file: profiles: records of {model['name']} on {dataset} are of profile {unknown_profiles[0]}"
            f" (got {', '.join(profiles)}, expected {unknown_profiles[0]} too); add it"
        )

    # The rows of the stage, and counts for its run record.
    selected = [row for row in model_rows if row["record"] in records]
    usable = [row for row in selected if row["rejected"] is None]
    reasons = Counter(
        row["rejected"] for row in selected if row["rejected"] is not None
    )
    other_models = Counter(
        row["model"] for row in dataset_rows if row["model"] not in names
    )
    facts = {
        "source": model_rows[0]["source"],
        "unusable": dict(reasons.most_common(10)),
        "other_models": dict(other_models),
        "commits": sorted({row["commit"] for row in model_rows if row["commit"]}),
        "seeds": sorted({row["seed"] for row in selected}),
        "device": "recorded",
    }
    return RecordedRows(usable, facts, len(selected))
