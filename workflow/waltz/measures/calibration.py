"""Calibration of self-consistency tests: how often they pass faithful decoders and fail unfaithful ones.

The decoders are constructed (`constructed`), the items pairs of sentences of the embedded world. To be detected is an
unfaithful decoder: sensitivity is the share of its items that a test calls inconsistent, specificity the share of a
faithful decoder's items that it calls consistent.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from waltz.attribution.prompt_attribution import PERMUTATIONS
from waltz.attribution.shapley.estimate import Estimate, run_in_step
from waltz.attribution.shapley.estimators import begin_permutations
from waltz.consistency.cc_shap.measure import SharedEstimate, compute_cc_shap
from waltz.consistency.edit_tests.steps import EditTestSettings
from waltz.consistency.edit_tests.steps import run_in_step as run_tests_in_step
from waltz.consistency.edit_tests.tests import TESTS, run_item_tests
from waltz.core.errors import UserError
from waltz.core.intervals import PERCENT, Bounds, Measure, Resampling, compute_interval, resample
from waltz.core.sampling import rank
from waltz.evaluation.metrics.pair_metrics import ScoredPairs, compute_auroc, compute_auroc_draws
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import Question, draw_wrong_label, list_letters
from waltz.fidelity import Profile
from waltz.measures.constructed import (
    BACKGROUND,
    DECODERS,
    MIXED,
    WORD,
    ConstructedDecoder,
    ConstructedRunner,
    choose_reason,
    compute_token_outcomes,
    draw_item_seed,
)
from waltz.measures.rows import Row, average, build_row
from waltz.scenes.writers.tasks import build_comve

MEASUREMENT = "calibration"
DATASET = "comve"
CC_SHAP = "cc_shap"
BACKGROUNDS = (BACKGROUND, 0.1, 1.0)
"""Levels of what all inputs change in all outputs, in log-odds a word."""
SIGNED = (-1.0, 1.0)
MIXTURES = (0, 25, 50, 75, 100)
"""Percent of the items that a mixture of a faithful and an unfaithful decoder explains faithfully."""


def measure_calibration(items: int, seed: int, profiles: Sequence[Profile], how: Resampling) -> list[Row]:
    """Measure sensitivity and specificity of the seven tests and of CC-SHAP on all constructed decoders.

    Args:
        items: Number of items.
        seed: Seed of items, votes, edits and permutations.
        profiles: Profiles of tests and CC-SHAP.
        how: Coverage of the intervals; resamples of the items of CC-SHAP and of mixtures.
    """
    questions = draw_questions(items, seed)
    rows: list[Row] = []
    for profile in profiles:
        verdicts = {decoder: run_calibration_tests(decoder, questions, seed, profile) for decoder in DECODERS}
        for decoder, verdicts_by_test in verdicts.items():
            for test, consistent in verdicts_by_test.items():
                hits = [verdict == decoder.faithful for verdict in consistent.values()]
                measure = measure_share(hits, how.confidence)
                place = {"model": decoder.name, "dataset": DATASET, "factor": profile, "level": test}
                rows.append(build_row(MEASUREMENT, name_rate(decoder), measure, **place))
        for test in TESTS:
            mixed = [{item: 100.0 * verdict for item, verdict in verdicts[decoder][test].items()} for decoder in MIXED]
            place = {"dataset": DATASET, "factor": profile, "level": test}
            rows += measure_mixtures(mixed[0], mixed[1], seed, "consistent", PERCENT, place, how)
        for background in BACKGROUNDS:
            rows += _measure_cc_shap(questions, seed, profile, background, how)
    return rows


def measure_mixtures(
    faithful: Mapping[str, float],
    unfaithful: Mapping[str, float],
    seed: int,
    quantity: str,
    bounds: Bounds,
    place: Mapping[str, str],
    how: Resampling,
) -> list[Row]:
    """Measure decoders that explain some items as a faithful one does, and the others as an unfaithful one.

    No test compares items, so that the numbers of a mixture are those of its parts. Which items are explained
    faithfully is drawn anew for each share.

    Args:
        faithful: Number of each item of the faithful decoder.
        unfaithful: Number of each item of the unfaithful decoder.
        seed: Seed of the draws.
        quantity: What the number is.
        bounds: Its smallest and largest value.
        place: Data set, factor and level of the rows.
    Returns:
        The mean of each of `MIXTURES`, and `ordered`: percent of the resamples in which these rise at each step.
    """
    items = [item for item in faithful if item in unfaithful]
    rows: list[Row] = []
    means = []
    resamples = resample(items, resamples=how.resamples, seed=how.seed, label=MEASUREMENT)
    for share in MIXTURES:
        drawn = sorted(items, key=lambda item: rank(f"faithful on {share}:{item}", seed))
        chosen = set(drawn[: round(share / 100 * len(items))])
        values = [(faithful if item in chosen else unfaithful)[item] for item in items]
        means.append(resamples.compute_means(values))
        mean = average(values, items, MEASUREMENT, how, bounds)
        rows.append(build_row(MEASUREMENT, quantity, mean, model=f"faithful on {share} %", **place))
    ordered = (np.diff(np.array(means), axis=0) > 0).all(axis=0)
    rows.append(build_row(MEASUREMENT, "ordered", Measure(100 * float(ordered.mean()), len(items)), **place))
    return rows


def name_rate(decoder: ConstructedDecoder) -> str:
    """Return which rate the items of a decoder give."""
    return "specificity" if decoder.faithful else "sensitivity"


def draw_questions(items: int, seed: int) -> list[Question]:
    """Draw pairs of a sensible and a nonsensical sentence of the embedded world, as questions of ComVE."""
    sentences, answers = (list(csv.reader(io.StringIO(text))) for text in build_comve(items, seed))
    labels = list_letters(2)
    questions = []
    for (number, first, second), (_, gold) in zip(sentences[1:], answers, strict=True):
        item_id, right = f"comve:{number}", labels[int(gold)]
        wrong = draw_wrong_label(item_id, labels, right, seed)
        fields = {"first": first, "second": second}
        questions.append(Question(item_id, DATASET, DATASET, None, fields, labels, (right,), wrong))
    return questions


def run_calibration_tests(
    decoder: ConstructedDecoder, questions: Sequence[Question], seed: int, profile: Profile
) -> dict[str, dict[str, bool]]:
    """Run the seven tests on a constructed decoder.

    Returns:
        By test and item, whether it calls the item consistent; items without a verdict are left out.
    """
    prompt_file = read_prompt_file(profile)
    texts = [render_question(question, prompt_file)[0] for question in questions]
    others = {question.item_id: texts[place - 1] for place, question in enumerate(questions)}
    first = questions[0].fields
    settings = EditTestSettings(profile, seed, pair=(first["first"], first["second"]))
    runner = ConstructedRunner(decoder, prompt_file, others, seed)
    running = [run_item_tests(question, list(TESTS), settings, prompt_file) for question in questions]
    verdicts: dict[str, dict[str, bool]] = {test: {} for test in TESTS}
    for records in run_tests_in_step(running, runner):
        for record in records:
            if isinstance(record.result, UserError):
                raise record.result
            if record.result.verdict is not None:
                verdicts[record.test][record.item_id] = bool(record.result.verdict)
    return verdicts


def compute_cc_shap_of_items(
    decoder: ConstructedDecoder, questions: Sequence[Question], seed: int, profile: Profile, background: float
) -> list[float]:
    """Return CC-SHAP of each item of a constructed decoder; the players are the words of the question.

    `equations` explains probabilities, `published` log-odds; both estimate by permutations here.
    """
    prompt_file = read_prompt_file(profile)
    texts = [render_question(question, prompt_file)[0].casefold() for question in questions]
    values = (
        _compute_cc_shap_of_item(decoder, question.item_id, text, texts[place - 1], seed, profile, background)
        for place, (question, text) in enumerate(zip(questions, texts, strict=True))
    )
    return [value for value in values if value is not None]


def _compute_cc_shap_of_item(
    decoder: ConstructedDecoder,
    item_id: str,
    text: str,
    other_text: str,
    seed: int,
    profile: Profile,
    background: float,
) -> float | None:
    words, item_seed = WORD.findall(text), draw_item_seed(item_id, seed)
    reason = choose_reason(text, decoder, other_text, item_seed)
    names_strongest = decoder.names == "deciding word"

    def evaluate(masks: np.ndarray) -> np.ndarray:
        outcomes = compute_token_outcomes(words, masks, reason, item_seed, background, names_strongest=names_strongest)
        result: np.ndarray = np.concatenate(outcomes, axis=1)
        return result if profile == "published" else np.asarray(expit(result))

    budget = PERMUTATIONS * (2 * len(words) + 1)
    permutation_seed = rank(f"permutations:{item_id}", seed) % 2**32
    (estimate,) = run_in_step(
        [begin_permutations(len(words), budget, permutation_seed)], lambda masks: [evaluate(masks[0])]
    )
    shared = np.arange(len(words))
    sides = [SharedEstimate(_take_outputs(estimate, part), shared) for part in (slice(0, 1), slice(1, None))]
    return compute_cc_shap(sides[0], sides[1], profile).value


def choose_thresholds(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Choose the value at and above which a decoder is best called faithful: the highest sensitivity + specificity.

    Args:
        values: CC-SHAP of the items of a faithful decoder, then of each unfaithful one: float64 of shape (decoders,
            items).
        counts: How often each sample has each item, float64 of shape (samples, items).
    Returns:
        The lowest of the best values of each sample's items, float64 of shape (samples,).
    """
    candidates = np.unique(values)
    is_reached = values[..., None] >= candidates
    gains = counts @ ((len(values) - 1.0) * is_reached[0] + (~is_reached[1:]).sum(axis=0))
    gains[counts @ (values[..., None] == candidates).any(axis=0) == 0] = -np.inf
    chosen: np.ndarray = candidates[gains.argmax(axis=1)]
    return chosen


