import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltz.models.text.prefix_trees import batch_prefix_trees, build_prefix_trees

SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6).map(tuple), min_size=1, max_size=12)


def test_common_beginnings_are_nodes_once():
    trie = build_prefix_trees([(1, 2), (1, 2, 3), (1, 4), (5,)])
    assert trie.tokens.tolist() == [1, 2, 3, 4, 5]
    assert trie.parents.tolist() == [-1, 0, 1, 0, -1]
    assert trie.depths.tolist() == [0, 1, 2, 1, 0]
    assert trie.ends.tolist() == [1, 2, 3, 4]
    assert trie.build_ancestor_mask().astype(int).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]


@pytest.mark.parametrize("sequences", [[()], [(1,), (1,)], [(2,), (1,)]])
def test_what_is_no_sorted_set_of_texts_is_refused(sequences):
    with pytest.raises(ValueError, match="empty, repeated or out of order"):
        build_prefix_trees(sequences)


@given(SEQUENCES, st.integers(1, 12))
def test_every_sequence_is_found_again_within_the_budget(sequences, budget):
    found = []
    for trie in batch_prefix_trees(sequences, budget):
        assert len(trie.tokens) <= budget or len(trie.sequences) == 1
        for index, sequence in enumerate(trie.sequences):
            path = trie.get_path(index)
            assert tuple(trie.tokens[path]) == sequence
            assert np.array_equal(np.flatnonzero(trie.build_ancestor_mask()[path[-1]]), path)
            found.append(sequence)
    assert found == sorted(set(sequences))


@given(SEQUENCES, st.randoms())
def test_the_cut_does_not_depend_on_the_order_of_the_texts(sequences, random):
    shuffled = random.sample(sequences, len(sequences))
    assert [trie.sequences for trie in batch_prefix_trees(sequences, 7)] == [
        trie.sequences for trie in batch_prefix_trees(shuffled, 7)
    ]
