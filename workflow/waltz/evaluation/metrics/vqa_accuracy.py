"""Accuracy of answers to questions about images (VQA, GQA), by profile.

- `published`: the share of correct answers. An encoder's is correct where it is the gold one (VQA's agreed answer,
  GQA's answer), compared without case, extra whitespace and a final full stop; a decoder's where a gold one is part
  of it.
- `equations`: VQA's own measure, min(1, annotators with that answer / 3), averaged over the ten sets of nine annotators
  (Antol et al. 2015, as its evaluation code has it); for GQA, which has one answer, the share of equal
  answers. Answers are normalized before comparison.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.evaluation.vqa_items import normalize_answer

FULL_AGREEMENT = 3
"""Annotators whose agreement makes an answer fully right."""

Row = Mapping[str, Any]


def compute_vqa_accuracy(
    items: Sequence[Row], rows: Iterable[Row], profile: str, label: str, resampling: Resampling
) -> Measure:
    """Compute the accuracy of predicted answers in percent, with the interval of resampled images.

    Args:
        items: Rows of item_id, image, answer and answers (those of the annotators; empty for GQA).
        rows: Rows of `encoder_vqa.build_answer_rows` or `open_answers.answer_questions`, of one setting.
        profile: `published` or `equations`.
        label: Name of the data set.
        resampling: Resamples, coverage and seed of intervals.
    """
    answers = {row["item_id"]: row for row in rows if row["profile"] == profile and row["prediction"] is not None}
    answered = [item for item in items if item["item_id"] in answers]
    if not answered:
        return Measure(None, 0, reason=f"none of {len(items)} questions was answered")
    shares = [100 * score_answer(answers[item["item_id"]], item, profile) for item in answered]
    return compute_mean(shares, [item["image"] for item in answered], label, resampling)


def score_answer(row: Row, item: Row, profile: str) -> float:
    """Return the accuracy of one answer, between 0 and 1.

    Args:
        row: A row with `prediction`, the answer, and `correct`, the verdict by the gold answer.
        item: Its question's gold `answer`, and `answers` of the annotators or an empty list.
        profile: `published` takes the verdict, `equations` the annotators' answers where there are any.
    """
    if profile == "published":
        return float(row["correct"])
    if not item["answers"]:
        return float(normalize_answer(row["prediction"]) == normalize_answer(item["answer"]))
    return compute_agreement(row["prediction"], item["answers"])


def compute_agreement(predicted: str, answers: Sequence[str]) -> float:
    """Return VQA's accuracy of one answer: the mean over annotators of min(1, other annotators with that answer / 3).

    Args:
        predicted: The predicted answer.
        answers: Answers of the annotators, ten in VQA.
    """
    agrees = [normalize_answer(answer) == normalize_answer(predicted) for answer in answers]
    return sum(min(1.0, (sum(agrees) - own) / FULL_AGREEMENT) for own in agrees) / len(agrees)
