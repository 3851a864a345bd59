"""Scores of every image with every text, each seen and read once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from PIL import Image

from waltz.models.encoders.encoder import Encoder, States

Row = TypeVar("Row")


@torch.inference_mode()
def compute_score_matrix(encoder: Encoder, images: Iterable[Image.Image], texts: Sequence[str]) -> np.ndarray:
    """The logit of each image with each text.

    An image passes `see` once, a text `read` once; what is left is one `fuse` a pair, which for late fusion is one dot
    product: the whole is a matrix product.

    Args:
        encoder: A loaded encoder.
        images: RGB images; taken a batch at a time, so a generator will do.
        texts: Texts.
    Returns:
        float64 of shape (images, texts).
    Raises:
        UserError: A text is longer than the encoder reads.
    """
    readings = _encode_texts(encoder, texts)
    rows = []
    for batch in _split_into_batches(images, encoder.images_per_batch):
        states = encoder.encode_image(torch.stack([encoder.prepare_image(image) for image in batch]))
        for place in range(len(batch)):
            seen = tuple(part[place : place + 1] for part in states)
            row = np.empty(len(texts))
            for columns, reading in readings:
                row[columns] = _fuse_texts(encoder, reading, seen, len(columns))
            rows.append(row)
    return np.array(rows).reshape(len(rows), len(texts))


def _encode_texts(encoder: Encoder, texts: Sequence[str]) -> list[tuple[list[int], States]]:
    """What is read of the texts, with their places; texts of one length together."""
    ids = [encoder.tokenize(text).ids for text in texts]
    by_length: dict[int, list[int]] = {}
    for place, found in enumerate(ids):
        by_length.setdefault(len(found), []).append(place)
    readings = []
    for places in by_length.values():
        read = [
            encoder.encode_text(torch.tensor([ids[place] for place in batch], device=encoder.device))
            for batch in _split_into_batches(places, encoder.texts_per_batch)
        ]
        readings.append((places, _concatenate(read)))
    if encoder.late and readings:
        return [
            ([place for places, _ in readings for place in places], _concatenate([states for _, states in readings]))
        ]
    return readings


def _fuse_texts(encoder: Encoder, reading: States, seen: States, count: int) -> np.ndarray:
    """Logits of one image with texts of one length."""
    found = []
    for first in range(0, count, encoder.pairs_per_batch):
        text = tuple(part[first : first + encoder.pairs_per_batch] for part in reading)
        image = tuple(part.expand(len(text[0]), *part.shape[1:]) for part in seen)
        found.append(encoder.fuse(text, image).double().cpu().numpy())
    return np.concatenate(found)


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
