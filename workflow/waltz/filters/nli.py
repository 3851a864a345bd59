"""Natural language inference: the relation of a foil to its caption."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from waltz.core.errors import UserError
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.text.classifier import Classifier, compute_class_logits

LABEL_BEGINNINGS = {"entailment": "entail", "neutral": "neutral", "contradiction": "contradict"}


@dataclass(frozen=True)
class Inference:
    """Probabilities of the three relations of a premise to a hypothesis; they sum to 1."""

    entailment: float
    neutral: float
    contradiction: float

    @property
    def margin(self) -> float:
        """Probability of contradiction minus that of the next relation: above 0 where it is the verdict."""
        return self.contradiction - max(self.entailment, self.neutral)


def infer_relations(
    pairs: Iterable[tuple[str, str]],
    model: Classifier,
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[tuple[str, str], Inference]:
    """Return the relation of each distinct pair.

    Args:
        pairs: Premise (the caption) and hypothesis (the foil).
        model: A classifier into entailment, neutral, contradiction, in whichever order.
        on_progress: Called with the number of distinct pairs of each batch.
    """
    order = find_label_order(model)
    logits = compute_class_logits(model, pairs, cache_file=cache_file, on_progress=on_progress)
    inferences = {}
    for (premise, hypothesis), row in logits.items():
        weights = np.exp(row - row.max())
        inferences[premise, hypothesis] = Inference(*(weights[order] / weights.sum()).tolist())
    return inferences


def find_label_order(model: Classifier) -> list[int]:
    """Return the classes of entailment, neutral and contradiction, from the labels in any case and spelling."""
    plain = [re.sub(r"[^a-z]", "", label.lower()) for label in model.labels]
    classes = [
        [index for index, label in enumerate(plain) if label.startswith(name)] for name in LABEL_BEGINNINGS.values()
    ]
    if len(plain) != len(LABEL_BEGINNINGS) or any(len(matches) != 1 for matches in classes):
        raise UserError(
            f"models.{model.spec.name}: the labels of {model.spec.weights} are {', '.join(model.labels)}, which do not"
            f" say which class is {', '.join(LABEL_BEGINNINGS)}; look up its order and give it as `labels`, for example"
            ' labels: "entailment, neutral, contradiction"'
        )
    return [matches[0] for matches in classes]
