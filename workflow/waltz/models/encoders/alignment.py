"""Scores of image-text pairs by an encoder, computed and cached in blocks of pairs.

Each image and each text of a block is encoded once, without padding."""

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import torch
from PIL import Image

from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.model_registry import compute_fingerprint, get_encoder_module
from waltz.models.batches import (
    ProgressCallback,
    compute_in_halves,
    ignore_progress,
    transfer_together,
)
from waltz.models.encoders.base import PixelEncoder
from waltz.models.encoders.encoder import (
    Encoder,
    States,
    TokenizedText,
    TwoLogitEncoder,
)
from waltz.models.regions import ImageOrRegions

Pair = tuple[str, str]
"""Name of an image, and a text."""
OutputReader = Callable[[Encoder, States, States], torch.Tensor]
"""Function from an encoder and the states of the texts and images of a batch of pairs to float of
shape (pairs, numbers).
"""
Value = TypeVar("Value")
Row = TypeVar("Row")

PAIRS_PER_BLOCK = 64
"""Minimum number of pairs of a block, which ends with the last pair of an image."""


@dataclass(frozen=True)
class PairScore:
    """Outputs of an encoder for a pair.

    Attributes:
        numbers: Selected outputs, the logit (or log odds) of a match first; None with an error.
        tokens: Length of the text in tokens, special tokens included; 0 if the text cannot be read.
        error: Reason why the pair has no numbers.
    """

    numbers: tuple[float, ...] | None
    tokens: int
    error: str | None = None

    @property
    def logit(self) -> float | None:
        """Logit of a match; None with an error."""
        if self.numbers is None:
            return None
        return self.numbers[0]


def select_logit(encoder: Encoder, texts: States, images: States) -> torch.Tensor:
    """Return the logit of a match, of shape (pairs, 1).

    Raises:
        UserError: The encoder's outputs are answers.
    """
    outputs = encoder.fuse(texts, images)
    if outputs.ndim != 1:
        raise UserError(
            "this encoder gives logits of answers, not of a match; use it for questions"
        )
    return outputs[:, None]


def select_log_odds_and_match_logit(
    encoder: Encoder, texts: States, images: States
) -> torch.Tensor:
    """Return the log odds of a match and the logit of the match alone: float32 of shape (pairs, 2).

    Args:
        encoder: A `TwoLogitEncoder`.
        texts: States of the texts.
        images: States of the images.
    """
    logits = cast(TwoLogitEncoder, encoder).compute_match_logits(texts, images)
    mismatch, match = logits.float().unbind(dim=1)
    return torch.stack([match - mismatch, match], dim=1)


def select_answer(encoder: Encoder, texts: States, images: States) -> torch.Tensor:
    """Return the highest logit, the index of its answer in the vocabulary (the first of equal
    logits) and its probability.

    Args:
        encoder: An encoder whose outputs are answers.
        texts: States of the questions.
        images: States of their images.
    Returns:
        float64 of shape (pairs, 3).
    """
    # (pairs, answers)
    logits = encoder.fuse(texts, images).double()
    best = logits.argmax(dim=1, keepdim=True)
    # (pairs, 1): the probability of the best answer.
    probabilities = logits.softmax(dim=1).gather(1, best)
    return torch.cat([logits.gather(1, best), best.double(), probabilities], dim=1)


CACHE_NAMES: dict[OutputReader, str] = {
    select_logit: "the_logit",
    select_log_odds_and_match_logit: "the_log_odds_and_the_match_logit",
    select_answer: "the_answer",
}
"""Names in the keys of cached blocks."""


