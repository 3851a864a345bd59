"""Boxes (left, top, right, bottom; continuous, no pixel is added): moved by deltas, clipped, the best of each place.

Everything is computed in float32, as the released code does it.
"""

import math
from typing import Any

import torch

MAX_SIZE_DELTA = math.log(1000 / 16)
"""Highest delta of a width or height that is believed."""


def decode_boxes(deltas: torch.Tensor, boxes: torch.Tensor, weights: tuple[float, ...]) -> torch.Tensor:
    """Boxes moved and resized by deltas.

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
    """Boxes cut to an image: those outside keep no width or height."""
    edges = boxes.new_tensor([width, height, width, height])
    return boxes.clamp(min=0).minimum(edges)


def suppress_overlaps(boxes: torch.Tensor, scores: torch.Tensor, limit: float, most: int) -> torch.Tensor:
    """The best boxes of which no two overlap much.

    A box goes where a better one that stays has an intersection over union with it strictly above the limit. The ratio
    is float32, the limit float64, as in torchvision's operator on a CPU; of equal scores the first is better.

    Args:
        boxes: float32 of shape (boxes, 4).
        scores: Shape (boxes,).
        limit: Highest intersection over union that two boxes may have.
        most: Number of boxes after which no more are looked for.
    Returns:
        Places of the boxes that stay, best first: int64 of at most `most`, on the CPU.
    """
    order = scores.cpu().sort(descending=True, stable=True).indices
    waiting = boxes.cpu()[order]
    areas = (waiting[:, 2] - waiting[:, 0]) * (waiting[:, 3] - waiting[:, 1])
    kept: list[torch.Tensor] = []
    while len(waiting) and len(kept) < most:
        kept.append(order[0])
        best, area = waiting[0], areas[0]
        waiting, areas, order = waiting[1:], areas[1:], order[1:]
        shared = torch.minimum(waiting[:, 2:], best[2:]) - torch.maximum(waiting[:, :2], best[:2])
        both = shared.clamp(min=0).prod(dim=1)
        apart = ~((both / (area + areas - both)).double() > limit)  # an empty box overlaps nothing: 0 / 0 is not above
        waiting, areas, order = waiting[apart], areas[apart], order[apart]
    return torch.stack(kept) if kept else torch.zeros(0, dtype=torch.int64)


def pool_boxes(states: torch.Tensor, boxes: torch.Tensor, side: int, scale: float) -> torch.Tensor:
    """The map under each box, pooled to a grid.

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
    of_cells: Any = rows.flatten(0, 1)
    distinct, numbers = of_cells.unique(dim=0, return_inverse=True)
    windows, of_rows = _pool_windows(states.permute(1, 2, 0), 0, distinct)
    pooled = torch.maximum(windows[of_rows[0]], windows[of_rows[1]])
    windows, of_columns = _pool_windows(pooled, 1, columns)
    before = numbers.view(len(boxes), side, 1) * windows.shape[1]
    flat = windows.flatten(0, 1)
    first, second = ((before + place[:, None, :]).flatten() for place in of_columns)
    found = flat[first]
    torch.maximum(found, flat[second], out=found)
    empty = (rows[..., 1] <= rows[..., 0])[:, :, None] | (columns[..., 1] <= columns[..., 0])[:, None, :]
    found[empty.flatten()] = 0
    return found.view(len(boxes), side, side, -1).permute(0, 3, 1, 2)


def _round_half_away(values: torch.Tensor) -> torch.Tensor:
    """Whole numbers, half away from zero: `torch.round` goes to the even one."""
    whole = values.abs().trunc()
    up = (values.abs() - whole >= 0.5).to(values.dtype)
    return ((whole + up) * values.sign()).long()


def _compute_spans(first: torch.Tensor, last: torch.Tensor, side: int, extent: int) -> torch.Tensor:
    """Start and end of each cell of the grids along one axis of the map.

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
    """Maxima of the windows of 1, 2, 4, ... states along an axis, and the two windows that cover each span.

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
    of_length = [max(length, 1).bit_length() - 1 for length in range(longest + 1)]
    level_of, start_of = (torch.tensor(values, device=spans.device) for values in (of_length, starts))
    level = level_of[lengths]
    first = spans[..., 0].clamp(max=states.shape[axis] - 1)
    last = first + lengths - 2**level
    return torch.cat(levels, dim=axis), [start_of[level] + first, start_of[level] + last]
