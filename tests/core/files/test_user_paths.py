"""Paths as people write them into studies."""

import pytest

from waltz.core.files.user_paths import expand_path


def test_homes_and_variables_are_replaced(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("DATA", "/data")
    monkeypatch.chdir(tmp_path)
    assert expand_path("~/own.csv") == "/home/ann/own.csv"
    assert expand_path("$DATA/images/") == "/data/images/"
    assert expand_path("${DATA}/own.csv") == "/data/own.csv"
    assert expand_path("own.csv") == "own.csv"
    assert expand_path("owner/name") == "owner/name"
    assert expand_path("https://x.example/{y}$z") == "https://x.example/{y}$z"


def test_a_path_that_exists_is_taken_as_it_is_written(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "$price.csv").touch()
    assert expand_path("$price.csv") == "$price.csv"


def test_what_cannot_be_a_path_is_refused(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(ValueError, match="NOWHERE is not set"):
        expand_path("$NOWHERE/own.csv")
    with pytest.raises(ValueError, match="a space at its start or end"):
        expand_path("own.csv ")
    (tmp_path / "x{y}.csv").touch()
    with pytest.raises(ValueError, match="a path with braces"):
        expand_path("x{y}.csv")
