"""The blind audit: how well judges that see the texts but not the image distinguish captions from foils.

The accuracy of such a judge should be close to chance, 50 %. If it is far from chance, in either direction, the texts
have a bias that a model can use instead of the image.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.core.text_diff import WORD

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
        share = _compute_share(wins, images, label, resamples=resamples, confidence=confidence, seed=seed)
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


def _compute_share(
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
