"""A study that takes ten seconds, undisturbed and to be disturbed."""

import pytest
import yaml

from workflow_runs.checkout import TARGET, Checkout, checkout, copied, tiny_study
from workflow_runs.shared_folder import build_once


@pytest.fixture(scope="session")
def small(tmp_path_factory, tiny_model_folder) -> Checkout:
    """A checkout whose study has few jobs, in which nothing ran yet; copy it."""
    small_checkout = checkout(
        tmp_path_factory.mktemp("small") / "waltz", tiny_model_folder
    )
    study = tiny_study(tiny_model_folder)
    study["profiles"] = ["equations"]
    study["threads"] = 1
    study["sources"].pop("release")
    study["groups"] = {"pairs": ["own-counting"]}
    study["reporting"]["tables"] = ["thesis-3.4"]
    (small_checkout.folder / "tiny.yaml").write_text(
        yaml.safe_dump(study, sort_keys=False)
    )
    return small_checkout


@pytest.fixture
def fresh(small, tmp_path) -> Checkout:
    """A checkout in which nothing ran yet."""
    return copied(small, tmp_path / "waltz")


@pytest.fixture(scope="session")
def undisturbed(small, tmp_path_factory) -> Checkout:
    """The same after an undisturbed run; look, but do not touch."""

    def build(folder):
        copied(small, folder).snakemake(TARGET)

    return Checkout(build_once(tmp_path_factory, "undisturbed", build))


@pytest.fixture
def finished(undisturbed, tmp_path) -> Checkout:
    """A copy of the finished checkout, to be changed."""
    return copied(undisturbed, tmp_path / "waltz")
