"""The command `waltz regions`: regions that a detector finds in images, for encoders that read
regions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import check_inputs, show_error
from waltz.core.errors import UserError
from waltz.core.files.safe_names import is_companion
from waltz.core.jobs.memory import check_address_space
from waltz.model_registry import DETECTOR_CONFIGS, DETECTOR_KIND, VILBERT_DETECTOR_KIND

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def regions_command(
    model: Annotated[
        Path,
        typer.Option(
            help="Weights of the detector: pytorch_model.bin, its pickle of arrays, or ViLBERT's detectron_model.pth."
        ),
    ],
    image: Annotated[
        list[Path],
        typer.Option(help="Image file, or a folder of them; may be repeated."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="The .npz to write; a folder of IMAGE.npz for several images."
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            help="Configuration, in YAML or JSON.",
            show_default="config.yaml (of ViLBERT detectron_config.yaml) next to the weights, else the released values",
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="detector, of LXMERT and VisualBERT, or vilbert-detector, of ViLBERT."
        ),
    ] = DETECTOR_KIND,
) -> None:
    """Store the regions that a Faster R-CNN of Visual Genome finds in images: boxes and features."""
    check_address_space()
    # Options and files are checked before torch is imported, which takes seconds.
    if kind not in DETECTOR_CONFIGS:
        raise UserError(
            f"--kind: unknown kind {kind!r}; choose from {', '.join(DETECTOR_CONFIGS)}"
        )
    check_inputs(model, *image, config)
    complete = _detect_regions(model, kind, config, _plan_outputs(image, out))
    if not complete:
        raise typer.Exit(1)


def _plan_outputs(images: list[Path], out: Path) -> dict[Path, Path]:
    """Return the output file of each image.

    Args:
        images: Image files, and folders of images.
        out: The output file of a single image, or the folder for several images.
    Raises:
        UserError: `out` is a file where a folder is needed or the reverse, or several images have
            the same name.
    """
    files: list[Path] = []
    for path in images:
        files += _list_images(path) if path.is_dir() else [path]
    # A single image gets the file `out`; a folder with one image is treated like any folder.
    if len(files) == 1 and not images[0].is_dir():
        if out.is_dir():
            raise UserError(f"{out}: is a folder; name the .npz of the one image")
        return {files[0]: out}
    if out.exists() and not out.is_dir():
        raise UserError(
            f"{out}: is a file, and there are {len(files)} images; name a folder"
        )
    # Stored regions are found by the name of their image.
    ((name, count),) = Counter(file.name for file in files).most_common(1)
    if count > 1:
        raise UserError(
            f"{name}: is the name of several images, and regions go by name; take them one by one"
        )
    return {file: out / f"{file.name}.npz" for file in files}


def _list_images(folder: Path) -> list[Path]:
    """Return the image files in a folder; the names of its other files are shown on stderr.

    Raises:
        UserError: The folder has no image.
    """
    from PIL import Image

    suffixes = Image.registered_extensions()
    images, skipped = [], []
    for entry in sorted(entry for entry in folder.iterdir() if entry.is_file()):
        if is_companion(entry.name):
            continue
        if entry.suffix.lower() in suffixes:
            images.append(entry)
        else:
            skipped.append(entry.name)
    if not images:
        raise UserError(f"{folder}: holds no image; name an image or a folder of them")
    if skipped:
        show_error(
            f"{folder}: skipped, because their names are not those of images: {', '.join(skipped)}"
        )
    return images


def _detect_regions(
    model: Path, kind: str, config: Path | None, outputs: dict[Path, Path]
) -> bool:
    """Write the regions of each image, and return whether all images could be read.

    Args:
        model: Weights of the detector.
        kind: Kind of the detector.
        config: Configuration of the detector; None for the default.
        outputs: Output file of each image file.
    """
    import torch

    from waltz.core.jobs.devices import lease_device
    from waltz.models.regions import write_regions

    complete = True
    detector, detect = _load_detector(model, kind, config)
    with lease_device(1, torch.get_num_threads()) as device:
        detector.to(device.name)
        for file, output in outputs.items():
            try:
                arrays = detect(file, device.name)
            except UserError as error:
                # One image that cannot be read does not stop the others; the exit status tells of
                # it.
                show_error(UserError(f"{file}: {str(error).removeprefix(f'{file}: ')}"))
                complete = False
                continue
            write_regions(output, arrays)
            typer.echo(output)
    return complete


def _load_detector(
    model: Path, kind: str, config: Path | None
) -> tuple[nn.Module, Callable[[Path, str], dict[str, np.ndarray]]]:
    """Return a detector, and a function that takes an image file and a device and returns the
    arrays of its regions.

    The released code of ViLBERT's detector does not rotate images by their EXIF data.
    """
    from waltz.models.networks.detector import read_image

    if kind == VILBERT_DETECTOR_KIND:
        from waltz.models.networks.vilbert_detector_checkpoint import (
            load_vilbert_detector,
        )
        from waltz.models.regions import detect_pyramid_regions

        pyramid = load_vilbert_detector(model, config)
        return pyramid, lambda file, device: detect_pyramid_regions(
            pyramid, read_image(file, is_upright=False), device
        )
    from waltz.models.networks.detector_checkpoint import load_detector
    from waltz.models.regions import detect_regions

    detector = load_detector(model, config)
    return detector, lambda file, device: detect_regions(
        detector, read_image(file, is_upright=True), device
    )
