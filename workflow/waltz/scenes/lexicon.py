"""Lexicon of scenes: kinds, places, categories and verbs, read from the package's two YAML files."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import yaml

T = TypeVar("T")

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Kind:
    """A kind of thing that can be drawn.

    Attributes:
        emoji: Twemoji code point, or `drawn`.
        synset: WordNet 3.0 noun synset in imSitu's spelling.
        size: Side of the sprite as a share of its cell.
        colours: Hue in degrees or code point of each colour it comes in; empty where it has only its own.
        hue: Hue in the sprite that a colour replaces.
        supports: Where things stand on it, from the top, as a share of the sprite; 0 where nothing can.
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
    colours: dict[str, int | str] = field(default_factory=dict, hash=False)
    hue: int = 0
    supports: float = 0.0
    shelters: bool = False
    contains: bool = False
    flies: bool = False
    outdoors: bool = False
    places: tuple[str, ...] = ()
    seems: tuple[str, ...] = ()

    @property
    def scale(self) -> float:
        """Size in the arrangements of actions and relations, where only people are smaller or larger."""
        return self.size if self.group == "people" else 1.0

    def occurs_at(self, place: str) -> bool:
        """Return True if scenes at a place may hold it."""
        return (not self.places or place in self.places) and not (self.outdoors and place == "indoors")


@dataclass(frozen=True)
class Place:
    """Place of a scene: its noun with preposition, and the synsets that annotators name it by."""

    name: str
    noun: str
    preposition: str
    synset: str
    also: str
    gloss: tuple[str, ...]
    definition: str


@dataclass(frozen=True)
class Category:
    """A word for several kinds. `mass` says that its singular stands without an article."""

    name: str
    plural: str
    synset: str
    definition: str
    members: tuple[str, ...]
    mass: bool = False


@dataclass(frozen=True)
class Verb:
    """One of SWiG's verbs and how it looks.

    Attributes:
        name: The -ing form, SWiG's key.
        roles: SWiG's names of agent and theme.
        order: All of SWiG's roles.
        themes: Kinds it is done to; empty for an intransitive verb, which has no participle.
        preposition: What stands between verb and theme; empty where nothing does.
        passive: Whether scenes' captions use the passive.
        symmetric: Whether agent and theme do the same to each other.
        relation: Where the agent is to the theme; empty where the picture leaves it open.
        vague: Verbs that the picture of this one neither shows nor rules out.
        theme_seems: Verbs that the theme may be taken to do.
        items: Number of themes an agent takes.
        drawing: The arrangement of sprites, as in the YAML file.
    """

    name: str
    base: str
    third: str
    definition: str
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
    drawing: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def abstract(self) -> str:
        """imSitu sentence with roles in capitals, e.g. `the AGENT rides the VEHICLE at a PLACE`."""
        theme = f" {self.preposition}".rstrip() + f" the {self.roles[1].upper()}" if self.themes else ""
        return f"the AGENT {self.third}{theme} at a PLACE"

    def conjugate(self, plural: bool) -> str:
        """Return the present tense of the third person."""
        return self.base if plural else self.third

    def takes(self, agent: str, theme: str | None) -> bool:
        """Return True if a kind can do this to another one, or without any where `theme` is None."""
        return agent in self.agents and (theme in self.themes if theme is not None else not self.themes)


@cache
def _read_document(name: str) -> dict[str, Any]:
    text = files("waltz.scenes").joinpath(name).read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return document


def _convert_lists(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with tuples in the place of lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def _read_entries(table: str, build: Callable[..., T]) -> dict[str, T]:
    return {name: build(name, **_convert_lists(entry)) for name, entry in _read_document("kinds.yaml")[table].items()}


@cache
def read_kinds() -> dict[str, Kind]:
    """Return every kind by its singular noun."""
    return _read_entries("kinds", Kind)


@cache
def read_places() -> dict[str, Place]:
    """Return every place by its name."""
    return _read_entries("places", Place)


@cache
def read_categories() -> dict[str, Category]:
    """Return every category by its singular noun."""
    return _read_entries("categories", Category)


def read_place_nouns() -> dict[str, dict[str, Any]]:
    """Return synsets that annotators may name a place by, besides its own: noun, gloss, definition."""
    return dict(_read_document("kinds.yaml")["place_nouns"])


@cache
def read_synonyms() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return further nouns: plural, and the kinds that each stands for (none for what is never drawn)."""
    document = _read_document("kinds.yaml")
    words = {noun: (str(entry["plural"]), tuple(entry["means"])) for noun, entry in document["synonyms"].items()}
    return words | {noun: (str(plural), ()) for noun, plural in document["absent"].items()}


@cache
def read_verbs() -> dict[str, Verb]:
    """Return every verb by its -ing form."""
    entries = _read_document("verbs.yaml")
    vague = {name: set(entry.get("vague", ())) for name, entry in entries.items()}
    for name, entry in entries.items():
        for vague_verb in entry.get("vague", ()):
            vague[vague_verb].add(name)
    return {name: _build_verb(name, entry, frozenset(vague[name])) for name, entry in entries.items()}


def _build_verb(name: str, entry: dict[str, Any], vague: frozenset[str]) -> Verb:
    theme_boxes = entry.get("theme")
    described = {key: value for key, value in _convert_lists(entry).items() if key in _VERB_FIELDS}
    derived = {
        "agents": _expand_kinds(entry["agents"]),
        "themes": _expand_kinds(entry.get("themes", [])),
        "passive": bool(theme_boxes) and entry.get("passive", not entry.get("preposition")),
        "vague": vague,
        "items": len(theme_boxes) if theme_boxes and isinstance(theme_boxes[0], list) else 1,
        "drawing": entry,
    }
    return Verb(name, **(described | derived))


_VERB_FIELDS = frozenset(entry.name for entry in fields(Verb))


def _expand_kinds(names: list[str]) -> tuple[str, ...]:
    """Return the kinds that kinds, categories and groups stand for, each once, in the order of the kinds."""
    kinds: set[str] = set()
    for name in names:
        if name in read_categories():
            kinds.update(read_categories()[name].members)
        else:
            kinds.update(kind.name for kind in read_kinds().values() if name in (kind.name, kind.group))
    return tuple(name for name in read_kinds() if name in kinds)
