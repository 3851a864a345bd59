"""Tiny detectors as files."""

from pathlib import Path

import pytest
import torch

from stand_ins.tiny_detector import save_tiny


@pytest.fixture(scope="session")
def weights_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of a tiny detector, with its configuration beside them."""
    torch.set_num_threads(1)
    return save_tiny(tmp_path_factory.mktemp("detector"))
