"""Data, splits and checkpoints of the thesis study, compared with what papers and released
configurations state.
"""

import json
from pathlib import Path
from urllib.parse import urldefrag

import pytest

from stand_ins.yaml_files import read_yaml
from waltz.plan.build_plan import build_plan
from waltz.plan.read_study import read_study
from waltz.reporting.tables.declarations import TABLES
from waltz.valse_release import RELEASE

CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture(scope="module")
def thesis():
    return read_yaml(CONFIG / "thesis.yaml")


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("gqa", "val_all_questions.json"),
        ("gqa-balanced", "val_balanced_questions.json"),
    ],
)
def test_gqa_is_its_validation_split(thesis, source, file):
    """Thesis 4.4.1, MM-SHAP 4.1, and the released configurations of encoders and decoders."""
    files = thesis["sources"][source]["files"]
    assert {
        name: urldefrag(entry["url"]).fragment for name, entry in files.items()
    } == {"val": file}


@pytest.mark.parametrize("name", RELEASE)
def test_an_instrument_is_built_from_the_split_of_its_release(
    thesis, shared_data, name
):
    release = json.loads(
        (shared_data / "valse" / f"{RELEASE[name].file}.json").read_text()
    )
    entry = thesis["instruments"][name]
    splits = entry.get("splits") or thesis["sources"][entry["source"]]["files"]
    assert {item["original_split"] for item in release.values()} == {
        split.removesuffix("2017").removesuffix("2018") for split in splits
    }
    assert entry["size"] == len(release)


@pytest.mark.parametrize(
    "name", ["existence", "plurality", "coreference-standard", "coreference-clean"]
)
def test_both_directions_have_as_many_items(thesis, name):
    """VALSE 3.1, A.1, A.2 (500 of each direction) and 3.6."""
    assert thesis["instruments"][name]["halves"] is True


@pytest.mark.parametrize(
    ("table", "dataset", "setting", "choice"),
    [
        ("thesis-4.1", "mscoco", "isa", "mscoco-encoders"),
        ("thesis-4.1", "vqa", "isa", "vqa-encoders"),
        ("thesis-4.1", "gqa", "isa", "gqa-encoders"),
        ("thesis-5.5", "mscoco", "post-hoc", "mscoco-decoders"),
        ("decoders-paper-2", "mscoco", "cot", "mscoco-decoders"),
    ],
)
def test_texts_of_other_images_are_the_released_draws_in_published_and_validation_sets_in_equations(
    thesis, table, dataset, setting, choice
):
    """MM-SHAP 4.1 states 1,500 items of the validation sets; the released code takes 1,000 captions
    of FOIL-it.
    """
    released, stated = (
        thesis["alignment"][name]
        for name in TABLES[table].find_dataset_aliases(dataset, setting)
    )
    assert (released["choice"], released["profiles"]) == (choice, ["published"])
    assert (stated["size"], stated["profiles"]) == (1500, ["equations"])
    if dataset == "mscoco":
        assert thesis["sources"][released["source"]]["images"]["url"].endswith(
            "val2014.zip"
        )
        assert thesis["sources"][stated["source"]]["files"].keys() == {"val2017"}


def test_data_sets_of_profiles_that_a_study_lacks_are_not_run(thesis):
    plan = build_plan(read_study({**thesis, "profiles": ["equations"]}))
    names = {
        run.dataset
        for runs in (plan.scored, plan.attributed, plan.tested)
        for run in runs
    }
    assert "mscoco" in names
    assert not {name for name in names if "released" in name}


def test_three_runs_are_of_the_data_sets_of_which_the_papers_show_deviations(thesis):
    """Thesis C.2 (ComVE), C.4 and C.5 (existence, VQA); decoders paper 7 and 8."""
    assert len(thesis["consistency"]["seeds"]) == 3
    assert thesis["consistency"]["repeated"] == ["comve", "existence", "vqa-decoders"]
