"""CC-SHAP and its companions: worked by hand, compared with scipy, and where it is undefined;
shared players.
"""

import math
import re
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import special, stats
from scipy.spatial import distance

from stand_ins.games import play, random_terms, unanimity
from waltz.attribution.shapley.estimate import Estimate
from waltz.attribution.shapley.estimators import begin_permutations
from waltz.attribution.shapley.partition import compute_owen_values
from waltz.consistency.cc_shap.measure import (
    SharedEstimate,
    compute_cc_shap,
    compute_cc_shap_companions,
    compute_cosine,
    compute_mean_ratios,
    find_shared_players,
    find_unchanged_players,
)
from waltz.core.errors import UserError
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity


def side(phi, shared=None, parts=None, exact=False):
    phi = np.asarray(phi, dtype=np.float64)
    estimate = Estimate(phi, np.zeros(phi.shape[1]), phi.sum(axis=0), 1, parts, exact)
    return SharedEstimate(
        estimate,
        np.arange(len(phi)) if shared is None else np.asarray(shared, dtype=np.int64),
    )


def test_ratios_worked_by_hand():
    # the last player is the tail; over the others |phi| sums to 4 and 10
    phi = [[1, 5], [-3, 0], [0, -5], [7, 2]]
    expected = [(1 / 4 + 1 / 2) / 2, -3 / 8, -1 / 4]
    np.testing.assert_allclose(compute_mean_ratios(side(phi, [0, 1, 2])), expected)
    np.testing.assert_allclose(
        compute_mean_ratios(side(phi, [0, 1, 2]), PUBLISHED),
        [100 * share for share in expected],
    )


def test_a_cosine_worked_by_hand():
    # (3, 4) / 7 and (4, 3) / 7: 24 / 25
    cc_shap = compute_cc_shap(
        side([[3], [4]], exact=True), side([[40], [30]], exact=True), EQUATIONS
    )
    assert cc_shap.value == pytest.approx(24 / 25)
    assert cc_shap.standard_error == 0
    assert cc_shap.companions.correlation == pytest.approx(-1)
    assert cc_shap.companions.mse == pytest.approx(1 - 1 / 49)
    assert cc_shap.companions.variance == pytest.approx(1)
    assert (cc_shap.weak_answer, cc_shap.weak_explanation, cc_shap.with_weak) == (
        0,
        0,
        cc_shap.value,
    )


def test_a_cosine_stays_within_its_bounds_where_it_is_rounded():
    # The quotient of some is 1 + 2e-16.
    vectors = np.random.default_rng(0).normal(size=(500, 5))
    assert compute_cosine(vectors, vectors).max() == 1
    assert compute_cosine(vectors, -vectors).min() == -1


def test_ratios_that_are_nearly_the_same_have_next_to_no_distance():
    # the divergences of a third are negative for rounding
    for vector in np.random.default_rng(0).normal(size=(100, 5)):
        companions = compute_cc_shap_companions(vector, vector + 1e-9 * np.arange(5))
        assert (companions.js, companions.kl, companions.mse) == pytest.approx(
            (1, 1, 1), abs=1e-7
        )


