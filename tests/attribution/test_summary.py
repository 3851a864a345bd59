"""Text shares and rank correlations of a data set."""

import dataclasses
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.special import logit
from scipy.stats import spearmanr, t

from stand_ins.records import build_evaluation, build_items
from waltz.attribution.encoder_rows import attribute_texts_of_items
from waltz.attribution.published import select_published_sample
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.summary import (
    _collect_correctness,
    _compute_rho,
    build_share_records,
    compute_player_share,
    correlate_correctness_with_t_shap,
    summarize_attributions,
)
from waltz.core.files.resources import RESOURCES
from waltz.core.intervals import (
    PERCENT,
    Resampling,
    bootstrap_means,
    bound_common_error,
    compute_interval,
)
from waltz.core.jobs.devices import Device
from waltz.core.records import to_row
from waltz.core.schema import ReasonCount
from waltz.evaluation.metrics.pair_metrics import average_measures
from waltz.fidelity import EQUATIONS
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.sources.images import open_images

HOW = Resampling(resamples=2000, confidence=0.95, seed=1)
PUBLISHED = RESOURCES / "published"


def row(share, se=None, image="one", role="caption", profile="published", **more):
    return {
        "item_id": image,
        "role": role,
        "profile": profile,
        "setting": "alignment",
        "image": image,
        "t_shap": share,
        "t_shap_se": se,
        "t_shap_corrected": None,
        "player_share": 0.25,
        "requested": None,
        "reason": None,
        "error": None,
        **more,
    }


def mean_t_shap(rows, label, how):
    return summarize_attributions("m", label, pd.DataFrame(rows), how).measure


def test_items_without_an_image_keep_their_place_among_the_images():
    images = [None, "a", "b", "c", None, "a", "b", "c"]
    rows = [row(n**2 / 64, image=image) for n, image in enumerate(images)]
    frame = pd.DataFrame(rows)
    clusters = list(map(str, images))
    draws = bootstrap_means(
        list(frame["t_shap"]), clusters, resamples=20, seed=1, label="d"
    )
    measure = mean_t_shap(rows, "d", Resampling(20, 0.95, 1))
    expected = compute_interval(
        measure.value, 100 * draws, 0.95, len(set(clusters)), PERCENT
    )
    assert (measure.ci_low, measure.ci_high) == pytest.approx(expected[:2])


def test_a_summary_worked_by_hand():
    rows = [
        row(0.4, 0.03, "a"),
        row(0.6, 0.04, "b"),
        row(0.8, None, "c"),
        row(None, image="d", error="too long"),
        row(None, image="e", error="too long"),
        row(None, image="f", reason="every value is 0"),
    ]
    summary = summarize_attributions("m", "existence", pd.DataFrame(rows), HOW)
    assert summary.measure.value == pytest.approx(60)
    assert (summary.items, summary.measure.n) == (6, 3)
    assert summary.sd == pytest.approx(100 * np.sqrt(0.08 / 3))
    assert summary.standard_error == pytest.approx(100 * np.sqrt((0.0009 + 0.0016) / 2))
    assert summary.standard_error_n == 2
    assert summary.noise == pytest.approx(0.00125 / 0.01)
    assert summary.mm_skew == "textual"
    assert summary.missing == [
        ReasonCount("every value is 0", 1),
        ReasonCount("too long", 2),
    ]
    assert 10 <= summary.measure.ci_low < 60 < summary.measure.ci_high <= 95


def test_one_seed_for_all_items_widens_the_interval_and_own_seeds_do_not():
    requested = [310, 310, 310, 330, 330, 350]
    errors = [0.03, 0.06, 0.03, 0.02, 0.02, 0.05]
    shares = [0.3, 0.5, 0.4, 0.6, 0.45, 0.55]
    rows = [
        row(share, error, image, requested=count)
        for share, error, image, count in zip(
            shares, errors, "abcdef", requested, strict=True
        )
    ]
    # Items of as many players are fully correlated, the three numbers of players independent.
    common = np.sqrt(0.12**2 + 0.04**2 + 0.05**2) / 6
    assert bound_common_error(np.array(errors), np.array(requested)) == pytest.approx(
        common
    )

    def compute_error(profile):
        of_profile = [{**one, "profile": profile} for one in rows]
        measure = mean_t_shap(of_profile, "d", HOW)
        ends = logit(np.array([measure.ci_low, measure.ci_high]) / 100)
        share = measure.value / 100
        # Half of the interval on the logit, in standard errors of the share.
        return np.ptp(ends) / 2 / t.ppf(0.975, 5) * share * (1 - share)

    own, shared = compute_error("equations"), compute_error("published")
    assert shared == pytest.approx(np.hypot(own, common))


