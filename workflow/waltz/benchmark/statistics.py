"""Statistics of a benchmark: validation (thesis Table A.2, figures 3.1, A.1, A.3, A.4), losses, and blind judges.

The accuracy of a judge that sees the texts but not the image should be close to chance, 50 %. If it is far from
chance, in either direction, the texts have a bias that a model can use instead of the image.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from scipy.spatial.distance import jensenshannon

from waltz.benchmark.items import NOT_SELECTED
from waltz.benchmark.votes import compute_alpha
from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.core.text_diff import WORD
from waltz.filters.pipeline import NO_CONTRADICTION, READS_WORSE, UNGRAMMATICAL, WORDED_WORSE

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


FunnelRow = Mapping[str, Any]

SELECTION_STEPS = ("attested", "grammatical", "contradiction", "ranked", "balanced")
"""Steps that a candidate passes one after another; the first is that the rules of its instrument can use it."""
STEPS = ("candidates", *SELECTION_STEPS, "valid")
NOT_VOTED = "nobody voted"
NOT_VALID = "too few votes for the caption"


def find_lost_step(rejected: str | None) -> str | None:
    """Return the step at which a candidate with this reason was lost; None where it is an item."""
    if rejected is None:
        return None
    if rejected.startswith(UNGRAMMATICAL):
        return "grammatical"
    steps = {
        NO_CONTRADICTION: "contradiction",
        READS_WORSE: "ranked",
        WORDED_WORSE: "ranked",
        NOT_SELECTED: "balanced",
    }
    return steps.get(rejected, "attested")


def has_passed(row: FunnelRow, step: str) -> bool:
    """Return whether a candidate passed a step."""
    lost_step = find_lost_step(row["rejected"])
    return lost_step is None or SELECTION_STEPS.index(lost_step) > SELECTION_STEPS.index(step)


def count_funnel(instrument: str, rows: Sequence[FunnelRow], items: Sequence[FunnelRow]) -> list[dict[str, Any]]:
    """Count the candidates after each step.

    Args:
        instrument: Name of the instrument.
        rows: Rows of the filtered layout after balancing.
        items: Rows of the benchmark layout.
    Returns:
        Rows of the funnel layout, in the order of `STEPS`; `lost` counts the reasons, the most frequent first.
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


Preference = Callable[[Mapping[str, Any]], float | None]
"""Preference of a judge for an item: above 0 for the caption, below 0 for the foil, 0 for a tie, None without score."""

NO_SCORES = "no item has a score for both of its texts"


def audit_blind_judges(
    instrument: str,
    items: Sequence[Mapping[str, Any]],
    scores: Mapping[str, Mapping[str, float | None]],
    contradictions: Mapping[tuple[str, str], float] | None = None,
    *,
    threshold: float,
    resamples: int,
    confidence: float,
    seed: int,
) -> list[dict[str, Any]]:
    """Compute the pairwise accuracy of each blind judge on the items of one instrument.

    Args:
        instrument: Name of the instrument.
        items: Rows with caption, foil, image.
        scores: By judge (a language model, GRUEN, ...), a score by text; a higher one means a caption. A text
            without a score is absent or None, and its item is skipped for that judge.
        contradictions: Probability of contradiction by premise and hypothesis, in both directions of each
            item; the judge `nli` prefers the text that contradicts the other text more.
        threshold: Percent above which a judge gets a warning, for captions or for foils.
        resamples: Bootstrap resamples, of images.
        confidence: Coverage of the intervals, a share.
        seed: Seed of the bootstrap.
    Returns:
        One row for each judge, including `length` (which prefers the shorter text): instrument, judge,
        value in percent (a tie counts one half), n, ci_low, ci_high, reason, warning.
    """
    judges: dict[str, Preference] = {name: _prefer_by_score(values) for name, values in scores.items()}
    if contradictions is not None:
        judges["nli"] = _prefer_by_contradiction(contradictions)
    judges["length"] = lambda item: float(count_words(item["foil"]) - count_words(item["caption"]))
    rows = []
    for judge, preference in judges.items():
        wins, images = [], []
        for item in items:
            margin = preference(item)
            if margin is not None:
                wins.append(0.5 if margin == 0 else float(margin > 0))
                images.append(item["image"])
        label = f"{instrument}:blind {judge}"
        share = _compute_accuracy(wins, images, label, resamples=resamples, confidence=confidence, seed=seed)
        rows.append(
            {
                "instrument": instrument,
                "judge": judge,
                "value": share.value,
                "n": share.n,
                "ci_low": share.ci_low,
                "ci_high": share.ci_high,
                "reason": share.reason,
                "warning": _describe_bias(judge, share.value, threshold),
            }
        )
    return rows


def count_words(text: str) -> int:
    """Return the number of words and punctuation marks of a text."""
    return len(WORD.findall(text))


def _prefer_by_score(scores: Mapping[str, float | None]) -> Preference:
    """Return the preference for the text with the higher score."""

    def compute_preference(item: Mapping[str, Any]) -> float | None:
        caption, foil = scores.get(item["caption"]), scores.get(item["foil"])
        if caption is None or foil is None:
            return None
        return float(caption > foil) - float(caption < foil)

    return compute_preference


def _prefer_by_contradiction(contradictions: Mapping[tuple[str, str], float]) -> Preference:
    """Return the preference for the text that contradicts the other one more."""

    def compute_preference(item: Mapping[str, Any]) -> float | None:
        caption, foil = item["caption"], item["foil"]
        forward, backward = contradictions.get((caption, foil)), contradictions.get((foil, caption))
        return None if forward is None or backward is None else forward - backward

    return compute_preference


def _compute_accuracy(
    wins: Sequence[float], images: Sequence[str], label: str, *, resamples: int, confidence: float, seed: int
) -> Measure:
    if not wins:
        return Measure(None, 0, reason=NO_SCORES)
    return compute_mean([100 * win for win in wins], images, label, Resampling(resamples, confidence, seed))


def _describe_bias(judge: str, value: float | None, threshold: float) -> str | None:
    """Return a warning where a judge is further from chance than the threshold."""
    if value is None or 100 - threshold <= value <= threshold:
        return None
    side = "caption" if value > threshold else "foil"
    share = max(value, 100 - value)
    return f"{judge} alone prefers the {side} in {share:.1f} % of the items; {threshold:g} % is the limit"
