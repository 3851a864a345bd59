"""What trains a scene model: the optimization loop, batches, and a tokenizer of the scenes' words."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import PreTrainedTokenizerFast

from waltz.scenes.lexicon import read_kinds

T = TypeVar("T")

ReportLoss = Callable[[int, float], object]
"""Called with step and loss, for a progress bar and the log."""

TrainedModel = tuple[Any, Any]
"""A network and its tokenizer or processor."""

WARMUP = 0.05
"""Share of the steps in which the learning rate rises."""
SORTED_BATCHES = 50
"""Batches among which rows are sorted by length."""


@dataclass(frozen=True)
class Training:
    """Settings of one training: seed of weights and batches, and number of batches."""

    seed: int
    steps: int
    report: ReportLoss

    def seed_generators(self) -> torch.Generator:
        """Seed the weights' generator, which is PyTorch's own, and return the one of the batches."""
        torch.manual_seed(self.seed)
        return torch.Generator().manual_seed(self.seed)

    def minimize(
        self,
        network: torch.nn.Module,
        compute_loss: Callable[[int], torch.Tensor],
        rate: float,
    ) -> None:
        """Train a network in place with AdamW, a cosine schedule and clipped gradients; `rate` is
        the highest.
        """
        network.train()
        optimizer = torch.optim.AdamW(
            network.parameters(),
            lr=rate,
            weight_decay=0.02,
            betas=(0.9, 0.98),
            fused=True,
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, self._compute_rate_factor
        )
        for step in range(self.steps):
            loss = compute_loss(step)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            self.report(step, loss.item())
        network.eval()

    def _compute_rate_factor(self, step: int) -> float:
        warm = max(1, int(WARMUP * self.steps))
        if step < warm:
            return (step + 1) / warm
        return 0.02 + 0.98 * 0.5 * (
            1 + math.cos(math.pi * (step - warm) / max(1, self.steps - warm))
        )


def draw_batches(
    count: int, size: int, generator: torch.Generator
) -> Iterator[list[int]]:
    """Yield batches of indices without end, every index once in an epoch."""
    while True:
        order = torch.randperm(count, generator=generator).tolist()
        for first in range(0, count - size + 1, size):
            yield order[first : first + size]


def draw_batches_by_length(
    lengths: torch.Tensor, size: int, generator: torch.Generator
) -> Iterator[list[int]]:
    """Yield batches of indices of rows of similar length without end, all except the last few once
    in an epoch.
    """
    while True:
        batches = [
            batch
            for part in torch.randperm(len(lengths), generator=generator).split(
                SORTED_BATCHES * size
            )  # type: ignore[no-untyped-call]
            for batch in part[torch.argsort(lengths[part], stable=True)].split(size)
            if len(batch) == size
        ]
        for index in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[index].tolist()


def draw_entry(entries: Sequence[T], generator: torch.Generator) -> T:
    """Draw one of some entries."""
    return entries[int(torch.randint(len(entries), (1,), generator=generator))]


PIECE = r"\w+|[^\w\s]"
CHARACTERS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;?!'\"()-"
)


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
    """Train a word-piece tokenizer: each word of the texts is one token, other words are split into
    characters.

    Args:
        specials: Special tokens by role (`pad_token`, `unk_token`, …), padding first; their ids are
            0, 1, ….
        template: Special tokens around one text, `$A` in its place.
        pair: The same for two texts, `$A` and `$B`.
        lower: Whether capitals are folded.
        longest: Maximum number of tokens.
        types: Whether the tokenizer returns token types (which of two texts a token is in).
    """
    words = {
        word
        for text in texts
        for word in re.findall(PIECE, text.lower() if lower else text)
    }
    characters = dict.fromkeys(CHARACTERS.lower() if lower else CHARACTERS)
    pieces = [
        *specials.values(),
        *characters,
        *(f"##{letter}" for letter in characters),
        *sorted(words - set(characters)),
    ]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    core = Tokenizer(
        models.WordPiece(
            vocabulary, unk_token=specials["unk_token"], max_input_chars_per_word=40
        )
    )
    core.normalizer = normalizers.Lowercase() if lower else None
    core.pre_tokenizer = pre_tokenizers.Split(
        Regex(PIECE), behavior="removed", invert=True
    )
    core.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    ids = [(token, vocabulary[token]) for token in specials.values()]
    core.post_processor = processors.TemplateProcessing(
        single=template, pair=pair, special_tokens=ids
    )
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=longest,
        model_input_names=names,
        **specials,
    )


def find_noun_ids(tokenizer: Any) -> torch.Tensor:
    """Return the first token ids of the singular and the plural of each kind, of shape (kinds, 2)."""
    nouns = [
        noun for kind in read_kinds().values() for noun in (kind.name, kind.plural)
    ]
    return torch.tensor(
        [tokenizer(noun, add_special_tokens=False)["input_ids"][0] for noun in nouns]
    ).reshape(-1, 2)


def swap_sides(
    ids: torch.Tensor, mirrored: Sequence[bool], tokenizer: Any
) -> torch.Tensor:
    """Return rows of token ids with `left` and `right` exchanged in those of mirrored images."""
    left, right = tokenizer.convert_tokens_to_ids(["left", "right"])
    swapped = torch.where(ids == left, right, torch.where(ids == right, left, ids))
    return torch.where(torch.tensor(mirrored)[:, None], swapped, ids)
