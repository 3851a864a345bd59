"""The real workflow, copied, on a tiny study."""

import shutil

import pytest

from workflow_checkout import Checkout, checkout


@pytest.fixture(scope="session")
def finished(tmp_path_factory, tiny_model_folder) -> Checkout:
    """A checkout whose tiny study ran to its end; look, but do not touch."""
    done = checkout(tmp_path_factory.mktemp("finished") / "waltz", tiny_model_folder)
    done.snakemake()
    return done


@pytest.fixture
def after_run(finished, tmp_path) -> Checkout:
    """A copy of the finished checkout, to be changed."""
    copy = tmp_path / "waltz"
    shutil.copytree(finished.folder, copy, symlinks=True)
    return Checkout(copy)


@pytest.fixture
def fresh(tmp_path, tiny_model_folder) -> Checkout:
    """A checkout in which nothing ran yet."""
    return checkout(tmp_path / "waltz", tiny_model_folder)
