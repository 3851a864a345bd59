"""The residual network of a detector: the stem, stages of bottlenecks, and how large what comes out of them is."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

EPSILON = 1e-5
"""Added to the variance in each batch norm."""


@dataclass(frozen=True)
class StageSizes:
    """Sizes of a stage of bottlenecks.

    Attributes:
        blocks: Number of bottlenecks.
        width: Channels inside of a bottleneck.
        outputs: Channels that come out of it.
        groups: Groups of its 3x3 convolution.
    """

    blocks: int
    width: int
    outputs: int
    groups: int


class Norm(nn.Module):
    """Batch norm by stored mean and variance."""

    def __init__(self, channels: int) -> None:
        """Batch norm of some channels, which leaves its input as it is until weights are loaded."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Normalised states, of the same shape (batch, channels, height, width)."""
        mean, variance = self.get_buffer("running_mean"), self.get_buffer("running_var")
        return functional.batch_norm(states, mean, variance, self.weight, self.bias, False, 0.0, EPSILON)


class Convolution(nn.Conv2d):
    """A convolution without bias, then batch norm."""

    def __init__(
        self, inputs: int, outputs: int, side: int, *, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> None:
        """A convolution that keeps the size but for its stride.

        Args:
            inputs: Channels that go in.
            outputs: Channels that come out.
            side: Side of the kernel, an odd number.
            stride: Stride.
            dilation: Distance between the kernel's cells.
            groups: Groups of channels.
        """
        padding = dilation * (side // 2)
        super().__init__(inputs, outputs, side, stride, padding, dilation, groups, bias=False)
        self.norm = Norm(outputs)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States of shape (batch, outputs, height, width)."""
        found: torch.Tensor = self.norm(super().forward(states))
        return found


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut, which is one where the number of channels changes."""

    def __init__(self, inputs: int, sizes: StageSizes, stride: int, dilation: int) -> None:
        """A bottleneck of a stage.

        Args:
            inputs: Channels that go in.
            sizes: Sizes of the stage.
            stride: Stride of the first convolution and the shortcut.
            dilation: Of the second convolution.
        """
        super().__init__()
        different = inputs != sizes.outputs
        self.shortcut = Convolution(inputs, sizes.outputs, 1, stride=stride) if different else None
        self.conv1 = Convolution(inputs, sizes.width, 1, stride=stride)
        self.conv2 = Convolution(sizes.width, sizes.width, 3, dilation=dilation, groups=sizes.groups)
        self.conv3 = Convolution(sizes.width, sizes.outputs, 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States of shape (batch, outputs, height / stride, width / stride)."""
        inner = functional.relu_(self.conv2(functional.relu_(self.conv1(states))))
        beside = states if self.shortcut is None else self.shortcut(states)
        return functional.relu_(self.conv3(inner) + beside)


def stage(inputs: int, sizes: StageSizes, stride: int, dilation: int = 1) -> nn.Sequential:
    """A stage of bottlenecks, the first of which has the stride.

    Args:
        inputs: Channels that go in.
        sizes: Sizes of the stage.
        stride: Stride of the stage.
        dilation: Of the 3x3 convolutions.
    """
    return nn.Sequential(
        *(
            Bottleneck(sizes.outputs, sizes, 1, dilation) if block else Bottleneck(inputs, sizes, stride, dilation)
            for block in range(sizes.blocks)
        )
    )


class Stem(nn.Module):
    """The first convolution, and a pool without padding that takes in a last incomplete window."""

    def __init__(self, outputs: int) -> None:
        """A stem with some channels."""
        super().__init__()
        self.conv1 = Convolution(3, outputs, 7, stride=2)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """States at about a quarter of the size."""
        return functional.max_pool2d(functional.relu_(self.conv1(pixels)), 3, stride=2, padding=0, ceil_mode=True)


class Backbone(nn.Module):
    """The stem and the stages `res2`, `res3` and `res4`."""

    def __init__(self, stem: int, stages: Mapping[str, StageSizes]) -> None:
        """A backbone.

        Args:
            stem: Channels of the stem.
            stages: Sizes of each stage, by name and in order.
        """
        super().__init__()
        self.stem = Stem(stem)
        inputs = stem
        for name, sizes in stages.items():
            self.add_module(name, stage(inputs, sizes, 1 if name == "res2" else 2))
            inputs = sizes.outputs

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """The map of an image.

        Args:
            pixels: float32 of shape (1, 3, height, width).
        Returns:
            float32 of shape (1, channels, height, width), a sixteenth of the size; ceil mode of the stem's pool makes
            11 of 168.
        """
        states = pixels
        for part in self.children():
            states = part(states)
        return states
