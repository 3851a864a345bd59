"""Sample logs of lm-evaluation-harness and lmms-eval (`--log_samples`): one answer of one model in
each line.
"""

from collections.abc import Iterator
from dataclasses import replace
from string import ascii_uppercase
from typing import Any

from pydantic import ValidationError

from waltz.core.errors import UserError
from waltz.core.files.json_objects import JsonObject
from waltz.core.text_diff import SAME_TEXT, are_same_text
from waltz.sources.formats.recorded_runs import AnswerLine, build_row, find_answer_fault
from waltz.sources.raw_files import read_json_lines
from waltz.sources.records import RecordedRecord

PAIR = {"caption", "foil"}
"""Fields of a document that is a pair of caption and foil."""
OTHER_LABEL = {"A": "B", "B": "A"}
"""The wrong label of a pair, by the right one."""


def read_samples(path: str, dataset: str, source: str) -> Iterator[RecordedRecord]:
    """Yield the answers of a log as rows of profile `equations`.

    A multiple choice has the log-likelihoods of its options, of lmms-eval's exported tasks only
    whether the caption was chosen; any other sample is a generated answer to an open question. The
    model is that of the study's entry.

    Args:
        path: `samples_<task>_<time>.jsonl`.
        dataset: Name of the data set.
        source: Name of the source.
    Raises:
        UserError: A line is not a sample; the message names file, line and field.
    """
    first_lines: dict[str, int] = {}
    for number, sample in read_json_lines(path):
        try:
            row = _build_row(sample, dataset, source, f"{dataset}:{number}")
        except KeyError as error:
            raise UserError(
                f"{path}: line {number}: field {error.args[0]!r} is missing; log samples with --log_samples, and name"
                " a file samples_….jsonl"
            ) from None
        except (
            ValidationError,
            AttributeError,
            IndexError,
            OverflowError,
            TypeError,
            ValueError,
        ):
            raise UserError(
                f"{path}: line {number}: is not a sample of lm-eval or lmms-eval; name a file samples_….jsonl of a task"
                " with output_type multiple_choice or generate_until"
            ) from None
        rejected = find_answer_fault(row) or _find_pair_fault(sample["doc"])
        if rejected is None:
            # A task with several filters logs each item once for each filter.
            first = first_lines.setdefault(row.item_id, number)
            if first != number:
                rejected = f"line {first} holds the same item, by another filter"
        yield replace(row, rejected=rejected)


def _build_row(
    sample: JsonObject, dataset: str, source: str, source_id: str
) -> RecordedRecord:
    """Return the row of a sample, which is not rejected yet; samples of another form raise errors
    of many types.
    """
    # A multiple choice has a list for each option, a generation a text.
    responses = sample["filtered_resps"]
    if not isinstance(responses, list):
        raise TypeError("filtered_resps")
    if isinstance(responses[0], list):
        fields = _read_options(sample)
    else:
        fields = _read_generation(sample)
    document = sample["doc"]
    answer = AnswerLine.model_validate(
        {
            "record": "answer",
            "model": " ",
            "dataset": dataset,
            "item_id": document.get("item_id", sample["doc_id"]),
            "profile": "equations",
            "image": document.get("image_file"),
            "prompt": _get_prompt(sample),
            **fields,
        }
    )
    # A log does not name its model; the entry of the study does.
    return replace(build_row(answer, source, source_id), model=None)


def _find_pair_fault(document: JsonObject) -> str | None:
    """Return why the pair of a document cannot be an item; None where it can, or where it is no
    pair.
    """
    caption = document.get("caption")
    foil = document.get("foil")
    if not isinstance(caption, str) or not isinstance(foil, str):
        return None
    return SAME_TEXT if are_same_text(caption, foil) else None


def _read_options(sample: JsonObject) -> dict[str, object]:
    """Return the fields of an answer with the log-likelihoods of its options."""
    # Options have no names in the log; their order gives the labels A, B, ...
    scores = [float(score) for score, _ in sample["filtered_resps"]]
    labels = ascii_uppercase[: len(scores)]
    setting = "choice"
    if sample["doc"].keys() >= PAIR:
        setting = "pairwise"
    return {
        "setting": setting,
        "label_log_probabilities": dict(zip(labels, scores, strict=True)),
        "gold": labels[_read_number(sample["target"], range(len(labels)))],
    }


def _read_generation(sample: JsonObject) -> dict[str, object]:
    """Return the fields of a generated answer; of an exported task the label is read from its
    metrics.
    """
    target = sample["target"]
    fields = {"generation": sample["filtered_resps"][0], "gold": target}
    is_exported = sample["doc"].keys() >= PAIR and "answered" in sample
    if not is_exported:
        return fields | {"setting": "open"}

    if target not in OTHER_LABEL:
        raise ValueError(target)
    label = None
    is_answered = _read_number(sample["answered"], range(2))
    is_right = _read_number(sample["acc"], range(2))
    if is_answered:
        # The log says only whether the answer is right: a wrong answer is the other label.
        label = target if is_right else OTHER_LABEL[target]
    return fields | {"setting": "pairwise", "label": label}


def _read_number(value: Any, allowed: range) -> int:
    """Return a number that a log holds as a number or a text, as lm-eval and lmms-eval write it."""
    number = float(value)
    if isinstance(value, bool) or number not in allowed:
        raise ValueError(value)
    return int(number)


def _get_prompt(sample: JsonObject) -> str | None:
    """Return the prompt of the first request: lm-eval names requests and arguments, lmms-eval has
    `input`.
    """
    requests = sample.get("arguments")
    if requests in (None, [], {}):
        return sample.get("input")
    if isinstance(requests, dict):
        requests = [list(arguments.values()) for arguments in requests.values()]
    if not isinstance(requests, list):
        raise TypeError("arguments")
    return str(requests[0][0])
