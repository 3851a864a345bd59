"""Write all files and images of the scenes in the layout of the real data sets, and a contact
sheet.
"""

import json
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from waltz.core.files.atomic import write_text
from waltz.scenes.drawing import render_png, render_scene
from waltz.scenes.graph import SIZE, Graph
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.foils import draw_foils
from waltz.scenes.sampling import remove_action
from waltz.scenes.writers import annotations, tasks
from waltz.scenes.writers.annotations import (
    name_coco_2014,
    name_coco_2017,
    name_still,
    name_swig,
)
from waltz.scenes.writers.tasks import name_gqa, name_visdial, name_visual7w


def build_files(graphs: Sequence[Graph], seed: int) -> dict[str, str]:
    """Build the text of every annotation file, by its path in the folder."""
    vqa_questions, vqa_annotations = tasks.build_vqa(graphs, seed)
    gqa_all, gqa_balanced = tasks.build_gqa(graphs, seed)
    documents: dict[str, Any] = {
        "coco/annotations/captions_val2017.json": annotations.build_captions(
            graphs, seed
        ),
        "coco/annotations/captions_val2014.json": annotations.build_captions(
            graphs, seed, "val2014"
        ),
        "foilit/foilv1.0_test_2017.json": annotations.build_foil_it(graphs, seed),
        "visual7w/dataset_v7w_telling.json": tasks.build_visual7w(graphs, seed),
        "swig/imsitu_space.json": annotations.build_verb_space(),
        "imsitu/descriptions.json": annotations.build_descriptions(graphs, seed),
        "visdial/visdial_1.0_train.json": tasks.build_visdial(graphs, seed, "train"),
        "visdial/visdial_1.0_val.json": tasks.build_visdial(graphs, seed, "val2018"),
        "vqa/v2_OpenEnded_mscoco_val2014_questions.json": vqa_questions,
        "vqa/v2_mscoco_val2014_annotations.json": vqa_annotations,
        "gqa/val_all_questions.json": gqa_all,
        "gqa/val_balanced_questions.json": gqa_balanced,
    }
    for split in annotations.SWIG_SPLITS:
        documents[f"swig/{split}.json"] = annotations.build_swig(
            graphs, seed, split, boxes=True
        )
        documents[f"imsitu/{split}.json"] = annotations.build_swig(
            graphs, seed, split, boxes=False
        )
    texts = {
        name: json.dumps(document, ensure_ascii=False) + "\n"
        for name, document in documents.items()
    }
    texts["esnli/esnli_test.csv"] = tasks.build_esnli(graphs, seed)
    data, gold = tasks.build_comve(len(graphs), seed)
    texts["comve/subtaskA_test_data.csv"] = data
    texts["comve/subtaskA_gold_answers.csv"] = gold
    return texts


def write_sources(directory: str | Path, graphs: Sequence[Graph], seed: int) -> None:
    """Write every annotation file, and each scene as an image of each data set; scene i has the
    number i + 1 in all.
    """
    for name, text in build_files(graphs, seed).items():
        write_text(Path(directory) / name, text)
    for number, graph in enumerate(graphs, 1):
        names = [
            f"coco/val2017/{name_coco_2017(number)}",
            f"coco/val2014/{name_coco_2014(number, 'val2014')}",
            f"visual7w/images/{name_visual7w(number)}",
            f"gqa/images/{name_gqa(number)}",
            f"visdial/images/{name_visdial(number, 'train')}",
            f"visdial/images/{name_visdial(number, 'val2018')}",
        ]
        # One drawing under all names; the images of SWiG show scenes with an action alone.
        pictures = dict.fromkeys(names, render_png(graph))
        if graph.action is not None:
            pictures[f"swig/images_512/{name_swig(graph.action.verb, number)}"] = (
                pictures[names[0]]
            )
            pictures[f"swig/images_512/{name_still(graph.action.verb, number)}"] = (
                render_png(remove_action(graph))
            )
        for name, picture in pictures.items():
            path = Path(directory) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)


def find_scene(image: str, graphs: Sequence[Graph]) -> Graph:
    """Return the scene that an image shows, by the number in its name; a still shows it without its
    action.

    Raises:
        ValueError: The name has no number of a scene.
    """
    match = re.search(r"(?P<number>\d+)(?P<still>_still)?\.[a-z]+$", image)
    number = int(match["number"]) if match else 0
    if match is None or not 1 <= number <= len(graphs):
        raise ValueError(
            f"image without a scene: {image} (expected a number from 1 to {len(graphs)} at the end of its name)"
        )
    graph = graphs[number - 1]
    if match["still"]:
        return remove_action(graph)
    return graph


SHEET_SCENES, COLUMNS = 24, 6
"""Scenes of the contact sheet, and columns."""
TEXT_HEIGHT, MARGIN, LINE_HEIGHT = 134, 10, 13
"""Height of the texts, margin and height of a line of the contact sheet, in pixels."""
LINE_LENGTH = 46
"""Characters of a line."""


def draw_contact_sheet(graphs: Sequence[Graph], seed: int) -> Image.Image:
    """Draw an RGB image of the first 24 scenes: below each a caption, true (green) and false texts
    (red).
    """
    scenes = graphs[:SHEET_SCENES]
    rows = -(-len(scenes) // COLUMNS)  # rounded up
    width, height = (
        COLUMNS * (SIZE + MARGIN) + MARGIN,
        rows * (SIZE + TEXT_HEIGHT) + MARGIN,
    )
    sheet = Image.new("RGB", (width, height), (255, 255, 255))
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=11)
    for index, graph in enumerate(scenes):
        left = MARGIN + (index % COLUMNS) * (SIZE + MARGIN)
        top = MARGIN + (index // COLUMNS) * (SIZE + TEXT_HEIGHT)
        sheet.paste(render_scene(graph), (left, top))
        # The texts stand below the drawing.
        line = top + SIZE + 3
        for text, color in _draw_sheet_texts(graph, Random(f"sheet:{seed}:{graph.id}")):
            for part in textwrap.wrap(text, LINE_LENGTH):
                pen.text((left, line), part, fill=color, font=font)
                line += LINE_HEIGHT
    return sheet


def _draw_sheet_texts(
    graph: Graph, rng: Random
) -> list[tuple[str, tuple[int, int, int]]]:
    """Draw a caption and up to two pairs of caption and foil, each with its color."""
    foils = list(draw_foils(graph, rng))
    vivid_foils = [
        foil for foil in foils if foil.piece in ("relation", "action", "count")
    ]
    texts = [(rng.choice(draw_captions(graph, rng)), (20, 20, 20))]
    for foil in vivid_foils[-2:] or foils[:2]:
        texts += [
            (f"+ {foil.caption}", (0, 110, 40)),
            (f"- {foil.foil}", (170, 20, 20)),
        ]
    return texts
