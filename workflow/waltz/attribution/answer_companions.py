"""Accuracy of an encoder's answers to questions without one modality: permuted among the items, or
masked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from waltz.attribution.companions import Credit, compute_perceptual_score
from waltz.attribution.engine import compute_ablated_values
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Resampling, compute_mean
from waltz.core.jobs.records import show_progress
from waltz.core.measure import Measure
from waltz.core.sampling import sample as sample_ids
from waltz.core.schema import MetricRecord
from waltz.evaluation.encoder_vqa import compute_answers
from waltz.evaluation.vqa import (
    ANSWERING,
    VqaItem,
    normalize_case,
    score_answer,
    select_vqa_items,
)
from waltz.fidelity import Fidelity, get_fidelity
from waltz.models.encoders.alignment import Pair
from waltz.models.encoders.coalitions import EncoderCoalitions
from waltz.models.encoders.vqa import AnsweringEncoder
from waltz.models.regions import get_players_function, load_image_or_regions
from waltz.sources.images import ImageSource, load_image, open_images

Measures = dict[tuple[str, str], Measure]
"""Measures by setting and metric."""
MODALITIES = {"text": "without text", "image": "without image"}
"""Name, for each modality, of the setting in which all players of that modality are masked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCompanionSettings:
    """Hold the settings of the companion measures of answers, as a study states them.

    Attributes:
        profiles: Names of the profiles.
        sample: Number of questions that are drawn from each data set.
        repeats: Number of permutations of one modality.
        seed: Seed of the samples.
    """

    profiles: Sequence[str]
    sample: int
    repeats: int
    seed: int


def compute_answer_companions(
    encoder: AnsweringEncoder,
    datasets: Iterable[DatasetFiles],
    cache: Path,
    settings: AnswerCompanionSettings,
    resampling: Resampling,
) -> list[MetricRecord]:
    """Return the companion measures of one encoder on data sets of questions.

    Args:
        datasets: Files of the data sets, with size and choice of the questions.
    """
    records: list[MetricRecord] = []
    profiles, seed = settings.profiles, settings.seed
    for dataset in datasets:
        # The items are a seeded sample of the questions that the evaluation of this data set
        # selects.
        source = parquet.read_table(dataset.rows).to_pylist()
        size, choice = dataset.settings["size"], dataset.settings.get("choice")
        questions, _ = select_vqa_items(dataset.name, source, size, seed, choice)
        by_id = {item.item_id: item for item in questions}
        sample_size = min(settings.sample, len(by_id))
        items = [by_id[name] for name in sample_ids(list(by_id), sample_size, seed)]
        label = f"{encoder.spec.name} {dataset.name}"
        with (
            open_images(dataset.images) as images,
            show_progress(len(profiles), "profile", label) as bar,
        ):
            for profile in profiles:
                measures = compute_answer_measures(
                    encoder,
                    items,
                    images,
                    get_fidelity(profile),
                    settings.repeats,
                    resampling,
                    cache,
                )
                for (setting, metric), measure in measures.items():
                    records.append(
                        MetricRecord(
                            model=encoder.spec.name,
                            dataset=dataset.name,
                            profile=profile,
                            setting=setting,
                            metric=metric,
                            measure=measure,
                        )
                    )
                bar.update(1)
    return records


