"""Scenes as images: sprites over a background, actions by how the sprites are arranged."""

from io import BytesIO

from PIL import Image, ImageDraw

from waltz.scenes.drawing.backgrounds import draw_background
from waltz.scenes.drawing.layout import get_boxes
from waltz.scenes.drawing.sprites import draw_sprite, read_emoji
from waltz.scenes.world.graph import SIZE, Cell, Graph, Object
from waltz.scenes.world.lexicon import read_kinds, read_verbs

COVERING_PREPOSITIONS = ("in", "behind")
"""Relations in which the landmark is drawn over the subject."""


def render_scene(graph: Graph) -> Image.Image:
    """Render the scene as a 256 × 256 px RGB image."""
    image = draw_background(graph.place).copy()
    related = {index for relation in graph.relations for index in (relation.subject, relation.object)}
    if graph.action is not None:
        related |= {graph.action.agent} | ({graph.action.theme} if graph.action.theme is not None else set())
    for index, entry in enumerate(graph.objects):
        if index not in related:
            _paste(image, entry, range(entry.count), "stand")
    for relation in graph.relations:
        pair = [graph.objects[relation.object], graph.objects[relation.subject]]
        for entry in reversed(pair) if relation.preposition in COVERING_PREPOSITIONS else pair:
            _paste(image, entry, range(entry.count), "stand")
    if graph.action is not None:
        _draw_action(image, graph)
    return image


def render_png(graph: Graph) -> bytes:
    """Render the scene as PNG, the same bytes for the same graph and versions of Pillow and Twemoji."""
    file = BytesIO()
    render_scene(graph).save(file, format="PNG", compress_level=6, optimize=False)
    return file.getvalue()


def _paste(image: Image.Image, entry: Object, which: range, pose: str) -> None:
    for index in which:
        cell = entry.cells[index]
        picture = draw_sprite(read_kinds()[entry.kind], entry.colour, pose, cell.size, cell.mirrored)
        image.paste(picture, (cell.left, cell.top), picture)


def _draw_action(image: Image.Image, graph: Graph) -> None:
    assert graph.action is not None
    agent, theme = graph.agent, graph.theme
    assert agent is not None
    verb = read_verbs()[graph.action.verb]
    entry = verb.drawing
    kind = read_kinds()[agent.kind]
    pose = entry.get("pose", "stand")
    agent_box, _ = get_boxes(verb, kind, read_kinds()[theme.kind] if theme else None)
    for index, cell in enumerate(agent.cells):
        indices = range(index, index + 1)
        if theme is not None and entry.get("front") != "theme":
            _paste(image, theme, graph.get_theme_indices(index), entry.get("theme_pose", "stand"))
        _paste(image, agent, indices, pose)
        if theme is not None and entry.get("front") == "theme":
            _paste(image, theme, graph.get_theme_indices(index), entry.get("theme_pose", "stand"))
        turned = entry.get("agent_faces", "right") != ("right" if kind.group == "people" else "left")
        _decorate(image, entry, _Square(cell, agent_box, kind.size if kind.group == "people" else 1.0, turned))


class _Square:
    """The square of an arrangement, found again from where its agent stands."""

    def __init__(self, cell: Cell, box: tuple[float, ...], shrink: float, turned: bool) -> None:
        self.mirrored = cell.mirrored != turned
        self.size = cell.size / shrink / box[2] * 100
        x = box[0] + box[2] * (1 - shrink) / 2
        share = box[2] * shrink
        self.left = cell.left - self.size * ((100 - x - share) if self.mirrored else x) / 100
        self.top = cell.top - self.size * (box[1] + box[2] * (1 - shrink)) / 100

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return a point in percent of the square, in pixels of the image."""
        return self.left + self.size * ((100 - x) if self.mirrored else x) / 100, self.top + self.size * y / 100


def _decorate(image: Image.Image, entry: dict[str, list[list[float]]], square: _Square) -> None:
    pen = ImageDraw.Draw(image)
    thick = max(1, round(square.size / 60))
    for line in entry.get("lines", []):
        ends = [square.point(*line[:2]), square.point(*line[2:])]
        pen.line(ends, fill=(255, 255, 255), width=thick + 2)
        pen.line(ends, fill=(40, 44, 60), width=thick)
    if "rope" in entry:
        x0, y0, x1, y1 = (float(value) for value in entry["rope"])  # type: ignore[arg-type]
        pen.line([square.point(x0, y0), square.point(x1, y1)], fill=(120, 72, 30), width=thick + 2)
    if entry.get("water"):
        (left, top), (right, bottom) = square.point(0, 62), square.point(100, 98)
        pen.ellipse((min(left, right), top, max(left, right), bottom), fill=(84, 170, 224))
        for share in (12, 38, 64):
            (start, above), (end, _) = square.point(share, 70), square.point(share + 24, 70)
            wave = (min(start, end), above, max(start, end), above + square.size * 0.1)
            pen.arc(wave, 180, 360, fill=(226, 244, 252), width=2)
    for code, x, y, width in entry.get("props", []):
        side = max(5, round(width * square.size / 100))
        left, top = square.point(x + (width if square.mirrored else 0), y)
        picture = read_emoji(str(code)).resize((side, side), Image.Resampling.LANCZOS)
        if square.mirrored:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        image.paste(picture, (min(max(round(left), 0), SIZE - side), max(round(top), 0)), picture)
