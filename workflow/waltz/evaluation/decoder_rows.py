"""Records of decoders in the evaluation layout: label choice, open answers, text scores (thesis 3.5,
5.2, 5.5).

Only labels are compared: the chosen label has the highest score for the first token of the answer.
With two labels a random choice is right half of the time. If several labels have the highest score,
`published` takes the first of them, and `equations` chooses none.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from waltz.core.errors import ItemError
from waltz.core.rounding import compute_logit_rounding, compute_rounding
from waltz.core.sampling import rank
from waltz.core.schema import EvaluationRecord
from waltz.evaluation.prompting.decoded_texts import (
    decode_generation,
    decode_reasoning,
    get_generated_text,
    repeat_reasoning,
)
from waltz.evaluation.prompting.decoder_outputs import (
    DecoderOutput,
    DecoderQuery,
    DecoderSession,
    find_continuation_tokens,
    generate_tokens,
    get_label_token_finder,
    score_continuations,
    select_sampling,
)
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    render_label,
    render_prompt,
)
from waltz.evaluation.prompting.questions import Question, build_open_questions
from waltz.evaluation.settings import (
    AFTER_COT,
    CHOICE,
    PAIRWISE,
    RIGHT_PREDICTION,
    SINGLE,
)
from waltz.evaluation.vqa import (
    ANSWER,
    ANSWERING,
    VqaItem,
    contains_gold_answer,
    gives_answer,
)
from waltz.fidelity import Fidelity
from waltz.models.decoders.continuations import FIRST_STEP
from waltz.models.decoders.decoder import Sampling

TIE = "tie"
MAX_ANSWER_TOKENS = 10
"""Maximum number of tokens of a short answer, as published."""
LIKELIHOOD = "log-likelihood"
"""Setting of the mean log-probability of a text's tokens, in nats per token."""
LIKELIHOOD_SUM = "log-likelihood-sum"
"""Setting of the sum of the log-probabilities of a text's tokens, in nats."""
VQASCORE = "vqascore"
"""Setting of the probability of "Yes" as the answer to the question whether a figure shows a text.
"""


