"""Tables of our numbers next to the paper values."""

import csv
import math
from collections import Counter
from pathlib import Path

import pytest

from stand_ins.paper_numbers import (
    PUBLISHED,
    build_study,
    copy_paper_values,
    read_paper_table,
)
from waltz.core.measure import Measure
from waltz.evaluation.settings import ALL_DATA_SETS
from waltz.reporting.tables.build_table import build_cells
from waltz.reporting.tables.cells import (
    CHANCE,
    COLUMNS,
    NOT_RUN,
    ONLY_PUBLISHED,
    SYNTHETIC_DATA,
    Cell,
    format_csv,
    parse_csv,
)
from waltz.reporting.tables.declaration import (
    AVERAGE,
    DERIVED,
    ENCODER,
    LANGUAGE,
    Declaration,
    NumberSource,
)
from waltz.reporting.tables.declarations import STYLES, TABLES
from waltz.reporting.tables.derived_numbers import DERIVED_NUMBERS, derive_numbers
from waltz.reporting.tables.numbers import (
    READERS,
    Number,
    NumberKey,
    StudyFacts,
    build_text_number,
)
from waltz.reporting.tables.paper_values import (
    COMPATIBLE,
    DIFFERS,
    EQUAL,
    EQUIVALENT,
    RANDOM,
    SHARES_OF_ITEMS,
    PaperKey,
    PaperValue,
    compare_with_paper,
    read_paper_values,
    rounds_to,
)

KEY = PaperKey("acc_r", "gpt2", "existence", "")


@pytest.mark.parametrize(
    ("value", "digits", "same"),
    [
        (0.070656, "0.070", True),  # cut to three places
        (0.627992, "0.628", True),  # rounded to three places
        (0.0716, "0.070", False),
        (94.56929, "94.6", True),
        (94.55, "94.6", True),
        (94.649999, "94.6", True),
        (94.7, "94.6", False),
        (534.0, "534", True),
        (535.0, "534", False),
        (0.9999999999999999, "1.000", True),
        (-0.0004, "0.000", True),
        (float("inf"), "1.0", False),
    ],
)
def test_values_match_the_digits_of_the_paper(value, digits, same):
    assert rounds_to(value, digits) is same


def test_equal_compatible_and_different():
    paper_value = PaperValue(KEY, "58.0", "percent", "")
    # 505 items at 58 %: the half interval of the paper value is 4.30; ours here 4.0; together 5.88
    verdicts = {
        value: compare_with_paper(
            Measure(value, 505, value - 4, value + 4), paper_value, 0.95
        ).verdict
        for value in (58.04, 63.87, 63.89, 52.13, 52.11)
    }
    assert verdicts == {
        58.04: EQUAL,
        63.87: COMPATIBLE,
        63.89: DIFFERS,
        52.13: COMPATIBLE,
        52.11: DIFFERS,
    }


def test_a_count_is_equal_or_differs():
    paper_value = PaperValue(PaperKey("valid", "", "existence", ""), "505", "count", "")
    assert compare_with_paper(Measure(505, 534), paper_value, 0.95).verdict == EQUAL
    comparison = compare_with_paper(Measure(504, 534, 490, 520), paper_value, 0.95)
    assert (comparison.verdict, comparison.difference) == (DIFFERS, -1)
    assert comparison.tolerance is None


@pytest.mark.parametrize("unit", ["percent", "ratio", "correlation-x100"])
@pytest.mark.parametrize(
    "measure",
    [Measure(25.0, 1, images=1), Measure(25.0, 1), Measure(25.0, 9, images=1)],
)
def test_a_number_of_one_item_or_image_without_an_interval_has_no_verdict(
    measure, unit
):
    comparison = compare_with_paper(
        measure, PaperValue(KEY, "90.0", unit, "a note"), 0.95
    )
    assert (comparison.verdict, comparison.difference) == ("", -65)
    assert (
        comparison.reason
        == "a note; one item or image has no interval, so nothing can be said of the difference"
    )


def test_a_known_error_of_the_paper_is_shown_with_the_verdict():
    paper_value = PaperValue(
        KEY, "2.4", "percent", "suspicious: a digit seems to be missing"
    )
    comparison = compare_with_paper(Measure(52.35, 505, 48, 56), paper_value, 0.95)
    assert (comparison.verdict, comparison.reason) == (
        DIFFERS,
        "wrong or doubtful in the paper: suspicious: a digit seems to be missing",
    )


@pytest.mark.parametrize(
    ("measure", "paper_value", "reason"),
    [
        (Measure(60.0, 10), None, "no paper value"),
        (Measure(None, 0, reason="not run"), None, "not run"),
        (
            Measure(None, 0, reason="not run"),
            PaperValue(KEY, "58.0", "percent", "a note"),
            "not run",
        ),
        (
            Measure(60.0, 10),
            PaperValue(KEY, "", "percent", "illegible: lost"),
            "illegible: lost",
        ),
    ],
)
def test_no_verdict_never_goes_without_a_reason(measure, paper_value, reason):
    comparison = compare_with_paper(measure, paper_value, 0.95)
    assert (comparison.verdict, comparison.reason) == ("", reason)


