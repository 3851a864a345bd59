"""SpanBERT with its head, from the archive that its authors released, in transformers format.

The models on SpanBERT's page lack the head that predicts words; a fairseq checkpoint has it, whose keys begin with
`decoder.` (facebookresearch/SpanBERT, issues 38, 44 and 53). The config and the vocabulary come from the archive
without head.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from waltz.core.errors import UserError
from waltz.core.files.archives import MODEL_CONFIG, extract_member
from waltz.core.files.atomic import replace_folder

CHECKPOINT, VOCABULARY = "model.pt", "vocab.txt"
DECODER_PREFIX = "decoder."
REQUIRED_WEIGHTS = (
    "bert.embeddings.word_embeddings.weight",
    "cls.predictions.transform.dense.weight",
    "cls.predictions.bias",
)
"""Weights without which its proposals would be random."""
USED_PREFIXES = ("bert.embeddings.", "bert.encoder.", "cls.predictions.")
TOKENIZER_CONFIG = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
TIED_WEIGHT = "cls.predictions.decoder.weight"
"""The word embeddings under a second name."""


def convert_spanbert(with_head: Path, with_config: Path, folder: Path) -> list[str]:
    """Write the model of the released archives as a folder that transformers reads.

    Args:
        with_head: `spanbert_large_with_head.tar.gz`, with a model.pt.
        with_config: `spanbert_hf.tar.gz`, with a config.json and, where it has one, a vocab.txt.
        folder: Destination; it appears when it is complete.
    Returns:
        Names of weights that a masked language model does not use (the span head, the pooler).
    Raises:
        UserError: An archive lacks a file, or the checkpoint the head.
    """
    with replace_folder(folder) as temporary:
        extract_member(with_config, MODEL_CONFIG, temporary / MODEL_CONFIG)
        try:
            extract_member(with_config, VOCABULARY, temporary / VOCABULARY)
        except UserError:
            extract_member(with_head, VOCABULARY, temporary / VOCABULARY)
        extract_member(with_head, CHECKPOINT, temporary / CHECKPOINT)
        weights, dropped = select_masked_lm_weights(_read_state(temporary / CHECKPOINT, with_head))
        absent = [name for name in REQUIRED_WEIGHTS if name not in weights]
        if absent:
            raise UserError(f"{with_head}: {CHECKPOINT} lacks {', '.join(absent)}; is it the archive with the head?")
        (temporary / CHECKPOINT).unlink()
        save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
        (temporary / "tokenizer_config.json").write_text(json.dumps(TOKENIZER_CONFIG) + "\n")
    return dropped


def select_masked_lm_weights(state: dict[str, Any]) -> tuple[dict[str, torch.Tensor], list[str]]:
    """Return the weights of `BertForMaskedLM` in a fairseq state, and the names of the others.

    Args:
        state: Tensors by name; those of the model begin with `decoder.`.
    """
    decoder_weights = {
        name.removeprefix(DECODER_PREFIX): value for name, value in state.items() if name.startswith(DECODER_PREFIX)
    }
    renamed = {
        name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): value
        for name, value in decoder_weights.items()
    }
    used = {
        name: value.contiguous().clone()
        for name, value in renamed.items()
        if name.startswith(USED_PREFIXES) and name != TIED_WEIGHT and not name.endswith("position_ids")
    }
    dropped = [name for name in renamed if name not in used and name != TIED_WEIGHT]
    return used, sorted(dropped)


def _read_state(file: Path, archive: Path) -> dict[str, Any]:
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"{archive}: {CHECKPOINT} cannot be read as tensors alone: {first_line}") from None
    weights = state.get("model", state) if isinstance(state, dict) else None
    if not isinstance(weights, dict):
        raise UserError(f"{archive}: {CHECKPOINT} holds no weights by name; fetch it again")
    return weights
