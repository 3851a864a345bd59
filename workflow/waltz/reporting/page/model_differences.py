"""Sentences about the differences between models, and their numbers as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from waltz.evaluation.settings import ALL_DATA_SETS, PAIRWISE, SINGLE

if TYPE_CHECKING:
    from waltz.core.schema import ComparisonRecord
    from waltz.reporting.page.findings import ModelFinding

SIGNIFICANCE_LEVEL = 0.05
"""Largest corrected p value with which one model is called better."""
T_SHAP = "t_shap"
SHOWN_SETTINGS = (SINGLE, PAIRWISE)
"""Settings of the comparisons that the head of the page names; a later one is preferred."""
MAX_PAIRS = 3
"""Largest number of pairs of models that the head of the page compares; a table has all pairs."""


def describe_model_differences(
    comparisons: Sequence[ComparisonRecord], findings: Sequence[ModelFinding]
) -> list[str]:
    """Return one sentence for each pair of models about their accuracy over all data sets, or on the
    only one; none if there are more than `MAX_PAIRS` pairs.

    Args:
        comparisons: Paired comparisons of a study, of all metrics and settings.
        findings: Findings of its models, all in the profile that is shown; rulers are not compared.
    """
    models = {finding.name for finding in findings if finding.kind != "ruler"}
    profiles = {finding.profile for finding in findings}
    compared = [
        record
        for record in comparisons
        if record.metric == "acc_r"
        and record.setting in SHOWN_SETTINGS
        and record.profile in profiles
        and models.issuperset({record.model_a, record.model_b})
    ]
    # The last comparison of a pair counts: that of all data sets and, of two decoders, of their
    # choices between both texts, as their accuracy is shown.
    compared.sort(key=lambda record: SHOWN_SETTINGS.index(record.setting))
    compared.sort(key=lambda record: record.dataset == ALL_DATA_SETS)
    shown = {(record.model_a, record.model_b): record for record in compared}
    if len(shown) > MAX_PAIRS:
        return []
    return [f"{describe_difference(record)}." for record in shown.values()]


def format_difference(comparison: ComparisonRecord) -> str:
    """Return the difference with its sign and interval; without a difference, the reason."""
    if comparison.difference is None:
        return comparison.reason or "–"
    if comparison.ci_low is None or comparison.ci_high is None:
        return _format_signed(comparison.difference)
    low, high = map(_format_signed, (comparison.ci_low, comparison.ci_high))
    return f"{_format_signed(comparison.difference)} [{low}, {high}]"


def _format_signed(points: float) -> str:
    """Return a difference with its sign; one that is rounded to zero has a plus."""
    return f"{round(points, 1) + 0.0:+.1f}"


def format_p(p: float | None) -> str:
    """Return a p value with three decimals, or the bound below which it lies."""
    if p is None:
        return "–"
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}"


def _describe_p(p: float | None) -> str:
    """Return a p value in a sentence: `p = 0.011` or `p < 0.001`."""
    text = format_p(p)
    if text.startswith("<"):
        return f"p {text}"
    return f"p = {text}"


def describe_difference(comparison: ComparisonRecord) -> str:
    """Return one sentence that says which model is better, or has the higher T-SHAP, or how large a
    difference may be.
    """
    pair = f"{comparison.model_a} and {comparison.model_b}"
    # Accuracy is what the page is about; another number is named.
    of_metric = ""
    if comparison.metric == T_SHAP:
        of_metric = " of T-SHAP"
    if comparison.difference is None:
        return f"{pair}: no comparison{of_metric} on {comparison.dataset}: {comparison.reason}"
    p_text = _describe_p(comparison.p_holm)
    if comparison.p_holm is not None and comparison.p_holm <= SIGNIFICANCE_LEVEL:
        return _describe_better(comparison, p_text)
    shown = (
        f"{pair}: no difference{of_metric} is shown on {comparison.dataset} ({p_text})"
    )
    if comparison.ci_low is None or comparison.ci_high is None:
        return f"{shown}; too few images say how large one may be"
    largest = max(abs(comparison.ci_low), abs(comparison.ci_high))
    return f"{shown}; one of up to {largest:.1f} points cannot be excluded"


def _describe_better(comparison: ComparisonRecord, p_text: str) -> str:
    """Return the sentence of a difference that is larger than chance, with the higher number first."""
    better, worse = comparison.model_a, comparison.model_b
    difference = comparison.difference or 0.0
    sign = 1
    if difference < 0:
        better, worse = worse, better
        sign = -1
    verb = "is better than"
    if comparison.metric == T_SHAP:
        verb = "has a higher T-SHAP than"
    sentence = f"{better} {verb} {worse} on {comparison.dataset} by {abs(difference):.1f} points"
    if comparison.ci_low is not None and comparison.ci_high is not None:
        # The interval turns with the sign of the difference.
        low, high = sorted((sign * comparison.ci_low, sign * comparison.ci_high))
        sentence += f" [{low:.1f}, {high:.1f}]"
    return f"{sentence}, {p_text}"
