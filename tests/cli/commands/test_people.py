import csv
import json

import pytest
from typer.testing import CliRunner

from stand_ins import annotation_platforms as platforms
from waltz.benchmark.votes import read_annotations
from waltz.cli.app import app
from waltz.core.files import parquet
from waltz.core.schema import BENCHMARK

ROW = {
    "instrument": "relations",
    "piece": "relations",
    "source": "coco",
    "caption_phrases": ["on"],
    "foil_phrases": ["under"],
}
ITEMS = [
    {
        **ROW,
        "item_id": f"item-{number}",
        "image": f"{number}.png",
        "caption": f"{number} cats sit on a mat.",
        "foil": f"{number} cats sit under a mat.",
        "kept": number < 4,
    }
    for number in range(5)
]


def run(*arguments):
    return CliRunner().invoke(app, ["people", *map(str, arguments)])


@pytest.fixture
def benchmark(tmp_path):
    path = tmp_path / "relations.parquet"
    parquet.write_rows(path, ITEMS, BENCHMARK)
    return path


@pytest.fixture
def exported(tmp_path, benchmark):
    arguments = (
        "--items",
        benchmark,
        "--platform",
        "mturk",
        "--folder",
        tmp_path / "tasks",
        "--seed",
        5,
    )
    done = run("export", *arguments, "--image-prefix", "https://images.example/")
    assert done.exit_code == 0, done.output
    return json.loads((tmp_path / "tasks" / "keys" / "relations.json").read_text())[
        "tasks"
    ]


def test_selected_items_are_exported_and_votes_imported_for_a_study(
    tmp_path, benchmark, exported
):
    assert sorted(task["item_id"] for task in exported) == [
        "item-0",
        "item-1",
        "item-2",
        "item-3",
    ]
    answers = [
        (
            task["task"],
            person,
            task["caption_position"] if person != "poor" else "neither",
        )
        for task in exported
        for person in ("w1", "w2", "poor")
    ]
    results = platforms.write_results("mturk", tmp_path / "results", answers)
    gold = tmp_path / "gold.txt"
    gold.write_text("item-0\nitem-1\n")
    common = (
        "import",
        results,
        "--items",
        benchmark,
        "--platform",
        "mturk",
        "--seed",
        5,
        "--gold",
        gold,
    )
    done = run(*common, "--output", tmp_path / "all.csv")
    assert done.exit_code == 0, done.output
    assert "annotator w1: 4 answers, 100% of 2 gold captions preferred\n" in done.output
    assert (
        "annotator poor: 4 answers, 0% of 2 gold captions preferred, too few"
        in done.output
    )
    assert "4 items valid, 0 unanimous; 0 items lack answers" in done.output
    assert (
        len(read_annotations(tmp_path / "all.csv", [item["item_id"] for item in ITEMS]))
        == 12
    )
    done = run(*common, "--output", tmp_path / "good.csv", "--drop-poor")
    assert "4 items valid, 4 unanimous; 4 items lack answers" in done.output
    assert (
        len(
            read_annotations(tmp_path / "good.csv", [item["item_id"] for item in ITEMS])
        )
        == 8
    )
    with (tmp_path / "good.skipped.csv").open(newline="") as file:
        left_out = list(csv.DictReader(file))
    assert [(row["item_id"], row["annotator"]) for row in left_out] == [
        (f"item-{number}", "poor") for number in range(4)
    ]


def test_equal_answers_of_different_people_have_no_alpha(tmp_path, benchmark, exported):
    answers = [
        (task["task"], person, "first")
        for task, people in zip(exported, (("w1", "w2"), ("w2", "w3")), strict=False)
        for person in people
    ]
    results = platforms.write_results("mturk", tmp_path / "results", answers)
    arguments = (
        "--items",
        benchmark,
        "--platform",
        "mturk",
        "--seed",
        5,
        "--output",
        tmp_path / "votes.csv",
    )
    done = run("import", results, *arguments)
    assert done.exit_code == 0, done.output
    assert "every annotation is the same, so alpha is undefined" in done.output


def test_user_errors_are_one_line(tmp_path, benchmark, exported):
    results = platforms.write_results(
        "mturk", tmp_path / "results", [(exported[0]["task"], "w1", "both")]
    )
    arguments = (
        "import",
        results,
        "--platform",
        "mturk",
        "--output",
        tmp_path / "out.csv",
    )
    gold = tmp_path / "gold.txt"
    gold.write_text("item-9\n")
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"item-0\nitem-\xff\n")
    for more, fault in (
        (("--items", tmp_path / "none.parquet"), "none.parquet: no such file"),
        (("--items", benchmark, "--seed", 6), "unknown task"),
        (
            ("--items", benchmark, "--seed", 5, "--drop-poor"),
            "--drop-poor needs --gold",
        ),
        (
            ("--items", benchmark, "--seed", 5, "--gold", gold),
            "item 'item-9' is not in the benchmark",
        ),
        (
            ("--items", benchmark, "--seed", 5, "--gold", binary),
            "binary.txt: line 2: not UTF-8",
        ),
        (
            ("--items", benchmark, "--seed", 5, "--gold", tmp_path / "gone.txt"),
            "gone.txt: no such file",
        ),
    ):
        done = run(*arguments, *more)
        assert done.exit_code == 1
        assert done.output.startswith("waltz: ")
        assert fault in done.output
        assert done.output.count("\n") == 1
        assert not (tmp_path / "out.csv").exists()


def test_images_are_served_from_this_machine_by_default(tmp_path, benchmark):
    arguments = ("--items", benchmark, "--platform", "doccano", "--folder", tmp_path)
    done = run("export", *arguments)
    assert done.exit_code == 0, done.output
    texts = "".join(file.read_text() for file in tmp_path.rglob("*.jsonl"))
    assert "http://localhost:8765/" in texts
