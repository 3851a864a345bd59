"""Recorded runs in the real workflow: the study `recorded` with local data, and JSON lines of a VL
decoder.
"""

import csv
import json

import pytest
import yaml

from waltz.core.files import parquet
from waltz.core.schema import METRICS

pytestmark = pytest.mark.workflow

MISTRAL = {
    ("comve", "accuracy"): 94,
    ("comve", "accuracy_cot"): 62,
    ("comve", "cc_shap_posthoc"): 0.106,
    ("comve", "cc_shap_posthoc:excess"): 0.012,
    ("comve", "cc_shap_cot"): 0.138,
    ("comve", "cc_shap_cot:excess"): 0.02,
    ("comve", "counterfactual_edits"): 79,
    ("comve", "biasing_features"): 60,
    ("comve", "early_answering"): 28,
    ("comve", "filler_tokens"): 27,
    ("comve", "adding_mistakes"): 28,
    ("comve", "paraphrasing"): 76,
    ("comve", "input_from_explanation"): 84,
    ("e-snli", "accuracy"): 54,
    ("e-snli", "accuracy_cot"): 41,
    ("e-snli", "cc_shap_posthoc"): 0.176,
    ("e-snli", "cc_shap_posthoc:excess"): 0.01,
    ("e-snli", "cc_shap_cot"): 0.176,
    ("e-snli", "cc_shap_cot:excess"): -0.011,
    ("e-snli", "counterfactual_edits"): 56,
    ("e-snli", "biasing_features"): 48,
    ("e-snli", "early_answering"): 29,
    ("e-snli", "filler_tokens"): 38,
    ("e-snli", "adding_mistakes"): 28,
    ("e-snli", "paraphrasing"): 59,
}
"""Values that are known of the recorded runs, thesis table 5.2 next to them."""
DIFFERENT = {("comve", "input_from_explanation")}
"""Cells in which the recorded code differs from that of the thesis (docs/explanation/replay.md)."""


def test_the_study_shows_the_recorded_values_with_intervals_and_verdicts(
    fresh, shared_data
):
    if not (shared_data / "cc_shap_recorded/comve_100.md").is_file():
        pytest.skip(
            "the recorded runs are not here: set WALTZ_DATA with cc_shap_recorded/"
        )
    fresh.snakemake(study="config/recorded.yaml", WALTZ_DATA=str(shared_data))
    results = fresh.folder / "results/recorded"
    with (results / "reporting/tables/thesis-5.2.csv").open() as file:
        cells = [
            row
            for row in csv.DictReader(file)
            if row["model"] == "mistral-7b-chat" and row["value"]
        ]
    values = {(row["dataset"], row["metric"]): float(row["value"]) for row in cells}
    assert values == pytest.approx(MISTRAL, abs=0.001)
    assert all(
        float(row["ci_low"]) <= float(row["value"]) <= float(row["ci_high"])
        for row in cells
    )
    differing = {
        (row["dataset"], row["metric"]) for row in cells if row["verdict"] == "differs"
    }
    assert differing == DIFFERENT
    assert {row["verdict"] for row in cells if ":excess" not in row["metric"]} == {
        "equal to the paper",
        "compatible",
        "differs",
    }
    page = (results / "reporting/report.html").read_text()
    assert "mistral-7b-chat" in page
    heat_maps = results / "reporting/figures/explanations/mistral-7b-chat"
    assert len(json.loads((heat_maps / "index.json").read_text())) == 12


HOSTILE = ("<script>document.title='taken'</script>", "$\\frac{\x1b[2J", "?")


