"""Write the folders of an export: a data set for the Hugging Face hub, and files in VALSE's release
layout.
"""

import hashlib
import logging
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import waltz
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.records import convert_to_records, read_records
from waltz.core.schema import AuditRecord, FunnelRecord, ItemRecord
from waltz.export.card import render_card
from waltz.export.croissant import render_croissant
from waltz.export.facts import BenchmarkFacts, Entry, build_source_facts
from waltz.export.parts import (
    SHARD_BYTES,
    DataFile,
    DatasetPart,
    WrittenPart,
    describe_file,
    read_part,
    write_part,
)
from waltz.export.statements import build_statements
from waltz.export.tasks import write_tasks
from waltz.export.valse_layout import (
    SourceRow,
    build_pair_records,
    build_valse_records,
    get_file_name,
    render_json,
    restore_records,
)

FUNNEL_FILE = "funnel.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportInputs:
    """Hold the input files of rule `export_benchmark`.

    Attributes:
        benchmark: Parquet file of each part's items.
        rows: Parquet file of the rows of each source in `ExportSettings.rows`.
        raw: Raw files of all sources, in the order of their entries.
        images: Folder or archive of the images of each source in `ExportSettings.images`.
        funnel: Parquet file of the funnel; None without one.
        audit: Parquet file of the blind audit; None without one.
    """

    benchmark: Sequence[str]
    rows: Sequence[str]
    raw: Sequence[str]
    images: Sequence[str]
    funnel: str | None = None
    audit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """Hold the settings of rule `export_benchmark`.

    Attributes:
        study: Name of the study.
        seed: Seed of the study.
        valid_votes: Votes for the caption that make an item valid.
        parts: Source and form of each part.
        sources: Entries of the sources of the parts.
        rows: Sources whose rows hold a field that an exported item lacks.
        images: Sources whose images may be passed on.
        instruments: Entries of the study's instruments.
        models: Models that proposed or filtered foils, by role.
        span_method: Method that proposed the foils of relations.
        about: Entry `export` of the study.
    """

    study: str
    seed: int
    valid_votes: int
    parts: Mapping[str, tuple[str, str]]
    sources: Mapping[str, Entry]
    rows: Sequence[str]
    images: Sequence[str]
    instruments: Mapping[str, Entry]
    models: Mapping[str, str]
    span_method: str
    about: Entry


def export_benchmark(
    inputs: ExportInputs, settings: ExportSettings, dataset: Path, valse: Path
) -> dict[str, object]:
    """Write the benchmark of a study as a data set for the hub and in VALSE's layout.

    Args:
        inputs: The files.
        settings: The settings.
        dataset: New folder of the data set.
        valse: New folder of the files in VALSE's layout.
    Returns:
        Facts of the run record: numbers of items, items by file, images that could not be opened.
    """
    parts = _read_parts(inputs, settings)
    facts = _build_facts(inputs, settings)
    written_parts = write_dataset(dataset, parts, facts, inputs.funnel)

    # Rows of sources by their id, for fields that items do not have.
    originals = {}
    for source, file in zip(settings.rows, inputs.rows, strict=True):
        originals[source] = {
            row["source_id"]: row for row in parquet.read_table(file).to_pylist()
        }
    formats = {name: str(entry["format"]) for name, entry in settings.sources.items()}
    item_counts = write_valse_files(
        valse, parts, originals, settings.span_method, formats
    )

    # The run record and the log name each image; the export holds null.
    faults = []
    for written_part in written_parts:
        for fault in written_part.faults:
            faults.append(
                f"{written_part.part.name}: image {fault.image} {fault.reason}"
            )
    for text in faults:
        logging.warning("%s; it is null in the export", text)
    items = sum(part.items.num_rows for part in parts)
    return {
        "rows_in": items,
        "rows_out": items,
        "valse": item_counts,
        "images_skipped": faults,
    }


def _read_parts(inputs: ExportInputs, settings: ExportSettings) -> list[DatasetPart]:
    # The rule lists sources and files in the same order.
    images = dict(zip(settings.images, inputs.images, strict=True))
    parts = []
    for (name, (source, form)), file in zip(
        settings.parts.items(), inputs.benchmark, strict=True
    ):
        parts.append(
            read_part(
                name, source, form, file, settings.sources[source], images.get(source)
            )
        )
    return parts


