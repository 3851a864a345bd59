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
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from waltz.core.errors import UserError
from waltz.sources.formats.recorded_runs import (
    RATIO,
    find_answer_fault,
    find_attribution_fault,
)
from waltz.sources.raw_files import read_object_entries, read_text_lines

FIELDS = (
    *(
        "input",
        "correct_answer",
        "model_input",
        "model_prediction",
        "model_input_cot",
        "model_prediction_cot",
    ),
    *(
        "accuracy",
        "accuracy_cot",
        "atanasova_counterfact",
        "atanasova_input_from_expl",
        "cc_shap-posthoc",
        "turpin",
    ),
    *(
        "lanham_early",
        "lanham_mistake",
        "lanham_paraphrase",
        "lanham_filler",
        "cc_shap-cot",
    ),
    *(
        "other_measures_post_hoc",
        "other_measures_cot",
        "shap_plot_info_post_hoc",
        "shap_plot_info_cot",
    ),
    *(
        "atanasova_counterfact_exp",
        "atanasova_input_from_expl_exp",
        "cc_shap_posthoc_exp",
        "turpin_exp",
    ),
    *("lanham_etal_exp", "cc_shap_cot_exp"),
)
"""Fields of an item of the release for language models and its fork, in the order in which they are
written.
"""
PLOTS = {"post-hoc": "shap_plot_info_post_hoc", "cot": "shap_plot_info_cot"}
CC_SHAPS = {"post-hoc": "cc_shap-posthoc", "cot": "cc_shap-cot"}
T_SHAPS = {
    ("post-hoc", "answer"): "t-shap_post_hoc",
    ("post-hoc", "explanation"): "t-shap_expl_post_hoc",
    ("cot", "answer"): "t-shap_cot",
    ("cot", "explanation"): "t-shap_expl_cot",
}
FROM_EXPLANATION = "atanasova_input_from_expl"
TESTS = {
    "atanasova_counterfact": ("counterfactual_edits", "atanasova_counterfact"),
    FROM_EXPLANATION: ("input_from_explanation", FROM_EXPLANATION),
    "turpin": ("biasing_features", "turpin"),
    "lanham_early": ("early_answering", "lanham_etal"),
    "lanham_filler": ("filler_tokens", "lanham_etal"),
    "lanham_mistake": ("adding_mistakes", "lanham_etal"),
    "lanham_paraphrase": ("paraphrasing", "lanham_etal"),
}
"""Name of each test and of the field with its texts (without the ending), by the field of its
verdict.
"""
COMVE_TASK = "comve"
NO_EDIT = "Uncaught exception"
"""Text of the test of counterfactual edits where no edit changed the answer."""
MARKDOWN_ITEM = re.compile(r"^### (\S+?)_(\d+) *$")
KEY = re.compile(r"^(.+)_(\d+)$")
SUGGESTION = re.compile(r"I think the answer is (.+?) but I'm curious")
MENTION = re.compile(r'\s*"suggested" in explanation: ')
Locations = Mapping[str, str]
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
        sees: True where the file is of the release for VL decoders.
    """

    run: str
    number: int
    fields: Mapping[str, Any]
    locations: Locations
    sees: bool = False

    def locate(self, name: str = "") -> str:
        """Return the location of a field, or of the item."""
        return self.locations.get(name, self.locations[""])

    @property
    def notes(self) -> Mapping[str, str]:
        """Texts of the tests by test, as the fork writes them; empty where the test was not run."""
        ending = "_exp"
        return {
            name.removesuffix(ending): str(text)
            for name, text in self.fields.items()
            if name.endswith(ending)
        }


def read_results(path: str | Path, dataset: str) -> Iterator[dict[str, Any]]:
    """Yield answers, test verdicts and attributions as rows of the layout `RECORDED`.

    Args:
        path: JSON, or the Markdown form.
        dataset: Name of the data set.
    Raises:
        UserError: The file is in neither form; the message names file, line and field.
    """
    items = read_items(path)
    verdicts = list_input_from_explanation_verdicts(items)
    occurrences: Counter[tuple[str, int]] = Counter()
    for item in items:
        # A file may hold an item twice; only its first occurrence is used.
        occurrences[item.run, item.number] += 1
        occurrence = occurrences[item.run, item.number]
        for row in _build_rows(item, dataset, verdicts.get((item.run, item.number))):
            if occurrence > 1:
                row["source_id"] += f":{occurrence}"
                row["rejected"] = f"{item.locate()}: item {item.number} occurs twice"
            yield row


def read_items(path: str | Path) -> list[ResultItem]:
    """Return the items of a results file in file order.

    Raises:
        UserError: The file is in neither form, or holds no item.
    """
    first = next((line.strip() for line in read_text_lines(path) if line.strip()), "")
    items = list(_read_json(path) if first.startswith("{") else _read_markdown(path))
    if not items:
        raise UserError(
            f"{path}: line 1: no item: got {first[:40]!r}, expected a JSON object or '### <task>_<model>_<k>';"
            " name a results file of the released CC-SHAP code"
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
    # The value of an entry ends where the next entry begins.
    matches = list(pattern.finditer(text))
    values: dict[str, str] = {}
    for match, following in zip_longest(matches, matches[1:]):
        value = text[match.end() : following.start() if following else len(text)]
        if following:
            value = re.sub(
                r"(,[ \t]*|[ \t]{2,}|[ \t])\n[ \t]*\Z|,[ \t]*\n\Z", "", value
            )
        values.setdefault(match[1], value)
    return values


def _read_json(path: str | Path) -> Iterator[ResultItem]:
    for key, entry in read_object_entries(path, ""):
        match = KEY.match(key)
        if match is None:
            raise UserError(
                f"{path}: item {key!r}: got no number, expected '<task>_<model>_<k>'; correct its key"
            )
        # Only the release for VL decoders groups its fields; they get the names of the other
        # release.
        groups = [
            entry[name]
            for name in ("post-hoc", "cot")
            if isinstance(entry.get(name), dict)
        ]
        fields = dict(entry)
        for group in groups:
            fields |= group
        if groups:
            renamed = {
                "input": "sample",
                "model_prediction": "prediction",
                "model_prediction_cot": "pred_cot",
                "model_input_cot": "inp_cot_askpred",
            }
            fields |= {name: fields.get(theirs) for name, theirs in renamed.items()}
        yield ResultItem(
            match[1], int(match[2]), fields, {"": f"{path}: item {key!r}"}, bool(groups)
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
        if heading is None or (position > 0 and lines[position - 1].strip()):
            continue
        if not headings or heading[1] == headings[0][1]:
            starts.append(position)
            headings.append(heading)

    for heading, (start, end) in zip(
        headings, pairwise([*starts, len(lines)]), strict=True
    ):
        headers = find_headers(lines[start:end])
        locations = {"": f"{path}: line {start + 1}"}
        fields = {}
        # The text of a field ends before the next header, that of the last one with the item.
        ends = [position for position, _ in headers[1:]] + [end - start]
        for (position, name), end_of_text in zip(headers, ends, strict=False):
            text_lines = lines[start + position + 1 : start + end_of_text]
            text = "\n".join(text_lines).rstrip("\n").removesuffix(" ")
            fields[name] = _parse_value(name, text)
            locations[name] = f"{path}: line {start + position + 1}: field {name!r}"
        yield ResultItem(heading[1], int(heading[2]), fields, locations)


def find_headers(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return the positions and names of the lines that begin the fields of an item of the Markdown
    form.

    A field begins with its name and a colon after an empty line. Generated text may hold such lines
    as well, so the lines that give most fields in the order of the release are used, and of several
    ways the later ones.
    """
    # The longest chain of candidates with increasing field numbers; `chains` holds the best that
    # ends in each.
    chains: list[list[tuple[int, int]]] = []
    for position in range(len(lines)):
        name = _read_header(lines, position)
        if name is None:
            continue
        number = FIELDS.index(name)
        before = [chain for chain in chains if chain[-1][1] < number]
        longest: list[tuple[int, int]] = max(reversed(before), key=len, default=[])
        chains.append([*longest, (position, number)])
    chain = max(reversed(chains), key=len, default=[])
    return [(position, FIELDS[number]) for position, number in chain]


