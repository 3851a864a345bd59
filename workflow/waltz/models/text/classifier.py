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
from waltz.model_registry import ModelSpec, compute_fingerprint
from waltz.models.batches import ProgressCallback, Tokens, compute_in_batches, ignore_progress
from waltz.models.pretrained import TextModel, get_max_positions, load_pretrained, report_faults

log = logging.getLogger(__name__)

EncodedText = tuple[Tokens, Tokens]
"""Ids, and the segment of each where the tokenizer gives segments."""


@dataclass(frozen=True)
class Classifier(TextModel):
    """A loaded classifier.

    Attributes:
        labels: Name of each class, in the order of the outputs, as the study or the checkpoint's config says.
    """

    labels: tuple[str, ...]


def load_classifier(spec: ModelSpec, device: Device) -> Classifier:
    """Load a classifier by hub id or folder.

    Raises:
        UserError: The weights cannot be had, or lack those of the classification head, or the study's `labels` are
            not as many as its classes.
    """
    network, tokenizer = load_pretrained(
        spec, transformers.AutoModelForSequenceClassification, "classification head", device=device.name
    )
    with report_faults(spec):
        return wrap_classifier(spec, network, tokenizer, device.name)


def wrap_classifier(spec: ModelSpec, network: Any, tokenizer: Any, device: str) -> Classifier:
    """Return a classifier from a network and tokenizer that are already loaded.

    Raises:
        UserError: The study's `labels` are not as many as its classes, or those of the config in another order.
    """
    names = network.config.id2label
    labels = tuple(str(names[index]) for index in sorted(names))
    if spec.labels:
        configured = tuple(label.strip() for label in spec.labels.split(","))
        if len(configured) != len(labels):
            raise UserError(
                f"models.{spec.name}: labels: wrong number of labels (got {len(configured)}: {spec.labels}, expected"
                f" {len(labels)} for {spec.weights}); name each class once, in order"
            )
        own, named = ([label.lower() for label in group] for group in (labels, configured))
        if own != named and sorted(own) == sorted(named):
            raise UserError(
                f"models.{spec.name}: labels: another order than in the config of {spec.weights} (got {spec.labels},"
                f" expected {', '.join(labels)}); correct it"
            )
        labels = configured
    window = get_max_positions(network, tokenizer)
    return Classifier(spec, device, network.to(device).eval(), tokenizer, window, compute_fingerprint(spec), labels)


def compute_class_logits(
    model: Classifier,
    texts: Iterable[tuple[str, ...]],
    *,
    max_positions: int | None = None,
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[tuple[str, ...], np.ndarray]:
    """Return the raw logits of each distinct text or pair of texts.

    Args:
        texts: Tuples of one text, or of two.
        max_positions: Maximum number of positions, special tokens included; at most the window. Longer input is cut.
        on_progress: Called with the number of rows of each finished batch.
    Returns:
        By tuple, float64 of shape (classes,).
    """
    limit = min(model.window, max_positions or model.window)
    encoded = {pair: _encode_text(model, pair, limit) for pair in dict.fromkeys(texts)}
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

    logits = compute_in_batches(
        encoded.values(),
        lambda row: len(row[0]),
        compute,
        content={**model.build_cache_content(digest(__file__)), "task": "classes"},
        cache_file=cache_file,
        on_progress=on_progress,
    )
    return {pair: logits[row] for pair, row in encoded.items()}


def _encode_text(model: Classifier, texts: tuple[str, ...], limit: int) -> EncodedText:
    encoded = model.tokenizer(*texts, truncation=True, max_length=limit)
    return tuple(encoded["input_ids"]), tuple(encoded.get("token_type_ids", ()))
