"""CV-Probes: contribution of the verb to a score, in the model's matches and non-matches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from waltz.core.intervals import PERCENT, Resampling, compute_mean
from waltz.core.measure import Measure
from waltz.core.schema import PROBE_CONDITIONS
from waltz.core.text_diff import Span

Row = Mapping[str, Any]
NewRow = dict[str, Any]
SETTING_OF_PREDICTION = {True: "match", False: "non-match", None: "all"}
"""Value of the tables' `setting` for each prediction of the model; `all` pools both predictions."""
BOUNDS = {
    "t_shap_overall": PERCENT,
    "verb_shap": None,
    "verb_share": PERCENT,
    "pieces": None,
}
"""Smallest and largest possible value of each metric; None if it has no bounds."""
METRICS = tuple(BOUNDS)


def find_verb_pieces(spans: Sequence[Span], verb: Span | None) -> list[int]:
    """Return the positions of the tokens that share a character with the verb.

    Special tokens have empty spans and share none. Without a verb, the list is empty.
    """
    if verb is None:
        return []
    positions = []
    for position, span in enumerate(spans):
        start = max(span["start"], verb["start"])
        if start < min(span["end"], verb["end"]):
            positions.append(position)
    return positions


def compute_verb_values(
    spans: Sequence[Span],
    phi: Sequence[Sequence[float]] | np.ndarray,
    verb: Span | None,
) -> NewRow:
    """Compute the contribution of the verb to one score.

    Args:
        spans: Start and end of each text token in the caption.
        phi: Shapley values, shape (players, outputs) or (players,), text first; outputs are added
            up.
        verb: Start and end of the verb in the caption; None if the caption has no verb.
    Returns:
        `verb_shap`, the signed sum over the tokens of the verb, in the unit of the score;
        `verb_share`, the sum of their magnitudes over the sum of the magnitudes of all text tokens,
        in percent; `pieces`, the number of tokens of the verb; `reason`, why numbers are None.
    Raises:
        ValueError: There are fewer Shapley values than text players.
    Source:
        CV-Probes (arXiv 2409.01389), tables 5 to 7, 10 and 11.
    """
    values = np.asarray(phi, dtype=np.float64)
    values = values.reshape(len(values), -1)  # (players, outputs)
    if len(values) < len(spans):
        raise ValueError(f"{len(values)} Shapley values for {len(spans)} text players")
    verb_values: NewRow = {
        "verb_shap": None,
        "verb_share": None,
        "pieces": None,
        "reason": None,
    }
    pieces = find_verb_pieces(spans, verb)
    if verb is None:
        return verb_values | {"reason": "no verb is found in the caption"}
    if not pieces:
        return verb_values | {"reason": "no token stands for the verb"}
    verb_values |= {"verb_shap": float(values[pieces].sum()), "pieces": len(pieces)}
    text_magnitude = np.abs(values[: len(spans)]).sum()
    if not text_magnitude:
        return verb_values | {"reason": "the text contributes nothing"}
    return verb_values | {
        "verb_share": float(100 * np.abs(values[pieces]).sum() / text_magnitude)
    }


def build_verb_table(
    rows: Iterable[Row], items: Sequence[Row], resampling: Resampling
) -> list[NewRow]:
    """Build the cells of a model's verb table: each metric by condition and by the model's
    prediction.

    Args:
        rows: Attributions of one model and profile: item_id, image, spans, phi, t_shap, error, and
            `matched`, whether the model predicts a match (None if it has no match probability).
        items: Rows of CV-Probes, with the condition and the verb of each item.
        resampling: Resamples, coverage, seed; intervals draw images.
    Returns:
        Rows of metric, condition, setting (`match`, `non-match`, `all`), value, n, ci_low, ci_high
        and reason. T-SHAP and the share of the verb are in percent.
    """
    items_by_id = {item["item_id"]: item for item in items}
    measured = [_measure_row(row, items_by_id[row["item_id"]]) for row in rows]
    cells = []
    for metric in METRICS:
        for condition in PROBE_CONDITIONS:
            of_condition = [row for row in measured if row["condition"] == condition]
            for prediction, setting in SETTING_OF_PREDICTION.items():
                names = {"metric": metric, "condition": condition, "setting": setting}
                label = f"verbs:{condition}:{metric}"
                cells.append(
                    names
                    | asdict(
                        _measure_cell(
                            of_condition, metric, prediction, label, resampling
                        )
                    )
                )
    return cells


def _measure_row(row: Row, item: Row) -> NewRow:
    """Return the metrics of one attribution, with its image, condition and prediction."""
    values: NewRow = {**dict.fromkeys(METRICS), "reason": row.get("error")}
    if row.get("error") is None:
        values |= compute_verb_values(row["spans"], row["phi"], item["verb_span"])
        if row["t_shap"] is not None:
            values["t_shap_overall"] = 100 * row["t_shap"]
    return {
        **values,
        "image": row["image"],
        "condition": item["condition"],
        "matched": row["matched"],
    }


def _measure_cell(
    condition_rows: Sequence[Row],
    metric: str,
    prediction: bool | None,
    label: str,
    resampling: Resampling,
) -> Measure:
    """Return one cell of the table: the mean of a metric with its interval, or the reason why it is
    empty.

    Args:
        condition_rows: Rows of the cell's condition.
        prediction: Whether the model predicts a match; None takes all rows.
        label: Name that separates the bootstrap draws of this cell from the draws of other cells.
    """
    cell_rows = condition_rows
    if prediction is not None:
        cell_rows = [row for row in condition_rows if row["matched"] is prediction]
    defined_rows = [row for row in cell_rows if row[metric] is not None]
    if not defined_rows:
        return Measure(
            None, 0, reason=_explain_empty_cell(condition_rows, cell_rows, prediction)
        )
    values = [float(row[metric]) for row in defined_rows]
    images = [str(row["image"]) for row in defined_rows]
    return compute_mean(values, images, label, resampling, BOUNDS[metric])


def _explain_empty_cell(
    condition_rows: Sequence[Row], cell_rows: Sequence[Row], prediction: bool | None
) -> str:
    """Return the reason why no row of a cell has a value."""
    if not condition_rows:
        return "no item of this condition was attributed"
    if prediction is not None and all(row["matched"] is None for row in condition_rows):
        return "the model has no match probability"
    if not cell_rows:
        return f"the model calls no item a {SETTING_OF_PREDICTION[prediction]}"
    reasons = {str(row["reason"] or "T-SHAP is undefined") for row in cell_rows}
    return "; ".join(sorted(reasons))
