"""Scoring pairs: rulers for what is known in closed form, and the scenes' CLIP on drawn scenes."""

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from stand_ins.records import build_items
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.core.records import to_row
from waltz.core.schema import EVALUATION
from waltz.evaluation.alignment import (
    compute_match_probability,
    count_unscored,
    score_items,
)
from waltz.evaluation.metrics.pair_metrics import compute_pair_metrics, pair_scores
from waltz.fidelity import EQUATIONS, PUBLISHED
from waltz.model_registry import ModelSpec
from waltz.models.encoders import alignment, load_encoder
from waltz.models.encoders.alignment import compute_pair_scores, split_pairs
from waltz.models.encoders.kinds.ruler import Ruler
from waltz.scenes.drawing import render_scene
from waltz.scenes.language.foils import draw_foils
from waltz.scenes.sampling import draw_scenes
from waltz.sources.images import load_image, open_images

CLIP = Path(__file__).parents[2] / "resources" / "scenes" / "models" / "clip"
CPU = Device("cpu", 1, "a test")
BOTH = ("equations", "published")


@dataclass(frozen=True)
class Watched(Ruler):
    """A ruler that writes down what passes through it, and gives a probability."""

    probability: bool = True
    passes: list[tuple[str, int]] = field(default_factory=list)
    most_pairs: int = 1000
    longest: int = 100

    def tokenize(self, text):
        tokens = super().tokenize(text)
        if len(tokens.ids) > self.longest:
            raise UserError(
                f"models.{self.spec.name}: {len(tokens.ids)} tokens, at most {self.longest} are read"
            )
        return tokens

    def encode_image(self, images):
        self.passes.append(("see", len(images)))
        return super().encode_image(images)

    def encode_text(self, ids):
        self.passes.append(("read", len(ids)))
        return super().encode_text(ids)

    def fuse(self, text, image):
        self.passes.append(("fuse", len(text[0])))
        if len(text[0]) > self.most_pairs:
            raise torch.OutOfMemoryError
        return super().fuse(text, image)


def watched(**more):
    return Watched(
        ModelSpec("watched", "ruler", weights="share:1", revision="0"),
        "cpu",
        1.0,
        **more,
    )


def sign(text):
    words = text.split()
    return sum(1 - 2 * (sum(map(ord, word)) % 2) for word in words) / len(words)


def item(place, image, caption, foil, instrument="existence"):
    (record,) = build_items(
        [
            {
                "item_id": f"i{place}",
                "image": image,
                "caption": caption,
                "foil": foil,
                "instrument": instrument,
            }
        ]
    )
    return record


@pytest.fixture
def folder(tmp_path):
    for name, shade in (("one.png", 10), ("two.png", 200)):
        Image.new("RGB", (8, 8), (shade, shade, shade)).save(tmp_path / name)
    return tmp_path


def test_scores_verdicts_and_layout_of_a_ruler_of_text(folder):
    items = [
        item(0, "one.png", "b b", "a b a"),
        item(1, "two.png", "a", "b", "alignment"),
    ]
    with open_images(folder) as images:
        rows = score_items(watched(), items, images, BOTH)
    assert parquet.build_table(list(map(to_row, rows)), EVALUATION).num_rows == 8
    assert [row.role for row in rows[:4]] == [
        "caption",
        "foil",
        "caption",
        "mismatched",
    ]
    signs = [sign(text) for text in ("b b", "a b a", "a", "b")]
    assert [row.score for row in rows] == pytest.approx(signs * 2)
    assert signs == pytest.approx([1, -1 / 3, -1, 1])
    assert [row.prediction for row in rows[:4]] == [
        "match",
        "mismatch",
        "mismatch",
        "match",
    ]
    assert [row.correct for row in rows] == [True, True, False, False] * 2
    assert rows[0].probability == pytest.approx(1 / (1 + np.exp(-1)), abs=1e-15)
    assert (
        rows[4].probability
        == float(np.float32(rows[4].probability))
        != rows[0].probability
    )
    assert [row.tokens for row in rows[:2]] == [4, 5]


def test_a_model_without_probability_has_scores_and_no_verdict(folder):
    with open_images(folder) as images:
        rows = score_items(
            watched(probability=False),
            [item(0, "one.png", "b", "a")],
            images,
            ["equations"],
        )
    assert [row.score for row in rows] == [1, -1]
    assert {
        value
        for row in rows
        for value in (row.probability, row.prediction, row.correct)
    } == {None}


def test_a_logit_of_zero_is_a_tie_in_equations_and_a_match_in_published(folder):
    with open_images(folder) as images:
        rows = score_items(watched(), [item(0, "one.png", "a b", "b a")], images, BOTH)
    assert [(row.prediction, row.correct) for row in rows[:2]] == [
        ("tie", False),
        ("tie", False),
    ]
    assert [(row.prediction, row.correct) for row in rows[2:]] == [
        ("match", True),
        ("match", False),
    ]


def test_a_text_too_long_and_an_image_that_is_missing_are_rows_with_errors(folder):
    items = [item(0, "one.png", "b", "a " * 10), item(1, "none.png", "b", "a")]
    with open_images(folder) as images:
        rows = score_items(watched(longest=5), items, images, ["equations"])
    assert [row.score for row in rows] == [1, None, None, None]
    assert rows[1].error == "models.watched: 12 tokens, at most 5 are read"
    assert "image 'none.png': is missing" in rows[2].error
    assert rows[1].prediction is rows[1].correct is None
    assert count_unscored(rows)["unscored_texts"] == 3
    assert pair_scores(rows, EQUATIONS).unscored == 2