def test_what_is_undefined_in_print_is_equal_only_to_what_is_undefined():
    paper_value = PaperValue(
        KEY, "nan", "correlation-x100", "printed as nan: correlation undefined"
    )
    assert (
        compare_with_paper(
            Measure(None, 9, reason="constant"), paper_value, 0.95, "nan"
        ).verdict
        == EQUAL
    )
    assert compare_with_paper(Measure(60.0, 9), paper_value, 0.95).verdict == DIFFERS
    assert (
        compare_with_paper(
            Measure(None, 0, reason="not run"), paper_value, 0.95
        ).verdict
        == ""
    )


def test_a_number_that_is_no_share_is_given_the_width_of_ours():
    paper_value = PaperValue(KEY, "0.10", "ratio", "")
    # 0.14 and 0.15 against 0.1 times √2.
    near, far = (
        Measure(0.24, 9, 0.14, 0.34),
        Measure(0.25, 9, 0.15, 0.35),
    )
    comparison = compare_with_paper(near, paper_value, 0.95)
    assert comparison.verdict == COMPATIBLE
    # A deviation of less could not have been found.
    assert comparison.tolerance == pytest.approx(0.1 * math.sqrt(2))
    assert compare_with_paper(far, paper_value, 0.95).verdict == DIFFERS


@pytest.mark.parametrize(
    ("metric", "dataset", "verdict"),
    [
        # The binomial half width of 50 % of 100 items is 9.8.
        (
            "acc_r",
            "existence",
            COMPATIBLE,
        ),
        ("biasing_features", "comve", COMPATIBLE),
        ("accuracy", "gqa", COMPATIBLE),
        # 6 points against 1.6 times √2 = 2.3
        ("acc_r", "average", DIFFERS),
        ("accuracy", "cv-probes:harmonic-mean", DIFFERS),
        ("accuracy", "vqa", DIFFERS),
        *(
            (name, "existence", DIFFERS)
            for name in ("t_shap", "t_shap_c", "t_shap_prediction", "t_shap_sd")
        ),
        *(
            (name, "existence", DIFFERS)
            for name in ("acc", "min_pc_pf", "auroc", "perceptual_image", "verb_share")
        ),
        ("a new metric", "existence", DIFFERS),
    ],
)
def test_only_a_share_of_items_has_the_width_of_a_binomial(metric, dataset, verdict):
    paper_value = PaperValue(PaperKey(metric, "clip", dataset, ""), "50", "percent", "")
    assert (
        compare_with_paper(Measure(56.0, 100, 54.4, 57.6), paper_value, 0.95).verdict
        == verdict
    )


@pytest.mark.parametrize(
    ("value", "half", "margin", "verdict"),
    [
        # The combined half interval is 2√2 = 2.83, that of two one-sided tests 2.37.
        (50.5, 2.0, 3.0, EQUIVALENT),
        (50.5, 2.0, 2.8, COMPATIBLE),
        (50.5, 2.0, None, COMPATIBLE),
        # 3 points are significant, and yet shown to be fewer than 6.
        (53.0, 2.0, 6.0, EQUIVALENT),
        (53.0, 2.0, 5.3, DIFFERS),
        # The digits of the paper, of a number with a wide interval
        (50.0, 20.0, 3.0, EQUAL),
    ],
)
def test_a_number_is_equivalent_only_if_its_difference_is_shown_to_be_small(
    value, half, margin, verdict
):
    key = PaperKey("t_shap", "clip", "existence", "")
    paper_value = PaperValue(key, "50.0", "percent", "")
    measure = Measure(value, 100, value - half, value + half)
    comparison = compare_with_paper(measure, paper_value, 0.95, margin=margin)
    assert comparison.verdict == verdict


def test_each_published_metric_of_unit_percent_is_a_share_of_items_or_known_to_be_none():
    """A metric that joins the papers' values has to be put into one of the two groups."""
    tables = [read_paper_values(file) for file in sorted(PUBLISHED.glob("*.csv"))]
    in_percent = {
        key[0]
        for table in tables
        for key, cell in table.items()
        if cell.unit == "percent"
    }
    means = {
        "acc",
        "all",
        "auroc",
        "min_pc_pf",
        "perceptual_image",
        "perceptual_text",
        "verb_share",
    }
    means |= {
        "t_shap",
        "t_shap_c",
        "t_shap_f",
        "t_shap_r",
        "t_shap_sd",
        "t_shap_overall",
    }
    means |= {"t_shap_prediction", "t_shap_explanation"}
    assert in_percent == means | SHARES_OF_ITEMS


