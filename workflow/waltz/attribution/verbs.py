"""CV-Probes: contribution of the verb to a score, in the model's matches and non-matches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from waltz.core.intervals import PERCENT, Resampling, compute_mean
from waltz.core.measure import Measure
from waltz.core.schema import (
    PROBE_CONDITIONS,
    AttributionRecord,
    ProbeRecord,
    StoredSpan,
)

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
NO_IMAGE = "None"
"""Name of the cluster of items without an image, whose place among the images decides the draws."""


@dataclass(frozen=True, slots=True)
class VerbValues:
    """Hold the contribution of the verb to one score.

    Attributes:
        verb_shap: Signed sum of the Shapley values of the verb's tokens, in the unit of the score.
        verb_share: Sum of their magnitudes over the sum of the magnitudes of all text tokens, in
            percent.
        pieces: Number of the verb's tokens.
        reason: Why numbers are None.
    """

    verb_shap: float | None = None
    verb_share: float | None = None
    pieces: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class VerbCell:
    """Hold a cell of a model's verb table.

    Attributes:
        metric: One of `METRICS`.
        condition: Condition of the items.
        setting: Prediction of the model, a value of `SETTING_OF_PREDICTION`.
        measure: The mean; T-SHAP and the share of the verb are in percent.
    """

    metric: str
    condition: str
    setting: str
    measure: Measure


def find_verb_pieces(spans: Sequence[StoredSpan], verb: StoredSpan | None) -> list[int]:
    """Return the positions of the tokens that share a character with the verb.

    Special tokens have empty spans and share none. Without a verb, the list is empty.
    """
    if verb is None:
        return []
    positions = []
    for position, span in enumerate(spans):
        # The characters that both share begin at the later start and stop at the earlier end.
        start = max(span.start, verb.start)
        if start < min(span.end, verb.end):
            positions.append(position)
    return positions


def compute_verb_values(
    spans: Sequence[StoredSpan],
    phi: Sequence[Sequence[float]] | np.ndarray,
    verb: StoredSpan | None,
) -> VerbValues:
    """Compute the contribution of the verb to one score.

    Args:
        spans: Start and end of each text token in the caption.
        phi: Shapley values, shape (players, outputs) or (players,), text first; outputs are added
            up.
        verb: Start and end of the verb in the caption; None if the caption has no verb.
    Raises:
        ValueError: There are fewer Shapley values than text players.
    Source:
        CV-Probes (arXiv 2409.01389), tables 5 to 7, 10 and 11.
    """
    values = np.asarray(phi, dtype=np.float64)
    values = values.reshape(len(values), -1)  # (players, outputs)
    if len(values) < len(spans):
        raise ValueError(f"{len(values)} Shapley values for {len(spans)} text players")
    pieces = find_verb_pieces(spans, verb)
    if verb is None:
        return VerbValues(reason="no verb is found in the caption")
    if not pieces:
        return VerbValues(reason="no token stands for the verb")
    # Contributions of opposite sign cancel out in `verb_shap`, but not in `verb_share`.
    verb_shap = float(values[pieces].sum())
    verb_values = VerbValues(verb_shap=verb_shap, pieces=len(pieces))
    text_magnitude = np.abs(values[: len(spans)]).sum()
    if not text_magnitude:
        return replace(verb_values, reason="the text contributes nothing")
    verb_share = float(100 * np.abs(values[pieces]).sum() / text_magnitude)
    return replace(verb_values, verb_share=verb_share)


def build_verb_table(
    attributions: Iterable[AttributionRecord],
    predictions: Mapping[str, str | None],
    items: Sequence[ProbeRecord],
    resampling: Resampling,
) -> list[VerbCell]:
    """Build the cells of a model's verb table: each metric by condition and by the model's
    prediction.

    Args:
        attributions: Attributions of one model and profile.
        predictions: The model's prediction about each item; None, or no entry, if it has no
            probability of a match.
        items: Items of CV-Probes.
        resampling: Resamples, coverage, seed; intervals draw images.
    """
    items_by_id = {item.item_id: item for item in items}
    measured = pd.DataFrame(
        [
            _measure_attribution(
                attribution,
                predictions.get(attribution.item_id),
                items_by_id[attribution.item_id],
            )
            for attribution in attributions
        ],
        columns=["condition", "image", "matched", *METRICS, "reason"],
    )
    # T-SHAP is stored as a share, the table has percent.
    measured["t_shap_overall"] = 100 * measured["t_shap_overall"].astype(float)
    cells = []
    for metric in METRICS:
        for condition in PROBE_CONDITIONS:
            of_condition = measured[measured["condition"] == condition]
            label = f"verbs:{condition}:{metric}"
            for prediction, setting in SETTING_OF_PREDICTION.items():
                measure = _measure_cell(
                    of_condition, metric, prediction, label, resampling
                )
                cells.append(VerbCell(metric, condition, setting, measure))
    return cells


def _measure_attribution(
    attribution: AttributionRecord, prediction: str | None, item: ProbeRecord
) -> tuple[object, ...]:
    """Return the condition, the image and whether the model predicts a match, the metrics in the
    order of `METRICS`, and the reason why metrics are None.
    """
    matched = None if prediction is None else prediction == "match"
    names = (item.condition, attribution.image, matched)
    if attribution.error is not None:
        return (*names, None, None, None, None, attribution.error)
    values = compute_verb_values(
        attribution.spans or (), attribution.phi or (), item.verb_span
    )
    metrics = (
        attribution.t_shap,
        values.verb_shap,
        values.verb_share,
        values.pieces,
    )
    return (*names, *metrics, values.reason)


def _measure_cell(
    of_condition: pd.DataFrame,
    metric: str,
    prediction: bool | None,
    label: str,
    resampling: Resampling,
) -> Measure:
    """Return one cell of the table: the mean of a metric with its interval, or the reason why it is
    empty.

    Args:
        of_condition: Measured rows of the cell's condition.
        prediction: Whether the model predicts a match; None takes all rows.
        label: Name that separates the bootstrap draws of this cell from the draws of other cells.
    """
    cell = of_condition
    if prediction is not None:
        cell = of_condition[of_condition["matched"] == prediction]
    defined = cell[cell[metric].notna()]
    if defined.empty:
        reason = _explain_empty_cell(of_condition, cell, prediction)
        return Measure(None, 0, reason=reason)
    values = defined[metric].astype(float).tolist()
    images = defined["image"].fillna(NO_IMAGE).tolist()
    return compute_mean(values, images, label, resampling, BOUNDS[metric])


def _explain_empty_cell(
    of_condition: pd.DataFrame, cell: pd.DataFrame, prediction: bool | None
) -> str:
    """Return the reason why no row of a cell has a value."""
    if of_condition.empty:
        return "no item of this condition was attributed"
    if prediction is not None and of_condition["matched"].isna().all():
        return "the model has no match probability"
    if cell.empty:
        return f"the model calls no item a {SETTING_OF_PREDICTION[prediction]}"
    reasons = cell["reason"].fillna("T-SHAP is undefined")
    return "; ".join(sorted(reasons.unique()))
