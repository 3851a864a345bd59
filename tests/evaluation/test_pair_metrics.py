"""Metrics of scored pairs against values computed by hand."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stand_ins.records import build_evaluation
from waltz.core.errors import UserError
from waltz.core.intervals import Resamples, Resampling, bootstrap_means, resample
from waltz.core.rounding import compute_logit_rounding
from waltz.evaluation.alignment import compute_match_probability
from waltz.evaluation.metrics.pair_metrics import (
    METRICS,
    NOT_APPLICABLE,
    ScoredPairs,
    average_measures,
    compute_accuracy,
    compute_auroc,
    compute_auroc_draws,
    compute_choice_metrics,
    compute_pair_metrics,
    pair_choices,
    pair_scores,
)
from waltz.evaluation.predictions import predict_pair_text
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity

HOW = Resampling(resamples=1000, confidence=0.95, seed=3)
RIGHT = {"caption": "match", "foil": "mismatch", "mismatched": "mismatch"}


def rows_of(
    logits, with_probability=True, profile="equations", images=None, wrong="foil"
):
    """Rows of (caption logit, foil logit); None is a text without a score."""
    rows = []
    for place, pair in enumerate(logits):
        for role, logit in zip(("caption", wrong), pair, strict=True):
            row = {
                "item_id": f"i{place}",
                "role": role,
                "profile": profile,
                "setting": "alignment",
                "score": logit,
            }
            row |= {
                "image": images[place] if images else f"m{place}",
                "probability": None,
                "correct": None,
            }
            if with_probability and logit is not None:
                row["probability"] = compute_match_probability(
                    logit, get_fidelity(profile)
                )
                row["correct"] = (
                    predict_pair_text(logit, row["probability"], get_fidelity(profile))
                    == RIGHT[role]
                )
            rows.append(row)
    return build_evaluation(rows)


def values(logits, profile="equations", **more):
    metrics = compute_pair_metrics(
        pair_scores(rows_of(logits, profile=profile, **more), get_fidelity(profile)),
        "d",
        HOW,
    )
    return {metric: metrics[metric].value for metric in METRICS}


def test_every_metric_of_four_items_worked_by_hand():
    # captions: 2 match, -1 not, 3 match, 1 match; foils: 1 match, -2 mismatch, -3 mismatch, 1 match
    metrics = values([(2, 1), (-1, -2), (3, -3), (1, 1)])
    assert metrics["p_c"] == 75
    assert metrics["p_f"] == 50
    assert metrics["acc"] == 62.5
    assert metrics["min_pc_pf"] == 50
    assert metrics["acc_r"] == 87.5  # the last is a tie, which counts half
    assert metrics["acc_r_paper"] == 100  # and is right by equation 3.1 of the thesis
    assert metrics["ties"] == 25
    # of 16 pairs: 2 beats 1, -2, -3, 1 (4); -1 beats -2, -3 (2); 3 beats 4; 1 beats -2, -3 and ties
    # with two (3)
    assert metrics["auroc"] == pytest.approx(100 * 13 / 16)


@pytest.mark.parametrize(
    ("profile", "p_c", "p_f"), [("published", 100, 0), ("equations", 0, 0)]
)
def test_a_probability_of_one_half_matches_in_published_and_is_wrong_in_equations(
    profile, p_c, p_f
):
    metrics = values([(0.0, 0.0)], profile)
    assert (metrics["p_c"], metrics["p_f"], metrics["auroc"]) == (p_c, p_f, 50)


def test_a_tie_is_right_by_equation_3_1_and_wrong_in_the_released_code():
    # phi(i, f) <= phi(i, c) holds for the first and the last two of four items, phi(i, f) < phi(i,
    # c) for the first
    logits = [(2.0, 1.0), (-1.0, 1.0), (0.5, 0.5), (-3.0, -3.0)]
    equations, published = values(logits), values(logits, profile="published")
    assert (equations["acc_r_paper"], published["acc_r_paper"]) == (75, 25)
    assert equations["acc_r"] == published["acc_r"] == 50
    assert equations["ties"] == published["ties"] == 50
    assert equations["auroc"] == published["auroc"]


def test_probabilities_of_single_precision_tie_in_published_and_logits_do_not():
    logits = [(30.0, 20.0)]  # both sigmoids round to 1 in single precision
    assert (
        compute_match_probability(30.0, PUBLISHED)
        == compute_match_probability(20.0, PUBLISHED)
        == 1
    )
    assert (
        values(logits, "published")["acc_r"],
        values(logits, "published")["acc_r_paper"],
    ) == (50, 0)
    assert values(logits, "published")["auroc"] == 50
    assert values(logits, "equations")["acc_r"] == 100


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_a_score_without_probability_has_no_threshold_metric_and_ranks_by_logit(
    profile,
):
    metrics = compute_pair_metrics(
        pair_scores(
            rows_of([(30.0, 20.0), (1.0, 2.0)], False, profile), get_fidelity(profile)
        ),
        "d",
        HOW,
    )
    assert metrics["acc_r"].value == 50
    assert metrics["auroc"].value == 50  # 30 beats both foils, 1 beats none
    for metric in ("acc", "p_c", "p_f", "min_pc_pf"):
        assert metrics[metric].value is None
        assert metrics[metric].reason == NOT_APPLICABLE
        assert metrics[metric].n == 2
    assert average_measures([metrics["acc"], metrics["acc"]]).reason == NOT_APPLICABLE


def test_one_item_has_no_intervals_and_equal_scores_have_ones_of_no_width():
    for metric, sampled in compute_pair_metrics(
        pair_scores(rows_of([(1.0, -1.0)]), EQUATIONS), "d", HOW
    ).items():
        assert (sampled.value, sampled.ci_low, sampled.ci_high) == (
            0 if metric == "ties" else 100,
            None,
            None,
        )
    metrics = compute_pair_metrics(
        pair_scores(rows_of([(0.5, 0.5)] * 20, profile="published"), PUBLISHED),
        "d",
        HOW,
    )
    # Twenty images that agree leave as many of the others.
    apart = 100 * (1 - 0.025 ** (1 / 20))
    ends = {
        metric: (metrics[metric].ci_low, metrics[metric].ci_high)
        for metric in ("acc_r", "acc_r_paper", "auroc")
    }
    assert ends["acc_r_paper"] == pytest.approx((0, apart))
    assert ends["acc_r"] == ends["auroc"]
    assert ends["auroc"] == pytest.approx((50 - apart / 2, 50 + apart / 2))
    assert metrics["auroc"].value == 50
    assert (metrics["acc_r"].value, metrics["acc_r_paper"].value) == (50, 0)


def test_a_model_that_cannot_tell_texts_apart_is_at_chance_and_below_a_real_one():
    constant = values([(19.2, 19.2)] * 5)
    real = values([(2, 1)] * 4 + [(1, 2)])
    assert constant["acc_r"] == constant["auroc"] == 50
    assert real["acc_r"] == 80


@pytest.mark.parametrize(
    ("dtype", "magnitude", "noise", "difference"),
    [
        ("float32", 1.918322563, 3.57e-7, 1e-4),
        ("float32", -19.2, 4e-5, 1e-3),
        ("float32", 0.001, 3e-6, 1e-4),
        ("float16", 25.0, 0.02, 0.1),
        ("bfloat16", 25.0, 0.125, 0.5),
        ("", 1.918322563, 3.57e-7, 1e-4),
    ],
)
def test_scores_that_differ_by_the_rounding_of_their_precision_are_tied(
    dtype, magnitude, noise, difference
):
    for sign in (1, -1):
        for gap, tied in ((noise, True), (difference, False)):
            pairs = [(magnitude, magnitude - sign * gap)] * 3
            for profile in ("equations", "published"):
                rows = rows_of(pairs, with_probability=False, profile=profile)
                if dtype:
                    rows = [
                        replace(row, rounding=compute_logit_rounding(row.score, dtype))
                        for row in rows
                    ]
                metrics = compute_pair_metrics(
                    pair_scores(rows, get_fidelity(profile)), "d", HOW
                )
                assert metrics["ties"].value == 100 * tied
                assert metrics["acc_r"].value == (50 if tied else 50 + 50 * sign)
                if tied:
                    assert metrics["auroc"].value == 50


def test_a_choice_that_the_labels_logits_do_not_decide_counts_half():
    choice = {
        "item_id": "i",
        "image": "m",
        "role": "caption",
        "profile": "published",
        "setting": "pairwise",
    }
    decided = choice | {
        "score": 0.5,
        "rounding": 0.125,
        "prediction": "caption",
        "correct": True,
    }
    rounded = decided | {
        "item_id": "j",
        "score": -0.125,
        "prediction": "foil",
        "correct": False,
    }
    # The released code takes the first label.
    tied = decided | {
        "item_id": "k",
        "score": 0.0,
        "rounding": 0.0,
    }
    recorded = decided | {
        "item_id": "l",
        "score": None,
        "rounding": None,
        "prediction": "tie",
        "correct": False,
    }
    metrics = compute_choice_metrics(
        build_evaluation([decided, rounded, tied, recorded]), PUBLISHED, "d", HOW
    )
    assert (metrics["acc_r"].value, metrics["acc_r_paper"].value) == (62.5, 50)


def test_items_without_a_score_are_left_out_of_every_metric_and_counted():
    scored = pair_scores(rows_of([(2, 1), (None, 1), (3, None)]), EQUATIONS)
    assert (scored.items, scored.unscored) == (("i0",), 2)
    none = compute_pair_metrics(pair_scores(rows_of([(None, 1)]), EQUATIONS), "d", HOW)
    assert {(entry.value, entry.n, entry.reason) for entry in none.values()} == {
        (None, 0, "none of 1 items could be scored")
    }


def test_a_mismatched_text_is_the_foil_and_other_profiles_are_passed_over():
    rows = rows_of([(2, 1)], wrong="mismatched") + rows_of(
        [(1, 2)], profile="published"
    )
    assert (
        compute_pair_metrics(pair_scores(rows, EQUATIONS), "d", HOW)["acc_r"].value
        == 100
    )
    assert (
        compute_pair_metrics(pair_scores(rows, PUBLISHED), "d", HOW)["acc_r"].value == 0
    )


def test_infinite_scores_rank_and_those_that_are_no_number_are_refused():
    metrics = values(
        [(-np.inf, -np.inf), (1.0, -np.inf)], "published", with_probability=False
    )
    assert (
        metrics["acc_r"],
        metrics["acc_r_paper"],
        metrics["ties"],
        metrics["auroc"],
    ) == (75, 50, 50, 75)
    with pytest.raises(UserError, match="item i0, foil: the score is not a number"):
        pair_scores(rows_of([(1.0, np.nan)]), EQUATIONS)


def test_choices_and_rankings_agree():
    captions = [row for row in rows_of([(2, 1), (3, 4)]) if row.role == "caption"]
    ranked = [
        replace(row, setting="perplexity", correct=row.item_id == "i0")
        for row in captions
    ]
    scored = pair_scores(rows_of([(2, 1), (3, 4)], with_probability=False), EQUATIONS)
    assert (
        compute_accuracy(ranked, "d", HOW)
        == compute_pair_metrics(scored, "d", HOW)["acc_r"]
    )


def test_a_text_without_its_counterpart_is_refused():
    with pytest.raises(
        UserError, match=r"item i1, profile equations: rows of \['caption'\]"
    ):
        pair_scores(rows_of([(2, 1), (3, 1)])[:3], EQUATIONS)


SCORES = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=12
)


@given(SCORES)
def test_auroc_is_that_of_scikit_learn_and_of_the_definition(logits):
    metrics = pytest.importorskip("sklearn.metrics")
    captions, foils = (
        np.array(side, dtype=float) for side in zip(*logits, strict=True)
    )
    counted = np.mean([(c > f) + 0.5 * (c == f) for c in captions for f in foils])
    truth = [1] * len(captions) + [0] * len(foils)
    assert compute_auroc(captions, foils) == pytest.approx(counted)
    assert compute_auroc(captions, foils) == pytest.approx(
        metrics.roc_auc_score(truth, np.concatenate([captions, foils]))
    )


@given(SCORES, st.integers(1, 3), st.integers(0, 5))
@settings(max_examples=40)
def test_auroc_of_a_resample_is_that_of_its_items_written_out(logits, per_image, seed):
    scored = pair_scores(
        rows_of(
            logits, images=[f"m{place // per_image}" for place in range(len(logits))]
        ),
        EQUATIONS,
    )
    drawn = resample(scored.images, resamples=5, seed=seed, label="d")
    if len(set(scored.images)) == 1:
        assert np.isnan(compute_auroc_draws(scored, drawn)).all()
        return
    for draw, counts in zip(
        compute_auroc_draws(scored, drawn), drawn.counts, strict=True
    ):
        times = counts[drawn.cluster].astype(int)
        assert draw == pytest.approx(
            compute_auroc(
                np.repeat(scored.caption, times), np.repeat(scored.foil, times)
            )
        )


def test_an_item_without_an_image_is_its_own_cluster():
    pairs = [replace(row, image=None) for row in rows_of([(2, 1), (1, 2)])]
    assert pair_scores(pairs, EQUATIONS).images == tuple(
        dict.fromkeys(row.item_id for row in pairs)
    )
    choices = [
        {
            "item_id": item,
            "image": image,
            "profile": "equations",
            "score": None,
            "prediction": "caption",
            "correct": True,
        }
        for item, image in (("a", None), ("b", None), ("c", "m"))
    ]
    assert pair_choices(build_evaluation(choices), EQUATIONS).images == (
        "a",
        "b",
        "m",
    )


def test_a_draw_of_every_image_once_gives_the_value_itself():
    scored = pair_scores(
        rows_of([(2, 1), (-1, -2), (3, -3), (1, 1)], images=["a", "a", "b", "c"]),
        EQUATIONS,
    )
    once = Resamples(np.array([0, 0, 1, 2]), np.ones((1, 3)))
    assert compute_auroc_draws(scored, once)[0] == pytest.approx(13 / 16)
    assert once.compute_means([1, 2, 3, 4])[0] == 2.5
    assert (
        once.compute_means(
            np.array([1, 2, 3, 4]), np.array([True, False, True, False])
        )[0]
        == 2
    )


def test_resamples_without_an_item_have_no_mean():
    drawn = Resamples(np.array([0, 1]), np.array([[2.0, 0.0], [1.0, 1.0]]))
    assert np.array_equal(
        drawn.compute_means([5, 7], np.array([False, True])),
        [np.nan, 7],
        equal_nan=True,
    )


def test_the_interval_of_auroc_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    truth, covered = 0.7602, 0  # P(N(1, 1) > N(0, 1)) = Phi(1 / sqrt 2)
    for place in range(60):
        logits = np.stack([rng.normal(1, 1, 150), rng.normal(0, 1, 150)], axis=1)
        how = Resampling(300, 0.95, place)
        measure = compute_pair_metrics(
            pair_scores(rows_of(logits.tolist(), False), EQUATIONS), "d", how
        )["auroc"]
        covered += measure.ci_low <= 100 * truth <= measure.ci_high
    assert 51 <= covered <= 60


def test_a_thousand_resamples_of_a_thousand_items_take_well_under_a_second():
    logits = np.random.default_rng(1).normal(size=(1000, 2))
    scored = ScoredPairs(
        tuple(map(str, range(1000))),
        tuple(map(str, range(1000))),
        logits[:, 0],
        logits[:, 1],
        logits > 0,
    )
    start = time.process_time()
    compute_pair_metrics(scored, "d", HOW)
    assert time.process_time() - start < 3  # 0.2 s for all six on one core of 2026


RESAMPLING = Resampling(resamples=4000, confidence=0.95, seed=3)


def rows(verdicts, images=None):
    images = images or [str(place) for place in range(len(verdicts))]
    return build_evaluation(
        {"item_id": "i", "profile": "equations", "correct": correct, "image": image}
        for correct, image in zip(verdicts, images, strict=True)
    )


def test_acc_r_counts_unscored_items_neither_right_nor_wrong():
    measure = compute_accuracy(rows([True, False, True, None]), "d", RESAMPLING)
    assert measure.value == pytest.approx(200 / 3)
    assert measure.n == 3


def test_the_interval_of_independent_items_is_the_binomial_one():
    verdicts = [place % 4 != 0 for place in range(400)]  # 75 %
    measure = compute_accuracy(rows(verdicts), "d", RESAMPLING)
    half = 196 * np.sqrt(0.75 * 0.25 / 400)
    assert measure.ci_low == pytest.approx(75 - half, abs=0.5)
    assert measure.ci_high == pytest.approx(75 + half, abs=0.5)


def test_items_that_share_an_image_widen_the_interval():
    verdicts = [True] * 200 + [False] * 200
    alone = compute_accuracy(rows(verdicts), "d", RESAMPLING)
    shared = compute_accuracy(
        rows(verdicts, [f"image {place // 4}" for place in range(400)]), "d", RESAMPLING
    )
    widths = [measure.ci_high - measure.ci_low for measure in (shared, alone)]
    # Four items an image: the square root of four.
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.1)


def test_draws_are_the_same_again_and_others_for_another_data_set():
    values, clusters = [0.0, 1.0, 1.0, 0.0], ["a", "b", "c", "d"]
    again = [
        bootstrap_means(values, clusters, resamples=50, seed=1, label=label)
        for label in ("x", "x", "y")
    ]
    assert np.array_equal(again[0], again[1])
    assert not np.array_equal(again[0], again[2])


def test_an_average_weighs_data_sets_alike_and_narrows():
    parts = [
        compute_accuracy(
            rows([True] * right + [False] * (100 - right)), f"d{right}", RESAMPLING
        )
        for right in (40, 60, 80)
    ]
    mean = average_measures(parts)
    assert mean.value == pytest.approx(60)
    assert mean.n == 300
    assert mean.ci_high - mean.ci_low < parts[0].ci_high - parts[0].ci_low


def test_an_average_with_a_hole_has_a_reason():
    parts = [
        compute_accuracy(rows([True]), "a", RESAMPLING),
        compute_accuracy(rows([None]), "b", RESAMPLING),
    ]
    assert (parts[1].n, parts[1].reason) == (0, "none of 1 items could be scored")
    assert average_measures(parts).reason == "1 of 2 data sets have no value"


def test_nothing_cannot_be_resampled():
    with pytest.raises(ValueError, match="cannot resample 0 values"):
        bootstrap_means([], [], resamples=10, seed=0, label="d")
