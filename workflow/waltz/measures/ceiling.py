"""Reliability ceiling of CC-SHAP: how far attributions of one and the same output agree when they are drawn again."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from waltz.attribution.prompt_attribution import PromptSettings
from waltz.consistency.cc_shap.dialogue import POST_HOC, Dialogue, generate_pairs
from waltz.consistency.cc_shap.measure import SharedEstimate, compute_cosine, compute_mean_ratios
from waltz.consistency.cc_shap.pair_attribution import attribute_pairs
from waltz.consistency.item_selection import select_questions
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Measure, Resampling, compute_interval, resample
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Profile
from waltz.measures.items import identify_scene
from waltz.measures.rows import Row, average, build_row
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.sources.images import load_image, open_images

MEASUREMENT = "ceiling"
PROFILE: Profile = "equations"
SIGNED = (-1.0, 1.0)
Sides = tuple[SharedEstimate, SharedEstimate]
"""Attributions of an answer and of its explanation."""


@dataclass(frozen=True)
class Reliability:
    """Agreement of the attributions of one item, by two draws of permutations of the same answer and explanation.

    Attributes:
        cc_shap: Mean CC-SHAP of the two draws.
        crossed: Mean CC-SHAP of the answer in one draw and the explanation in the other, whose noise is independent.
        answer: Cosine of the answer's mean ratios in both draws.
        explanation: That of the explanation's.
        halves: Root of the product of both sides' split-half cosines in the first draw, stepped up to all
            permutations; NaN with one permutation.
    """

    cc_shap: float
    crossed: float
    answer: float
    explanation: float
    halves: float

    @property
    def ceiling(self) -> float:
        """Highest CC-SHAP that can be expected of an answer and explanation with the same true attributions."""
        return float(np.sqrt(max(0.0, self.answer) * max(0.0, self.explanation)))


def take_parts(side: SharedEstimate, parts: slice) -> SharedEstimate:
    """Return the estimate of some of the permutations; the first k are those that a budget of k draws."""
    estimate = side.estimate
    assert estimate.parts is not None
    taken = estimate.parts[parts]
    return replace(side, estimate=replace(estimate, phi=taken.mean(axis=0), parts=taken))


def compare_draws(draws: Sequence[Sides], permutations: int) -> Reliability:
    """Compare two draws of the permutations of one item.

    Args:
        draws: Attributions by two seeds.
        permutations: Number of first permutations that are used.
    Source:
        Correction for attenuation and step-up of halves: Spearman (American Journal of Psychology 15, 1904; British
        Journal of Psychology 3, 1910), here for cosines.
    """
    used = [tuple(take_parts(side, slice(permutations)) for side in sides) for sides in draws]
    ratios = [[compute_mean_ratios(side, PROFILE) for side in sides] for sides in used]
    half = permutations // 2
    halves = np.nan
    if half:
        split = [
            _compare(
                *(compute_mean_ratios(take_parts(side, part), PROFILE) for part in (slice(half), slice(half, 2 * half)))
            )
            for side in used[0]
        ]
        halves = float(np.sqrt(np.prod([2 * max(0.0, cosine) / (1 + max(0.0, cosine)) for cosine in split])))
    (first_answer, first_explanation), (second_answer, second_explanation) = ratios
    return Reliability(
        cc_shap=(_compare(first_answer, first_explanation) + _compare(second_answer, second_explanation)) / 2,
        crossed=(_compare(first_answer, second_explanation) + _compare(second_answer, first_explanation)) / 2,
        answer=_compare(first_answer, second_answer),
        explanation=_compare(first_explanation, second_explanation),
        halves=halves,
    )


def attribute_twice(
    dialogue: Dialogue, question: Question, picture: PreparedImage | None, permutations: int, seeds: tuple[int, int]
) -> list[Sides]:
    """Attribute the answer to a question and its post-hoc explanation, generated once, by two seeds.

    Raises:
        UserError: There is no answer or explanation, or nothing to compare.
    """
    pair = generate_pairs(dialogue, question, picture, (POST_HOC,)).pairs[POST_HOC]
    if isinstance(pair, UserError):
        raise pair
    draws = []
    for seed in seeds:
        settings = PromptSettings(PROFILE, seed, "permutation", permutations=permutations)
        (attributed,) = attribute_pairs(dialogue.decoder, picture, [pair], settings)
        draws.append((attributed.answer.shared_estimate, attributed.explanation.shared_estimate))
    return draws


def measure_ceiling(
    decoder: Decoder,
    datasets: Sequence[DatasetFiles],
    *,
    sample: int,
    permutations: Sequence[int],
    tokens: int,
    seed: int,
    how: Resampling,
) -> list[Row]:
    """Measure the ceiling of CC-SHAP of one decoder, over the items of all data sets, by number of permutations.

    Args:
        datasets: Files of data sets of captions and foils, with their form.
        sample: Number of items a data set.
        permutations: Numbers of permutations; the largest is drawn.
        tokens: Most tokens of an explanation.
        seed: Seed of the sample and of the permutations.
        how: Resampling of scenes.
    """
    dialogue = Dialogue(decoder, build_template(decoder, PROFILE), seed, tokens)
    items: list[tuple[str, list[Sides]]] = []
    skipped = 0
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        questions = select_questions(source, dataset.name, dataset.settings, PROFILE, sample, seed).questions
        images: AbstractContextManager[Any] = open_images(dataset.images)
        with images as opened:
            load = partial(load_image, opened)
            for question in questions:
                picture = decoder.prepare_image(load(str(question.image)))
                try:
                    draws = attribute_twice(dialogue, question, picture, max(permutations), (seed, seed + 1))
                except UserError:
                    skipped += 1
                    continue
                items.append((identify_scene(str(question.image)), draws))
    rows = []
    for count in permutations:
        place = {"model": decoder.spec.name, "factor": "permutations", "level": str(count)}
        reliabilities = [(image, compare_draws(draws, count)) for image, draws in items]
        rows += [
            build_row(MEASUREMENT, quantity, measure, **place)
            for quantity, measure in summarise(reliabilities, how).items()
        ]
    rows.append(
        build_row(MEASUREMENT, "skipped", Measure(float(skipped), len(items) + skipped), model=decoder.spec.name)
    )
    return rows


def summarise(reliabilities: Sequence[tuple[str, Reliability]], how: Resampling) -> Mapping[str, Measure]:
    """Return means over items with their intervals, and CC-SHAP as a share of its ceiling, in percent.

    Items on which an index is undefined are left out.
    """
    clusters = [image for image, _ in reliabilities]
    columns = {
        "cc_shap": [item.cc_shap for _, item in reliabilities],
        "cc_shap crossed": [item.crossed for _, item in reliabilities],
        "retest of answer": [item.answer for _, item in reliabilities],
        "retest of explanation": [item.explanation for _, item in reliabilities],
        "split halves": [item.halves for _, item in reliabilities],
        "ceiling": [item.ceiling for _, item in reliabilities],
    }
    measures = {}
    for name, values in columns.items():
        known = [(value, cluster) for value, cluster in zip(values, clusters, strict=True) if np.isfinite(value)]
        measures[name] = average(
            [value for value, _ in known], [cluster for _, cluster in known], MEASUREMENT, how, SIGNED
        )
    both = np.array([[item.crossed, item.ceiling] for _, item in reliabilities]).reshape(-1, 2)
    known_rows = np.isfinite(both).all(axis=1)
    measures["share of ceiling"] = _measure_ratio(
        both[known_rows], [cluster for cluster, known in zip(clusters, known_rows, strict=True) if known], how
    )
    return measures


def _measure_ratio(both: np.ndarray, clusters: Sequence[str], how: Resampling) -> Measure:
    """Return the ratio of the means of two columns, in percent."""
    if not len(both) or both[:, 1].mean() <= 0:
        return Measure(None, len(both), reason="the ceiling is 0")
    draws = resample(clusters, resamples=how.resamples, seed=how.seed, label=MEASUREMENT)
    shares = 100 * draws.compute_means(both[:, 0]) / draws.compute_means(both[:, 1])
    ends = compute_interval(shares, how.confidence, draws.clusters, None)
    return Measure(float(100 * both[:, 0].mean() / both[:, 1].mean()), len(both), *ends)


def _compare(first: np.ndarray, second: np.ndarray) -> float:
    return float(compute_cosine(first, second))
