"""Fixtures of the source tests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WriteJson = Callable[..., Path]


@pytest.fixture
def write_json(tmp_path: Path) -> WriteJson:
    """Write a value as a JSON file below the test's folder."""

    def write(value: Any, name: str = "raw.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write
