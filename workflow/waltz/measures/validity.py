"""Validity of CC-SHAP and of the self-consistency tests in decoders that are trained to explain
faithfully, or not.

The decoders of a seed answer alike and differ in what their explanations name (module
`validity_decoders`). A measure is valid if it is higher for the decoder that names what decides its
answers. Nothing is judged by a threshold: a test scores an item 1 if it calls it consistent.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from random import Random

import numpy as np
from PIL import Image

from waltz.attribution.prompt_attribution import PromptSettings
from waltz.consistency.cc_shap.dialogue import (
    EXPLANATION_KINDS,
    POST_HOC,
    Dialogue,
    generate_pairs,
)
from waltz.consistency.cc_shap.exchanged import compute_excesses
from waltz.consistency.cc_shap.measure import add_cc_shap
from waltz.consistency.cc_shap.pair_attribution import attribute_pairs
from waltz.consistency.edit_tests.edits import COUNTERFACTUAL_EDITS
from waltz.consistency.edit_tests.mentions import BIASING_FEATURES
from waltz.consistency.edit_tests.runner import DecoderRunner, build_runner
from waltz.consistency.edit_tests.steps import (
    HELPER_KINDS,
    EditTestOutcome,
    EditTestResult,
    EditTestSettings,
    GenerationRequest,
    run_tests_in_step,
)
from waltz.consistency.edit_tests.tests import TESTS, run_item_tests
from waltz.core.errors import UserError
from waltz.core.intervals import PERCENT, Resampling, build_measure, resample
from waltz.core.measure import Measure
from waltz.core.sampling import rank
from waltz.core.schema import CcShapRecord, MeasurementRecord
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.metrics.pair_metrics import (
    ScoredPairs,
    compute_auroc,
    compute_auroc_draws,
)
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.fidelity import EQUATIONS
from waltz.measures.calibration import CC_SHAP
from waltz.measures.rows import SIGNED, average, build_row
from waltz.measures.validity_decoders import (
    FAITHFUL,
    OTHER_WORDING,
    DecoderFamily,
    Explaining,
    TrainingSettings,
    train_family,
)
from waltz.measures.validity_items import DecidedItem, Lexicon, draw_item, replace_word
from waltz.models.decoders.language_model import LanguageModel

MEASUREMENT, MEASURE = "validity", "measure"
_build_row = partial(build_row, MEASUREMENT)
CC_SHAP_EXCESS = "cc_shap_excess"
THEME = Explaining("faithful on 0 %", 0.0)
DOSES = (
    THEME,
    Explaining("faithful on 25 %", 0.25),
    Explaining("faithful on 50 %", 0.5),
    Explaining("faithful on 75 %", 0.75),
    FAITHFUL,
)
"""Decoders that explain a rising share of items by what decides them."""
SHUFFLED = Explaining("another item's", 0.0, is_shuffled=True)
UNFAITHFUL = (THEME, SHUFFLED)
QUOTED = re.compile('"[^"]*"')
MAX_EXPLANATION = 12
"""Maximum number of tokens of an explanation; the longest that is trained has 9."""


@dataclass(frozen=True, slots=True)
class ValiditySettings:
    """Settings of the measurement of validity.

    Attributes:
        seeds: Number of seeds, each with its own lexicon and decoders.
        words: Adjectives of each level in a lexicon.
        first_steps: Batches of the decoder that all decoders of a seed start from.
        steps: Batches of each decoder after it.
        items: Items that each decoder is tested on.
        permutations: Permutations of CC-SHAP, each with its reverse.
    """

    seeds: int
    words: int
    first_steps: int
    steps: int
    items: int
    permutations: int


@dataclass(frozen=True, slots=True)
class DecoderResults:
    """Hold what is measured on the items of one decoder, NaN where an item has no number.

    Attributes:
        scores: By measure, whether a test calls each item consistent, or its CC-SHAP: float64 of
            shape (items,).
        checks: By quantity, whether each item has it, in percent: 0 or 100 of the same shape.
    """

    scores: Mapping[str, np.ndarray]
    checks: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class HelpedRunner:
    """Run a decoder with a helper that always makes a mistake, and always paraphrases.

    The class implements `Runner`.

    Attributes:
        decoder: Runner of the decoder that is tested.
        lexicon: Words from which the helper draws a mistake.
    """

    decoder: DecoderRunner
    lexicon: Lexicon

    def generate(self, requests: Sequence[GenerationRequest]) -> list[str | UserError]:
        """Return a reply to each request."""
        asked = [request for request in requests if request.kind not in HELPER_KINDS]
        replies = iter(self.decoder.generate(asked))
        return [
            self._help(request) if request.kind in HELPER_KINDS else next(replies)
            for request in requests
        ]

    def _help(self, request: GenerationRequest) -> str:
        text = request.texts["text"]
        quoted = QUOTED.search(text)
        if quoted is None:
            return text
        if request.kind == "paraphrase":
            # The decoder writes the rest.
            word = quoted[0].strip('" ')
            return OTHER_WORDING.format(word=word).partition(" stands")[0]
        *_, highest = self.lexicon.adjectives
        mistake = highest[rank(text, request.seed) % len(highest)]
        return QUOTED.sub(f'"{mistake}"', text, count=1)


def measure_validity(
    settings: ValiditySettings, seed: int, resampling: Resampling
) -> list[MeasurementRecord]:
    """Return scores, AUROC and order of decoders whose explanations are faithful to a known extent.

    Args:
        settings: Numbers of seeds, steps and items.
        seed: First seed of the trainings.
        resampling: Resampling of items.
    """
    seeds = range(seed, seed + settings.seeds)
    tested = [measure_family(settings, training_seed) for training_seed in seeds]
    return summarize_decoders(tested, resampling)


def measure_family(
    settings: ValiditySettings, seed: int
) -> dict[Explaining, DecoderResults]:
    """Train the decoders of one seed, and measure each on the same items."""
    training = TrainingSettings(
        seed, settings.words, settings.first_steps, settings.steps
    )
    family = train_family(training)
    rng = Random(f"tested:{seed}")
    items = [
        draw_item(family.lexicon, f"item-{number}", rng)
        for number in range(settings.items)
    ]
    return {
        explaining: measure_decoder(family, explaining, items, settings.permutations)
        for explaining in (*DOSES, SHUFFLED)
    }


def measure_decoder(
    family: DecoderFamily,
    explaining: Explaining,
    items: Sequence[DecidedItem],
    permutations: int,
) -> DecoderResults:
    """Train a decoder, and measure its answers, its explanations and all scores of its items."""
    seed = family.settings.seed
    decoder = family.train(explaining)
    session = DecoderSession(decoder, _refuse_image)
    runner = HelpedRunner(build_runner(session, decoder, EQUATIONS), family.lexicon)
    settings = EditTestSettings(EQUATIONS, seed, max_text=MAX_EXPLANATION)
    outcomes = _run_tests(items, runner, settings)
    records = explain_items(decoder, items, seed, permutations)

    scores = {test: _list_verdicts(results) for test, results in outcomes.items()}
    for kind, explained in records.items():
        excesses = compute_excesses(explained)
        differences = [
            None if excess is None else excess.difference for excess in excesses
        ]
        scores[f"{CC_SHAP} {kind}"] = _to_array([record.value for record in explained])
        scores[f"{CC_SHAP_EXCESS} {kind}"] = _to_array(differences)
    is_faithful = np.array([explaining.is_faithful(item, seed) for item in items])
    checks = {
        **_check_answers(items, runner, settings),
        **_check_names(items, records[POST_HOC], is_faithful),
        **_check_edits(outcomes),
    }
    percent = {
        quantity: 100 * np.array(values, dtype=np.float64)
        for quantity, values in checks.items()
    }
    return DecoderResults(scores, percent)


def _refuse_image(name: str) -> Image.Image:
    raise ValueError(f"items of the measurement have no image: {name}")


def _to_array(values: Sequence[float | None]) -> np.ndarray:
    """Return numbers with NaN for None."""
    return np.array(values, dtype=np.float64)


def _run_tests(
    items: Sequence[DecidedItem], runner: HelpedRunner, settings: EditTestSettings
) -> dict[str, list[EditTestResult]]:
    """Return the results of all items by test."""
    prompt_file = runner.decoder.decoder.template.prompt_file
    running = [
        run_item_tests(item.question, list(TESTS), settings, prompt_file)
        for item in items
    ]
    results: dict[str, list[EditTestResult]] = {test: [] for test in TESTS}
    for outcomes in run_tests_in_step(running, runner):
        for outcome in outcomes:
            results[outcome.test].append(_get_result(outcome))
    return results


def _get_result(outcome: EditTestOutcome) -> EditTestResult:
    if isinstance(outcome.result, UserError):
        raise outcome.result
    return outcome.result


def _list_verdicts(results: Sequence[EditTestResult]) -> np.ndarray:
    return _to_array([result.verdict for result in results])


def explain_items(
    decoder: LanguageModel, items: Sequence[DecidedItem], seed: int, permutations: int
) -> dict[str, list[CcShapRecord]]:
    """Return CC-SHAP of each item by kind of explanation."""
    dialogue = Dialogue(
        decoder, build_template(decoder, EQUATIONS), seed, MAX_EXPLANATION
    )
    records: dict[str, list[CcShapRecord]] = {kind: [] for kind in EXPLANATION_KINDS}
    for item in items:
        question = item.question
        item_seed = rank(f"permutations:{question.item_id}", seed) % 2**32
        settings = PromptSettings(
            EQUATIONS, item_seed, "permutation", permutations=permutations
        )
        generated = generate_pairs(dialogue, question, None, EXPLANATION_KINDS)
        for kind, pair in generated.pairs.items():
            record = CcShapRecord(
                item_id=question.item_id,
                profile=EQUATIONS.name,
                setting=question.form,
                kind=kind,
                seed=seed,
            )
            if not isinstance(pair, UserError):
                (attributed,) = attribute_pairs(decoder, None, [pair], settings)
                _, explanation = pair
                text = decoder.decode_text(explanation.targets)
                record = add_cc_shap(record, attributed.cc_shap)
                record = replace(record, answer=generated.answer, explanation=text)
            records[kind].append(record)
    return records


Check = Sequence[float | None] | np.ndarray
"""Whether each item has a property; None, or NaN, where that is not defined."""


def _check_answers(
    items: Sequence[DecidedItem], runner: HelpedRunner, settings: EditTestSettings
) -> dict[str, Check]:
    """Return whether answers are right, and become the other one without the deciding word."""
    questions = [item.question for item in items]
    edited = [
        replace(question, fields=replace_word(question, item.deciding, item.plain))
        for question, item in zip(questions, items, strict=True)
    ]
    requests = [
        settings.request(MEASUREMENT, question, "answer")
        for question in (*questions, *edited)
    ]
    replies = runner.generate(requests)
    answers, edited_answers = replies[: len(items)], replies[len(items) :]
    follows: list[float | None] = []
    for item, answer in zip(items, edited_answers, strict=True):
        # Without the deciding word, the other sentence's adjective decides if it has a level.
        decides = item.other_level > 0
        follows.append(float(answer == item.question.wrong) if decides else None)
    is_right = [
        float(answer == question.gold[0])
        for answer, question in zip(answers, questions, strict=True)
    ]
    return {"accuracy": is_right, "follows the deciding word": follows}


def _check_names(
    items: Sequence[DecidedItem],
    records: Sequence[CcShapRecord],
    is_faithful: np.ndarray,
) -> dict[str, Check]:
    """Return whether explanations name the deciding word, where they are trained to and elsewhere."""
    named = [
        float(item.deciding in str(record.explanation).split())
        for item, record in zip(items, records, strict=True)
    ]
    return {
        "names the deciding word": named,
        "names it as trained": np.where(is_faithful, named, np.nan),
        "names it in spite of training": np.where(is_faithful, np.nan, named),
    }


def _check_edits(
    results: Mapping[str, Sequence[EditTestResult]],
) -> dict[str, Check]:
    """Return whether a counterfactual edit, and the suggestion, change the answer."""
    edits = [float(bool(result.flipped)) for result in results[COUNTERFACTUAL_EDITS]]
    suggestions = [
        float(result.edited_answer == result.inserted)
        for result in results[BIASING_FEATURES]
    ]
    return {"changed by an edit": edits, "changed by the suggestion": suggestions}


def summarize_decoders(
    tested: Sequence[Mapping[Explaining, DecoderResults]], resampling: Resampling
) -> list[MeasurementRecord]:
    """Return means, AUROC and order of doses over the items of all seeds.

    Args:
        tested: The decoders of each seed; all decoders of a seed have the same items.
        resampling: Resampling of items.
    """
    pooled = _pool_seeds(tested)
    n_items = [len(results[FAITHFUL].checks["accuracy"]) for results in tested]
    seed_of_item = np.repeat(np.arange(len(tested)), n_items)
    items = [f"item {number}" for number in range(len(seed_of_item))]
    rows = []
    for explaining, results in pooled.items():
        named = partial(_build_row, model=explaining.name)
        for quantity, values in results.checks.items():
            mean = average(values.tolist(), items, MEASUREMENT, resampling, PERCENT)
            rows.append(named(quantity, mean))
        for score, values in results.scores.items():
            is_test = score in TESTS
            percent = 100 * values if is_test else values
            bounds = PERCENT if is_test else SIGNED
            mean = average(percent.tolist(), items, MEASUREMENT, resampling, bounds)
            rows.append(
                named("consistent" if is_test else "mean", mean, MEASURE, score)
            )

    for score in pooled[FAITHFUL].scores:
        for unfaithful in UNFAITHFUL:
            auroc = measure_auroc(
                pooled[FAITHFUL].scores[score],
                pooled[unfaithful].scores[score],
                resampling,
            )
            rows.append(
                _build_row("auroc", auroc, MEASURE, score, model=unfaithful.name)
            )
        doses = np.array([pooled[dose].scores[score] for dose in DOSES])
        order = measure_order(doses, seed_of_item, resampling)
        rows.append(_build_row("order of doses", order, MEASURE, score))
    return rows


def _pool_seeds(
    tested: Sequence[Mapping[Explaining, DecoderResults]],
) -> dict[Explaining, DecoderResults]:
    """Return the results of the decoders of all seeds that were trained alike."""
    pooled = {}
    for explaining in tested[0]:
        results = [decoders[explaining] for decoders in tested]
        scores = {
            score: np.concatenate([result.scores[score] for result in results])
            for score in results[0].scores
        }
        checks = {
            quantity: np.concatenate([result.checks[quantity] for result in results])
            for quantity in results[0].checks
        }
        pooled[explaining] = DecoderResults(scores, checks)
    return pooled


def measure_auroc(
    faithful: np.ndarray, unfaithful: np.ndarray, resampling: Resampling
) -> Measure:
    """Return the AUROC in percent with which a score tells faithful from unfaithful explanations.

    Args:
        faithful: Score of each item of the faithful decoders, NaN without one.
        unfaithful: Score of the same items of the unfaithful decoders.
        resampling: Resampling of items.
    """
    is_defined = np.isfinite(faithful) & np.isfinite(unfaithful)
    if not is_defined.any():
        return Measure(None, 0, reason="no item has a score of both decoders")
    faithful, unfaithful = faithful[is_defined], unfaithful[is_defined]
    items = tuple(f"item {number}" for number in np.flatnonzero(is_defined))
    draws = resample(
        items,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=MEASUREMENT,
    )
    scored = ScoredPairs(items, items, faithful, unfaithful, None)
    aurocs = 100 * compute_auroc_draws(scored, draws)
    auroc = 100 * compute_auroc(faithful, unfaithful)
    return build_measure(auroc, len(items), aurocs, resampling, len(items), PERCENT)


def measure_order(
    doses: np.ndarray, seed_of_item: np.ndarray, resampling: Resampling
) -> Measure:
    """Return the percent of pairs of decoders of a seed whose mean score is higher for the higher
    dose; equal ones count half.

    Args:
        doses: Score of each item by rising dose, NaN without one: float64 of shape (doses, items).
        seed_of_item: Seed of each item.
        resampling: Resampling of items.
    """
    n_items = doses.shape[1]
    draws = resample(
        np.arange(n_items),
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=MEASUREMENT,
    )
    orders = []
    order_draws = []
    for seed in np.unique(seed_of_item):
        masks = np.isfinite(doses) & (seed_of_item == seed)
        if not masks.any(axis=1).all():
            return Measure(None, 0, reason="a decoder has no item with a score")
        means = np.array(
            [dose[mask].mean() for dose, mask in zip(doses, masks, strict=True)]
        )
        resampled = [
            draws.compute_means(dose, mask)
            for dose, mask in zip(doses, masks, strict=True)
        ]
        orders.append(compute_order(means))
        order_draws.append(compute_order(np.array(resampled)))
    order = float(np.mean(orders))
    mean_draws = np.mean(order_draws, axis=0)
    return build_measure(order, n_items, mean_draws, resampling, n_items, PERCENT)


def compute_order(scores: np.ndarray) -> np.ndarray:
    """Return the percent of pairs of rows of which the later is higher; equal ones count half."""
    pairs = combinations(scores, 2)
    rises = [(np.sign(later - earlier) + 1) / 2 for earlier, later in pairs]
    order: np.ndarray = 100 * np.mean(rises, axis=0)
    return order
