"""Numbers read from the files of all stages."""

import pytest

from waltz.core.files import parquet
from waltz.core.schema import CONDITIONS, METRICS, SHARES
from waltz.reporting.tables.numbers import read_numbers


def metric(name, value, profile="published", **more):
    row = {"model": "m", "dataset": "d", "profile": profile, "setting": "s", "metric": name}
    return {**row, "value": value, "n": 5, "ci_low": None, "ci_high": None, "reason": None, **more}


def written(tmp_path, rows, layout):
    path = tmp_path / "x.parquet"
    parquet.write(path, parquet.build_table(rows, layout), layout)
    return str(path)


def test_a_deviation_row_belongs_to_its_metric_and_profiles_stay_apart(tmp_path):
    rows = [metric("p", 10.0), metric("p:sd", 2.0), metric("p", 90.0, "equations")]
    file = written(tmp_path, rows, METRICS)
    numbers = read_numbers({"consistency": [file]}, "published")
    number = numbers["consistency", "p", "m", "d", "s"]
    assert (number.measure.value, number.sd) == (10.0, 2.0)
    assert read_numbers({"consistency": [file]}, "equations")["consistency", "p", "m", "d", "s"].measure.value == 90.0


def test_an_undefined_correlation_is_nan_and_a_missing_one_is_not(tmp_path):
    rows = [metric("p", None, reason="the test is constant"), metric("q", None, n=1, reason="one item")]
    numbers = read_numbers({"correlations": [written(tmp_path, rows, METRICS)]}, "published")
    assert [numbers["correlations", name, "m", "d", "s"].text for name in "pq"] == ["nan", ""]


def test_shares_by_role(tmp_path):
    row = {**dict.fromkeys(SHARES.schema.names), **metric("", 40.0), "role": "caption", "setting": "pairwise"}
    row |= {"items": 5, "sd": 9.0, "standard_error_n": 0, "missing": [], "rho": 0.5}
    row.pop("metric")
    numbers = read_numbers({"shares": [written(tmp_path, [row], SHARES)]}, "published")
    assert numbers["shares", "t_shap:caption", "m", "d", "pairwise"].sd == 9.0
    assert numbers["shares", "t_shap:", "m", "d", "pairwise"].measure.value == 40.0
    assert numbers["shares", "rho:caption", "m", "d", "pairwise"].measure.value == 0.5


def test_pairs_and_verbs_of_cv_probes(tmp_path):
    names = {"form": "original", "image": "i", "image_kind": "k", "caption_kind": "k", "group": "g", "match": True}
    rows = [
        {**names, "item_id": str(place), "condition": condition, "verb": "vote", "caption": "c", "verb_span": None}
        for place, condition in enumerate(["+img+cap", "+img+cap", "-img-cap"])
    ]
    numbers = read_numbers({"probes": [written(tmp_path, rows, CONDITIONS)]}, "published")
    assert numbers["probes", "verb", "", "cv-probes", "vote"].text == "vote"
    pairs = ("probes", "image_caption_pairs", "", "cv-probes")
    assert numbers[*pairs, "context-dependent"].measure.value == pytest.approx(2)
    assert numbers[*pairs, "non-context-dependent"].measure.value == pytest.approx(1)
