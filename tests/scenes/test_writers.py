"""Written files have the formats of the real data sets, and the readers of these return what was
written.
"""

import csv
import io
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from waltz.core.files import parquet
from waltz.core.records import get_layout, to_row
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.language.questions import draw_dialogue
from waltz.scenes.lexicon import read_scene_verbs
from waltz.scenes.oracle import decide_truth
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers import annotations
from waltz.scenes.writers.annotations import replace_noun
from waltz.scenes.writers.files import build_files, write_sources
from waltz.sources.readers import read_source

GRAPHS = draw_scenes(40, 21)


@cache
def build_test_files() -> dict[str, str]:
    return build_files(GRAPHS, 5)


def read_document(name: str) -> Any:
    return json.loads(build_test_files()[name])


def read_rows(name: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(build_test_files()[name])))


def test_same_seed_same_files() -> None:
    assert build_files(GRAPHS, 5) == build_test_files()
    assert build_files(GRAPHS, 6) != build_test_files()


@pytest.mark.parametrize(
    ("edition", "name"),
    [("val2017", "000000000007.png"), ("val2014", "COCO_val2014_000000000007.png")],
)
def test_coco_captions(edition: str, name: str) -> None:
    document = read_document(f"coco/annotations/captions_{edition}.json")
    assert set(document) == {"info", "licenses", "images", "annotations"}
    assert document["images"][6]["file_name"] == name
    assert set(document["images"][6]) == {
        "license", "file_name", "coco_url", "height", "width", "date_captured", "flickr_url", "id",
    }  # fmt: skip
    assert len(document["annotations"]) == 5 * len(GRAPHS)
    assert len({entry["id"] for entry in document["annotations"]}) == 5 * len(GRAPHS)
    for entry in document["annotations"]:
        assert set(entry) == {"image_id", "id", "caption"}
        assert decide_truth(GRAPHS[entry["image_id"] - 1], entry["caption"]) == "true"


def test_foilit_pairs_with_coco_by_id() -> None:
    captions = {
        entry["id"]: entry
        for entry in read_document("coco/annotations/captions_val2014.json")[
            "annotations"
        ]
    }
    foiled = 0
    for entry in read_document("foilit/foilv1.0_test_2017.json")["annotations"]:
        assert set(entry) == {
            "caption",
            "image_id",
            "foil_id",
            "foil_word",
            "target_word",
            "foil",
            "id",
        }
        graph = GRAPHS[entry["image_id"] - 1]
        original = captions[entry["id"]]["caption"]
        if not entry["foil"]:
            assert (entry["caption"], entry["foil_word"], entry["target_word"]) == (
                original,
                "ORIG",
                "ORIG",
            )
            continue
        foiled += 1
        assert decide_truth(graph, entry["caption"]) == "false"
        assert entry["target_word"].lower() in original.lower()
        assert entry["foil_word"].lower() in entry["caption"].lower()
    assert foiled > 3 * len(GRAPHS)


def test_visual7w_telling() -> None:
    document = read_document("visual7w/dataset_v7w_telling.json")
    assert document["dataset"] == "visual7w-telling"
    zeros = 0
    for image in document["images"]:
        assert set(image) == {"image_id", "filename", "split", "qa_pairs"}
        assert image["filename"] == f"v7w_{image['image_id']}.png"
        for pair in image["qa_pairs"]:
            assert set(pair) == {
                "qa_id",
                "image_id",
                "question",
                "answer",
                "multiple_choices",
                "type",
            }
            assert len({*pair["multiple_choices"], pair["answer"]}) == 4
            assert pair["type"] in ("what", "where", "when", "who", "how")
            if pair["type"] == "how":
                zeros += pair["answer"] == "0."
                assert (
                    decide_truth(
                        GRAPHS[pair["image_id"] - 1],
                        f"{pair['question']} {pair['answer']}",
                    )
                    == "true"
                )
    assert zeros >= len(GRAPHS)
    assert {image["split"] for image in document["images"]} == {"train", "val", "test"}


