"""The report page: one HTML file with findings, examples, tables, figures, construction and run
records.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict

import jinja2
from markupsafe import Markup, escape
from pydantic import JsonValue

from waltz.consistency.metrics import MARGIN
from waltz.core.files.atomic import write_text
from waltz.core.records import read_records
from waltz.core.schema import (
    ComparisonRecord,
    DifferenceRecord,
    FunnelRecord,
    ImageFaultRecord,
    ItemRecord,
    SceneScoreRecord,
)
from waltz.reporting.figures.figure_files import list_example_files
from waltz.reporting.page.built_pairs import (
    BuiltPairs,
    choose_shown_pairs,
    describe_built_pairs,
)
from waltz.reporting.page.construction_tables import read_construction_tables
from waltz.reporting.page.embedded import (
    TableJson,
    escape_json,
    hash_script,
    inline_figures,
    list_field_names,
    make_table_json,
    read_figure_size,
)
from waltz.reporting.page.example_items import QuestionSettings, read_example_items
from waltz.reporting.page.examples import (
    BrowserData,
    Example,
    ResultFiles,
    TypicalExample,
    choose_typical_example,
    read_browser_data,
)
from waltz.reporting.page.findings import (
    ENCODER,
    RULER,
    ModelFinding,
    describe_chance,
    describe_different_cells,
    describe_findings,
    describe_recorded_runs,
    has_small_means,
    is_small_measure,
    list_mixed_means,
    name_datasets,
    read_findings,
    select_comparable,
)
from waltz.reporting.page.model_differences import describe_model_differences
from waltz.reporting.page.model_tables import read_model_tables
from waltz.reporting.page.page_tables import PageTable
from waltz.reporting.page.share_changes import describe_share_changes
from waltz.reporting.page.sources import SourceSection, describe_sources
from waltz.reporting.run_records import (
    RunRecord,
    list_cropping_models,
    list_recorded_models,
    list_warnings,
    read_study_records,
    resolve_revisions,
    summarize_runs,
)
from waltz.reporting.tables.best import (
    BOLD_RULE,
    SignificanceTests,
    index_significance_tests,
)
from waltz.reporting.tables.cells import (
    FEWEST_IMAGES,
    KINDS,
    SMALL_MARK,
    SMALLEST_N,
    Cell,
    VerdictCounts,
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
from waltz.reporting.tables.paper_values import DIFFERS
from waltz.reporting.tables.titles import name_data_sets

TEMPLATES = Path(__file__).with_name("templates")
CLASSES = dict(
    zip(
        KINDS,
        ("equal", "equivalent", "compatible", "differs", "alone", "absent"),
        strict=True,
    )
)
"""Class in the style sheet for each kind of cell."""
NUMBER = r"[-+−–]?[\d,.]+(?![a-z])|–?$"
MAX_FAULTS = 200
"""Largest number of unusable images that the page lists."""


@dataclass(frozen=True)
class FigureSection:
    """Figure on the page.

    Attributes:
        name: Id of the figure.
        file: Path of an SVG (a large one has a PNG next to it) or of a raster image.
        title: Title, which is also the alternative text.
        group: Heading of the figure's group.
        paper_figures: Names of the paper figures that it corresponds to.
    """

    name: str
    file: str
    title: str
    group: str = ""
    paper_figures: str = ""


class ReportSettings(TypedDict):
    """Facts about a study and its plan.

    `filters` are those of each instrument; `locked` are the origins of the weights whose
    revision is `lock`, by model; `datasets`, `questions` and `images` name the data sets of the
    files in `inputs`, in their order; `averaged` are the data sets that the evaluation averages
    over; `runs` are the files of the example browser, which shows `samples` items of a data set;
    `figures` and `sample_figures` are titles, headings and paper figures.
    """

    study: str
    filters: Mapping[str, Sequence[str]]
    sources: Mapping[str, Mapping[str, JsonValue]]
    lock: str
    locked: Mapping[str, str]
    datasets: Sequence[str]
    averaged: Sequence[str]
    questions: Mapping[str, QuestionSettings]
    images: Sequence[str]
    runs: ResultFiles
    samples: int
    seed: int
    confidence: float
    excess_margin: float
    figures: Mapping[str, Sequence[str]]
    sample_figures: Sequence[tuple[str, str]]


class Grids(TypedDict):
    """Declared tables for the page's script, with the names, classes and marks that it needs."""

    fields: Sequence[str]
    classes: Mapping[str, str]
    marks: Mapping[str, str]
    compared: bool
    small: str
    tables: Sequence[TableJson]


