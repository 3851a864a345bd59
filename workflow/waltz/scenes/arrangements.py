"""Find the arrangement of two individuals' sprites, and the prepositions that it makes true or
false.
"""

from waltz.scenes.graph import Graph
from waltz.scenes.three_valued import TruthValue

Individual = tuple[int, int]
"""Index of an object in the graph and number of the individual in the object; (-1, 0) is the place.
"""
PLACE: Individual = (-1, 0)

INVERSE = {
    "on": "bearing", "under": "over", "over": "under", "in": "around", "behind": "in front of",
    "in front of": "behind", "next to": "next to", "beside": "beside", "touching": "touching", "apart": "apart",
}  # fmt: skip
"""Position of the landmark relative to the subject, by the position of the subject relative to the
landmark.
"""

TRUE_SENSES = {"bearing": "under", "beside": "next to"}
"""Sense that an arrangement makes true, for arrangements whose name differs from this sense."""

FALSE_SENSES = {
    "on": {"under", "in", "behind", "in front of", "next to", "off", "far", "around"},
    "bearing": {
        "on",
        "in",
        "behind",
        "in front of",
        "next to",
        "over",
        "far",
        "around",
    },
    "under": {"on", "in", "over", "far", "around"},
    "over": {"on", "under", "in", "behind", "in front of", "around"},
    "in": {
        "under",
        "behind",
        "in front of",
        "next to",
        "over",
        "out of",
        "off",
        "far",
        "around",
    },
    "around": {"on", "in", "under", "over", "behind", "in front of", "far", "next to"},
    "behind": {"on", "under", "in", "in front of", "over", "far", "around"},
    "in front of": {"on", "under", "in", "behind", "over", "far", "around"},
    "next to": {"on", "under", "in", "behind", "in front of", "over", "far", "around"},
    "beside": {"on", "under", "in", "over", "far", "around"},
    "touching": {"far"},
    "apart": {"on", "under", "in", "around"},
}
"""Senses that each arrangement makes false; it leaves all other senses open."""

PLACE_TRUE = {
    "indoors": {"in", "at"},
    "street": {"on", "in", "at"},
    "grass": {"on", "in", "at"},
    "beach": {"on", "at"},
    "snow": {"in", "on", "at"},
    "night": {"at"},
}
"""Senses that fit each place; `at` fits every one, because imSitu's sentences put it before all of
them.
"""
PLACE_FALSE = {
    "under",
    "over",
    "behind",
    "in front of",
    "next to",
    "off",
    "out of",
    "far",
    "around",
    "without",
}
"""Senses that are always false if the landmark is this place."""


def decide_position(
    graph: Graph, subject: Individual, sense: str, landmark: Individual
) -> TruthValue:
    """Return whether an individual is in, on, under … another individual or the place; None if that
    is open.
    """
    if landmark == PLACE:
        return _decide_position_at_place(graph.place, sense)
    if subject == PLACE:
        # The place has everything in it, and nothing else can be said of it.
        return {"with": True, "without": False}.get(sense)
    if subject == landmark or sense == "through":
        return False
    if sense in ("left of", "right of"):
        return _decide_direction(graph, subject, sense, landmark)

    arrangement = _find_arrangement(graph, subject, landmark)
    if sense in ("with", "without"):
        if arrangement == "apart":
            return None
        return sense == "with"
    # A word for the arrangement itself is true, a word that rules it out false, any other one open.
    if TRUE_SENSES.get(arrangement, arrangement) == sense:
        return True
    if sense == "near" and arrangement in ("next to", "beside"):
        return True
    if sense in FALSE_SENSES[arrangement]:
        return False
    return None


def _decide_position_at_place(place_name: str, sense: str) -> TruthValue:
    if sense in PLACE_TRUE[place_name]:
        return True
    is_on_a_room = (place_name, sense) == ("indoors", "on")
    if sense in PLACE_FALSE or is_on_a_room:
        return False
    return None


def _decide_direction(
    graph: Graph, subject: Individual, sense: str, landmark: Individual
) -> TruthValue:
    """Return whether `left of` or `right of` is true; None if sprites overlap by over a sixth of
    the smaller one.
    """
    first = graph.objects[subject[0]].cells[subject[1]]
    second = graph.objects[landmark[0]].cells[landmark[1]]
    slack = min(first.size, second.size) // 6
    is_left = first.right <= second.left + slack
    is_right = second.right <= first.left + slack
    if is_left == is_right:
        return None
    return is_left if sense == "left of" else is_right


def _find_arrangement(graph: Graph, subject: Individual, landmark: Individual) -> str:
    """Return how the sprites of two individuals were arranged: a key of `FALSE_SENSES`."""
    # A relation that was meant is said of all individuals of both objects.
    for relation in graph.relations:
        if (relation.subject, relation.object) == (subject[0], landmark[0]):
            return relation.preposition
        if (relation.object, relation.subject) == (subject[0], landmark[0]):
            return INVERSE[relation.preposition]
    if graph.verb is not None:
        # Agent and theme touch; where they are only said to be next to each other, others may stand
        # between them.
        arrangement = {"": "touching", "next to": "beside"}.get(
            graph.verb.relation, graph.verb.relation
        )
        if acts_on(graph, subject, landmark):
            return arrangement
        if acts_on(graph, landmark, subject):
            return INVERSE[arrangement]
    return "apart"


def acts_on(graph: Graph, agent: Individual, theme: Individual) -> bool:
    """Return True if this agent acts on this theme in the scene: the theme belongs to the agent's
    share.
    """
    action = graph.action
    if action is None or (agent[0], theme[0]) != (action.agent, action.theme):
        return False
    return theme[1] in graph.get_theme_indices(agent[1])