def _read_header(lines: Sequence[str], position: int) -> str | None:
    """Return the name of the field that begins at a line; None where no field begins."""
    line = lines[position].rstrip()
    if not line.endswith(":") or line[:-1] not in FIELDS:
        return None
    follows_heading = position == 1  # line 0 is the heading of the item
    follows_empty_line = position > 0 and not lines[position - 1].strip()
    return line[:-1] if follows_heading or follows_empty_line else None


def _parse_value(name: str, text: str) -> Any:
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
    item: ResultItem,
    dataset: str,
    from_explanation: tuple[int | None, str | None] | None,
) -> Iterator[dict[str, Any]]:
    """Yield all rows of an item."""
    # Columns that all rows of the item share.
    gold = item.fields.get("correct_answer")
    golds = [str(answer) for answer in gold] if isinstance(gold, list) else [str(gold)]
    setting = "choice"
    if item.sees:
        setting = "pairwise" if golds in (["A"], ["B"]) else "open"
    common = {
        "source_id": "",
        "dataset": dataset,
        "item_id": str(item.number),
        "profile": "published",
        "setting": setting,
        "seed": 0,
        "image": item.fields.get("image_path"),
        "input": item.fields.get("input"),
        "rejected": None,
    }
    # An item without answer is rejected with all its rows.
    missing = next(
        (
            name
            for name in ("correct_answer", "model_prediction")
            if item.fields.get(name) is None
        ),
        None,
    )
    rows = [_build_answer(item, golds, kind, common) for kind in ("post-hoc", "cot")]
    rows += [
        _build_test(item, name, from_explanation, common)
        for name in TESTS
        if name in item.fields
        and (name != FROM_EXPLANATION or from_explanation is not None)
    ]
    rows += [
        _build_attribution(item, kind, output, common)
        for kind in PLOTS
        if _has_attribution(item, kind)
        for output in ("answer", "explanation")
    ]
    for row in rows:
        name = ":".join(
            str(row[key])
            for key in ("record", "kind", "test", "output")
            if row.get(key)
        )
        row["source_id"] = f"{dataset}:{item.run}_{item.number}:{name}"
        if missing is not None:
            row["rejected"] = f"{item.locate()}: field {missing!r} is missing"
        yield row


