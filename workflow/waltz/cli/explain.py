"""The command `waltz explain`: Shapley values of an encoder's score, or of a decoder's answer and explanation."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from waltz.cli.explain_decoder import NEW_TOKENS, check_allowed, check_needed, explain_by_options
from waltz.cli.output import report_errors
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text

if TYPE_CHECKING:
    from waltz.explainer.decoder_explanation import DecoderExplanation
    from waltz.explainer.encoder_explanation import Explanation

app = typer.Typer(add_completion=False)
FIGURE_FORMATS = (".svg", ".png")
COMMON_OPTIONS = ("model", "profile", "seed", "as_json", "figure")
"""Options of every model."""
ENCODER_OPTIONS = frozenset({"image", "text", "foil", "estimator", "evaluations"})
"""Options of an encoder besides those of every model."""
ENCODERS, DECODERS, READY_PROMPTS = (
    "Encoders, and decoders that see",
    "Decoders",
    "Decoders, ready prompts",
)


@app.command()
def explain_command(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="Registered model, folder in transformers format, or hub id[@revision].")],
    image: Annotated[Path | None, typer.Option(help="Image file.")] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Fidelity profile: published or equations.",
            show_default="published; equations for a question without --family",
        ),
    ] = None,
    estimator: Annotated[str | None, typer.Option(help="Estimator of the Shapley values; auto chooses.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Most coalitions per text or prompt.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn, the same for each text or prompt.")] = 0,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write all values here.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write a figure here: .svg or .png, or both if there is no suffix.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="A text of the image, or the caption of a pair.", rich_help_panel=ENCODERS)
    ] = None,
    foil: Annotated[str | None, typer.Option(help="The other text of a pair.", rich_help_panel=ENCODERS)] = None,
    question: Annotated[str | None, typer.Option(help="A question, or @FILE.", rich_help_panel=DECODERS)] = None,
    labels: Annotated[
        str | None, typer.Option(help="Its answers to choose from, such as A,B.", rich_help_panel=DECODERS)
    ] = None,
    explanation: Annotated[
        str | None,
        typer.Option(help="post-hoc, or cot: the chain of thought.", show_default="post-hoc", rich_help_panel=DECODERS),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(help="Family of the published prompts, such as llama2-chat.", rich_help_panel=DECODERS),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help="File of other prompts, as in resources/prompts.", rich_help_panel=DECODERS),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(help="Most tokens of the explanation.", show_default=str(NEW_TOKENS), rich_help_panel=DECODERS),
    ] = None,
    permutations: Annotated[
        int | None,
        typer.Option(
            help="Permutations, each with its reverse (equations).", show_default="4", rich_help_panel=DECODERS
        ),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            help="What is explained of a token: log-probability, probability, logit, log-odds (equations).",
            show_default="log-probability",
            rich_help_panel=DECODERS,
        ),
    ] = None,
    max_evals: Annotated[
        str | None,
        typer.Option(
            help="Most evaluations for a prompt with an image: the first of these that is large enough (published).",
            show_default="600,700,800,900",
            rich_help_panel=DECODERS,
        ),
    ] = None,
    prompt_answer: Annotated[
        str | None,
        typer.Option(help="Prompt for the answer, or @FILE; <image> in it.", rich_help_panel=READY_PROMPTS),
    ] = None,
    tail_answer: Annotated[
        str | None, typer.Option(help="The end of it that asks for the answer.", rich_help_panel=READY_PROMPTS)
    ] = None,
    prompt_explanation: Annotated[
        str | None, typer.Option(help="Prompt for the explanation, or @FILE.", rich_help_panel=READY_PROMPTS)
    ] = None,
    tail_explanation: Annotated[
        str | None,
        typer.Option(help="The end of it that asks for the explanation.", rich_help_panel=READY_PROMPTS),
    ] = None,
    greedy_target: Annotated[
        bool | None,
        typer.Option(
            "--greedy-target",
            help="Explain the likeliest tokens, where the released code draws them.",
            rich_help_panel=READY_PROMPTS,
        ),
    ] = None,
    mask_id: Annotated[
        int | None,
        typer.Option(help="Id of a masked token in a prompt with an image (published).", rich_help_panel=READY_PROMPTS),
    ] = None,
    keep_ids: Annotated[
        str | None,
        typer.Option(
            help="Ids never masked with an image, such as 1,32000 (published).",
            rich_help_panel=READY_PROMPTS,
        ),
    ] = None,
) -> None:
    """Explain how much each text token and image patch contributes to a model's score, or answer and explanation."""
    options = {
        name: option for name, option in context.params.items() if option is not None and name not in COMMON_OPTIONS
    }
    with report_errors():
        figure_files = _get_figure_files(figure)
        from waltz.models.resolve_name import resolve_decoder  # torch and transformers take seconds to import

        decoder = resolve_decoder(model)
        result: Explanation | DecoderExplanation
        if decoder is None:
            result = _explain_encoder(model, profile or "published", seed, options)
        else:
            result = explain_by_options(decoder, profile, seed, options)
        _write_files(result, as_json, figure_files)
    for line in _render_lines(result):
        typer.echo(line)


def _explain_encoder(model: str, profile: str, seed: int, options: Mapping[str, Any]) -> "Explanation":
    check_allowed(options, ENCODER_OPTIONS, "an encoder needs --image and --text")
    check_needed(options, ("image", "text"), "an encoder scores a text with an image")
    from waltz.explainer.explain import explain

    return explain(
        model,
        options["image"],
        options["text"],
        options.get("foil"),
        profile=profile,
        estimator=options.get("estimator", "auto"),
        evaluations=options.get("evaluations"),
        seed=seed,
    )


def _get_figure_files(path: Path | None) -> list[Path]:
    if path is None:
        return []
    if not path.suffix:
        return [path.with_suffix(form) for form in FIGURE_FORMATS]
    if path.suffix not in FIGURE_FORMATS:
        raise UserError(f"--figure {path}: {path.suffix!r} is not a figure format; use {' or '.join(FIGURE_FORMATS)}")
    return [path]


def _write_files(result: "Explanation | DecoderExplanation", as_json: Path | None, figure_files: list[Path]) -> None:
    if as_json:
        write_text(as_json, json.dumps(result.record(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    if figure_files:
        from waltz.reporting.figures.figure_files import save_figure

        save_figure(result.figure(), figure_files)


def _render_lines(result: "Explanation | DecoderExplanation") -> Iterable[str]:
    from waltz.explainer.encoder_explanation import Explanation

    if not isinstance(result, Explanation):
        return result.lines()
    record = result.record()
    return [_render_text(part) for part in (record, record.get("foil")) if part]


def _render_text(part: dict[str, Any]) -> str:
    """Return a text with its numbers and the values of its tokens."""
    share = "not defined" if part["t_shap"] is None else f"{100 * part['t_shap']:.2f} %"
    error = "" if part["t_shap_se"] is None else f" ± {100 * part['t_shap_se']:.2f}"
    score = "not finite" if part["score"] is None else f"{part['score']:.6g}"
    reason = f" ({part['reason']})" if part["reason"] else ""
    tokens = "  ".join(
        f"{player['text']} {'NaN' if player['phi'] is None else format(player['phi'], '+.3g')}"
        for player in part["players"]
        if player["modality"] == "text"
    )
    return (
        f"{part['text']}\n  score {score}, T-SHAP {share}{error}{reason};"
        f" {part['evaluations']} evaluations, {part['estimator']}\n  {tokens}"
    )
