"""CC-SHAP of a tiny language model in the real workflow, and what is planned for answers of the
scenes' LLaVA.
"""

import json

import pytest

from waltz.core.files import parquet
from waltz.core.schema import ATTRIBUTION, CC_SHAP
from workflow_runs.studies import EXPLANATIONS

pytestmark = pytest.mark.workflow

ANSWERED = "results/tiny/attribution/llava/pairs.parquet"


def test_the_shards_make_one_file_of_all_items_and_seeds(cc_shap_run):
    folder = cc_shap_run.folder / "results/tiny/consistency/tiny"
    rows = parquet.read_rows(folder / "cc-shap/texts.parquet", CC_SHAP.with_dataset())
    assert [(row["error"], row["kind"]) for row in rows] == [(None, "cot")] * 6
    assert len({row["item_id"] for row in rows}) == 3
    assert {row["seed"] for row in rows} == {1, 2}
    assert len({row["value"] for row in rows}) == 6
    contributions = parquet.read_rows(
        folder / "contributions/texts.parquet", ATTRIBUTION.with_dataset()
    )
    # Attributions are those of the first run, and have the seeds of its items.
    items = {row["item_id"]: row["estimator_seed"] for row in rows if row["seed"] == 1}
    assert {(row["item_id"], row["setting"], row["seed"]) for row in contributions} == {
        (item, f"cot:{name}", seed)
        for item, seed in items.items()
        for name in ("answer", "explanation")
    }
    assert len(contributions) == 6
    records = json.loads((folder / "cc-shap/texts.run.json").read_text())
    assert [(record["shard"], record["rows_out"]) for record in records] == [
        ("1 of 2", 4),
        ("2 of 2", 2),
    ]


def test_two_answers_are_drawn_above_their_explanations(cc_shap_run):
    titles = json.loads((cc_shap_run.folder / EXPLANATIONS / "index.json").read_text())
    assert list(titles) == ["nonsense-equations-1-cot", "nonsense-equations-2-cot"]
    assert len(set(titles.values())) == 2
    assert all(
        (cc_shap_run.folder / EXPLANATIONS / f"{name}.svg").stat().st_size > 5000
        for name in titles
    )


def test_what_is_planned_next(cc_shap_run):
    assert cc_shap_run.planned("--", "cc_shap") == set()
    answers = {"attribute_answers", "merge_attribution_shards", "fetch", "items"}
    assert cc_shap_run.planned("--", ANSWERED) == answers
    assert cc_shap_run.planned("--", "results/tiny/attribution/shares.parquet") == {
        *answers,
        "decode",
        "merge_evaluation_shards",
        "shares",
        "shares_part",
    }
    cc_shap_run.change("consistency.cc_shap.edits", True)
    assert cc_shap_run.planned("--", "cc_shap") == {
        "cc_shap",
        "self_consistency_tests",
        "cc_shap_edits",
        "merge_consistency_shards",
    }
    cc_shap_run.change("consistency.cc_shap.permutations", 3)
    assert {"cc_shap_shard", "merge_consistency_shards"} <= cc_shap_run.planned(
        "--", "cc_shap"
    )
