"""Statistics of a benchmark: validation (thesis Table A.2, figures 3.1, A.1, A.3, A.4), and losses at each step."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import scipy

from waltz.benchmark.items import NOT_SELECTED
from waltz.benchmark.votes import compute_alpha
from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.filters.pipeline import NO_CONTRADICTION, READS_WORSE, UNGRAMMATICAL, WORDED_WORSE

Row = Mapping[str, Any]

PRONOUNS = frozenset(
    (
        *("i", "me", "my", "mine", "you", "your", "yours", "he", "him", "his", "she", "her", "hers", "it", "its"),
        *("we", "us", "our", "ours", "they", "them", "their", "theirs", "this", "that", "these", "those"),
        *("himself", "herself", "itself", "themselves"),
    )
)
LETTERS = re.compile(r"[a-z]+")
NO_VOTES = "the data set holds no votes"
NO_VALID = "no item was found valid"
NO_ANNOTATIONS = "the data set holds no single annotations, which agreement needs"

SELECTION_STEPS = ("attested", "grammatical", "contradiction", "ranked", "balanced")
"""Steps that a candidate passes one after another; the first is that the rules of its instrument can use it."""
STEP_BY_REASON = {
    NO_CONTRADICTION: "contradiction",
    READS_WORSE: "ranked",
    WORDED_WORSE: "ranked",
    NOT_SELECTED: "balanced",
}
"""Step at which a candidate is lost, by the reason why it is rejected."""
STEPS = ("candidates", *SELECTION_STEPS, "valid")
NOT_VOTED = "nobody voted"
NOT_VALID = "too few votes for the caption"


def compute_validation_statistics(
    dataset: str,
    items: Sequence[Mapping[str, Any]],
    annotations: Sequence[Mapping[str, str]],
    resampling: Resampling,
) -> dict[str, Measure]:
    """Compute the columns of Table A.2 for one data set.

    Args:
        annotations: Rows of the annotations layout; none where only votes are known.
    Returns:
        By metric: counts as numbers, shares in percent, Jensen-Shannon distances and alpha as ratios.
    """
    voted_items = [item for item in items if item["valid"] is not None]
    valid_items = [item for item in voted_items if item["valid"]]
    lexical_items = len({phrase for item in items for phrase in (*item["caption_phrases"], *item["foil_phrases"])})
    measures = {
        "instances": Measure(len(items), len(items)),
        "lexical_items": Measure(lexical_items, len(items)),
        "js": Measure(compute_jensen_shannon(items), len(items)),
        "js_valid": Measure(compute_jensen_shannon(valid_items), len(valid_items))
        if valid_items
        else Measure(None, 0, reason=NO_VALID),
    }
    images = [item["image"] for item in voted_items]
    unanimous = [item["votes_caption"] > 0 and not item["votes_foil"] + item["votes_other"] for item in voted_items]
    for metric, hits in (("valid", [item["valid"] for item in voted_items]), ("unanimous", unanimous)):
        share = compute_share(hits, images, f"{dataset}:{metric}", resampling, NO_VOTES)
        measures[metric] = Measure(sum(hits), share.n) if hits else share
        measures[f"{metric}_percent"] = share
    valid_ids = {item["item_id"] for item in valid_items}
    measures["alpha"] = _measure_alpha(annotations)
    measures["alpha_valid"] = _measure_alpha([row for row in annotations if row["item_id"] in valid_ids])
    return measures


def compute_share(
    hits: Sequence[float], images: Sequence[str], label: str, resampling: Resampling, reason: str
) -> Measure:
    """Return the mean of hits from 0 to 1 in percent, with the interval of resampled images.

    Args:
        label: Name of the resampled data.
        reason: Why there is no value where there are no hits.
    """
    if not hits:
        return Measure(None, 0, reason=reason)
    return compute_mean([100.0 * hit for hit in hits], images, label, resampling)


def compute_jensen_shannon(items: Sequence[Mapping[str, Any]]) -> float:
    """Compute the Jensen-Shannon distance between the lexical items of captions and of foils.

    The square root of the divergence in base 2, as in the thesis: 0 where captions and foils use them
    equally often, 1 where they share none.
    """
    caption = Counter(phrase for item in items for phrase in item["caption_phrases"])
    foil = Counter(phrase for item in items for phrase in item["foil_phrases"])
    phrases = sorted(caption.keys() | foil.keys())
    if caption == foil:
        return 0.0
    caption_counts, foil_counts = ([counts[word] for word in phrases] for counts in (caption, foil))
    return float(scipy.spatial.distance.jensenshannon(caption_counts, foil_counts, base=2))


def count_frequencies(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Count each lexical item and each pronoun in captions and in foils, of all and of valid items.

    Returns:
        kind (`lexical` or `pronoun`), items (`all` or `valid`), side (`caption` or `foil`), word, count.
    """
    rows = []
    for name, subset in (("all", items), ("valid", [item for item in items if item["valid"]])):
        for side in ("caption", "foil"):
            lexical = Counter(phrase for item in subset for phrase in item[f"{side}_phrases"])
            pronouns = Counter(
                word for item in subset for word in LETTERS.findall(item[side].lower()) if word in PRONOUNS
            )
            for kind, counts in (("lexical", lexical), ("pronoun", pronouns)):
                rows += [
                    {"kind": kind, "items": name, "side": side, "word": word, "count": count}
                    for word, count in sorted(counts.items())
                ]
    return rows


def _measure_alpha(annotations: Sequence[Mapping[str, str]]) -> Measure:
    if not annotations:
        return Measure(None, 0, reason=NO_ANNOTATIONS)
    value, reason = compute_alpha(annotations)
    return Measure(value, len({row["item_id"] for row in annotations}), reason=reason)


def find_lost_step(rejected: str | None) -> str | None:
    """Return the step at which a candidate with this reason was lost; None where it is an item."""
    if rejected is None:
        return None
    return "grammatical" if rejected.startswith(UNGRAMMATICAL) else STEP_BY_REASON.get(rejected, "attested")


def has_passed(row: Row, step: str) -> bool:
    """Return whether a candidate passed a step."""
    lost_step = find_lost_step(row["rejected"])
    return lost_step is None or SELECTION_STEPS.index(lost_step) > SELECTION_STEPS.index(step)


def count_funnel(instrument: str, rows: Sequence[Row], items: Sequence[Row]) -> list[dict[str, Any]]:
    """Count the candidates after each step, as rows of the funnel layout in the order of `STEPS`.

    `lost` counts the reasons, the most frequent first.

    Args:
        rows: Rows of the filtered layout after balancing.
    """
    funnel_rows = [_build_step(instrument, "candidates", len(rows), [])]
    for step in SELECTION_STEPS:
        reasons = [row["rejected"] for row in rows if find_lost_step(row["rejected"]) == step]
        funnel_rows.append(_build_step(instrument, step, sum(has_passed(row, step) for row in rows), reasons))
    invalid = [NOT_VOTED if item["valid"] is None else NOT_VALID for item in items if not item["valid"]]
    return [*funnel_rows, _build_step(instrument, "valid", len(items) - len(invalid), invalid)]


def _build_step(instrument: str, step: str, count: int, reasons: Sequence[str]) -> dict[str, Any]:
    lost = sorted(Counter(reasons).items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "instrument": instrument,
        "step": step,
        "count": count,
        "lost": [{"reason": reason, "count": number} for reason, number in lost],
    }
