"""Questions about images, answered by encoders with a vocabulary of answers (LXMERT's task checkpoints).

The predicted answer is the one with the highest logit, its probability the softmax over the vocabulary, which is what
MM-SHAP explains. How right it is: `evaluation.answers`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.evaluation.vqa_items import SETTING, plain
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.encoders.alignment import Pair, PairScore, compute_pair_scores, select_answer
from waltz.models.encoders.encoder import Encoder
from waltz.models.regions import load_image_or_regions
from waltz.sources.images import ImageSource, load_image

ROLE = "answer"

Row = Mapping[str, Any]


def answered(
    encoder: Encoder,
    items: Sequence[Row],
    images: ImageSource,
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> dict[Pair, PairScore]:
    """Logit, place in the vocabulary and probability of the answer to each distinct question about an image.

    Args:
        encoder: An encoder whose `fuse` gives a logit for each answer.
        items: Rows of image and question.
        images: Where the images lie.
        stored: Folder of finished blocks.
        done: Told the number of questions that each block finished.
    """
    asked = [(item["image"], item["question"]) for item in items]
    return compute_pair_scores(
        encoder,
        asked,
        lambda name: load_image_or_regions(encoder, name, lambda: load_image(images, name)),
        stored,
        done,
        select_answer,
    )


def answer_rows(
    items: Sequence[Row], said: Mapping[Pair, PairScore], vocabulary: Sequence[str], profiles: Sequence[str]
) -> list[dict[str, Any]]:
    """Rows of the evaluation layout, role `answer`: the predicted answer of each question in each profile.

    `score` is the predicted answer's logit, `probability` its softmax. `correct` says in both profiles whether it is
    the gold answer.

    Args:
        items: Rows of item_id, image, question and answer.
        said: What `answered` found.
        vocabulary: The encoder's answers, in the order of its outputs.
        profiles: Which of `equations`, `published`.
    """
    rows = []
    for profile in profiles:
        for item in items:
            found = said[item["image"], item["question"]]
            logit, place, probability = found.numbers or (None, None, None)
            answer = None if place is None else vocabulary[int(place)]
            rows.append(
                {
                    "item_id": item["item_id"],
                    "role": ROLE,
                    "profile": profile,
                    "setting": SETTING,
                    "image": item["image"],
                    "score": logit,
                    "tokens": found.tokens,
                    "probability": probability,
                    "prediction": answer,
                    "correct": None if answer is None else plain(answer) == plain(item["answer"]),
                    "error": found.error,
                }
            )
    return rows
