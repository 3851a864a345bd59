"""Tiny checkpoints of both kinds, and inputs prepared for them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stand_ins.tiny_encoders import REGIONS, WIDTH
from stand_ins.tiny_vilbert import VILBERT, VILBERT_TASKS, write_vilbert


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    """The tiny checkpoint of ViLBERT, or of 12-in-1, with what lies beside it."""
    made = {multitask: write_vilbert(tmp_path_factory.mktemp("tiny"), multitask) for multitask in (False, True)}
    return made.__getitem__


@pytest.fixture(scope="session")
def inputs() -> dict[str, np.ndarray]:
    """Five rows; texts and images of unequal lengths, padded."""
    draw = np.random.default_rng(8)
    lengths, counts = np.array([7, 4, 9, 5, 9]), np.array([6, 6, 3, 5, 2])
    words = np.arange(9) < lengths[:, None]
    seen = np.arange(REGIONS + 1) < counts[:, None]
    features = draw.normal(size=(5, REGIONS + 1, WIDTH)) * seen[..., None]
    return {
        "input_ids": draw.integers(5, VILBERT["vocab_size"], (5, 9)) * words,
        "attention_mask": words.astype(np.int64),
        "token_type_ids": draw.integers(0, 2, (5, 9)),
        "features": features.astype(np.float32),
        "boxes": (draw.random((5, REGIONS + 1, 5)) * seen[..., None]).astype(np.float32),
        "image_mask": seen.astype(np.int64),
        "task_ids": draw.integers(0, VILBERT_TASKS, (5, 1)),
    }


@pytest.fixture(scope="session")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Regions of three images, in a folder."""
    folder, draw = tmp_path_factory.mktemp("regions"), np.random.default_rng(6)
    for index in range(3):
        corner = draw.uniform(0, 40, (REGIONS, 2))
        np.savez(
            folder / f"{index}.jpg.npz",
            features=draw.normal(size=(REGIONS, WIDTH)).astype(np.float32),
            boxes=np.concatenate([corner, corner + np.array([18, 12])], axis=1).astype(np.float32),
            size=np.array([60, 80]),
        )
    return folder
