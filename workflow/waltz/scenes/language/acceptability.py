"""Acceptable sentences about scenes, and corrupted versions of them."""

import re
from random import Random

from waltz.scenes.graph import Graph
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.foils import (
    PLURAL_QUANTIFIERS,
    SINGULAR_QUANTIFIERS,
    draw_foils,
    draw_number_pair,
    exchange_preposition,
    swap_actants,
)
from waltz.scenes.oracle import is_in_grammar

NOUN_CORRUPTION_SHARE = 0.4
"""Share of the attempts that insert a word that does not fit its noun."""
CORRUPTION_ATTEMPTS = 6
"""Attempts to corrupt a sentence: an attempt may give a sentence that is still in the grammar."""
PREPOSITIONAL_PHRASE = re.compile(
    r"\b(?P<before>at|in|on)(?: the| an?)? (?P<noun>[a-z]+)\b"
)
"""A preposition of location or time with its noun."""
WRONG_NUMBER = {
    "is": "are",
    "are": "is",
    "a": "three",
    "an": "two",
    "two": "a",
    "three": "a",
}
"""For some words the word that stands with the other number."""


def draw_judged_sentences(graph: Graph, rng: Random) -> list[tuple[str, bool]]:
    """Draw acceptable sentences, true or false, and corrupted versions of them, with whether each
    is acceptable.
    """
    acceptable = _draw_acceptable_sentences(graph, rng)

    # Corrupted versions are drawn after all acceptable ones, one for each.
    corrupted_texts = [corrupt_text(text, rng) for text in acceptable]
    judged = [(text, True) for text in acceptable]
    judged += [(text, False) for text in corrupted_texts if text is not None]
    return judged


def _draw_acceptable_sentences(graph: Graph, rng: Random) -> list[str]:
    """Draw captions, foils, and captions with another number, exchanged actants or another
    preposition.
    """
    acceptable = rng.sample(draw_captions(graph, rng), 2)
    acceptable += [foil.foil for foil in draw_foils(graph, rng)]
    acceptable += draw_number_pair(graph, rng) or ()
    acceptable += swap_actants(graph) or ()
    exchanged = exchange_preposition(rng.choice(draw_captions(graph, rng)), rng)
    if exchanged and is_in_grammar(exchanged):
        acceptable.append(exchanged)
    return acceptable


def corrupt_text(text: str, rng: Random) -> str | None:
    """Return a sentence corrupted in word order or agreement, by a missing word, or by a word that
    does not fit.

    None if no attempt leaves the grammar.
    """
    end = "." if text.endswith(".") else ""
    for _ in range(CORRUPTION_ATTEMPTS):
        if rng.random() < NOUN_CORRUPTION_SHARE:
            corrupted = _corrupt_prepositional_phrase(text, rng)
        else:
            corrupted = _corrupt_words(text, rng)
        corrupted = corrupted[0].upper() + corrupted[1:].rstrip(".") + end
        if corrupted != text and not is_in_grammar(corrupted):
            return corrupted
    return None


def _corrupt_prepositional_phrase(text: str, rng: Random) -> str:
    """Return a text with another preposition, or with a quantifier before a definite noun (`in some
    rooms`).
    """
    if rng.random() < 0.5:
        return exchange_preposition(text, rng) or text
    # `in the room` becomes `in some rooms` or `in a single room`.
    matches = list(PREPOSITIONAL_PHRASE.finditer(text))
    if not matches:
        return text
    match = rng.choice(matches)
    noun = match["noun"]
    suffix = "es" if noun.endswith(("ch", "s", "sh", "x")) else "s"
    phrases = [f"{words} {noun}{suffix}" for words in PLURAL_QUANTIFIERS]
    phrases += [f"{words} {noun}" for words in SINGULAR_QUANTIFIERS]
    return f"{text[: match.start()]}{match['before']} {rng.choice(phrases)}{text[match.end() :]}"


def _corrupt_words(text: str, rng: Random) -> str:
    """Return a text with a word left out, exchanged, moved, repeated or in the wrong number,
    without a full stop.
    """
    words = text.rstrip(".").split()
    words[0] = words[0].lower()
    position = rng.randrange(len(words) - 1)
    operation = rng.choice(("omit", "exchange", "move", "renumber", "repeat"))
    if operation == "omit":
        del words[position]
    elif operation == "exchange":
        words[position], words[position + 1] = words[position + 1], words[position]
    elif operation == "move":
        words.insert(rng.randrange(len(words)), words.pop(position))
    elif operation == "repeat":
        words.insert(position, words[rng.randrange(len(words))])
    else:
        _renumber_word(words, rng)
    return " ".join(words)


def _renumber_word(words: list[str], rng: Random) -> None:
    """Put one word into the wrong number, if there is a word with a number."""
    indices = [index for index, word in enumerate(words) if word in WRONG_NUMBER]
    if indices:
        index = rng.choice(indices)
        words[index] = WRONG_NUMBER[words[index]]
