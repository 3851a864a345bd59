"""Run records of a study."""

import json

import pytest

from waltz.core.downloads.checksums import LOCK_ON_DOWNLOAD
from waltz.core.downloads.lock_file import record_download
from waltz.core.errors import UserError
from waltz.reporting.run_records import (
    Record,
    check_compatible,
    collect_run_facts,
    read_run_facts,
    resolve_checksums,
    resolve_revisions,
    write_run_facts,
)

URL = "https://example.org/weights.zip"
SHA = "5a" * 32


@pytest.fixture
def lock(tmp_path):
    file = tmp_path / "study.yaml"
    record_download(file, "some/model", {"commit": "c0ffee"})
    record_download(file, URL, {"sha256": SHA, "size": 3})
    return file


def test_models_say_what_was_fetched_for_them(lock):
    models = {"hub": "some/model", "web": f"{URL}#inside.bin", "new": "other/model"}
    records = [
        Record(
            f"evaluation/{name}/a",
            {"model": {"name": name, "revision": LOCK_ON_DOWNLOAD}, "n": 3},
        )
        for name in models
    ]
    pinned = Record(
        "evaluation/pinned/a", {"model": {"name": "pinned", "revision": "abc"}}
    )
    several = Record(
        "filters/a", {"models": {"nli": {"name": "hub", "revision": LOCK_ON_DOWNLOAD}}}
    )
    plain = Record("sources/a", {"rows_in": 4})
    resolved = resolve_revisions([*records, pinned, several, plain], models, lock)
    assert [record.facts["model"]["revision"] for record in resolved[:4]] == [
        "c0ffee",
        SHA,
        LOCK_ON_DOWNLOAD,
        "abc",
    ]
    assert resolved[4].facts["models"]["nli"]["revision"] == "c0ffee"
    assert resolved[5] == plain
    assert [record.facts.get("n") for record in resolved[:3]] == [3, 3, 3]
    assert records[0].facts["model"]["revision"] == LOCK_ON_DOWNLOAD


def test_files_and_images_say_the_checksum_of_what_was_fetched(lock):
    sources = {
        "one": {
            "files": {
                "a": {"url": URL, "sha256": LOCK_ON_DOWNLOAD},
                "b": {"path": "b.csv"},
            },
            "images": {"url": URL, "sha256": LOCK_ON_DOWNLOAD},
        },
        "two": {
            "files": {"c": {"url": "https://x.org/c", "sha256": "77"}},
            "images": [{"url": f"{URL}#d", "sha256": LOCK_ON_DOWNLOAD}],
        },
    }
    resolved = resolve_checksums(sources, lock)
    assert [
        resolved["one"]["files"]["a"]["sha256"],
        resolved["one"]["images"]["sha256"],
    ] == [SHA, SHA]
    assert resolved["one"]["files"]["b"] == {"path": "b.csv"}
    assert [
        resolved["two"]["files"]["c"]["sha256"],
        resolved["two"]["images"][0]["sha256"],
    ] == ["77", SHA]


def test_a_study_that_fetched_nothing_has_no_lock_file(tmp_path):
    records = [
        Record(
            "evaluation/hub/a", {"model": {"name": "hub", "revision": LOCK_ON_DOWNLOAD}}
        )
    ]
    assert (
        resolve_revisions(records, {"hub": "some/model"}, tmp_path / "none.yaml")
        == records
    )


def record(
    folder, model, dataset, dtype="float32", profiles=("published", "equations"), **more
):
    path = folder / model / f"{dataset}.run.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps(
            {
                "model": {"name": model, "dtype": dtype},
                "profiles": list(profiles),
                **more,
            }
        )
    )
    return path


def test_runs_that_agree_pass_and_survive_their_file(tmp_path):
    runs = collect_run_facts(
        [record(tmp_path, model, "d", data="1f") for model in ("a", "b")]
    )
    check_compatible(runs, ["published", "equations"])
    write_run_facts(tmp_path / "runs.json", runs)
    assert read_run_facts(tmp_path / "runs.json") == runs


def test_a_model_in_two_dtypes_is_refused(tmp_path):
    runs = collect_run_facts(
        [record(tmp_path, "a", "d"), record(tmp_path, "a", "e", dtype="float16")]
    )
    with pytest.raises(
        UserError,
        match=r"a/e.*: dtype of a differs from .*a/d.* \(got float16, expected float32\)",
    ):
        check_compatible(runs, ["published"])


def test_two_models_may_have_dtypes_of_their_own(tmp_path):
    check_compatible(
        collect_run_facts(
            [record(tmp_path, "a", "d"), record(tmp_path, "b", "d", dtype="float16")]
        ),
        ["published"],
    )


def test_a_data_set_in_two_states_is_refused(tmp_path):
    runs = collect_run_facts(
        [record(tmp_path, "a", "d", data="1f"), record(tmp_path, "b", "d", data="2e")]
    )
    with pytest.raises(
        UserError,
        match=r"b/d.*: data digest of d differs from .*a/d.* \(got 2e, expected 1f\)",
    ):
        check_compatible(runs, ["published"])


def test_what_is_not_stated_disagrees_with_nothing(tmp_path):
    runs = collect_run_facts(
        [
            record(tmp_path, "a", "d"),
            record(tmp_path, "b", "d", data="2e"),
            record(tmp_path, "c", "d"),
        ]
    )
    check_compatible(runs, ["published"])
    with pytest.raises(UserError, match="data digest"):
        check_compatible(
            [*runs, *collect_run_facts([record(tmp_path, "e", "d", data="3d")])],
            ["published"],
        )


def test_a_run_without_the_studys_profile_is_refused(tmp_path):
    runs = collect_run_facts([record(tmp_path, "a", "d", profiles=["equations"])])
    with pytest.raises(
        UserError,
        match=r"profiles differ from the study \(got equations, expected published\)",
    ):
        check_compatible(runs, ["published"])
    check_compatible(runs, ["equations"])


def test_shards_are_checked_one_by_one(tmp_path):
    path = record(tmp_path, "a", "d")
    first = json.loads(path.read_text())
    settings = {"equations": {}, "tokens": 40}
    second = {
        **first,
        "model": {"name": "a", "dtype": "float16"},
        "settings": settings,
        "profiles": None,
    }
    path.write_text(json.dumps([first, second]))
    runs = collect_run_facts([path])
    assert runs[1].facts["profiles"] == "equations"
    with pytest.raises(UserError, match="float16"):
        check_compatible(runs, ["equations"])


def test_a_record_that_the_system_refuses_is_not_to_be_deleted(tmp_path):
    file = tmp_path / "x.run.json"
    file.symlink_to(file)
    with pytest.raises(
        UserError,
        match=r"x.run.json: run record cannot be read: Too many levels .*; check the path",
    ):
        collect_run_facts([file])


def test_a_broken_record_is_named(tmp_path):
    (tmp_path / "x.run.json").write_text("{")
    with pytest.raises(UserError, match=r"x.run.json: run record cannot be read"):
        collect_run_facts([tmp_path / "x.run.json"])
