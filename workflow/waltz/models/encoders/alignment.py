"""Scores of image-text pairs by an encoder: each image and text of a block once, without padding, blocks cached."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from PIL import Image

from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.model_registry import compute_fingerprint, get_encoder_module
from waltz.models.batches import ProgressCallback, compute_in_halves, ignore_progress
from waltz.models.encoders.encoder import Encoder, States, TokenizedText
from waltz.models.regions import ImageOrRegions

Pair = tuple[str, str]
"""Name of an image, and a text."""
OutputReader = Callable[[torch.Tensor], torch.Tensor]
"""From what an encoder's `fuse` gives for a batch of pairs to float of shape (pairs, numbers)."""
Value = TypeVar("Value")

PAIRS_PER_BLOCK = 64
"""Pairs after which a block ends, once all of its last image's are in it."""


@dataclass(frozen=True)
class PairScore:
    """Outputs of an encoder for a pair.

    Attributes:
        numbers: Selected outputs, the logit first; None with an error.
        tokens: Length of the text in tokens, special tokens included; 0 where it cannot be read.
        error: Reason why there are no numbers.
    """

    numbers: tuple[float, ...] | None
    tokens: int
    error: str | None = None

    @property
    def logit(self) -> float | None:
        """Logit of a match; None with an error."""
        return None if self.numbers is None else self.numbers[0]


def select_logit(outputs: torch.Tensor) -> torch.Tensor:
    """Return the logit of a match: from shape (pairs,) to (pairs, 1).

    Raises:
        UserError: There is none, because the encoder's outputs are answers.
    """
    if outputs.ndim != 1:
        raise UserError("this encoder gives logits of answers, not of a match; use it for questions")
    return outputs[:, None]


def select_answer(outputs: torch.Tensor) -> torch.Tensor:
    """Return the highest logit of an answer, its index in the vocabulary (the first of equals) and its probability.

    Args:
        outputs: Logits of shape (pairs, answers).
    Returns:
        float64 of shape (pairs, 3).
    """
    logits = outputs.double()
    best = logits.argmax(dim=1, keepdim=True)
    probabilities = logits.softmax(dim=1).gather(1, best)
    return torch.cat([logits.gather(1, best), best.double(), probabilities], dim=1)


CACHE_NAMES: dict[OutputReader, str] = {select_logit: "the_logit", select_answer: "the_answer"}
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

    Pairs are sorted and split into blocks of complete images, so that no value depends on their order. The cache key of
    a block holds its texts, the pixels of its images, the weights and the code.

    Args:
        encoder: A loaded encoder.
        pairs: Names of images with texts.
        load_image: From the name to an RGB image; a `UserError` becomes the error of the image's pairs.
        cache_file: File of cached blocks; None disables the cache.
        on_progress: Called with the number of pairs of each finished block.
        read_output: `the_logit`, or `the_answer` for an encoder whose outputs are answers.
    """
    content = {
        "code": digest(__file__, get_encoder_module(encoder.spec.kind)),
        "model": compute_fingerprint(encoder.spec),
        "kind": encoder.spec.kind,
        "dtype": encoder.spec.dtype,
        "device": encoder.device.partition(":")[0],
        "numbers": CACHE_NAMES.get(read_output, read_output.__name__),
    }
    scores: dict[Pair, PairScore] = {}
    for block in split_into_blocks(pairs):
        scores |= _score_block(encoder, block, load_image, read_output, cache_file, content)
        on_progress(len(block))
    return scores


def split_into_blocks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield distinct pairs in order, in blocks of at least `PAIRS_PER_BLOCK` that end with an image."""
    pending: list[Pair] = []
    for pair in sorted(set(pairs)):
        if len(pending) >= PAIRS_PER_BLOCK and pair[0] != pending[-1][0]:
            yield pending
            pending = []
        pending.append(pair)
    if pending:
        yield pending


