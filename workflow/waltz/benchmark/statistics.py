"""Validation statistics of a benchmark (thesis Table A.2, figures 3.1, A.1, A.3, A.4)."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scipy.spatial.distance import jensenshannon

from waltz.benchmark.votes import compute_alpha
from waltz.core.intervals import Measure, Resampling, compute_mean

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


def compute_validation_statistics(
    dataset: str,
    items: Sequence[Mapping[str, Any]],
    annotations: Sequence[Mapping[str, str]],
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> dict[str, Measure]:
    """Compute the columns of Table A.2 for one data set.

    Args:
        dataset: Name of the data set.
        items: Rows of the benchmark layout.
        annotations: Rows of the annotations layout; none where only votes are known.
        resamples: Bootstrap resamples.
        confidence: Coverage of the intervals, a share.
        seed: Seed of the bootstrap.
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
    hits = {
        "valid": [item["valid"] for item in voted_items],
        "unanimous": [_is_unanimous(item) for item in voted_items],
    }
    for metric, votes in hits.items():
        if not voted_items:
            measures[metric] = measures[f"{metric}_percent"] = Measure(None, 0, reason=NO_VOTES)
            continue
        label = f"{dataset}:{metric}"
        measures[metric] = Measure(sum(votes), len(voted_items))
        percent = [100.0 * bool(vote) for vote in votes]
        measures[f"{metric}_percent"] = compute_mean(percent, images, label, Resampling(resamples, confidence, seed))
    valid_ids = {item["item_id"] for item in valid_items}
    measures["alpha"] = _measure_alpha(annotations)
    measures["alpha_valid"] = _measure_alpha([row for row in annotations if row["item_id"] in valid_ids])
    return measures


def compute_jensen_shannon(items: Iterable[Mapping[str, Any]]) -> float:
    """Compute the Jensen-Shannon distance between the lexical items of captions and of foils.

    The square root of the divergence in base 2, as in the thesis: 0 where captions and foils use them
    equally often, 1 where they share none.
    """
    items = list(items)
    caption = Counter(phrase for item in items for phrase in item["caption_phrases"])
    foil = Counter(phrase for item in items for phrase in item["foil_phrases"])
    phrases = sorted(caption.keys() | foil.keys())
    if caption == foil:
        return 0.0
    return float(jensenshannon([caption[word] for word in phrases], [foil[word] for word in phrases], base=2))


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


def _is_unanimous(item: Mapping[str, Any]) -> bool:
    return bool(item["votes_caption"]) and not item["votes_foil"] + item["votes_other"]


def _measure_alpha(annotations: Sequence[Mapping[str, str]]) -> Measure:
    if not annotations:
        return Measure(None, 0, reason=NO_ANNOTATIONS)
    value, reason = compute_alpha(annotations)
    return Measure(value, len({row["item_id"] for row in annotations}), reason=reason)
