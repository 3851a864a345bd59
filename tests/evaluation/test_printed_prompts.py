"""The prompts of `equations` are those that the thesis prints, but for the differences stated."""

import pytest

from evaluation import printed_prompts
from evaluation.printed_prompts import Printed, read_printed, render_ours
from waltz.evaluation.prompting.prompt_files import FALLBACK_KINDS, KINDS

FILE = read_printed()


@pytest.mark.parametrize("entry", FILE.prompts, ids=lambda entry: entry.source)
def test_a_prompt_is_the_printed_one_or_its_difference_is_stated(
    entry: Printed,
) -> None:
    ours = render_ours(entry, FILE.questions[entry.question])
    assert (ours == entry.printed) is (not entry.difference)


def test_every_kind_of_prompt_is_compared_or_not_printed() -> None:
    # The kinds for attributions and after edits are those of their fallbacks in `equations`.
    printed = {entry.kind for entry in FILE.prompts}
    same = {kind for kind, fallback in FALLBACK_KINDS.items() if fallback in printed}
    same.add("answer-attributed-cot")
    assert not printed & set(FILE.not_printed)
    assert printed | same | set(FILE.not_printed) == set(KINDS)


def test_the_page_has_the_table() -> None:
    page = printed_prompts.PAGE.read_text(encoding="utf-8")
    assert printed_prompts.replace_table(page) == page
