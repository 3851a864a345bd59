"""The command `waltz explain`: Shapley values of an encoder's score, or of a decoder's answer and
explanation.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.explanations import (
    FigureOption,
    GridOption,
    ImageOption,
    InteractionsOption,
    JsonOption,
    PlayersOption,
    TokenizerOption,
    announce_packages,
    check_interactions,
    check_players,
    check_profile,
    list_figure_files,
    read_grid,
    read_text_option,
    report_options,
    show_explanation,
)
from waltz.cli.output import check_outputs
from waltz.core.errors import UserError
from waltz.core.jobs.memory import check_address_space

if TYPE_CHECKING:
    from waltz.explainer.request import ExplainOptions, Request
    from waltz.model_registry import ModelSpec

app = typer.Typer(add_completion=False, rich_markup_mode=None)


# Typer declares options as parameters.
@app.command()
def explain_command(
    model: Annotated[
        str,
        typer.Option(
            help="Registered model, folder in transformers format, .gguf file, hub id[@revision], or url of a server."
        ),
    ],
    tokenizer: TokenizerOption = "",
    image: ImageOption = None,
    text: Annotated[
        str | None, typer.Option(help="A text of the image, or the caption of a pair.")
    ] = None,
    foil: Annotated[str | None, typer.Option(help="The other text of a pair.")] = None,
    question: Annotated[
        str | None, typer.Option(help="A question to a model that answers, or @FILE.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Its answers to choose from, such as A,B.")
    ] = None,
    explanation: Annotated[
        str | None,
        typer.Option(
            help="A decoder's explanation: post-hoc, or cot (chain of thought).",
            show_default="post-hoc",
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="Family of a decoder's published prompts, such as llama2-chat."
        ),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            help="File of other prompts for a decoder, as in waltz/resources/prompts."
        ),
    ] = None,
    max_new_tokens: Annotated[
        int, typer.Option(help="Most tokens of a decoder's explanation.")
    ] = 40,
    profile: Annotated[
        str, typer.Option(help="Fidelity profile: equations or published.")
    ] = "equations",
    estimator: Annotated[
        str, typer.Option(help="Estimator of the Shapley values; auto chooses.")
    ] = "auto",
    evaluations: Annotated[
        int | None, typer.Option(help="Most coalitions per text or prompt.", min=1)
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="Seed of what is drawn, the same for each text or prompt."),
    ] = 0,
    players: PlayersOption = "token",
    grid: GridOption = None,
    interactions: InteractionsOption = False,
    as_json: JsonOption = None,
    figure: FigureOption = None,
) -> None:
    """Explain how much each text token and image patch contributes to a model's score, or answer
    and explanation.

    An encoder takes --image and --text, or --question if it answers questions. A decoder takes
    --question, or --image and --text. Ready prompts, and the switches of the released code, are
    for: waltz explain-prompts.
    """
    check_address_space()
    # Output files are checked first: a wrong path must not end a computation of minutes.
    figure_files = list_figure_files(figure)
    check_outputs(json=as_json, figure=next(iter(figure_files), None))
    _check_inputs(model, image, text, question)
    check_profile(profile)
    check_interactions(interactions, profile)
    arguments: ExplainOptions = {
        "foil": foil,
        "explanation": explanation,
        "family": family,
        "prompts": prompts,
        "max_new_tokens": max_new_tokens,
        "interactions": interactions,
        "budget": evaluations,
    }
    if question is not None:
        arguments["question"] = read_text_option("question", question)
    if labels is not None:
        arguments["labels"] = [label.strip() for label in labels.split(",")]
    arguments["players"] = check_players(players)
    arguments["grid"] = read_grid(grid)
    from waltz.models.resolve_name import (  # torch and transformers take seconds to import
        resolve_decoder,
        resolve_encoder,
    )

    # A name that no decoder has belongs to an encoder, or is unknown.
    decoder = resolve_decoder(model, tokenizer)
    spec = decoder or resolve_encoder(model)
    announce_packages(spec)
    # A decoder explains its answer after it unless something else is asked; an encoder has no
    # explanation.
    if decoder is not None and explanation is None:
        arguments["explanation"] = "post-hoc"

    import torch

    from waltz.core.jobs.devices import lease_device
    from waltz.explainer.arguments import read_image_argument
    from waltz.explainer.explainer import Explainer
    from waltz.explainer.request import Request

    with report_options():
        # Image and arguments are checked before the model, whose loading takes longer.
        picture = None if image is None else read_image_argument(image)
        _check_request(Request(picture, text, **arguments), spec, profile)
    with (
        lease_device(spec.gpus, torch.get_num_threads()) as device,
        report_options(),
    ):
        explainer = Explainer(
            spec,
            device=device.name,
            profile=profile,
            estimator=estimator,
            seed=seed,
        )
        result = explainer.explain(picture, text, **arguments)
    show_explanation(result, as_json, figure_files)


def _check_inputs(
    model: str, image: Path | None, text: str | None, question: str | None
) -> None:
    """Refuse inputs that are wrong for reasons which can be seen without torch, whose import takes
    seconds.

    Raises:
        UserError: A text or image is missing, the image cannot be read, or the name of the model is
            wrong.
    """
    from waltz.model_registry import check_model_name
    from waltz.sources.images import load_image_file

    if text is None and question is None:
        raise UserError(
            "--text is missing: an encoder scores --image with --text, a decoder answers --question; for ready prompts"
            " see: waltz explain-prompts --help"
        )
    if text is not None and image is None:
        raise UserError(
            "--image is missing: --text describes an image; name one, or ask a language model a --question"
        )
    if image is not None:
        load_image_file(image)
    check_model_name(model)


def _check_request(request: Request, spec: ModelSpec, profile: str) -> None:
    """Refuse arguments that do not fit the kind of the model, or the profile.

    Raises:
        UserError: An argument does not fit.
    """
    from waltz.fidelity import get_fidelity

    if spec.kind == "text" and request.interactions:
        raise UserError(
            f"{spec.name}: a language model sees no patches to interact with; leave out --interactions"
        )
    request.check(spec, get_fidelity(profile))