@dataclass(frozen=True)
class TableSummary:
    """Facts about a declared table.

    Attributes:
        id: Id of the table.
        title: Title of the table.
        notes: Remarks that a reader needs.
        counts: Numbers of its cells by verdict.
        numbers: Number of cells that have a number of ours.
    """

    id: str
    title: str
    notes: Sequence[str]
    counts: VerdictCounts
    numbers: int


@dataclass(frozen=True)
class Reproduction:
    """Counts of verdicts on all tables.

    Attributes:
        total: Counts of all compared cells.
        groups: Counts by table and by model.
        reasons: Reasons why cells have no value, with their numbers of cells.
        marks: Mark of each verdict.
        other_cells: Number of cells that are not compared.
    """

    total: VerdictCounts
    groups: Mapping[str, Sequence[VerdictCounts]]
    reasons: Sequence[tuple[str, int]]
    marks: Mapping[str, str]
    other_cells: int


@dataclass(frozen=True)
class EmbeddedFigure:
    """Figure whose picture the page embeds.

    Attributes:
        figure: The figure.
        file: Name of its file.
        index: Index of its picture.
        size: Width and height; None if they are unknown.
    """

    figure: FigureSection
    file: str
    index: int
    size: tuple[int, int] | None


@dataclass(frozen=True)
class UnusableImage:
    """Image that cannot be used.

    Attributes:
        source: Source of the image.
        image: Path of the image within its source.
        fault: Description of the fault.
    """

    source: str
    image: str
    fault: str


@dataclass(frozen=True)
class ReportInputs:
    """Contents of the report of a study.

    Attributes:
        study: Name of the study.
        seed: Seed of the study.
        sources: Sources of the study.
        records: Run records.
        findings: Findings of each model.
        excess_margin: Largest excess of CC-SHAP, of either sign, that counts as none.
        differences: Sentences about the differences between models, and between the share of text in
            answers and explanations.
        cells: Cells of all declared tables and profiles.
        significance: Significance tests of differences between cells.
        figures: Figures of the page.
        models: Tables of model results.
        construction: Tables about the construction of the benchmark.
        scene_scores: Scores of the scene models.
        faults: Images that cannot be used.
        browser: Data of the example browser; None without examples.
        built_pairs: Pairs that the study built; None with results of models, or without pairs.
    """

    study: str
    seed: int = 0
    sources: Sequence[SourceSection] = ()
    records: Sequence[RunRecord] = ()
    findings: Sequence[ModelFinding] = ()
    excess_margin: float = MARGIN
    differences: Sequence[str] = ()
    cells: Sequence[Cell] = ()
    significance: SignificanceTests = UNPAIRED
    figures: Sequence[FigureSection] = ()
    models: Sequence[PageTable] = ()
    construction: Sequence[PageTable] = ()
    scene_scores: Sequence[SceneScoreRecord] = ()
    faults: Sequence[UnusableImage] = ()
    browser: BrowserData | None = None
    built_pairs: BuiltPairs | None = None


