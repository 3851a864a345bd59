"""Questions about images, answered by encoders with a vocabulary of answers (LXMERT's task checkpoints).

The predicted answer is the one with the highest logit, its probability the softmax over the vocabulary (what MM-SHAP
explains). Accuracy by profile:

- `published`: the share of questions whose predicted answer is the gold one (VQA's agreed answer, GQA's answer).
- `equations`: VQA's own measure, min(1, annotators with that answer / 3), averaged over the ten sets of nine annotators
  (Antol et al. 2015, as its evaluation code has it); GQA has one answer, so the same as published.

Answers are compared without case, extra blanks and a final full stop.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from waltz.core.errors import UserError
from waltz.core.measure import Measure, interval, resample
from waltz.evaluation.metrics import Resampling, Sampled

SETTING = "answering"
ROLE = "answer"
ENOUGH = 3
"""Annotators whose agreement makes an answer fully right."""

Row = Mapping[str, Any]
Ask = Callable[[Sequence[tuple[str, str]]], np.ndarray]
"""From images (by name) with questions to logits of every answer, float of shape (questions, answers)."""


def answer_rows(
    items: Sequence[Row], ask: Ask, vocabulary: Sequence[str], profiles: Sequence[str]
) -> list[dict[str, Any]]:
    """Rows of the evaluation layout, role `answer`: the predicted answer of each question in each profile.

    `score` is the predicted answer's logit, `probability` its softmax. `correct` says in both profiles whether it is
    the gold answer.

    Args:
        items: Rows of item_id, image, question and answer.
        ask: The model.
        vocabulary: Its answers, in the order of its logits.
        profiles: Which of `equations`, `published`.
    Raises:
        UserError: The model gives other than one logit an answer, or one that is not a number.
    """
    logits = np.asarray(ask([(item["image"], item["question"]) for item in items]), dtype=np.float64)
    if logits.shape != (len(items), len(vocabulary)) or np.isnan(logits).any():
        raise UserError(
            f"logits of shape {logits.shape} for {len(items)} questions and {len(vocabulary)} answers, or not numbers;"
            " is the vocabulary the checkpoint's own?"
        )
    best = logits.argmax(axis=1)
    rows = []
    for profile in profiles:
        for item, place, of in zip(items, best, logits, strict=True):
            answer = vocabulary[int(place)]
            rows.append(
                {
                    "item_id": item["item_id"],
                    "role": ROLE,
                    "profile": profile,
                    "setting": SETTING,
                    "image": item["image"],
                    "score": float(of[place]),
                    "probability": float(1 / np.exp(of - of[place]).sum()),
                    "prediction": answer,
                    "correct": plain(answer) == plain(item["answer"]),
                }
            )
    return rows


def accuracy(items: Sequence[Row], rows: Iterable[Row], profile: str, label: str, how: Resampling) -> Sampled:
    """Accuracy of predicted answers in percent, with the intervals of resampled images.

    Args:
        items: Rows of item_id, image, answer and answers (those of the annotators; empty for GQA).
        rows: What `answer_rows` made of them.
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
