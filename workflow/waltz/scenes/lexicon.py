"""Lexicon of scenes: kinds, places, categories and verbs, read from the package's two YAML files."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BeforeValidator, ConfigDict
from pydantic.dataclasses import dataclass

from waltz.core.number_words import NUMBER_WORDS

T = TypeVar("T")
Entry = dict[str, Any]
"""Entry of a YAML file; the dataclass that is built from it checks and converts its values."""

NUMBERS = NUMBER_WORDS[:13]
"""Words for the numbers of individuals, 0 to 12."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Kind:
    """Describe a kind of thing that can be drawn.

    Attributes:
        emoji: Twemoji code point, or `drawn`.
        synset: WordNet 3.0 noun synset in imSitu's spelling.
        size: Side of the sprite as a share of its cell.
        colors: Hue in degrees or code point of each color of the kind; empty if the kind has a
            single color.
        hue: Hue in the sprite that a color replaces.
        supports: Height at which things stand on it, from the top, as a share of the sprite; 0 if
            nothing can.
        shelters: Whether things can be under it.
        contains: Whether things can be in it.
        flies: Whether it can hang in the air.
        outdoors: Whether it is never indoors.
        places: Places where it occurs; all where empty.
        seems: Verbs that its sprite may be taken to show at any time.
    """

    name: str
    plural: str
    group: str
    emoji: str
    synset: str
    gloss: tuple[str, ...]
    definition: str
    pronoun: str = "it"
    size: float = 1.0
    colors: dict[str, int | str] = field(default_factory=dict, hash=False)
    hue: int = 0
    supports: float = 0.0
    shelters: bool = False
    contains: bool = False
    flies: bool = False
    outdoors: bool = False
    places: tuple[str, ...] = ()
    seems: tuple[str, ...] = ()

    @property
    def is_person(self) -> bool:
        """Return whether the kind is a man, a woman, a boy or a girl."""
        return self.group == "people"

    @property
    def scale(self) -> float:
        """Return the size in arrangements of actions and relations, in which only people differ in
        size.
        """
        return self.size if self.is_person else 1.0

    def occurs_at(self, place_name: str) -> bool:
        """Return True if the kind may occur in scenes at a place."""
        # A car is never indoors, although it has no list of places.
        if self.outdoors and place_name == "indoors":
            return False
        return not self.places or place_name in self.places


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Place:
    """Describe a place of scenes: its noun with preposition, and the synsets by which annotators
    name it.
    """

    name: str
    noun: str
    preposition: str
    synset: str
    also: str
    gloss: tuple[str, ...]
    definition: str


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PlaceNoun:
    """Describe a wider noun by which annotators may name a place."""

    noun: str
    gloss: tuple[str, ...]
    definition: str


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Category:
    """Describe a word for several kinds. `mass` says that its singular has no article."""

    name: str
    plural: str
    synset: str
    definition: str
    members: tuple[str, ...]
    mass: bool = False


def exclude(values: Iterable[T], *excluded: object) -> list[T]:
    """Return the values except some, in their order."""
    return [value for value in values if value not in excluded]


BoxValues = tuple[float, float, float]
"""Left edge, top edge and size of a box, in percent of a square."""


def _list_boxes(boxes: Sequence[Any]) -> Sequence[Any]:
    """Return a list of boxes, where the YAML file has a list or a single box."""
    if boxes and not isinstance(boxes[0], Sequence):
        return [boxes]
    return boxes