def judge_by_threshold(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the share of each decoder's items that a threshold judges rightly that is chosen on the other half.

    Args:
        values: As of `choose_thresholds`, like `counts`; items alternate between the halves.
    Returns:
        float64 of shape (samples, decoders).
    """
    hits = np.zeros((len(counts), len(values)))
    for half in (0, 1):
        chosen_on, judged = slice(1 - half, None, 2), slice(half, None, 2)
        thresholds = choose_thresholds(values[:, chosen_on], counts[:, chosen_on])
        is_right = values[:, judged] >= thresholds[:, None, None]
        is_right[:, 1:] = ~is_right[:, 1:]
        hits += np.einsum("si,sdi->sd", counts[:, judged], is_right)
    shares: np.ndarray = hits / counts.sum(axis=1, keepdims=True)
    return shares


def measure_rates(values: np.ndarray, items: Sequence[str], how: Resampling) -> list[Measure]:
    """Measure how many items of each decoder are judged rightly, with the threshold's error in the intervals.

    Both halves of the items are resampled, a threshold is chosen on each resample, and Wilson intervals are those of as
    many independent items as would give the variance of the resamples: the number of items over the design effect.

    Args:
        values: As of `judge_by_threshold`.
        items: Id of each item.
        how: Resamples, coverage and seed.
    Returns:
        The share in percent, of each decoder.
    Source:
        Dean & Pagano (Journal of Survey Statistics and Methodology 3, 2015), on Wilson intervals of such numbers.
    """
    counts = np.ones((1 + how.resamples, len(items)))
    for half in (0, 1):
        label = f"{MEASUREMENT}: half {half} of the items"
        drawn = resample(items[half::2], resamples=how.resamples, seed=how.seed, label=label)
        counts[1:, half::2] = drawn.counts[:, drawn.cluster]
    shares, *draws = judge_by_threshold(values, counts)
    measures = []
    for share, own in zip(shares, np.array(draws).T, strict=True):
        independent = own.mean() * (1 - own.mean()) / len(items)
        effect = max(1.0, own.var(ddof=1) / independent) if independent else 1.0
        measures.append(_build_share(float(share), len(items), how.confidence, effect))
    return measures


def measure_share(hits: Sequence[bool], confidence: float) -> Measure:
    """Return a share of independent items in percent, with its Wilson interval."""
    if not hits:
        return Measure(None, 0, reason="no item has a verdict")
    return _build_share(sum(hits) / len(hits), len(hits), confidence)


def _build_share(share: float, items: int, confidence: float, design_effect: float = 1.0) -> Measure:
    size, squared = items / design_effect, float(norm.ppf((1 + confidence) / 2)) ** 2
    middle = share + squared / (2 * size)
    half = math.sqrt(squared * (share * (1 - share) + squared / (4 * size)) / size)
    low, high = (min(1.0, max(0.0, end / (1 + squared / size))) for end in (middle - half, middle + half))
    return Measure(100 * share, items, 100 * low, 100 * high)


def _measure_cc_shap(
    questions: Sequence[Question], seed: int, profile: Profile, background: float, how: Resampling
) -> list[Row]:
    """Return rows of CC-SHAP at one level of background: its mean, AUROC, sensitivity and specificity."""
    level = CC_SHAP if background == BACKGROUND else f"{CC_SHAP}, background {background:g}"
    explaining = [decoder for decoder in DECODERS if decoder.reads == ("reasoning" if decoder.faithful else "input")]
    values = {
        decoder.name: np.array(compute_cc_shap_of_items(decoder, questions, seed, profile, background))
        for decoder in explaining
    }
    items = [question.item_id for question in questions]
    resamples = resample(items, resamples=how.resamples, seed=how.seed, label=MEASUREMENT)
    place = {"dataset": DATASET, "factor": profile, "level": level}
    faithful = values[explaining[0].name]
    rows = []
    for decoder in explaining:
        own = values[decoder.name]
        mean = average(own.tolist(), items, MEASUREMENT, how, SIGNED)
        rows.append(build_row(MEASUREMENT, CC_SHAP, mean, model=decoder.name, **place))
        if decoder.faithful:
            continue
        scored = ScoredPairs(tuple(items), tuple(items), faithful, own, None)
        ends = compute_interval(100 * compute_auroc_draws(scored, resamples), how.confidence, len(items), PERCENT)
        auroc = Measure(100 * compute_auroc(faithful, own), len(items), *ends)
        rows.append(build_row(MEASUREMENT, "auroc", auroc, model=decoder.name, **place))
    if background == BACKGROUND:
        mixed = [dict(zip(items, values[decoder.name].tolist(), strict=True)) for decoder in MIXED]
        rows += measure_mixtures(mixed[0], mixed[1], seed, "cc_shap of mixture", SIGNED, place, how)
    rates = measure_rates(np.array([values[decoder.name] for decoder in explaining]), items, how)
    for decoder, measure in zip(explaining, rates, strict=True):
        rows.append(build_row(MEASUREMENT, name_rate(decoder), measure, model=decoder.name, **place))
    return rows


def _take_outputs(estimate: Estimate, outputs: slice) -> Estimate:
    assert estimate.parts is not None
    return replace(
        estimate,
        phi=estimate.phi[:, outputs],
        base_value=estimate.base_value[outputs],
        value=estimate.value[outputs],
        parts=estimate.parts[..., outputs],
    )
