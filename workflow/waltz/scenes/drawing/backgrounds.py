"""Backgrounds: one drawing for each place, the same for every scene there."""

from collections.abc import Callable
from functools import cache
from random import Random

from PIL import Image, ImageDraw

from waltz.scenes.drawing.layout import HORIZON
from waltz.scenes.world.graph import SIZE

Draw = ImageDraw.ImageDraw


@cache
def draw_background(place: str) -> Image.Image:
    """Draw the empty place, 256 × 256 px RGB."""
    image = Image.new("RGB", (SIZE, SIZE))
    _PAINTERS[place](ImageDraw.Draw(image), Random(0))
    return image


def _draw_bands(draw: Draw, *bands: tuple[int, tuple[int, int, int]]) -> None:
    for top, colour in bands:
        draw.rectangle((0, top, SIZE, SIZE), fill=colour)


def _draw_indoors(draw: Draw, rng: Random) -> None:
    _draw_bands(draw, (0, (246, 233, 208)), (HORIZON + 34, (214, 178, 136)))
    draw.rectangle((0, HORIZON + 30, SIZE, HORIZON + 35), fill=(255, 252, 244))
    for x in range(-SIZE, 2 * SIZE, 44):
        draw.line((SIZE // 2 + (x - SIZE // 2) // 2, HORIZON + 36, x, SIZE), fill=(200, 163, 121))
    draw.rectangle((150, 8, 226, 62), fill=(255, 255, 255))
    for left in (154, 190):
        draw.rectangle((left, 12, left + 32, 58), fill=(168, 214, 240))
    draw.rectangle((28, 14, 84, 52), fill=(150, 104, 64))
    draw.rectangle((32, 18, 80, 48), fill=(226, 238, 222))
    draw.polygon([(34, 47), (52, 26), (66, 47)], fill=(126, 168, 132))


def _draw_street(draw: Draw, rng: Random) -> None:
    _draw_bands(draw, (0, (190, 222, 244)), (HORIZON, (196, 192, 186)), (HORIZON + 22, (168, 170, 174)))
    left = 0
    for width, height, colour in (
        (44, 52, (214, 190, 170)),
        (52, 70, (178, 176, 196)),
        (40, 44, (222, 206, 178)),
        (60, 62, (196, 172, 162)),
        (60, 50, (186, 196, 200)),
    ):
        draw.rectangle((left, HORIZON - height, left + width, HORIZON), fill=colour)
        for x in range(left + 7, left + width - 8, 14):
            for y in range(HORIZON - height + 8, HORIZON - 10, 14):
                draw.rectangle((x, y, x + 6, y + 7), fill=(236, 244, 248))
        left += width
    draw.line((0, HORIZON + 22, SIZE, HORIZON + 22), fill=(142, 140, 138), width=2)
    for x in range(8, SIZE, 52):
        draw.rectangle((x, 164, x + 28, 168), fill=(246, 246, 240))


def _draw_grass(draw: Draw, rng: Random) -> None:
    _draw_bands(draw, (0, (176, 220, 248)), (HORIZON, (150, 208, 112)))
    draw.ellipse((206, 8, 240, 42), fill=(255, 224, 110))
    draw.ellipse((-60, HORIZON - 22, 120, HORIZON + 40), fill=(150, 208, 112))
    for _ in range(150):
        x, y = rng.randrange(SIZE), rng.randrange(HORIZON + 6, SIZE)
        draw.line((x, y, x + 2, y - 5), fill=(116, 182, 84))


def _draw_beach(draw: Draw, rng: Random) -> None:
    _draw_bands(draw, (0, (184, 228, 250)), (52, (64, 156, 212)), (HORIZON + 18, (244, 224, 172)))
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
    draw.polygon([(0, HORIZON), (50, 26), (104, HORIZON)], fill=(202, 216, 232))
    draw.polygon([(34, 40), (50, 26), (67, 40)], fill=(250, 252, 255))
    draw.polygon([(120, HORIZON), (188, 16), (256, HORIZON)], fill=(194, 208, 226))
    draw.polygon([(166, 35), (188, 16), (210, 35)], fill=(250, 252, 255))
    draw.ellipse((60, HORIZON - 10, 330, HORIZON + 40), fill=(236, 242, 250))
    for _ in range(70):
        x, y = rng.randrange(SIZE), rng.randrange(SIZE)
        shade = (255, 255, 255) if y < HORIZON else (210, 222, 238)
        draw.ellipse((x, y, x + 3, y + 3), fill=shade)


def _draw_night(draw: Draw, rng: Random) -> None:
    _draw_bands(draw, (0, (22, 28, 68)), (HORIZON, (62, 74, 112)))
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
