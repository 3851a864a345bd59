"""Operators of detectors in plain PyTorch, with the names and signatures of `torchvision.ops`.

torchvision's own ones are compiled and do not load next to a build of torch that they were not
compiled for, such as the build for CPUs; where they load, a test compares these with them. Images
are not batched, so that `roi_align` and `roi_pool` take the map and the boxes of one image.

A box is left, top, right and bottom, continuous: it is right - left pixels wide.

Source:
    Ren et al., Faster R-CNN (NeurIPS 2015) for anchors, coding and non-maximum suppression;
    Girshick, Fast R-CNN (ICCV 2015) for `roi_pool`; He et al., Mask R-CNN (ICCV 2017) for
    `roi_align`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

MAX_LOG_SCALE = math.log(1000 / 16)
"""Maximum delta of a width or height: a side of 16 pixels grows to at most 1,000."""


class AnchorGenerator(nn.Module):
    """The anchors of a cell of each map, which are part of the checkpoint (torchvision computes
    them from sizes).
    """

    def __init__(self, num_anchors: int, num_maps: int = 1) -> None:
        """Create anchors of size 0, until weights are loaded."""
        super().__init__()
        self.cell_anchors = nn.ParameterList(
            [nn.Parameter(torch.zeros(num_anchors, 4)) for _ in range(num_maps)]
        )

    def grid_anchors(
        self,
        grid_sizes: Sequence[tuple[int, int]],
        strides: Sequence[int],
        offset: float = 0.0,
    ) -> list[torch.Tensor]:
        """Return the anchors of each map, cell by cell of each row.

        Args:
            grid_sizes: Rows and columns of each map.
            strides: Pixels of the image between two cells of each map.
            offset: Position in a cell that its anchors are centered at, as a share of the stride.
        Returns:
            A tensor of shape (rows x columns x anchors, 4) for each map.
        """
        anchors = []
        for (rows, columns), stride, cell_anchors in zip(
            grid_sizes, strides, self.cell_anchors, strict=True
        ):
            device, dtype = cell_anchors.device, cell_anchors.dtype
            y_of_rows = ((torch.arange(rows, device=device) + offset) * stride).to(
                dtype
            )
            x_of_columns = (
                (torch.arange(columns, device=device) + offset) * stride
            ).to(dtype)
            # Each of shape (rows, columns): the point of each cell.
            y, x = torch.meshgrid(y_of_rows, x_of_columns, indexing="ij")
            shifts = torch.stack([x, y, x, y], dim=-1)  # (rows, columns, 4)
            # (rows, columns, 1, 4) + (anchors, 4) -> (rows, columns, anchors, 4)
            shifted: torch.Tensor = shifts[:, :, None] + cell_anchors
            anchors.append(shifted.reshape(-1, 4))
        return anchors


@dataclass(frozen=True)
class BoxCoder:
    """Coding of a box relative to another one.

    Attributes:
        weights: Factors of the four deltas dx, dy, dw, dh.
        bbox_xform_clip: Maximum of dw and dh after the division by their factors.
    """

    weights: tuple[float, ...]
    bbox_xform_clip: float = MAX_LOG_SCALE

    def decode_single(
        self, rel_codes: torch.Tensor, boxes: torch.Tensor
    ) -> torch.Tensor:
        """Return boxes that are moved and resized by deltas.

        Args:
            rel_codes: dx, dy as shares of the box's width and height, and logarithms dw, dh of the
                factors of width and height, all times `weights`: shape (boxes, 4).
            boxes: The boxes, of shape (boxes, 4).
        Returns:
            Shape (boxes, 4).
        """
        sizes = boxes[:, 2:] - boxes[:, :2]
        centers = boxes[:, :2] + 0.5 * sizes
        deltas = rel_codes / rel_codes.new_tensor(self.weights)
        # Faster R-CNN, section 3.1.2, solved for the box: x = dx * w_a + x_a, w = w_a * exp(dw).
        new_centers = deltas[:, :2] * sizes + centers
        new_sizes = deltas[:, 2:].clamp(max=self.bbox_xform_clip).exp() * sizes
        halves = 0.5 * new_sizes
        return torch.cat([new_centers - halves, new_centers + halves], dim=1)


def clip_boxes_to_image(boxes: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Return boxes of shape (boxes, 4) clipped to an image of this height and width.

    Boxes outside the image have no width or height.
    """
    height, width = size
    edges = boxes.new_tensor([width, height, width, height])
    return boxes.clamp(min=0).minimum(edges)


