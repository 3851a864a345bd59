"""`waltz.Explainer`: MM-SHAP and CC-SHAP of any model, loaded once, for scripts and notebooks."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np
import torch
from PIL import Image
from tqdm import tqdm

from waltz.attribution.own_players import (
    TOKEN,
    ImagePlayers,
    TextPlayers,
    count_regions,
    group_text_players,
    number_encoder_pixels,
    replace_image_players,
)
from waltz.attribution.prompt_attribution import PROBABILITY, PromptSettings, count_prompt_evaluations
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.shapley.estimators import COALITION_ESTIMATORS, ESTIMATORS, count_published_evaluations
from waltz.attribution.shapley.regression import MAX_COALITIONS
from waltz.consistency.cc_shap.dialogue import EXPLANATION_KINDS
from waltz.core.devices import Device
from waltz.core.errors import ArgumentError, UserError, build_name_error, get_first_line
from waltz.core.files.downloads import is_url
from waltz.explainer.arguments import (
    ImageInput,
    check_regions,
    check_text,
    check_text_players,
    read_image,
    split_messages,
)
from waltz.explainer.decoder import (
    Conversation,
    DecoderExplanation,
    DecoderQuestion,
    OwnPlayers,
    ReadyPrompts,
    build_image_question,
    build_own_question,
    explain_output,
)
from waltz.explainer.encoder import Explanation, explain_texts, pair_with_foil
from waltz.explainer.text_states import TextStatesCache
from waltz.explainer.values import shorten_model_name
from waltz.fidelity import PROFILES, Profile, get_fidelity
from waltz.model_registry import DECODER_KINDS, DTYPE_BYTES, ModelSpec
from waltz.models.decoders import load_decoder
from waltz.models.decoders.continuations import OUTCOMES
from waltz.models.decoders.decoder import Decoder
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import Players
from waltz.models.encoders.encoder import Encoder
from waltz.models.pretrained import LoadedSpec
from waltz.models.regions import StoredRegions
from waltz.models.resolve_name import describe_loaded, resolve_decoder, resolve_encoder

log = logging.getLogger(__name__)
NEW_TOKENS = 40
"""Most tokens of an explanation or reply where the caller names no number."""
PROGRESS_DELAY = 2.0
"""Seconds before a progress bar is shown."""


Explained = Explanation | DecoderExplanation
"""What one image and text, or one question, gives."""
T = TypeVar("T")
Several = list[T] | tuple[T, ...]


@contextmanager
def _name_arguments() -> Iterator[None]:
    """Report mistakes as ValueErrors, by the names of the arguments and not by those of a study's keys."""
    try:
        yield
    except UserError as error:
        section, _, rest = str(error).partition(".")
        message = rest if section in ("attribution", "models") else str(error)
        key, _, fault = message.partition(": ")
        raise ArgumentError(f"budget: {fault}" if key == "evaluations" else message) from error


class ExplainOptions(TypedDict, total=False):
    """Keyword arguments of `Explainer.explain`."""

    foil: str | None
    question: str | None
    labels: Sequence[str] | None
    messages: Sequence[Mapping[str, Any]] | None
    explanation: str | None
    players: TextPlayers
    grid: Any
    interactions: bool
    budget: int | None
    standard_error: float | None
    value: str
    family: str | None
    prompts: str | Path | None
    max_new_tokens: int


