"""Tiny checkpoint files in the layouts of the release."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from stand_ins.tiny_albef import folder_of


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes a tiny checkpoint of a layout with its tokenizer, once, and gives its folder."""
    made: dict[str, Path] = {}

    def written(layout: str) -> Path:
        if layout not in made:
            torch.set_num_threads(1)
            made[layout] = folder_of(tmp_path_factory.mktemp(layout), layout)
        return made[layout]

    return written
