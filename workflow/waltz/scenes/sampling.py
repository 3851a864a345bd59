"""Scenes drawn at random, and the positions of their objects.

Each scene has its own generator, so that none depends on another.
"""

import hashlib
from collections.abc import Iterable
from random import Random

from waltz.scenes.graph import PREPOSITIONS, SIZE, Action, Cell, Graph, Object, Relation, compute_bucket
from waltz.scenes.lexicon import Kind, Verb, read_kinds, read_places, read_verbs

Zone = tuple[int, int, int, int]
"""Left, top, width and height in pixels."""

HORIZON = 76
"""Where the ground begins, in pixels from the top."""

TOP = 40
LARGEST = 84


SPLITS: dict[str, range] = {"benchmark": range(0, 2), "held-out": range(2, 3), "training": range(3, 10)}
"""Tenths of all possible scenes, by their content, that belong to each split: so no two splits share an equal scene."""

SMALL = ("cat", "dog", "rabbit", "bird", "duck", "monkey")
COUNTS = (1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9)


def draw_scene(index: int, seed: int, split: str = "benchmark") -> Graph:
    """Draw scene number `index` of a seed and split, one of `SPLITS`."""
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
    zones = draw_zones(min(len(graph.objects), 3), rng)
    if len(graph.objects) > 3:
        left, top, width, height = zones[0]
        zones[:1] = [
            (left, top, width, height // 2 - 3),
            (left, top + height - height // 2 + 3, width, height // 2 - 3),
        ]
    objects = tuple(
        Object(entry.kind, place_group(read_kinds()[entry.kind], entry.count, zone, rng), entry.colour)
        for entry, zone in zip(graph.objects, zones, strict=True)
    )
    return Graph(f"{graph.id}-still", graph.place, objects)


def _draw_graph(rng: Random, name: str) -> Graph:
    place = rng.choice(list(read_places()))
    core = rng.choices(("action", "relation", "group"), (0.55, 0.3, 0.15))[0]
    extras = rng.choices((0, 1, 2), (0.25, 0.45, 0.3) if core != "group" else (0.4, 0.4, 0.2))[0]
    zones = draw_zones(1 + extras, rng)
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


def _list_fitting_kinds(place: str, excluded: set[str], names: Iterable[str] | None = None) -> list[Kind]:
    """Return those of some kinds, or of all, that occur at a place."""
    kinds = [read_kinds()[name] for name in (read_kinds() if names is None else names) if name not in excluded]
    return [kind for kind in kinds if kind.occurs_at(place)]


def _draw_group(rng: Random, place: str, zone: Zone, excluded: set[str]) -> Object:
    kind = rng.choice(_list_fitting_kinds(place, excluded))
    most = 9 if zone[3] > 120 else 6
    count = rng.choice([count for count in COUNTS if count <= most])
    return _draw_object(kind, place_group(kind, count, zone, rng), rng)


def _draw_action(rng: Random, place: str, zone: Zone) -> tuple[list[Object], Action]:
    fitting = [verb for verb in read_verbs().values() if not verb.places or place in verb.places]
    while True:
        verb = rng.choice(fitting)
        agents = _list_fitting_kinds(place, set(), verb.agents)
        if not agents:
            continue
        agent = rng.choice(agents)
        themes = _list_fitting_kinds(place, {agent.name}, verb.themes)
        if verb.themes and not themes:
            continue
        theme = rng.choice(themes) if themes else None
        count = rng.choices((1, 2), (0.75, 0.25))[0] if verb.items == 1 else 1
        if theme is None:
            count = rng.choices((1, 2, 3), (0.65, 0.25, 0.1))[0]
        agent_cells, theme_cells = place_action(verb, agent, theme, count, zone, rng)
        objects = [_draw_object(agent, agent_cells, rng)]
        if theme is None:
            return objects, Action(verb.name, 0)
        return [*objects, _draw_object(theme, theme_cells, rng)], Action(verb.name, 0, 1)


def _draw_relation(rng: Random, place: str, zone: Zone) -> tuple[list[Object], tuple[Relation, ...]]:
    kinds = _list_fitting_kinds(place, set())
    while True:
        preposition = rng.choice(PREPOSITIONS)
        subject, landmark = rng.choice(kinds), rng.choice(kinds)
        if subject == landmark or not _can_relate(preposition, subject, landmark):
            continue
        subjects = rng.choices((1, 2, 3), (0.6, 0.25, 0.0 if preposition == "in" else 0.15))[0]
        landmarks = rng.choices((1, 2), (0.8, 0.2))[0] if preposition == "next to" else 1
        cells = place_relation(preposition, subject, subjects, landmark, landmarks, zone, rng)
        objects = [_draw_object(subject, cells[0], rng), _draw_object(landmark, cells[1], rng)]
        return objects, (Relation(0, preposition, 1),)


def _can_relate(preposition: str, subject: Kind, landmark: Kind) -> bool:
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


def draw_zones(clusters: int, rng: Random) -> list[Zone]:
    """Draw one zone for each of one to three clusters, the largest first; columns change sides at random."""
    height = SIZE - TOP - 4
    half, low = SIZE // 2 - 6, height // 2 - 3
    if clusters == 1:
        return [(8, TOP, SIZE - 16, height)]
    first, second = (4, SIZE // 2 + 4) if rng.random() < 0.5 else (SIZE // 2 + 4, 4)
    if clusters == 2:
        return [(first, TOP, half, height), (second, TOP, half, height)]
    return [(first, TOP, half, height), (second, TOP, half, low), (second, TOP + height - low, half, low)]


def split_zone(zone: Zone, count: int, largest: int = SIZE) -> list[tuple[int, int, int]]:
    """Compute left, top and size of `count` equal squares that fill a zone upwards without touching."""
    left, top, width, height = zone
    sizes = [
        (min(width // columns, height // -(-count // columns), largest), columns) for columns in range(1, count + 1)
    ]
    size, columns = max(sizes, key=lambda pair: (pair[0], -pair[1]))
    rows = -(-count // columns)
    boxes = []
    for index in range(count):
        row, column = divmod(index, columns)
        in_row = min(columns, count - row * columns)
        across, down = width // in_row, height // rows
        x = left + (width - across * in_row) // 2 + column * across + (across - size) // 2
        y = top + height - (rows - row) * down + (down - size) // 2
        boxes.append((x, y, size))
    return boxes


def place_group(kind: Kind, count: int, zone: Zone, rng: Random) -> tuple[Cell, ...]:
    """Draw the cells of a group without relation: a loose grid with jitter, in which no two cells touch."""
    mirrored = rng.random() < 0.5
    cells = []
    for left, top, size in split_zone(zone, count, LARGEST):
        side = max(8, int(size * 0.94 * kind.size))
        slack = size - side
        cells.append(Cell(left + rng.randint(0, slack), top + rng.randint(0, slack), side, mirrored))
    return tuple(cells)


def place_action(
    verb: Verb, agent: Kind, theme: Kind | None, count: int, zone: Zone, rng: Random
) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
    """Draw the cells of the agents and themes of an action, one square of the arrangement for each agent."""
    mirrored = rng.random() < 0.5
    agent_box, theme_boxes = get_boxes(verb, agent, theme)
    agents, themes = [], []
    for square in split_zone(zone, count, 150):
        agents.append(_place_cell(agent_box, square, mirrored, is_turned(verb, "agent", agent), agent))
        if theme is not None:
            turned = is_turned(verb, "theme", theme)
            themes += [_place_cell(box, square, mirrored, turned, theme) for box in theme_boxes]
    return tuple(agents), tuple(themes)


def get_boxes(verb: Verb, agent: Kind, theme: Kind | None) -> tuple[tuple[float, ...], list[tuple[float, ...]]]:
    """Return the arrangement's boxes of agent and themes in percent, for these kinds."""
    entry = verb.drawing
    special = {}
    if agent.group == "animals":
        special.update(entry.get("animals", {}))
    if theme is not None and theme.group != "people":
        special.update({k: v for k, v in entry.get("things", {}).items() if k == "theme"})
        if theme.group == "animals":
            special.update({k: v for k, v in entry.get("animals", {}).items() if k == "theme"})
    agent_box = special.get("agent", entry["agent"])
    if theme is None:
        return tuple(agent_box), []
    theme_box = special.get("theme", entry["theme"])
    return tuple(agent_box), [tuple(box) for box in (theme_box if isinstance(theme_box[0], list) else [theme_box])]


def is_turned(verb: Verb, role: str, kind: Kind) -> bool:
    """Return True if the sprite of a role is mirrored in the unmirrored arrangement: people look right, others left."""
    faces = verb.drawing.get(f"{role}_faces", "right" if role == "agent" else "left")
    return bool(faces != ("right" if kind.group == "people" else "left"))


def _place_cell(box: tuple[float, ...], square: tuple[int, int, int], mirrored: bool, turned: bool, kind: Kind) -> Cell:
    left, top, size = square
    x, y, side = (value * size / 100 for value in box)
    x, y, side = x + side * (1 - kind.scale) / 2, y + side * (1 - kind.scale), side * kind.scale
    if mirrored:
        x = size - x - side
    return Cell(left + round(x), top + round(y), max(6, round(side)), mirrored != turned)


def place_relation(
    preposition: str, subject: Kind, subjects: int, landmark: Kind, landmarks: int, zone: Zone, rng: Random
) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
    """Draw the cells of subjects and landmarks in a relation; several landmarks are possible for `next to` only."""
    left, top, size = split_zone(zone, 1, 190)[0]
    mirrored = rng.random() < 0.5

    def cells(kind: Kind, count: int, x: float, y: float, width: float, height: float) -> tuple[Cell, ...]:
        """Return a row of sprites, centred, that stands on the lower edge of a box in percent."""
        scale = size / 100
        side = max(6, int(min(width / count, height) * kind.scale * scale))
        start = x * scale + (width * scale - side * count) / 2
        if mirrored:
            start = size - start - side * count
        return tuple(
            Cell(left + round(start) + side * index, top + int((y + height) * scale) - side, side, mirrored)
            for index in range(count)
        )

    if preposition == "on":
        big = 62 if subjects == 1 else 70
        surface = 100 - big + landmark.supports * big
        tall = min(surface + 2, 42)
        return cells(subject, subjects, (100 - big) / 2, surface + 2 - tall, big, tall), cells(
            landmark, 1, (100 - big) / 2, 100 - big, big, big
        )
    if preposition == "under":
        return cells(subject, subjects, 24, 64, 52, 36), cells(landmark, 1, 8, 0, 84, 84)
    if preposition == "in":
        side = min(60 / subjects, 52)
        return cells(subject, subjects, 20, 42 + 0.4 * side - side, 60, side), cells(landmark, 1, 16, 34, 66, 66)
    if preposition == "behind":
        wide = 62 if subjects == 1 else 92
        return cells(subject, subjects, 4 if subjects > 1 else 10, 0, wide, 62), cells(landmark, 1, 34, 40, 58, 58)
    if preposition == "in front of":
        wide = 48 if subjects == 1 else 80
        return cells(subject, subjects, (110 - wide) / 2, 52, wide, 48), cells(landmark, 1, 12, 2, 68, 68)
    if preposition == "over":
        return cells(subject, subjects, 20, 0, 60, 38), cells(landmark, 1, 24, 50, 52, 50)
    half, low = size * 48 // 100, size * 70 // 100
    sides = [(left, top + size - low, half, low), (left + size - half, top + size - low, half, low)]
    if mirrored:
        sides.reverse()
    return place_group(subject, subjects, sides[0], rng), place_group(landmark, landmarks, sides[1], rng)
