"""`waltz.Explainer`: MM-SHAP and CC-SHAP of any model, loaded once, for scripts and notebooks."""

import logging
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, Unpack, cast, overload

import numpy as np
import torch
from tqdm import tqdm

from waltz.attribution.custom_players import TOKEN, TextPlayers
from waltz.attribution.prompt_attribution import (
    PromptSettings,
    count_prompt_evaluations,
)
from waltz.attribution.published import count_published_evaluations
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.shapley.estimators import COALITION_ESTIMATORS, ESTIMATORS
from waltz.attribution.shapley.regression import MAX_COALITIONS
from waltz.core.ambient_state import use_usual_settings
from waltz.core.errors import ArgumentError, UserError, build_name_error
from waltz.core.jobs.records import LINE_SECONDS, ProgressLines
from waltz.explainer.answers import explain_answer
from waltz.explainer.arguments import ImageInput, check_regions, read_image_argument
from waltz.explainer.cc_shap_summary import add_excesses
from waltz.explainer.explanation import Explanation
from waltz.explainer.loading import describe_model, load_model
from waltz.explainer.players import PlayerChoice
from waltz.explainer.queries import Query
from waltz.explainer.request import NEW_TOKENS, ExplainOptions, Request
from waltz.explainer.scores import (
    explain_encoder_answer,
    explain_texts,
    pair_with_foil,
)
from waltz.explainer.text_states import TextStatesCache
from waltz.explainer.values import shorten_model_name
from waltz.fidelity import PROFILES, Fidelity, Profile
from waltz.model_registry import FUNCTION_KIND, answers_questions
from waltz.models.decoders.continuations import OUTCOMES
from waltz.models.decoders.decoder import Decoder
from waltz.models.encoders.encoder import Encoder
from waltz.models.encoders.vqa import AnsweringEncoder
from waltz.models.pretrained import LoadedSpec
from waltz.models.resolve_name import check_evaluation_mode

log = logging.getLogger(__name__)
PROGRESS_DELAY = 2.0
"""Seconds of work before a progress bar is shown."""

T = TypeVar("T")
Several = list[T] | tuple[T, ...]


@contextmanager
def _name_arguments() -> Iterator[None]:
    """Run a block with torch's usual settings, and turn its errors into ValueErrors that name
    arguments.
    """
    try:
        with use_usual_settings():
            yield
    except UserError as error:
        message = str(error)
        # Errors of the library name keys of a study, such as attribution.evaluations or
        # models.NAME. A user of `Explainer` knows arguments instead, such as budget.
        section, _, rest = message.partition(".")
        if section in ("attribution", "models"):
            message = rest
        key, _, fault = message.partition(": ")
        if key == "evaluations":
            message = f"budget: {fault}"
        # A model without an entry is named by its weights, which the fault may name again.
        if section == "models" and key in fault:
            message = fault
        raise ArgumentError(message) from error


