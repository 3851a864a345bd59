"""The folders of an export: a data set for the Hugging Face hub, and files as the VALSE release has them."""

import hashlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import waltz
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.export.card import render_card
from waltz.export.croissant import render_croissant
from waltz.export.facts import StudyFacts
from waltz.export.parts import SHARD_BYTES, DataFile, Part, WrittenPart, describe_file, write_part
from waltz.export.statements import build_statements
from waltz.export.valse_layout import (
    Row,
    build_pair_records,
    build_records,
    get_file_name,
    render_json,
    restore_records,
)

FUNNEL = "funnel.parquet"


def write_dataset(
    folder: Path, parts: Sequence[Part], facts: StudyFacts, funnel: str | None = None, shard_bytes: int = SHARD_BYTES
) -> list[WrittenPart]:
    """Write a folder that `datasets.load_dataset` and the hub read: Parquet files, README.md, croissant.json.

    The same items and facts give the same bytes.

    Args:
        folder: New or empty.
        parts: The configurations.
        facts: What the study says of them.
        funnel: The funnel as Parquet, to be laid beside.
        shard_bytes: Bytes of images, roughly, after which a new file begins.
    Returns:
        The parts with their files and the images that could not be opened.
    Raises:
        UserError: There is no part, the folder holds something, a part has no items, or images cannot be read.
    """
    if not parts:
        raise UserError(
            "the study builds no benchmark, so there is nothing to export; name instruments or finished items"
        )
    _empty(folder)
    written = [write_part(part, folder, shard_bytes) for part in parts]
    others = []
    if funnel is not None:
        shutil.copyfile(funnel, folder / FUNNEL)
        others.append(describe_file(folder, FUNNEL))
    said = build_statements(facts, written)
    version = str(
        facts.about.get("version") or compute_version([*(file for entry in written for file in entry.files), *others])
    )
    write_text(folder / "croissant.json", render_croissant(facts, written, others, said, version))
    write_text(folder / "README.md", render_card(facts, written, said, version))
    return written


def write_valse_files(
    folder: Path, parts: Iterable[Part], originals: Mapping[str, Mapping[str, Row]], span_method: str
) -> dict[str, int]:
    """Write one JSON file a part, as the VALSE release names and fills it; CV-Probes, which are no foils, are left out.

    Args:
        folder: New or empty.
        parts: The parts of a benchmark.
        originals: Rows of the sources of built instruments, by source and `source_id`.
        span_method: How relations' foils were proposed.
    Returns:
        Items by file name.
    Raises:
        UserError: The folder holds something, two parts would have one file, or a source lacks the row of an item.
    """
    _empty(folder)
    found: dict[str, int] = {}
    for part in parts:
        if part.form == "cv-probes":
            continue
        name = get_file_name(part.name)
        if name in found:
            raise UserError(f"{folder}: two data sets would be written to {name}; rename {part.name!r} in the study")
        rows = part.items.to_pylist()
        if part.form == "valse-release":
            records = restore_records(rows)
        elif part.form == "pairs":
            records = build_pair_records(rows)
        else:
            records = build_records(rows, originals.get(part.source, {}), span_method)
        write_text(folder / name, render_json(records))
        found[name] = len(records)
    return found


def compute_version(files: Iterable[DataFile]) -> str:
    """The version of waltz that made some files, and a digest of their content: `0.1.0+3fa9c21b7d04`."""
    total = hashlib.sha256("".join(f"{file.path} {file.sha256}\n" for file in files).encode())
    return f"{waltz.__version__}+{total.hexdigest()[:12]}"


def _empty(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UserError(f"{folder}: holds files already; delete the folder or name another")
