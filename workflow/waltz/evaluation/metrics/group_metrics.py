"""Scores of groups of two images and two captions, of which each image has one caption of its own
(Winoground).

An item is an image with its caption and, as the foil, the caption of the other image. The two items
of a group therefore hold the scores of both images with both captions.
"""

from collections.abc import Mapping, Sequence

from waltz.core.intervals import Resampling, compute_mean
from waltz.core.measure import Measure
from waltz.core.schema import EvaluationRecord
from waltz.evaluation.metrics.pair_metrics import (
    compare_texts,
    get_ranking_score,
    group_texts,
    refuse_nan_score,
)
from waltz.evaluation.settings import GROUP_METRICS
from waltz.fidelity import Fidelity


def compute_group_metrics(
    records: Sequence[EvaluationRecord],
    groups: Mapping[str, str],
    fidelity: Fidelity,
    label: str,
    resampling: Resampling,
) -> dict[str, Measure]:
    """Compute text score, image score and group score, in percent of the groups.

    - text_score: each image scores higher with its own caption than with the other one.
    - image_score: each caption scores higher with its own image than with the other one.
    - group_score: both. A tie is wrong in all three.

    Args:
        records: Scored texts of one setting.
        groups: Group of each item; a group without scores of both its items is left out.
        fidelity: Rules of the profile of the records.
        label: Name of the data set, which separates its draws from those of other data sets.
        resampling: Resamples and coverage of the intervals; groups are resampled.
    Source:
        Thrush et al. (Winoground, CVPR 2022), section 4.1.
    """
    items_of_group: dict[str, list[dict[str, EvaluationRecord]]] = {}
    for item_id, texts in group_texts(records, fidelity.name).items():
        if item_id in groups:
            items_of_group.setdefault(groups[item_id], []).append(texts)
    hits: dict[str, list[float]] = {metric: [] for metric in GROUP_METRICS}
    names: list[str] = []
    for name, items in items_of_group.items():
        if not _is_scored(items):
            continue
        names.append(name)
        first, second = items
        # The foil of an item is the caption of the other item, scored with this item's image.
        text_is_right = all(
            _ranks_above(item["caption"], item["foil"], fidelity) for item in items
        )
        image_is_right = _ranks_above(
            first["caption"], second["foil"], fidelity
        ) and _ranks_above(second["caption"], first["foil"], fidelity)
        hits["text_score"].append(100.0 * text_is_right)
        hits["image_score"].append(100.0 * image_is_right)
        hits["group_score"].append(100.0 * (text_is_right and image_is_right))
    if not names:
        reason = f"none of {len(items_of_group)} groups has scores of both images"
        return dict.fromkeys(GROUP_METRICS, Measure(None, 0, reason=reason))
    return {
        metric: compute_mean(hits[metric], names, label, resampling)
        for metric in GROUP_METRICS
    }


def _is_scored(items: Sequence[Mapping[str, EvaluationRecord]]) -> bool:
    """Return whether a group has two items, and their four texts have scores."""
    if len(items) != 2:
        return False
    for texts in items:
        for record in texts.values():
            refuse_nan_score(record)
            if record.score is None:
                return False
    return True


def _ranks_above(
    first: EvaluationRecord, second: EvaluationRecord, fidelity: Fidelity
) -> bool:
    """Return whether a text ranks above another one by the rules of acc_r; a tie does not."""
    if first.score is None or second.score is None:
        return False
    if compare_texts(first, second) == 0:
        return False
    first_score = get_ranking_score(first, first.score, fidelity)
    return first_score > get_ranking_score(second, second.score, fidelity)
