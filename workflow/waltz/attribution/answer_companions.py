"""Accuracy of an encoder's answers to questions without one modality: permuted among the items, or masked."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from waltz.attribution.companions import Credit, compute_perceptual_score
from waltz.attribution.mm_shap import compute_ablated_values
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.core.job_records import show_progress
from waltz.core.sampling import sample as sample_ids
from waltz.evaluation.encoder_vqa import compute_answers
from waltz.evaluation.vqa import ANSWERING, normalize_case, score_answer, select_questions
from waltz.models.encoders.alignment import Pair
from waltz.models.encoders.coalitions import Coalitions
from waltz.models.encoders.vqa import AnsweringEncoder
from waltz.models.regions import get_players_function, load_image_or_regions
from waltz.sources.images import ImageSource, load_image, open_images

Item = Mapping[str, Any]
MODALITIES = {"text": "without text", "image": "without image"}
"""Setting of the accuracy with all of a modality masked, by modality."""


def compute_answer_companions(
    encoder: AnsweringEncoder,
    datasets: Iterable[DatasetFiles],
    profiles: Sequence[str],
    cache: Path,
    *,
    sample: int,
    repeats: int,
    seed: int,
    resampling: Resampling,
) -> list[dict[str, Any]]:
    """Return the companion measures of one encoder on data sets of questions, as rows of the metrics layout.

    Args:
        datasets: Files of the data sets, with size and choice of the questions.
        sample: Number of questions a data set, of those that the encoder answers.
        repeats: Number of permutations of one modality.
    """
    rows: list[dict[str, Any]] = []
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        questions, _ = select_questions(
            dataset.name, source, dataset.settings["size"], seed, dataset.settings.get("choice")
        )
        by_id = {str(item["item_id"]): item for item in questions}
        items = [by_id[item_id] for item_id in sample_ids(list(by_id), min(sample, len(by_id)), seed)]
        names = {"model": encoder.spec.name, "dataset": dataset.name}
        label = f"{encoder.spec.name} {dataset.name}"
        with open_images(dataset.images) as images, show_progress(len(profiles), "profile", label) as bar:
            for profile in profiles:
                measures = compute_answer_measures(encoder, items, images, profile, repeats, resampling, cache)
                rows += [{**names, "profile": profile, **measure} for measure in measures]
                bar.update(1)
    return rows


def compute_answer_measures(
    encoder: AnsweringEncoder,
    items: Sequence[Item],
    images: ImageSource,
    profile: str,
    repeats: int,
    how: Resampling,
    cache: Path | None = None,
) -> list[dict[str, Any]]:
    """Compute rows of setting, metric and the fields of a measure, for the accuracy of answers in a profile.

    Items that the encoder cannot answer, such as those without an image, are skipped and do not count in n.

    - perceptual_text, perceptual_image (setting `answering`): accuracy lost when that modality is permuted among the
      items, in percentage points; each item keeps its gold answer.
    - accuracy (settings `without text`, `without image`): with all players of that modality masked, as in MM-SHAP.

    Args:
        items: Rows of `vqa.select_questions`.
        how: Resamples, coverage, seed; the seed also draws the permutations.
    Source:
        Gat, Schwartz & Schwing (NeurIPS 2021), equation 2; thesis 4.4.5.
    """
    own_answers = compute_answers(encoder, items, images, cache)
    items = [item for item in items if own_answers[_get_pair(item)].error is None]
    if not items:
        undefined = vars(Measure(None, 0, reason="none of its questions can be answered"))
        names = [(ANSWERING, f"perceptual_{modality}") for modality in MODALITIES]
        names += [(setting, "accuracy") for setting in MODALITIES.values()]
        return [{"setting": setting, "metric": metric, **undefined} for setting, metric in names]
    ids, image_names = ([str(item[name]) for item in items] for name in ("item_id", "image"))
    credit = build_answer_credit(encoder, items, images, profile, cache)
    measures = [
        {
            "setting": ANSWERING,
            "metric": f"perceptual_{modality}",
            **vars(compute_perceptual_score(credit, ids, image_names, modality, repeats, how)),
        }
        for modality in MODALITIES
    ]
    ablated = [_answer_without_modalities(encoder, item, images, profile) for item in items]
    for place, setting in enumerate(MODALITIES.values()):
        values = [
            100 * _compute_credit(answers[place], item, profile) for answers, item in zip(ablated, items, strict=True)
        ]
        accuracy = compute_mean(values, image_names, setting, how)
        measures.append({"setting": setting, "metric": "accuracy", **vars(accuracy)})
    return measures


def build_answer_credit(
    encoder: AnsweringEncoder, items: Sequence[Item], images: ImageSource, profile: str, cache: Path | None = None
) -> Credit:
    """Return the credit of answers to one item's question about another item's image, under each item's own gold.

    Args:
        items: Rows of `vqa.select_questions`, each of which the encoder can answer.
    """

    def credit(texts: np.ndarray, lenders: np.ndarray) -> np.ndarray:
        asked = [
            {"image": items[lender]["image"], "question": items[text]["question"]}
            for text, lender in zip(texts, lenders, strict=True)
        ]
        results = compute_answers(encoder, asked, images, cache)
        answers = [results[_get_pair(row)].numbers for row in asked]
        return np.array(
            [
                0.0 if numbers is None else _compute_credit(encoder.answers[int(numbers[1])], item, profile)
                for numbers, item in zip(answers, items, strict=True)
            ]
        )

    return credit


def _get_pair(item: Item) -> Pair:
    return item["image"], item["question"]


def _compute_credit(answer: str, item: Item, profile: str) -> float:
    """Return the accuracy of an answer under an item's gold, between 0 and 1."""
    is_gold = normalize_case(answer) == normalize_case(item["answer"])
    return score_answer({"prediction": answer, "correct": is_gold}, item, profile)


def _answer_without_modalities(
    encoder: AnsweringEncoder, item: Item, images: ImageSource, profile: str
) -> tuple[str, str]:
    """Return the answers without the text and without the image: coalitions of MM-SHAP's game."""
    image = load_image_or_regions(encoder, item["image"], lambda: load_image(images, item["image"]))
    prepared = encoder.prepare_image(image)
    game = get_players_function(encoder, profile)(encoder, encoder.tokenize(item["question"]), prepared)
    coalitions = Coalitions(encoder, prepared, [game], lambda logits: logits.argmax(dim=-1).double())
    ((_, without_text, without_image),) = compute_ablated_values(coalitions)
    return encoder.answers[int(without_text)], encoder.answers[int(without_image)]
