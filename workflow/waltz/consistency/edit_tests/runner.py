"""Generation of the replies of a decoder and its helper to the self-consistency tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from waltz.consistency.edit_tests.steps import (
    HELPER_KINDS,
    REASONING_KINDS,
    GenerationRequest,
    Generations,
    entail_each_other,
)
from waltz.core.errors import ItemError, UserError
from waltz.evaluation.decoder_rows import TIE, choose_best_label
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.decoded_texts import (
    decode_generation,
    decode_helper_text,
    decode_reasoning,
)
from waltz.evaluation.prompting.decoder_outputs import (
    DecoderOutput,
    DecoderQuery,
    DecoderSession,
    choose_sampling,
    generate_tokens,
    get_label_token_finder,
    score_continuations,
    select_sampling,
)
from waltz.evaluation.prompting.prompt_files import ANSWER_KINDS, IMAGE_KINDS
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    render_label,
    render_prompt,
)
from waltz.fidelity import Fidelity
from waltz.filters.nli import infer_relations
from waltz.models.decoders.continuations import FIRST_STEP
from waltz.models.decoders.decoder import Decoder, Sampling
from waltz.models.text.classifier import Classifier
from waltz.models.user_text import check_user_text


@dataclass(frozen=True)
class PromptedDecoder:
    """Hold a decoder with its prompts and the settings of its sampling.

    Attributes:
        session: The decoder, its images, and the file of finished blocks.
        template: Prompts of the decoder.
        sampling: Settings of the sampling; None if the decoder does not sample.
    """

    session: DecoderSession
    template: PromptTemplate
    sampling: Sampling | None

    def select_sampling(self, kind: str) -> Sampling | None:
        """Return the settings with which replies to a kind of prompt are sampled; None takes the
        most probable tokens.
        """
        return select_sampling(self.sampling, kind, self.template.prompt_file.fidelity)


@dataclass(frozen=True)
class DecoderRunner:
    """Generate the replies of a decoder, of its helper, and of a judge who compares the meaning of
    answers.

    It is a `Runner`.

    Attributes:
        decoder: The decoder that is tested.
        helper: The decoder that adds mistakes and paraphrases; without a judge it also compares
            meanings.
        judge: A classifier of entailment that compares meanings; None without a judge.
        judge_cache: File of the judge's finished blocks.
    """

    decoder: PromptedDecoder
    helper: PromptedDecoder
    judge: Classifier | None = None
    judge_cache: Path | None = None

    def generate(self, requests: Sequence[GenerationRequest]) -> list[str | UserError]:
        """Return a reply to each request: the most probable label if it asks for a label, else
        generated text.
        """
        # Requests that the same model answers in the same way form a batch; replies return to their
        # positions.
        indices_of_batches: dict[Batch, list[int]] = {}
        for index, request in enumerate(requests):
            indices_of_batches.setdefault(self._choose_batch(request), []).append(index)

        replies: dict[int, str | UserError] = {}
        for batch, indices in indices_of_batches.items():
            batch_requests = [requests[index] for index in indices]
            replies |= zip(indices, self._reply(batch, batch_requests), strict=True)
        return [replies[index] for index in range(len(requests))]

    def _choose_batch(self, request: GenerationRequest) -> "Batch":
        # The judge compares meanings if there is one; labels are scored; all other replies are
        # generated.
        if self.judge is not None and request.kind == "same-meaning":
            return Batch("meaning", 0)
        if request.kind in ANSWER_KINDS and request.question.labels:
            return Batch("label", 0)
        if request.kind in HELPER_KINDS:
            sampling = self.helper.select_sampling(request.kind)
            return Batch("helper", request.max_tokens, sampling)
        sampling = self.decoder.select_sampling(request.kind)
        return Batch("decoder", request.max_tokens, sampling)

    def _reply(
        self, batch: "Batch", requests: Sequence[GenerationRequest]
    ) -> Generations:
        if batch.source == "meaning":
            return self._compare_meanings(requests)
        if batch.source == "label":
            return self._choose_labels(requests)
        return self._generate_texts(requests, batch)

    def _compare_meanings(
        self, requests: Sequence[GenerationRequest]
    ) -> list[str | UserError]:
        """Return, for each request, `yes` if its two answers entail each other, else `no`."""
        assert self.judge is not None
        pairs = [_read_pair(self.judge, request) for request in requests]
        readable = [pair for pair in pairs if not isinstance(pair, UserError)]
        # Entailment has a direction, so that each pair is judged in both directions.
        swapped = [(second, first) for first, second in readable]
        inferences = infer_relations(
            [*readable, *swapped], self.judge, self.judge_cache
        )

        replies: list[str | UserError] = []
        for pair in pairs:
            if isinstance(pair, UserError):
                replies.append(pair)
                continue
            first, second = pair
            is_same = entail_each_other(
                inferences[first, second], inferences[second, first]
            )
            replies.append("yes" if is_same else "no")
        return replies

    def _choose_labels(
        self, requests: Sequence[GenerationRequest]
    ) -> list[str | UserError]:
        """Return the most probable label for each request."""
        fidelity = self.decoder.template.prompt_file.fidelity
        queries = [_build_query(request, self.decoder) for request in requests]
        outputs = score_continuations(
            self.decoder.session, queries, get_label_token_finder(fidelity), FIRST_STEP
        )
        return [
            _choose_label(request, outputs[query], fidelity)
            for request, query in zip(requests, queries, strict=True)
        ]

    def _generate_texts(
        self, requests: Sequence[GenerationRequest], batch: "Batch"
    ) -> list[str | UserError]:
        """Return the text that the decoder or its helper generates for each request."""
        prompted = self.helper if batch.source == "helper" else self.decoder
        queries = [_build_query(request, prompted) for request in requests]
        min_tokens = prompted.template.prompt_file.fidelity.min_new_tokens
        # The released script of language models sets no minimum for its helper.
        reads_images = self.decoder.session.decoder.reads_images
        if batch.source == "helper" and not reads_images:
            min_tokens = 0
        outputs = generate_tokens(
            prompted.session, queries, batch.max_tokens, batch.sampling, min_tokens
        )
        return [
            _decode_output(outputs[query], request, query, prompted)
            for request, query in zip(requests, queries, strict=True)
        ]


@dataclass(frozen=True)
class Batch:
    """Name what the requests of one batch have in common.

    Attributes:
        source: Source of the replies: `meaning` for the judge, `label` for the scores of labels,
            `helper` or `decoder` for text that this model generates.
        max_tokens: Maximum number of tokens of generated text.
        sampling: Settings of the sampling; None takes the most probable tokens.
    """

    source: Literal["meaning", "label", "helper", "decoder"]
    max_tokens: int
    sampling: Sampling | None = None


def _decode_output(
    output: DecoderOutput,
    request: GenerationRequest,
    query: DecoderQuery,
    prompted: PromptedDecoder,
) -> str | UserError:
    """Return the generated reply to a request as text, or the error that prevented it."""
    if output.token_ids is None:
        return UserError(str(output.error))
    decoder, template = prompted.session.decoder, prompted.template
    if request.kind in HELPER_KINDS:
        return decode_helper_text(decoder, output.token_ids, template.prompt_file)
    if request.kind in REASONING_KINDS:
        prompt = decoder.build_prompt(query.prompt)
        return decode_reasoning(
            decoder, prompt, output.token_ids, request.max_tokens, template
        )
    return decode_generation(decoder, output.token_ids, request.max_tokens, template)


def build_runner(
    session: DecoderSession,
    helper: Decoder,
    fidelity: Fidelity,
    judge: Classifier | None = None,
    judge_cache: Path | None = None,
) -> DecoderRunner:
    """Build the runner of a decoder and its helper.

    In `published` the prompts of the helper have the markers of the decoder's family.

    Args:
        session: The decoder that is tested, its images, and the file of finished blocks of decoder
            and helper.
        helper: The decoder that adds mistakes and paraphrases.
        fidelity: Rules of the prompts.
        judge: A classifier of entailment that compares meanings instead of the helper.
        judge_cache: File of the judge's finished blocks.
    Raises:
        UserError: The fidelity has no prompts for the decoder.
    """
    decoder = session.decoder
    # A helper that is another model has its own prompts, unless the fidelity takes the family's
    # prompts.
    template = build_template(decoder, fidelity)
    shares_template = helper is decoder or fidelity.prompts == "families"
    helper_template = template if shares_template else build_template(helper, fidelity)
    helper_session = DecoderSession(
        helper, session.load_image, session.cache_file, session.report_progress
    )
    return DecoderRunner(
        PromptedDecoder(session, template, choose_sampling(decoder)),
        PromptedDecoder(helper_session, helper_template, choose_sampling(helper)),
        judge,
        judge_cache,
    )


def _read_pair(
    judge: Classifier, request: GenerationRequest
) -> tuple[str, str] | UserError:
    """Return the two answers that a request compares, or the error if the judge cannot read them."""
    try:
        for text in request.texts.values():
            check_user_text(judge.tokenizer, text, request.question.item_id)
    except ItemError as error:
        return error
    return request.texts["text"], request.texts["other"]


def _build_query(request: GenerationRequest, prompted: PromptedDecoder) -> DecoderQuery:
    """Render a request to a query, which has an error if this fails."""
    question = request.question
    text, fault = "", None
    try:
        text = render_prompt(
            request.kind, question, prompted.template, request.texts
        ).text
    except UserError as error:
        fault = str(error)
    labels: tuple[str, ...] = ()
    if request.kind in ANSWER_KINDS:
        labels = tuple(
            render_label(question, prompted.template.prompt_file, label)
            for label in question.labels
        )
    image = question.image if request.kind in IMAGE_KINDS else None
    # Equal queries are computed once. A query whose reply is not sampled has seed 0, so that it
    # equals other ones.
    is_sampled = prompted.select_sampling(request.kind) is not None and not labels
    return DecoderQuery(image, text, labels, request.seed if is_sampled else 0, fault)


def _choose_label(
    request: GenerationRequest, output: DecoderOutput, fidelity: Fidelity
) -> str | UserError:
    if output.scores is None:
        return UserError(str(output.error))
    labels = request.question.labels
    label = choose_best_label(labels, output.scores, fidelity)
    if label == TIE:
        return UserError(f"none of the labels {', '.join(labels)} is the likeliest")
    return label
