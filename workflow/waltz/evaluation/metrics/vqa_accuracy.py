"""Accuracy of answers to the questions of VQA and GQA, with its interval."""

from collections.abc import Iterable, Sequence

from waltz.core.intervals import Measure, Resampling, compute_mean
from waltz.evaluation.vqa import Row, score_answer


def compute_vqa_accuracy(
    items: Sequence[Row], rows: Iterable[Row], profile: str, label: str, resampling: Resampling
) -> Measure:
    """Compute the accuracy of predicted answers in percent, with the interval of resampled images.

    Args:
        items: Rows of `select_questions`.
        rows: Rows of `encoder_vqa.build_answer_rows` or `decoder_rows.answer_questions`, of one setting.
    """
    answers = {row["item_id"]: row for row in rows if row["profile"] == profile and row["prediction"] is not None}
    answered = [item for item in items if item["item_id"] in answers]
    if not answered:
        return Measure(None, 0, reason=f"none of {len(items)} questions was answered")
    shares = [100 * score_answer(answers[item["item_id"]], item, profile) for item in answered]
    return compute_mean(shares, [item["image"] for item in answered], label, resampling)
