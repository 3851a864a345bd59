"""docs/reference/models.md says of each model what registry, declarations and modules say."""

from pathlib import Path

import pytest

from docs.model_table import format_model_table, get_match_index, list_tables_by_model
from waltz.model_registry import load_registry

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "models.md"


def test_the_page_holds_the_table():
    assert format_model_table() in PAGE.read_text(encoding="utf-8")


def test_every_model_of_the_papers_is_registered():
    assert set(list_tables_by_model()) - set(load_registry()) <= {
        "clip",
        "blip",
        "blip2",
        "albef",
        "encoders",
        "decoders",
    }


@pytest.mark.parametrize(
    ("kind", "index"),
    [
        ("lxmert", 1),
        ("visual-bert", 0),
        ("albef", 1),
        ("vilbert", 0),
        ("blip", 1),
        ("clip", None),
        ("text", None),
    ],
)
def test_the_match_index_is_that_of_the_authors(kind, index):
    assert get_match_index(kind) == index
