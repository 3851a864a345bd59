"""SWiG and imSitu: verbs with frames of three annotators, and the space of verbs, roles and nouns."""

from collections.abc import Sequence
from random import Random
from typing import Any

from waltz.scenes.language.captions import contextual_descriptions, plain_descriptions
from waltz.scenes.world.graph import Graph, Object
from waltz.scenes.world.lexicon import categories, kinds, place_nouns, places, verbs
from waltz.scenes.writers import images

Json = dict[str, Any]

SPLITS = {"train": (0, 1), "dev": (2,), "test": (3, 4, 5, 6, 7, 8, 9)}
"""Last digits of the numbers of each split's images."""

NOWHERE = [-1, -1, -1, -1]
DIFFERS = 0.3
"""How often the second and third annotator use a wider noun than the first."""


def annotations(graphs: Sequence[Graph], seed: int, split: str, boxes: bool) -> Json:
    """The whole of `train.json`, `dev.json` or `test.json`; imSitu's has no boxes and no sizes."""
    entries: Json = {}
    for number, graph in enumerate(graphs, 1):
        if graph.action is None or number % 10 not in SPLITS[split]:
            continue
        verb = verbs()[graph.action.verb]
        rng = Random(f"swig:{seed}:{graph.id}")
        entry: Json = {"frames": [_frame(graph, rng, annotator) for annotator in range(3)], "verb": verb.name}
        if boxes:
            entry |= {"height": 256, "width": 256, "bb": _boxes(graph)}
        entries[images.swig(verb.name, number)] = entry
    return entries


def _fillers(graph: Graph) -> dict[str, Object]:
    assert graph.action is not None
    roles = verbs()[graph.action.verb].roles
    found = {roles[0]: graph.objects[graph.action.agent]}
    if graph.action.theme is not None:
        found[roles[1]] = graph.objects[graph.action.theme]
    return found


def _frame(graph: Graph, rng: Random, annotator: int) -> dict[str, str]:
    assert graph.action is not None
    frame = {}
    fillers = _fillers(graph)
    for role in verbs()[graph.action.verb].order:
        wider = annotator > 0 and rng.random() < DIFFERS
        if role in fillers:
            frame[role] = _synset(fillers[role].kind, wider, rng)
        elif role == "place":
            place = places()[graph.place]
            frame[role] = place.also if wider else place.synset
        else:
            frame[role] = ""
    return frame


def _synset(kind: str, wider: bool, rng: Random) -> str:
    above = [category.synset for category in categories().values() if kind in category.members]
    return rng.choice(above) if wider and above else kinds()[kind].synset


def _boxes(graph: Graph) -> dict[str, list[int]]:
    assert graph.action is not None
    fillers = _fillers(graph)
    boxes = {}
    for role in verbs()[graph.action.verb].order:
        if role in fillers:
            cells = fillers[role].cells
            corner = [min(cell.left for cell in cells), min(cell.top for cell in cells)]
            boxes[role] = [*corner, max(cell.right for cell in cells), max(cell.bottom for cell in cells)]
        else:
            boxes[role] = list(NOWHERE)
    return boxes


def space() -> Json:
    """The whole of `imsitu_space.json`: every noun and verb of the scenes."""
    nouns: Json = {}
    for kind in kinds().values():
        nouns[kind.synset] = {"gloss": list(kind.gloss), "def": kind.definition}
    for place in places().values():
        nouns[place.synset] = {"gloss": list(place.gloss), "def": place.definition}
    for category in categories().values():
        nouns[category.synset] = {"gloss": [category.name], "def": category.definition}
    for synset, entry in place_nouns().items():
        nouns[synset] = {"gloss": list(entry["gloss"]), "def": entry["definition"]}
    described = {
        verb.name: {
            "framenet": verb.base.capitalize(),
            "abstract": verb.abstract,
            "def": verb.definition,
            "order": list(verb.order),
            "roles": {role: {"framenet": role, "def": _role(verb.base, role)} for role in verb.order},
        }
        for verb in verbs().values()
    }
    return {"nouns": nouns, "verbs": described}


def _role(base: str, role: str) -> str:
    if role == "agent":
        return f"The entity doing the {base} action"
    return (
        f"The location where the {base} event is happening" if role == "place" else f"The {role} of the {base} action"
    )


def descriptions(graphs: Sequence[Graph], seed: int) -> Json:
    """For each image: its verb, the image without the action, descriptions that name the action and that avoid it."""
    entries: Json = {}
    for number, graph in enumerate(graphs, 1):
        if graph.action is not None:
            rng = Random(f"descriptions:{seed}:{graph.id}")
            entries[images.swig(graph.action.verb, number)] = {
                "verb": graph.action.verb,
                "still": images.still(graph.action.verb, number),
                "contextual": contextual_descriptions(graph, rng),
                "plain": plain_descriptions(graph, rng),
            }
    return entries
