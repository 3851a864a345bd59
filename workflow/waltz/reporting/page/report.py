"""The report page: one HTML file with findings, examples, tables, figures, construction and run records."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from waltz.core.files import parquet
from waltz.core.files.atomic import write_text
from waltz.core.schema import SCENE_SCORES
from waltz.plan.raw_files import name_files
from waltz.reporting.figures.figure_files import list_example_files
from waltz.reporting.page.construction_tables import read_construction_tables
from waltz.reporting.page.embedded import (
    escape_json,
    hash_script,
    inline_figures,
    list_field_names,
    make_table_json,
    read_figure_size,
)
from waltz.reporting.page.examples import choose_typical_example, read_browser_data, read_items
from waltz.reporting.page.findings import (
    CC_SHAP_RANGE,
    ENCODER,
    RULER,
    ModelFinding,
    describe_findings,
    is_small_measure,
    read_findings,
)
from waltz.reporting.page.model_tables import read_model_tables
from waltz.reporting.page.plain_tables import SMALL_MARK, SMALLEST_N, WIDEST, PlainTable, Row
from waltz.reporting.run_records import (
    Record,
    list_cropping_models,
    list_warnings,
    read_image_faults,
    read_records,
    resolve_checksums,
    resolve_revisions,
    summarize_runs,
)
from waltz.reporting.tables.best import SignificanceTests, read_significance_tests
from waltz.reporting.tables.cells import (
    KINDS,
    Cell,
    count_cells,
    count_cells_by,
    count_reasons,
    group_cells,
    read_cells,
    select_compared,
)
from waltz.reporting.tables.declaration import Declaration, NumberSource
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.formats import VERDICT_MARKS
from waltz.reporting.tables.grid import UNPAIRED

TEMPLATES = Path(__file__).with_name("templates")
CLASSES = dict(zip(KINDS, ("equal", "compatible", "differs", "alone", "absent"), strict=True))
"""Class of each kind of cell in the style sheet."""
NUMBER = r"[-+−–]?[\d,.]+(?![a-z])|–?$"
SYNTHETIC_LICENCE = "drawn by this package, sprites CC-BY 4.0"
MAX_FAULTS = 200
"""Largest number of image faults that are listed."""


@dataclass(frozen=True)
class FigureSection:
    """A figure on the page.

    Attributes:
        name: Id of the figure.
        file: An SVG, with a PNG next to it if it is large, or a raster image.
        title: Title, which is also the alternative text.
        group: Heading of the group of figures.
        paper_figures: Paper figures that it corresponds to.
    """

    name: str
    file: str
    title: str
    group: str = ""
    paper_figures: str = ""


@dataclass(frozen=True)
class ReportInputs:
    """Contents of the report of a study.

    Attributes:
        study: Name of the study.
        sources: The study's sources, with licence, citation and files.
        records: Run records.
        findings: Findings of each model.
        cells: Cells of all declared tables and profiles.
        significance: What tests can show about differences of cells.
        figures: Figures.
        models: Tables of model results.
        construction: Tables of how the benchmark was built.
        scene_scores: Rows of the scene models' scores.
        faults: Rows of source, image and fault: images that cannot be used.
        browser: Data of the example browser.
    """

    study: str
    sources: Mapping[str, Mapping[str, Any]]
    records: Sequence[Record] = ()
    findings: Sequence[ModelFinding] = ()
    cells: Sequence[Cell] = ()
    significance: SignificanceTests = UNPAIRED
    figures: Sequence[FigureSection] = ()
    models: Sequence[PlainTable] = ()
    construction: Sequence[PlainTable] = ()
    scene_scores: Sequence[Row] = ()
    faults: Sequence[Row] = ()
    browser: Mapping[str, Any] = field(default_factory=dict)


def read_report(inputs: Mapping[str, Any], settings: Mapping[str, Any], results: Path) -> ReportInputs:
    """Read the contents of a study's report.

    Args:
        inputs: Files of rule `report` by name: those of `ReportingPlan.summaries`, records, CSVs of tables (`cells`),
            figures, folders of examples, items, questions and images.
    """
    lock = Path(settings["lock"])
    records = resolve_revisions(read_records(inputs["records"], results), settings["locked"], lock)
    items = read_items(
        dict(zip(settings["datasets"], inputs["pairs"], strict=True)),
        dict(zip(settings["questions"], inputs["questions"], strict=True)),
        settings["questions"],
        settings["seed"],
    )
    figures = {Path(file).stem: file for file in inputs["figures"]}
    findings = read_findings(inputs, records)
    browser = read_browser_data(
        items,
        settings["runs"],
        dict(zip(settings["images"], inputs["images"], strict=True)),
        settings["samples"],
        settings["seed"],
        list_cropping_models(records),
    )
    return ReportInputs(
        study=settings["study"],
        sources=resolve_checksums(settings["sources"], lock),
        records=records,
        findings=findings,
        cells=read_cells(inputs["cells"]),
        significance=read_significance_tests(inputs["detectable"], settings["confidence"]),
        figures=[
            *(FigureSection(name, file, *settings["figures"][name]) for name, file in figures.items()),
            *list_example_figures(inputs.get("samples", ()), settings["sample_figures"]),
        ],
        models=read_model_tables(inputs),
        construction=read_construction_tables(inputs),
        scene_scores=[row for file in inputs["scores"] for row in parquet.read(file, SCENE_SCORES).to_pylist()],
        faults=read_image_faults(inputs["faults"]),
        browser=browser | {"typical": choose_typical_example(browser, rank_shares(findings))},
    )


def write_report(path: str | Path, report: ReportInputs) -> None:
    """Write the page, which needs no other file and no network."""
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "duration": format_duration,
        "is_small": is_small_measure,
        "numeric_columns": find_numeric_columns,
        "script_json": escape_json,
        "unbroken": keep_names_on_a_line,
    }
    tables = group_cells(report.cells, "table")
    compared = any(cell.paper_text or cell.paper_value is not None for cell in report.cells)
    page = environment.get_template("report.html").render(
        report=report,
        style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=hash_script(script),
        classes=CLASSES,
        sources=[_describe_source(name, source, report.records) for name, source in report.sources.items()],
        facts=summarize_runs(report.records),
        sentences=describe_findings(report.findings),
        small={"mark": SMALL_MARK, "n": SMALLEST_N, "points": round(100 * WIDEST), "cc_shap": CC_SHAP_RANGE},
        compared=compared,
        reproduced=_describe_reproduction(report.cells) if compared else None,
        tables=[_describe_table(name, cells) for name, cells in tables.items()],
        grids={
            "fields": list_field_names(),
            "classes": CLASSES,
            "marks": VERDICT_MARKS,
            "compared": compared,
            "small": SMALL_MARK,
            "tables": [
                make_table_json(get_declaration(name, cells), cells, report.significance)
                for name, cells in tables.items()
            ],
        },
        figures=_group_figures(report.figures),
        pictures=inline_figures([figure.file for figure in report.figures]),
        funnel=next((table for table in report.construction if table.id == "funnel"), None),
        warned=[
            (record.name, kind, count, reasons)
            for record in report.records
            for kind, count, reasons in list_warnings(record)
        ],
        faults=report.faults[:MAX_FAULTS],
    )
    write_text(path, page)


def rank_shares(findings: Sequence[ModelFinding]) -> dict[str, float]:
    """Return the mean T-SHAP of models in percent: encoders first, the most accurate first; no rulers."""
    models = [finding for finding in findings if finding.kind != RULER and finding.t_shap.value is not None]
    models.sort(key=lambda finding: (finding.kind != ENCODER, -(finding.accuracy.value or 0.0)))
    return {finding.name: finding.t_shap.value for finding in models if finding.t_shap.value is not None}


def list_example_figures(folders: Sequence[str | Path], headings: Sequence[tuple[str, str]]) -> list[FigureSection]:
    """Return all figures of some folders of examples.

    Args:
        folders: Folders written by `save_examples`; the names of folder and parent are part of the figures' ids.
        headings: Heading of each folder's figures, and the paper figures that they correspond to.
    """
    return [
        FigureSection("-".join([*Path(file).parts[-3:-1], Path(file).stem]), file, title, *heading)
        for folder, heading in zip(folders, headings, strict=True)
        for file, title in list_example_files(folder).items()
    ]


def get_declaration(name: str, cells: Sequence[Cell]) -> Declaration:
    """Return the declaration of a table; one with rows of metric and model where there is none."""
    if name in TABLES:
        return TABLES[name]
    no_sources: dict[str, tuple[NumberSource, ...]] = {cell.metric: () for cell in cells}
    return Declaration(id=name, title="", sources=no_sources)


def format_duration(seconds: float) -> str:
    """Format seconds in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def keep_names_on_a_line(sentence: str) -> Markup:
    """Return a sentence as HTML in which no line ends within brackets or behind the hyphen of a name."""
    return Markup(re.sub(r"\([^()]*\)|\S+-\S+", r'<span class="unbroken">\g<0></span>', str(escape(sentence))))