def compute_pair_scores(
    encoder: Encoder,
    pairs: Iterable[Pair],
    load_image: Callable[[str], ImageOrRegions],
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
    read_output: OutputReader = select_logit,
) -> dict[Pair, PairScore]:
    """Return logits, or other outputs, of each distinct pair.

    Pairs are sorted and split into blocks of complete images, so that no value depends on the order
    of the pairs. The cache key of a block consists of its texts, the pixels of its images, the
    weights and the code.

    Args:
        encoder: A loaded encoder.
        pairs: Names of images with texts.
        load_image: Function from the name to an RGB image; its `UserError` becomes the error of the
            image's pairs.
        cache_file: File of cached blocks; None disables the cache.
        on_progress: Called with the number of pairs of each finished block.
        read_output: `select_logit`; `select_log_odds_and_match_logit` for a `TwoLogitEncoder`;
            `select_answer` for an encoder whose outputs are answers.
    """
    # All that decides a logit besides the block: code, weights, precision, and the kind of device.
    content = {
        "code": digest(__file__, get_encoder_module(encoder.spec.kind)),
        "model": compute_fingerprint(encoder.spec),
        "kind": encoder.spec.kind,
        "dtype": encoder.spec.dtype,
        "device": encoder.device.partition(":")[0],
        "numbers": CACHE_NAMES.get(read_output, read_output.__name__),
    }
    scores: dict[Pair, PairScore] = {}
    for block in split_pairs(pairs):
        scores |= _score_block(
            encoder, block, load_image, read_output, cache_file, content
        )
        on_progress(len(block))
    return scores


