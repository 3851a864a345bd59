"""Cache of results by the digest of their content."""

import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from waltz.core.errors import UserError
from waltz.core.files import result_cache

WRITER = """
import sys
from pathlib import Path
import numpy as np
from waltz.core.files import result_cache
for number in range(100_000):
    result_cache.save(Path(sys.argv[1]), f"key-{number}", np.full(2000, float(number)))
    print(number, flush=True)
"""


@pytest.fixture(autouse=True)
def _other_process(monkeypatch):
    """Open files anew in each test."""
    result_cache._open.cache_clear()
    monkeypatch.delenv(result_cache.POLICY, raising=False)


@pytest.fixture
def file(tmp_path):
    return result_cache.get_cache_file(tmp_path / "pairs.0.parquet")


def refuse_to_compute():
    raise AssertionError("it is computed again")


def test_an_array_is_computed_once_and_stored_under_the_digest_of_its_content(file):
    computed = []

    def compute():
        computed.append(1)
        return np.array([0.1, np.nan])

    content = {"texts": ["a"], "seed": 1}
    first = result_cache.load_or_compute(file, content, compute)
    again = result_cache.load_or_compute(file, {"seed": 1, "texts": ["a"]}, compute)
    np.testing.assert_array_equal(first, again)
    assert len(computed) == 1
    result_cache.load_or_compute(file, content | {"seed": 2}, compute)
    assert len(computed) == 2
    assert [path.name for path in file.parent.iterdir()] == ["pairs.0.sqlite"]


def test_without_a_file_nothing_is_stored():
    assert result_cache.load_or_compute(None, {}, lambda: np.ones(1)).tolist() == [1.0]


def test_json_values_come_back_bit_by_bit_and_null_is_a_value(file):
    rows = [{"phi": 0.1 + 0.2, "reason": None}]
    assert result_cache.load_or_compute_json(file, {"a": 1}, lambda: rows) == rows
    assert result_cache.load_or_compute_json(file, {"a": 1}, refuse_to_compute) == rows
    assert result_cache.load_or_compute_json(file, {"a": 2}, lambda: None) is None
    assert result_cache.load_or_compute_json(file, {"a": 2}, refuse_to_compute) is None


def test_each_job_has_a_file_in_the_folder_that_it_shares(tmp_path):
    output = tmp_path / "cc-shap/shards/pairs.10.parquet"
    assert (
        result_cache.get_cache_file(output, tmp_path)
        == tmp_path / ".store/cc-shap.shards.pairs.10.sqlite"
    )
    assert (
        result_cache.get_cache_file(output)
        == tmp_path / "cc-shap/shards/.store/pairs.10.sqlite"
    )


def test_results_of_jobs_in_the_same_folder_are_found_after_other_shards_are_cut(
    tmp_path,
):
    content = [{"item": number} for number in range(6)]
    old = [
        result_cache.get_cache_file(tmp_path / f"pairs.{shard}.parquet")
        for shard in range(3)
    ]
    for number, item in enumerate(content):
        result_cache.load_or_compute(
            old[number % 3], item, lambda number=number: np.array([number])
        )
    result_cache._open.cache_clear()
    new = [
        result_cache.get_cache_file(tmp_path / f"pairs.{shard}.parquet")
        for shard in range(2)
    ]
    values = [
        result_cache.load_or_compute(new[number % 2], item, refuse_to_compute)
        for number, item in enumerate(content)
    ]
    assert np.concatenate(values).tolist() == list(range(6))


def test_a_damaged_file_of_another_job_is_passed_over_and_an_own_one_is_named(
    tmp_path, file
):
    other = result_cache.get_cache_file(tmp_path / "pairs.1.parquet")
    file.parent.mkdir()
    other.write_bytes(b"no database" * 100)
    assert result_cache.load_or_compute(file, {}, lambda: np.ones(1)).tolist() == [1.0]
    with pytest.raises(
        UserError,
        match=r"pairs\.1\.sqlite: stored results cannot be read or written .* delete it",
    ):
        result_cache.load(other, "key")


def test_a_file_that_the_system_refuses_is_not_to_be_deleted(file):
    file.parent.mkdir()
    match = r"0\.sqlite: stored results .* and the file may be whole; check its"
    with (
        pytest.raises(UserError, match=match) as refusal,
        result_cache._name_faults(file),
    ):
        sqlite3.connect("file:/nowhere/0.sqlite?mode=ro", uri=True)
    assert "delete" not in str(refusal.value)


@pytest.mark.parametrize(
    "damage",
    [lambda value: value[:500], lambda value: value[:700] + b"x" + value[701:], str],
)
def test_a_damaged_value_is_computed_again(damage, file):
    array = np.arange(1000.0)
    result_cache.save(file, "key", array)
    own = result_cache._open(file).connection
    ((value,),) = own.execute("SELECT value FROM results").fetchall()
    own.execute("UPDATE results SET value = ?", (damage(value),))
    assert result_cache.load(file, "key") is None
    result_cache.save(file, "key", array)
    np.testing.assert_array_equal(result_cache.load(file, "key"), array)


def test_a_killed_job_loses_at_most_what_it_was_writing(file):
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, text=True
        )
        written = [int(next(process.stdout)) for _ in range(50)][-1]
        process.send_signal(signal.SIGKILL)
        written = int((process.communicate()[0].splitlines() or [written])[-1])
        result_cache._open.cache_clear()
        assert result_cache._open(file).connection.execute(
            "PRAGMA integrity_check"
        ).fetchall() == [("ok",)]
        for number in range(written + 1):
            assert (result_cache.load(file, f"key-{number}") == number).all()


@pytest.mark.parametrize(("policy", "value"), [("reuse", 1.0), ("recompute", 2.0)])
def test_results_of_other_package_versions_are_used_only_if_the_study_says_so(
    file, monkeypatch, policy, value
):
    monkeypatch.setattr(result_cache, "_describe_packages", lambda: "torch 2.12.0")
    result_cache.save(file, result_cache.compute_key(a=1), np.ones(1))
    monkeypatch.setattr(result_cache, "_describe_packages", lambda: "torch 2.13.0")
    with pytest.raises(
        UserError,
        match=r"got torch 2\.12\.0, expected torch 2\.13\.0\); .*set stored_versions",
    ):
        result_cache.load_or_compute(file, {"a": 1}, lambda: np.full(1, 2.0))
    monkeypatch.setenv(result_cache.POLICY, policy)
    assert result_cache.load_or_compute(
        file, {"a": 1}, lambda: np.full(1, 2.0)
    ).tolist() == [value]
    monkeypatch.delenv(result_cache.POLICY)
    if policy == "recompute":  # it is now of these versions
        assert result_cache.load_or_compute(
            file, {"a": 1}, refuse_to_compute
        ).tolist() == [value]


def test_keys_of_other_jobs_take_twelve_bytes_and_the_last_file_counts(tmp_path, file):
    others = [
        result_cache.get_cache_file(tmp_path / f"pairs.{shard}.parquet")
        for shard in (1, 2)
    ]
    for number, other in enumerate(others, start=1):
        result_cache.save(other, "shared", np.array([number]))
        for item in range(20):
            result_cache.save(other, f"{number}-{item}", np.array([item]))
    opened = result_cache._open(file)
    assert opened.digests.nbytes + opened.owners.nbytes == 42 * 12
    assert result_cache.load(file, "shared").tolist() == [2]
    assert [result_cache.load(file, f"1-{item}")[0] for item in range(20)] == list(
        range(20)
    )
    assert result_cache.load(file, "absent") is None
