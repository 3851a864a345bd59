"""Relative positions of two individuals of a scene, as far as the picture decides them."""

from typing import Literal

from waltz.scenes.language.words import SENSES
from waltz.scenes.world.graph import Graph
from waltz.scenes.world.lexicon import read_verbs

Truth = Literal["true", "false", "unknown"]

Individual = tuple[int, int]
"""Object's index in the graph and number in it; (-1, 0) is the place."""

PLACE: Individual = (-1, 0)

INVERSE = {
    "on": "bearing",
    "under": "over",
    "over": "under",
    "in": "around",
    "behind": "in front of",
    "in front of": "behind",
    "next to": "next to",
    "beside": "beside",
    "touching": "touching",
    "apart": "apart",
}
"""How the landmark is to the subject, by how the subject is to the landmark."""

TRUE_SENSES = {"bearing": "under", "beside": "next to"}
"""The sense that an arrangement makes true, where it is not called the same."""

FALSE_SENSES = {
    "on": {"under", "in", "behind", "in front of", "next to", "off", "far", "around"},
    "bearing": {"on", "in", "behind", "in front of", "next to", "over", "far", "around"},
    "under": {"on", "in", "over", "far", "around"},
    "over": {"on", "under", "in", "behind", "in front of", "around"},
    "in": {"under", "behind", "in front of", "next to", "over", "out of", "off", "far", "around"},
    "around": {"on", "in", "under", "over", "behind", "in front of", "far", "next to"},
    "behind": {"on", "under", "in", "in front of", "over", "far", "around"},
    "in front of": {"on", "under", "in", "behind", "over", "far", "around"},
    "next to": {"on", "under", "in", "behind", "in front of", "over", "far", "around"},
    "beside": {"on", "under", "in", "over", "far", "around"},
    "touching": {"far"},
    "apart": {"on", "under", "in", "around"},
}
"""Senses that each arrangement makes false; all others it leaves open."""

# `at` fits every place, because imSitu's sentences put it before all of them.
PLACE_TRUE = {
    "indoors": {"in", "at"},
    "street": {"on", "in", "at"},
    "grass": {"on", "in", "at"},
    "beach": {"on", "at"},
    "snow": {"in", "on", "at"},
    "night": {"at"},
}
PLACE_FALSE = {"under", "over", "behind", "in front of", "next to", "off", "out of", "far", "around", "without"}


def find_arrangement(graph: Graph, subject: Individual, landmark: Individual) -> str:
    """Return how the sprites of two individuals were arranged: a key of `FALSE`."""
    for relation in graph.relations:
        if (relation.subject, relation.object) == (subject[0], landmark[0]):
            return relation.preposition
        if (relation.object, relation.subject) == (subject[0], landmark[0]):
            return INVERSE[relation.preposition]
    action = graph.action
    if action is not None and action.theme is not None:
        arrangements = {"": "touching", "next to": "beside"}
        meant = read_verbs()[action.verb].relation
        if (action.agent, action.theme) == (subject[0], landmark[0]) and landmark[1] in graph.get_theme_indices(
            subject[1]
        ):
            return arrangements.get(meant, meant)
        if (action.theme, action.agent) == (subject[0], landmark[0]) and subject[1] in graph.get_theme_indices(
            landmark[1]
        ):
            return INVERSE[arrangements.get(meant, meant)]
    return "apart"


def decide_position(graph: Graph, subject: Individual, preposition: str, landmark: Individual) -> Truth:
    """Decide whether an individual is in, on, under … another one, or the place.

    Raises:
        KeyError: The preposition is none of `SENSES`.
    """
    sense = SENSES[preposition]
    if landmark == PLACE:
        return _decide_place(graph.place, sense)
    if subject == PLACE:
        return "true" if sense == "with" else "false" if sense == "without" else "unknown"
    if subject == landmark:
        return "false"
    if sense in ("left of", "right of"):
        return _decide_side(graph, subject, sense, landmark)
    if sense == "through":
        return "false"
    arrangement = find_arrangement(graph, subject, landmark)
    if sense in ("with", "without"):
        return "unknown" if arrangement == "apart" else "true" if sense == "with" else "false"
    if TRUE_SENSES.get(arrangement, arrangement) == sense or (sense == "near" and arrangement in ("next to", "beside")):
        return "true"
    return "false" if sense in FALSE_SENSES[arrangement] else "unknown"


def _decide_place(place: str, sense: str) -> Truth:
    if sense in PLACE_TRUE[place]:
        return "true"
    return "false" if sense in PLACE_FALSE or (place, sense) == ("indoors", "on") else "unknown"


def decide_absent_place(sense: str) -> Truth:
    """Decide whether anything is in, on, under … a place that the scene does not show."""
    return "unknown" if sense in ("off", "out of", "far", "without") else "false"


def _decide_side(graph: Graph, subject: Individual, sense: str, landmark: Individual) -> Truth:
    first, second = graph.objects[subject[0]].cells[subject[1]], graph.objects[landmark[0]].cells[landmark[1]]
    slack = min(first.size, second.size) // 6
    left, right = first.right <= second.left + slack, second.right <= first.left + slack
    if left == right:
        return "unknown"
    return "true" if left == (sense == "left of") else "false"
