"""What an encoder says of image-text pairs: each image and text of a block once, nothing padded, blocks kept."""

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
from waltz.models.batches import ProgressCallback, compute_in_halves, ignore_progress
from waltz.models.encoders.encoder import Encoder, States, TokenizedText
from waltz.models.regions import ImageOrRegions
from waltz.models.registry import get_encoder_module
from waltz.models.weights import compute_fingerprint

Pair = tuple[str, str]
"""Name of an image, and a text."""
OutputReader = Callable[[torch.Tensor], torch.Tensor]
"""From what an encoder's `fuse` gives for a batch of pairs to float of shape (pairs, numbers)."""
Value = TypeVar("Value")

PAIRS_PER_BLOCK = 64
"""Pairs after which a block ends, once all of its last image's are in it."""


@dataclass(frozen=True)
class PairScore:
    """What an encoder says of a pair.

    Attributes:
        numbers: What was asked for of its outputs, the logit first; None with an error.
        tokens: Length of the text in tokens, special tokens included; 0 where it cannot be read.
        error: Why there are no numbers.
    """

    numbers: tuple[float, ...] | None
    tokens: int
    error: str | None = None

    @property
    def logit(self) -> float | None:
        """The logit; None with an error."""
        return None if self.numbers is None else self.numbers[0]


def select_logit(outputs: torch.Tensor) -> torch.Tensor:
    """The logit of a match: from shape (pairs,) to (pairs, 1).

    Raises:
        UserError: There is none, because the encoder's outputs are answers.
    """
    if outputs.ndim != 1:
        raise UserError("an encoder that answers gives logits of answers, none of a match; ask it questions")
    return outputs[:, None]


def select_answer(outputs: torch.Tensor) -> torch.Tensor:
    """The highest logit of an answer, the answer's place in the vocabulary (the first of equals) and its softmax.

    Args:
        outputs: Logits of shape (pairs, answers).
    Returns:
        float64 of shape (pairs, 3).
    """
    logits = outputs.double()
    best = logits.argmax(dim=1, keepdim=True)
    shares = logits.softmax(dim=1).gather(1, best)
    return torch.cat([logits.gather(1, best), best.double(), shares], dim=1)


CACHE_NAMES: dict[OutputReader, str] = {select_logit: "the_logit", select_answer: "the_answer"}
"""Names in the keys of cached blocks."""


def compute_pair_scores(
    encoder: Encoder,
    pairs: Iterable[Pair],
    load: Callable[[str], ImageOrRegions],
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
    numbers: OutputReader = select_logit,
) -> dict[Pair, PairScore]:
    """Logits, or other numbers, of each distinct pair.

    The pairs are sorted and cut into blocks of whole images, so that no number depends on their order. A block is kept
    by its texts, the pixels of its images, the weights and the code.

    Args:
        encoder: A loaded encoder.
        pairs: Names of images with texts.
        load: From the name to an RGB image; a `UserError` becomes the error of the image's pairs.
        stored: Folder of finished blocks; None keeps none.
        done: Told the number of pairs that each block finished.
        numbers: `the_logit`, or `the_answer` for an encoder whose outputs are answers.
    """
    content = {
        "code": digest(__file__, get_encoder_module(encoder.spec.kind)),
        "model": compute_fingerprint(encoder.spec),
        "kind": encoder.spec.kind,
        "dtype": encoder.spec.dtype,
        "device": encoder.device.partition(":")[0],
        "numbers": CACHE_NAMES.get(numbers, numbers.__name__),
    }
    found: dict[Pair, PairScore] = {}
    for block in split_into_blocks(pairs):
        found |= _score_block(encoder, block, load, numbers, stored, content)
        done(len(block))
    return found


