"""Plain tables of models."""

from waltz.evaluation.metrics.pair_metrics import NOT_APPLICABLE
from waltz.reporting.page.model_tables import (
    make_answer_tables,
    make_companion_tables,
    make_comparison_table,
    make_cv_probes_table,
    make_decoder_table,
    make_edit_tables,
    make_metrics_table,
    make_share_table,
    make_verb_table,
)


def cell(metric, value=50.0, **changes):
    names = {"model": "clip", "dataset": "existence", "profile": "equations", "setting": "alignment"}
    interval = (
        {"ci_low": 40.0, "ci_high": 60.0, "reason": None} if value is not None else {"ci_low": None, "ci_high": None}
    )
    return {**names, "metric": metric, "value": value, "n": 9, **interval, **changes}


def test_an_empty_cell_is_a_dash_and_its_reason_stands_below_once():
    without = {"value": None, "reason": "not applicable: no probability"}
    table = make_metrics_table([cell("acc_r"), cell("p_c", **without), cell("p_f", **without)], "equations")
    assert table.rows == (("existence", "clip", "9", "50.0 [40.0, 60.0]", "", "–", "–", "", ""),)
    assert table.remarks == ("clip: not applicable: no probability",)


def test_models_stand_below_each_other_data_set_by_data_set():
    rows = [cell("acc_r", model=model, dataset=dataset) for model in ("clip", "ruler") for dataset in ("one", "two")]
    table = make_metrics_table(rows, "equations")
    assert [row[:2] for row in table.rows] == [("one", "clip"), ("one", "ruler"), ("two", "clip"), ("two", "ruler")]


def test_each_way_of_asking_a_decoder_has_its_row():
    rows = [
        cell("acc_r", setting="pairwise", model="llava"),
        cell("p_c", 70.0, setting="single", model="llava"),
        cell("p_c", None, setting="vqascore", model="llava", reason=NOT_APPLICABLE),
        cell("acc_r", None, setting="pairwise-after-cot", model="llava", reason="none of 9 items could be scored"),
    ]
    table = make_decoder_table(rows, "equations")
    assert [row[:3] for row in table.rows] == [
        ("existence", "llava", setting) for setting in ("pairwise", "single", "vqascore", "pairwise-after-cot")
    ]
    assert table.rows[0][4:7] == ("50.0 [40.0, 60.0]", "", "")
    assert table.remarks == ("llava: none of 9 items could be scored",)


def test_conditions_of_probes_are_columns():
    rows = [
        cell("accuracy", dataset="cv-probes:+img+cap", setting="original"),
        cell("acc_r", dataset="cv-probes:images", setting="original"),
    ]
    table = make_cv_probes_table(rows, "equations")
    assert table.header == ("form", "model", "+img+cap accuracy", "images acc_r")
    assert table.rows[0][:2] == ("original", "clip")


def test_comparisons_show_what_differs_and_count_all():
    row = {
        "profile": "equations",
        "dataset": "existence",
        "setting": "single",
        "metric": "acc_r",
        "model_a": "clip",
        "model_b": "ruler",
        "difference": 20.0,
        "ci_low": 5.0,
        "ci_high": 35.0,
        "p_holm": 0.01,
        "n": 9,
    }
    table = make_comparison_table(
        [row, {**row, "dataset": "other", "p_holm": 0.2}, {**row, "metric": "auroc"}], "equations"
    )
    assert table.rows == (("existence", "single", "clip", "ruler", "+20.0 [+5.0, +35.0]", "0.01", "9"),)
    assert table.note.startswith("1 of 2")


def share(**changes):
    fixed = {"role": "foil", "sd": 3.0, "standard_error": None, "mm_skew": "balanced", "rho": None, "missing": []}
    return {**cell(""), **fixed, **changes}


def test_items_without_a_share_are_reported():
    table = make_share_table([share(missing=[{"reason": "too long", "count": 2}])], "equations")
    names = ("existence", "clip", "foil", "alignment")
    assert table.rows == ((*names, "9", "50.0 [40.0, 60.0]", "3.0", "", "balanced", ""),)
    assert table.remarks == ("existence, clip, foil, alignment: 2 without a T-SHAP: too long",)


def test_shares_of_two_settings_have_rows_with_different_names():
    rows = [share(model="llava", setting=setting) for setting in ("pairwise", "single")]
    names = [row[:4] for row in make_share_table(rows, "equations").rows]
    assert names == [("existence", "llava", "foil", "pairwise"), ("existence", "llava", "foil", "single")]


def test_companions_are_those_of_the_definitions():
    rows = [cell("acc_r", setting="without text"), cell("emap", setting="pairs"), cell("emap", profile="published")]
    (table,) = make_companion_tables(rows)
    assert table.header == ("data set", "model", "acc_r without text", "EMAP")
    assert make_companion_tables([cell("acc_r")]) == []


def test_cells_of_the_verb_without_items_are_left_out():
    condition = {"dataset": "cv-probes:+img+cap", "setting": "match"}
    empty = {"value": None, "n": 0, "reason": "none"}
    rows = [cell("verb_shap", 0.1234, **condition), cell("verb_shap", **{**condition, "setting": "non-match", **empty})]
    table = make_verb_table(rows, "equations")
    assert table.rows == (("clip", "+img+cap", "match", "9", "0.123 [40.000, 60.000]", "", ""),)


def test_answers_have_a_table_where_there_are_some():
    assert make_answer_tables([]) == []
    (table,) = make_answer_tables([cell("accuracy", dataset="vqa")])
    assert table.rows == (("equations", "vqa", "clip", "alignment", "9", "50.0 [40.0, 60.0]"),)


def test_shifts_are_reported_by_kind_of_edit_with_the_claim():
    def moved(begins, dataset, n, claim):
        common = {"dataset": dataset, "setting": "post-hoc", "model": "llava", "n": n}
        none = {"value": None, "reason": "undecided: too few"} if n else {"value": None, "reason": "none of 0 items"}
        numbers = dict.fromkeys(("answer", "explanation", "difference"), 0.25)
        cells = [cell(f"{begins}:{name}", value if n else None, **common) for name, value in numbers.items()]
        return [*cells, cell(f"{begins}:claim", **{**common, **({"value": claim} if claim is not None else none)})]

    rows = [
        *moved("edits", "vqa", 3, None),
        *moved("edits:flipping", "vqa", 0, None),
        *moved("edits:keeping", "vqa", 3, None),
        *moved("edits", "all", 20, 1.0),
        *moved("edits:flipping", "all", 9, 0.0),
        cell("cc_shap_posthoc", dataset="vqa"),
    ]
    (table,) = make_edit_tables(rows)
    assert [(row[2:5], row[-1]) for row in table.rows] == [
        (("vqa", "all", "3"), "undecided"),
        (("vqa", "that keep it", "3"), "undecided"),
        (("all", "all", "20"), "supported"),
        (("all", "that change the answer", "9"), "refuted"),
    ]
    assert table.rows[0][5] == "0.25 [40.00, 60.00]"
    assert make_edit_tables([cell("cc_shap_posthoc")]) == []