def read_report(
    inputs: Mapping[str, Any], settings: ReportSettings, results: Path
) -> ReportInputs:
    """Return the contents of a study's report, read from its result files.

    Args:
        inputs: Files of rule `report` by name: `ReportingPlan.summaries`, records, CSVs of
            tables (`cells`), figures, folders of examples, items, questions and images.
        settings: Facts about the study and its plan that the rule passes.
        results: Folder of the study's results.
    """
    lock = Path(settings["lock"])
    # Models with the revision `lock` are shown with the commits that were downloaded.
    runs = resolve_revisions(
        read_study_records(inputs["records"], results), settings["locked"], lock
    )
    # Lists of files come in the order of the names in the settings.
    item_files = dict(zip(settings["datasets"], inputs["pairs"], strict=True))
    items = read_example_items(
        item_files,
        dict(zip(settings["questions"], inputs["questions"], strict=True)),
        settings["questions"],
        settings["seed"],
    )
    figures = []
    for file in inputs["figures"]:
        name = Path(file).stem
        figures.append(FigureSection(name, file, *settings["figures"][name]))
    figures += list_example_figures(
        inputs.get("samples", ()), settings["sample_figures"]
    )
    scene_scores: list[SceneScoreRecord] = []
    for file in inputs["scores"]:
        scene_scores += read_records(file, SceneScoreRecord)
    # A study without scores has no comparisons.
    comparisons: list[ComparisonRecord] = []
    if "comparisons" in inputs:
        comparisons += read_records(inputs["comparisons"], ComparisonRecord)

    changes: list[DifferenceRecord] = []
    if "changes" in inputs:
        changes += read_records(inputs["changes"], DifferenceRecord)

    findings = read_findings(inputs, runs, settings["averaged"])
    browser = read_browser_data(
        items,
        settings["runs"],
        dict(zip(settings["images"], inputs["images"], strict=True)),
        settings["samples"],
        settings["seed"],
        list_cropping_models(runs),
    )
    browser["typical"] = _choose_example(browser, findings)
    # Results of models, if there are any, come first.
    built_pairs = None
    if not findings and "funnel" in inputs:
        built_pairs = _read_built_pairs(inputs["funnel"], item_files, settings)
    return ReportInputs(
        study=settings["study"],
        seed=settings["seed"],
        sources=describe_sources(settings["sources"], runs, lock),
        records=runs,
        findings=findings,
        excess_margin=settings["excess_margin"],
        differences=[
            *describe_model_differences(comparisons, findings),
            *describe_share_changes(changes, settings["confidence"]),
        ],
        cells=read_cells(inputs["cells"]),
        significance=index_significance_tests(comparisons, settings["confidence"]),
        figures=figures,
        models=read_model_tables(inputs),
        construction=read_construction_tables(inputs),
        scene_scores=scene_scores,
        faults=_read_unusable_images(inputs["faults"]),
        browser=browser,
        built_pairs=built_pairs,
    )


def _read_built_pairs(
    funnel_file: str, item_files: Mapping[str, str], settings: ReportSettings
) -> BuiltPairs:
    """Return the pairs that the study built.

    Args:
        funnel_file: File of `FunnelRecord`.
        item_files: File of `ItemRecord` by data set; only those of instruments are read.
        settings: Facts about the study.
    """
    items = {}
    for name in settings["filters"]:
        items[name] = list(read_records(item_files[name], ItemRecord))
    funnel = list(read_records(funnel_file, FunnelRecord))
    return describe_built_pairs(settings["study"], funnel, items, settings["filters"])


def _choose_example(
    browser: BrowserData, findings: Sequence[ModelFinding]
) -> TypicalExample | None:
    """Return the example of the first screen, with a remark if its model is not above chance."""
    mastered = {finding.name: finding.mastered for finding in findings}
    typical = choose_typical_example(browser, rank_shares(findings), mastered)
    if typical is None:
        return None
    item = browser["items"][typical["item"]]
    model = browser["models"][item["results"][typical["result"]]["model"]]
    for finding in findings:
        if finding.name == model:
            typical["remark"] = describe_chance(finding, item["dataset"])
    return typical


def _read_unusable_images(files: Sequence[str | Path]) -> list[UnusableImage]:
    """Return the images that cannot be used.

    Args:
        files: Files of `ImageFaultRecord`, each named after its source.
    """
    images = []
    for file in files:
        for record in read_records(file, ImageFaultRecord):
            images.append(UnusableImage(Path(file).stem, record.image, record.fault))
    return images