class Explainer:
    """Explain the scores or answers of a model that is loaded once.

    Attributes:
        spec: Entry of the model in the registry, or a description of a model that has no entry.
        model: The adapter of the model: an encoder, or a decoder.
        fidelity: Rules that hold: the rules of the thesis, or of the released code.
    """

    @_name_arguments()
    def __init__(
        self,
        model: Any,
        processor: Any = None,
        *,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        profile: str = "equations",
        estimator: str = "auto",
        seed: int = 0,
        progress: bool | None = None,
    ) -> None:
        """Load a model.

        Args:
            model: A loaded transformers model; or a function of a list of images and a list of
                texts that returns their scores, or a `FunctionModel`; or the name of a registered
                model (`waltz models`), or `module:function`; or a folder in transformers format, a
                GGUF file, or a hub id, `owner/name` or `owner/name@revision`; or an entry of the
                registry (`ModelSpec`); or the URL of a server with the OpenAI API, `URL#MODEL` if
                the server has several models.
            processor: The processor of a loaded model; for a language model, its tokenizer. For a
                server, the folder, GGUF file or hub id of the tokenizer, unless the name of the
                model at the server is such an id.
            device: A torch device; None takes the first GPU, else the CPU. A loaded model stays
                where it is.
            dtype: `float32`, `float16` or `bfloat16`; None takes the dtype of the registry, else
                float32. A loaded model keeps its dtype.
            profile: `equations`, the definitions of the thesis; or `published`, the rules of the
                released code (`waltz.fidelity.RELEASED_CODE`).
            estimator: Estimator of the Shapley values; `auto` takes exact values if the budget
                allows them.
            seed: Seed of everything that is drawn, the same for each text.
            progress: Whether long work shows a bar; None shows it on terminals and in notebooks,
                and elsewhere one line a minute on stderr.
        Raises:
            TypeError: A loaded model or its processor has another type.
            ValueError: There is no such model, or it cannot be loaded; a name is unknown; a loaded
                model is in training mode, does not fit its processor, or `device` or `dtype` is
                given for it.
        """
        self.fidelity: Fidelity = _check_settings(profile, estimator, seed)
        self.estimator, self.seed = estimator, seed
        self._shows_progress = progress
        self.spec = describe_model(model, processor, dtype)
        if self.spec.kind == FUNCTION_KIND and profile != "equations":
            raise ValueError(
                f"profile: {profile} is about released models, not functions; take equations"
            )
        self.model: Encoder | Decoder = load_model(self.spec, device)

    @property
    def profile(self) -> Profile:
        """Return the name of the profile: `equations` or `published`."""
        return self.fidelity.name

    def __repr__(self) -> str:
        """Return the name, kind, device and profile of the model on one line."""
        return f"Explainer({self.spec.name!r}, {self.spec.kind}, {self.model.device}, {self.profile})"

    @overload
    def explain(
        self,
        image: ImageInput | None = None,
        text: str | None = None,
        **options: Unpack[ExplainOptions],
    ) -> Explanation: ...

    @overload
    def explain(
        self,
        image: ImageInput | Several[ImageInput],
        text: Several[str],
        **options: Unpack[ExplainOptions],
    ) -> list[Explanation]: ...

    @overload
    def explain(
        self,
        image: Several[ImageInput],
        text: str | None = None,
        **options: Unpack[ExplainOptions],
    ) -> list[Explanation]: ...

    @_name_arguments()
    def explain(self, image: Any = None, text: Any = None, **options: Any) -> Any:
        """Explain the score of an image with a text, or the answer to a question.

        Args:
            image: An image: a path, a PIL image, an array or a tensor; or a list of images, each of
                which is explained with each text.
            text: For an encoder, a text about the image, or a list of texts. For a decoder, a text
                about the image that it judges. An encoder shares masked inputs between texts and
                images; a decoder reads each pair alone.
            **options: Any of these keywords:

                foil: A second text, which is explained next to the first; a decoder chooses between
                both.

                question: For a decoder, the question that it answers; for an encoder that answers
                questions, the question about the image. The probability of the answer that it
                chooses is explained.

                labels: The answers to this question from which the model chooses, a list of texts;
                by default, an encoder chooses from all answers of its list.

                messages: For a decoder, a conversation in the form of chat templates; the reply is
                explained.

                explanation: For a decoder, `post-hoc` or `cot`: the decoder also explains its
                answer, this explanation is attributed too, and CC-SHAP compares both. Of several
                images or texts, each has the excess of its CC-SHAP over the explanations of the
                others.

                players: Text players: `token` (the default), `word`, or spans (pieces of the text,
                or (start, end) characters), which keep this order; tokens outside the spans stay
                visible. A decoder's spans are counted from the question.

                grid: Image players: None (the default) for ceil(sqrt(tokens)) patches on a side,
                (rows, columns), or masks of regions, bool of shape (regions, height, width) of the
                image; pixels outside the regions stay visible.

                interactions: Whether interactions of text with image players are computed too
                (`equations`).

                budget: Maximum number of evaluations for each text or prompt. None takes as many as
                ten permutations need (four for a decoder); with `standard_error` and `equations`,
                it takes 4096.

                standard_error: Standard error of T-SHAP, a share, at which sampling stops; a
                warning reports if it is not reached.

                value: For a decoder, the explained value of a token: `probability` (the default),
                `log-probability`, `logit`, `log-odds`.

                family: For a decoder in `published`, the family of its prompts.

                prompts: For a decoder, a file of other prompts.

                max_new_tokens: For a decoder, maximum number of tokens of the explanation or reply;
                40 by default.
        Returns:
            An `Explanation`. For a list of images or texts, a list: all texts with the first image,
            then with the next.
        Raises:
            TypeError: An argument has another type, or does not fit the model.
            ValueError: A value is out of range, players do not fit the text or image, an image
                cannot be read, a text is too long, or the budget is too small.
        """
        request = Request(image, text, **options)
        if isinstance(self.model, Decoder):
            explanations = self._explain_answers(request)
        else:
            explanations = self._explain_scores(self.model, request)
        _warn_of_large_errors(explanations, request.standard_error)
        return explanations if request.is_list else explanations[0]

    @_name_arguments()
    def explain_query(
        self,
        query: Query,
        settings: PromptSettings,
        *,
        image: ImageInput | None = None,
        max_new_tokens: int = NEW_TOKENS,
        players: TextPlayers = TOKEN,
        grid: Any = None,
    ) -> Explanation:
        """Explain a decoder's answer with all settings of prompts; `explain` needs fewer arguments.

        Args:
            query: A question, ready prompts, or a conversation.
            settings: Settings of the attribution; their fidelity and seed are used instead of the
                `Explainer`'s.
            image: See `explain`.
            max_new_tokens: Maximum number of tokens of the explanation or reply.
            players: See `explain`.
            grid: See `explain`.
        Raises:
            TypeError: The model is an encoder.
            ValueError: Model, image, prompts or settings do not fit each other, or a loaded model
                is in training mode.
        """
        decoder = self.model
        if not isinstance(decoder, Decoder):
            raise TypeError(
                f"query: {self.spec.name} is an encoder, which answers no questions; give image and text"
            )
        if isinstance(self.spec, LoadedSpec):
            # Encoders work on a copy of the network. A decoder is the network of the user, who may
            # have trained it since it was loaded.
            check_evaluation_mode(self.spec.network)
        if image is not None and not decoder.reads_images:
            raise UserError(
                f"{self.spec.name}: a language model sees no images; leave the image out, or name a model that sees"
            )
        if image is None and grid is not None:
            raise TypeError(
                "grid: there is no image whose regions could be players; leave it out"
            )
        picture = regions = None
        if image is not None:
            picture = read_image_argument(image)
            regions = check_regions(grid, picture.size)
        choice = PlayerChoice(players, regions)
        with self._show_progress() as bar:

            def expect(players: int) -> None:
                bar.total = (bar.total or 0) + count_prompt_evaluations(
                    players, settings
                )

            return explain_answer(
                decoder,
                query,
                settings,
                picture,
                choice,
                max_new_tokens,
                bar.update,
                expect,
            )

    def _explain_answers(self, request: Request) -> list[Explanation]:
        """Return one explanation for each query about each image, by a decoder."""
        request.check_family(self.fidelity)
        queries = request.build_queries(self.spec.name)
        settings = self._build_prompt_settings(request)
        explanations = []
        for image in request.list_decoder_images():
            for query in queries:
                explanation = self.explain_query(
                    query,
                    settings,
                    image=image,
                    max_new_tokens=request.max_new_tokens,
                    players=request.players,
                    grid=request.grid,
                )
                explanations.append(explanation)
        if request.explanation is not None and len(explanations) > 1:
            return add_excesses(explanations)
        return explanations

    def _explain_scores(self, encoder: Encoder, request: Request) -> list[Explanation]:
        """Return one explanation for each text, or of the answer, with each image, by an encoder; a
        foil is part of its caption's.
        """
        if answers_questions(self.spec):
            texts = [request.read_encoder_question(self.spec.name)]
            if request.labels is not None:
                answering = cast(AnsweringEncoder, encoder)
                encoder = answering.limit_answers(request.labels)
        else:
            texts = request.list_encoder_texts(self.spec.name)
        settings = AttributionSettings(
            self.fidelity,
            self.estimator,
            self._choose_budget(request),
            self.seed,
            request.standard_error,
            interactions=request.interactions,
        )
        # Masked texts are the same for all images, masked images for all texts.
        if request.has_several_images:
            encoder = cast(Encoder, TextStatesCache(encoder))
        explanations: list[Explanation] = []
        for image in request.images:
            of_image = self._explain_image(encoder, image, texts, settings, request)
            if request.foil is not None:
                of_image = [pair_with_foil(of_image)]
            explanations += of_image
        return explanations

    def _explain_image(
        self,
        encoder: Encoder,
        image: ImageInput | None,
        texts: Sequence[str],
        settings: AttributionSettings,
        request: Request,
    ) -> list[Explanation]:
        """Return the explanation of an encoder's score of each text, or of its answer, with one image."""
        # `read_image_argument` refuses a None that stands in a list of images.
        picture = read_image_argument(cast(ImageInput, image))
        choice = PlayerChoice(
            request.players, check_regions(request.grid, picture.size)
        )
        with self._show_progress() as bar:

            def expect(players: int) -> None:
                evaluations = settings.evaluations or count_published_evaluations(
                    players
                )
                bar.total = (bar.total or 0) + evaluations

            if answers_questions(self.spec):
                answering = cast(AnsweringEncoder, encoder)
                return [
                    explain_encoder_answer(
                        answering,
                        picture,
                        texts[0],
                        settings,
                        choice,
                        bar.update,
                        expect,
                    )
                ]
            return explain_texts(
                encoder, picture, texts, settings, choice, bar.update, expect
            )

    def _choose_budget(self, request: Request) -> int | None:
        """Return the maximum number of evaluations of a text or prompt, or None for the default of
        its estimator.

        If sampling stops at a standard error, the default is as many evaluations as a regression
        can use.
        """
        stops_at_error = (
            request.standard_error is not None and not self.fidelity.estimators
        )
        if request.budget is None and stops_at_error:
            return MAX_COALITIONS
        return request.budget

    def _build_prompt_settings(self, request: Request) -> PromptSettings:
        """Check the request's options for decoders, and return the settings of the attribution of
        prompts.
        """
        estimators = ("auto", *COALITION_ESTIMATORS)
        if request.value not in OUTCOMES:
            raise build_name_error("value", "value", request.value, OUTCOMES)
        if self.estimator not in estimators:
            raise build_name_error(
                "estimator", "estimator of decoders", self.estimator, estimators
            )
        # The released code tries a list of budgets; the user's budget is then the only one.
        budget = self._choose_budget(request)
        if budget is not None and self.fidelity.estimators:
            return PromptSettings(
                self.fidelity,
                self.seed,
                budgets=(budget,),
                interactions=request.interactions,
            )
        return PromptSettings(
            self.fidelity,
            self.seed,
            estimator=self.estimator,
            evaluations=budget,
            standard_error=request.standard_error,
            value=request.value,
            interactions=request.interactions,
        )

    @contextmanager
    def _show_progress(self) -> Iterator["tqdm[Any]"]:
        """Yield a progress bar of evaluations, which is shown once the work takes long.

        Its total is the largest number of evaluations that there can be.
        """
        name = shorten_model_name(self.spec)
        # In a log file a bar would fill thousands of lines, so that one line a minute takes its
        # place.
        shows_bar = self._shows_progress
        has_display = sys.stderr.isatty() or "ipykernel" in sys.modules
        if shows_bar is None and not has_display:
            write = partial(print, file=sys.stderr, flush=True)
            with ProgressLines(
                write, unit="evaluations", desc=name, delay=LINE_SECONDS
            ) as lines:
                yield lines
            return
        with tqdm(
            unit=" evaluations",
            desc=name,
            disable=shows_bar is False,
            leave=False,
            delay=PROGRESS_DELAY,
        ) as bar:
            yield bar


