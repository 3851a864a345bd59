"""Shapley interaction indices against their definition, over all coalitions written out here."""

import itertools
import math

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.models import tiny_clip, tiny_encoders
from waltz.attribution.mm_shap import attribute_texts, choose_outcome
from waltz.attribution.shapley import interactions
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.fidelity import EQUATIONS, PUBLISHED
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import build_equations_players
from waltz.models.pretrained import LoadedSpec
from waltz.models.resolve_name import describe_loaded, resolve_encoder

CPU = Device("cpu", 1, "")
TEXT = "a dog sees"
SETTINGS = AttributionSettings(EQUATIONS, evaluations=2000, interactions=True)


def define_index(value, players, first, second):
    """The interaction index of two players, coalition by coalition (Grabisch and Roubens 1999)."""
    others = [player for player in range(players) if player not in (first, second)]
    total = 0.0
    for size in range(len(others) + 1):
        weight = (
            math.factorial(size)
            * math.factorial(players - size - 2)
            / math.factorial(players - 1)
        )
        for chosen in itertools.combinations(others, size):
            without = frozenset(chosen)
            total += weight * (
                value(without | {first, second})
                - value(without | {first})
                - value(without | {second})
                + value(without)
            )
    return total


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return tiny_clip.save_clip(tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture(scope="module")
def picture():
    return Image.fromarray(
        np.random.default_rng(5).integers(0, 256, (47, 61, 3), dtype=np.uint8)
    )


def enumerate_network(network, ids, image, game):
    """The logit of the network itself for each coalition of a game."""
    scores = {}
    for numbers in itertools.product((False, True), repeat=len(game)):
        masks = np.array([numbers])
        with torch.no_grad():
            output = network(
                input_ids=game.mask_text(masks[:, : game.n_text_players]),
                pixel_values=game.mask_image(image, masks[:, game.n_text_players :]),
            )
        scores[frozenset(np.flatnonzero(numbers).tolist())] = (
            output.logits_per_image.item()
        )
    return scores


def test_late_fusion_needs_no_other_pass_for_the_indices_of_all_coalitions(
    clip, picture
):
    encoder = load_encoder(resolve_encoder(str(clip)), CPU)
    (attribution,) = attribute_texts(encoder, picture, [TEXT], SETTINGS)
    assert attribution.estimator == "exact-factorised"
    assert attribution.estimate.requested == 2**3 + 2**4
    image = encoder.prepare_image(picture)
    tokenized = encoder.tokenize(TEXT)
    game = build_equations_players(encoder, tokenized, image)
    scores = enumerate_network(encoder.network, tokenized.ids, image, game)
    expected = [
        [
            define_index(
                scores.__getitem__, len(game), word, game.n_text_players + patch
            )
            for patch in range(game.n_image_players)
        ]
        for word in range(game.n_text_players)
    ]
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(attribution.interactions[:, :, 0], expected, atol=2e-5)


def test_regressions_of_late_fusion_near_the_indices_of_all_coalitions(clip, picture):
    encoder = load_encoder(resolve_encoder(str(clip)), CPU)
    (exact,) = attribute_texts(encoder, picture, [TEXT], SETTINGS)

    def measure_error(evaluations):
        settings = AttributionSettings(
            EQUATIONS, "factorised-regression", evaluations, interactions=True
        )
        (attribution,) = attribute_texts(encoder, picture, [TEXT], settings)
        return np.linalg.norm(
            attribution.interactions - exact.interactions
        ) / np.linalg.norm(exact.interactions)

    errors = [measure_error(18), measure_error(22)]
    assert 0.5 > errors[0] > errors[1] > 1e-4
    assert measure_error(24) == 0


@pytest.mark.parametrize("players", [2, 3, 6])
def test_all_coalitions_give_the_definition(players):
    values = np.random.default_rng(players).normal(size=(2**players, 2))
    (pairs,) = interactions.estimate_interactions(
        lambda masks: [values[masks[0] @ (1 << np.arange(players))]],
        [players],
        [2**players],
        0,
    )
    for output in range(2):

        def value(coalition, output=output):
            return values[sum(1 << player for player in coalition), output]

        for first, second in itertools.combinations(range(players), 2):
            assert pairs[first, second, output] == pytest.approx(
                define_index(value, players, first, second)
            )
    assert np.array_equal(pairs, pairs.transpose(1, 0, 2))
    assert not pairs[range(players), range(players)].any()


def test_drawn_coalitions_find_the_pairs_of_a_game_of_pairs():
    players = 14
    draws = np.random.default_rng(0)
    alone, pairs = (
        draws.normal(size=players),
        np.triu(draws.normal(size=(players, players)), 1),
    )
    asked = []

    def compute(masks):
        asked.append(len(masks[0]))
        present = masks[0].astype(float)
        return [
            (present @ alone + np.einsum("ki,ij,kj->k", present, pairs, present))[
                :, None
            ]
        ]

    (found,) = interactions.estimate_interactions(compute, [players], [800], 3)
    assert asked[0] <= 800
    np.testing.assert_allclose(found[..., 0], pairs + pairs.T, atol=1e-5)


def draw_coalitions(players, evaluations):
    """The coalitions that one game of no values is asked for."""
    requested = []

    def compute(masks):
        requested.append(masks[0])
        return [np.zeros((len(masks[0]), 1))]

    interactions.estimate_interactions(compute, [players], [evaluations], 3)
    return requested[0]


def test_too_few_evaluations_for_the_pairs_are_refused():
    with pytest.raises(UserError, match=r"got 209, expected at least 210"):
        draw_coalitions(14, 209)
    assert 200 <= len(draw_coalitions(14, 210)) <= 210


@pytest.mark.parametrize(
    ("players", "evaluations", "least", "most"),
    [
        (6, None, 64, 64),  # ten permutations are 130
        (7, None, 128, 128),  # 150
        (8, None, 160, 170),  # of 256 coalitions; four times 36 terms are 144
        (14, None, 405, 420),  # four times 105 terms; ten permutations are 290
        (8, 256, 256, 256),
        (8, 254, 254, 254),
    ],
)
def test_coalitions_are_all_or_drawn_with_their_complements(
    players, evaluations, least, most
):
    masks = draw_coalitions(players, evaluations)
    assert least <= len(masks) <= most
    codes = set((masks @ (1 << np.arange(players))).tolist())
    assert len(codes) == len(masks)
    assert codes == {2**players - 1 - code for code in codes}


def test_early_fusion_takes_its_coalitions(picture):
    network, tokenizer, images = tiny_encoders.build("vilt")
    network.eval()
    spec = describe_loaded(
        network,
        type("Processor", (), {"tokenizer": tokenizer, "image_processor": images})(),
    )
    assert isinstance(spec, LoadedSpec)
    encoder = load_encoder(spec, CPU)
    (attribution,) = attribute_texts(encoder, picture, ["a red dog"], SETTINGS)
    image, tokenized = encoder.prepare_image(picture), encoder.tokenize("a red dog")
    game = build_equations_players(encoder, tokenized, image)
    outcome, scores = choose_outcome(encoder), {}
    for numbers in itertools.product((False, True), repeat=len(game)):
        masks = np.array([numbers])
        with torch.no_grad():
            logit = network(
                input_ids=game.mask_text(masks[:, : game.n_text_players]),
                pixel_values=game.mask_image(image, masks[:, game.n_text_players :]),
            ).logits
        scores[frozenset(np.flatnonzero(numbers).tolist())] = outcome(logit).item()
    expected = [
        [
            define_index(
                scores.__getitem__, len(game), word, game.n_text_players + patch
            )
            for patch in range(game.n_image_players)
        ]
        for word in range(game.n_text_players)
    ]
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(attribution.interactions[:, :, 0], expected, atol=2e-5)


def test_published_has_no_interactions(clip, picture):
    encoder = load_encoder(resolve_encoder(str(clip)), CPU)
    with pytest.raises(UserError, match="take profile equations"):
        attribute_texts(
            encoder, picture, [TEXT], AttributionSettings(PUBLISHED, interactions=True)
        )


def test_the_joint_share_is_that_of_pairs():
    additive = interactions.compute_joint_share(
        np.array([1.0, -2.0, 3.0]), np.zeros((2, 1))
    )
    assert additive == 0
    # v = x * y: each player has half of the one pair, and nothing alone
    assert (
        interactions.compute_joint_share(np.array([0.5, 0.5]), np.array([[1.0]])) == 1
    )
    # v = x * y + z with a token z: half of the magnitude
    assert (
        interactions.compute_joint_share(
            np.array([0.5, 1.0, 0.5]), np.array([[1.0], [0.0]])
        )
        == 0.5
    )
    assert math.isnan(interactions.compute_joint_share(np.zeros(2), np.zeros((1, 1))))