def write_report(path: str | Path, report: ReportInputs) -> None:
    """Write the page as one HTML file, which needs no other file and no network."""
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    # Without any paper value, the page has no part about reproduction and no columns for it.
    compared = any(
        cell.paper_text or cell.paper_value is not None for cell in report.cells
    )
    reproduced = _describe_reproduction(report.cells) if compared else None
    # Without results of models the pairs stand on the first screen, and nothing is left to browse.
    pairs: list[Example] = []
    browser = report.browser
    if browser and report.built_pairs:
        pairs = choose_shown_pairs(browser["items"])
        browser = None
    page = (
        _build_environment()
        .get_template("report.html")
        .render(
            report=report,
            browser=browser,
            pairs=pairs,
            style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
            script=script,
            script_hash=hash_script(script),
            classes=CLASSES,
            facts=summarize_runs(report.records),
            sentences=_describe_study(report, reproduced),
            mixed=list_mixed_means(report.findings),
            few=has_small_means(report.findings),
            placed=select_comparable(report.findings),
            small={"mark": SMALL_MARK, "n": SMALLEST_N, "images": FEWEST_IMAGES},
            bold_rule=BOLD_RULE,
            compared=compared,
            reproduced=reproduced,
            tables=[
                _summarize_table(name, cells)
                for name, cells in group_cells(report.cells, "table").items()
            ],
            grids=_build_grids(report, compared),
            figures=_group_figures(report.figures),
            pictures=inline_figures([figure.file for figure in report.figures]),
            warned=_list_all_warnings(report.records),
            faults=report.faults[:MAX_FAULTS],
        )
    )
    write_text(path, page)


def _describe_study(report: ReportInputs, reproduced: Reproduction | None) -> list[str]:
    """Return the sentences at the head of the page: the heading, a lead, and remarks."""
    if report.built_pairs is not None:
        return [report.built_pairs.heading]
    sentences = [
        *describe_findings(report.findings, report.excess_margin),
        *report.differences,
    ]
    recorded = list_recorded_models(report.records)
    if not recorded or any(model.name not in recorded for model in report.findings):
        return sentences
    citations = {source.name: source.citation for source in report.sources}
    counts = reproduced.total if reproduced else None
    heading, *origins = describe_recorded_runs(recorded, citations, counts)
    different = []
    for cell in select_compared(report.cells):
        if cell.verdict == DIFFERS:
            different.append(cell)
    # Whose answers they are stands next to what was found in them.
    lead = " ".join([*origins, *describe_different_cells(different), sentences[0]])
    return [heading, lead, *sentences[1:]]


def _build_grids(report: ReportInputs, compared: bool) -> Grids:
    """Return the declared tables as data for the page's script, which draws them."""
    tables = []
    for name, cells in group_cells(report.cells, "table").items():
        tables.append(
            make_table_json(get_declaration(name, cells), cells, report.significance)
        )
    return Grids(
        fields=list_field_names(),
        classes=CLASSES,
        marks=VERDICT_MARKS,
        compared=compared,
        small=SMALL_MARK,
        tables=tables,
    )


def _list_all_warnings(runs: Sequence[RunRecord]) -> list[tuple[str, str, int, str]]:
    """Return all warnings of runs, each as the name of the run, its kind, its number of cases and
    their reasons.
    """
    warnings = []
    for run in runs:
        for kind, count, reasons in list_warnings(run):
            warnings.append((run.name, kind, count, reasons))
    return warnings


def _build_environment() -> jinja2.Environment:
    """Return the Jinja environment of the page's templates, with the filters that they use."""
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
        "mark_exchange": mark_exchange,
        "name_datasets": name_datasets,
        "numeric_columns": find_numeric_columns,
        "script_json": escape_json,
        "unbroken": keep_names_on_a_line,
    }
    return environment


def rank_shares(findings: Sequence[ModelFinding]) -> dict[str, float]:
    """Return the mean T-SHAP of each model in percent, without rulers: encoders first, the most
    accurate ones first.
    """
    shares = []
    for finding in findings:
        if finding.kind != RULER and finding.t_shap.value is not None:
            # Tuples sort as wanted: False before True, and the highest accuracy first.
            is_no_encoder = finding.kind != ENCODER
            accuracy = finding.accuracy.value or 0.0
            shares.append(
                (is_no_encoder, -accuracy, finding.name, finding.t_shap.value)
            )
    shares.sort(key=lambda share: share[:2])
    return {name: t_shap for _, _, name, t_shap in shares}


