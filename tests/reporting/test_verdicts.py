import pytest

from waltz.core.intervals import Measure
from waltz.reporting.tables.paper_values import PaperValue
from waltz.reporting.tables.verdicts import COMPATIBLE, DIFFERS, EQUAL, compare_with_paper, rounds_to

KEY = ("acc_r", "gpt2", "existence", "")


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
def test_what_gives_the_printed_digits(value, digits, same):
    assert rounds_to(value, digits) is same


def test_equal_compatible_and_different():
    paper_value = PaperValue(KEY, "58.0", "percent", "")
    # 505 items at 58 %: the printed share's half interval is 4.30; ours here 4.0; together 5.88
    verdicts = {
        value: compare_with_paper(Measure(value, 505, value - 4, value + 4), paper_value, 0.95).verdict
        for value in (58.04, 63.87, 63.89, 52.13, 52.11)
    }
    assert verdicts == {58.04: EQUAL, 63.87: COMPATIBLE, 63.89: DIFFERS, 52.13: COMPATIBLE, 52.11: DIFFERS}


def test_a_count_is_equal_or_differs():
    paper_value = PaperValue(("valid", "", "existence", ""), "505", "count", "")
    assert compare_with_paper(Measure(505, 534), paper_value, 0.95).verdict == EQUAL
    comparison = compare_with_paper(Measure(504, 534, 490, 520), paper_value, 0.95)
    assert (comparison.verdict, comparison.difference) == (DIFFERS, -1)


def test_a_known_error_in_print_is_told_with_the_verdict():
    paper_value = PaperValue(KEY, "2.4", "percent", "suspicious: a digit seems to be missing")
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
        (Measure(None, 0, reason="not run"), PaperValue(KEY, "58.0", "percent", "a note"), "not run"),
        (Measure(60.0, 10), PaperValue(KEY, "", "percent", "illegible: lost"), "illegible: lost"),
    ],
)
def test_no_verdict_never_goes_without_a_reason(measure, paper_value, reason):
    comparison = compare_with_paper(measure, paper_value, 0.95)
    assert (comparison.verdict, comparison.reason) == ("", reason)


def test_what_is_undefined_in_print_is_equal_only_to_what_is_undefined():
    paper_value = PaperValue(KEY, "nan", "correlation-x100", "printed as nan: correlation undefined")
    assert compare_with_paper(Measure(None, 9, reason="constant"), paper_value, 0.95, "nan").verdict == EQUAL
    assert compare_with_paper(Measure(60.0, 9), paper_value, 0.95).verdict == DIFFERS
    assert compare_with_paper(Measure(None, 0, reason="not run"), paper_value, 0.95).verdict == ""


def test_a_number_that_is_no_share_is_given_the_width_of_ours():
    paper_value = PaperValue(KEY, "0.10", "ratio", "")
    near, far = Measure(0.24, 9, 0.14, 0.34), Measure(0.25, 9, 0.15, 0.35)  # 0.14 and 0.15 against 0.1 times √2
    assert compare_with_paper(near, paper_value, 0.95).verdict == COMPATIBLE
    assert compare_with_paper(far, paper_value, 0.95).verdict == DIFFERS


def test_an_empty_cell_of_print_says_why_beside_why_ours_is():
    paper_value = PaperValue(KEY, "", "percent", "not reported: the table prints a dash")
    assert compare_with_paper(Measure(None, 0, reason="not run"), paper_value, 0.95).reason == (
        "not run; not reported: the table prints a dash"
    )
