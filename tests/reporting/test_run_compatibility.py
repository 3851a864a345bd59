"""Runs that do not belong in one table are refused by name."""

import json

import pytest

from waltz.core.errors import UserError
from waltz.reporting.run_compatibility import check_compatible, collect_run_facts, read_run_facts, write_run_facts


def record(folder, model, dataset, dtype="float32", profiles=("published", "equations"), **more):
    path = folder / model / f"{dataset}.run.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"model": {"name": model, "dtype": dtype}, "profiles": list(profiles), **more}))
    return path


def test_runs_that_agree_pass_and_survive_their_file(tmp_path):
    runs = collect_run_facts([record(tmp_path, model, "d", data="1f") for model in ("a", "b")])
    check_compatible(runs, ["published", "equations"])
    write_run_facts(tmp_path / "runs.json", runs)
    assert read_run_facts(tmp_path / "runs.json") == runs


def test_a_model_in_two_dtypes_is_refused(tmp_path):
    runs = collect_run_facts([record(tmp_path, "a", "d"), record(tmp_path, "a", "e", dtype="float16")])
    with pytest.raises(UserError, match=r"a/e.*: dtype of a differs from .*a/d.* \(got float16, expected float32\)"):
        check_compatible(runs, ["published"])


def test_two_models_may_have_dtypes_of_their_own(tmp_path):
    check_compatible(
        collect_run_facts([record(tmp_path, "a", "d"), record(tmp_path, "b", "d", dtype="float16")]), ["published"]
    )


def test_a_data_set_in_two_states_is_refused(tmp_path):
    runs = collect_run_facts([record(tmp_path, "a", "d", data="1f"), record(tmp_path, "b", "d", data="2e")])
    with pytest.raises(UserError, match=r"b/d.*: data digest of d differs from .*a/d.* \(got 2e, expected 1f\)"):
        check_compatible(runs, ["published"])


def test_what_is_not_stated_disagrees_with_nothing(tmp_path):
    runs = collect_run_facts(
        [record(tmp_path, "a", "d"), record(tmp_path, "b", "d", data="2e"), record(tmp_path, "c", "d")]
    )
    check_compatible(runs, ["published"])
    with pytest.raises(UserError, match="data digest"):
        check_compatible([*runs, *collect_run_facts([record(tmp_path, "e", "d", data="3d")])], ["published"])


def test_a_run_without_the_studys_profile_is_refused(tmp_path):
    runs = collect_run_facts([record(tmp_path, "a", "d", profiles=["equations"])])
    with pytest.raises(UserError, match=r"profiles differ from the study \(got equations, expected published\)"):
        check_compatible(runs, ["published"])
    check_compatible(runs, ["equations"])


def test_shards_are_checked_one_by_one(tmp_path):
    path = record(tmp_path, "a", "d")
    first = json.loads(path.read_text())
    settings = {"equations": {}, "tokens": 40}
    second = {**first, "model": {"name": "a", "dtype": "float16"}, "settings": settings, "profiles": None}
    path.write_text(json.dumps([first, second]))
    runs = collect_run_facts([path])
    assert runs[1].facts["profiles"] == "equations"
    with pytest.raises(UserError, match="float16"):
        check_compatible(runs, ["equations"])


def test_a_broken_record_is_named(tmp_path):
    (tmp_path / "x.run.json").write_text("{")
    with pytest.raises(UserError, match=r"x.run.json: run record cannot be read"):
        collect_run_facts([tmp_path / "x.run.json"])
