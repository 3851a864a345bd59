"""Draw scenes at random, with the positions of their objects.

Each scene has a separate generator of random numbers, so that no scene depends on another scene.
"""

import hashlib
from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from waltz.scenes.graph import (
    PREPOSITIONS,
    SIZE,
    Action,
    Graph,
    Object,
    Relation,
    SpriteCell,
    compute_bucket,
)
from waltz.scenes.lexicon import (
    Kind,
    SceneVerb,
    read_kinds,
    read_places,
    read_scene_verbs,
)


class Zone(NamedTuple):
    """A rectangle in pixels of the image."""

    left: int
    top: int
    width: int
    height: int


class Square(NamedTuple):
    """A square in pixels of the image."""

    left: int
    top: int
    size: int


class Box(NamedTuple):
    """A square in percent of the square of an arrangement."""

    x: float
    y: float
    size: float


Cells = tuple[SpriteCell, ...]

HORIZON = 76
"""Top of the ground, in pixels from the top of the image."""
TOP = 40
"""Top of the zones, in pixels from the top of the image."""
LARGEST = 84
"""Largest side of a sprite in a group without relation, in pixels."""
LARGEST_ACTION = 150
"""Largest side of the square of one agent, in pixels."""
LARGEST_RELATION = 190
"""Largest side of the square of a relation, in pixels."""
FULL_HEIGHT = 120
"""Zones higher than this, in pixels, hold up to `MAX_COUNT` individuals; other zones hold
`MAX_COUNT_LOW`.
"""
MAX_COUNT, MAX_COUNT_LOW = 9, 6

SPLITS: dict[str, range] = {
    "benchmark": range(0, 2),
    "held-out": range(2, 3),
    "training": range(3, 10),
}
"""Tenths of all possible scenes that belong to each split, by content, so that splits share no
scene.
"""

SMALL = ("cat", "dog", "rabbit", "bird", "duck", "monkey")
"""Animals that can be on, under and in things."""
SMALL_GROUPS = ("food", "dishes", "toys", "things")
"""Groups of kinds that can be on, under and in things."""
COUNTS = (1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9)
"""Numbers of individuals of a group; a number that is listed more often is drawn more often."""


def draw_scene(index: int, seed: int, split: str = "benchmark") -> Graph:
    """Draw scene number `index` of a seed and split, one of `SPLITS`."""
    rng = _create_stable_generator(f"scenes:{split}:{seed}:{index}")
    while True:
        graph = _draw_graph(rng, f"{split}-{seed}-{index}")
        if compute_bucket(graph, 10) in SPLITS[split]:
            return graph


def draw_scenes(count: int, seed: int, split: str = "benchmark") -> list[Graph]:
    """Draw the first `count` scenes of a seed and split."""
    return [draw_scene(index, seed, split) for index in range(count)]


def create_generator(purpose: str, seed: int, graph: Graph) -> Random:
    """Return the generator of random numbers of one scene for one purpose and seed."""
    return Random(f"{purpose}:{seed}:{graph.id}")


