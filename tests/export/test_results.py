"""Results as records of Every Eval Ever: one file for each model, with interval, revision, seed and
data.
"""

import json
import os
from pathlib import Path

import jsonschema
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.schema import METRICS
from waltz.export.results import ResultSettings, export_results

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SETTINGS = {
    "study": "small",
    "seed": 7,
    "resamples": 500,
    "confidence": 0.9,
    "parts": ["existence"],
    "weights": {"clip": "group/clip", "own": "models/own"},
    "locked": {},
    "lock": "no.yaml",
    "about": {},
}


def number(model, dataset="existence", **changes):
    row = {
        "model": model,
        "dataset": dataset,
        "profile": "equations",
        "setting": "alignment",
        "metric": "acc_r",
    }
    return (
        row
        | {"value": 75.0, "n": 40, "ci_low": 60.0, "ci_high": 85.0}
        | {"ci_method": "bootstrap", "reason": None}
        | changes
    )


def run(model, revision, dataset="existence"):
    facts = {
        "name": model,
        "revision": revision,
        "dtype": "float32",
        "kind": "clip",
        "weights": "/private/weights",
    }
    packages = {"torch": "2.13.0"}
    return {
        "model": facts,
        "dataset": dataset,
        "data": "ab" * 32,
        "device": "cpu",
        "commit": "c0ffee",
        "packages": packages,
    }


@pytest.fixture
def export(tmp_path):
    """Export some rows and run records; return the facts of the job and the written documents by
    their paths.
    """

    def export_rows(rows, runs, **changes):
        folder = tmp_path / "evaluation"
        folder.mkdir()
        parquet.write_rows(folder / "metrics.parquet", rows, METRICS)
        (folder / "a.run.json").write_text(json.dumps(runs))
        settings = ResultSettings(**SETTINGS | changes)
        records = [str(folder / "a.run.json")]
        facts = export_results(
            folder / "metrics.parquet",
            records,
            settings,
            tmp_path / "out",
            1_700_000_000,
        )
        files = sorted((tmp_path / "out").rglob("*.json"))
        return facts, {
            file.relative_to(tmp_path / "out"): json.loads(file.read_text())
            for file in files
        }

    return export_rows


def test_each_model_has_a_record_with_its_provenance(export):
    rows = [
        number("clip"),
        number("clip", "own", metric="ties", ci_low=None, ci_high=None),
        number("own"),
    ]
    rows.append(
        number(
            "own",
            metric="auroc",
            value=None,
            ci_low=None,
            ci_high=None,
            reason="not applicable",
        )
    )
    facts, documents = export(rows, [run("clip", COMMIT), run("own", "local")])
    assert facts == {
        "rows_in": 4,
        "rows_out": 3,
        "without_value": {"not applicable": 1},
    }
    assert [path.parts[:4] for path in documents] == [
        ("data", "small", "group", "clip"),
        ("data", "small", "local", "own"),
    ]
    clip, own = documents.values()
    assert clip["model_info"]["id"] == "group/clip"
    assert clip["model_info"]["additional_details"]["revision"] == COMMIT
    assert clip["source_metadata"]["additional_details"] == {
        "commit": "c0ffee",
        "device": "cpu",
    }
    assert clip["eval_library"]["additional_details"] == {"package torch": "2.13.0"}
    assert own["model_info"]["additional_details"]["model_availability"] == "unknown"
    assert "/private" not in json.dumps([clip, own])

    first, second = clip["evaluation_results"]
    assert first["score_details"]["score"] == 75.0
    assert first["score_details"]["uncertainty"] == {
        "num_samples": 40,
        "num_bootstrap_samples": 500,
        "confidence_interval": {
            "lower": 60.0,
            "upper": 85.0,
            "confidence_level": 0.9,
            "method": "bootstrap",
        },
    }
    assert first["source_data"]["additional_details"] == {"data SHA-256": "ab" * 32}
    assert first["generation_config"]["additional_details"]["seed"] == "7"
    assert "confidence_interval" not in second["score_details"]["uncertainty"]
    assert (
        first["metric_config"]["lower_is_better"],
        second["metric_config"]["lower_is_better"],
    ) == (False, True)


