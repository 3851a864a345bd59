"""Boxes (left, top, right, bottom; continuous, no pixel is added): decoding, clipping, suppression of overlaps,
RoIPool.

Everything is computed in float32, as in the released code.
"""

import math
from typing import Any

import torch

MAX_SIZE_DELTA = math.log(1000 / 16)
"""Maximum delta of a width or height."""


def decode_boxes(deltas: torch.Tensor, boxes: torch.Tensor, weights: tuple[float, ...]) -> torch.Tensor:
    """Return boxes moved and resized by deltas.

    Args:
        deltas: dx, dy as shares of the box's width and height, and logarithms dw, dh of what they are multiplied by,
            all times `weights`: float32 of shape (boxes, 4).
        boxes: float32 of shape (boxes, 4).
        weights: What the four deltas are divided by.
    Returns:
        float32 of shape (boxes, 4).
    """
    sizes = boxes[:, 2:] - boxes[:, :2]
    centres = boxes[:, :2] + 0.5 * sizes
    moves = deltas / deltas.new_tensor(weights)
    moved = moves[:, :2] * sizes + centres
    halves = 0.5 * (moves[:, 2:].clamp(max=MAX_SIZE_DELTA).exp() * sizes)
    return torch.cat([moved - halves, moved + halves], dim=1)


