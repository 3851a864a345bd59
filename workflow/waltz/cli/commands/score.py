"""The command `waltz score`: logits of an original checkpoint file for prepared inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import check_inputs, check_outputs, name_output
from waltz.core.errors import UserError, get_first_line
from waltz.core.files.atomic import replace_file
from waltz.core.jobs.memory import check_address_space

if TYPE_CHECKING:
    import numpy as np

KINDS = ("albef", "vilbert", "vilbert-12in1", "mplug-owl3", "text")
"""Kinds of original checkpoints; `text` is a language model."""
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def score_command(
    model: Annotated[
        Path,
        typer.Option(
            help="Original checkpoint file, or its folder; a .gguf file of kind text."
        ),
    ],
    kind: Annotated[str, typer.Option(help=f"Its kind: {', '.join(KINDS)}.")],
    inputs: Annotated[
        Path, typer.Option(help=".npz of prepared inputs, used as they are.")
    ],
    out: Annotated[Path, typer.Option(help="Write the logits here, as .npz.")],
    config: Annotated[
        Path | None,
        typer.Option(help="JSON of the model's settings, by the names of its release."),
    ] = None,
) -> None:
    """Score prepared images and texts with an original checkpoint: logits of its matching head, or
    of each token.
    """
    import numpy as np

    check_address_space()
    if kind not in KINDS:
        raise UserError(
            f"--kind: unknown kind {kind!r}; choose from {', '.join(KINDS)}"
        )
    check_outputs(out=out)
    check_inputs(model, config)
    arrays = _read_arrays(inputs)
    logits = _compute_logits(model, kind, config, arrays)
    # The file appears only when it is complete.
    with (
        name_output(out),
        replace_file(out) as temporary,
        temporary.open("wb") as file,
    ):
        np.savez(file, allow_pickle=False, **logits)
    shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in logits.items())
    typer.echo(f"{out}: {shapes}")


def _compute_logits(
    model: Path, kind: str, config: Path | None, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    from waltz.model_registry import ModelSpec
    from waltz.models.checkpoint_file import find_checkpoint_file, read_settings
    from waltz.models.networks.array_inputs import compute_logits

    settings = None if config is None else read_settings(config)
    # A language model is one .gguf file; other kinds may be given as a folder with the checkpoint.
    file = model
    if kind != "text":
        file = find_checkpoint_file(ModelSpec("", kind, str(model)))
    return compute_logits(file, settings, inputs, kind)


def _read_arrays(file: Path) -> dict[str, np.ndarray]:
    """Return the arrays in an .npz file, without running code that it may contain.

    Raises:
        UserError: The file cannot be read, or is not an .npz of arrays.
    """
    import numpy as np

    try:
        with np.load(file, allow_pickle=False) as opened:
            return dict(opened)
    except OSError as error:
        raise UserError(
            f"{file}: cannot be read: {error.strerror or error}; check the path"
        ) from None
    except Exception as error:
        # A hostile or truncated file may make its reader raise any exception.
        raise UserError(
            f"{file}: not an .npz of arrays ({get_first_line(error)}); write it with numpy.savez"
        ) from None
