"""Rows of decoders in the evaluation layout: label choice, open answers, text scores (thesis 3.5, 5.2, 5.5).

The chosen label is the one with the highest score for the first token of the answer, among the labels alone; with two
labels a random choice is right half of the time. `published` takes the first of equally high ones, `equations` none.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.core.sampling import rank
from waltz.evaluation.prompting.decoder_outputs import (
    DecoderOutput,
    DecoderQuery,
    DecoderSession,
    decode_generation,
    find_continuation_tokens,
    generate_tokens,
    get_label_token_finder,
    score_continuations,
)
from waltz.evaluation.prompting.prompts import PromptTemplate, render_label, render_prompt
from waltz.evaluation.prompting.questions import Question, build_open_questions
from waltz.evaluation.settings import AFTER_COT, CHOICE, PAIRWISE, RIGHT_PREDICTION, SINGLE
from waltz.evaluation.vqa import ANSWER, ANSWERING, contains_gold_answer, normalize_answer
from waltz.fidelity import get_fidelity
from waltz.models.decoders.continuations import FIRST_STEP
from waltz.models.decoders.decoder import Sampling

Row = Mapping[str, Any]

TIE = "tie"
MOST_TOKENS = 10
"""Most tokens of a short answer, as published."""
LIKELIHOOD = "log-likelihood"
"""Setting of the mean log-probability of a text's tokens, in nats a token."""
LIKELIHOOD_SUM = "log-likelihood-sum"
"""Setting of their sum, in nats."""
VQASCORE = "vqascore"
"""Setting of the probability of "Yes"."""


@dataclass(frozen=True)
class GenerationSettings:
    """Settings of text generation.

    Attributes:
        seed: The study's seed; each item's draws have a seed of their own.
        sampling: Settings of sampling; None takes the likeliest tokens (`decoder_tasks.choose_sampling`).
        cot_tokens: Most tokens of a chain of thought, 100 as published; 0 asks for no answers after one.
    """

    seed: int
    sampling: Sampling | None = None
    cot_tokens: int = 0


def score_labels(
    session: DecoderSession,
    questions: Sequence[Question],
    template: PromptTemplate,
    reasonings: Sequence[str] | None = None,
) -> list[DecoderOutput]:
    """Return the logits of each question's labels where the answer begins, in the order of the labels.

    Args:
        reasonings: The chain of thought before each answer; None asks for the answer without one.
    Raises:
        UserError: The family has no such prompt, or the chat template changes the item's words.
    """
    prompts = _render_prompts("answer" if reasonings is None else "answer-after-cot", questions, template, reasonings)
    queries = []
    for question, prompt in zip(questions, prompts, strict=True):
        labels = tuple(render_label(question, template.prompt_file, label) for label in question.labels)
        queries.append(DecoderQuery(question.image, prompt, labels))
    find_tokens = get_label_token_finder(template.prompt_file.profile)
    outputs = score_continuations(session, queries, find_tokens, FIRST_STEP)
    return [outputs[query] for query in queries]


def generate_chains_of_thought(
    session: DecoderSession, questions: Sequence[Question], template: PromptTemplate, settings: GenerationSettings
) -> list[str]:
    """Return the chain of thought about each question, whitespace included; empty where the prompt cannot be read."""
    return _generate_texts(session, questions, template, "cot", None, settings.cot_tokens, settings)[0]


def _generate_texts(
    session: DecoderSession,
    questions: Sequence[Question],
    template: PromptTemplate,
    kind: str,
    reasonings: Sequence[str] | None,
    most_tokens: int,
    settings: GenerationSettings,
) -> tuple[list[str], list[DecoderOutput]]:
    """Generate a text for each question; return the texts and the outputs that hold their tokens."""
    queries = []
    prompts = _render_prompts(kind, questions, template, reasonings)
    for question, prompt in zip(questions, prompts, strict=True):
        item_seed = rank(f"{question.item_id}:{question.role}:{kind}", settings.seed) >> 1 if settings.sampling else 0
        queries.append(DecoderQuery(question.image, prompt, seed=item_seed))
    output_of_query = generate_tokens(session, queries, most_tokens, settings.sampling)
    outputs = [output_of_query[query] for query in queries]
    texts = [decode_generation(session.decoder, output.token_ids or (), most_tokens, template) for output in outputs]
    return texts, outputs


