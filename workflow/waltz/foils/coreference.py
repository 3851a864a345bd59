"""Coreference: a caption, a question about it with a pronoun, and the answer yes or no (thesis 3.3,
A.1).

The released benchmark uses only the first round of each dialogue: all 13 items whose dialogue is
known are first rounds. The pronouns of a first round can refer only to the caption and the image.
"""

import re
from collections.abc import Sequence

from waltz.foils.candidates import (
    MakerOptions,
    Outcome,
    Refusal,
    SourceOutcomes,
    build_candidate,
)
from waltz.sources.records import TurnRecord

ROUNDS = 1
"""Number of rounds of a dialogue that give items, from the first."""
PRONOUNS = (
    "he", "him", "his", "himself", "she", "her", "hers", "herself", "it", "its", "itself", "they", "them", "their",
    "theirs", "themselves", "this", "that", "these", "those", "both",
)  # fmt: skip
"""Pronouns; every released question has at least one of these words ("this picture" and "they're"
count).
"""
PRONOUN = re.compile(rf"\b(?:{'|'.join(PRONOUNS)})\b")
YES_OR_NO = re.compile(r"\b(?:yes|no)\b")
CONTRARY = {"yes": "no", "no": "yes"}


def build_candidates(
    rows: Sequence[TurnRecord], _: MakerOptions, __: str
) -> SourceOutcomes:
    """Yield for each round of a VisDial dialogue a candidate, or a refusal with the reason why
    there is none.
    """
    for row in rows:
        # Usable rows have a question and an answer.
        outcome = build_coreference_foil(
            row.caption, row.question or "", row.answer or "", row.round
        )
        yield row, outcome


def build_coreference_foil(
    caption: str, question: str, answer: str, dialogue_round: int
) -> Outcome:
    """Return a candidate or a refusal: the caption is a dialogue of one round, the foil has the
    contrary answer.

    Both texts are in lower case: "caption. question? answer.".

    Args:
        caption: The caption that the dialogue is about, with or without a full stop.
        question: A yes/no question, with or without a question mark.
        answer: An answer with "yes" or "no" ("no i believe it is full grown"); only this word is
            used.
        dialogue_round: The round of the dialogue, from 1.
    """
    # Rules by which a round gives no item.
    if dialogue_round > ROUNDS:
        return Refusal("a later round")
    if PRONOUN.search(question.lower()) is None:
        return Refusal("the question has no pronoun")
    answer_words = set(YES_OR_NO.findall(answer.lower()))
    if not answer_words:
        return Refusal("the answer says neither yes nor no")
    if len(answer_words) > 1:
        return Refusal("the answer says both yes and no")

    # The text of the released items: lower case, one full stop or question mark after each part.
    (word,) = answer_words
    foil_word = CONTRARY[word]
    statement = caption.strip().rstrip(".").lower()
    question_text = question.strip().rstrip("?").lower().rstrip()
    dialogue = f"{statement}. {question_text}?"
    return build_candidate(
        f"{dialogue} {word}.",
        f"{dialogue} {foil_word}.",
        caption_phrase=word,
        foil_phrase=foil_word,
        direction=f"{word}2{foil_word}",
    )


def find_question(text: str) -> str | None:
    """Return the question of an item, "caption. question? answer."; None where the text has none."""
    before, question_mark, _ = text.rpartition("?")
    if not question_mark:
        return None
    # The question begins after the last full stop before its question mark.
    return before.rpartition(". ")[2]
