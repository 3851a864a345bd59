"""Reliability ceiling of CC-SHAP: agreement between two attributions of the same output by
different permutations.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from waltz.attribution.prompt_attribution import PromptSettings
from waltz.consistency.cc_shap.dialogue import POST_HOC, Dialogue, generate_pairs
from waltz.consistency.cc_shap.measure import (
    SharedEstimate,
    compute_cosine,
    compute_mean_ratios,
)
from waltz.consistency.cc_shap.pair_attribution import attribute_pairs
from waltz.consistency.item_selection import select_questions
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Resampling, build_measure, resample
from waltz.core.measure import Measure
from waltz.core.schema import MeasurementRecord
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS
from waltz.measures.items import identify_scene
from waltz.measures.rows import SIGNED, average, build_row
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.sources.images import load_image, open_images

MEASUREMENT = "ceiling"
QUANTITIES = (
    "cc_shap",
    "cc_shap crossed",
    "retest of answer",
    "retest of explanation",
    "split halves",
    "ceiling",
)
AttributedPair = tuple[SharedEstimate, SharedEstimate]
"""Attribution of an answer, then attribution of its explanation."""


@dataclass(frozen=True, slots=True)
class CeilingSettings:
    """Settings of the measurement of the ceiling.

    Attributes:
        sample: Number of items a data set.
        permutations: Numbers of permutations; the largest number is drawn, and smaller ones use its
            first permutations.
        tokens: Maximum number of tokens of an explanation.
    """

    sample: int
    permutations: Sequence[int]
    tokens: int


@dataclass(frozen=True, slots=True)
class Reliability:
    """Hold the agreement between two attributions of one item.

    Both draws explain the same answer and explanation, with different permutations.

    Attributes:
        cc_shap: Mean CC-SHAP of the two draws.
        crossed: Mean CC-SHAP of the answer in one draw and the explanation in the other, whose
            noise is independent.
        answer: Cosine of the answer's mean ratios in both draws.
        explanation: Cosine of the explanation's mean ratios in both draws.
        halves: Root of the product of the split-half cosines of answer and explanation in the first
            draw, stepped up to all permutations; NaN with one permutation.
    """

    cc_shap: float
    crossed: float
    answer: float
    explanation: float
    halves: float

    @property
    def ceiling(self) -> float:
        """Return the highest CC-SHAP to expect if answer and explanation have the same true
        attributions.

        It is the geometric mean of their two retest cosines, as in Spearman's correction for
        attenuation.
        """
        return float(np.sqrt(max(0.0, self.answer) * max(0.0, self.explanation)))


def take_parts(shared: SharedEstimate, parts: slice) -> SharedEstimate:
    """Return the estimate from only some of the permutations; a budget of k draws exactly the first
    k.
    """
    estimate = shared.estimate
    assert estimate.parts is not None
    selected = estimate.parts[parts]
    return replace(
        shared, estimate=replace(estimate, phi=selected.mean(axis=0), parts=selected)
    )


def compare_draws(draws: Sequence[AttributedPair], permutations: int) -> Reliability:
    """Return the agreement between two draws of the permutations of one item.

    Args:
        draws: Attributions by two seeds.
        permutations: Number of permutations that are used, the first ones of each draw.
    Source:
        Correction for attenuation and step-up of halves: Spearman (American Journal of Psychology
        15, 1904; British Journal of Psychology 3, 1910), here for cosines.
    """
    first, second = draws
    first_answer, first_explanation = (
        _average_ratios(shared, slice(permutations)) for shared in first
    )
    second_answer, second_explanation = (
        _average_ratios(shared, slice(permutations)) for shared in second
    )

    halves = np.nan
    if permutations >= 2:
        # Noise of the answer and of the explanation each lower the cosine of the two.
        stepped_up = [_step_up_halves(shared, permutations // 2) for shared in first]
        halves = float(np.sqrt(np.prod(stepped_up)))
    return Reliability(
        cc_shap=(
            _compare(first_answer, first_explanation)
            + _compare(second_answer, second_explanation)
        )
        / 2,
        crossed=(
            _compare(first_answer, second_explanation)
            + _compare(second_answer, first_explanation)
        )
        / 2,
        answer=_compare(first_answer, second_answer),
        explanation=_compare(first_explanation, second_explanation),
        halves=halves,
    )


def _average_ratios(shared: SharedEstimate, parts: slice) -> np.ndarray:
    """Return the mean contribution ratios from only some of the permutations."""
    return compute_mean_ratios(take_parts(shared, parts), EQUATIONS)


def _step_up_halves(shared: SharedEstimate, half: int) -> float:
    """Return the reliability of all permutations, predicted from the cosine between two halves of
    them.

    Spearman-Brown: if some number of draws has the reliability r, twice that number has 2 r / (1 +
    r).
    """
    first = _average_ratios(shared, slice(half))
    second = _average_ratios(shared, slice(half, 2 * half))
    cosine = max(0.0, _compare(first, second))
    return 2 * cosine / (1 + cosine)


def attribute_twice(
    dialogue: Dialogue,
    question: Question,
    picture: PreparedImage | None,
    permutations: int,
    seeds: tuple[int, int],
) -> list[AttributedPair]:
    """Return two attributions of the answer to a question and its post-hoc explanation, by two
    seeds.

    Answer and explanation are generated once.

    Raises:
        UserError: There is no answer or explanation, or nothing to compare.
    """
    pair = generate_pairs(dialogue, question, picture, (POST_HOC,)).pairs[POST_HOC]
    if isinstance(pair, UserError):
        raise pair
    draws = []
    for seed in seeds:
        settings = PromptSettings(
            EQUATIONS, seed, "permutation", permutations=permutations
        )
        (attributed,) = attribute_pairs(dialogue.decoder, picture, [pair], settings)
        draws.append(
            (attributed.answer.shared_estimate, attributed.explanation.shared_estimate)
        )
    return draws


def measure_ceiling(
    decoder: Decoder,
    datasets: Sequence[DatasetFiles],
    settings: CeilingSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return the ceiling of one decoder's CC-SHAP over the items of all data sets, by number of
    permutations.

    Args:
        decoder: A VL decoder.
        datasets: Files and settings of data sets of captions and foils.
        settings: Sample, permutations and tokens.
        seed: Seed of the sample and of the permutations.
        resampling: Resampling of scenes.
    """
    model = decoder.spec.name
    dialogue = Dialogue(
        decoder,
        build_template(decoder, EQUATIONS),
        seed,
        settings.tokens,
        samples_explanations=False,
    )
    items: list[tuple[str, list[AttributedPair]]] = []
    skipped = 0
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        questions = select_questions(
            source,
            dataset.name,
            dataset.settings,
            EQUATIONS,
            settings.sample,
            seed,
        ).questions
        opened: AbstractContextManager[Any] = open_images(dataset.images)
        with opened as images:
            for question in questions:
                picture = decoder.prepare_image(load_image(images, str(question.image)))
                # Two seeds of permutations; the answer and the explanation are the same.
                try:
                    draws = attribute_twice(
                        dialogue,
                        question,
                        picture,
                        max(settings.permutations),
                        (seed, seed + 1),
                    )
                except UserError:
                    skipped += 1
                    continue
                items.append((identify_scene(str(question.image)), draws))

    # Smaller numbers of permutations take the first ones of the same draws.
    rows = []
    clusters = [scene for scene, _ in items]
    for count in settings.permutations:
        reliabilities = [compare_draws(draws, count) for _, draws in items]
        for quantity, measure in summarize_reliabilities(
            reliabilities, clusters, resampling
        ).items():
            row = build_row(
                MEASUREMENT, quantity, measure, "permutations", str(count), model=model
            )
            rows.append(row)
    count_skipped = Measure(float(skipped), len(items) + skipped)
    rows.append(build_row(MEASUREMENT, "skipped", count_skipped, model=model))
    return rows


