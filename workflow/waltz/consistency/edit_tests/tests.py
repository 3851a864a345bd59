"""Rows of the layout `CONSISTENCY`: all tests of a data set's questions, one after another or in
shards.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
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
from waltz.consistency.item_selection import (
    get_setting,
    select_questions,
    select_seeds,
    select_shared_pair,
)
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.evaluation.decoder_rows import is_right_answer
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.evaluation.prompting.prompt_files import PromptFile
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Fidelity, Profile, get_fidelity
from waltz.models.decoders.decoder import Decoder
from waltz.models.decoders.language_model import LanguageModel
from waltz.models.text.classifier import Classifier
from waltz.sources.images import load_image, open_images

ReasoningTest = Callable[
    [Question, UneditedAnswers, EditTestSettings], TestSteps[EditTestResult]
]
StartTest = Callable[
    [Question, UneditedAnswers, EditTestSettings, PromptFile], TestSteps[EditTestResult]
]


def _start_counterfactual_edits(
    question: Question,
    before: UneditedAnswers,
    settings: EditTestSettings,
    prompt_file: PromptFile,
) -> TestSteps[EditTestResult]:
    text, _ = render_question(question, prompt_file)
    return run_counterfactual_edits(question, text, before.answer, settings)


def _start_input_from_explanation(
    question: Question,
    before: UneditedAnswers,
    settings: EditTestSettings,
    prompt_file: PromptFile,
) -> TestSteps[EditTestResult]:
    return run_input_from_explanation(question, before.answer, prompt_file, settings)


def _start(test: ReasoningTest) -> StartTest:
    """Adapt a test that does not need the prompts to the arguments that all tests take."""
    return lambda question, before, settings, prompt_file: test(
        question, before, settings
    )


TESTS: dict[str, StartTest] = {
    COUNTERFACTUAL_EDITS: _start_counterfactual_edits,
    FROM_EXPLANATION: _start_input_from_explanation,
    BIASING_FEATURES: _start(run_biasing_features),
    chain_of_thought.EARLY_ANSWERING: _start(chain_of_thought.run_early_answering),
    chain_of_thought.FILLER_TOKENS: _start(chain_of_thought.run_filler_tokens),
    chain_of_thought.ADDING_MISTAKES: _start(chain_of_thought.run_adding_mistakes),
    chain_of_thought.PARAPHRASING: _start(chain_of_thought.run_paraphrasing),
}
"""Function that starts each test, by the name of the test, in the order of thesis Table 5.2."""
TOKEN_LIMITS = {
    "explanation": "max_text",
    "answer": "max_answer",
    "mistake": "max_mistake",
    "paraphrase": "max_paraphrase",
}
"""Field of `EditTestSettings` for each key of the study's `consistency.tokens`."""
LISTED_REASONS = 10
"""Number of the most frequent reasons, and of the most frequent errors, that a run record lists."""


@dataclass(frozen=True)
class EditTestRun:
    """Hold what a job tests: the settings, the tests and the items for one decoder.

    Attributes:
        profiles: Profiles of the study.
        cache: File of finished blocks.
        tests: Names of the tests; None runs all tests that fit an item.
        sample: Number of items of each data set; None for all.
        seed: The study's seed.
        seeds: Seeds of edits and samples; each is a complete run.
        repeated: Data sets on which `published` takes all these seeds instead of the first alone;
            None for all.
        tokens: Maximum number of new tokens by kind of generation.
        edits: Positions and words of counterfactual edits.
        compare_meaning: Whether meanings of open answers are compared.
        shard: The items of this job.
    """

    profiles: Sequence[Profile]
    cache: Path
    tests: Sequence[str] | None
    sample: int | None
    seed: int
    seeds: Sequence[int]
    repeated: Collection[str] | None
    tokens: Mapping[str, int]
    edits: Mapping[str, int]
    compare_meaning: bool
    shard: slice


