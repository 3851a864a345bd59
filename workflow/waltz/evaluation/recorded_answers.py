"""Answers of recorded runs as rows of the evaluation layout."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.evaluation.decoder_rows import compute_softmax, count_outcomes
from waltz.evaluation.settings import AFTER_COT, PAIRWISE, RIGHT_PREDICTION, SINGLE
from waltz.evaluation.vqa import ANSWER, ANSWERING, contains_gold_answer, normalize_answer
from waltz.fidelity import get_fidelity
from waltz.sources.recorded import read_records

Row = Mapping[str, Any]
LABELS = ("A", "B")
"""Labels of the settings `pairwise` (first and second text) and `single` (fits, does not fit)."""


def import_answers(
    file: str | Path, model: Mapping[str, Any], datasets: Iterable[str], profiles: Sequence[str]
) -> Iterator[DatasetResult]:
    """Yield the answers of a recorded model on each data set, as rows of the evaluation layout, under `scores`.

    Args:
        file: Rows of a source of recorded runs.
        model: Name of the model in the study, and its weights.
        profiles: Profiles of the study.
    Raises:
        UserError: The source holds nothing of the model on a data set.
    """
    for dataset, records in read_records(file, model, list(datasets), profiles, "answer"):
        # the layout has one row for an item: of several seeds the first counts
        first = min(records.facts["seeds"], default=0)
        rows = [build_answer_row(row) for row in records.rows if row["seed"] == first]
        facts = {**records.facts, **count_outcomes(rows)}
        yield DatasetResult(DatasetFiles(dataset, str(file)), {"scores": rows}, records.read, facts)


def build_answer_row(record: Row) -> dict[str, Any]:
    """Return the row of the evaluation layout of one recorded answer.

    `correct` is computed anew from label and gold answer. Score and probability are null without log-probabilities;
    where there are some, the score is as in `decoder_rows.build_choice_rows`, with log-probabilities as logits.
    """
    setting = ANSWERING if record["setting"] == "open" else record["setting"]
    row: dict[str, Any] = {
        "item_id": record["item_id"],
        "role": record["role"] or ANSWER,
        "profile": record["profile"],
        "setting": setting + (AFTER_COT if record["kind"] == "cot" else ""),
        "image": record["image"],
        "reasoning": record["reasoning"],
        **dict.fromkeys(("score", "tokens", "probability", "order", "error")),
    }
    if setting == ANSWERING:
        return row | {"prediction": record["generation"], "correct": _is_right(record)}
    label = record["label"]
    logits = dict(zip(record["labels"] or (), record["label_log_probabilities"] or (), strict=True))
    right = record["gold"][0]
    if setting not in (PAIRWISE, SINGLE):
        if logits:
            row |= {"score": max(logits.values()), "probability": max(compute_softmax(list(logits.values())))}
        return row | {"prediction": label, "correct": label in record["gold"]}
    if setting == PAIRWISE:
        order = "caption-first" if right == LABELS[0] else "foil-first"
        row |= {"role": "caption", "order": order, "prediction": "caption" if label == right else "foil"}
        first, second = (right, LABELS[1 - LABELS.index(right)]) if right in LABELS else LABELS
    else:
        prediction = "match" if label == LABELS[0] else "mismatch"
        row["prediction"] = prediction
        first, second = LABELS
    if {first, second} <= logits.keys():
        margin = logits[first] - logits[second]
        row |= {"score": margin, "probability": compute_softmax([margin, 0.0])[0]}
    correct = label == right if setting == PAIRWISE else row["prediction"] == RIGHT_PREDICTION[str(record["role"])]
    return row | {"correct": correct}


def _is_right(record: Row) -> bool:
    """Return whether an open answer is right by the rules of its profile."""
    answer, golds = str(record["generation"]), list(record["gold"])
    if get_fidelity(record["profile"]).open_answers == "substring":
        return contains_gold_answer(answer, {"answers": golds if len(golds) > 1 else [], "answer": golds[0]})
    return normalize_answer(answer) in {normalize_answer(gold) for gold in golds}
