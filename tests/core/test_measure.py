import numpy as np
import pytest

from waltz.core.measure import bootstrap, interval

HOW = {"resamples": 500, "seed": 3, "label": "x"}


def test_a_single_cluster_has_no_interval():
    assert interval(bootstrap([1.0, 0.0, 1.0], ["a", "a", "a"], **HOW), 0.95) == (None, None)
    low, high = interval(bootstrap([1.0, 0.0, 1.0], ["a", "b", "c"], **HOW), 0.95)
    assert (low, high) == (0.0, 1.0)


def test_an_interval_holds_the_share_of_draws_that_it_says():
    assert interval(np.arange(101.0), 0.9) == pytest.approx((5.0, 95.0))
