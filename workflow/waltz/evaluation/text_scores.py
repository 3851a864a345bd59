"""Scores of a text and its image by a decoder that gives none itself: log-likelihood and VQAScore.

They rank caption and foil, so acc_r and AUROC are defined; they decide no match, so p_c, p_f and acc are not.
"""

import math
from collections.abc import Sequence
from typing import Any

from waltz.evaluation.prompting.generation_cache import DecoderOutput, DecoderQuery, DecoderSession, score_continuations
from waltz.evaluation.prompting.label_tokens import find_continuation_tokens, get_label_token_finder
from waltz.evaluation.prompting.prompts import PromptTemplate, render_prompt
from waltz.evaluation.prompting.questions import Question

LIKELIHOOD = "log-likelihood"
"""Setting of the mean log-probability of a text's tokens, in nats a token."""
LIKELIHOOD_SUM = "log-likelihood-sum"
"""Setting of their sum, in nats."""
VQASCORE = "vqascore"
"""Setting of the probability of "Yes"."""


def score_likelihood(
    session: DecoderSession, questions: Sequence[Question], template: PromptTemplate
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout: log-likelihood of each text as the description of its image, mean and sum.

    The text follows the prompt for a description; a space before it belongs to its first token. Its own tokens count,
    an end mark does not. `tokens` is their number.

    Args:
        session: The decoder.
        questions: Single texts with their images (`build_single_questions`).
        template: Wording and markers of the prompts.
    Source:
        VisualGPTScore (Lin et al. 2024), without its correction for the text alone.
    """
    queries = [
        DecoderQuery(
            question.image, render_prompt("caption", question, template).text.rstrip(" "), (question.fields["caption"],)
        )
        for question in questions
    ]
    outputs = score_continuations(session, queries, find_continuation_tokens, "log-probability")
    rows = []
    for setting in (LIKELIHOOD, LIKELIHOOD_SUM):
        for question, query in zip(questions, queries, strict=True):
            output = outputs[query]
            tokens = len(output.scores or ())
            total = None if output.scores is None else math.fsum(output.scores)
            score = total if total is None or setting == LIKELIHOOD_SUM else total / tokens
            rows.append(_build_row(question, output, template, setting, score, tokens))
    return rows


def score_vqascore(
    session: DecoderSession, questions: Sequence[Question], template: PromptTemplate
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout: probability of "Yes" as the answer to "Does this figure show …?".

    The probability is taken over all tokens of the vocabulary. No released code has this score; in `published` the
    prompt has the markers of the model's family, and the token of "Yes" is found like those of labels.

    Args:
        session: The decoder.
        questions: Single texts with their images.
        template: Wording and markers of the prompts.
    Source:
        VQAScore (Lin et al., ECCV 2024).
    """
    queries = [
        DecoderQuery(
            question.image,
            render_prompt("vqascore", question, template, {"text": question.fields["caption"]}).text,
            (template.prompt_file.affirms,),
        )
        for question in questions
    ]
    find_tokens = get_label_token_finder(template.prompt_file.profile)
    outputs = score_continuations(session, queries, find_tokens, "probability")
    rows = []
    for question, query in zip(questions, queries, strict=True):
        output = outputs[query]
        score = None if output.scores is None else output.scores[0]
        rows.append(_build_row(question, output, template, VQASCORE, score, output.tokens))
    return rows


def _build_row(
    question: Question, output: DecoderOutput, template: PromptTemplate, setting: str, score: float | None, tokens: int
) -> dict[str, Any]:
    return {
        "item_id": question.item_id,
        "role": question.role,
        "profile": template.prompt_file.profile,
        "setting": setting,
        "image": question.image,
        "score": score,
        "tokens": tokens,
        "probability": None,
        "prediction": None,
        "correct": None,
        "error": output.error,
    }