def test_swig_and_imsitu() -> None:
    space = read_document("swig/imsitu_space.json")
    assert set(space) == {"nouns", "verbs"}
    assert (
        space["verbs"]["riding"]["abstract"] == "the AGENT rides the VEHICLE at a PLACE"
    )
    assert (
        space["verbs"]["sitting"]["abstract"]
        == "the AGENT sits on the CONTACT at a PLACE"
    )
    assert all(
        set(entry) == {"framenet", "abstract", "def", "order", "roles"}
        for entry in space["verbs"].values()
    )
    assert all(
        set(entry["roles"]) == set(entry["order"]) for entry in space["verbs"].values()
    )
    images, differ = 0, 0
    for split in ("train", "dev", "test"):
        imsitu = read_document(f"imsitu/{split}.json")
        for name, entry in read_document(f"swig/{split}.json").items():
            images += 1
            verb, number = name.removesuffix(".png").rsplit("_", 1)
            graph = GRAPHS[int(number) - 1]
            assert graph.action is not None
            assert (verb, graph.action.verb) == (entry["verb"], entry["verb"])
            assert set(entry) == {"verb", "height", "width", "bb", "frames"}
            assert set(imsitu[name]) == {"verb", "frames"}
            assert len(entry["frames"]) == 3
            differ += entry["frames"][0] != entry["frames"][1]
            order = space["verbs"][verb]["order"]
            assert set(entry["bb"]) == set(order)
            for frame in entry["frames"]:
                assert list(frame) == order
                assert all(
                    noun == "" or noun in space["nouns"] for noun in frame.values()
                )
            left, top, right, bottom = entry["bb"]["agent"]
            assert 0 <= left < right <= 256
            assert 0 <= top < bottom <= 256
            words = space["nouns"][entry["frames"][2]["agent"]]["gloss"][0]
            assert decide_truth(graph, f"There is a {words}.") == "true"
    assert images == sum(graph.action is not None for graph in GRAPHS)
    assert differ > 3


def test_descriptions_for_contexts() -> None:
    for name, entry in read_document("imsitu/descriptions.json").items():
        graph = GRAPHS[int(name.removesuffix(".png").rsplit("_", 1)[1]) - 1]
        forms = set(read_scene_verbs()[entry["verb"]].third.split())
        assert all(
            decide_truth(graph, text) == "true"
            for text in entry["contextual"] + entry["plain"]
        )
        assert all(
            forms & set(text.rstrip(".").split()) or graph.event.agent.count > 1
            for text in entry["contextual"]
        )  # type: ignore[union-attr]
        assert entry["still"].endswith("_still.png")


@pytest.mark.parametrize(("file", "split"), [("train", "train"), ("val", "val2018")])
def test_visdial(file: str, split: str) -> None:
    document = read_document(f"visdial/visdial_1.0_{file}.json")
    assert (document["version"], document["split"]) == ("1.0", split)
    data = document["data"]
    for dialog in data["dialogs"]:
        assert set(dialog) == {"image_id", "caption", "dialog"}
        graph = GRAPHS[dialog["image_id"] - 1]
        assert len(dialog["dialog"]) == 10
        for turn in dialog["dialog"]:
            assert set(turn) == {"question", "answer", "answer_options", "gt_index"}
            assert len(set(turn["answer_options"])) == 100
            assert turn["answer_options"][turn["gt_index"]] == turn["answer"]
            question, answer = (
                data["questions"][turn["question"]],
                data["answers"][turn["answer"]],
            )
            assert question == question.lower().rstrip("?")
            assert (
                decide_truth(graph, f"{dialog['caption']}. {question}? {answer}.")
                == "true"
            )


def test_vqa_v2() -> None:
    questions = read_document("vqa/v2_OpenEnded_mscoco_val2014_questions.json")
    annotations = read_document("vqa/v2_mscoco_val2014_annotations.json")
    assert set(questions) == {
        "info",
        "task_type",
        "data_type",
        "license",
        "data_subtype",
        "questions",
    }
    assert [
        question_entry["question_id"] for question_entry in questions["questions"]
    ] == [
        annotation_entry["question_id"]
        for annotation_entry in annotations["annotations"]
    ]
    for question, annotation in zip(
        questions["questions"], annotations["annotations"], strict=True
    ):
        assert set(question) == {"image_id", "question", "question_id"}
        assert len(annotation["answers"]) == 10
        assert annotation["answer_type"] in ("yes/no", "number", "other")
        if annotation["answer_type"] != "other":
            statement = (
                f"{question['question']} {annotation['multiple_choice_answer']}."
            )
            assert decide_truth(GRAPHS[question["image_id"] - 1], statement) == "true"


