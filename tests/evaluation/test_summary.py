import pyarrow as pa
import pytest

from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.schema import MEASURE_FIELDS, Layout
from waltz.evaluation.metrics.comparisons import COMPARED_METRICS
from waltz.evaluation.metrics.pair_metrics import METRICS, NOT_APPLICABLE
from waltz.evaluation.metrics.summary import build_comparison_rows, build_metric_rows

HOW = Resampling(100, 0.95, 0)
NAMES = ("profile", "model", "dataset", "setting", "metric")
LAYOUT = Layout("metrics", pa.schema([*((name, pa.string()) for name in NAMES), *MEASURE_FIELDS]), key=NAMES)


def run(*pairs, setting="alignment", with_probability=True):
    """Rows of a data set by (caption logit, foil logit), in both profiles."""
    return [
        {
            "item_id": f"i{place}",
            "image": f"m{place}",
            "role": role,
            "profile": profile,
            "setting": setting,
            "score": logit,
        }
        | {"probability": 1 / (1 + 2**-logit) if with_probability else None}
        | {"correct": (logit > 0) == (role == "caption") if with_probability else None}
        for profile in ("equations", "published")
        for place, pair in enumerate(pairs)
        for role, logit in zip(("caption", "foil"), pair, strict=True)
    ]


def probe(condition, place):
    image, caption = condition[:4], condition[4:]
    return {"item_id": f"{condition}{place}", "form": "original", "condition": condition, "group": f"g{place}"} | {
        "image": f"{image}{place}",
        "caption": f"{caption}{place}",
        "match": condition != "-img+cap",
    }


PROBES = [
    probe(condition, place) for place in range(2) for condition in ("+img+cap", "+img-cap", "-img+cap", "-img-cap")
]
PROBED = [
    {"item_id": item["item_id"], "image": item["image"], "role": "caption", "profile": profile, "setting": "alignment"}
    | {"score": 1.0, "probability": 0.7, "correct": item["match"]}
    for item in PROBES
    for profile in ("equations", "published")
]
QUESTIONS = [{"item_id": "q", "image": "m", "question": "a?", "answer": "yes", "answers": ["yes"] * 2 + ["no"] * 8}]
ANSWERED = [
    {"item_id": "q", "image": "m", "role": "answer", "profile": profile, "setting": "answering", "prediction": "yes"}
    | {"correct": True}
    for profile in ("equations", "published")
]
RUNS = {
    ("matcher", "d"): run((2, -1), (1, 2)),
    ("matcher", "e"): run((2, -1)),
    ("lm", "d"): run((-3, -2), (-2, -3), setting="perplexity", with_probability=False),
    ("matcher", "cv-probes"): PROBED,
    ("lxmert-vqa", "vqa"): ANSWERED,
}


def test_every_model_data_set_and_profile_has_its_metrics_in_one_layout():
    rows = build_metric_rows(
        RUNS, ["equations", "published"], HOW, averaged=["d", "e"], probes=PROBES, questions={"vqa": QUESTIONS}
    )
    assert parquet.build_table(rows, LAYOUT).num_rows == 2 * (3 * len(METRICS) + 2 * len(METRICS) + 7 + 1)
    metrics = {tuple(row[name] for name in NAMES[1:]): row for row in rows if row["profile"] == "equations"}
    assert metrics["matcher", "d", "alignment", "acc_r"]["value"] == 50
    assert metrics["matcher", "average", "alignment", "acc_r"]["value"] == 75
    assert metrics["lm", "d", "perplexity", "acc_r"]["value"] == 50
    assert metrics["lm", "d", "perplexity", "acc"]["reason"] == NOT_APPLICABLE
    assert metrics["lm", "average", "perplexity", "acc_r"]["reason"] == "not averaged: 1 of 2 data sets were not run"
    assert metrics["matcher", "cv-probes:-img+cap", "original", "accuracy"]["value"] == 0
    assert metrics["matcher", "cv-probes:harmonic-mean", "original", "accuracy"]["value"] == 0
    expected = 100 * (2 * 1 / 3 + 8 * 2 / 3) / 10
    assert metrics["lxmert-vqa", "vqa", "answering", "accuracy"]["value"] == pytest.approx(expected)


def test_a_data_set_of_another_profile_has_no_metrics_in_this_one():
    published = [row for row in run((2, -1)) if row["profile"] == "published"]
    runs = {("matcher", "released"): published, ("clip", "released"): published}
    rows = build_metric_rows(runs, ["equations", "published"], HOW)
    assert rows
    assert {row["profile"] for row in rows} == {"published"}
    comparisons = build_comparison_rows(runs, ["equations", "published"], HOW)
    assert comparisons
    assert {row["profile"] for row in comparisons} == {"published"}


def test_comparisons_are_of_the_data_sets_with_pairs_in_each_profile():
    rows = build_comparison_rows(RUNS, ["equations", "published"], HOW)
    assert {(row["profile"], row["dataset"], row["model_a"], row["model_b"]) for row in rows} == {
        (profile, "d", "matcher", "lm") for profile in ("equations", "published")
    }
    assert len(rows) == 2 * len(COMPARED_METRICS)
    assert rows[0]["difference"] == 0