def compute_answer_measures(
    encoder: AnsweringEncoder,
    items: Sequence[VqaItem],
    images: ImageSource,
    fidelity: Fidelity,
    repeats: int,
    resampling: Resampling,
    cache: Path | None = None,
) -> Measures:
    """Return how much the accuracy of the answers depends on each modality.

    Items that the encoder cannot answer, such as those without an image, are skipped and do not
    count in n.

    - perceptual_text, perceptual_image (setting `answering`): accuracy lost when that modality is permuted among the
      items, in percentage points; each item keeps its gold answer.
    - accuracy (settings `without text`, `without image`): with all players of that modality masked, as in MM-SHAP.

    Args:
        items: The questions.
        resampling: Resamples, coverage, seed; the seed also draws the permutations.
    Source:
        Gat, Schwartz & Schwing (NeurIPS 2021), equation 2; thesis 4.4.5.
    """
    # All measures are taken on the same items: those that the encoder answers.
    answers = compute_answers(encoder, list(map(_get_pair, items)), images, cache)
    items = [item for item in items if answers[_get_pair(item)].error is None]
    if not items:
        return _list_undefined("none of its questions can be answered")
    ids = [item.item_id for item in items]
    image_names = [item.image for item in items]
    # Accuracy lost when a modality is permuted among the items.
    measures: Measures = {}
    credit = build_answer_credit(encoder, items, images, fidelity, cache)
    for modality in MODALITIES:
        measures[ANSWERING, f"perceptual_{modality}"] = compute_perceptual_score(
            credit, ids, image_names, modality, repeats, resampling
        )

    # Accuracy with a modality masked.
    ablated = [
        _answer_without_modalities(encoder, item, images, fidelity) for item in items
    ]
    for modality, setting in MODALITIES.items():
        values = [
            100 * _compute_credit(ablated_answers[modality], item, fidelity)
            for ablated_answers, item in zip(ablated, items, strict=True)
        ]
        measures[setting, "accuracy"] = compute_mean(
            values, image_names, setting, resampling
        )
    return measures


def _list_undefined(reason: str) -> Measures:
    """Return measures as `compute_answer_measures` does, all without a value, with the reason."""
    perceptual = [(ANSWERING, f"perceptual_{modality}") for modality in MODALITIES]
    accuracies = [(setting, "accuracy") for setting in MODALITIES.values()]
    return dict.fromkeys([*perceptual, *accuracies], Measure(None, 0, reason=reason))


def build_answer_credit(
    encoder: AnsweringEncoder,
    items: Sequence[VqaItem],
    images: ImageSource,
    fidelity: Fidelity,
    cache: Path | None = None,
) -> Credit:
    """Return a function that scores the answer to one item's question about another item's image.

    Each item keeps its gold answer, whichever item lends it the question or the image. The score is
    the accuracy of the answer, between 0 and 1; an answer that the encoder cannot give scores 0.

    Args:
        items: Questions, each of which the encoder can answer.
    """

    def credit(texts: np.ndarray, lenders: np.ndarray) -> np.ndarray:
        # texts[i] and lenders[i]: the items that lend item i its question and its image.
        pairs = [
            (items[lender].image, items[text].question)
            for text, lender in zip(texts, lenders, strict=True)
        ]
        results = compute_answers(encoder, pairs, images, cache)
        credits = []
        for pair, item in zip(pairs, items, strict=True):
            numbers = results[pair].numbers
            if numbers is None:
                credits.append(0.0)  # the encoder gave no answer
                continue
            answer = encoder.answers[int(numbers[1])]
            credits.append(_compute_credit(answer, item, fidelity))
        return np.array(credits)

    return credit


def _get_pair(item: VqaItem) -> Pair:
    return item.image, item.question


def _compute_credit(answer: str, item: VqaItem, fidelity: Fidelity) -> float:
    """Return the accuracy of an answer, between 0 and 1, measured by the gold answers of an item."""
    is_gold = normalize_case(answer) == normalize_case(item.answer)
    return score_answer(answer, is_gold, item, fidelity)


def _answer_without_modalities(
    encoder: AnsweringEncoder, item: VqaItem, images: ImageSource, fidelity: Fidelity
) -> dict[str, str]:
    """Return, for each modality, the answer that the encoder gives when all players of that
    modality are masked.

    The masked inputs are coalitions of MM-SHAP's game.
    """
    image = load_image_or_regions(
        encoder, item.image, lambda: load_image(images, item.image)
    )
    prepared = encoder.prepare_image(image)
    build_players = get_players_function(encoder, fidelity)
    game = build_players(encoder, encoder.tokenize(item.question), prepared)
    # The value of a coalition is the number of the answer that the encoder gives to it.
    coalitions = EncoderCoalitions(
        encoder, prepared, [game], lambda logits: logits.argmax(dim=-1).double()
    )
    # values, of shape (3, 1): unmasked, without the text, without the image.
    (values,) = compute_ablated_values(coalitions)
    _, without_text, without_image = values[:, 0].tolist()
    return {
        "text": encoder.answers[int(without_text)],
        "image": encoder.answers[int(without_image)],
    }
