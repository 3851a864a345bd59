"""Annotations of images: COCO captions, FOIL-it with foils of these captions, verbs and frames of
SWiG and imSitu.

Scenes are PNG files; the rest of an image's name is as upstream, where images are JPEG.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from waltz.scenes.graph import SIZE, Event, Graph, Object
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
    read_kinds,
    read_place_nouns,
    read_places,
    read_scene_categories,
    read_scene_verbs,
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
    sizes = {
        "height": SIZE,
        "width": SIZE,
        "date_captured": "2026-01-01 00:00:00",
        "flickr_url": "",
    }
    return {
        "info": build_info(dataset),
        "licenses": [
            {
                "id": 1,
                "name": "Attribution License",
                "url": "http://creativecommons.org/licenses/by/4.0/",
            }
        ],
        "images": [
            {"license": 1, "file_name": name, "coco_url": "", **sizes, "id": number}
            for number, name in enumerate(names, 1)
        ],
        "annotations": annotations,
    }


def draw_coco_captions(
    graphs: Sequence[Graph], seed: int
) -> Iterator[tuple[int, int, str]]:
    """Yield the number of the image, COCO's id and the text of five captions of each scene."""
    for number, graph in enumerate(graphs, 1):
        for index, caption in enumerate(
            draw_captions(graph, Random(f"coco:{seed}:{graph.id}"))
        ):
            yield number, number * 10 + index, caption


def build_captions(
    graphs: Sequence[Graph], seed: int, edition: str = "val2017"
) -> Json:
    """Build `captions_val2017.json`, or the file of an edition of 2014."""
    names = []
    for number in range(1, len(graphs) + 1):
        if edition == "val2017":
            names.append(name_coco_2017(number))
        else:
            names.append(name_coco_2014(number, edition))
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
    generators = [Random(f"foilit:{seed}:{graph.id}") for graph in graphs]
    for number, caption_id, caption in draw_coco_captions(graphs, seed):
        foil = _draw_noun_foil(graphs[number - 1], caption, generators[number - 1])
        if foil is None:
            continue
        # As in the released file, the caption and its foil are two entries, one after the other.
        original = {
            "caption": caption,
            "foil_word": "ORIG",
            "target_word": "ORIG",
            "foil": False,
        }
        for entry in (original, foil):
            annotations.append(
                {
                    "image_id": number,
                    "id": caption_id,
                    **entry,
                    "foil_id": len(annotations),
                }
            )
    names = [name_coco_2014(number, "val2014") for number in range(1, len(graphs) + 1)]
    return _build_coco("FOIL-it 1.0", names, annotations)


def _draw_noun_foil(graph: Graph, caption: str, rng: Random) -> Json | None:
    """Draw a caption with one noun replaced by another of its group that the scene lacks; None if
    no noun fits.
    """
    # A caption with `he` needs another kind that `he` can stand for.
    has_pronoun = not PRONOUNS.keys().isdisjoint(tokenize(caption))
    for entry in rng.sample(graph.objects, len(graph.objects)):
        target = inflect_noun(entry.kind, entry.count)
        names = _list_replacements(graph, entry, has_pronoun)
        if not names or f" {target}" not in f" {caption.lower()}":
            continue
        foil_word = inflect_noun(rng.choice(names), entry.count)
        foil = replace_noun(caption, target, foil_word)
        if foil != caption and decide_truth(graph, foil) == "false":
            return {
                "caption": foil,
                "foil_word": foil_word,
                "target_word": target,
                "foil": True,
            }
    return None


def _list_replacements(graph: Graph, entry: Object, same_pronoun: bool) -> list[str]:
    """Return the kinds of an object's group that the scene lacks, all or those with the same
    pronoun.
    """
    kind = read_kinds()[entry.kind]
    names = graph.list_absent_kinds(kind.group)
    if not same_pronoun:
        return names
    return [name for name in names if read_kinds()[name].pronoun == kind.pronoun]


def replace_noun(text: str, old: str, new: str) -> str:
    """Return a text with every occurrence of a noun replaced, and a preceding `a` or `an`
    corrected.
    """
    article = "an" if new[0] in "aeiou" else "a"
    # With an article inside a sentence and at its start, and without one at its start and inside.
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
"""Share of the roles in which the second and third annotator use a wider noun than the first."""


def name_swig(verb: str, number: int) -> str:
    """Return the name of an image of SWiG and imSitu."""
    return f"{verb}_{number}.png"


def name_still(verb: str, number: int) -> str:
    """Return the name of the image that shows the same scene without its action."""
    return f"{verb}_{number}_still.png"


