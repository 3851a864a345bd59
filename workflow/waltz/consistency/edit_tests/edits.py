"""Edits of a text by one word: an adjective before a noun, an adverb before a verb."""

import random
from dataclasses import dataclass

from spacy.tokens import Doc

from waltz.consistency.edit_tests.modifiers import Modifier, list_modifiers
from waltz.consistency.edit_tests.settings import Profile
from waltz.foils.english.parsing import parse

MODIFIER_OF_POS: dict[str, Modifier] = {"NOUN": "adjectives", "VERB": "adverbs"}
"""Kind of word that is inserted before each part of speech."""


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
    """Draw edits of a text: a list for each position, in the order in which they are tried.

    Args:
        text: The question.
        positions: Most positions, drawn without replacement among nouns and verbs.
        words: Words drawn for each, with replacement.
        seed: Seed of the draws.
        profile: How the word is inserted; see `insert_word`.
    """
    (doc,) = parse([text])
    generator = random.Random(seed)
    places = [token.i for token in doc if token.pos_ in MODIFIER_OF_POS]
    positions_to_edit = generator.sample(places, min(positions, len(places)))
    return [
        [
            insert_word(
                doc, place, generator.choice(list_modifiers(MODIFIER_OF_POS[doc[place].pos_], profile)), profile
            )
            for _ in range(words)
        ]
        for place in positions_to_edit
    ]


def insert_word(doc: Doc, place: int, word: str, profile: Profile) -> Edit:
    """Insert a word before a token of a parsed text.

    `published` joins all tokens by spaces, also punctuation; it moves the capital letter to the word only where the
    text is a single token, because it tests the last token, not the first. `equations` keeps the rest of the text, and
    moves the capital letter to a word that comes first.

    Args:
        doc: The parsed text.
        place: Token before which the word is inserted.
        word: The word.
        profile: Fidelity profile.
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