def test_each_image_and_text_passes_once_and_texts_of_one_length_together(folder):
    encoder = watched()
    items = [
        item(0, "one.png", "b", "a"),
        item(1, "one.png", "b", "a b"),
        item(2, "two.png", "a b", "b"),
    ]
    with open_images(folder) as images:
        score_items(encoder, items, images, BOTH)
    assert sorted(encoder.passes) == [
        ("fuse", 3 + 2),
        ("read", 1),
        ("read", 2),
        ("see", 2),
    ]


def test_blocks_hold_all_texts_of_an_image_in_any_order(monkeypatch):
    monkeypatch.setattr(alignment, "PAIRS_PER_BLOCK", 3)
    pairs = [(f"m{image}", f"t{text}") for image in range(4) for text in range(2)]
    blocks = list(split_pairs(pairs))
    assert blocks == list(split_pairs(reversed(pairs * 2)))
    assert [len(block) for block in blocks] == [4, 4]
    assert [pair for block in blocks for pair in block] == sorted(pairs)


def test_a_stored_block_is_not_computed_again_unless_pixels_or_weights_change(
    folder, tmp_path
):
    pairs = [("one.png", "b"), ("two.png", "a")]
    store = tmp_path / "cache.sqlite"
    progress = []

    def run(share="share:1"):
        encoder = watched()
        encoder = replace(encoder, spec=replace(encoder.spec, weights=share))
        with open_images(folder) as images:
            scores = compute_pair_scores(
                encoder,
                pairs,
                lambda name: load_image(images, name),
                store,
                progress.append,
            )
        return [scores[pair].logit for pair in pairs], len(encoder.passes)

    assert run() == ([1, -1], 3)
    assert run() == ([1, -1], 0)
    assert run("share:0.5")[1] == 3
    Image.new("RGB", (8, 8), "red").save(folder / "one.png")
    assert run() == ([1, -1], 3)
    assert progress == [2, 2, 2, 2]


def test_out_of_memory_halves_and_gives_the_same(folder):
    pairs = [("one.png", text) for text in ("a", "b", "c", "d", "e")]
    with open_images(folder) as images:
        scores = [
            compute_pair_scores(encoder, pairs, lambda name: load_image(images, name))
            for encoder in (watched(), watched(most_pairs=1))
        ]
    assert scores[0] == scores[1]


def test_images_are_loaded_in_the_threads_of_the_job(folder, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    both_load = threading.Barrier(2, timeout=30)

    def load(name):
        both_load.wait()
        return load_image(images, name)

    pairs = [("one.png", "a"), ("two.png", "a")]
    with open_images(folder) as images:
        scores = compute_pair_scores(watched(), pairs, load)
    assert [scores[pair].error for pair in pairs] == [None, None]


def test_a_logit_that_is_no_number_is_an_error(folder):
    encoder = watched()
    encoder = replace(encoder, share=float("nan"))
    with open_images(folder) as images:
        scores = compute_pair_scores(
            encoder, [("one.png", "a")], lambda name: load_image(images, name)
        )
    assert scores["one.png", "a"].logit is scores["one.png", "a"].numbers is None
    assert scores["one.png", "a"].error == "the model's logit is nan"


def test_probabilities_are_the_sigmoid_and_never_overflow():
    assert (
        compute_match_probability(0.0, PUBLISHED)
        == compute_match_probability(0.0, EQUATIONS)
        == 0.5
    )
    assert (
        compute_match_probability(-1e4, PUBLISHED)
        == compute_match_probability(-1e4, EQUATIONS)
        == 0
    )
    assert compute_match_probability(1e4, EQUATIONS) == 1
    assert (
        compute_match_probability(1.0, PUBLISHED)
        == torch.sigmoid(torch.tensor(1.0)).item()
    )


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Drawn scenes with existence and object foils, as benchmark items."""
    from random import Random

    folder = tmp_path_factory.mktemp("drawn")
    items = []
    for graph in draw_scenes(24, 77):
        render_scene(graph).save(folder / f"{graph.id}.png")
        for foil in draw_foils(graph, Random(graph.id)):
            if foil.piece in ("existence", "object"):
                items.append(
                    item(len(items), f"{graph.id}.png", foil.caption, foil.foil)
                )
    return folder, items


def test_the_scenes_clip_ranks_captions_of_drawn_scenes_and_gives_its_own_logits(
    drawn, tmp_path
):
    folder, items = drawn
    encoder = load_encoder(
        ModelSpec("scenes-clip", "clip", weights=str(CLIP), revision="local"), CPU
    )
    with open_images(folder) as images:
        rows = score_items(encoder, items, images, BOTH, tmp_path / "cache.sqlite")
        again = score_items(encoder, list(reversed(items)), images, BOTH, None)
        picture = load_image(images, items[0].image)
    by_text = {(row.item_id, row.role, row.profile): row.score for row in again}
    assert all(row.score == by_text[row.item_id, row.role, row.profile] for row in rows)
    network = transformers.CLIPModel.from_pretrained(CLIP, dtype=torch.float32).eval()
    processor = transformers.AutoProcessor.from_pretrained(CLIP)
    for row, text in zip(rows[:2], (items[0].caption, items[0].foil), strict=True):
        with torch.inference_mode():
            logit = network(
                **processor(images=picture, text=[text], return_tensors="pt")
            ).logits_per_image.item()
        assert row.score == pytest.approx(logit, abs=1e-3)
    metrics = compute_pair_metrics(
        pair_scores(rows, PUBLISHED), "drawn", Resampling(200, 0.95, 0)
    )
    assert metrics["acc_r"].value >= 75
    assert metrics["p_c"].reason.startswith("not applicable")
