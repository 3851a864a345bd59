"""Questions about images (VQA, GQA): selection, comparison of answers, and accuracy by profile.

- `published`: the share of correct answers. An encoder's is correct where it is the gold one (VQA's agreed answer,
  GQA's answer), compared without case, extra whitespace and a final full stop; a decoder's where a gold one is part
  of it.
- `equations`: VQA's own measure, min(1, annotators with that answer / 3), averaged over the ten sets of nine
  annotators (Antol et al. 2015, as its evaluation code has it); for GQA, which has one answer, the share of equal
  answers. Answers are normalized before comparison.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from waltz.core.sampling import sample
from waltz.fidelity import get_fidelity
from waltz.sources.published_samples import select_published_ids

ANSWERING = "answering"
"""Setting of answers to questions about images."""
ANSWER = "answer"
"""Role of answers."""
ARTICLES = frozenset({"a", "an", "the"})
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = {"none": "0", **{word: str(number) for number, word in enumerate(NUMBERS)}}
"""Number words that are compared as digits."""
WORDS = re.compile(r"\d+(?:[.,:/]\d+)+|\w+")

Row = Mapping[str, Any]
FULL_AGREEMENT = 3
"""Annotators whose agreement makes an answer fully right."""


def select_questions(
    name: str, rows: Sequence[Row], n: int | None, seed: int, choice: str | None = None
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Select the questions of a data set.

    Args:
        rows: All rows of a source, of the layout `QUESTIONS`, in file order.
        n: Number of questions; None takes all, and a smaller source is taken as a whole.
        choice: A key of `sources.published_samples.PUBLISHED_SAMPLES`, to take the rows of the published runs (all
            usable ones of the first n drawn).
    Returns:
        Rows of item_id, image, question, answer and answers (those of the annotators; empty for GQA), and the rows that
        cannot be used, counted by reason.
    """
    unusable: Counter[str] = Counter()
    usable: dict[str, Row] = {}
    for row in rows:
        if row["rejected"] is not None or row["answer"] is None:
            unusable[row["rejected"] or "the answer is withheld"] += 1
        else:
            usable[row["source_id"]] = row
    if choice is None:
        ids = sample(list(usable), None if n is None else min(n, len(usable)), seed)
    else:
        ids = [source_id for source_id in select_published_ids(choice, rows, n) if source_id in usable]
    columns = ("image", "question", "answer", "answers")
    items = [{"item_id": f"{name}:{row_id}", **{key: usable[row_id][key] for key in columns}} for row_id in ids]
    return items, unusable


def contains_gold_answer(predicted: str, item: Row) -> bool:
    """Return whether an answer is right by the released code for decoders: a gold one is part of it, in lower case.

    The gold answer of any annotator counts, in lower case as well (VQA); without annotators the one answer as it is
    written (GQA).

    Args:
        item: A row of `select_questions`.
    """
    golds = [answer.lower() for answer in item["answers"]] or [item["answer"]]
    return any(gold in predicted.lower() for gold in golds)


def normalize_case(answer: str) -> str:
    """Return an answer without case, extra whitespace and a final full stop."""
    return " ".join(answer.casefold().split()).removesuffix(".").rstrip()


def normalize_answer(answer: str) -> str:
    """Return an answer as VQA's evaluation compares it: no case, articles, punctuation; numbers up to ten as digits.

    Apostrophes are dropped on both sides, so that no list of contractions is needed; a point, comma, colon or slash
    between digits stays. An answer of articles alone ("a") is kept.
    """
    words = [word.strip("_") for word in WORDS.findall(re.sub("['’]", "", answer.casefold()))]
    tokens = [DIGITS.get(word, word) for word in words if word]
    return " ".join([word for word in tokens if word not in ARTICLES] or tokens)


def score_answer(row: Row, item: Row, profile: str) -> float:
    """Return the accuracy of one answer, between 0 and 1.

    Args:
        row: A row with `prediction`, the answer, and `correct`, the verdict by the gold answer.
        item: Its question, a row of `select_questions`.
        profile: `published` takes the verdict, `equations` the annotators' answers where there are any.
    """
    if not get_fidelity(profile).annotators:
        return float(row["correct"])
    if not item["answers"]:
        return float(normalize_answer(row["prediction"]) == normalize_answer(item["answer"]))
    return compute_agreement(row["prediction"], item["answers"])


def compute_agreement(predicted: str, answers: Sequence[str]) -> float:
    """Return VQA's accuracy of one answer: the mean over annotators of min(1, other annotators with that answer / 3).

    Args:
        answers: Answers of the annotators, ten in VQA.
    """
    agrees = [normalize_answer(answer) == normalize_answer(predicted) for answer in answers]
    return sum(min(1.0, (sum(agrees) - own) / FULL_AGREEMENT) for own in agrees) / len(agrees)
