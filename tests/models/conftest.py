"""Tiny checkpoints of every network, and what is shown to them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.models.tiny_albef import folder_of
from stand_ins.models.tiny_detector import save_tiny
from stand_ins.models.tiny_encoders import REGIONS, WIDTH, build
from stand_ins.models.tiny_vilbert import write_vilbert


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes a tiny checkpoint of a kind, once, and gives its folder."""
    paths: dict[str, Path] = {}

    def written(kind: str) -> Path:
        if kind not in paths:
            torch.set_num_threads(1)
            paths[kind] = tmp_path_factory.mktemp(kind)
            for part in build(kind):
                part.save_pretrained(paths[kind])
        return paths[kind]

    return written


@pytest.fixture(scope="session")
def pictures() -> list[Image.Image]:
    """Three RGB images of unequal sizes."""
    draw = np.random.default_rng(5)
    shapes = ((40, 40), (64, 48), (40, 72))
    return [
        Image.fromarray(draw.integers(0, 255, (*shape, 3), dtype=np.uint8))
        for shape in shapes
    ]


@pytest.fixture(scope="session")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Regions of three images, in a folder."""
    folder, draw = tmp_path_factory.mktemp("regions"), np.random.default_rng(6)
    for index in range(3):
        corner = draw.uniform(0, 40, (REGIONS, 2))
        np.savez(
            folder / f"{index}.jpg.npz",
            features=draw.normal(size=(REGIONS, WIDTH)).astype(np.float32),
            boxes=np.concatenate([corner, corner + 20], axis=1).astype(np.float32),
            size=np.array([60, 80]),
        )
    return folder


@pytest.fixture(scope="session")
def albef_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes a tiny checkpoint of a layout of ALBEF with its tokenizer, once, and gives its folder."""
    paths: dict[str, Path] = {}

    def written(layout: str) -> Path:
        if layout not in paths:
            torch.set_num_threads(1)
            paths[layout] = folder_of(tmp_path_factory.mktemp(layout), layout)
        return paths[layout]

    return written


@pytest.fixture(scope="session")
def vilbert_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    """The tiny checkpoint of ViLBERT, or of 12-in-1, with its companion files."""
    paths = {
        multitask: write_vilbert(tmp_path_factory.mktemp("tiny"), multitask)
        for multitask in (False, True)
    }
    return paths.__getitem__


@pytest.fixture(scope="session")
def detector_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of a tiny detector, with its configuration."""
    torch.set_num_threads(1)
    return save_tiny(tmp_path_factory.mktemp("detector"))
