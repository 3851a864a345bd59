"""Rows of the layout `CONSISTENCY`: all tests of a data set's questions, one after another or in shards."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from waltz.consistency.edit_tests import input_from_explanation
from waltz.consistency.edit_tests.generation_requests import run_in_step
from waltz.consistency.edit_tests.runner import DecoderRunner, build_runner
from waltz.consistency.edit_tests.settings import EditTestSettings, Profile
from waltz.consistency.edit_tests.tests import TESTS, build_row, run_item_tests
from waltz.consistency.item_selection import get_setting, select_questions, select_shared_pair
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_log import show_progress
from waltz.evaluation.prompting.generation_cache import DecoderSession
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.decoder import Decoder
from waltz.models.decoders.language_model import LanguageModel
from waltz.models.text.classifier import Classifier
from waltz.sources.images import load_image, open_images

TOKEN_LIMITS = {
    "explanation": "most_text",
    "answer": "most_answer",
    "mistake": "most_mistake",
    "paraphrase": "most_paraphrase",
}
"""The study's keys of `consistency.tokens`, and what they set."""


def build_settings(
    profile: Profile,
    seeds: Sequence[int],
    tokens: Mapping[str, int],
    edits: Mapping[str, int],
    meaning: bool,
    pair: tuple[str, str] | None = None,
) -> list[EditTestSettings]:
    """What governs each run, by the study's keys; the published numbers where it has none.

    Args:
        profile: `equations` or `published`.
        seeds: A run each.
        tokens: Most new tokens of `explanation`, `answer`, `mistake`, `paraphrase`.
        edits: `positions` and `words` of counterfactual edits.
        meaning: Whether open answers are compared by their meaning.
        pair: The sentences that all items of ComVE share in `published`.
    """
    given = {TOKEN_LIMITS[name]: most for name, most in tokens.items()}
    return [EditTestSettings(profile, seed, **given, **edits, meaning=meaning, pair=pair) for seed in seeds]


def list_fitting_tests(question: Question, tests: Sequence[str] | None) -> list[str]:
    """Names of the tests that fit a question, in the order of `TESTS`; input from explanation fits ComVE alone.

    Args:
        question: A question.
        tests: Those that are wanted; None takes all.
    """
    return [
        test
        for test in TESTS
        if (tests is None or test in tests) and (test != input_from_explanation.NAME or question.form == "comve")
    ]


def build_test_rows(
    questions: Sequence[Question],
    tests: Sequence[str] | None,
    runs: Sequence[EditTestSettings],
    runner: DecoderRunner,
) -> list[dict[str, Any]]:
    """A row for each run, question and test that fits it; what is asked in one round is asked of all together.

    Args:
        questions: Questions of one data set.
        tests: Names in `TESTS`; None takes all.
        runs: What governs each run.
        runner: The model and its helper, as the profile of the runs asks them.
    """
    prompt_file = runner.decoder.template.prompt_file
    asked = [(run, question) for run in runs for question in questions]
    running = [
        run_item_tests(question, list_fitting_tests(question, tests), run, prompt_file) for run, question in asked
    ]
    found = run_in_step(running, runner)
    return [
        {
            **build_row(one),
            "profile": run.profile,
            "setting": get_setting(question),
            "image": question.image,
            "text": render_question(question, prompt_file)[0],
        }
        for (run, question), of_one in zip(asked, found, strict=True)
        for one in of_one
    ]


def count_missing_verdicts(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows without a verdict, and the most frequent reasons and errors."""
    kept = [row for row in rows if row["verdict"] is None]
    reasons = Counter(row["reason"] for row in kept if row["reason"] is not None)
    errors = Counter(row["error"] for row in kept if row["error"] is not None)
    return {
        "without_verdict": len(kept),
        "reasons": dict(reasons.most_common(10)),
        "errors": dict(errors.most_common(10)),
    }


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
    tokens: Mapping[str, int],
    edits: Mapping[str, int],
    compare_meaning: bool,
    shard: slice,
) -> Iterator[DatasetResult]:
    """Run the self-consistency tests of one decoder on one shard of the items of data sets.

    Args:
        decoder: The decoder.
        helper: The decoder that adds mistakes, paraphrases and compares meanings.
        judge: A classifier of entailment that compares meanings instead; None where none does.
        datasets: Files of the data sets, with their form.
        profiles: Fidelity profiles.
        cache: Folder of finished generations.
        tests: Names of the tests; None runs all that fit.
        sample: Number of items a data set; None for all.
        seed: Seed of the sample.
        seeds: Seeds of edits and draws, each a whole run.
        tokens: Most new tokens by kind of generation.
        edits: Positions and words of counterfactual edits.
        compare_meaning: True where meanings of open answers are compared.
        shard: Items of the shard.
    Yields:
        Rows of the consistency layout as `rows`.
    """
    for dataset in datasets:
        source = pq.read_table(dataset.rows).to_pylist()
        rows: list[dict[str, Any]] = []
        asked, skipped = 0, {}
        images: AbstractContextManager[Any] = open_images(dataset.images) if dataset.images else nullcontext()
        with images as opened, show_progress(0, "reply", f"{decoder.spec.name}, {dataset.name}") as bar:
            session = DecoderSession(decoder, partial(load_image, opened), cache, bar.update)
            for profile in profiles:
                selected = select_questions(source, dataset.name, dataset.settings, profile, sample, seed)
                questions = selected.questions[shard]
                shared = profile == "published" and selected.questions[0].form == "comve"
                pair = select_shared_pair(source, dataset.settings, sample) if shared else None
                runner = build_runner(session, helper, profile, judge, cache)
                runs = build_settings(profile, seeds, tokens, edits, compare_meaning, pair)
                rows += build_test_rows(questions, tests, runs, runner)
                asked, skipped[profile] = asked + len(questions), dict(selected.skipped)
        yield DatasetResult(
            dataset, {"rows": rows}, asked * len(seeds), {"left_out": skipped, **count_missing_verdicts(rows)}
        )
