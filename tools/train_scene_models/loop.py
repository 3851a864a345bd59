"""What trains a scene model: batches, and a tokenizer of the scenes' words."""

import re
from collections.abc import Iterable, Iterator, Sequence
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

TrainedModel = tuple[Any, Any]
"""A network and its tokenizer or processor."""

SORTED_BATCHES = 50
"""Batches among which rows are sorted by length."""


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
