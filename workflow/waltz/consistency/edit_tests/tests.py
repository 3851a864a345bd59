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
    """Run the tests of one item: first the unedited item is asked, then all tests run in step.

    Where a request gets no reply its test ends with the reason; all of them do where the unedited item gets none.

    Args:
        question: The item.
        tests: Names in `TESTS`.
        settings: Profile, seed, lengths.
        prompt_file: Prompts of the profile.
    Raises:
        UserError: A test is unknown.
    """
    unknown = next((test for test in tests if test not in TESTS), None)
    if unknown is not None:
        raise UserError(
            f"unknown test: consistency (got {unknown}, expected one of {', '.join(TESTS)}); correct the study"
        )
    before, first = yield from record_exchanges(ask_unedited(question, settings))
    if isinstance(before, UserError):
        return [EditTestRecord(question.item_id, test, before, settings.seed, first) for test in tests]
    outcomes = yield from merge_steps(
        [record_exchanges(TESTS[test](question, before, settings, prompt_file)) for test in tests]
    )
    return [
        EditTestRecord(question.item_id, test, result, settings.seed, (*first, *exchanges))
        for test, (result, exchanges) in zip(tests, outcomes, strict=True)
    ]


def run_tests(
    questions: Sequence[Question],
    tests: Sequence[str],
    settings: EditTestSettings,
    prompt_file: PromptFile,
    runner: Runner,
) -> list[EditTestRecord]:
    """Run the tests of several items in step; the rows of an item do not depend on the other items.

    Args:
        questions: The items.
        tests: Names in `TESTS`.
        settings: Profile, seed, lengths.
        prompt_file: Prompts of the profile.
        runner: The model and its helper.
    """
    records_of_items = run_in_step(
        [run_item_tests(question, tests, settings, prompt_file) for question in questions], runner
    )
    return [record for records in records_of_items for record in records]


def build_row(record: EditTestRecord) -> dict[str, Any]:
    """Build the columns of a record: those of `EditTestResult`, the score, and the exchanges.

    Args:
        record: A result with its exchanges.
    Returns:
        item_id, test, verdict, score (the verdict as a float), answer, edited_answer, reason, explanation,
        edited_input, edited_explanation, inserted, seed, error, and exchanges: kind, seed, reply, and `given`, the
        other inputs of the prompt, as JSON.
    """
    result = record.result
    columns: dict[str, Any] = dict.fromkeys(column.name for column in fields(EditTestResult))
    error = None
    if isinstance(result, UserError):
        error = str(result)
    else:
        columns = asdict(result)
    return {
        "item_id": record.item_id,
        "test": record.test,
        **columns,
        "score": None if columns["verdict"] is None else float(columns["verdict"]),
        "seed": record.seed,
        "error": error,
        "exchanges": [
            {
                "kind": exchange.request.kind,
                "seed": exchange.request.seed,
                "given": json.dumps(dict(exchange.request.given), ensure_ascii=False, sort_keys=True),
                "reply": exchange.reply,
            }
            for exchange in record.exchanges
        ],
    }
