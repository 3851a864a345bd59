"""Training examples drawn from scenes: sentences, pairs of caption and foil, questions with their
answers.
"""

from dataclasses import dataclass
from random import Random

from waltz.scenes.graph import Graph
from waltz.scenes.language.captions import (
    add_indefinite_article,
    draw_captions,
    draw_contextual_descriptions,
    draw_plain_descriptions,
)
from waltz.scenes.language.foils import draw_choice, draw_foils, draw_number_pair
from waltz.scenes.language.questions import (
    draw_dialogue,
    draw_scene_questions,
    render_statement,
)
from waltz.scenes.lexicon import read_kinds

DRAWS = 3
"""Times that foils and instructions of one scene are drawn."""
PRESENCE = (
    "Are there any {plural}?",
    "Is there {singular}?",
    "Do you see any {plural}?",
)
"""Questions whether a scene has a kind."""

Turn = tuple[str, str]
"""Question and answer."""


def draw_sentences(graph: Graph, rng: Random) -> list[str]:
    """Draw true captions, descriptions, statements and short dialogues of a scene."""
    sentences = draw_captions(graph, rng)
    sentences += draw_contextual_descriptions(graph, rng)
    sentences += draw_plain_descriptions(graph, rng)
    for question in draw_scene_questions(graph, rng):
        statement = render_statement(question)
        if statement:
            sentences.append(statement)

    caption = rng.choice(draw_captions(graph, rng))
    question_text, answer = rng.choice(draw_dialogue(graph, caption, rng))
    sentences.append(f"{caption.rstrip('.')}. {question_text} {answer}.")

    sentences += [foil.caption for foil in draw_foils(graph, rng)]
    sentences += draw_number_pair(graph, rng) or ()
    return sentences


def draw_turns(graph: Graph, rng: Random) -> list[Turn]:
    """Draw prompts about the image with their answers."""
    return [turn for _ in range(DRAWS) for turn in draw_instructions(graph, rng)]


def draw_instructions(graph: Graph, rng: Random) -> list[Turn]:
    """Draw questions, a description, judged and paired sentences about the image, with their
    answers.
    """
    turns = [
        (question.text, question.answer)
        for question in draw_scene_questions(graph, rng)
    ]
    turns.append(("Describe the image.", rng.choice(draw_captions(graph, rng))))
    for foil in draw_foils(graph, rng):
        sentence, answer = foil.foil, "no"
        if rng.random() < 0.5:
            sentence, answer = foil.caption, "yes"
        turns.append(
            (
                f'Does this sentence describe the image? "{sentence}" Answer yes or no.',
                answer,
            )
        )
        turns.append(draw_choice(foil, rng))
    return turns


def draw_presence_turns(graph: Graph, rng: Random) -> list[Turn]:
    """Draw existence questions with their answers, half of them about kinds that the scene lacks."""
    present = [entry.kind for entry in graph.objects]
    absent = rng.sample(graph.list_absent_kinds(), len(present))
    kinds = [(name, "yes") for name in present] + [(name, "no") for name in absent]
    turns = []
    for name, answer in kinds * 2:
        template = rng.choice(PRESENCE)
        turns.append(
            (
                template.format(
                    singular=add_indefinite_article(name),
                    plural=read_kinds()[name].plural,
                ),
                answer,
            )
        )
    return turns


@dataclass(frozen=True, slots=True)
class Example:
    """A training scene.

    Attributes:
        captions: True sentences about it.
        foils: (caption, foil) that differ in one position; the foil is false.
    """

    captions: tuple[str, ...]
    foils: tuple[tuple[str, str], ...]


def draw_example(graph: Graph, rng: Random) -> Example:
    """Draw true captions, and pairs of caption and foil that differ in one position."""
    pairs = [
        (foil.caption, foil.foil)
        for _ in range(DRAWS)
        for foil in draw_foils(graph, rng)
    ]
    return Example(tuple(draw_captions(graph, rng)), tuple(dict.fromkeys(pairs)))
