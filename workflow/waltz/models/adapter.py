"""Adapters of PEFT, which are merged into the network that they were trained on."""

import importlib.util
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.checkpoint_file import format_keys, read_checkpoint

WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
"""Names of the file with the weights of an adapter; the first that exists is read."""
WRAPPED = "base_model.model."
"""Prefix of the network's own keys in the file of an adapter."""
log = logging.getLogger(__name__)


def apply_adapter(spec: ModelSpec, network: Any, folder: Path) -> Any:
    """Return a network with the weights of a PEFT adapter merged into its own.

    Layers in 4 bits keep the adapter next to their weights, which a merge would round again.

    Args:
        spec: Entry of the model.
        network: The base, which is changed.
        folder: Folder with the adapter's settings and weights.
    Raises:
        UserError: The package peft is not installed; the adapter changes the input instead of the
            weights; or its weights are missing, or not those of the network.
    """
    label = f"models.{spec.name}: {spec.weights}"
    if importlib.util.find_spec("peft") is None:
        raise UserError(
            f"models.{spec.name}: a PEFT adapter needs the package peft, which is not installed; run:"
            " pip install -c constraints.txt -e '.[adapters]'"
        )
    import peft

    settings = peft.PeftConfig.from_pretrained(str(folder))
    if settings.is_prompt_learning or settings.is_adaption_prompt:
        raise UserError(
            f"{label} is an adapter of type {settings.peft_type.value}, which adds input instead of changing weights;"
            " give one that can be merged, such as LORA"
        )
    weights = read_checkpoint(_find_weights(folder))
    _fit_vocabulary(network, weights)
    model = peft.get_peft_model(network, settings)
    with warnings.catch_warnings(action="ignore"):  # about what is refused below
        # Weights of another shape are skipped, so that they are reported as missing.
        report = model.load_adapter(
            str(folder),
            model.active_adapter,
            torch_device="cpu",
            ignore_mismatched_sizes=True,
        )
    faults = {
        "lacks, or has of another shape,": report.missing_keys,
        "has unexpected": report.unexpected_keys,
    }
    for fault, keys in faults.items():
        if keys:
            raise UserError(
                f"{label} {fault} {len(keys)} weights: {format_keys(keys)}; name the model that it was trained on as"
                " base"
            )
    if spec.four_bit:
        log.info("%s: adapter added to %s, which has 4 bits", label, spec.base)
        return model.get_base_model()
    log.info("%s: adapter merged into %s", label, spec.base)
    return model.merge_and_unload()


def _find_weights(folder: Path) -> Path:
    """Return the file with the weights; if there is none, the first possible name, whose absence
    the reader reports.
    """
    for name in WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    return folder / WEIGHTS[0]


def _fit_vocabulary(network: Any, weights: Mapping[str, torch.Tensor]) -> None:
    """Give a network as many rows of embeddings as its adapter, which was trained with further
    tokens.
    """
    for name, module in network.named_modules():
        stored = weights.get(f"{WRAPPED}{name}.weight")
        if stored is None or not isinstance(module, torch.nn.Embedding):
            continue
        if len(stored) != module.num_embeddings:
            network.resize_token_embeddings(len(stored))
            return
