"""The study of real photos: what it plans, and that its list names only photos that may be shown."""

import csv
from pathlib import Path

import pytest

from waltz.plan.build_plan import build_plan
from waltz.plan.read_study import read_study_files
from waltz.plan.study import Study

CONFIG = Path(__file__).parents[2] / "config"


@pytest.fixture(scope="module")
def plan():
    return build_plan(read_study_files([CONFIG / "photos.yaml"], CONFIG))


def test_photos_come_as_one_zip_from_the_list(plan):
    assert (
        plan.raw.get_path("coco", "images")
        == "results/photos/sources/raw/coco/images/images.zip"
    )
    assert Path(plan.raw.get_user_path("coco", "images")).name == "photos-images.tsv"
    assert plan.raw.get_user_path("coco", "val2017") == []
    assert plan.raw.get_listed_images("coco") == plan.raw.get_user_path(
        "coco", "images"
    )


def test_weights_come_from_three_packages_and_the_repository(plan):
    (folder,) = plan.models.packages
    assert folder.count("+") == 2
    assert not {*plan.models.snapshots, *plan.models.cached, *plan.models.web_files}


def test_every_photo_has_an_open_license_and_an_attribution():
    with (CONFIG / "photos-images.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 76
    assert {row["licence"] for row in rows} == {"CC BY 2.0", "CC BY-SA 2.0"}
    assert all("staticflickr.com" in row["attribution"] for row in rows)
    assert all(
        row["url"] == f"http://images.cocodataset.org/{row['file']}" for row in rows
    )


def test_only_images_can_be_listed():
    study = read_study_files([CONFIG / "photos.yaml"], CONFIG).to_dict()
    study["sources"]["coco"]["files"]["val2017"] = {
        "listed": "config/photos-images.tsv"
    }
    with pytest.raises(ValueError, match="only images can be listed"):
        Study.model_validate(study)
