"""Draw pairs of premise and hypothesis; the oracle labels them over worlds in which the premise is
true.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from waltz.scenes.graph import PREPOSITIONS, SIZE, Graph, Object, SpriteCell
from waltz.scenes.language.captions import (
    PLACES,
    add_indefinite_article,
    draw_captions,
    draw_place,
    find_focus,
    get_be,
    inflect_noun,
    render_existence,
    render_main_clause,
    render_sentence,
)
from waltz.scenes.language.foils import (
    draw_foils,
    draw_number_pair,
    exchange_preposition,
    exchange_quantifier,
    swap_actants,
)
from waltz.scenes.language.grammar import list_noun_phrases, read_sentence
from waltz.scenes.language.words import tokenize
from waltz.scenes.lexicon import (
    NUMBERS,
    exclude,
    list_verbs_for,
    read_kinds,
    read_places,
    read_scene_categories,
)
from waltz.scenes.oracle import decide_truth

LABELS = ("entailment", "neutral", "contradiction")
ATTEMPTS = 36
"""Largest number of hypotheses that are drawn for a scene, since many do not get the label they are
drawn for.
"""
MAX_INDIVIDUALS = 9
"""Largest number of individuals of a kind in a world."""
_SPARE = SpriteCell(0, 0, 8)
"""Cell of individuals that are added to worlds; worlds are never drawn as images, so any cell will
do.
"""


@dataclass(frozen=True)
class Pair:
    """Premise, hypothesis, label and explanation."""

    premise: str
    hypothesis: str
    label: str
    explanation: str


def draw_nli_pairs(graph: Graph, rng: Random) -> Iterator[Pair]:
    """Yield pairs of caption and hypothesis, one for each label where the draws give one."""
    missing = list(LABELS)
    for _ in range(ATTEMPTS):
        premise = rng.choice(draw_captions(graph, rng))
        hypothesis = _draw_hypothesis(graph, missing[0], rng)
        if hypothesis == premise:
            continue
        # What the oracle decides counts, not the label that the hypothesis was drawn for.
        label = compute_label(premise, hypothesis, build_worlds(graph, hypothesis))
        if label in missing:
            missing.remove(label)
            yield Pair(
                premise, hypothesis, label, _render_explanation(hypothesis, label)
            )
        if not missing:
            return


def _draw_hypothesis(graph: Graph, target: str, rng: Random) -> str:
    """Draw a hypothesis that may have a label."""
    absent = Object(
        rng.choice(graph.list_absent_kinds()), (_SPARE,) * rng.choice((1, 1, 2, 3, 4))
    )
    if target == "neutral":
        return rng.choice(_draw_neutral_hypotheses(graph, absent, rng))
    if target == "contradiction":
        return rng.choice(_draw_contradictory_hypotheses(graph, rng))
    return rng.choice(_draw_entailed_hypotheses(graph, rng))


def _draw_contradictory_hypotheses(graph: Graph, rng: Random) -> list[str]:
    hypotheses = []
    for foil in draw_foils(graph, rng):
        # That there are absent things contradicts no caption; that there are none of those shown
        # does.
        if foil.piece != "existence" or " no " in foil.foil:
            hypotheses.append(foil.foil)
    elsewhere = rng.choice(exclude(read_places(), graph.place))
    hypotheses.append(render_sentence(render_main_clause(graph), PLACES[elsewhere][0]))
    return hypotheses


def _draw_neutral_hypotheses(graph: Graph, absent: Object, rng: Random) -> list[str]:
    # Whether there is something else, and what color things are that the premise does not say.
    hypotheses = [
        render_sentence(render_existence(absent), draw_place(graph, rng)),
        render_sentence(render_existence(absent)),
        render_sentence("there are no", inflect_noun(absent.kind, 2)),
    ]
    for entry in graph.objects:
        if entry.color:
            noun = inflect_noun(entry.kind, entry.count)
            hypotheses += [
                render_sentence("the", noun, get_be(entry), color)
                for color in ("red", "blue")
            ]
    return hypotheses


def _draw_entailed_hypotheses(graph: Graph, rng: Random) -> list[str]:
    entry = rng.choice(graph.objects)
    clause = render_main_clause(graph)
    hypotheses = [
        render_sentence(clause),
        render_sentence(clause, draw_place(graph, rng)),
        render_sentence(render_existence(entry)),
        rng.choice(draw_captions(graph, rng)),
    ]
    # `There is an animal.` of a dog.
    for category in read_scene_categories().values():
        if category.mass or entry.kind not in category.members:
            continue
        noun = category.plural
        if entry.count == 1:
            noun = add_indefinite_article(category.name)
        hypotheses.append(render_sentence("there", get_be(entry), noun))
    if entry.count > 1:
        plural = inflect_noun(entry.kind, 2)
        at_least = ""
        if entry.count > 2:
            at_least = f"at least {NUMBERS[entry.count - 1]}"
        hypotheses += [
            render_sentence("there are some", plural),
            render_sentence("there are", at_least, plural),
        ]
    return hypotheses


def _render_explanation(hypothesis: str, label: str) -> str:
    inner = hypothesis[0].lower() + hypothesis[1:-1]
    if label == "entailment":
        return f"The first sentence says as much: {inner}."
    if label == "contradiction":
        return f"It cannot be that {inner} if the first sentence is true."
    return f"The first sentence does not say whether {inner}."


def compute_label(premise: str, hypothesis: str, worlds: list[Graph]) -> str | None:
    """Return the label of a pair: whether the hypothesis is true in all, some or none of the
    premise's worlds.

    The premise's worlds are the worlds in which the premise is true.

    Returns:
        entailment, neutral or contradiction; None if the oracle leaves the hypothesis open in a
        world, or the premise is true in none.
    """
    # Two different verdicts are enough for `neutral`, so that further worlds need not be decided.
    verdicts: set[str] = set()
    for world in worlds:
        if decide_truth(world, premise) == "true":
            verdicts.add(decide_truth(world, hypothesis))
        if "unknown" in verdicts:
            return None
        if len(verdicts) == 2:
            return "neutral"
    if not verdicts:
        return None
    if "true" in verdicts:
        return "entailment"
    return "contradiction"


def build_worlds(graph: Graph, hypothesis: str) -> list[Graph]:
    """Build the scene and its variants in place, colors, bystanders, left and right, and action.

    Kinds that the hypothesis names and the scene lacks are added.
    """
    worlds = [graph, mirror_scene(graph)]
    worlds += [
        replace(graph, place=name) for name in exclude(read_places(), graph.place)
    ]
    worlds += _change_colors(graph)
    worlds += _change_bystanders(graph)
    worlds += _change_facts(graph)
    # A hypothesis about an absent kind is open: there may be such a thing outside the premise.
    named_objects = find_named_objects(hypothesis)
    for world in list(worlds):
        for entry in named_objects:
            if not world.count(entry.kind):
                worlds.append(replace(world, objects=(*world.objects, entry)))
    return worlds


def mirror_scene(graph: Graph) -> Graph:
    """Return the scene with left and right exchanged."""
    objects = []
    for entry in graph.objects:
        cells = tuple(replace(cell, left=SIZE - cell.right) for cell in entry.cells)
        objects.append(replace(entry, cells=cells))
    return replace(graph, objects=tuple(objects))


def _change_colors(graph: Graph) -> list[Graph]:
    """Return the scene with one object in another of its kind's colors."""
    worlds = []
    for entry in graph.objects:
        if not entry.color:
            continue
        for color in exclude(read_kinds()[entry.kind].colors, entry.color):
            worlds.append(graph.replace_object(entry, replace(entry, color=color)))
    return worlds


