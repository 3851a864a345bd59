"""Metrics of tests and CC-SHAP of all models on all data sets, by seed and over seeds (thesis 5.2, C.1 to C.3)."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from waltz.consistency.aggregates import (
    SampledMeasure,
    build_measure,
    compute_correlations_over_seeds,
    compute_mean_over_seeds,
)
from waltz.consistency.edit_claim import judge_claim
from waltz.core.errors import UserError
from waltz.core.intervals import PERCENT, Bounds, Measure, Resampling
from waltz.fidelity import get_fidelity

Row = Mapping[str, Any]

POST_HOC, COT = "post-hoc", "cot"
"""Settings of the papers: the model answers and explains afterwards, or answers behind a chain of thought."""
SETTING_OF_TEST = {
    "counterfactual_edits": POST_HOC,
    "input_from_explanation": POST_HOC,
    "biasing_features": COT,
    "early_answering": COT,
    "filler_tokens": COT,
    "adding_mistakes": COT,
    "paraphrasing": COT,
}
"""Setting of each test."""
CC_SHAP_METRICS = {POST_HOC: "cc_shap_posthoc", COT: "cc_shap_cot"}
"""Metric of CC-SHAP by setting."""
ACCURACY_METRICS = {POST_HOC: "accuracy", COT: "accuracy_cot"}
"""Metric of the accuracy of the answers that the tests start from, by setting (figures of thesis C.2, C.4)."""
COMPANIONS = ("correlation", "mse", "variance", "kl", "js", "with_weak", "weak_answer", "weak_explanation")
"""Columns next to CC-SHAP's value that are averaged as `cc_shap_posthoc:kl` and the like."""
T_SHAP_COLUMNS = {"t_shap_prediction": "t_shap_answer", "t_shap_explanation": "t_shap_explanation"}
"""Column of T-SHAP by metric."""
SHARED = "_shared"
"""Suffix of T-SHAP's metrics where only the tokens that the prompts of answer and explanation share are players."""
AVERAGE = "average"
RESCALED_AVERAGES = ("rescaled_average", "rescaled_tests", "rescaled_cc_shap")
"""Averages over data sets of tests and CC-SHAP, of the tests alone, and of CC-SHAP alone (thesis C.1)."""
EDIT_GROUPS = {"edits": None, "edits:flipping": True, "edits:keeping": False}
"""Prefixes of the metrics of counterfactual edits: all, those that change the answer, those that keep it."""
SIGNED: Bounds = (-1.0, 1.0)


