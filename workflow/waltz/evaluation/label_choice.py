"""Questions with labels put to decoders: caption against foil, one text beside its image, text tasks (thesis 3.5, 5.2).

The label is the one with the highest score where the model says its first token, among the labels alone; of two labels
a guess is right half of the time. In `published` the first of equally high ones is taken, in `equations` none.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from waltz.core.sampling import rank
from waltz.evaluation.encoder_vqa import ROLE
from waltz.evaluation.metrics.scored_pairs import AFTER_COT, CHOICE, PAIRWISE, RIGHT, SINGLE
from waltz.evaluation.prompting.generation_cache import Examinee, Query, Reply, written
from waltz.evaluation.prompting.generation_cache import said as ids_said
from waltz.evaluation.prompting.generation_cache import scored as scores_of
from waltz.evaluation.prompting.label_tokens import labels, published_labels
from waltz.evaluation.prompting.prompts import Voice, render, said
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.decoder import Sampling
from waltz.models.decoders.outcomes import FIRST_STEP

TIE = "tie"


def chosen(
    examinee: Examinee, questions: Sequence[Question], voice: Voice, reasonings: Sequence[str] | None = None
) -> list[Reply]:
    """Logits of each question's labels where the answer begins, in the order of the labels.

    Args:
        examinee: Who is asked.
        questions: Questions with labels.
        voice: How the model is spoken to.
        reasonings: The chain of thought before each answer; None asks for the answer at once.
    Raises:
        UserError: The family or the chat template cannot be asked this.
    """
    kind = "answer" if reasonings is None else "answer-after-cot"
    queries = []
    for place, question in enumerate(questions):
        given = {} if reasonings is None else {"reasoning": reasonings[place]}
        texts = tuple(said(question, voice.wording, label) for label in question.labels)
        queries.append(Query(question.image, render(kind, question, voice, given).text, texts))
    follow = labels if voice.wording.profile == "equations" else published_labels
    found = scores_of(examinee, queries, follow, FIRST_STEP)
    return [found[query] for query in queries]


def reasoned(
    examinee: Examinee,
    questions: Sequence[Question],
    voice: Voice,
    *,
    most: int,
    sampling: Sampling | None,
    seed: int,
) -> list[str]:
    """The chain of thought about each question, blanks included; empty where the prompt cannot be read.

    Args:
        examinee: Who is asked.
        questions: Questions, with labels or open ones.
        voice: How the model is spoken to.
        most: Most tokens; 100 as published.
        sampling: How tokens are drawn; None takes the likeliest.
        seed: The study's seed; each item's draws have their own.
    """
    return told(examinee, questions, voice, "cot", None, most=most, sampling=sampling, seed=seed)[0]


def told(
    examinee: Examinee,
    questions: Sequence[Question],
    voice: Voice,
    kind: str,
    reasonings: Sequence[str] | None,
    *,
    most: int,
    sampling: Sampling | None,
    seed: int,
) -> tuple[list[str], list[Reply]]:
    """What the model says to each question, as text, and the replies behind it.

    Args:
        examinee: Who is asked.
        questions: Questions.
        voice: How the model is spoken to.
        kind: Kind of prompt.
        reasonings: The chain of thought that each prompt repeats, or None.
        most: Most tokens.
        sampling: How tokens are drawn; None takes the likeliest.
        seed: The study's seed.
    """
    queries = []
    for place, question in enumerate(questions):
        given = {} if reasonings is None else {"reasoning": reasonings[place]}
        draw = rank(f"{question.item_id}:{question.role}:{kind}", seed) >> 1 if sampling else 0
        queries.append(Query(question.image, render(kind, question, voice, given).text, seed=draw))
    found = ids_said(examinee, queries, most, sampling)
    replies = [found[query] for query in queries]
    return [written(examinee.decoder, reply.said or (), most, voice) for reply in replies], replies


def choice_rows(
    questions: Sequence[Question], replies: Sequence[Reply], profile: str, reasonings: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Rows of the evaluation layout, one a question.

    | setting | role | score | probability | prediction |
    | --- | --- | --- | --- | --- |
    | `pairwise` | caption | logit of the caption's label less that of the foil's | its sigmoid | caption, foil, tie |
    | `single` | of the text | logit of "correct" less that of "incorrect" | its sigmoid | match, mismatch, tie |
    | `choice` | answer | logit of the highest label | its softmax among the labels | a label, tie |

    Args:
        questions: Questions with labels.
        replies: What `chosen` found.
        profile: `equations` or `published`.
        reasonings: The chains of thought, where the answers came after one: the setting ends in `-after-cot`.
    """
    rows = []
    for place, (question, reply) in enumerate(zip(questions, replies, strict=True)):
        made = {"pairwise": _pairwise, "single": _single}.get(question.form, _choice)(question, reply, profile)
        if reasonings is not None:
            made = {**made, "setting": made["setting"] + AFTER_COT, "reasoning": reasonings[place]}
        rows.append({"item_id": question.item_id, "image": question.image, "profile": profile, **made})
    return rows


