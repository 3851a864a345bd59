"""Classifiers of texts and of pairs of texts: acceptability, entailment."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

log = logging.getLogger(__name__)

EncodedText = tuple[Tokens, Tokens]
"""Ids, and the segment of each where the tokenizer gives segments."""


@dataclass(frozen=True)
class Classifier:
    """A loaded classifier.

    Attributes:
        spec: What was loaded.
        device: A torch device.
        network: The transformers model, in evaluation mode.
        tokenizer: Its tokenizer.
        window: Most positions that it reads, special tokens included.
        labels: Name of each class, in the order of the outputs, as the study or the checkpoint's config says.
        fingerprint: What tells these weights from others.
    """

    spec: ModelSpec
    device: str
    network: Any
    tokenizer: Any
    window: int
    labels: tuple[str, ...]
    fingerprint: str


def load_classifier(spec: ModelSpec, device: Device) -> Classifier:
    """Load a classifier by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack parameters, such as those of the classification head,
            or the study's `labels` are not as many as its classes.
    """
    network, tokenizer = load_pretrained(spec, transformers.AutoModelForSequenceClassification, "classification head")
    return wrap_classifier(spec, network, tokenizer, device.name)


def wrap_classifier(spec: ModelSpec, network: Any, tokenizer: Any, device: str) -> Classifier:
    """A classifier from a network and tokenizer that are loaded already.

    Raises:
        UserError: The study's `labels` are not as many as its classes.
    """
    named = network.config.id2label
    labels = tuple(str(named[place]) for place in sorted(named))
    if spec.labels:
        given = tuple(label.strip() for label in spec.labels.split(","))
        if len(given) != len(labels):
            raise UserError(
                f"models.{spec.name}: labels: {len(given)} are given ({spec.labels}), {spec.weights} has"
                f" {len(labels)} classes; name each once, in its order"
            )
        labels = given
    window = get_max_positions(network, tokenizer)
    return Classifier(spec, device, network.to(device).eval(), tokenizer, window, labels, compute_fingerprint(spec))


def compute_class_logits(
    model: Classifier,
    texts: Iterable[tuple[str, ...]],
    *,
    most: int | None = None,
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> dict[tuple[str, ...], np.ndarray]:
    """Raw logits of each distinct text or pair of texts.

    Args:
        model: A loaded classifier.
        texts: Tuples of one text, or of two.
        most: Most positions, special tokens included; the model's window at most. Longer input is cut.
        stored: Folder of finished batches.
        done: Told the rows that each batch finished.
    Returns:
        By tuple, float64 of shape (classes,).
    """
    limit = min(model.window, most or model.window)
    encoded = {given: _encode_text(model, given, limit) for given in dict.fromkeys(texts)}
    full = sum(len(ids) == limit for ids, _ in encoded.values())
    if full:
        log.warning("%s: %d inputs fill all %d positions and may have been cut", model.spec.name, full, limit)

    @torch.inference_mode()
    def compute(batch: list[EncodedText]) -> np.ndarray:
        ids = torch.tensor([ids for ids, _ in batch], device=model.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if batch[0][1]:
            inputs["token_type_ids"] = torch.tensor([segments for _, segments in batch], device=model.device)
        values: np.ndarray = model.network(**inputs).logits.double().cpu().numpy()
        return values

    content = {
        "code": digest(__file__),
        "model": model.fingerprint,
        "dtype": model.spec.dtype,
        "device": model.device.partition(":")[0],
        "task": "classes",
    }
    found = compute_in_batches(
        encoded.values(), lambda row: len(row[0]), compute, content=content, cache_folder=stored, on_progress=done
    )
    return {given: found[row] for given, row in encoded.items()}


def _encode_text(model: Classifier, texts: tuple[str, ...], limit: int) -> EncodedText:
    encoded = model.tokenizer(*texts, truncation=True, max_length=limit)
    return tuple(encoded["input_ids"]), tuple(encoded.get("token_type_ids", ()))