class Explainer:
    """A model, loaded once, whose scores or answers are explained.

    Attributes:
        spec: Its entry in the registry, or what is known of it.
        model: The adapter of the model: an encoder, or a decoder.
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
            model: A transformers model that is loaded; or the name of one: a registered model (`waltz models`), a
                folder in transformers format, a GGUF file, or a hub id, `owner/name` or `owner/name@revision`; or an
                entry of the registry (`ModelSpec`); or the url of a server with the OpenAI API, `URL#MODEL` where it
                has several models.
            processor: The processor of a loaded model; for a language model, its tokenizer. For a server, the folder,
                GGUF file or hub id of the tokenizer, unless the model's name at the server is one.
            device: A torch device; None takes the first GPU, else the CPU. A loaded model stays where it is.
            dtype: `float32`, `float16` or `bfloat16`; None takes that of the registry, else float32. A loaded model
                keeps its own.
            profile: `equations`, the thesis's definitions; or `published`, the released code to the letter.
            estimator: Estimator of the Shapley values; `auto` takes exact values where the budget allows.
            seed: Seed of what is drawn, the same for each text.
            progress: Whether long work shows a bar; None shows it on terminals and in notebooks.
        Raises:
            TypeError: A loaded model or its processor is of another type.
            ValueError: There is no such model, or it cannot be loaded; a name is unknown; a loaded model is in training
                mode, does not fit its processor, or `device` or `dtype` is given for it.
        """
        if profile not in PROFILES:
            raise build_name_error("profile", "profile", profile, PROFILES)
        if estimator not in ESTIMATORS:
            raise build_name_error("estimator", "estimator", estimator, ESTIMATORS)
        allowed = get_fidelity(profile).estimators
        if allowed and estimator not in allowed:
            raise UserError(f"estimator {estimator}: profile published draws permutations; take profile equations")
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
            raise TypeError(f"seed: got {type(seed).__name__}, expected a whole number")
        if not 0 <= seed < 2**32:
            raise UserError(f"seed: out of range (got {seed}, expected 0 to {2**32 - 1}); choose another")
        self.profile: Profile = "published" if profile == "published" else "equations"
        self.estimator, self.seed = estimator, seed
        self._shows_progress = progress
        self.spec = _describe_model(model, processor, dtype)
        load = load_decoder if self.spec.kind in DECODER_KINDS else load_encoder
        self.model: Encoder | Decoder = load(self.spec, _choose_device(self.spec, device))
        if isinstance(self.spec, LoadedSpec) and not isinstance(self.model, Decoder):
            _check_processor(self.model, self.spec)

    def __repr__(self) -> str:
        """Return the model's name, kind, device and profile."""
        return f"Explainer({self.spec.name!r}, {self.spec.kind}, {self.model.device}, {self.profile})"

    @overload
    def explain(
        self, image: ImageInput | None = None, text: str | None = None, **options: Unpack[ExplainOptions]
    ) -> Explained: ...

    @overload
    def explain(
        self, image: ImageInput | Several[ImageInput], text: Several[str], **options: Unpack[ExplainOptions]
    ) -> list[Explained]: ...

    @overload
    def explain(
        self, image: Several[ImageInput], text: str | None = None, **options: Unpack[ExplainOptions]
    ) -> list[Explained]: ...

    @_name_arguments()
    def explain(
        self,
        image: Any = None,
        text: Any = None,
        *,
        foil: str | None = None,
        question: str | None = None,
        labels: Sequence[str] | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        explanation: str | None = None,
        players: TextPlayers = TOKEN,
        grid: Any = None,
        interactions: bool = False,
        budget: int | None = None,
        standard_error: float | None = None,
        value: str = PROBABILITY,
        family: str | None = None,
        prompts: str | Path | None = None,
        max_new_tokens: int = NEW_TOKENS,
    ) -> Any:
        """Explain the score of an image with a text, or a decoder's answer.

        Args:
            image: An image: a path, a PIL image, an array or a tensor; or a list of images, each with each text.
            text: For an encoder, a text of the image, or a list of texts. For a decoder, a text of the image that it
                judges. The texts and images of an encoder share masked inputs; a decoder reads each pair on its own.
            foil: A second text: explained next to the first; a decoder chooses between both.
            question: For a decoder, a question of the user's own.
            labels: Its answers to choose from.
            messages: For a decoder, a conversation as chat templates take it; the reply is explained.
            explanation: For a decoder, `post-hoc` or `cot`: its explanation of the answer is explained too, with
                CC-SHAP.
            players: Text players: `token`, `word`, or spans (pieces of the text, or (start, end) characters); tokens
                outside the spans stay visible. A decoder's spans are counted from the question.
            grid: Image players: None for ceil(sqrt(tokens)) patches a side, (rows, columns), or masks of regions, bool
                of shape (regions, height, width) of the image; pixels outside the regions stay visible.
            interactions: Whether interactions of text with image players are computed too (`equations`).
            budget: Most evaluations for each text or prompt; None for as many as ten permutations need (four of
                a decoder), or with `standard_error` 4096 in `equations`.
            standard_error: Standard error of T-SHAP, a share, at which sampling stops; a warning says if it is not
                reached.
            value: For a decoder, what is explained of a token: `probability`, `log-probability`, `logit`, `log-odds`.
            family: For a decoder in `published`, the family of its prompts.
            prompts: For a decoder, a file of other prompts.
            max_new_tokens: For a decoder, most tokens of the explanation or reply.
        Returns:
            An `Explanation` of an encoder or a `DecoderExplanation`; for a list, a list with all texts of the first
            image, then of the next.
        Raises:
            TypeError: An argument is of another type, or does not fit the model.
            ValueError: A value is out of range, players do not fit the text or image, an image cannot be read, a text
                is too long, or the budget is too small.
        """
        _check_numbers(budget, standard_error, max_new_tokens)
        if not isinstance(interactions, bool):
            raise TypeError(f"interactions: got {type(interactions).__name__}, expected True or False")
        if standard_error is not None and budget is None and self.profile == "equations":
            budget = MAX_COALITIONS
        text_players = check_text_players(players)
        if isinstance(self.model, Decoder):
            query, images = self._build_query(
                image, text, foil, question, labels, messages, explanation, family, prompts
            )
            settings = self._build_prompt_settings(budget, standard_error, value)
            explained = [
                self.explain_query(
                    own,
                    settings,
                    image=one,
                    most=max_new_tokens,
                    players=text_players,
                    grid=grid,
                    interactions=interactions,
                )
                for one in images
                for own in query
            ]
            _warn_of_large_errors(explained, standard_error)
            return explained if _is_list(image) or _is_list(text) else explained[0]
        decoder_only = {
            "question": question,
            "messages": messages,
            "explanation": explanation,
            "family": family,
            "prompts": prompts,
            "labels": labels,
        }
        if given := [name for name, argument in decoder_only.items() if argument is not None]:
            raise TypeError(
                f"{given[0]}: {self.spec.name} is an encoder, which answers no questions; give image and text"
            )
        if image is None or text is None:
            raise TypeError(f"{'image' if image is None else 'text'}: missing; an encoder scores a text with an image")
        texts = [check_text(one, "text") for one in (text if _is_list(text) else [text])]
        if foil is not None:
            if _is_list(text):
                raise TypeError("foil: belongs to one text (got a list of texts); put it into the list")
            texts.append(check_text(foil, "foil"))
        settings_of_texts = AttributionSettings(self.profile, self.estimator, budget, self.seed, standard_error)
        results: list[Explanation] = []
        encoder = cast(Encoder, TextStatesCache(self.model)) if _is_list(image) else self.model
        for one in image if _is_list(image) else [image]:
            own_results = self._explain_texts(encoder, one, texts, settings_of_texts, text_players, grid, interactions)
            results += own_results if foil is None else [pair_with_foil(own_results)]
        _warn_of_large_errors(results, standard_error)
        return results if _is_list(image) or _is_list(text) else results[0]

    @_name_arguments()
    def explain_query(
        self,
        query: DecoderQuestion | ReadyPrompts | Conversation,
        settings: PromptSettings,
        *,
        image: ImageInput | None = None,
        most: int = NEW_TOKENS,
        players: TextPlayers = TOKEN,
        grid: Any = None,
        interactions: bool = False,
    ) -> DecoderExplanation:
        """Explain a decoder's answer with all settings of prompts; `explain` builds them from fewer arguments.

        Args:
            query: A question, ready prompts, or a conversation.
            settings: Settings of the attribution, whose profile and seed count.
            image: See `explain`.
            most: Most tokens of the explanation or reply.
            players: See `explain`.
            grid: See `explain`.
            interactions: See `explain`.
        Raises:
            TypeError: The model is an encoder.
            ValueError: Model, image, prompts or settings do not fit each other.
        """
        if not isinstance(self.model, Decoder):
            raise TypeError(f"query: {self.spec.name} is an encoder, which answers no questions; give image and text")
        if image is not None and not self.model.reads_images:
            raise UserError(
                f"{self.spec.name}: a language model sees no images; leave the image out, or name a model that sees"
            )
        picture = None if image is None else read_image(image)
        regions = None if picture is None else check_regions(grid, picture.size)
        if picture is None and grid is not None:
            raise TypeError("grid: there is no image whose regions could be players; leave it out")
        own_players = None if players == TOKEN and regions is None else OwnPlayers(players, regions)
        with self._show_progress() as bar:

            def expect(count: int) -> None:
                bar.total = (bar.total or 0) + count_prompt_evaluations(count, settings)

            return explain_output(
                self.model,
                query,
                settings,
                image=picture,
                most=most,
                own_players=own_players,
                interactions=interactions,
                progress=bar.update,
                expect=expect,
            )

    def _explain_texts(
        self,
        encoder: Encoder,
        image: ImageInput,
        texts: Sequence[str],
        settings: AttributionSettings,
        players: TextPlayers,
        grid: Any,
        interactions: bool,
    ) -> list[Explanation]:
        picture = read_image(image)
        regions = check_regions(grid, picture.size)
        regroup = _build_regroup(encoder, picture, players, regions)
        expected: dict[str, int] = {}
        with self._show_progress() as bar:

            def regroup_and_count(game: Players, text: str) -> Players:
                game = regroup(game, text)
                expected[text] = settings.evaluations or count_published_evaluations(len(game))
                bar.total = sum(expected.values())
                return game

            return explain_texts(
                encoder,
                picture,
                texts,
                settings,
                regroup=regroup_and_count,
                interactions=interactions,
                progress=bar.update,
            )

    def _build_query(
        self,
        image: Any,
        text: Any,
        foil: str | None,
        question: str | None,
        labels: Sequence[str] | None,
        messages: Sequence[Mapping[str, Any]] | None,
        kind: str | None,
        family: str | None,
        prompts: str | Path | None,
    ) -> tuple[list[DecoderQuestion | Conversation], Iterable[ImageInput | None]]:
        """Return what a decoder is asked, and the images that it is asked about."""
        given = [
            name for name, one in (("text", text), ("question", question), ("messages", messages)) if one is not None
        ]
        if len(given) != 1:
            raise TypeError(
                f"question: {self.spec.name} is a decoder, which needs one of text, question and messages"
                f" (got {' and '.join(given) or 'none'})"
            )
        if kind is not None and kind not in EXPLANATION_KINDS:
            raise build_name_error("explanation", "kind of explanation", kind, EXPLANATION_KINDS)
        if labels is not None and (
            not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels)
        ):
            raise TypeError(f"labels: got {labels!r}, expected a list of texts, such as ['A', 'B']")
        if labels is not None and not labels:
            raise ValueError("labels: no labels (got an empty list, expected at least two); leave them out")
        if foil is not None and given != ["text"]:
            raise TypeError("foil: belongs to a text; leave it out")
        if labels and given != ["question"]:
            raise TypeError("labels: belong to a question; leave them out")
        images = list(image) if _is_list(image) else [image]
        if messages is not None:
            if kind is not None:
                raise TypeError("explanation: messages have one reply, which is explained; ask a question for both")
            bare, shown = split_messages(messages)
            return [Conversation(bare)], [shown] if image is None else images
        path = None if prompts is None else Path(prompts)
        if question is not None:
            own = [build_own_question(check_text(question, "question"), labels or ())]
        else:
            if foil is not None:
                check_text(foil, "foil")
            own = [build_image_question(check_text(one, "text"), foil) for one in (text if _is_list(text) else [text])]
            if image is None:
                raise TypeError("image: missing; a text is judged with an image; ask a question without one")
        return [DecoderQuestion(one, kind, family, path) for one in own], images

    def _build_prompt_settings(self, budget: int | None, standard_error: float | None, value: str) -> PromptSettings:
        if value not in OUTCOMES:
            raise build_name_error("value", "value", value, OUTCOMES)
        if self.estimator not in ("auto", *COALITION_ESTIMATORS):
            raise build_name_error(
                "estimator", "estimator of decoders", self.estimator, ("auto", *COALITION_ESTIMATORS)
            )
        if budget is not None and self.profile == "published":
            return PromptSettings(self.profile, self.seed, budgets=(budget,))
        return PromptSettings(
            self.profile,
            self.seed,
            estimator=self.estimator,
            evaluations=budget,
            standard_error=standard_error,
            value=value,
        )

    @contextmanager
    def _show_progress(self) -> Iterator["tqdm[Any]"]:
        """Yield a bar of evaluations, out of the most that there can be, which is shown once the work takes long."""
        shown = self._shows_progress
        if shown is None:
            shown = sys.stderr.isatty() or "ipykernel" in sys.modules
        with tqdm(
            unit=" evaluations",
            desc=shorten_model_name(self.spec),
            disable=not shown,
            leave=False,
            delay=PROGRESS_DELAY,
        ) as bar:
            yield bar