def _create_stable_generator(name: str) -> Random:
    """Return a generator of random numbers that depends only on a name."""
    return Random(int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big"))


def remove_action(graph: Graph) -> Graph:
    """Return the scene without its action: the same objects and place, next to each other."""
    rng = _create_stable_generator(f"still:{graph.id}")
    zones = draw_zones(min(len(graph.objects), 3), rng)
    if len(graph.objects) > 3:
        # Four objects: the first column is split as the second one is.
        left, top, width, height = zones[0]
        half = height // 2
        zones[:1] = [
            Zone(left, top, width, half - 3),
            Zone(left, top + height - half + 3, width, half - 3),
        ]
    objects = []
    for entry, zone in zip(graph.objects, zones, strict=True):
        cells = place_group(read_kinds()[entry.kind], entry.count, zone, rng)
        objects.append(Object(entry.kind, cells, entry.color))
    return Graph(f"{graph.id}-still", graph.place, tuple(objects))


def _draw_graph(rng: Random, name: str) -> Graph:
    """Draw a place, an action, a relation or a group as the core of the scene, and up to two
    further groups.
    """
    place_name = rng.choice(list(read_places()))
    # More than half of the scenes have an action, which the most tasks are about.
    core = rng.choices(("action", "relation", "group"), (0.55, 0.3, 0.15))[0]
    weights = (0.25, 0.45, 0.3)
    if core == "group":
        weights = (0.4, 0.4, 0.2)
    extras = rng.choices((0, 1, 2), weights)[0]
    core_zone, *other_zones = draw_zones(1 + extras, rng)
    relations: tuple[Relation, ...] = ()
    action = None
    if core == "action":
        objects, action = _draw_action(rng, place_name, core_zone)
    elif core == "relation":
        objects, relations = _draw_relation(rng, place_name, core_zone)
    else:
        objects = [_draw_group(rng, place_name, core_zone, set())]
    for zone in other_zones:
        objects.append(
            _draw_group(rng, place_name, zone, {entry.kind for entry in objects})
        )
    return Graph(name, place_name, tuple(objects), relations, action)


def _draw_object(kind: Kind, cells: Cells, rng: Random) -> Object:
    """Draw the color of some individuals, if their kind has colors."""
    color = None
    if kind.colors:
        color = rng.choice(list(kind.colors))
    return Object(kind.name, cells, color)


def _list_fitting_kinds(
    place_name: str, excluded: set[str], names: Iterable[str] | None = None
) -> list[Kind]:
    """Return the kinds that occur at a place, among the named kinds or among all kinds."""
    if names is None:
        names = read_kinds()
    kinds = [read_kinds()[name] for name in names if name not in excluded]
    return [kind for kind in kinds if kind.occurs_at(place_name)]


def _draw_group(rng: Random, place_name: str, zone: Zone, excluded: set[str]) -> Object:
    """Draw some individuals of one kind."""
    kind = rng.choice(_list_fitting_kinds(place_name, excluded))
    maximum = MAX_COUNT_LOW
    if zone.height > FULL_HEIGHT:
        maximum = MAX_COUNT
    count = rng.choice([count for count in COUNTS if count <= maximum])
    return _draw_object(kind, place_group(kind, count, zone, rng), rng)


def _draw_action(
    rng: Random, place_name: str, zone: Zone
) -> tuple[list[Object], Action]:
    """Draw a verb that fits a place, its agents, and its themes if it has some."""
    fitting = [
        verb
        for verb in read_scene_verbs().values()
        if not verb.places or place_name in verb.places
    ]
    while True:
        verb = rng.choice(fitting)
        agents = _list_fitting_kinds(place_name, set(), verb.agents)
        if not agents:
            continue
        agent = rng.choice(agents)
        themes = _list_fitting_kinds(place_name, {agent.name}, verb.themes)
        if not themes and verb.themes:
            continue
        # Two agents have room for one theme each; agents without themes may be three.
        theme = rng.choice(themes) if themes else None
        count = 1
        if verb.items == 1:
            count = rng.choices((1, 2), (0.75, 0.25))[0]
        if theme is None:
            count = rng.choices((1, 2, 3), (0.65, 0.25, 0.1))[0]
        agent_cells, theme_cells = place_action(verb, agent, theme, count, zone, rng)
        objects = [_draw_object(agent, agent_cells, rng)]
        if theme is None:
            return objects, Action(verb.name, 0)
        objects.append(_draw_object(theme, theme_cells, rng))
        return objects, Action(verb.name, 0, 1)


def _draw_relation(
    rng: Random, place_name: str, zone: Zone
) -> tuple[list[Object], tuple[Relation, ...]]:
    """Draw a preposition, and subjects and landmarks that it can relate."""
    kinds = _list_fitting_kinds(place_name, set())
    while True:
        preposition = rng.choice(PREPOSITIONS)
        subject, landmark = rng.choice(kinds), rng.choice(kinds)
        can_relate = _RELATION_CHECKS[preposition](subject, landmark)
        if subject == landmark or not can_relate:
            continue
        # Most subjects are single. Three do not fit into a thing, and two landmarks fit only
        # side by side.
        weight_of_three = 0.15
        if preposition == "in":
            weight_of_three = 0.0
        subjects = rng.choices((1, 2, 3), (0.6, 0.25, weight_of_three))[0]
        landmarks = 1
        if preposition == "next to":
            landmarks = rng.choices((1, 2), (0.8, 0.2))[0]
        cells = place_relation(
            preposition, subject, subjects, landmark, landmarks, zone, rng
        )
        objects = [
            _draw_object(subject, cells[0], rng),
            _draw_object(landmark, cells[1], rng),
        ]
        return objects, (Relation(0, preposition, 1),)


def _is_small(kind: Kind) -> bool:
    """Return True if a kind can be on, under and in things."""
    return kind.group in SMALL_GROUPS or kind.name in SMALL


def _can_be_on(subject: Kind, landmark: Kind) -> bool:
    lies_still = subject.name not in ("balloon", "kite")
    return landmark.supports > 0 and _is_small(subject) and lies_still


def _can_be_under(subject: Kind, landmark: Kind) -> bool:
    is_large_enough = landmark.name != "table"
    fits = _is_small(subject) or (subject.is_person and is_large_enough)
    return landmark.shelters and fits


def _can_be_in(subject: Kind, landmark: Kind) -> bool:
    if subject.is_person:
        return landmark.contains and landmark.name == "canoe"
    is_bulky = subject.name in ("umbrella", "skateboard", "basket", "kite", "balloon")
    return landmark.contains and _is_small(subject) and not is_bulky


def _can_be_behind(subject: Kind, landmark: Kind) -> bool:
    is_large = landmark.group in ("furniture", "vehicles", "plants", "things")
    return is_large and subject.group not in ("food", "toys")


def _can_be_in_front_of(subject: Kind, landmark: Kind) -> bool:
    is_large = landmark.group not in ("food", "toys", "dishes")
    return is_large and subject.group not in ("furniture", "food")


def _can_be_over(subject: Kind, landmark: Kind) -> bool:
    return subject.flies and not landmark.flies


def _can_be_next_to(subject: Kind, landmark: Kind) -> bool:
    return True


_RELATION_CHECKS: dict[str, Callable[[Kind, Kind], bool]] = {
    "on": _can_be_on,
    "under": _can_be_under,
    "in": _can_be_in,
    "behind": _can_be_behind,
    "in front of": _can_be_in_front_of,
    "next to": _can_be_next_to,
    "over": _can_be_over,
}
"""Check by preposition whether scenes can have this relation between a subject and a landmark."""


def draw_zones(clusters: int, rng: Random) -> list[Zone]:
    """Draw one zone for each of one to three clusters, the largest first; columns are exchanged at
    random.
    """
    height = SIZE - TOP - 4
    half, low = SIZE // 2 - 6, height // 2 - 3
    if clusters == 1:
        return [Zone(8, TOP, SIZE - 16, height)]
    # Left edges of the column of the first zone and of the other column.
    first, second = SIZE // 2 + 4, 4
    if rng.random() < 0.5:
        first, second = second, first
    if clusters == 2:
        return [Zone(first, TOP, half, height), Zone(second, TOP, half, height)]
    upper = Zone(second, TOP, half, low)
    lower = Zone(second, TOP + height - low, half, low)
    return [Zone(first, TOP, half, height), upper, lower]


def split_zone(zone: Zone, count: int, largest: int = SIZE) -> list[Square]:
    """Compute `count` equal squares, as large as possible, that fill a zone upwards without
    touching.
    """
    left, top, width, height = zone
    # Of all numbers of columns, the one that gives the largest squares; of equally good ones the
    # smallest.
    best_size, best_columns = 0, 0
    for columns in range(1, count + 1):
        rows = -(-count // columns)  # rounded up
        size = min(width // columns, height // rows, largest)
        if size > best_size or not best_columns:
            best_size, best_columns = size, columns

    # Squares are centered in equal cells; the last row may have fewer, and stands in the middle.
    rows = -(-count // best_columns)
    squares = []
    for index in range(count):
        row, column = divmod(index, best_columns)
        in_row = min(best_columns, count - row * best_columns)
        across, down = width // in_row, height // rows
        row_left = left + (width - across * in_row) // 2
        x = row_left + column * across + (across - best_size) // 2
        y = top + height - (rows - row) * down + (down - best_size) // 2
        squares.append(Square(x, y, best_size))
    return squares


def place_group(kind: Kind, count: int, zone: Zone, rng: Random) -> Cells:
    """Draw the cells of a group without relation: a loose grid with jitter, in which no two cells
    touch.
    """
    # Each sprite is a little smaller than its square, in which it moves by the rest.
    mirrored = rng.random() < 0.5
    cells = []
    for left, top, size in split_zone(zone, count, LARGEST):
        sprite_size = max(8, int(size * 0.94 * kind.size))
        slack = size - sprite_size
        cells.append(
            SpriteCell(
                left + rng.randint(0, slack),
                top + rng.randint(0, slack),
                sprite_size,
                mirrored,
            )
        )
    return tuple(cells)


def place_action(
    verb: SceneVerb,
    agent: Kind,
    theme: Kind | None,
    count: int,
    zone: Zone,
    rng: Random,
) -> tuple[Cells, Cells]:
    """Draw the cells of the agents and themes of an action, one square of the arrangement for each
    agent.
    """
    mirrored = rng.random() < 0.5
    agent_box, theme_boxes = get_boxes(verb, agent, theme)
    agents, themes = [], []
    for square in split_zone(zone, count, LARGEST_ACTION):
        agents.append(
            _place_cell(
                agent_box, square, mirrored, is_turned(verb, "agent", agent), agent
            )
        )
        if theme is None:
            continue
        turned = is_turned(verb, "theme", theme)
        themes += [
            _place_cell(box, square, mirrored, turned, theme) for box in theme_boxes
        ]
    return tuple(agents), tuple(themes)


def get_boxes(
    verb: SceneVerb, agent: Kind, theme: Kind | None
) -> tuple[Box, list[Box]]:
    """Return the arrangement's boxes of agent and themes in percent, for these kinds.

    The arrangement of a verb is for people. It may have other boxes for animals (`animals`: of the
    agent and of the theme where it acts or is acted upon) and for themes that are not people
    (`things`).
    """
    drawing = verb.drawing
    agent_box = drawing.agent
    themes = drawing.theme
    if agent.group == "animals":
        agent_box = drawing.animals.agent or agent_box
        themes = drawing.animals.theme or themes
    if theme is None:
        return Box(*agent_box), []
    if theme.group != "people":
        themes = drawing.things.theme or themes
    if theme.group == "animals":
        themes = drawing.animals.theme or themes
    return Box(*agent_box), [Box(*box) for box in themes]


def is_turned(verb: SceneVerb, role: str, kind: Kind) -> bool:
    """Return True if the sprite of a role is mirrored in the unmirrored arrangement: people look
    right, others left.
    """
    faces = {"agent": verb.drawing.agent_faces, "theme": verb.drawing.theme_faces}
    looks = "right" if kind.is_person else "left"
    return faces[role] != looks


def _place_cell(
    box: Box, square: Square, mirrored: bool, turned: bool, kind: Kind
) -> SpriteCell:
    """Return the cell of a box in a square; a smaller or larger kind stands in the middle of the
    lower edge.
    """
    left, top, size = square
    x, y, sprite_size = (value * size / 100 for value in box)
    x, y, sprite_size = (
        x + sprite_size * (1 - kind.scale) / 2,
        y + sprite_size * (1 - kind.scale),
        sprite_size * kind.scale,
    )
    if mirrored:
        x = size - x - sprite_size
    return SpriteCell(
        left + round(x), top + round(y), max(6, round(sprite_size)), mirrored != turned
    )


def place_relation(
    preposition: str,
    subject: Kind,
    subjects: int,
    landmark: Kind,
    landmarks: int,
    zone: Zone,
    rng: Random,
) -> tuple[Cells, Cells]:
    """Draw the cells of subjects and landmarks in a relation; several landmarks are possible for
    `next to` only.
    """
    square = split_zone(zone, 1, LARGEST_RELATION)[0]
    mirrored = rng.random() < 0.5
    if preposition == "next to":
        left, top, size = square
        half, low = size * 48 // 100, size * 70 // 100
        subject_zone = Zone(left, top + size - low, half, low)
        landmark_zone = Zone(left + size - half, top + size - low, half, low)
        if mirrored:
            subject_zone, landmark_zone = landmark_zone, subject_zone
        return place_group(subject, subjects, subject_zone, rng), place_group(
            landmark, landmarks, landmark_zone, rng
        )
    subject_frame, landmark_frame = _arrange_relation(preposition, subjects, landmark)
    subject_cells = _place_row(subject, subjects, subject_frame, square, mirrored)
    return subject_cells, _place_row(landmark, 1, landmark_frame, square, mirrored)


class Frame(NamedTuple):
    """A rectangle in percent of the square of a relation."""

    x: float
    y: float
    width: float
    height: float


def _arrange_relation(
    preposition: str, subjects: int, landmark: Kind
) -> tuple[Frame, Frame]:
    """Return the frames of subjects and landmark of a relation; several subjects need more room."""
    is_single = subjects == 1
    if preposition == "on":
        big = 62 if is_single else 70
        surface = 100 - big + landmark.supports * big
        tall = min(surface + 2, 42)
        left = (100 - big) / 2
        return Frame(left, surface + 2 - tall, big, tall), Frame(
            left, 100 - big, big, big
        )
    if preposition == "under":
        return Frame(24, 64, 52, 36), Frame(8, 0, 84, 84)
    if preposition == "in":
        high = min(60 / subjects, 52)
        return Frame(20, 42 + 0.4 * high - high, 60, high), Frame(16, 34, 66, 66)
    if preposition == "behind":
        left, wide = (10, 62) if is_single else (4, 92)
        return Frame(left, 0, wide, 62), Frame(34, 40, 58, 58)
    if preposition == "in front of":
        wide = 48 if is_single else 80
        return Frame((110 - wide) / 2, 52, wide, 48), Frame(12, 2, 68, 68)
    return Frame(20, 0, 60, 38), Frame(24, 50, 52, 50)  # over


def _place_row(
    kind: Kind, count: int, frame: Frame, square: Square, mirrored: bool
) -> Cells:
    """Return a row of sprites, centered, that stands on the lower edge of a frame."""
    left, top, size = square
    scale = size / 100
    sprite_size = max(
        6, int(min(frame.width / count, frame.height) * kind.scale * scale)
    )
    start = frame.x * scale + (frame.width * scale - sprite_size * count) / 2
    if mirrored:
        start = size - start - sprite_size * count
    row_top = top + int((frame.y + frame.height) * scale) - sprite_size
    return tuple(
        SpriteCell(
            left + round(start) + sprite_size * index, row_top, sprite_size, mirrored
        )
        for index in range(count)
    )
