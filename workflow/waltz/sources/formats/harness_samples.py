"""Sample logs of lm-evaluation-harness and lmms-eval (`--log_samples`): one answer of one model in
each line.
"""

from collections.abc import Iterator, Mapping
from string import ascii_uppercase
from typing import Any

from pydantic import ValidationError

from waltz.core.errors import UserError
from waltz.core.text_diff import SAME_TEXT, are_same_text
from waltz.sources.formats.recorded_runs import Answer, build_row, find_answer_fault
from waltz.sources.raw_files import read_json_lines

PAIR = {"caption", "foil"}
"""Fields of a document that is a pair of caption and foil."""


def read_samples(path: str, dataset: str) -> Iterator[dict[str, Any]]:
    """Yield the answers of a log as rows of the layout `RECORDED`, in profile `equations`.

    A multiple choice has the log-likelihoods of its options, of lmms-eval's exported tasks only
    whether the caption was chosen; any other sample is a generated answer to an open question. The
    model is that of the study's entry.

    Args:
        path: `samples_<task>_<time>.jsonl`.
        dataset: Name of the data set.
    Raises:
        UserError: A line is no sample; the message names file, line and field.
    """
    first_lines: dict[str, int] = {}
    for number, sample in read_json_lines(path):
        location = f"{path}: line {number}"
        try:
            fields = (
                _read_options(sample)
                if _is_choice(sample)
                else _read_generation(sample)
            )
            document = sample["doc"]
            answer = Answer(
                record="answer",
                model=" ",
                dataset=dataset,
                item_id=document.get("item_id", sample["doc_id"]),
                profile="equations",
                image=document.get("image_file"),
                **fields,
            )
        except KeyError as error:
            raise UserError(
                f"{location}: field {error.args[0]!r} is missing; log samples with --log_samples, and name a file"
                " samples_….jsonl"
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
                f"{location}: is no sample of lm-eval or lmms-eval; name a file samples_….jsonl of a task with"
                " output_type multiple_choice or generate_until"
            ) from None
        # A log does not name its model; the entry of the study does.
        row = build_row(answer) | {"model": None}
        # A task with several filters logs each item once for each filter.
        rejected = find_answer_fault(row) or _find_pair_fault(document)
        if (
            rejected is None
            and first_lines.setdefault(row["item_id"], number) != number
        ):
            rejected = f"line {first_lines[row['item_id']]} holds the same item, by another filter"
        yield {**row, "source_id": f"{dataset}:{number}", "rejected": rejected}


def _find_pair_fault(document: Mapping[str, Any]) -> str | None:
    """Return why the pair of a document cannot be an item; None where it can, or where it is no
    pair.
    """
    texts = [document.get(name) for name in ("caption", "foil")]
    if all(isinstance(text, str) for text in texts) and are_same_text(*map(str, texts)):
        return SAME_TEXT
    return None


def _is_choice(sample: Mapping[str, Any]) -> bool:
    """Return True where a sample has a log-likelihood for each option, False for generated text."""
    if not isinstance(sample["filtered_resps"], list):
        raise TypeError("filtered_resps")
    return isinstance(sample["filtered_resps"][0], list)


def _read_options(sample: Mapping[str, Any]) -> dict[str, Any]:
    # Options have no names in the log; their order gives the labels A, B, ...
    scores = [float(score) for score, _ in sample["filtered_resps"]]
    labels = ascii_uppercase[: len(scores)]
    return {
        "setting": "pairwise" if sample["doc"].keys() >= PAIR else "choice",
        "label_log_probabilities": dict(zip(labels, scores, strict=True)),
        "gold": labels[_read_number(sample["target"], range(len(labels)))],
        "prompt": _get_prompt(sample),
    }


def _read_generation(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a generated answer; of an exported task the label is read from its
    metrics.
    """
    generation, target = sample["filtered_resps"][0], sample["target"]
    fields = {"generation": generation, "prompt": _get_prompt(sample)}
    if sample["doc"].keys() >= PAIR and "answered" in sample:
        label = None
        # The log says only whether the answer is right: a wrong answer is the other label.
        wrong_label = None
        if isinstance(target, str):
            wrong_label = {"A": "B", "B": "A"}[target]
        is_answered = _read_number(sample["answered"], range(2))
        is_right = _read_number(sample["acc"], range(2))
        if is_answered:
            label = target if is_right else wrong_label
        return fields | {"setting": "pairwise", "label": label, "gold": target}
    return fields | {"setting": "open", "gold": target}


def _read_number(value: Any, allowed: range) -> int:
    """Return a number that a log holds as a number or a text, as lm-eval and lmms-eval write it."""
    number = float(value)
    if isinstance(value, bool) or number not in allowed:
        raise ValueError(value)
    return int(number)


def _get_prompt(sample: Mapping[str, Any]) -> str | None:
    """Return the prompt of the first request: lm-eval names requests and arguments, lmms-eval has
    `input`.
    """
    arguments = sample.get("arguments")
    if isinstance(arguments, dict):
        arguments = [list(request.values()) for request in arguments.values()]
    if not isinstance(arguments, list | None):
        raise TypeError("arguments")
    return str(arguments[0][0]) if arguments else sample.get("input")
