"""Results of the released CC-SHAP code: JSON of both releases, and a Markdown form with the texts
of the tests.

The release for language models writes an object of items `<task>_<model>_<k>` with plain fields;
its public fork writes the same fields as Markdown, and the texts of the tests as `..._exp`. The
release for VL decoders puts the fields into the objects `post-hoc` and `cot`. Of language models
`accuracy`, `accuracy_cot` and `atanasova_input_from_expl` are running totals; accuracies are
computed again, the test's verdicts are differences.
"""

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError, shorten_value
from waltz.core.files.json_objects import JsonObject
from waltz.sources.formats.recorded_runs import (
    RATIO,
    find_answer_fault,
    find_attribution_fault,
)
from waltz.sources.raw_entry import RawEntry
from waltz.sources.raw_files import read_object_entries, read_text_lines
from waltz.sources.records import RecordedRecord

FIELDS = (
    "input",
    "correct_answer",
    "model_input",
    "model_prediction",
    "model_input_cot",
    "model_prediction_cot",
    "accuracy",
    "accuracy_cot",
    "atanasova_counterfact",
    "atanasova_input_from_expl",
    "cc_shap-posthoc",
    "turpin",
    "lanham_early",
    "lanham_mistake",
    "lanham_paraphrase",
    "lanham_filler",
    "cc_shap-cot",
    "other_measures_post_hoc",
    "other_measures_cot",
    "shap_plot_info_post_hoc",
    "shap_plot_info_cot",
    "atanasova_counterfact_exp",
    "atanasova_input_from_expl_exp",
    "cc_shap_posthoc_exp",
    "turpin_exp",
    "lanham_etal_exp",
    "cc_shap_cot_exp",
)
"""Fields of an item of the release for language models and its fork, in the order in which they are
written.
"""
REQUIRED = ("correct_answer", "model_prediction")
"""Fields without which an item cannot be used."""
GROUPS = ("post-hoc", "cot")
"""Objects that group the fields in the release for VL decoders, which are also the kinds of
explanation.
"""
RENAMED = {
    "input": "sample",
    "model_prediction": "prediction",
    "model_prediction_cot": "pred_cot",
    "model_input_cot": "inp_cot_askpred",
}
"""Name of a field in the release for VL decoders, by its name in the other release."""
PLOTS = {"post-hoc": "shap_plot_info_post_hoc", "cot": "shap_plot_info_cot"}
CC_SHAPS = {"post-hoc": "cc_shap-posthoc", "cot": "cc_shap-cot"}
T_SHAPS = {
    ("post-hoc", "answer"): "t-shap_post_hoc",
    ("post-hoc", "explanation"): "t-shap_expl_post_hoc",
    ("cot", "answer"): "t-shap_cot",
    ("cot", "explanation"): "t-shap_expl_cot",
}
PLOT_PARTS = {
    "answer": ("input_tokens", "ratios_prediction", "len_marg_pred"),
    "explanation": ("expl_input_tokens", "ratios_explanation", "len_marg_expl"),
}
"""Names of tokens, contribution ratios and length of the query suffix in a plot, by output."""
COUNTERFACTUAL = "atanasova_counterfact"
FROM_EXPLANATION = "atanasova_input_from_expl"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedTest:
    """A self-consistency test of the released code.

    Attributes:
        name: Name of the test in waltz.
        note: Name of the fork's text about the test, without its ending.
        information: Name of the field in which the release for VL decoders keeps what the test
            generated; one field for all tests that corrupt the chain of thought.
        ending: End of the names of the fields with the unedited answer: `_cot` for a test that
            asks after a chain of thought.
        corruption: For a test that corrupts the chain of thought, the names of the new answer and
            of the corrupted chain of thought in the fork's text; None for other tests.
    """

    name: str
    note: str
    information: str
    ending: str = "_cot"
    corruption: tuple[str, str] | None = None


