"""Masked language models: what they would put in a place, and what a text costs them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import transformers

from waltz.core.devices import Device
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.models.batches import ProgressCallback, compute_in_batches, ignore_progress
from waltz.models.pretrained import get_max_positions, load_pretrained
from waltz.models.registry import ModelSpec
from waltz.models.text.prefix_trees import Tokens
from waltz.models.weights import compute_fingerprint

Scale = Literal["logit", "log_softmax"]
"""A token's score: the logit as the network gives it, or its logarithmic probability in nats."""

MaskPosition = tuple[Tokens, int, bool]
"""A sequence with a mask, the mask's position, and whether only tokens that begin a word may stand there."""

TokenQuery = tuple[Tokens, int, Tokens]
"""A sequence with a mask, the mask's position, and the tokens whose scores are wanted."""


@dataclass(frozen=True)
class MaskedModel:
    """A loaded masked language model.

    Attributes:
        spec: What was loaded.
        device: A torch device.
        network: The transformers model, in evaluation mode.
        tokenizer: Its tokenizer.
        window: Most positions that it reads, special tokens included.
        frame: How many special tokens stand before and after a text.
        mark: What the vocabulary puts before a token that begins a word ("Ġ", "▁"); empty for word pieces.
        beginners: Ids of the tokens that carry the mark; all of them where it is empty.
        fingerprint: What tells these weights from others.
    """

    spec: ModelSpec
    device: str
    network: Any
    tokenizer: Any
    window: int
    frame: tuple[int, int]
    mark: str
    beginners: Tokens
    fingerprint: str

    def tokenize(self, text: str) -> Tokens:
        """Ids of a text between its special tokens, cut at the window."""
        encoded = self.tokenizer(text, truncation=True, max_length=self.window)
        return tuple(encoded["input_ids"])


def load_masked_model(spec: ModelSpec, device: Device) -> MaskedModel:
    """Load a masked language model by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack parameters, such as those of the masked-LM head.
    """
    network, tokenizer = load_pretrained(spec, transformers.AutoModelForMaskedLM, "masked-LM head")
    return wrap_masked_model(spec, network, tokenizer, device.name)


def wrap_masked_model(spec: ModelSpec, network: Any, tokenizer: Any, device: str) -> MaskedModel:
    """A masked model from a network and tokenizer that are loaded already.

    Raises:
        UserError: The tokenizer has no mask token.
    """
    if tokenizer.mask_token_id is None:
        raise UserError(f"models.{spec.name}: {spec.weights} has no mask token; name a masked language model")
    special = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    mark = str(tokenizer.tokenize(" a")[0]).split("a")[0]
    beginners = tuple(sorted(place for piece, place in tokenizer.get_vocab().items() if piece.startswith(mark)))
    return MaskedModel(
        spec,
        device,
        network.to(device).eval(),
        tokenizer,
        get_max_positions(network, tokenizer),
        (special.index(0), special[::-1].index(0)),
        mark,
        beginners,
        compute_fingerprint(spec),
    )