def test_an_empty_cell_shows_the_reasons_of_the_paper_and_of_the_study():
    paper_value = PaperValue(
        KEY, "", "percent", "not reported: the table prints a dash"
    )
    assert compare_with_paper(
        Measure(None, 0, reason="not run"), paper_value, 0.95
    ).reason == ("not run; not reported: the table prints a dash")


ALL = [table for table in TABLES.values() if table.paper_tables]
NOTHING = StudyFacts({}, True, 0.95, {})


def get_key(cell):
    return cell.metric, cell.model, cell.dataset, cell.setting


def test_27_published_tables_hold_4478_values_and_running_text_has_10():
    tables = [read_paper_values(file) for file in sorted(PUBLISHED.glob("*.csv"))]
    counts = sorted(
        sum(bool(cell.value) for cell in table.values()) for table in tables
    )
    assert len(tables) == 28
    assert sum(counts) == 4478 + 10


def test_every_published_table_is_declared():
    assert {file.stem for file in PUBLISHED.glob("*.csv")} == {
        table.id for table in TABLES.values() if table.paper_tables == (table.id,)
    }
    assert len({table.rule_name for table in TABLES.values()}) == len(TABLES)
    assert {"table_3_4", "table_5_2", "table_C_25"} <= {
        table.rule_name for table in TABLES.values()
    }


@pytest.mark.parametrize("declaration", TABLES.values(), ids=lambda table: table.id)
def test_a_declaration_names_what_there_is(declaration):
    assert set(declaration.sources) <= set(STYLES)
    assert set(declaration.source_kinds) <= set(READERS)
    assert set(declaration.derived) <= set(DERIVED_NUMBERS)
    if declaration.paper_tables:
        paper = read_paper_table(declaration.id)
        paper_metrics = {key[0] for key in paper} - {"all"}
        assert paper_metrics | set(declaration.own_metrics) == set(declaration.sources)
        assert set(declaration.own_metrics.values()) <= paper_metrics
        assert set(declaration.model_aliases) <= {key[1] for key in paper} | set(
            declaration.model_aliases
        )


@pytest.mark.parametrize("declaration", ALL, ids=lambda table: table.id)
def test_each_paper_value_has_one_cell_even_where_nothing_was_run(declaration):
    paper = read_paper_table(declaration.id)
    cells = build_cells(
        declaration,
        "published",
        derive_numbers(declaration, {}, paper, "published", NOTHING),
        paper,
        NOTHING,
    )
    assert Counter(map(get_key, cells)) == Counter(list(paper))
    for cell in cells:
        assert cell.value is None
        assert cell.reason
        assert cell.paper_text == paper[get_key(cell)].value


@pytest.mark.parametrize("declaration", ALL, ids=lambda table: table.id)
def test_paper_values_are_equal_to_themselves(declaration):
    paper = read_paper_table(declaration.id)
    study = build_study(declaration, paper)
    numbers = copy_paper_values(declaration, paper)
    cells = {
        get_key(cell): cell
        for cell in build_cells(declaration, "published", numbers, paper, study)
    }
    judged = 0
    for key, cell in paper.items():
        if (
            cell.value
            and key[1] != RANDOM
            and key[2] not in (AVERAGE, ALL_DATA_SETS)
            and key[0] not in declaration.known_reasons
        ):
            assert cells[key].verdict == EQUAL, key
            judged += 1
        # A study may pool other data sets than the paper has.
        if key[2] == ALL_DATA_SETS and cells[key].value is not None:
            assert cells[key].verdict == ""
            assert "pooled over the data sets of this study" in cells[key].reason
    assert judged or declaration.id == "valse-paper-1"


def test_averages_of_paper_values_are_the_paper_averages_but_for_known_ones():
    wrong = set()
    for declaration in ALL:
        paper = read_paper_table(declaration.id)
        study = build_study(declaration, paper)
        for cell in build_cells(
            declaration,
            "published",
            copy_paper_values(declaration, paper),
            paper,
            study,
        ):
            if cell.dataset == AVERAGE and cell.difference is not None:
                places = len(cell.paper_text.partition(".")[2])
                # The cells and the average are rounded by half of it each.
                if abs(cell.difference) > 10**-places:
                    wrong.add((cell.table, cell.metric, cell.model))
    assert wrong == {
        ("thesis-3.4", "acc", "vilbert"),  # a digit is missing in the existence cell
        ("thesis-A.1", "acc", "vilbert"),
        ("thesis-4.3", "p_f", "llava-next-mistral"),
    }


def test_a_number_that_is_far_from_print_differs():
    declaration = TABLES["thesis-C.2"]
    paper = read_paper_table("thesis-C.2")
    numbers = copy_paper_values(declaration, paper, lambda key, value: value + 7)
    cells = build_cells(
        declaration, "published", numbers, paper, build_study(declaration, paper)
    )
    compared = [cell for cell in cells if get_key(cell) in paper]
    assert {cell.verdict for cell in compared if cell.model != RANDOM} == {DIFFERS}
    assert all(
        cell.difference == pytest.approx(7) for cell in compared if cell.model != RANDOM
    )


