"""COCO captions, and FOIL-it, whose correct captions are COCO's."""

from collections.abc import Sequence
from random import Random
from typing import Any

from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.words import PRONOUNS, compile_word_pattern, tokenize
from waltz.scenes.oracle.truth import decide_truth
from waltz.scenes.world.graph import Graph, Object
from waltz.scenes.world.lexicon import read_kinds

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
            draw = _draw_foil(graph, caption, rng)
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


def _draw_foil(graph: Graph, caption: str, rng: Random) -> tuple[str, str, str] | None:
    """Draw a caption with one noun replaced by another of its group that the scene lacks; foil and target word."""
    words = set(tokenize(caption))
    for entry in rng.sample(graph.objects, len(graph.objects)):
        target = _inflect(entry.kind, entry)
        group = [kind.name for kind in read_kinds().values() if kind.group == read_kinds()[entry.kind].group]
        absent = [name for name in group if not graph.count(name)]
        if words & set(PRONOUNS):
            absent = [name for name in absent if read_kinds()[name].pronoun == read_kinds()[entry.kind].pronoun]
        if not absent or f" {target}" not in f" {caption.lower()}":
            continue
        new = rng.choice(absent)
        foil = replace_noun(caption, target, _inflect(new, entry))
        if foil != caption and decide_truth(graph, foil) == "false":
            return foil, _inflect(new, entry), target
    return None


def _inflect(kind: str, entry: Object) -> str:
    return read_kinds()[kind].name if entry.count == 1 else read_kinds()[kind].plural


def replace_noun(text: str, old: str, new: str) -> str:
    """Return a text with every occurrence of a noun replaced, and a preceding `a` or `an` corrected."""

    right = "an" if new[0] in "aeiou" else "a"
    for wrong in ("a", "an"):
        text = compile_word_pattern(f"{wrong} {old}").sub(f"{right} {new}", text)
        text = compile_word_pattern(f"{wrong.capitalize()} {old}").sub(f"{right.capitalize()} {new}", text)
    text = compile_word_pattern(old.capitalize()).sub(new.capitalize(), text)
    return compile_word_pattern(old).sub(new, text)
