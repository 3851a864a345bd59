"""Masked language models: scores of tokens at a mask, pseudo-log-likelihoods of texts, and SpanBERT's own head."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from waltz.core.devices import Device
from waltz.core.digest import digest
from waltz.core.errors import UserError, get_first_line
from waltz.core.files.archives import MODEL_CONFIG, extract_member
from waltz.core.files.atomic import replace_folder
from waltz.model_registry import ModelSpec, compute_fingerprint
from waltz.models.batches import ProgressCallback, Tokens, compute_in_batches, ignore_progress
from waltz.models.pretrained import TextModel, get_max_positions, load_pretrained, report_faults

Scale = Literal["logit", "log_softmax"]
"""A token's score: the logit as the network gives it, or its logarithmic probability in nats."""

MaskPosition = tuple[Tokens, int, bool]
"""A sequence with a mask, the mask's position, and whether only tokens that begin a word are allowed there."""

TokenQuery = tuple[Tokens, int, Tokens]
"""A sequence with a mask, the mask's position, and the tokens to score."""
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


@dataclass(frozen=True)
class MaskedModel(TextModel):
    """A loaded masked language model.

    Attributes:
        special_counts: Numbers of special tokens before and after a text.
        word_prefix: Prefix of tokens that begin a word ("Ġ", "▁"); empty for word pieces.
        word_starts: Ids of the tokens with this prefix; all of them if it is empty.
    """

    special_counts: tuple[int, int]
    word_prefix: str
    word_starts: Tokens

    def tokenize(self, text: str) -> Tokens:
        """Return ids of a text with its special tokens, truncated at the window."""
        encoded = self.tokenizer(text, truncation=True, max_length=self.window)
        return tuple(encoded["input_ids"])


def load_masked_model(spec: ModelSpec, device: Device) -> MaskedModel:
    """Load a masked language model by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack parameters, such as those of the masked-LM head.
    """
    network, tokenizer = load_pretrained(spec, transformers.AutoModelForMaskedLM, "masked-LM head", device=device.name)
    with report_faults(spec):
        return wrap_masked_model(spec, network, tokenizer, device.name)


def wrap_masked_model(spec: ModelSpec, network: Any, tokenizer: Any, device: str) -> MaskedModel:
    """Return a masked model from a network and tokenizer that are already loaded.

    Raises:
        UserError: The tokenizer has no mask token.
    """
    if tokenizer.mask_token_id is None:
        raise UserError(f"models.{spec.name}: {spec.weights} has no mask token; name a masked language model")
    special = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    word_prefix = str(tokenizer.tokenize(" a")[0]).split("a")[0]
    word_starts = tuple(
        sorted(token_id for piece, token_id in tokenizer.get_vocab().items() if piece.startswith(word_prefix))
    )
    return MaskedModel(
        spec,
        device,
        network.to(device).eval(),
        tokenizer,
        get_max_positions(network, tokenizer),
        compute_fingerprint(spec),
        (special.index(0), special[::-1].index(0)),
        word_prefix,
        word_starts,
    )


