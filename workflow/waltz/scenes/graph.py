"""A scene as a small typed graph, from which image, sentences and their truth follow."""

import hashlib
from dataclasses import dataclass, replace

from waltz.scenes.lexicon import Verb, read_kinds, read_verbs

SIZE = 256
"""Side of the image in pixels."""


@dataclass(frozen=True)
class Cell:
    """Position of one individual: a square in pixels of the image, and whether the sprite is mirrored."""

    left: int
    top: int
    size: int
    mirrored: bool = False

    @property
    def right(self) -> int:
        """First pixel to the right of it."""
        return self.left + self.size

    @property
    def bottom(self) -> int:
        """First pixel below it."""
        return self.top + self.size


@dataclass(frozen=True)
class Object:
    """All the individuals of one kind in a scene; `colour` is None where the kind has only its own."""

    kind: str
    cells: tuple[Cell, ...]
    colour: str | None = None

    @property
    def count(self) -> int:
        """Number of individuals."""
        return len(self.cells)


PREPOSITIONS = ("on", "under", "in", "behind", "in front of", "next to", "over")


@dataclass(frozen=True)
class Relation:
    """Spatial relation of all individuals of one object to those of another; `preposition` is one of `PREPOSITIONS`."""

    subject: int
    preposition: str
    object: int


@dataclass(frozen=True)
class Action:
    """Action of an agent on a theme; every agent has its own share of the themes (see `Graph.get_theme_indices`)."""

    verb: str
    agent: int
    theme: int | None = None


@dataclass(frozen=True)
class Graph:
    """A scene.

    Attributes:
        id: Name of the scene, unique in its split.
        place: indoors, street, grass, beach, snow or night.
        objects: Objects of different kinds.
        relations: Spatial relations that were meant; others follow from the cells.
        action: What happens, or None.
    Raises:
        ValueError: A kind repeats, or an action's themes do not divide among its agents.
    """

    id: str
    place: str
    objects: tuple[Object, ...]
    relations: tuple[Relation, ...] = ()
    action: Action | None = None

    def __post_init__(self) -> None:
        """Refuse what is no scene."""
        kinds = [entry.kind for entry in self.objects]
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"kinds of {self.id} repeat: {kinds}")
        if self.verb and self.agent and self.theme and self.theme.count != self.agent.count * self.verb.items:
            raise ValueError(f"the themes of {self.verb.name} in {self.id} do not divide among its agents")

    @property
    def related(self) -> set[int]:
        """Indices of the objects that are agent or theme of the action or part of a relation."""
        indices = {index for relation in self.relations for index in (relation.subject, relation.object)}
        if self.action is not None:
            indices |= {self.action.agent} | ({self.action.theme} if self.action.theme is not None else set())
        return indices

    @property
    def verb(self) -> Verb | None:
        """What happens, or None."""
        return None if self.action is None else read_verbs()[self.action.verb]

    @property
    def agent(self) -> Object | None:
        """Object that acts, or None."""
        return None if self.action is None else self.objects[self.action.agent]

    @property
    def theme(self) -> Object | None:
        """Object that is acted upon, or None."""
        return None if self.action is None or self.action.theme is None else self.objects[self.action.theme]

    def list_bystanders(self) -> list[Object]:
        """Return the objects that are neither agent nor theme of the action nor part of a relation."""
        related = self.related
        return [entry for index, entry in enumerate(self.objects) if index not in related]

    def get_theme_indices(self, agent: int) -> range:
        """Return which individuals of the theme the agent's individual number `agent` acts upon."""
        if self.verb is None or self.theme is None:
            return range(0)
        return range(agent * self.verb.items, (agent + 1) * self.verb.items)

    def count(self, kind: str) -> int:
        """Return how many individuals of a kind there are; 0 where there are none."""
        return sum(entry.count for entry in self.objects if entry.kind == kind)

    def list_absent_kinds(self) -> list[str]:
        """Return the kinds of the lexicon that the scene lacks."""
        return [kind for kind in read_kinds() if not self.count(kind)]

    def replace_object(self, old: Object, new: Object) -> "Graph":
        """Return the scene with one object put in the place of another."""
        return replace(self, objects=tuple(new if entry == old else entry for entry in self.objects))


def describe_content(graph: Graph) -> str:
    """Return what a scene shows, whatever its id and cells, as text that equal scenes share."""
    name = [f"{entry.count} {entry.colour or ''} {entry.kind}" for entry in graph.objects]
    facts = sorted(name) + sorted(
        f"{name[relation.subject]}|{relation.preposition}|{name[relation.object]}" for relation in graph.relations
    )
    if graph.action is not None:
        theme = "" if graph.action.theme is None else name[graph.action.theme]
        facts.append(f"{name[graph.action.agent]}|{graph.action.verb}|{theme}")
    return ";".join([graph.place, *facts])


def compute_bucket(graph: Graph, buckets: int) -> int:
    """Compute which of a number of equal parts of all possible scenes this one belongs to, by its content."""
    return int.from_bytes(hashlib.sha256(describe_content(graph).encode()).digest()[:8], "big") % buckets
