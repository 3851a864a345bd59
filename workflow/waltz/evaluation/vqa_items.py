"""Questions about images (VQA, GQA), and their answers as they are compared."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from waltz.core.sampling import sample
from waltz.sources.published_samples import select_published_ids

SETTING = "answering"
ARTICLES = frozenset({"a", "an", "the"})
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = {"none": "0", **{word: str(number) for number, word in enumerate(NUMBERS)}}
"""Numbers that are compared as digits."""
WORDS = re.compile(r"\d+(?:[.,:/]\d+)+|\w+")

Row = Mapping[str, Any]


def contained(predicted: str, item: Row) -> bool:
    """Whether the released code for decoders takes an answer for right: a gold one is part of it, in lower case.

    The gold answer of any annotator will do, in lower case as well (VQA); without annotators it is the one answer as it
    is written (GQA).

    Args:
        predicted: What the model said.
        item: Its question's gold `answer`, and `answers` of the annotators or an empty list.
    """
    golds = [answer.lower() for answer in item["answers"]] or [item["answer"]]
    return any(gold in predicted.lower() for gold in golds)


def unreachable(items: Iterable[Row], vocabulary: Iterable[str]) -> Iterator[str]:
    """Ids of the questions whose gold answer a model cannot give."""
    known = {plain(answer) for answer in vocabulary}
    return (str(item["item_id"]) for item in items if plain(item["answer"]) not in known)


def plain(answer: str) -> str:
    """An answer as it is compared."""
    return " ".join(answer.casefold().split()).removesuffix(".").rstrip()


def normal(answer: str) -> str:
    """An answer as VQA's evaluation compares it: no case, articles and punctuation; numbers up to ten as digits.

    Apostrophes are dropped on both sides, so that no list of contractions is needed; a point, comma, colon or slash
    between digits stays. An answer of articles alone ("a") is kept.
    """
    words = [word.strip("_") for word in WORDS.findall(re.sub("['’]", "", answer.casefold()))]
    kept = [DIGITS.get(word, word) for word in words if word]
    return " ".join([word for word in kept if word not in ARTICLES] or kept)


def questions(
    name: str, rows: Sequence[Row], n: int | None, seed: int, choice: str | None = None
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """The questions to ask.

    Args:
        name: Name of the data set.
        rows: All rows of a source, of the layout `QUESTIONS`, in file order.
        n: How many; None takes all, and a smaller source is taken whole.
        seed: Seed of the sample.
        choice: One of `sources.selection.PUBLISHED`, to take the rows of the published runs (all usable ones of the
            first n drawn).
    Returns:
        Rows of item_id, image, question, answer and answers, and the rows that cannot be used, counted by reason.
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
    asked = [{"item_id": f"{name}:{place}", **{key: usable[place][key] for key in columns}} for place in ids]
    return asked, unusable
