"""A decoder behind a server in the real workflow: answers, self-consistency tests and CC-SHAP of the same network."""

import math

import pyarrow.parquet as pq
import pytest
import yaml

from stand_ins.models import tiny_decoders
from stand_ins.openai_server import MODEL, serve
from workflow_runs.checkout import checkout
from workflow_runs.studies import ANSWERS, SENTENCES

pytestmark = pytest.mark.workflow

TABLES = {
    "evaluation/{}/texts.tasks": 3 * 2,
    "consistency/{}/tests/texts": 2 * 7,
    "consistency/{}/cc-shap/texts": 2 * 2,
    "consistency/{}/contributions/texts": 2 * 2 * 2,
}
"""Results of a model, and their number of rows."""
LOGIT = "score"
"""Column of a label's logit, in the place of which a server has the log-probability."""
PROBES = 6
"""Most requests to a server that only describe the model."""


def build_study(folder, url):
    served = {"weights": MODEL, "revision": "1", "tokenizer": str(folder), "server": url}
    models = {"near": {"weights": str(folder)}, "far": served}
    return {
        "study": "tiny",
        "seed": 7,
        "profiles": ["equations"],
        "sources": {
            "comve": {
                "format": "comve",
                "files": {name: {"path": f"data/{name}.csv"} for name in ("sentences", "answers")},
            }
        },
        "models": models,
        "texts": {"nonsense": {"source": "comve", "size": 3}},
        "groups": {"texts": ["nonsense"]},
        "evaluation": {"models": list(models), "groups": ["texts"], "sample": None, "cot_tokens": 3},
        "consistency": {
            "models": list(models),
            "groups": ["texts"],
            "sample": 2,
            "tokens": {"explanation": 4, "mistake": 4, "paraphrase": 3},
            "edits": {"positions": 1, "words": 2},
            "cc_shap": {"permutations": 1},
        },
        "reporting": {"tables": [], "resamples": 100, "confidence": 0.9},
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The checkout after a run with one network loaded (`near`) and behind a server (`far`), which is the second."""
    folder = tmp_path_factory.mktemp("served")
    decoder = tiny_decoders.causal()
    decoder.network.model.save_pretrained(folder / "tiny")
    decoder.tokenizer.save_pretrained(folder / "tiny")
    run = checkout(folder / "waltz", folder / "tiny")
    (run.folder / "data/sentences.csv").write_text(SENTENCES)
    (run.folder / "data/answers.csv").write_text(ANSWERS)
    with serve(decoder, failures=3) as stand_in:
        (run.folder / "tiny.yaml").write_text(yaml.safe_dump(build_study(folder / "tiny", stand_in.url)))
        run.snakemake("evaluation", "consistency", "cc_shap")
        yield run, stand_in


def read_rows(run, table):
    return pq.read_table(run.folder / f"results/tiny/{table}.parquet").to_pylist()


def are_alike(value, other):
    """Return whether values are equal, numbers up to rounding."""
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, abs_tol=1e-5, rel_tol=0) or (math.isnan(value) and math.isnan(other))
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(are_alike, value, other))
    return value == other


@pytest.mark.parametrize("table", TABLES)
def test_results_are_those_of_the_network(run, table):
    rows, expected = (read_rows(run[0], table.format(model)) for model in ("far", "near"))
    assert len(rows) == len(expected) == TABLES[table]
    assert {row["error"] for row in rows if "error" in row} <= {None}
    for row, expected_row in zip(rows, expected, strict=True):
        pairs = {name: (value, expected_row[name]) for name, value in row.items() if name not in ("model", LOGIT)}
        assert not {name: pair for name, pair in pairs.items() if not are_alike(*pair)}


def test_finished_results_are_not_requested_again(run):
    checkout, stand_in = run
    stand_in.requests.clear()
    table = "results/tiny/consistency/far/tests/texts.parquet"
    content = (checkout.folder / table).read_bytes()
    checkout.snakemake("--forcerun", "self_consistency_tests", "--", table)
    assert (checkout.folder / table).read_bytes() == content
    assert 0 < len(stand_in.requests) <= PROBES
