"""COCO captions, and FOIL-it, whose correct captions are COCO's."""

from collections.abc import Sequence
from random import Random
from typing import Any

from waltz.scenes.language.captions import captions
from waltz.scenes.language.words import PRONOUNS, standing_alone, tokens
from waltz.scenes.oracle.truth import truth
from waltz.scenes.world.graph import Graph, Object
from waltz.scenes.world.lexicon import kinds
from waltz.scenes.writers import images

Json = dict[str, Any]

LICENCE = {"id": 1, "name": "Attribution License", "url": "http://creativecommons.org/licenses/by/4.0/"}


def info(what: str) -> Json:
    """The `info` of a file of COCO's family."""
    return {
        "description": f"Scenes in the format of {what}",
        "url": "",
        "version": "1.0",
        "year": 2026,
        "contributor": "waltz",
        "date_created": "2026/01/01",
    }


def image_record(number: int, name: str) -> Json:
    """One entry of `images`."""
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


def caption_id(number: int, which: int) -> int:
    """COCO's id of caption `which` (0 to 4) of an image."""
    return number * 10 + which


def five(graph: Graph, seed: int) -> list[str]:
    """The five captions of a scene in COCO's file, the same for every writer that needs them."""
    return captions(graph, Random(f"coco:{seed}:{graph.id}"))


def captions_json(graphs: Sequence[Graph], seed: int, edition: str = "val2017") -> Json:
    """The whole of `captions_val2017.json` or `captions_val2014.json`."""
    names = {
        number: images.coco2017(number) if edition == "val2017" else images.coco2014(number, edition)
        for number in range(1, len(graphs) + 1)
    }
    return {
        "info": info(f"COCO captions {edition}"),
        "licenses": [LICENCE],
        "images": [image_record(number, name) for number, name in names.items()],
        "annotations": [
            {"image_id": number, "id": caption_id(number, which), "caption": caption}
            for number, graph in enumerate(graphs, 1)
            for which, caption in enumerate(five(graph, seed))
        ],
    }


def foilit_json(graphs: Sequence[Graph], seed: int) -> Json:
    """The whole of `foilv1.0_test_2017.json`: captions with `foil` false, and their foils by one noun with it true.

    An entry's `id` is the id of its caption in `captions_val2014.json`.
    """
    annotations: list[Json] = []
    for number, graph in enumerate(graphs, 1):
        rng = Random(f"foilit:{seed}:{graph.id}")
        for which, caption in enumerate(five(graph, seed)):
            found = _foil(graph, caption, rng)
            if found is None:
                continue
            foil, foil_word, target_word = found
            base = {"image_id": number, "id": caption_id(number, which)}
            original = {"caption": caption, "foil_word": "ORIG", "target_word": "ORIG", "foil": False}
            replaced = {"caption": foil, "foil_word": foil_word, "target_word": target_word, "foil": True}
            for entry in (original, replaced):
                annotations.append({**base, **entry, "foil_id": len(annotations)})
    return {
        "info": info("FOIL-it 1.0"),
        "licenses": [LICENCE],
        "images": [image_record(number, images.coco2014(number, "val2014")) for number in range(1, len(graphs) + 1)],
        "annotations": annotations,
    }


def _foil(graph: Graph, caption: str, rng: Random) -> tuple[str, str, str] | None:
    """A caption with one noun replaced by another of its group that the scene lacks; foil and target word."""
    words = set(tokens(caption))
    for entry in rng.sample(graph.objects, len(graph.objects)):
        target = _form(entry.kind, entry)
        group = [kind.name for kind in kinds().values() if kind.group == kinds()[entry.kind].group]
        absent = [name for name in group if not graph.count(name)]
        if words & set(PRONOUNS):
            absent = [name for name in absent if kinds()[name].pronoun == kinds()[entry.kind].pronoun]
        if not absent or f" {target}" not in f" {caption.lower()}":
            continue
        new = rng.choice(absent)
        foil = replace_noun(caption, target, _form(new, entry))
        if foil != caption and truth(graph, foil) == "false":
            return foil, _form(new, entry), target
    return None


def _form(kind: str, entry: Object) -> str:
    return kinds()[kind].name if entry.count == 1 else kinds()[kind].plural


def replace_noun(text: str, old: str, new: str) -> str:
    """A text with every occurrence of a noun replaced, and `a` or `an` before it put right."""

    right = "an" if new[0] in "aeiou" else "a"
    for wrong in ("a", "an"):
        text = standing_alone(f"{wrong} {old}").sub(f"{right} {new}", text)
        text = standing_alone(f"{wrong.capitalize()} {old}").sub(f"{right.capitalize()} {new}", text)
    text = standing_alone(old.capitalize()).sub(new.capitalize(), text)
    return standing_alone(old).sub(new, text)
