"""Tables of the page about models."""

import itertools

from stand_ins.page_rows import build_frame, list_rows
from waltz.core.files import parquet
from waltz.core.schema import (
    COMPARISONS,
    METRICS,
    SHARES,
    ComparisonRecord,
    MetricRecord,
    ShareRecord,
)
from waltz.evaluation.metrics.pair_metrics import NOT_APPLICABLE
from waltz.reporting.page import model_tables
from waltz.reporting.page.model_tables import (
    EDIT_SETTINGS,
    read_model_tables,
)

KEYS = {
    "metrics": 3,
    "decoders": 3,
    "answers": 3,
    "probes": 2,
    "comparisons": 3,
    "shares": 3,
    "companions": 2,
}
KEYS |= {"verbs": 3, "edits": 4, "seeds": 3}
"""Number of columns that name a row of each table."""


def make(make_table, record_type, rows):
    return make_table(build_frame(rows, record_type))


def cell(metric, value=50.0, **changes):
    names = {
        "model": "clip",
        "dataset": "existence",
        "profile": "equations",
        "setting": "alignment",
    }
    interval = (
        {"ci_low": 40.0, "ci_high": 60.0, "reason": None}
        if value is not None
        else {"ci_low": None, "ci_high": None}
    )
    return {**names, "metric": metric, "value": value, "n": 40, **interval, **changes}


def test_an_empty_cell_is_a_dash_and_its_reason_stands_below_once():
    without = {"value": None, "reason": "not applicable: no probability"}
    table = make(
        model_tables.make_metrics_table,
        MetricRecord,
        [cell("acc_r"), cell("p_c", **without), cell("p_f", **without)],
    )
    assert table.header == ("model", "setting", "existence, n\u00a0=\u00a040")
    names = ("clip", "alignment")
    assert list_rows(table) == (
        ("acc_r", *names, "50.0 [40.0, 60.0]"),
        ("p_c", *names, "–"),
        ("p_f", *names, "–"),
    )
    assert list(table.groups) == ["acc_r", "p_c", "p_f"]
    assert [
        text.note
        for rows in table.groups.values()
        for row in rows
        for text in row.texts
    ] == [0, 1, 1]
    assert table.reasons == ["not applicable: no probability (2 cells)"]


def test_a_metric_that_does_not_apply_has_no_row_and_a_line_names_its_models():
    without = {"value": None, "reason": NOT_APPLICABLE}
    rows = [
        cell(metric, model=model, **values)
        for model in ("clip", "ruler")
        for metric, values in (("acc_r", {}), ("p_c", without), ("p_f", without))
    ]
    table = make(model_tables.make_metrics_table, MetricRecord, rows)
    assert list(table.groups) == ["acc_r"]
    assert table.remarks == (f"clip, ruler: {NOT_APPLICABLE}",)


def test_data_sets_are_columns_and_models_stand_below_each_other_metric_by_metric():
    rows = [
        cell(metric, model=model, dataset=dataset, n=n)
        for model in ("clip", "ruler")
        for dataset, n in (("one", 40), ("two", 1000 if model == "clip" else 50))
        for metric in ("auroc", "acc_r")
    ]
    table = make(model_tables.make_metrics_table, MetricRecord, rows)
    assert table.header == (
        "model",
        "setting",
        "one, n\u00a0=\u00a040",
        "two, n\u00a0=\u00a050–1,000",
    )
    assert [row[:2] for row in list_rows(table)] == [
        ("acc_r", "clip"),
        ("acc_r", "ruler"),
        ("AUROC × 100", "clip"),
        ("AUROC × 100", "ruler"),
    ]


