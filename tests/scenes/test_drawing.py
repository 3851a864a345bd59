"""Graphs, layout and drawings."""

import hashlib
import io
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops
from pydantic import ValidationError

from waltz.scenes.drawing import draw_background, render_png, render_scene
from waltz.scenes.graph import SIZE, Action, Graph, Object, SpriteCell, describe_content
from waltz.scenes.lexicon import (
    Kind,
    read_kinds,
    read_places,
    read_scene_categories,
    read_scene_verbs,
)
from waltz.scenes.sampling import draw_scene, draw_scenes, remove_action, split_zone
from waltz.scenes.writers.files import draw_contact_sheet

ONE = (SpriteCell(0, 0, 20),)


def overlap(first: SpriteCell, second: SpriteCell) -> bool:
    return (
        first.left < second.right
        and second.left < first.right
        and first.top < second.bottom
        and second.top < first.bottom
    )


def test_same_scene_same_bytes_in_another_process() -> None:
    graphs = draw_scenes(12, 5)
    here = hashlib.sha256(b"".join(render_png(graph) for graph in graphs)).hexdigest()
    code = (
        "import hashlib; from waltz.scenes.sampling import draw_scenes;"
        "from waltz.scenes.drawing import render_png;"
        "print(hashlib.sha256(b''.join(render_png(graph) for graph in draw_scenes(12, 5))).hexdigest())"
    )
    library = str(Path(__file__).parents[2] / "workflow")
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": library}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == here


def test_png_is_rgb_of_256_pixels_without_metadata() -> None:
    with Image.open(io.BytesIO(render_png(draw_scene(0, 1)))) as image:
        assert (image.format, image.mode, image.size, image.info) == (
            "PNG",
            "RGB",
            (SIZE, SIZE),
            {},
        )


@given(st.integers(0, 10**6))
@settings(max_examples=120, deadline=None)
def test_countable_objects_do_not_overlap(seed: int) -> None:
    graph = draw_scene(0, seed)
    related = {
        index
        for relation in graph.relations
        for index in (relation.subject, relation.object)
    }
    acting = set() if graph.action is None else {graph.action.agent, graph.action.theme}
    for (i, first), (j, second) in combinations(enumerate(graph.objects), 2):
        if not ({i, j} <= related or {i, j} <= acting):
            assert not any(overlap(a, b) for a in first.cells for b in second.cells)
    for entry in graph.objects:
        assert not any(overlap(a, b) for a, b in combinations(entry.cells, 2))
        assert all(
            cell.left >= 0
            and cell.right <= SIZE
            and cell.top >= 0
            and cell.bottom <= SIZE
            for cell in entry.cells
        )
        assert min(cell.size for cell in entry.cells) >= 14


@given(st.integers(1, 12), st.integers(60, 250), st.integers(60, 210))
def test_squares_stay_in_their_zone_and_apart(
    count: int, width: int, height: int
) -> None:
    boxes = split_zone((3, 5, width, height), count)
    assert len(boxes) == count
    cells = [SpriteCell(left, top, size) for left, top, size in boxes]
    assert not any(overlap(a, b) for a, b in combinations(cells, 2))
    assert all(
        cell.left >= 3
        and cell.top >= 5
        and cell.right <= 3 + width
        and cell.bottom <= 5 + height
        for cell in cells
    )


def test_every_individual_changes_the_picture_where_it_stands() -> None:
    for graph in draw_scenes(15, 8):
        if graph.relations or graph.action is not None:
            continue
        difference = ImageChops.difference(
            render_scene(graph), draw_background(graph.place)
        )
        for entry in graph.objects:
            for cell in entry.cells:
                assert (
                    difference.crop(
                        (cell.left, cell.top, cell.right, cell.bottom)
                    ).getbbox()
                    is not None
                )


