"""Players that prompts share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.consistency.cc_shap.shared_players import find_shared_players, find_unchanged_players
from waltz.core.errors import UserError
from waltz.fidelity import EQUATIONS, PUBLISHED

ANSWER, EXPLANATION = [5, 6, 7, 9, 9], [5, 6, 7, 9, 8, 8, 4]


def listed(places):
    return [side.tolist() for side in places]


def test_text_alone():
    # 9 belongs to the answer's tail, though the explanation's prompt goes on with it
    assert listed(find_shared_players(ANSWER, EXPLANATION, (2, 4), EQUATIONS)) == [[0, 1, 2], [0, 1, 2]]
    assert listed(find_shared_players(ANSWER, EXPLANATION, (2, 4), PUBLISHED)) == [[0, 1, 2], [0, 1, 2]]


def test_image_before_and_behind():
    assert listed(find_shared_players(ANSWER, EXPLANATION, (2, 4), PUBLISHED, patches=2, image_first=True)) == [
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4],
    ]
    assert listed(find_shared_players(ANSWER, EXPLANATION, (2, 4), EQUATIONS, patches=2)) == [
        [0, 1, 2, 5, 6],
        [0, 1, 2, 7, 8],
    ]


def test_equations_ends_where_prompts_part():
    assert listed(find_shared_players([1, 2, 3], [1, 4, 3], (0, 0), EQUATIONS)) == [[0], [0]]
    assert listed(find_shared_players([1, 2, 3], [1, 2, 3, 4], (0, 0), EQUATIONS)) == [[0, 1, 2]] * 2
    # published compares whatever stands there
    assert listed(find_shared_players([1, 2, 3], [1, 4, 3], (0, 0), PUBLISHED)) == [[0, 1, 2]] * 2


def test_published_wants_as_many():
    with pytest.raises(UserError, match=r"3 players stand before the query suffix .* 4 before"):
        find_shared_players(ANSWER, EXPLANATION, (2, 3), PUBLISHED)
    assert listed(find_shared_players(ANSWER, EXPLANATION, (2, 3), EQUATIONS)) == [[0, 1, 2]] * 2
    with pytest.raises(UserError, match="do not end prompts"):
        find_shared_players(ANSWER, EXPLANATION, (6, 3), EQUATIONS)


def test_an_inserted_word_is_left_out():
    assert listed(find_unchanged_players(["a", "dog", "runs"], ["a", "big", "old", "dog", "runs"])) == [
        [0, 1, 2],
        [0, 3, 4],
    ]
    assert listed(find_unchanged_players([1, 2, 3], [1, 9, 3])) == [[0, 2], [0, 2]]
    assert listed(find_unchanged_players([(0, 0), (0, 1), 7], [(0, 0), (0, 1), 8, 7])) == [[0, 1, 2], [0, 1, 3]]
    assert listed(find_unchanged_players([1], [2])) == [[], []]
    assert listed(find_unchanged_players([5, 5, 5], [5, 9, 5, 5])) == [
        [0, 1, 2],
        [0, 2, 3],
    ]  # the longest block alone misses one


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 30), st.lists(st.integers(4, 6), max_size=4))
def test_what_is_inserted_never_stays(tokens, place, inserted):
    place = min(place, len(tokens))
    before, after = find_unchanged_players(tokens, [*tokens[:place], *inserted, *tokens[place:]])
    np.testing.assert_array_equal(before, np.arange(len(tokens)))
    assert not set(after) & set(range(place, place + len(inserted)))