def _pairwise(profile="published", compared=True):
    declaration, paper = TABLES["thesis-3.4"], read_paper_table("thesis-3.4")
    numbers = {
        NumberKey("evaluation", "acc_r", model, dataset, setting): Number(
            Measure(60.0 + i, 100, 50.0 + i, 70.0 + i)
        )
        for model, setting in (
            ("gpt2-large", "perplexity"),
            ("mine", "alignment"),
            ("reader", "choice"),
        )
        for i, dataset in enumerate(
            dict.fromkeys(key[2] for key in paper if key[2] != AVERAGE)
        )
    }
    models = {"gpt2-large": LANGUAGE, "mine": ENCODER, "reader": LANGUAGE}
    return build_cells(
        declaration, profile, numbers, paper, StudyFacts(models, compared, 0.95, {})
    )


@pytest.mark.parametrize(
    ("table", "skipped", "model", "reason"),
    [
        ("thesis-3.4", {"vilbert": "no regions"}, "vilbert", "no regions"),
        ("thesis-3.4", {"gpt2-large": "no time"}, "gpt2", "no time"),
        (
            "thesis-4.2",
            {},
            "albef-vqa",
            "not reproducible: the checkpoint has no ITM head",
        ),
        ("cv-probes-3", {"cv-probes": "no captions"}, "flava", "no captions"),
    ],
)
def test_a_cell_of_what_is_skipped_says_why(table, skipped, model, reason):
    study = StudyFacts({}, True, 0.95, {}, (), skipped)
    cells = build_cells(TABLES[table], "published", {}, read_paper_table(table), study)
    of = [cell for cell in cells if cell.model == model and cell.dataset != AVERAGE]
    assert of
    assert {
        cell.reason
        for cell in of
        if cell.value is None and "doubtful" not in cell.reason
    } == {reason}


def test_a_model_has_the_name_of_the_paper_and_a_new_one_its_own():
    cells = {get_key(cell)[:3]: cell for cell in _pairwise()}
    ours = cells["acc_r", "gpt2", "existence"]
    assert (ours.value, ours.n, ours.paper_value, ours.paper_text) == (
        60.0,
        100,
        58.0,
        "58.0",
    )
    assert (ours.verdict, ours.difference) == ("compatible", pytest.approx(2))
    assert (
        cells["acc_r", "mine", "existence"].verdict,
        cells["acc_r", "mine", "existence"].reason,
    ) == (
        "",
        "no paper value",
    )
    assert cells["acc", "mine", "existence"].reason == NOT_RUN
    assert cells["acc_r", "clip", "existence"].reason == NOT_RUN
    assert cells["acc_r", "vilbert", "existence"].reason == NOT_RUN
    assert cells["all", "random", "existence"].reason.startswith(CHANCE)
    assert cells["acc", "vilbert", "existence"].reason.endswith("needs 52.4")
    assert (
        "wrong or doubtful in the paper" in cells["acc", "vilbert", "existence"].reason
    )
    assert not [key for key in cells if key[1] in ("reader", "gpt2-large")]


@pytest.mark.parametrize("table", ["thesis-3.4", "thesis-A.1"])
def test_12_in_1_is_read_through_its_alignment_head(table):
    """Thesis 3.5.1 and VALSE's appendix D name that head; the retrieval head has no p_c and p_f at
    all.
    """
    numbers = {
        NumberKey("evaluation", "min_pc_pf", model, "existence", "alignment"): Number(
            Measure(value, 100)
        )
        for model, value in (("vilbert-12in1", 1.0), ("vilbert-12in1-itm", 85.0))
    }
    models = {"vilbert-12in1": ENCODER, "vilbert-12in1-itm": ENCODER}
    study = StudyFacts(models, True, 0.95, {})
    cells = build_cells(
        TABLES[table], "published", numbers, read_paper_table(table), study
    )
    by_key = {get_key(cell)[:3]: cell for cell in cells}
    assert by_key["min_pc_pf", "vilbert-12in1", "existence"].value == 85.0
    assert by_key["min_pc_pf", "vilbert-12in1 (ours)", "existence"].value == 1.0


@pytest.mark.parametrize("table", ["thesis-3.4", "thesis-A.1"])
def test_cells_of_visualbert_say_how_its_input_differs_from_the_thesiss(table):
    """Thesis 3.5.4, footnote 12: it processes two sentences."""
    numbers = {
        NumberKey(
            "evaluation", "acc_r", "visualbert", "plurality", "alignment"
        ): Number(Measure(50.0, 100, 40.0, 60.0))
    }
    study = StudyFacts({"visualbert": ENCODER}, True, 0.95, {})
    cells = build_cells(
        TABLES[table], "published", numbers, read_paper_table(table), study
    )
    by_key = {get_key(cell)[:3]: cell for cell in cells}
    measured, absent = (
        by_key["acc_r", "visualbert", "plurality"],
        by_key["acc", "visualbert", "plurality"],
    )
    assert measured.verdict == COMPATIBLE
    assert "two sentences" in measured.reason
    assert "detector" in measured.reason
    assert "two sentences" not in absent.reason
    assert "two sentences" not in by_key["acc_r", "lxmert", "plurality"].reason


