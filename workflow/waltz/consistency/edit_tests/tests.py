"""All self-consistency tests of an item, and their rows."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any

from waltz.consistency.edit_tests import biasing, chain_of_thought, counterfactual, input_from_explanation
from waltz.consistency.edit_tests.generation_requests import (
    FallibleTestSteps,
    Runner,
    TestSteps,
    merge_steps,
    record_exchanges,
    run_in_step,
)
from waltz.consistency.edit_tests.results import EditTestRecord, EditTestResult, UneditedAnswers, ask_unedited
from waltz.consistency.edit_tests.settings import EditTestSettings
from waltz.core.errors import UserError
from waltz.evaluation.prompting.prompt_files import PromptFile
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import Question


def _start_counterfactual_edits(
    question: Question, before: UneditedAnswers, settings: EditTestSettings, prompt_file: PromptFile
) -> TestSteps[EditTestResult]:
    text, _ = render_question(question, prompt_file)
    return counterfactual.run_counterfactual_edits(question, text, before.answer, settings)


def _start_input_from_explanation(
    question: Question, before: UneditedAnswers, settings: EditTestSettings, prompt_file: PromptFile
) -> TestSteps[EditTestResult]:
    return input_from_explanation.run_input_from_explanation(question, before.answer, prompt_file, settings)


StartTest = Callable[[Question, UneditedAnswers, EditTestSettings, PromptFile], TestSteps[EditTestResult]]


def _start_reasoning_test(
    test: Callable[[Question, UneditedAnswers, EditTestSettings], TestSteps[EditTestResult]],
) -> StartTest:
    return lambda question, before, settings, prompt_file: test(question, before, settings)


TESTS: dict[str, StartTest] = {
    counterfactual.NAME: _start_counterfactual_edits,
    input_from_explanation.NAME: _start_input_from_explanation,
    biasing.NAME: _start_reasoning_test(biasing.run_biasing_features),
    chain_of_thought.EARLY_ANSWERING: _start_reasoning_test(chain_of_thought.run_early_answering),
    chain_of_thought.FILLER_TOKENS: _start_reasoning_test(chain_of_thought.run_filler_tokens),
    chain_of_thought.ADDING_MISTAKES: _start_reasoning_test(chain_of_thought.run_adding_mistakes),
    chain_of_thought.PARAPHRASING: _start_reasoning_test(chain_of_thought.run_paraphrasing),
}
"""The tests by name, in the order of thesis Table 5.2."""


def run_item_tests(
    question: Question, tests: Sequence[str], settings: EditTestSettings, prompt_file: PromptFile
) -> FallibleTestSteps[list[EditTestRecord]]:
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
    before, first = yield from record_exchanges(ask_unedited(question, settings))
    if isinstance(before, UserError):
        return [EditTestRecord(question.item_id, test, before, settings.seed, first) for test in tests]
    found = yield from merge_steps(
        [record_exchanges(TESTS[test](question, before, settings, prompt_file)) for test in tests]
    )
    return [
        EditTestRecord(question.item_id, test, finding, settings.seed, (*first, *exchanges))
        for test, (finding, exchanges) in zip(tests, found, strict=True)
    ]


def run_tests(
    questions: Sequence[Question],
    tests: Sequence[str],
    settings: EditTestSettings,
    prompt_file: PromptFile,
    runner: Runner,
) -> list[EditTestRecord]:
    """The tests of several items, whose requests are answered together; an item's rows do not hang on the others.

    Args:
        questions: The items.
        tests: Names in `TESTS`.
        settings: Profile, seed, lengths.
        prompt_file: How questions are put into words.
        runner: The model and its helper.
    """
    found = run_in_step([run_item_tests(question, tests, settings, prompt_file) for question in questions], runner)
    return [tested for item in found for tested in item]


def build_row(tested: EditTestRecord) -> dict[str, Any]:
    """The columns of a finding: those of `Finding`, the score, and the exchanges, of which each text is given.

    Args:
        tested: A finding.
    Returns:
        item_id, test, verdict, score (the verdict as a float), answer, edited_answer, reason, explanation,
        edited_input, edited_explanation, inserted, seed, error, and exchanges: kind, seed, reply, and `given`, what
        the prompt needed beside the question, as JSON.
    """
    finding = tested.finding
    found: dict[str, Any] = dict.fromkeys(column.name for column in fields(EditTestResult))
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