def _build_corrupting_test(name: str, answer: str, edited: str) -> ReleasedTest:
    """Return a test that corrupts the chain of thought; four such tests share their texts."""
    return ReleasedTest(
        name=name,
        note="lanham_etal",
        information="lanham_early_info",
        corruption=(f"predicted_label_{answer}", edited),
    )


TESTS = {
    COUNTERFACTUAL: ReleasedTest(
        name="counterfactual_edits",
        note=COUNTERFACTUAL,
        information="atanasova_counterfact_info",
        ending="",
    ),
    FROM_EXPLANATION: ReleasedTest(
        name="input_from_explanation",
        note=FROM_EXPLANATION,
        information="atanasova_input_from_expl_info",
        ending="",
    ),
    "turpin": ReleasedTest(
        name="biasing_features", note="turpin", information="turpin_info"
    ),
    "lanham_early": _build_corrupting_test(
        "early_answering", "early_answering", "truncated_cot"
    ),
    "lanham_filler": _build_corrupting_test(
        "filler_tokens", "filler_tokens", "filled_filler_tokens"
    ),
    "lanham_mistake": _build_corrupting_test(
        "adding_mistakes", "mistake", "added_mistake"
    ),
    "lanham_paraphrase": _build_corrupting_test(
        "paraphrasing", "paraphrasing", "new_generated_cot"
    ),
}
"""The tests by the field of their verdict."""
TEXT_FIELDS = (
    "image_path",
    "input",
    "sample",
    "model_input",
    "model_prediction",
    "prediction",
    "model_input_cot",
    "inp_cot_askpred",
    "model_prediction_cot",
    "pred_cot",
)
"""Fields that hold texts, in either release."""
COMVE_TASK = "comve"
NO_EDIT = "Uncaught exception"
"""Text of the test of counterfactual edits where no edit changed the answer."""
MARKDOWN_ITEM = re.compile(r"^### (\S+?)_(\d+) *$")
MARKDOWN_NAME = re.compile(r"\W*([\w-]+)\W*:")
"""Beginning of a line that may be meant as the name of a field, also in bold or as a list."""
SHOWN_NAMES = 6
"""Largest number of names that a fault lists."""
KEY = re.compile(r"^(.+)_(\d+)$")
SUGGESTION = re.compile(r"I think the answer is (.+?) but I'm curious")
MENTION = re.compile(r'\s*"suggested" in explanation: ')
FOUND_PHRASE = re.compile(r'"([a-z ]+)" in explanation: True')
"""Phrase of the released list that the fork found in the chain of thought."""
SEPARATOR = re.compile(r"(,[ \t]*|[ \t]{2,}|[ \t])\n[ \t]*\Z|,[ \t]*\n\Z")
"""End of the value of a `name: value,` entry that another entry follows."""
Verdict = tuple[int | None, str | None]
"""Verdict of a test and None; or None and the reason why there is no verdict."""


@dataclass(frozen=True)
class ResultItem:
    """One item of a results file.

    Attributes:
        run: Task and model, as the released code joins them.
        number: Position of the item in the run, from 0.
        fields: Fields by their name in the release for language models.
        locations: File and line of the item (key ``""``) and of its fields, where they are known.
        named_lines: Of the Markdown form, number of the first line that begins with each name, in
            whatever form.
        reads_images: Whether the file is of the release for VL decoders.
    """

    run: str
    number: int
    fields: JsonObject
    locations: Mapping[str, str]
    named_lines: Mapping[str, int]
    reads_images: bool = False

    def locate(self, name: str = "") -> str:
        """Return the location of a field, or of the item."""
        return self.locations.get(name, self.locations[""])

    def list_present(self) -> list[str]:
        """Return the names of the fields that have a value."""
        return [name for name, value in self.fields.items() if value is not None]

    @property
    def gold(self) -> list[str]:
        """The right answers: one, or those of all annotators."""
        answers = self.fields.get("correct_answer")
        if not isinstance(answers, list):
            answers = [answers]
        return [str(answer) for answer in answers]

    @property
    def notes(self) -> Mapping[str, str]:
        """Texts of the tests by test, as the fork writes them; empty where the test was not run."""
        ending = "_exp"
        notes: dict[str, str] = {}
        for name, text in self.fields.items():
            if name.endswith(ending):
                notes[name.removesuffix(ending)] = str(text)
        return notes


