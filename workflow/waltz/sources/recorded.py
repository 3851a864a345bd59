"""Rows of recorded runs: those of one model on one data set, and counts of the others."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.sources.readers import RECORDED

Row = dict[str, Any]


@dataclass(frozen=True)
class RecordedRows:
    """Records of one model on one data set.

    Attributes:
        rows: Usable rows of the layout `RECORDED`, in the order of the source.
        facts: Entries of the run record: rejected rows by reason, rows of other models by model, commits, seeds.
        read: Number of rows about the data set.
    """

    rows: Sequence[Row]
    facts: Mapping[str, Any]
    read: int


def read_records(
    file: str | Path, model: Mapping[str, Any], datasets: Sequence[str], profiles: Sequence[str], *records: str
) -> Iterator[tuple[str, RecordedRows]]:
    """Yield data sets with their records of one model.

    Args:
        file: Rows of a source of recorded runs.
        model: Name of the model in the study, and `weights`; rows name one of them, or none.
        profiles: Profiles of the study.
        records: Kinds of record: `answer`, `test`, `attribution`.
    Raises:
        UserError: The source holds nothing of the model on a data set, or rows of a profile that the study lacks.
    """
    table = parquet.read(file, RECORDED)
    names = {None, model["name"], model.get("weights") or None}
    for dataset in datasets:
        about = table.filter(pc.equal(table.column("dataset"), dataset)).to_pylist()
        own = [row for row in about if row["model"] in names]
        if not own:
            others = ", ".join(sorted({row["model"] for row in about})) or "nothing"
            raise UserError(
                f"no records of {model['name']} on {dataset}: {file} (got {others}, expected {model['name']}"
                f"{' or ' + model['weights'] if model.get('weights') else ''}); correct the field model, or the study"
            )
        unknown = sorted({row["profile"] for row in own} - set(profiles))
        if unknown:
            raise UserError(
                f"study file: profiles: records of {model['name']} on {dataset} are of profile {unknown[0]}"
                f" (got {', '.join(profiles)}, expected {unknown[0]} too); add it"
            )
        selected = [row for row in own if row["record"] in records]
        rejected = Counter(row["rejected"] for row in selected if row["rejected"] is not None)
        facts = {
            "source": own[0]["source"],
            "unusable": dict(rejected.most_common(10)),
            "other_models": dict(Counter(row["model"] for row in about if row["model"] not in names)),
            "commits": sorted({row["commit"] for row in own if row["commit"]}),
            "seeds": sorted({row["seed"] for row in selected}),
            "device": "recorded",
        }
        yield dataset, RecordedRows([row for row in selected if row["rejected"] is None], facts, len(selected))