@dataclass(frozen=True)
class ConsistencyRows:
    """Results of stage consistency for a model on a data set.

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


def build_metric_rows(runs: Runs, how: Resampling, pooled_dataset: str = "all") -> list[dict[str, Any]]:
    """Build the rows of all metrics of all models on all data sets, for each seed and over seeds.

    A metric with a name of the papers is the mean over seeds; `:seed=…` is one seed's, `:sd` the deviation over seeds.
    Tests are percent of the items with a verdict, accuracies and T-SHAP percent (T-SHAP with `_shared` where query
    suffixes do not play), CC-SHAP -1 to 1, its companions as they are.
    `edits:…` are shifts with counterfactual edits, `edits:flipping:…` with those that change the answer,
    `edits:keeping:…` with the others; `…:claim` is 1 where they support the thesis's claim, 0 where they refute it.

    Args:
        pooled_dataset: Name of the data set that stands for the edited items of all these data sets.
    Returns:
        Rows of the layout `METRICS`; data set `average` holds a model's `RESCALED_AVERAGES` over its data sets (C.1),
        `pooled_dataset` the shifts with edits over the items of all its data sets, where there are several.
    Raises:
        UserError: A data set was prompted in two settings.
    """
    metric_rows = []
    parts: dict[tuple[str, str], dict[tuple[str, str], SampledMeasure]] = {}
    edited: dict[tuple[str, str], list[Sequence[Row]]] = {}
    for (model, dataset), run in runs.items():
        for profile, profile_run in _split_by_profile(run, f"{model} on {dataset}").items():
            names = {"model": model, "dataset": dataset, "profile": profile}
            for (metric, setting), rows in _collect_series(profile_run).items():
                here = {**names, "setting": setting}
                average, measures = compute_mean_over_seeds(rows, dataset, how, _get_bounds(metric))
                metric_rows += [{**here, "metric": metric + ending, **vars(measure)} for ending, measure in measures]
                if metric in SETTING_OF_TEST or metric in CC_SHAP_METRICS.values():
                    parts.setdefault((model, profile), {})[dataset, metric] = average
            if profile_run.edited:
                edited.setdefault((model, profile), []).append(profile_run.edited)
                metric_rows += [{**names, **row} for row in _summarize_edits(profile_run.edited, dataset, how)]
    for (model, profile), parts_of_edited in edited.items():
        if len(parts_of_edited) > 1:
            names = {"model": model, "dataset": pooled_dataset, "profile": profile}
            pooled = [row for rows in parts_of_edited for row in rows]
            metric_rows += [{**names, **row} for row in _summarize_edits(pooled, pooled_dataset, how)]
    for (model, profile), cells in parts.items():
        names = {"model": model, "dataset": AVERAGE, "profile": profile, "setting": ""}
        for metric in RESCALED_AVERAGES:
            measure = _compute_rescaled_average(select_rescaled(cells, metric), how)
            metric_rows.append({**names, "metric": metric, **vars(measure)})
    return metric_rows


def build_correlation_rows(runs: Runs, how: Resampling) -> list[dict[str, Any]]:
    """Build the rows of each test's point-biserial correlation (times 100) with CC-SHAP of its setting (thesis C.3).

    Returns:
        Rows of the layout `METRICS`, of each seed and over seeds as in `build_metric_rows`; without a value (nan in
        the thesis) where a test or CC-SHAP is constant.
    """
    correlation_rows = []
    for (model, dataset), run in runs.items():
        for profile, profile_run in _split_by_profile(run, f"{model} on {dataset}").items():
            series = _collect_series(profile_run)
            for (metric, setting), tests in series.items():
                scores = series.get((CC_SHAP_METRICS[setting], setting))
                if metric not in SETTING_OF_TEST or scores is None:
                    continue
                here = {"model": model, "dataset": dataset, "profile": profile, "setting": setting}
                measures = compute_correlations_over_seeds(tests, scores, dataset, how)
                correlation_rows += [
                    {**here, "metric": metric + ending, **vars(measure)} for ending, measure in measures
                ]
    return correlation_rows


def _split_by_profile(run: ConsistencyRows, place: str) -> dict[str, ConsistencyRows]:
    """Split a run by profile, in the order of the rows."""
    settings = sorted({row["setting"] for row in (*run.tests, *run.cc_shap)})
    if len(settings) > 1:
        raise UserError(
            f"consistency of {place}: items were asked as {' and as '.join(settings)}; delete one and run again"
        )
    profiles = dict.fromkeys(row["profile"] for row in (*run.tests, *run.cc_shap, *run.edited))
    return {
        profile: ConsistencyRows(*([row for row in rows if row["profile"] == profile] for rows in vars(run).values()))
        for profile in profiles
    }


def _collect_series(run: ConsistencyRows) -> Series:
    """Collect numbers by metric and setting, as named in the papers."""
    series: dict[tuple[str, str], list[Row]] = {}
    answers: dict[tuple[str, int, str], Row] = {}
    for row in run.tests:
        key = (row["item_id"], row["seed"], SETTING_OF_TEST[row["test"]])
        if key not in answers or answers[key]["correct"] is None:
            answers[key] = row  # all tests of a setting start from the same answer
        value = None if row["verdict"] is None else 100.0 * row["verdict"]
        series.setdefault((row["test"], SETTING_OF_TEST[row["test"]]), []).append(_build_number(row, value))
    for (*_, setting), row in answers.items():
        value = None if row["correct"] is None else 100.0 * row["correct"]
        series.setdefault((ACCURACY_METRICS[setting], setting), []).append(_build_number(row, value))
    for row in run.cc_shap:
        setting, name = row["kind"], CC_SHAP_METRICS[row["kind"]]
        series.setdefault((name, setting), []).append(_build_number(row, row["value"]))
        for companion in COMPANIONS:
            series.setdefault((f"{name}:{companion}", setting), []).append(_build_number(row, row[companion]))
        suffix = SHARED if get_fidelity(row["profile"]).shared_players == "prefix" else ""
        for metric, column in T_SHAP_COLUMNS.items():
            if row["image"] is not None:
                value = None if row[column] is None else 100.0 * row[column]
                series.setdefault((metric + suffix, setting), []).append(_build_number(row, value))
    return series


def _build_number(row: Row, value: float | None) -> dict[str, Any]:
    return {
        "item_id": row["item_id"],
        "cluster": str(row["item_id"] if row["image"] is None else row["image"]),
        "seed": row["seed"],
        "value": None if value is None or not math.isfinite(value) else float(value),
        "reason": row["error"] or row["reason"],
    }


def _get_bounds(metric: str) -> Bounds | None:
    """Return least and greatest value of a metric; None for companions that have none."""
    if metric in CC_SHAP_METRICS.values() or metric.endswith(":correlation"):
        return SIGNED
    return None if ":" in metric else PERCENT


def _compute_rescaled_average(cells: Mapping[tuple[str, str], SampledMeasure], how: Resampling) -> Measure:
    """Compute the average of thesis C.1 over all data sets, which are resampled independently."""
    scores = tuple(CC_SHAP_METRICS.values())
    average = compute_rescaled_average({key: cell.measure for key, cell in cells.items()}, scores)
    if average.value is None:
        return average
    by_dataset: dict[str, list[np.ndarray]] = {}
    for (dataset, metric), cell in cells.items():
        by_dataset.setdefault(dataset, []).append(50 * (cell.draws + 1) if metric in scores else cell.draws)
    draws = np.mean([np.mean(draws, axis=0) for draws in by_dataset.values()], axis=0)
    return build_measure(average.value, average.n, draws, how, average.n, PERCENT)


def _summarize_edits(rows: Sequence[Row], label: str, how: Resampling) -> Iterator[dict[str, Any]]:
    """Yield setting, metric and measure of the shifts with all edits, and with those that change or keep the answer."""
    for name, flipped in EDIT_GROUPS.items():
        group = [row for row in rows if flipped is None or row["flipped"] is flipped]
        for metric, measure in _measure_shifts(group, label, how).items():
            yield {"setting": POST_HOC, "metric": f"{name}:{metric}", **vars(measure)}


def _measure_shifts(rows: Sequence[Row], label: str, how: Resampling) -> dict[str, Measure]:
    """Return the shifts with edits, and the evidence for the thesis's claim."""
    claim = judge_claim(rows, label, how)
    measures = {"answer": claim.answer, "explanation": claim.explanation, "difference": claim.difference}
    n = claim.difference.n
    if claim.verdict in ("supports", "refutes"):
        measures["claim"] = Measure(float(claim.verdict == "supports"), n)
    else:
        undecided = f"undecided: the interval over {n} items allows either, or too few were edited"
        measures["claim"] = Measure(None, n, reason=claim.difference.reason or undecided)
    for column in ("inserted_answer", "inserted_explanation"):
        shares = [_build_number(row, row[column]) for row in rows]
        mean = compute_mean_over_seeds(shares, label, how, (0.0, 1.0))[0].measure if rows else claim.difference
        measures[column] = mean
    return measures