def read_recorded_results(
    path: str | Path, dataset: str, source: str
) -> Iterator[RecordedRecord]:
    """Yield answers, test verdicts and attributions.

    Args:
        path: JSON, or the Markdown form.
        dataset: Name of the data set.
        source: Name of the source.
    Raises:
        UserError: The file is in neither form, or no item of it can be used; the message names file,
            line and field.
    """
    items = read_result_items(path)
    faults = list(filter(None, map(_find_missing_field, items)))
    # A whole file in another form is no result of which single items failed.
    if len(faults) == len(items):
        raise UserError(f"{faults[0]} (none of {len(items)} items can be used)")
    verdicts = list_input_from_explanation_verdicts(items)
    occurrences: Counter[tuple[str, int]] = Counter()
    for item in items:
        # A file may hold an item twice; only its first occurrence is used.
        occurrences[item.run, item.number] += 1
        occurrence = occurrences[item.run, item.number]
        verdict = verdicts.get((item.run, item.number))
        for row in _build_rows(item, dataset, source, verdict):
            if occurrence > 1:
                row = replace(
                    row,
                    source_id=f"{row.source_id}:{occurrence}",
                    rejected=f"{item.locate()}: item {item.number} occurs twice",
                )
            yield row


def read_result_items(path: str | Path) -> list[ResultItem]:
    """Return the items of a results file in file order.

    Raises:
        UserError: The file is in neither form, holds no item, or has a field of a wrong type.
    """
    first = next(filter(None, map(str.strip, read_text_lines(path))), "")
    read = _read_json if first.startswith("{") else _read_markdown
    items = list(read(path))
    if not items:
        raise UserError(
            f"{path}: line 1: no item: got {shorten_value(repr(first))}, expected a JSON object or '###"
            " <task>_<model>_<k>'; name a results file of the released CC-SHAP code"
        )
    return items


def list_input_from_explanation_verdicts(
    items: Sequence[ResultItem],
) -> dict[tuple[str, int], Verdict]:
    """Return the verdicts of the test `input_from_explanation`, or the reasons why there is none,
    by run and item.

    The released code stores the number of consistent items so far. Values that fall are no totals:
    where all of them are 0 or 1 they are the verdicts. The release runs the test on ComVE alone and
    stores 0 for other tasks.
    """
    totals_by_run: dict[str, dict[int, int]] = {}
    for item in items:
        total = _parse_integer(item.fields.get(FROM_EXPLANATION))
        if total is not None:
            totals_by_run.setdefault(item.run, {}).setdefault(item.number, total)

    verdicts: dict[tuple[str, int], Verdict] = {}
    for run, totals in totals_by_run.items():
        # Zeros of other tasks mean that the test was not run.
        is_run = run.startswith(COMVE_TASK) or any(totals.values())
        if not is_run:
            continue
        for number, verdict in _read_totals(totals).items():
            verdicts[run, number] = verdict
    return verdicts


def _read_totals(totals: Mapping[int, int]) -> dict[int, Verdict]:
    """Return the verdict of each item of a run from its running totals."""
    # Totals never fall; values of 0 and 1 that fall are the verdicts themselves.
    ordered = [totals[number] for number in sorted(totals)]
    falls = any(later < earlier for earlier, later in pairwise(ordered))
    if falls and set(ordered) <= {0, 1}:
        return {number: (total, None) for number, total in totals.items()}

    verdicts: dict[int, Verdict] = {}
    previous = -1
    previous_total = 0
    for number in sorted(totals):
        step = totals[number] - previous_total
        n_missing = number - previous - 1  # items before it without a total
        verdicts[number] = _judge_step(step, n_missing)
        previous = number
        previous_total = totals[number]
    return verdicts


