"""The claims of the papers' text, judged by their own cells (`tools/audit_paper_claims.py`)."""

from pathlib import Path

import pytest

from tools.audit_paper_claims import (
    CLAIMS,
    FAILS,
    HOLDS,
    UNDECIDED,
    PaperTables,
    audit_claims,
    format_page,
    judge_all,
    judge_most,
    judge_order,
    judge_values,
)
from waltz.reporting.tables.declaration import PUBLISHED

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "paper-claims.md"


@pytest.fixture(scope="module")
def rows():
    return audit_claims(PaperTables())


def find(rows, document, words):
    (row,) = [
        row for row in rows if row["document"] == document and words in row["claim"]
    ]
    return row


def test_the_page_shows_what_is_computed(rows):
    assert PAGE.read_text(encoding="utf-8") == format_page(rows)


def test_all_documents_have_claims_that_differ():
    assert {entry.document for entry in CLAIMS} == {
        "thesis",
        "VALSE",
        "MM-SHAP",
        "VL decoders",
        "CV-Probes",
    }
    assert len({(entry.document, entry.text) for entry in CLAIMS}) == len(CLAIMS) >= 60


# Judged by hand from the printed tables.
@pytest.mark.parametrize(
    ("document", "words", "answer", "evidence"),
    [
        ("thesis", "falls more in CoT", FAILS, "llava-next-mistral gqa 3"),
        ("thesis", "eight existing tests", FAILS, "printed tests 7"),
        ("thesis", "nine data sets", FAILS, "data sets in the tables 12"),
        ("thesis", "the most negative", UNDECIDED, "adding_mistakes 8 (and 11"),
        ("thesis", "higher scores than base on logical", HOLDS, "16 of 30"),
        ("thesis", "falls by 4 to 30", FAILS, "4 of 90 numbers from -30 to -2"),
        ("VL decoders", "falls by 1 to 30", HOLDS, "120 numbers from -30 to -1"),
        ("VL decoders", "fall of T-SHAP is significant", UNDECIDED, "no item"),
        ("VL decoders", "0 or 100 %", FAILS, "biasing_features bakllava gqa cot 14"),
        ("thesis", "on GQA balanced is 90", FAILS, "printed bakllava 86"),
        ("thesis", "on VQA is 87", HOLDS, "llava-next-mistral 97"),
        ("thesis", "at least 77.3 %", FAILS, "coreference-clean 73.8"),
        ("VALSE", "the order is 12-in-1", FAILS, "clip 64"),
        ("CV-Probes", "FLAVA in the third column only", FAILS, "-0.85"),
        ("thesis", "Falcon-7b is the least", HOLDS, "falcon-7b 36.3"),
    ],
)
def test_claims_are_judged_as_by_hand(rows, document, words, answer, evidence):
    row = find(rows, document, words)
    assert row["answer"] == answer
    assert evidence in row["evidence"]


def test_a_changed_cell_changes_the_answer(tmp_path):
    for path in PUBLISHED.glob("*.csv"):
        text = path.read_text(encoding="utf-8")
        if path.stem == "thesis-3.5":
            text = text.replace(
                "thesis-3.5,acc_r,bakllava,average,,83",
                "thesis-3.5,acc_r,bakllava,average,,86",
            )
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    row = find(audit_claims(PaperTables(tmp_path)), "thesis", "the order is LLaVA")
    assert row["answer"] == FAILS


def test_exceptions_are_named_and_counted():
    numbers = {f"m{number}": float(number) for number in range(7)}
    judgement = judge_all(numbers, lambda number: number < 1)
    assert judgement.answer == FAILS
    assert judgement.evidence == (
        "6 of 7 numbers from 0 to 6 are exceptions: m1 1, m2 2, m3 3, m4 4, 2 more"
    )
    assert judge_all(numbers, lambda number: number < 7).answer == HOLDS
    assert judge_all({}, lambda number: True).answer == UNDECIDED


def test_order_majority_and_quotations():
    assert judge_order({"a": 2, "b": 1}).answer == HOLDS
    assert judge_order({"a": 1, "b": 1}).answer == FAILS
    assert judge_most({"a": 1, "b": 2}, lambda number: number > 1).answer == FAILS
    assert judge_values({"a": 62.4}, {"a": 62}).answer == HOLDS
    assert judge_values({"a": 62.6}, {"a": 62}).answer == FAILS