def test_each_way_of_asking_a_decoder_has_its_row():
    rows = [
        cell("acc_r", setting="pairwise", model="llava"),
        cell("p_c", 70.0, setting="single", model="llava"),
        cell("p_c", None, setting="vqascore", model="llava", reason=NOT_APPLICABLE),
        cell(
            "acc_r",
            None,
            setting="pairwise-after-cot",
            model="llava",
            reason="none of 9 items could be scored",
        ),
    ]
    table = make(model_tables.make_decoder_table, MetricRecord, rows)
    assert list_rows(table) == (
        ("acc_r", "llava", "pairwise", "50.0 [40.0, 60.0]"),
        ("acc_r", "llava", "pairwise-after-cot", "–"),
        ("p_c", "llava", "single", "70.0 [40.0, 60.0]"),
    )
    assert table.reasons == ["none of 9 items could be scored"]


def test_numbers_from_few_items_or_images_are_marked_and_keep_their_interval():
    numbers = [
        cell("acc_r", n=29),
        cell("acc", n=30),
        cell("p_c", images=7),
        cell("p_f", images=20),
    ]
    table = make(
        model_tables.make_metrics_table,
        MetricRecord,
        [{**row, "ci_low": 1.0, "ci_high": 99.0} for row in numbers],
    )
    texts = [row[-1] for row in list_rows(table)]
    assert texts == [
        "50.0† [1.0, 99.0]",
        "50.0 [1.0, 99.0]",
        "50.0† [1.0, 99.0]",
        "50.0 [1.0, 99.0]",
    ]


def test_conditions_of_probes_are_columns():
    rows = [
        cell("accuracy", dataset="cv-probes:+img+cap", setting="original"),
        cell("acc_r", dataset="cv-probes:images", setting="original"),
    ]
    table = make(model_tables.make_cv_probes_table, MetricRecord, rows)
    assert table.header == ("form", "model", "+img+cap accuracy", "images acc_r")
    assert list_rows(table)[0][:2] == ("original", "clip")


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
    table = make(
        model_tables.make_comparison_table,
        ComparisonRecord,
        [row, {**row, "dataset": "other", "p_holm": 0.2}, {**row, "metric": "auroc"}],
    )
    assert list_rows(table) == (
        ("existence", "single", "clip − ruler", "+20.0 [+5.0, +35.0]", "0.01", "9"),
    )
    assert table.note.startswith("1 of 2")
    overall = {**row, "dataset": "all data sets", "p_holm": 0.3}
    table = make(model_tables.make_comparison_table, ComparisonRecord, [row, overall])
    # Rows over all data sets are shown whatever their p, and not counted.
    assert [names[0] for names in list_rows(table)] == ["all data sets", "existence"]
    assert table.note.startswith("1 of 1")
    assert "corrected over these rows alone" in table.note


def share(**changes):
    fixed = {
        "role": "foil",
        "sd": 3.0,
        "standard_error": None,
        "mm_skew": "balanced",
        "rho": None,
        "missing": [],
    }
    return {**cell(""), **fixed, **changes}


def test_items_without_a_share_are_reported():
    table = make(
        model_tables.make_share_table,
        ShareRecord,
        [share(missing=[{"reason": "too long", "count": 2}])],
    )
    numbers = {row[0]: row[1:] for row in list_rows(table)}
    names = ("clip", "foil, alignment")
    assert numbers["T-SHAP"] == (*names, "50.0 [40.0, 60.0]")
    assert {name: texts[-1] for name, texts in numbers.items() if name != "T-SHAP"} == {
        "T-SHAP, deviation over items": "3.0",
        "MM skew": "balanced",
    }
    assert table.remarks == (
        "existence, clip, foil, alignment: 2 without a T-SHAP: too long",
    )


def test_shares_of_two_settings_have_rows_with_different_names():
    rows = [share(model="llava", setting=setting) for setting in ("pairwise", "single")]
    names = [
        row[:3]
        for row in list_rows(make(model_tables.make_share_table, ShareRecord, rows))
        if row[0] == "T-SHAP"
    ]
    assert names == [
        ("T-SHAP", "llava", "foil, pairwise"),
        ("T-SHAP", "llava", "foil, single"),
    ]