@pytest.mark.parametrize("field", ["server", "recorded"])
def test_a_model_that_no_job_ran_is_not_called_self_deployed(export, field):
    served = run("own", "local")
    served["model"][field] = "elsewhere"
    _, documents = export(
        [number("clip"), number("own")], [run("clip", COMMIT), served]
    )
    clip, own = documents.values()
    assert (
        clip["model_info"]["additional_details"]["deployment_type"] == "self_deployed"
    )
    assert "deployment_type" not in own["model_info"]["additional_details"]


@pytest.mark.parametrize("method", ["clopper-pearson", "binomial-bound", "zou-donner"])
def test_an_interval_that_is_no_bootstrap_says_so(export, method):
    _, documents = export([number("clip", ci_method=method)], [run("clip", COMMIT)])
    (result,) = next(iter(documents.values()))["evaluation_results"]
    uncertainty = result["score_details"]["uncertainty"]
    assert uncertainty["confidence_interval"]["method"] == method
    assert "num_bootstrap_samples" not in uncertainty


def test_published_data_sets_are_named_by_their_repository(export):
    about = {
        "url": "https://huggingface.co/datasets/group/mine",
        "creators": ["Our group"],
    }
    _, documents = export(
        [number("clip"), number("clip", "average")], [run("clip", COMMIT)], about=about
    )
    (document,) = documents.values()
    published, average = (
        result["source_data"] for result in document["evaluation_results"]
    )
    assert (published["source_type"], published["hf_repo"]) == (
        "hf_dataset",
        "group/mine",
    )
    assert average["source_type"] == "other"
    assert document["source_metadata"]["source_organization_name"] == "Our group"


def test_models_and_data_on_the_hub_have_files_for_the_models_repositories(
    export, tmp_path
):
    about = {"url": "https://huggingface.co/datasets/group/mine"}
    others = [number("clip", metric="auroc"), number("clip", "average"), number("own")]
    rows = [
        number("clip"),
        number("clip", profile="published", ci_low=None, ci_high=None),
        *others,
    ]
    export(rows, [run("clip", COMMIT), run("own", "local")], about=about)
    folder = tmp_path / "out/hub/group/clip/.eval_results"
    assert sorted(tmp_path.glob("out/hub/*/*/.eval_results/*")) == [
        folder / "small-equations-alignment.yaml",
        folder / "small-published-alignment.yaml",
    ]
    (entry,) = parse_eval_result_entries(
        yaml.safe_load((folder / "small-equations-alignment.yaml").read_text())
    )
    assert (entry.dataset_id, entry.task_id, entry.value) == (
        "group/mine",
        "existence",
        75.0,
    )
    assert entry.notes.startswith(
        "acc_r in percent (90 % interval 60.0 to 85.0) of 40 pairs; alignment, profile equations"
    )
    assert entry.notes.endswith(f"model at {COMMIT}")


def test_without_a_data_set_on_the_hub_models_have_no_files_for_their_repositories(
    export, tmp_path
):
    export([number("clip")], [run("clip", COMMIT)])
    assert not (tmp_path / "out/hub").exists()


def test_a_model_without_a_run_record_is_an_error(export):
    with pytest.raises(UserError, match="no run record names the model 'clip'"):
        export([number("clip")], [run("own", "local")])


@pytest.mark.workflow
@pytest.mark.skipif(
    "WALTZ_EVERY_EVAL_EVER" not in os.environ,
    reason="WALTZ_EVERY_EVAL_EVER names no schema",
)
@pytest.mark.parametrize(
    "about", [{}, {"url": "https://huggingface.co/datasets/group/mine"}]
)
def test_records_are_valid_for_the_schema(export, about):
    schema = json.loads(Path(os.environ["WALTZ_EVERY_EVAL_EVER"]).read_text())
    rows = [
        number("clip"),
        number("clip", "average", ci_low=None, ci_high=None),
        number("own"),
    ]
    _, documents = export(rows, [run("clip", COMMIT), run("own", "local")], about=about)
    for document in documents.values():
        assert document["schema_version"] == schema["version"]
        jsonschema.Draft7Validator(schema).validate(document)


@pytest.mark.parametrize(
    "weights", ["../..", "group/..", "./clip", "a/b/c", "group/clip\n"]
)
def test_weights_that_are_no_hub_id_name_no_folder(export, weights):
    _, documents = export(
        [number("clip")], [run("clip", COMMIT)], weights={"clip": weights}
    )
    assert [path.parts[:4] for path in documents] == [
        ("data", "small", "local", "clip")
    ]
