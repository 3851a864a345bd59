"""Files of one model on the data sets of one group: rows with a column `dataset`, and one run record a data set."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.files.downloads import compute_sha256
from waltz.core.job_records import build_record
from waltz.core.schema import POSITION, Layout

ProfileName = TypeVar("ProfileName", bound=str)
Run = tuple[str, str]
"""A model and a data set."""


@dataclass(frozen=True)
class DatasetFiles:
    """Files of one data set that a model job reads.

    Attributes:
        name: Name of the data set.
        rows: Parquet file of its items, or of the rows that its items are made of.
        images: Folder, archive or list of its images; empty for a model that sees none.
        settings: Its form, and the study's entry of questions, text tasks and texts with other images.
    """

    name: str
    rows: str
    images: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def select_profiles(self, profiles: Iterable[ProfileName]) -> list[ProfileName]:
        """Return the profiles in which models are run on the data set."""
        own = self.settings.get("profiles")
        return [profile for profile in profiles if own is None or profile in own]


@dataclass(frozen=True)
class DatasetResult:
    """Result of a model job on one data set.

    Attributes:
        dataset: The files that it read.
        tables: Rows by name of the output.
        rows_in: Number of items or rows that it read.
        facts: Further entries of the run record.
    """

    dataset: DatasetFiles
    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    rows_in: int
    facts: Mapping[str, Any] = field(default_factory=dict)


def list_dataset_files(
    datasets: Mapping[str, Mapping[str, Any]], rows: Sequence[str], images: Sequence[str] | None = None
) -> list[DatasetFiles]:
    """Return the files of each data set of a group; `images` is None or empty for a model that sees none."""
    pictures = images or [""] * len(datasets)
    named = zip(datasets.items(), rows, pictures, strict=True)
    return [DatasetFiles(name, file, picture, settings) for (name, settings), file, picture in named]


def write_results(
    outputs: Mapping[str, tuple[str, Layout]], record: str, results: Iterable[DatasetResult], **facts: Any
) -> None:
    """Write the results of a model job: one Parquet file per output, and a list of run records.

    Args:
        outputs: Path and layout of each output by its name; the first one's rows are counted in the records.
        record: Path of the run records.
        results: One result per data set; computing the next one is timed as its work.
        facts: Entries of all records; `model` is the entry of the model, with its name.
    """
    tables: dict[str, list[pa.Table]] = {name: [] for name in outputs}
    records, start = [], time.perf_counter()
    for result in results:
        for name, (_, layout) in outputs.items():
            rows = [{"dataset": result.dataset.name, **row} for row in result.tables[name]]
            tables[name].append(parquet.build_table(rows, layout.with_dataset()))
        records.append(
            build_record(
                rows_in=result.rows_in,
                rows_out=len(result.tables[next(iter(outputs))]),
                seconds=round(time.perf_counter() - start, 3),
                dataset=result.dataset.name,
                data=compute_sha256(result.dataset.rows),
                **facts,
                **result.facts,
            )
        )
        start = time.perf_counter()
    contents = {"model": facts["model"]["name"], "datasets": json.dumps([entry["dataset"] for entry in records])}
    for name, (path, layout) in outputs.items():
        parquet.write(path, pa.concat_tables(tables[name]), layout.with_dataset(), **contents)
    write_text(record, json.dumps(records, indent=1, sort_keys=True) + "\n")


def read_runs(
    paths: Iterable[str | Path], layout: Layout, runs: Iterable[Sequence[str]] | None = None
) -> dict[Run, pa.Table]:
    """Return the rows of each run, without the column `dataset`.

    Args:
        paths: Files that `write_results` or `merge_shards` wrote.
        layout: Layout of the rows.
        runs: Runs to return, in this order; all that have rows where absent. A run without rows gets an empty table.
    Raises:
        UserError: A file is missing, broken, of another layout, or of another model or group than its place says.
    """
    requested = None if runs is None else [(model, dataset) for model, dataset in runs]
    tables: dict[Run, pa.Table] = {}
    origins: dict[Run, str | Path] = {}
    for path in paths:
        table, held = parquet.read(path, layout.with_dataset()), _list_runs(path)
        if requested is not None and held and not set(held) & set(requested):
            raise UserError(
                f"{path}: holds {' on '.join(held[0])}, expected {' on '.join(requested[0])}: it is the file of another"
                " model or group; delete it and run again"
            )
        for run in held:
            if run in origins:
                raise UserError(f"{path}: holds {' on '.join(run)}, as {origins[run]} does; delete both and run again")
            origins[run] = path
            rows = table.filter(pc.equal(table.column("dataset"), run[1])).drop_columns("dataset")
            tables[run] = rows.cast(layout.schema)
    if requested is None:
        return {run: table for run, table in tables.items() if table.num_rows}
    return {run: tables.get(run, layout.schema.empty_table()) for run in requested}


def _list_runs(path: str | Path) -> list[Run]:
    """Return the runs that a file says it holds, including those without rows."""
    metadata = parquet.read_metadata(path)
    if not {"model", "datasets"} <= set(metadata):
        raise UserError(f"{path}: does not say of which model and data sets it is; delete it and run again")
    return [(metadata["model"], dataset) for dataset in json.loads(metadata["datasets"])]


def read_run_rows(
    paths: Iterable[str | Path], layout: Layout, runs: Iterable[Sequence[str]] | None = None
) -> dict[Run, list[dict[str, Any]]]:
    """Return the rows of each run as dictionaries; arguments as of `read_runs`."""
    return {run: table.to_pylist() for run, table in read_runs(paths, layout, runs).items()}


def merge_shards(
    paths: Sequence[str], records: Sequence[str], path: str, record: str, layout: Layout, order: Sequence[str]
) -> None:
    """Merge the files and run records of a model job's shards.

    Args:
        order: Columns that the rows of a data set are sorted by, data sets by name; `POSITION` alone restores the order
            that rows and data sets have in a single shard.
    Raises:
        UserError: A shard is broken, or of another model or group than the first.
    """
    for shard in paths:
        if _list_runs(shard) != _list_runs(paths[0]):
            raise UserError(f"{shard}: is of another model or group than {paths[0]}; delete both and run again")
    if list(order) == [POSITION]:
        table = _restore_order(
            pa.concat_tables([parquet.read(shard, layout.with_position().with_dataset()) for shard in paths])
        )
    else:
        table = pa.concat_tables([parquet.read(shard, layout.with_dataset()) for shard in paths])
        table = table.sort_by([(name, "ascending") for name in ("dataset", *order)])
    parquet.write(path, table, layout.with_dataset(), **parquet.read_metadata(paths[0]))
    merged = [entry for shard in records for entry in json.loads(Path(shard).read_text(encoding="utf-8"))]
    write_text(record, json.dumps(merged, indent=1, sort_keys=True) + "\n")


def _restore_order(table: pa.Table) -> pa.Table:
    """Return rows by data set, in the order of appearance, and by position, without that column."""
    datasets = {name: place for place, name in enumerate(pc.unique(table.column("dataset")).to_pylist())}
    places = [datasets[name] for name in table.column("dataset").to_pylist()]
    keys = list(zip(places, table.column(POSITION).to_pylist(), strict=True))
    return table.take(sorted(range(len(keys)), key=keys.__getitem__)).drop_columns(POSITION)
