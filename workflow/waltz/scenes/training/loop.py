"""One optimisation loop for all of them."""

import math
from collections.abc import Callable, Iterator

import torch

WARMUP = 0.05
"""Share of the steps in which the learning rate rises."""
SORTED_BATCHES = 50
"""Batches among which rows are sorted by length."""


def optimise(
    network: torch.nn.Module,
    losses: Callable[[int], torch.Tensor],
    *,
    steps: int,
    rate: float,
    report: Callable[[int, float], object],
) -> None:
    """Minimise a loss with AdamW, a cosine schedule and clipped gradients.

    Args:
        network: What is trained, in place.
        losses: Gives the loss of one batch, by the number of its step.
        steps: How many batches.
        rate: Highest learning rate.
        report: Called with step and loss, for a progress bar and the log.
    """
    network.train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.02, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _compute_rate_factor(step, steps))
    for step in range(steps):
        loss = losses(step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        report(step, loss.item())
    network.eval()


def draw_batches(count: int, size: int, generator: torch.Generator) -> Iterator[list[int]]:
    """Endless batches of indices, every index once an epoch."""
    while True:
        order = torch.randperm(count, generator=generator).tolist()
        for first in range(0, count - size + 1, size):
            yield order[first : first + size]


def draw_batches_by_length(lengths: torch.Tensor, size: int, generator: torch.Generator) -> Iterator[list[int]]:
    """Endless batches of indices of about the same length, every index but the last few once an epoch.

    Args:
        lengths: Of each, int64 of shape (count).
        size: Of a batch.
        generator: What draws.
    """
    while True:
        batches = [
            batch
            for part in torch.randperm(len(lengths), generator=generator).split(SORTED_BATCHES * size)  # type: ignore[no-untyped-call]
            for batch in part[torch.argsort(lengths[part], stable=True)].split(size)
            if len(batch) == size
        ]
        for index in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[index].tolist()


def _compute_rate_factor(step: int, steps: int) -> float:
    warm = max(1, int(WARMUP * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
