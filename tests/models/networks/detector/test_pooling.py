import numpy as np
import pytest
import torch

from stand_ins.tiny_detector import restated_pool
from waltz.models.networks.detector import pool_boxes


@pytest.mark.parametrize("side", [14, 4, 3])
def test_every_cell_has_the_maximum_of_the_plain_loop(side):
    draw = np.random.default_rng(side)
    states = draw.normal(size=(6, 38, 67)).astype(np.float32)
    start = draw.uniform(-20, 1000, (120, 2))
    boxes = np.concatenate([start, start + draw.exponential(200, (120, 2))], axis=1)
    boxes[:60] = np.round(boxes[:60] / 16) * 16 + 8  # odd multiples of 8
    boxes = np.clip(boxes, -40, [1072, 608, 1072, 608]).astype(np.float32)
    found = pool_boxes(torch.from_numpy(states), torch.from_numpy(boxes), side, 1 / 16)
    assert (found.numpy() == restated_pool(states, boxes, side)).all()


@pytest.mark.parametrize(
    ("edge", "cell"), [(7.99, 0), (8, 1), (24, 2), (40, 3), (56, 4), (23.99, 1), (0.49999997 * 16, 0), (71, 4)]
)
def test_corners_are_rounded_half_away_from_zero(edge, cell):
    # a map that counts its columns: the maximum is the last column of the box
    states = torch.arange(9.0).expand(1, 9, 9)
    assert float(pool_boxes(states, torch.tensor([[0, 0, edge, 8]]), 1, 1 / 16)) == cell


def test_neighbouring_cells_share_what_lies_between():
    # three columns in two cells: floor(0), ceil(1.5) and floor(1.5), ceil(3)
    states = torch.tensor([[[1.0, 9, 2, 7]]])
    assert pool_boxes(states, torch.tensor([[0.0, 0, 32, 0]]), 2, 1 / 16)[0, 0, 0].tolist() == [9, 9]


def test_spans_are_those_of_float32():
    # 14 x float32(57 / 14) is above 57, so that the last cell takes in a 58th column; 7 x float32(62 / 14) is below 31
    counting = torch.arange(70.0).expand(1, 70, 70)
    last = pool_boxes(counting, torch.tensor([[0.0, 0, 56 * 16, 0]]), 14, 1 / 16)[0, 0, 0]
    assert float(last[-1]) == 57
    first = pool_boxes(-counting, torch.tensor([[0.0, 0, 61 * 16, 0]]), 14, 1 / 16)[0, 0, 0]
    assert float(first[7]) == -30


def test_what_lies_beyond_the_map_is_cut_and_an_empty_cell_is_zero():
    states = -torch.ones(1, 4, 4)
    found = pool_boxes(states, torch.tensor([[32.0, 0, 96, 0], [64, 64, 80, 80]]), 2, 1 / 16)
    assert found[0, 0].tolist() == [[-1, 0], [-1, 0]]  # columns 2 to 6: 2 to 4, then 4 to 7
    assert (found[1] == 0).all()
