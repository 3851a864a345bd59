"""Accuracy of answers to the questions of VQA and GQA, with its interval."""

from collections.abc import Iterable, Sequence

from waltz.core.intervals import Resampling, compute_mean
from waltz.core.measure import Measure
from waltz.evaluation.vqa import Row, score_answer
from waltz.fidelity import get_fidelity


def compute_vqa_accuracy(
    items: Sequence[Row],
    rows: Iterable[Row],
    profile: str,
    label: str,
    resampling: Resampling,
) -> Measure:
    """Compute the accuracy of predicted answers in percent, with the interval of resampled images.

    Args:
        items: Rows of `select_questions`.
        rows: Rows of `encoder_vqa.build_answer_rows` or `decoder_rows.answer_questions`, of one
            setting.
        profile: Profile of the rows that are used.
        label: Name of the data set, which separates its draws from the draws of other data sets.
    """
    # Questions without an answer do not count.
    fidelity = get_fidelity(profile)
    answers: dict[str, Row] = {}
    for row in rows:
        if row["profile"] == profile and row["prediction"] is not None:
            answers[row["item_id"]] = row

    shares: list[float] = []
    images: list[str] = []
    for item in items:
        answer = answers.get(item["item_id"])
        if answer is not None:
            shares.append(100 * score_answer(answer, item, fidelity))
            images.append(item["image"])
    if not shares:
        return Measure(None, 0, reason=f"none of {len(items)} questions was answered")
    # Questions about one image are not independent, so that images are resampled.
    return compute_mean(shares, images, label, resampling)