def box_area(boxes: torch.Tensor) -> torch.Tensor:
    """Return the area of each box of shape (boxes, 4) in square pixels."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_iou(boxes1: torch.Tensor, boxes2: torch.Tensor) -> torch.Tensor:
    """Return the intersection over union of each box of the first tensor with each of the second.

    Args:
        boxes1: Shape (n, 4).
        boxes2: Shape (m, 4).
    Returns:
        Shape (n, m), of the boxes' type; NaN (0 / 0) for two empty boxes.
    """
    # (n, 1, 4) and (m, 4) -> (n, m, 2): width and height of each intersection, negative where there
    # is none.
    right_bottom = torch.minimum(boxes1[:, None, 2:], boxes2[:, 2:])
    left_top = torch.maximum(boxes1[:, None, :2], boxes2[:, :2])
    intersection = (right_bottom - left_top).clamp(min=0).prod(dim=-1)
    union = box_area(boxes1)[:, None] + box_area(boxes2) - intersection
    return intersection / union


def nms(
    boxes: torch.Tensor,
    scores: torch.Tensor,
    iou_threshold: float,
    max_boxes: int | None = None,
) -> torch.Tensor:
    """Return the best boxes of which no two overlap much (non-maximum suppression).

    A box is removed if a better selected one has an intersection over union with it strictly above
    the threshold. The ratio is float32, the threshold float64, as in torchvision's operator on a
    CPU; of equal scores the first is better.

    Args:
        boxes: Shape (boxes, 4).
        scores: Shape (boxes,).
        iou_threshold: Highest intersection over union that two boxes may have.
        max_boxes: Number of boxes after which the search ends, which torchvision's operator lacks;
            None selects all.
    Returns:
        Indices of the selected boxes on the device of `boxes`, best first.
    """
    # The loop waits for each result, which is faster on the CPU.
    indices = scores.cpu().sort(descending=True, stable=True).indices
    candidates = boxes.cpu()[indices]
    limit = len(indices) if max_boxes is None else max_boxes
    selected: list[torch.Tensor] = []
    while len(indices) and len(selected) < limit:
        selected.append(indices[0])
        best, candidates, indices = candidates[:1], candidates[1:], indices[1:]
        # NaN of two empty boxes is not above any threshold.
        is_separate = ~(box_iou(best, candidates)[0].double() > iou_threshold)
        candidates, indices = candidates[is_separate], indices[is_separate]
    if not selected:
        return torch.zeros(0, dtype=torch.int64, device=boxes.device)
    return torch.stack(selected).to(boxes.device)


def roi_pool(
    input: torch.Tensor,
    boxes: Sequence[torch.Tensor],
    output_size: int,
    spatial_scale: float = 1.0,
) -> torch.Tensor:
    """Return the maxima of the map under each box in the cells of a grid (RoIPool).

    A box's corners are rounded to cells of the map, half away from zero, and both belong to it.
    Cell j of the grid spans floor(j w / size) to ceil((j + 1) w / size) of its w columns; what lies
    beyond the map is cut off, and a cell with nothing left is 0. As in torchvision's operator, j (w
    / size) is computed in float32, which for a size of 14 is off by one column at w = 57 and 62.

    However many boxes there are, a cell costs two look-ups: spans of rows that occur are pooled
    once, and so are their windows of 1, 2, 4, ... columns, two of which cover any span of columns.

    Args:
        input: The map, of shape (1, channels, rows, columns).
        boxes: The boxes of the one image in its pixels: float32 of shape (boxes, 4), at least one.
        output_size: Cells of the grid in each direction.
        spatial_scale: Cells of the map in a pixel.
    Returns:
        Shape (boxes, channels, output_size, output_size), the channels lying next to each other in
        memory.
    """
    (states,), (image_boxes,) = input, boxes
    n_boxes = len(image_boxes)
    corners = _round_half_away(image_boxes * spatial_scale)
    # Each of shape (boxes, output_size, 2): start and end of the grid's rows and columns on the
    # map.
    row_spans = _compute_spans(
        corners[:, 1], corners[:, 3], output_size, states.shape[1]
    )
    column_spans = _compute_spans(
        corners[:, 0], corners[:, 2], output_size, states.shape[2]
    )

    # Maximum over the rows of each distinct span of rows: (spans, columns, channels).
    distinct_spans, span_indices = torch.unique(
        row_spans.flatten(0, 1), dim=0, return_inverse=True
    )
    windows, first, second = _pool_windows(states.permute(1, 2, 0), 0, distinct_spans)
    pooled_rows = torch.maximum(windows[first], windows[second])

    # Then over columns: windows is (spans, windows of columns, channels), and each cell the maximum
    # of two windows.
    windows, first, second = _pool_windows(pooled_rows, 1, column_spans)
    row_offsets = span_indices.view(n_boxes, output_size, 1) * windows.shape[1]
    flat_windows = windows.flatten(0, 1)
    # (boxes x rows x columns of the grid, channels)
    cells = flat_windows[(row_offsets + first[:, None, :]).flatten()]
    torch.maximum(
        cells, flat_windows[(row_offsets + second[:, None, :]).flatten()], out=cells
    )

    is_empty_row = row_spans[..., 1] <= row_spans[..., 0]
    is_empty_column = column_spans[..., 1] <= column_spans[..., 0]
    is_empty = is_empty_row[:, :, None] | is_empty_column[:, None, :]
    cells[is_empty.flatten()] = 0
    return cells.view(n_boxes, output_size, output_size, -1).permute(0, 3, 1, 2)


def _round_half_away(values: torch.Tensor) -> torch.Tensor:
    """Return whole numbers, half away from zero: `torch.round` rounds to even."""
    truncated = values.abs().trunc()
    up = (values.abs() - truncated >= 0.5).to(values.dtype)
    return ((truncated + up) * values.sign()).long()


def _compute_spans(
    first: torch.Tensor, last: torch.Tensor, size: int, extent: int
) -> torch.Tensor:
    """Return start and end of each of `size` cells between the first and last row (or column) of
    boxes on the map.

    The result is of shape (boxes, size, 2); no end above its start means that nothing is left.
    """
    step = (last - first + 1).clamp(min=1).float()[:, None] / size
    cells = torch.arange(size, device=first.device, dtype=torch.float32)
    edges = torch.stack([(cells * step).floor(), ((cells + 1) * step).ceil()], dim=-1)
    return (edges.long() + first[:, None, None]).clamp(0, extent)


def _pool_windows(
    states: torch.Tensor, axis: int, spans: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return maxima of the windows of 1, 2, 4, ... states along an axis, and for each span two that
    cover it.

    Args:
        states: States of a map or of its pooled rows.
        axis: The axis along which they are pooled.
        spans: Start and end of each span, of shape (..., 2).
    Returns:
        The windows in the position of the axis, those of 1 state first, and the positions of the
        two windows of each span, of shape (...); for an empty span they are those of some other
        span.
    """
    lengths = (spans[..., 1] - spans[..., 0]).clamp(min=1)
    longest = int(lengths.max())

    # Level k holds the windows of 2 ** k states; each is the maximum of two of the level below.
    levels = [states]
    level_starts = [0]  # position of each level's first window among all windows
    for level in range(longest.bit_length() - 1):
        below = levels[-1]
        shift = 2**level
        n_windows = below.shape[axis] - shift
        levels.append(
            torch.maximum(
                below.narrow(axis, 0, n_windows), below.narrow(axis, shift, n_windows)
            )
        )
        level_starts.append(level_starts[-1] + below.shape[axis])

    # The longest window that fits a span, once at its start and once at its end, covers it.
    level_by_length = [max(length, 1).bit_length() - 1 for length in range(longest + 1)]
    span_levels = torch.tensor(level_by_length, device=spans.device)[lengths]
    span_level_starts = torch.tensor(level_starts, device=spans.device)[span_levels]
    first = spans[..., 0].clamp(max=states.shape[axis] - 1)
    second = first + lengths - 2**span_levels
    return (
        torch.cat(levels, dim=axis),
        span_level_starts + first,
        span_level_starts + second,
    )


