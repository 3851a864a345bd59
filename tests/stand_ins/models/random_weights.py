"""Random weights by key, whose states neither vanish nor grow from layer to layer."""

import math

import torch


class RandomWeights(dict[str, torch.Tensor]):
    """Weights drawn in the order in which they are added."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, spread: float = 1.0) -> torch.Tensor:
        return torch.randn(shape, generator=self.draw) * spread

    def add_linear(
        self, key: str, *shape: int, spread: float = 1.0, bias: bool = True
    ) -> None:
        self[f"{key}.weight"] = self.normal(
            *shape, spread=spread / math.sqrt(math.prod(shape[1:]))
        )
        if bias:
            self[f"{key}.bias"] = self.normal(shape[0], spread=0.1)

    def add_norm(self, key: str, channels: int) -> None:
        self[f"{key}.weight"] = 1 + self.normal(channels, spread=0.2)
        self[f"{key}.bias"] = self.normal(channels, spread=0.2)
        self[f"{key}.running_mean"] = self.normal(channels, spread=0.2)
        self[f"{key}.running_var"] = 0.5 + torch.rand(channels, generator=self.draw)

    def add_convolution(self, key: str, norm_key: str, *shape: int) -> None:
        self.add_linear(key, *shape, spread=1.4, bias=False)
        self.add_norm(norm_key, shape[0])
