"""Natural language inference: does the foil contradict the caption?"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from waltz.core.errors import UserError
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.text.classifier import Classifier, compute_class_logits

BEGINNINGS = {"entailment": "entail", "neutral": "neutral", "contradiction": "contradict"}


@dataclass(frozen=True)
class Inference:
    """How probable each relation of a premise to a hypothesis is; the three sum to 1."""

    entailment: float
    neutral: float
    contradiction: float

    @property
    def margin(self) -> float:
        """How much more probable contradiction is than the next relation: above 0 where it is the verdict."""
        return self.contradiction - max(self.entailment, self.neutral)


def infer(
    pairs: Iterable[tuple[str, str]],
    model: Classifier,
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> dict[tuple[str, str], Inference]:
    """The relation of each distinct pair.

    Args:
        pairs: Premise (the caption) and hypothesis (the foil).
        model: A classifier into entailment, neutral, contradiction, in whichever order.
        stored: Folder of finished batches.
        done: Told how many distinct pairs another batch finished.
    Raises:
        UserError: The model's labels do not say which class is which.
    """
    order = label_order(model)
    logits = compute_class_logits(model, pairs, cache_folder=stored, on_progress=done)
    found = {}
    for (premise, hypothesis), row in logits.items():
        weights = np.exp(row - row.max())
        found[premise, hypothesis] = Inference(*(weights[order] / weights.sum()).tolist())
    return found


def label_order(model: Classifier) -> list[int]:
    """Classes of entailment, neutral and contradiction, read from the labels in any case and spelling.

    Raises:
        UserError: The labels are others, or name one of the three twice.
    """
    plain = [re.sub(r"[^a-z]", "", label.lower()) for label in model.labels]
    order = [[place for place, label in enumerate(plain) if label.startswith(name)] for name in BEGINNINGS.values()]
    if len(plain) != len(BEGINNINGS) or any(len(places) != 1 for places in order):
        raise UserError(
            f"models.{model.spec.name}: the labels of {model.spec.weights} are {', '.join(model.labels)}, which do not"
            f" say which class is {', '.join(BEGINNINGS)}; look up its order and give it as `labels`, for example"
            ' labels: "entailment, neutral, contradiction"'
        )
    return [places[0] for places in order]
