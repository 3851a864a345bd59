"""Accuracy of answers to the questions of VQA and GQA, with its interval."""

from collections.abc import Iterable, Sequence

from waltz.core.intervals import Resampling, compute_mean
from waltz.core.measure import Measure
from waltz.core.schema import EvaluationRecord
from waltz.evaluation.vqa import VqaItem, score_answer
from waltz.fidelity import Fidelity


def compute_vqa_accuracy(
    items: Sequence[VqaItem],
    records: Iterable[EvaluationRecord],
    fidelity: Fidelity,
    label: str,
    resampling: Resampling,
) -> Measure:
    """Compute the accuracy of predicted answers in percent, with the interval of resampled images.

    Args:
        items: The questions.
        records: Records of `encoder_vqa.build_answer_records` or `decoder_rows.answer_questions`,
            of one setting; records of other profiles are ignored.
        fidelity: Rules of the profile.
        label: Name of the data set, which separates its draws from the draws of other data sets.
    """
    answers: dict[str, EvaluationRecord] = {}
    for record in records:
        if record.profile == fidelity.name:
            answers[record.item_id] = record
    shares: list[float] = []
    images: list[str] = []
    for item in items:
        answer = answers.get(item.item_id)
        # Questions without an answer do not count.
        if answer is None or answer.prediction is None:
            continue
        # An encoder's answer has the score with which it was chosen; generated text has none.
        accuracy = score_answer(
            answer.prediction,
            bool(answer.correct),
            item,
            fidelity,
            is_generated=answer.score is None,
        )
        shares.append(100 * accuracy)
        images.append(item.image)
    if not shares:
        return Measure(None, 0, reason=f"none of {len(items)} questions was answered")
    # Questions about one image are not independent, so that images are resampled.
    return compute_mean(shares, images, label, resampling)