def _describe_model(model: Any, processor: Any, dtype: str | torch.dtype | None) -> ModelSpec:
    """Return the entry of a model by name, or of one that is loaded."""
    if isinstance(model, ModelSpec):
        return model
    if not isinstance(model, str | Path):
        spec = describe_loaded(model, processor)
        if dtype is not None:
            raise ValueError(f"dtype: a loaded model keeps its own (got {dtype}); convert it first, model.to(dtype)")
        return spec
    if is_url(str(model)):
        if dtype is not None or not isinstance(processor, str | Path | None):
            raise TypeError(
                "model: a server has its own dtype, and its processor is the name of a tokenizer; leave out both"
            )
        served = resolve_decoder(str(model), str(processor or ""))
        assert served is not None
        return served
    if processor is not None:
        raise TypeError("processor: belongs to a loaded model; a name loads its own, leave it out")
    named = resolve_decoder(str(model)) or resolve_encoder(str(model))
    if dtype is None:
        return named
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise ValueError(f"dtype: got {dtype}, expected {', '.join(DTYPE_BYTES)}")
    return replace(named, dtype=name)


def _choose_device(spec: ModelSpec, device: str | torch.device | None) -> Device:
    """Return the device that the user names, that of a loaded model, the first GPU, or the CPU."""
    threads = torch.get_num_threads()
    if isinstance(spec, LoadedSpec):
        if device is not None and torch.device(device) != spec.network.device:
            raise ValueError(
                f"device: a loaded model stays where it is (got {device}, expected {spec.network.device}); move it"
                " first, model.to(device)"
            )
        return Device(str(spec.network.device), threads, "where the model is")
    if device is None:
        device = "cuda:0" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device: got {device!r}, expected such as 'cpu' or 'cuda:0'") from error
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device: torch sees {torch.cuda.device_count()} GPUs (got {device!r}); take another, or 'cpu'"
        )
    return Device(str(chosen), threads, "named by the user, or the first")


