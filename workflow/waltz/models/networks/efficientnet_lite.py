"""EfficientNet-lite0, an image classifier with the weights of its TensorFlow release, in the names
of its checkpoint.

Source:
    Tan and Le, EfficientNet, ICML 2019, and the lite variants of its authors' repository: no
    squeeze-excitation, ReLU6.
"""

import math

import torch
from torch.nn import BatchNorm2d, Conv2d, Identity, Linear, Module, ModuleList
from torch.nn.functional import pad, relu6
from torch.nn.utils.fusion import fuse_conv_bn_eval

STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Blocks of each stage, their kernel, the first one's stride, expansion and output channels."""
STEM_CHANNELS, HEAD_CHANNELS, CLASSES = 32, 1280, 1000
EPSILON = 1e-3
"""Added to the variance in each batch norm."""
NORMALIZED = (
    ("_conv_stem", "_bn0"),
    ("_expand_conv", "_bn0"),
    ("_depthwise_conv", "_bn1"),
    ("_project_conv", "_bn2"),
    ("_conv_head", "_bn1"),
)
"""Convolutions and the batch norms that follow them, in modules that have both."""


class SameConv2d(Conv2d):
    """A convolution padded as TensorFlow does, so that its output has ceil(length / stride) rows
    and columns.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
    ) -> None:
        """Build a convolution without bias."""
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Convolve states of shape (batch, inputs, height, width); an odd pixel of padding is right
        and below.
        """
        margins: list[int] = []  # left, right, top and bottom
        for length, kernel, stride in zip(
            states.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True
        ):
            outputs = math.ceil(length / stride)
            # The last of the kernel's positions ends at (outputs - 1) * stride + kernel.
            total = max((outputs - 1) * stride + kernel - length, 0)
            margins += [total // 2, total - total // 2]
        return super().forward(pad(states, margins))


class Block(Module):
    """An inverted residual block: expansion, convolution of each channel, projection."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int
    ) -> None:
        """Build the block."""
        super().__init__()
        width = inputs * expansion
        self.expands = expansion > 1
        self.has_residual = stride == 1 and inputs == outputs
        if self.expands:
            self._expand_conv = SameConv2d(inputs, width)
            self._bn0 = BatchNorm2d(width, EPSILON)
        self._depthwise_conv = SameConv2d(width, width, kernel, stride, groups=width)
        self._bn1 = BatchNorm2d(width, EPSILON)
        self._project_conv = SameConv2d(width, outputs)
        self._bn2 = BatchNorm2d(outputs, EPSILON)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return the block's states."""
        # Sandler et al., MobileNetV2: 1x1 expansion, a convolution of each channel, 1x1 projection
        # without activation.
        wide = states
        if self.expands:
            wide = relu6(self._bn0(self._expand_conv(states)))
        wide = relu6(self._bn1(self._depthwise_conv(wide)))
        narrow: torch.Tensor = self._bn2(self._project_conv(wide))
        if self.has_residual:
            return states + narrow
        return narrow


class EfficientNetLite0(Module):
    """The classifier: images of shape (batch, 3, height, width) to logits of shape (batch, 1000)."""

    def __init__(self) -> None:
        """Build the network with random weights."""
        super().__init__()
        self._conv_stem = SameConv2d(3, STEM_CHANNELS, kernel=3, stride=2)
        self._bn0 = BatchNorm2d(STEM_CHANNELS, EPSILON)
        self._blocks = ModuleList()
        channels = STEM_CHANNELS
        for repeats, kernel, stride, expansion, outputs in STAGES:
            for repeat in range(repeats):
                # The first block of a stage has its stride and its change of channels.
                block_stride = stride if repeat == 0 else 1
                self._blocks.append(
                    Block(channels, outputs, kernel, block_stride, expansion)
                )
                channels = outputs
        self._conv_head = SameConv2d(channels, HEAD_CHANNELS)
        self._bn1 = BatchNorm2d(HEAD_CHANNELS, EPSILON)
        self._fc = Linear(HEAD_CHANNELS, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of the classes."""
        states = relu6(self._bn0(self._conv_stem(images)))
        for block in self._blocks:
            states = block(states)
        # (batch, channels, rows, columns)
        features = relu6(self._bn1(self._conv_head(states)))
        logits: torch.Tensor = self._fc(features.mean(dim=(2, 3)))
        return logits


def fold_batch_norms(network: Module) -> None:
    """Multiply the batch norms of a network in evaluation mode into its convolutions, for images
    with channels last.

    Both halve the time on a CPU.
    """
    for module in list(network.modules()):
        for convolution_name, norm_name in NORMALIZED:
            convolution = getattr(module, convolution_name, None)
            if not isinstance(convolution, Conv2d):
                continue
            fused = fuse_conv_bn_eval(convolution, getattr(module, norm_name))
            fused.weight.data = fused.weight.data.contiguous(
                memory_format=torch.channels_last
            )
            setattr(module, convolution_name, fused)
            setattr(module, norm_name, Identity())
