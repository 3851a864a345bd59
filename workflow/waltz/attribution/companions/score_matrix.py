"""Scores of every image with every text, each encoded once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from PIL import Image

from waltz.models.encoders.encoder import Encoder, States

Row = TypeVar("Row")


@torch.inference_mode()
def compute_score_matrix(encoder: Encoder, images: Iterable[Image.Image], texts: Sequence[str]) -> np.ndarray:
    """Compute the logit of each image with each text.

    Each image and each text is encoded once. Each pair then takes one `fuse`; for late fusion this is a dot product,
    and the whole result a matrix product.

    Args:
        encoder: A loaded encoder.
        images: RGB images; read one batch at a time, so a generator is possible.
        texts: Texts.
    Returns:
        float64 of shape (images, texts).
    Raises:
        UserError: A text is longer than the encoder reads.
    """
    encoded_texts = _encode_texts(encoder, texts)
    rows = []
    for batch in _split_into_batches(images, encoder.images_per_batch):
        states = encoder.encode_image(torch.stack([encoder.prepare_image(image) for image in batch]))
        for place in range(len(batch)):
            image_states = tuple(part[place : place + 1] for part in states)
            row = np.empty(len(texts))
            for columns, text_states in encoded_texts:
                row[columns] = _fuse_texts(encoder, text_states, image_states, len(columns))
            rows.append(row)
    return np.array(rows).reshape(len(rows), len(texts))


def _encode_texts(encoder: Encoder, texts: Sequence[str]) -> list[tuple[list[int], States]]:
    """Return the encoded texts with their places, grouped by length."""
    ids = [encoder.tokenize(text).ids for text in texts]
    by_length: dict[int, list[int]] = {}
    for place, text_ids in enumerate(ids):
        by_length.setdefault(len(text_ids), []).append(place)
    encoded_texts = []
    for places in by_length.values():
        batches = [
            encoder.encode_text(torch.tensor([ids[place] for place in batch], device=encoder.device))
            for batch in _split_into_batches(places, encoder.texts_per_batch)
        ]
        encoded_texts.append((places, _concatenate(batches)))
    if encoder.late and encoded_texts:
        return [
            (
                [place for places, _ in encoded_texts for place in places],
                _concatenate([states for _, states in encoded_texts]),
            )
        ]
    return encoded_texts


def _fuse_texts(encoder: Encoder, text_states: States, image_states: States, count: int) -> np.ndarray:
    """Compute the logits of one image with texts of one length."""
    logits = []
    for first in range(0, count, encoder.pairs_per_batch):
        text = tuple(part[first : first + encoder.pairs_per_batch] for part in text_states)
        image = tuple(part.expand(len(text[0]), *part.shape[1:]) for part in image_states)
        logits.append(encoder.fuse(text, image).double().cpu().numpy())
    return np.concatenate(logits)


def _concatenate(parts: Sequence[States]) -> States:
    return tuple(torch.cat(pieces) for pieces in zip(*parts, strict=True))


def _split_into_batches(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
