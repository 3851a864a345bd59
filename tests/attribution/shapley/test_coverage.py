"""95 % intervals of T-SHAP where sampling stops at a standard error, for games of late fusion with
exact values.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from stand_ins.games import play
from waltz.attribution.shapley import late_fusion
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.shapley.estimators import begin_estimation
from waltz.attribution.shapley.late_fusion import compute_factorized
from waltz.attribution.t_shap import compute_t_shap, measure_t_shap
from waltz.fidelity import EQUATIONS

WORDS, PATCHES, GAMES = 6, 9, 8
TOLERANCE = 0.03
"""Largest distance of the coverage from 95 %."""


class Sides:
    """What `compute_factorized` needs to know of a game."""

    n_text_players, n_image_players, grid, always_visible = (
        WORDS,
        PATCHES,
        3,
        np.zeros(WORDS + PATCHES, dtype=bool),
    )

    def __len__(self):
        return WORDS + PATCHES


def list_coalitions(players):
    return (np.arange(2**players)[:, None] >> np.arange(players) & 1).astype(bool)


def draw_vectors(generator, players):
    """Return the unit vectors of all coalitions of one side, a nonlinear map of its players."""
    masks = 2.0 * list_coalitions(players) - 1
    features = np.tanh(
        masks @ generator.normal(0.1, 0.25, (players, 5)) + generator.normal(size=5)
    )
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def look_up(table):
    return lambda masks: table[masks @ (1 << np.arange(masks.shape[1]))]


@pytest.fixture(scope="module")
def games():
    """Return vectors of the text and of the image by coalition, and the exact T-SHAP, of each game."""
    found = []
    for number in range(GAMES):
        generator = np.random.default_rng(number)
        text, image = draw_vectors(generator, WORDS), draw_vectors(generator, PATCHES)
        sides = (late_fusion.average_all_orders(look_up(text), WORDS),
                 late_fusion.average_all_orders(look_up(image), PATCHES))  # fmt: skip
        phi = np.concatenate(late_fusion.compute_shapley_values(*sides))
        found.append((text, image, float(compute_t_shap(phi[:, None], WORDS))))
    return found


def estimate_by_sides(text, image, budget, seed, target, monkeypatch):
    game = Sides()
    monkeypatch.setattr(late_fusion, "build_text_vectors", lambda *_: look_up(text))
    monkeypatch.setattr(late_fusion, "build_image_vectors", lambda *_: look_up(image))
    encoder = SimpleNamespace(scale=10.0, bias=0.0)
    (factorized,) = compute_factorized(
        encoder, None, [game], budget, seed, standard_error=target
    )
    estimate = factorized.estimate
    return measure_t_shap(estimate, WORDS), estimate.stopped_by


def estimate_by_coalitions(name, text, image, budget, seed, target):
    def game(masks):
        return 10 * (
            look_up(text)(masks[:, :WORDS]) * look_up(image)(masks[:, WORDS:])
        ).sum(axis=1, keepdims=True)

    settings = AttributionSettings(EQUATIONS, name, budget, seed, target)
    estimate, _ = play(begin_estimation(name, WORDS + PATCHES, WORDS, settings), game)
    return measure_t_shap(estimate, WORDS), estimate.stopped_by


@pytest.mark.parametrize(
    ("name", "budget", "target", "seeds"),
    [("permutation", 3000, 0.03, 60), ("permutation", 3000, 0.02, 40),
     ("factorised-regression", 300, 0.02, 15), ("regression", 400, 0.03, 10)],
)  # fmt: skip
def test_intervals_cover_the_truth_where_sampling_stops(
    name, budget, target, seeds, games, monkeypatch
):
    hits, reasons = [], []
    for text, image, truth in games:
        for seed in range(seeds):
            if name == "factorised-regression":
                t_shap, reason = estimate_by_sides(
                    text, image, budget, seed, target, monkeypatch
                )
            else:
                t_shap, reason = estimate_by_coalitions(
                    name, text, image, budget, seed, target
                )
            low, high = t_shap.interval
            hits.append(low <= truth <= high)
            reasons.append(reason)
    assert np.mean([reason == "standard error" for reason in reasons]) > 0.9
    assert abs(np.mean(hits) - 0.95) <= TOLERANCE
