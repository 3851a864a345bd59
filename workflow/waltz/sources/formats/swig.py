"""SWiG and imSitu: for each image a verb and three annotators' fillers of its roles; SWiG adds size and boxes.

Nouns are WordNet synsets and verbs come with sentences; both are explained by imsitu_space.json. In SWiG's files a
role without filler is an empty text, and a filler without box has the box [-1, -1, -1, -1].
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.raw_files import (
    read_field,
    read_object_entries,
    read_objects,
    read_optional_field,
    read_strings,
)

NO_BOX = [-1, -1, -1, -1]


@dataclass(frozen=True)
class Verb:
    """A verb of imSitu.

    Attributes:
        abstract: Its sentence, roles in capitals.
        order: Its roles in the order of the sentence.
    """

    abstract: str
    order: tuple[str, ...]


@dataclass(frozen=True)
class SituationSpace:
    """Nouns and verbs of imsitu_space.json.

    Attributes:
        glosses: Words of each noun synset, the first the plainest.
        verbs: The verbs by name.
    """

    glosses: Mapping[str, tuple[str, ...]]
    verbs: Mapping[str, Verb]


def read_situation_space(path: str | Path) -> SituationSpace:
    """Read the nouns and verbs of imsitu_space.json."""
    glosses = {
        noun: tuple(read_strings(entry, "gloss", f"{path}: noun {noun!r}"))
        for noun, entry in read_object_entries(path, "nouns")
    }
    verbs = {}
    for name, entry in read_object_entries(path, "verbs"):
        where = f"{path}: verb {name!r}"
        order = tuple(read_strings(entry, "order", where))
        if sorted(order) != sorted(read_field(entry, "roles", dict, where)):
            raise UserError(f"{where}: 'order' does not name its roles")
        verbs[name] = Verb(read_field(entry, "abstract", str, where), order)
    return SituationSpace(glosses, verbs)


def read_frames(path: str | Path, space: SituationSpace, source: str, split: str | None) -> Iterator[dict[str, Any]]:
    """Yield the frames of a {train,dev,test}.json, one for each annotator, as rows of the layout `FRAMES`.

    `source_id` is the image's name, `#` and the annotator from 0. Frames with a verb or noun that is not in the space,
    with roles that are not the verb's, or without any filled role are rejected.
    """
    for image, entry in read_object_entries(path, ""):
        where = f"{path}: image {image!r}"
        verb = read_field(entry, "verb", str, where)
        boxes = _read_boxes(entry, where)
        size = {name: read_optional_field(entry, name, int, where) for name in ("width", "height")}
        for annotator, frame in enumerate(read_objects(entry, "frames", where)):
            fillers = {role: read_field(frame, role, str, f"{where}: frame {annotator}") for role in frame}
            definition = space.verbs.get(verb)
            order = definition.order if definition and set(definition.order) == set(fillers) else tuple(fillers)
            yield {
                "source": source,
                "source_id": f"{image}#{annotator}",
                "split": split,
                "image": image,
                "verb": verb,
                "annotator": annotator,
                "abstract": definition.abstract if definition else None,
                "roles": [_build_filler(role, fillers[role], space, boxes) for role in order],
                **size,
                "rejected": _find_rejection(verb, fillers, space),
            }


def _build_filler(
    role: str, noun: str, space: SituationSpace, boxes: Mapping[str, list[float] | None]
) -> dict[str, Any]:
    words = space.glosses.get(noun, ())
    return {"role": role, "noun": noun or None, "gloss": words[0] if words else None, "box": boxes.get(role)}


def _read_boxes(entry: Mapping[str, Any], where: str) -> dict[str, list[float] | None]:
    boxes: dict[str, list[float] | None] = {}
    for role, box in (read_optional_field(entry, "bb", dict, where) or {}).items():
        if not isinstance(box, list) or len(box) != 4 or not all(type(side) in (int, float) for side in box):
            raise UserError(f"{where}: box of {role!r} is {box!r}, not four numbers")
        boxes[role] = None if box == NO_BOX else [float(side) for side in box]
    return boxes


def _find_rejection(verb: str, fillers: Mapping[str, str], space: SituationSpace) -> str | None:
    if verb not in space.verbs:
        return f"verb {verb!r} is not in the space"
    if set(fillers) != set(space.verbs[verb].order):
        return f"its roles are not those of {verb!r}"
    if not any(fillers.values()):
        return "no role is filled"
    unknown = [(role, noun) for role, noun in fillers.items() if noun and not space.glosses.get(noun)]
    return f"noun {unknown[0][1]!r} of role {unknown[0][0]!r} is not in the space" if unknown else None
