"""Train the scene models from scratch: `python -m tools.train_scene_models FOLDER [MODEL ...]`."""

import argparse
import os
from pathlib import Path

from tools.train_scene_models import MODELS, STARTS
from tools.train_scene_models.processes import train_models


def main() -> None:
    """Train models in parallel and write each with its card."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.train_scene_models", description=__doc__
    )
    parser.add_argument(
        "folder", type=Path, help="folder of the trained models, one subfolder each"
    )
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help=f"of {', '.join(MODELS)} (default: all)",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count(),
        help="models trained at once, one core each",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=2026,
        help="seed of the held-out scenes that the card is about",
    )
    parser.add_argument(
        "--held-out", type=int, default=100, help="number of the held-out scenes"
    )
    options = parser.parse_args()

    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"no scene model {unknown[0]!r}; choose of {', '.join(MODELS)}")
    names = options.models or list(MODELS)
    for name in names:
        start = STARTS.get(name)
        if start and start not in names and not (options.folder / start).is_dir():
            parser.error(
                f"{name} starts from {start}, which {options.folder} lacks; train {start}, too"
            )
    train_models(
        names, options.folder, options.seed, options.held_out, options.processes
    )


if __name__ == "__main__":
    main()
