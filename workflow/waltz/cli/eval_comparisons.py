"""Differences between the models of `waltz eval`: read, corrected by Holm, and said in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from waltz.cli.output import create_console
from waltz.reporting.page.model_differences import (
    T_SHAP,
    describe_difference,
    format_difference,
    format_p,
)

if TYPE_CHECKING:
    import pandas as pd

    from waltz.core.schema import ComparisonRecord
    from waltz.plan.plan import Plan
    from waltz.plan.run_table import Run

NAMES = {"acc_r": "accuracy", T_SHAP: "T-SHAP"}
"""Name of each metric that is compared."""


def read_comparisons(
    plan: Plan, checkout: Path, models: Sequence[str]
) -> list[ComparisonRecord]:
    """Return the differences of accuracy of each pair of models, on each data set and over all, and
    those of T-SHAP if the study computes it.

    Args:
        plan: Plan of the study.
        checkout: The checkout that ran the study.
        models: The models that the user named, in this order; a study may have others, which count
            in no correction.
    Returns:
        Comparisons of the metrics `acc_r` and `t_shap` in the order of the models, with Holm's
        correction over those of a metric that are returned. Those over all data sets are corrected
        by themselves.
    """
    from waltz.evaluation.metrics.comparisons import correct_families

    comparisons: list[ComparisonRecord] = []
    file = checkout / plan.results / "evaluation" / "comparisons.parquet"
    for of_pair in _group_by_pair(file, models).values():
        comparisons += of_pair
    comparisons += _compare_shares(plan, checkout, models)
    return correct_families(comparisons, _name_family)


def _group_by_pair(
    file: Path, models: Sequence[str]
) -> dict[tuple[str, str], list[ComparisonRecord]]:
    """Return the comparisons of accuracy by pair of models, both in the order of `models`."""
    from waltz.core.records import read_records
    from waltz.core.schema import ComparisonRecord
    from waltz.evaluation.settings import PAIRWISE, SINGLE

    # A dictionary keeps the order in which its keys were first set.
    pairs: dict[tuple[str, str], dict[str, ComparisonRecord]] = {}
    for pair in combinations(models, 2):
        pairs[pair] = {}
    for record in read_records(file, ComparisonRecord):
        if record.metric != "acc_r" or record.setting not in (SINGLE, PAIRWISE):
            continue
        if (record.model_b, record.model_a) in pairs:
            record = _swap_models(record)
        of_pair = pairs.get((record.model_a, record.model_b))
        if of_pair is None:
            continue
        # Of two decoders the choices between both texts are compared, as their accuracy is shown.
        if record.dataset not in of_pair or record.setting == PAIRWISE:
            of_pair[record.dataset] = record
    return {pair: list(of_pair.values()) for pair, of_pair in pairs.items()}


def _swap_models(comparison: ComparisonRecord) -> ComparisonRecord:
    """Return a comparison with its models in the other order, so that its difference is negated."""
    difference = comparison.difference
    if difference is not None:
        difference = -difference
    low, high = _negate_interval(comparison)
    return replace(
        comparison,
        model_a=comparison.model_b,
        model_b=comparison.model_a,
        difference=difference,
        ci_low=low,
        ci_high=high,
    )


def _negate_interval(
    comparison: ComparisonRecord,
) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of the negated difference; the ends change places."""
    if comparison.ci_low is None or comparison.ci_high is None:
        return None, None
    return -comparison.ci_high, -comparison.ci_low


def _compare_shares(
    plan: Plan, checkout: Path, models: Sequence[str]
) -> list[ComparisonRecord]:
    """Return the comparisons of T-SHAP of captions; none if the study does not compute it."""
    from waltz.attribution.differences import compare_shares
    from waltz.attribution.summary import SHARE_COLUMNS
    from waltz.core.files.group_files import read_runs
    from waltz.core.intervals import Resampling
    from waltz.core.records import build_frame
    from waltz.core.schema import ATTRIBUTION
    from waltz.plan.datasets import PAIRS, RECORDED
    from waltz.plan.step_settings import get_step_settings

    files: dict[Run, Path] = {}
    for run in plan.attributed:
        if run.model in models and plan.datasets[run.dataset].form in (PAIRS, RECORDED):
            files[run] = checkout / plan.get_run_file("attribution", run)
    if not files:
        return []
    runs = sorted(files, key=lambda run: models.index(run.model))
    frames: dict[tuple[str, str], pd.DataFrame] = {}
    tables = read_runs(dict.fromkeys(files.values()), ATTRIBUTION, runs)
    for model_and_dataset, table in tables.items():
        frames[model_and_dataset] = build_frame(table.select(SHARE_COLUMNS))
    resampling = Resampling(**get_step_settings(plan.study, "resampling"))
    return compare_shares(frames, plan.study.profiles[0], resampling)


def _name_family(comparison: ComparisonRecord) -> tuple[str, bool]:
    """Return what the comparisons have in common whose p values are corrected together."""
    from waltz.evaluation.settings import ALL_DATA_SETS

    return comparison.metric, comparison.dataset == ALL_DATA_SETS


def build_columns(comparison: ComparisonRecord) -> dict[str, object]:
    """Return a comparison as it is written to files, with one column for each number."""
    return {
        "model_a": comparison.model_a,
        "model_b": comparison.model_b,
        "dataset": comparison.dataset,
        "metric": comparison.metric,
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
    table = Table(
        *("model", "less", "data set", "number", "items"), "difference (points)", "p"
    )
    for comparison in comparisons:
        table.add_row(
            comparison.model_a,
            comparison.model_b,
            comparison.dataset,
            NAMES[comparison.metric],
            str(comparison.n),
            format_difference(comparison),
            format_p(comparison.p_holm),
        )
    create_console().print(table)
    for comparison in comparisons:
        typer.echo(describe_difference(comparison))
    typer.echo(_explain_columns(comparisons))


def _explain_columns(comparisons: Sequence[ComparisonRecord]) -> str:
    """Return the line below the table that says what its numbers are."""
    from waltz.evaluation.settings import ALL_DATA_SETS

    counts: defaultdict[str, int] = defaultdict(int)
    for comparison in comparisons:
        counts[_describe_family(comparison)] += 1
    # One comparison alone is not corrected.
    corrected = []
    for family, count in counts.items():
        if count > 1:
            corrected.append(f"{count} comparisons of {family}")
    line = "difference: first model less second on the same items, with 95 % intervals over images"
    if any(comparison.dataset == ALL_DATA_SETS for comparison in comparisons):
        line += ", each data set with the same weight in all data sets"
    line += "; p of the same t test over images"
    if corrected:
        line += f", after Holm's correction over {'; '.join(corrected)}"
    return line


def _describe_family(comparison: ComparisonRecord) -> str:
    """Return the name of the comparisons whose p values are corrected together."""
    from waltz.evaluation.settings import ALL_DATA_SETS

    name = NAMES[comparison.metric]
    if comparison.dataset == ALL_DATA_SETS:
        return f"{name} on {ALL_DATA_SETS}"
    return name
