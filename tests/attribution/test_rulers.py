"""Rulers: T-SHAP is the share that they were made with, whatever the text's length and the profile."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
import torch
from PIL import Image

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.coalitions import Coalitions
from waltz.models.encoders.kinds.ruler import load
from waltz.models.encoders.players import PROFILES

torch.set_num_threads(1)
SHARES = (0, 0.25, 0.5, 1)
IMAGE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 160, 3), dtype=np.uint8))


def ruler(share):
    return load(ModelSpec("ruler", "ruler", weights=f"share:{share}"), Device("cpu", 1, "a test"))


def game(encoder, text, profile):
    """Players of a text with the image, and the logits of coalitions of them."""
    image = encoder.prepare_image(IMAGE)
    players = PROFILES[profile](encoder, encoder.tokenize(text), image)
    coalitions = Coalitions(encoder, image, [players], lambda logits: logits)
    return players, lambda masks: coalitions.values([np.asarray(masks, dtype=bool)])[0][:, 0]


def text_share(players, phi):
    return np.abs(phi[: players.words]).sum() / np.abs(phi).sum()


def alone(values, size):
    """What each player adds to nobody, which is its Shapley value if that adds up to what all are worth."""
    found = values(np.concatenate([np.zeros((1, size), bool), np.eye(size, dtype=bool), np.ones((1, size), bool)]))
    phi = found[1:-1] - found[0]
    assert phi.sum() == pytest.approx(found[-1] - found[0], abs=1e-12)
    return phi


LENGTHS = {0: (1, 2, 7, 14, 48, 77), 0.25: range(1, 78), 0.5: (1, 2, 7, 14, 48, 77), 1: (1, 2, 7, 14, 48, 77)}


@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize("share", SHARES)
def test_the_share_is_met_at_every_length(profile, share):
    encoder = ruler(share)
    for count in LENGTHS[share]:
        players, values = game(encoder, " ".join(f"word{place}" for place in range(count)), profile)
        assert text_share(players, alone(values, len(players))) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("text", ["zebra", "two cats sit"])
def test_the_share_is_met_by_exact_enumeration(profile, share, text):
    players, values = game(ruler(share), text, profile)
    size = len(players)
    masks = (np.arange(2**size)[:, None] >> np.arange(size)) & 1
    found = values(masks)
    phi = np.zeros(size)
    for player in range(size):
        others = [other for other in range(size) if other != player]
        for taken in range(size):
            weight = factorial(taken) * factorial(size - taken - 1) / factorial(size)
            for chosen in combinations(others, taken):
                without = sum(1 << other for other in chosen)
                phi[player] += weight * (found[without | 1 << player] - found[without])
    assert phi.sum() == pytest.approx(found[-1] - found[0], abs=1e-12)
    assert text_share(players, phi) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("profile", list(PROFILES))
def test_one_permutation_with_its_reverse_is_exact(profile):
    players, values = game(ruler(0.25), "the man throws a red ball over the dog", profile)
    size = len(players)
    order = np.random.default_rng(4).permutation(size)
    steps = np.array([np.isin(np.arange(size), order[:count]) for count in range(size + 1)])
    phi = np.zeros(size)
    for walk, added in ((values(steps), order), (values(~steps)[::-1], order[::-1])):
        phi[added] += np.diff(walk) / 2
    assert text_share(players, phi) == pytest.approx(0.25, abs=1e-9)


def test_pixels_that_no_patch_covers_do_not_count():
    encoder = ruler(0.5)
    players, values = game(encoder, " ".join(["word"] * 70), "published")
    assert players.grid == 9
    assert (players.cells == 81).any()  # 120 - 9 x 13 pixels are left over
    everything, nothing = values(np.array([[True] * len(players), [False] * len(players)]))
    sign = 1 - 2 * ((encoder.tokenize("word").ids[1] - 3) % 2)
    assert everything == pytest.approx(0.5 * sign + 0.5)
    assert nothing == pytest.approx(0)


def test_words_count_for_or_against():
    encoder = ruler(1)
    players, values = game(encoder, "b a", "equations")  # 98 is even, 97 is odd
    phi = alone(values, len(players))
    assert phi[:2] == pytest.approx([0.5, -0.5])
    assert np.all(phi[2:] == 0)
