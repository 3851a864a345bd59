"""Differences between the models of `waltz eval`: read, corrected by Holm, and said in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from waltz.cli.output import create_console

if TYPE_CHECKING:
    from waltz.core.schema import ComparisonRecord

SIGNIFICANT = 0.05
"""Largest corrected p value with which one model is called better."""


def read_comparisons(results: Path, models: Sequence[str]) -> list[ComparisonRecord]:
    """Return the differences of accuracy of each pair of models on each data set.

    Args:
        results: Folder of the study's results.
        models: The models that the user named; a study may have others, which count in no
            correction.
    Returns:
        Comparisons of the metric `acc_r`, with Holm's correction over those that are returned.
    """
    from waltz.core.records import read_records
    from waltz.core.schema import ComparisonRecord
    from waltz.evaluation.settings import PAIRWISE, SINGLE

    file = results / "evaluation" / "comparisons.parquet"
    chosen: dict[tuple[str, str, str], ComparisonRecord] = {}
    for record in read_records(file, ComparisonRecord):
        if record.metric != "acc_r" or record.setting not in (SINGLE, PAIRWISE):
            continue
        if record.model_a not in models or record.model_b not in models:
            continue
        # Of two decoders the choices between both texts are compared, as their accuracy is shown.
        key = (record.dataset, record.model_a, record.model_b)
        if key not in chosen or record.setting == PAIRWISE:
            chosen[key] = record
    return _correct_comparisons(list(chosen.values()))


def _correct_comparisons(
    comparisons: Sequence[ComparisonRecord],
) -> list[ComparisonRecord]:
    """Return comparisons whose p values are corrected by Holm over these comparisons alone."""
    from waltz.evaluation.metrics.comparisons import correct_by_holm

    p_values: dict[int, float] = {}
    for position, comparison in enumerate(comparisons):
        if comparison.p is not None:
            p_values[position] = comparison.p
    corrected = list(comparisons)
    p_holms = correct_by_holm(list(p_values.values()))
    for position, p_holm in zip(p_values, p_holms, strict=True):
        corrected[position] = replace(comparisons[position], p_holm=p_holm)
    return corrected


def build_columns(comparison: ComparisonRecord) -> dict[str, object]:
    """Return a comparison as it is written to files, with one column for each number."""
    return {
        "model_a": comparison.model_a,
        "model_b": comparison.model_b,
        "dataset": comparison.dataset,
        "items": comparison.n,
        "difference": comparison.difference,
        "difference_low": comparison.ci_low,
        "difference_high": comparison.ci_high,
        "p": comparison.p,
        "p_holm": comparison.p_holm,
        "reason": comparison.reason,
    }


def print_comparisons(comparisons: Sequence[ComparisonRecord]) -> None:
    """Print a table of the differences, and a sentence for each of them."""
    from rich.table import Table

    if not comparisons:
        return
    table = Table("model", "less", "data set", "items", "difference (points)", "p")
    for comparison in comparisons:
        table.add_row(
            comparison.model_a,
            comparison.model_b,
            comparison.dataset,
            str(comparison.n),
            format_difference(comparison),
            format_p(comparison.p_holm),
        )
    create_console().print(table)
    for comparison in comparisons:
        typer.echo(describe_comparison(comparison))
    typer.echo(
        "difference: of the accuracies on the same items, with 95 % intervals over images; p: McNemar's exact test"
        f" over images, after Holm's correction for {len(comparisons)} comparisons"
    )


def format_difference(comparison: ComparisonRecord) -> str:
    """Return the difference with its sign and interval; without a difference, the reason."""
    if comparison.difference is None:
        return comparison.reason or "–"
    if comparison.ci_low is None or comparison.ci_high is None:
        return f"{comparison.difference:+.1f}"
    interval = f"[{comparison.ci_low:+.1f}, {comparison.ci_high:+.1f}]"
    return f"{comparison.difference:+.1f} {interval}"


def format_p(p: float | None) -> str:
    """Return a p value with three decimals, or the bound below which it lies."""
    if p is None:
        return "–"
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}"


def describe_comparison(comparison: ComparisonRecord) -> str:
    """Return one sentence that says which model is better, or how large a difference may be."""
    pair = f"{comparison.model_a} and {comparison.model_b}"
    if comparison.difference is None:
        return f"{pair} are not compared on {comparison.dataset}: {comparison.reason}"
    p = format_p(comparison.p_holm)
    p_text = f"p {p}" if p.startswith("<") else f"p = {p}"
    if comparison.p_holm is not None and comparison.p_holm <= SIGNIFICANT:
        return _describe_better(comparison, p_text)
    shown = f"{pair}: no difference is shown on {comparison.dataset} ({p_text})"
    if comparison.ci_low is None or comparison.ci_high is None:
        return f"{shown}; too few images say how large one may be"
    largest = max(abs(comparison.ci_low), abs(comparison.ci_high))
    return f"{shown}; one of up to {largest:.1f} points cannot be excluded"


def _describe_better(comparison: ComparisonRecord, p_text: str) -> str:
    """Return the sentence of a difference that is larger than chance, from the better model's view."""
    better, worse = comparison.model_a, comparison.model_b
    difference = comparison.difference or 0.0
    ends = [comparison.ci_low, comparison.ci_high]
    if difference < 0:
        better, worse = worse, better
        # The interval turns with the sign of the difference.
        ends = [None if end is None else -end for end in reversed(ends)]
    sentence = f"{better} is better than {worse} on {comparison.dataset} by {abs(difference):.1f} points"
    low, high = ends
    if low is not None and high is not None:
        sentence += f" [{low:.1f}, {high:.1f}]"
    return f"{sentence}, {p_text}"
