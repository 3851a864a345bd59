"""Annotations of images: COCO captions, FOIL-it with foils of these captions, verbs and frames of SWiG and imSitu.

Scenes are PNG files; all else in the name of an image is as upstream, where images are JPEG.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from waltz.scenes.graph import Graph, Object
from waltz.scenes.language.captions import (
    draw_captions,
    draw_contextual_descriptions,
    draw_plain_descriptions,
    inflect_noun,
)
from waltz.scenes.language.words import PRONOUNS, tokenize
from waltz.scenes.lexicon import (
    Kind,
    Place,
    Verb,
    read_categories,
    read_kinds,
    read_place_nouns,
    read_places,
    read_verbs,
)
from waltz.scenes.oracle import decide_truth

Json = dict[str, Any]


def name_coco_2017(number: int) -> str:
    """Return the name of an image of COCO 2017."""
    return f"{number:012d}.png"


def name_coco_2014(number: int, split: str) -> str:
    """Return the name of an image of COCO 2014; split is train2014 or val2014."""
    return f"COCO_{split}_{number:012d}.png"


def build_info(dataset: str) -> Json:
    """Build the `info` of a file of COCO's family."""
    return {
        "description": f"Scenes in the format of {dataset}",
        "url": "",
        "version": "1.0",
        "year": 2026,
        "contributor": "waltz",
        "date_created": "2026/01/01",
    }


def _build_coco(dataset: str, names: Sequence[str], annotations: list[Json]) -> Json:
    """Build a file of captions; image i has the number i + 1."""
    sizes = {"height": 256, "width": 256, "date_captured": "2026-01-01 00:00:00", "flickr_url": ""}
    return {
        "info": build_info(dataset),
        "licenses": [{"id": 1, "name": "Attribution License", "url": "http://creativecommons.org/licenses/by/4.0/"}],
        "images": [
            {"license": 1, "file_name": name, "coco_url": "", **sizes, "id": number}
            for number, name in enumerate(names, 1)
        ],
        "annotations": annotations,
    }


def draw_coco_captions(graphs: Sequence[Graph], seed: int) -> Iterator[tuple[int, int, str]]:
    """Yield the number of the image, COCO's id and the text of five captions of each scene."""
    for number, graph in enumerate(graphs, 1):
        for index, caption in enumerate(draw_captions(graph, Random(f"coco:{seed}:{graph.id}"))):
            yield number, number * 10 + index, caption


def build_captions(graphs: Sequence[Graph], seed: int, edition: str = "val2017") -> Json:
    """Build `captions_val2017.json`, or that of an edition of 2014."""
    numbers = range(1, len(graphs) + 1)
    names = [name_coco_2017(n) if edition == "val2017" else name_coco_2014(n, edition) for n in numbers]
    annotations = [
        {"image_id": number, "id": caption_id, "caption": caption}
        for number, caption_id, caption in draw_coco_captions(graphs, seed)
    ]
    return _build_coco(f"COCO captions {edition}", names, annotations)


def build_foil_it(graphs: Sequence[Graph], seed: int) -> Json:
    """Build `foilv1.0_test_2017.json`: captions, and foils with one noun replaced.

    An entry's `id` is the id of its caption in `captions_val2014.json`.
    """
    annotations: list[Json] = []
    rngs = [Random(f"foilit:{seed}:{graph.id}") for graph in graphs]
    for number, caption_id, caption in draw_coco_captions(graphs, seed):
        foil = _draw_noun_foil(graphs[number - 1], caption, rngs[number - 1])
        if foil is not None:
            original = {"caption": caption, "foil_word": "ORIG", "target_word": "ORIG", "foil": False}
            for entry in (original, foil):
                annotations.append({"image_id": number, "id": caption_id, **entry, "foil_id": len(annotations)})
    names = [name_coco_2014(number, "val2014") for number in range(1, len(graphs) + 1)]
    return _build_coco("FOIL-it 1.0", names, annotations)


def _draw_noun_foil(graph: Graph, caption: str, rng: Random) -> Json | None:
    """Draw a caption with one noun replaced by another of its group that the scene lacks."""
    has_pronoun = not PRONOUNS.keys().isdisjoint(tokenize(caption))
    for entry in rng.sample(graph.objects, len(graph.objects)):
        kind, target = read_kinds()[entry.kind], inflect_noun(entry.kind, entry.count)
        kinds = [read_kinds()[name] for name in graph.list_absent_kinds() if read_kinds()[name].group == kind.group]
        names = [absent.name for absent in kinds if not has_pronoun or absent.pronoun == kind.pronoun]
        if not names or f" {target}" not in f" {caption.lower()}":
            continue
        foil_word = inflect_noun(rng.choice(names), entry.count)
        foil = replace_noun(caption, target, foil_word)
        if foil != caption and decide_truth(graph, foil) == "false":
            return {"caption": foil, "foil_word": foil_word, "target_word": target, "foil": True}
    return None


