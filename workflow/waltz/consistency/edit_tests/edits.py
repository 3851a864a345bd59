"""Edits of a text by one word: an adjective before a noun, an adverb before a verb."""

import random
from dataclasses import dataclass

from spacy.tokens import Doc

from waltz.consistency.edit_tests.modifiers import Modifier, list_modifiers
from waltz.consistency.edit_tests.settings import Profile
from waltz.foils.english.parsing import parse

MODIFIER_OF_POS: dict[str, Modifier] = {"NOUN": "adjectives", "VERB": "adverbs"}
"""What is inserted before a word of each part of speech."""


@dataclass(frozen=True)
class Edit:
    """A text with a word inserted.

    Attributes:
        text: The edited text.
        word: The word, as it stands there.
        before: The place of the token that it stands before.
    """

    text: str
    word: str
    before: int


def draw_edits(text: str, positions: int, words: int, seed: int, profile: Profile) -> list[list[Edit]]:
    """Edits of a text, a list a position, in the order in which they are tried.

    Args:
        text: The question.
        positions: Most positions, drawn without replacement among nouns and verbs.
        words: Words drawn for each, with replacement.
        seed: Seed of the draws.
        profile: How the word is inserted; see `inserted`.
    """
    (doc,) = parse([text])
    generator = random.Random(seed)
    places = [token.i for token in doc if token.pos_ in MODIFIER_OF_POS]
    drawn = generator.sample(places, min(positions, len(places)))
    return [
        [
            insert_word(
                doc, place, generator.choice(list_modifiers(MODIFIER_OF_POS[doc[place].pos_], profile)), profile
            )
            for _ in range(words)
        ]
        for place in drawn
    ]


def insert_word(doc: Doc, place: int, word: str, profile: Profile) -> Edit:
    """A parsed text with a word before one of its tokens.

    `published` joins all tokens by blanks, which sets punctuation apart; only where the text is a single token does it
    take its capital over to the word, because it asks so of the last token, not of the first. `equations` leaves the
    rest of the text as it is, and where the word comes first it takes the capital over.

    Args:
        doc: The parsed text.
        place: Token that the word is put before.
        word: The word.
        profile: How it is put.
    """
    begins = len(doc) == 1 if profile == "published" else place == 0
    if profile == "equations":
        begins = begins and doc[0].text.istitle()
    tokens = [token.text for token in doc]
    if begins:
        word, tokens[0] = word.capitalize(), tokens[0].lower()
    if profile == "published":
        return Edit(" ".join([*tokens[:place], word, *tokens[place:]]), word, place)
    left = doc.text[: doc[place].idx]
    right = tokens[place] + doc.text[doc[place].idx + len(tokens[place]) :]
    return Edit(f"{left}{word} {right}", word, place)
