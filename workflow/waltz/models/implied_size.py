"""Number of parameters that a config implies, compared with memory and weights before anything is
allocated.
"""

import copy
from pathlib import Path
from typing import Any

import torch

from waltz.core.errors import UserError
from waltz.core.jobs.memory import GB, count_usable_bytes
from waltz.model_registry import CHECKPOINT_SUFFIXES, DTYPE_BYTES, ModelSpec

DEPTH = "num_hidden_layers"
"""Setting of the number of layers in configs of transformers."""
FOUR_BIT_BYTES = 0.5
"""Bytes of a parameter in 4 bits."""
BITS_PER_BYTE = 8


def check_implied_size(
    spec: ModelSpec,
    network_class: Any,
    config: Any,
    folder: str | Path,
    file: str = "config.json",
) -> None:
    """Refuse a config whose parameters fit neither the memory of this machine nor the weights of
    its folder.

    The bound of the weights is one bit for each parameter, below any quantization; keys and shapes
    are compared when the weights are loaded.

    Args:
        spec: The model's entry.
        network_class: A transformers class, or one of its `AutoModelFor...` classes.
        config: Config of the network.
        folder: Folder of the weights; no weights are compared if there is none.
        file: Name of the file of the config.
    Raises:
        UserError: Memory or weights are too small.
    """
    parameters = count_parameters(network_class, config)
    bytes_per_parameter = FOUR_BIT_BYTES if spec.four_bit else DTYPE_BYTES[spec.dtype]
    needed = parameters * bytes_per_parameter
    described = f"models.{spec.name}: cannot load {spec.weights}: {file} describes {parameters:,} parameters"
    stored = sum(
        file.stat().st_size
        for file in Path(folder).glob("*")
        if file.suffix in CHECKPOINT_SUFFIXES
    )
    # A hostile config could describe any number of parameters.
    if stored and parameters > BITS_PER_BYTE * stored:
        raise UserError(
            f"{described}, more than its weights can hold (got {stored:,} bytes); correct {file}, or copy the"
            " folder again"
        )
    usable = count_usable_bytes()
    # Weights may lie on the GPUs, or in memory, or on both.
    if needed > usable and needed > usable + _count_gpu_bytes():
        raise UserError(
            f"{described}, which need {needed / GB:.1f} GB (got {usable / GB:.1f} GB of memory); correct {file},"
            " or run it on a larger machine"
        )


def count_parameters(network_class: Any, config: Any) -> int:
    """Return the number of parameters of a network of this config; nothing is allocated.

    At most two layers of each part are built: all layers of a text or image encoder are taken to be
    alike.
    """
    depths = [getattr(part, DEPTH) for part in _list_deep_parts(config)]
    # Each part with one layer, and then one part after another with two: the difference is a layer
    # of that part.
    shallow_depths = [min(depth, 1) for depth in depths]
    shallow_count = _count_with_depths(network_class, config, shallow_depths)
    total = shallow_count
    for index, depth in enumerate(depths):
        if depth > 1:
            deeper_depths = shallow_depths.copy()
            deeper_depths[index] = 2
            layer_count = (
                _count_with_depths(network_class, config, deeper_depths) - shallow_count
            )
            total += (depth - 1) * layer_count
    return total


def _count_with_depths(network_class: Any, config: Any, depths: list[int]) -> int:
    """Return the number of parameters with other numbers of layers."""
    # The network is created from a copy, since it may change its config.
    shallow = copy.deepcopy(config)
    for part, depth in zip(_list_deep_parts(shallow), depths, strict=True):
        setattr(part, DEPTH, depth)
    network = build_skeleton(network_class, shallow)
    return sum(parameter.numel() for parameter in network.parameters())


def build_skeleton(network_class: Any, config: Any) -> Any:
    """Return a network whose parameters have no values, and take no memory.

    Args:
        network_class: A transformers class, or one of its `AutoModelFor...` classes.
        config: Config of the network.
    """
    with torch.device("meta"):
        if hasattr(network_class, "from_config"):
            return network_class.from_config(config, trust_remote_code=False)
        return network_class(config)


def _list_deep_parts(config: Any) -> list[Any]:
    """Return the config and the configs inside it that have a number of layers."""
    parts = []
    if isinstance(getattr(config, DEPTH, None), int):
        parts.append(config)
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if part is not None:
            parts += _list_deep_parts(part)
    return parts


def _count_gpu_bytes() -> int:
    """Return the memory of all GPUs that this process sees."""
    if not torch.cuda.is_available():
        return 0
    devices = range(torch.cuda.device_count())
    return sum(
        torch.cuda.get_device_properties(index).total_memory for index in devices
    )
