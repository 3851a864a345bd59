"""Training examples of the scenes' models: captions, foils, NLI pairs, corrupted sentences and instructions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.foils import PLURAL_QUANTIFIERS, SINGULAR_QUANTIFIERS, draw_foils, exchange_preposition
from waltz.scenes.language.questions import draw_questions
from waltz.scenes.oracle.truth import is_in_grammar
from waltz.scenes.world.graph import Graph
from waltz.scenes.world.sampling import draw_scene

NOUN_CORRUPTION_SHARE = 0.4
"""Share of the attempts that insert a word that does not fit its noun."""
PREPOSITIONAL_PHRASE = re.compile(r"\b(?P<before>at|in|on)(?: the| an?)? (?P<noun>[a-z]+)\b")
"""A place or a time: a preposition with a noun."""
AGREEMENT = {"is": "are", "are": "is", "a": "three", "an": "two", "two": "a", "three": "a"}


SIDE, PATCH = 128, 16
"""Pixels of the models' image, and of a patch."""


@dataclass(frozen=True)
class Example:
    """A training scene.

    Attributes:
        captions: True sentences about it.
        foils: (caption, foil) that differ in one place; the foil is false.
    """

    captions: tuple[str, ...]
    foils: tuple[tuple[str, str], ...]


def draw_training_scenes(seed: int, start: int = 0, split: str = "training") -> Iterator[Graph]:
    """Yield the scenes of a split without end, from number `start`."""
    index = start
    while True:
        yield draw_scene(index, seed, split)
        index += 1


def draw_caption_stream(seed: int, start: int = 0, split: str = "training") -> Iterator[tuple[Graph, list[str]]]:
    """Yield scenes with their five captions, without end."""
    for graph in draw_training_scenes(seed, start, split):
        yield graph, draw_captions(graph, Random(f"captions:{seed}:{graph.id}"))


def corrupt_text(text: str, rng: Random) -> str | None:
    """Return a sentence corrupted in word order or agreement, by a missing word, or by a word that does not fit.

    None if the sentence allows no corruption.
    """
    words = text.rstrip(".").split()
    for _ in range(6):
        result = (
            _replace_noun(text, rng)
            if rng.random() < NOUN_CORRUPTION_SHARE
            else " ".join(_corrupt_words(list(words), rng))
        )
        result = result[0].upper() + result[1:].rstrip(".") + ("." if text.endswith(".") else "")
        if result != text and not is_in_grammar(result):
            return result
    return None


def _replace_noun(text: str, rng: Random) -> str:
    """Return a text with another preposition, or with a quantifier before a definite noun ("in some rooms")."""
    if rng.random() < 0.5:
        return exchange_preposition(text, rng) or text
    places = list(PREPOSITIONAL_PHRASE.finditer(text))
    if not places:
        return text
    place = rng.choice(places)
    noun = place.group("noun")
    plural = noun + ("es" if noun.endswith(("ch", "s", "sh", "x")) else "s")
    new = rng.choice(
        [*(f"{words} {plural}" for words in PLURAL_QUANTIFIERS), *(f"{words} {noun}" for words in SINGULAR_QUANTIFIERS)]
    )
    return f"{text[: place.start()]}{place.group('before')} {new}{text[place.end() :]}"


def _corrupt_words(words: list[str], rng: Random) -> list[str]:
    words[0] = words[0].lower()
    place = rng.randrange(len(words) - 1)
    operation = rng.randrange(5)
    if operation == 0:
        del words[place]
    elif operation == 1:
        words[place], words[place + 1] = words[place + 1], words[place]
    elif operation == 2:
        words.insert(rng.randrange(len(words)), words.pop(place))
    elif operation == 3:
        indices = [index for index, word in enumerate(words) if word in AGREEMENT]
        if indices:
            index = rng.choice(indices)
            words[index] = AGREEMENT[words[index]]
    else:
        words.insert(place, words[rng.randrange(len(words))])
    return words


def draw_instructions(graph: Graph, rng: Random) -> Iterator[tuple[str, str]]:
    """Yield prompts about the image with their answers: questions, a description, judged and paired sentences."""
    for question in draw_questions(graph, rng):
        yield question.text, question.answer
    yield "Describe the image.", rng.choice(draw_captions(graph, rng))
    for foil in draw_foils(graph, rng):
        right = rng.random() < 0.5
        sentence = foil.caption if right else foil.foil
        yield f'Does this sentence describe the image? "{sentence}" Answer yes or no.', "yes" if right else "no"
        first = rng.random() < 0.5
        pair = (foil.caption, foil.foil) if first else (foil.foil, foil.caption)
        yield f"Which sentence describes the image? A: {pair[0]} B: {pair[1]} Answer A or B.", "A" if first else "B"
