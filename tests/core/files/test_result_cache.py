"""Cache of results by the digest of their content."""

import numpy as np

from waltz.core.files import result_cache


def test_an_array_is_computed_once_and_stored_under_the_digest_of_its_content(tmp_path):
    computed = []

    def compute():
        computed.append(1)
        return np.array([0.1, np.nan])

    content = {"texts": ["a"], "seed": 1}
    first = result_cache.load_or_compute(tmp_path, content, compute)
    again = result_cache.load_or_compute(tmp_path, {"seed": 1, "texts": ["a"]}, compute)
    np.testing.assert_array_equal(first, again)
    assert len(computed) == 1
    assert [file.stem for file in tmp_path.iterdir()] == [result_cache.compute_key(texts=["a"], seed=1)]
    result_cache.load_or_compute(tmp_path, content | {"seed": 2}, compute)
    assert len(computed) == 2


def test_without_a_folder_nothing_is_stored():
    assert result_cache.load_or_compute(None, {}, lambda: np.ones(1)).tolist() == [1.0]


def test_json_values_come_back_bit_by_bit(tmp_path):
    rows = [{"phi": 0.1 + 0.2, "reason": None}]
    assert result_cache.load_or_compute_json(tmp_path, {"a": 1}, lambda: rows) == rows
    assert result_cache.load_or_compute_json(tmp_path, {"a": 1}, lambda: []) == rows