def replace_noun(text: str, old: str, new: str) -> str:
    """Return a text with every occurrence of a noun replaced, and a preceding `a` or `an` corrected."""
    article = "an" if new[0] in "aeiou" else "a"
    replacements = {
        f"an? {re.escape(old)}": f"{article} {new}",
        f"An? {re.escape(old)}": f"{article.capitalize()} {new}",
        re.escape(old.capitalize()): new.capitalize(),
        re.escape(old): new,
    }
    for pattern, replacement in replacements.items():
        text = re.sub(rf"(?<![\w-]){pattern}(?![\w-])", replacement, text)
    return text


SWIG_SPLITS = {"train": (0, 1), "dev": (2,), "test": (3, 4, 5, 6, 7, 8, 9)}
"""Last digits of the numbers of each split's images."""

DISAGREEMENT = 0.3
"""How often the second and third annotator use a wider noun than the first."""


def name_swig(verb: str, number: int) -> str:
    """Return the name of an image of SWiG and imSitu."""
    return f"{verb}_{number}.png"


def name_still(verb: str, number: int) -> str:
    """Return the name of the image that shows the same things without the action."""
    return f"{verb}_{number}_still.png"


def build_swig(graphs: Sequence[Graph], seed: int, split: str, boxes: bool) -> Json:
    """Build `train.json`, `dev.json` or `test.json`; imSitu's has no boxes and no sizes."""
    entries: Json = {}
    for number, graph in enumerate(graphs, 1):
        if graph.verb is None or number % 10 not in SWIG_SPLITS[split]:
            continue
        rng = Random(f"swig:{seed}:{graph.id}")
        frames = [_draw_frame(graph, graph.verb, rng, annotator) for annotator in range(3)]
        entry: Json = {"frames": frames, "verb": graph.verb.name}
        if boxes:
            entry |= {"height": 256, "width": 256, "bb": _compute_boxes(graph, graph.verb)}
        entries[name_swig(graph.verb.name, number)] = entry
    return entries


def _find_fillers(graph: Graph, verb: Verb) -> dict[str, Object]:
    """Return the objects that fill the verb's roles."""
    return {role: entry for role, entry in zip(verb.roles, (graph.agent, graph.theme), strict=False) if entry}


def _draw_frame(graph: Graph, verb: Verb, rng: Random, annotator: int) -> dict[str, str]:
    frame = dict.fromkeys(verb.order, "")
    fillers = _find_fillers(graph, verb)
    place = read_places()[graph.place]
    for role in verb.order:
        wider = annotator > 0 and rng.random() < DISAGREEMENT
        if role in fillers:
            kind = fillers[role].kind
            synsets = [category.synset for category in read_categories().values() if kind in category.members]
            frame[role] = rng.choice(synsets) if wider and synsets else read_kinds()[kind].synset
        elif role == "place":
            frame[role] = place.also if wider else place.synset
    return frame


def _compute_boxes(graph: Graph, verb: Verb) -> dict[str, list[int]]:
    boxes = {role: [-1, -1, -1, -1] for role in verb.order}
    for role, entry in _find_fillers(graph, verb).items():
        left, top = min(cell.left for cell in entry.cells), min(cell.top for cell in entry.cells)
        boxes[role] = [left, top, max(cell.right for cell in entry.cells), max(cell.bottom for cell in entry.cells)]
    return boxes


def build_verb_space() -> Json:
    """Build `imsitu_space.json`: every noun and verb of the scenes."""
    nouns: Json = {}
    described: list[Kind | Place] = [*read_kinds().values(), *read_places().values()]
    for entry in described:
        nouns[entry.synset] = {"gloss": list(entry.gloss), "def": entry.definition}
    for category in read_categories().values():
        nouns[category.synset] = {"gloss": [category.name], "def": category.definition}
    for synset, noun in read_place_nouns().items():
        nouns[synset] = {"gloss": list(noun["gloss"]), "def": noun["definition"]}
    verbs = {
        verb.name: {
            "framenet": verb.base.capitalize(),
            "abstract": verb.abstract,
            "def": verb.definition,
            "order": list(verb.order),
            "roles": {role: {"framenet": role, "def": _describe_role(verb.base, role)} for role in verb.order},
        }
        for verb in read_verbs().values()
    }
    return {"nouns": nouns, "verbs": verbs}


def _describe_role(base: str, role: str) -> str:
    if role == "agent":
        return f"The entity doing the {base} action"
    if role == "place":
        return f"The location where the {base} event is happening"
    return f"The {role} of the {base} action"


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
