"""Natural language inference: the probability that a caption entails its foil, contradicts it, or
neither.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from waltz.core.errors import UserError
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.text.classifier import Classifier, compute_class_logits

LABEL_BEGINNINGS = {
    "entailment": "entail",
    "neutral": "neutral",
    "contradiction": "contradict",
}
"""First letters of a classifier's label, by relation; the order is the one of the fields of
`Inference`.
"""


@dataclass(frozen=True)
class Inference:
    """Probabilities of the three relations of a premise to a hypothesis; they sum to 1."""

    entailment: float
    neutral: float
    contradiction: float

    @property
    def margin(self) -> float:
        """Return the probability of contradiction less the higher one of the other two.

        It lies in [-1, 1] and is above 0 where contradiction is the most probable relation.
        """
        return self.contradiction - max(self.entailment, self.neutral)


def infer_relations(
    pairs: Iterable[tuple[str, str]],
    model: Classifier,
    cache_file: Path | None = None,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[tuple[str, str], Inference]:
    """Return the probabilities of the three relations for each distinct pair.

    Args:
        pairs: Premise (the caption) and hypothesis (the foil).
        model: A classifier into entailment, neutral, contradiction, in whichever order.
        on_progress: Called with the number of distinct pairs of each batch.
    """
    order = find_label_order(model)
    logits = compute_class_logits(
        model, pairs, cache_file=cache_file, on_progress=on_progress
    )
    inferences = {}
    for (premise, hypothesis), row in logits.items():
        # Softmax over the classes, which `order` sorts as the fields of `Inference`.
        weights = np.exp(row - row.max())
        inferences[premise, hypothesis] = Inference(
            *(weights[order] / weights.sum()).tolist()
        )
    return inferences


def find_label_order(model: Classifier) -> list[int]:
    """Return the indices of the classes entailment, neutral and contradiction in a classifier's
    output.

    Labels may be spelled in any case and with other endings ("ENTAILMENT", "contradictory").
    """
    relations = list(map(_find_relation, model.labels))
    # Each relation needs exactly one label: names such as LABEL_0 do not say their order.
    if sorted(relations) != sorted(LABEL_BEGINNINGS):
        raise UserError(
            f"models.{model.spec.name}: the labels of {model.spec.weights} are {', '.join(model.labels)}, which do not"
            f" say which class is {', '.join(LABEL_BEGINNINGS)}; look up its order and give it as `labels`, for example"
            ' labels: "entailment, neutral, contradiction"'
        )
    return [relations.index(relation) for relation in LABEL_BEGINNINGS]


def _find_relation(label: str) -> str:
    """Return the relation that a label names; an empty text where it names none."""
    letters = re.sub(r"[^a-z]", "", label.lower())
    for relation, beginning in LABEL_BEGINNINGS.items():
        if letters.startswith(beginning):
            return relation
    return ""