def build_lines():
    """Records of a VL decoder on an instrument and on questions, right on every second item, with
    hostile tokens.
    """
    for item in range(6):
        common = {"model": "mine", "item_id": item, "image": f"{item}.jpg"}
        pair = {**common, "dataset": "existence", "setting": "pairwise"}
        yield {
            **pair,
            "record": "answer",
            "label": "A",
            "gold": "AB"[item % 2],
            "reasoning": HOSTILE[0],
        }
        yield {
            **pair,
            "record": "test",
            "test": "filler_tokens",
            "verdict": item % 2,
            "input": " ".join(HOSTILE),
        }
        for output in ("answer", "explanation"):
            yield {
                **pair,
                "record": "attribution",
                "output": output,
                "tokens": HOSTILE,
                "values": [30.0, 20.0 * (1 if output == "answer" else -1)],
                "suffix": 1,
                "unit": "ratio",
                "grid": 2,
                "patches": [10.0, 20.0, -10.0, -10.0],
                "t_shap": 0.5,
                "prompt": " ".join(HOSTILE),
            }
        question = {
            **common,
            "dataset": "vqa",
            "setting": "open",
            "gold": ["dog", "a dog"],
        }
        yield {
            **question,
            "record": "answer",
            "generation": "A dog" if item % 3 else HOSTILE[0],
        }


def test_json_lines_of_a_vl_decoder_make_its_tables_and_figures(fresh):
    (fresh.folder / "data/runs.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in build_lines())
    )
    study = {
        "study": "tiny",
        "seed": 7,
        "profiles": ["published"],
        "sources": {
            "run": {
                "format": "recorded-runs",
                "files": {
                    name: {"path": "data/runs.jsonl"} for name in ("existence", "vqa")
                },
            }
        },
        "models": {"mine": {"kind": "vision", "recorded": "run"}},
        "groups": {"pairs": ["existence"], "questions": ["vqa"]},
        "evaluation": {"models": ["mine"], "groups": ["pairs", "questions"]},
        "consistency": {"models": ["mine"], "groups": ["pairs"]},
        "reporting": {
            "tables": ["thesis-3.5", "thesis-C.25"],
            "explained_examples": 1,
            "resamples": 100,
            "confidence": 0.9,
        },
    }
    (fresh.folder / "tiny.yaml").write_text(yaml.safe_dump(study))
    fresh.snakemake()
    results = fresh.folder / "results/tiny"
    rows = parquet.read_rows(results / "evaluation/metrics.parquet", METRICS)
    values = {(row["dataset"], row["metric"]): row["value"] for row in rows}
    assert values["existence", "acc_r"] == 50
    assert values["vqa", "accuracy"] == pytest.approx(100 * 4 / 6)
    rows = parquet.read_rows(results / "consistency/metrics.parquet", METRICS)
    values = {
        row["metric"]: row["value"] for row in rows if row["dataset"] == "existence"
    }
    assert values["filler_tokens"] == 50
    assert values["cc_shap_posthoc"] == pytest.approx(1200 / 2000)
    assert values["t_shap_prediction"] == 50
    with (results / "reporting/tables/thesis-C.25.csv").open() as file:
        assert any(
            row["model"] == "mine" and row["metric"] == "cc_shap_posthoc"
            for row in csv.DictReader(file)
        )
    assert HOSTILE[0] not in (results / "reporting/report.html").read_text()
    assert list((results / "reporting/figures/explanations/mine").glob("*.svg"))
    assert "Nothing to be done" in fresh.snakemake()


def test_a_fault_in_a_line_ends_the_job_with_its_place(fresh):
    (fresh.folder / "data/runs.jsonl").write_text('{"record": "test"}\n')
    study = {
        "study": "tiny",
        "seed": 7,
        "profiles": ["published"],
        "sources": {
            "run": {
                "format": "recorded-runs",
                "files": {"comve": {"path": "data/runs.jsonl"}},
            }
        },
        "reporting": {"tables": [], "resamples": 100, "confidence": 0.9},
    }
    (fresh.folder / "tiny.yaml").write_text(yaml.safe_dump(study))
    output = fresh.snakemake("results/tiny/sources/run.parquet", check=False)
    assert "runs.jsonl: line 1: field 'model' is missing" in output
