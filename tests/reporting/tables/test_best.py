"""Which values are bold, against differences worked by hand."""

import pytest

from reporting.tables.test_formats import cell
from waltz.core.files import parquet
from waltz.core.schema import COMPARISONS
from waltz.reporting.tables.best import read_significance_tests
from waltz.reporting.tables.cells import format_csv
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.formats import (
    format_html_page,
    format_latex,
    format_markdown,
)

VALSE = TABLES["thesis-3.4"]
"""Its `clip` stands for `clip` or `clip-vit-base-patch32`."""


def read_pair(
    folder,
    difference,
    p_holm,
    *,
    models=("clip-vit-base-patch32", "lxmert"),
    metric="acc_r",
):
    """Return what a paired test shows about two models on existence."""
    row = {
        "profile": "published",
        "dataset": "existence",
        "setting": "single",
        "metric": metric,
        "n": 400,
    }
    row |= {
        "model_a": models[0],
        "model_b": models[1],
        "difference": difference,
    }
    parquet.write_rows(
        folder / "pair.parquet", [row | {"p": 0.001, "p_holm": p_holm}], COMPARISONS
    )
    return read_significance_tests([folder / "pair.parquet"], 0.95)


def cells(*values, **more):
    """Return cells of clip, lxmert and vilbert with intervals of ± 3."""
    return [
        cell(
            model=model,
            dataset="existence",
            value=value,
            ci_low=value - 3,
            ci_high=value + 3,
            **more,
        )
        for model, value in zip(("clip", "lxmert", "vilbert"), values, strict=False)
    ]


@pytest.mark.parametrize("metric", ["acc_r", "acc", "auroc", "min_pc_pf"])
@pytest.mark.parametrize(
    ("p_holm", "is_bold"), [(0.05, True), (0.051, False), (0.18, False)]
)
@pytest.mark.parametrize("difference", [2.0, 40.0])
def test_the_paired_test_decides_and_not_the_intervals(
    tmp_path, metric, p_holm, is_bold, difference
):
    shown = cells(60 + difference, 60.0, 40.0, metric=metric)
    significance = read_pair(tmp_path, difference, p_holm, metric=metric)
    assert significance.find_best(VALSE, shown) == ({shown[0]} if is_bold else set())
    other_order = read_pair(
        tmp_path,
        -difference,
        p_holm,
        models=("lxmert", "clip-vit-base-patch32"),
        metric=metric,
    )
    assert other_order.find_best(VALSE, shown) == ({shown[0]} if is_bold else set())


def test_nothing_is_bold_where_the_pairs_disagree_with_the_values(tmp_path):
    # Lxmert leads on the common items.
    assert not read_pair(tmp_path, -20.0, 0.0).find_best(VALSE, cells(80.0, 60.0))
    assert not read_pair(tmp_path, 0.0, 0.0).find_best(VALSE, cells(80.0, 80.0))


@pytest.mark.parametrize(
    ("images", "is_bold"), [(1, False), (2, False), (5, False), (6, True), (None, True)]
)
def test_few_images_are_never_bold_however_narrow_their_intervals(images, is_bold):
    # 2 / 2^5 = .0625 and 2 / 2^6 = .031 are the least p of a sign test
    shown = cells(95.0, 40.0, metric="auroc", images=images)
    assert bool(read_significance_tests([], 0.95).find_best(VALSE, shown)) is is_bold


# without common items: (1.95996 + 0.84162) * hypot(3, 3) / 1.95996 = 6.064 points
@pytest.mark.parametrize(("difference", "is_bold"), [(6.1, True), (6.0, False)])
def test_independent_samples_decide_where_no_items_are_common(
    tmp_path, difference, is_bold
):
    shown = cells(60 + difference, 60.0, metric="auroc")
    assert read_pair(tmp_path, 0.0, 0.9).find_best(VALSE, shown) == (
        {shown[0]} if is_bold else set()
    )


def test_a_number_without_interval_or_alone_is_not_bold(tmp_path):
    significance = read_significance_tests([], 0.95)
    assert not significance.find_best(
        VALSE, [cell(model="a", value=90.0, n=9), cell(model="b", value=10.0, n=9)]
    )
    assert not significance.find_best(VALSE, cells(90.0))


def test_every_form_says_what_bold_means_and_the_csv_does_not_change(tmp_path):
    shown = cells(68.0, 60.0)
    weak, strong = read_pair(tmp_path, 8.0, 0.06), read_pair(tmp_path, 8.0, 0.04)
    for form, mark in (
        (format_markdown, "**68.0**"),
        (format_latex, r"\textbf{68.0}"),
        (format_html_page, "<strong>68.0"),
    ):
        assert mark in form(VALSE, shown, strong)
        assert mark not in form(VALSE, shown, weak)
        assert "Holm" in form(VALSE, shown, weak)
    assert (
        format_csv(shown)
        .splitlines()[1]
        .startswith("t,published,acc_r,clip,existence,,68,,65,71")
    )
