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

COUNTED = ("source", "model", "profile", "record", "rejected", "commit", "seed")
"""Columns by which rows are selected and counted."""


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
    names = [name for name in (model.name, model.weights) if name]
    for dataset in datasets:
        of_dataset = table.filter(pc.equal(table.column("dataset"), dataset))
        frame = of_dataset.select(COUNTED).to_pandas()
        # Some formats name no model: their rows belong to the model of the study's entry.
        is_of_model = frame["model"].isna() | frame["model"].isin(names)
        of_model = frame[is_of_model]
        other_models = frame.loc[~is_of_model, "model"]
        if of_model.empty:
            raise UserError(
                f"no records of {model.name} on {dataset}: {file}"
                f" (got {', '.join(sorted(set(other_models))) or 'nothing'}, expected {' or '.join(names)});"
                " correct the field model, or the study"
            )
        # The study must name the profile of every record.
        unknown = sorted(set(of_model["profile"]) - set(profiles))
        if unknown:
            raise UserError(
                f"study file: profiles: records of {model.name} on {dataset} are of profile {unknown[0]}"
                f" (got {', '.join(profiles)}, expected {unknown[0]} too); add it"
            )

        # The rows of the stage, and counts for its run record.
        selected = of_model[of_model["record"].isin(kinds)]
        is_usable = selected["rejected"].isna()
        usable = of_dataset.take(selected.index[is_usable].to_numpy())
        reasons = Counter(selected.loc[~is_usable, "rejected"])
        seeds = sorted(set(selected["seed"].tolist()))
        facts = {
            "source": of_model["source"].iloc[0],
            "unusable": dict(reasons.most_common(10)),
            "other_models": dict(Counter(other_models)),
            "commits": sorted(set(of_model["commit"].dropna())),
            "seeds": seeds,
            "device": "recorded",
        }
        yield (
            dataset,
            RecordedRows(
                rows=list(convert_to_records(usable, RecordedRecord)),
                facts=facts,
                first_seed=min(seeds, default=0),
                read=len(selected),
            ),
        )
