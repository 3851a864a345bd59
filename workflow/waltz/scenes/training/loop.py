"""Optimisation loop, batches and tokenizers of the scene models."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

ReportLoss = Callable[[int, float], object]
"""Called with step and loss, for a progress bar and the log."""

TrainedModel = tuple[Any, Any]
"""A network and its tokenizer or processor."""

WARMUP = 0.05
"""Share of the steps in which the learning rate rises."""
SORTED_BATCHES = 50
"""Batches among which rows are sorted by length."""


def optimise(
    network: torch.nn.Module,
    losses: Callable[[int], torch.Tensor],
    *,
    steps: int,
    rate: float,
    report: ReportLoss,
) -> None:
    """Minimise a loss with AdamW, a cosine schedule and clipped gradients.

    Args:
        network: Network to train, in place.
        losses: Function that returns the loss of a step's batch.
        steps: Number of batches.
        rate: Highest learning rate.
        report: Called with step and loss, for a progress bar and the log.
    """
    network.train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.02, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _compute_rate_factor(step, steps))
    for step in range(steps):
        loss = losses(step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        report(step, loss.item())
    network.eval()


def draw_batches(count: int, size: int, generator: torch.Generator) -> Iterator[list[int]]:
    """Yield batches of indices without end, every index once in an epoch."""
    while True:
        order = torch.randperm(count, generator=generator).tolist()
        for first in range(0, count - size + 1, size):
            yield order[first : first + size]


def draw_batches_by_length(lengths: torch.Tensor, size: int, generator: torch.Generator) -> Iterator[list[int]]:
    """Yield batches of indices of similar length without end, every index except the last few once in an epoch.

    Args:
        lengths: Length of each row, int64 of shape (count).
        size: Batch size.
        generator: Random generator.
    """
    while True:
        batches = [
            batch
            for part in torch.randperm(len(lengths), generator=generator).split(SORTED_BATCHES * size)  # type: ignore[no-untyped-call]
            for batch in part[torch.argsort(lengths[part], stable=True)].split(size)
            if len(batch) == size
        ]
        for index in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[index].tolist()


def _compute_rate_factor(step: int, steps: int) -> float:
    warm = max(1, int(WARMUP * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


PIECE = r"\w+|[^\w\s]"
CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;?!'\"()-"


def train_word_pieces(
    texts: Iterable[str],
    *,
    specials: dict[str, str],
    template: str,
    pair: str | None = None,
    lower: bool = True,
    longest: int = 64,
    types: bool = False,
) -> PreTrainedTokenizerFast:
    """Train a word-piece tokenizer: each word of the texts is one token, other words are split into characters.

    Args:
        texts: Texts with the words of the vocabulary.
        specials: Special tokens by role (`pad_token`, `unk_token`, …), padding first; their ids are 0, 1, ….
        template: Special tokens around one text, `$A` in its place.
        pair: The same for two texts, `$A` and `$B`.
        lower: Whether capitals are folded.
        longest: Maximum number of tokens.
        types: Whether the tokenizer returns token types (which of two texts a token is in).
    """
    words = {word for text in texts for word in re.findall(PIECE, text.lower() if lower else text)}
    characters = dict.fromkeys(CHARACTERS.lower() if lower else CHARACTERS)
    pieces = [
        *specials.values(),
        *characters,
        *(f"##{letter}" for letter in characters),
        *sorted(words - set(characters)),
    ]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    core = Tokenizer(models.WordPiece(vocabulary, unk_token=specials["unk_token"], max_input_chars_per_word=40))
    core.normalizer = normalizers.Lowercase() if lower else None
    core.pre_tokenizer = pre_tokenizers.Split(Regex(PIECE), behavior="removed", invert=True)
    core.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    ids = [(token, vocabulary[token]) for token in specials.values()]
    core.post_processor = processors.TemplateProcessing(single=template, pair=pair, special_tokens=ids)
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    return PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=longest, model_input_names=names, **specials)
