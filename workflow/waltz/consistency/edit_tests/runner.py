"""A decoder and its helper, asked by the self-consistency tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from waltz.consistency.edit_tests.answer_changes import entail_each_other
from waltz.consistency.edit_tests.generation_requests import ANSWER_KINDS, HELPER_KINDS, GenerationRequest, Generations
from waltz.core.errors import UserError
from waltz.evaluation.decoder_tasks import build_template, choose_sampling
from waltz.evaluation.label_choice import TIE, choose_best_label
from waltz.evaluation.prompting.generation_cache import (
    DecoderOutput,
    DecoderQuery,
    DecoderSession,
    decode_generation,
    score_continuations,
)
from waltz.evaluation.prompting.generation_cache import generate_tokens as ids_said
from waltz.evaluation.prompting.label_tokens import find_label_tokens, find_published_label_tokens
from waltz.evaluation.prompting.prompt_files import IMAGE_KINDS
from waltz.evaluation.prompting.prompts import PromptTemplate, render_label, render_prompt
from waltz.filters.nli import infer_relations
from waltz.models.decoders.decoder import Decoder, Sampling
from waltz.models.decoders.outcomes import FIRST_STEP
from waltz.models.text.classifier import Classifier


@dataclass(frozen=True)
class PromptedDecoder:
    """A decoder that is asked.

    Attributes:
        session: The decoder, its images, and where finished blocks lie.
        template: How it is spoken to.
        sampling: How it draws what it says; None takes the likeliest.
    """

    session: DecoderSession
    template: PromptTemplate
    sampling: Sampling | None


@dataclass(frozen=True)
class DecoderRunner:
    """A decoder, its helper, and who tells whether answers mean the same: a `Respondent`.

    Attributes:
        decoder: Who is tested.
        helper: Who adds mistakes and paraphrases, and compares meanings where nobody else does.
        judge: A classifier of entailment that compares meanings.
        judged: Folder of its finished batches.
    """

    decoder: PromptedDecoder
    helper: PromptedDecoder
    judge: Classifier | None = None
    judged: Path | None = None

    def generate(self, requests: Sequence[GenerationRequest]) -> list[str | UserError]:
        """Labels by the logits where an answer begins, all else as it is said; see `asking.Respondent`."""
        places: dict[tuple[str, int], list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(self._way(request), []).append(place)
        found: dict[int, str | UserError] = {}
        for (way, most), at in places.items():
            asked = [requests[place] for place in at]
            if way == "meaning":
                replies: Generations = self._meanings(asked)
            elif way == "label":
                replies = self._labels(asked)
            else:
                replies = self._texts(asked, way, most)
            found |= dict(zip(at, replies, strict=True))
        return [found[place] for place in range(len(requests))]

    def _way(self, request: GenerationRequest) -> tuple[str, int]:
        """How a request is answered: what is answered alike, and with as many tokens at most, is asked together."""
        if self.judge is not None and request.kind == "same-meaning":
            return "meaning", 0
        if request.kind in ANSWER_KINDS and request.question.labels:
            return "label", 0
        return "helper" if request.kind in HELPER_KINDS else "decoder", request.most

    def _meanings(self, requests: Sequence[GenerationRequest]) -> Sequence[str]:
        assert self.judge is not None
        pairs = [(request.given["text"], request.given["other"]) for request in requests]
        found = infer_relations([*pairs, *((other, text) for text, other in pairs)], self.judge, self.judged)
        return ["yes" if entail_each_other(found[one, two], found[two, one]) else "no" for one, two in pairs]

    def _labels(self, requests: Sequence[GenerationRequest]) -> list[str | UserError]:
        profile = self.decoder.template.prompt_file.profile
        queries = [_build_query(request, self.decoder) for request in requests]
        follow = find_label_tokens if profile == "equations" else find_published_label_tokens
        known = [query for query in queries if isinstance(query, DecoderQuery)]
        found = score_continuations(self.decoder.session, known, follow, FIRST_STEP)
        return [
            query if isinstance(query, UserError) else _choose_label(request, found[query], profile)
            for request, query in zip(requests, queries, strict=True)
        ]

    def _texts(self, requests: Sequence[GenerationRequest], way: str, most: int) -> list[str | UserError]:
        speaking = self.helper if way == "helper" else self.decoder
        decoder = speaking.session.decoder
        queries = [_build_query(request, speaking) for request in requests]
        known = [query for query in queries if isinstance(query, DecoderQuery)]
        found = ids_said(speaking.session, known, most, speaking.sampling)

        def text(output: DecoderOutput) -> str | UserError:
            if output.token_ids is None:
                return UserError(str(output.error))
            # the released code cuts what the decoder says, not what the helper does
            return (
                decoder.decode_text(output.token_ids)
                if way == "helper"
                else decode_generation(decoder, output.token_ids, most, speaking.template)
            )

        return [query if isinstance(query, UserError) else text(found[query]) for query in queries]


def build_runner(
    session: DecoderSession, helper: Decoder, profile: str, judge: Classifier | None = None, judged: Path | None = None
) -> DecoderRunner:
    """A decoder and its helper as a profile asks them.

    In `published` the helper is asked with the markers that the decoder's own family has for it.

    Args:
        session: The decoder that is tested, its images, and where finished blocks lie, the helper's too.
        helper: The helper; may be the same decoder.
        profile: `equations` or `published`.
        judge: A classifier of entailment, where meanings are not the helper's to compare.
        judged: Folder of its finished batches.
    Raises:
        UserError: As of `posed.voice_of`.
    """
    decoder = session.decoder
    template = build_template(decoder, profile)
    beside = template if profile == "published" or helper is decoder else build_template(helper, profile)
    return DecoderRunner(
        PromptedDecoder(session, template, choose_sampling(decoder, profile)),
        PromptedDecoder(
            DecoderSession(helper, session.load_image, session.cache_folder, session.report_progress),
            beside,
            choose_sampling(helper, profile),
        ),
        judge,
        judged,
    )


def _build_query(request: GenerationRequest, speaking: PromptedDecoder) -> DecoderQuery | UserError:
    """A request in words, or why it cannot be put."""
    question, follows = request.question, tuple[str, ...]()
    try:
        text = render_prompt(request.kind, question, speaking.template, request.given).text
    except UserError as error:
        return error
    if request.kind in ANSWER_KINDS:
        follows = tuple(render_label(question, speaking.template.prompt_file, label) for label in question.labels)
    seed = request.seed if speaking.sampling and not follows else 0
    return DecoderQuery(question.image if request.kind in IMAGE_KINDS else None, text, follows, seed)


def _choose_label(request: GenerationRequest, output: DecoderOutput, profile: str) -> str | UserError:
    if output.scores is None:
        return UserError(str(output.error))
    names = request.question.labels
    label = choose_best_label(names, output.scores, profile)
    return UserError(f"none of the labels {', '.join(names)} is the likeliest") if label == TIE else label
