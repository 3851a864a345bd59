"""Rows written batch by batch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from waltz.core.files import parquet
from waltz.sources.layouts import CAPTIONS


def captions(n: int) -> list[dict[str, Any]]:
    return [
        {"source": "s", "source_id": str(i), "split": None, "image": "i.jpg", "caption": "c", "rejected": None}
        for i in range(n)
    ]


@pytest.mark.parametrize("n", [0, 1, 6, 7])
def test_batches_join_without_seam(tmp_path: Path, n: int) -> None:
    path = tmp_path / "rows.parquet"
    assert parquet.write_rows(path, iter(captions(n)), CAPTIONS, batch=3) == (n, 0)
    assert parquet.read(path, CAPTIONS).to_pylist() == captions(n)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source_id": "1"}, "{'source_id': '1'} stands in 2 rows"),
        ({"caption": None}, "column 'caption' is null in row 5"),
        ({"colour": "red"}, r"undeclared columns \['colour'\]"),
    ],
)
def test_a_breach_in_a_later_batch_leaves_no_file(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    rows = captions(6)
    rows[5] |= change
    with pytest.raises(ValueError, match=message):
        parquet.write_rows(tmp_path / "rows.parquet", rows, CAPTIONS, batch=2)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_fails_midway_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield from captions(4)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        parquet.write_rows(tmp_path / "rows.parquet", broken(), CAPTIONS, batch=2)
    assert list(tmp_path.iterdir()) == []