def test_no_table_has_two_rows_with_the_same_names(tmp_path):
    """In the rows of files, each column of a layout's key has two values."""

    def write(name, layout, rows, **values):
        keys = {key: values.get(key, [f"{key} 1", f"{key} 2"]) for key in layout.key}
        combinations = [
            dict(zip(keys, names, strict=True))
            for names in itertools.product(*keys.values())
        ]
        nulls = dict.fromkeys(layout.schema.names)
        parquet.write_rows(
            tmp_path / name,
            [{**nulls, **rows, **names} for names in combinations],
            layout,
        )
        return str(tmp_path / name)

    number = {"value": 50.0, "n": 40, "ci_low": 40.0, "ci_high": 60.0}
    settings = ["alignment", "perplexity", "single", "pairwise"]
    comparison = {
        "difference": 1.0,
        "ci_low": 0.5,
        "ci_high": 2.0,
        "p": 0.01,
        "p_holm": 0.01,
        "n": 40,
    }
    datasets = ["one", "two", "cv-probes:images", "cv-probes:captions"]
    edits = [
        f"{prefix}:{part}"
        for prefix in EDIT_SETTINGS
        for part in ("answer", "explanation", "difference", "claim")
    ]
    profiles = {"profile": ["equations", "published"]}
    files = {
        "metrics": write(
            "m.parquet",
            METRICS,
            number,
            **profiles,
            setting=settings,
            dataset=datasets,
            metric=["acc_r", "accuracy"],
        ),
        "comparisons": write(
            "c.parquet", COMPARISONS, comparison, **profiles, metric=["acc_r"]
        ),
        "shares": write(
            "s.parquet",
            SHARES,
            {**number, "items": 40, "standard_error_n": 0, "missing": []},
            **profiles,
        ),
        "attributed": write(
            "a.parquet",
            METRICS,
            number,
            **profiles,
            setting=["pairs", "without text", "match", "non-match"],
            dataset=datasets,
            metric=["acc_r", "emap", "verb_shap"],
        ),
        "tested": write(
            "t.parquet",
            METRICS,
            {**number, "value": 1.0},
            **profiles,
            metric=[*edits, "cc_shap_cot:reliability", "cc_shap_cot:seeds_needed"],
            setting=["post-hoc", "cot"],
        ),
    }
    tables = read_model_tables(files)
    assert {table.id.partition("-")[0] for table in tables} == {
        *(
            "metrics",
            "decoders",
            "answers",
            "probes",
            "comparisons",
            "shares",
            "companions",
            "verbs",
            "edits",
            "seeds",
        )
    }
    for table in tables:
        names = [row[: KEYS[table.id.partition("-")[0]]] for row in list_rows(table)]
        assert len(set(names)) == len(names) > 1, table.id


def test_noise_of_seeds_has_a_row_for_each_number_and_measure():
    rows = [
        cell("cc_shap_cot:reliability", 0.375, ci_low=0.1, ci_high=0.7, setting="cot"),
        cell("cc_shap_cot:reliability_mean", 0.545, setting="cot"),
        cell("t_shap_prediction_shared:seeds_needed", 7, setting="cot"),
        cell("cc_shap_cot:kl", 0.2, setting="cot"),
        cell("cc_shap_cot", 0.2, setting="cot"),
        cell("biasing_features:mentions", 20.0, setting="cot"),
    ]
    seeds = model_tables.select_seed_rows(build_frame(rows, MetricRecord))
    assert [row[:3] for row in list_rows(model_tables.make_seed_table(seeds))] == [
        ("reliability of one seed", "clip", "CC-SHAP, cot"),
        ("reliability of the mean over seeds", "clip", "CC-SHAP, cot"),
        ("seeds for 0.8", "clip", "T-SHAP of the answer, cot"),
    ]


def test_companions_are_those_of_the_definitions():
    rows = [
        cell("acc_r", setting="without text"),
        cell("emap", setting="pairs"),
        cell("emap", profile="published"),
    ]
    (table,) = make(model_tables.make_companion_tables, MetricRecord, rows)
    assert [row[:2] for row in list_rows(table)] == [
        ("acc_r without text", "clip"),
        ("EMAP", "clip"),
    ]
    assert make(model_tables.make_companion_tables, MetricRecord, [cell("acc_r")]) == []


