"""An RO-Crate of a finished run, written by a reporter plugin of Snakemake (extra `ro-crate`)."""

import json

import pytest

pytestmark = pytest.mark.workflow
pytest.importorskip(
    "snakemake_report_plugin_fairscape", reason="the extra ro-crate is not installed"
)


def test_a_finished_run_becomes_a_crate(after_run):
    after_run.snakemake("--reporter", "fairscape", "--report-fairscape-name", "tiny")
    nodes = json.loads((after_run.folder / "ro-crate-metadata.json").read_text())[
        "@graph"
    ]
    assert nodes[0]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.2"}
    by_file = {
        node["contentUrl"]: node
        for node in nodes
        if isinstance(node.get("contentUrl"), str)
    }
    by_id = {node["@id"]: node for node in nodes}
    metrics = by_file["results/tiny/evaluation/metrics/language.benchmark.parquet"]
    (origin,) = metrics["generatedBy"]
    job = by_id[origin["@id"]]
    assert job["command"] == "script: workflow/scripts/metrics_part.py"
    inputs = {by_id[file["@id"]]["contentUrl"] for file in job["usedDataset"]}
    assert inputs == {
        "results/tiny/benchmark/own-counting.parquet",
        "results/tiny/evaluation/tiny-gpt2/pairs.parquet",
    }
