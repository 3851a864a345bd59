"""Linear layers whose products take 10 bits of float32 numbers (TF32) on a GPU."""

from collections.abc import Callable
from typing import Any

import torch

LINEAR_LAYERS = (torch.nn.Linear, torch.nn.MultiheadAttention)


def use_tf32(network: torch.nn.Module) -> None:
    """Let the linear layers of a network multiply in TF32 on a GPU.

    The precision of products is a setting of the process. It holds within these layers alone, so
    that other models of the process keep theirs. Products of attention stay in float32.
    """
    for layer in network.modules():
        if isinstance(layer, LINEAR_LAYERS):
            enter, leave = _build_hooks()
            layer.register_forward_pre_hook(enter)
            # Called after an error, too.
            layer.register_forward_hook(leave, always_call=True)


def _build_hooks() -> tuple[Callable[..., None], Callable[..., None]]:
    """Return what one layer does before and after its product, also after an error."""
    # A stack, in case a layer calls itself.
    earlier: list[str] = []

    def enter(layer: torch.nn.Module, inputs: Any) -> None:
        earlier.append(torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("high")

    def leave(layer: torch.nn.Module, inputs: Any, outputs: Any) -> None:
        torch.set_float32_matmul_precision(earlier.pop())

    return enter, leave