def summarize_reliabilities(
    reliabilities: Sequence[Reliability],
    clusters: Sequence[str],
    resampling: Resampling,
) -> dict[str, Measure]:
    """Return means over items with their intervals, and CC-SHAP as a share of its ceiling, in
    percent.

    Items on which an index is undefined are left out.

    Args:
        reliabilities: One of each item.
        clusters: The scene of each item.
        resampling: Resampling of scenes.
    """
    table = np.array([_list_indices(reliability) for reliability in reliabilities])
    # (items, indices), also without items
    table = table.reshape(len(reliabilities), len(QUANTITIES))
    measures = {}
    for quantity, values in zip(QUANTITIES, table.T, strict=True):
        measures[quantity] = average(
            values.tolist(), clusters, MEASUREMENT, resampling, SIGNED
        )
    crossed = table[:, QUANTITIES.index("cc_shap crossed")]
    ceiling = table[:, QUANTITIES.index("ceiling")]
    measures["share of ceiling"] = _measure_share_of_ceiling(
        crossed, ceiling, clusters, resampling
    )
    return measures


def _list_indices(reliability: Reliability) -> tuple[float, ...]:
    """Return the indices of an item in the order of `QUANTITIES`."""
    return (
        reliability.cc_shap,
        reliability.crossed,
        reliability.answer,
        reliability.explanation,
        reliability.halves,
        reliability.ceiling,
    )


def _measure_share_of_ceiling(
    crossed: np.ndarray,
    ceiling: np.ndarray,
    clusters: Sequence[str],
    resampling: Resampling,
) -> Measure:
    """Return mean crossed CC-SHAP over the mean ceiling, in percent, over the items that have both."""
    is_defined = np.isfinite(crossed) & np.isfinite(ceiling)
    crossed, ceiling = crossed[is_defined], ceiling[is_defined]
    if not len(ceiling) or ceiling.mean() <= 0:
        return Measure(None, len(ceiling), reason="the ceiling is 0")
    defined_clusters = np.array(clusters)[is_defined].tolist()
    draws = resample(
        defined_clusters,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=MEASUREMENT,
    )
    # The ratio of means, not the mean of ratios: the ceiling of a single item may be 0.
    shares = 100 * draws.compute_means(crossed) / draws.compute_means(ceiling)
    ratio = float(100 * crossed.mean() / ceiling.mean())
    return build_measure(ratio, len(ceiling), shares, resampling, draws.clusters, None)


def _compare(first: np.ndarray, second: np.ndarray) -> float:
    return float(compute_cosine(first, second))
