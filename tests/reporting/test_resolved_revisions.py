import pytest

from waltz.core.files.download_lock import LOCK_ON_DOWNLOAD, record_download
from waltz.reporting.page.resolved_revisions import resolve_checksums, resolve_revisions
from waltz.reporting.page.run_facts import Record

URL = "https://example.org/weights.zip"


@pytest.fixture
def lock(tmp_path):
    file = tmp_path / "study.yaml"
    record_download(file, "some/model", {"commit": "c0ffee"})
    record_download(file, URL, {"sha256": "5a", "size": 3})
    return file


def test_models_say_what_was_fetched_for_them(lock):
    models = {"hub": "some/model", "web": f"{URL}#inside.bin", "new": "other/model"}
    records = [
        Record(f"evaluation/{name}/a", {"model": {"name": name, "revision": LOCK_ON_DOWNLOAD}, "n": 3})
        for name in models
    ]
    pinned = Record("evaluation/pinned/a", {"model": {"name": "pinned", "revision": "abc"}})
    several = Record("filters/a", {"models": {"nli": {"name": "hub", "revision": LOCK_ON_DOWNLOAD}}})
    plain = Record("sources/a", {"rows_in": 4})
    resolved = resolve_revisions([*records, pinned, several, plain], models, lock)
    assert [record.facts["model"]["revision"] for record in resolved[:4]] == ["c0ffee", "5a", LOCK_ON_DOWNLOAD, "abc"]
    assert resolved[4].facts["models"]["nli"]["revision"] == "c0ffee"
    assert resolved[5] == plain
    assert [record.facts.get("n") for record in resolved[:3]] == [3, 3, 3]
    assert records[0].facts["model"]["revision"] == LOCK_ON_DOWNLOAD


def test_files_and_images_say_the_checksum_of_what_was_fetched(lock):
    sources = {
        "one": {
            "files": {"a": {"url": URL, "sha256": LOCK_ON_DOWNLOAD}, "b": {"path": "b.csv"}},
            "images": {"url": URL, "sha256": LOCK_ON_DOWNLOAD},
        },
        "two": {
            "files": {"c": {"url": "https://x.org/c", "sha256": "77"}},
            "images": [{"url": f"{URL}#d", "sha256": LOCK_ON_DOWNLOAD}],
        },
    }
    resolved = resolve_checksums(sources, lock)
    assert [resolved["one"]["files"]["a"]["sha256"], resolved["one"]["images"]["sha256"]] == ["5a", "5a"]
    assert resolved["one"]["files"]["b"] == {"path": "b.csv"}
    assert [resolved["two"]["files"]["c"]["sha256"], resolved["two"]["images"][0]["sha256"]] == ["77", "5a"]


def test_a_study_that_fetched_nothing_has_no_lock_file(tmp_path):
    records = [Record("evaluation/hub/a", {"model": {"name": "hub", "revision": LOCK_ON_DOWNLOAD}})]
    assert resolve_revisions(records, {"hub": "some/model"}, tmp_path / "none.yaml") == records