@dataclass(frozen=True)
class GenerationSettings:
    """Hold the settings of text generation.

    Attributes:
        seed: The study's seed, from which each item derives its seed.
        sampling: Settings of sampling; None takes the most probable tokens
            (`decoder_outputs.choose_sampling`). `equations` does not sample answers.
        cot_tokens: Maximum number of tokens of a chain of thought, 100 as published; 0 requests no
            answers after a chain of thought.
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
    """Return, for each question, the logits of its labels as the first token of the answer, in the
    order of the labels.

    Args:
        session: A decoder with its images.
        questions: Questions with labels.
        template: The prompts.
        reasonings: The chain of thought before each answer; None requests answers without a chain
            of thought.
    Raises:
        UserError: The family has no such prompt.
    """
    kind = "answer" if reasonings is None else "answer-after-cot"
    queries = []
    for question, reasoning in zip(
        questions, _fill_reasonings(questions, reasonings), strict=True
    ):
        texts = repeat_reasoning(reasoning)
        labels = tuple(
            render_label(question, template.prompt_file, label)
            for label in question.labels
        )
        queries.append(_build_query(kind, question, template, texts, labels))
    # All labels are alternatives for the first token of the answer, so that each question needs one
    # forward pass.
    find_tokens = get_label_token_finder(template.prompt_file.fidelity)
    outputs = score_continuations(session, queries, find_tokens, FIRST_STEP)
    return [outputs[query] for query in queries]


def generate_chains_of_thought(
    session: DecoderSession,
    questions: Sequence[Question],
    template: PromptTemplate,
    settings: GenerationSettings,
) -> list[str]:
    """Generate a chain of thought about each question, whitespace included; empty if the prompt
    cannot be read.

    In `published` each is a `DecodedReasoning` where later prompts repeat its decoded prompt.
    """
    queries, outputs = _generate_outputs(
        session, questions, template, "cot", None, settings.cot_tokens, settings
    )
    chains = []
    for query, output in zip(queries, outputs, strict=True):
        chain = ""
        if output.token_ids is not None:
            prompt = session.decoder.build_prompt(query.prompt)
            chain = decode_reasoning(
                session.decoder,
                prompt,
                output.token_ids,
                settings.cot_tokens,
                template,
            )
        chains.append(chain)
    return chains


def _generate_outputs(
    session: DecoderSession,
    questions: Sequence[Question],
    template: PromptTemplate,
    kind: str,
    reasonings: Sequence[str] | None,
    max_tokens: int,
    settings: GenerationSettings,
) -> tuple[list[DecoderQuery], list[DecoderOutput]]:
    """Generate a text for each question, and return the queries with their outputs."""
    fidelity = template.prompt_file.fidelity
    sampling = select_sampling(settings.sampling, kind, fidelity)
    queries = []
    for question, reasoning in zip(
        questions, _fill_reasonings(questions, reasonings), strict=True
    ):
        item_seed = 0
        if sampling is not None:
            # Each item draws with a seed that does not depend on other items; torch takes 63 bits.
            item_seed = (
                rank(f"{question.item_id}:{question.role}:{kind}", settings.seed) >> 1
            )
        texts = repeat_reasoning(reasoning)
        queries.append(_build_query(kind, question, template, texts, seed=item_seed))
    output_of_query = generate_tokens(
        session, queries, max_tokens, sampling, fidelity.min_new_tokens
    )
    return queries, [output_of_query[query] for query in queries]


def _fill_reasonings(
    questions: Sequence[Question], reasonings: Sequence[str] | None
) -> Sequence[str | None]:
    """Return the chain of thought before the answer to each question; None for answers without
    one.
    """
    return [None] * len(questions) if reasonings is None else reasonings


def _build_query(
    kind: str,
    question: Question,
    template: PromptTemplate,
    texts: Mapping[str, str] | None = None,
    continuations: tuple[str, ...] = (),
    seed: int = 0,
) -> DecoderQuery:
    """Return the query of a question; it has an error if a text of the item cannot be put into a
    prompt.
    """
    try:
        prompt = render_prompt(kind, question, template, texts).text
    except ItemError as error:
        return DecoderQuery(question.image, "", continuations, seed, str(error))
    return DecoderQuery(question.image, prompt, continuations, seed)


def _build_record(
    question: Question,
    output: DecoderOutput,
    fidelity: Fidelity,
    setting: str,
    reasoning: str | None = None,
) -> EvaluationRecord:
    """Return the record of a question without a score and a prediction.

    Args:
        reasoning: The chain of thought before the answer; the setting then ends in `-after-cot`.
    """
    return EvaluationRecord(
        item_id=question.item_id,
        # The score of a pairwise question belongs to its caption.
        role="caption" if question.form == PAIRWISE else question.role or ANSWER,
        profile=fidelity.name,
        setting=setting if reasoning is None else setting + AFTER_COT,
        image=question.image,
        tokens=output.tokens,
        order=question.order,
        reasoning=get_generated_text(reasoning),
        error=output.error,
    )


def build_choice_records(
    questions: Sequence[Question],
    outputs: Sequence[DecoderOutput],
    fidelity: Fidelity,
    reasonings: Sequence[str] | None = None,
    dtype: str = "float32",
) -> list[EvaluationRecord]:
    """Return a record for each question with labels.

    | setting | role | score | probability | prediction |
    | --- | --- | --- | --- | --- |
    | `pairwise` | caption | logit of the caption's label - logit of the foil's | its sigmoid | caption, foil, tie |
    | `single` | of the text | logit of "correct" - logit of "incorrect" | its sigmoid | match, mismatch, tie |
    | `choice` | answer | logit of the highest label | its softmax among the labels | a label, tie |

    Args:
        outputs: Outputs of `score_labels`.
        reasonings: The chain of thought before each answer; the setting then ends in `-after-cot`.
            None without.
        dtype: Precision of the decoder.
    """
    records = []
    for question, output, reasoning in zip(
        questions, outputs, _fill_reasonings(questions, reasonings), strict=True
    ):
        # The forms of text tasks share one setting.
        setting = question.form if question.form in (PAIRWISE, SINGLE) else CHOICE
        record = _build_record(question, output, fidelity, setting, reasoning)
        if output.scores is not None:
            record = _judge_labels(record, question, output.scores, fidelity)
            # A difference of logits has the rounding of the logit of larger magnitude.
            rounding = compute_rounding(max(map(abs, output.scores)), dtype)
            record = replace(record, rounding=rounding)
        records.append(record)
    return records


def _judge_labels(
    record: EvaluationRecord,
    question: Question,
    logits: Sequence[float],
    fidelity: Fidelity,
) -> EvaluationRecord:
    """Return the record of a question with score, probability, prediction and correctness; see
    `build_choice_records`.
    """
    # The two labels name caption and foil, or match and mismatch.
    if question.form == PAIRWISE:
        names, expected = ("caption", "foil"), "caption"
    elif question.form == SINGLE:
        names, expected = ("match", "mismatch"), RIGHT_PREDICTION[str(question.role)]
    else:
        prediction = choose_best_label(question.labels, logits, fidelity)
        return replace(
            record,
            score=max(logits),
            probability=max(compute_softmax(logits)),
            prediction=prediction,
            correct=prediction in question.gold,
        )
    # The margin is always the caption's logit minus the foil's, whichever was shown first.
    first, second = logits
    margin = first - second
    if question.order == "foil-first":
        names = (names[1], names[0])
        margin = second - first
    prediction = choose_best_label(names, logits, fidelity)
    return replace(
        record,
        score=margin,
        probability=compute_softmax([margin, 0.0])[0],
        prediction=prediction,
        correct=prediction == expected,
    )


def choose_best_label(
    labels: Sequence[str], logits: Sequence[float], fidelity: Fidelity
) -> str:
    """Return the label with the highest logit.

    If several labels have the highest logit, it is the first of them in `published`, and `tie` in
    `equations`.
    """
    highest = max(logits)
    is_tied = list(logits).count(highest) > 1
    if is_tied and fidelity.tied_labels == "tie":
        return TIE
    return labels[list(logits).index(highest)]


def compute_softmax(logits: Sequence[float]) -> list[float]:
    """Return the softmax of the labels' logits, in double precision."""
    # The highest logit is subtracted, so that exp cannot overflow.
    weights = np.exp(np.array(logits, dtype=np.float64) - max(logits))
    return [float(share) for share in weights / weights.sum()]


