"""The command `waltz regions`: regions that a detector finds in images, for encoders that read regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waltz.cli.output import report_errors, show_error
from waltz.core.errors import UserError
from waltz.core.memory import check_address_space
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
    image: Annotated[list[Path], typer.Option(help="Image file, or a folder of them; may be repeated.")],
    out: Annotated[Path, typer.Option(help="The .npz to write; a folder of IMAGE.npz for several images.")],
    config: Annotated[
        Path | None,
        typer.Option(
            help="Configuration, in YAML or JSON.",
            show_default="config.yaml (of ViLBERT detectron_config.yaml) next to the weights, else the released values",
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option(help="detector, of LXMERT and VisualBERT, or vilbert-detector, of ViLBERT.")
    ] = DETECTOR_KIND,
) -> None:
    """Store the regions that a Faster R-CNN of Visual Genome finds in images: boxes and features."""
    with report_errors():
        check_address_space()
        if kind not in DETECTOR_CONFIGS:
            raise UserError(f"--kind: unknown kind {kind!r}; choose from {', '.join(DETECTOR_CONFIGS)}")
        complete = _detect_regions(model, kind, config, _plan_outputs(image, out))
    if not complete:
        raise typer.Exit(1)


def _plan_outputs(images: list[Path], out: Path) -> dict[Path, Path]:
    """Return the output file of each image."""
    from PIL import Image

    suffixes = Image.registered_extensions()
    files: list[Path] = []
    for path in images:
        if not path.is_dir():
            files.append(path)
            continue
        entries = sorted(entry for entry in path.iterdir() if entry.is_file())
        image_files = [entry for entry in entries if entry.suffix.lower() in suffixes]
        if not image_files:
            raise UserError(f"{path}: holds no image; name an image or a folder of them")
        if skipped := [entry.name for entry in entries if entry not in image_files]:
            show_error(f"{path}: skipped, because their names are not those of images: {', '.join(skipped)}")
        files += image_files
    if len(files) == 1 and not images[0].is_dir():
        if out.is_dir():
            raise UserError(f"{out}: is a folder; name the .npz of the one image")
        return {files[0]: out}
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file, and there are {len(files)} images; name a folder")
    repeated = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    if repeated:
        raise UserError(f"{repeated[0]}: is the name of several images, and regions go by name; take them one by one")
    return {file: out / f"{file.name}.npz" for file in files}


def _detect_regions(model: Path, kind: str, config: Path | None, outputs: dict[Path, Path]) -> bool:
    """Write the regions of each image, and return False if an image could not be read."""
    import torch

    from waltz.core.devices import lease_device
    from waltz.models.regions import write_regions

    complete = True
    detector, detect = _load_detector(model, kind, config)
    with lease_device(1, torch.get_num_threads()) as device:
        detector.to(device.name)
        for file, output in outputs.items():
            try:
                arrays = detect(file, device.name)
            except UserError as error:
                show_error(UserError(f"{file}: {str(error).removeprefix(f'{file}: ')}"))
                complete = False
                continue
            write_regions(output, arrays)
            typer.echo(output)
    return complete


def _load_detector(
    model: Path, kind: str, config: Path | None
) -> tuple[nn.Module, Callable[[Path, str], dict[str, np.ndarray]]]:
    """Return a detector, and the function from an image file and a device to the arrays of its regions.

    The released code of ViLBERT's detector does not rotate images by their EXIF data.
    """
    from waltz.models.networks.detector import read_image

    if kind == VILBERT_DETECTOR_KIND:
        from waltz.models.networks.vilbert_detector_checkpoint import load_vilbert_detector
        from waltz.models.regions import detect_pyramid_regions

        pyramid = load_vilbert_detector(model, config)
        return pyramid, lambda file, device: detect_pyramid_regions(pyramid, read_image(file, is_upright=False), device)
    from waltz.models.networks.detector_checkpoint import load_detector
    from waltz.models.regions import detect_regions

    detector = load_detector(model, config)
    return detector, lambda file, device: detect_regions(detector, read_image(file, is_upright=True), device)
