"""The audit of the papers' own numbers, with findings checked by hand."""

import csv
import io
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tools.audit_paper_values import (
    FINDING,
    NOT_CHECKABLE,
    OK,
    audit_paper_tables,
    find_hits,
    format_audit,
)
from waltz.core.files.resources import RESOURCES
from waltz.reporting.tables.paper_values import DOUBTFUL, read_paper_values

PUBLISHED = RESOURCES / "published"
DOCS = Path(__file__).parents[2] / "docs/reference/paper-audit.md"


@pytest.fixture(scope="module")
def audit():
    return {
        (cell.table, cell.metric, cell.model, cell.dataset, cell.setting): cell
        for cell in audit_paper_tables(PUBLISHED)
    }


def test_every_cell_of_every_table_has_one_answer_and_a_reason_where_it_is_not_ok(
    audit,
):
    expected = [
        (path.stem, *key)
        for path in sorted(PUBLISHED.glob("*.csv"))
        for key in read_paper_values(path)
    ]
    assert list(audit) == expected
    assert {cell.answer for cell in audit.values()} == {OK, FINDING, NOT_CHECKABLE}
    assert all(bool(cell.detail) == (cell.answer != OK) for cell in audit.values())
    assert all(cell.checks for cell in audit.values() if cell.answer == OK)


def test_every_doubt_noted_with_the_paper_values_is_a_finding(audit):
    noted = [
        (path.stem, *key)
        for path in PUBLISHED.glob("*.csv")
        for key, value in read_paper_values(path).items()
        if value.note.startswith(DOUBTFUL)
    ]
    assert len(noted) > 100
    assert all(audit[place].answer == FINDING for place in noted)


@pytest.mark.parametrize(
    ("digits", "n", "expected"),
    [
        ("66.9", 534, (357, True)),  # 357 / 534 = 66.85
        ("49.7", 104, (None, False)),  # 51 / 104 = 49.04, 52 / 104 = 50
        ("62.5", 900, (563, False)),  # 562 / 900 = 62.44, 563 / 900 = 62.556
        ("38.46", 117, (45, True)),
        ("100", 5, (5, True)),
        ("0.0", 7, (0, True)),
    ],
)
def test_numbers_of_hits_are_found_by_rounding_or_by_cutting_alone(digits, n, expected):
    assert find_hits(digits, n) == expected


@pytest.mark.parametrize(
    ("place", "finding"),
    [
        # CLIP: no number of 104 items is 49.7 %
        (
            ("thesis-3.4", "acc_r", "clip", "coreference-clean", ""),
            "no number of hits out of 104 gives it",
        ),
        # 61.5 and 37.3 have the mean 49.4
        (
            ("thesis-A.1", "acc", "lxmert", "counting-adversarial", ""),
            "p_c 61.5 and p_f 37.3 give 49.4",
        ),
        (
            ("thesis-A.1", "acc", "lxmert", "counting-adversarial", ""),
            "thesis-B.1 prints 49.4",
        ),
        (
            ("thesis-3.4", "acc", "vilbert", "average", ""),
            "its 11 cells have the mean 46.78",
        ),
        (
            ("thesis-4.3", "p_f", "llava-next-mistral", "average", ""),
            "its 11 cells have the mean 94.55",
        ),
        (
            ("thesis-A.1", "auroc", "visualbert", "average", ""),
            "69.2, the average of vilbert-12in1",
        ),
        (
            ("thesis-A.1", "auroc", "visualbert", "existence", ""),
            "as if the classes were exchanged",
        ),
        (
            ("thesis-A.1", "p_c", "visualbert", "relations", ""),
            "equal to existence in 5 metrics",
        ),
        (
            ("thesis-4.1", "p_c", "albef-vqa", "mscoco", "isa"),
            "thesis B.1 has 0 or less on every instrument",
        ),
        (
            ("thesis-4.3", "p_c", "llava-next-vicuna", "existence", ""),
            "all 11 cells of the row are even",
        ),
        (
            ("decoders-paper-3", "acc_r_cot", "mplug-owl3", "plurality", "cot"),
            "repeats the one before CoT",
        ),
        # table 4: 100 % of the simplified plain captions with their contextual images are a match
        # for FLAVA
        (
            ("cv-probes-7", "verb_shap", "flava", "cv-probes:+img-cap", "non-match"),
            "calls no item a non-match",
        ),
        # 648 + 949 = 1597, not 1633
        (
            ("thesis-3.1", "examples", "", "actions", ""),
            "its instruments have 1597 valid items",
        ),
        (
            ("thesis-A.2", "unanimous_percent", "", "overall", ""),
            "5668 of 8782 are 64.54 %",
        ),
        (
            ("thesis-C.3", "adding_mistakes", "gpt2", "causal-judgement", "cot"),
            "but the test has 1 %",
        ),
    ],
)
def test_findings_checked_by_hand(audit, place, finding):
    assert audit[place].answer == FINDING
    assert finding in audit[place].detail


def test_sound_cells_name_the_checks_that_they_passed(audit):
    assert (
        audit["thesis-A.1", "acc", "lxmert", "existence", ""].checks
        == "mean of p_c and p_f; other table"
    )
    assert audit["thesis-A.2", "valid", "", "overall", ""].checks == "sum"
    assert (
        audit[
            "cv-probes-3", "accuracy", "blip", "cv-probes:+img+cap", "original"
        ].checks
        == "number of items"
    )
    assert (
        audit["thesis-C.3", "biasing_features", "gpt2", "comve", "cot"].checks
        == "nan where the test is constant"
    )


def test_a_digit_that_is_changed_becomes_a_finding(tmp_path, audit):
    folder = shutil.copytree(PUBLISHED, tmp_path / "published")
    place = ("thesis-A.1", "p_c", "lxmert", "existence", "")
    file = folder / "thesis-A.1.csv"
    row = next(
        line
        for line in file.read_text(encoding="utf-8").splitlines()
        if ",".join(place[:4]) + ",," in line
    )
    changed = row.replace(f",{audit[place].value},", ",12.3,")
    file.write_text(
        file.read_text(encoding="utf-8").replace(row, changed), encoding="utf-8"
    )
    broken = {
        tuple(vars(cell).values())[:5]: cell for cell in audit_paper_tables(folder)
    }
    assert audit[place].answer == OK
    assert "thesis-B.1 prints" in broken[place].detail
    assert "give" in broken["thesis-A.1", "acc", "lxmert", "existence", ""].detail


def test_the_table_lists_findings_first(audit):
    rows = list(csv.DictReader(io.StringIO(format_audit(list(audit.values())))))
    answers = [row["answer"] for row in rows]
    assert len(rows) == len(audit)
    assert answers == sorted(answers, key=[FINDING, OK, NOT_CHECKABLE].index)


def test_the_page_gives_the_numbers_of_answers(audit):
    counts = Counter(cell.answer for cell in audit.values())
    text = re.sub(r"\s+", " ", DOCS.read_text(encoding="utf-8"))
    for answer in (OK, FINDING, NOT_CHECKABLE):
        assert f"| {answer} | {counts[answer]:,} |" in text
