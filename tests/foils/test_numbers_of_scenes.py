"""Existence, counting, coreference and FOIL-it on drawn scenes: the oracle holds captions true and
foils false.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from waltz.core.records import to_row
from waltz.foils.candidates import Candidate, Outcome
from waltz.foils.coreference import build_coreference_foil
from waltz.foils.counting import NUMBER_RANGES, build_counting_foils
from waltz.foils.english.parsing import parse
from waltz.foils.existence import build_existence_foils
from waltz.foils.foil_it import build_noun_foil
from waltz.scenes.graph import Graph
from waltz.scenes.oracle import decide_truth
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers.annotations import build_captions, build_foil_it
from waltz.scenes.writers.tasks import build_visdial, build_visual7w
from waltz.sources.formats.coco import read_foil_it
from waltz.sources.formats.questions import read_visdial, read_visual7w

SEED = 2026


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return list(draw_scenes(60, SEED))


def written(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def verdicts(
    graphs: list[Graph], results: Iterator[tuple[str, Outcome]]
) -> list[tuple[str, str]]:
    """Truth of caption and foil of each candidate, whose image name ends in the number of its
    scene.
    """
    pairs = [
        (
            graphs[
                int("".join(filter(str.isdigit, Path(image).stem.split("_")[-1]))) - 1
            ],
            candidate,
        )
        for image, candidate in results
        if isinstance(candidate, Candidate)
    ]
    return [
        (decide_truth(graph, candidate.caption), decide_truth(graph, candidate.foil))
        for graph, candidate in pairs
    ]


def test_answered_questions(graphs: list[Graph], tmp_path: Path) -> None:
    rows = list(
        map(
            to_row,
            read_visual7w(
                written(tmp_path, "telling.json", build_visual7w(graphs, SEED)),
                "visual7w",
            ),
        )
    )
    rows = [row for row in rows if row["type"] == "how"]
    docs = list(parse(row["question"] for row in rows))
    items = list(zip(rows, docs, strict=True))
    there = (
        (row["image"], candidate)
        for row, doc in items
        for candidate in build_existence_foils(doc, row["answer"])
    )
    few = (
        (row["image"], candidate)
        for row, doc in items
        for candidate in build_counting_foils(
            doc, row["answer"], NUMBER_RANGES["counting-small"], range(4)
        )
    )
    results = verdicts(graphs, there), verdicts(graphs, few)
    assert len(results[0]) == len(rows) > 250
    assert {*results[0], *results[1]} == {("true", "false")}


def test_dialogues(graphs: list[Graph], tmp_path: Path) -> None:
    rows = map(
        to_row,
        read_visdial(
            written(tmp_path, "train.json", build_visdial(graphs, SEED, "train")),
            "visdial",
        ),
    )
    results = verdicts(
        graphs,
        (
            (
                row["image"],
                build_coreference_foil(
                    row["caption"], row["question"], row["answer"], 1
                ),
            )
            for row in rows
        ),
    )
    assert len(results) > 150
    assert set(results) == {("true", "false")}


def test_foils_of_captions(graphs: list[Graph], tmp_path: Path) -> None:
    captions = written(
        tmp_path, "captions.json", build_captions(graphs, SEED, "val2014")
    )
    pairs = map(
        to_row,
        read_foil_it(
            written(tmp_path, "foils.json", build_foil_it(graphs, SEED)),
            [captions],
            "foil-it",
            "test",
        ),
    )
    rows = [row for row in pairs if row["rejected"] is None]
    results = verdicts(
        graphs,
        (
            (
                row["image"],
                build_noun_foil(
                    row["caption"], row["foil"], row["target_word"], row["foil_word"]
                ),
            )
            for row in rows
        ),
    )
    assert len(results) == len(rows) > 250
    assert set(results) == {("true", "false")}
