"""CC-SHAP of an answer with the explanations of other items, the floor of CC-SHAP.

Ratios of any two prompts of the same form are alike, since their template tokens are the same and
most ratios are positive. What CC-SHAP says of an item is therefore its excess over the CC-SHAP of
its answer with other items' explanations.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from waltz.attribution.shapley.estimate import to_null
from waltz.consistency.cc_shap.measure import compute_cosine
from waltz.core.schema import CcShapRecord

NO_PARTNER = (
    "no explanation of another image or text has as many players as the item's own"
)
"""Reason why an item has no excess."""
NO_CONTENT = "nothing contributes but the tokens that all prompts have in common"
"""Reason why an item with an excess has none on its content players."""
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
        content: The difference if only content players count: patches, and the tokens between the
            common beginning and the common end of all prompts. None where nothing else contributes.
        centered: The difference if the mean is subtracted from ratios first, so that their positive
            sum does not make them alike. None where all ratios are equal.
    """

    difference: float
    identified: float
    content: float | None = None
    centered: float | None = None


def compute_excesses(records: Sequence[CcShapRecord]) -> list[Excess | None]:
    """Compute the excess of each record over the explanations of other items.

    Other items are those of another image (or another text, without images) with the same kind of
    explanation, form of question, fidelity and seed, and with as many shared players.

    Args:
        records: CC-SHAP of a model on a data set.
    Returns:
        One excess for each record, in order; None without CC-SHAP, and where no other item fits.
    """
    runs: defaultdict[tuple[str, str, str, int], list[int]] = defaultdict(list)
    for position, record in enumerate(records):
        if _has_ratios(record):
            key = (record.kind, record.setting, record.profile, record.seed)
            runs[key].append(position)

    excesses: list[Excess | None] = [None] * len(records)
    for positions in runs.values():
        template = _count_template_tokens(
            [records[position].shared_tokens or () for position in positions]
        )
        for alike in _group_by_players(records, positions):
            compared = [records[position] for position in alike]
            for position, excess in zip(
                alike, _compare_explanations(compared, template), strict=True
            ):
                excesses[position] = excess
    return excesses


def _has_ratios(record: CcShapRecord) -> bool:
    """Return whether a record has CC-SHAP and the ratios that it is of."""
    if record.value is None:
        return False
    return record.ratios_answer is not None and record.ratios_explanation is not None


def _group_by_players(
    records: Sequence[CcShapRecord], positions: Sequence[int]
) -> list[list[int]]:
    """Return the positions of records grouped by their numbers of players and of text players."""
    groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for position in positions:
        record = records[position]
        players = len(record.ratios_answer or ())
        groups[players, len(record.shared_tokens or ())].append(position)
    return list(groups.values())


def _count_template_tokens(texts: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Return how many tokens all texts have in common at their beginning and at their end."""
    beginning = sum(1 for _ in takewhile(_are_equal, zip(*texts, strict=False)))
    # A token does not belong to both.
    rests = [text[beginning:] for text in texts]
    reversed_rests = map(reversed, rests)
    end = sum(1 for _ in takewhile(_are_equal, zip(*reversed_rests, strict=False)))
    return beginning, end


def _are_equal(tokens: Sequence[str]) -> bool:
    return len(set(tokens)) == 1


def _compare_explanations(
    records: Sequence[CcShapRecord], template: tuple[int, int]
) -> list[Excess | None]:
    """Return the excess of each of some records that have as many players as each other.

    Args:
        template: Numbers of template tokens at the beginning and at the end of the text players.
    """
    answers = np.array([record.ratios_answer for record in records], dtype=np.float64)
    explanations = np.array(
        [record.ratios_explanation for record in records], dtype=np.float64
    )
    # cluster: (items,), the image of each item as a number.
    names = [record.image or record.item_id for record in records]
    _, cluster = np.unique(np.asarray(names), return_inverse=True)

    beginning, end = template
    is_content = np.ones(answers.shape[1], dtype=bool)
    n_text = len(records[0].shared_tokens or ())
    is_content[:beginning] = False
    is_content[n_text - end : n_text] = False

    differences, identified = _exchange(answers, explanations, cluster)
    content = np.full(len(records), np.nan)
    # Without tokens it is unknown which players are text.
    if n_text and is_content.any():
        content, _ = _exchange(
            answers[:, is_content], explanations[:, is_content], cluster
        )
    centered, _ = _exchange(
        answers - answers.mean(axis=1, keepdims=True),
        explanations - explanations.mean(axis=1, keepdims=True),
        cluster,
    )
    excesses: list[Excess | None] = []
    for numbers in zip(
        differences.tolist(), identified.tolist(), content, centered, strict=True
    ):
        difference, share, content_difference, centered_difference = numbers
        if np.isnan(difference):
            excesses.append(None)
            continue
        excesses.append(
            Excess(
                difference,
                share,
                to_null(content_difference),
                to_null(centered_difference),
            )
        )
    return excesses


def _exchange(
    answers: np.ndarray, explanations: np.ndarray, cluster: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compare the cosine of each answer and its explanation with the cosines of the answer and the
    explanations of other clusters.

    Args:
        answers: float64 of shape (items, players).
        explanations: float64 of shape (items, players).
        cluster: Number of each item's cluster, int64 of shape (items,).
    Returns:
        Own cosine less the mean of the others, and the share of the others that are smaller, where
        equal ones count half, as in AUROC: float64 of shape (items,), NaN without any.
    """
    differences = np.full(len(answers), np.nan)
    identified = np.full(len(answers), np.nan)
    for first in range(0, len(answers), BLOCK):
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
            if not exchanged.size or not np.isfinite(cc_shap):
                continue
            is_below = exchanged < cc_shap
            is_equal = exchanged == cc_shap
            differences[first + row] = cc_shap - exchanged.mean()
            identified[first + row] = is_below.mean() + is_equal.mean() / 2
    return differences, identified