def test_corrected_shares_have_a_mean_where_a_correction_changes_one():
    rows = [
        row(0.4, 0.03, "a", t_shap_corrected=0.38),
        row(0.6, 0.04, "b", t_shap_corrected=0.56),
        row(0.8, 0.0, "c", t_shap_corrected=0.8),
        row(None, image="d", reason="every value is 0"),
    ]
    summary = summarize_attributions("m", "existence", pd.DataFrame(rows), HOW)
    assert summary.measure.value == pytest.approx(60)
    assert summary.corrected == pytest.approx(58)
    assert summary.corrected_low < 58 < summary.corrected_high

    regression = row(0.8, 0.01, "c")
    exact = row(0.8, 0.0, "c", t_shap_corrected=0.8)
    for others in ([*rows[:2], regression], [exact]):
        summary = summarize_attributions("m", "existence", pd.DataFrame(others), HOW)
        assert summary.corrected is None


def test_shares_that_differ_by_rounding_have_no_noise():
    rows = [row(0.25, 1e-7, "a"), row(0.25 + 2e-7, 3e-7, "b")]
    summary = summarize_attributions("m", "existence", pd.DataFrame(rows), HOW)
    assert summary.noise is None


def test_a_text_without_contrast_is_in_no_mean(tmp_path):
    folder = Path(__file__).parents[2] / "resources/scenes/models/clip"
    encoder = load_encoder(
        ModelSpec("clip", "clip", str(folder), "local"), Device("cpu", 1, "")
    )
    (masked_token,) = encoder.tokenize("cow").tokens[1:-1]
    encoder = dataclasses.replace(
        encoder, spec=dataclasses.replace(encoder.spec, masked_token=masked_token)
    )
    names = {"a.png": ("a red cow", "cow cow"), "b.png": ("cow", "a dog")}
    items = build_items(
        {"item_id": name, "image": name, "caption": caption, "foil": foil}
        for name, (caption, foil) in names.items()
    )
    for place, name in enumerate(names):
        Image.effect_noise((40, 40), 60 + place).convert("RGB").save(tmp_path / name)
    with open_images(tmp_path) as images:
        settings = AttributionSettings(EQUATIONS, seed=0)
        records = attribute_texts_of_items(
            encoder,
            tmp_path / "cache.sqlite",
            "own",
            settings,
            items,
            images,
            lambda _: None,
        )
    rows = [
        {**to_row(record), "player_share": compute_player_share(record)}
        for record in records
    ]
    by_role = {
        summary.role: summary
        for summary in build_share_records("m", "own", pd.DataFrame(rows), [], HOW)
    }
    shares = {(row["item_id"], row["role"]): row["t_shap"] for row in rows}
    for role, kept in (("caption", "a.png"), ("foil", "b.png")):
        assert by_role[role].measure.value == pytest.approx(100 * shares[kept, role])
        assert (by_role[role].items, by_role[role].measure.n) == (2, 1)
        (missing,) = by_role[role].missing
        assert missing.reason.startswith("every token of the text is the masked token")


def test_the_excess_is_paired_with_the_share_of_players_of_each_item():
    # T-SHAP lies 10 points above the share of players of every item, so that the interval of the
    # excess has no width, whereas that of T-SHAP does.
    rows = [
        row(share + 0.1, image=str(place), player_share=share)
        for place, share in enumerate((0.2, 0.3, 0.4, 0.7))
    ]
    summary = summarize_attributions("m", "d", pd.DataFrame(rows), HOW)
    assert summary.player_share == pytest.approx(40)
    assert summary.excess == pytest.approx(10)
    assert summary.measure.ci_high - summary.measure.ci_low > 10
    far = [{**one, "player_share": 0.1 * place} for place, one in enumerate(rows)]
    summary = summarize_attributions("m", "d", pd.DataFrame(far), HOW)
    assert summary.excess == pytest.approx(50 - 15)
    assert summary.excess_low < 35 < summary.excess_high
    unknown = [*rows, row(0.5, image="other", player_share=None)]
    summary = summarize_attributions("m", "d", pd.DataFrame(unknown), HOW)
    assert summary.player_share is summary.excess is summary.excess_low is None


