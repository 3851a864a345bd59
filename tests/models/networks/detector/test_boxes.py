import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stand_ins.tiny_detector import restated_nms
from waltz.models.networks.detector import clip_boxes, decode_boxes, suppress_overlaps


def test_deltas_worked_by_hand():
    # width 20, height 10, centre (20, 15); weights (10, 10, 5, 5): centre + (0.5 * 20, -0.1 * 10), sides x 2 and x 1/2
    box, deltas = torch.tensor([[10.0, 10, 30, 20]]), torch.tensor([[5, -1, 5 * math.log(2), 5 * math.log(0.5)]])
    assert decode_boxes(deltas, box, (10, 10, 5, 5))[0].tolist() == pytest.approx([10, 11.5, 50, 16.5])


def test_a_side_grows_at_most_from_16_to_1000():
    box = torch.tensor([[0.0, 0, 16, 32]])
    moved = decode_boxes(torch.tensor([[0.0, 0, 99, -99]]), box, (1, 1, 1, 1))[0]
    assert moved.tolist() == pytest.approx([8 - 500, 16, 8 + 500, 16])


def test_boxes_end_at_the_image():
    boxes = torch.tensor([[-5.0, -5, 30, 5], [90, 10, 130, 70], [120, 0, 130, 5]])
    assert clip_boxes(boxes, 60, 100).tolist() == [[0, 0, 30, 5], [90, 10, 100, 60], [100, 0, 100, 5]]


def test_an_overlap_of_just_the_limit_stays():
    # the intersection over union of the first two is 1 / 2, of the first and the third 1 / 2 + a little
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 2], [0, 0, 4, 2.01]])
    scores = torch.tensor([0.9, 0.8, 0.7])
    assert suppress_overlaps(boxes, scores, 0.5, 9).tolist() == [0, 1]
    assert suppress_overlaps(boxes[[0, 2]], scores[:2], 0.5, 9).tolist() == [0]
    assert suppress_overlaps(boxes, scores, 0.49, 9).tolist() == [0]


def test_of_equal_scores_the_first_is_better():
    boxes = torch.tensor([[0.0, 0, 4, 4], [1, 0, 5, 4], [0, 0, 4, 4]])
    assert suppress_overlaps(boxes, torch.tensor([1.0, 1, 1]), 0.5, 9).tolist() == [0]
    assert suppress_overlaps(boxes, torch.tensor([1.0, 2, 1]), 0.5, 9).tolist() == [1]


def test_empty_boxes_remove_nothing_and_stay():
    boxes = torch.tensor([[4.0, 0, 4, 4], [4, 0, 4, 4], [0, 0, 4, 4]])
    assert suppress_overlaps(boxes, torch.tensor([3.0, 2, 1]), 0.5, 9).tolist() == [0, 1, 2]


corners = st.integers(0, 12)
drawn = st.lists(st.tuples(corners, corners, corners, corners, st.integers(0, 5)), min_size=1, max_size=25)


@given(drawn, st.sampled_from([0.25, 0.5, 0.7]), st.integers(1, 30))
def test_the_best_boxes_are_those_of_the_plain_rule(rows, limit, most):
    boxes = np.array([[min(a, c), min(b, d), max(a, c), max(b, d)] for a, b, c, d, _ in rows], dtype=np.float32)
    scores = np.array([row[4] for row in rows], dtype=np.float32)
    found = suppress_overlaps(torch.from_numpy(boxes), torch.from_numpy(scores), limit, most).tolist()
    assert found == restated_nms(boxes, scores, limit)[:most]
