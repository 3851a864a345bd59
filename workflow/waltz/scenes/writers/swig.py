"""SWiG and imSitu: verbs with frames of three annotators, and the space of verbs, roles and nouns."""

from collections.abc import Sequence
from random import Random

from waltz.scenes.language.captions import draw_contextual_descriptions, draw_plain_descriptions
from waltz.scenes.world.graph import Graph, Object
from waltz.scenes.world.lexicon import read_categories, read_kinds, read_place_nouns, read_places, read_verbs
from waltz.scenes.writers.coco import SUFFIX, Json

SPLITS = {"train": (0, 1), "dev": (2,), "test": (3, 4, 5, 6, 7, 8, 9)}
"""Last digits of the numbers of each split's images."""

NO_BOX = [-1, -1, -1, -1]
DISAGREEMENT = 0.3
"""How often the second and third annotator use a wider noun than the first."""


def name_swig(verb: str, number: int) -> str:
    """Return the name of an image of SWiG and imSitu."""
    return f"{verb}_{number}{SUFFIX}"


def name_still(verb: str, number: int) -> str:
    """Return the name of the image that shows the same things without the action."""
    return f"{verb}_{number}_still{SUFFIX}"


def build_annotations(graphs: Sequence[Graph], seed: int, split: str, boxes: bool) -> Json:
    """Build `train.json`, `dev.json` or `test.json`; imSitu's has no boxes and no sizes."""
    entries: Json = {}
    for number, graph in enumerate(graphs, 1):
        if graph.action is None or number % 10 not in SPLITS[split]:
            continue
        verb = read_verbs()[graph.action.verb]
        rng = Random(f"swig:{seed}:{graph.id}")
        entry: Json = {"frames": [_draw_frame(graph, rng, annotator) for annotator in range(3)], "verb": verb.name}
        if boxes:
            entry |= {"height": 256, "width": 256, "bb": _compute_boxes(graph)}
        entries[name_swig(verb.name, number)] = entry
    return entries


def _find_fillers(graph: Graph) -> dict[str, Object]:
    assert graph.action is not None
    roles = read_verbs()[graph.action.verb].roles
    fillers = {roles[0]: graph.objects[graph.action.agent]}
    if graph.action.theme is not None:
        fillers[roles[1]] = graph.objects[graph.action.theme]
    return fillers


def _draw_frame(graph: Graph, rng: Random, annotator: int) -> dict[str, str]:
    assert graph.action is not None
    frame = {}
    fillers = _find_fillers(graph)
    for role in read_verbs()[graph.action.verb].order:
        wider = annotator > 0 and rng.random() < DISAGREEMENT
        if role in fillers:
            frame[role] = _choose_synset(fillers[role].kind, wider, rng)
        elif role == "place":
            place = read_places()[graph.place]
            frame[role] = place.also if wider else place.synset
        else:
            frame[role] = ""
    return frame


def _choose_synset(kind: str, wider: bool, rng: Random) -> str:
    synsets = [category.synset for category in read_categories().values() if kind in category.members]
    return rng.choice(synsets) if wider and synsets else read_kinds()[kind].synset


def _compute_boxes(graph: Graph) -> dict[str, list[int]]:
    assert graph.action is not None
    fillers = _find_fillers(graph)
    boxes = {}
    for role in read_verbs()[graph.action.verb].order:
        if role in fillers:
            cells = fillers[role].cells
            corner = [min(cell.left for cell in cells), min(cell.top for cell in cells)]
            boxes[role] = [*corner, max(cell.right for cell in cells), max(cell.bottom for cell in cells)]
        else:
            boxes[role] = list(NO_BOX)
    return boxes


def build_verb_space() -> Json:
    """Build `imsitu_space.json`: every noun and verb of the scenes."""
    nouns: Json = {}
    for kind in read_kinds().values():
        nouns[kind.synset] = {"gloss": list(kind.gloss), "def": kind.definition}
    for place in read_places().values():
        nouns[place.synset] = {"gloss": list(place.gloss), "def": place.definition}
    for category in read_categories().values():
        nouns[category.synset] = {"gloss": [category.name], "def": category.definition}
    for synset, entry in read_place_nouns().items():
        nouns[synset] = {"gloss": list(entry["gloss"]), "def": entry["definition"]}
    described = {
        verb.name: {
            "framenet": verb.base.capitalize(),
            "abstract": verb.abstract,
            "def": verb.definition,
            "order": list(verb.order),
            "roles": {role: {"framenet": role, "def": _describe_role(verb.base, role)} for role in verb.order},
        }
        for verb in read_verbs().values()
    }
    return {"nouns": nouns, "verbs": described}


def _describe_role(base: str, role: str) -> str:
    if role == "agent":
        return f"The entity doing the {base} action"
    return (
        f"The location where the {base} event is happening" if role == "place" else f"The {role} of the {base} action"
    )


def build_descriptions(graphs: Sequence[Graph], seed: int) -> Json:
    """Build verb, image without the action, and descriptions with and without the verb, for each image."""
    entries: Json = {}
    for number, graph in enumerate(graphs, 1):
        if graph.action is not None:
            rng = Random(f"descriptions:{seed}:{graph.id}")
            entries[name_swig(graph.action.verb, number)] = {
                "verb": graph.action.verb,
                "still": name_still(graph.action.verb, number),
                "contextual": draw_contextual_descriptions(graph, rng),
                "plain": draw_plain_descriptions(graph, rng),
            }
    return entries