def clip_boxes(boxes: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Return boxes clipped to an image; those outside have no width or height."""
    edges = boxes.new_tensor([width, height, width, height])
    return boxes.clamp(min=0).minimum(edges)


def suppress_overlaps(boxes: torch.Tensor, scores: torch.Tensor, limit: float, max_boxes: int) -> torch.Tensor:
    """Return the best boxes of which no two overlap much (non-maximum suppression).

    A box is removed if a better selected one has an intersection over union with it strictly above the limit. The ratio
    is float32, the limit float64, as in torchvision's operator on a CPU; of equal scores the first is better.

    Args:
        boxes: float32 of shape (boxes, 4).
        scores: Shape (boxes,).
        limit: Highest intersection over union that two boxes may have.
        max_boxes: Maximum number of boxes.
    Returns:
        Indices of the selected boxes, best first: int64 of at most `max_boxes`, on the CPU.
    """
    order = scores.cpu().sort(descending=True, stable=True).indices
    candidates = boxes.cpu()[order]
    areas = (candidates[:, 2] - candidates[:, 0]) * (candidates[:, 3] - candidates[:, 1])
    selected: list[torch.Tensor] = []
    while len(candidates) and len(selected) < max_boxes:
        selected.append(order[0])
        best, area = candidates[0], areas[0]
        candidates, areas, order = candidates[1:], areas[1:], order[1:]
        overlap = torch.minimum(candidates[:, 2:], best[2:]) - torch.maximum(candidates[:, :2], best[:2])
        both = overlap.clamp(min=0).prod(dim=1)
        is_separate = ~((both / (area + areas - both)).double() > limit)  # 0 / 0 of empty boxes is not above the limit
        candidates, areas, order = candidates[is_separate], areas[is_separate], order[is_separate]
    return torch.stack(selected) if selected else torch.zeros(0, dtype=torch.int64)


def pool_boxes(states: torch.Tensor, boxes: torch.Tensor, side: int, scale: float) -> torch.Tensor:
    """Return the map under each box, pooled to a grid (RoIPool).

    A box's corners are rounded to cells of the map, half away from zero, and both belong to it. Cell j of the grid
    spans floor(j w / side) to ceil((j + 1) w / side) of its w columns; what lies beyond the map is cut off, and a cell
    with nothing left is 0. As in torchvision's operator, j (w / side) is computed in float32, which for a side of 14 is
    off by one column at w = 57 and 62.

    However many boxes there are, a cell costs two look-ups: spans of rows that occur are pooled once, and so are their
    windows of 1, 2, 4, ... columns, two of which cover any span of columns.

    Args:
        states: The map, of shape (channels, rows, columns).
        boxes: In pixels of the image: float32 of shape (boxes, 4), at least one.
        side: Cells a side of the grid.
        scale: Cells of the map in a pixel.
    Returns:
        Shape (boxes, channels, side, side), the channels lying next to each other in memory.
    """
    corners = _round_half_away(boxes * scale)
    rows = _compute_spans(corners[:, 1], corners[:, 3], side, states.shape[1])
    columns = _compute_spans(corners[:, 0], corners[:, 2], side, states.shape[2])
    spans: Any = rows.flatten(0, 1)
    distinct, span_indices = spans.unique(dim=0, return_inverse=True)
    windows, row_windows = _pool_windows(states.permute(1, 2, 0), 0, distinct)
    pooled = torch.maximum(windows[row_windows[0]], windows[row_windows[1]])
    windows, column_windows = _pool_windows(pooled, 1, columns)
    row_offsets = span_indices.view(len(boxes), side, 1) * windows.shape[1]
    flat = windows.flatten(0, 1)
    first, second = ((row_offsets + window[:, None, :]).flatten() for window in column_windows)
    cells = flat[first]
    torch.maximum(cells, flat[second], out=cells)
    empty = (rows[..., 1] <= rows[..., 0])[:, :, None] | (columns[..., 1] <= columns[..., 0])[:, None, :]
    cells[empty.flatten()] = 0
    return cells.view(len(boxes), side, side, -1).permute(0, 3, 1, 2)


def _round_half_away(values: torch.Tensor) -> torch.Tensor:
    """Return whole numbers, half away from zero: `torch.round` rounds to even."""
    truncated = values.abs().trunc()
    up = (values.abs() - truncated >= 0.5).to(values.dtype)
    return ((truncated + up) * values.sign()).long()


def _compute_spans(first: torch.Tensor, last: torch.Tensor, side: int, extent: int) -> torch.Tensor:
    """Return start and end of each cell of the grids along one axis of the map.

    Args:
        first: First row or column of each box: int64 of shape (boxes,).
        last: Last one, which belongs to it.
        side: Cells of the grid.
        extent: Rows or columns of the map.
    Returns:
        int64 of shape (boxes, side, 2), between 0 and the extent; no end above its start means that nothing is left.
    """
    step = (last - first + 1).clamp(min=1).float()[:, None] / side
    cells = torch.arange(side, device=first.device, dtype=torch.float32)
    edges = torch.stack([(cells * step).floor(), ((cells + 1) * step).ceil()], dim=-1)
    return (edges.long() + first[:, None, None]).clamp(0, extent)


def _pool_windows(states: torch.Tensor, axis: int, spans: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return maxima of the windows of 1, 2, 4, ... states along an axis, and two windows that cover each span.

    Args:
        states: Any tensor.
        axis: Its axis that the spans are of.
        spans: Start and end: int64 of shape (..., 2).
    Returns:
        The windows, all of 1 first, in the place of the axis; and the places of two for each span, of shape (...). An
        empty span has the places of some other.
    """
    lengths = (spans[..., 1] - spans[..., 0]).clamp(min=1)
    longest = int(lengths.max())
    levels = [states]
    for doubled in range(longest.bit_length() - 1):
        shorter = levels[-1]
        rest = shorter.shape[axis] - 2**doubled
        levels.append(torch.maximum(shorter.narrow(axis, 0, rest), shorter.narrow(axis, 2**doubled, rest)))
    starts = [sum(part.shape[axis] for part in levels[:number]) for number in range(len(levels))]
    level_by_length = [max(length, 1).bit_length() - 1 for length in range(longest + 1)]
    level_of, start_of = (torch.tensor(values, device=spans.device) for values in (level_by_length, starts))
    level = level_of[lengths]
    first = spans[..., 0].clamp(max=states.shape[axis] - 1)
    last = first + lengths - 2**level
    return torch.cat(levels, dim=axis), [start_of[level] + first, start_of[level] + last]