def test_roles_profiles_and_settings_stand_apart():
    rows = [row(0.2), row(0.4, role="foil"), row(0.6, profile="equations"), row(0.4)]
    values = {
        (part.role, part.profile): part.measure.value
        for part in build_share_records("m", "d", pd.DataFrame(rows), [], HOW)
    }
    assert values == {
        ("caption", "published"): pytest.approx(30),
        ("foil", "published"): pytest.approx(40),
        ("caption", "equations"): pytest.approx(60),
    }


def test_nothing_to_sum_up_says_so():
    failed = pd.DataFrame([row(None, error="too long")])
    summary = summarize_attributions("m", "d", failed, HOW)
    assert (
        summary.measure.value
        is summary.sd
        is summary.standard_error
        is summary.mm_skew
        is summary.noise
        is None
    )
    assert summary.measure.reason == "none of 1 items has a T-SHAP"
    exact_rows = pd.DataFrame([row(0.3, 0.0), row(0.3, 0.0)])
    exact = summarize_attributions("m", "d", exact_rows, HOW)
    assert exact.standard_error == 0
    assert exact.noise is None  # no variance that anything could be a share of


def test_items_of_one_image_are_drawn_together():
    noise = np.random.default_rng(0).normal(0.5, 0.1, 50)
    alone = mean_t_shap(
        [row(share, image=str(place)) for place, share in enumerate(noise)], "d", HOW
    )
    four = [
        row(share, image=str(place))
        for place, share in enumerate(noise)
        for _ in range(4)
    ]
    shared = mean_t_shap(four, "d", HOW)
    assert (shared.ci_low, shared.ci_high) == pytest.approx(
        (alone.ci_low, alone.ci_high)
    )
    half = 1.96 * 100 * noise.std() / np.sqrt(50)
    assert (alone.ci_high - alone.ci_low) / 2 == pytest.approx(half, rel=0.1)


def test_means_average_over_data_sets():
    parts = [
        mean_t_shap([row(0.2)], "a", HOW),
        mean_t_shap([row(0.6), row(0.8)], "b", HOW),
    ]
    assert average_measures(parts).value == pytest.approx(45)


IDS = [f"item {place}" for place in range(1000)]


def test_the_scripts_draw_before_they_pass_over_invalid_items():
    valid = [place % 5 > 0 for place in range(1000)]
    sample = select_published_sample(IDS, valid, 100)
    # as they do it: seed the global generator, draw from the items of a dictionary, then look at
    # the votes
    state = random.getstate()
    random.seed(1520)
    drawn = random.sample(list(dict(zip(IDS, valid, strict=True)).items()), 100)
    random.setstate(state)
    assert sample == [name for name, fits in drawn if fits]
    assert 70 < len(sample) < 90


def test_all_of_an_instrument_are_its_valid_items():
    valid = [place % 2 == 0 for place in range(1000)]
    assert select_published_sample(IDS, valid, None) == IDS[::2]
    assert select_published_sample(IDS[:90], valid[:90], 100) == IDS[:90:2]


CORRELATION_RESAMPLING = Resampling(resamples=2000, confidence=0.95, seed=3)


def test_a_tie_within_rounding_is_neither_right_nor_wrong():
    scores = {
        "right": (2.0, 1.0),
        "wrong": (1.0, 2.0),
        "tied": (1.0, 1.0000004),
        "unscored": (1.0, None),
    }
    common = {
        "profile": "equations",
        "setting": "alignment",
        "correct": None,
        "rounding": 1e-5,
    }
    table = build_evaluation(
        {"item_id": item_id, "role": role, "score": score, **common}
        for item_id, pair in scores.items()
        for role, score in zip(("caption", "foil"), pair, strict=True)
    )
    correctness = _collect_correctness(table)
    assert {
        item_id: correctness[item_id, "caption", "equations", "alignment"]
        for item_id in scores
    } == {
        "right": True,
        "wrong": False,
        "tied": None,
        "unscored": None,
    }


def rows(correct, shares, images=None):
    images = images or [str(place) for place in range(len(correct))]
    return pd.DataFrame({"correct": correct, "t_shap": shares, "image": images})