def test_gqa_balanced_is_part_of_all() -> None:
    entries, balanced = (
        read_document("gqa/val_all_questions.json"),
        read_document("gqa/val_balanced_questions.json"),
    )
    assert 0 < len(balanced) < len(entries)
    assert balanced == {
        key: entry for key, entry in entries.items() if entry["isBalanced"]
    }
    fields = {"semantic", "entailed", "equivalent", "question", "imageId", "isBalanced", "groups", "answer",
              "semanticStr", "annotations", "types", "fullAnswer"}  # fmt: skip
    for entry in entries.values():
        assert set(entry) == fields
        assert entry["imageId"].startswith("n")
        if entry["answer"] in ("yes", "no"):
            assert (
                decide_truth(
                    GRAPHS[int(entry["imageId"][1:]) - 1],
                    f"{entry['question']} {entry['answer']}.",
                )
                == "true"
            )


def test_esnli() -> None:
    header, *pairs = read_rows("esnli/esnli_test.csv")
    assert header == [
        "gold_label",
        "Sentence1",
        "Sentence2",
        "Explanation_1",
        "Explanation_2",
        "Explanation_3",
    ]
    assert all(len(pair) == 6 and all(pair) for pair in pairs)
    assert {pair[0] for pair in pairs} == {"entailment", "neutral", "contradiction"}


def test_comve_has_the_index_of_the_nonsense() -> None:
    header, *pairs = read_rows("comve/subtaskA_test_data.csv")
    gold = dict(read_rows("comve/subtaskA_gold_answers.csv"))  # type: ignore[arg-type]
    assert header == ["id", "sent0", "sent1"]
    assert [pair[0] for pair in pairs] == list(gold)
    assert len(set(gold)) == len(GRAPHS)
    people = ("man", "woman", "boy", "girl")
    for number, *sentences in pairs:
        sense = sentences[1 - int(gold[number])]
        words = sense.lower().rstrip(".").split()
        animate = any(
            verb.third in words and any(a.split()[0] in words for a in verb.agents)
            for verb in read_scene_verbs().values()
        )
        assert animate or any(person in words for person in people)


def test_images_are_written_under_every_name(tmp_path: Path) -> None:
    graphs = draw_scenes(4, 1)
    write_sources(tmp_path, graphs, 5)
    names = ["coco/val2017/000000000002.png", "coco/val2014/COCO_val2014_000000000002.png", "visual7w/images/v7w_2.png",
             "gqa/images/n2.png", "visdial/images/COCO_val2014_000000000002.png",
             "visdial/images/VisualDialog_val2018_000000000002.png"]  # fmt: skip
    contents = {(tmp_path / name).read_bytes() for name in names}
    assert len(contents) == 1
    for split in ("train", "dev", "test"):
        for name in json.loads((tmp_path / f"swig/{split}.json").read_text()):
            with Image.open(tmp_path / "swig/images_512" / name) as image:
                assert image.size == (256, 256)
    assert (tmp_path / "imsitu/descriptions.json").is_file()


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("A dog is on a bed.", "dog", "elephant", "An elephant is on a bed."),
        ("There is an apple.", "apple", "pizza", "There is a pizza."),
        ("Dogs chase two dogs.", "dogs", "cats", "Cats chase two cats."),
        ("A skateboard and a board.", "board", "box", "A skateboard and a box."),
    ],
)
def test_replace_noun(text: str, old: str, new: str, expected: str) -> None:
    assert replace_noun(text, old, new) == expected


