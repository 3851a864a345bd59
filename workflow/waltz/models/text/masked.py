"""Masked language models: scores of tokens at a mask, pseudo-log-likelihoods of texts, and
SpanBERT's own head.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from waltz.core.digest import digest
from waltz.core.errors import UserError, get_first_line
from waltz.core.files.archives import MODEL_CONFIG, extract_member
from waltz.core.files.atomic import replace_folder
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec, compute_fingerprint
from waltz.models.batches import (
    ProgressCallback,
    Tokens,
    compute_in_batches,
    ignore_progress,
)
from waltz.models.pretrained import (
    TextModel,
    get_max_positions,
    load_pretrained,
    report_faults,
)
from waltz.models.user_text import check_user_text

Scale = Literal["logit", "log_softmax"]
"""Score of a token: its logit, or its log-probability in nats."""

MaskPosition = tuple[Tokens, int, bool]
"""A sequence with a mask, the position of the mask, and whether only tokens that begin a word are
allowed there.
"""

TokenQuery = tuple[Tokens, int, Tokens]
"""A sequence with a mask, the mask's position, and the tokens to score."""
CHECKPOINT, VOCABULARY = "model.pt", "vocab.txt"
"""Files of the released archives."""
DECODER_PREFIX = "decoder."
"""Prefix of the model's weights in a fairseq checkpoint."""
REQUIRED_WEIGHTS = (
    "bert.embeddings.word_embeddings.weight",
    "cls.predictions.transform.dense.weight",
    "cls.predictions.bias",
)
"""Weights without which the proposed tokens would be random."""
USED_PREFIXES = ("bert.embeddings.", "bert.encoder.", "cls.predictions.")
"""Prefixes of the weights of a masked language model."""
TOKENIZER_CONFIG = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
TIED_WEIGHT = "cls.predictions.decoder.weight"
"""Second name of the word embeddings."""


@dataclass(frozen=True)
class MaskedModel(TextModel):
    """A loaded masked language model.

    Attributes:
        special_counts: Numbers of special tokens before and after a text.
        word_prefix: Prefix of tokens that begin a word ("Ġ", "▁"); empty for word pieces.
        word_starts: Ids of the tokens with this prefix; all ids if the prefix is empty.
    """

    special_counts: tuple[int, int]
    word_prefix: str
    word_starts: Tokens

    def tokenize(self, text: str) -> Tokens:
        """Return ids of a text with its special tokens, truncated at the window.

        Raises:
            ItemError: The text holds a control token.
        """
        check_user_text(self.tokenizer, text, f"models.{self.spec.name}")
        return self.tokenize_masked(text)

    def tokenize_masked(self, text: str) -> Tokens:
        """Return ids of a text that already holds mask tokens, truncated at the window."""
        encoded = self.tokenizer(text, truncation=True, max_length=self.window)
        return tuple(encoded["input_ids"])


def load_masked_model(spec: ModelSpec, device: Device) -> MaskedModel:
    """Load a masked language model by hub id or folder.

    Raises:
        UserError: The weights cannot be loaded, or lack parameters, for example of the masked-LM
            head.
    """
    network, tokenizer = load_pretrained(
        spec, transformers.AutoModelForMaskedLM, "masked-LM head", device=device.name
    )
    with report_faults(spec):
        return wrap_masked_model(spec, network, tokenizer, device.name)


def wrap_masked_model(
    spec: ModelSpec, network: Any, tokenizer: Any, device: str
) -> MaskedModel:
    """Return a masked model from a network and tokenizer that are already loaded.

    Raises:
        UserError: The tokenizer has no mask token.
    """
    if tokenizer.mask_token_id is None:
        raise UserError(
            f"models.{spec.name}: {spec.weights} has no mask token; name a masked language model"
        )
    special = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    # The first token of a word, such as "Ġa" or "▁a", shows the prefix.
    word_prefix = str(tokenizer.tokenize(" a")[0]).split("a")[0]
    vocabulary = tokenizer.get_vocab()
    word_starts = sorted(
        token_id
        for piece, token_id in vocabulary.items()
        if piece.startswith(word_prefix)
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
        tuple(word_starts),
    )


