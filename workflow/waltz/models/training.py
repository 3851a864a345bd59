"""The loop that trains a network: the models of the scenes, and the decoders of a measurement."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

ReportLoss = Callable[[int, float], object]
"""Called with step and loss, for a progress bar and the log."""

WARMUP = 0.05
"""Share of the steps in which the learning rate rises."""


@dataclass(frozen=True)
class Training:
    """Settings of one training: seed of weights and batches, and number of batches."""

    seed: int
    steps: int
    report: ReportLoss

    def seed_generators(self) -> torch.Generator:
        """Seed the weights' generator, which is PyTorch's own, and return the one of the batches."""
        torch.manual_seed(self.seed)
        return torch.Generator().manual_seed(self.seed)

    def minimize(
        self,
        network: torch.nn.Module,
        compute_loss: Callable[[int], torch.Tensor],
        rate: float,
    ) -> None:
        """Train a network in place with AdamW, a cosine schedule and clipped gradients; `rate` is
        the highest.
        """
        network.train()
        optimizer = torch.optim.AdamW(
            network.parameters(),
            lr=rate,
            weight_decay=0.02,
            betas=(0.9, 0.98),
            fused=True,
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, self._compute_rate_factor
        )
        for step in range(self.steps):
            loss = compute_loss(step)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            self.report(step, loss.item())
        network.eval()

    def _compute_rate_factor(self, step: int) -> float:
        warm = max(1, int(WARMUP * self.steps))
        if step < warm:
            return (step + 1) / warm
        return 0.02 + 0.98 * 0.5 * (
            1 + math.cos(math.pi * (step - warm) / max(1, self.steps - warm))
        )