def _change_bystanders(graph: Graph) -> list[Graph]:
    """Return scenes that lack one of the bystanders, or that have one more individual of it."""
    worlds = []
    for entry in graph.list_bystanders():
        if len(graph.objects) > 1 and entry != find_focus(graph):
            worlds.append(_remove_object(graph, entry))
        if entry.count < MAX_INDIVIDUALS:
            worlds.append(
                graph.replace_object(
                    entry, replace(entry, cells=(*entry.cells, _SPARE))
                )
            )
    return worlds


def _remove_object(graph: Graph, removed: Object) -> Graph:
    """Return the scene without an object that is part of no relation and action."""
    remaining = exclude(graph.objects, removed)
    # Relations and the action name objects by their index, which changes behind the removed one.
    new_index = {
        old: remaining.index(entry)
        for old, entry in enumerate(graph.objects)
        if entry != removed
    }
    relations = []
    for relation in graph.relations:
        subject, landmark = new_index[relation.subject], new_index[relation.object]
        relations.append(replace(relation, subject=subject, object=landmark))
    action = graph.action
    if action is not None:
        theme = action.theme
        if theme is not None:
            theme = new_index[theme]
        action = replace(action, agent=new_index[action.agent], theme=theme)
    return replace(
        graph, objects=tuple(remaining), relations=tuple(relations), action=action
    )