def compute_unmasked_losses(
    model: MaskedModel,
    sequences: Iterable[Tokens],
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[Tokens, float]:
    """Return for each sequence the mean cross-entropy in nats of its tokens when the model reads it
    without masks.

    Special tokens are included in the mean.
    """

    @torch.inference_mode()
    def compute(batch: list[Tokens]) -> np.ndarray:
        ids = torch.tensor(batch, device=model.device)  # (rows, positions)
        logits = _compute_logits(model, ids).float()
        target_logits = torch.gather(logits, 2, ids[..., None])[..., 0]
        # -ln p(t) = ln(sum_v exp z_v) - z_t, averaged over the positions of each row
        token_losses = torch.logsumexp(logits, dim=-1) - target_logits
        return token_losses.double().mean(dim=1).cpu().numpy()

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
    """Return for each sequence the mean of ln p(token | all other tokens), with each token masked
    in turn.

    Special tokens are not scored.

    Returns:
        For each sequence, nats per token, at most 0; None for a sequence without tokens.
    Source:
        Salazar et al. (ACL 2020), divided by the number of tokens.
    """
    # PLL(W) = sum_t ln p(w_t | W without w_t), Salazar et al.: one masked query for each token.
    queries_of = {
        sequence: _mask_each_token(model, sequence) for sequence in set(sequences)
    }
    queries = list(chain.from_iterable(queries_of.values()))
    scores = compute_token_scores(
        model, queries, "log_softmax", cache_file, on_progress
    )

    likelihoods: dict[Tokens, float | None] = {}
    for sequence, sequence_queries in queries_of.items():
        likelihoods[sequence] = None
        if sequence_queries:
            total = math.fsum(scores[query][0] for query in sequence_queries)
            likelihoods[sequence] = total / len(sequence_queries)
    return likelihoods


def _mask_each_token(model: MaskedModel, sequence: Tokens) -> list[TokenQuery]:
    """Return a query for each token that is not special: the sequence with a mask in its place, and
    the token.
    """
    before, after = model.special_counts
    queries: list[TokenQuery] = []
    for position in range(before, len(sequence) - after):
        masked = (
            *sequence[:position],
            model.tokenizer.mask_token_id,
            *sequence[position + 1 :],
        )
        queries.append((masked, position, (sequence[position],)))
    return queries


def compute_token_scores(
    model: MaskedModel,
    queries: Iterable[TokenQuery],
    scale: Scale,
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[TokenQuery, np.ndarray]:
    """Return scores of the target tokens at a mask.

    Returns:
        For each query, float64 of shape (target tokens,).
    """
    queries = set(queries)
    target_counts = [len(targets) for *_, targets in queries]
    widest = max(target_counts, default=0)

    def compute(batch: list[TokenQuery]) -> np.ndarray:
        # scores: (rows, vocabulary) at each row's mask.
        scores = _compute_scores_at(
            model, [(ids, position) for ids, position, _ in batch], scale
        )
        # NaN behind the targets of queries with fewer.
        values = np.full((len(batch), widest), np.nan)
        for row, (*_, targets) in enumerate(batch):
            values[row, : len(targets)] = (
                scores[row, list(targets)].double().cpu().numpy()
            )
        return values

    content = _build_cache_content(model, f"wanted {scale}")
    scores_of = compute_in_batches(
        queries,
        lambda row: len(row[0]),
        compute,
        content=content,
        cache_file=cache_file,
        on_progress=on_progress,
    )
    return {query: values[: len(query[2])] for query, values in scores_of.items()}


def find_best_tokens(
    model: MaskedModel,
    positions: Iterable[MaskPosition],
    count: int,
    scale: Scale,
    cache_file: Path | None = None,
) -> dict[MaskPosition, np.ndarray]:
    """Return the tokens with the highest scores at a mask.

    Returns:
        For each position, float64 of shape (count, 2), or fewer rows if fewer tokens are allowed:
        token and score, sorted by falling score, then by token.
    """
    # True for tokens that continue a word: bool of shape (vocabulary,).
    continues_word = torch.ones(
        len(model.tokenizer), dtype=torch.bool, device=model.device
    )
    continues_word[list(model.word_starts)] = False

    def compute(batch: list[MaskPosition]) -> np.ndarray:
        scores = _compute_scores_at(
            model, [(ids, position) for ids, position, _ in batch], scale
        )
        # Where a word must begin, tokens that continue one are excluded: bool of shape (rows,
        # vocabulary).
        starts_word = torch.tensor(
            [starts_word for *_, starts_word in batch], device=model.device
        )
        is_excluded = starts_word[:, None] & continues_word
        scores = scores[:, : len(continues_word)].masked_fill(is_excluded, -torch.inf)
        best = torch.topk(scores, min(count, len(continues_word)))
        top = best.values.double().cpu().numpy()
        tokens = best.indices.double().cpu().numpy()
        # By falling score, then by token: topk orders equal scores arbitrarily.
        order = np.lexsort((tokens, -top))
        # (rows, count, 2): token and score of each.
        values: np.ndarray = np.take_along_axis(
            np.stack([tokens, top], axis=2), order[..., None], axis=1
        )
        # NaN marks excluded tokens, so that a batch keeps one shape; such rows are dropped below.
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
    return {
        position: values[~np.isnan(values[:, 0])]
        for position, values in best_of.items()
    }


@torch.inference_mode()
def _compute_scores_at(
    model: MaskedModel, positions: list[tuple[Tokens, int]], scale: Scale
) -> torch.Tensor:
    """Return scores of the entire vocabulary at one position of each row: float32 of shape (rows,
    vocabulary).
    """
    # (rows, positions, vocabulary) to (rows, vocabulary).
    logits = _compute_logits(
        model, torch.tensor([ids for ids, _ in positions], device=model.device)
    )
    rows = torch.arange(len(positions))
    mask_positions = torch.tensor([position for _, position in positions])
    selected = logits[rows, mask_positions].float()
    if scale == "logit":
        return selected
    return torch.log_softmax(selected, dim=-1)


def _compute_logits(model: MaskedModel, ids: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model.network(
        input_ids=ids, attention_mask=torch.ones_like(ids)
    ).logits
    return logits


def _build_cache_content(model: MaskedModel, task: str) -> dict[str, str]:
    return {**model.build_cache_content(digest(__file__)), "task": task}


def convert_spanbert(with_head: Path, with_config: Path, folder: Path) -> list[str]:
    """Convert SpanBERT's released archives to a folder that transformers can load.

    Args:
        with_head: `spanbert_large_with_head.tar.gz`, with a model.pt.
        with_config: `spanbert_hf.tar.gz`, with a config.json and, where it has one, a vocab.txt.
        folder: Destination, which is created when all files are complete.
    Returns:
        Names of weights that a masked language model does not use (the span head, the pooler).
    Raises:
        UserError: An archive lacks a file, or the checkpoint lacks the masked-LM head.
    """
    with replace_folder(folder) as temporary:
        extract_member(with_config, MODEL_CONFIG, temporary / MODEL_CONFIG)
        # The archive with the config may lack the vocabulary, which the other archive then
        # provides.
        try:
            extract_member(with_config, VOCABULARY, temporary / VOCABULARY)
        except UserError:
            extract_member(with_head, VOCABULARY, temporary / VOCABULARY)
        extract_member(with_head, CHECKPOINT, temporary / CHECKPOINT)
        weights, dropped = select_masked_lm_weights(
            _read_state(temporary / CHECKPOINT, with_head)
        )
        absent = [name for name in REQUIRED_WEIGHTS if name not in weights]
        if absent:
            raise UserError(
                f"{with_head}: {CHECKPOINT} lacks {', '.join(absent)}; take the archive with the head"
            )
        (temporary / CHECKPOINT).unlink()
        save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
        (temporary / "tokenizer_config.json").write_text(
            json.dumps(TOKENIZER_CONFIG) + "\n"
        )
    return dropped


def select_masked_lm_weights(
    state: Mapping[str, torch.Tensor],
) -> tuple[dict[str, torch.Tensor], list[str]]:
    """Return the weights of `BertForMaskedLM` from a fairseq checkpoint, and the names of all other
    weights.

    Args:
        state: Tensors by name; the model's names begin with `decoder.`.
    """
    used, dropped = {}, []
    for key, value in state.items():
        name = key.removeprefix(DECODER_PREFIX)
        # Very old checkpoints name weight and bias of a layer norm gamma and beta.
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
            "LayerNorm.beta", "LayerNorm.bias"
        )
        if not key.startswith(DECODER_PREFIX) or name == TIED_WEIGHT:
            continue
        if _is_masked_lm_weight(name):
            used[name] = value.contiguous().clone()
        else:
            dropped.append(name)
    return used, sorted(dropped)


def _is_masked_lm_weight(name: str) -> bool:
    # Position ids are a buffer that transformers counts itself.
    return name.startswith(USED_PREFIXES) and not name.endswith("position_ids")


def _read_state(file: Path, archive: Path) -> dict[str, torch.Tensor]:
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise anything
        raise UserError(
            f"{archive}: {CHECKPOINT} cannot be read as tensors alone: {get_first_line(error)}; fetch it again"
        ) from None
    weights = state.get("model", state) if isinstance(state, dict) else None
    if not isinstance(weights, dict):
        raise UserError(
            f"{archive}: {CHECKPOINT} holds no weights by name; fetch it again"
        )
    return weights
