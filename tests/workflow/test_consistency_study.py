"""Stage consistency in the real workflow: the self-consistency tests of a tiny language model, in two shards."""

import json

import pytest
import yaml

import tiny_decoders
from waltz.core.files import parquet
from waltz.core.schema import CONSISTENCY
from workflow_checkout import Checkout, checkout

pytestmark = pytest.mark.workflow

SENTENCES = "id,sent0,sent1\n" + "".join(f"{place},a man rides {place},a table throws {place}\n" for place in range(4))
ANSWERS = "".join(f"{place},{place % 2}\n" for place in range(4))


TRACES = "results/tiny/reporting/figures/traces/tiny"


def study(model) -> dict[str, object]:
    files = {name: {"path": f"data/{name}.csv"} for name in ("sentences", "answers")}
    return {
        "study": "tiny",
        "seed": 7,
        "profiles": ["published", "equations"],
        "sources": {"comve": {"format": "comve", "files": files}},
        "models": {"tiny": {"weights": str(model), "family": "gpt2"}},
        "texts": {"nonsense": {"source": "comve", "size": 3}},
        "groups": {"texts": ["nonsense"]},
        "consistency": {
            "models": ["tiny"],
            "groups": ["texts"],
            "sample": 3,
            "seeds": [1, 2],
            "shards": 2,
            "tokens": {"explanation": 4, "mistake": 4, "paraphrase": 3},
            "edits": {"positions": 1, "words": 2},
        },
        "reporting": {"tables": [], "explained": 2, "resamples": 100, "confidence": 0.9},
    }


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> Checkout:
    folder = tmp_path_factory.mktemp("consistency")
    decoder = tiny_decoders.causal()
    decoder.network.model.save_pretrained(folder / "tiny")
    decoder.tokenizer.save_pretrained(folder / "tiny")
    made = checkout(folder / "waltz", folder / "tiny")
    (made.folder / "tiny.yaml").write_text(yaml.safe_dump(study(folder / "tiny")))
    (made.folder / "data/sentences.csv").write_text(SENTENCES)
    (made.folder / "data/answers.csv").write_text(ANSWERS)
    assert made.planned("--", "consistency") >= {"consistency_texts", "consistency_whole_texts"}
    made.snakemake("--set-threads", "consistency_texts=1", "--", "consistency", TRACES)
    return made


def test_the_shards_make_one_file_of_all_items_tests_seeds_and_profiles(ran):
    path = ran.folder / "results/tiny/consistency/tiny/tests/nonsense.parquet"
    rows = parquet.read(path, CONSISTENCY).to_pylist()
    assert len(rows) == 2 * 3 * 7 * 2
    assert [row["profile"] for row in rows] == ["equations"] * 42 + ["published"] * 42
    items = {
        profile: {row["item_id"] for row in rows if row["profile"] == profile} for profile in study("")["profiles"]
    }
    assert all(len(ids) == 3 for ids in items.values())
    assert {row["error"] for row in rows} == {None}
    assert {row["verdict"] for row in rows} >= {0, 1}
    assert {(row["setting"], row["image"]) for row in rows} == {("choice", None)}
    assert all(f"a man rides {row['item_id'].rpartition(':')[2]}" in row["text"] for row in rows)
    records = json.loads(path.with_suffix(".run.json").read_text())
    assert [record["shard"] for record in records] == ["1 of 2", "2 of 2"]
    assert [record["rows_in"] for record in records] == [8, 4]
    assert sum(record["rows_out"] for record in records) == len(rows)


def test_two_items_of_each_profile_are_traced(ran):
    names = json.loads((ran.folder / TRACES / "index.json").read_text())
    assert list(names) == [f"nonsense-{profile}-{number}" for profile in study("")["profiles"] for number in (1, 2)]
    text = (ran.folder / TRACES / "nonsense-published-1.svg").read_text()
    assert all(test in text for test in ("counterfactual edits", "input from explanation", "paraphrasing"))


def test_a_second_run_has_nothing_to_do(ran):
    assert ran.planned("--", "consistency") == set()
