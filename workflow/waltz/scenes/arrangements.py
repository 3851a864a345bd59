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

TRUE_SENSES = {
    "on": {"on", "with"}, "bearing": {"under", "with"}, "under": {"under", "with"}, "over": {"over", "with"},
    "in": {"in", "with"}, "around": {"around", "with"}, "behind": {"behind", "with"},
    "in front of": {"in front of", "with"}, "next to": {"next to", "near", "with"},
    "beside": {"next to", "near", "with"}, "touching": {"with"}, "apart": set(),
}  # fmt: skip
"""Senses that each arrangement makes true."""

FALSE_SENSES = {
    "on": {"under", "in", "behind", "in front of", "next to", "off", "far", "around", "without"},
    "bearing": {"on", "in", "behind", "in front of", "next to", "over", "far", "around", "without"},
    "under": {"on", "in", "over", "far", "around", "without"},
    "over": {"on", "under", "in", "behind", "in front of", "around", "without"},
    "in": {"under", "behind", "in front of", "next to", "over", "out of", "off", "far", "around", "without"},
    "around": {"on", "in", "under", "over", "behind", "in front of", "far", "next to", "without"},
    "behind": {"on", "under", "in", "in front of", "over", "far", "around", "without"},
    "in front of": {"on", "under", "in", "behind", "over", "far", "around", "without"},
    "next to": {"on", "under", "in", "behind", "in front of", "over", "far", "around", "without"},
    "beside": {"on", "under", "in", "over", "far", "around", "without"},
    "touching": {"far", "without"},
    "apart": {"on", "under", "in", "around"},
}  # fmt: skip
"""Senses that each arrangement makes false; it leaves all further senses open."""

PLACE_TRUE = {
    "indoors": {"in", "at"}, "street": {"on", "in", "at"}, "grass": {"on", "in", "at"}, "beach": {"on", "at"},
    "snow": {"in", "on", "at"}, "night": {"at"},
}  # fmt: skip
"""Senses that fit each place; `at` fits every one, because imSitu's sentences put it before all of
them.
"""
FALSE_OF_PLACES = {
    "under", "over", "behind", "in front of", "next to", "off", "out of", "far", "around", "without",
}  # fmt: skip
PLACE_FALSE = dict.fromkeys(PLACE_TRUE, FALSE_OF_PLACES) | {
    "indoors": FALSE_OF_PLACES | {"on"}
}
"""Senses that are false if the landmark is the place of the scene, by place: nothing is on a room."""


def decide_position(
    graph: Graph, subject: Individual, sense: str, landmark: Individual
) -> TruthValue:
    """Return whether an individual is in, on, under … another individual or the place; None if that
    is open.
    """
    if landmark == PLACE:
        return _decide_sense(sense, PLACE_TRUE[graph.place], PLACE_FALSE[graph.place])
    if subject == PLACE:
        # The place has everything in it, and nothing else can be said of it.
        return _decide_sense(sense, {"with"}, {"without"})
    if subject == landmark or sense == "through":
        return False
    if sense in ("left of", "right of"):
        return _decide_direction(graph, subject, sense, landmark)
    arrangement = _find_arrangement(graph, subject, landmark)
    return _decide_sense(sense, TRUE_SENSES[arrangement], FALSE_SENSES[arrangement])


def _decide_sense(
    sense: str, true_senses: set[str], false_senses: set[str]
) -> TruthValue:
    if sense in true_senses:
        return True
    if sense in false_senses:
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
    if graph.event is None:
        return "apart"
    # Agent and theme touch; where they are only said to be next to each other, others may stand
    # between them.
    position = graph.event.verb.relation
    arrangement = {"": "touching", "next to": "beside"}.get(position, position)
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
