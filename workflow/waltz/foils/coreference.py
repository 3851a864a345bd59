"""Coreference: a caption, a question about it with a pronoun, and the answer yes or no (thesis 3.3, A.1).

The released benchmark took the first round of each dialogue only: of the 13 items whose dialogue is at hand, all are
first rounds, whose pronouns can refer to nothing but the caption and the image.
"""

import re

from waltz.foils.candidates import Found, Refused, exchanged

ROUNDS = 1
"""Rounds of a dialogue that the released items come from."""
PRONOUN = re.compile(
    r"\b(?:he|him|his|himself|she|her|hers|herself|it|its|itself|they|them|their|theirs|themselves"
    r"|this|that|these|those|both)\b"
)
"""Words that the released questions hold at least one of; "this picture" and "they're" count."""
ANSWER = re.compile(r"\b(?:yes|no)\b")
SPLITS = {"coreference-standard": "train", "coreference-clean": "val2018"}
"""Split of VisDial that each instrument reads."""
FOILS = {"yes": "no", "no": "yes"}


def coreference(caption: str, question: str, answer: str, turn: int, rounds: int = ROUNDS) -> Found:
    """A dialogue of one round, beside the same with the contrary answer.

    Args:
        caption: What the dialogue is about, without a full stop or with one.
        question: A yes/no question, without a question mark or with one.
        answer: An answer that holds "yes" or "no" ("no i believe it is full grown"), of which that word is kept.
        turn: The round of the dialogue, from 1.
        rounds: Rounds that may be used.
    Returns:
        "a woman sits on a bench. is this in a park? yes." beside "... no.", lower case; or why there is none.
    """
    said = set(ANSWER.findall(answer.lower()))
    if turn > rounds:
        return Refused("a later round")
    if PRONOUN.search(question.lower()) is None:
        return Refused("the question has no pronoun")
    if len(said) != 1:
        return Refused("the answer says both yes and no" if said else "the answer says neither yes nor no")
    (word,) = said
    asked = f"{caption.strip().rstrip('.').lower()}. {question.strip().rstrip('?').lower().rstrip()}?"
    return exchanged(f"{asked} {word}.", f"{asked} {FOILS[word]}.", word, FOILS[word], f"{word}2{FOILS[word]}")
