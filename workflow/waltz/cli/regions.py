"""The command `waltz regions`: what a detector sees in images, stored for the encoders that take regions."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from waltz.cli.people import refused
from waltz.core.errors import UserError


def regions_command(
    model: Annotated[Path, typer.Option(help="Weights of the detector: pytorch_model.bin, or its pickle of arrays.")],
    image: Annotated[list[Path], typer.Option(help="Image file, or a folder of them; may be repeated.")],
    out: Annotated[Path, typer.Option(help="The .npz to write; a folder of IMAGE.npz for several images.")],
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration.", show_default="config.yaml beside the weights, else the released values"),
    ] = None,
) -> None:
    """Store the regions that a Faster R-CNN of Visual Genome finds in images: boxes and features."""
    try:
        whole = _detect(model, config, _targets(image, out))
    except UserError as error:
        raise refused(error) from None
    except OSError as error:
        raise refused(UserError(f"{error.filename or 'output'}: cannot be written: {error.strerror}")) from None
    if not whole:
        raise typer.Exit(1)


def _targets(images: list[Path], out: Path) -> dict[Path, Path]:
    """Where the regions of each image go."""
    from PIL import Image

    suffixes = Image.registered_extensions()
    files: list[Path] = []
    for path in images:
        if not path.is_dir():
            files.append(path)
            continue
        within = sorted(entry for entry in path.iterdir() if entry.is_file())
        taken = [entry for entry in within if entry.suffix.lower() in suffixes]
        if not taken:
            raise UserError(f"{path}: holds no image; name an image or a folder of them")
        if left := [entry.name for entry in within if entry not in taken]:
            typer.echo(f"waltz: {path}: left out, being no images by their names: {', '.join(left)}", err=True)
        files += taken
    if len(files) == 1 and not images[0].is_dir():
        if out.is_dir():
            raise UserError(f"{out}: is a folder; name the .npz of the one image")
        return {files[0]: out}
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file, and there are {len(files)} images; name a folder")
    twice = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    if twice:
        raise UserError(f"{twice[0]}: is the name of several images, and regions go by name; take them one by one")
    return {file: out / f"{file.name}.npz" for file in files}


def _detect(model: Path, config: Path | None, targets: dict[Path, Path]) -> bool:
    """Write the regions of each image, say at once where there are none, and whether there are all at the end."""
    import torch

    from waltz.core.devices import lease_device
    from waltz.models.networks.detector.checkpoint import load_detector
    from waltz.models.networks.detector.images import read_upright_image
    from waltz.models.networks.detector.regions import detect_regions, write_regions

    whole = True
    detector = load_detector(model, config)
    with lease_device(1, torch.get_num_threads()) as device:
        detector.to(device.name)
        for file, target in targets.items():
            try:
                arrays = detect_regions(detector, read_upright_image(file), device.name)
            except UserError as error:
                refused(UserError(f"{file}: {str(error).removeprefix(f'{file}: ')}"))
                whole = False
                continue
            write_regions(target, arrays)
            typer.echo(target)
    return whole
