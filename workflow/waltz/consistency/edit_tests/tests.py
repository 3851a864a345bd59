"""All self-consistency tests of an item, and their rows."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any

from waltz.consistency.edit_tests import biasing, chain_of_thought, counterfactual, input_from_explanation
from waltz.consistency.edit_tests.findings import Finding, Tested, Unedited, unedited
from waltz.consistency.edit_tests.generation_requests import Asking, Attempt, Respondent, in_step, together, witnessed
from waltz.consistency.edit_tests.settings import Settings
from waltz.core.errors import UserError
from waltz.evaluation.prompting.prompt_files import PromptFile
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import Question


def _counterfactual_edits(
    question: Question, before: Unedited, settings: Settings, prompt_file: PromptFile
) -> Asking[Finding]:
    text, _ = render_question(question, prompt_file)
    return counterfactual.counterfactual_edits(question, text, before.answer, settings)


def _input_from_explanation(
    question: Question, before: Unedited, settings: Settings, prompt_file: PromptFile
) -> Asking[Finding]:
    return input_from_explanation.input_from_explanation(question, before.answer, prompt_file, settings)


Begin = Callable[[Question, Unedited, Settings, PromptFile], Asking[Finding]]


def _of_reasoning(test: Callable[[Question, Unedited, Settings], Asking[Finding]]) -> Begin:
    return lambda question, before, settings, prompt_file: test(question, before, settings)


TESTS: dict[str, Begin] = {
    counterfactual.NAME: _counterfactual_edits,
    input_from_explanation.NAME: _input_from_explanation,
    biasing.NAME: _of_reasoning(biasing.biasing_features),
    chain_of_thought.EARLY_ANSWERING: _of_reasoning(chain_of_thought.early_answering),
    chain_of_thought.FILLER_TOKENS: _of_reasoning(chain_of_thought.filler_tokens),
    chain_of_thought.ADDING_MISTAKES: _of_reasoning(chain_of_thought.adding_mistakes),
    chain_of_thought.PARAPHRASING: _of_reasoning(chain_of_thought.paraphrasing),
}
"""The tests by name, in the order of thesis Table 5.2."""


def of_item(
    question: Question, tests: Sequence[str], settings: Settings, prompt_file: PromptFile
) -> Attempt[list[Tested]]:
    """The tests of one item: first it is asked as it is, then all tests advance in step.

    Where a request gets no reply its test ends with the reason; all of them do where the item cannot be asked as it is.

    Args:
        question: The item.
        tests: Names in `TESTS`.
        settings: Profile, seed, lengths.
        prompt_file: How questions are put into words.
    Raises:
        UserError: A test is unknown.
    """
    unknown = next((test for test in tests if test not in TESTS), None)
    if unknown is not None:
        raise UserError(f"consistency: there is no test {unknown}; there are {', '.join(TESTS)}")
    before, first = yield from witnessed(unedited(question, settings))
    if isinstance(before, UserError):
        return [Tested(question.item_id, test, before, settings.seed, first) for test in tests]
    found = yield from together([witnessed(TESTS[test](question, before, settings, prompt_file)) for test in tests])
    return [
        Tested(question.item_id, test, finding, settings.seed, (*first, *exchanges))
        for test, (finding, exchanges) in zip(tests, found, strict=True)
    ]


def of_items(
    questions: Sequence[Question],
    tests: Sequence[str],
    settings: Settings,
    prompt_file: PromptFile,
    respondent: Respondent,
) -> list[Tested]:
    """The tests of several items, whose requests are answered together; an item's rows do not hang on the others.

    Args:
        questions: The items.
        tests: Names in `TESTS`.
        settings: Profile, seed, lengths.
        prompt_file: How questions are put into words.
        respondent: The model and its helper.
    """
    found = in_step([of_item(question, tests, settings, prompt_file) for question in questions], respondent)
    return [tested for item in found for tested in item]


def row(tested: Tested) -> dict[str, Any]:
    """The columns of a finding: those of `Finding`, the score, and the exchanges, of which each text is given.

    Args:
        tested: A finding.
    Returns:
        item_id, test, verdict, score (the verdict as a float), answer, edited_answer, reason, explanation,
        edited_input, edited_explanation, inserted, seed, error, and exchanges: kind, seed, reply, and `given`, what
        the prompt needed beside the question, as JSON.
    """
    finding = tested.finding
    found: dict[str, Any] = dict.fromkeys(column.name for column in fields(Finding))
    error = None
    if isinstance(finding, UserError):
        error = str(finding)
    else:
        found = asdict(finding)
    return {
        "item_id": tested.item_id,
        "test": tested.test,
        **found,
        "score": None if found["verdict"] is None else float(found["verdict"]),
        "seed": tested.seed,
        "error": error,
        "exchanges": [
            {
                "kind": exchange.request.kind,
                "seed": exchange.request.seed,
                "given": json.dumps(dict(exchange.request.given), ensure_ascii=False, sort_keys=True),
                "reply": exchange.reply,
            }
            for exchange in tested.exchanges
        ],
    }