@pytest.mark.parametrize(
    ("table", "metric", "value", "script"),
    [
        ("thesis-3.4", "acc_r", 70.0, "lxmert_valse_eval.py"),
        ("thesis-3.4", "auroc", 60.0, "AUROC, which it lacks"),
        ("thesis-A.1", "p_c", 70.0, "lxmert_valse_eval.py"),
        ("thesis-B.1", "p_c", 60.0, ""),
        ("thesis-4.2", "acc_r", 60.0, ""),
    ],
)
def test_lxmert_follows_the_script_that_the_paper_values_are_from(
    table, metric, value, script
):
    numbers = {
        NumberKey("evaluation", metric, "lxmert", "existence", setting): Number(
            Measure(number, 100, number - 10, number + 10)
        )
        for setting, number in (("alignment", 60.0), ("valse-script", 70.0))
    }
    study = StudyFacts({"lxmert": ENCODER}, True, 0.95, {})
    cells = build_cells(
        TABLES[table], "published", numbers, read_paper_table(table), study
    )
    by_key = {get_key(cell)[:3]: cell for cell in cells}
    cell = by_key[metric, "lxmert", "existence"]
    assert cell.value == value
    assert script in cell.reason


def test_a_page_names_the_script_of_every_table_with_paper_values():
    page = Path(__file__).parents[3] / "docs" / "reference" / "tables.md"
    text = page.read_text(encoding="utf-8")
    section = text.split("## The script behind each table")[1].split("\n## ")[0]
    named = set()
    for line in section.splitlines():
        if line.startswith("| "):
            named.update(line.split("|")[1].strip().split(", "))
    compared = {
        declaration.id.removeprefix("thesis-")
        for declaration in TABLES.values()
        if declaration.paper_tables
    }
    assert compared - named == set()


def test_an_average_weighs_data_sets_the_same_with_deviation_and_interval():
    cell = {get_key(cell)[:3]: cell for cell in _pairwise()}["acc_r", "mine", "average"]
    assert cell.value == pytest.approx(65)
    assert cell.n == 1100
    assert cell.sd == pytest.approx(11**0.5)  # of 60, 61, …, 70
    # Eleven half widths of 10.
    assert cell.ci_high - cell.value == pytest.approx(10 / 11**0.5)


def test_a_model_named_like_another_of_the_paper_is_distinguished():
    # The paper's gpt2 is gpt2-large.
    declaration, paper = (
        TABLES["thesis-3.4"],
        read_paper_table("thesis-3.4"),
    )
    place = NumberKey("evaluation", "acc_r", "gpt2", "existence", "perplexity")
    study = StudyFacts({"gpt2": LANGUAGE}, True, 0.95, {})
    cells = build_cells(
        declaration, "published", {place: Number(Measure(60.0, 9))}, paper, study
    )
    by_key = {get_key(cell)[:3]: cell for cell in cells}
    assert by_key["acc_r", "gpt2", "existence"].value is None
    assert by_key["acc_r", "gpt2 (ours)", "existence"].value == 60.0
    assert len(by_key) == len(cells)


def test_a_data_set_of_ones_own_has_a_column_and_enters_no_average():
    declaration, paper = TABLES["thesis-3.4"], read_paper_table("thesis-3.4")
    names = [*dict.fromkeys(key[2] for key in paper if key[2] != AVERAGE), "mine-too"]
    numbers = {
        NumberKey("evaluation", "acc_r", "m", name, "alignment"): Number(
            Measure(99.0 if name == "mine-too" else 50.0, 9)
        )
        for name in names
    }
    study = StudyFacts(
        {"m": ENCODER}, True, 0.95, {}, ("existence", "mine-too", "unscored")
    )
    by_key = {
        get_key(cell)[:3]: cell
        for cell in build_cells(declaration, "published", numbers, paper, study)
    }
    assert by_key["acc_r", "m", "mine-too"].value == 99.0
    assert by_key["acc_r", "m", "mine-too"].reason == "no paper value"
    assert by_key["acc_r", "m", AVERAGE].value == 50.0
    assert not [key for key in by_key if key[2] == "unscored"]


