"""Describe a scene as a small typed graph; its image, its sentences and their truth follow from the
graph.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

from waltz.scenes.lexicon import SceneVerb, list_kinds_in, read_kinds, read_scene_verbs

SIZE = 256
"""Side of the image in pixels."""


@dataclass(frozen=True)
class SpriteCell:
    """Position of one individual: a square in pixels of the image, and whether the sprite is
    mirrored.
    """

    left: int
    top: int
    size: int
    mirrored: bool = False

    @property
    def right(self) -> int:
        """Return the x coordinate of the first pixel to the right of the cell."""
        return self.left + self.size

    @property
    def bottom(self) -> int:
        """Return the y coordinate of the first pixel below the cell."""
        return self.top + self.size


@dataclass(frozen=True)
class Object:
    """All the individuals of one kind in a scene; `color` is None where the kind has only one."""

    kind: str
    cells: tuple[SpriteCell, ...]
    color: str | None = None

    @property
    def count(self) -> int:
        """Return the number of individuals."""
        return len(self.cells)


PREPOSITIONS = ("on", "under", "in", "behind", "in front of", "next to", "over")


@dataclass(frozen=True)
class Relation:
    """Relate all individuals of one object to all individuals of another object by one of
    `PREPOSITIONS`.
    """

    subject: int
    preposition: str
    object: int


@dataclass(frozen=True)
class Action:
    """Describe what an agent does to a theme; each agent has its share of themes (see
    `Graph.get_theme_indices`).
    """

    verb: str
    agent: int
    theme: int | None = None


@dataclass(frozen=True)
class Event:
    """The action of a scene with its verb and the objects that take part in it."""

    verb: SceneVerb
    agent: Object
    theme: Object | None

    @property
    def theme_kind(self) -> str | None:
        """Return the kind that is acted upon, or None without a theme."""
        if self.theme is None:
            return None
        return self.theme.kind


@dataclass(frozen=True)
class Graph:
    """Describe a scene.

    Attributes:
        id: Name of the scene, unique in its split.
        place: indoors, street, grass, beach, snow or night.
        objects: Objects of different kinds.
        relations: Spatial relations that the scene was built for; others follow from the cells.
        action: Action of the scene, or None.
    Raises:
        ValueError: A kind repeats, or an action's themes do not divide among its agents.
    """

    id: str
    place: str
    objects: tuple[Object, ...]
    relations: tuple[Relation, ...] = ()
    action: Action | None = None

    def __post_init__(self) -> None:
        """Refuse repeated kinds, and themes that do not divide among the agents."""
        kinds = [entry.kind for entry in self.objects]
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"kinds of {self.id} repeat: {kinds}")
        # Each agent has the same number of themes (`get_theme_indices`).
        event = self.event
        if event is None or event.theme is None:
            return
        n_themes = event.agent.count * event.verb.items
        if event.theme.count != n_themes:
            raise ValueError(
                f"themes of {event.verb.name} do not divide among its agents: {self.id} (got {event.theme.count},"
                f" expected {n_themes})"
            )

    @property
    def related(self) -> set[int]:
        """Return the indices of the objects that are agent or theme of the action or part of a
        relation.
        """
        # Relations and the action name objects by their index.
        indices = set()
        for relation in self.relations:
            indices |= {relation.subject, relation.object}
        if self.action is not None:
            indices.add(self.action.agent)
            if self.action.theme is not None:
                indices.add(self.action.theme)
        return indices

    @cached_property
    def event(self) -> Event | None:
        """Return the action with its verb and objects, or None without an action."""
        if self.action is None:
            return None
        theme = None
        if self.action.theme is not None:
            theme = self.objects[self.action.theme]
        verb = read_scene_verbs()[self.action.verb]
        return Event(verb, self.objects[self.action.agent], theme)

    def list_bystanders(self) -> list[Object]:
        """Return the objects that are neither agent nor theme of the action nor part of a relation."""
        related = self.related
        return [
            entry for index, entry in enumerate(self.objects) if index not in related
        ]

    def get_theme_indices(self, agent: int) -> range:
        """Return the numbers of the theme's individuals that individual number `agent` of the agent
        acts upon.
        """
        if self.event is None or self.event.theme is None:
            return range(0)
        # Themes stand in the order of the agents, each with the same number of themes.
        n_themes = self.event.verb.items
        return range(agent * n_themes, (agent + 1) * n_themes)

    def count(self, kind: str) -> int:
        """Return the number of individuals of a kind in the scene."""
        return sum(entry.count for entry in self.objects if entry.kind == kind)

    def list_absent_kinds(self, group: str | None = None) -> list[str]:
        """Return the kinds of the lexicon, or of one of its groups, that the scene lacks."""
        kinds = read_kinds() if group is None else list_kinds_in(group)
        return [kind for kind in kinds if not self.count(kind)]

    def replace_object(self, old: Object, new: Object) -> "Graph":
        """Return the scene with one object exchanged for another."""
        objects = tuple(new if entry == old else entry for entry in self.objects)
        return replace(self, objects=objects)


def describe_content(graph: Graph) -> str:
    """Return the content of a scene as text, without its id and cells; scenes with equal content
    have equal text.
    """
    # Facts are sorted, since scenes that name the same ones in another order are equal.
    names = [
        f"{entry.count} {entry.color or ''} {entry.kind}" for entry in graph.objects
    ]
    relations = [
        f"{names[relation.subject]}|{relation.preposition}|{names[relation.object]}"
        for relation in graph.relations
    ]
    facts = [graph.place, *sorted(names), *sorted(relations)]
    if graph.action is not None:
        theme = "" if graph.action.theme is None else names[graph.action.theme]
        facts.append(f"{names[graph.action.agent]}|{graph.action.verb}|{theme}")
    return ";".join(facts)


def compute_bucket(graph: Graph, buckets: int) -> int:
    """Return the number of a scene's bucket, 0 to buckets - 1, a hash of its content."""
    # A hash spreads scenes evenly over the parts, whatever they show.
    content_hash = hashlib.sha256(describe_content(graph).encode()).digest()
    return int.from_bytes(content_hash[:8], "big") % buckets
