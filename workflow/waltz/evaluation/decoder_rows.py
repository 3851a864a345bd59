"""Rows of decoders in the evaluation layout: label choice, open answers, text scores (thesis 3.5, 5.2, 5.5).

The chosen label is the one with the highest score for the first token of the answer, among the labels alone; with two
labels a random choice is right half of the time. `published` takes the first of equally high ones, `equations` none.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from waltz.core.sampling import rank
from waltz.evaluation.encoder_vqa import ROLE
from waltz.evaluation.metrics.pair_metrics import AFTER_COT, CHOICE, PAIRWISE, RIGHT_PREDICTION, SINGLE
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
from waltz.evaluation.vqa import SETTING, contains_gold_answer, normalize_answer
from waltz.fidelity import get_fidelity
from waltz.models.decoders.continuations import FIRST_STEP
from waltz.models.decoders.decoder import Sampling

TIE = "tie"
MOST_TOKENS = 10
"""Most tokens of a short answer, as published."""
Row = Mapping[str, Any]
LIKELIHOOD = "log-likelihood"
"""Setting of the mean log-probability of a text's tokens, in nats a token."""
LIKELIHOOD_SUM = "log-likelihood-sum"
"""Setting of their sum, in nats."""
VQASCORE = "vqascore"
"""Setting of the probability of "Yes"."""


def score_labels(
    session: DecoderSession,
    questions: Sequence[Question],
    template: PromptTemplate,
    reasonings: Sequence[str] | None = None,
) -> list[DecoderOutput]:
    """Return the logits of each question's labels where the answer begins, in the order of the labels.

    Args:
        session: The decoder.
        questions: Questions with labels.
        template: Wording and markers of the prompts.
        reasonings: The chain of thought before each answer; None asks for the answer without one.
    Raises:
        UserError: The family has no such prompt, or the chat template changes the item's words.
    """
    kind = "answer" if reasonings is None else "answer-after-cot"
    queries = []
    for index, question in enumerate(questions):
        texts = {} if reasonings is None else {"reasoning": reasonings[index]}
        labels = tuple(render_label(question, template.prompt_file, label) for label in question.labels)
        queries.append(DecoderQuery(question.image, render_prompt(kind, question, template, texts).text, labels))
    find_tokens = get_label_token_finder(template.prompt_file.profile)
    outputs = score_continuations(session, queries, find_tokens, FIRST_STEP)
    return [outputs[query] for query in queries]


def generate_chains_of_thought(
    session: DecoderSession,
    questions: Sequence[Question],
    template: PromptTemplate,
    *,
    most_tokens: int,
    sampling: Sampling | None,
    seed: int,
) -> list[str]:
    """Return the chain of thought about each question, whitespace included; empty where the prompt cannot be read.

    Args:
        session: The decoder.
        questions: Questions, with labels or open ones.
        template: Wording and markers of the prompts.
        most_tokens: Most tokens; 100 as published.
        sampling: Settings of sampling; None takes the likeliest tokens.
        seed: The study's seed; each item's draws have a seed of their own.
    """
    return generate_texts(
        session, questions, template, "cot", None, most_tokens=most_tokens, sampling=sampling, seed=seed
    )[0]


