"""Recorded runs: JSON lines with the answers, test verdicts and attributions of a model that was
run elsewhere.

    python -m waltz.sources.formats.recorded_runs

writes the JSON schema of a line, workflow/waltz/resources/recorded-run.schema.json, from the
classes below.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails

from waltz.core.errors import UserError, shorten_value
from waltz.core.files.atomic import write_text
from waltz.core.files.json_objects import JsonObject
from waltz.core.files.resources import RESOURCES
from waltz.sources.raw_files import read_json_lines
from waltz.sources.records import RecordedRecord

SCHEMA_FILE = RESOURCES / "recorded-run.schema.json"
Text = Annotated[str, StringConstraints(min_length=1)]
Identifier = Text | int
Numbers = list[float] | list[list[float]]
Kind = Literal["post-hoc", "cot"]
RATIO, SHAPLEY = "ratio", "shapley"


class Line(BaseModel):
    """Fields of every line."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )

    model: Text
    """The model, by its name in the study or its id on the hub."""
    dataset: Text
    """The data set, by the name that the study gives to the file."""
    item_id: Identifier
    """Id of the item, the same in all lines about it."""
    commit: Text | None = None
    """Commit of the model's weights."""
    profile: Literal["published", "equations"] = "published"
    """Rules that the run followed; only `published` is compared with the papers."""
    setting: Literal["choice", "pairwise", "single", "open"] = "choice"
    """Form of the question: a choice among labels about text alone, between caption and foil of an
    image, of one text that fits an image or not, or an open question.
    """
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 0
    """Seed of the run; each seed is a separate run."""
    image: Text | None = None
    """Name of the image; intervals resample images."""
    input: str | None = None
    """The item in words, as it stands in the prompt."""
    prompt: str | None = None
    """The whole prompt."""
    generation: str | None = None
    """What the model generated after the prompt."""


class AnswerLine(Line):
    """An answer of the model to an item."""

    record: Literal["answer"]
    kind: Kind = "post-hoc"
    """`cot` for an answer after a chain of thought, `post-hoc` for an answer at once."""
    label: Text | None = None
    """The label that the model chose; the likeliest of `label_log_probabilities` where absent."""
    label_log_probabilities: dict[str, float] | None = None
    """Natural logarithm of the probability of each label as the next token; any constant may be
    added.
    """
    gold: Text | Annotated[list[Text], Field(min_length=1)]
    """The right label; of an open question the right answer, or the answers of all annotators."""
    role: Literal["caption", "foil", "mismatched"] | None = None
    """Role of the text in the setting `single`, where label A says that it fits the image."""
    reasoning: str | None = None
    """The chain of thought before the answer."""


class TestLine(Line):
    """The verdict of a self-consistency test on an item."""

    record: Literal["test"]
    test: Literal[
        "counterfactual_edits",
        "input_from_explanation",
        "biasing_features",
        "early_answering",
        "filler_tokens",
        "adding_mistakes",
        "paraphrasing",
    ]
    """The test."""
    verdict: Annotated[int, Field(ge=0, le=1)] | None
    """1 where the model is consistent, 0 where it is not, null where there is no verdict."""
    reason: str | None = None
    """Reason of the verdict, or why there is none."""
    answer: str | None = None
    """Answer to the unedited item."""
    edited_answer: str | None = None
    """Answer after the edit."""
    explanation: str | None = None
    """Explanation, or chain of thought, of the unedited item."""
    edited_input: str | None = None
    """The item in words after the edit."""
    edited_explanation: str | None = None
    """Explanation after the edit, or the edited chain of thought."""
    inserted: str | None = None
    """Inserted word, or suggested answer."""
    flipped: bool | None = None
    """Of counterfactual edits, whether the described edit changed the answer."""


class AttributionLine(Line):
    """Contributions of the players of a prompt to an answer or to an explanation of it."""

    record: Literal["attribution"]
    kind: Kind = "post-hoc"
    """Kind of explanation that answer and explanation belong to."""
    output: Literal["answer", "explanation"]
    """The text that is explained; CC-SHAP compares both outputs of an item and kind."""
    tokens: list[str]
    """Text players in the order of the prompt."""
    values: Numbers
    """A number for each text player, or for each a list of numbers, one for each output token.
    `ratio` leaves out the players of the query suffix.
    """
    unit: Literal["ratio", "shapley"]
    """`ratio`: contribution ratios in percent, averaged over the output tokens; `shapley`: Shapley
    values.
    """
    suffix: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Number of text players at the end that ask for this output; of Shapley values they are left
    out of CC-SHAP.
    """
    grid: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    """Patches on a side of the image."""
    patches: Numbers | None = None
    """Values of the grid x grid patches, row by row, like `values`."""
    t_shap: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the text, between 0 and 1, over all players."""
    cc_shap: Annotated[float, Field(ge=-1, le=1)] | None = None
    """CC-SHAP as the run computed it; waltz computes it again and records the difference."""


