"""An image that cannot be had costs its items alone, and n says how many are left."""

from functools import partial

import pytest
from PIL import Image

from waltz.attribution.companions.encoder_companions import compute_companion_measures
from waltz.attribution.encoder_rows import compute_text_rows
from waltz.attribution.settings import AttributionSettings
from waltz.attribution.summary import build_share_rows
from waltz.core.devices import Device
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.schema import ATTRIBUTION, EVALUATION
from waltz.evaluation.alignment import score_pairs
from waltz.evaluation.metrics.summary import build_metric_rows
from waltz.model_registry import resolve_model
from waltz.models.encoders import load_encoder
from waltz.sources.images import load_image, open_images

HOW = Resampling(100, 0.95, 0)
ITEMS = [
    {
        "item_id": f"i{number}",
        "instrument": "existence",
        "image": f"{number}.png",
        "caption": f"there are {number} dogs",
        "foil": "there is no dog at all",
    }
    for number in range(4)
]


@pytest.fixture
def seen(tmp_path):
    """A ruler, and three of the four images."""
    for number in range(3):
        Image.new("RGB", (20, 20), (80 * number, 30, 90)).save(tmp_path / f"{number}.png")
    with open_images(tmp_path) as images:
        yield load_encoder(resolve_model("ruler-50", {}), Device("cpu", 1, "test")), images, tmp_path / "stored"


def test_shares_and_metrics_are_those_of_the_images_that_are_there(seen):
    encoder, images, stored = seen
    settings = AttributionSettings("equations", "auto", 40, 0)
    made = compute_text_rows(encoder, ITEMS, images, settings, stored, lambda _: None)
    rows = parquet.build_table(made, ATTRIBUTION).to_pylist()
    scores = parquet.build_table(score_pairs(encoder, ITEMS, images, ["equations"]), EVALUATION).to_pylist()
    for found in (scores, rows):
        failed = {row["item_id"] for row in found if row["error"] is not None}
        assert failed == {"i3"}
        assert all("is missing" in row["error"] for row in found if row["item_id"] == "i3")
    (accuracy,) = [
        row for row in build_metric_rows({("ruler-50", "mine"): scores}, ["equations"], HOW) if row["metric"] == "acc_r"
    ]
    assert accuracy["n"] == 3
    assert {
        row["n"] for row in build_share_rows("ruler-50", "mine", rows, scores, HOW) if row["role"] == "caption"
    } == {3}


def test_companions_leave_out_what_is_missing(seen):
    encoder, images, _ = seen
    some = compute_companion_measures(encoder, ITEMS, partial(load_image, images), 2, HOW)
    assert {row["n"] for row in some} == {3}
    assert some == compute_companion_measures(encoder, ITEMS[:3], partial(load_image, images), 2, HOW)
    none = compute_companion_measures(encoder, ITEMS[3:], partial(load_image, images), 2, HOW)
    assert [row["metric"] for row in none] == [row["metric"] for row in some]
    assert {(row["value"], row["n"], row["reason"]) for row in none} == {(None, 0, "no image of its items can be had")}
