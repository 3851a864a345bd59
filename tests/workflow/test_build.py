"""docs/how-to/benchmark-from-captions.md, typed from start to end on drawn images: captions are
built into a benchmark, two people validate it, it is exported, and a model is evaluated on it.
"""

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from docs.page_commands import list_page_commands
from stand_ins import annotation_platforms as platforms
from workflow.test_eval import run_waltz

pytestmark = pytest.mark.workflow

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "benchmark-from-captions.md"
CAPTIONS = (
    "A dog sleeps on a bed.",
    "Two cats sit on a couch.",
    "Three birds are on a table.",
    "A 6-year-old girl eats an apple.",
    "Two sheep stand in a field.",
    "There is no dog in the room.",
    "Four boats lie in a harbour.",
    "A man carries two books.",
)


def write_captions(folder, captions):
    photos = folder / "photos"
    photos.mkdir()
    with (folder / "captions.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "caption"])
        for number, caption in enumerate(captions):
            image = Image.new("RGB", (40, 30), (20 * number, 90, 200))
            image.save(photos / f"{number}.png")
            writer.writerow([f"{number}.png", caption])


def test_the_page_is_typed_from_start_to_end(fresh):
    write_captions(fresh.folder, CAPTIONS)
    commands = [words for words in list_page_commands(PAGE) if words[0] == "waltz"]
    build, read, rebuild, export, evaluate = commands[:5]

    result = run_waltz(fresh, *build[1:])
    assert result.returncode == 0, result.stderr
    assert "a hyphen joins the noun phrase to another word" in result.stdout
    assert result.stdout.count("  foil: ") >= 3
    assert f"captions read: {len(CAPTIONS)}\n" in result.stdout
    assert "│ valid " not in result.stdout
    assert "none; --filters adds GRUEN and NLI" in result.stderr
    assert "python -m http.server 8765 --directory photos" in result.stdout
    folder = fresh.folder / "results/build-captions"
    tasks = platforms.shown_tasks("label-studio", folder / "people/plurality.json")
    answers = [(name, person, "first") for name, _, _ in tasks for person in ("1", "2")]
    exported = platforms.write_results("label-studio", fresh.folder / "export", answers)
    (fresh.folder / "answers").mkdir()
    read[read.index("export.json")] = str(exported)
    result = run_waltz(fresh, *read[1:])
    assert result.returncode == 0, result.stderr
    assert f"{len(answers)} answers to {len(tasks)} items, 0 skipped" in result.stdout

    for command in (rebuild, export):
        result = run_waltz(fresh, *command[1:])
        assert result.returncode == 0, result.stderr
        assert "│ valid " in result.stdout
    items = pq.read_table(folder / "benchmark/plurality.parquet").to_pylist()
    kept = [item for item in items if item["kept"]]
    assert len(kept) == len(tasks)
    # Two people named the first text: the caption in half of the tasks.
    assert 0 < sum(item["valid"] for item in kept) < len(kept)
    assert (folder / "export/dataset/README.md").is_file()

    result = run_waltz(fresh, *evaluate[1:])
    assert result.returncode == 0, result.stderr
    assert "plurality" in result.stdout


def test_an_instrument_without_items_is_left_out(fresh):
    write_captions(fresh.folder, ["A dog sleeps on a bed.", "A cat sits on a couch."])
    options = ("--instruments", "plurality,counting", "--export", "hf")
    result = run_waltz(fresh, "build", "captions.csv", "--images", "photos", *options)
    assert result.returncode == 0, result.stderr
    assert "left out of the study: counting-balanced, without items" in result.stdout
    exported = fresh.folder / "results/build-captions/export/dataset"
    assert [file.parent.name for file in exported.glob("*/*.parquet")] == ["plurality"]
    study = (fresh.folder / "config/build-captions.yaml").read_text(encoding="utf-8")
    assert "counting-balanced" not in study


def test_what_cannot_be_built_is_one_line(fresh):
    (fresh.folder / "captions.csv").write_text("image,captoin\na.png,A dog.\n")
    cases = (
        (("--instruments", "plurality"), "did you mean 'captoin'"),
        (("--instruments", "actant-swap"), "actant-swap is not built from captions"),
        (("--instruments", "plurals"), "did you mean 'plurality'"),
        (("--validate", "LabelStudio"), "did you mean 'captoin'"),
        (("--validate", "doccanno"), "did you mean 'doccano'"),
    )
    for options, fault in cases:
        result = run_waltz(fresh, "build", "captions.csv", "--images", ".", *options)
        assert result.returncode == 1
        assert fault in result.stderr
        assert "Traceback" not in result.stderr