def _build_facts(inputs: ExportInputs, settings: ExportSettings) -> BenchmarkFacts:
    raw_files = iter(inputs.raw)  # each source takes as many as it has
    sources = {
        name: build_source_facts(name, entry, raw_files)
        for name, entry in settings.sources.items()
    }
    return BenchmarkFacts(
        study=settings.study,
        seed=settings.seed,
        valid_votes=settings.valid_votes,
        sources=sources,
        instruments=settings.instruments,
        models=settings.models,
        funnel=list(read_records(inputs.funnel, FunnelRecord)) if inputs.funnel else [],
        audit=list(read_records(inputs.audit, AuditRecord)) if inputs.audit else [],
        about=settings.about,
    )


def write_dataset(
    folder: Path,
    parts: Sequence[DatasetPart],
    facts: BenchmarkFacts,
    funnel: str | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> list[WrittenPart]:
    """Write a folder that `datasets.load_dataset` and the hub read: Parquet files, README.md,
    croissant.json, tasks.

    The same items and facts give the same bytes.

    Args:
        folder: New or empty folder.
        parts: Parts of the data set.
        facts: Facts of the study.
        funnel: Parquet file of the funnel, which is copied into the folder; None without one.
        shard_bytes: Approximate bytes of images in one file.
    Returns:
        The parts with their files and with the images that could not be opened.
    Raises:
        UserError: There are no parts, a part has no items, or the folder is not empty.
    """
    if not parts:
        raise UserError(
            "the study has no benchmark to export; name instruments or finished items"
        )
    _create_empty(folder)
    written_parts = [write_part(part, folder, shard_bytes) for part in parts]
    files: list[DataFile] = []
    for written_part in written_parts:
        files += written_part.files
    further_files = []
    if funnel is not None:
        shutil.copyfile(funnel, folder / FUNNEL_FILE)
        further_files.append(describe_file(folder, FUNNEL_FILE))
    # Without a version of the study, the content determines it.
    version = str(
        facts.about.get("version") or compute_version([*files, *further_files])
    )
    statements = build_statements(facts, written_parts)
    write_text(
        folder / "croissant.json",
        render_croissant(facts, written_parts, further_files, statements, version),
    )
    write_text(
        folder / "README.md", render_card(facts, written_parts, statements, version)
    )
    write_tasks(folder, facts, written_parts, version)
    return written_parts


def write_valse_files(
    folder: Path,
    parts: Iterable[DatasetPart],
    originals: Mapping[str, Mapping[str, SourceRow]],
    span_method: str,
    formats: Mapping[str, str],
) -> dict[str, int]:
    """Write one JSON file for each part in the layout of the VALSE release; CV-Probes have no foils
    and are skipped.

    Args:
        folder: New or empty folder.
        parts: The parts.
        originals: Rows of the sources of built instruments, by source and `source_id`.
        span_method: Method that proposed the foils of relations.
        formats: Formats of the sources by name.
    Returns:
        Numbers of items by file name.
    Raises:
        UserError: Two parts have one file name, the folder is not empty, or a source lacks a row.
    """
    parts_by_file: dict[str, DatasetPart] = {}
    for part in parts:
        if part.form == "cv-probes":
            continue
        # A user's data set may be called as a file of the release.
        name = get_file_name(part.name)
        if name in parts_by_file:
            raise UserError(
                f"two data sets have one file name in the layout of VALSE: {name} (got {parts_by_file[name].name!r} and"
                f" {part.name!r}); rename one in the study"
            )
        parts_by_file[name] = part
    _create_empty(folder)
    item_counts: dict[str, int] = {}
    for name, part in parts_by_file.items():
        items = convert_to_records(part.items, ItemRecord)
        if part.form == "valse-release":
            records = restore_records(items)
        elif part.form == "pairs":
            records = build_pair_records(items)
        else:
            records = build_valse_records(
                items, originals.get(part.source, {}), span_method, formats[part.source]
            )
        write_text(folder / name, render_json(records))
        item_counts[name] = len(records)
    return item_counts


def compute_version(files: Iterable[DataFile]) -> str:
    """Return the version of waltz and a digest of the files' content: `0.1.0+3fa9c21b7d04`."""
    content = "".join(f"{file.path} {file.sha256}\n" for file in files)
    # 12 digits tell versions of one data set apart.
    digest = hashlib.sha256(content.encode())
    return f"{waltz.__version__}+{digest.hexdigest()[:12]}"


def _create_empty(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UserError(
            f"{folder}: the folder is not empty; delete it, or name another folder"
        )
