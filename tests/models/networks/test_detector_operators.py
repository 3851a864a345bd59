"""The operators of detectors, by hand, against plain restatements, and against torchvision where
its own ones load.
"""

import importlib
import math
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stand_ins.models.tiny_detector import restated_nms, restated_pool
from stand_ins.models.tiny_vilbert_detector import restate_align
from waltz.models.networks.detector_operators import (
    AnchorGenerator,
    BoxCoder,
    box_iou,
    clip_boxes_to_image,
    nms,
    roi_align,
    roi_pool,
)


def test_deltas_worked_by_hand():
    # width 20, height 10, centre (20, 15); weights (10, 10, 5, 5): centre + (0.5 * 20, -0.1 * 10),
    # sides x 2 and x 1/2
    box, deltas = (
        torch.tensor([[10.0, 10, 30, 20]]),
        torch.tensor([[5, -1, 5 * math.log(2), 5 * math.log(0.5)]]),
    )
    assert BoxCoder((10, 10, 5, 5)).decode_single(deltas, box)[
        0
    ].tolist() == pytest.approx([10, 11.5, 50, 16.5])


def test_a_side_grows_at_most_from_16_to_1000():
    box = torch.tensor([[0.0, 0, 16, 32]])
    moved = BoxCoder((1, 1, 1, 1)).decode_single(
        torch.tensor([[0.0, 0, 99, -99]]), box
    )[0]
    assert moved.tolist() == pytest.approx([8 - 500, 16, 8 + 500, 16])


def test_boxes_end_at_the_image():
    boxes = torch.tensor([[-5.0, -5, 30, 5], [90, 10, 130, 70], [120, 0, 130, 5]])
    assert clip_boxes_to_image(boxes, (60, 100)).tolist() == [
        [0, 0, 30, 5],
        [90, 10, 100, 60],
        [100, 0, 100, 5],
    ]


def test_an_overlap_of_just_the_limit_stays():
    # the intersection over union of the first two is 1 / 2, of the first and the third 1 / 2 + a
    # little
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 2], [0, 0, 4, 2.01]])
    scores = torch.tensor([0.9, 0.8, 0.7])
    assert nms(boxes, scores, 0.5).tolist() == [0, 1]
    assert nms(boxes[[0, 2]], scores[:2], 0.5).tolist() == [0]
    assert nms(boxes, scores, 0.49).tolist() == [0]


def test_of_equal_scores_the_first_is_better():
    boxes = torch.tensor([[0.0, 0, 4, 4], [1, 0, 5, 4], [0, 0, 4, 4]])
    assert nms(boxes, torch.tensor([1.0, 1, 1]), 0.5).tolist() == [0]
    assert nms(boxes, torch.tensor([1.0, 2, 1]), 0.5).tolist() == [1]


def test_empty_boxes_remove_nothing_and_stay():
    boxes = torch.tensor([[4.0, 0, 4, 4], [4, 0, 4, 4], [0, 0, 4, 4]])
    assert nms(boxes, torch.tensor([3.0, 2, 1]), 0.5).tolist() == [0, 1, 2]


corners = st.integers(0, 12)
drawn = st.lists(
    st.tuples(corners, corners, corners, corners, st.integers(0, 5)),
    min_size=1,
    max_size=25,
)


@given(drawn, st.sampled_from([0.25, 0.5, 0.7]), st.integers(1, 30))
def test_the_best_boxes_are_those_of_the_plain_rule(rows, limit, most):
    boxes = np.array(
        [[min(a, c), min(b, d), max(a, c), max(b, d)] for a, b, c, d, _ in rows],
        dtype=np.float32,
    )
    scores = np.array([row[4] for row in rows], dtype=np.float32)
    selected = nms(
        torch.from_numpy(boxes), torch.from_numpy(scores), limit, most
    ).tolist()
    assert selected == restated_nms(boxes, scores, limit)[:most]


@pytest.mark.parametrize("side", [14, 4, 3])
def test_every_cell_has_the_maximum_of_the_plain_loop(side):
    draw = np.random.default_rng(side)
    states = draw.normal(size=(6, 38, 67)).astype(np.float32)
    start = draw.uniform(-20, 1000, (120, 2))
    boxes = np.concatenate([start, start + draw.exponential(200, (120, 2))], axis=1)
    boxes[:60] = np.round(boxes[:60] / 16) * 16 + 8  # odd multiples of 8
    boxes = np.clip(boxes, -40, [1072, 608, 1072, 608]).astype(np.float32)
    pooled = roi_pool(
        torch.from_numpy(states)[None], [torch.from_numpy(boxes)], side, 1 / 16
    )
    assert (pooled.numpy() == restated_pool(states, boxes, side)).all()


