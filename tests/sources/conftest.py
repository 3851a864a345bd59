"""Fixtures of the source tests: the real files, where they are there, and a writer of small raw files."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("WALTZ_DATA") or Path(__file__).parents[2].parent / "shared" / "data")

WriteJson = Callable[..., Path]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data; a test that needs it is skipped without it."""
    if not SHARED.is_dir():
        pytest.skip(f"the real data is not at {SHARED}: set WALTZ_DATA")
    return SHARED


@pytest.fixture
def write_json(tmp_path: Path) -> WriteJson:
    """Write a value as a JSON file below the test's folder."""

    def write(value: Any, name: str = "raw.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write