@torch.inference_mode()
def _check_processor(encoder: Encoder, spec: LoadedSpec) -> None:
    """Refuse a processor whose image or text the loaded encoder does not take."""
    try:
        encoder.encode_image(encoder.prepare_image(Image.new("RGB", (32, 32), "gray"))[None])
        encoder.encode_text(torch.tensor([encoder.tokenize("a").ids], device=encoder.device))
    except (UserError, torch.OutOfMemoryError):  # an encoder of stored regions reads no image
        return
    except Exception as error:
        name = type(spec.network).__name__
        raise ValueError(
            f"processor: {type(spec.processor).__name__} does not fit this {name} ({get_first_line(error)}); give the"
            " one that was saved with the model"
        ) from error


def _build_regroup(
    encoder: Encoder, image: Any, players: TextPlayers, regions: ImagePlayers | None
) -> Callable[[Players, str], Players]:
    """Return the function from the players of a profile to the user's own."""
    if regions is not None and isinstance(getattr(encoder, "provider", None), StoredRegions):
        raise UserError(f"{encoder.spec.name}: grid: its stored regions are the players; leave it out")
    cells = None if regions is None else number_encoder_pixels(encoder, image, regions)

    def regroup(game: Players, text: str) -> Players:
        game = group_text_players(game, text, game.text_input.spans, players)
        return game if cells is None or regions is None else replace_image_players(game, cells, count_regions(regions))

    return regroup


