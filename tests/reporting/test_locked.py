import pytest

from waltz.core.files.download_lock import LOCK, record
from waltz.reporting.page.resolved_revisions import with_checksums, with_revisions
from waltz.reporting.page.run_facts import Record

URL = "https://example.org/weights.zip"


@pytest.fixture
def lock(tmp_path):
    file = tmp_path / "study.yaml"
    record(file, "some/model", {"commit": "c0ffee"})
    record(file, URL, {"sha256": "5a", "size": 3})
    return file


def test_models_say_what_was_fetched_for_them(lock):
    models = {"hub": "some/model", "web": f"{URL}#inside.bin", "new": "other/model"}
    records = [Record(f"evaluation/{name}/a", {"model": {"name": name, "revision": LOCK}, "n": 3}) for name in models]
    pinned = Record("evaluation/pinned/a", {"model": {"name": "pinned", "revision": "abc"}})
    several = Record("filters/a", {"models": {"nli": {"name": "hub", "revision": LOCK}}})
    plain = Record("sources/a", {"rows_in": 4})
    found = with_revisions([*records, pinned, several, plain], models, lock)
    assert [record.facts["model"]["revision"] for record in found[:4]] == ["c0ffee", "5a", LOCK, "abc"]
    assert found[4].facts["models"]["nli"]["revision"] == "c0ffee"
    assert found[5] == plain
    assert [record.facts.get("n") for record in found[:3]] == [3, 3, 3]
    assert records[0].facts["model"]["revision"] == LOCK


def test_files_and_images_say_the_checksum_of_what_was_fetched(lock):
    sources = {
        "one": {
            "files": {"a": {"url": URL, "sha256": LOCK}, "b": {"path": "b.csv"}},
            "images": {"url": URL, "sha256": LOCK},
        },
        "two": {
            "files": {"c": {"url": "https://x.org/c", "sha256": "77"}},
            "images": [{"url": f"{URL}#d", "sha256": LOCK}],
        },
    }
    found = with_checksums(sources, lock)
    assert [found["one"]["files"]["a"]["sha256"], found["one"]["images"]["sha256"]] == ["5a", "5a"]
    assert found["one"]["files"]["b"] == {"path": "b.csv"}
    assert [found["two"]["files"]["c"]["sha256"], found["two"]["images"][0]["sha256"]] == ["77", "5a"]


def test_a_study_that_fetched_nothing_has_no_lock_file(tmp_path):
    records = [Record("evaluation/hub/a", {"model": {"name": "hub", "revision": LOCK}})]
    assert with_revisions(records, {"hub": "some/model"}, tmp_path / "none.yaml") == records
