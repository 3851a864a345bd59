"""Results of `waltz eval`: accuracy and T-SHAP of each model on each data set, read, printed and
written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from waltz.cli.eval_comparisons import NAMES, build_columns
from waltz.cli.output import create_console, write_csv
from waltz.core.files.atomic import write_text
from waltz.core.measure import Measure
from waltz.evaluation.settings import GROUP_METRICS
from waltz.reporting.page.model_differences import format_difference, format_p

if TYPE_CHECKING:
    from waltz.core.schema import ComparisonRecord, MetricRecord, ShareRecord

OUTPUT_FORMATS = (".csv", ".json", ".tex")
"""Suffixes of files to which results are written."""
SETTINGS = ("alignment", "perplexity", "pairwise")
"""Settings whose accuracies are shown: those of encoders, of language models and of VL decoders."""
NOT_MEASURED = Measure(None, 0)
"""Measure in the place of a T-SHAP that was not computed."""


@dataclass(frozen=True, slots=True)
class ResultRow:
    """Results of one model on one data set: accuracy and T-SHAP in percent, with 95 % intervals.

    Attributes:
        model: Name of the model in the study.
        dataset: Name of the data set, or `average`.
        accuracy: Percentage of pairs in which the caption scores higher than its foil; a tie counts
            half.
        t_shap: Share of the text in the score of the caption.
        player_share: Share of players that are text, in percent, which is the T-SHAP of equal
            contributions; None if it is unknown.
        group_scores: Measure of each of `GROUP_METRICS`; empty for data without groups.
    """

    model: str
    dataset: str
    accuracy: Measure
    t_shap: Measure
    group_scores: Mapping[str, Measure] = field(default_factory=dict)
    player_share: float | None = None

    def to_columns(self) -> dict[str, object]:
        """Return the row as it is written to files, with one column for each number."""
        measures = {"accuracy": self.accuracy, "t_shap": self.t_shap}
        columns: dict[str, object] = {
            "model": self.model,
            "dataset": self.dataset,
            "items": self.accuracy.n,
        }
        for name, measure in {**measures, **self.group_scores}.items():
            columns[name] = measure.value
            columns[f"{name}_low"] = measure.ci_low
            columns[f"{name}_high"] = measure.ci_high
            columns[f"{name}_reason"] = measure.reason
        columns["player_share"] = self.player_share
        return columns


def read_result_rows(
    results: Path, models: Sequence[str], attribute: bool
) -> list[ResultRow]:
    """Return the results of a study, model by model and data set by data set.

    Args:
        results: Folder of the study's results.
        models: Models in the order in which they are shown.
        attribute: Whether T-SHAP was computed.
    """
    from waltz.evaluation.metrics.summary import AVERAGE

    shares = _read_shares(results) if attribute else {}
    accuracies = _read_accuracies(results)
    group_scores = _read_group_scores(results)
    rows: list[ResultRow] = []
    for accuracy in sorted(accuracies, key=lambda record: models.index(record.model)):
        t_shap, player_share = NOT_MEASURED, None
        share = shares.get((accuracy.model, accuracy.dataset, accuracy.setting))
        if share:
            t_shap, player_share = share.measure, share.player_share
        if accuracy.dataset == AVERAGE:
            # The average comes after the data sets of its model.
            t_shap = _average(
                [row.t_shap for row in rows if row.model == accuracy.model]
            )
        # Rows of one file have the same columns, also where a model has no such scores.
        scores: dict[str, Measure] = {}
        if group_scores:
            scores = dict.fromkeys(GROUP_METRICS, NOT_MEASURED)
        scores |= group_scores.get((accuracy.model, accuracy.dataset), {})
        rows.append(
            ResultRow(
                accuracy.model,
                accuracy.dataset,
                accuracy.measure,
                t_shap,
                scores,
                player_share,
            )
        )
    return rows


def _read_group_scores(results: Path) -> dict[tuple[str, str], dict[str, Measure]]:
    """Return text, image and group score by model and data set; empty for data without groups."""
    from waltz.core.records import read_records
    from waltz.core.schema import MetricRecord

    scores: dict[tuple[str, str], dict[str, Measure]] = {}
    file = results / "evaluation" / "metrics.parquet"
    for record in read_records(file, MetricRecord):
        if record.metric in GROUP_METRICS:
            of_run = scores.setdefault((record.model, record.dataset), {})
            of_run[record.metric] = record.measure
    return scores


def _read_shares(results: Path) -> dict[tuple[str, str, str], ShareRecord]:
    """Return the records of T-SHAP of captions, by model, data set and setting."""
    from waltz.core.records import read_records
    from waltz.core.schema import ShareRecord

    shares = {}
    for record in read_records(results / "attribution" / "shares.parquet", ShareRecord):
        # The share of a foil is another number, about a text that is false of the image.
        if record.role == "caption":
            shares[record.model, record.dataset, record.setting] = record
    return shares


def _read_accuracies(results: Path) -> list[MetricRecord]:
    """Return the accuracies that are shown: on each data set, and their average if there are
    several data sets.
    """
    from waltz.core.records import read_records
    from waltz.core.schema import MetricRecord
    from waltz.evaluation.metrics.summary import AVERAGE

    accuracies = []
    for record in read_records(
        results / "evaluation" / "metrics.parquet", MetricRecord
    ):
        # acc_r compares the texts of a pair, which all three kinds of models can do.
        if record.metric == "acc_r" and record.setting in SETTINGS:
            accuracies.append(record)
    # The average of a single data set would repeat its row.
    datasets = {record.dataset for record in accuracies} - {AVERAGE}
    if len(datasets) > 1:
        return accuracies
    return [record for record in accuracies if record.dataset != AVERAGE]


def _average(measures: Sequence[Measure]) -> Measure:
    """Return the average over the data sets of one model; `NOT_MEASURED` if a data set has no
    value.
    """
    from waltz.evaluation.metrics.pair_metrics import average_measures

    if any(measure.value is None for measure in measures):
        return NOT_MEASURED
    return average_measures(measures)


def print_results(rows: Sequence[ResultRow]) -> None:
    """Print a table of the results, and sentences that explain its numbers."""
    from rich.table import Table

    # Without any T-SHAP, the table has no column for it.
    is_attributed = any(row.t_shap.value is not None for row in rows)
    columns = ["model", "data set", "items", "accuracy (%)"]
    if is_attributed:
        columns.append("T-SHAP (%)")
    table = Table(*columns)
    for row in rows:
        cells = [
            row.model,
            row.dataset,
            str(row.accuracy.n),
            _format_measure(row.accuracy),
        ]
        if is_attributed:
            cells.append(_format_measure(row.t_shap))
        table.add_row(*cells)
    create_console().print(table)
    typer.echo(
        "accuracy: how often the caption scores higher than its foil, ties counting half (50 is chance); in brackets"
        " 95 % intervals"
    )
    if is_attributed:
        typer.echo(
            f"T-SHAP: the text's share in the score of the caption; the rest is the image's{_describe_floor(rows)}"
        )


def _describe_floor(rows: Sequence[ResultRow]) -> str:
    """Return the clause about the T-SHAP of equal contributions; empty if it is unknown."""
    floors = [row.player_share for row in rows if row.player_share is not None]
    if not floors:
        return ""
    # Equal ends are said once.
    ends = dict.fromkeys((f"{min(floors):.0f}", f"{max(floors):.0f}"))
    share = " to ".join(ends)
    return f"; {share} % if all players contributed alike, which is the share of players that are text"


def print_group_scores(rows: Sequence[ResultRow]) -> None:
    """Print a table of text, image and group scores if the data have groups."""
    from rich.table import Table

    table = Table("model", "data set", "groups", *map(name_metric, GROUP_METRICS))
    for row in rows:
        # Language models have no such scores, and the average is over other data sets.
        measures = list(map(row.group_scores.get, GROUP_METRICS))
        if not any(measures) or NOT_MEASURED in measures:
            continue
        texts = map(_format_measure, filter(None, measures))
        n_groups = row.group_scores["group_score"].n
        table.add_row(row.model, row.dataset, str(n_groups), *texts)
    if not table.rows:
        return
    create_console().print(table)
    typer.echo(
        "groups of two images and two captions, in percent, ties counting as wrong: text score, each image prefers its"
        " own caption (25 is chance); image score, each caption prefers its own image (25); group score, both (16.7)"
    )


def name_metric(metric: str) -> str:
    """Return the name of a group metric in tables."""
    return f"{metric.replace('_', ' ')} (%)"


def _format_measure(measure: Measure) -> str:
    """Return a value with its interval in brackets; without a value, the reason or a dash."""
    if measure.value is None:
        return measure.reason or "–"
    if measure.ci_low is None or measure.ci_high is None:
        return f"{measure.value:.1f}"
    return f"{measure.value:.1f} [{measure.ci_low:.1f}, {measure.ci_high:.1f}]"


def print_warnings(results: Path) -> None:
    """Print a line for each kind of texts that could not be scored or attributed, with the reasons."""
    from waltz.reporting.run_records import list_warnings, read_study_records

    files: list[Path] = []
    for pattern in (
        "benchmark/*.run.json",
        "evaluation/*/*.run.json",
        "attribution/*/*.run.json",
    ):
        files += sorted(results.glob(pattern))
    for record in read_study_records(files, results):
        for kind, count, reasons in list_warnings(record):
            # Warnings without a reason, such as the number of ties, are left to the report page.
            if reasons:
                typer.echo(f"{record.name}: {count} {kind} ({reasons})")


def write_results(
    file: Path, rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRecord]
) -> None:
    """Write the results, and the differences between models if there are several.

    CSV and JSON have one table a file, so that the differences get a file of their own, whose name
    ends with `-differences`; LaTeX has both tables in one file.

    Args:
        file: File of the results; its suffix is one of `OUTPUT_FORMATS`.
        rows: The results.
        comparisons: Differences between the models.
    """
    results = [row.to_columns() for row in rows]
    differences = [build_columns(comparison) for comparison in comparisons]
    if file.suffix == ".tex":
        write_text(file, _render_latex(rows, comparisons))
        return
    _write_table(file, results)
    if differences:
        _write_table(get_differences_file(file), differences)


def get_differences_file(file: Path) -> Path:
    """Return the file of the differences that belongs to a file of results."""
    return file.with_name(f"{file.stem}-differences{file.suffix}")


def _write_table(file: Path, rows: Sequence[dict[str, object]]) -> None:
    """Write rows as JSON or CSV, depending on the suffix of the file."""
    if file.suffix == ".json":
        write_text(file, json.dumps(rows, indent=1) + "\n")
    else:
        write_csv(file, list(rows[0]), rows)


def _render_latex(
    rows: Sequence[ResultRow], comparisons: Sequence[ComparisonRecord]
) -> str:
    """Return the results and the differences as LaTeX tables of the package booktabs."""
    import pandas as pd

    from waltz.evaluation.metrics.summary import AVERAGE
    from waltz.reporting.tables.formats import escape_latex

    results = pd.DataFrame(
        {
            "Model": [row.model for row in rows],
            "Data set": [row.dataset for row in rows],
            "Items": [row.accuracy.n for row in rows],
            "Accuracy (%)": [_format_measure(row.accuracy) for row in rows],
        }
    )
    if any(row.t_shap.value is not None for row in rows):
        results["T-SHAP (%)"] = [_format_measure(row.t_shap) for row in rows]
    if any(row.group_scores for row in rows):
        for metric in GROUP_METRICS:
            results[name_metric(metric).capitalize()] = [
                _format_measure(row.group_scores[metric]) for row in rows
            ]
    names = dict.fromkeys(row.dataset for row in rows)
    names.pop(AVERAGE, None)
    caption = f"Results on {', '.join(names)}, with 95 % intervals."
    text = results.to_latex(
        index=False, escape=True, caption=escape_latex(caption), label="tab:results"
    )
    if not comparisons:
        return text
    differences = pd.DataFrame(
        {
            "Model": [comparison.model_a for comparison in comparisons],
            "Less": [comparison.model_b for comparison in comparisons],
            "Data set": [comparison.dataset for comparison in comparisons],
            "Number": [NAMES[comparison.metric] for comparison in comparisons],
            "Difference (points)": list(map(format_difference, comparisons)),
            "$p$": [format_p(comparison.p_holm) for comparison in comparisons],
        }
    )
    # The heading of the column is mathematics, and is not escaped.
    differences = differences.map(escape_latex)
    caption = "Differences on the same items, with 95 % intervals and p values after Holm's correction."
    return text + differences.to_latex(
        index=False, caption=escape_latex(caption), label="tab:differences"
    )


def print_files(results: Path, output: Path | None) -> None:
    """Print the paths of what was written: the output, and tables, figures and report page of the
    study.

    Args:
        results: Folder of the study's results.
        output: File of the option `--output`; None where it is absent.
    """
    reporting = results / "reporting"
    paths = [reporting / name for name in ("tables", "figures", "report.html")]
    if output:
        paths = [output, get_differences_file(output), *paths]
    for path in paths:
        if path.exists():
            typer.echo(f"written: {path}", err=True)