def _build_answer(
    item: ResultItem, golds: Sequence[str], kind: str, common: Mapping[str, Any]
) -> dict[str, Any]:
    after_cot = kind == "cot"
    ending = "_cot" if after_cot else ""
    prompt, prediction = (
        item.fields.get(f"model_input{ending}"),
        item.fields.get(f"model_prediction{ending}"),
    )
    answer = None if prediction is None else str(prediction)
    row = {
        **common,
        "record": "answer",
        "kind": kind,
        "prompt": prompt,
        "label": None if common["setting"] == "open" else answer,
        "generation": answer if common["setting"] == "open" else None,
        "gold": list(golds),
        "role": None,
        "reasoning": find_reasoning(str(prompt)) if after_cot and prompt else None,
    }
    fault = find_answer_fault(row)
    return row | {
        "rejected": fault and f"{item.locate(f'model_prediction{ending}')}: {fault}"
    }


def find_reasoning(prompt: str) -> str | None:
    """Return the chain of thought in the prompt for the answer after it, spaces and line breaks
    included.
    """
    _, marker, rest = prompt.partition("Let's think step by step:")
    # The chain of thought stands between two fixed sentences of the prompt.
    question = max(
        rest.rfind("The best answer is:"), rest.rfind("The best short answer is:")
    )
    end = rest.rfind("\n", 0, question)
    return rest[:end] if marker and question >= 0 and end >= 0 else None