RecordedLine = AnswerLine | TestLine | AttributionLine
LINE: TypeAdapter[RecordedLine] = TypeAdapter(
    Annotated[RecordedLine, Field(discriminator="record")]
)


def read_recorded_lines(
    path: str | Path, dataset: str, source: str, datasets: Sequence[str] = ()
) -> Iterator[RecordedRecord]:
    """Yield the lines about one data set; lines about unknown data sets are rejected.

    Args:
        path: JSON lines.
        dataset: Name of the data set.
        source: Name of the source.
        datasets: Names of the data sets that the other files of the source are read for; a file may
            be named for several data sets, so lines about these are left to them.
    Raises:
        UserError: A line is not a record; the message names file, line and field.
    """
    first_lines: dict[object, int] = {}
    for number, entry in read_json_lines(path):
        # One file may hold the lines of several data sets.
        line = _parse_line(entry, f"{path}: line {number}")
        is_of_dataset = line.dataset == dataset
        if not is_of_dataset and line.dataset in datasets:
            continue
        row = build_row(line, source, f"{dataset}:{number}")
        rejected = _find_fault(line, row)
        if not is_of_dataset:
            names = ", ".join(datasets) or dataset
            rejected = f"data set {line.dataset!r} is not among the files of the source ({names})"
        elif rejected is None:
            first = first_lines.setdefault(get_identity(row), number)
            if first != number:
                rejected = f"line {first} holds the same record"
        yield replace(row, rejected=rejected)


def build_row(line: RecordedLine, source: str, source_id: str) -> RecordedRecord:
    """Return a line as a row, which is not rejected yet."""
    columns = line.model_dump(exclude={"item_id"})
    if isinstance(line, AnswerLine):
        columns |= _build_answer_columns(line)
    if isinstance(line, AttributionLine):
        columns["values"] = _list_by_player(line.values)
        columns["patches"] = line.patches and _list_by_player(line.patches)
    return RecordedRecord(
        source=source, source_id=source_id, item_id=str(line.item_id), **columns
    )


def _build_answer_columns(answer: AnswerLine) -> dict[str, object]:
    """Return the columns of an answer that are stored in another form than in its line."""
    gold = answer.gold
    if isinstance(gold, str):
        gold = [gold]
    scores = answer.label_log_probabilities
    if not scores:
        return {"gold": gold, "label_log_probabilities": None}
    return {
        "gold": gold,
        "labels": list(scores),
        "label_log_probabilities": list(scores.values()),
        # Without a label, the likeliest label is the answer.
        "label": answer.label or max(scores, key=lambda label: scores[label]),
    }


