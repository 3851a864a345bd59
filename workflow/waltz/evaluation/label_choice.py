"""Questions with labels for decoders: caption against foil, one text and its image, text tasks (thesis 3.5, 5.2).

The chosen label is the one with the highest score for the first token of the answer, among the labels alone; with two
labels a random choice is right half of the time. `published` takes the first of equally high ones, `equations` none.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from waltz.core.sampling import rank
from waltz.evaluation.encoder_vqa import ROLE
from waltz.evaluation.metrics.scored_pairs import AFTER_COT, CHOICE, PAIRWISE, RIGHT_PREDICTION, SINGLE
from waltz.evaluation.prompting.generation_cache import (
    DecoderOutput,
    DecoderQuery,
    DecoderSession,
    decode_generation,
    generate_tokens,
    score_continuations,
)
from waltz.evaluation.prompting.label_tokens import get_label_token_finder
from waltz.evaluation.prompting.prompts import PromptTemplate, render_label, render_prompt
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.continuations import FIRST_STEP
from waltz.models.decoders.decoder import Sampling

TIE = "tie"


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
    if profile == "equations" and list(logits).count(highest) > 1:
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
