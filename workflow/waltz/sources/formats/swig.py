"""SWiG and imSitu: for each image a verb, and the fillers of its roles by three annotators; SWiG
adds size and boxes.

Nouns are WordNet synsets, and each verb has a sentence, its abstract; imsitu_space.json defines
both. In the files of SWiG, an empty text is a role without filler, and the box [-1, -1, -1, -1] a
filler without box.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from waltz.core.errors import UserError
from waltz.sources.raw_entry import RawEntry
from waltz.sources.raw_files import read_object_entries
from waltz.sources.records import FrameRecord, RoleFiller

NO_BOX = [-1, -1, -1, -1]


@dataclass(frozen=True)
class VerbDefinition:
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
    verbs: Mapping[str, VerbDefinition]


def read_situation_space(path: str | Path) -> SituationSpace:
    """Read the nouns and verbs of imsitu_space.json."""
    glosses: dict[str, tuple[str, ...]] = {}
    for name, fields in read_object_entries(path, "nouns"):
        noun = RawEntry(fields, f"{path}: noun {name!r}")
        glosses[name] = tuple(noun.read_strings("gloss"))
    verbs: dict[str, VerbDefinition] = {}
    for name, fields in read_object_entries(path, "verbs"):
        verb = RawEntry(fields, f"{path}: verb {name!r}")
        order = tuple(verb.read_strings("order"))
        # The sentence orders all roles of the verb, each once.
        if sorted(order) != sorted(verb.read("roles", dict)):
            raise UserError(f"{verb.location}: 'order' does not name its roles")
        verbs[name] = VerbDefinition(verb.read("abstract", str), order)
    return SituationSpace(glosses, verbs)


def read_frames(
    path: str | Path, space: SituationSpace, source: str, split: str | None
) -> Iterator[FrameRecord]:
    """Yield the frames of a {train,dev,test}.json, one for each annotator.

    `source_id` is the name of the image, `#` and the annotator from 0. Rejected are frames with a
    verb or noun that is not in the space, with other roles than the verb, or without any filled
    role.
    """
    for image, fields in read_object_entries(path, ""):
        entry = RawEntry(fields, f"{path}: image {image!r}")
        verb = entry.read("verb", str)
        definition = space.verbs.get(verb)
        boxes = _read_boxes(entry)
        width = entry.read_optional_int32("width")
        height = entry.read_optional_int32("height")
        for annotator, frame in enumerate(entry.read_objects("frames", "frame")):
            nouns = {role: frame.read(role, str) for role in frame.fields}
            # A rejected frame keeps the roles of the file in their order.
            order = tuple(nouns)
            if definition is not None and set(definition.order) == set(nouns):
                order = definition.order
            yield FrameRecord(
                source=source,
                source_id=f"{image}#{annotator}",
                split=split,
                image=image,
                verb=verb,
                annotator=annotator,
                abstract=definition.abstract if definition else None,
                roles=[
                    _build_filler(role, nouns[role], space, boxes) for role in order
                ],
                width=width,
                height=height,
                rejected=_find_rejection(verb, nouns, space),
            )


def _build_filler(
    role: str, noun: str, space: SituationSpace, boxes: Mapping[str, list[float] | None]
) -> RoleFiller:
    """Return the filler of a role; an empty text is an empty role."""
    words = space.glosses.get(noun, ())
    return RoleFiller(
        role,
        noun=noun or None,
        gloss=next(iter(words), None),
        box=boxes.get(role),
    )


def _read_boxes(entry: RawEntry) -> dict[str, list[float] | None]:
    """Return the box of each role (left, top, right, bottom) in pixels; None where the filler has
    no box.
    """
    boxes: dict[str, list[float] | None] = {}
    for role, box in entry.read_optional_object("bb").fields.items():
        if not _is_box(box):
            raise UserError(
                f"{entry.location}: box of {role!r} is {box!r}, not four numbers; get the file again"
            )
        boxes[role] = None
        if box != NO_BOX:
            boxes[role] = [float(coordinate) for coordinate in box]
    return boxes


def _is_box(box: object) -> bool:
    """Return whether a value is a list of four numbers; true and false are no numbers here."""
    if not isinstance(box, list) or len(box) != 4:
        return False
    return set(map(type, box)) <= {int, float}


def _find_rejection(
    verb: str, nouns: Mapping[str, str], space: SituationSpace
) -> str | None:
    """Return the reason why a frame cannot be used; None where it can."""
    if verb not in space.verbs:
        return f"verb {verb!r} is not in the space"
    if set(nouns) != set(space.verbs[verb].order):
        return f"its roles are not those of {verb!r}"
    if not any(nouns.values()):
        return "no role is filled"
    for role, noun in nouns.items():
        if noun and not space.glosses.get(noun):
            return f"noun {noun!r} of role {role!r} is not in the space"
    return None