def _check_settings(profile: str, estimator: str, seed: object) -> Fidelity:
    """Return the rules of a profile; refuse an unknown profile, and an estimator or seed that does
    not fit it.
    """
    if profile not in PROFILES:
        raise build_name_error("profile", "profile", profile, PROFILES)
    fidelity = PROFILES[profile]
    if estimator not in ESTIMATORS:
        raise build_name_error("estimator", "estimator", estimator, ESTIMATORS)
    if fidelity.estimators and estimator not in fidelity.estimators:
        raise UserError(
            f"estimator {estimator}: profile published draws permutations; take profile equations"
        )
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
        raise TypeError(f"seed: got {type(seed).__name__}, expected a whole number")
    if not 0 <= seed < 2**32:
        raise UserError(
            f"seed: out of range (got {seed}, expected 0 to {2**32 - 1}); choose another"
        )
    return fidelity


def _warn_of_large_errors(
    explanations: Sequence[Explanation], standard_error: float | None
) -> None:
    """Log a warning if a standard error of T-SHAP is unknown, or larger than the requested one."""
    if standard_error is None:
        return
    # An error is unknown where T-SHAP is not defined, or the budget too small for an error.
    unknown = [item for item in explanations if math.isnan(item.t_shap_se)]
    if unknown:
        log.warning(
            "standard_error: unknown for %d of %d explanations (%s)",
            len(unknown),
            len(explanations),
            unknown[0].reason,
        )
    known = [item.t_shap_se for item in explanations if item not in unknown]
    largest = max(known, default=0.0)
    if largest > standard_error:
        log.warning(
            "standard_error: not reached within the budget (got %.2g, expected at most %.2g); give a larger budget",
            largest,
            standard_error,
        )
