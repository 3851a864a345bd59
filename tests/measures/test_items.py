"""Scenes, the unit that intervals resample."""

import math

import pytest

from waltz.core.intervals import Resampling
from waltz.measures.items import identify_scene
from waltz.measures.rows import average, average_errors


@pytest.mark.parametrize(
    ("image", "scene"),
    [
        ("v7w_11.png", "11"),
        ("000000000011.png", "11"),
        ("COCO_val2014_000000000011.png", "11"),
        ("VisualDialog_val2018_000000000011.jpg", "11"),
        ("bouncing_11.png", "11"),
        ("images/bouncing_11_still.png", "11"),
        ("v7w_12.png", "12"),
        ("a1b2.png", "a1b2"),
    ],
)
def test_one_scene_has_several_names(image, scene):
    assert identify_scene(image) == scene


def test_errors_are_pooled_as_squares():
    how = Resampling(200, 0.95, 1)
    pooled, squares = (
        average_errors([3.0, -4.0], ["a", "b"], "m", how),
        average([9.0, 16.0], ["a", "b"], "m", how, (0.0, math.inf)),
    )
    assert pooled.value == pytest.approx(12.5**0.5)
    assert (pooled.ci_low, pooled.ci_high) == (
        pytest.approx(squares.ci_low**0.5),
        pytest.approx(squares.ci_high**0.5),
    )
    assert (
        average_errors([2.0, -2.0], ["a", "b"], "m", how).value,
        average_errors([], [], "m", how).value,
    ) == (
        2,
        None,
    )
