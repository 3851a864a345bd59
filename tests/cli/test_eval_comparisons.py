"""Differences between models of `waltz eval`: correction, sentences and files."""

import csv
import json
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace

import pytest

from stand_ins.records import build_comparison
from waltz.cli.eval_comparisons import (
    print_comparisons,
    read_comparisons,
)
from waltz.cli.eval_results import NOT_MEASURED, ResultRow, write_results
from waltz.core.files import parquet
from waltz.core.measure import Measure
from waltz.core.records import get_layout, write_records
from waltz.core.schema import AttributionRecord, ComparisonRecord
from waltz.plan.run_table import Run


@dataclass
class StandInPlan:
    """Paths and settings of a study that `read_comparisons` asks for."""

    results: str = "results/small"
    attributed: tuple = ()
    study = SimpleNamespace(
        seed=0,
        profiles=["equations"],
        reporting=SimpleNamespace(resamples=100, confidence=0.95),
    )
    datasets = MappingProxyType({"mine": SimpleNamespace(form="pairs")})

    def get_run_file(self, kind, run):
        return f"{self.results}/{kind}/{run.model}/pairs.parquet"


def write_group(folder, kind, model, rows, record_type):
    """Write the file of a model on a group of data sets."""
    layout = get_layout(record_type).with_dataset()
    # A text that the layout requires, and no test needs, is empty.
    empty = {}
    for field in layout.schema:
        empty[field.name] = None if field.nullable else ""
    table = parquet.build_table([{**empty, **row} for row in rows], layout)
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    file = folder / StandInPlan().get_run_file(kind, SimpleNamespace(model=model))
    file.parent.mkdir(parents=True)
    parquet.write(file, table, layout, model=model, datasets=json.dumps(datasets))


def read(folder, written, models, attributed=()):
    file = folder / "results" / "small" / "evaluation" / "comparisons.parquet"
    write_records(file, written, ComparisonRecord)
    return read_comparisons(StandInPlan(attributed=attributed), folder, models)


def test_holm_covers_the_named_models_and_their_accuracy_alone(tmp_path):
    written = [
        build_comparison("a", "b", p=0.01, p_holm=0.9),
        build_comparison("a", "c", p=0.03, p_holm=0.9),
        build_comparison(
            "b", "c", p=None, p_holm=None, difference=None, reason="no item"
        ),
        # A choice between both texts is compared instead of scores of single texts.
        build_comparison("a", "c", p=0.04, p_holm=0.9, setting="pairwise"),
        build_comparison("a", "b", metric="p_c"),
        build_comparison("a", "other"),
    ]
    # The smaller of two p values counts twice: 2 * 0.01; the larger one once.
    assert {
        (c.model_a, c.model_b): c.p_holm
        for c in read(tmp_path, written, ["a", "b", "c"])
    } == {
        ("a", "b"): pytest.approx(0.02),
        ("a", "c"): pytest.approx(0.04),
        ("b", "c"): None,
    }


def test_pairs_are_in_the_order_in_which_the_models_were_named(tmp_path):
    written = [
        build_comparison("a", "b"),
        build_comparison(
            "a", "c", difference=None, ci_low=None, ci_high=None, reason="no item"
        ),
        build_comparison("b", "c", difference=-1.0, ci_low=-3.0, ci_high=0.5),
    ]
    assert [
        (c.model_a, c.model_b, c.difference, c.ci_low, c.ci_high)
        for c in read(tmp_path, written, ["c", "b", "a"])
    ] == [
        ("c", "b", 1.0, -0.5, 3.0),
        ("c", "a", None, None, None),
        ("b", "a", -12.5, -21.9, -3.1),
    ]