def _score_block(
    encoder: Encoder,
    block: list[Pair],
    load_image: Callable[[str], ImageOrRegions],
    read_output: OutputReader,
    cache_file: Path | None,
    content: Mapping[str, Any],
) -> dict[Pair, PairScore]:
    images = {name: _try(load_image, name) for name in dict.fromkeys(name for name, _ in block)}
    texts = {text: _try(encoder.tokenize, text) for text in dict.fromkeys(text for _, text in block)}
    pictures = {name: image for name, image in images.items() if not isinstance(image, str)}
    tokenized_texts = {text: tokenized for text, tokenized in texts.items() if not isinstance(tokenized, str)}
    usable = [(name, text) for name, text in block if name in pictures and text in tokenized_texts]
    outputs: dict[Pair, tuple[float, ...]] = {}
    if usable:
        pixels = [sha256(f"{image.size}".encode() + image.tobytes()).hexdigest() for image in pictures.values()]

        def compute(pairs: list[Pair]) -> np.ndarray:
            return _compute_outputs(encoder, pairs, pictures, tokenized_texts, read_output)

        values = result_cache.load_or_compute(
            cache_file, {"pairs": usable, "pixels": pixels, **content}, lambda: compute_in_halves(compute, usable)
        )
        outputs = dict(zip(usable, map(tuple, values.tolist()), strict=True))
    scores: dict[Pair, PairScore] = {}
    for name, text in block:
        tokens = len(tokenized_texts[text].ids) if text in tokenized_texts else 0
        error = next((reason for reason in (images[name], texts[text]) if isinstance(reason, str)), None)
        if error is None and not np.isfinite(outputs[name, text]).all():
            error = f"the model's logit is {outputs[name, text][0]}"
        scores[name, text] = PairScore(None if error else outputs[name, text], tokens, error)
    return scores


@torch.inference_mode()
def _compute_outputs(
    encoder: Encoder,
    batch: Sequence[Pair],
    pictures: Mapping[str, ImageOrRegions],
    texts: Mapping[str, TokenizedText],
    read_output: OutputReader,
) -> np.ndarray:
    """Return outputs of pairs, float64 of shape (pairs, numbers)."""
    image_states: dict[str, States] = {}
    text_states: dict[str, States] = {}
    image_names = dict.fromkeys(name for name, _ in batch)
    prepared = {name: encoder.prepare_image(cast(Image.Image, pictures[name])) for name in image_names}
    for names in _group_by_shape(list(prepared), lambda name: prepared[name].shape, encoder.images_per_batch):
        try:
            image_states |= _map_rows(names, encoder.encode_image(torch.stack([prepared[name] for name in names])))
        except UserError as error:
            raise UserError(f"{', '.join(names)}: {error}") from None
    for group in _group_by_shape(
        list(dict.fromkeys(text for _, text in batch)), lambda text: len(texts[text].ids), encoder.texts_per_batch
    ):
        ids = torch.tensor([texts[text].ids for text in group], device=encoder.device)
        text_states |= _map_rows(group, encoder.encode_text(ids))
    outputs: dict[Pair, list[float]] = {}
    for pairs in _group_by_shape(
        list(batch), lambda pair: _get_shapes(text_states[pair[1]], image_states[pair[0]]), encoder.pairs_per_batch
    ):
        text = _stack_rows([text_states[group] for _, group in pairs])
        image = _stack_rows([image_states[name] for name, _ in pairs])
        outputs |= dict(zip(pairs, read_output(encoder.fuse(text, image)).double().cpu().tolist(), strict=True))
    return np.array([outputs[pair] for pair in batch], dtype=np.float64)


def _try(function: Callable[[str], Value], name: str) -> Value | str:
    """Return the result for a name, or the reason why there is none."""
    try:
        return function(name)
    except UserError as error:
        return str(error)


def _group_by_shape(rows: list[Any], shape: Callable[[Any], Any], size: int) -> Iterator[list[Any]]:
    """Yield rows of one shape together, at most `size` at once."""
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault(shape(row), []).append(row)
    for group in groups.values():
        for first in range(0, len(group), size):
            yield group[first : first + size]


def _get_shapes(*sides: States) -> tuple[torch.Size, ...]:
    return tuple(part.shape for states in sides for part in states)


def _map_rows(names: Sequence[str], states: States) -> dict[str, States]:
    return dict(zip(names, zip(*states, strict=True), strict=True))


def _stack_rows(rows: Sequence[States]) -> States:
    return tuple(torch.stack(parts) for parts in zip(*rows, strict=True))