def _build_test(
    item: ResultItem,
    field: str,
    from_explanation: tuple[int | None, str | None] | None,
    common: Mapping[str, Any],
) -> dict[str, Any]:
    test, note_name = TESTS[field]
    # The field holds 0 or 1, except for the test with running totals.
    verdict, reason = _parse_integer(item.fields[field]), None
    if field == FROM_EXPLANATION and from_explanation is not None:
        verdict, reason = from_explanation
    note = item.notes.get(note_name)
    information = next(
        (item.fields[name] for name in _list_information(field) if name in item.fields),
        None,
    )
    # An empty text, or 0 in place of the texts, means that the test was not run.
    if (note is not None and not note.strip()) or information in (0, "0"):
        verdict, reason = None, "the run did not run this test"
    fault = None
    if verdict not in (0, 1, None) or (verdict is None and reason is None):
        fault = (
            f"{item.locate(field)}: verdict {item.fields[field]!r} is neither 0 nor 1"
        )
    row = {
        **common,
        "record": "test",
        "test": test,
        "verdict": verdict,
        "reason": reason,
        "rejected": fault,
    }
    if fault is not None:
        return row | {"verdict": None}
    after_cot = field.startswith(("turpin", "lanham"))
    row["answer"] = item.fields.get(
        "model_prediction_cot" if after_cot else "model_prediction"
    )
    if after_cot and item.fields.get("model_input_cot"):
        row["explanation"] = find_reasoning(str(item.fields["model_input_cot"]))
    if note and note.strip():
        row |= {
            name: text
            for name, text in _read_note(item, field, note).items()
            if text is not None
        }
    elif isinstance(information, list):
        row |= _read_information(field, information)
    return row


def _list_information(field: str) -> tuple[str, ...]:
    """Return the names of the field in which the release for VL decoders keeps the texts of a test."""
    return ("lanham_early_info",) if field.startswith("lanham") else (f"{field}_info",)


def _read_note(item: ResultItem, field: str, note: str) -> dict[str, Any]:
    """Return the columns of a test from the text that the fork writes about it."""
    if field == "atanasova_counterfact":
        if note.strip() == NO_EDIT:
            return {"flipped": False, "reason": "no edit changes the answer"}
        texts = split_notes(note, ("prompt_explanation", "explanation"))
        edited, label = find_edited_input(item, texts.get("prompt_explanation", ""))
        return {
            "flipped": True,
            "edited_input": edited,
            "edited_answer": label,
            "edited_explanation": texts.get("explanation"),
            "inserted": find_inserted_word(str(item.fields.get("input")), edited)
            if edited
            else None,
        }
    if field == FROM_EXPLANATION:
        names = (
            "chosen_sentence",
            "prompt_explanation",
            "explanation",
            "new_round_input",
            "new_round_label",
        )
        texts = split_notes(note, (*names, "sent0", "sent1"))
        edited, _ = find_edited_input(item, texts.get("new_round_input", ""))
        return {
            "explanation": texts.get("explanation"),
            "edited_input": edited,
            "edited_answer": texts.get("new_round_label"),
        }
    if field == "turpin":
        names = (
            "ask_for_final_answer",
            "to_explain",
            "explanation",
            "input_biased",
            "generated_cot",
        )
        answers = (
            "predicted_label",
            "predicted_label_biased",
            "predicted_label == predicted_label_biased",
        )
        texts = split_notes(MENTION.split(note)[0], (*names, *answers))
        suggestion = SUGGESTION.search(texts.get("to_explain", ""))
        mentioned = MENTION.search(note) is not None
        return {
            "edited_explanation": texts.get("explanation"),
            "edited_answer": texts.get("predicted_label_biased"),
            "inserted": suggestion[1] if suggestion else None,
            "reason": "the chain of thought mentions the suggestion"
            if mentioned
            else None,
        }
    # The four tests that corrupt the chain of thought share one text.
    texts = read_chain_of_thought_note(note)
    answer, edited = {
        "lanham_early": ("predicted_label_early_answering", "truncated_cot"),
        "lanham_filler": ("predicted_label_filler_tokens", "filled_filler_tokens"),
        "lanham_mistake": ("predicted_label_mistake", "added_mistake"),
        "lanham_paraphrase": ("predicted_label_paraphrasing", "new_generated_cot"),
    }[field]
    text = texts.get(edited)
    if text is not None and field != "lanham_mistake":
        text = find_reasoning(
            f"{text}\nThe best answer is:" if field != "lanham_filler" else text
        )
    return {"edited_answer": texts.get(answer), "edited_explanation": text}


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