def build_line_schema() -> str:
    """Return the JSON schema of a line."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **LINE.json_schema(),
    }
    simplified = json.loads(json.dumps(schema), object_hook=_simplify_schema)
    return json.dumps(simplified, indent=1, ensure_ascii=False) + "\n"


def _parse_line(entry: JsonObject, location: str) -> RecordedLine:
    try:
        return LINE.validate_python(entry)
    except ValidationError as error:
        # Report the first fault only, by the field of the line.
        fault = error.errors()[0]
        raise UserError(f"{location}: {_describe_fault(fault, entry)}") from None


def _describe_fault(fault: ErrorDetails, entry: JsonObject) -> str:
    """Return what is wrong with a line, and what to do."""
    if fault["type"].startswith("union_tag"):
        record = entry.get("record", "nothing")
        return f"field 'record': got {record!r}, expected answer, test or attribution; correct the line"
    # The path of a fault begins with the kind of record: ("answer", "gold", ...); it is empty
    # where a text cannot be decoded.
    field = "".join(map(str, fault["loc"][1:2]))
    if fault["type"] == "extra_forbidden":
        return f"field {field!r} is unknown; see docs/reference/recorded-runs.md"
    if fault["type"] == "missing":
        return f"field {field!r} is missing; see docs/reference/recorded-runs.md"
    value = shorten_value(repr(entry.get(field)))
    expected = fault["msg"].removeprefix("Input should be ")
    return f"field {field!r}: got {value}, expected {expected}; correct the line"


get_identity = attrgetter(
    "record",
    "model",
    "dataset",
    "item_id",
    "profile",
    "setting",
    "seed",
    "kind",
    "role",
    "test",
    "output",
)
"""Return the values that no two rows of a file share."""


def _list_by_player(values: Numbers) -> list[list[float]]:
    """Return for each player the list of its values, one for each output."""
    by_player: list[list[float]] = []
    for value in values:
        # A single output may be written as a number.
        by_player.append(value if isinstance(value, list) else [value])
    return by_player


def _find_fault(line: RecordedLine, row: RecordedRecord) -> str | None:
    """Return the reason why a well-formed line cannot be used; None where it can."""
    if isinstance(line, AnswerLine):
        return find_answer_fault(row)
    if isinstance(line, AttributionLine):
        return find_attribution_fault(
            unit=line.unit,
            n_tokens=len(line.tokens),
            values=row.values or (),
            patches=row.patches or (),
            suffix=line.suffix,
            grid=line.grid or 0,
        )
    return None


def find_answer_fault(row: RecordedRecord) -> str | None:
    """Return the reason why a row with an answer cannot be used; None where it can."""
    if row.setting == "open":
        if row.generation is None:
            return "an open question without a generation"
        return None
    if row.label is None:
        return "neither label nor label_log_probabilities"
    if row.labels:
        fault = _find_label_fault(row.label, row.labels, row)
        if fault is not None:
            return fault
    if row.setting == "single" and row.role is None:
        return "a single text without a role"
    return None


def _find_label_fault(
    label: str, labels: Sequence[str], row: RecordedRecord
) -> str | None:
    """Return why the log-probabilities of an answer's labels cannot be used; None where they can."""
    log_probabilities = np.array(row.label_log_probabilities)  # (labels,)
    if (np.isnan(log_probabilities) | np.isposinf(log_probabilities)).any():
        return "a label's log-probability is not a number"
    if np.isneginf(log_probabilities).all():
        return "every label's log-probability is minus infinity"
    # Chosen and right label must have a log-probability.
    gold = row.gold or []
    if not {label, *gold} <= set(labels):
        return (
            f"label {label} or gold {', '.join(gold)} is not among {', '.join(labels)}"
        )
    return None


def find_attribution_fault(
    *,
    unit: str,
    n_tokens: int,
    values: Sequence[Sequence[float]],
    patches: Sequence[Sequence[float]],
    suffix: int,
    grid: int,
) -> str | None:
    """Return the reason why an attribution cannot be used; None where it can.

    Args:
        unit: Unit of the values, `ratio` or `shapley`.
        n_tokens: Number of text players, those of the query suffix included.
        values: Values of the text players, players x outputs.
        patches: Values of the patches, patches x outputs.
        suffix: Number of text players at the end that are the query suffix.
        grid: Number of patches on a side of the image; 0 without patches.
    """
    n_values = len(values)
    # Ratios may leave out the players of the query suffix; Shapley values are of all tokens.
    if unit == RATIO and n_values not in (n_tokens, n_tokens - suffix):
        return f"{n_values} ratios for {n_tokens} tokens, of which {suffix} are the query suffix"
    if unit == SHAPLEY and n_values != n_tokens:
        return f"{n_values} values for {n_tokens} tokens"
    if len(patches) != grid**2:
        return f"{len(patches)} values of patches for a grid of {grid} x {grid}"
    if n_values == 0 or suffix >= n_tokens:
        return "no token before the query suffix"

    players = [*values, *patches]
    n_outputs = sorted(set(map(len, players)))
    if n_outputs[0] == 0 or len(n_outputs) > 1:
        return f"the players have different numbers of outputs: {', '.join(map(str, n_outputs))}"
    # (players, outputs)
    if not np.isfinite(players).all():
        return "a value is not a number"
    return None


def _simplify_schema(schema: JsonObject) -> JsonObject:
    """Return a part of a JSON schema without its title, its description on one line."""
    schema.pop("title", None)
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    return schema


if __name__ == "__main__":
    write_text(SCHEMA_FILE, build_line_schema())
