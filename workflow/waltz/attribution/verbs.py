"""CV-Probes: contribution of the verb to a score, in the model's matches and non-matches."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from waltz.core.intervals import PERCENT, Measure, Resampling, compute_mean
from waltz.core.schema import PROBE_CONDITIONS
from waltz.core.text_diff import Span

SETTING_OF_PREDICTION = {True: "match", False: "non-match", None: "all"}
"""Name of the model's prediction in the tables' `setting`; `all` pools both."""
BOUNDS = {"t_shap_overall": PERCENT, "verb_shap": None, "verb_share": PERCENT, "pieces": None}
"""Each metric with the least and greatest value that it can have."""
METRICS = tuple(BOUNDS)


def find_verb_pieces(spans: Sequence[Span], verb: Span | None) -> list[int]:
    """Return the places of the tokens that share a character with the verb; special tokens have empty spans."""
    if verb is None:
        return []
    return [
        place for place, span in enumerate(spans) if max(span["start"], verb["start"]) < min(span["end"], verb["end"])
    ]


def compute_verb_values(
    spans: Sequence[Span], phi: Sequence[Sequence[float]] | np.ndarray, verb: Span | None
) -> dict[str, Any]:
    """Compute the contribution of the verb to one score.

    Args:
        phi: Shapley values, shape (players, outputs) or (players,), text first; outputs are added up.
    Returns:
        `verb_shap`, the signed sum over its word pieces, in the unit of the score; `verb_share`, the sum of their
        magnitudes over that of all text tokens, in percent; `pieces`, how many there are; `reason` why numbers are
        None.
    Raises:
        ValueError: There are fewer Shapley values than text players.
    Source:
        CV-Probes (arXiv 2409.01389), tables 5 to 7, 10 and 11.
    """
    values = np.asarray(phi, dtype=np.float64)
    values = values.reshape(len(values), -1)
    if len(values) < len(spans):
        raise ValueError(f"{len(values)} Shapley values for {len(spans)} text players")
    pieces = find_verb_pieces(spans, verb)
    verb_values: dict[str, Any] = {"verb_shap": None, "verb_share": None, "pieces": None, "reason": None}
    if not pieces:
        reason = "no verb is found in the caption" if verb is None else "no token stands for the verb"
        return verb_values | {"reason": reason}
    text = np.abs(values[: len(spans)]).sum()
    verb_values |= {"verb_shap": float(values[pieces].sum()), "pieces": len(pieces)}
    if not text:
        return verb_values | {"reason": "the text contributes nothing"}
    return verb_values | {"verb_share": float(100 * np.abs(values[pieces]).sum() / text)}


def build_verb_table(
    rows: Iterable[Mapping[str, Any]], items: Sequence[Mapping[str, Any]], how: Resampling
) -> list[dict[str, Any]]:
    """Build the cells of a model's verb table: a metric by condition and by the model's prediction.

    Args:
        rows: Attributions of one model and profile: item_id, image, spans, phi, t_shap, error, and `matched`, whether
            the model predicts a match (None where it has no match probability).
        how: Resamples, coverage, seed; intervals draw images.
    Returns:
        Rows of metric, condition, setting (`match`, `non-match`, `all`), value, n, ci_low, ci_high and reason. T-SHAP
        and the verb's share are in percent.
    """
    items_by_id = {item["item_id"]: item for item in items}
    measured = []
    for row in rows:
        item = items_by_id[row["item_id"]]
        verb_values: dict[str, Any] = {**dict.fromkeys(METRICS), "reason": row.get("error")}
        if row.get("error") is None:
            verb_values |= compute_verb_values(row["spans"], row["phi"], item["verb_span"])
            verb_values["t_shap_overall"] = None if row["t_shap"] is None else 100 * row["t_shap"]
        measured.append(
            {**verb_values, "image": row["image"], "condition": item["condition"], "matched": row["matched"]}
        )
    return [
        {
            "metric": metric,
            "condition": condition,
            "setting": setting,
            **_build_cell(measured, metric, condition, prediction, how),
        }
        for metric in METRICS
        for condition in PROBE_CONDITIONS
        for prediction, setting in SETTING_OF_PREDICTION.items()
    ]


def _build_cell(
    rows: Sequence[Mapping[str, Any]], metric: str, condition: str, prediction: bool | None, how: Resampling
) -> dict[str, Any]:
    """Return one cell as the fields of a measure."""
    condition_rows = [row for row in rows if row["condition"] == condition]
    cell_rows = [row for row in condition_rows if prediction is None or row["matched"] is prediction]
    defined_rows = [row for row in cell_rows if row[metric] is not None]
    if not defined_rows:
        if not condition_rows:
            reason = "no item of this condition was attributed"
        elif prediction is not None and all(row["matched"] is None for row in condition_rows):
            reason = "the model has no match probability"
        elif not cell_rows:
            reason = f"the model calls no item a {SETTING_OF_PREDICTION[prediction]}"
        else:
            reason = "; ".join(sorted({str(row["reason"] or "T-SHAP is undefined") for row in cell_rows}))
        return vars(Measure(None, 0, reason=reason))
    label = f"verbs:{condition}:{metric}"
    values, images = [float(row[metric]) for row in defined_rows], [str(row["image"]) for row in defined_rows]
    return vars(compute_mean(values, images, label, how, BOUNDS[metric]))
