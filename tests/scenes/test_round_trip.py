"""Round trip of the scene files: the readers of the real data sets return the same sentences and answers."""

import json
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waltz.core.files import parquet
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.questions import draw_dialogue
from waltz.scenes.oracle.truth import decide_truth
from waltz.scenes.world.sampling import draw_scenes
from waltz.scenes.writers import coco
from waltz.scenes.writers.sources import build_files
from waltz.sources.readers import read_source

COUNT = 30
ENTRIES = {
    "coco": ("coco-captions", {"val2017": "coco/annotations/captions_val2017.json"}),
    "visual7w": ("visual7w", {"telling": "visual7w/dataset_v7w_telling.json"}),
    "swig": ("swig", {"space": "swig/imsitu_space.json", "test": "swig/test.json"}),
    "imsitu": ("imsitu", {"space": "swig/imsitu_space.json", "test": "imsitu/test.json"}),
    "visdial": ("visdial", {"val": "visdial/visdial_1.0_val.json"}),
    "foil-it": (
        "foil-it",
        {"test": "foilit/foilv1.0_test_2017.json", "coco-val2014": "coco/annotations/captions_val2014.json"},
    ),
    "vqa": (
        "vqa",
        {
            "questions": "vqa/v2_OpenEnded_mscoco_val2014_questions.json",
            "annotations": "vqa/v2_mscoco_val2014_annotations.json",
        },
    ),
    "gqa": ("gqa", {"testdev": "gqa/testdev_all_questions.json"}),
    "e-snli": ("e-snli", {"test": "esnli/esnli_test.csv"}),
    "comve": ("comve", {"sentences": "comve/subtaskA_test_data.csv", "answers": "comve/subtaskA_gold_answers.csv"}),
}


def _read(folder: Path, texts: dict[str, str]) -> dict[str, list[dict]]:
    rows_by_source = {}
    for source, (form, files) in ENTRIES.items():
        for name in files.values():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(texts[name])
        source_rows, layout = read_source(form, {part: str(folder / name) for part, name in files.items()}, source)
        rows_by_source[source] = list(source_rows)
        parquet.build_table(rows_by_source[source], layout)
    return rows_by_source


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_readers_return_what_writers_wrote(tmp_path: Path, seed: int) -> None:
    graphs = draw_scenes(COUNT, seed)
    texts = build_files(graphs, seed)
    rows = _read(tmp_path, texts)
    assert [row["caption"] for row in rows["coco"]] == [
        caption for graph in graphs for caption in coco.draw_five_captions(graph, seed)
    ]
    telling = json.loads(texts["visual7w/dataset_v7w_telling.json"])["images"]
    visual7w_questions = [
        (pair["question"], pair["answer"], pair["multiple_choices"]) for image in telling for pair in image["qa_pairs"]
    ]
    assert [(row["question"], row["answer"], row["choices"]) for row in rows["visual7w"]] == visual7w_questions
    for source in ("swig", "imsitu"):
        document = json.loads(texts[f"{source}/test.json"])
        fillers = [
            (entry["verb"], {role: noun or None for role, noun in frame.items()})
            for entry in document.values()
            for frame in entry["frames"]
        ]
        read_fillers = [
            (row["verb"], {filler["role"]: filler["noun"] for filler in row["roles"]}) for row in rows[source]
        ]
        assert read_fillers == fillers
    dialogues = json.loads(texts["visdial/visdial_1.0_val.json"])["data"]
    rounds = [
        (dialogues["questions"][turn["question"]], dialogues["answers"][turn["answer"]])
        for dialog in dialogues["dialogs"]
        for turn in dialog["dialog"]
    ]
    assert [(row["question"], row["answer"]) for row in rows["visdial"]] == rounds
    assert len(rounds) % 10 == 0
    document = json.loads(texts["foilit/foilv1.0_test_2017.json"])["annotations"]
    foils = [entry["caption"] for entry in document if entry["foil"]]
    assert [row["foil"] for row in rows["foil-it"] if row["rejected"] is None] == foils
    answers = json.loads(texts["vqa/v2_mscoco_val2014_annotations.json"])["annotations"]
    assert [row["answer"] for row in rows["vqa"]] == [entry["multiple_choice_answer"] for entry in answers]
    questions = json.loads(texts["gqa/testdev_all_questions.json"])
    assert {row["source_id"]: row["answer"] for row in rows["gqa"]} == {
        key: entry["answer"] for key, entry in questions.items()
    }
    assert len(rows["comve"]) == COUNT


def test_captions_are_true_and_foil_it_foils_are_not(tmp_path: Path) -> None:
    graphs = draw_scenes(COUNT, 77)
    rows = _read(tmp_path, build_files(graphs, 77))
    for row in rows["coco"]:
        assert decide_truth(graphs[int(row["image"].split(".")[0]) - 1], row["caption"]) == "true"
    for row in rows["foil-it"]:
        if row["rejected"] is None:
            graph = graphs[int(row["image"].split("_")[-1].split(".")[0]) - 1]
            assert decide_truth(graph, row["caption"]) == "true"
            assert decide_truth(graph, row["foil"]) == "false"


def test_captions_and_dialogues_depend_on_the_generator_only() -> None:
    graph = draw_scenes(1, 3)[0]
    assert draw_captions(graph, Random(5)) == draw_captions(graph, Random(5))
    assert draw_dialogue(graph, "A.", Random(5)) == draw_dialogue(graph, "A.", Random(5))