def answer_questions(
    session: DecoderSession,
    items: Sequence[VqaItem],
    dataset: str,
    template: PromptTemplate,
    settings: GenerationSettings,
    reasonings: Sequence[str] | None = None,
) -> list[EvaluationRecord]:
    """Let a decoder answer open questions, and return a record with role `answer` for each.

    `prediction` is the generated answer. `correct` states in `published` whether the answer
    contains a gold answer (`contains_gold_answer`), in `equations` whether it gives the gold answer
    (`gives_answer`).

    Args:
        session: A decoder with its images.
        items: The questions with their gold answers.
        dataset: Name of the data set.
        template: The prompts.
        settings: Settings of the generation.
        reasonings: The chain of thought before each answer; None requests answers without a chain
            of thought.
    """
    kind = "answer" if reasonings is None else "answer-after-cot"
    questions = build_open_questions(items, dataset)
    _, outputs = _generate_outputs(
        session, questions, template, kind, reasonings, MAX_ANSWER_TOKENS, settings
    )
    fidelity = template.prompt_file.fidelity
    records = []
    for item, question, output, reasoning in zip(
        items,
        questions,
        outputs,
        _fill_reasonings(questions, reasonings),
        strict=True,
    ):
        record = _build_record(question, output, fidelity, ANSWERING, reasoning)
        # A question that could not be asked keeps its error, and has no prediction.
        if output.error is None:
            text = decode_generation(
                session.decoder, output.token_ids or (), MAX_ANSWER_TOKENS, template
            )
            is_correct = _is_correct(text, item.answer, item.answers, fidelity)
            record = replace(record, prediction=text, correct=is_correct)
        records.append(record)
    return records


def is_right_answer(answer: str, question: Question, fidelity: Fidelity) -> bool:
    """Return whether an answer is right: whether it is the gold label, or right by the rule of
    `answer_questions`.

    An open question with a single gold answer counts as a question without annotators; `published`
    compares its gold answer as it is written.
    """
    if question.labels:
        return answer in question.gold
    annotators = question.gold if len(question.gold) > 1 else ()
    return _is_correct(answer, question.gold[0], annotators, fidelity)