def compute_unmasked_losses(
    model: MaskedModel,
    sequences: Iterable[Tokens],
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> dict[Tokens, float]:
    """Mean cross-entropy of each sequence as its own target, nothing masked, special tokens included, in nats."""

    @torch.inference_mode()
    def compute(batch: list[Tokens]) -> np.ndarray:
        ids = torch.tensor(batch, device=model.device)
        logits = _compute_logits(model, ids).float()
        own = torch.gather(logits, 2, ids[..., None])[..., 0]
        return (torch.logsumexp(logits, dim=-1) - own).double().mean(dim=1).cpu().numpy()

    found = compute_in_batches(
        sequences, len, compute, content=_build_cache_content(model, "unmasked"), cache_folder=stored, on_progress=done
    )
    return {sequence: float(loss) for sequence, loss in found.items()}


def compute_pseudo_log_likelihoods(
    model: MaskedModel,
    sequences: Iterable[Tokens],
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> dict[Tokens, float | None]:
    """Mean over a sequence's tokens of ln p(token | the others), each masked in turn; special tokens are not scored.

    Returns:
        Nats per token, at most 0; None for a sequence without tokens.
    Source:
        Salazar et al. (ACL 2020), divided by the number of tokens.
    """
    before, after = model.frame
    asked: dict[Tokens, list[TokenQuery]] = {}
    for sequence in set(sequences):
        asked[sequence] = [
            ((*sequence[:place], model.tokenizer.mask_token_id, *sequence[place + 1 :]), place, (sequence[place],))
            for place in range(before, len(sequence) - after)
        ]
    rows = [row for rows in asked.values() for row in rows]
    scores = compute_token_scores(model, rows, "log_softmax", stored, done)
    return {
        sequence: math.fsum(scores[row][0] for row in rows) / len(rows) if rows else None
        for sequence, rows in asked.items()
    }


def compute_token_scores(
    model: MaskedModel,
    rows: Iterable[TokenQuery],
    scale: Scale,
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> dict[TokenQuery, np.ndarray]:
    """Scores of wanted tokens at a mask.

    Returns:
        By row, float64 of the shape of its wanted tokens.
    """
    rows = set(rows)
    widest = max((len(wanted) for *_, wanted in rows), default=0)

    def compute(batch: list[TokenQuery]) -> np.ndarray:
        scores = _compute_scores_at(model, [(ids, place) for ids, place, _ in batch], scale)
        values = np.full((len(batch), widest), np.nan)
        for row, (*_, wanted) in enumerate(batch):
            values[row, : len(wanted)] = scores[row, list(wanted)].double().cpu().numpy()
        return values

    content = _build_cache_content(model, f"wanted {scale}")
    found = compute_in_batches(
        rows, lambda row: len(row[0]), compute, content=content, cache_folder=stored, on_progress=done
    )
    return {row: values[: len(row[2])] for row, values in found.items()}


def find_best_tokens(
    model: MaskedModel, places: Iterable[MaskPosition], count: int, scale: Scale, stored: Path | None = None
) -> dict[MaskPosition, np.ndarray]:
    """The tokens that score highest at a mask.

    Returns:
        By place, float64 of shape (count, 2), fewer rows where the vocabulary has fewer: token and score,
        highest score first, equal scores by token.
    """
    inside = torch.ones(len(model.tokenizer), dtype=torch.bool, device=model.device)
    inside[list(model.beginners)] = False

    def compute(batch: list[MaskPosition]) -> np.ndarray:
        scores = _compute_scores_at(model, [(ids, place) for ids, place, _ in batch], scale)
        begins = torch.tensor([begins for *_, begins in batch], device=model.device)
        scores = scores[:, : len(inside)].masked_fill(begins[:, None] & inside, -torch.inf)
        best = torch.topk(scores, min(count, len(inside)))
        top, tokens = best.values.double().cpu().numpy(), best.indices.double().cpu().numpy()
        order = np.lexsort((tokens, -top))
        values: np.ndarray = np.take_along_axis(np.stack([tokens, top], axis=2), order[..., None], axis=1)
        values[np.isneginf(values[..., 1])] = np.nan
        return values

    content = _build_cache_content(model, f"best {count} {scale}")
    found = compute_in_batches(
        places, lambda place: len(place[0]), compute, content=content, cache_folder=stored, on_progress=ignore_progress
    )
    return {place: values[~np.isnan(values[:, 0])] for place, values in found.items()}


@torch.inference_mode()
def _compute_scores_at(model: MaskedModel, places: list[tuple[Tokens, int]], scale: Scale) -> torch.Tensor:
    """Scores of the whole vocabulary at one position a row, float32 of shape (rows, vocabulary)."""
    logits = _compute_logits(model, torch.tensor([ids for ids, _ in places], device=model.device))
    chosen = logits[torch.arange(len(places)), torch.tensor([place for _, place in places])].float()
    return torch.log_softmax(chosen, dim=-1) if scale == "log_softmax" else chosen


def _compute_logits(model: MaskedModel, ids: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = model.network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return found


def _build_cache_content(model: MaskedModel, task: str) -> dict[str, Any]:
    return {
        "code": digest(__file__),
        "model": model.fingerprint,
        "dtype": model.spec.dtype,
        "device": model.device.partition(":")[0],
        "task": task,
    }
