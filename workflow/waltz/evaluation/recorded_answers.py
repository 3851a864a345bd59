"""Answers of recorded runs as records of the evaluation layout."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.rounding import compute_rounding
from waltz.core.schema import EvaluationRecord
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
        answers = [
            build_answer_record(row) for row in records.rows if row["seed"] == first
        ]
        facts = {**records.facts, **count_outcomes(answers)}
        yield DatasetResult(
            DatasetFiles(dataset, str(file)), {"scores": answers}, records.read, facts
        )


def build_answer_record(recorded: Row) -> EvaluationRecord:
    """Convert one recorded answer to a record of the evaluation layout.

    `correct` is computed again from label and gold answer. Score and probability are null if the
    run recorded no log-probabilities; else they are computed as in
    `decoder_rows.build_choice_records`, with log-probabilities as logits.
    """
    setting = ANSWERING if recorded["setting"] == "open" else recorded["setting"]
    record = EvaluationRecord(
        item_id=recorded["item_id"],
        role=recorded["role"] or ANSWER,
        profile=recorded["profile"],
        setting=setting + AFTER_COT if recorded["kind"] == "cot" else setting,
        image=recorded["image"],
        reasoning=recorded["reasoning"],
    )
    if setting == ANSWERING:
        return replace(
            record, prediction=recorded["generation"], correct=_is_right(recorded)
        )
    # Log-probabilities take the place of logits: they differ from them by a constant, which cancels
    # in every margin.
    logits = dict(
        zip(
            recorded["labels"] or (),
            recorded["label_log_probabilities"] or (),
            strict=True,
        )
    )
    label, golds = recorded["label"], recorded["gold"]
    if setting == PAIRWISE:
        return _judge_pair(record, label, golds[0], logits)
    if setting == SINGLE:
        return _judge_single(record, label, logits)
    record = replace(record, prediction=label, correct=label in golds)
    if not logits:
        return record
    score, probability = max(logits.values()), max(compute_softmax([*logits.values()]))
    return replace(record, score=score, probability=probability)


def _judge_pair(
    record: EvaluationRecord, label: str, gold: str, logits: Mapping[str, float]
) -> EvaluationRecord:
    """Return the record of a choice between caption and foil; the gold label is the label of the
    caption.
    """
    first, second = LABELS
    caption_label, foil_label = (second, first) if gold == second else (first, second)
    record = replace(
        record,
        role="caption",
        order="caption-first" if gold == first else "foil-first",
        prediction="caption" if label == gold else "foil",
        correct=label == gold,
    )
    return _add_margin(record, logits, caption_label, foil_label)


def _judge_single(
    record: EvaluationRecord, label: str, logits: Mapping[str, float]
) -> EvaluationRecord:
    """Return the record of an answer to the question whether a text describes its image."""
    match_label, mismatch_label = LABELS
    prediction = "match" if label == match_label else "mismatch"
    is_correct = prediction == RIGHT_PREDICTION[record.role]
    record = replace(record, prediction=prediction, correct=is_correct)
    return _add_margin(record, logits, match_label, mismatch_label)


def _add_margin(
    record: EvaluationRecord, logits: Mapping[str, float], first: str, second: str
) -> EvaluationRecord:
    """Return a record with score, probability and rounding of the margin between two labels; without
    them if a logit is missing.
    """
    if first not in logits or second not in logits:
        return record
    margin = logits[first] - logits[second]
    return replace(
        record,
        score=margin,
        probability=compute_softmax([margin, 0.0])[0],
        rounding=compute_rounding(max(abs(logits[first]), abs(logits[second]))),
    )


def _is_right(record: Row) -> bool:
    """Return whether an open answer is right by the rules of its profile."""
    # Several gold answers are those of annotators (VQA); a single one is the answer of GQA.
    answer, golds = str(record["generation"]), list(record["gold"])
    if get_fidelity(record["profile"]).open_answers == "substring":
        annotators = golds if len(golds) > 1 else []
        return contains_gold_answer(answer, golds[0], annotators)
    return normalize_answer(answer) in {normalize_answer(gold) for gold in golds}
