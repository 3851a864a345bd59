"""What the tests and CC-SHAP say together, of all models on all data sets: thesis 5.2, C.1 to C.3, with their seeds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from waltz.consistency.summary.aggregates import (
    SampledMeasure,
    build_measure,
    compute_correlations_over_seeds,
    compute_mean_over_seeds,
)
from waltz.consistency.summary.edit_claim import judge_claim_of_rows
from waltz.consistency.summary.rescaling import CC_SHAP_METRICS, POST_HOC, SETTING_OF_TEST, compute_rescaled_average
from waltz.core.errors import UserError
from waltz.core.intervals import PERCENT, Bounds, Measure, Resampling

Row = Mapping[str, Any]

COMPANIONS = ("correlation", "mse", "variance", "kl", "js", "with_weak", "weak_answer", "weak_explanation")
"""Columns beside CC-SHAP's value that are averaged as `cc_shap_posthoc:kl` and the like."""
AVERAGE, RESCALED = "average", "rescaled_average"
EDIT_GROUPS = {"edits": None, "edits:flipping": True, "edits:keeping": False}
"""Begins the metrics of counterfactual edits: all, those that change the answer, those that keep it."""
SIGNED: Bounds = (-1.0, 1.0)


@dataclass(frozen=True)
class ConsistencyRows:
    """What stage consistency found for a model on a data set.

    Attributes:
        tests: Rows of the layout `CONSISTENCY`.
        cc_shap: Rows of the layout `CC_SHAP`; empty where the study asks for none.
        edited: Rows of the layout `EDITED`; empty where the study asks for none.
    """

    tests: Sequence[Row]
    cc_shap: Sequence[Row] = field(default=())
    edited: Sequence[Row] = field(default=())


Runs = Mapping[tuple[str, str], ConsistencyRows]
"""By model and data set, in order."""
Series = Mapping[tuple[str, str], Sequence[Row]]
"""By metric and setting: rows of item_id, cluster, seed, value, reason."""


def build_metric_rows(runs: Runs, how: Resampling, together: str = "all") -> list[dict[str, Any]]:
    """Every number of every model on every data set, of each seed and over seeds.

    A metric as named in print is the mean over seeds; `:seed=…` is one seed's, `:sd` the deviation over seeds. Tests
    are percent of the items with a verdict, T-SHAP percent, CC-SHAP -1 to 1, its companions as they are. `edits:…` are
    what counterfactual edits move, `edits:flipping:…` what those that change the answer do, `edits:keeping:…` the
    others; `…:claim` is 1 where they support the printed claim, 0 where they refute it.

    Args:
        runs: What was tested.
        how: Resamples, coverage, seed.
        together: Data set of what edits move over the items of all these data sets.
    Returns:
        Rows of the layout `METRICS`; data set `average` holds a model's `rescaled_average` over its data sets (C.1),
        `together` what edits move over the items of all its data sets, where there are several.
    Raises:
        UserError: A data set was asked in two ways.
    """
    found = []
    parts: dict[tuple[str, str], dict[tuple[str, str], SampledMeasure]] = {}
    edited: dict[tuple[str, str], dict[str, Sequence[Row]]] = {}
    for (model, dataset), run in runs.items():
        for profile, of in _split_by_profile(run, f"{model} on {dataset}").items():
            names = {"model": model, "dataset": dataset, "profile": profile}
            for (metric, setting), rows in _collect_series(of).items():
                here = {**names, "setting": setting}
                whole, told = compute_mean_over_seeds(rows, dataset, how, _get_bounds(metric))
                found += [{**here, "metric": metric + ending, **vars(measure)} for ending, measure in told]
                if metric in SETTING_OF_TEST or metric in CC_SHAP_METRICS.values():
                    parts.setdefault((model, profile), {})[dataset, metric] = whole
            edited.setdefault((model, profile), {})[dataset] = of.edited
            found += [
                {**names, "setting": POST_HOC, "metric": metric, **vars(measure)}
                for metric, measure in _summarize_edit_groups(of.edited, dataset, how)
            ]
    for (model, profile), by_dataset in edited.items():
        if sum(map(bool, by_dataset.values())) > 1:
            names = {"model": model, "dataset": together, "profile": profile, "setting": POST_HOC}
            pooled = [row for rows in by_dataset.values() for row in rows]
            found += [
                {**names, "metric": metric, **vars(measure)}
                for metric, measure in _summarize_edit_groups(pooled, together, how)
            ]
    for (model, profile), cells in parts.items():
        names = {"model": model, "dataset": AVERAGE, "profile": profile, "setting": "", "metric": RESCALED}
        found.append({**names, **vars(_compute_rescaled_average(cells, how))})
    return found