def generate_texts(
    session: DecoderSession,
    questions: Sequence[Question],
    template: PromptTemplate,
    kind: str,
    reasonings: Sequence[str] | None,
    *,
    most_tokens: int,
    sampling: Sampling | None,
    seed: int,
) -> tuple[list[str], list[DecoderOutput]]:
    """Generate a text for each question; return the texts and the outputs that hold their tokens.

    Args:
        session: The decoder.
        questions: Questions.
        template: Wording and markers of the prompts.
        kind: Kind of prompt.
        reasonings: The chain of thought that each prompt repeats, or None.
        most_tokens: Most tokens.
        sampling: Settings of sampling; None takes the likeliest tokens.
        seed: The study's seed.
    """
    queries = []
    for index, question in enumerate(questions):
        texts = {} if reasonings is None else {"reasoning": reasonings[index]}
        item_seed = rank(f"{question.item_id}:{question.role}:{kind}", seed) >> 1 if sampling else 0
        prompt = render_prompt(kind, question, template, texts)
        queries.append(DecoderQuery(question.image, prompt.text, seed=item_seed))
    output_of_query = generate_tokens(session, queries, most_tokens, sampling)
    outputs = [output_of_query[query] for query in queries]
    generations = [
        decode_generation(session.decoder, output.token_ids or (), most_tokens, template) for output in outputs
    ]
    return generations, outputs


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
        questions: Questions with labels.
        outputs: Outputs of `score_labels`.
        profile: `equations` or `published`.
        reasonings: The chains of thought, where the answers follow one: the setting ends in `-after-cot`.
    """
    rows = []
    for index, (question, output) in enumerate(zip(questions, outputs, strict=True)):
        build_columns = {"pairwise": _build_pairwise, "single": _build_single}.get(question.form, _build_choice)
        columns = build_columns(question, output, profile)
        if reasonings is not None:
            columns = {**columns, "setting": columns["setting"] + AFTER_COT, "reasoning": reasonings[index]}
        rows.append({"item_id": question.item_id, "image": question.image, "profile": profile, **columns})
    return rows


def choose_best_label(labels: Sequence[str], logits: Sequence[float], profile: str) -> str:
    """Return the label with the highest logit; of equally high ones the first in `published`, `tie` in `equations`."""
    highest = max(logits)
    if get_fidelity(profile).tied_labels == "tie" and list(logits).count(highest) > 1:
        return TIE
    return labels[list(logits).index(highest)]


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


def _build_pairwise(question: Question, output: DecoderOutput, profile: str) -> dict[str, Any]:
    columns = {"role": "caption", "setting": PAIRWISE, "order": question.order}
    names = ("caption", "foil") if question.order == "caption-first" else ("foil", "caption")
    return {**columns, **_compare_two_labels(names, "caption", "caption", output, profile)}


def _build_single(question: Question, output: DecoderOutput, profile: str) -> dict[str, Any]:
    role = str(question.role)
    columns = {"role": role, "setting": SINGLE, "order": None}
    names = ("match", "mismatch")
    return {**columns, **_compare_two_labels(names, "match", RIGHT_PREDICTION[role], output, profile)}


def _compare_two_labels(
    names: Sequence[str], scored: str, right: str, output: DecoderOutput, profile: str
) -> dict[str, Any]:
    """Return the columns of two labels with names: the margin of the scored one, and whether the right one wins."""
    if output.scores is None:
        return _build_error_columns(output)
    index = names.index(scored)
    margin = output.scores[index] - output.scores[1 - index]
    prediction = choose_best_label(names, output.scores, profile)
    return {
        "score": margin,
        "tokens": output.tokens,
        "probability": compute_softmax([margin, 0.0])[0],
        "prediction": prediction,
        "correct": prediction == right,
        "error": None,
    }


def _build_choice(question: Question, output: DecoderOutput, profile: str) -> dict[str, Any]:
    columns = {"role": ROLE, "setting": CHOICE, "order": None}
    if output.scores is None:
        return {**columns, **_build_error_columns(output)}
    prediction = choose_best_label(question.labels, output.scores, profile)
    return {
        **columns,
        "score": max(output.scores),
        "tokens": output.tokens,
        "probability": max(compute_softmax(output.scores)),
        "prediction": prediction,
        "correct": prediction in question.gold,
        "error": None,
    }


def compute_softmax(logits: Sequence[float]) -> list[float]:
    """Return the softmax of the labels' logits, in double precision."""
    weights = np.exp(np.array(logits, dtype=np.float64) - max(logits))
    return [float(share) for share in weights / weights.sum()]


def _build_error_columns(output: DecoderOutput) -> dict[str, Any]:
    missing = dict.fromkeys(("score", "probability", "prediction", "correct"))
    return {**missing, "tokens": output.tokens, "error": output.error}


def build_questions(items: Sequence[Row], dataset: str) -> list[Question]:
    """Build the questions of items, with the items' own ids.

    Args:
        items: Rows of `vqa_items.select_questions`.
        dataset: Name of the data set in the study.
    """
    rows = [{**item, "source": dataset, "source_id": item["item_id"], "rejected": None} for item in items]
    questions = build_open_questions(rows, dataset)
    return [replace(question, item_id=item["item_id"]) for question, item in zip(questions, items, strict=True)]


def answer_questions(
    session: DecoderSession,
    items: Sequence[Row],
    dataset: str,
    template: PromptTemplate,
    *,
    sampling: Sampling | None,
    seed: int,
    reasonings: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Return rows of the evaluation layout, role `answer`, with the model's answer to each question.

    `prediction` is the generated answer. `correct` states in `published` whether a gold answer is part of it
    (`contains_gold_answer`), in `equations` whether it is the gold answer.

    Args:
        session: The decoder.
        items: Rows of item_id, image, question, answer and answers (those of the annotators; empty for GQA).
        dataset: Name of the data set in the study.
        template: Wording and markers of the prompts.
        sampling: Settings of sampling; None takes the likeliest tokens, as in `equations`. `published` samples.
        seed: The study's seed; each item's draws have a seed of their own.
        reasonings: The chain of thought before each answer; None asks for the answer without one.
    """
    kind, setting = ("answer", SETTING) if reasonings is None else ("answer-after-cot", SETTING + AFTER_COT)
    questions = build_questions(items, dataset)
    texts, outputs = generate_texts(
        session, questions, template, kind, reasonings, most_tokens=MOST_TOKENS, sampling=sampling, seed=seed
    )
    profile = template.prompt_file.profile
    rows = []
    for index, (item, text, output) in enumerate(zip(items, texts, outputs, strict=True)):
        answer = None if output.error is not None else text
        row = {
            "item_id": item["item_id"],
            "role": ROLE,
            "profile": profile,
            "setting": setting,
            "image": item["image"],
            "score": None,
            "tokens": output.tokens,
            "probability": None,
            "prediction": answer,
            "correct": _is_correct(item, answer, profile),
            "error": output.error,
        }
        rows.append(row if reasonings is None else {**row, "reasoning": reasonings[index]})
    return rows


def _is_correct(item: Row, answer: str | None, profile: str) -> bool | None:
    if answer is None:
        return None
    if get_fidelity(profile).open_answers == "substring":
        return contains_gold_answer(answer, item)
    return normalize_answer(answer) == normalize_answer(item["answer"])


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
