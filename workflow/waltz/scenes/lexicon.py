"""Lexicon of scenes: kinds, places, categories and verbs, read from the package's two YAML files."""

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

Box = tuple[float, float, float]
"""Left, top and size in percent of an arrangement's square."""

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Kind:
    """A kind of thing that can be drawn.

    Attributes:
        name: Singular noun.
        plural: Plural noun.
        group: people, animals, vehicles, furniture, food, dishes, plants, toys or things.
        emoji: Twemoji code point, or `drawn`.
        synset: WordNet 3.0 noun synset in imSitu's spelling.
        gloss: Words of the synset.
        definition: What it is, in a few words.
        pronoun: he, she or it.
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
        base: Infinitive.
        third: Third person singular, present.
        participle: Past participle; empty where no theme is possible.
        preposition: What stands between verb and theme; empty where nothing does.
        passive: Whether scenes' captions use the passive.
        roles: SWiG's names of agent and theme.
        order: All of SWiG's roles.
        definition: What it means, in a few words.
        agents: Kinds that do it.
        themes: Kinds it is done to; empty for an intransitive verb.
        symmetric: Whether agent and theme do the same to each other.
        relation: Where the agent is to the theme; empty where the picture leaves it open.
        vague: Verbs that the picture of this one neither shows nor rules out.
        theme_seems: Verbs that the theme may be taken to do.
        places: Places where it occurs; all where empty.
        items: Number of themes an agent takes.
        drawing: The arrangement of sprites, as in the YAML file.
    """

    name: str
    base: str
    third: str
    participle: str
    preposition: str
    passive: bool
    roles: tuple[str, ...]
    order: tuple[str, ...]
    definition: str
    agents: tuple[str, ...]
    themes: tuple[str, ...]
    symmetric: bool
    relation: str
    vague: frozenset[str]
    theme_seems: tuple[str, ...]
    places: tuple[str, ...]
    items: int
    drawing: dict[str, Any] = field(hash=False)

    @property
    def abstract(self) -> str:
        """imSitu sentence with roles in capitals, e.g. `the AGENT rides the VEHICLE at a PLACE`."""
        theme = f" {self.preposition}".rstrip() + f" the {self.roles[1].upper()}" if self.themes else ""
        return f"the AGENT {self.third}{theme} at a PLACE"


@cache
def _read_document(name: str) -> dict[str, Any]:
    text = files("waltz.scenes").joinpath(name).read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return document


def _convert_lists(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


@cache
def read_kinds() -> dict[str, Kind]:
    """Return every kind by its singular noun."""
    return {name: Kind(name, **_convert_lists(entry)) for name, entry in _read_document("kinds.yaml")["kinds"].items()}


@cache
def read_places() -> dict[str, Place]:
    """Return every place by its name."""
    return {
        name: Place(name, **_convert_lists(entry)) for name, entry in _read_document("kinds.yaml")["places"].items()
    }


@cache
def read_categories() -> dict[str, Category]:
    """Return every category by its singular noun."""
    return {
        name: Category(name, **_convert_lists(entry))
        for name, entry in _read_document("kinds.yaml")["categories"].items()
    }


@cache
def read_place_nouns() -> dict[str, dict[str, Any]]:
    """Return synsets that annotators may name a place by, besides its own: noun, gloss, definition."""
    return dict(_read_document("kinds.yaml")["place_nouns"])


@cache
def read_synonyms() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return further nouns: plural, and the kinds that each stands for (none for what is never drawn)."""
    document = _read_document("kinds.yaml")
    words = {noun: (str(entry["plural"]), tuple(entry["means"])) for noun, entry in document["synonyms"].items()}
    return words | {noun: (str(plural), ()) for noun, plural in document["absent"].items()}


def expand_kinds(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return kinds that a list of kinds, categories and groups stands for, each once, in the order of the kinds."""
    kinds: set[str] = set()
    for name in names:
        if name in read_kinds():
            kinds.add(name)
        elif name in read_categories():
            kinds.update(read_categories()[name].members)
        else:
            kinds.update(kind.name for kind in read_kinds().values() if kind.group == name)
    return tuple(name for name in read_kinds() if name in kinds)


@cache
def read_verbs() -> dict[str, Verb]:
    """Return every verb by its -ing form."""
    entries = _read_document("verbs.yaml")
    vague: dict[str, set[str]] = {name: set(entry.get("vague", ())) for name, entry in entries.items()}
    for name, entry in entries.items():
        for vague_verb in entry.get("vague", ()):
            vague[vague_verb].add(name)
    return {name: _build_verb(name, entry, frozenset(vague[name])) for name, entry in entries.items()}


def _build_verb(name: str, entry: dict[str, Any], vague: frozenset[str]) -> Verb:
    theme = entry.get("theme")
    return Verb(
        name=name,
        base=entry["base"],
        third=entry["third"],
        participle=entry.get("participle", ""),
        preposition=entry.get("preposition", ""),
        passive=bool(theme) and entry.get("passive", not entry.get("preposition")),
        roles=tuple(entry["roles"]),
        order=tuple(entry["order"]),
        definition=entry["definition"],
        agents=expand_kinds(tuple(entry["agents"])),
        themes=expand_kinds(tuple(entry.get("themes", ()))),
        symmetric=entry.get("symmetric", False),
        relation=entry.get("relation", ""),
        vague=vague,
        theme_seems=tuple(entry.get("theme_seems", ())),
        places=tuple(entry.get("places", ())),
        items=len(theme) if theme and isinstance(theme[0], list) else 1,
        drawing={key: entry[key] for key in entry.keys() - {"vague", "agents", "themes", "roles", "order"}},
    )