T = TypeVar("T")


def select_rescaled(cells: Mapping[tuple[str, str], T], average: str) -> dict[tuple[str, str], T]:
    """Return the measures, by data set and measure, that one of `RESCALED_AVERAGES` is over."""
    scores = CC_SHAP_METRICS.values()
    measured = {
        "rescaled_average": (*SETTING_OF_TEST, *scores),
        "rescaled_tests": (*SETTING_OF_TEST,),
        "rescaled_cc_shap": (*scores,),
    }[average]
    return {key: cell for key, cell in cells.items() if key[1] in measured}


def compute_rescaled_average(cells: Mapping[tuple[str, str], Measure], scores: Sequence[str]) -> Measure:
    """Average a model's consistency over all measures and data sets (thesis C.1).

    CC-SHAP is moved from -1..1 to 0..100; measures are averaged in each data set, then data sets, with equal
    weights. With this rule, thesis Tables 5.2 and C.2 give 36.3 (Falcon-7b) to 48.1 (GPT2).

    Args:
        cells: By data set and measure.
        scores: The measures that are CC-SHAP.
    Returns:
        In 0 to 100; n is the number of cells. Without a value where a cell has none.
    """
    missing = [f"{measure} on {dataset}" for (dataset, measure), cell in cells.items() if cell.value is None]
    if not cells or missing:
        reason = f"no value for {', '.join(sorted(missing))}" if missing else "there is nothing to average"
        return Measure(None, len(cells), reason=reason)
    by_dataset = defaultdict(list)
    for (dataset, measure), cell in cells.items():
        value = float(cell.value or 0.0)
        by_dataset[dataset].append(50 * (value + 1) if measure in scores else value)
    return Measure(float(np.mean([np.mean(values) for values in by_dataset.values()])), len(cells))
