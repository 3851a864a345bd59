"""CC-SHAP of several explained items, with its excess over the explanations of other items."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from waltz.consistency.cc_shap.dialogue import POST_HOC
from waltz.consistency.cc_shap.exchanged import NO_PARTNER, compute_excesses
from waltz.consistency.cc_shap.pair_attribution import (
    PairAttribution,
    SideAttribution,
    add_pair,
)
from waltz.consistency.metrics import (
    CC_SHAP_METRICS,
    EQUIVALENT,
    EXCESS,
    EXCESS_CENTERED,
    EXCESS_CONTENT,
    IDENTIFIED,
    MARGIN,
    ConsistencyRows,
    build_metric_records,
)
from waltz.core.errors import ArgumentError, shorten_value
from waltz.core.intervals import Resampling
from waltz.core.measure import Measure
from waltz.core.schema import CcShapRecord
from waltz.explainer.explanation import Explanation

RESAMPLING = Resampling(resamples=2000, confidence=0.95, seed=0)
"""Settings of the intervals of a summary, as of a study unless it says otherwise."""


@dataclass(frozen=True)
class CCShapSummary:
    """Hold mean CC-SHAP of several items and its excess, with 95 % intervals over images, or over
    items without images.

    Attributes:
        cc_shap: Mean CC-SHAP.
        excess: Mean CC-SHAP less that of the answers with the explanations of other items.
        identified: Percentage of the explanations of other items that agree less with the answer
            than its own; 50 by chance.
        excess_content: The excess over content players alone, which are the patches and the tokens
            that not all prompts have at their beginning or end.
        excess_centered: The excess of ratios from which their mean is subtracted.
        excess_equivalent: 1 if the 90 % interval of the excess is within the margin around 0; 0 if
            this is not shown.
    """

    cc_shap: Measure
    excess: Measure
    identified: Measure
    excess_content: Measure
    excess_centered: Measure
    excess_equivalent: Measure


def summarize_cc_shap(
    explanations: Sequence[Explanation], margin: float = MARGIN
) -> CCShapSummary:
    """Compute mean CC-SHAP of several items and its excess, as a study does.

    Args:
        explanations: Explanations of one model, profile and kind of explanation. Those of the same
            image, or of the same prompt without images, are no other items for each other.
        margin: Largest excess, of either sign, that counts as none; fix it before you compute it.
    Returns:
        Measures with `value`, `n`, `ci_low`, `ci_high`, and a `reason` where there is no value.
    Raises:
        ValueError: There is no explanation, one has no CC-SHAP, or they are of several models,
            profiles or kinds.
    """
    if not explanations:
        raise ArgumentError(
            "explanations: is empty; pass the explanations of two items or more"
        )
    for explanation in explanations:
        if explanation.cc_shap_result is None:
            caption = shorten_value(repr(explanation.caption))
            raise ArgumentError(
                f"explanations: {explanation.name} without CC-SHAP (got {caption}, expected a"
                " decoder's answer with its explanation); explain with explanation='post-hoc' or 'cot'"
            )
    compared = {
        (explanation.model.name, explanation.profile, explanation.kind)
        for explanation in explanations
    }
    if len(compared) != 1:
        raise ArgumentError(
            f"explanations: of {len(compared)} models, profiles or kinds of explanation (expected 1); summarize each"
            " alone"
        )
    # The metrics of a study whose model and data set have no name.
    records = [_build_record(explanation) for explanation in explanations]
    metrics = build_metric_records(
        {("", ""): ConsistencyRows(cc_shap=records)}, RESAMPLING, margin=margin
    )
    measures = {record.metric: record.measure for record in metrics}
    metric = CC_SHAP_METRICS[records[0].kind]
    return CCShapSummary(
        cc_shap=measures[metric],
        excess=measures[metric + EXCESS],
        identified=measures[metric + IDENTIFIED],
        excess_content=measures[metric + EXCESS_CONTENT],
        excess_centered=measures[metric + EXCESS_CENTERED],
        excess_equivalent=measures[metric + EQUIVALENT],
    )


def add_excesses(explanations: Sequence[Explanation]) -> list[Explanation]:
    """Return explanations of a decoder's answers with the excess of their CC-SHAP, or the reason why
    it is undefined.
    """
    records = [_build_record(explanation) for explanation in explanations]
    compared = []
    for explanation, record, excess in zip(
        explanations, records, compute_excesses(records), strict=True
    ):
        reason = None
        if excess is None:
            reason = NO_PARTNER
        # The reason of a record with CC-SHAP is that of a missing standard error.
        if record.value is None:
            reason = record.reason
        compared.append(replace(explanation, excess=excess, excess_reason=reason))
    return compared


def _build_record(explanation: Explanation) -> CcShapRecord:
    """Return CC-SHAP of an explanation in the form in which a study stores it."""
    second = explanation.explanation
    # Both sides come with CC-SHAP.
    assert second is not None
    assert explanation.cc_shap_result is not None
    assert explanation.shared is not None
    assert second.shared is not None
    # Names of image and item tell which explanations are of the same input.
    image = None
    if explanation.view is not None:
        image = hashlib.sha256(explanation.view.tobytes()).hexdigest()
    record = CcShapRecord(
        item_id=f"{image}: {explanation.caption}",
        profile=explanation.profile,
        setting="",
        kind=explanation.kind or POST_HOC,
        seed=explanation.attribution.seed,
        image=image,
    )
    pair = PairAttribution(
        SideAttribution(explanation.attribution, explanation.shared),
        SideAttribution(second.attribution, second.shared),
        explanation.cc_shap_result,
    )
    return add_pair(record, pair)
