"""Decoders behind servers in the real workflow: answers, self-consistency tests and CC-SHAP of the
same networks.
"""

import math

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image
from transformers import GenerationConfig

from stand_ins.models import tiny_chat, tiny_decoders
from stand_ins.openai_server import MODEL, serve
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.decoders import load_decoder
from workflow_runs.checkout import checkout
from workflow_runs.studies import ANSWERS, SENTENCES

pytestmark = pytest.mark.workflow

TABLES = {
    "evaluation/{}reader/texts.tasks": 3 * 2,
    "evaluation/{}viewer/seen": 2 * (2 * (1 + 2) + 3 * 2),
    "consistency/{}reader/tests/texts": 7,
    "consistency/{}viewer/tests/seen": 6,
    "consistency/{}reader/cc-shap/texts": 1,
    "consistency/{}viewer/cc-shap/seen": 1,
    "consistency/{}reader/contributions/texts": 2,
    "consistency/{}viewer/contributions/seen": 2,
}
"""Results of models, whose names begin with `near` or `far`, and their number of rows."""
OF_LOGITS = ("score", "rounding")
"""Columns of a label's logit and its rounding, in the place of which a server has those of the
log-probability.
"""
PROBES = 6
"""Most requests to a server that only describe the model."""


def build_study(folder, urls):
    models = {}
    for name, kind in (("reader", "text"), ("viewer", "vision")):
        served = {
            "weights": MODEL,
            "revision": "1",
            "tokenizer": str(folder / name),
            "server": urls[name],
        }
        prompts = {"prompts": "scenes.yaml"} if kind == "vision" else {}
        models[f"near{name}"] = {"kind": kind, "weights": str(folder / name), **prompts}
        models[f"far{name}"] = {"kind": kind, **served, **prompts}
    return {
        "study": "tiny",
        "seed": 7,
        "profiles": ["equations"],
        "sources": {
            "comve": {
                "format": "comve",
                "files": {
                    name: {"path": f"data/{name}.csv"}
                    for name in ("sentences", "answers")
                },
            },
            "own": {
                "format": "pairs",
                "files": {"own-counting": {"path": "data/own.csv"}},
                "images": {"path": "images"},
            },
        },
        "benchmark": {"valid_votes": 2},
        "models": models,
        "texts": {"nonsense": {"source": "comve", "size": 3}},
        "groups": {"texts": ["nonsense"], "seen": ["own-counting"]},
        "evaluation": {
            "models": list(models),
            "groups": ["texts", "seen"],
            "only": {name: ["texts"] for name in models if "reader" in name},
            "sample": 2,
            "cot_tokens": 3,
        },
        "consistency": {
            "models": list(models),
            "groups": ["texts", "seen"],
            "sample": 1,
            "tokens": {"explanation": 4, "mistake": 4, "paraphrase": 3},
            "edits": {"positions": 1, "words": 2},
            "cc_shap": {"kinds": ["post-hoc"], "permutations": 1},
        },
        "reporting": {"tables": [], "resamples": 100, "confidence": 0.9},
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The checkout after a run with networks loaded (`near`) and behind servers (`far`), and the
    first of these.
    """
    folder = tmp_path_factory.mktemp("served")
    reader = tiny_decoders.causal()
    reader.network.model.save_pretrained(folder / "reader")
    reader.tokenizer.save_pretrained(folder / "reader")
    tiny_chat.write_llava(folder / "viewer")
    # The likeliest token alone can be drawn, so that server and network draw the same texts.
    GenerationConfig(do_sample=True, top_k=1).save_pretrained(folder / "viewer")
    viewer = load_decoder(
        ModelSpec("viewer", "vision", str(folder / "viewer"), "local"),
        Device("cpu", 1, "test"),
    )
    run = checkout(folder / "waltz", folder / "reader")
    (run.folder / "images").mkdir()
    levels = np.random.default_rng(0).integers(
        0, 256, (4, tiny_chat.SIDE, tiny_chat.SIDE, 3), dtype=np.uint8
    )
    for number, image in enumerate(levels):
        Image.fromarray(image).save(run.folder / f"images/{number}.png")
    (run.folder / "data/sentences.csv").write_text(SENTENCES)
    (run.folder / "data/answers.csv").write_text(ANSWERS)
    with serve(reader, failures=3) as texts, serve(viewer) as images:
        study = build_study(folder, {"reader": texts.url, "viewer": images.url})
        (run.folder / "tiny.yaml").write_text(yaml.safe_dump(study))
        run.snakemake("consistency", "cc_shap")
        run.snakemake("evaluation")
        yield run, texts


def read_rows(run, table):
    return pq.read_table(run.folder / f"results/tiny/{table}.parquet").to_pylist()


def are_alike(value, other):
    """Return whether values are equal, numbers up to rounding."""
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, abs_tol=1e-5, rel_tol=0) or (
            math.isnan(value) and math.isnan(other)
        )
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(are_alike, value, other))
    return value == other


@pytest.mark.parametrize("table", TABLES)
def test_results_are_those_of_the_network(run, table):
    rows, expected = (
        read_rows(run[0], table.format(model)) for model in ("far", "near")
    )
    assert len(rows) == len(expected) == TABLES[table]
    assert {row["error"] for row in rows if "error" in row} <= {None}
    for row, expected_row in zip(rows, expected, strict=True):
        pairs = {
            name: (value, expected_row[name])
            for name, value in row.items()
            if name not in ("model", *OF_LOGITS)
        }
        assert not {name: pair for name, pair in pairs.items() if not are_alike(*pair)}


def test_finished_results_are_not_requested_again(run):
    checkout, stand_in = run
    stand_in.requests.clear()
    table = "results/tiny/consistency/farreader/tests/texts.parquet"
    content = (checkout.folder / table).read_bytes()
    checkout.snakemake("--forcerun", "self_consistency_tests", "--", table)
    assert (checkout.folder / table).read_bytes() == content
    assert 0 < len(stand_in.requests) <= PROBES
