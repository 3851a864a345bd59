"""Calibration of self-consistency tests: how often they pass faithful decoders and fail unfaithful
ones.

The decoders are constructed (module `constructed`); the items are pairs of sentences about the
embedded world. A test should detect unfaithful decoders: sensitivity is the share of an unfaithful
decoder's items that the test calls inconsistent, and specificity is the share of a faithful
decoder's items that the test calls consistent.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from waltz.attribution.prompt_attribution import PERMUTATIONS
from waltz.attribution.shapley.estimate import Estimate, estimate_in_step
from waltz.attribution.shapley.estimators import begin_permutations
from waltz.consistency.cc_shap.measure import SharedEstimate, compute_cc_shap
from waltz.consistency.edit_tests.steps import EditTestSettings, run_tests_in_step
from waltz.consistency.edit_tests.tests import TESTS, run_item_tests
from waltz.core.errors import UserError
from waltz.core.intervals import (
    PERCENT,
    WILSON,
    Bounds,
    Resampling,
    build_measure,
    resample,
)
from waltz.core.measure import Measure
from waltz.core.sampling import rank
from waltz.core.schema import MeasurementRecord
from waltz.evaluation.metrics.pair_metrics import (
    ScoredPairs,
    compute_auroc,
    compute_auroc_draws,
)
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import (
    Question,
    draw_wrong_label,
    list_letters,
)
from waltz.fidelity import PUBLISHED, Fidelity, get_fidelity
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
from waltz.measures.rows import SIGNED, average, build_row
from waltz.scenes.writers.tasks import build_comve

MEASUREMENT = "calibration"
DATASET = "comve"
_build_row = partial(build_row, MEASUREMENT, dataset=DATASET)
CC_SHAP = "cc_shap"
BACKGROUNDS = (BACKGROUND, 0.1, 1.0)
"""Levels of background: the largest change of an output's log-odds with each visible word of the
input.
"""
MIXTURES = (0, 25, 50, 75, 100)
"""Percent of the items that a mixture of a faithful and an unfaithful decoder explains faithfully.
"""


def measure_calibration(
    items: int, seed: int, profiles: Sequence[str], resampling: Resampling
) -> list[MeasurementRecord]:
    """Measure sensitivity and specificity of the seven tests and of CC-SHAP on all constructed
    decoders.

    Args:
        items: Number of items.
        seed: Seed of items, votes, edits and permutations.
        profiles: Profiles of tests and CC-SHAP.
        resampling: Coverage of the intervals; resamples of the items of CC-SHAP and of mixtures.
    """
    questions = draw_comve_questions(items, seed)
    rows: list[MeasurementRecord] = []
    for fidelity in map(get_fidelity, profiles):
        rows += _measure_tests(questions, seed, fidelity, resampling)
        for background in BACKGROUNDS:
            rows += _measure_cc_shap(questions, seed, fidelity, background, resampling)
    return rows


def _measure_tests(
    questions: Sequence[Question], seed: int, fidelity: Fidelity, resampling: Resampling
) -> list[MeasurementRecord]:
    """Return the rows of the seven tests: the rate of each decoder, and the mixtures of the two
    decoders of `MIXED`.
    """
    verdicts = {
        decoder: run_calibration_tests(decoder, questions, seed, fidelity)
        for decoder in DECODERS
    }
    rows = []
    for decoder, verdicts_by_test in verdicts.items():
        for test, is_consistent in verdicts_by_test.items():
            # A verdict is right if it calls a faithful decoder consistent, an unfaithful one
            # inconsistent.
            hits = [verdict == decoder.faithful for verdict in is_consistent.values()]
            rate = measure_share(hits, resampling.confidence)
            rows.append(
                _build_row(
                    name_rate(decoder), rate, fidelity.name, test, model=decoder.name
                )
            )

    # Verdicts as 0 and 100, so that means are percentages.
    faithful, unfaithful = MIXED
    for test in TESTS:
        faithful_verdicts = {
            item: 100.0 * verdict for item, verdict in verdicts[faithful][test].items()
        }
        unfaithful_verdicts = {
            item: 100.0 * verdict
            for item, verdict in verdicts[unfaithful][test].items()
        }
        mixtures = measure_mixtures(
            faithful_verdicts, unfaithful_verdicts, seed, PERCENT, resampling
        )
        rows += _build_mixture_rows("consistent", mixtures, fidelity, test)
    return rows


@dataclass(frozen=True, slots=True)
class Mixtures:
    """Hold the results of decoders that explain some items faithfully and the others unfaithfully.

    Attributes:
        means: Mean of the measure over items, by the percent of items that are explained faithfully
            (`MIXTURES`).
        ordered: Percent of the resamples in which the means rise at each step.
    """

    means: dict[int, Measure]
    ordered: Measure


def measure_mixtures(
    faithful: Mapping[str, float],
    unfaithful: Mapping[str, float],
    seed: int,
    bounds: Bounds,
    resampling: Resampling,
) -> Mixtures:
    """Measure decoders that explain some items faithfully and the others unfaithfully.

    No test compares items, so that each item of a mixture has the number of the decoder that
    explains it. The items that are explained faithfully are drawn separately for each share.

    Args:
        faithful: Number of each item of the faithful decoder.
        unfaithful: Number of each item of the unfaithful decoder.
        seed: Seed of the draws.
        bounds: Smallest and largest value of the number.
        resampling: Resampling of items.
    """
    items = [item for item in faithful if item in unfaithful]
    draws = resample(
        items, resamples=resampling.resamples, seed=resampling.seed, label=MEASUREMENT
    )
    means = {}
    resampled_means = []
    for share in MIXTURES:
        # Which items are explained faithfully is drawn by a hash, so that it depends on no other
        # share.
        ranked = sorted(
            items, key=lambda item: rank(f"faithful on {share}:{item}", seed)
        )
        explained_faithfully = set(ranked[: round(share / 100 * len(items))])
        values = []
        for item in items:
            is_faithful = item in explained_faithfully
            values.append(faithful[item] if is_faithful else unfaithful[item])
        means[share] = average(values, items, MEASUREMENT, resampling, bounds)
        resampled_means.append(draws.compute_means(values))

    # Means by mixture (axis 0) and resample (axis 1).
    rises = np.diff(np.array(resampled_means), axis=0) > 0
    is_ordered = rises.all(axis=0)
    return Mixtures(means, Measure(100 * float(is_ordered.mean()), len(items)))


def name_rate(decoder: ConstructedDecoder) -> str:
    """Return the name of the rate that a decoder's items give: specificity if it is faithful, else
    sensitivity.
    """
    return "specificity" if decoder.faithful else "sensitivity"


def draw_comve_questions(items: int, seed: int) -> list[Question]:
    """Return ComVE questions: pairs of a sensible and a nonsensical sentence about the embedded
    world.
    """
    sentences_file, answers_file = build_comve(items, seed)
    sentences = list(csv.reader(io.StringIO(sentences_file)))[1:]  # without the heading
    answers = list(csv.reader(io.StringIO(answers_file)))
    labels = list_letters(2)
    questions = []
    for (number, first, second), (_, gold) in zip(sentences, answers, strict=True):
        item_id, right = f"comve:{number}", labels[int(gold)]
        wrong = draw_wrong_label(item_id, labels, right, seed)
        fields = {"first": first, "second": second}
        questions.append(
            Question(item_id, DATASET, DATASET, None, fields, labels, (right,), wrong)
        )
    return questions


def run_calibration_tests(
    decoder: ConstructedDecoder,
    questions: Sequence[Question],
    seed: int,
    fidelity: Fidelity,
) -> dict[str, dict[str, bool]]:
    """Return the verdicts of the seven tests on a constructed decoder.

    Returns:
        By test and item id, True if the test calls the item consistent; items without a verdict are
        left out.
    """
    prompt_file = read_prompt_file(fidelity)
    # The item before lends the text from which `word of another item` names a word.
    texts = [render_question(question, prompt_file)[0] for question in questions]
    other_texts = {
        question.item_id: texts[position - 1]
        for position, question in enumerate(questions)
    }
    example = questions[0].fields
    settings = EditTestSettings(
        fidelity, seed, pair=(example["first"], example["second"])
    )
    runner = ConstructedRunner(decoder, prompt_file, other_texts, seed)
    # Tests of all items go on together: one call of the runner answers one request of each.
    running = [
        run_item_tests(question, list(TESTS), settings, prompt_file)
        for question in questions
    ]
    verdicts: dict[str, dict[str, bool]] = {test: {} for test in TESTS}
    for records in run_tests_in_step(running, runner):
        for record in records:
            if isinstance(record.result, UserError):
                raise record.result
            if record.result.verdict is not None:
                verdicts[record.test][record.item_id] = bool(record.result.verdict)
    return verdicts


def compute_cc_shap_of_items(
    decoder: ConstructedDecoder,
    questions: Sequence[Question],
    seed: int,
    fidelity: Fidelity,
    background: float,
) -> list[float]:
    """Return CC-SHAP of each item of a constructed decoder; the players are the words of the
    question.

    `equations` explains probabilities, `published` log-odds; both estimate by permutations here.
    """
    prompt_file = read_prompt_file(fidelity)
    texts = [
        render_question(question, prompt_file)[0].casefold() for question in questions
    ]
    values = []
    for position, (question, text) in enumerate(zip(questions, texts, strict=True)):
        item_seed = draw_item_seed(question.item_id, seed)
        reason = choose_reason(text, decoder, texts[position - 1], item_seed)
        evaluate = partial(
            _evaluate_coalitions,
            WORD.findall(text),
            reason,
            item_seed,
            fidelity,
            background,
            names_strongest=decoder.names == "deciding word",
        )
        permutation_seed = rank(f"permutations:{question.item_id}", seed) % 2**32
        value = _compute_cc_shap(
            evaluate, len(WORD.findall(text)), permutation_seed, fidelity
        )
        if value is not None:
            values.append(value)
    return values


def _evaluate_coalitions(
    words: Sequence[str],
    reason: str | None,
    item_seed: int,
    fidelity: Fidelity,
    background: float,
    masks: np.ndarray,
    *,
    names_strongest: bool,
) -> np.ndarray:
    """Return the explained value of the answer (column 0) and of each token of the explanation, (k,
    1 + tokens).
    """
    outcomes = compute_token_outcomes(
        words, masks, reason, item_seed, background, names_strongest=names_strongest
    )
    log_odds: np.ndarray = np.concatenate(outcomes, axis=1)
    if fidelity is PUBLISHED:
        return log_odds
    return np.asarray(expit(log_odds))


def _compute_cc_shap(
    evaluate: Callable[[np.ndarray], np.ndarray],
    n_players: int,
    seed: int,
    fidelity: Fidelity,
) -> float | None:
    """Return CC-SHAP of an answer and its explanation, which have all players in common."""
    # A permutation and its reverse change the coalition 2 n times and share the empty one.
    budget = PERMUTATIONS * (2 * n_players + 1)
    (estimate,) = estimate_in_step(
        [begin_permutations(n_players, budget, seed)],
        lambda requested: [evaluate(requested[0])],
    )
    shared_players = np.arange(n_players)
    answer = SharedEstimate(_select_outputs(estimate, slice(0, 1)), shared_players)
    explanation = SharedEstimate(
        _select_outputs(estimate, slice(1, None)), shared_players
    )
    return compute_cc_shap(answer, explanation, fidelity).value


def _select_outputs(estimate: Estimate, outputs: slice) -> Estimate:
    """Return an estimate with only the selected outputs."""
    assert estimate.parts is not None
    return replace(
        estimate,
        phi=estimate.phi[:, outputs],
        base_value=estimate.base_value[outputs],
        value=estimate.value[outputs],
        parts=estimate.parts[..., outputs],
    )


def choose_thresholds(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return for each sample the threshold of CC-SHAP that maximizes sensitivity plus specificity.

    A decoder is called faithful on an item whose CC-SHAP reaches the threshold.

    Args:
        values: CC-SHAP of the items of a faithful decoder, then of each unfaithful one: float64 of
            shape (decoders, items).
        counts: How often each sample has each item, float64 of shape (samples, items).
    Returns:
        The best threshold of each sample, one of the values of its items and the lowest in a tie,
        float64 of shape (samples,).
    """
    candidates = np.unique(values)
    is_reached = values[..., None] >= candidates  # (decoders, items, candidates)
    # Specificity counts as much as the mean sensitivity of the unfaithful decoders: weights 1 and 1
    # / (decoders - 1), here times decoders - 1, so that all gains are whole numbers.
    n_unfaithful = len(values) - 1.0
    specific = n_unfaithful * is_reached[0]  # (items, candidates)
    sensitive = (~is_reached[1:]).sum(axis=0)
    gains = counts @ (specific + sensitive)  # (samples, candidates)

    # A value that no item of the sample has cannot be chosen.
    has_candidate = (values[..., None] == candidates).any(axis=0)
    gains[counts @ has_candidate == 0] = -np.inf
    thresholds: np.ndarray = candidates[gains.argmax(axis=1)]
    return thresholds