def build_correlation_rows(runs: Runs, how: Resampling) -> list[dict[str, Any]]:
    """Point-biserial correlation times 100 of each test with the CC-SHAP of its setting (thesis C.3).

    Args:
        runs: What was tested.
        how: Resamples, coverage, seed.
    Returns:
        Rows of the layout `METRICS`, of each seed and over seeds as in `metric_rows`; without a value, which print
        gives as nan, where a test or CC-SHAP is constant.
    """
    found = []
    for (model, dataset), run in runs.items():
        for profile, of in _split_by_profile(run, f"{model} on {dataset}").items():
            series = _collect_series(of)
            for (metric, setting), tests in series.items():
                scores = series.get((CC_SHAP_METRICS[setting], setting))
                if metric not in SETTING_OF_TEST or scores is None:
                    continue
                here = {"model": model, "dataset": dataset, "profile": profile, "setting": setting}
                told = compute_correlations_over_seeds(tests, scores, dataset, how)
                found += [{**here, "metric": metric + ending, **vars(measure)} for ending, measure in told]
    return found


def _split_by_profile(run: ConsistencyRows, place: str) -> dict[str, ConsistencyRows]:
    """A run cut by profile, in the order of the rows."""
    asked = sorted({row["setting"] for row in (*run.tests, *run.cc_shap)})
    if len(asked) > 1:
        raise UserError(
            f"consistency of {place}: items were asked as {' and as '.join(asked)}; delete one and run again"
        )
    profiles = dict.fromkeys(row["profile"] for row in (*run.tests, *run.cc_shap, *run.edited))
    return {
        profile: ConsistencyRows(*([row for row in rows if row["profile"] == profile] for rows in vars(run).values()))
        for profile in profiles
    }


def _collect_series(run: ConsistencyRows) -> Series:
    """Numbers by metric and setting of print."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in run.tests:
        value = None if row["verdict"] is None else 100.0 * row["verdict"]
        found.setdefault((row["test"], SETTING_OF_TEST[row["test"]]), []).append(_build_number(row, value))
    for row in run.cc_shap:
        setting, name = row["kind"], CC_SHAP_METRICS[row["kind"]]
        found.setdefault((name, setting), []).append(_build_number(row, row["value"]))
        for companion in COMPANIONS:
            found.setdefault((f"{name}:{companion}", setting), []).append(_build_number(row, row[companion]))
        for metric, column in (("t_shap_prediction", "t_shap_answer"), ("t_shap_explanation", "t_shap_explanation")):
            if row["image"] is not None:
                value = None if row[column] is None else 100.0 * row[column]
                found.setdefault((metric, setting), []).append(_build_number(row, value))
    return found


def _build_number(row: Row, value: float | None) -> dict[str, Any]:
    return {
        "item_id": row["item_id"],
        "cluster": str(row["item_id"] if row["image"] is None else row["image"]),
        "seed": row["seed"],
        "value": None if value is None or not math.isfinite(value) else float(value),
        "reason": row["error"] or row["reason"],
    }


def _get_bounds(metric: str) -> Bounds | None:
    """Least and greatest value of a metric; None of companions that have none."""
    if metric in CC_SHAP_METRICS.values() or metric.endswith(":correlation"):
        return SIGNED
    return None if ":" in metric else PERCENT


def _compute_rescaled_average(cells: Mapping[tuple[str, str], SampledMeasure], how: Resampling) -> Measure:
    """Thesis C.1 over all data sets, which are drawn independently."""
    scores = tuple(CC_SHAP_METRICS.values())
    found = compute_rescaled_average({key: cell.measure for key, cell in cells.items()}, scores)
    if found.value is None:
        return found
    by_dataset: dict[str, list[np.ndarray]] = {}
    for (dataset, metric), cell in cells.items():
        by_dataset.setdefault(dataset, []).append(50 * (cell.draws + 1) if metric in scores else cell.draws)
    draws = np.mean([np.mean(draws, axis=0) for draws in by_dataset.values()], axis=0)
    return build_measure(found.value, found.n, draws, how, found.n, PERCENT)


def _summarize_edit_groups(rows: Sequence[Row], label: str, how: Resampling) -> Iterator[tuple[str, Measure]]:
    """What edits move, over items of all seeds: all edits, those that change the answer and those that keep it."""
    if not rows:
        return
    for name, flipped in EDIT_GROUPS.items():
        of = [row for row in rows if flipped is None or row["flipped"] is flipped]
        for metric, measure in _summarize_edits(of, label, how):
            yield f"{name}:{metric}", measure


def _summarize_edits(rows: Sequence[Row], label: str, how: Resampling) -> Iterator[tuple[str, Measure]]:
    """What edits move, and what that says of the printed claim."""
    found = judge_claim_of_rows(rows, label, how)
    yield "answer", found.answer
    yield "explanation", found.explanation
    yield "difference", found.difference
    n = found.difference.n
    if found.verdict in ("supports", "refutes"):
        yield "claim", Measure(float(found.verdict == "supports"), n)
    else:
        reason = (
            found.difference.reason or f"undecided: the interval over {n} items allows either, or too few were edited"
        )
        yield "claim", Measure(None, n, reason=reason)
    for column in ("inserted_answer", "inserted_explanation"):
        shares = [_build_number(row, row[column]) for row in rows]
        yield column, compute_mean_over_seeds(shares, label, how, (0.0, 1.0))[0].measure if rows else found.difference