def _change_relation(graph: Graph) -> list[Graph]:
    """Return the scene with each other preposition."""
    relation = graph.relations[0]
    worlds = []
    for preposition in exclude(PREPOSITIONS, relation.preposition):
        changed = replace(relation, preposition=preposition)
        worlds.append(replace(graph, relations=(changed,)))
    return worlds


def _change_facts(graph: Graph) -> list[Graph]:
    """Return the scene with another relation, another action, or no action."""
    if graph.relations:
        return _change_relation(graph)
    event = graph.event
    if graph.action is None or event is None:
        return []

    worlds = [replace(graph, action=None)]
    for verb in exclude(list_verbs_for(event.agent.kind, event.theme_kind), event.verb):
        if event.theme is None or verb.items == event.verb.items:
            worlds.append(replace(graph, action=replace(graph.action, verb=verb.name)))
    return worlds


def find_named_objects(text: str) -> list[Object]:
    """Return an object for each kind that a sentence names, in the stated number."""
    readings = read_sentence(tokenize(text.rstrip(".")))
    if not readings:
        return []
    objects: dict[str, Object] = {}
    for clause in readings[0]:
        for phrase in list_noun_phrases(clause):
            if not phrase.kinds:
                continue
            kind = min(phrase.kinds)  # the first in the alphabet stands for a category
            count = min(max(phrase.quantifier.minimum, 1), MAX_INDIVIDUALS)
            objects[kind] = Object(kind, (_SPARE,) * count)
    return list(objects.values())


def draw_inferences(graph: Graph, rng: Random) -> list[tuple[str, str, str]]:
    """Draw premises, hypotheses and labels, decided by the oracle over the worlds in which the
    premise is true.

    Half of the pairs have other quantifiers. Hypotheses include captions with an exchanged number,
    preposition or actants, and true captions that resemble their premise.
    """
    pairs = []
    for pair in list(draw_nli_pairs(graph, rng)):
        premise, hypothesis = pair.premise, pair.hypothesis
        if rng.random() < 0.5:
            premise = (
                exchange_quantifier(premise, rng.choice(graph.objects), rng) or premise
            )
            hypothesis = (
                exchange_quantifier(hypothesis, rng.choice(graph.objects), rng)
                or hypothesis
            )
        pairs.append((premise, hypothesis))

    # Captions of a changed scene as hypotheses: another number, agent and theme exchanged, another
    # preposition.
    renumbered = draw_number_pair(graph, rng)
    if renumbered:
        pairs += [renumbered, (renumbered[0], rng.choice(draw_captions(graph, rng)))]
    swapped = swap_actants(graph)
    if swapped:
        pairs.append(swapped)
    caption_pairs = [
        (rng.choice(draw_captions(graph, rng)), rng.choice(draw_captions(graph, rng)))
        for _ in range(2)
    ]
    for first, second in caption_pairs:
        exchanged = exchange_preposition(first, rng)
        if exchanged:
            pairs.append((rng.choice((first, second)), exchanged))

    inferences = []
    for premise, hypothesis in pairs:
        label = compute_label(premise, hypothesis, build_worlds(graph, hypothesis))
        if label:
            inferences.append((premise, hypothesis, label))
    return inferences
