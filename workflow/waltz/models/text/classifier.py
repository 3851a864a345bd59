"""Classifiers of texts and of pairs of texts: acceptability, entailment."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec, compute_fingerprint
from waltz.models.batches import (
    ProgressCallback,
    Tokens,
    compute_in_batches,
    ignore_progress,
)
from waltz.models.pretrained import (
    TextModel,
    get_max_positions,
    load_pretrained,
    report_faults,
)
from waltz.models.user_text import check_user_text

log = logging.getLogger(__name__)

EncodedText = tuple[Tokens, Tokens]
"""Ids of a text or pair, and the segment of each id; no segments if the tokenizer returns none."""


@dataclass(frozen=True)
class Classifier(TextModel):
    """A loaded classifier.

    Attributes:
        labels: Name of each class, in the order of the outputs, from the study or the checkpoint's
            config.
    """

    labels: tuple[str, ...]


def load_classifier(spec: ModelSpec, device: Device) -> Classifier:
    """Load a classifier by hub id or folder.

    Raises:
        UserError: The weights cannot be loaded or lack the classification head, or the number of
            the study's `labels` differs from the number of classes.
    """
    network, tokenizer = load_pretrained(
        spec,
        transformers.AutoModelForSequenceClassification,
        "classification head",
        device=device.name,
    )
    with report_faults(spec):
        return wrap_classifier(spec, network, tokenizer, device.name)


def wrap_classifier(
    spec: ModelSpec, network: Any, tokenizer: Any, device: str
) -> Classifier:
    """Return a classifier from a network and tokenizer that are already loaded.

    Raises:
        UserError: The number of the study's `labels` differs from the number of classes, or they
            are the config's labels in another order.
    """
    names = network.config.id2label
    labels = tuple(str(names[index]) for index in sorted(names))
    if spec.labels:
        labels = _read_labels(spec, labels)
    window = get_max_positions(network, tokenizer)
    return Classifier(
        spec,
        device,
        network.to(device).eval(),
        tokenizer,
        window,
        compute_fingerprint(spec),
        labels,
    )


def _read_labels(spec: ModelSpec, config_labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels that the study names for the classes.

    Raises:
        UserError: Their number differs from the number of classes, or they are the config's labels
            in another order.
    """
    labels = tuple(label.strip() for label in spec.labels.split(","))
    if len(labels) != len(config_labels):
        raise UserError(
            f"models.{spec.name}: labels: wrong number of labels (got {len(labels)}: {spec.labels}, expected"
            f" {len(config_labels)} for {spec.weights}); name each class once, in order"
        )
    # Other names may be chosen freely; the config's own labels in another order are a mistake.
    lower_labels = [label.lower() for label in labels]
    lower_config_labels = [label.lower() for label in config_labels]
    if lower_labels != lower_config_labels and sorted(lower_labels) == sorted(
        lower_config_labels
    ):
        raise UserError(
            f"models.{spec.name}: labels: another order than in the config of {spec.weights} (got {spec.labels},"
            f" expected {', '.join(config_labels)}); correct it"
        )
    return labels


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
        texts: Tuples of one text, or of two texts for a classifier of pairs.
        max_positions: Maximum number of positions, special tokens included; at most the window.
            Longer input is cut.
        on_progress: Called with the number of rows of each finished batch.
    Returns:
        For each tuple, float64 of shape (classes,).
    """
    limit = min(model.window, max_positions or model.window)
    encoded = {pair: _encode_text(model, pair, limit) for pair in dict.fromkeys(texts)}
    # The tokenizer cuts silently: only an input of exactly the maximum length can have been cut.
    full_count = sum(len(ids) == limit for ids, _ in encoded.values())
    if full_count:
        log.warning(
            "%s: %d inputs fill all %d positions and may have been cut",
            model.spec.name,
            full_count,
            limit,
        )

    @torch.inference_mode()
    def compute(batch: list[EncodedText]) -> np.ndarray:
        # Rows of a batch have one length, so that none is padded.
        ids = torch.tensor([ids for ids, _ in batch], device=model.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if batch[0][1]:
            inputs["token_type_ids"] = torch.tensor(
                [segments for _, segments in batch], device=model.device
            )
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
    for text in texts:
        check_user_text(model.tokenizer, text, f"models.{model.spec.name}")
    # BERT's tokenizers return segments, RoBERTa's do not.
    encoded = model.tokenizer(*texts, truncation=True, max_length=limit)
    return tuple(encoded["input_ids"]), tuple(encoded.get("token_type_ids", ()))
