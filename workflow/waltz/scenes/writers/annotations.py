"""Annotations of images: COCO captions, FOIL-it with foils of these captions, verbs and frames of SWiG and imSitu."""

import re
from collections.abc import Sequence
from random import Random
from typing import Any

from waltz.scenes.graph import Graph, Object
from waltz.scenes.language.captions import draw_captions, draw_contextual_descriptions, draw_plain_descriptions
from waltz.scenes.language.words import PRONOUNS, tokenize
from waltz.scenes.lexicon import read_categories, read_kinds, read_place_nouns, read_places, read_verbs
from waltz.scenes.oracle import decide_truth

Json = dict[str, Any]

LICENCE = {"id": 1, "name": "Attribution License", "url": "http://creativecommons.org/licenses/by/4.0/"}


SUFFIX = ".png"
"""Scenes are PNG files; all else in a name is as upstream, where images are JPEG."""


def name_coco_2017(number: int) -> str:
    """Return the name of an image of COCO 2017."""
    return f"{number:012d}{SUFFIX}"


def name_coco_2014(number: int, split: str) -> str:
    """Return the name of an image of COCO 2014; split is train2014 or val2014."""
    return f"COCO_{split}_{number:012d}{SUFFIX}"


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


def build_image_record(number: int, name: str) -> Json:
    """Build one entry of `images`."""
    return {
        "license": 1,
        "file_name": name,
        "coco_url": "",
        "height": 256,
        "width": 256,
        "date_captured": "2026-01-01 00:00:00",
        "flickr_url": "",
        "id": number,
    }


def compute_caption_id(number: int, caption_number: int) -> int:
    """Compute COCO's id of caption number 0 to 4 of an image."""
    return number * 10 + caption_number


def draw_five_captions(graph: Graph, seed: int) -> list[str]:
    """Draw the five captions of a scene in COCO's file, the same for every writer that needs them."""
    return draw_captions(graph, Random(f"coco:{seed}:{graph.id}"))


def build_captions(graphs: Sequence[Graph], seed: int, edition: str = "val2017") -> Json:
    """Build `captions_val2017.json` or `captions_val2014.json`."""
    names = {
        number: name_coco_2017(number) if edition == "val2017" else name_coco_2014(number, edition)
        for number in range(1, len(graphs) + 1)
    }
    return {
        "info": build_info(f"COCO captions {edition}"),
        "licenses": [LICENCE],
        "images": [build_image_record(number, name) for number, name in names.items()],
        "annotations": [
            {"image_id": number, "id": compute_caption_id(number, caption_number), "caption": caption}
            for number, graph in enumerate(graphs, 1)
            for caption_number, caption in enumerate(draw_five_captions(graph, seed))
        ],
    }


def build_foil_it(graphs: Sequence[Graph], seed: int) -> Json:
    """Build `foilv1.0_test_2017.json`: captions, and foils with one noun replaced.

    An entry's `id` is the id of its caption in `captions_val2014.json`.
    """
    annotations: list[Json] = []
    for number, graph in enumerate(graphs, 1):
        rng = Random(f"foilit:{seed}:{graph.id}")
        for caption_number, caption in enumerate(draw_five_captions(graph, seed)):
            draw = _draw_noun_foil(graph, caption, rng)
            if draw is None:
                continue
            foil, foil_word, target_word = draw
            base = {"image_id": number, "id": compute_caption_id(number, caption_number)}
            original = {"caption": caption, "foil_word": "ORIG", "target_word": "ORIG", "foil": False}
            replaced = {"caption": foil, "foil_word": foil_word, "target_word": target_word, "foil": True}
            for entry in (original, replaced):
                annotations.append({**base, **entry, "foil_id": len(annotations)})
    return {
        "info": build_info("FOIL-it 1.0"),
        "licenses": [LICENCE],
        "images": [
            build_image_record(number, name_coco_2014(number, "val2014")) for number in range(1, len(graphs) + 1)
        ],
        "annotations": annotations,
    }


def _draw_noun_foil(graph: Graph, caption: str, rng: Random) -> tuple[str, str, str] | None:
    """Draw a caption with one noun replaced by another of its group that the scene lacks; foil and target word."""
    words = set(tokenize(caption))
    for entry in rng.sample(graph.objects, len(graph.objects)):
        target = _inflect_like(entry.kind, entry)
        group = [kind.name for kind in read_kinds().values() if kind.group == read_kinds()[entry.kind].group]
        absent = [name for name in group if not graph.count(name)]
        if words & set(PRONOUNS):
            absent = [name for name in absent if read_kinds()[name].pronoun == read_kinds()[entry.kind].pronoun]
        if not absent or f" {target}" not in f" {caption.lower()}":
            continue
        new = rng.choice(absent)
        foil = replace_noun(caption, target, _inflect_like(new, entry))
        if foil != caption and decide_truth(graph, foil) == "false":
            return foil, _inflect_like(new, entry), target
    return None


def _inflect_like(kind: str, entry: Object) -> str:
    return read_kinds()[kind].name if entry.count == 1 else read_kinds()[kind].plural


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

NO_BOX = [-1, -1, -1, -1]
DISAGREEMENT = 0.3
"""How often the second and third annotator use a wider noun than the first."""


def name_swig(verb: str, number: int) -> str:
    """Return the name of an image of SWiG and imSitu."""
    return f"{verb}_{number}{SUFFIX}"


def name_still(verb: str, number: int) -> str:
    """Return the name of the image that shows the same things without the action."""
    return f"{verb}_{number}_still{SUFFIX}"


def build_swig(graphs: Sequence[Graph], seed: int, split: str, boxes: bool) -> Json:
    """Build `train.json`, `dev.json` or `test.json`; imSitu's has no boxes and no sizes."""
    entries: Json = {}
    for number, graph in enumerate(graphs, 1):
        if graph.action is None or number % 10 not in SWIG_SPLITS[split]:
            continue
        verb = read_verbs()[graph.action.verb]
        rng = Random(f"swig:{seed}:{graph.id}")
        entry: Json = {"frames": [_draw_verb_frame(graph, rng, annotator) for annotator in range(3)], "verb": verb.name}
        if boxes:
            entry |= {"height": 256, "width": 256, "bb": _compute_role_boxes(graph)}
        entries[name_swig(verb.name, number)] = entry
    return entries


def _find_fillers(graph: Graph) -> dict[str, Object]:
    assert graph.action is not None
    roles = read_verbs()[graph.action.verb].roles
    fillers = {roles[0]: graph.objects[graph.action.agent]}
    if graph.action.theme is not None:
        fillers[roles[1]] = graph.objects[graph.action.theme]
    return fillers


def _draw_verb_frame(graph: Graph, rng: Random, annotator: int) -> dict[str, str]:
    assert graph.action is not None
    frame = {}
    fillers = _find_fillers(graph)
    for role in read_verbs()[graph.action.verb].order:
        wider = annotator > 0 and rng.random() < DISAGREEMENT
        if role in fillers:
            frame[role] = _draw_synset(fillers[role].kind, wider, rng)
        elif role == "place":
            place = read_places()[graph.place]
            frame[role] = place.also if wider else place.synset
        else:
            frame[role] = ""
    return frame


def _draw_synset(kind: str, wider: bool, rng: Random) -> str:
    synsets = [category.synset for category in read_categories().values() if kind in category.members]
    return rng.choice(synsets) if wider and synsets else read_kinds()[kind].synset


def _compute_role_boxes(graph: Graph) -> dict[str, list[int]]:
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
