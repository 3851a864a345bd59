"""How right the answers to questions about images are (VQA, GQA), by profile.

- `published`: the share of correct answers. An encoder's is correct where it is the gold one (VQA's agreed answer,
  GQA's answer), compared without case, extra blanks and a final full stop; a decoder's where a gold one is part of it.
- `equations`: VQA's own measure, min(1, annotators with that answer / 3), averaged over the ten sets of nine annotators
  (Antol et al. 2015, as its evaluation code has it); for GQA, which has one answer, the share of answers that are it.
  Answers are compared in their normal form.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.evaluation.vqa_items import normal

ENOUGH = 3
"""Annotators whose agreement makes an answer fully right."""

Row = Mapping[str, Any]


def accuracy(items: Sequence[Row], rows: Iterable[Row], profile: str, label: str, how: Resampling) -> Measure:
    """Accuracy of predicted answers in percent, with the intervals of resampled images.

    Args:
        items: Rows of item_id, image, answer and answers (those of the annotators; empty for GQA).
        rows: What `answering.answer_rows` or `short_answers.answer_rows` made of them, of one setting.
        profile: `published` or `equations`.
        label: Name of the data set.
        how: How intervals are made.
    """
    given = {row["item_id"]: row for row in rows if row["profile"] == profile and row["prediction"] is not None}
    answered = [item for item in items if item["item_id"] in given]
    if not answered:
        return Measure(None, 0, reason=f"none of {len(items)} questions was answered")
    shares = [100 * share(given[item["item_id"]], item, profile) for item in answered]
    return compute_mean(shares, [item["image"] for item in answered], label, how)


def share(row: Row, item: Row, profile: str) -> float:
    """How right an answer is, between 0 and 1.

    Args:
        row: A row with `prediction`, the answer, and `correct`, the verdict by the gold answer.
        item: Its question's gold `answer`, and `answers` of the annotators or an empty list.
        profile: `published` takes the verdict, `equations` what the annotators say where there are any.
    """
    if profile == "published":
        return float(row["correct"])
    if not item["answers"]:
        return float(normal(row["prediction"]) == normal(item["answer"]))
    return agreement(row["prediction"], item["answers"])


def agreement(predicted: str, answers: Sequence[str]) -> float:
    """VQA's accuracy of one answer: the mean over annotators of min(1, how many of the others said it / 3).

    Args:
        predicted: The predicted answer.
        answers: What each annotator said, ten in VQA.
    """
    said = [normal(answer) == normal(predicted) for answer in answers]
    return sum(min(1.0, (sum(said) - own) / ENOUGH) for own in said) / len(said)