def _judge_step(step: int, n_missing: int) -> Verdict:
    """Return the verdict of an item from the step of the running total over it and over missing
    items before it.
    """
    if step == 0:
        return 0, None
    if step == n_missing + 1:  # all of them are consistent
        return 1, None
    # The step may belong to this item or to a missing item.
    if n_missing and 0 < step <= n_missing:
        return None, f"{n_missing} items before it are missing from the running total"
    return None, f"the running total steps by {step} over {n_missing + 1} items"


def split_notes(text: str, names: Sequence[str]) -> dict[str, str]:
    """Return the values of a text of `name: value,` entries by name; the first value of a repeated
    name counts.

    Args:
        names: Names of the entries, each at the beginning of a line; text before the first entry is
            dropped.
    """
    pattern = re.compile(
        rf"^[ \t]*({'|'.join(map(re.escape, names))}): ?", re.MULTILINE
    )
    # The value of an entry ends where the next entry begins; the last one ends with the text.
    matches = list(pattern.finditer(text))
    ends = [match.start() for match in matches[1:]]
    values: dict[str, str] = {}
    for match, end in zip(matches, ends, strict=False):
        value = SEPARATOR.sub("", text[match.end() : end])
        values.setdefault(match[1], value)
    if matches:
        values.setdefault(matches[-1][1], text[matches[-1].end() :])
    return values


def _read_json(path: str | Path) -> Iterator[ResultItem]:
    for key, entry in read_object_entries(path, ""):
        location = f"{path}: item {key!r}"
        match = KEY.match(key)
        if match is None:
            raise UserError(
                f"{location}: got no number, expected '<task>_<model>_<k>'; correct its key"
            )
        for name in GROUPS:
            RawEntry(entry, location).read_optional(name, dict)  # checks the type
        # Only the release for VL decoders groups its fields.
        groups = [entry[name] for name in GROUPS if isinstance(entry.get(name), dict)]
        fields = dict(entry)
        for group in groups:
            fields |= group
        for name in TEXT_FIELDS:
            RawEntry(fields, location).read_optional(name, str)
        if isinstance(fields.get("correct_answer"), dict):
            raise UserError(
                f"{location}: field 'correct_answer' is an object, not a text or a list of texts; correct it"
            )
        # Grouped fields get the names of the other release.
        if groups:
            fields |= {name: fields.get(theirs) for name, theirs in RENAMED.items()}
        yield ResultItem(
            match[1], int(match[2]), fields, {"": location}, {}, bool(groups)
        )


def _read_markdown(path: str | Path) -> Iterator[ResultItem]:
    """Yield the items of the Markdown form; a heading of the first run after an empty line begins
    an item.
    """
    lines = list(read_text_lines(path))
    starts: list[int] = []
    headings: list[re.Match[str]] = []
    for position, line in enumerate(lines):
        heading = MARKDOWN_ITEM.match(line)
        # Generated text may contain headings; a real heading follows an empty line.
        if heading is None or not _follows_empty_line(lines, position):
            continue
        if not headings or heading[1] == headings[0][1]:
            starts.append(position)
            headings.append(heading)

    for heading, (start, end) in zip(
        headings, pairwise([*starts, len(lines)]), strict=True
    ):
        headers = find_headers(lines[start:end])
        locations = {"": f"{path}: line {start + 1}"}
        fields: JsonObject = {}
        # The text of a field ends before the next header, that of the last one with the item.
        positions = [start + position for position, _ in headers]
        for (_, name), (header, text_end) in zip(
            headers, pairwise([*positions, end]), strict=True
        ):
            text = "\n".join(lines[header + 1 : text_end])
            text = text.rstrip("\n").removesuffix(" ")
            fields[name] = _parse_value(name, text)
            locations[name] = f"{path}: line {header + 1}: field {name!r}"
        yield ResultItem(
            heading[1],
            int(heading[2]),
            fields,
            locations,
            named_lines=_number_named_lines(lines[start + 1 : end], start + 2),
        )


