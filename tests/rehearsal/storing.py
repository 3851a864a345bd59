"""Tiny networks as files like those of the hub: key names, shards and formats as upstream."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch

State = dict[str, torch.Tensor]
Form = Literal["safetensors", "bin"]
STEMS = {"safetensors": ("model", "safetensors"), "bin": ("pytorch_model", "bin")}


def seeded(name: str, build: Callable[[], Any], width: float = 0.25) -> Any:
    """A network whose weights come from a seed of its name, wide enough that its outputs differ
    from input to input.
    """
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    torch.manual_seed(seed)
    network = build().eval()
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, values in network.named_parameters():
            if values.ndim > 1:
                values.copy_(torch.randn(values.shape, generator=draws) * width)
            elif key.endswith("bias"):
                values.copy_(torch.randn(values.shape, generator=draws) * 0.1)
    return network


def state_of(
    network: Any,
    renamed: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    dtype: torch.dtype | None = None,
) -> State:
    """Weights under upstream's names.

    Args:
        network: Any module.
        renamed: Regular expressions and what stands in their place, each applied in turn.
        without: Regular expressions of keys (as renamed) that upstream's file lacks, such as tied
            weights.
        dtype: Precision of floating-point weights; as they are where None.
    """
    state: State = {}
    for key, values in network.state_dict().items():
        for pattern, name in (renamed or {}).items():
            key = re.sub(pattern, name, key)
        if not any(re.search(pattern, key) for pattern in without):
            copy = values.detach().clone()
            state[key] = copy.to(dtype) if dtype and copy.is_floating_point() else copy
    return state


def save_state(
    state: State, folder: Path, form: Form = "safetensors", shards: int = 1
) -> None:
    """Weights in one file, or in several with the index that says which holds what."""
    folder.mkdir(parents=True, exist_ok=True)
    stem, ending = STEMS[form]
    if shards == 1:
        _write(state, folder / f"{stem}.{ending}", form)
        return
    keys, placed = list(state), {}
    for shard in range(shards):
        name = f"{stem}-{shard + 1:05d}-of-{shards:05d}.{ending}"
        part = {
            key: state[key]
            for key in keys[
                shard * len(keys) // shards : (shard + 1) * len(keys) // shards
            ]
        }
        _write(part, folder / name, form)
        placed |= dict.fromkeys(part, name)
    size = sum(values.numel() * values.element_size() for values in state.values())
    index = {"metadata": {"total_size": size}, "weight_map": placed}
    (folder / f"{stem}.{ending}.index.json").write_text(
        json.dumps(index, indent=2) + "\n", encoding="utf-8"
    )


def save_config(config: Any, folder: Path, architecture: str, **added: Any) -> None:
    """`config.json`, with the class that the checkpoint was saved from."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {**config.to_diff_dict(), "architectures": [architecture], **added}
    written.pop("transformers_version", None)
    (folder / "config.json").write_text(
        json.dumps(written, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )


def _write(state: State, path: Path, form: Form) -> None:
    state_dict = {key: values.contiguous() for key, values in state.items()}
    if form == "safetensors":
        safetensors.torch.save_file(state_dict, path, metadata={"format": "pt"})
    else:
        torch.save(state_dict, path)