def test_shared_players_are_taken_in_their_order():
    # patches behind the text of a shorter and a longer prompt
    answer, explanation = (
        side([[1], [9], [2], [3]], [0, 2, 3]),
        side([[2], [8], [7], [4], [6]], [0, 3, 4]),
    )
    assert compute_cc_shap(answer, explanation, EQUATIONS).value == pytest.approx(1)
    with pytest.raises(ValueError, match="3 and 2 players"):
        compute_cc_shap(answer, side([[1], [2]]), EQUATIONS)


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_companions_are_those_of_scipy(profile):
    generator = np.random.default_rng(3)
    answer, explanation = generator.normal(size=(9, 1)), generator.normal(size=(11, 6))
    cc_shap = compute_cc_shap(
        side(answer, range(7)), side(explanation, range(7)), get_fidelity(profile)
    )
    a, e = (ratio[:7] for ratio in (answer, explanation))
    a, e = ((part / np.abs(part).sum(axis=0)).mean(axis=1) for part in (a, e))
    if profile == "published":
        a, e = 100 * a, 100 * e
    np.testing.assert_allclose(cc_shap.ratios_answer, a)
    np.testing.assert_allclose(cc_shap.ratios_explanation, e)
    squares = (a - e) ** 2
    assert cc_shap.value == pytest.approx(1 - distance.cosine(a, e))
    expected = {
        "correlation": 1 - distance.correlation(a, e),
        "mse": 1 - squares.mean(),
        "variance": 1 - np.mean((squares - squares.mean()) ** 2),
        "kl": 1 - stats.entropy(special.softmax(e), special.softmax(a)),
        "js": 1 - distance.jensenshannon(special.softmax(e), special.softmax(a)),
    }
    assert vars(cc_shap.companions) == pytest.approx(expected)


vectors = arrays(
    np.float64, (5, 3), elements=st.floats(-10, 10).map(lambda x: round(x, 3))
).filter(
    lambda phi: (
        np.abs(phi).sum(axis=0).min() > 0.1
        and np.abs((phi / np.abs(phi).sum(axis=0)).mean(axis=1)).max() > 0.01
    )
)


@given(vectors, vectors, st.floats(0.01, 1000), st.permutations(range(5)))
@settings(max_examples=60)
def test_laws(phi, other, scale, order):
    for profile in ("equations", "published"):
        assert compute_cc_shap(
            side(phi), side(phi), get_fidelity(profile)
        ).value == pytest.approx(1)
        assert compute_cc_shap(
            side(phi), side(-phi), get_fidelity(profile)
        ).value == pytest.approx(-1)
        cc_shap = compute_cc_shap(side(phi), side(other), get_fidelity(profile))
        assert -1 <= cc_shap.value <= 1
        scaled = compute_cc_shap(side(scale * phi), side(other), get_fidelity(profile))
        assert scaled.value == pytest.approx(cc_shap.value, abs=1e-9)
        moved = compute_cc_shap(
            side(phi, order), side(other, order), get_fidelity(profile)
        )
        assert moved.value == pytest.approx(cc_shap.value, abs=1e-9)
        assert compute_cc_shap(
            side(other), side(phi), get_fidelity(profile)
        ).value == pytest.approx(cc_shap.value, abs=1e-9)
        assert cc_shap.companions.mse <= 1
        assert cc_shap.companions.kl <= 1 + 1e-9
        assert 1 - math.sqrt(math.log(2)) - 1e-9 <= cc_shap.companions.js <= 1


def test_profiles_differ_in_unit_alone_where_no_token_is_weak():
    generator = np.random.default_rng(0)
    sides = (
        side(generator.normal(size=(6, 2)), range(4)),
        side(generator.normal(size=(7, 3)), range(4)),
    )
    equations, published = (
        compute_cc_shap(*sides, fidelity) for fidelity in (EQUATIONS, PUBLISHED)
    )
    assert equations.value == pytest.approx(published.value)
    assert 1 - published.companions.mse == pytest.approx(
        1e4 * (1 - equations.companions.mse)
    )
    assert equations.companions.js != pytest.approx(published.companions.js)


def test_tokens_of_next_to_no_contribution_are_left_out_and_counted():
    answer = side([[1], [1]])
    explanation = side([[2, 3, 0.001], [2, 3, -0.001]])
    cc_shap = compute_cc_shap(answer, explanation, EQUATIONS)
    assert (cc_shap.weak_answer, cc_shap.weak_explanation) == (0, 1)
    assert cc_shap.value == pytest.approx(1)
    # with the third token the mean ratios are (1/2, 1/6): 4 / sqrt(20)
    assert cc_shap.with_weak == pytest.approx(4 / math.sqrt(20))
    assert compute_cc_shap(
        answer, explanation, EQUATIONS, min_contribution=0
    ).value == pytest.approx(cc_shap.with_weak)
    assert compute_cc_shap(answer, explanation, PUBLISHED).value == pytest.approx(
        cc_shap.with_weak
    )