def _render_prompts(
    kind: str, questions: Sequence[Question], template: PromptTemplate, reasonings: Sequence[str] | None
) -> list[str]:
    """Return the prompt of each question, with the chain of thought that it repeats."""
    if reasonings is None:
        return [render_prompt(kind, question, template).text for question in questions]
    return [
        render_prompt(kind, question, template, {"reasoning": reasoning}).text
        for question, reasoning in zip(questions, reasonings, strict=True)
    ]


def _build_row(question: Question, output: DecoderOutput, profile: str, setting: str, **columns: Any) -> dict[str, Any]:
    """Return a row of a question; score, probability, prediction and verdict are null unless they are given."""
    return {
        "item_id": question.item_id,
        "role": question.role or ANSWER,
        "profile": profile,
        "setting": setting,
        "image": question.image,
        "tokens": output.tokens,
        **dict.fromkeys(("score", "probability", "prediction", "correct")),
        "error": output.error,
        **columns,
    }


def build_choice_rows(
    questions: Sequence[Question],
    outputs: Sequence[DecoderOutput],
    profile: str,
    reasonings: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout, one for each question.

    | setting | role | score | probability | prediction |
    | --- | --- | --- | --- | --- |
    | `pairwise` | caption | logit of the caption's label minus that of the foil's | its sigmoid | caption, foil, tie |
    | `single` | of the text | logit of "correct" minus that of "incorrect" | its sigmoid | match, mismatch, tie |
    | `choice` | answer | logit of the highest label | its softmax among the labels | a label, tie |

    Args:
        outputs: Outputs of `score_labels`.
        reasonings: The chains of thought, where the answers follow one: the setting ends in `-after-cot`.
    """
    rows = []
    for index, (question, output) in enumerate(zip(questions, outputs, strict=True)):
        setting = question.form if question.form in (PAIRWISE, SINGLE) else CHOICE
        columns: dict[str, Any] = {"order": question.order}
        if setting == PAIRWISE:
            columns["role"] = "caption"
        if output.scores is not None:
            columns |= _judge_labels(question, setting, output.scores, profile)
        if reasonings is not None:
            setting += AFTER_COT
            columns["reasoning"] = reasonings[index]
        rows.append(_build_row(question, output, profile, setting, **columns))
    return rows


def _judge_labels(question: Question, setting: str, logits: Sequence[float], profile: str) -> dict[str, Any]:
    """Return score, probability, prediction and verdict; see `build_choice_rows`."""
    if setting == CHOICE:
        prediction = choose_best_label(question.labels, logits, profile)
        score, probability, correct = max(logits), max(compute_softmax(logits)), prediction in question.gold
        return {"score": score, "probability": probability, "prediction": prediction, "correct": correct}
    if setting == PAIRWISE:
        names, right = ("caption", "foil"), "caption"
    else:
        names, right = ("match", "mismatch"), RIGHT_PREDICTION[str(question.role)]
    first, second = logits
    if question.order == "foil-first":
        names, margin = names[::-1], second - first
    else:
        margin = first - second
    prediction = choose_best_label(names, logits, profile)
    probability = compute_softmax([margin, 0.0])[0]
    return {"score": margin, "probability": probability, "prediction": prediction, "correct": prediction == right}


def choose_best_label(labels: Sequence[str], logits: Sequence[float], profile: str) -> str:
    """Return the label with the highest logit; of equally high ones the first in `published`, `tie` in `equations`."""
    highest = max(logits)
    if get_fidelity(profile).tied_labels == "tie" and list(logits).count(highest) > 1:
        return TIE
    return labels[list(logits).index(highest)]


def compute_softmax(logits: Sequence[float]) -> list[float]:
    """Return the softmax of the labels' logits, in double precision."""
    weights = np.exp(np.array(logits, dtype=np.float64) - max(logits))
    return [float(share) for share in weights / weights.sum()]


def answer_questions(
    session: DecoderSession,
    items: Sequence[Row],
    dataset: str,
    template: PromptTemplate,
    settings: GenerationSettings,
    reasonings: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout, role `answer`, with the model's answer to each question.

    `prediction` is the generated answer. `correct` states in `published` whether a gold answer is part of it
    (`contains_gold_answer`), in `equations` whether it is the gold answer.

    Args:
        items: Rows of item_id, image, question, answer and answers (those of the annotators; empty for GQA).
        reasonings: The chain of thought before each answer; None asks for the answer without one.
    """
    kind, setting = ("answer", ANSWERING) if reasonings is None else ("answer-after-cot", ANSWERING + AFTER_COT)
    questions = build_open_questions(items, dataset)
    texts, outputs = _generate_texts(session, questions, template, kind, reasonings, MOST_TOKENS, settings)
    profile = template.prompt_file.profile
    rows = []
    for index, (item, question, output) in enumerate(zip(items, questions, outputs, strict=True)):
        columns: dict[str, Any] = {} if reasonings is None else {"reasoning": reasonings[index]}
        if output.error is None:
            columns |= {"prediction": texts[index], "correct": _is_correct(item, texts[index], profile)}
        rows.append(_build_row(question, output, profile, setting, **columns))
    return rows


def is_right_answer(answer: str, question: Question, profile: str) -> bool:
    """Return whether an answer is right: the gold label; for open questions by the rule of `answer_questions`.

    A question with one gold answer counts as one without annotators, whose answer `published` takes as it is written.
    """
    if question.labels:
        return answer in question.gold
    several = question.gold if len(question.gold) > 1 else ()
    return _is_correct({"answer": question.gold[0], "answers": several}, answer, profile)


def _is_correct(item: Row, answer: str, profile: str) -> bool:
    if get_fidelity(profile).open_answers == "substring":
        return contains_gold_answer(answer, item)
    return normalize_answer(answer) == normalize_answer(item["answer"])


def score_likelihood(
    session: DecoderSession, questions: Sequence[Question], template: PromptTemplate
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout: log-likelihood of each text as the description of its image, mean and sum.

    The text follows the prompt for a description; a space before it belongs to its first token. Its own tokens count,
    an end mark does not. `tokens` is their number. The scores rank caption and foil, so acc_r and AUROC are defined;
    they decide no match, so p_c, p_f and acc are not.

    Args:
        questions: Single texts with their images (`build_single_questions`).
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
            scores = outputs[query].scores
            columns: dict[str, Any] = {"tokens": len(scores or ())}
            if scores is not None:
                total = math.fsum(scores)
                columns["score"] = total if setting == LIKELIHOOD_SUM else total / len(scores)
            rows.append(_build_row(question, outputs[query], template.prompt_file.profile, setting, **columns))
    return rows


def score_vqascore(
    session: DecoderSession, questions: Sequence[Question], template: PromptTemplate
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout: probability of "Yes" as the answer to "Does this figure show …?".

    The probability is taken over all tokens of the vocabulary. No released code has this score; in `published` the
    prompt has the markers of the model's family, and the token of "Yes" is found like those of labels.

    Args:
        questions: Single texts with their images.
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
    profile = template.prompt_file.profile
    outputs = score_continuations(session, queries, get_label_token_finder(profile), "probability")
    rows = []
    for question, query in zip(questions, queries, strict=True):
        scores = outputs[query].scores
        rows.append(
            _build_row(question, outputs[query], profile, VQASCORE, score=None if scores is None else scores[0])
        )
    return rows


def count_outcomes(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Count rows by setting and order of captions, ties, rows without a score, and the most frequent errors."""
    rows = list(rows)
    errors = Counter(row["error"] for row in rows if row["error"] is not None)
    orders = Counter(f"{row['profile']}, {row['order']}" for row in rows if row.get("order"))
    return {
        "orders": dict(sorted(orders.items())),
        "ties": sum(row["prediction"] == TIE for row in rows),
        "unscored": errors.total(),
        "errors": dict(errors.most_common(10)),
    }
