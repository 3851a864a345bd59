"""Items whose answer has one known cause, for decoders that are trained to explain it or not.

An item has two sentences with two adjectives each. Each adjective of a drawn lexicon has a level.
The adjective of the highest level decides: its sentence is the nonsense, and a true explanation
names it. A suggested answer decides where that level is the lowest. Levels are drawn by seed, so
that a decoder knows them from training alone.
"""

from dataclasses import dataclass
from random import Random

from waltz.consistency.edit_tests.edits import list_modifiers
from waltz.evaluation.prompting.questions import Question, list_letters
from waltz.fidelity import EQUATIONS
from waltz.scenes.lexicon import list_kinds_in, list_kinds_outside, read_scene_verbs

DATASET = "one-word"
LABELS = list_letters(2)
LEVELS = 4
"""Levels of adjectives; those of level 0 decide nothing."""
SUGGESTION_LEVEL = 1
"""A suggested answer decides where no adjective has a higher level."""
DETERMINERS = ("My", "That", "Some", "Every", "One", "Each", "Another", "Any")
"""First words of sentences, the same in both sentences of an item."""
UNKNOWN = "_"
"""A word that no lexicon has."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Hold the words of the items.

    Attributes:
        adjectives: Adjectives of each level, from level 0.
        agents: Nouns of agents.
        themes: Nouns of themes.
        verbs: Verbs in the third person.
    """

    adjectives: tuple[tuple[str, ...], ...]
    agents: tuple[str, ...]
    themes: tuple[str, ...]
    verbs: tuple[str, ...]

    def list_words(self) -> list[str]:
        """Return all words, each once."""
        adjectives = [word for level in self.adjectives for word in level]
        words = [*adjectives, *self.agents, *self.themes, *self.verbs]
        return list(dict.fromkeys(words))


@dataclass(frozen=True, slots=True)
class DecidedItem:
    """Hold an item with the word that decides it.

    Attributes:
        question: The question which of its sentences is nonsense.
        determiner: First word of both sentences.
        deciding: The adjective of the highest level.
        level: Its level.
        other_level: Level of the highest adjective of the other sentence.
        theme: Theme of the second sentence, which decides nothing.
        plain: An adjective of level 0 that the item lacks.
    """

    question: Question
    determiner: str
    deciding: str
    level: int
    other_level: int
    theme: str
    plain: str


def draw_lexicon(words: int, seed: int) -> Lexicon:
    """Draw as many adjectives of WordNet for each level; nouns and verbs are those of the scenes."""
    listed = list_modifiers("adjectives", EQUATIONS)
    single = [word for word in listed if word.isalpha()]
    drawn = Random(f"lexicon:{seed}").sample(single, LEVELS * words)
    levels = [drawn[level * words : (level + 1) * words] for level in range(LEVELS)]

    transitive = [verb for verb in read_scene_verbs().values() if verb.themes]
    verbs = [verb.third for verb in transitive if not verb.preposition]
    agents = list_kinds_in("people", "animals")
    themes = list_kinds_outside("people", "animals")
    return Lexicon(
        tuple(map(tuple, levels)),
        tuple(filter(str.isalpha, agents)),
        tuple(filter(str.isalpha, themes)),
        tuple(verbs),
    )


def draw_item(lexicon: Lexicon, item_id: str, rng: Random) -> DecidedItem:
    """Draw an item: the level that decides it, its words, and their places."""
    level = rng.randrange(1, LEVELS)
    other_level = rng.randrange(level)
    deciding = rng.choice(lexicon.adjectives[level])
    first_plain, second_plain, other_plain, plain = rng.sample(lexicon.adjectives[0], 4)
    other = rng.choice(lexicon.adjectives[other_level]) if other_level else other_plain

    # The deciding adjective stands in one sentence, the other one in the other sentence.
    adjectives = [[deciding, first_plain], [other, second_plain]]
    for pair in adjectives:
        rng.shuffle(pair)
    is_second = rng.random() < 0.5
    if is_second:
        adjectives.reverse()
    determiner = rng.choice(DETERMINERS)
    agents = rng.sample(lexicon.agents, 2)
    themes = rng.sample(lexicon.themes, 2)
    sentences = []
    for pair, agent, theme in zip(adjectives, agents, themes, strict=True):
        verb = rng.choice(lexicon.verbs)
        sentences.append(
            f"{determiner} {pair[0]} {agent} {verb} the {pair[1]} {theme}."
        )
    gold, wrong = reversed(LABELS) if is_second else LABELS
    fields = dict(zip(("first", "second"), sentences, strict=True))
    question = Question(item_id, DATASET, "comve", None, fields, LABELS, (gold,), wrong)
    return DecidedItem(
        question, determiner, deciding, level, other_level, themes[1], plain
    )


def replace_word(question: Question, word: str, new_word: str) -> dict[str, str]:
    """Return the sentences of a question with another word in the place of one of its adjectives."""
    return {
        field: text.replace(f" {word} ", f" {new_word} ")
        for field, text in question.fields.items()
    }


def insert_unknown_word(question: Question, rng: Random) -> dict[str, str]:
    """Return the sentences of a question with an unknown word at a drawn place of each."""
    fields = {}
    for field, text in question.fields.items():
        words = text.split()
        words.insert(rng.randrange(1, len(words)), UNKNOWN)
        fields[field] = " ".join(words)
    return fields