def _is_correct(
    answer: str, gold: str, annotators: Sequence[str], fidelity: Fidelity
) -> bool:
    # The released code looks for a gold answer anywhere in the generated text.
    if fidelity.open_answers == "substring":
        return contains_gold_answer(answer, gold, annotators)
    return gives_answer(answer, gold)


def score_likelihood(
    session: DecoderSession, questions: Sequence[Question], template: PromptTemplate
) -> list[EvaluationRecord]:
    """Return the log-likelihood of each text as the description of its image: records for its mean,
    and for its sum.

    The text follows the prompt for a description; a space before it belongs to its first token. The
    tokens of the text count, an end mark does not; `tokens` is their number. The scores rank
    caption and foil, so that acc_r and AUROC are defined. They do not predict a match, so that p_c,
    p_f and acc are undefined.

    Args:
        session: A decoder with its images.
        questions: Single texts with their images (`build_single_questions`).
        template: The prompts.
    Source:
        VisualGPTScore (Lin et al. 2024), without its correction for the text alone.
    """
    queries = []
    for question in questions:
        query = _build_query(
            "caption", question, template, continuations=(question.fields["caption"],)
        )
        # A space at the end belongs to the first token of the text.
        queries.append(replace(query, prompt=query.prompt.rstrip(" ")))
    # log p(token | image, prompt, tokens before it) for each token of the text.
    outputs = score_continuations(
        session, queries, find_continuation_tokens, "log-probability"
    )
    fidelity, dtype = template.prompt_file.fidelity, session.decoder.spec.dtype
    records = []
    for setting in (LIKELIHOOD, LIKELIHOOD_SUM):
        for question, query in zip(questions, queries, strict=True):
            output = outputs[query]
            record = _build_record(question, output, fidelity, setting)
            # log-probability of each token of the text.
            token_scores = output.scores or ()
            record = replace(record, tokens=len(token_scores))
            if output.scores is not None:
                score = math.fsum(token_scores)
                if setting == LIKELIHOOD:
                    score /= len(token_scores)
                rounding = compute_logit_rounding(score, dtype)
                record = replace(record, score=score, rounding=rounding)
            records.append(record)
    return records


def score_vqascore(
    session: DecoderSession, questions: Sequence[Question], template: PromptTemplate
) -> list[EvaluationRecord]:
    """Return the probability of "Yes" as the answer to "Does this figure show …?" for each text, as
    records.

    The probability is taken over all tokens of the vocabulary. No released code has this score. In
    `published` the prompt has the markers of the model's family, and the token of "Yes" is found in
    the same way as tokens of labels.

    Args:
        session: A decoder with its images.
        questions: Single texts with their images.
        template: The prompts.
    Source:
        VQAScore (Lin et al., ECCV 2024).
    """
    fidelity = template.prompt_file.fidelity
    yes = (template.prompt_file.affirms,)
    queries = []
    for question in questions:
        queries.append(
            _build_query(
                "vqascore",
                question,
                template,
                {"text": question.fields["caption"]},
                yes,
            )
        )
    outputs = score_continuations(
        session, queries, get_label_token_finder(fidelity), "probability"
    )
    records = []
    for question, query in zip(questions, queries, strict=True):
        output = outputs[query]
        record = _build_record(question, output, fidelity, VQASCORE)
        if output.scores is not None:
            (score,) = output.scores
            rounding = compute_rounding(score, session.decoder.spec.dtype)
            record = replace(record, score=score, rounding=rounding)
        records.append(record)
    return records


def count_predictions(records: Iterable[EvaluationRecord]) -> dict[str, object]:
    """Count records by profile and order of captions, ties and records without a score; list the
    most frequent errors.
    """
    errors: Counter[str] = Counter()
    orders: Counter[str] = Counter()
    ties = 0
    for record in records:
        ties += record.prediction == TIE
        if record.error is not None:
            errors[record.error] += 1
        if record.order:
            orders[f"{record.profile}, {record.order}"] += 1
    return {
        "orders": dict(sorted(orders.items())),
        "ties": ties,
        "unscored": errors.total(),
        "errors": dict(errors.most_common(10)),
    }
