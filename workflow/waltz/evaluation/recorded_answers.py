"""Answers of recorded runs as records of the evaluation layout."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.rounding import compute_rounding
from waltz.core.schema import EvaluationRecord
from waltz.evaluation.decoder_rows import compute_softmax, count_predictions
from waltz.evaluation.settings import AFTER_COT, PAIRWISE, RIGHT_PREDICTION, SINGLE
from waltz.evaluation.vqa import (
    ANSWER,
    ANSWERING,
    contains_gold_answer,
    gives_answer,
)
from waltz.fidelity import Fidelity, get_fidelity
from waltz.model_registry import ModelSpec
from waltz.sources.recorded import read_recorded_runs
from waltz.sources.records import RecordedRecord

LABELS = ("A", "B")
"""Labels of the settings `pairwise` (first text, second text) and `single` (describes the image,
does not).
"""


def import_answers(
    file: str | Path,
    model: ModelSpec,
    datasets: Iterable[str],
    profiles: Sequence[str],
) -> Iterator[DatasetResult]:
    """Yield the answers of a recorded model on each data set, as rows of the evaluation layout,
    under `scores`.

    Args:
        file: File with the rows of recorded runs.
        model: The model, by whose name or weights its rows are found.
        datasets: Names of the data sets.
        profiles: Profiles of the study.
    Raises:
        UserError: The file has no rows of the model on a data set.
    """
    for dataset, records in read_recorded_runs(
        file, model, datasets, profiles, "answer"
    ):
        # The layout has one row for each item, so that only the first of several seeds counts.
        first_seed = records.first_seed
        answers = [
            build_answer_record(record)
            for record in records.rows
            if record.seed == first_seed
        ]
        facts = {**records.facts, **count_predictions(answers)}
        yield DatasetResult(
            DatasetFiles(dataset, str(file)), {"scores": answers}, records.read, facts
        )


def build_answer_record(recorded: RecordedRecord) -> EvaluationRecord:
    """Convert one recorded answer to a record of the evaluation layout.

    `correct` is computed again from label and gold answer. Score and probability are null if the
    run recorded no log-probabilities; else they are computed as in
    `decoder_rows.build_choice_records`, with log-probabilities as logits.
    """
    setting = recorded.setting
    if setting == "open":
        setting = ANSWERING
    suffix = AFTER_COT if recorded.kind == "cot" else ""
    record = EvaluationRecord(
        item_id=recorded.item_id,
        role=recorded.role or ANSWER,
        profile=recorded.profile,
        setting=setting + suffix,
        image=recorded.image,
        reasoning=recorded.reasoning,
    )
    golds = recorded.gold or ()
    if setting == ANSWERING:
        answer = str(recorded.generation)
        is_correct = _is_right(answer, golds, get_fidelity(recorded.profile))
        return replace(record, prediction=recorded.generation, correct=is_correct)
    # Log-probabilities replace logits: they differ from them by a constant, which cancels in every
    # margin.
    labels = recorded.labels or ()
    log_probabilities = recorded.label_log_probabilities or ()
    logits = dict(zip(labels, log_probabilities, strict=True))
    label = recorded.label
    if setting == PAIRWISE:
        return _judge_pair(record, label, golds[0], logits)
    if setting == SINGLE:
        return _judge_single(record, label, logits)
    record = replace(record, prediction=label, correct=label in golds)
    if not logits:
        return record
    probabilities = compute_softmax(list(logits.values()))
    return replace(record, score=max(logits.values()), probability=max(probabilities))


def _judge_pair(
    record: EvaluationRecord, label: str | None, gold: str, logits: Mapping[str, float]
) -> EvaluationRecord:
    """Return the record of a choice between caption and foil; the gold label is the label of the
    caption.
    """
    caption_label, foil_label = LABELS
    order = "caption-first"
    if gold == foil_label:
        foil_label, caption_label = LABELS
        order = "foil-first"
    is_correct = label == gold
    record = replace(
        record,
        role="caption",
        order=order,
        prediction="caption" if is_correct else "foil",
        correct=is_correct,
    )
    return _add_margin(record, logits, caption_label, foil_label)


def _judge_single(
    record: EvaluationRecord, label: str | None, logits: Mapping[str, float]
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


def _is_right(answer: str, golds: Sequence[str], fidelity: Fidelity) -> bool:
    """Return whether an open answer is right by the rules of its profile."""
    if fidelity.open_answers == "substring":
        # Annotators gave several gold answers (VQA); GQA has a single answer.
        annotators = golds if len(golds) > 1 else []
        return contains_gold_answer(answer, golds[0], annotators)
    return any(gives_answer(answer, gold) for gold in golds)
