"""Questions about images, answered by encoders with a vocabulary of answers (LXMERT's task
checkpoints).

The predicted answer is the answer with the highest logit. Its probability, which MM-SHAP explains,
is the softmax over the vocabulary. `evaluation.vqa` computes its accuracy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.jobs.records import show_progress
from waltz.core.schema import EvaluationRecord
from waltz.evaluation.settings import AnsweringSettings
from waltz.evaluation.vqa import (
    ANSWER,
    ANSWERING,
    VqaItem,
    normalize_case,
    select_vqa_items,
)
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.encoders.alignment import (
    Pair,
    PairScore,
    compute_pair_scores,
    select_answer,
)
from waltz.models.encoders.vqa import AnsweringEncoder
from waltz.models.regions import load_image_or_regions
from waltz.sources.images import ImageSource, load_image, open_images


def compute_answers(
    encoder: AnsweringEncoder,
    pairs: Sequence[Pair],
    images: ImageSource,
    stored: Path | None = None,
    done: ProgressCallback = ignore_progress,
) -> dict[Pair, PairScore]:
    """Answer each distinct question about an image: return the answer's logit, index in the
    vocabulary and probability.

    Args:
        pairs: Names of images, and questions about them.
        stored: File of finished blocks; None stores nothing.
        done: Called with the number of questions in each finished block.
    """
    return compute_pair_scores(
        encoder,
        pairs,
        lambda name: load_image_or_regions(
            encoder, name, lambda: load_image(images, name)
        ),
        stored,
        done,
        select_answer,
    )


def build_answer_records(
    items: Sequence[VqaItem],
    answers: Mapping[Pair, PairScore],
    vocabulary: Sequence[str],
    profiles: Sequence[str],
) -> list[EvaluationRecord]:
    """Return a record with role `answer` for each question in each profile.

    `prediction` is the predicted answer, `score` its logit, `probability` its softmax. In both
    profiles, `correct` states whether it is the gold answer.

    Args:
        items: The questions.
        answers: Results of `compute_answers`.
        vocabulary: The encoder's answers, in the order of its outputs.
        profiles: Names of the profiles.
    """
    # The profiles differ only in the accuracy that is computed from these records later.
    records = []
    for profile in profiles:
        for item in items:
            result = answers[item.image, item.question]
            logit = answer = is_correct = probability = None
            if result.numbers is not None:
                # The three numbers that `select_answer` keeps of the logits of the whole
                # vocabulary.
                logit, index, probability = result.numbers
                answer = vocabulary[int(index)]
                is_correct = normalize_case(answer) == normalize_case(item.answer)
            records.append(
                EvaluationRecord(
                    item_id=item.item_id,
                    role=ANSWER,
                    profile=profile,
                    setting=ANSWERING,
                    image=item.image,
                    score=logit,
                    tokens=result.tokens,
                    probability=probability,
                    prediction=answer,
                    correct=is_correct,
                    error=result.error,
                )
            )
    return records


def answer_datasets(
    encoder: AnsweringEncoder,
    datasets: Iterable[DatasetFiles],
    cache: Path,
    settings: AnsweringSettings,
) -> Iterator[DatasetResult]:
    """Answer the questions of some data sets with one encoder.

    Args:
        datasets: Files of the data sets, with size and choice of the questions.
        cache: File of finished blocks.
    Yields:
        For each data set, rows of the evaluation layout under the name `scores`.
    """
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        size, choice = dataset.settings["size"], dataset.settings.get("choice")
        items, unusable = select_vqa_items(
            dataset.name, source, size, settings.seed, choice
        )
        label = f"{encoder.spec.name} {dataset.name}"
        with (
            open_images(dataset.images) as images,
            show_progress(len(items), "question", label) as bar,
        ):
            pairs = [(item.image, item.question) for item in items]
            answers = compute_answers(encoder, pairs, images, cache, bar.update)
        records = build_answer_records(
            items, answers, encoder.answers, settings.profiles
        )
        facts = {
            "unusable": dict(unusable),
            "unscored_texts": sum(record.error is not None for record in records),
        }
        yield DatasetResult(dataset, {"scores": records}, len(source), facts)