def test_riding_and_standing_next_to_look_different() -> None:
    riding = next(
        graph
        for graph in draw_scenes(900, 2)
        if graph.action is not None and graph.action.verb == "riding"
    )
    still = remove_action(riding)
    assert {entry.kind: entry.count for entry in still.objects} == {
        entry.kind: entry.count for entry in riding.objects
    }
    event = riding.event
    assert event is not None
    assert event.theme is not None
    assert overlap(event.agent.cells[0], event.theme.cells[0])
    stood = {entry.kind: entry.cells for entry in still.objects}
    assert not overlap(stood[event.agent.kind][0], stood[event.theme.kind][0])
    assert render_png(still) != render_png(riding)


def test_colors_change_the_sprite() -> None:
    pictures = {
        color: render_png(
            Graph("c", "snow", (Object("car", (SpriteCell(80, 100, 90),), color),))
        )
        for color in read_kinds()["car"].colors
    }
    assert len(set(pictures.values())) == len(pictures) == 4


def test_a_graph_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="repeat"):
        Graph("g", "grass", (Object("dog", ONE), Object("dog", ONE)))
    with pytest.raises(ValueError, match="divide"):
        Graph(
            "g",
            "grass",
            (Object("man", ONE * 2), Object("horse", ONE)),
            (),
            Action("riding", 0, 1),
        )


def test_content_forgets_cells_and_order_of_bystanders() -> None:
    dog, cat = Object("dog", ONE), Object("cat", (SpriteCell(40, 40, 20),) * 2)
    assert describe_content(Graph("a", "grass", (dog, cat))) == describe_content(
        Graph("b", "grass", (cat, Object("dog", (SpriteCell(9, 9, 9),))))
    )
    assert describe_content(Graph("a", "grass", (dog, cat))) != describe_content(
        Graph("a", "snow", (dog, cat))
    )


def test_lexicon_is_rich_and_consistent() -> None:
    assert len(read_kinds()) >= 40
    assert len(read_scene_verbs()) >= 30
    assert set(read_places()) == {
        "indoors",
        "street",
        "grass",
        "beach",
        "snow",
        "night",
    }
    assert len({kind.plural for kind in read_kinds().values()}) == len(read_kinds())
    for verb in read_scene_verbs().values():
        assert set(verb.roles) <= set(verb.order)
        assert verb.agents
        assert all(
            verb.name in read_scene_verbs()[vague_verb].vague
            for vague_verb in verb.vague
        )
        assert bool(verb.themes) == (len(verb.roles) == 2)
    for category in read_scene_categories().values():
        assert set(category.members) <= set(read_kinds())


def test_every_verb_is_sampled_and_drawn() -> None:
    verbs = {
        graph.action.verb
        for graph in draw_scenes(1500, 4, "training")
        if graph.action is not None
    }
    assert verbs == set(read_scene_verbs())


def test_contact_sheet_shows_every_scene() -> None:
    graphs = draw_scenes(24, Random(3).randrange(10))
    sheet = draw_contact_sheet(graphs, 0)
    assert sheet.width > 6 * SIZE
    assert sheet.height > 4 * SIZE
    assert (
        sheet.crop((10, 10, 10 + SIZE, 10 + SIZE)).tobytes()
        == render_scene(graphs[0]).tobytes()
    )


def test_the_arrangement_of_a_verb_is_read_with_its_defaults():
    juggling = read_scene_verbs()["juggling"]
    assert (juggling.items, len(juggling.drawing.theme)) == (3, 3)
    assert juggling.drawing.theme[0] == (2, 28, 24)
    riding = read_scene_verbs()["riding"].drawing
    assert (riding.agent_faces, riding.theme_faces, riding.front) == (
        "right",
        "right",
        "theme",
    )


def test_a_misspelled_key_of_a_kind_is_refused():
    entry = vars(read_kinds()["dog"])
    assert Kind(**entry) == read_kinds()["dog"]
    with pytest.raises(ValidationError, match="plurel"):
        Kind(**entry, plurel="dogs")
