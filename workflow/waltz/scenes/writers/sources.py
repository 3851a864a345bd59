"""All files of the scenes in one folder, in the layout of the real data sets."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from waltz.core.files.atomic import write_text
from waltz.scenes.graph import Graph
from waltz.scenes.writers import annotations, images, tasks


def build_files(graphs: Sequence[Graph], seed: int) -> dict[str, str]:
    """Build the text of every annotation file, by its path in the folder."""
    vqa_questions, vqa_annotations = tasks.build_vqa(graphs, seed)
    gqa_all, gqa_balanced = tasks.build_gqa(graphs, seed)
    documents: dict[str, Any] = {
        "coco/annotations/captions_val2017.json": annotations.build_captions(graphs, seed),
        "coco/annotations/captions_val2014.json": annotations.build_captions(graphs, seed, "val2014"),
        "foilit/foilv1.0_test_2017.json": annotations.build_foil_it(graphs, seed),
        "visual7w/dataset_v7w_telling.json": tasks.build_visual7w(graphs, seed),
        "swig/imsitu_space.json": annotations.build_verb_space(),
        "imsitu/descriptions.json": annotations.build_descriptions(graphs, seed),
        "visdial/visdial_1.0_train.json": tasks.build_visdial(graphs, seed, "train"),
        "visdial/visdial_1.0_val.json": tasks.build_visdial(graphs, seed, "val2018"),
        "vqa/v2_OpenEnded_mscoco_val2014_questions.json": vqa_questions,
        "vqa/v2_mscoco_val2014_annotations.json": vqa_annotations,
        "gqa/testdev_all_questions.json": gqa_all,
        "gqa/testdev_balanced_questions.json": gqa_balanced,
    }
    for split in annotations.SWIG_SPLITS:
        documents[f"swig/{split}.json"] = annotations.build_swig(graphs, seed, split, boxes=True)
        documents[f"imsitu/{split}.json"] = annotations.build_swig(graphs, seed, split, boxes=False)
    texts_of = {name: json.dumps(document, ensure_ascii=False) + "\n" for name, document in documents.items()}
    data, gold = tasks.build_comve(len(graphs), seed)
    return texts_of | {
        "esnli/esnli_test.csv": tasks.build_esnli(graphs, seed),
        "comve/subtaskA_test_data.csv": data,
        "comve/subtaskA_gold_answers.csv": gold,
    }


def write_sources(directory: str | Path, graphs: Sequence[Graph], seed: int) -> list[Path]:
    """Write every annotation file and image; scene i has the number i + 1 in all of them.

    Returns:
        The annotation files.
    """
    paths = []
    for name, text in build_files(graphs, seed).items():
        path = Path(directory) / name
        write_text(path, text)
        paths.append(path)
    images.write_images(Path(directory), graphs)
    return paths
