"""Scenes drawn at random, each from its own generator, so that none depends on another."""

import hashlib
from random import Random

from waltz.scenes.drawing import layout
from waltz.scenes.world.graph import Action, Cell, Graph, Object, Relation, compute_bucket
from waltz.scenes.world.lexicon import Kind, Verb, read_kinds, read_places, read_verbs

BENCHMARK_SCENES = 400

SPLITS: dict[str, range] = {"benchmark": range(0, 2), "held-out": range(2, 3), "training": range(3, 10)}
"""Tenths of all possible scenes, by their content, that belong to each split: so no two splits share an equal scene."""

SMALL = ("cat", "dog", "rabbit", "bird", "duck", "monkey")
COUNTS = (1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9)


def draw_scene(index: int, seed: int, split: str = "benchmark") -> Graph:
    """Draw scene number `index` of a seed and split.

    Raises:
        KeyError: The split is none of `SPLITS`.
    """
    rng = Random(int.from_bytes(hashlib.sha256(f"scenes:{split}:{seed}:{index}".encode()).digest()[:16], "big"))
    while True:
        graph = _draw_graph(rng, f"{split}-{seed}-{index}")
        if compute_bucket(graph, 10) in SPLITS[split]:
            return graph


def draw_scenes(count: int, seed: int, split: str = "benchmark") -> list[Graph]:
    """Draw the first `count` scenes of a seed and split."""
    return [draw_scene(index, seed, split) for index in range(count)]


def remove_action(graph: Graph) -> Graph:
    """Return the scene without its action: the same objects and place, side by side."""
    rng = Random(int.from_bytes(hashlib.sha256(f"still:{graph.id}".encode()).digest()[:16], "big"))
    zones = layout.draw_zones(min(len(graph.objects), 3), rng)
    if len(graph.objects) > 3:
        left, top, width, height = zones[0]
        zones[:1] = [
            (left, top, width, height // 2 - 3),
            (left, top + height - height // 2 + 3, width, height // 2 - 3),
        ]
    objects = tuple(
        Object(entry.kind, layout.place_group(read_kinds()[entry.kind], entry.count, zone, rng), entry.colour)
        for entry, zone in zip(graph.objects, zones, strict=True)
    )
    return Graph(f"{graph.id}-still", graph.place, objects)


def _draw_graph(rng: Random, name: str) -> Graph:
    place = rng.choice(list(read_places()))
    core = rng.choices(("action", "relation", "group"), (0.55, 0.3, 0.15))[0]
    extras = rng.choices((0, 1, 2), (0.25, 0.45, 0.3) if core != "group" else (0.4, 0.4, 0.2))[0]
    zones = layout.draw_zones(1 + extras, rng)
    objects: list[Object] = []
    relations: tuple[Relation, ...] = ()
    action = None
    if core == "action":
        objects, action = _draw_action(rng, place, zones[0])
    elif core == "relation":
        objects, relations = _draw_relation(rng, place, zones[0])
    else:
        objects = [_draw_group(rng, place, zones[0], set())]
    for zone in zones[1:]:
        objects.append(_draw_group(rng, place, zone, {entry.kind for entry in objects}))
    return Graph(name, place, tuple(objects), relations, action)


def _draw_object(kind: Kind, cells: tuple[Cell, ...], rng: Random) -> Object:
    return Object(kind.name, cells, rng.choice(list(kind.colours)) if kind.colours else None)


def _list_fitting_kinds(names: tuple[str, ...], place: str, excluded: set[str]) -> list[Kind]:
    return [read_kinds()[name] for name in names if read_kinds()[name].occurs_at(place) and name not in excluded]


def _draw_group(rng: Random, place: str, zone: layout.Zone, excluded: set[str]) -> Object:
    kind = rng.choice(_list_fitting_kinds(tuple(read_kinds()), place, excluded))
    most = 9 if zone[3] > 120 else 6
    count = rng.choice([count for count in COUNTS if count <= most])
    return _draw_object(kind, layout.place_group(kind, count, zone, rng), rng)


def _draw_action(rng: Random, place: str, zone: layout.Zone) -> tuple[list[Object], Action]:
    fitting = [verb for verb in read_verbs().values() if not verb.places or place in verb.places]
    while True:
        verb: Verb = rng.choice(fitting)
        agents = _list_fitting_kinds(verb.agents, place, set())
        if not agents:
            continue
        agent = rng.choice(agents)
        themes = _list_fitting_kinds(verb.themes, place, {agent.name})
        if verb.themes and not themes:
            continue
        theme = rng.choice(themes) if themes else None
        count = rng.choices((1, 2), (0.75, 0.25))[0] if verb.items == 1 else 1
        if theme is None:
            count = rng.choices((1, 2, 3), (0.65, 0.25, 0.1))[0]
        agent_cells, theme_cells = layout.place_action(verb, agent, theme, count, zone, rng)
        objects = [_draw_object(agent, agent_cells, rng)]
        if theme is None:
            return objects, Action(verb.name, 0)
        return [*objects, _draw_object(theme, theme_cells, rng)], Action(verb.name, 0, 1)


def _draw_relation(rng: Random, place: str, zone: layout.Zone) -> tuple[list[Object], tuple[Relation, ...]]:
    while True:
        preposition = rng.choice(("on", "under", "in", "behind", "in front of", "next to", "over"))
        subject, landmark = (rng.choice(_list_fitting_kinds(tuple(read_kinds()), place, set())) for _ in range(2))
        if subject == landmark or not can_relate(preposition, subject, landmark):
            continue
        subjects = rng.choices((1, 2, 3), (0.6, 0.25, 0.0 if preposition == "in" else 0.15))[0]
        landmarks = rng.choices((1, 2), (0.8, 0.2))[0] if preposition == "next to" else 1
        cells = layout.place_relation(preposition, subject, subjects, landmark, landmarks, zone, rng)
        return [_draw_object(subject, cells[0], rng), _draw_object(landmark, cells[1], rng)], (
            Relation(0, preposition, 1),
        )


def can_relate(preposition: str, subject: Kind, landmark: Kind) -> bool:
    """Return True if scenes can have this relation between objects of two kinds."""
    small = subject.group in ("food", "dishes", "toys", "things") or subject.name in SMALL
    if preposition == "on":
        return landmark.supports > 0 and small and subject.name not in ("balloon", "kite")
    if preposition == "under":
        return landmark.shelters and (small or (subject.group == "people" and landmark.name != "table"))
    if preposition == "in":
        fits = small and subject.name not in ("umbrella", "skateboard", "basket", "kite", "balloon")
        return landmark.contains and (fits or (subject.group == "people" and landmark.name == "canoe"))
    if preposition == "behind":
        return landmark.group in ("furniture", "vehicles", "plants", "things") and subject.group not in ("food", "toys")
    if preposition == "in front of":
        return subject.group not in ("furniture", "food") and landmark.group not in ("food", "toys", "dishes")
    if preposition == "over":
        return subject.flies and not landmark.flies
    return True
