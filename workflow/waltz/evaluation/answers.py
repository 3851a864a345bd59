"""How right the answers to questions about images are (VQA, GQA), by profile.

- `published`: the share of questions whose predicted answer is the gold one (VQA's agreed answer, GQA's answer).
- `equations`: VQA's own measure, min(1, annotators with that answer / 3), averaged over the ten sets of nine annotators
  (Antol et al. 2015, as its evaluation code has it); GQA has one answer, so the same as published.

Answers are compared without case, extra blanks and a final full stop.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from waltz.core.measure import Measure, interval, resample
from waltz.evaluation.metrics import Resampling, Sampled

SETTING = "answering"
ENOUGH = 3
"""Annotators whose agreement makes an answer fully right."""

Row = Mapping[str, Any]


def accuracy(items: Sequence[Row], rows: Iterable[Row], profile: str, label: str, how: Resampling) -> Sampled:
    """Accuracy of predicted answers in percent, with the intervals of resampled images.

    Args:
        items: Rows of item_id, image, answer and answers (those of the annotators; empty for GQA).
        rows: What `answering.answer_rows` made of them.
        profile: `published` or `equations`.
        label: Name of the data set.
        how: How intervals are made.
    """
    predicted = {row["item_id"]: row["prediction"] for row in rows if row["profile"] == profile}
    answered = [item for item in items if predicted.get(item["item_id"]) is not None]
    if not answered:
        return Sampled(Measure(None, 0, reason=f"none of {len(items)} questions was answered"), np.empty(0))
    shares = np.array([share(predicted[item["item_id"]], item, profile) for item in answered])
    drawn = resample([item["image"] for item in answered], resamples=how.resamples, seed=how.seed, label=label)
    draws = drawn.means(100 * shares)
    measure = Measure(float(100 * shares.mean()), len(answered), *interval(draws, how.confidence))
    return Sampled(measure, draws)


def share(predicted: str, item: Row, profile: str) -> float:
    """How right an answer is, between 0 and 1.

    Args:
        predicted: The predicted answer.
        item: Its question's gold `answer`, and `answers` of the annotators or an empty list.
        profile: `published` takes the gold answer alone, `equations` those of the annotators where there are any.
    """
    if profile == "published" or not item["answers"]:
        return float(plain(predicted) == plain(item["answer"]))
    return agreement(predicted, item["answers"])


def agreement(predicted: str, answers: Sequence[str]) -> float:
    """VQA's accuracy of one answer: the mean over annotators of min(1, how many of the others said it / 3).

    Args:
        predicted: The predicted answer.
        answers: What each annotator said, ten in VQA.
    """
    said = [plain(answer) == plain(predicted) for answer in answers]
    return sum(min(1.0, (sum(said) - own) / ENOUGH) for own in said) / len(said)


def unreachable(items: Iterable[Row], vocabulary: Iterable[str]) -> Iterator[str]:
    """Ids of the questions whose gold answer a model cannot give."""
    known = {plain(answer) for answer in vocabulary}
    return (str(item["item_id"]) for item in items if plain(item["answer"]) not in known)


def plain(answer: str) -> str:
    """An answer as it is compared."""
    return " ".join(answer.casefold().split()).removesuffix(".").rstrip()
