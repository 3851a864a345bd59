"""Folders of an export: a data set for the Hugging Face hub, and files in the layout of the VALSE release."""

import hashlib
import logging
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import waltz
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.schema import AUDIT, FUNNEL
from waltz.export.card import render_card
from waltz.export.croissant import render_croissant
from waltz.export.facts import StudyFacts, build_source_facts
from waltz.export.parts import SHARD_BYTES, DataFile, Part, WrittenPart, describe_file, read_part, write_part
from waltz.export.statements import build_statements
from waltz.export.tasks import write_tasks
from waltz.export.valse_layout import (
    Row,
    build_pair_records,
    build_records,
    get_file_name,
    render_json,
    restore_records,
)

FUNNEL_FILE = "funnel.parquet"


def export_benchmark(
    inputs: Mapping[str, Any], settings: Mapping[str, Any], dataset: Path, valse: Path
) -> dict[str, Any]:
    """Write the benchmark of a study as a data set for the hub and in VALSE's layout.

    Args:
        inputs: Files of rule `export_benchmark` by name: items, rows and raw files of sources, images, funnel, audit.
        settings: Params of rule `export_benchmark`.
        dataset: New folder of the data set.
        valse: New folder of the files in VALSE's layout.
    Returns:
        Facts of the run record: numbers of items, items by file, images that could not be opened.
    """
    entries = settings["sources"]
    images = dict(zip(settings["images"], inputs["images"], strict=True))
    parts = [
        read_part(name, source, form, file, entries[source], images.get(source))
        for (name, (source, form)), file in zip(settings["parts"].items(), inputs["benchmark"], strict=True)
    ]
    raw = iter(inputs["raw"])
    facts = StudyFacts(
        **{name: settings[name] for name in ("study", "seed", "valid_votes", "instruments", "models", "about")},
        sources={
            name: build_source_facts(name, entry, {file: next(raw) for file in entry["files"]})
            for name, entry in entries.items()
        },
        funnel=parquet.read_rows(inputs["funnel"], FUNNEL) if inputs["funnel"] else [],
        audit=parquet.read_rows(inputs["audit"], AUDIT) if inputs["audit"] else [],
    )
    originals = {
        source: {row["source_id"]: row for row in parquet.read_table(file).to_pylist()}
        for source, file in zip(settings["rows"], inputs["rows"], strict=True)
    }
    written_parts = write_dataset(dataset, parts, facts, inputs["funnel"] or None)
    formats = {name: str(entry["format"]) for name, entry in entries.items()}
    item_counts = write_valse_files(valse, parts, originals, settings["span_method"], formats)
    faults = [
        f"{written.part.name}: image {fault.image} {fault.reason}"
        for written in written_parts
        for fault in written.faults
    ]
    for fault in faults:
        logging.warning("%s; it is null in the export", fault)
    items = sum(part.items.num_rows for part in parts)
    return {"rows_in": items, "rows_out": items, "valse": item_counts, "images_skipped": faults}


def write_dataset(
    folder: Path, parts: Sequence[Part], facts: StudyFacts, funnel: str | None = None, shard_bytes: int = SHARD_BYTES
) -> list[WrittenPart]:
    """Write a folder that `datasets.load_dataset` and the hub read: Parquet files, README.md, croissant.json, tasks.

    The same items and facts give the same bytes.

    Args:
        folder: New or empty.
        funnel: Parquet file of the funnel, which is copied into the folder.
        shard_bytes: Approximate bytes of images in one file.
    Returns:
        The parts with their files and with the images that could not be opened.
    """
    if not parts:
        raise UserError("the study has no benchmark to export; name instruments or finished items")
    _create_empty(folder)
    written_parts = [write_part(part, folder, shard_bytes) for part in parts]
    further_files = []
    if funnel is not None:
        shutil.copyfile(funnel, folder / FUNNEL_FILE)
        further_files.append(describe_file(folder, FUNNEL_FILE))
    statements = build_statements(facts, written_parts)
    files = [*(file for written_part in written_parts for file in written_part.files), *further_files]
    version = str(facts.about.get("version") or compute_version(files))
    write_text(folder / "croissant.json", render_croissant(facts, written_parts, further_files, statements, version))
    write_text(folder / "README.md", render_card(facts, written_parts, statements, version))
    write_tasks(folder, facts, written_parts, version)
    return written_parts


def write_valse_files(
    folder: Path,
    parts: Iterable[Part],
    originals: Mapping[str, Mapping[str, Row]],
    span_method: str,
    formats: Mapping[str, str],
) -> dict[str, int]:
    """Write one JSON file for each part in the layout of the VALSE release; CV-Probes have no foils and are skipped.

    Args:
        folder: New or empty.
        originals: Rows of the sources of built instruments, by source and `source_id`.
        span_method: How relations' foils were proposed.
        formats: Formats of the sources by name.
    Returns:
        Items by file name.
    """
    _create_empty(folder)
    item_counts: dict[str, int] = {}
    for part in parts:
        if part.form == "cv-probes":
            continue
        name = get_file_name(part.name)
        if name in item_counts:
            raise UserError(f"{folder}: two data sets have the file name {name}; rename {part.name!r} in the study")
        rows = part.items.to_pylist()
        if part.form == "valse-release":
            records = restore_records(rows)
        elif part.form == "pairs":
            records = build_pair_records(rows)
        else:
            records = build_records(rows, originals.get(part.source, {}), span_method, formats[part.source])
        write_text(folder / name, render_json(records))
        item_counts[name] = len(records)
    return item_counts


def compute_version(files: Iterable[DataFile]) -> str:
    """Return the version of waltz and a digest of the files' content: `0.1.0+3fa9c21b7d04`."""
    digest = hashlib.sha256("".join(f"{file.path} {file.sha256}\n" for file in files).encode())
    return f"{waltz.__version__}+{digest.hexdigest()[:12]}"


def _create_empty(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UserError(f"{folder}: the folder is not empty; delete it or name another")