def judge_by_threshold(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the share of each decoder's items that are judged rightly, a share of 1.

    The threshold that judges one half of the items is chosen on the other half.

    Args:
        values: CC-SHAP by decoder and item, as for `choose_thresholds`; items alternate between the
            halves.
        counts: How often each sample has each item, float64 of shape (samples, items).
    Returns:
        float64 of shape (samples, decoders).
    """
    hits = np.zeros((len(counts), len(values)))
    for half in (0, 1):
        judged, other_half = slice(half, None, 2), slice(1 - half, None, 2)
        thresholds = choose_thresholds(values[:, other_half], counts[:, other_half])
        # (samples, decoders, items)
        is_right = values[:, judged] >= thresholds[:, None, None]
        # An unfaithful decoder is judged rightly below the threshold.
        is_right[:, 1:] = ~is_right[:, 1:]
        hits += np.einsum("si,sdi->sd", counts[:, judged], is_right)
    shares: np.ndarray = hits / counts.sum(axis=1, keepdims=True)
    return shares


def measure_rates(
    values: np.ndarray, items: Sequence[str], resampling: Resampling
) -> list[Measure]:
    """Return the percent of each decoder's items that are judged rightly.

    The intervals include the error of the threshold: both halves of the items are resampled, and a
    threshold is chosen on each resample. The Wilson intervals use the number of independent items
    that would give the variance of the resamples: the number of items over the design effect.

    Args:
        values: CC-SHAP by decoder and item, as for `judge_by_threshold`.
        items: Id of each item.
        resampling: Resamples, coverage and seed.
    Returns:
        The share in percent, of each decoder.
    Source:
        Dean & Pagano (Journal of Survey Statistics and Methodology 3, 2015), on Wilson intervals of
        such numbers.
    """
    # Row 0 has each item once, each further row is a resample: (1 + resamples, items).
    counts = np.ones((1 + resampling.resamples, len(items)))
    for half in (0, 1):
        label = f"{MEASUREMENT}: half {half} of the items"
        draws = resample(
            items[half::2],
            resamples=resampling.resamples,
            seed=resampling.seed,
            label=label,
        )
        counts[1:, half::2] = draws.count_items()
    # The first result is the measure; the others give its design effect.
    shares, *resampled_shares = judge_by_threshold(values, counts)

    measures = []
    for share, resampled in zip(shares, np.array(resampled_shares).T, strict=True):
        # Design effect: variance of the resamples over the variance of as many independent items, p (1 - p)
        # / n.
        independent_variance = resampled.mean() * (1 - resampled.mean()) / len(items)
        design_effect = 1.0
        if independent_variance:
            design_effect = max(1.0, resampled.var(ddof=1) / independent_variance)
        measures.append(
            _build_share(float(share), len(items), resampling.confidence, design_effect)
        )
    return measures


def measure_share(hits: Sequence[bool], confidence: float) -> Measure:
    """Return a share of independent items in percent, with its Wilson interval."""
    if not hits:
        return Measure(None, 0, reason="no item has a verdict")
    return _build_share(sum(hits) / len(hits), len(hits), confidence)


def _build_share(
    share: float, items: int, confidence: float, design_effect: float = 1.0
) -> Measure:
    """Return a share in percent with its Wilson interval for the number of items divided by the
    design effect.
    """
    n = items / design_effect
    z_squared = float(norm.ppf((1 + confidence) / 2)) ** 2
    # (p + z2 / 2n -+ z sqrt(p (1 - p) / n + z2 / 4n2)) / (1 + z2 / n)
    center = share + z_squared / (2 * n)
    half_width = math.sqrt(z_squared * (share * (1 - share) + z_squared / (4 * n)) / n)
    low = (center - half_width) / (1 + z_squared / n)
    high = (center + half_width) / (1 + z_squared / n)
    return Measure(
        100 * share, items, 100 * _clip_share(low), 100 * _clip_share(high), WILSON
    )


def _clip_share(share: float) -> float:
    return min(1.0, max(0.0, share))


def _measure_cc_shap(
    questions: Sequence[Question],
    seed: int,
    fidelity: Fidelity,
    background: float,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return rows of CC-SHAP at one level of background: its mean, AUROC, sensitivity and
    specificity.
    """
    # The first level is what is reported as CC-SHAP; the others ask how much of it survives
    # background.
    level = CC_SHAP
    if background != BACKGROUND:
        level = f"{CC_SHAP}, background {background:g}"
    explaining = [decoder for decoder in DECODERS if _has_cc_shap_rows(decoder)]
    values = {}
    for decoder in explaining:
        values[decoder.name] = np.array(
            compute_cc_shap_of_items(decoder, questions, seed, fidelity, background)
        )

    rows = []
    items = [question.item_id for question in questions]
    draws = resample(
        items, resamples=resampling.resamples, seed=resampling.seed, label=MEASUREMENT
    )
    faithful_values = values[explaining[0].name]
    for decoder in explaining:
        decoder_values = values[decoder.name]
        mean = average(decoder_values.tolist(), items, MEASUREMENT, resampling, SIGNED)
        rows.append(_build_row(CC_SHAP, mean, fidelity.name, level, model=decoder.name))
        if not decoder.faithful:
            # AUROC of telling the faithful decoder's items (as captions) from this one's (as
            # foils).
            scored = ScoredPairs(
                tuple(items), tuple(items), faithful_values, decoder_values, None
            )
            aurocs = 100 * compute_auroc_draws(scored, draws)
            auroc = 100 * compute_auroc(faithful_values, decoder_values)
            measure = build_measure(
                auroc, len(items), aurocs, resampling, len(items), PERCENT
            )
            rows.append(
                _build_row("auroc", measure, fidelity.name, level, model=decoder.name)
            )

    # Mixtures are of the decoders without background.
    if background == BACKGROUND:
        faithful, unfaithful = (
            dict(zip(items, values[decoder.name].tolist(), strict=True))
            for decoder in MIXED
        )
        mixtures = measure_mixtures(faithful, unfaithful, seed, SIGNED, resampling)
        rows += _build_mixture_rows("cc_shap of mixture", mixtures, fidelity, level)
    rates = measure_rates(
        np.array([values[decoder.name] for decoder in explaining]), items, resampling
    )
    for decoder, rate in zip(explaining, rates, strict=True):
        rows.append(
            _build_row(
                name_rate(decoder), rate, fidelity.name, level, model=decoder.name
            )
        )
    return rows


def _has_cc_shap_rows(decoder: ConstructedDecoder) -> bool:
    """Return whether CC-SHAP is measured on a decoder.

    Decoders that differ only in the answer after a chain of thought have the same CC-SHAP, so one
    of them is measured.
    """
    if decoder.faithful:
        return decoder.reads == "reasoning"
    return decoder.reads == "input"


def _build_mixture_rows(
    quantity: str, mixtures: Mixtures, fidelity: Fidelity, level: str
) -> list[MeasurementRecord]:
    rows = []
    for share, mean in mixtures.means.items():
        rows.append(
            _build_row(
                quantity, mean, fidelity.name, level, model=f"faithful on {share} %"
            )
        )
    rows.append(_build_row("ordered", mixtures.ordered, fidelity.name, level))
    return rows