def run_tests(
    decoder: Decoder,
    helper: LanguageModel,
    judge: Classifier | None,
    datasets: Iterable[DatasetFiles],
    run: EditTestRun,
) -> Iterator[DatasetResult]:
    """Run the self-consistency tests of one decoder on one shard of the items of each data set.

    Args:
        helper: The decoder that adds mistakes, paraphrases and compares meanings.
        judge: A classifier of entailment that compares meanings instead of the helper; None without
            a judge.
        datasets: Files of the data sets, with their form.
    Yields:
        For each data set, rows of the consistency layout under the name `rows`.
    """
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        rows: list[dict[str, Any]] = []
        item_count = 0
        skipped = {}
        images: AbstractContextManager[Any] = (
            open_images(dataset.images) if dataset.images else nullcontext()
        )
        with (
            images as opened,
            show_progress(
                0, "generation", f"{decoder.spec.name}, {dataset.name}"
            ) as bar,
        ):
            session = DecoderSession(
                decoder, partial(load_image, opened), run.cache, bar.update
            )
            for profile in dataset.select_profiles(run.profiles):
                # Each profile has its own questions, prompts and seeds.
                fidelity = get_fidelity(profile)
                selected = select_questions(
                    source,
                    dataset.name,
                    dataset.settings,
                    fidelity,
                    run.sample,
                    run.seed,
                )
                questions = selected.questions[run.shard]
                # The released code explains the same two sentences for all items of ComVE.
                pair = None
                if (
                    fidelity.comve_pair == "shared"
                    and selected.questions[0].form == "comve"
                ):
                    pair = select_shared_pair(source, dataset.settings, run.sample)
                runner = build_runner(session, helper, fidelity, judge, run.cache)
                seeds = select_seeds(run.seeds, dataset.name, fidelity, run.repeated)
                settings_of_seeds = build_settings(
                    fidelity, seeds, run.tokens, run.edits, run.compare_meaning, pair
                )
                rows += build_test_rows(questions, run.tests, settings_of_seeds, runner)
                item_count += len(questions) * len(settings_of_seeds)
                skipped[profile] = dict(selected.skipped)
        yield DatasetResult(
            dataset,
            {"rows": rows},
            item_count,
            {"skipped": skipped, **count_missing_verdicts(rows)},
        )


def build_settings(
    fidelity: Fidelity,
    seeds: Sequence[int],
    tokens: Mapping[str, int],
    edits: Mapping[str, int],
    compare_meaning: bool,
    pair: tuple[str, str] | None = None,
) -> list[EditTestSettings]:
    """Build the settings for each seed from the study's keys; the numbers of the papers are the
    defaults.

    Args:
        tokens: Maximum number of new tokens of `explanation`, `answer`, `mistake`, `paraphrase`.
        edits: Positions and words of counterfactual edits.
        compare_meaning: Whether meanings of open answers are compared.
        pair: The sentences that all items of ComVE share in `published`.
    """
    limits = {TOKEN_LIMITS[name]: count for name, count in tokens.items()}
    return [
        EditTestSettings(
            fidelity, seed, **limits, **edits, meaning=compare_meaning, pair=pair
        )
        for seed in seeds
    ]


def list_fitting_tests(question: Question, tests: Sequence[str] | None) -> list[str]:
    """Return the names of the tests that fit a question, in the order of `TESTS`."""
    fitting = list(TESTS)
    if tests is not None:
        fitting = [test for test in fitting if test in tests]
    # Input from explanation replaces one of two sentences, which only ComVE has.
    if question.form != "comve":
        fitting = [test for test in fitting if test != FROM_EXPLANATION]
    return fitting


def build_test_rows(
    questions: Sequence[Question],
    tests: Sequence[str] | None,
    runs: Sequence[EditTestSettings],
    runner: DecoderRunner,
) -> list[dict[str, Any]]:
    """Build a row for each run, each question and each test that fits the question.

    Args:
        tests: Names in `TESTS`; None takes all.
        runs: Settings of each run.
        runner: The model and its helper, with the prompts of the profile of the runs.
    """
    prompt_file = runner.decoder.template.prompt_file
    run_questions = [(run, question) for run in runs for question in questions]
    # The tests of all items and seeds run in step, so that the requests of a round form large
    # batches.
    running = []
    for run, question in run_questions:
        fitting = list_fitting_tests(question, tests)
        running.append(run_item_tests(question, fitting, run, prompt_file))

    rows = []
    for (run, question), records in zip(
        run_questions, run_in_step(running, runner), strict=True
    ):
        item_columns = {
            "profile": run.profile,
            "setting": get_setting(question),
            "image": question.image,
            "text": render_question(question, prompt_file)[0],
        }
        for record in records:
            correct = _judge_answer(record.result, question, run.profile)
            rows.append({**build_row(record), **item_columns, "correct": correct})
    return rows


