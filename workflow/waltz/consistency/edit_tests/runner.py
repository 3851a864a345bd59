"""Generation of the replies of a decoder and its helper to the self-consistency tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from waltz.consistency.edit_tests.steps import (
    ANSWER_KINDS,
    HELPER_KINDS,
    GenerationRequest,
    Generations,
    entail_each_other,
)
from waltz.core.errors import UserError
from waltz.evaluation.decoder_rows import TIE, choose_best_label
from waltz.evaluation.decoder_tasks import build_template, choose_sampling
from waltz.evaluation.prompting.decoder_outputs import (
    DecoderOutput,
    DecoderQuery,
    DecoderSession,
    decode_generation,
    generate_tokens,
    get_label_token_finder,
    score_continuations,
)
from waltz.evaluation.prompting.prompt_files import IMAGE_KINDS
from waltz.evaluation.prompting.prompts import PromptTemplate, render_label, render_prompt
from waltz.fidelity import get_fidelity
from waltz.filters.nli import infer_relations
from waltz.models.decoders.continuations import FIRST_STEP
from waltz.models.decoders.decoder import Decoder, Sampling
from waltz.models.text.classifier import Classifier


@dataclass(frozen=True)
class PromptedDecoder:
    """A decoder with its prompts.

    Attributes:
        session: The decoder, its images, and the file of finished blocks.
        sampling: How it samples; None takes the most probable token.
    """

    session: DecoderSession
    template: PromptTemplate
    sampling: Sampling | None


@dataclass(frozen=True)
class DecoderRunner:
    """A decoder, its helper, and the judge of the meaning of answers: a `Runner`.

    Attributes:
        helper: The decoder that adds mistakes, paraphrases, and compares meanings where there is no judge.
    """

    decoder: PromptedDecoder
    helper: PromptedDecoder
    judge: Classifier | None = None
    judged: Path | None = None

    def generate(self, requests: Sequence[GenerationRequest]) -> list[str | UserError]:
        """Return the most probable label for questions with labels, generated text for other requests."""
        places: dict[tuple[str, int], list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(self._way(request), []).append(place)
        reply_of: dict[int, str | UserError] = {}
        for (way, most), at in places.items():
            batch = [requests[place] for place in at]
            if way == "meaning":
                replies: Generations = self._meanings(batch)
            elif way == "label":
                replies = self._labels(batch)
            else:
                replies = self._texts(batch, way, most)
            reply_of |= dict(zip(at, replies, strict=True))
        return [reply_of[place] for place in range(len(requests))]

    def _way(self, request: GenerationRequest) -> tuple[str, int]:
        """Return how a request is answered, and its maximum number of tokens; equal requests form a batch."""
        if self.judge is not None and request.kind == "same-meaning":
            return "meaning", 0
        if request.kind in ANSWER_KINDS and request.question.labels:
            return "label", 0
        return "helper" if request.kind in HELPER_KINDS else "decoder", request.most

    def _meanings(self, requests: Sequence[GenerationRequest]) -> Sequence[str]:
        assert self.judge is not None
        pairs = [(request.given["text"], request.given["other"]) for request in requests]
        inferences = infer_relations([*pairs, *((other, text) for text, other in pairs)], self.judge, self.judged)
        return [
            "yes" if entail_each_other(inferences[first, second], inferences[second, first]) else "no"
            for first, second in pairs
        ]

    def _labels(self, requests: Sequence[GenerationRequest]) -> list[str | UserError]:
        profile = self.decoder.template.prompt_file.profile
        queries = [_build_query(request, self.decoder) for request in requests]
        follow = get_label_token_finder(profile)
        rendered = [query for query in queries if isinstance(query, DecoderQuery)]
        outputs = score_continuations(self.decoder.session, rendered, follow, FIRST_STEP)
        return [
            query if isinstance(query, UserError) else _choose_label(request, outputs[query], profile)
            for request, query in zip(requests, queries, strict=True)
        ]

    def _texts(self, requests: Sequence[GenerationRequest], way: str, most: int) -> list[str | UserError]:
        prompted = self.helper if way == "helper" else self.decoder
        decoder = prompted.session.decoder
        queries = [_build_query(request, prompted) for request in requests]
        rendered = [query for query in queries if isinstance(query, DecoderQuery)]
        outputs = generate_tokens(prompted.session, rendered, most, prompted.sampling)

        def text(output: DecoderOutput) -> str | UserError:
            if output.token_ids is None:
                return UserError(str(output.error))
            # the released code cuts what the decoder says, not what the helper does
            return (
                decoder.decode_text(output.token_ids)
                if way == "helper"
                else decode_generation(decoder, output.token_ids, most, prompted.template)
            )

        return [query if isinstance(query, UserError) else text(outputs[query]) for query in queries]


def build_runner(
    session: DecoderSession, helper: Decoder, profile: str, judge: Classifier | None = None, judged: Path | None = None
) -> DecoderRunner:
    """Build the runner of a decoder and its helper in a profile.

    In `published` the helper is prompted with the markers that the decoder's own family has for it.

    Args:
        session: The decoder that is tested, its images, and the file of finished blocks, the helper's too.
        judge: A classifier of entailment that compares meanings instead of the helper.
    Raises:
        UserError: The profile has no prompts for the decoder.
    """
    decoder = session.decoder
    template = build_template(decoder, profile)
    shares_template = helper is decoder or get_fidelity(profile).prompts == "families"
    helper_template = template if shares_template else build_template(helper, profile)
    return DecoderRunner(
        PromptedDecoder(session, template, choose_sampling(decoder, profile)),
        PromptedDecoder(
            DecoderSession(helper, session.load_image, session.cache_file, session.report_progress),
            helper_template,
            choose_sampling(helper, profile),
        ),
        judge,
        judged,
    )


def _build_query(request: GenerationRequest, prompted: PromptedDecoder) -> DecoderQuery | UserError:
    """Render a request, or return the error why it cannot be rendered."""
    question, follows = request.question, tuple[str, ...]()
    try:
        text = render_prompt(request.kind, question, prompted.template, request.given).text
    except UserError as error:
        return error
    if request.kind in ANSWER_KINDS:
        follows = tuple(render_label(question, prompted.template.prompt_file, label) for label in question.labels)
    seed = request.seed if prompted.sampling and not follows else 0
    return DecoderQuery(question.image if request.kind in IMAGE_KINDS else None, text, follows, seed)


def _choose_label(request: GenerationRequest, output: DecoderOutput, profile: str) -> str | UserError:
    if output.scores is None:
        return UserError(str(output.error))
    names = request.question.labels
    label = choose_best_label(names, output.scores, profile)
    return UserError(f"none of the labels {', '.join(names)} is the likeliest") if label == TIE else label