def split_pairs(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield distinct pairs in order, in blocks of at least `PAIRS_PER_BLOCK` that end with an
    image.
    """
    block: list[Pair] = []
    # Sorted by image, so that a block holds all texts of an image.
    for pair in sorted(set(pairs)):
        is_full = len(block) >= PAIRS_PER_BLOCK
        if is_full and pair[0] != block[-1][0]:
            yield block
            block = []
        block.append(pair)
    if block:
        yield block


@dataclass(frozen=True, eq=False, slots=True)
class _Inputs:
    """Images and tokenized texts of a block, by name and text, and the reasons why others cannot be
    used.
    """

    images: dict[str, ImageOrRegions]
    texts: dict[str, TokenizedText]
    image_errors: dict[str, str]
    text_errors: dict[str, str]

    def find_error(self, pair: Pair) -> str | None:
        name, text = pair
        return self.image_errors.get(name) or self.text_errors.get(text)


def _read_inputs(
    encoder: Encoder, block: list[Pair], load_image: Callable[[str], ImageOrRegions]
) -> _Inputs:
    """Return the images and tokenized texts of a block."""
    names = [name for name, _ in block]
    images, image_errors = _try_each(load_image, names, torch.get_num_threads())
    texts, text_errors = _try_each(encoder.tokenize, [text for _, text in block])
    return _Inputs(images, texts, image_errors, text_errors)


def _score_block(
    encoder: Encoder,
    block: list[Pair],
    load_image: Callable[[str], ImageOrRegions],
    read_output: OutputReader,
    cache_file: Path | None,
    content: Mapping[str, str],
) -> dict[Pair, PairScore]:
    """Return the scores of the pairs of a block; a pair that cannot be read has an error instead."""
    # A pair is usable if neither its image nor its text has an error.
    inputs = _read_inputs(encoder, block, load_image)
    usable = [pair for pair in block if inputs.find_error(pair) is None]
    outputs: dict[Pair, tuple[float, ...]] = {}
    if usable:
        # Part of the cache key: names of images do not identify their pixels.
        pixels = [
            sha256(f"{image.size}".encode() + image.tobytes()).hexdigest()
            for image in inputs.images.values()
        ]

        def compute(pairs: list[Pair]) -> np.ndarray:
            return _compute_outputs(encoder, pairs, inputs, read_output)

        values = result_cache.load_or_compute(
            cache_file,
            {"pairs": usable, "pixels": pixels, **content},
            lambda: compute_in_halves(compute, usable),
        )
        outputs = dict(zip(usable, map(tuple, values.tolist()), strict=True))

    scores: dict[Pair, PairScore] = {}
    for pair in block:
        _, text = pair
        tokens = len(inputs.texts[text].ids) if text in inputs.texts else 0
        error = inputs.find_error(pair)
        # An overflow in half precision gives such a logit.
        if error is None and not np.isfinite(outputs[pair]).all():
            error = f"the model's logit is {outputs[pair][0]}"
        numbers = None if error else outputs[pair]
        scores[pair] = PairScore(numbers, tokens, error)
    return scores


@torch.inference_mode()
def _compute_outputs(
    encoder: Encoder, batch: Sequence[Pair], inputs: _Inputs, read_output: OutputReader
) -> np.ndarray:
    """Return outputs of pairs, float64 of shape (pairs, numbers)."""
    # States of each image; images of one shape pass the encoder together.
    image_states: dict[str, States] = {}
    prepared = _prepare_images(encoder, [name for name, _ in batch], inputs.images)
    for names in _group_by_shape(
        list(prepared), lambda name: prepared[name].shape, encoder.images_per_batch
    ):
        try:
            states = encoder.encode_image(
                torch.stack([prepared[name] for name in names])
            )
        except UserError as error:
            raise UserError(f"{', '.join(names)}: {error}") from None
        image_states |= _split_states(names, states)

    # States of each text; texts of one length pass the encoder together.
    text_states: dict[str, States] = {}
    distinct_texts = list(dict.fromkeys(text for _, text in batch))
    for texts in _group_by_shape(
        distinct_texts,
        lambda text: len(inputs.texts[text].ids),
        encoder.texts_per_batch,
    ):
        ids = torch.tensor(
            [inputs.texts[text].ids for text in texts], device=encoder.device
        )
        text_states |= _split_states(texts, encoder.encode_text(ids))

    # Outputs of each pair; pairs whose states have one shape are fused together.
    def get_shapes(pair: Pair) -> tuple[torch.Size, ...]:
        name, text = pair
        return tuple(
            tensor.shape for tensor in (*text_states[text], *image_states[name])
        )

    outputs: list[torch.Tensor] = []
    order: list[Pair] = []
    for pairs in _group_by_shape(list(batch), get_shapes, encoder.pairs_per_batch):
        text_batch = _stack_rows([text_states[text] for _, text in pairs])
        image_batch = _stack_rows([image_states[name] for name, _ in pairs])
        outputs.append(read_output(encoder, text_batch, image_batch))
        order += pairs
    numbers = dict(zip(order, chain(*transfer_together(outputs)), strict=True))
    return np.array([numbers[pair] for pair in batch], dtype=np.float64)


def _prepare_images(
    encoder: Encoder, names: Sequence[str], images: Mapping[str, ImageOrRegions]
) -> dict[str, torch.Tensor]:
    """Return the prepared image of each distinct name."""
    distinct_names = list(dict.fromkeys(names))
    # Regions may come from a detector, which has memory for one image at a time.
    threads = 1
    if isinstance(encoder, PixelEncoder):
        threads = torch.get_num_threads()

    def prepare(name: str) -> torch.Tensor:
        return encoder.prepare_image(cast(Image.Image, images[name]))

    prepared = _map_in_threads(prepare, distinct_names, threads)
    return dict(zip(distinct_names, prepared, strict=True))


def _try_each(
    function: Callable[[str], Value], names: Sequence[str], threads: int = 1
) -> tuple[dict[str, Value], dict[str, str]]:
    """Return the function's result for each distinct name, and its error for each name that it
    refuses.
    """
    distinct_names = list(dict.fromkeys(names))
    outcomes = _map_in_threads(partial(_try_call, function), distinct_names, threads)
    results: dict[str, Value] = {}
    errors: dict[str, str] = {}
    for name, outcome in zip(distinct_names, outcomes, strict=True):
        if isinstance(outcome, UserError):
            errors[name] = str(outcome)
        else:
            results[name] = outcome
    return results, errors


def _try_call(function: Callable[[str], Value], name: str) -> Value | UserError:
    """Return the function's result, or its error if it refuses the name."""
    try:
        return function(name)
    except UserError as error:
        return error


def _map_in_threads(
    function: Callable[[str], Value], names: Sequence[str], threads: int
) -> list[Value]:
    """Return the function's result for each name. Decoding and resizing let other threads run, so
    that a GPU waits less for images.
    """
    # Each thread would restore the filters of warnings that another one set.
    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, names))


def _group_by_shape(
    rows: list[Row], shape: Callable[[Row], Hashable], size: int
) -> Iterator[list[Row]]:
    """Yield rows of one shape together, at most `size` at once."""
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        groups.setdefault(shape(row), []).append(row)
    for group in groups.values():
        # A large group is split; a batch never mixes shapes.
        for first in range(0, len(group), size):
            yield group[first : first + size]


def _split_states(names: Sequence[str], states: States) -> dict[str, States]:
    """Return the states of each name: row i of all tensors belongs to name i."""
    return dict(zip(names, zip(*states, strict=True), strict=True))


def _stack_rows(rows: Sequence[States]) -> States:
    return tuple(torch.stack(parts) for parts in zip(*rows, strict=True))