Line = tuple[float, float, float, float]
"""Both ends of a line, x and y of each, in percent of a square."""
Prop = tuple[Annotated[str, BeforeValidator(str)], float, float, float]
"""Code point of a further sprite, and its box."""
Boxes = Annotated[tuple[BoxValues, ...], BeforeValidator(_list_boxes)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class OtherBoxes:
    """Boxes of an arrangement for kinds other than people; empty where they do not differ."""

    agent: BoxValues | None = None
    theme: Boxes = ()


@dataclass(frozen=True, config=ConfigDict(extra="ignore"))
class Drawing:
    """Describe how the sprites of a verb are arranged in a square, with the agent on the left.

    Attributes:
        agent: Box of an agent that is a person.
        theme: Boxes of the themes of one agent where they are people.
        animals: Boxes of animals that are agent or theme.
        things: Boxes of themes other than people.
        agent_faces: Side to which the agent's sprite looks, `left` or `right`.
        theme_faces: Side to which the theme's sprite looks.
        pose: Pose of the agent.
        theme_pose: Pose of the theme.
        front: `theme` if it is drawn over the agent, else `agent`.
        props: Code point and box of each further sprite.
        lines: Ends of lines of motion: x and y of both, in percent.
        rope: Ends of a rope between agent and theme; None without one.
        water: Whether the action takes place in a pond.
    """

    agent: BoxValues
    theme: Boxes = ()
    animals: OtherBoxes = OtherBoxes()
    things: OtherBoxes = OtherBoxes()
    agent_faces: str = "right"
    theme_faces: str = "left"
    pose: str = "stand"
    theme_pose: str = "stand"
    front: str = "agent"
    props: tuple[Prop, ...] = ()
    lines: tuple[Line, ...] = ()
    rope: Line | None = None
    water: bool = False


@dataclass(frozen=True, config=ConfigDict(extra="ignore"))
class SceneVerb:
    """Describe one of SWiG's verbs and its picture.

    Attributes:
        name: The -ing form, SWiG's key.
        roles: SWiG's names of agent and theme.
        order: All of SWiG's roles.
        themes: Kinds that it can be done to; empty for an intransitive verb, which has no passive
            participle.
        preposition: Preposition between verb and theme; empty without one.
        passive: Whether scenes' captions use the passive.
        symmetric: Whether agent and theme do the same to each other.
        relation: Position of the agent relative to the theme; empty if the picture leaves it open.
        vague: Verbs that the picture of this one neither shows nor rules out.
        theme_seems: Verbs that the theme may be taken to do.
        items: Number of themes an agent takes.
        drawing: The arrangement of sprites.
    """

    name: str
    base: str
    third: str
    definition: str
    drawing: Drawing
    roles: tuple[str, ...]
    order: tuple[str, ...]
    agents: tuple[str, ...]
    themes: tuple[str, ...] = ()
    participle: str = ""
    preposition: str = ""
    passive: bool = False
    symmetric: bool = False
    relation: str = ""
    vague: frozenset[str] = frozenset()
    theme_seems: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    items: int = 1

    @property
    def abstract(self) -> str:
        """Return imSitu's sentence with roles in capitals, e.g. `the AGENT rides the VEHICLE at a
        PLACE`.
        """
        words = ["the AGENT", self.third]
        if self.themes:
            words += [*self.preposition.split(), f"the {self.roles[1].upper()}"]
        words.append("at a PLACE")
        return " ".join(words)

    @property
    def possible(self) -> frozenset[str]:
        """Return the verbs that this verb's picture does not rule out: the verb itself and its
        `vague` verbs.
        """
        return self.vague | {self.name}

    @property
    def construction(self) -> tuple[bool, str]:
        """Return whether the verb takes a theme, and with which preposition."""
        return bool(self.themes), self.preposition

    def conjugate(self, plural: bool) -> str:
        """Return the present tense of the third person."""
        return self.base if plural else self.third

    def takes(self, agent: str, theme: str | None) -> bool:
        """Return True if one kind can do this to another kind, or intransitively if `theme` is
        None.
        """
        if agent not in self.agents:
            return False
        # A transitive verb needs a theme, an intransitive one has none.
        if theme is None:
            return not self.themes
        return theme in self.themes


@cache
def _read_document(name: str) -> Entry:
    text = files("waltz.scenes").joinpath(name).read_text(encoding="utf-8")
    # The fast one where PyYAML has it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document: Entry = yaml.load(text, Loader=loader)
    return document


def _read_entries(table: str, build: Callable[..., T]) -> dict[str, T]:
    entries = _read_document("kinds.yaml")[table]
    return {name: build(name=name, **entry) for name, entry in entries.items()}


@cache
def read_kinds() -> dict[str, Kind]:
    """Return every kind by its singular noun."""
    return _read_entries("kinds", Kind)


@cache
def list_kinds_in(*groups: str) -> tuple[str, ...]:
    """Return the kinds of some groups by name, in the order of the kinds."""
    return tuple(kind.name for kind in read_kinds().values() if kind.group in groups)


@cache
def list_kinds_outside(*groups: str) -> tuple[str, ...]:
    """Return the names of the kinds that belong to none of the groups, in the order of the kinds."""
    return tuple(
        kind.name for kind in read_kinds().values() if kind.group not in groups
    )


@cache
def read_places() -> dict[str, Place]:
    """Return every place by its name."""
    return _read_entries("places", Place)


@cache
def read_scene_categories() -> dict[str, Category]:
    """Return every category by its singular noun."""
    return _read_entries("categories", Category)


def read_place_nouns() -> dict[str, PlaceNoun]:
    """Return the wider nouns by which annotators may name a place, by synset."""
    entries = _read_document("kinds.yaml")["place_nouns"]
    return {synset: PlaceNoun(**entry) for synset, entry in entries.items()}


@cache
def read_synonyms() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return for each further noun its plural and the kinds that it names.

    A noun for a thing that is never drawn has no kinds.
    """
    document = _read_document("kinds.yaml")
    words: dict[str, tuple[str, tuple[str, ...]]] = {}
    for noun, entry in document["synonyms"].items():
        words[noun] = (str(entry["plural"]), tuple(entry["means"]))
    for noun, plural in document["absent"].items():
        words[noun] = (str(plural), ())
    return words


@cache
def read_scene_verbs() -> dict[str, SceneVerb]:
    """Return every verb by its -ing form."""
    entries = _read_document("verbs.yaml")
    # If the picture of one verb may show another, the picture of the other one may show the first.
    vague_verbs: dict[str, set[str]] = defaultdict(set)
    for name, entry in entries.items():
        for vague_verb in entry.get("vague", ()):
            vague_verbs[name].add(vague_verb)
            vague_verbs[vague_verb].add(name)
    return {
        name: _build_verb(name, entry, frozenset(vague_verbs[name]))
        for name, entry in entries.items()
    }


def list_verbs_for(agent: str, theme: str | None) -> list[SceneVerb]:
    """Return the verbs that one kind can do to another kind, or intransitively if `theme` is None."""
    return [verb for verb in read_scene_verbs().values() if verb.takes(agent, theme)]


def list_excluded_verbs(shown: SceneVerb) -> list[SceneVerb]:
    """Return the verbs that the picture of a verb rules out."""
    return [
        verb for verb in read_scene_verbs().values() if verb.name not in shown.possible
    ]


def _build_verb(name: str, entry: Entry, vague: frozenset[str]) -> SceneVerb:
    drawing = Drawing(**entry)
    # Without another word, a verb with a theme and without preposition has a passive.
    has_passive = entry.get("passive", "preposition" not in entry)
    derived = {
        "agents": _expand_kinds(entry["agents"]),
        "themes": _expand_kinds(entry.get("themes", [])),
        "passive": bool(drawing.theme) and has_passive,
        "vague": vague,
        # Several boxes are of several themes of one agent, as when a man juggles balls.
        "items": max(len(drawing.theme), 1),
        "drawing": drawing,
    }
    return SceneVerb(name=name, **(entry | derived))


def _expand_kinds(names: list[str]) -> tuple[str, ...]:
    """Return the kinds that the names of kinds, categories and groups cover, each once, in the
    order of the kinds.
    """
    kinds = set(chain.from_iterable(map(_list_members, names)))
    return tuple(name for name in read_kinds() if name in kinds)


def _list_members(name: str) -> Sequence[str]:
    """Return the kinds of a category (`fruit`) or group (`animals`), or the kind itself."""
    if name in read_scene_categories():
        return read_scene_categories()[name].members
    return list_kinds_in(name) or (name,)
