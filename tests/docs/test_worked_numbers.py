"""The examples of the documentation, computed with the library."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"^```pycon\n(.*?)^```$", re.DOTALL | re.MULTILINE)
METRICS = ("acc", "acc_r", "auroc", "cc-shap", "edit-tests", "p_c", "p_f", "t-shap")


def run_examples(page: Path) -> doctest.TestResults:
    examples = "".join(EXAMPLE.findall(page.read_text(encoding="utf-8")))
    test = doctest.DocTestParser().get_doctest(examples, {}, page.name, str(page), 0)
    return doctest.DocTestRunner().run(test)


@pytest.mark.parametrize(
    "page",
    sorted(DOCS.rglob("*.md")),
    ids=lambda page: page.relative_to(DOCS).as_posix(),
)
def test_examples_give_what_the_page_says(page):
    assert run_examples(page).failed == 0


@pytest.mark.parametrize("metric", METRICS)
def test_a_page_of_a_metric_has_formula_source_and_worked_number(metric):
    page = DOCS / "reference" / "metrics" / f"{metric}.md"
    text = page.read_text(encoding="utf-8")
    assert "\n```math\n" in text
    assert "\n**Source.** " in text
    assert run_examples(page).attempted > 0
