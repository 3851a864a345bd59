"""SWiG and imSitu: for each image a verb, and the fillers of its roles by three annotators; SWiG
adds size and boxes.

Nouns are WordNet synsets, and each verb has a sentence, its abstract; imsitu_space.json defines
both. In the files of SWiG, an empty text is a role without filler, and the box [-1, -1, -1, -1] a
filler without box.
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
        abstract: Sentence of the verb, with roles in capitals.
        order: Roles in the order of the sentence.
    """

    abstract: str
    order: tuple[str, ...]


@dataclass(frozen=True)
class SituationSpace:
    """The nouns and verbs of imsitu_space.json.

    Attributes:
        glosses: Words of each noun synset, the plainest first.
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
        location = f"{path}: verb {name!r}"
        order = tuple(read_strings(entry, "order", location))
        # The sentence orders all roles of the verb, each once.
        if sorted(order) != sorted(read_field(entry, "roles", dict, location)):
            raise UserError(f"{location}: 'order' does not name its roles")
        verbs[name] = Verb(read_field(entry, "abstract", str, location), order)
    return SituationSpace(glosses, verbs)


def read_frames(
    path: str | Path, space: SituationSpace, source: str, split: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the frames of a {train,dev,test}.json, one for each annotator, as rows of the layout
    `FRAMES`.

    `source_id` is the name of the image, `#` and the annotator from 0. Rejected are frames with a
    verb or noun that is not in the space, with other roles than the verb, or without any filled
    role.
    """
    for image, entry in read_object_entries(path, ""):
        location = f"{path}: image {image!r}"
        verb = read_field(entry, "verb", str, location)
        boxes = _read_boxes(entry, location)
        size = {
            name: read_optional_field(entry, name, int, location)
            for name in ("width", "height")
        }
        for annotator, frame in enumerate(read_objects(entry, "frames", location)):
            fillers = {
                role: read_field(frame, role, str, f"{location}: frame {annotator}")
                for role in frame
            }
            # A rejected frame keeps the roles of the file in their order.
            definition = space.verbs.get(verb)
            order = (
                definition.order
                if definition and set(definition.order) == set(fillers)
                else tuple(fillers)
            )
            yield {
                "source": source,
                "source_id": f"{image}#{annotator}",
                "split": split,
                "image": image,
                "verb": verb,
                "annotator": annotator,
                "abstract": definition.abstract if definition else None,
                "roles": [
                    _build_filler(role, fillers[role], space, boxes) for role in order
                ],
                **size,
                "rejected": _find_rejection(verb, fillers, space),
            }


def _build_filler(
    role: str, noun: str, space: SituationSpace, boxes: Mapping[str, list[float] | None]
) -> dict[str, Any]:
    words = space.glosses.get(noun, ())
    return {
        "role": role,
        "noun": noun or None,
        "gloss": words[0] if words else None,
        "box": boxes.get(role),
    }


def _read_boxes(
    entry: Mapping[str, Any], location: str
) -> dict[str, list[float] | None]:
    """Return the box of each role (left, top, right, bottom) in pixels; None where the filler has
    no box.
    """
    boxes: dict[str, list[float] | None] = {}
    stored_boxes = read_optional_field(entry, "bb", dict, location) or {}
    for role, box in stored_boxes.items():
        if not _is_box(box):
            raise UserError(
                f"{location}: box of {role!r} is {box!r}, not four numbers; get the file again"
            )
        boxes[role] = None
        if box != NO_BOX:
            boxes[role] = [float(coordinate) for coordinate in box]
    return boxes


def _is_box(box: Any) -> bool:
    if not isinstance(box, list) or len(box) != 4:
        return False
    # True and false are no numbers here.
    return all(type(coordinate) in (int, float) for coordinate in box)


def _find_rejection(
    verb: str, fillers: Mapping[str, str], space: SituationSpace
) -> str | None:
    """Return the reason why a frame cannot be used; None where it can."""
    if verb not in space.verbs:
        return f"verb {verb!r} is not in the space"
    if set(fillers) != set(space.verbs[verb].order):
        return f"its roles are not those of {verb!r}"
    if not any(fillers.values()):
        return "no role is filled"
    for role, noun in fillers.items():
        if noun and not space.glosses.get(noun):
            return f"noun {noun!r} of role {role!r} is not in the space"
    return None