def test_the_published_check_looks_at_the_tail_and_drops_nothing():
    # mean |phi| over the two tail players: 0.015, 0.005, 0.5
    phi = np.array([[1, 1, 1], [2, 2, 2], [0.02, 0.01, 1], [-0.01, 0, 0]])
    cc_shap = compute_cc_shap(side(phi, [0, 1]), side(phi, [0, 1]), PUBLISHED)
    assert (cc_shap.weak_answer, cc_shap.weak_explanation) == (1, 1)
    assert cc_shap.with_weak == cc_shap.value
    assert (
        compute_cc_shap(side(phi), side(phi), PUBLISHED).weak_answer == 0
    )  # without a tail there is nothing to look at


@pytest.mark.parametrize("profile", ["equations", "published"])
@pytest.mark.parametrize(
    ("phi", "shared", "reason"),
    [
        (
            np.zeros((3, 2)),
            [0, 1, 2],
            "no shared player contributes to the explanation",
        ),
        (np.full((3, 2), 1e-9), [0, 1, 2], "no shared player contributes"),  # rounding
        ([[0], [0], [0], [5]], [0, 1, 2], "no shared player contributes"),
        (np.zeros((3, 0)), [0, 1, 2], "has no tokens"),
        ([[1, -1], [1, -1], [2, -2]], [0, 1, 2], "cancel"),
        ([[1], [np.nan], [0]], [0, 1, 2], "not a number"),
    ],
)
def test_undefined(profile, phi, shared, reason):
    for cc_shap in (
        compute_cc_shap(
            side([[1], [2], [3]]), side(phi, shared), get_fidelity(profile)
        ),
        compute_cc_shap(
            side(phi, shared), side([[1], [2], [3]]), get_fidelity(profile)
        ),
    ):
        assert cc_shap.value is None
        assert cc_shap.standard_error is None
        assert cc_shap.companions is None
        assert reason.split(" to the ")[0] in cc_shap.reason


def test_one_side_that_shares_nothing():
    assert (
        "share no players"
        in compute_cc_shap(side([[1]], []), side([[1]], []), EQUATIONS).reason
    )


def test_published_divides_by_nothing_where_equations_leaves_a_token_out():
    explanation = side([[1, 0], [2, 0]])
    assert (
        "divides by 0"
        in compute_cc_shap(side([[1], [2]]), explanation, PUBLISHED).reason
    )
    assert compute_cc_shap(
        side([[1], [2]]), explanation, EQUATIONS
    ).value == pytest.approx(1)


def test_a_jackknife_worked_by_hand():
    answers = np.array([[[1.0], [0.0]], [[0.0], [1.0]], [[1.0], [1.0]]])
    explanations = np.array([[[2.0], [1.0]], [[1.0], [1.0]], [[0.0], [1.0]]])
    cc_shap = compute_cc_shap(
        side(answers.mean(0), None, answers),
        side(explanations.mean(0), None, explanations),
        EQUATIONS,
    )
    # without each part the answer's are (1, 2), (2, 1), (1, 1), the explanation's (1, 2), (2, 2),
    # (3, 2)
    cosines = np.array([1.0, 6 / math.sqrt(5 * 8), 5 / math.sqrt(2 * 13)])
    assert cc_shap.standard_error == pytest.approx(
        math.sqrt(2 / 3 * ((cosines - cosines.mean()) ** 2).sum())
    )


