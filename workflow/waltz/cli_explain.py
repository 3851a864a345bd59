"""The command `waltz explain`: one image with a text, or with a caption and a foil."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from waltz.cli_people import refused
from waltz.core.atomic import write_text
from waltz.core.errors import UserError

if TYPE_CHECKING:
    from waltz.explanation import Explanation

FORMS = (".svg", ".png")


def explain_command(
    model: Annotated[str, typer.Option(help="Registered model, folder in transformers format, or hub id[@revision].")],
    image: Annotated[Path, typer.Option(help="Image file.")],
    text: Annotated[str, typer.Option(help="The text, or the caption of a pair.")],
    foil: Annotated[str | None, typer.Option(help="The other text of a pair.")] = None,
    profile: Annotated[str, typer.Option(help="Fidelity profile: published or equations.")] = "published",
    estimator: Annotated[str, typer.Option(help="Estimator of the Shapley values; auto chooses.")] = "auto",
    evaluations: Annotated[int | None, typer.Option(help="Most coalitions a text.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn, the same for each text.")] = 0,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write all values here.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write a figure here: .svg or .png, or without a suffix both.")
    ] = None,
) -> None:
    """Say what each text token and each image patch contributes to a model's score."""
    try:
        figures = _figures(figure)
        from waltz.one_sample import explain  # torch and transformers take seconds to import

        found = explain(
            model, image, text, foil, profile=profile, estimator=estimator, evaluations=evaluations, seed=seed
        )
        _write(found, as_json, figures)
    except UserError as error:
        raise refused(error) from None
    except OSError as error:
        raise refused(UserError(f"{error.filename or 'output'}: cannot be written: {error.strerror}")) from None
    record = found.record()
    for part in (record, record.get("foil")):
        if part:
            typer.echo(_summary(part))


def _figures(path: Path | None) -> list[Path]:
    if path is None:
        return []
    if not path.suffix:
        return [path.with_suffix(form) for form in FORMS]
    if path.suffix not in FORMS:
        raise UserError(f"--figure {path}: {path.suffix!r} is no form of a figure here; end it in {' or '.join(FORMS)}")
    return [path]


def _write(found: "Explanation", as_json: Path | None, figures: list[Path]) -> None:
    if as_json:
        write_text(as_json, json.dumps(found.record(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    if figures:
        from waltz.reporting.figures import save

        save(found.figure(), figures)


def _summary(part: dict[str, Any]) -> str:
    """A text in two lines: its numbers, and the values of its tokens."""
    share = "not defined" if part["t_shap"] is None else f"{100 * part['t_shap']:.2f} %"
    error = "" if part["t_shap_se"] is None else f" ± {100 * part['t_shap_se']:.2f}"
    score = "not finite" if part["score"] is None else f"{part['score']:.6g}"
    why = f" ({part['reason']})" if part["reason"] else ""
    tokens = "  ".join(
        f"{player['text']} {'NaN' if player['phi'] is None else format(player['phi'], '+.3g')}"
        for player in part["players"]
        if player["modality"] == "text"
    )
    return (
        f"{part['text']}\n  score {score}, T-SHAP {share}{error}{why};"
        f" {part['evaluations']} evaluations, {part['estimator']}\n  {tokens}"
    )
