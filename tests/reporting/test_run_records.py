"""Run records of a study."""

import json

import pytest

from waltz.core.downloads.checksums import LOCK_ON_DOWNLOAD
from waltz.core.downloads.lock_file import record_download
from waltz.core.errors import UserError
from waltz.reporting.page.sources import describe_sources
from waltz.reporting.run_records import (
    RunRecord,
    check_compatible,
    collect_run_facts,
    read_run_facts,
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


def run_record(name, **facts):
    return RunRecord.model_validate({"name": name, **facts})


def test_models_say_what_was_fetched_for_them(lock):
    models = {"hub": "some/model", "web": f"{URL}#inside.bin", "new": "other/model"}
    records = [
        run_record(
            f"evaluation/{name}/a",
            model={"name": name, "revision": LOCK_ON_DOWNLOAD},
            rows_in=3,
        )
        for name in models
    ]
    pinned = run_record(
        "evaluation/pinned/a", model={"name": "pinned", "revision": "abc"}
    )
    several = run_record(
        "filters/a", models={"nli": {"name": "hub", "revision": LOCK_ON_DOWNLOAD}}
    )
    plain = run_record("sources/a", rows_in=4)
    resolved = resolve_revisions([*records, pinned, several, plain], models, lock)
    assert [record.models[0].revision for record in resolved[:5]] == [
        "c0ffee",
        SHA,
        LOCK_ON_DOWNLOAD,
        "abc",
        "c0ffee",
    ]
    assert resolved[5] == plain
    assert [record.rows_in for record in resolved[:3]] == [3, 3, 3]
    assert records[0].models[0].revision == LOCK_ON_DOWNLOAD


def test_entries_that_are_no_models_are_ignored():
    named = run_record("a", model="none", models={"nli": None, "mlm": {"name": "bert"}})
    assert [model.name for model in named.models] == ["bert"]


def test_files_and_images_say_the_checksum_of_what_was_fetched(lock):
    locked = {"url": URL, "sha256": LOCK_ON_DOWNLOAD}
    sources = {
        "one": {"files": {"a": locked, "b": {"path": "b.csv"}}, "images": locked},
        "two": {
            "files": {"c": {"url": "https://x.org/c", "sha256": "77"}},
            "images": [{"url": f"{URL}#d", "sha256": LOCK_ON_DOWNLOAD}],
        },
    }
    sources = {name: {"format": "pairs", **source} for name, source in sources.items()}
    one, two = describe_sources(sources, [], lock)
    assert [(file.name, file.sha256) for file in one.files] == [
        ("a", SHA),
        ("b", ""),
        ("images", SHA),
    ]
    assert [(file.name, file.sha256) for file in two.files] == [
        ("c", "77"),
        ("images-1", SHA),
    ]


def test_a_source_says_where_it_is_from_and_how_many_rows_it_has(tmp_path):
    sources = {
        "drawn": {"format": "scenes", "files": {"a": {"drawn": "train.json"}}},
        "listed": {
            "format": "pairs",
            "files": {"a": {"path": "a.csv"}},
            "images": {"listed": "b.tsv"},
        },
    }
    records = [run_record("sources/listed", rows_in=9, rejected=2)]
    drawn, listed = describe_sources(sources, records, tmp_path / "no.lock")
    assert [file.origin for file in drawn.files] == ["drawn: train.json"]
    assert drawn.licence == "drawn by this package, sprites CC-BY 4.0"
    assert drawn.record is None
    assert [file.origin for file in listed.files] == ["a.csv", "b.tsv"]
    assert (listed.licence, listed.record) == ("not stated", records[0])


def test_a_study_that_fetched_nothing_has_no_lock_file(tmp_path):
    records = [
        run_record(
            "evaluation/hub/a", model={"name": "hub", "revision": LOCK_ON_DOWNLOAD}
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
    assert read_run_facts([tmp_path / "runs.json"]) == runs


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


def test_a_fact_of_another_type_is_named(tmp_path):
    (tmp_path / "x.run.json").write_text('{"rows_in": "many"}')
    with pytest.raises(
        UserError,
        match=r"x\.run\.json: run record cannot be read \(0\.rows_in: .*integer.*\); delete",
    ):
        collect_run_facts([tmp_path / "x.run.json"])