def split_into_blocks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Distinct pairs in order, in blocks of at least `PAIRS` that end where an image does; the last may be smaller."""
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
    load: Callable[[str], ImageOrRegions],
    numbers: OutputReader,
    stored: Path | None,
    content: Mapping[str, Any],
) -> dict[Pair, PairScore]:
    images = {name: _try(load, name) for name in dict.fromkeys(name for name, _ in block)}
    texts = {text: _try(encoder.tokenize, text) for text in dict.fromkeys(text for _, text in block)}
    pictures = {name: image for name, image in images.items() if not isinstance(image, str)}
    readable = {text: read for text, read in texts.items() if not isinstance(read, str)}
    usable = [(name, text) for name, text in block if name in pictures and text in readable]
    said: dict[Pair, tuple[float, ...]] = {}
    if usable:
        pixels = [sha256(f"{image.size}".encode() + image.tobytes()).hexdigest() for image in pictures.values()]

        def compute(pairs: list[Pair]) -> np.ndarray:
            return _compute_outputs(encoder, pairs, pictures, readable, numbers)

        values = result_cache.load_or_compute(
            stored, {"pairs": usable, "pixels": pixels, **content}, lambda: compute_in_halves(compute, usable)
        )
        said = dict(zip(usable, map(tuple, values.tolist()), strict=True))
    found: dict[Pair, PairScore] = {}
    for name, text in block:
        tokens = len(readable[text].ids) if text in readable else 0
        error = next((fault for fault in (images[name], texts[text]) if isinstance(fault, str)), None)
        if error is None and not np.isfinite(said[name, text]).all():
            error = f"the model's logit is {said[name, text][0]}"
        found[name, text] = PairScore(None if error else said[name, text], tokens, error)
    return found


@torch.inference_mode()
def _compute_outputs(
    encoder: Encoder,
    batch: Sequence[Pair],
    pictures: Mapping[str, ImageOrRegions],
    texts: Mapping[str, TokenizedText],
    numbers: OutputReader,
) -> np.ndarray:
    """Numbers of pairs, float64 of shape (pairs, numbers)."""
    seen: dict[str, States] = {}
    read: dict[str, States] = {}
    names_of = dict.fromkeys(name for name, _ in batch)
    prepared = {name: encoder.prepare_image(cast(Image.Image, pictures[name])) for name in names_of}
    for names in _group_by_shape(list(prepared), lambda name: prepared[name].shape, encoder.images_per_batch):
        try:
            seen |= _map_rows(names, encoder.encode_image(torch.stack([prepared[name] for name in names])))
        except UserError as error:
            raise UserError(f"{', '.join(names)}: {error}") from None
    for said in _group_by_shape(
        list(dict.fromkeys(text for _, text in batch)), _build_length_getter(texts), encoder.texts_per_batch
    ):
        ids = torch.tensor([texts[text].ids for text in said], device=encoder.device)
        read |= _map_rows(said, encoder.encode_text(ids))
    found: dict[Pair, list[float]] = {}
    for some in _group_by_shape(
        list(batch), lambda pair: _get_shapes(read[pair[1]], seen[pair[0]]), encoder.pairs_per_batch
    ):
        text, image = _stack_rows([read[said] for _, said in some]), _stack_rows([seen[name] for name, _ in some])
        found |= dict(zip(some, numbers(encoder.fuse(text, image)).double().cpu().tolist(), strict=True))
    return np.array([found[pair] for pair in batch], dtype=np.float64)


def _try(act: Callable[[str], Value], name: str) -> Value | str:
    """What comes of a name, or why nothing does."""
    try:
        return act(name)
    except UserError as error:
        return str(error)


def _group_by_shape(rows: list[Any], shape: Callable[[Any], Any], size: int) -> Iterator[list[Any]]:
    """Rows of one shape together, at most `size` of them."""
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault(shape(row), []).append(row)
    for group in groups.values():
        for first in range(0, len(group), size):
            yield group[first : first + size]


def _build_length_getter(texts: Mapping[str, TokenizedText]) -> Callable[[str], int]:
    return lambda text: len(texts[text].ids)


def _get_shapes(*sides: States) -> tuple[torch.Size, ...]:
    return tuple(part.shape for states in sides for part in states)


def _map_rows(names: Sequence[str], states: States) -> dict[str, States]:
    return dict(zip(names, zip(*states, strict=True), strict=True))


def _stack_rows(rows: Sequence[States]) -> States:
    return tuple(torch.stack(parts) for parts in zip(*rows, strict=True))