def test_a_data_set_of_ones_own_is_shown_if_a_source_has_its_numbers():
    # `valid` is derived; the numbers of `samples` are only read to derive others.
    sources = {"valid": (NumberSource(DERIVED, "valid"),)}
    declaration = Declaration(
        "mine", "Mine", sources, adds_own_datasets=True, extra_sources=("samples",)
    )
    numbers = {
        NumberKey(DERIVED, "valid", "", "mine", ""): Number(Measure(3.0, 3)),
        NumberKey("samples", "caption", "", "sampled", "1"): build_text_number("a", 1),
    }
    key = PaperKey("valid", "", "existence", "")
    paper = {key: PaperValue(key, "505", "count", "")}
    study = StudyFacts({}, True, 0.95, {}, ("existence", "mine", "sampled"))
    cells = build_cells(declaration, "published", numbers, paper, study)
    assert [(cell.dataset, cell.value) for cell in cells] == [
        ("existence", None),
        ("mine", 3.0),
    ]


def test_an_average_over_some_data_sets_is_none():
    declaration, paper = TABLES["thesis-3.4"], read_paper_table("thesis-3.4")
    numbers = {
        NumberKey("evaluation", "acc_r", "mine", "existence", "alignment"): Number(
            Measure(60.0, 100)
        )
    }
    cells = build_cells(
        declaration,
        "published",
        numbers,
        paper,
        StudyFacts({"mine": ENCODER}, True, 0.95, {}),
    )
    by_key = {get_key(cell)[:3]: cell for cell in cells}["acc_r", "mine", "average"]
    assert (by_key.value, by_key.reason) == (
        None,
        "not averaged: 10 of 11 data sets were not run",
    )


@pytest.mark.parametrize(
    ("profile", "compared", "reason"),
    [("equations", True, ONLY_PUBLISHED), ("published", False, SYNTHETIC_DATA)],
)
def test_without_comparison_our_models_stand_alone_in_all_columns_of_print(
    profile, compared, reason
):
    cells = _pairwise(profile, compared)
    assert list(dict.fromkeys(cell.model for cell in cells)) == ["gpt2", "mine"]
    assert {cell.dataset for cell in cells} == {
        key[2] for key in read_paper_table("thesis-3.4")
    }
    assert all(
        cell.paper_value is None and not cell.verdict and not cell.paper_text
        for cell in cells
    )
    assert {cell.reason for cell in cells if cell.value is not None} == {reason}
    assert {cell.chance for cell in cells} == {50.0}


def test_undefined_correlations_are_equal_where_print_has_nan_and_differ_where_it_has_a_number():
    declaration, paper = TABLES["thesis-C.3"], read_paper_table("thesis-C.3")
    study = build_study(declaration, paper)
    undefined = Number(
        Measure(None, 5, reason="the test is constant: all 5 verdicts are 1"),
        text="nan",
    )
    numbers = dict.fromkeys(copy_paper_values(declaration, paper), undefined)
    cells = build_cells(declaration, "published", numbers, paper, study)
    assert {cell.verdict for cell in cells if cell.paper_text == "nan"} == {EQUAL}
    assert {cell.verdict for cell in cells if cell.paper_text not in ("nan", "")} == {
        DIFFERS
    }
    assert all(cell.n == 5 and cell.text == "nan" for cell in cells if cell.paper_text)
    assert {cell.verdict for cell in cells if not cell.paper_text} == {""}


def test_decoders_take_the_setting_that_print_means():
    declaration, paper = TABLES["thesis-C.25"], read_paper_table("thesis-C.25")
    numbers = {
        NumberKey("evaluation", "acc_r", "bakllava", "existence", "pairwise"): Number(
            Measure(97.0, 100)
        ),
        NumberKey(
            "evaluation", "acc_r", "bakllava", "existence", "pairwise-after-cot"
        ): Number(Measure(1.0, 100)),
        NumberKey(
            "consistency", "t_shap_explanation", "bakllava", "existence", "cot"
        ): Number(Measure(33.0, 100)),
    }
    cells = build_cells(
        declaration, "published", numbers, paper, build_study(declaration, paper)
    )
    by_key = {get_key(cell): cell for cell in cells}
    assert by_key["acc_r", "bakllava", "existence", "post-hoc"].verdict == EQUAL
    assert by_key["acc_r_cot", "bakllava", "existence", "cot"].value == 1.0
    assert by_key["t_shap_explanation", "bakllava", "existence", "cot"].value == 33.0
    assert (
        by_key["t_shap_explanation", "bakllava", "existence", "post-hoc"].value is None
    )
    assert by_key["acc_r", "bakllava", "plurality", "post-hoc"].chance == 50.0


def test_excesses_stand_next_to_cc_shap_of_models_that_were_run_without_a_verdict():
    declaration, paper = TABLES["thesis-C.2"], read_paper_table("thesis-C.2")
    names = ("gpt2", "causal-judgement", "cot")
    numbers = {
        NumberKey("consistency", "cc_shap_cot", *names): Number(Measure(0.4, 90)),
        NumberKey("consistency", "cc_shap_cot:excess", *names): Number(
            Measure(0.1, 80, 0.0, 0.2)
        ),
    }
    cells = build_cells(
        declaration, "published", numbers, paper, build_study(declaration, paper)
    )
    excesses = {
        get_key(cell): cell for cell in cells if cell.metric.endswith(":excess")
    }
    (measured,) = filter(lambda cell: cell.is_filled, excesses.values())
    assert (measured.value, measured.n, measured.verdict) == (0.1, 80, "")
    assert get_key(measured) == ("cc_shap_cot:excess", *names)
    assert {model for _, model, _, _ in excesses} == {"gpt2"}
    # Two data sets; no model has an excess of post-hoc explanations.
    assert len(excesses) == 2


