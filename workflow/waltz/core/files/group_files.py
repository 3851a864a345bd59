"""Result files of a job, which runs one model on one group of data sets: rows, and a run record for
each data set.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from waltz.core.downloads.checksums import compute_sha256
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.jobs.records import Facts, build_run_record
from waltz.core.layout import POSITION, Layout, Row
from waltz.core.records import (
    AnyRecord,
    Record,
    build_frame,
    convert_to_records,
    get_layout,
    to_row,
)

ProfileName = TypeVar("ProfileName", bound=str)
Run = tuple[str, str]
"""Names of a model and a data set."""


class DatasetSettings(TypedDict, total=False):
    """Settings of a data set: its form, and keys of the study's entry for questions, text tasks and
    mismatched texts.

    Attributes:
        form: `pairs`, `probes`, `open`, `choice` or `recorded`, as `plan.datasets.Dataset` explains.
        source: Source that the data set is built from.
        size: Number of questions or items; None takes all.
        choice: Rule that selects the items of a published sample.
        profiles: Fidelities in which models run on the data set.
    """

    form: str
    source: str
    size: int | None
    choice: str
    profiles: Sequence[str]


@dataclass(frozen=True)
class DatasetFiles:
    """Files of one data set that a model job reads.

    Attributes:
        name: Name of the data set.
        rows: Parquet file of its items, or of the rows that its items are made of.
        images: Folder, archive or list of its images; empty for a model that reads no images.
        settings: Settings of the data set.
    """

    name: str
    rows: str
    images: str = ""
    settings: DatasetSettings = field(default_factory=DatasetSettings)

    def select_profiles(self, profiles: Iterable[ProfileName]) -> list[ProfileName]:
        """Return the fidelities in which the study runs models on the data set."""
        # Only texts with other images are limited to some profiles.
        allowed = self.settings.get("profiles")
        if allowed is None:
            return list(profiles)
        return [profile for profile in profiles if profile in allowed]


@dataclass(frozen=True, slots=True)
class Shard:
    """Describe one of the jobs that share a model's work on a group of data sets.

    Attributes:
        index: Number of the job, from 0.
        count: Number of jobs.
    """

    index: int
    count: int

    @property
    def items(self) -> slice:
        """Return the slice of the items of this job: every `count`-th item."""
        return slice(self.index, None, self.count)

    def __str__(self) -> str:
        """Return the number of the job, counted from 1, and the number of jobs."""
        return f"{self.index + 1} of {self.count}"


@dataclass(frozen=True)
class DatasetResult:
    """Result of a model job on one data set.

    Attributes:
        dataset: The files that the job read.
        tables: Records, or rows as dictionaries, of each output by its name.
        rows_in: Number of items or rows that the job read.
        facts: Further entries of the run record.
    """

    dataset: DatasetFiles
    tables: Mapping[str, Sequence[Record | Row]]
    rows_in: int
    facts: Facts = field(default_factory=dict)


def list_dataset_files(
    datasets: Mapping[str, DatasetSettings],
    rows: Sequence[str],
    images: Sequence[str] | None = None,
) -> list[DatasetFiles]:
    """Return the files of each data set in a group; `images` is None or empty for a model that
    reads no images.
    """
    image_files = images or [""] * len(datasets)
    files = []
    for (name, settings), row_file, image_file in zip(
        datasets.items(), rows, image_files, strict=True
    ):
        files.append(DatasetFiles(name, row_file, image_file, settings))
    return files


def write_results(
    outputs: Mapping[str, tuple[str, Layout]],
    record: str,
    results: Iterable[DatasetResult],
    **facts: Any,
) -> None:
    """Write the results of a model job: one Parquet file per output, and a list of run records.

    Args:
        outputs: Path and layout of each output by its name; the records count the rows of the first
            output.
        record: Path of the run records.
        results: One result per data set; the time until the iterator yields a result counts as its
            wall time.
        facts: Entries of all records; `model` is the entry of the model, with its name.
    """
    # Collect one table per data set; they are written together at the end.
    tables: dict[str, list[pa.Table]] = {name: [] for name in outputs}
    records = []
    first_output = next(iter(outputs))
    start = time.perf_counter()
    for result in results:
        # Every row gets the name of its data set as its first column.
        for name, (_, layout) in outputs.items():
            rows = (
                {"dataset": result.dataset.name, **to_row(record)}
                for record in result.tables[name]
            )
            tables[name].append(parquet.build_table(rows, layout.with_dataset()))
        records.append(
            build_run_record(
                rows_in=result.rows_in,
                rows_out=len(result.tables[first_output]),
                seconds=round(time.perf_counter() - start, 3),
                dataset=result.dataset.name,
                data=compute_sha256(result.dataset.rows),
                **facts,
                **result.facts,
            )
        )
        start = time.perf_counter()

    # The metadata also contain data sets without rows, which the column `dataset` cannot show.
    datasets = json.dumps([entry["dataset"] for entry in records])
    for name, (path, layout) in outputs.items():
        table = pa.concat_tables(tables[name])
        parquet.write(
            path,
            table,
            layout.with_dataset(),
            model=facts["model"]["name"],
            datasets=datasets,
        )
    _write_records(record, records)


def _write_records(path: str, records: Sequence[Facts]) -> None:
    """Write run records of several data sets."""
    write_text(path, json.dumps(records, indent=1, sort_keys=True) + "\n")


def read_runs(
    paths: Iterable[str | Path],
    layout: Layout,
    runs: Iterable[Sequence[str]] | None = None,
) -> dict[Run, pa.Table]:
    """Return the rows of each run, without the column `dataset`.

    Args:
        paths: Files that `write_results` or `merge_shards` wrote.
        layout: Layout of the rows.
        runs: Runs to return, in this order; None returns all runs that have rows. A requested run
            without rows gets an empty table.
    Raises:
        UserError: A file is missing, broken, of another layout, or of another model or group than
            its path says.
    """
    requested: list[Run] | None = None
    if runs is not None:
        requested = [(model, dataset) for model, dataset in runs]

    tables: dict[Run, pa.Table] = {}
    for run, path in _locate_runs(paths, requested).items():
        tables[run] = _read_run(path, run, layout)
    if requested is None:
        return _drop_empty(tables)

    empty_table = layout.schema.empty_table()
    return {run: tables.get(run, empty_table) for run in requested}


def _drop_empty(tables: Mapping[Run, pa.Table]) -> dict[Run, pa.Table]:
    return {run: table for run, table in tables.items() if table.num_rows > 0}


def _locate_runs(
    paths: Iterable[str | Path], requested: Sequence[Run] | None
) -> dict[Run, str | Path]:
    """Return the file of each run; arguments and errors as of `read_runs`."""
    # A run must come from one file only, else its rows would count twice.
    origins: dict[Run, str | Path] = {}
    for path in paths:
        stored_runs = _list_runs(path)
        if requested is not None:
            _check_requested(path, stored_runs, requested)
        for run in stored_runs:
            if run in origins:
                raise UserError(
                    f"{path}: holds {' on '.join(run)}, as {origins[run]} does; delete both and run again"
                )
            origins[run] = path
    return origins


def _read_run(path: str | Path, run: Run, layout: Layout) -> pa.Table:
    """Return the rows of a run, without the column `dataset`, which is part of their key."""
    _, dataset = run
    is_of_dataset = pc.field("dataset") == dataset
    rows = parquet.read(path, layout.with_dataset(), is_of_dataset)
    return rows.drop_columns("dataset").cast(layout.schema)


def _check_requested(
    path: str | Path, stored_runs: Sequence[Run], requested: Sequence[Run]
) -> None:
    """Refuse a file that contains runs, but no requested one."""
    if stored_runs and not set(stored_runs) & set(requested):
        raise UserError(
            f"{path}: holds {' on '.join(stored_runs[0])}, expected {' on '.join(requested[0])}: it is the file of"
            " another model or group; delete it and run again"
        )


def _list_runs(path: str | Path) -> list[Run]:
    """Return the runs in a file by its metadata, including runs without rows."""
    metadata = parquet.read_metadata(path)
    if not {"model", "datasets"} <= set(metadata):
        raise UserError(
            f"{path}: does not say of which model and data sets it is; delete it and run again"
        )
    return [
        (metadata["model"], dataset) for dataset in json.loads(metadata["datasets"])
    ]


def read_run_records(
    paths: Iterable[str | Path],
    record_type: type[AnyRecord],
    runs: Iterable[Sequence[str]] | None = None,
) -> dict[Run, list[AnyRecord]]:
    """Return the rows of each run as records; arguments as of `read_runs`."""
    tables = read_runs(paths, get_layout(record_type), runs)
    return {
        run: list(convert_to_records(table, record_type))
        for run, table in tables.items()
    }


class RunRecords(Mapping[Run, Sequence[AnyRecord]]):
    """Rows of each run as records, which are read again each time that they are asked for, so that
    the rows of one run at a time are in memory.
    """

    def __init__(
        self,
        paths: Iterable[str | Path],
        record_type: type[AnyRecord],
        runs: Iterable[Sequence[str]],
    ) -> None:
        """Find the file of each run; arguments and errors as of `read_runs`."""
        self._runs = [(model, dataset) for model, dataset in runs]
        self._paths = _locate_runs(paths, self._runs)
        self._record_type = record_type

    def __getitem__(self, run: Run) -> Sequence[AnyRecord]:
        """Read the records of a run; none for a requested run that no file holds."""
        if run not in self._paths and run in self._runs:
            return []
        table = _read_run(self._paths[run], run, get_layout(self._record_type))
        return list(convert_to_records(table, self._record_type))

    def __iter__(self) -> Iterator[Run]:
        """Iterate over the requested runs, in their order."""
        return iter(self._runs)

    def __len__(self) -> int:
        """Return the number of requested runs."""
        return len(self._runs)


def read_run_frames(
    paths: Iterable[str | Path],
    record_type: type[Record],
    runs: Iterable[Sequence[str]] | None = None,
) -> dict[Run, pd.DataFrame]:
    """Return the rows of each run as a data frame, with nulls as in `read_frame`; arguments as of
    `read_runs`.
    """
    tables = read_runs(paths, get_layout(record_type), runs)
    return {run: build_frame(table) for run, table in tables.items()}


def merge_shards(
    paths: Sequence[str],
    records: Sequence[str],
    path: str,
    record: str,
    layout: Layout,
    order: Sequence[str],
) -> None:
    """Merge the files and run records of a model job's shards.

    Args:
        paths: Files of the shards.
        records: Files of the shards' run records.
        path: The merged file.
        record: The merged run records.
        layout: Layout of the rows.
        order: Columns by which the rows of a data set are sorted, after the name of the data set;
            `POSITION` alone restores the order that rows and data sets would have in a single
            shard.
    Raises:
        UserError: A shard is broken, or of another model or group than the first.
    """
    # A shard of another model would go unnoticed among the rows.
    for shard in paths:
        if _list_runs(shard) != _list_runs(paths[0]):
            raise UserError(
                f"{shard}: is of another model or group than {paths[0]}; delete both and run again"
            )

    # Shards with a column `position` restore the order of a single shard; others are sorted by key
    # columns.
    stored_order = list(order) == [POSITION]
    shard_layout = layout.with_position() if stored_order else layout
    table = pa.concat_tables(
        [parquet.read(shard, shard_layout.with_dataset()) for shard in paths]
    )
    if stored_order:
        table = _restore_order(table)
    else:
        table = table.sort_by([(name, "ascending") for name in ("dataset", *order)])
    parquet.write(path, table, layout.with_dataset(), **parquet.read_metadata(paths[0]))

    # The merged file keeps the run records of all shards.
    merged = []
    for shard in records:
        merged += json.loads(Path(shard).read_text(encoding="utf-8"))
    _write_records(record, merged)


def _restore_order(table: pa.Table) -> pa.Table:
    """Return rows sorted by data set, in the order of appearance, and by the column `position`,
    which is dropped.
    """
    # Each data set as a number, from 0 in the order of appearance: int64 of shape (rows,).
    datasets, _ = pd.factorize(table.column("dataset").to_pandas())
    positions = table.column(POSITION).to_pylist()
    # Arrow cannot sort by the column `position`, whose values are lists of numbers.
    keys = list(zip(datasets, positions, strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    # An empty list would have no type.
    return table.take(pa.array(order, pa.int64())).drop_columns(POSITION)