def roi_align(
    input: torch.Tensor,
    boxes: Sequence[torch.Tensor],
    output_size: int,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 2,
) -> torch.Tensor:
    """Return the means of the map under each box in the cells of a grid (RoIAlign, `aligned=False`
    of torchvision).

    A box is its corners times `spatial_scale`, neither rounded nor moved, and at least a cell wide
    and high. Each cell of the grid is the mean of `sampling_ratio` x `sampling_ratio` points in it.
    A point is interpolated between the four states around it, which lie at whole coordinates; it is
    0 if it is more than a cell outside the map, and else moved onto the map.

    Args:
        input: The map, of shape (1, channels, rows, columns); channels that lie next to each other
            in memory (`torch.channels_last`) save a copy.
        boxes: The boxes of the one image in its pixels: float32 of shape (boxes, 4).
        output_size: Cells of the grid in each direction.
        spatial_scale: Cells of the map in a pixel.
        sampling_ratio: Points of each cell in each direction.
    Returns:
        Shape (boxes, channels, output_size, output_size).
    """
    (states,), (image_boxes,) = input, boxes
    n_rows, n_columns = states.shape[1:]
    corners = image_boxes * spatial_scale
    rows, row_weights = _sample_axis(
        corners[:, 1], corners[:, 3], output_size, sampling_ratio, n_rows
    )
    columns, column_weights = _sample_axis(
        corners[:, 0], corners[:, 2], output_size, sampling_ratio, n_columns
    )
    # (boxes, size, 1, samples, 1) with (boxes, 1, size, 1, samples): all states of each cell and
    # their weights.
    indices = rows[:, :, None, :, None] * n_columns + columns[:, None, :, None, :]
    weights = row_weights[:, :, None, :, None] * column_weights[:, None, :, None, :]
    # (boxes x size x size, samples x samples): one weighted sum of states for each cell.
    indices = indices.flatten(3).flatten(0, 2)
    weights = weights.flatten(3).flatten(0, 2)
    state_rows = states.permute(1, 2, 0).flatten(0, 1)  # (rows x columns, channels)
    pooled = functional.embedding_bag(
        indices, state_rows, per_sample_weights=weights, mode="sum"
    )
    return pooled.view(len(image_boxes), output_size, output_size, -1).permute(
        0, 3, 1, 2
    )


def _sample_axis(
    first: torch.Tensor, last: torch.Tensor, size: int, sampling_ratio: int, extent: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows (or columns) of a map whose weighted sum is each cell between the first and last
    of boxes.

    Returns:
        int64 and float32 of shape (boxes, size, 2 x sampling_ratio).
    """
    step = (last - first).clamp(min=1)[:, None, None] / size
    cells = torch.arange(size, device=first.device, dtype=first.dtype)[:, None]
    points = (
        torch.arange(sampling_ratio, device=first.device, dtype=first.dtype) + 0.5
    ) / sampling_ratio
    # (boxes, size, sampling_ratio)
    positions = first[:, None, None] + cells * step + points * step
    is_inside = (positions >= -1) & (positions <= extent)
    positions = positions.clamp(0, extent - 1)
    # Linear interpolation between the states at the whole coordinates below and above.
    lower = positions.floor()
    share = positions - lower
    upper = (lower + 1).clamp(max=extent - 1)
    weights = (
        torch.cat([1 - share, share], dim=-1)
        * torch.cat([is_inside, is_inside], dim=-1)
        / sampling_ratio
    )
    return torch.cat([lower, upper], dim=-1).long(), weights
