import multiprocessing

import pytest
import yaml

from waltz.core.errors import UserError
from waltz.core.files.download_lock import read_recorded, record_download

URL = "https://example.org/a.zip"


def test_the_first_download_is_recorded_and_an_equal_second_one_changes_nothing(tmp_path):
    file = tmp_path / "locks" / "mine.yaml"
    assert read_recorded(file, URL, "sha256") is None
    record_download(file, URL, {"sha256": "a" * 64, "size": 3})
    content = file.read_bytes()
    record_download(file, URL, {"sha256": "a" * 64, "size": 3})
    assert file.read_bytes() == content
    assert read_recorded(file, URL, "sha256") == "a" * 64
    (entry,) = yaml.safe_load(file.read_text()).values()
    assert set(entry) == {"sha256", "size", "date"}


def test_a_different_checksum_is_an_error_that_names_both(tmp_path):
    file = tmp_path / "mine.yaml"
    record_download(file, URL, {"sha256": "a" * 64, "size": 3})
    with pytest.raises(
        UserError, match=f"^{URL}: sha256 is b{{64}}, .*mine.yaml says a{{64}} .recorded 20.*get the same"
    ):
        record_download(file, URL, {"sha256": "b" * 64, "size": 3})
    assert read_recorded(file, URL, "sha256") == "a" * 64


@pytest.mark.parametrize("text", ["- a\n", "a: b\n", "a: [\n"])
def test_a_file_of_another_kind_is_an_error_with_its_name(tmp_path, text):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UserError, match=r"mine\.yaml: not a lock file"):
        read_recorded(tmp_path / "mine.yaml", URL, "sha256")


def _record(task):
    file, number = task
    for entry in range(10):
        record_download(file, f"https://example.org/{number}/{entry}", {"sha256": "c" * 64, "size": entry})


def test_concurrent_jobs_lose_no_entry(tmp_path):
    file = tmp_path / "mine.yaml"
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(_record, [(file, number) for number in range(4)])
    assert len(yaml.safe_load(file.read_text())) == 40
