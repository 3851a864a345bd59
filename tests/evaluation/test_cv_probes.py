"""CV-Probes scored and measured."""

import math

import numpy as np
import pytest
from PIL import Image

from stand_ins.records import build_evaluation, build_probes
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.resources import RESOURCES
from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.core.records import to_row
from waltz.core.schema import EVALUATION, PROBE_CONDITIONS
from waltz.evaluation.alignment import compute_match_probability, score_items
from waltz.evaluation.metrics.cv_probes import (
    compute_harmonic_mean,
    compute_probe_metrics,
)
from waltz.evaluation.metrics.pair_metrics import NOT_APPLICABLE
from waltz.evaluation.predictions import predict_probe_text
from waltz.fidelity import get_fidelity
from waltz.foils import cv_probes
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.reporting.tables.paper_values import read_paper_values
from waltz.sources.images import open_images

PUBLISHED = RESOURCES / "published"
HOW = Resampling(500, 0.95, 1)
KINDS = {
    "+img+cap": ("c", "c"),
    "+img-cap": ("c", "p"),
    "-img+cap": ("p", "c"),
    "-img-cap": ("p", "p"),
}


def items_of(groups, form="original"):
    """One item a condition for each group."""
    return [
        {
            "item_id": f"{form}:{condition}:{group}",
            "form": form,
            "condition": condition,
            "group": group,
        }
        | {
            "image": f"{group}-{image}.png",
            "caption": f"{group} {caption}",
            "match": condition != "-img+cap",
        }
        for group in groups
        for condition, (image, caption) in KINDS.items()
    ]


def rows_of(items, logits, with_probability=True, profile="equations"):
    """What score_items says for these logits, by hand."""
    rows = []
    for item, logit in zip(items, logits, strict=True):
        row = {
            "item_id": item["item_id"],
            "profile": profile,
            "score": logit,
            "probability": None,
            "correct": None,
        }
        if with_probability:
            label = "match" if item["match"] else "mismatch"
            row["probability"] = compute_match_probability(logit, get_fidelity(profile))
            row["correct"] = (
                predict_probe_text(logit, row["probability"], get_fidelity(profile))
                == label
            )
        rows.append(row)
    return rows


def probe_metrics(items, rows, profile, resampling):
    """Metrics of items and rows as dictionaries."""
    return compute_probe_metrics(
        "m", build_probes(items), build_evaluation(rows), profile, resampling
    )


def table(rows):
    return {(row.dataset, row.metric): row for row in rows}


def test_accuracies_and_their_harmonic_mean_worked_by_hand():
    items = items_of("ab")
    #         ++  +-  -+  --        ++  +-  -+  --
    logits = [2, 1, -1, 3, 2, -1, 1, 3]
    accuracies = table(probe_metrics(items, rows_of(items, logits), "equations", HOW))
    values = {
        name: accuracies[f"cv-probes:{name}", "accuracy"].measure.value
        for name in (*KINDS, "harmonic-mean")
    }
    assert values == {
        "+img+cap": 100,
        "+img-cap": 50,
        "-img+cap": 50,
        "-img-cap": 100,
    } | {"harmonic-mean": pytest.approx(4 / (1 / 100 + 1 / 50 + 1 / 50 + 1 / 100))}
    # plain image: 3 > -1 and 3 > 1; contextual caption: 2 > -1 and 2 > 1
    assert accuracies["cv-probes:captions", "acc_r"].measure.value == 100
    assert accuracies["cv-probes:images", "acc_r"].measure.value == 100
    mean = accuracies["cv-probes:harmonic-mean", "accuracy"]
    assert mean.measure.ci_low == pytest.approx(
        0, abs=1e-3
    )  # two images leave all open
    assert mean.measure.n == 8


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_equal_probabilities_are_wrong_on_every_condition(profile):
    items = items_of("a")
    accuracies = table(
        probe_metrics(
            items, rows_of(items, [0, 0, 0, 0], profile=profile), profile, HOW
        )
    )
    values = {key: row.measure.value for key, row in accuracies.items()}
    assert {value for (_, metric), value in values.items() if metric == "accuracy"} == {
        0
    }
    assert {value for (_, metric), value in values.items() if metric == "acc_r"} == {50}


def test_a_model_without_probability_has_the_comparisons_alone():
    items = items_of("ab")
    logits = [5, 5, 6, 7, 5, 5, 4, 3]
    accuracies = table(
        probe_metrics(
            items, rows_of(items, logits, with_probability=False), "equations", HOW
        )
    )
    for name in (*KINDS, "harmonic-mean"):
        assert accuracies[f"cv-probes:{name}", "accuracy"].measure.value is None
        assert (
            accuracies[f"cv-probes:{name}", "accuracy"].measure.reason == NOT_APPLICABLE
        )
    assert accuracies["cv-probes:captions", "acc_r"].measure.value == 50  # 7 > 6, 3 < 4
    assert accuracies["cv-probes:images", "acc_r"].measure.value == 50  # 5 < 6, 5 > 4


