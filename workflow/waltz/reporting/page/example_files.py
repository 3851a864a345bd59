"""What the sample browser needs, read from a study's files: few items of each data set, and their small images."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.schema import ATTRIBUTION, EVALUATION, Layout
from waltz.reporting.page.examples import ModelRun, Row, select_examples
from waltz.reporting.page.inlined import inline_image
from waltz.sources.images import load_image, open_images

SIDE = 240
"""Pixels of the longer side of a sample's image."""

Key = tuple[str, str]
"""Model and data set."""


@dataclass(frozen=True)
class RunFiles:
    """Parquet files by model and data set.

    Attributes:
        evaluation: Of the evaluation layout.
        attribution: Of the attribution layout.
        consistency: Of the tests of self-consistency.
        cc_shap: Of CC-SHAP.
    """

    evaluation: Mapping[Key, str]
    attribution: Mapping[Key, str] = field(default_factory=dict)
    consistency: Mapping[Key, str] = field(default_factory=dict)
    cc_shap: Mapping[Key, str] = field(default_factory=dict)

    def runs(self) -> list[Key]:
        """Every model and data set, once."""
        return list(dict.fromkeys([*self.evaluation, *self.attribution, *self.consistency, *self.cc_shap]))


def read_examples(
    items: Mapping[str, Sequence[Row]], files: RunFiles, n: int, seed: int
) -> tuple[dict[str, list[Row]], list[ModelRun]]:
    """The items to show of each data set, and what models made of them.

    Args:
        items: All items of each data set, by its name: rows with `item_id`.
        files: What models made of them.
        n: Most items of a data set.
        seed: The study's.
    Returns:
        The items that some model scored or explained, at most n a data set, and the rows of these alone.
    """
    ids = {}
    for dataset in items:
        explained, scored = (
            [item for run, file in of.items() if run[1] == dataset for item in _read_ids(file)]
            for of in (files.attribution, files.evaluation)
        )
        ids[dataset] = select_examples(explained, scored, n, seed)
    shown = {}
    for dataset, rows in items.items():
        known = {row["item_id"]: row for row in rows if row["item_id"] in set(ids[dataset])}
        shown[dataset] = [known[item] for item in ids[dataset] if item in known]
    runs = [
        ModelRun(
            model,
            dataset,
            _read_rows(files.evaluation.get((model, dataset)), ids[dataset], EVALUATION),
            _read_rows(files.attribution.get((model, dataset)), ids[dataset], ATTRIBUTION),
            _read_rows(files.consistency.get((model, dataset)), ids[dataset]),
            _read_rows(files.cc_shap.get((model, dataset)), ids[dataset]),
        )
        for model, dataset in files.runs()
        if dataset in items
    ]
    return {dataset: rows for dataset, rows in shown.items() if rows}, runs


@contextmanager
def open_thumbnails(folders: Mapping[str, str]) -> Iterator[Callable[[str, str], tuple[str | None, str]]]:
    """Small images by data set and name, as data URIs, or why there is none.

    Args:
        folders: By data set, the folder or archive of its images; data sets that are left out have none.
    """
    with ExitStack() as stack:
        sources = {folder: stack.enter_context(open_images(folder)) for folder in dict.fromkeys(folders.values())}

        def picture(dataset: str, name: str) -> tuple[str | None, str]:
            if dataset not in folders:
                return None, "this study has no images of the data set"
            try:
                return inline_image(load_image(sources[folders[dataset]], name), SIDE), ""
            except UserError as error:
                return None, str(error)

        yield picture


def _read_ids(file: str) -> list[str]:
    try:
        column = pq.read_table(file, columns=["item_id"], partitioning=None).column("item_id")
    except FileNotFoundError:
        raise UserError(f"{file}: no such file; run the workflow to make it") from None
    return [str(item) for item in pc.unique(column).to_pylist()]


def _read_rows(file: str | None, ids: Sequence[str], layout: Layout | None = None) -> list[dict[str, Any]]:
    """Rows of some items, none without a file; checked where there is a layout."""
    if file is None:
        return []
    table = pq.read_table(file, partitioning=None) if layout is None else parquet.read(file, layout)
    rows: list[dict[str, Any]] = table.filter(pc.is_in(table.column("item_id"), pa.array(ids, pa.string()))).to_pylist()
    return rows
