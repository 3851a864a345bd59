"""Folders of figures."""

import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from waltz.core.errors import UserError
from waltz.reporting.figures.figure_files import (
    ExampleItem,
    list_example_files,
    sample_items,
    save_examples,
)


def table(*ids, profile="equations", error=None):
    return [{"item_id": item_id, "profile": profile, "error": error} for item_id in ids]


def test_items_are_drawn_over_all_data_sets_but_for_those_with_an_error():
    first = (
        table("a", "b", "b")
        + table("c", error="too long")
        + table("d", profile="published")
    )
    tables = {
        "one": pa.Table.from_pylist(first),
        "other": pa.Table.from_pylist(table("a", "e")),
    }

    def sample_ids(n, seed=0):
        items = list(sample_items(tables, ["equations"], n, seed))
        assert [item.number for item in items] == list(range(1, len(items) + 1))
        return [(item.dataset, item.item_id) for item in items]

    every = sample_ids(9)
    assert every == [("one", "a"), ("one", "b"), ("other", "a"), ("other", "e")]
    few = sample_ids(2)
    assert len(few) == 2
    assert set(few) <= set(sample_ids(3)) <= set(every)
    assert {tuple(sample_ids(2, seed)) for seed in range(9)} != {tuple(few)}
    assert list(sample_items(tables, ["published"], 2, 0)) == [
        ExampleItem("one", "published", 1, "d")
    ]


def test_a_folder_says_what_its_figures_show_in_their_order(tmp_path):
    folder = tmp_path / "deep" / "m"
    save_examples(
        folder,
        ((name, f"shows {name} “x”", Figure(figsize=(1, 1))) for name in ("b", "a")),
    )
    assert list_example_files(folder) == {
        str(folder / "b.svg"): "shows b “x”",
        str(folder / "a.svg"): "shows a “x”",
    }
    assert {file.name for file in folder.iterdir()} == {
        "a.svg",
        "a.png",
        "b.svg",
        "b.png",
        "index.json",
    }
    save_examples(tmp_path / "none", [])
    assert list_example_files(tmp_path / "none") == {}
    (folder / "index.json").unlink()
    with pytest.raises(UserError, match=r"index\.json: index cannot be read"):
        list_example_files(folder)
    for text in ("[]", '{"../decoy": "a"}', '{"a/b": "a"}', '{"": "a"}'):
        (folder / "index.json").write_text(text)
        with pytest.raises(UserError, match=r"index\.json: not an index of figures"):
            list_example_files(folder)
