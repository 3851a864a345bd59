"""A contact sheet: scenes with a caption each, and statements that the oracle calls true and false."""

import textwrap
from collections.abc import Sequence
from random import Random

from PIL import Image, ImageDraw, ImageFont

from waltz.scenes.drawing import render_scene
from waltz.scenes.graph import SIZE, Graph
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.foils import draw_foils

SCENES = 24
COLUMNS = 6
TEXT = 134
MARGIN = 10
WIDTH = 46
"""Characters of a line."""

BLACK, GREEN, RED = (20, 20, 20), (0, 110, 40), (170, 20, 20)


def draw_contact_sheet(graphs: Sequence[Graph], seed: int) -> Image.Image:
    """Draw an RGB image of the first 24 scenes: below each a caption, true (green) and false texts (red)."""
    scenes = graphs[:SCENES]
    rows = -(-len(scenes) // COLUMNS)
    width, height = COLUMNS * (SIZE + MARGIN) + MARGIN, rows * (SIZE + TEXT) + MARGIN
    sheet = Image.new("RGB", (width, height), (255, 255, 255))
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=11)
    for index, graph in enumerate(scenes):
        left = MARGIN + (index % COLUMNS) * (SIZE + MARGIN)
        top = MARGIN + (index // COLUMNS) * (SIZE + TEXT)
        sheet.paste(render_scene(graph), (left, top))
        line = top + SIZE + 3
        for text, colour in _choose_texts(graph, Random(f"sheet:{seed}:{graph.id}")):
            for part in textwrap.wrap(text, WIDTH):
                pen.text((left, line), part, fill=colour, font=font)
                line += 13
    return sheet


def _choose_texts(graph: Graph, rng: Random) -> list[tuple[str, tuple[int, int, int]]]:
    foils = list(draw_foils(graph, rng))
    preferred = [foil for foil in foils if foil.piece in ("relation", "action", "count")][-2:] or foils[:2]
    texts = [(rng.choice(draw_captions(graph, rng)), BLACK)]
    for foil in preferred:
        texts += [(f"+ {foil.caption}", GREEN), (f"- {foil.foil}", RED)]
    return texts