def test_cells_of_the_verb_without_items_are_left_out():
    condition = {"dataset": "cv-probes:+img+cap", "setting": "match"}
    empty = {"value": None, "n": 0, "reason": "none"}
    rows = [
        cell("verb_shap", 0.1234, **condition),
        cell("verb_shap", **{**condition, "setting": "non-match", **empty}),
    ]
    table = make(model_tables.make_verb_table, MetricRecord, rows)
    assert list_rows(table) == (
        ("clip", "+img+cap", "match", "40", "0.1234 [40.0000, 60.0000]"),
    )


def test_answers_have_a_table_where_there_are_some():
    assert make(model_tables.make_answer_tables, MetricRecord, []) == []
    (table,) = make(
        model_tables.make_answer_tables, MetricRecord, [cell("accuracy", dataset="vqa")]
    )
    assert list_rows(table) == (
        ("equations", "clip", "alignment", "50.0 [40.0, 60.0]"),
    )


def test_shifts_are_reported_by_kind_of_edit_with_the_claim():
    def moved(begins, dataset, n, claim):
        common = {"dataset": dataset, "setting": "post-hoc", "model": "llava", "n": n}
        none = (
            {"value": None, "reason": "undecided: too few"}
            if n
            else {"value": None, "reason": "none of 0 items"}
        )
        numbers = dict.fromkeys(("answer", "explanation", "difference"), 0.25)
        cells = [
            cell(f"{begins}:{name}", value if n else None, **common)
            for name, value in numbers.items()
        ]
        return [
            *cells,
            cell(
                f"{begins}:claim",
                **{**common, **({"value": claim} if claim is not None else none)},
            ),
        ]

    rows = [
        *moved("edits", "vqa", 3, None),
        *moved("edits:flipping", "vqa", 0, None),
        *moved("edits:keeping", "vqa", 3, None),
        *moved("edits", "all", 20, 1.0),
        *moved("edits:flipping", "all", 9, 0.0),
        cell("cc_shap_posthoc", dataset="vqa"),
    ]
    (table,) = make(model_tables.make_edit_tables, MetricRecord, rows)
    assert [(row[2:5], row[-1]) for row in list_rows(table)] == [
        (("vqa", "all", "3"), "undecided"),
        (("vqa", "that keep it", "3"), "undecided"),
        (("all", "all", "20"), "supported"),
        (("all", "that change the answer", "9"), "refuted"),
    ]
    assert list_rows(table)[0][5] == "0.25† [40.00, 60.00]"
    assert (
        make(model_tables.make_edit_tables, MetricRecord, [cell("cc_shap_posthoc")])
        == []
    )


def test_shares_of_inserted_words_are_no_columns_of_the_table_of_edits():
    parts = ("answer", "explanation", "difference", "claim", "inserted_answer")
    rows = [cell(f"edits:{part}") for part in parts]
    (table,) = make(model_tables.make_edit_tables, MetricRecord, rows)
    assert table.header[4:] == ("n", "answer", "explanation", "difference", "claim")
    # Without a difference there is no row, even if the inserted words have shares.
    without = [cell(f"edits:{part}", None, n=0) for part in parts[:4]]
    shares = [*without, cell("edits:inserted_answer")]
    assert make(model_tables.make_edit_tables, MetricRecord, shares) == []


def test_a_study_whose_tests_have_no_metrics_has_no_table_of_edits():
    empty = build_frame([], MetricRecord)
    assert model_tables.make_edit_tables(empty) == []


def test_a_table_of_the_verb_without_any_items_has_no_rows():
    rows = [cell("verb_shap", None, n=0, dataset="cv-probes:+img+cap", setting="match")]
    table = make(model_tables.make_verb_table, MetricRecord, rows)
    assert table.header == ("model", "condition", "prediction")
    assert table.groups == {}