@pytest.mark.parametrize(
    ("edge", "cell"),
    [
        (7.99, 0),
        (8, 1),
        (24, 2),
        (40, 3),
        (56, 4),
        (23.99, 1),
        (0.49999997 * 16, 0),
        (71, 4),
    ],
)
def test_corners_are_rounded_half_away_from_zero(edge, cell):
    # a map that counts its columns: the maximum is the last column of the box
    states = torch.arange(9.0).expand(1, 9, 9)
    assert (
        float(roi_pool(states[None], [torch.tensor([[0, 0, edge, 8]])], 1, 1 / 16))
        == cell
    )


def test_neighboring_cells_share_what_lies_between():
    # three columns in two cells: floor(0), ceil(1.5) and floor(1.5), ceil(3)
    states = torch.tensor([[[1.0, 9, 2, 7]]])
    assert roi_pool(states[None], [torch.tensor([[0.0, 0, 32, 0]])], 2, 1 / 16)[
        0, 0, 0
    ].tolist() == [9, 9]


def test_spans_are_those_of_float32():
    # 14 x float32(57 / 14) is above 57, so that the last cell takes in a 58th column; 7 x float32(62 / 14) is below 31
    counting = torch.arange(70.0).expand(1, 70, 70)
    last = roi_pool(counting[None], [torch.tensor([[0.0, 0, 56 * 16, 0]])], 14, 1 / 16)[
        0, 0, 0
    ]
    assert float(last[-1]) == 57
    first = roi_pool(
        -counting[None], [torch.tensor([[0.0, 0, 61 * 16, 0]])], 14, 1 / 16
    )[0, 0, 0]
    assert float(first[7]) == -30


def test_what_lies_beyond_the_map_is_cut_and_an_empty_cell_is_zero():
    states = -torch.ones(1, 4, 4)
    pooled = roi_pool(
        states[None], [torch.tensor([[32.0, 0, 96, 0], [64, 64, 80, 80]])], 2, 1 / 16
    )
    # Columns 2 to 6: 2 to 4, then 4 to 7.
    assert pooled[0, 0].tolist() == [
        [-1, 0],
        [-1, 0],
    ]
    assert (pooled[1] == 0).all()


def with_anchors(module: torch.nn.Module, boxes: list[list[float]]) -> None:
    with torch.no_grad():
        next(iter(module.parameters())).copy_(torch.tensor(boxes))


def test_anchors_stand_on_the_upper_left_corner_of_their_cell_row_by_row():
    anchors = AnchorGenerator(2)
    with_anchors(anchors, [[-8, -4, 8, 4], [-1, -2, 1, 2]])
    assert anchors.grid_anchors([(2, 3)], [16])[0][[0, 1, 2, 5, 6, 11]].tolist() == [
        [-8, -4, 8, 4],
        [-1, -2, 1, 2],
        [8, -4, 24, 4],
        [31, -2, 33, 2],
        [-8, 12, 8, 20],
        [31, 14, 33, 18],
    ]
    assert anchors.grid_anchors([(1, 2)], [16], offset=0.5)[0][2].tolist() == [
        16,
        4,
        32,
        12,
    ]


def test_points_of_roi_align_worked_by_hand():
    # a map that counts 10 rows and columns: the mean of a linear map in a cell is its value at the
    # cell's center
    rows, columns = torch.meshgrid(torch.arange(6.0), torch.arange(8.0), indexing="ij")
    states = torch.stack([rows, 10 * columns])[None]
    pooled = roi_align(states, [torch.tensor([[4.0, 4, 12, 20]])], 2, 1 / 4, 2)[0]
    # 1 to 5 in two cells.
    assert pooled[0].flatten().tolist() == pytest.approx([2, 2, 4, 4])
    assert pooled[1].flatten().tolist() == pytest.approx([15, 25, 15, 25])  # 1 to 3
    # a box without width is a cell wide, and begins at its corner without the shift of half a cell
    narrow = roi_align(states, [torch.tensor([[8.0, 8, 8, 8]])], 1, 1 / 4, 2)[
        0, :, 0, 0
    ]
    assert narrow.tolist() == pytest.approx([2.5, 25])


