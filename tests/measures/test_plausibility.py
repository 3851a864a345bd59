"""acc_r at equal likelihood, against closed forms and constructed models."""

import math

import numpy as np
import pytest
from scipy.special import expit

from waltz.core.intervals import Resampling
from waltz.evaluation.metrics.pair_metrics import ScoredPairs
from waltz.measures.plausibility import (
    JudgedItems,
    fit_logistic,
    measure_equal_likelihood,
    measure_plausibility,
)

HOW = Resampling(200, 0.95, 3)


def test_logistic_of_two_differences_in_closed_form():
    # 100 items at each of -1 and 1, of which 30 and 90 are hits: intercept and slope are means of the log-odds
    differences = np.repeat([-1.0, 1.0], 100)
    hits = np.concatenate([np.arange(100) < 30, np.arange(100) < 90]).astype(float)
    intercept, slope = fit_logistic(differences, hits, np.ones((1, 200)))[0]
    low, high = math.log(0.3 / 0.7), math.log(0.9 / 0.1)
    assert intercept == pytest.approx((low + high) / 2, abs=1e-3)
    assert slope == pytest.approx((high - low) / 2, abs=1e-3)


def test_weights_count_as_repetitions():
    differences, hits = np.array([-1.0, 0.5, 1.0, -0.2]), np.array([0.0, 1.0, 0.0, 1.0])
    weights = np.array([[3.0, 1.0, 2.0, 4.0]])
    repeated = np.repeat(np.arange(4), weights[0].astype(int))
    expected = fit_logistic(differences[repeated], hits[repeated], np.ones((1, 10)))
    assert fit_logistic(differences, hits, weights) == pytest.approx(expected)


def test_a_model_that_follows_the_language_model_is_at_chance_where_both_texts_are_as_likely():
    generator = np.random.default_rng(1)
    differences = generator.normal(1.0, 1.0, 300)
    items = [f"i{number}" for number in range(300)]
    blind = (differences > 0).astype(float)
    assert blind.mean() > 0.8
    assert measure_equal_likelihood(
        JudgedItems(differences, blind, items), "blind", HOW
    ).value == pytest.approx(50, abs=10)
    seeing = (generator.random(300) < expit(1.5 + 0 * differences)).astype(float)
    share = measure_equal_likelihood(
        JudgedItems(differences, seeing, items), "seeing", HOW
    )
    assert share.ci_low < 100 * expit(1.5) < share.ci_high


def test_nothing_is_said_beyond_the_data():
    share = measure_equal_likelihood(
        JudgedItems(np.linspace(-0.1, 2, 30), np.ones(30), ["i"] * 30), "one", HOW
    )
    assert share.value is None
    assert (
        share.reason
        == "28 captions and 2 foils are the likelier text; 5 of each are needed"
    )


def test_rows():
    items = tuple(f"i{number}" for number in range(30))
    differences = np.linspace(-1, 2, 30)
    language = ScoredPairs(items, items, differences, np.zeros(30), None)
    model = ScoredPairs(items, items, np.ones(30), np.zeros(30), None)
    scores = {("lm", "plurality"): language, ("clip", "plurality"): model}
    rows = measure_plausibility(scores, "lm", {"plurality": ["grammaticality"]}, HOW)
    values = {(row.model, row.dataset, row.quantity): row for row in rows}
    own = values["lm", "plurality", "acc_r"]
    assert (own.level, own.measure.value) == (
        "grammaticality",
        pytest.approx(100 * np.mean(differences > 0)),
    )
    assert values["lm", "plurality", "difference"].measure.value == pytest.approx(0.5)
    assert values["clip", "plurality", "acc_r at equal likelihood"].measure.value == 100
    assert values["clip", "all", "acc_r matched"].measure.n == 10
    released = measure_plausibility({("lm", "plurality"): language}, "lm", {}, HOW)
    assert {(row.factor, row.level) for row in released} == {("", "")}
