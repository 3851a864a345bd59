"""Boxes (left, top, right, bottom; continuous, no pixel is added): moved by deltas, clipped, the best of each place.

Everything is computed in float32, as the released code does it.
"""

import math

import torch

LARGEST = math.log(1000 / 16)
"""Highest delta of a width or height that is believed."""


def decode(deltas: torch.Tensor, boxes: torch.Tensor, weights: tuple[float, ...]) -> torch.Tensor:
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
    halves = 0.5 * (moves[:, 2:].clamp(max=LARGEST).exp() * sizes)
    return torch.cat([moved - halves, moved + halves], dim=1)


def clip(boxes: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Boxes cut to an image: those outside keep no width or height."""
    edges = boxes.new_tensor([width, height, width, height])
    return boxes.clamp(min=0).minimum(edges)


def nms(boxes: torch.Tensor, scores: torch.Tensor, limit: float, most: int) -> torch.Tensor:
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
