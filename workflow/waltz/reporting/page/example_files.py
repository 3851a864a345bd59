"""Items, results and thumbnails of the example browser, read from a study's files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from waltz.core.errors import UserError
from waltz.reporting.page.examples import ModelRun, Row, select_examples
from waltz.reporting.page.inlined import inline_image
from waltz.sources.images import load_image, open_images

SIDE = 240
"""Pixels of the longer side of an example's image."""

Key = tuple[str, str]
"""Model and data set."""


@dataclass(frozen=True)
class RunFiles:
    """Parquet files by model and data set.

    Attributes:
        evaluation: Files of the evaluation layout.
        attribution: Files of the attribution layout.
        consistency: Files of the self-consistency tests.
        cc_shap: Files of CC-SHAP.
    """

    evaluation: Mapping[Key, str]
    attribution: Mapping[Key, str] = field(default_factory=dict)
    consistency: Mapping[Key, str] = field(default_factory=dict)
    cc_shap: Mapping[Key, str] = field(default_factory=dict)

    def list_runs(self) -> list[Key]:
        """Return each model and data set once."""
        return list(dict.fromkeys([*self.evaluation, *self.attribution, *self.consistency, *self.cc_shap]))


def read_examples(
    items: Mapping[str, Sequence[Row]], files: RunFiles, n: int, seed: int
) -> tuple[dict[str, list[Row]], list[ModelRun]]:
    """Return the items to show of each data set, and the results of models on them.

    Args:
        items: All items of each data set, by its name: rows with `item_id`.
        files: Result files of the models.
        n: Largest number of items of a data set.
        seed: The study's seed.
    Returns:
        The items that some model scored or explained, at most n a data set, and their rows.
    """
    ids = {}
    for dataset in items:
        explained, scored = (
            [item for run, file in kind.items() if run[1] == dataset for item in _read_ids(file, dataset)]
            for kind in (files.attribution, files.evaluation)
        )
        ids[dataset] = select_examples(explained, scored, n, seed)
    examples = {}
    for dataset, rows in items.items():
        by_id = {row["item_id"]: row for row in rows if row["item_id"] in set(ids[dataset])}
        examples[dataset] = [by_id[item] for item in ids[dataset] if item in by_id]
    runs = [
        ModelRun(
            model,
            dataset,
            _read_rows(files.evaluation.get((model, dataset)), dataset, ids[dataset]),
            _read_rows(files.attribution.get((model, dataset)), dataset, ids[dataset]),
            _read_rows(files.consistency.get((model, dataset)), dataset, ids[dataset]),
            _read_rows(files.cc_shap.get((model, dataset)), dataset, ids[dataset]),
        )
        for model, dataset in files.list_runs()
        if dataset in items
    ]
    return {dataset: rows for dataset, rows in examples.items() if rows}, runs


@contextmanager
def open_thumbnails(folders: Mapping[str, str]) -> Iterator[Callable[[str, str], tuple[str | None, str]]]:
    """Yield a function that loads thumbnails by data set and name: a data URI, or None and the reason.

    Args:
        folders: Folder or archive of images by data set; other data sets have no images.
    """
    with ExitStack() as stack:
        sources = {folder: stack.enter_context(open_images(folder)) for folder in dict.fromkeys(folders.values())}

        def load_thumbnail(dataset: str, name: str) -> tuple[str | None, str]:
            if dataset not in folders:
                return None, "this study has no images of the data set"
            try:
                return inline_image(load_image(sources[folders[dataset]], name), SIDE), ""
            except UserError as error:
                return None, str(error)

        yield load_thumbnail


def _read_ids(file: str, dataset: str) -> list[str]:
    """Return the ids of the items of one data set in a file."""
    return [str(item) for item in pc.unique(_read_dataset(file, dataset, ["item_id"]).column("item_id")).to_pylist()]


def _read_rows(file: str | None, dataset: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of some items of one data set, none without a file."""
    if file is None:
        return []
    table = _read_dataset(file, dataset)
    rows: list[dict[str, Any]] = table.filter(pc.is_in(table.column("item_id"), pa.array(ids, pa.string()))).to_pylist()
    return rows


def _read_dataset(file: str, dataset: str, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of one data set."""
    try:
        return pq.read_table(file, columns=columns, filters=[("dataset", "==", dataset)], partitioning=None)
    except FileNotFoundError:
        raise UserError(f"{file}: no such file; run the workflow to write it") from None