def compute_unmasked_losses(
    model: MaskedModel,
    sequences: Iterable[Tokens],
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[Tokens, float]:
    """Return the mean cross-entropy in nats of each sequence as its own target, without masks, special tokens
    included.
    """

    @torch.inference_mode()
    def compute(batch: list[Tokens]) -> np.ndarray:
        ids = torch.tensor(batch, device=model.device)
        logits = _compute_logits(model, ids).float()
        target_logits = torch.gather(logits, 2, ids[..., None])[..., 0]
        return (torch.logsumexp(logits, dim=-1) - target_logits).double().mean(dim=1).cpu().numpy()

    losses = compute_in_batches(
        sequences,
        len,
        compute,
        content=_build_cache_content(model, "unmasked"),
        cache_file=cache_file,
        on_progress=on_progress,
    )
    return {sequence: float(loss) for sequence, loss in losses.items()}


def compute_pseudo_log_likelihoods(
    model: MaskedModel,
    sequences: Iterable[Tokens],
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[Tokens, float | None]:
    """Return the mean over tokens of ln p(token, given the others), each masked in turn; special tokens are not
    scored.

    Returns:
        Nats per token, at most 0; None for a sequence without tokens.
    Source:
        Salazar et al. (ACL 2020), divided by the number of tokens.
    """
    before, after = model.special_counts
    queries_of: dict[Tokens, list[TokenQuery]] = {}
    for sequence in set(sequences):
        queries_of[sequence] = [
            (
                (*sequence[:position], model.tokenizer.mask_token_id, *sequence[position + 1 :]),
                position,
                (sequence[position],),
            )
            for position in range(before, len(sequence) - after)
        ]
    rows = [row for rows in queries_of.values() for row in rows]
    scores = compute_token_scores(model, rows, "log_softmax", cache_file, on_progress)
    return {
        sequence: math.fsum(scores[row][0] for row in rows) / len(rows) if rows else None
        for sequence, rows in queries_of.items()
    }


def compute_token_scores(
    model: MaskedModel,
    queries: Iterable[TokenQuery],
    scale: Scale,
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[TokenQuery, np.ndarray]:
    """Return scores of given tokens at a mask.

    Returns:
        By query, float64 of the shape of its tokens.
    """
    queries = set(queries)
    widest = max((len(targets) for *_, targets in queries), default=0)

    def compute(batch: list[TokenQuery]) -> np.ndarray:
        scores = _compute_scores_at(model, [(ids, position) for ids, position, _ in batch], scale)
        values = np.full((len(batch), widest), np.nan)
        for row, (*_, targets) in enumerate(batch):
            values[row, : len(targets)] = scores[row, list(targets)].double().cpu().numpy()
        return values

    content = _build_cache_content(model, f"wanted {scale}")
    scores_of = compute_in_batches(
        queries, lambda row: len(row[0]), compute, content=content, cache_file=cache_file, on_progress=on_progress
    )
    return {row: values[: len(row[2])] for row, values in scores_of.items()}


def find_best_tokens(
    model: MaskedModel, positions: Iterable[MaskPosition], count: int, scale: Scale, cache_file: Path | None = None
) -> dict[MaskPosition, np.ndarray]:
    """Return the tokens with the highest scores at a mask.

    Returns:
        By position, float64 of shape (count, 2), fewer rows where the vocabulary has fewer: token and score,
        highest score first, equal scores by token.
    """
    continues_word = torch.ones(len(model.tokenizer), dtype=torch.bool, device=model.device)
    continues_word[list(model.word_starts)] = False

    def compute(batch: list[MaskPosition]) -> np.ndarray:
        scores = _compute_scores_at(model, [(ids, position) for ids, position, _ in batch], scale)
        starts_word = torch.tensor([starts_word for *_, starts_word in batch], device=model.device)
        scores = scores[:, : len(continues_word)].masked_fill(starts_word[:, None] & continues_word, -torch.inf)
        best = torch.topk(scores, min(count, len(continues_word)))
        top, tokens = best.values.double().cpu().numpy(), best.indices.double().cpu().numpy()
        order = np.lexsort((tokens, -top))
        values: np.ndarray = np.take_along_axis(np.stack([tokens, top], axis=2), order[..., None], axis=1)
        values[np.isneginf(values[..., 1])] = np.nan
        return values

    content = _build_cache_content(model, f"best {count} {scale}")
    best_of = compute_in_batches(
        positions,
        lambda position: len(position[0]),
        compute,
        content=content,
        cache_file=cache_file,
        on_progress=ignore_progress,
    )
    return {position: values[~np.isnan(values[:, 0])] for position, values in best_of.items()}


@torch.inference_mode()
def _compute_scores_at(model: MaskedModel, positions: list[tuple[Tokens, int]], scale: Scale) -> torch.Tensor:
    """Return scores of the whole vocabulary at one position per row, float32 of shape (rows, vocabulary)."""
    logits = _compute_logits(model, torch.tensor([ids for ids, _ in positions], device=model.device))
    selected = logits[torch.arange(len(positions)), torch.tensor([position for _, position in positions])].float()
    return torch.log_softmax(selected, dim=-1) if scale == "log_softmax" else selected


def _compute_logits(model: MaskedModel, ids: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model.network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return logits


def _build_cache_content(model: MaskedModel, task: str) -> dict[str, Any]:
    return {**model.build_cache_content(digest(__file__)), "task": task}


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
    used, dropped = {}, []
    for key, value in state.items():
        if not key.startswith(DECODER_PREFIX):
            continue
        name = key.removeprefix(DECODER_PREFIX)
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if name.startswith(USED_PREFIXES) and name != TIED_WEIGHT and not name.endswith("position_ids"):
            used[name] = value.contiguous().clone()
        elif name != TIED_WEIGHT:
            dropped.append(name)
    return used, sorted(dropped)


def _read_state(file: Path, archive: Path) -> dict[str, Any]:
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(f"{archive}: {CHECKPOINT} cannot be read as tensors alone: {get_first_line(error)}") from None
    weights = state.get("model", state) if isinstance(state, dict) else None
    if not isinstance(weights, dict):
        raise UserError(f"{archive}: {CHECKPOINT} holds no weights by name; fetch it again")
    return weights