def test_corrected_t_shap_stands_next_to_t_shap_where_one_can_be_corrected():
    declaration, paper = TABLES["thesis-4.2"], read_paper_table("thesis-4.2")
    names = ("lxmert", "existence", "alignment")
    t_shap = NumberKey("shares", "t_shap:caption", *names)
    corrected = t_shap._replace(metric="t_shap_corrected:caption")
    numbers = {t_shap: Number(Measure(50.0, 90, 48.0, 52.0))}
    study = build_study(declaration, paper)
    cells = build_cells(declaration, "published", numbers, paper, study)
    assert "t_shap_c_corrected" not in {cell.metric for cell in cells}

    numbers[corrected] = Number(Measure(49.0, 90, 46.0, 52.0))
    cells = build_cells(declaration, "published", numbers, paper, study)
    shown = [cell for cell in cells if cell.metric == "t_shap_c_corrected"]
    assert {cell.model for cell in shown} == {"lxmert"}
    (measured,) = [cell for cell in shown if cell.is_filled]
    assert (measured.dataset, measured.value, measured.ci_low, measured.ci_high) == (
        *("existence", 49.0, 46.0),
        52.0,
    )
    assert (measured.verdict, measured.paper_value) == ("", None)


@pytest.mark.parametrize("table", ["thesis-C.25", "decoders-paper-3"])
def test_accuracies_next_to_tests_are_of_the_tested_items(table):
    declaration, paper = TABLES[table], read_paper_table(table)
    numbers = {
        NumberKey("evaluation", "acc_r", "bakllava", "existence", "pairwise"): Number(
            Measure(92.0, 505)
        ),
        NumberKey(
            "evaluation", "acc_r", "bakllava", "existence", "pairwise-after-cot"
        ): Number(Measure(1.0, 505)),
        NumberKey(
            "consistency", "accuracy", "bakllava", "existence", "post-hoc"
        ): Number(Measure(97.0, 100)),
        NumberKey(
            "consistency", "accuracy_cot", "bakllava", "existence", "cot"
        ): Number(Measure(2.0, 100)),
        NumberKey("evaluation", "acc_r", "bakllava", "plurality", "pairwise"): Number(
            Measure(78.0, 851)
        ),
    }
    cells = build_cells(
        declaration, "published", numbers, paper, build_study(declaration, paper)
    )
    by_key = {get_key(cell): cell for cell in cells}
    before, after = (
        by_key[key, "bakllava", "existence", kind]
        for key, kind in (("acc_r", "post-hoc"), ("acc_r_cot", "cot"))
    )
    assert (before.value, before.n, before.verdict) == (97.0, 100, EQUAL)
    assert (after.value, after.n) == (2.0, 100)
    assert by_key["acc_r", "bakllava", "plurality", "post-hoc"].n == 851  # not tested


def test_accuracy_of_language_models_after_a_chain_of_thought_is_of_the_tests_chain():
    declaration, paper = TABLES["thesis-5.2"], read_paper_table("thesis-5.2")
    numbers = {
        NumberKey("consistency", "accuracy_cot", "llama2-7b", "comve", "cot"): Number(
            Measure(60.0, 100)
        ),
    }
    for dataset in ("comve", "e-snli"):
        key = NumberKey(
            "evaluation", "accuracy", "llama2-7b", dataset, "choice-after-cot"
        )
        numbers[key] = Number(Measure(70.0, 100))
    cells = build_cells(
        declaration, "published", numbers, paper, build_study(declaration, paper)
    )
    values = {get_key(cell): cell.value for cell in cells}
    assert values["accuracy_cot", "llama2-7b", "comve", "cot"] == 60
    # Without tests there is only the answer of stage evaluation.
    assert values["accuracy_cot", "llama2-7b", "e-snli", "cot"] == 70


