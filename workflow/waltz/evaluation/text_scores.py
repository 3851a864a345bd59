"""A score of a text beside its image by a decoder that was asked for none: log-likelihood and VQAScore.

They rank caption and foil, so acc_r and AUROC follow; there is no match, so p_c, p_f and acc do not.
"""

import math
from collections.abc import Sequence
from typing import Any

from waltz.evaluation.prompting.generation_cache import Examinee, Query, Reply, scored
from waltz.evaluation.prompting.label_tokens import continuation, labels, published_labels
from waltz.evaluation.prompting.prompts import Voice, render
from waltz.evaluation.prompting.questions import Question

LIKELIHOOD = "log-likelihood"
"""Setting of the mean log-probability of a text's tokens, in nats a token."""
LIKELIHOOD_SUM = "log-likelihood-sum"
"""Setting of their sum, in nats."""
VQASCORE = "vqascore"
"""Setting of the probability of "Yes"."""


def likelihood_rows(examinee: Examinee, questions: Sequence[Question], voice: Voice) -> list[dict[str, Any]]:
    """Rows of the evaluation layout: log-likelihood of each text as the description of its image, mean and sum.

    The text follows the prompt for a description, a blank before it belongs to its first token; its own tokens count,
    an end mark does not. `tokens` is their number.

    Args:
        examinee: Who is asked.
        questions: Single texts beside their images (`image_items.single_questions`).
        voice: How the model is spoken to.
    Source:
        VisualGPTScore (Lin et al. 2024), without its correction for the text alone.
    """
    queries = [
        Query(question.image, render("caption", question, voice).text.rstrip(" "), (question.fields["caption"],))
        for question in questions
    ]
    found = scored(examinee, queries, continuation, "log-probability")
    rows = []
    for setting in (LIKELIHOOD, LIKELIHOOD_SUM):
        for question, query in zip(questions, queries, strict=True):
            reply = found[query]
            tokens = len(reply.numbers or ())
            total = None if reply.numbers is None else math.fsum(reply.numbers)
            score = total if total is None or setting == LIKELIHOOD_SUM else total / tokens
            rows.append(_row(question, reply, voice, setting, score, tokens))
    return rows


def vqascore_rows(examinee: Examinee, questions: Sequence[Question], voice: Voice) -> list[dict[str, Any]]:
    """Rows of the evaluation layout: the probability that the answer to "Does this figure show …?" begins with "Yes".

    The probability is among all tokens of the vocabulary. No released code had this score; in `published` the prompt
    has the markers of the model's family, and "Yes" is found as labels are.

    Args:
        examinee: Who is asked.
        questions: Single texts beside their images.
        voice: How the model is spoken to.
    Source:
        VQAScore (Lin et al., ECCV 2024).
    """
    queries = [
        Query(
            question.image,
            render("vqascore", question, voice, {"text": question.fields["caption"]}).text,
            (voice.wording.affirms,),
        )
        for question in questions
    ]
    follow = labels if voice.wording.profile == "equations" else published_labels
    found = scored(examinee, queries, follow, "probability")
    rows = []
    for question, query in zip(questions, queries, strict=True):
        reply = found[query]
        score = None if reply.numbers is None else reply.numbers[0]
        rows.append(_row(question, reply, voice, VQASCORE, score, reply.tokens))
    return rows


def _row(
    question: Question, reply: Reply, voice: Voice, setting: str, score: float | None, tokens: int
) -> dict[str, Any]:
    return {
        "item_id": question.item_id,
        "role": question.role,
        "profile": voice.wording.profile,
        "setting": setting,
        "image": question.image,
        "score": score,
        "tokens": tokens,
        "probability": None,
        "prediction": None,
        "correct": None,
        "error": reply.error,
    }
