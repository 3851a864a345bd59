"""The command `waltz score`: logits of a match by an original checkpoint file, for inputs that others prepared."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from waltz.cli.people import refused
from waltz.core.errors import UserError
from waltz.core.files.atomic import replace_file

MODULES = {
    "albef": "waltz.models.networks.albef.array_inputs",
    "vilbert": "waltz.models.networks.vilbert.array_inputs",
    "vilbert-12in1": "waltz.models.networks.vilbert.array_inputs",
}
"""Module of each kind with its `compute_logits`; imported on use, since that takes seconds."""


def score_command(
    model: Annotated[Path, typer.Option(help="Original checkpoint file, or a folder of one.")],
    kind: Annotated[str, typer.Option(help=f"Its kind: {', '.join(MODULES)}.")],
    inputs: Annotated[Path, typer.Option(help=".npz of prepared inputs, used as they are.")],
    out: Annotated[Path, typer.Option(help="Write the logits here, as .npz.")],
    config: Annotated[
        Path | None, typer.Option(help="JSON of the model's settings, by the names of its release.")
    ] = None,
) -> None:
    """Score prepared pairs of images and texts by an original checkpoint: match_logits, in the order of its head."""
    try:
        if kind not in MODULES:
            raise UserError(f"--kind: there is no kind {kind!r}; there are {', '.join(MODULES)}")
        arrays = _arrays(inputs)
        found = _logits(model, kind, config, arrays)
        with replace_file(out) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **found)
    except UserError as error:
        raise refused(error) from None
    except OSError as error:
        raise refused(UserError(f"{error.filename or out}: cannot be written: {error.strerror}")) from None
    shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in found.items())
    typer.echo(f"{out}: {shapes}")


def _logits(model: Path, kind: str, config: Path | None, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    from waltz.models.checkpoint_file import find_checkpoint_file, read_settings
    from waltz.models.registry import ModelSpec

    if not model.exists():
        raise UserError(f"{model}: there is no such file or folder; name a checkpoint file")
    settings: Mapping[str, Any] | None = None if config is None else read_settings(config)
    file = find_checkpoint_file(ModelSpec("", kind, str(model)))
    logits = importlib.import_module(MODULES[kind]).compute_logits
    found: dict[str, np.ndarray] = logits(file, settings, inputs, kind)
    return found


def _arrays(file: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, without running code of it."""
    try:
        with np.load(file, allow_pickle=False) as opened:
            return {name: opened[name] for name in opened.files}
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}; check the path") from None
    except Exception as error:  # whatever a hostile or truncated file makes its reader raise
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"{file}: is no .npz of arrays ({first_line}); write it by numpy.savez") from None
