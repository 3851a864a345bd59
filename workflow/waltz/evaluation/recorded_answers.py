"""Answers of recorded runs as rows of the evaluation layout."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.rounding import compute_rounding
from waltz.evaluation.decoder_rows import compute_softmax, count_outcomes
from waltz.evaluation.settings import AFTER_COT, PAIRWISE, RIGHT_PREDICTION, SINGLE
from waltz.evaluation.vqa import (
    ANSWER,
    ANSWERING,
    contains_gold_answer,
    normalize_answer,
)
from waltz.fidelity import get_fidelity
from waltz.sources.recorded import read_records

Row = Mapping[str, Any]
LABELS = ("A", "B")
"""Labels of the settings `pairwise` (first text, second text) and `single` (describes the image,
does not).
"""


def import_answers(
    file: str | Path,
    model: Mapping[str, Any],
    datasets: Iterable[str],
    profiles: Sequence[str],
) -> Iterator[DatasetResult]:
    """Yield the answers of a recorded model on each data set, as rows of the evaluation layout,
    under `scores`.

    Args:
        file: File with the rows of recorded runs.
        model: Name of the model in the study, and its weights.
        datasets: Names of the data sets.
        profiles: Profiles of the study.
    Raises:
        UserError: The file has no rows of the model on a data set.
    """
    for dataset, records in read_records(
        file, model, list(datasets), profiles, "answer"
    ):
        # The layout has one row for each item, so that only the first of several seeds counts.
        first = min(records.facts["seeds"], default=0)
        rows = [build_answer_row(row) for row in records.rows if row["seed"] == first]
        facts = {**records.facts, **count_outcomes(rows)}
        yield DatasetResult(
            DatasetFiles(dataset, str(file)), {"scores": rows}, records.read, facts
        )


def build_answer_row(record: Row) -> dict[str, Any]:
    """Convert one recorded answer to a row of the evaluation layout.

    `correct` is computed again from label and gold answer. Score and probability are null if the
    run recorded no log-probabilities; else they are computed as in
    `decoder_rows.build_choice_rows`, with log-probabilities as logits.
    """
    setting = ANSWERING if record["setting"] == "open" else record["setting"]
    row: dict[str, Any] = {
        "item_id": record["item_id"],
        "role": record["role"] or ANSWER,
        "profile": record["profile"],
        "setting": setting + AFTER_COT if record["kind"] == "cot" else setting,
        "image": record["image"],
        "reasoning": record["reasoning"],
        **dict.fromkeys(
            ("score", "rounding", "tokens", "probability", "order", "error")
        ),
    }
    if setting == ANSWERING:
        return row | {"prediction": record["generation"], "correct": _is_right(record)}
    # Log-probabilities take the place of logits: they differ from them by a constant, which cancels
    # in every margin.
    logits = dict(
        zip(
            record["labels"] or (), record["label_log_probabilities"] or (), strict=True
        )
    )
    if setting == PAIRWISE:
        return row | _judge_pair(record, logits)
    if setting == SINGLE:
        return row | _judge_single(record, logits)
    return row | _judge_choice(record, logits)


def _judge_pair(record: Row, logits: Mapping[str, float]) -> dict[str, Any]:
    """Return the columns of a choice between caption and foil; the gold label is the label of the
    caption.
    """
    label, right = record["label"], record["gold"][0]
    first, second = LABELS
    caption_label, foil_label = (second, first) if right == second else (first, second)
    return {
        "role": "caption",
        "order": "caption-first" if right == first else "foil-first",
        "prediction": "caption" if label == right else "foil",
        "correct": label == right,
        **_build_margin_columns(logits, caption_label, foil_label),
    }


def _judge_single(record: Row, logits: Mapping[str, float]) -> dict[str, Any]:
    """Return the columns of an answer to the question whether a text describes its image."""
    match_label, mismatch_label = LABELS
    prediction = "match" if record["label"] == match_label else "mismatch"
    return {
        "prediction": prediction,
        "correct": prediction == RIGHT_PREDICTION[str(record["role"])],
        **_build_margin_columns(logits, match_label, mismatch_label),
    }


def _judge_choice(record: Row, logits: Mapping[str, float]) -> dict[str, Any]:
    """Return the columns of a choice among labels about text alone."""
    columns = {
        "prediction": record["label"],
        "correct": record["label"] in record["gold"],
    }
    if logits:
        columns |= {
            "score": max(logits.values()),
            "probability": max(compute_softmax(list(logits.values()))),
        }
    return columns


def _build_margin_columns(
    logits: Mapping[str, float], first: str, second: str
) -> dict[str, float]:
    """Return score, probability and rounding of the margin between two labels; no columns if a
    logit is missing.
    """
    if first not in logits or second not in logits:
        return {}
    margin = logits[first] - logits[second]
    return {
        "score": margin,
        "probability": compute_softmax([margin, 0.0])[0],
        "rounding": compute_rounding(max(abs(logits[first]), abs(logits[second]))),
    }


def _is_right(record: Row) -> bool:
    """Return whether an open answer is right by the rules of its profile."""
    # Several gold answers are those of annotators (VQA); a single one is the answer of GQA.
    answer, golds = str(record["generation"]), list(record["gold"])
    if get_fidelity(record["profile"]).open_answers == "substring":
        annotators = golds if len(golds) > 1 else []
        return contains_gold_answer(answer, {"answers": annotators, "answer": golds[0]})
    return normalize_answer(answer) in {normalize_answer(gold) for gold in golds}
