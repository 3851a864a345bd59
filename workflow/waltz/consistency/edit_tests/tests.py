"""Rows of the layout `CONSISTENCY`: all tests of a data set's questions, one after another or in shards."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from waltz.consistency.edit_tests import chain_of_thought
from waltz.consistency.edit_tests.edits import (
    BIASING_FEATURES,
    COUNTERFACTUAL_EDITS,
    FROM_EXPLANATION,
    run_biasing_features,
    run_counterfactual_edits,
    run_input_from_explanation,
)
from waltz.consistency.edit_tests.runner import DecoderRunner, build_runner
from waltz.consistency.edit_tests.steps import (
    EditTestRecord,
    EditTestResult,
    EditTestSettings,
    FallibleTestSteps,
    TestSteps,
    UneditedAnswers,
    ask_unedited,
    merge_steps,
    record_exchanges,
    run_in_step,
)
from waltz.consistency.item_selection import get_setting, select_questions, select_seeds, select_shared_pair
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.evaluation.decoder_rows import is_right_answer
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.evaluation.prompting.prompt_files import PromptFile
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Profile, get_fidelity
from waltz.models.decoders.decoder import Decoder
from waltz.models.decoders.language_model import LanguageModel
from waltz.models.text.classifier import Classifier
from waltz.sources.images import load_image, open_images

ReasoningTest = Callable[[Question, UneditedAnswers, EditTestSettings], TestSteps[EditTestResult]]
StartTest = Callable[[Question, UneditedAnswers, EditTestSettings, PromptFile], TestSteps[EditTestResult]]


def _start_counterfactual_edits(
    question: Question, before: UneditedAnswers, settings: EditTestSettings, prompt_file: PromptFile
) -> TestSteps[EditTestResult]:
    text, _ = render_question(question, prompt_file)
    return run_counterfactual_edits(question, text, before.answer, settings)


def _start_input_from_explanation(
    question: Question, before: UneditedAnswers, settings: EditTestSettings, prompt_file: PromptFile
) -> TestSteps[EditTestResult]:
    return run_input_from_explanation(question, before.answer, prompt_file, settings)


def _start(test: ReasoningTest) -> StartTest:
    return lambda question, before, settings, prompt_file: test(question, before, settings)


TESTS: dict[str, StartTest] = {
    COUNTERFACTUAL_EDITS: _start_counterfactual_edits,
    FROM_EXPLANATION: _start_input_from_explanation,
    BIASING_FEATURES: _start(run_biasing_features),
    chain_of_thought.EARLY_ANSWERING: _start(chain_of_thought.run_early_answering),
    chain_of_thought.FILLER_TOKENS: _start(chain_of_thought.run_filler_tokens),
    chain_of_thought.ADDING_MISTAKES: _start(chain_of_thought.run_adding_mistakes),
    chain_of_thought.PARAPHRASING: _start(chain_of_thought.run_paraphrasing),
}
"""The tests by name, in the order of thesis Table 5.2."""
TOKEN_LIMITS = {
    "explanation": "most_text",
    "answer": "most_answer",
    "mistake": "most_mistake",
    "paraphrase": "most_paraphrase",
}
"""Settings by the study's keys of `consistency.tokens`."""


def run_tests(
    decoder: Decoder,
    helper: LanguageModel,
    judge: Classifier | None,
    datasets: Iterable[DatasetFiles],
    profiles: Sequence[Profile],
    cache: Path,
    *,
    tests: Sequence[str] | None,
    sample: int | None,
    seed: int,
    seeds: Sequence[int],
    repeated: Collection[str] | None = None,
    tokens: Mapping[str, int],
    edits: Mapping[str, int],
    compare_meaning: bool,
    shard: slice,
) -> Iterator[DatasetResult]:
    """Run the self-consistency tests of one decoder on one shard of the items of data sets.

    Args:
        helper: The decoder that adds mistakes, paraphrases and compares meanings.
        judge: A classifier of entailment that compares meanings instead; None where none does.
        datasets: Files of the data sets, with their form.
        tests: Names of the tests; None runs all that fit.
        sample: Number of items a data set; None for all.
        seeds: Seeds of edits and draws, each a whole run.
        repeated: Data sets on which `published` takes all of these seeds, and not the first alone; None for all.
        tokens: Most new tokens by kind of generation.
        edits: Positions and words of counterfactual edits.
        compare_meaning: True where meanings of open answers are compared.
    Yields:
        Rows of the consistency layout as `rows`.
    """
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        rows: list[dict[str, Any]] = []
        asked, skipped = 0, {}
        images: AbstractContextManager[Any] = open_images(dataset.images) if dataset.images else nullcontext()
        with images as opened, show_progress(0, "reply", f"{decoder.spec.name}, {dataset.name}") as bar:
            session = DecoderSession(decoder, partial(load_image, opened), cache, bar.update)
            for profile in dataset.select_profiles(profiles):
                selected = select_questions(source, dataset.name, dataset.settings, profile, sample, seed)
                questions = selected.questions[shard]
                shared = get_fidelity(profile).comve_pair == "shared" and selected.questions[0].form == "comve"
                pair = select_shared_pair(source, dataset.settings, sample) if shared else None
                runner = build_runner(session, helper, profile, judge, cache)
                run_seeds = select_seeds(seeds, dataset.name, profile, repeated)
                runs = build_settings(profile, run_seeds, tokens, edits, compare_meaning, pair)
                rows += build_test_rows(questions, tests, runs, runner)
                asked, skipped[profile] = asked + len(questions) * len(runs), dict(selected.skipped)
        yield DatasetResult(dataset, {"rows": rows}, asked, {"skipped": skipped, **count_missing_verdicts(rows)})