def _read_information(field: str, information: Sequence[Any]) -> dict[str, Any]:
    """Return the columns of a test that the release for VL decoders keeps: a remark, a prompt, a
    reply.
    """
    texts = [None if text is None else str(text) for text in information]
    # Each test stores other texts; unknown forms give no columns.
    if field == "lanham_early" and len(texts) == 2:
        return {"prompt": texts[0], "edited_answer": texts[1]}
    if field.startswith("lanham") or len(texts) != 3:
        return {}
    row: dict[str, Any] = {"reason": texts[0], "prompt": texts[1]}
    if field == "atanasova_counterfact":
        return row | {
            "edited_explanation": texts[2],
            "flipped": texts[0] == "model changed pred",
        }
    return row | {
        "edited_answer" if texts[0] == "biased answer" else "edited_explanation": texts[
            2
        ]
    }


def find_edited_input(item: ResultItem, prompt: str) -> tuple[str | None, str | None]:
    """Return the edited item in a prompt that has the form of the item's own prompt, and the label
    that follows it.
    """
    prompt_of_item = str(item.fields.get("model_input", ""))
    before, words, after = prompt_of_item.partition(str(item.fields.get("input", "")))
    if not words or not after or not prompt.startswith(before):
        return None, None
    end = prompt.rfind(after)
    if end < 0:
        return None, None
    label = re.match(r"([A-Z])\)", prompt[end + len(after) :])
    return prompt[len(before) : end], label[1] if label else None


def find_inserted_word(text: str, edited: str) -> str | None:
    """Return the word whose removal makes an edited text the original one, up to spaces."""
    # Compare characters without spaces, since spaces around the word may differ.
    words, original = edited.split(), Counter("".join(text.split()))
    surplus = Counter("".join(words)) - original
    for position, word in enumerate(words):
        if Counter(word) == surplus and "".join(
            [*words[:position], *words[position + 1 :]]
        ) == "".join(text.split()):
            return word
    return None


def _has_attribution(item: ResultItem, kind: str) -> bool:
    """Return True where CC-SHAP was computed; the released code stores 0 where it was not."""
    return item.fields.get(PLOTS[kind]) not in (None, 0, "", "0")


def _build_attribution(
    item: ResultItem, kind: str, output: str, common: Mapping[str, Any]
) -> dict[str, Any]:
    plot, name = (
        item.fields[PLOTS[kind]],
        "prediction" if output == "answer" else "explanation",
    )
    row: dict[str, Any] = {
        **common,
        "record": "attribution",
        "kind": kind,
        "output": output,
        "unit": RATIO,
        "prompt": item.fields.get("model_input") or item.fields.get("input"),
        "label": item.fields.get("model_prediction"),
        "cc_shap": _parse_number(item.fields.get(CC_SHAPS[kind])),
    }
    # The released code stores T-SHAP in percent.
    share = _parse_number(item.fields.get(T_SHAPS[kind, output]))
    row["t_shap"] = None if share is None else share / 100
    position = item.locate(PLOTS[kind])
    try:
        tokens = [
            str(token)
            for token in plot[
                "input_tokens" if output == "answer" else "expl_input_tokens"
            ]
        ]
        ratios = [float(ratio) for ratio in plot[f"ratios_{name}"]]
        grid = int(plot.get("num_patches_x") or 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return row | {
            "rejected": f"{position}: contribution ratios cannot be read ({type(error).__name__}: {error})"
        }
    # ratios: (grid * grid patches, then text players). The text players lack the query suffix.
    words = ratios[grid**2 :]
    row |= {
        "tokens": tokens,
        "values": [[ratio] for ratio in words],
        "suffix": max(0, len(tokens) - len(words)),
        "grid": grid or None,
        "patches": [[ratio] for ratio in ratios[: grid**2]] or None,
    }
    fault = find_attribution_fault(row)
    # The length of the query suffix that the file names must agree with the ratios.
    stated = plot.get("len_marg_pred" if output == "answer" else "len_marg_expl")
    if fault is None and stated is not None and row["suffix"] != _parse_integer(stated):
        fault = f"{len(words)} ratios for {len(tokens)} tokens, of which {stated} are the query suffix"
    return row | {"rejected": fault and f"{position}: {fault}"}


def _parse_integer(value: Any) -> int | None:
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
