"""CC-SHAP of an answer with the explanations of other items, the floor of CC-SHAP.

Ratios of any two prompts of the same form are alike, since their template tokens are the same and
most ratios are positive. What CC-SHAP says of an item is therefore its excess over the CC-SHAP of
its answer with other items' explanations.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from waltz.consistency.cc_shap.measure import compute_cosine
from waltz.core.schema import CcShapRecord

NO_PARTNER = (
    "no explanation of another image or text has as many players as the item's own"
)
"""Reason why an item has no excess."""
BLOCK = 256
"""Answers that are compared with all explanations at once."""


@dataclass(frozen=True, slots=True)
class Excess:
    """Compare CC-SHAP of an item with that of its answer and other items' explanations.

    Attributes:
        difference: CC-SHAP with the item's own explanation less the mean over the other
            explanations, between -2 and 2.
        identified: Share of the other explanations whose CC-SHAP with the answer is smaller than
            that of the own one, where equal ones count half; .5 by chance.
    """

    difference: float
    identified: float


def compute_excesses(records: Sequence[CcShapRecord]) -> list[Excess | None]:
    """Compute the excess of each record over the explanations of other items.

    Other items are those of another image (or another text, without images) with the same kind of
    explanation, form of question, fidelity and seed, and with as many shared players.

    Args:
        records: CC-SHAP of a model on a data set.
    Returns:
        One excess for each record, in order; None without CC-SHAP, and where no other item fits.
    """
    # Positions of the records whose contributions can be compared, by what has to be equal.
    alike: defaultdict[tuple[str, str, str, int, int], list[int]] = defaultdict(list)
    for position, record in enumerate(records):
        if _has_ratios(record):
            assert record.ratios_answer is not None
            count = len(record.ratios_answer)
            key = (record.kind, record.setting, record.profile, record.seed, count)
            alike[key].append(position)

    excesses: list[Excess | None] = [None] * len(records)
    for positions in alike.values():
        compared = [records[position] for position in positions]
        for position, excess in zip(
            positions, _compare_explanations(compared), strict=True
        ):
            excesses[position] = excess
    return excesses


def _has_ratios(record: CcShapRecord) -> bool:
    """Return whether a record has CC-SHAP and the ratios that it is of."""
    if record.value is None:
        return False
    return record.ratios_answer is not None and record.ratios_explanation is not None


def _compare_explanations(records: Sequence[CcShapRecord]) -> list[Excess | None]:
    """Return the excess of each of some records that have as many players as each other."""
    answers = np.array([record.ratios_answer for record in records], dtype=np.float64)
    explanations = np.array(
        [record.ratios_explanation for record in records], dtype=np.float64
    )
    # cluster: (items,), the image of each item as a number.
    names = [record.image or record.item_id for record in records]
    _, cluster = np.unique(np.asarray(names), return_inverse=True)

    excesses: list[Excess | None] = []
    for first in range(0, len(records), BLOCK):
        block = slice(first, first + BLOCK)
        # (block, items): CC-SHAP of each answer with each explanation.
        similarities = compute_cosine(answers[block, None], explanations[None])
        # (block,): CC-SHAP of each answer with its own explanation.
        cc_shaps = compute_cosine(answers[block], explanations[block])
        # A vector of zeros has no cosine; explanations of the same image are no floor.
        is_other = np.isfinite(similarities) & (
            cluster[block, None] != cluster[None, :]
        )
        for row, cc_shap in enumerate(cc_shaps.tolist()):
            exchanged = similarities[row, is_other[row]]
            excesses.append(_build_excess(cc_shap, exchanged))
    return excesses


def _build_excess(cc_shap: float, exchanged: np.ndarray) -> Excess | None:
    """Return the excess of a CC-SHAP over those with other explanations; None without any."""
    if not exchanged.size or not np.isfinite(cc_shap):
        return None
    # As in AUROC, an equal explanation is identified half of the time.
    is_below = exchanged < cc_shap
    is_equal = exchanged == cc_shap
    identified = float(is_below.mean() + is_equal.mean() / 2)
    return Excess(cc_shap - float(exchanged.mean()), identified)
