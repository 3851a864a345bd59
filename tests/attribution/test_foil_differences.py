"""T-SHAP of captions less that of foils, by hand."""

import pandas as pd
import pytest

from waltz.attribution.differences import (
    CAPTION_LESS_FOIL,
    CAPTION_LESS_MISMATCHED,
    build_foil_differences,
)
from waltz.core.intervals import Resampling
from waltz.evaluation.settings import ALL_DATA_SETS

HOW = Resampling(resamples=200, confidence=0.95, seed=1)


def build_frame(texts, setting="alignment"):
    rows = [
        {
            "item_id": item,
            "image": f"{item}.png",
            "role": role,
            "profile": "equations",
            "setting": setting,
            "t_shap": share,
        }
        for item, role, share in texts
    ]
    return pd.DataFrame(rows)


def index(records):
    return {
        (record.dataset, record.metric): record
        for record in records
        if ":" not in record.metric
    }


def test_captions_are_compared_with_the_foils_of_their_items():
    frames = {
        ("clip", "existence"): build_frame(
            [
                ("a", "caption", 0.6),
                ("a", "foil", 0.5),
                ("b", "caption", 0.5),
                ("b", "foil", 0.7),
                ("c", "caption", 0.9),
                ("c", "foil", None),
                ("d", "foil", 0.1),
            ]
        ),
        ("clip", "plurality"): build_frame([("a", "caption", 0.4), ("a", "foil", 0.3)]),
        ("clip", "mscoco"): build_frame(
            [("a", "caption", 0.4), ("a", "mismatched", 0.8)]
        ),
    }
    records = index(build_foil_differences(frames, HOW))
    existence = records["existence", CAPTION_LESS_FOIL]
    assert existence.measure.value == pytest.approx(-5)
    assert (existence.measure.n, existence.unpaired) == (2, 2)
    # -5 and 10 with equal weights; texts of other images are not pooled with foils
    assert records[ALL_DATA_SETS, CAPTION_LESS_FOIL].measure.value == pytest.approx(2.5)
    assert records["mscoco", CAPTION_LESS_MISMATCHED].measure.value == pytest.approx(
        -40
    )
    assert set(records) == {
        ("existence", CAPTION_LESS_FOIL),
        ("plurality", CAPTION_LESS_FOIL),
        (ALL_DATA_SETS, CAPTION_LESS_FOIL),
        ("mscoco", CAPTION_LESS_MISMATCHED),
    }


def test_a_prompt_with_both_texts_has_no_difference():
    frame = build_frame([("a", "caption", 0.6)], setting="pairwise")
    assert build_foil_differences({("llava", "existence"): frame}, HOW) == []
