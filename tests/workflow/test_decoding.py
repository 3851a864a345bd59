"""Decoders in the real workflow: one that sees on pairs, one that reads on a text task."""

import json

import pyarrow.parquet as pq
import pytest

from workflow_runs.checkout import copied

pytestmark = pytest.mark.workflow


def test_decoders_answer_about_images_and_texts(decoder_run, tmp_path):
    tiny = copied(decoder_run, tmp_path / "waltz")
    targets = [
        f"results/tiny/evaluation/{name}.parquet"
        for name in ("llava/seen", "reader/read.tasks")
    ]
    pairs, choices = (
        pq.read_table(tiny.folder / target).to_pylist() for target in targets
    )
    assert [row["error"] for row in pairs] == [None] * 4 * (2 * (1 + 2) + 3 * 2)
    assert sorted(row["order"] for row in pairs if row["setting"] == "pairwise") == (
        ["caption-first"] * 2 + ["foil-first"] * 2
    )
    assert [row["setting"] for row in choices] == ["choice"] * 2 + [
        "choice-after-cot"
    ] * 2
    assert not [row for row in choices if row["error"] or row["prediction"] is None]
    (record,) = json.loads(
        (tiny.folder / targets[0].replace(".parquet", ".run.json")).read_text()
    )
    assert (record["rows_in"], record["rows_out"]) == (4, len(pairs))
    assert record["generation"]["equations"] == {
        "sampling": {"temperature": 1.0, "top_k": 50, "top_p": 1.0},
        "seed": 7,
        "cot_tokens": 3,
    }
    answers = "results/tiny/evaluation/llava/seen.parquet"
    assert tiny.planned("--", answers) == set()
    picture = tiny.folder / "images/0.png"
    content = picture.read_bytes()
    picture.write_bytes(bytes(reversed(content)))  # of the same size
    assert tiny.planned("--", answers) >= {"decode", "merge_evaluation_shards"}
    tiny.snakemake("--touch", "--", answers)
    tiny.edit(
        "workflow/waltz/resources/prompts/scenes.yaml",
        'affirms: "yes"',
        'affirms: "no"',
    )
    assert tiny.planned("--", "results/tiny/evaluation/metrics.parquet") == {
        "decode",
        "merge_evaluation_shards",
        "perplexity",
        "metrics",
        "metrics_part",
        "comparisons_part",
    }
    tiny.change("profiles", ["published"])
    assert "models.llava.family: is missing" in tiny.snakemake("--dry-run", check=False)
