"""Checkouts of the real workflow that a test may change."""

import shutil

import pytest

from workflow_runs.checkout import Checkout, checkout


@pytest.fixture
def after_run(tiny_run, tmp_path) -> Checkout:
    """A copy of the finished tiny study, to be changed."""
    copy = tmp_path / "waltz"
    shutil.copytree(tiny_run.folder, copy, symlinks=True)
    return Checkout(copy)


@pytest.fixture
def fresh(tmp_path, tiny_model_folder) -> Checkout:
    """A checkout in which nothing ran yet."""
    return checkout(tmp_path / "waltz", tiny_model_folder)
