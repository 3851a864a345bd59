"""Answers that encoders choose from a vocabulary, attributed one after the other: thesis 4.1's VQA and GQA."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from waltz.attribution.rows import Row, deciding, kept
from waltz.attribution.settings import Settings
from waltz.core.errors import UserError
from waltz.evaluation.encoder_vqa import ROLE
from waltz.evaluation.vqa_items import SETTING
from waltz.models.encoders.vqa import AnsweringEncoder, answer_question, build_answer_probability
from waltz.models.regions import label_setting, load_image_or_regions
from waltz.sources.images import ImageSource, load_image

EXPLAINED = "probability"
"""Of the answer that is given to the whole question and image, among all answers."""


def attributed_questions(
    encoder: AnsweringEncoder,
    items: Iterable[Mapping[str, Any]],
    images: ImageSource,
    settings: Settings,
    stored: Path,
    done: Callable[[int], object],
) -> list[Row]:
    """Rows of the attribution layout, role `answer`, setting `answering`: what makes the given answer probable.

    Args:
        encoder: A loaded encoder with an answering head.
        items: Rows of item_id, image and question.
        images: Where their images lie.
        settings: How Shapley values are estimated.
        stored: Folder of finished work.
        done: Told 1 after each item, for a progress bar.
    Source:
        MM-SHAP (Parcalabescu & Frank, ACL 2023) and its released scripts; thesis 4.3 and 4.4.
    """
    decisive = deciding(encoder)
    setting = label_setting(encoder, SETTING)
    rows: list[Row] = []
    for item in items:
        row = {
            "item_id": item["item_id"],
            "role": ROLE,
            "profile": settings.profile,
            "setting": setting,
            "image": item["image"],
            "text": item["question"],
            "explained": EXPLAINED,
        }
        try:
            rows.append(row | _columns(encoder, item, images, settings, stored, decisive))
        except UserError as error:
            rows.append({**row, "error": str(error)})
        done(1)
    return rows


def _columns(
    encoder: AnsweringEncoder,
    item: Mapping[str, Any],
    images: ImageSource,
    settings: Settings,
    stored: Path,
    decisive: Mapping[str, Any],
) -> Row:
    name, question = item["image"], item["question"]
    image = load_image_or_regions(encoder, name, lambda: load_image(images, name))
    given = answer_question(encoder, encoder.prepare_image(image), question)
    content = {**decisive, "answer": given.index}
    (columns,) = kept(encoder, image, [question], settings, stored, content, build_answer_probability(given))
    return {"outputs": [given.text], **columns}