def _number_named_lines(lines: Sequence[str], first: int) -> dict[str, int]:
    """Return the number of the first line that begins with each name and a colon; `first` is the
    number of the first line.
    """
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines, first):
        match = MARKDOWN_NAME.match(line)
        if match is not None:
            numbers.setdefault(match[1], number)
    return numbers


def _follows_empty_line(lines: Sequence[str], position: int) -> bool:
    """Return whether a line is the first one, or the line before it is empty."""
    return position == 0 or not lines[position - 1].strip()


def find_headers(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return the positions and names of the lines that begin the fields of an item of the Markdown
    form.

    A field begins with its name and a colon after an empty line. Generated text may hold such lines
    as well, so the lines that give most fields in the order of the release are used, and of several
    ways the later ones.
    """
    # The longest chain of candidates with increasing field numbers; `chains` holds the best that
    # ends in each.
    chains: list[list[tuple[int, int]]] = [[]]
    for position in range(1, len(lines)):  # line 0 is the heading of the item
        if not _is_header(lines, position):
            continue
        number = FIELDS.index(lines[position].rstrip()[:-1])
        before = [chain for chain in chains if not chain or chain[-1][1] < number]
        longest = max(reversed(before), key=len)
        chains.append([*longest, (position, number)])
    chain = max(reversed(chains), key=len)
    return [(position, FIELDS[number]) for position, number in chain]


def _is_header(lines: Sequence[str], position: int) -> bool:
    """Return whether a line has the form of a field's first line."""
    line = lines[position].rstrip()
    is_name = line.endswith(":") and line[:-1] in FIELDS
    return is_name and (position == 1 or _follows_empty_line(lines, position))


def _parse_value(name: str, text: str) -> object:
    """Return a field of the Markdown form as its JSON form holds it; a text that cannot be read
    stays a text.
    """
    if not name.startswith("shap_plot_info"):
        return text
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _build_rows(
    item: ResultItem, dataset: str, source: str, from_explanation: Verdict | None
) -> Iterator[RecordedRecord]:
    """Yield all rows of an item.

    Args:
        from_explanation: Verdict of the test `input_from_explanation`; None where it was not run.
    """
    common = _build_common_row(item, dataset, source)
    rows = [_build_answer(item, kind, common) for kind in GROUPS]
    for field in TESTS:
        verdict = _read_verdict(item, field)
        if field == FROM_EXPLANATION:
            verdict = from_explanation  # the field holds a running total
        if verdict is not None:
            rows.append(_build_test(item, field, verdict, common))
    for kind in PLOTS:
        # The released code stores 0 where CC-SHAP was not computed.
        if item.fields.get(PLOTS[kind]) not in (None, 0, "", "0"):
            rows.append(_build_attribution(item, kind, "answer", common))
            rows.append(_build_attribution(item, kind, "explanation", common))

    # An item without answer is rejected with all its rows.
    fault = _find_missing_field(item)
    for row in rows:
        if fault is not None:
            row = replace(row, rejected=fault)
        parts = filter(None, (row.record, row.kind, row.test, row.output))
        source_id = f"{dataset}:{item.run}_{item.number}:{':'.join(parts)}"
        yield replace(row, source_id=source_id)


def _find_missing_field(item: ResultItem) -> str | None:
    """Return what to correct in an item that lacks a required field; None for a complete item."""
    missing = [name for name in REQUIRED if item.fields.get(name) is None]
    if not missing:
        return None
    name = missing[0]
    if item.reads_images:
        name = RENAMED.get(name, name)
    # The name may be there, in a form that begins no field.
    if name in item.named_lines:
        path, _, _ = item.locate().rpartition(": line ")
        return (
            f"{path}: line {item.named_lines[name]}: {name!r} begins no field; write '{name}:' alone on a line after an"
            " empty line, and its value below it"
        )
    names = list(item.named_lines) or item.list_present()
    shown = ", ".join(names[:SHOWN_NAMES]) or "no field"
    if len(names) > SHOWN_NAMES:
        shown += ", …"
    return (
        f"{item.locate()}: field {name!r} is missing (got {shown}); name the fields as in"
        " docs/reference/recorded-runs.md"
    )


def _read_verdict(item: ResultItem, field: str) -> Verdict | None:
    """Return the verdict of a test; None where the item lacks it."""
    if field not in item.fields:
        return None
    return _parse_integer(item.fields[field]), None


def _build_common_row(item: ResultItem, dataset: str, source: str) -> RecordedRecord:
    """Return a row with the columns that all rows of an item share; record and id are empty."""
    setting = "choice"
    if item.reads_images:
        setting = "pairwise" if item.gold in (["A"], ["B"]) else "open"
    return RecordedRecord(
        source=source,
        source_id="",
        record="",
        dataset=dataset,
        item_id=str(item.number),
        profile="published",
        setting=setting,
        seed=0,
        image=item.fields.get("image_path"),
        input=item.fields.get("input"),
    )


def _build_answer(
    item: ResultItem, kind: str, common: RecordedRecord
) -> RecordedRecord:
    """Return the answer of an item, at once or after a chain of thought."""
    ending = "_cot" if kind == "cot" else ""
    prompt = item.fields.get(f"model_input{ending}")
    prediction = item.fields.get(f"model_prediction{ending}")
    row = replace(common, record="answer", kind=kind, prompt=prompt, gold=item.gold)
    if kind == "cot" and prompt:
        row = replace(row, reasoning=find_reasoning(prompt))
    if row.setting == "open":
        row = replace(row, generation=prediction)
    else:
        row = replace(row, label=prediction)
    fault = find_answer_fault(row)
    if fault is None:
        return row
    return replace(row, rejected=f"{item.locate(f'model_prediction{ending}')}: {fault}")


def find_reasoning(prompt: str) -> str | None:
    """Return the chain of thought in the prompt for the answer after it, spaces and line breaks
    included.
    """
    _, marker, rest = prompt.partition("Let's think step by step:")
    # The chain of thought stands between two fixed sentences of the prompt.
    question = max(
        rest.rfind("The best answer is:"), rest.rfind("The best short answer is:")
    )
    if not marker or question < 0:
        return None
    end = rest.rfind("\n", 0, question)
    return rest[:end] if end >= 0 else None


def _build_test(
    item: ResultItem, field: str, verdict: Verdict, common: RecordedRecord
) -> RecordedRecord:
    """Return the verdict of a test with its texts, as far as the file has them.

    Args:
        field: Name of the field with the verdict.
        verdict: The verdict, or the reason why there is none; two Nones where the field cannot be
            read.
    """
    released = TESTS[field]
    row = replace(common, record="test", test=released.name)
    note = item.notes.get(released.note)
    information = item.fields.get(released.information)
    # An empty text, or 0 in place of the texts, means that the test was not run.
    has_empty_note = note is not None and not note.strip()
    if has_empty_note or information in (0, "0"):
        verdict = (None, "the run did not run this test")
    value, reason = verdict
    if value not in (0, 1) and reason is None:
        fault = f"verdict {item.fields[field]!r} is neither 0 nor 1"
        return replace(row, rejected=f"{item.locate(field)}: {fault}")

    answer = item.fields.get(f"model_prediction{released.ending}")
    row = replace(row, verdict=value, reason=reason, answer=answer)
    prompt = item.fields.get("model_input_cot")
    if prompt and released.ending:
        row = replace(row, explanation=find_reasoning(prompt))
    if note and not has_empty_note:
        return _add_note(row, item, field, note)
    if isinstance(information, list):
        return _add_information(row, field, information)
    return row


def _add_note(
    row: RecordedRecord, item: ResultItem, field: str, note: str
) -> RecordedRecord:
    """Return the row of a test with the columns that the fork's text about it holds."""
    corruption = TESTS[field].corruption
    if corruption is not None:
        return _add_corruption_note(row, field, corruption, note)
    if field == COUNTERFACTUAL:
        return _add_counterfactual_note(row, item, note)
    if field == FROM_EXPLANATION:
        return _add_explanation_note(row, item, note)
    return _add_suggestion_note(row, note)


def _add_corruption_note(
    row: RecordedRecord, field: str, corruption: tuple[str, str], note: str
) -> RecordedRecord:
    """Return the row of a test that corrupts the chain of thought with the columns of the fork's
    text.
    """
    texts = read_chain_of_thought_note(note)
    answer, edited = corruption
    row = replace(row, edited_answer=texts.get(answer))
    if edited not in texts:
        return row
    # The fork stores the new chain of thought alone, a whole prompt, or a prompt without its end.
    reasoning: str | None = texts[edited]
    if field == "lanham_filler":
        reasoning = find_reasoning(texts[edited])
    elif field != "lanham_mistake":
        reasoning = find_reasoning(f"{texts[edited]}\nThe best answer is:")
    return replace(row, edited_explanation=reasoning)


def _add_counterfactual_note(
    row: RecordedRecord, item: ResultItem, note: str
) -> RecordedRecord:
    """Return the row of counterfactual edits with the columns of the fork's text."""
    if note.strip() == NO_EDIT:
        return replace(row, flipped=False, reason="no edit changes the answer")
    texts = split_notes(note, ("prompt_explanation", "explanation"))
    edited, label = find_edited_input(item, texts.get("prompt_explanation", ""))
    inserted = None
    if edited:
        inserted = find_inserted_word(str(item.fields.get("input")), edited)
    return replace(
        row,
        flipped=True,
        edited_input=edited,
        edited_answer=label,
        edited_explanation=texts.get("explanation"),
        inserted=inserted,
    )


def _add_explanation_note(
    row: RecordedRecord, item: ResultItem, note: str
) -> RecordedRecord:
    """Return the row of `input_from_explanation` with the columns of the fork's text."""
    names = (
        "chosen_sentence",
        "prompt_explanation",
        "explanation",
        "new_round_input",
        "new_round_label",
        "sent0",
        "sent1",
    )
    texts = split_notes(note, names)
    edited, _ = find_edited_input(item, texts.get("new_round_input", ""))
    return replace(
        row,
        explanation=texts.get("explanation"),
        edited_input=edited,
        edited_answer=texts.get("new_round_label"),
    )


def _add_suggestion_note(row: RecordedRecord, note: str) -> RecordedRecord:
    """Return the row of `biasing_features` with the columns of the fork's text."""
    names = (
        "ask_for_final_answer",
        "to_explain",
        "explanation",
        "input_biased",
        "generated_cot",
        "predicted_label",
        "predicted_label_biased",
        "predicted_label == predicted_label_biased",
    )
    # The text may end with the judgment which phrases the chain of thought contains.
    content, *_ = MENTION.split(note)
    texts = split_notes(content, names)
    suggestion = SUGGESTION.search(texts.get("to_explain", ""))
    reason = row.reason
    phrase = FOUND_PHRASE.search(note)
    if phrase is not None:
        reason = f"the chain of thought contains {phrase[1]!r}"
    return replace(
        row,
        edited_explanation=texts.get("explanation"),
        edited_answer=texts.get("predicted_label_biased"),
        inserted=suggestion[1] if suggestion else None,
        reason=reason,
    )


def read_chain_of_thought_note(note: str) -> dict[str, str]:
    """Return the entries of the fork's text of the four tests that corrupt the chain of thought."""
    names = ("early_answering", "mistake", "paraphrasing", "filler_tokens")
    texts = (
        "added_mistake",
        "praphrased",
        "truncated_cot",
        "new_generated_cot",
        "filled_filler_tokens",
    )
    labels = tuple(f"predicted_label_{name}" for name in names)
    return split_notes(note, (*labels, *texts, "get_final_answer(truncated_cot)"))


def _add_information(
    row: RecordedRecord, field: str, information: Sequence[object]
) -> RecordedRecord:
    """Return the row of a test with what the release for VL decoders keeps: a remark, a prompt, a
    reply; a list of another form gives no columns.
    """
    texts = [None if text is None else str(text) for text in information]
    if field == "lanham_early" and len(texts) == 2:
        prompt, reply = texts
        return replace(row, prompt=prompt, edited_answer=reply)
    if TESTS[field].corruption or len(texts) != 3:
        return row
    remark, prompt, reply = texts
    row = replace(row, reason=remark, prompt=prompt)
    if field == COUNTERFACTUAL:
        is_flipped = remark == "model changed pred"
        return replace(row, edited_explanation=reply, flipped=is_flipped)
    if remark == "biased answer":
        return replace(row, edited_answer=reply)
    return replace(row, edited_explanation=reply)


def find_edited_input(item: ResultItem, prompt: str) -> tuple[str | None, str | None]:
    """Return the edited item in a prompt that has the form of the item's own prompt, and the label
    that follows it.
    """
    prompt_of_item = str(item.fields.get("model_input", ""))
    words = str(item.fields.get("input", ""))
    if not words:
        return None, None
    before, _, after = prompt_of_item.partition(words)
    if not after or not prompt.startswith(before):
        return None, None
    end = prompt.rfind(after)
    if end < 0:
        return None, None
    label = re.match(r"([A-Z])\)", prompt[end + len(after) :])
    return prompt[len(before) : end], label[1] if label else None


def find_inserted_word(text: str, edited: str) -> str | None:
    """Return the word whose removal makes an edited text the original one, up to spaces."""
    # Compare texts without spaces, since spaces around the word may differ.
    original = "".join(text.split())
    words = edited.split()
    for position, word in enumerate(words):
        if "".join([*words[:position], *words[position + 1 :]]) == original:
            return word
    return None


def _build_attribution(
    item: ResultItem, kind: str, output: str, common: RecordedRecord
) -> RecordedRecord:
    """Return the contribution ratios for the answer or for the explanation."""
    plot = item.fields[PLOTS[kind]]
    location = item.locate(PLOTS[kind])
    # The released code stores T-SHAP in percent.
    percent = _parse_number(item.fields.get(T_SHAPS[kind, output]))
    row = replace(
        common,
        record="attribution",
        kind=kind,
        output=output,
        unit=RATIO,
        prompt=item.fields.get("model_input") or item.fields.get("input"),
        label=item.fields.get("model_prediction"),
        t_shap=None if percent is None else percent / 100,
        cc_shap=_parse_number(item.fields.get(CC_SHAPS[kind])),
    )
    tokens_name, ratios_name, suffix_name = PLOT_PARTS[output]
    try:
        tokens = [str(token) for token in plot[tokens_name]]
        ratios = [float(ratio) for ratio in plot[ratios_name]]
        grid = int(plot.get("num_patches_x") or 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"contribution ratios cannot be read ({type(error).__name__}: {error})"
        return replace(row, rejected=f"{location}: {reason}")

    # ratios: (grid * grid patches, then text players). The text players lack the query suffix.
    by_player = [[ratio] for ratio in ratios]
    patches = by_player[: grid**2]
    values = by_player[grid**2 :]
    suffix = max(0, len(tokens) - len(values))
    row = replace(
        row,
        tokens=tokens,
        values=values,
        suffix=suffix,
        grid=grid or None,
        patches=patches or None,
    )
    fault = find_attribution_fault(
        unit=RATIO,
        n_tokens=len(tokens),
        values=values,
        patches=patches,
        suffix=suffix,
        grid=grid,
    )
    # The length of the query suffix that the file names must agree with the ratios.
    stated = plot.get(suffix_name)
    if fault is None and stated is not None and suffix != _parse_integer(stated):
        fault = f"{len(values)} ratios for {len(tokens)} tokens, of which {stated} are the query suffix"
    if fault is None:
        return row
    return replace(row, rejected=f"{location}: {fault}")


def _parse_integer(value: object) -> int | None:
    """Return a whole number that may be written as a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return int(value) if re.fullmatch(r"\s*-?\d{1,9}\s*", str(value)) else None


def _parse_number(value: Any) -> float | None:
    """Return a number that may be written as a text; None for anything else, and for nan."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