def test_parts_drawn_apart_add_their_variances():
    generator = np.random.default_rng(1)
    answers, explanations = (
        generator.normal(1, 0.5, (4, 3, 1)),
        generator.normal(1, 0.5, (6, 3, 2)),
    )
    answer, explanation = (
        side(answers.mean(0), None, answers),
        side(explanations.mean(0), None, explanations),
    )
    alone = [
        compute_cc_shap(
            answer, side(explanations.mean(0), exact=True), EQUATIONS
        ).standard_error,
        compute_cc_shap(
            side(answers.mean(0), exact=True), explanation, EQUATIONS
        ).standard_error,
    ]
    cc_shap = compute_cc_shap(answer, explanation, EQUATIONS)
    assert min(alone) > 0
    assert cc_shap.standard_error == pytest.approx(math.hypot(*alone))


def test_reasons_stand_where_there_is_no_standard_error():
    phi = np.array([[1.0], [2.0]])
    for poor, reason in (
        (side(phi), "no independent parts"),
        (side(phi, None, phi[None]), "needs two"),
    ):
        cc_shap = compute_cc_shap(side(phi, exact=True), poor, EQUATIONS)
        assert cc_shap.value == pytest.approx(1)
        assert cc_shap.standard_error is None
        assert reason in cc_shap.reason


def test_the_standard_error_is_the_spread_over_seeds():
    games = [unanimity(random_terms(8, seed, longest=5, count=30)) for seed in (1, 2)]
    values = []
    for seed in range(60):
        sides = [play(begin_permutations(8, 17 * 8, seed), game)[0] for game in games]
        values.append(
            compute_cc_shap(
                *(SharedEstimate(one, np.arange(8)) for one in sides), EQUATIONS
            )
        )
    spread = np.std([one.value for one in values], ddof=1)
    assert spread > 0.005
    assert np.sqrt(np.mean([one.standard_error**2 for one in values])) == pytest.approx(
        spread, rel=0.35
    )


class Words:
    """A tokenizer of words with the blanks before them, for `shap`'s masker."""

    sep_token = sep_token_id = mask_token = bos_token_id = None
    all_special_ids = ()
    special_tokens_map = MappingProxyType({})

    def __call__(self, text, return_offsets_mapping=False):
        spans = [word.span() for word in re.finditer(r"\s*\S+", text)]
        return {
            "input_ids": [hash(text[start:end]) for start, end in spans],
            "offset_mapping": spans,
        }


def explained(prompt, weights):
    """Contributions to outputs that each add up weights of the words they are given."""

    def value(texts):
        return np.array(
            [
                [
                    sum(weight.get(word, 0) for word in text.split())
                    for weight in weights
                ]
                for text in texts
            ]
        )

    owen_values = compute_owen_values(prompt, Words(), value, seed=0)
    return owen_values.pieces, SharedEstimate(owen_values.estimate, np.arange(4))


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_models_built_by_hand(profile):
    question = "sheep eat green grass"
    weight = {"sheep": 2.0, "eat": -1.0, "grass": 0.5, "Why": 3.0, "The": 1.0}
    pieces, answer = explained(f"{question} The answer is", [weight])
    assert [piece.strip() for piece in pieces[:4]] == question.split()
    # it explains by the tokens it answers from, and by what asks it to
    _, explanation = explained(
        f"{question} Why is it so ?",
        [weight, {word: 3 * w for word, w in weight.items()}],
    )
    same = compute_cc_shap(answer, explanation, get_fidelity(profile))
    assert same.value == pytest.approx(1)
    assert same.standard_error == 0
    # it answers by the tokens that speak against its explanation
    _, against = explained(
        f"{question} Why is it so ?", [{word: -w for word, w in weight.items()}]
    )
    assert compute_cc_shap(
        answer, against, get_fidelity(profile)
    ).value == pytest.approx(-1)
    # it ignores its input
    _, nothing = explained(f"{question} Why is it so ?", [{}, {}])
    assert (
        compute_cc_shap(answer, nothing, get_fidelity(profile)).reason
        == "no shared player contributes to the explanation"
    )
    # it heeds nothing but what asks it
    _, tail = explained(f"{question} Why is it so ?", [{"Why": 1.0}])
    assert compute_cc_shap(answer, tail, get_fidelity(profile)).value is None
    # its log-odds are infinite
    _, sure = explained(f"{question} Why is it so ?", [{"Why": math.inf}])
    assert (
        compute_cc_shap(answer, sure, get_fidelity(profile)).reason
        == "a value of the explanation is not a number"
    )