def _is_list(argument: Any) -> bool:
    """Return whether an argument is several images or texts."""
    return isinstance(argument, list | tuple)


def _warn_of_large_errors(explained: Sequence[Explained], standard_error: float | None) -> None:
    """Warn of standard errors of T-SHAP above the one that was asked for."""
    errors = [one.t_shap_se for one in explained]
    if standard_error is not None and not all(error <= standard_error for error in errors):
        log.warning(
            "standard_error: not reached within the budget (got %.2g, expected at most %.2g); give a larger budget",
            max(errors),
            standard_error,
        )


def _check_numbers(budget: Any, standard_error: Any, max_new_tokens: Any) -> None:
    for name, number in (("budget", budget), ("max_new_tokens", max_new_tokens)):
        if number is not None and (not isinstance(number, int | np.integer) or isinstance(number, bool)):
            raise TypeError(f"{name}: got {type(number).__name__}, expected a whole number")
        if number is not None and number < 1:
            raise ValueError(f"{name}: got {number}, expected at least 1")
    if standard_error is not None and not isinstance(standard_error, float | int | np.floating):
        raise TypeError(f"standard_error: got {type(standard_error).__name__}, expected a share, such as 0.01")
    if standard_error is not None and not 0 < standard_error < 1:
        raise ValueError(f"standard_error: got {standard_error}, expected a share between 0 and 1, such as 0.01")