def build_swig(graphs: Sequence[Graph], seed: int, split: str, boxes: bool) -> Json:
    """Build `train.json`, `dev.json` or `test.json`; imSitu's has no boxes and no sizes."""
    entries: Json = {}
    for number, graph in enumerate(graphs, 1):
        # Only scenes with an action have a frame.
        event = graph.event
        if event is None or number % 10 not in SWIG_SPLITS[split]:
            continue
        rng = Random(f"swig:{seed}:{graph.id}")
        frames = [
            _draw_frame(graph.place, event, rng, annotator) for annotator in range(3)
        ]
        entry: Json = {"frames": frames, "verb": event.verb.name}
        if boxes:
            entry |= {"height": SIZE, "width": SIZE, "bb": _compute_boxes(event)}
        entries[name_swig(event.verb.name, number)] = entry
    return entries


def _find_fillers(event: Event) -> dict[str, Object]:
    """Return the objects that fill the verb's roles."""
    fillers = {event.verb.roles[0]: event.agent}
    if event.theme is not None:
        fillers[event.verb.roles[1]] = event.theme
    return fillers


def _draw_frame(
    place_name: str, event: Event, rng: Random, annotator: int
) -> dict[str, str]:
    """Draw the synset of each role as one annotator gives it; all but the first one sometimes take
    wider nouns.
    """
    # Roles that no object fills, such as the tool of an action, stay empty.
    frame = dict.fromkeys(event.verb.order, "")
    fillers = _find_fillers(event)
    scene_place = read_places()[place_name]
    for role in event.verb.order:
        is_wider = annotator > 0 and rng.random() < DISAGREEMENT
        if role in fillers:
            frame[role] = _draw_synset(fillers[role].kind, is_wider, rng)
        elif role == "place":
            frame[role] = scene_place.also if is_wider else scene_place.synset
    return frame


def _draw_synset(kind: str, is_wider: bool, rng: Random) -> str:
    """Return the synset of a kind, or of one of its categories."""
    if is_wider:
        synsets = [
            category.synset
            for category in read_scene_categories().values()
            if kind in category.members
        ]
        if synsets:
            return rng.choice(synsets)
    return read_kinds()[kind].synset


def _compute_boxes(event: Event) -> dict[str, list[int]]:
    """Return left, top, right and bottom of the object in each role, in pixels; all -1 for an empty
    role.
    """
    boxes = {role: [-1, -1, -1, -1] for role in event.verb.order}
    for role, entry in _find_fillers(event).items():
        # The smallest box around all individuals: edges of shape (individuals, 4).
        edges = np.array(
            [(cell.left, cell.top, cell.right, cell.bottom) for cell in entry.cells]
        )
        boxes[role] = [
            *edges[:, :2].min(axis=0).tolist(),
            *edges[:, 2:].max(axis=0).tolist(),
        ]
    return boxes


def build_verb_space() -> Json:
    """Build `imsitu_space.json`: every noun and verb of the scenes."""
    # Everything that a frame may name: kinds, places, categories, and wider nouns for places.
    nouns: Json = {}
    described: list[Kind | Place] = [*read_kinds().values(), *read_places().values()]
    for entry in described:
        nouns[entry.synset] = {"gloss": list(entry.gloss), "def": entry.definition}
    for category in read_scene_categories().values():
        nouns[category.synset] = {"gloss": [category.name], "def": category.definition}
    for synset, noun in read_place_nouns().items():
        nouns[synset] = {"gloss": list(noun.gloss), "def": noun.definition}
    verbs: Json = {}
    for verb in read_scene_verbs().values():
        roles = {
            role: {"framenet": role, "def": _describe_role(verb.base, role)}
            for role in verb.order
        }
        verbs[verb.name] = {
            "framenet": verb.base.capitalize(),
            "abstract": verb.abstract,
            "def": verb.definition,
            "order": list(verb.order),
            "roles": roles,
        }
    return {"nouns": nouns, "verbs": verbs}


def _describe_role(base: str, role: str) -> str:
    if role == "agent":
        return f"The entity doing the {base} action"
    if role == "place":
        return f"The location where the {base} event is happening"
    return f"The {role} of the {base} action"


def build_descriptions(graphs: Sequence[Graph], seed: int) -> Json:
    """Build verb, image without the action, and descriptions with and without the verb, for each
    image.
    """
    entries: Json = {}
    for number, graph in enumerate(graphs, 1):
        if graph.action is None:
            continue
        rng = Random(f"descriptions:{seed}:{graph.id}")
        verb = graph.action.verb
        entries[name_swig(verb, number)] = {
            "verb": verb,
            "still": name_still(verb, number),
            "contextual": draw_contextual_descriptions(graph, rng),
            "plain": draw_plain_descriptions(graph, rng),
        }
    return entries