def test_rows_over_all_data_sets_are_corrected_by_themselves(tmp_path, capsys):
    written = [
        build_comparison("a", "b", dataset=name, p=p)
        for name, p in (("x", 0.02), ("y", 0.02), ("all data sets", 0.03))
    ]
    comparisons = read(tmp_path, written, ["a", "b"])
    assert [c.dataset for c in comparisons] == ["x", "y", "all data sets"]
    # p values of single data sets count twice.
    assert [c.p_holm for c in comparisons] == pytest.approx([0.04, 0.04, 0.03])
    print_comparisons(comparisons)
    output = " ".join(capsys.readouterr().out.split())
    assert output.endswith(
        "each data set with the same weight in all data sets; p of the same t test over images, after Holm's"
        " correction over 2 comparisons of accuracy"
    )


def test_t_shap_is_compared_in_rows_of_the_same_table(tmp_path, capsys):
    # T-SHAP of the captions of three items, by model; an item without T-SHAP is left out.
    shares = {"b": (0.1, 0.2, 0.3, None), "a": (0.5, 0.4, 0.6, 0.9)}
    for model, numbers in shares.items():
        rows = [
            {
                "dataset": "mine",
                "item_id": f"{place}",
                "role": role,
                "profile": "equations",
                "setting": "alignment",
                "image": f"m{place}",
                "t_shap": number if role == "caption" else 0.0,
            }
            for place, number in enumerate(numbers)
            for role in ("caption", "foil")
        ]
        write_group(tmp_path, "attribution", model, rows, AttributionRecord)
    attributed = tuple(Run(model, "mine") for model in shares)
    written = [
        build_comparison("b", "a", p=0.02),
        build_comparison("a", "c"),
        build_comparison("b", "c"),
    ]
    comparisons = read(tmp_path, written, ["a", "b"], attributed)
    assert [c.metric for c in comparisons] == ["acc_r", "t_shap"]
    # Each metric is corrected by itself.
    assert comparisons[0].p_holm == 0.02
    # Differences 40, 20 and 30 of three images: t = 5.0, a little less on the logit.
    assert comparisons[1].difference == pytest.approx(30)
    assert comparisons[1].n == 3
    assert comparisons[1].p_holm == pytest.approx(0.04, abs=0.005)
    print_comparisons(comparisons)
    output = " ".join(capsys.readouterr().out.split())
    assert "a has a higher T-SHAP than b on mine by 30.0 points" in output
    assert output.endswith("over images; p of the same t test over images")


def test_differences_are_printed_and_written_next_to_the_results(tmp_path, capsys):
    accuracy = Measure(70.0, 40, ci_low=60.0, ci_high=80.0)
    rows = [ResultRow(name, "mine", accuracy, NOT_MEASURED) for name in ("clip", "b")]
    print_comparisons([build_comparison()])
    output = capsys.readouterr().out
    assert "+12.5 [+3.1, +21.9]" in output
    assert output.endswith("over images; p of the same t test over images\n")
    for suffix in ("csv", "json", "tex"):
        write_results(tmp_path / f"r.{suffix}", rows, [build_comparison()])
    with (tmp_path / "r-differences.csv").open() as lines:
        (row,) = csv.DictReader(lines)
    assert (row["difference"], row["p_holm"]) == ("12.5", "0.011")
    assert row["metric"] == "acc_r"
    (record,) = json.loads((tmp_path / "r-differences.json").read_text())
    assert (record["difference_low"], record["difference_high"]) == (3.1, 21.9)
    latex = (tmp_path / "r.tex").read_text()
    assert r"clip & blip\_2 & mine & accuracy & +12.5 [+3.1, +21.9] & 0.011 \\" in latex
    assert r"clip & mine & 40 & 70.0 [60.0, 80.0] \\" in latex
    assert r"Results on mine, with 95 \% intervals" in latex


def test_one_model_has_no_differences(tmp_path, capsys):
    row = ResultRow("clip", "mine", Measure(70.0, 40), NOT_MEASURED)
    print_comparisons([])
    write_results(tmp_path / "r.csv", [row], [])
    assert capsys.readouterr().out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["r.csv"]
