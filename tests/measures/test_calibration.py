"""Constructed decoders, and sensitivity and specificity of the self-consistency tests on them."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from waltz.core.intervals import Resampling
from waltz.fidelity import EQUATIONS
from waltz.measures.calibration import (
    CC_SHAP,
    choose_thresholds,
    compute_cc_shap_of_items,
    draw_comve_questions,
    judge_by_threshold,
    measure_calibration,
    measure_mixtures,
    measure_rates,
    measure_share,
    run_calibration_tests,
)
from waltz.measures.constructed import (
    BACKGROUND,
    CERTAINTY,
    DECODERS,
    SHARPNESS,
    choose_reason,
    compute_token_outcomes,
    draw_item_seed,
    draw_vote,
    list_votes,
    render_reason,
)

HOW = Resampling(200, 0.95, 7)
DECODER = {decoder.name: decoder for decoder in DECODERS}
FAITHFUL, NOT_NEEDED, FIXED, OTHER_ITEM, OTHER_WORD, SPELLING = DECODERS


def test_wilson_interval_by_hand():
    # 8 of 10 at 95 %: (p + z2/2n -+ z sqrt(p(1-p)/n + z2/4n2)) / (1 + z2/n) with z = 1.959964
    share = measure_share([True] * 8 + [False] * 2, 0.95)
    assert (share.value, share.n) == (80, 10)
    assert (share.ci_low, share.ci_high) == (
        pytest.approx(49.016, abs=1e-3),
        pytest.approx(94.331, abs=1e-3),
    )
    assert measure_share([], 0.95).reason == "no item has a verdict"
    for hits in (0, 3, 25):
        share, other = (
            measure_share([True] * hits + [False] * (25 - hits), 0.9),
            binomtest(hits, 25),
        )
        assert (share.ci_low, share.ci_high) == pytest.approx(
            100 * np.array(other.proportion_ci(0.9, "wilson"))
        )


def test_threshold_is_chosen_on_the_other_half():
    # 0.5 and 0.9 are equally good, the lower one is taken; without the first item 0.9 is the lowest value of the best
    counts = np.array([[1.0, 1.0], [0.0, 2.0]])
    assert choose_thresholds(np.array([[0.5, 0.9], [0.1, 0.6]]), counts).tolist() == [
        0.5,
        0.9,
    ]
    values = np.array([[0.9, 0.4, 0.8, 0.5], [0.1, 0.2, 0.45, 0.3]])
    # even items choose 0.8, by which both odd ones of the faithful decoder and none of the other
    # are wrong; odd items choose 0.4, by which the other decoder's 0.45 is wrong: half of its items
    # where it is drawn twice and 0.1 never
    counts = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0, 1.0]])
    assert judge_by_threshold(values, counts).tolist() == [[0.5, 0.75], [0.5, 0.5]]


def test_intervals_of_rates_contain_the_choice_of_the_threshold():
    generator, items = (
        np.random.default_rng(5),
        [f"i{number:02}" for number in range(60)],
    )
    samples = [
        generator.normal([[1.0], [0.0], [0.0]], size=(3, 60)) for _ in range(200)
    ]
    rates = [measure_rates(values, items, HOW) for values in samples]
    truth = np.mean([[rate.value for rate in own] for own in rates], axis=0)
    counts = [round(0.6 * own[0].value) for own in rates]
    unaware = [
        measure_share([True] * count + [False] * (60 - count), 0.95) for count in counts
    ]
    covered = [[share.ci_low <= truth[0] <= share.ci_high for share in unaware]]
    covered += [
        [own[place].ci_low <= truth[place] <= own[place].ci_high for own in rates]
        for place in range(3)
    ]
    # intervals of 95 % would give numbers outside these with a chance of 0.2 %
    fewest, most = binom.ppf([0.001, 0.999], 200, 0.95)
    without, *found = map(sum, covered)
    assert without < fewest <= min(found) <= max(found) <= most


def test_rates_of_decoders_that_a_threshold_separates_have_wilson_intervals():
    values = np.array([[1.0] * 8, [0.0] * 8])
    for rate in measure_rates(values, list("abcdefgh"), HOW):
        assert rate == measure_share([True] * 8, 0.95)


def test_votes_and_reasons():
    text = "A tree pushes a canoe."
    votes = list_votes(text, 0)
    assert set(votes) == {"tree", "pushes", "canoe"}
    assert [abs(vote) for vote in votes.values()] == sorted(
        map(abs, votes.values()), reverse=True
    )
    assert votes["tree"] == draw_vote("Tree", 0) != draw_vote("tree", 1)
    strongest, *_, weakest = votes
    assert choose_reason(text, FAITHFUL, "", 0) == strongest
    assert choose_reason(text, OTHER_WORD, "", 0) == weakest
    assert choose_reason(text, OTHER_ITEM, "The tree sings.", 0) == "sings"
    assert choose_reason(text, FIXED, "", 0) is None
    assert not list_votes(render_reason(None), 0)
    assert list(list_votes(render_reason("canoe"), 0)) == ["canoe"]


def test_outcomes_of_coalitions_by_hand():
    words = ["tree", "a", "canoe"]
    votes = np.array([draw_vote(word, 3) for word in words])
    strongest, weaker = (0, 2) if abs(votes[0]) > abs(votes[2]) else (2, 0)
    masks = np.array(
        [[False] * 3, [True] * 3, np.arange(3) == strongest, np.arange(3) == weaker]
    )
    answer, explanation = compute_token_outcomes(words, masks, words[strongest], 3, 0.0)
    side = np.sign(votes[strongest])
    assert answer[:, 0] == pytest.approx(
        side * SHARPNESS * np.array([0, *votes[[strongest, strongest, weaker]]])
    )
    named = explanation[:, (explanation != CERTAINTY).any(axis=0)]
    assert named[:, 0].tolist() == [-CERTAINTY, CERTAINTY, CERTAINTY, -CERTAINTY]
    # an unfaithful decoder names a weaker word wherever it is visible
    _, explanation = compute_token_outcomes(
        words, masks, words[weaker], 3, 0.0, names_strongest=False
    )
    named = explanation[:, (explanation != CERTAINTY).any(axis=0)]
    assert named[:, 0].tolist() == [-CERTAINTY, CERTAINTY, -CERTAINTY, CERTAINTY]
    _, explanation = compute_token_outcomes(words, masks, None, 3, 0.0)
    assert (explanation == CERTAINTY).all()


def test_each_item_is_a_draw_of_its_own():
    # else a few words would decide the rate of a whole calibration, and its interval would know
    # nothing of them
    text = "The dog sleeps. The tree sings near a horse."
    reasons = {
        choose_reason(text, FAITHFUL, "", draw_item_seed(f"comve:{number}", 7))
        for number in range(40)
    }
    assert reasons == {"dog", "sleeps", "tree", "sings", "near", "horse"}


@pytest.fixture(scope="module")
def questions():
    return draw_comve_questions(14, 5)


@pytest.fixture(scope="module")
def verdicts(questions):
    by_item = {
        name: run_calibration_tests(decoder, questions, 5, EQUATIONS)
        for name, decoder in DECODER.items()
    }
    return {
        name: {test: list(own.values()) for test, own in tests.items()}
        for name, tests in by_item.items()
    }


def test_a_faithful_decoder_passes_each_test_that_asks_what_explanations_name(verdicts):
    for name in (FAITHFUL.name, NOT_NEEDED.name):
        passed = {
            test for test, consistent in verdicts[name].items() if all(consistent)
        }
        assert passed >= {
            "counterfactual_edits",
            "input_from_explanation",
            "biasing_features",
            "paraphrasing",
        }


def test_tests_of_the_chain_of_thought_measure_if_it_is_needed(verdicts):
    for test in ("early_answering", "filler_tokens", "adding_mistakes"):
        assert not any(verdicts[NOT_NEEDED.name][test])
        assert not any(verdicts[FIXED.name][test])
        # without the chain a decoder that needs it guesses one of two labels, so that half of the
        # answers stay
        assert 0.2 < np.mean(verdicts[FAITHFUL.name][test]) < 0.8


def test_no_unfaithful_decoder_whose_answer_ignores_the_chain_fails_paraphrasing(
    verdicts,
):
    assert all(
        verdicts[FIXED.name]["paraphrasing"] + verdicts[OTHER_ITEM.name]["paraphrasing"]
    )
    assert not all(verdicts[SPELLING.name]["paraphrasing"])


def test_edits_detect_as_many_as_they_flip(verdicts):
    for test in ("counterfactual_edits", "biasing_features"):
        # what is said differs, the answers are the same
        assert verdicts[FIXED.name][test] == verdicts[OTHER_WORD.name][test]
    assert np.mean(verdicts[FIXED.name]["counterfactual_edits"]) < 0.4
    assert np.mean(verdicts[FIXED.name]["biasing_features"]) > 0.6


def test_cc_shap_is_high_for_faithful_decoders_and_near_0_for_others(questions):
    values = {
        decoder.name: np.mean(
            compute_cc_shap_of_items(decoder, questions, 5, EQUATIONS, BACKGROUND)
        )
        for decoder in (FAITHFUL, FIXED, OTHER_ITEM, OTHER_WORD)
    }
    assert values.pop(FAITHFUL.name) > 0.65
    assert max(map(abs, values.values())) < 0.2


def test_mixtures_by_hand():
    items = [f"i{number}" for number in range(40)]
    high, low, percent = (
        dict.fromkeys(items, 100.0),
        dict.fromkeys(items, 0.0),
        (0.0, 100.0),
    )
    apart = measure_mixtures(high, low, 3, percent, HOW)
    assert {share: mean.value for share, mean in apart.means.items()} == {
        0: 0,
        25: 25,
        50: 50,
        75: 75,
        100: 100,
    }
    assert apart.ordered.value > 70
    assert measure_mixtures(high, high, 3, percent, HOW).ordered.value == 0


def count_apart(first, second):
    """Return how many of two seeds' rates differ by more than the root of the sum of squares of
    their half intervals.

    A rate of 0 or 100 % with both seeds is so by construction, and left out.
    """
    others = {(row.model, row.level): row for row in second}
    pairs = [(row, others[row.model, row.level]) for row in first]
    pairs = [(a, b) for a, b in pairs if {a.measure.value, b.measure.value} - {0, 100}]
    widths = [
        np.hypot(
            a.measure.ci_high - a.measure.ci_low, b.measure.ci_high - b.measure.ci_low
        )
        / 2
        for a, b in pairs
    ]
    return sum(
        abs(a.measure.value - b.measure.value) > width
        for (a, b), width in zip(pairs, widths, strict=True)
    ), len(pairs)


@pytest.mark.workflow
def test_another_seed_agrees_within_the_intervals():
    rows = [
        [
            row
            for row in measure_calibration(24, seed, ["equations"], HOW)
            if row.quantity in ("sensitivity", "specificity")
        ]
        for seed in (1, 2, 3, 4)
    ]
    for is_cc_shap in (False, True):
        chosen = [
            [row for row in own if row.level.startswith(CC_SHAP) == is_cc_shap]
            for own in rows
        ]
        counts = [count_apart(chosen[place], chosen[place + 1]) for place in (0, 2)]
        apart, compared = map(sum, zip(*counts, strict=True))
        assert compared >= 20
        assert apart <= binom.ppf(0.95, compared, 0.05)
