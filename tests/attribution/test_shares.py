import random
from pathlib import Path

import numpy as np
import pytest

from waltz.attribution.item_selection import select_published_sample
from waltz.attribution.shares import compute_mean_t_shap, summarize_attributions
from waltz.core.intervals import Resampling
from waltz.evaluation.metrics.pair_metrics import average_measures

HOW = Resampling(resamples=2000, confidence=0.95, seed=1)
PUBLISHED = Path(__file__).parents[2] / "resources/published"


def row(share, se=None, image="one", role="caption", profile="published", **more):
    return {
        "role": role,
        "profile": profile,
        "setting": "alignment",
        "image": image,
        "t_shap": share,
        "t_shap_se": se,
        "reason": None,
        "error": None,
        **more,
    }


def test_a_summary_worked_by_hand():
    rows = [
        row(0.4, 0.03, "a"),
        row(0.6, 0.04, "b"),
        row(0.8, None, "c"),
        row(None, image="d", error="too long"),
        row(None, image="e", error="too long"),
        row(None, image="f", reason="every value is 0"),
    ]
    (found,) = summarize_attributions(rows, "existence", HOW)
    assert found["value"] == pytest.approx(60)
    assert (found["items"], found["n"]) == (6, 3)
    assert found["sd"] == pytest.approx(100 * np.sqrt(0.08 / 3))
    assert found["standard_error"] == pytest.approx(100 * np.sqrt((0.0009 + 0.0016) / 2))
    assert found["standard_error_n"] == 2
    assert found["noise"] == pytest.approx(0.00125 / 0.01)
    assert found["mm_skew"] == "textual"
    assert found["missing"] == [{"reason": "every value is 0", "count": 1}, {"reason": "too long", "count": 2}]
    assert 40 <= found["ci_low"] < 60 < found["ci_high"] <= 80


def test_roles_profiles_and_settings_stand_apart():
    rows = [row(0.2), row(0.4, role="foil"), row(0.6, profile="equations"), row(0.4)]
    found = {(part["role"], part["profile"]): part["value"] for part in summarize_attributions(rows, "d", HOW)}
    assert found == {
        ("caption", "published"): pytest.approx(30),
        ("foil", "published"): pytest.approx(40),
        ("caption", "equations"): pytest.approx(60),
    }


def test_nothing_to_sum_up_says_so():
    (found,) = summarize_attributions([row(None, error="too long")], "d", HOW)
    assert found["value"] is found["sd"] is found["standard_error"] is found["mm_skew"] is found["noise"] is None
    assert found["reason"] == "none of 1 items has a T-SHAP"
    (exact,) = summarize_attributions([row(0.3, 0.0), row(0.3, 0.0)], "d", HOW)
    assert exact["standard_error"] == 0
    assert exact["noise"] is None  # no variance that anything could be a share of


def test_items_of_one_image_are_drawn_together():
    noise = np.random.default_rng(0).normal(0.5, 0.1, 50)
    alone = compute_mean_t_shap([row(share, image=str(place)) for place, share in enumerate(noise)], "d", HOW)
    four = [row(share, image=str(place)) for place, share in enumerate(noise) for _ in range(4)]
    shared = compute_mean_t_shap(four, "d", HOW)
    assert (shared.ci_low, shared.ci_high) == pytest.approx((alone.ci_low, alone.ci_high))
    half = 1.96 * 100 * noise.std() / np.sqrt(50)
    assert (alone.ci_high - alone.ci_low) / 2 == pytest.approx(half, rel=0.1)


def test_means_average_over_data_sets():
    parts = [compute_mean_t_shap([row(0.2)], "a", HOW), compute_mean_t_shap([row(0.6), row(0.8)], "b", HOW)]
    assert average_measures(parts).value == pytest.approx(45)


IDS = [f"item {place}" for place in range(1000)]


def test_the_scripts_draw_before_they_pass_over_invalid_items():
    valid = [place % 5 > 0 for place in range(1000)]
    found = select_published_sample(IDS, valid, 100)
    # as they do it: seed the global generator, draw from the items of a dictionary, then look at the votes
    state = random.getstate()
    random.seed(1520)
    drawn = random.sample(list(dict(zip(IDS, valid, strict=True)).items()), 100)
    random.setstate(state)
    assert found == [name for name, fits in drawn if fits]
    assert 70 < len(found) < 90


def test_all_of_an_instrument_are_its_valid_items():
    valid = [place % 2 == 0 for place in range(1000)]
    assert select_published_sample(IDS, valid, None) == IDS[::2]
    assert select_published_sample(IDS[:90], valid[:90], 100) == IDS[:90:2]
