"""T-SHAP of captions less that of foils, by hand."""

import pandas as pd
import pytest

from waltz.attribution.differences import (
    CAPTION_LESS_FOIL,
    CAPTION_LESS_MISMATCHED,
    build_foil_differences,
    compare_shares,
)
from waltz.core.intervals import Resampling
from waltz.evaluation.settings import ALL_DATA_SETS

HOW = Resampling(resamples=200, confidence=0.95, seed=1)


def build_frame(texts, setting="alignment", profile="equations", error=None):
    rows = [
        {
            "item_id": item,
            "image": f"{item}.png",
            "role": role,
            "profile": profile,
            "setting": setting,
            "t_shap": share,
            "t_shap_se": error,
            "requested": 330,
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


def test_only_published_differences_have_the_noise_of_one_seed():
    texts = [
        *((str(item), "caption", 0.5 + item / 50) for item in range(6)),
        *((str(item), "foil", 0.4 + item / 90) for item in range(6)),
    ]

    def measure_widths(profile, error):
        frames = {
            (model, "existence"): build_frame(
                [(item, role, share * scale) for item, role, share in texts],
                profile=profile,
                error=error,
            )
            for model, scale in (("clip", 1.0), ("matcher", 0.7))
        }
        foils = index(build_foil_differences(frames, HOW))[
            "existence", CAPTION_LESS_FOIL
        ]
        (models,) = compare_shares(frames, profile, HOW)
        return (
            foils.measure.ci_high - foils.measure.ci_low,
            models.ci_high - models.ci_low,
        )

    own = measure_widths("equations", 0.05)
    assert own == measure_widths("published", None)
    # Both sides have the same permutations: 5 points each, t = 2.57 of 6 images.
    for width, widened in zip(own, measure_widths("published", 0.05), strict=True):
        assert width < 10
        assert widened == pytest.approx(2 * 2.57 * 10, rel=0.1)
