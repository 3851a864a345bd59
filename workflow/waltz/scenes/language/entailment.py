"""Pairs of premise and hypothesis, labelled by the oracle over worlds in which the premise is true."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from waltz.scenes.graph import PREPOSITIONS, SIZE, Cell, Graph, Object
from waltz.scenes.language.captions import (
    PLACES,
    add_article,
    draw_captions,
    draw_place,
    find_focus,
    get_be,
    inflect_noun,
    render_existence,
    render_main_clause,
    render_sentence,
)
from waltz.scenes.language.foils import draw_foils
from waltz.scenes.language.grammar import list_noun_phrases, read_sentence
from waltz.scenes.language.words import tokenize
from waltz.scenes.lexicon import NUMBERS, read_categories, read_kinds, read_places, read_verbs
from waltz.scenes.oracle import decide_truth

LABELS = ("entailment", "neutral", "contradiction")


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
    for _ in range(36):
        premise = rng.choice(draw_captions(graph, rng))
        hypothesis = _draw_hypothesis(graph, missing[0], rng)
        label = compute_label(premise, hypothesis, build_worlds(graph, hypothesis)) if hypothesis != premise else None
        if label in missing:
            missing.remove(label)
            yield Pair(premise, hypothesis, label, _render_explanation(hypothesis, label))
        if not missing:
            return


def _draw_hypothesis(graph: Graph, target: str, rng: Random) -> str:
    """Draw a hypothesis that may have a label."""
    absent = Object(rng.choice(graph.list_absent_kinds()), (_SPARE,) * rng.choice((1, 1, 2, 3, 4)))
    if target == "neutral":
        return rng.choice(_draw_neutral_hypotheses(graph, absent, rng))
    if target == "contradiction":
        options = [foil.foil for foil in draw_foils(graph, rng) if foil.piece != "existence" or " no " in foil.foil]
        elsewhere = rng.choice([name for name in read_places() if name != graph.place])
        return rng.choice([*options, render_sentence(render_main_clause(graph), PLACES[elsewhere][0])])
    return rng.choice(_draw_entailed_hypotheses(graph, rng))


def _draw_neutral_hypotheses(graph: Graph, absent: Object, rng: Random) -> list[str]:
    return [
        render_sentence(render_existence(absent), draw_place(graph, rng)),
        render_sentence(render_existence(absent)),
        render_sentence("there are no", inflect_noun(absent.kind, 2)),
        *(
            render_sentence("the", inflect_noun(entry.kind, entry.count), get_be(entry), colour)
            for entry in graph.objects
            if entry.colour
            for colour in ("red", "blue")
        ),
    ]


def _draw_entailed_hypotheses(graph: Graph, rng: Random) -> list[str]:
    entry = rng.choice(graph.objects)
    clause = render_main_clause(graph)
    hypotheses = [
        render_sentence(clause),
        render_sentence(clause, draw_place(graph, rng)),
        render_sentence(render_existence(entry)),
        rng.choice(draw_captions(graph, rng)),
    ]
    for category in read_categories().values():
        if entry.kind in category.members and not category.mass:
            noun = add_article(category.name) if entry.count == 1 else category.plural
            hypotheses.append(render_sentence("there", get_be(entry), noun))
    if entry.count > 1:
        plural = inflect_noun(entry.kind, 2)
        least = f"at least {NUMBERS[entry.count - 1]}" if entry.count > 2 else ""
        hypotheses += [render_sentence("there are some", plural), render_sentence("there are", least, plural)]
    return hypotheses


def _render_explanation(hypothesis: str, label: str) -> str:
    inner = hypothesis[0].lower() + hypothesis[1:-1]
    if label == "entailment":
        return f"The first sentence says as much: {inner}."
    if label == "contradiction":
        return f"It cannot be that {inner} if the first sentence is true."
    return f"The first sentence does not say whether {inner}."


def compute_label(premise: str, hypothesis: str, worlds: list[Graph]) -> str | None:
    """Return entailment, neutral or contradiction: the hypothesis is true in all, some or none of the worlds in which
    the premise is; None if the oracle leaves one open."""
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
    return "entailment" if "true" in verdicts else "contradiction"


def build_worlds(graph: Graph, hypothesis: str) -> list[Graph]:
    """Build the scene and its variants in place, colours, bystanders, sides and action.

    Kinds that the hypothesis names and the scene lacks are added.
    """
    worlds = [graph, mirror_scene(graph)]
    worlds += [replace(graph, place=name) for name in read_places() if name != graph.place]
    for entry in graph.objects:
        colours = read_kinds()[entry.kind].colours if entry.colour else ()
        repainted = [replace(entry, colour=colour) for colour in colours if colour != entry.colour]
        worlds += [graph.replace_object(entry, new) for new in repainted]
    for entry in graph.list_bystanders():
        if len(graph.objects) > 1 and entry != find_focus(graph):
            worlds.append(_remove_object(graph, entry))
        if entry.count < 9:
            worlds.append(graph.replace_object(entry, replace(entry, cells=(*entry.cells, _SPARE))))
    worlds += _change_facts(graph)
    missing_objects = find_named_objects(hypothesis)
    for world in list(worlds):
        worlds += [
            replace(world, objects=(*world.objects, entry)) for entry in missing_objects if not world.count(entry.kind)
        ]
    return worlds


_SPARE = Cell(0, 0, 8)


def mirror_scene(graph: Graph) -> Graph:
    """Return the scene with left and right exchanged."""
    objects = tuple(
        replace(entry, cells=tuple(replace(cell, left=SIZE - cell.right) for cell in entry.cells))
        for entry in graph.objects
    )
    return replace(graph, objects=objects)


def _remove_object(graph: Graph, removed: Object) -> Graph:
    remaining = [entry for entry in graph.objects if entry != removed]
    index = {old: remaining.index(entry) for old, entry in enumerate(graph.objects) if entry != removed}
    relations = tuple(
        replace(relation, subject=index[relation.subject], object=index[relation.object])
        for relation in graph.relations
    )
    action = graph.action
    if action is not None:
        action = replace(action, agent=index[action.agent], theme=None if action.theme is None else index[action.theme])
    return replace(graph, objects=tuple(remaining), relations=relations, action=action)


def _change_facts(graph: Graph) -> list[Graph]:
    """Return the scene with another relation, another action, or no action."""
    if graph.relations:
        relation = graph.relations[0]
        others = [preposition for preposition in PREPOSITIONS if preposition != relation.preposition]
        return [replace(graph, relations=(replace(relation, preposition=other),)) for other in others]
    if graph.action is None or graph.verb is None or graph.agent is None:
        return []
    theme = graph.theme.kind if graph.theme else None
    verbs = [
        verb.name
        for verb in read_verbs().values()
        if verb != graph.verb
        and verb.takes(graph.agent.kind, theme)
        and (theme is None or verb.items == graph.verb.items)
    ]
    return [replace(graph, action=None), *(replace(graph, action=replace(graph.action, verb=verb)) for verb in verbs)]


def find_named_objects(text: str) -> list[Object]:
    """Return the kinds that a sentence names, in the stated number."""
    objects: dict[str, Object] = {}
    for clause in next(iter(read_sentence(tokenize(text.rstrip(".")))), ()):
        for phrase in list_noun_phrases(clause):
            count = min(max(phrase.quantifier.least, 1), 9)
            for kind in sorted(phrase.kinds)[:1]:
                objects[kind] = Object(kind, (_SPARE,) * count)
    return list(objects.values())