def test_comparisons_pair_by_image_and_caption_where_a_group_has_two_plain_images():
    items = items_of("a")
    second = [
        {**item, "item_id": f"{item['item_id']}2", "image": "a-q.png"}
        for item in items[2:]
    ]
    items += second
    logits = [5, 0, 6, 7, 1, 0]  # ++ 5; -+ 6 and 1; -- 7 and 0
    accuracies = table(probe_metrics(items, rows_of(items, logits), "equations", HOW))
    assert (
        accuracies["cv-probes:captions", "acc_r"].measure.value,
        accuracies["cv-probes:captions", "acc_r"].measure.n,
    ) == (
        50,
        2,
    )
    assert (
        accuracies["cv-probes:images", "acc_r"].measure.value,
        accuracies["cv-probes:images", "acc_r"].measure.n,
    ) == (50, 2)


def test_the_conditions_are_those_that_are_built():
    assert tuple(cv_probes.CONDITIONS) == PROBE_CONDITIONS


def test_forms_are_separate_and_unscored_items_are_skipped():
    items = items_of("ab") + items_of("ab", "simplified")
    rows = rows_of(items, [1, 1, -1, 1] * 4)
    rows[0] |= {"score": None, "probability": None, "correct": None}
    metrics = probe_metrics(items, rows, "equations", HOW)
    by_form = {
        (row.setting, row.dataset): row for row in metrics if row.metric == "accuracy"
    }
    assert by_form["original", "cv-probes:+img+cap"].measure.n == 1
    assert by_form["simplified", "cv-probes:+img+cap"].measure.n == 2
    assert by_form["original", "cv-probes:harmonic-mean"].measure.value == 100


def test_intervals_are_of_the_groups_that_a_number_has():
    items = items_of("abcd")
    rows = rows_of(items, [1, 1, -1, 2] * 4)
    for row in rows[12:]:
        # All of the last group.
        row |= {
            "score": None,
            "probability": None,
            "correct": None,
        }
    metrics = table(probe_metrics(items, rows, "equations", HOW))
    for name in KINDS:
        row = metrics[f"cv-probes:{name}", "accuracy"]
        # no resample of three groups differs: Clopper and Pearson
        assert (row.measure.value, row.measure.n, row.measure.images) == (100, 3, 3)
        assert (row.measure.ci_low, row.measure.ci_high) == pytest.approx(
            (100 * 0.025 ** (1 / 3), 100)
        )
    mean = metrics["cv-probes:harmonic-mean", "accuracy"]
    assert (mean.measure.value, mean.measure.n, mean.measure.images) == (100, 12, 4)
    images = metrics["cv-probes:images", "acc_r"]
    assert (images.measure.value, images.measure.n, images.measure.images) == (
        100,
        3,
        3,
    )


def test_what_no_item_can_be_measured_on_says_why():
    items = items_of("ab")
    rows = rows_of(items, [1, 1, -1, 2] * 2)
    for row in (rows[2], rows[6]):
        row |= {"score": None, "probability": None, "correct": None}
    metrics = table(probe_metrics(items, rows, "equations", HOW))
    lacking = metrics["cv-probes:-img+cap", "accuracy"]
    assert (lacking.measure.value, lacking.measure.n, lacking.measure.reason) == (
        None,
        2,
        "none of 2 items could be scored",
    )
    mean = metrics["cv-probes:harmonic-mean", "accuracy"]
    assert (mean.measure.value, mean.measure.n, mean.measure.reason) == (
        None,
        8,
        "none of 2 items could be scored",
    )
    for name in ("captions", "images"):
        row = metrics[f"cv-probes:{name}", "acc_r"]
        assert (row.measure.n, row.measure.reason) == (
            0,
            "no two scored items of one group to compare",
        )


def test_a_score_that_is_not_a_number_is_refused():
    items = items_of("a")
    rows = rows_of(items, [2, 1, math.nan, 3])
    with pytest.raises(UserError, match="the score is not a number; score the data"):
        probe_metrics(items, rows, "equations", HOW)


def test_harmonic_means_match_the_paper_values():
    for number in (3, 4):
        paper_values = read_paper_values(PUBLISHED / f"cv-probes-{number}.csv")
        cells = {(key[1], key[2]): cell for key, cell in paper_values.items()}
        for model in {model for model, _ in cells}:
            values = np.array(
                [float(cells[model, f"cv-probes:{name}"].value) for name in KINDS]
            )
            assert compute_harmonic_mean(values) == pytest.approx(
                float(cells[model, "cv-probes:harmonic-mean"].value), abs=0.02
            )
    assert compute_harmonic_mean(np.array([100.0, 0.0, 50.0, 50.0])) == 0


def test_items_are_scored_through_a_ruler(tmp_path):
    ruler = load_encoder(
        ModelSpec("r", "ruler", weights="share:1", revision="0"),
        Device("cpu", 1, "a test"),
    )
    items = items_of("a")
    for item in items:
        Image.new("RGB", (4, 4)).save(tmp_path / item["image"])
    with open_images(tmp_path) as images:
        rows = score_items(
            ruler, build_probes(items), images, ["equations", "published"]
        )
    assert parquet.build_table(list(map(to_row, rows)), EVALUATION).num_rows == 8
    # The caption decides.
    assert rows[0].score == rows[2].score != rows[1].score
    assert {row.correct for row in rows} == {None}