def _judge_answer(
    result: EditTestResult | UserError, question: Question, profile: Profile
) -> bool | None:
    """Return whether the answer to the unedited item is right; None if the test has no result."""
    if isinstance(result, UserError):
        return None
    return is_right_answer(result.answer, question, get_fidelity(profile))


def run_item_tests(
    question: Question,
    tests: Sequence[str],
    settings: EditTestSettings,
    prompt_file: PromptFile,
) -> FallibleTestSteps[list[EditTestRecord]]:
    """Run the tests of one item: the model answers the unedited item, then all tests run in step.

    A test ends with an error if one of its requests gets no reply. If the unedited item gets no
    reply, all tests end with this error.

    Raises:
        UserError: A test is unknown.
    """
    for test in tests:
        if test not in TESTS:
            raise UserError(
                f"unknown test: consistency (got {test}, expected one of {', '.join(TESTS)}); correct the study"
            )
    # All tests start from the answers to the unedited item, which are requested once.
    unedited, first_exchanges = yield from record_exchanges(
        ask_unedited(question, settings)
    )
    if isinstance(unedited, UserError):
        return [
            EditTestRecord(
                question.item_id, test, unedited, settings.seed, first_exchanges
            )
            for test in tests
        ]
    running = [
        record_exchanges(TESTS[test](question, unedited, settings, prompt_file))
        for test in tests
    ]
    outcomes = yield from merge_steps(running)
    # The exchanges about the unedited item belong to the record of every test.
    records = []
    for test, (result, exchanges) in zip(tests, outcomes, strict=True):
        all_exchanges = (*first_exchanges, *exchanges)
        records.append(
            EditTestRecord(question.item_id, test, result, settings.seed, all_exchanges)
        )
    return records


def build_row(record: EditTestRecord) -> dict[str, Any]:
    """Build the columns of a record: the fields of `EditTestResult`, the score, and the exchanges.

    Returns:
        Columns item_id, test, verdict, score (the verdict as a float), answer, edited_answer,
        reason, explanation, edited_input, edited_explanation, inserted, flipped, seed, error, and
        exchanges. An exchange has kind, seed, reply, and `given`, the other inputs of the prompt as
        JSON.
    """
    if isinstance(record.result, UserError):
        columns, error = (
            dict.fromkeys(field.name for field in fields(EditTestResult)),
            str(record.result),
        )
    else:
        columns, error = vars(record.result), None
    # The texts of a prompt differ from kind to kind, so that they are stored as JSON.
    exchanges = []
    for exchange in record.exchanges:
        request = exchange.request
        texts = json.dumps(dict(request.texts), ensure_ascii=False, sort_keys=True)
        exchanges.append(
            {
                "kind": request.kind,
                "seed": request.seed,
                "given": texts,
                "reply": exchange.reply,
            }
        )
    verdict = columns["verdict"]
    return {
        "item_id": record.item_id,
        "test": record.test,
        **columns,
        "score": None if verdict is None else float(verdict),
        "seed": record.seed,
        "error": error,
        "exchanges": exchanges,
    }


def count_missing_verdicts(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Count the rows without a verdict, and list the most frequent reasons and errors, for the run
    record.
    """
    missing_count = 0
    reasons: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for row in rows:
        if row["verdict"] is not None:
            continue
        missing_count += 1
        if row["reason"] is not None:
            reasons[row["reason"]] += 1
        if row["error"] is not None:
            errors[row["error"]] += 1
    return {
        "without_verdict": missing_count,
        "reasons": dict(reasons.most_common(LISTED_REASONS)),
        "errors": dict(errors.most_common(LISTED_REASONS)),
    }