def find_numeric_columns(table: PlainTable) -> list[bool]:
    """Return for each column of a table whether it holds only numbers, empty cells and dashes."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.header)
    return [bool(column) and all(re.match(NUMBER, text) for text in column) for column in columns]


def _describe_source(name: str, source: Mapping[str, Any], records: Sequence[Record]) -> dict[str, Any]:
    """Return a source with its number of rows, and its files with origin and checksum."""
    facts = next((record.facts for record in records if record.name == f"sources/{name}"), {})
    entries = name_files(source["files"], source.get("images"))
    default_licence = SYNTHETIC_LICENCE if all("drawn" in file for file in entries.values()) else "not stated"
    return {
        "name": name,
        "format": source["format"],
        "licence": source.get("licence", default_licence),
        "citation": source.get("citation", ""),
        "rows": facts.get("rows_in"),
        "rejected": facts.get("rejected"),
        "files": [
            {
                "name": part,
                "origin": file.get("path") or file.get("url") or f"drawn: {file.get('drawn')}",
                "sha256": file.get("sha256", ""),
            }
            for part, file in entries.items()
        ],
    }


def _describe_table(name: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the facts about a table that the template shows."""
    declaration = get_declaration(name, cells)
    return {
        "id": name,
        "title": declaration.title,
        "notes": declaration.notes,
        "counts": count_cells(name, select_compared(cells) or cells),
        "numbers": sum(cell.value is not None for cell in cells),
    }


def _describe_reproduction(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the counts of verdicts that the template shows."""
    compared = select_compared(cells)
    return {
        "all": count_cells("all tables", compared),
        "groups": {
            "table": count_cells_by(compared, "table"),
            "model": count_cells_by(compared, "model"),
        },
        "reasons": count_reasons(compared),
        "marks": VERDICT_MARKS,
        "other_cells": len(cells) - len(compared),
    }


def _group_figures(figures: Sequence[FigureSection]) -> dict[str, list[dict[str, Any]]]:
    """Group figures by heading, each with its index among the page's pictures."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for index, figure in enumerate(figures):
        facts = {
            "name": figure.name,
            "title": figure.title,
            "paper_figures": figure.paper_figures,
            "file": Path(figure.file).name,
        }
        groups.setdefault(figure.group, []).append({**facts, "place": index, "size": read_figure_size(figure.file)})
    return groups
