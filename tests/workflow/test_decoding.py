"""Decoders in the real workflow: one that sees on pairs, one that reads on a text task."""

import json

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

import tiny_decoders
from workflow_checkout import checkout

pytestmark = pytest.mark.workflow

ESNLI = """gold_label,Sentence1,Sentence2,Explanation_1,Explanation_2,Explanation_3
neutral,There is a dog.,There is a cat.,So.,So.,So.
entailment,There is a cat.,There is a cat.,So.,So.,So.
contradiction,There is a dog.,There is no dog.,So.,So.,So.
"""


def raw_files(folder):
    """Images of the pairs that every tiny study has, and a text task, as sources of a study."""
    (folder / "images").mkdir()
    for name in "0123":
        Image.linear_gradient("L").rotate(90 * int(name)).convert("RGB").save(folder / f"images/{name}.png")
    (folder / "esnli.csv").write_text(ESNLI)
    pairs = {"format": "pairs", "files": {"own-counting": {"path": "data/own.csv"}}, "images": {"path": "images"}}
    return {"own": pairs, "esnli": {"format": "e-snli", "files": {"test": {"path": "esnli.csv"}}}}


def test_decoders_answer_about_images_and_texts(tmp_path, tiny_model_folder):
    tiny = checkout(tmp_path / "waltz", tiny_model_folder)
    reader = tiny_decoders.causal("gpt2")
    for part in (reader.network.model, reader.tokenizer):
        part.save_pretrained(tiny.folder / "reader")
    study = yaml.safe_load((tiny.folder / "tiny.yaml").read_text())
    llava = {"kind": "vision", "weights": "resources/scenes/models/llava", "prompts": "resources/prompts/scenes.yaml"}
    study |= {
        "sources": raw_files(tiny.folder),
        "profiles": ["equations"],
        "models": {"llava": llava, "reader": {"weights": "reader"}},
        "texts": {"tasks": {"source": "esnli", "size": 2}},
        "groups": {"seen": ["own-counting"], "read": ["tasks"]},
    }
    study["evaluation"] |= {"models": ["llava", "reader"], "groups": ["seen", "read"], "thought": 3}
    (tiny.folder / "tiny.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    targets = [f"results/tiny/evaluation/{name}.parquet" for name in ("llava/seen", "reader/read.tasks")]
    tiny.snakemake(*targets)
    pairs, choices = (pq.read_table(tiny.folder / target).to_pylist() for target in targets)
    assert [row["error"] for row in pairs] == [None] * 4 * (2 * (1 + 2) + 3 * 2)
    assert sorted(row["order"] for row in pairs if row["setting"] == "pairwise") == (
        ["caption-first"] * 2 + ["foil-first"] * 2
    )
    assert [row["setting"] for row in choices] == ["choice"] * 2 + ["choice-after-cot"] * 2
    assert not [row for row in choices if row["error"] or row["prediction"] is None]
    (record,) = json.loads((tiny.folder / targets[0].replace(".parquet", ".run.json")).read_text())
    assert (record["rows_in"], record["rows_out"]) == (4, len(pairs))
    assert record["generation"]["equations"] == {"sampling": None, "seed": 7, "cot_tokens": 3}
    tiny.edit("resources/prompts/scenes.yaml", 'affirms: "yes"', 'affirms: "no"')
    assert tiny.planned("--", "results/tiny/evaluation/metrics.parquet") == {
        "decode",
        "perplexity",
        "metrics",
        "metrics_part",
    }
    tiny.change("profiles", ["published"])
    assert "models.llava.family: is missing" in tiny.snakemake("--dry-run", check=False)
