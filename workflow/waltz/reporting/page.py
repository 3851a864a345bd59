"""The index page: one HTML file that links everything a study reports, and opens from disk."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from waltz.core import parquet
from waltz.core.atomic import write_text
from waltz.core.schema import IMAGE_FAULTS, SCENE_SCORES
from waltz.reporting.construction import PlainTable
from waltz.reporting.declarations import TABLES
from waltz.reporting.layouts import LEGEND, html_table
from waltz.reporting.tables import Cell, from_csv

TEMPLATES = Path(__file__).with_name("templates")


def write_page(
    path: str | Path,
    study: str,
    sources: Mapping[str, Mapping[str, Any]],
    tables: Sequence[str],
    figures: Sequence[str],
    records: Sequence[str],
    read: Sequence[str],
    faults: Sequence[str],
    scores: Sequence[str],
    construction: Sequence[PlainTable],
    models: Sequence[PlainTable],
) -> None:
    """Write the page.

    Args:
        path: Where to.
        study: Name of the study.
        sources: The study's sources, with licence and citation.
        tables: CSV files of the tables.
        figures: Image files of the figures.
        records: Run records of models.
        read: Run records of raw sources.
        faults: Parquet files of images that cannot be used, one a source.
        scores: Parquet file of the scene models' scores, if they were measured.
        construction: Tables about what the study built.
        models: Tables about how models fare on it.
    """
    folder = Path(path).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template("index.html").render(
        study=study,
        sources=sources,
        legend=LEGEND,
        tables=[_table(Path(file), folder) for file in tables],
        figures=[_figure(Path(file), folder) for file in figures],
        records=[_record(Path(file)) for file in records],
        read=[_record(Path(file)) for file in read],
        faults=[fault for file in faults for fault in _faults(Path(file))],
        sections={"models": ("Models", models), "construction": ("Construction of the benchmark", construction)},
        scores=[row for file in scores for row in parquet.read(file, SCENE_SCORES).to_pylist()],
    )
    write_text(path, page)


def verdict_counts(cells: Sequence[Cell]) -> dict[str, int]:
    """How many cells have each verdict, those without one under `no verdict`."""
    counts: dict[str, int] = {}
    for cell in cells:
        counts[cell.verdict or "no verdict"] = counts.get(cell.verdict or "no verdict", 0) + 1
    return counts


def _table(file: Path, folder: Path) -> dict[str, Any]:
    cells = from_csv(file.read_text(encoding="utf-8"))
    declaration = TABLES[file.stem]
    profiles = {
        profile: [cell for cell in cells if cell.profile == profile]
        for profile in dict.fromkeys(cell.profile for cell in cells)
    }
    return {
        "declaration": declaration,
        "files": {form: file.relative_to(folder).parent / f"{file.stem}.{form}" for form in ("csv", "md", "tex")},
        "profiles": {profile: html_table(declaration, part) for profile, part in profiles.items()},
        "verdicts": {profile: verdict_counts(part) for profile, part in profiles.items()},
    }


def _figure(file: Path, folder: Path) -> dict[str, Any]:
    kind, _, dataset = file.stem.partition("-")
    bars = f"Bars: how often captions and foils of {dataset} use each"
    texts = {
        "lexical": f"{bars} exchanged word, before and after validation",
        "pronoun": f"{bars} pronoun, before and after validation",
        "scenes": "24 drawn scenes, each with a caption, true statements in green and false ones in red",
    }
    return {"name": file.stem, "file": file.relative_to(folder), "alt": texts[kind]}


def _faults(file: Path) -> list[dict[str, str]]:
    return [{"source": file.stem, **row} for row in parquet.read(file, IMAGE_FAULTS).to_pylist()]


def _record(file: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return {**record, "name": f"{file.parent.name}/{file.name.removesuffix('.run.json')}"}