ANSWER, EXPLANATION = [5, 6, 7, 9, 9], [5, 6, 7, 9, 8, 8, 4]


def listed(places):
    return [side.tolist() for side in places]


def test_text_alone():
    # 9 belongs to the answer's tail, though the explanation's prompt goes on with it
    assert listed(find_shared_players(ANSWER, EXPLANATION, (2, 4), EQUATIONS)) == [
        [0, 1, 2],
        [0, 1, 2],
    ]
    assert listed(find_shared_players(ANSWER, EXPLANATION, (2, 4), PUBLISHED)) == [
        [0, 1, 2],
        [0, 1, 2],
    ]


def test_image_before_and_behind():
    assert listed(
        find_shared_players(
            ANSWER, EXPLANATION, (2, 4), PUBLISHED, patches=2, image_first=True
        )
    ) == [
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4],
    ]
    assert listed(
        find_shared_players(ANSWER, EXPLANATION, (2, 4), EQUATIONS, patches=2)
    ) == [
        [0, 1, 2, 5, 6],
        [0, 1, 2, 7, 8],
    ]


def test_equations_ends_where_prompts_part():
    assert listed(find_shared_players([1, 2, 3], [1, 4, 3], (0, 0), EQUATIONS)) == [
        [0],
        [0],
    ]
    assert (
        listed(find_shared_players([1, 2, 3], [1, 2, 3, 4], (0, 0), EQUATIONS))
        == [[0, 1, 2]] * 2
    )
    # published compares whatever stands there
    assert (
        listed(find_shared_players([1, 2, 3], [1, 4, 3], (0, 0), PUBLISHED))
        == [[0, 1, 2]] * 2
    )


def test_published_wants_as_many():
    with pytest.raises(
        UserError, match=r"3 players stand before the query suffix .* 4 before"
    ):
        find_shared_players(ANSWER, EXPLANATION, (2, 3), PUBLISHED)
    assert (
        listed(find_shared_players(ANSWER, EXPLANATION, (2, 3), EQUATIONS))
        == [[0, 1, 2]] * 2
    )
    with pytest.raises(UserError, match="do not end prompts"):
        find_shared_players(ANSWER, EXPLANATION, (6, 3), EQUATIONS)


def test_an_inserted_word_is_left_out():
    assert listed(
        find_unchanged_players(["a", "dog", "runs"], ["a", "big", "old", "dog", "runs"])
    ) == [
        [0, 1, 2],
        [0, 3, 4],
    ]
    assert listed(find_unchanged_players([1, 2, 3], [1, 9, 3])) == [[0, 2], [0, 2]]
    assert listed(
        find_unchanged_players([(0, 0), (0, 1), 7], [(0, 0), (0, 1), 8, 7])
    ) == [[0, 1, 2], [0, 1, 3]]
    assert listed(find_unchanged_players([1], [2])) == [[], []]
    assert listed(find_unchanged_players([5, 5, 5], [5, 9, 5, 5])) == [
        [0, 1, 2],
        [0, 2, 3],
    ]  # the longest block alone misses one


@given(
    st.lists(st.integers(0, 3), max_size=30),
    st.integers(0, 30),
    st.lists(st.integers(4, 6), max_size=4),
)
def test_what_is_inserted_never_stays(tokens, place, inserted):
    place = min(place, len(tokens))
    before, after = find_unchanged_players(
        tokens, [*tokens[:place], *inserted, *tokens[place:]]
    )
    np.testing.assert_array_equal(before, np.arange(len(tokens)))
    assert not set(after) & set(range(place, place + len(inserted)))