@pytest.mark.parametrize("table", ["thesis-5.5", "decoders-paper-2"])
def test_accuracies_on_captions_of_other_images_are_of_the_tested_items(table):
    declaration, paper = TABLES[table], read_paper_table(table)
    numbers = {
        NumberKey("evaluation", "acc_r", "bakllava", "mscoco", "pairwise"): Number(
            Measure(92.0, 1500)
        ),
        NumberKey(
            "evaluation", "acc_r", "bakllava", "mscoco", "pairwise-after-cot"
        ): Number(Measure(91.0, 1500)),
        NumberKey("consistency", "accuracy", "bakllava", "mscoco", "post-hoc"): Number(
            Measure(99.0, 100)
        ),
        NumberKey("consistency", "accuracy_cot", "bakllava", "mscoco", "cot"): Number(
            Measure(98.0, 100)
        ),
        NumberKey(
            "evaluation", "acc_r", "llava-next-vicuna", "mscoco", "pairwise"
        ): Number(Measure(93.0, 1500)),
        NumberKey(
            "evaluation", "accuracy", "bakllava", "vqa-decoders", "answering"
        ): Number(Measure(72.0, 100)),
        NumberKey(
            "consistency", "accuracy", "bakllava", "vqa-decoders", "post-hoc"
        ): Number(Measure(60.0, 100)),
        NumberKey(
            "consistency", "accuracy", "bakllava", "gqa-decoders", "post-hoc"
        ): Number(Measure(68.0, 100)),
    }
    cells = build_cells(
        declaration, "equations", numbers, paper, build_study(declaration, paper)
    )
    by_key = {get_key(cell): cell for cell in cells}
    before, after = (
        by_key[key, "bakllava", "mscoco", kind]
        for key, kind in (("accuracy", "post-hoc"), ("accuracy_cot", "cot"))
    )
    assert (before.value, before.n) == (99.0, 100)
    assert (after.value, after.n) == (98.0, 100)
    # Not tested.
    assert by_key["accuracy", "llava-next-vicuna", "mscoco", "post-hoc"].n == 1500
    # Agreement with the annotators.
    assert by_key["accuracy", "bakllava", "vqa", "post-hoc"].value == 72.0
    # Only tested.
    assert by_key["accuracy", "bakllava", "gqa", "post-hoc"].value == 68.0


@pytest.mark.parametrize(
    "table", [f"cv-probes-{number}" for number in (3, 4, 5, 6, 7, 10, 11)]
)
def test_tables_of_cv_probes_name_the_checkpoints_that_the_paper_does_not(table):
    declaration = TABLES[table]
    papers = {key[1] for key in read_paper_table(table)}
    ours = {declaration.model_aliases.get(model, (model,))[-1] for model in papers}
    assert all(any(name in note for note in declaration.notes) for name in ours)


def test_texts_of_other_images_have_data_sets_of_their_own():
    declaration, paper = TABLES["thesis-4.1"], read_paper_table("thesis-4.1")
    numbers = {
        NumberKey("evaluation", "acc_r", "lxmert", "vqa-pairs", "alignment"): Number(
            Measure(95.2, 20)
        ),
        NumberKey("evaluation", "accuracy", "lxmert-vqa", "vqa", "answering"): Number(
            Measure(72.5, 20)
        ),
    }
    study = build_study(declaration, paper, **{"lxmert-vqa": ENCODER})
    cells = build_cells(declaration, "published", numbers, paper, study)
    assert not [cell for cell in cells if cell.model == "lxmert-vqa"]
    by_key = {get_key(cell): cell for cell in cells}
    assert by_key["acc_r", "lxmert", "vqa", "isa"].verdict == EQUAL
    assert by_key["accuracy", "lxmert", "vqa", "qa"].verdict == EQUAL


def test_a_dash_of_print_with_a_number_of_ours_has_no_verdict():
    declaration, paper = TABLES["thesis-4.1"], read_paper_table("thesis-4.1")
    numbers = {
        NumberKey("evaluation", "p_c", "clip", "mscoco", "alignment"): Number(
            Measure(50.0, 20)
        )
    }
    cells = build_cells(
        declaration, "published", numbers, paper, build_study(declaration, paper)
    )
    by_key = {get_key(cell): cell for cell in cells}["p_c", "clip", "mscoco", "isa"]
    assert (by_key.value, by_key.verdict, by_key.reason) == (
        50.0,
        "",
        "not reported: the table prints a dash",
    )


def test_a_category_is_compared_as_text():
    declaration, paper = TABLES["thesis-4.2"], read_paper_table("thesis-4.2")
    place = NumberKey("derived", "mm_skew", "clip", AVERAGE, "t_shap_c")
    for text, verdict in (("balanced", EQUAL), ("textual", DIFFERS)):
        cells = build_cells(
            declaration,
            "published",
            {place: build_text_number(text, 11)},
            paper,
            build_study(declaration, paper),
        )
        by_key = {get_key(cell): cell for cell in cells}[
            "mm_skew", "clip", AVERAGE, "t_shap_c"
        ]
        assert (by_key.text, by_key.verdict) == (text, verdict)


def test_a_table_survives_its_csv():
    cells = _pairwise()
    text = format_csv(cells)
    assert next(csv.reader(text.splitlines())) == COLUMNS
    assert parse_csv(text) == cells


def test_old_columns_come_first_in_their_old_order():
    old = "table profile metric model dataset setting value n ci_low ci_high paper_value difference verdict reason"
    assert COLUMNS[:14] == old.split()
    assert Cell(*["x"] * 6, 1.0, 1, None, None, None, None, "", "").text == ""
