"""Records of stage consistency: all tests of a data set's questions, one after another or in
shards.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from waltz.consistency.edit_tests import chain_of_thought
from waltz.consistency.edit_tests.edits import (
    COUNTERFACTUAL_EDITS,
    FROM_EXPLANATION,
    run_biasing_features,
    run_counterfactual_edits,
    run_input_from_explanation,
)
from waltz.consistency.edit_tests.mentions import BIASING_FEATURES
from waltz.consistency.edit_tests.runner import DecoderRunner, build_runner
from waltz.consistency.edit_tests.steps import (
    EditTestOutcome,
    EditTestResult,
    EditTestSettings,
    Exchange,
    FallibleTestSteps,
    TestSteps,
    UneditedAnswers,
    ask_unedited,
    merge_steps,
    record_exchanges,
    run_tests_in_step,
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
from waltz.core.jobs.records import show_progress
from waltz.core.schema import ConsistencyRecord, StoredExchange
from waltz.evaluation.decoder_rows import is_right_answer
from waltz.evaluation.decoder_tasks import open_dataset_images
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.evaluation.prompting.prompt_files import PromptFile
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Fidelity, Profile, get_fidelity
from waltz.models.decoders.continuations import samples_text
from waltz.models.decoders.decoder import Decoder
from waltz.models.decoders.language_model import LanguageModel
from waltz.models.text.classifier import Classifier

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


class MissingVerdicts(TypedDict):
    """Declare what a run record says about tests without a verdict.

    Attributes:
        without_verdict: Number of tests without a verdict.
        reasons: The most frequent reasons, with their numbers.
        errors: The most frequent errors, with their numbers.
    """

    without_verdict: int
    reasons: dict[str, int]
    errors: dict[str, int]


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
        repeated: Data sets on which a model that samples takes all these seeds instead of the first
            alone; None for all.
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
        For each data set, `ConsistencyRecord`s under the name `rows`.
    """
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        records: list[ConsistencyRecord] = []
        item_count = 0
        skipped = {}
        with (
            open_dataset_images(dataset) as load,
            show_progress(
                0, "generation", f"{decoder.spec.name}, {dataset.name}"
            ) as bar,
        ):
            session = DecoderSession(decoder, load, run.cache, bar.update)
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
                seeds = select_seeds(
                    run.seeds, dataset.name, run.repeated, samples_text(decoder)
                )
                settings_of_seeds = build_settings(
                    fidelity, seeds, run.tokens, run.edits, run.compare_meaning, pair
                )
                records += build_test_records(
                    questions, run.tests, settings_of_seeds, runner
                )
                item_count += len(questions) * len(settings_of_seeds)
                skipped[profile] = dict(selected.skipped)
        yield DatasetResult(
            dataset,
            {"rows": records},
            item_count,
            {"skipped": skipped, **count_missing_verdicts(records)},
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
    requested = set(TESTS if tests is None else tests)
    # Input from explanation replaces one of two sentences, which only ComVE has.
    if question.form != "comve":
        requested -= {FROM_EXPLANATION}
    return [test for test in TESTS if test in requested]


def build_test_records(
    questions: Sequence[Question],
    tests: Sequence[str] | None,
    runs: Sequence[EditTestSettings],
    runner: DecoderRunner,
) -> list[ConsistencyRecord]:
    """Build a record for each run, each question and each test that fits the question.

    Args:
        tests: Names in `TESTS`; None takes all.
        runs: Settings of each run.
        runner: The model and its helper, with the prompts of the profile of the runs.
    """
    prompt_file = runner.decoder.template.prompt_file
    run_questions = [(run, question) for run in runs for question in questions]
    is_sampled = runner.decoder.sampling is not None
    # The tests of all items and seeds run in step, so that the requests of a round form large
    # batches.
    running = []
    for run, question in run_questions:
        fitting = list_fitting_tests(question, tests)
        running.append(run_item_tests(question, fitting, run, prompt_file))

    records = []
    for (run, question), outcomes in zip(
        run_questions, run_tests_in_step(running, runner), strict=True
    ):
        text, _ = render_question(question, prompt_file)
        for outcome in outcomes:
            record = convert_outcome(outcome, question, text, run.fidelity)
            records.append(replace(record, sampled=is_sampled))
    return records


def run_item_tests(
    question: Question,
    tests: Sequence[str],
    settings: EditTestSettings,
    prompt_file: PromptFile,
) -> FallibleTestSteps[list[EditTestOutcome]]:
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
            EditTestOutcome(
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
            EditTestOutcome(
                question.item_id, test, result, settings.seed, all_exchanges
            )
        )
    return records


def convert_outcome(
    outcome: EditTestOutcome, question: Question, text: str, fidelity: Fidelity
) -> ConsistencyRecord:
    """Build the record of the outcome of one test of one item.

    Args:
        text: The unedited question, as the prompts render it.
        fidelity: Rules of the test.
    """
    record = ConsistencyRecord(
        item_id=question.item_id,
        profile=fidelity.name,
        setting=get_setting(question),
        test=outcome.test,
        seed=outcome.seed,
        image=question.image,
        text=text,
        exchanges=[_build_exchange(exchange) for exchange in outcome.exchanges],
    )
    result = outcome.result
    if isinstance(result, UserError):
        return replace(record, error=str(result))
    # The fields of a result are columns of the record.
    return replace(
        record,
        **vars(result),
        score=None if result.verdict is None else float(result.verdict),
        correct=is_right_answer(result.answer, question, fidelity),
    )


def _build_exchange(exchange: Exchange) -> StoredExchange:
    request = exchange.request
    # The texts of a prompt differ from kind to kind, so that they are stored as JSON.
    texts = json.dumps(dict(request.texts), ensure_ascii=False, sort_keys=True)
    return StoredExchange(request.kind, request.seed, texts, exchange.reply)


def count_missing_verdicts(records: Iterable[ConsistencyRecord]) -> MissingVerdicts:
    """Count the records without a verdict, and list the most frequent reasons and errors."""
    n_missing = 0
    reasons: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for record in records:
        if record.verdict is not None:
            continue
        n_missing += 1
        if record.reason is not None:
            reasons[record.reason] += 1
        if record.error is not None:
            errors[record.error] += 1
    return MissingVerdicts(
        without_verdict=n_missing,
        reasons=dict(reasons.most_common(LISTED_REASONS)),
        errors=dict(errors.most_common(LISTED_REASONS)),
    )