def test_points_just_outside_the_map_are_on_its_edge_and_others_are_zero():
    states = torch.ones(1, 1, 3, 3)
    # columns -1.5, -0.5, 0.5, 1.5: the first is outside
    pooled = roi_align(states, [torch.tensor([[-2.0, 0, 2, 2]])], 2, 1.0, 2)[0, 0]
    assert pooled.tolist() == [[0.5, 1], [0.5, 1]]
    # columns 2.25, 2.75, 3.25, 3.75: a point at most at the number of columns counts
    assert roi_align(states, [torch.tensor([[2.0, 0, 4, 2]])], 2, 1.0, 2)[
        0, 0
    ].tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize(("side", "samples"), [(7, 2), (3, 2), (2, 3)])
def test_boxes_are_pooled_as_the_plain_loop_does(side, samples):
    draw = np.random.default_rng(side)
    states = draw.normal(size=(4, 19, 33)).astype(np.float32)
    start = draw.uniform(-30, 260, (40, 2))
    boxes = np.concatenate(
        [start, start + draw.exponential(60, (40, 2)) - 2], axis=1
    ).astype(np.float32)
    pooled = roi_align(
        torch.from_numpy(states)[None], [torch.from_numpy(boxes)], side, 1 / 8, samples
    ).numpy()
    plain = np.stack(
        [restate_align(states, box, side, 1 / 8, samples) for box in boxes]
    )
    np.testing.assert_allclose(pooled, plain, atol=2e-4)


@pytest.fixture(scope="module")
def torchvision_ops() -> ModuleType:
    """torchvision's operators; a torchvision of another build of torch has none, or cannot be
    imported.
    """
    try:
        operators = importlib.import_module("torchvision.ops")
        operators.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
    except (ImportError, OSError, RuntimeError) as error:
        pytest.skip(f"torchvision's operators do not load: {error}")
    return operators


def draw_boxes(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return boxes that overlap on an image of 608 x 1072 pixels, some of them beyond it, and
    scores.
    """
    draw = np.random.default_rng(seed)
    start = draw.uniform(-20, 800, (count, 2))
    boxes = np.concatenate(
        [start, start + draw.exponential(200, (count, 2))], axis=1
    ).astype(np.float32)
    scores = draw.permutation(count).astype(np.float32)
    return torch.from_numpy(boxes), torch.from_numpy(scores)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
def test_suppression_is_that_of_torchvision(torchvision_ops, threshold):
    boxes, scores = draw_boxes(0, 400)
    assert (
        nms(boxes, scores, threshold).tolist()
        == torchvision_ops.nms(boxes, scores, threshold).tolist()
    )
    assert torch.equal(
        clip_boxes_to_image(boxes, (608, 1072)),
        torchvision_ops.clip_boxes_to_image(boxes, (608, 1072)),
    )
    assert torch.equal(box_iou(boxes, boxes), torchvision_ops.box_iou(boxes, boxes))


def test_pooled_maps_are_those_of_torchvision(torchvision_ops):
    boxes, _ = draw_boxes(1, 60)
    states = torch.from_numpy(
        np.random.default_rng(1).normal(size=(1, 6, 38, 67)).astype(np.float32)
    )
    for size in (14, 7, 3):
        assert torch.equal(
            roi_pool(states, [boxes], size, 1 / 16),
            torchvision_ops.roi_pool(states, [boxes], size, 1 / 16),
        )
        aligned = torchvision_ops.roi_align(
            states, [boxes], size, 1 / 16, sampling_ratio=2
        )
        torch.testing.assert_close(
            roi_align(states, [boxes], size, 1 / 16, 2), aligned, atol=2e-4, rtol=0
        )


def test_anchors_and_coding_are_those_of_torchvision(torchvision_ops):
    detection = importlib.import_module("torchvision.models.detection")
    released = detection.anchor_utils.AnchorGenerator(
        sizes=((32, 64),), aspect_ratios=((0.5, 1.0),)
    )
    anchors = AnchorGenerator(4)
    with_anchors(anchors, released.cell_anchors[0].tolist())
    expected = released.grid_anchors([[3, 5]], [[torch.tensor(16), torch.tensor(16)]])
    assert torch.equal(anchors.grid_anchors([(3, 5)], [16])[0], expected[0])
    boxes, _ = draw_boxes(2, 50)
    deltas = torch.from_numpy(
        np.random.default_rng(2).normal(size=(50, 4)).astype(np.float32) * 3
    )
    weights = (10.0, 10.0, 5.0, 5.0)
    decoded = detection._utils.BoxCoder(weights).decode_single(deltas, boxes)
    torch.testing.assert_close(BoxCoder(weights).decode_single(deltas, boxes), decoded)
