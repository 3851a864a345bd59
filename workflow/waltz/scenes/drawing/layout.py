"""Positions of things: zones of the image, and squares in them for actions, relations and plain groups."""

from random import Random

from waltz.scenes.world.graph import SIZE, Cell
from waltz.scenes.world.lexicon import Kind, Verb, read_kinds

Zone = tuple[int, int, int, int]
"""Left, top, width and height in pixels."""

HORIZON = 76
"""Where the ground begins, in pixels from the top."""

TOP = 40
LARGEST = 84


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
        agents.append(_place_cell(agent_box, square, mirrored, _is_mirrored(verb, "agent", agent), agent))
        for box in theme_boxes:
            assert theme is not None
            themes.append(_place_cell(box, square, mirrored, _is_mirrored(verb, "theme", theme), theme))
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


def _is_mirrored(verb: Verb, role: str, kind: Kind) -> bool:
    """Return True if the sprite of a role is mirrored in the unmirrored arrangement: people look right, others left."""
    faces = verb.drawing.get(f"{role}_faces", "right" if role == "agent" else "left")
    return bool(faces != ("right" if kind.group == "people" else "left"))


def _place_cell(box: tuple[float, ...], square: tuple[int, int, int], mirrored: bool, turned: bool, kind: Kind) -> Cell:
    left, top, size = square
    x, y, side = (value * size / 100 for value in box)
    shrink = kind.size if kind.group == "people" else 1.0
    x, y, side = x + side * (1 - shrink) / 2, y + side * (1 - shrink), side * shrink
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
        side = max(6, int(min(width / count, height) * (kind.size if kind.group == "people" else 1.0) * scale))
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
    if preposition == "next to":
        half, low = size * 48 // 100, size * 70 // 100
        sides = [(left, top + size - low, half, low), (left + size - half, top + size - low, half, low)]
        if mirrored:
            sides.reverse()
        return place_group(subject, subjects, sides[0], rng), place_group(landmark, landmarks, sides[1], rng)
    raise ValueError(f"unknown preposition {preposition!r}")


def get_kind(name: str) -> Kind:
    """Return the kind of a name."""
    return read_kinds()[name]
