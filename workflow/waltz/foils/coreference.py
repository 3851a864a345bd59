"""Coreference: a caption, a question about it with a pronoun, and the answer yes or no (thesis 3.3, A.1).

The released benchmark took the first round of each dialogue only: of the 13 items whose dialogue is known, all are
first rounds, whose pronouns can refer to nothing but the caption and the image.
"""

import re
from collections.abc import Sequence

from waltz.foils.candidates import MakerOptions, Outcome, Refusal, Row, SourceOutcomes, build_candidate

ROUNDS = 1
"""Rounds of a dialogue that the released items come from."""
PRONOUN = re.compile(
    r"\b(?:he|him|his|himself|she|her|hers|herself|it|its|itself|they|them|their|theirs|themselves"
    r"|this|that|these|those|both)\b"
)
"""Words of which every released question has at least one; "this picture" and "they're" count."""
YES_OR_NO = re.compile(r"\b(?:yes|no)\b")
CONTRARY = {"yes": "no", "no": "yes"}


def build_candidates(rows: Sequence[Row], _: MakerOptions, __: str) -> SourceOutcomes:
    """Yield a candidate, or the reason why there is none, for each round of a VisDial dialogue."""
    for row in rows:
        yield row, build_coreference_foil(row["caption"], row["question"], row["answer"], row["round"])


def build_coreference_foil(caption: str, question: str, answer: str, dialogue_round: int) -> Outcome:
    """Return a dialogue of one round, with the same dialogue and the contrary answer, in lower case; or a refusal.

    Args:
        caption: The caption that the dialogue is about, without a full stop or with one.
        question: A yes/no question, without a question mark or with one.
        answer: An answer that holds "yes" or "no" ("no i believe it is full grown"), of which that word is used.
        dialogue_round: The round of the dialogue, from 1.
    """
    answer_words = set(YES_OR_NO.findall(answer.lower()))
    if dialogue_round > ROUNDS:
        return Refusal("a later round")
    if PRONOUN.search(question.lower()) is None:
        return Refusal("the question has no pronoun")
    if len(answer_words) != 1:
        return Refusal("the answer says both yes and no" if answer_words else "the answer says neither yes nor no")
    (word,) = answer_words
    dialogue = f"{caption.strip().rstrip('.').lower()}. {question.strip().rstrip('?').lower().rstrip()}?"
    foil_word = CONTRARY[word]
    return build_candidate(f"{dialogue} {word}.", f"{dialogue} {foil_word}.", word, foil_word, f"{word}2{foil_word}")