COUNT = 30
ENTRIES = {
    "coco": ("coco-captions", {"val2017": "coco/annotations/captions_val2017.json"}),
    "visual7w": ("visual7w", {"telling": "visual7w/dataset_v7w_telling.json"}),
    "swig": ("swig", {"space": "swig/imsitu_space.json", "test": "swig/test.json"}),
    "imsitu": (
        "imsitu",
        {"space": "swig/imsitu_space.json", "test": "imsitu/test.json"},
    ),
    "visdial": ("visdial", {"val": "visdial/visdial_1.0_val.json"}),
    "foil-it": (
        "foil-it",
        {
            "test": "foilit/foilv1.0_test_2017.json",
            "coco-val2014": "coco/annotations/captions_val2014.json",
        },
    ),
    "vqa": (
        "vqa",
        {
            "questions": "vqa/v2_OpenEnded_mscoco_val2014_questions.json",
            "annotations": "vqa/v2_mscoco_val2014_annotations.json",
        },
    ),
    "gqa": ("gqa", {"val": "gqa/val_all_questions.json"}),
    "e-snli": ("e-snli", {"test": "esnli/esnli_test.csv"}),
    "comve": (
        "comve",
        {
            "sentences": "comve/subtaskA_test_data.csv",
            "answers": "comve/subtaskA_gold_answers.csv",
        },
    ),
}


def _read(folder: Path, texts: dict[str, str]) -> dict[str, list[dict]]:
    rows_by_source = {}
    for source, (form, files) in ENTRIES.items():
        for name in files.values():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(texts[name])
        source_rows, record_type = read_source(
            form, {part: str(folder / name) for part, name in files.items()}, source
        )
        rows_by_source[source] = list(map(to_row, source_rows))
        parquet.build_table(rows_by_source[source], get_layout(record_type))
    return rows_by_source


@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10_000))
def test_readers_return_what_writers_wrote(tmp_path: Path, seed: int) -> None:
    graphs = draw_scenes(COUNT, seed)
    texts = build_files(graphs, seed)
    rows = _read(tmp_path, texts)
    assert [row["caption"] for row in rows["coco"]] == [
        caption for _, _, caption in annotations.draw_coco_captions(graphs, seed)
    ]
    telling = json.loads(texts["visual7w/dataset_v7w_telling.json"])["images"]
    visual7w_questions = [
        (pair["question"], pair["answer"], pair["multiple_choices"])
        for image in telling
        for pair in image["qa_pairs"]
    ]
    assert [
        (row["question"], row["answer"], row["choices"]) for row in rows["visual7w"]
    ] == visual7w_questions
    for source in ("swig", "imsitu"):
        document = json.loads(texts[f"{source}/test.json"])
        fillers = [
            (entry["verb"], {role: noun or None for role, noun in frame.items()})
            for entry in document.values()
            for frame in entry["frames"]
        ]
        read_fillers = [
            (row["verb"], {filler["role"]: filler["noun"] for filler in row["roles"]})
            for row in rows[source]
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
    assert [row["answer"] for row in rows["vqa"]] == [
        entry["multiple_choice_answer"] for entry in answers
    ]
    questions = json.loads(texts["gqa/val_all_questions.json"])
    assert {row["source_id"]: row["answer"] for row in rows["gqa"]} == {
        key: entry["answer"] for key, entry in questions.items()
    }
    assert len(rows["comve"]) == COUNT


def test_captions_are_true_and_foil_it_foils_are_not(tmp_path: Path) -> None:
    graphs = draw_scenes(COUNT, 77)
    rows = _read(tmp_path, build_files(graphs, 77))
    for row in rows["coco"]:
        assert (
            decide_truth(graphs[int(row["image"].split(".")[0]) - 1], row["caption"])
            == "true"
        )
    for row in rows["foil-it"]:
        if row["rejected"] is None:
            graph = graphs[int(row["image"].split("_")[-1].split(".")[0]) - 1]
            assert decide_truth(graph, row["caption"]) == "true"
            assert decide_truth(graph, row["foil"]) == "false"


def test_captions_and_dialogues_depend_on_the_generator_only() -> None:
    graph = draw_scenes(1, 3)[0]
    assert draw_captions(graph, Random(5)) == draw_captions(graph, Random(5))
    assert draw_dialogue(graph, "A.", Random(5)) == draw_dialogue(
        graph, "A.", Random(5)
    )
