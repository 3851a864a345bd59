"""Stage consistency in the real workflow: the self-consistency tests of a tiny language model, in
two shards.
"""

import json

import pytest

from waltz.core.files import parquet
from waltz.core.schema import CONSISTENCY
from workflow_runs.studies import TRACES

pytestmark = pytest.mark.workflow

PROFILES = ("published", "equations")


def test_the_shards_make_one_file_of_all_items_tests_seeds_and_profiles(
    consistency_run,
):
    path = consistency_run.folder / "results/tiny/consistency/tiny/tests/texts.parquet"
    rows = parquet.read_rows(path, CONSISTENCY.with_dataset())
    assert len(rows) == 2 * 3 * 7 * 2
    assert [row["profile"] for row in rows] == ["equations"] * 42 + ["published"] * 42
    items = {
        profile: {row["item_id"] for row in rows if row["profile"] == profile}
        for profile in PROFILES
    }
    assert all(len(ids) == 3 for ids in items.values())
    assert {row["error"] for row in rows} == {None}
    assert {row["verdict"] for row in rows} >= {0, 1}
    assert {(row["setting"], row["image"]) for row in rows} == {("choice", None)}
    assert all(
        f"a man rides {row['item_id'].rpartition(':')[2]}" in row["text"]
        for row in rows
    )
    records = json.loads(path.with_suffix(".run.json").read_text())
    assert [record["shard"] for record in records] == ["1 of 2", "2 of 2"]
    assert [record["rows_in"] for record in records] == [8, 4]
    assert sum(record["rows_out"] for record in records) == len(rows)


def test_two_items_of_each_profile_are_traced(consistency_run):
    names = json.loads((consistency_run.folder / TRACES / "index.json").read_text())
    assert list(names) == [
        f"nonsense-{profile}-{number}" for profile in PROFILES for number in (1, 2)
    ]
    text = (consistency_run.folder / TRACES / "nonsense-published-1.svg").read_text()
    assert all(
        test in text
        for test in ("counterfactual edits", "input from explanation", "paraphrasing")
    )


def test_a_second_run_has_nothing_to_do(consistency_run):
    assert consistency_run.planned("--", "consistency") == set()