def build_settings(
    profile: Profile,
    seeds: Sequence[int],
    tokens: Mapping[str, int],
    edits: Mapping[str, int],
    meaning: bool,
    pair: tuple[str, str] | None = None,
) -> list[EditTestSettings]:
    """Build the settings of each run from the study's keys; published numbers are the defaults.

    Args:
        tokens: Maximum number of new tokens of `explanation`, `answer`, `mistake`, `paraphrase`.
        pair: The sentences that all items of ComVE share in `published`.
    """
    limits = {TOKEN_LIMITS[name]: most for name, most in tokens.items()}
    return [EditTestSettings(profile, seed, **limits, **edits, meaning=meaning, pair=pair) for seed in seeds]


def list_fitting_tests(question: Question, tests: Sequence[str] | None) -> list[str]:
    """Return the tests that fit a question, in the order of `TESTS`; input from explanation fits only ComVE."""
    return [
        test
        for test in TESTS
        if (tests is None or test in tests) and (test != FROM_EXPLANATION or question.form == "comve")
    ]


def build_test_rows(
    questions: Sequence[Question],
    tests: Sequence[str] | None,
    runs: Sequence[EditTestSettings],
    runner: DecoderRunner,
) -> list[dict[str, Any]]:
    """Build a row for each run, question and test that fits it; all requests of a round are one batch.

    Args:
        tests: Names in `TESTS`; None takes all.
        runner: The model and its helper, with the prompts of the profile of the runs.
    """
    prompt_file = runner.decoder.template.prompt_file
    run_questions = [(run, question) for run in runs for question in questions]
    running = [
        run_item_tests(question, list_fitting_tests(question, tests), run, prompt_file)
        for run, question in run_questions
    ]
    records_of_items = run_in_step(running, runner)
    return [
        {
            **build_row(record),
            "profile": run.profile,
            "setting": get_setting(question),
            "image": question.image,
            "text": render_question(question, prompt_file)[0],
            "correct": _judge_answer(record.result, question, run.profile),
        }
        for (run, question), records in zip(run_questions, records_of_items, strict=True)
        for record in records
    ]


def _judge_answer(result: EditTestResult | UserError, question: Question, profile: Profile) -> bool | None:
    """Return whether the answer to the unedited item is right; None where there is none."""
    return None if isinstance(result, UserError) else is_right_answer(result.answer, question, profile)


def run_item_tests(
    question: Question, tests: Sequence[str], settings: EditTestSettings, prompt_file: PromptFile
) -> FallibleTestSteps[list[EditTestRecord]]:
    """Run the tests of one item: first the unedited item is asked, then all tests run in step.

    Where a request gets no reply its test ends with the reason; all of them do where the unedited item gets none.

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


def build_row(record: EditTestRecord) -> dict[str, Any]:
    """Build the columns of a record: those of `EditTestResult`, the score, and the exchanges.

    Returns:
        item_id, test, verdict, score (the verdict as a float), answer, edited_answer, reason, explanation,
        edited_input, edited_explanation, inserted, seed, error, and exchanges: kind, seed, reply, and `given`, the
        other inputs of the prompt, as JSON.
    """
    failed = isinstance(record.result, UserError)
    columns = dict.fromkeys(field.name for field in fields(EditTestResult)) if failed else vars(record.result)
    return {
        "item_id": record.item_id,
        "test": record.test,
        **columns,
        "score": None if columns["verdict"] is None else float(columns["verdict"]),
        "seed": record.seed,
        "error": str(record.result) if failed else None,
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


def count_missing_verdicts(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Count rows without a verdict, and the most frequent reasons and errors."""
    missing = [row for row in rows if row["verdict"] is None]
    reasons = Counter(row["reason"] for row in missing if row["reason"] is not None)
    errors = Counter(row["error"] for row in missing if row["error"] is not None)
    return {
        "without_verdict": len(missing),
        "reasons": dict(reasons.most_common(10)),
        "errors": dict(errors.most_common(10)),
    }