def best(names: Sequence[str], logits: Sequence[float], profile: str) -> str:
    """The label with the highest logit; of equally high ones the first in `published`, `tie` in `equations`."""
    highest = max(logits)
    if profile == "equations" and list(logits).count(highest) > 1:
        return TIE
    return names[list(logits).index(highest)]


def tally(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Rows by setting and order of captions, ties, rows without a score, and the most frequent errors."""
    kept = list(rows)
    errors = Counter(row["error"] for row in kept if row["error"] is not None)
    orders = Counter(f"{row['profile']}, {row['order']}" for row in kept if row.get("order"))
    return {
        "orders": dict(sorted(orders.items())),
        "ties": sum(row["prediction"] == TIE for row in kept),
        "unscored": errors.total(),
        "errors": dict(errors.most_common(10)),
    }


def _pairwise(question: Question, reply: Reply, profile: str) -> dict[str, Any]:
    row = {"role": "caption", "setting": PAIRWISE, "order": question.order}
    names = ("caption", "foil") if question.order == "caption-first" else ("foil", "caption")
    return {**row, **_of_two(names, "caption", "caption", reply, profile)}


def _single(question: Question, reply: Reply, profile: str) -> dict[str, Any]:
    role = str(question.role)
    row = {"role": role, "setting": SINGLE, "order": None}
    return {**row, **_of_two(("match", "mismatch"), "match", RIGHT[role], reply, profile)}


def _of_two(names: Sequence[str], scored: str, right: str, reply: Reply, profile: str) -> dict[str, Any]:
    """What is made of two labels that mean some names: the margin of the scored one, and whether the right one won."""
    if reply.numbers is None:
        return _nothing(reply)
    place = names.index(scored)
    margin = reply.numbers[place] - reply.numbers[1 - place]
    prediction = best(names, reply.numbers, profile)
    return {
        "score": margin,
        "tokens": reply.tokens,
        "probability": shares([margin, 0.0])[0],
        "prediction": prediction,
        "correct": prediction == right,
        "error": None,
    }


def _choice(question: Question, reply: Reply, profile: str) -> dict[str, Any]:
    row = {"role": ROLE, "setting": CHOICE, "order": None}
    if reply.numbers is None:
        return {**row, **_nothing(reply)}
    prediction = best(question.labels, reply.numbers, profile)
    return {
        **row,
        "score": max(reply.numbers),
        "tokens": reply.tokens,
        "probability": max(shares(reply.numbers)),
        "prediction": prediction,
        "correct": prediction in question.gold,
        "error": None,
    }


def shares(logits: Sequence[float]) -> list[float]:
    """Softmax of the labels' logits, in double precision."""
    weights = np.exp(np.array(logits, dtype=np.float64) - max(logits))
    return [float(share) for share in weights / weights.sum()]


def _nothing(reply: Reply) -> dict[str, Any]:
    missing = dict.fromkeys(("score", "probability", "prediction", "correct"))
    return {**missing, "tokens": reply.tokens, "error": reply.error}