def draw_items(count, effect, seed=0):
    noise = np.random.default_rng(seed)
    correct = noise.random(count) < 0.6
    return correct.tolist(), (
        0.5 + 0.1 * (noise.normal(size=count) + effect * correct)
    ).tolist()


def test_four_items_worked_by_hand():
    # ranks of correctness 1.5 1.5 3.5 3.5, of T-SHAP 1 2 3 4: Pearson 4 / sqrt(4 x 5)
    correlation = correlate_correctness_with_t_shap(
        rows([False, False, True, True], [0.1, 0.2, 0.3, 0.9]),
        "d",
        CORRELATION_RESAMPLING,
    )
    assert correlation.rho.value == pytest.approx(4 / np.sqrt(20))
    assert correlation.rho.n == 4


def test_items_without_either_number_are_left_out():
    given = rows([True, False, True, None, False], [0.3, 0.1, 0.2, 0.9, None])
    correlation = correlate_correctness_with_t_shap(given, "d", CORRELATION_RESAMPLING)
    assert correlation.rho.n == 3
    assert correlation.rho.value == pytest.approx(
        spearmanr([1, 0, 1], [0.3, 0.1, 0.2]).statistic
    )


@pytest.mark.parametrize(
    ("correct", "shares", "reason"),
    [
        ([True] * 4, [0.1, 0.2, 0.3, 0.4], "all 4 items are right"),
        ([False] * 4, [0.1, 0.2, 0.3, 0.4], "all 4 items are wrong"),
        ([True, False, True], [0.5, 0.5, 0.5], "the same T-SHAP"),
        ([True, False, None], [0.1, 0.2, 0.3], "2 of 3 items"),
        ([], [], "0 of 0 items"),
    ],
)
def test_what_is_undefined_says_why(correct, shares, reason):
    correlation = correlate_correctness_with_t_shap(
        rows(correct, shares), "d", CORRELATION_RESAMPLING
    )
    assert correlation.rho.value is None
    assert correlation.rho.ci_low is None
    assert correlation.p is None
    assert reason in correlation.rho.reason


def test_each_resample_has_the_rho_of_its_items_written_out():
    correct, shares = draw_items(30, 0.5)
    shares = np.round(shares, 1)  # many ties
    counts = np.random.default_rng(1).integers(0, 4, size=(20, 30)).astype(float)
    rhos = _compute_rho(np.array(correct), shares, counts)
    for draw, rho in zip(counts.astype(int), rhos, strict=True):
        assert rho == pytest.approx(
            spearmanr(np.repeat(correct, draw), np.repeat(shares, draw)).statistic
        )


def test_a_resample_without_a_correlation_is_not_a_number():
    counts = np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0], [1.0, 1.0, 1.0]])
    rho = _compute_rho(np.array([True, True, False]), np.array([0.1, 0.2, 0.3]), counts)
    assert np.isnan(rho).tolist() == [True, True, False]


def test_the_interval_of_independent_items_is_that_of_fisher():
    correct, shares = draw_items(400, 0)
    correlation = correlate_correctness_with_t_shap(
        rows(correct, shares), "d", CORRELATION_RESAMPLING
    ).rho
    assert (correlation.ci_high - correlation.ci_low) / 2 == pytest.approx(
        1.96 / np.sqrt(397), rel=0.1
    )
    assert correlation.ci_low < correlation.value < correlation.ci_high


def test_items_that_share_an_image_say_no_more_than_one_of_them():
    correct, shares = draw_items(100, 0.3)
    alone = correlate_correctness_with_t_shap(
        rows(correct, shares), "d", CORRELATION_RESAMPLING
    ).rho
    images = [str(place // 4) for place in range(400)]
    shared = correlate_correctness_with_t_shap(
        rows(np.repeat(correct, 4).tolist(), np.repeat(shares, 4).tolist(), images),
        "d",
        CORRELATION_RESAMPLING,
    ).rho
    assert shared.value == pytest.approx(alone.value)
    assert shared.ci_high - shared.ci_low == pytest.approx(
        alone.ci_high - alone.ci_low, rel=0.1
    )


def test_p_is_that_of_scipy():
    correct, shares = draw_items(80, 0.4)
    expected = spearmanr(correct, shares)
    correlation = correlate_correctness_with_t_shap(
        rows(correct, shares), "d", CORRELATION_RESAMPLING
    )
    assert correlation.p == pytest.approx(expected.pvalue)
    assert 0 < correlation.p < 1
