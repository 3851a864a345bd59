"""Summary of the attributions of one model on one data set: text shares, ablations, the verbs of CV-Probes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from waltz.attribution.companions.ablation import build_ablated_rows
from waltz.attribution.correlation import correlate_correctness_with_t_shap
from waltz.attribution.shares import GROUP_COLUMNS, summarize_attributions
from waltz.attribution.verbs import build_verb_table
from waltz.core.intervals import Resampling
from waltz.core.schema import OF_REGIONS
from waltz.evaluation.metrics.pair_metrics import compute_pair_metrics
from waltz.evaluation.metrics.scored_pairs import pair_scores

Row = Mapping[str, Any]


def build_share_rows(
    model: str, dataset: str, rows: Sequence[Row], scores: Sequence[Row], how: Resampling
) -> list[dict[str, Any]]:
    """Build rows of the layout `SHARES` of one model on one data set.

    Correctness, for the correlation, is that of the evaluation in the same setting: of the text itself where the model
    has a probability of a match or answers, else whether the caption ranks above the foil.

    Args:
        model: The model.
        dataset: The data set.
        rows: Rows of the attribution layout.
        scores: Rows of the evaluation layout.
        how: Resamples, coverage, seed.
    """
    right = _collect_correctness(scores)
    share_rows = []
    for summary in summarize_attributions(rows, dataset, how):
        group = [row for row in rows if all(row[name] == summary[name] for name in GROUP_COLUMNS)]
        joined = [{**row, "correct": right.get(_get_score_key(row))} for row in group]
        correlation = correlate_correctness_with_t_shap(joined, f"{dataset} {summary['role']}", how)
        rho = {
            "rho": correlation.rho.value,
            "rho_low": correlation.rho.ci_low,
            "rho_high": correlation.rho.ci_high,
            "rho_p": correlation.p,
            "rho_reason": correlation.rho.reason,
        }
        share_rows.append({"model": model, "dataset": dataset, **summary, **rho})
    return share_rows


def build_ablation_rows(model: str, dataset: str, rows: Sequence[Row], how: Resampling) -> list[dict[str, Any]]:
    """Build rows of the layout `METRICS`: the metrics of pairs with all of the text, or all of the image, masked.

    Args:
        model: The model.
        dataset: The data set.
        rows: Rows of the attribution layout, of caption and foil.
        how: Resamples, coverage, seed.
    """
    metric_rows = []
    for profile in dict.fromkeys(row["profile"] for row in rows):
        items: dict[str, list[Row]] = {}
        for row in rows:
            if row["profile"] == profile and row["error"] is None:
                items.setdefault(row["item_id"], []).append(row)
        masked: dict[str, list[dict[str, Any]]] = {}
        for item_rows in items.values():
            values = [np.array([row["value"][0], row["without_text"][0], row["without_image"][0]]) for row in item_rows]
            for row in build_ablated_rows(
                item_rows[0],
                [row["role"] for row in item_rows],
                profile,
                values,
                item_rows[0]["explained"] == "probability",
            ):
                masked.setdefault(row["setting"], []).append(row)
        for setting, ablated_rows in masked.items():
            for metric, measure in compute_pair_metrics(pair_scores(ablated_rows, profile), dataset, how).items():
                metric_row = {"model": model, "dataset": dataset, "profile": profile, "metric": metric}
                metric_row["setting"] = setting + _get_setting_suffix(rows)
                metric_rows.append({**metric_row, **vars(measure)})
    return metric_rows


def build_verb_rows(
    model: str, rows: Sequence[Row], scores: Sequence[Row], items: Sequence[Row], how: Resampling
) -> list[dict[str, Any]]:
    """Build rows of the layout `METRICS`: the contribution of the verb, by condition and by the model's prediction.

    Args:
        model: The model.
        rows: Rows of the attribution layout on CV-Probes.
        scores: Rows of the evaluation layout on CV-Probes.
        items: Rows of CV-Probes.
        how: Resamples, coverage, seed.
    """
    predictions = {(row["item_id"], row["profile"]): row["prediction"] for row in scores}
    metric_rows = []
    for profile in dict.fromkeys(row["profile"] for row in rows):
        joined = []
        for row in rows:
            if row["profile"] == profile:
                prediction = predictions.get((row["item_id"], profile))
                joined.append({**row, "matched": None if prediction is None else prediction == "match"})
        for cell in build_verb_table(joined, items, how):
            condition = cell.pop("condition")
            cell["setting"] += _get_setting_suffix(rows)
            metric_rows.append({"model": model, "dataset": f"cv-probes:{condition}", "profile": profile, **cell})
    return metric_rows


def _get_setting_suffix(rows: Sequence[Row]) -> str:
    """Return the suffix of the settings of a model's attributions of regions, else an empty string."""
    return OF_REGIONS if any(row["setting"].endswith(OF_REGIONS) for row in rows) else ""


def _get_score_key(row: Row) -> tuple[str, ...]:
    """Return the key of an attributed text among the evaluation's scores."""
    return (row["item_id"], row["role"], row["profile"], row["setting"].removesuffix(OF_REGIONS))


def _collect_correctness(scores: Sequence[Row]) -> dict[tuple[str, ...], bool | None]:
    """Collect the correctness of each text by item, role, profile and setting."""
    right: dict[tuple[str, ...], bool | None] = {}
    ranked: dict[tuple[str, ...], dict[str, float | None]] = {}
    for row in scores:
        ranked.setdefault((row["item_id"], row["profile"], row["setting"]), {})[row["role"]] = row["score"]
    for row in scores:
        key = tuple(row[name] for name in ("item_id", *GROUP_COLUMNS))
        right[key] = row["correct"]
        if row["correct"] is None:
            role_scores = ranked[row["item_id"], row["profile"], row["setting"]]
            both = [
                role_scores.get("caption"),
                role_scores.get("foil", role_scores.get("mismatched")),
            ]
            right[key] = None if None in both else both[0] > both[1]  # type: ignore[operator]
    return right