def list_example_figures(
    folders: Sequence[str | Path], headings: Sequence[tuple[str, str]]
) -> list[FigureSection]:
    """Return the figures in folders of examples, folder by folder.

    Args:
        folders: Folders that `save_examples` wrote; names of the folder and its parent are part of
            the figures' ids.
        headings: Heading of each folder's figures, and the paper figures that they correspond to.
    """
    figures = []
    for folder, heading in zip(folders, headings, strict=True):
        for file, title in list_example_files(folder).items():
            *_, kind, model, _ = Path(file).parts
            figures.append(
                FigureSection(
                    f"{kind}-{model}-{Path(file).stem}", file, title, *heading
                )
            )
    return figures


def get_declaration(name: str, cells: Sequence[Cell]) -> Declaration:
    """Return the declaration of a table, with the title for its cells; an undeclared table gets
    rows of metric and model.
    """
    if name in TABLES:
        return name_data_sets(TABLES[name], cells)
    no_sources: dict[str, tuple[NumberSource, ...]] = {
        cell.metric: () for cell in cells
    }
    return Declaration(id=name, title="", sources=no_sources)


def format_duration(seconds: float) -> str:
    """Return a duration as a text in seconds, minutes or hours."""
    # The limits keep two or three digits: 9.9 s, 99 s, 99 min.
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def keep_names_on_a_line(sentence: str) -> Markup:
    """Return a sentence as HTML in which no line breaks within brackets, after the hyphen of a
    name, or between a percentage and its interval.
    """
    # The sentence is escaped first, so that only the added tags are HTML.
    return Markup(
        re.sub(
            r"\([^()]*\)|\S+-\S+|\d+ %( \[[^\]]*\])?",
            r'<span class="unbroken">\g<0></span>',
            str(escape(sentence)),
        )
    )


def mark_exchange(pair: Example, role: str) -> Markup:
    """Return a text of a pair as HTML, with a mark around its exchanged words."""
    text = pair["texts"][role]
    if role not in pair["spans"]:
        return escape(text)
    begin, end = pair["spans"][role]
    return Markup("{}<mark>{}</mark>{}").format(
        text[:begin], text[begin:end], text[end:]
    )


def find_numeric_columns(table: PageTable) -> list[bool]:
    """Return for each column of a table whether it contains only numbers, empty cells and dashes."""
    rows = []
    for row in chain.from_iterable(table.groups.values()):
        rows.append([*row.names, *(text.text for text in row.texts)])
    if not rows:
        return [False] * len(table.header)
    columns = zip(*rows, strict=True)
    return [all(re.match(NUMBER, text) for text in column) for column in columns]


def _summarize_table(name: str, cells: Sequence[Cell]) -> TableSummary:
    """Return the facts about a table that the template shows."""
    declaration = get_declaration(name, cells)
    return TableSummary(
        id=name,
        title=declaration.title,
        notes=declaration.notes,
        counts=count_cells(name, select_compared(cells) or cells),
        numbers=sum(cell.value is not None for cell in cells),
    )


def _describe_reproduction(cells: Sequence[Cell]) -> Reproduction:
    """Return the counts of verdicts that the template shows."""
    compared = select_compared(cells)
    return Reproduction(
        total=count_cells("all tables", compared),
        groups={name: count_cells_by(compared, name) for name in ("table", "model")},
        reasons=count_reasons(compared),
        marks=VERDICT_MARKS,
        other_cells=len(cells) - len(compared),
    )


def _group_figures(
    figures: Sequence[FigureSection],
) -> dict[str, list[EmbeddedFigure]]:
    """Return the figures by heading, each with the index of its picture."""
    groups: dict[str, list[EmbeddedFigure]] = {}
    for index, figure in enumerate(figures):
        size = read_figure_size(figure.file)
        embedded = EmbeddedFigure(figure, Path(figure.file).name, index, size)
        groups.setdefault(figure.group, []).append(embedded)
    return groups
