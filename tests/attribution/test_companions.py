"""EMAP and perceptual score: by hand, and of models without interactions."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from waltz.attribution.companions import (
    Ranking,
    build_ranking_credit,
    compute_additive_projection,
    compute_perceptual_score,
    compute_ranking_emap,
    compute_score_matrix,
    draw_donors,
)
from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder

torch.set_num_threads(1)
CLIP = str(Path(__file__).parents[2] / "resources/scenes/models/clip")
EMAP_RESAMPLING = Resampling(resamples=200, confidence=0.95, seed=5)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_two_by_two_worked_by_hand():
    scores = np.array([[1.0, 2.0], [3.0, 8.0]])
    even = np.array([0.5, 0.5])
    # rows 1.5 and 5.5, columns 2 and 5, all 3.5
    assert compute_additive_projection(scores, even, even).tolist() == [[0, 3], [4, 7]]


def test_it_is_the_nearest_additive_function():
    scores = random(4, 5)
    rows, columns = np.array([1, 2, 2, 3]) / 8, np.array([1, 1, 2, 2, 4]) / 10
    design = np.array(
        [
            np.concatenate([np.eye(4)[image], np.eye(5)[text]])
            for image in range(4)
            for text in range(5)
        ]
    )
    weights = np.sqrt(np.outer(rows, columns).ravel())
    solution, *_ = np.linalg.lstsq(
        design * weights[:, None], scores.ravel() * weights, rcond=None
    )
    assert compute_additive_projection(scores, rows, columns).ravel() == pytest.approx(
        design @ solution
    )


def test_brute_force_over_all_pairs_of_items():
    # two items share an image, and three texts are captions or foils of two items
    images, captions, foils = (
        np.array([0, 1, 1, 2]),
        np.array([0, 0, 1, 0]),
        np.array([1, 2, 2, 2]),
    )
    scores, texts = random(3, 3, seed=2), np.concatenate([captions, foils])

    def project(image, text):
        by_text = np.mean([scores[other, text] for other in images])
        by_image = np.mean([scores[image, other] for other in texts])
        return (
            by_text
            + by_image
            - np.mean([scores[one, other] for one in images for other in texts])
        )

    emap = compute_ranking_emap(
        Ranking(scores, images, captions, foils), EMAP_RESAMPLING
    )
    items = list(zip(images, captions, foils, strict=True))
    assert emap.projection.value == 100 * np.mean(
        [project(i, c) > project(i, f) for i, c, f in items]
    )
    assert emap.model.value == 100 * np.mean(
        scores[images, captions] > scores[images, foils]
    )
    # an image or a text counts as often as items have it, in the variance and in what the
    # projection misses
    pairs = [(image, text) for image in images for text in texts]
    mean = np.mean([scores[pair] for pair in pairs])
    variance = np.mean([(scores[pair] - mean) ** 2 for pair in pairs])
    missed = np.mean([(scores[pair] - project(*pair)) ** 2 for pair in pairs])
    assert emap.interaction == pytest.approx(missed / variance, rel=1e-12)
    assert abs(mean - scores.mean()) > 0.05  # the plain mean is another number


def test_the_projection_of_an_additive_model_is_the_model():
    scores = random(30)[:, None] + random(60, seed=1)[None, :]
    even = [np.full(size, 1 / size) for size in scores.shape]
    assert compute_additive_projection(scores, *even) == pytest.approx(scores)
    own = np.arange(30)
    emap = compute_ranking_emap(Ranking(scores, own, own, own + 30), EMAP_RESAMPLING)
    assert emap.model == emap.projection
    assert emap.interaction == pytest.approx(0, abs=1e-12)


def test_a_model_of_interactions_alone_is_left_with_nothing():
    # Right is the text with the image's sign, which neither tells alone.
    side = np.array([1.0, -1.0])
    own = np.array([0, 1])
    emap = compute_ranking_emap(
        Ranking(np.outer(side, side), own, own, own[::-1]), EMAP_RESAMPLING
    )
    # The projection ties all pairs.
    assert (emap.model.value, emap.projection.value) == (
        100,
        50,
    )
    assert emap.interaction == pytest.approx(1)


def test_ranking_by_the_projection_is_ranking_by_the_text():
    scores, own = random(40, 80), np.arange(40)
    emap = compute_ranking_emap(Ranking(scores, own, own, own + 40), EMAP_RESAMPLING)
    by_text = scores.mean(axis=0)
    assert emap.projection.value == 100 * np.mean(by_text[:40] > by_text[40:])


def test_equal_texts_tie_and_constant_scores_have_no_variance():
    scores, own = 100 * random(9, 9), np.arange(9)
    alike = compute_ranking_emap(
        Ranking(np.concatenate([scores, scores], axis=1), own, own, own + 9),
        EMAP_RESAMPLING,
    )
    assert (alike.model.value, alike.projection.value) == (50, 50)
    assert np.isnan(
        compute_ranking_emap(
            Ranking(np.full((9, 9), 0.1), own, own, own), EMAP_RESAMPLING
        ).interaction
    )


def test_texts_of_one_mean_tie_though_floats_add_up_otherwise():
    scores, own = 100 * random(41, 41), np.arange(41)
    emap = compute_ranking_emap(
        Ranking(np.concatenate([scores, scores[::-1]], axis=1), own, own, own + 41),
        EMAP_RESAMPLING,
    )
    assert emap.model.value > 0
    assert emap.projection.value == 50


def test_scores_that_differ_by_rounding_alone_tie_in_every_companion():
    scores, own = 20 * np.ones((9, 18)), np.arange(9)
    scores[:, 9:] += 1e-6 * np.sign(noise(9, 9))
    for dtype, half in (("float32", 1e-6), ("bfloat16", 0.1)):
        shifted = 20 + half * (scores - 20) / 1e-6
        emap = compute_ranking_emap(
            Ranking(shifted, own, own, own + 9, dtype), EMAP_RESAMPLING
        )
        assert (emap.model.value, emap.projection.value) == (50, 50)
        credit = build_ranking_credit(
            Ranking(shifted, own, own, own + 9, dtype), [f"i{item}" for item in own], 0
        )
        assert set(credit(own, own)) == {0.5}


def pictures(count):
    noise = np.random.default_rng(3)
    return [
        Image.fromarray(noise.integers(0, 255, (40, 60, 3), dtype=np.uint8))
        for _ in range(count)
    ]


KINDS = [("ruler", "share:0.5"), ("attending", "share:0.5"), ("clip", CLIP)]
TEXTS = [
    "a man rides",
    "two dogs",
    "a cat sits on a red table .",
    "one ball",
    "a woman throws the ball",
]


class Attending:
    """A ruler's text and image, fused token by token with pixel by pixel, so that texts of two
    lengths do not stack.
    """

    def __init__(self, ruler):
        self.ruler = ruler

    def __getattr__(self, name):
        return getattr(self.ruler, name)

    def encode_image(self, images):
        return (
            images[:, :, ::30, ::30].flatten(2).transpose(1, 2),
            images.mean(dim=(1, 2, 3)),
        )

    def encode_text(self, ids):
        return (torch.sin(ids[:, :, None] * torch.tensor([1.0, 2.0, 3.0])),)

    def fuse(self, text, image):
        return (
            torch.einsum("btd,bpd->btp", text[0], image[0]).amax(dim=2).sum(dim=1)
            * image[1]
        )


def loaded(kind, weights):
    if kind == "attending":
        return Attending(loaded("ruler", weights))
    return load_encoder(
        ModelSpec("model", kind, weights=weights), Device("cpu", 1, "a test")
    )


@pytest.mark.parametrize(
    ("kind", "weights"), KINDS, ids=lambda name: name.split("/")[-1]
)
def test_the_matrix_holds_the_score_of_every_pair(kind, weights):
    encoder, images = loaded(kind, weights), pictures(4)
    matrix = compute_score_matrix(encoder, iter(images), TEXTS)
    assert matrix.shape == (4, 5)
    with torch.inference_mode():
        for row, image in enumerate(images):
            for column, text in enumerate(TEXTS):
                read = encoder.encode_text(torch.tensor([encoder.tokenize(text).ids]))
                logit = encoder.fuse(
                    read, encoder.encode_image(encoder.prepare_image(image)[None])
                ).item()
                assert matrix[row, column] == pytest.approx(logit, abs=1e-4)


class Counted:
    """An encoder that counts what passes it, in batches of two."""

    images_per_batch = texts_per_batch = pairs_per_batch = 2

    def __init__(self, encoder):
        self.encoder, self.seen, self.read_texts, self.fused = encoder, 0, 0, 0

    def __getattr__(self, name):
        return getattr(self.encoder, name)

    def encode_image(self, images):
        self.seen += len(images)
        return self.encoder.encode_image(images)

    def encode_text(self, ids):
        self.read_texts += len(ids)
        return self.encoder.encode_text(ids)

    def fuse(self, text, image):
        assert len(text[0]) == len(image[0]) <= 2
        self.fused += len(text[0])
        return self.encoder.fuse(text, image)


@pytest.mark.parametrize(
    ("kind", "weights"), KINDS, ids=lambda name: name.split("/")[-1]
)
def test_each_image_is_seen_once_and_each_text_read_once(kind, weights):
    encoder, images = loaded(kind, weights), pictures(3)
    counted = Counted(encoder)
    matrix = compute_score_matrix(counted, images, TEXTS)
    assert (counted.seen, counted.read_texts, counted.fused) == (3, 5, 15)
    assert matrix == pytest.approx(
        compute_score_matrix(encoder, images, TEXTS), abs=1e-4
    )


HOW = Resampling(resamples=400, confidence=0.95, seed=5)
COUNT = 400
IDS = [f"item {place}" for place in range(COUNT)]
OWN = np.arange(COUNT)


def score(credit, modality, repeats=5):
    return compute_perceptual_score(credit, IDS, IDS, modality, repeats, HOW).value


def noise(*shape):
    return np.random.default_rng(1).normal(size=shape)


def test_three_items_worked_by_hand():
    # item k is right by itself, and wrong with anything of another item: a deal keeps the fixed
    # points
    ids = ["c", "a", "b"]

    def credit(texts, images):
        return (texts == images).astype(float)

    perceptual_score = compute_perceptual_score(credit, ids, ids, "image", 6, HOW)
    fixed = (draw_donors(ids, 6, HOW.seed) == np.arange(3)).mean(axis=1)
    assert perceptual_score.value == pytest.approx(100 * (1 - fixed.mean()))
    assert perceptual_score.n == 3


def test_a_model_that_reads_alone_does_not_perceive_the_image():
    scores = np.tile(noise(1, 2 * COUNT), (COUNT, 1))
    credit = build_ranking_credit(Ranking(scores, OWN, OWN, OWN + COUNT), IDS, HOW.seed)
    right = (scores[0, :COUNT] > scores[0, COUNT:]).mean()
    assert score(credit, "image") == 0
    assert score(credit, "text") == pytest.approx(100 * right - 50, abs=5)


def test_a_model_that_needs_both_loses_as_much_by_either():
    scores = np.eye(COUNT) * 2 - 1 + np.zeros((COUNT, COUNT))
    # Its own caption 1, its own foil -1, others the other way.
    both = np.concatenate([scores, -scores], axis=1)
    credit = build_ranking_credit(Ranking(both, OWN, OWN, OWN + COUNT), IDS, HOW.seed)
    # Only items that were dealt their own stay right.
    assert score(credit, "image") > 98
    assert score(credit, "text") == pytest.approx(50, abs=5)


def test_a_tie_earns_half_whatever_the_places():
    credit = build_ranking_credit(
        Ranking(np.zeros((COUNT, 2 * COUNT)), OWN, OWN, OWN + COUNT), IDS, 0
    )
    assert set(credit(OWN, OWN)) == set(credit(OWN[::-1], OWN)) == {0.5}


def test_a_deal_is_a_permutation_that_hangs_on_ids_alone():
    dealt = draw_donors(IDS, 3, 1)
    assert all(sorted(deal) == list(range(COUNT)) for deal in dealt)
    assert not np.array_equal(dealt[0], dealt[1])
    back = draw_donors(IDS[::-1], 3, 1)
    given = {IDS[place]: IDS[donor] for place, donor in enumerate(dealt[2])}
    assert given == {
        IDS[::-1][place]: IDS[::-1][donor] for place, donor in enumerate(back[2])
    }
    assert not np.array_equal(dealt[0], draw_donors(IDS, 1, 2)[0])


def test_deals_are_uniform():
    dealt = draw_donors(["a", "b", "c"], 3000, 0)
    _, counts = np.unique(dealt, axis=0, return_counts=True)
    assert len(counts) == 6
    assert counts.min() > 400  # 500 are expected, with a standard deviation of 20


def test_more_deals_keep_the_first_ones():
    assert np.array_equal(draw_donors(IDS, 2, 1), draw_donors(IDS, 5, 1)[:2])
