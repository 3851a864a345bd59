"""Contributions before and after the counterfactual edits that the tests tell of (thesis 5.3, 5.4, C.13 to C.22)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from waltz.consistency.cc_shap_rows import contribution_rows
from waltz.consistency.contributions import Explaining, Kept, contributions_of, side_of
from waltz.consistency.edit_tests.counterfactual import NAME
from waltz.consistency.edited_contributions import Explained, moved
from waltz.consistency.item_selection import setting
from waltz.consistency.saying import POST_HOC
from waltz.core.errors import UserError
from waltz.evaluation.prompting.generation_cache import Load
from waltz.evaluation.prompting.questions import Question

Row = dict[str, Any]


def edited_rows(
    how: Explaining,
    questions: Iterable[Question],
    tests: Iterable[Mapping[str, Any]],
    load: Load,
    done: Callable[[int], object],
) -> tuple[list[Row], list[Row]]:
    """Rows of the layout `EDITED`, and of the attribution layout with all contributions to what was edited.

    The first say how far answers and post-hoc explanations moved with the edits; items without an edit have no others.

    Args:
        how: The decoder, profile and seed; what it kept of the unedited items is found again.
        questions: Questions of one data set.
        tests: Rows of the layout `CONSISTENCY`.
        load: Opens images.
        done: Told 1 after each question.
    """
    of_run = {
        row["item_id"]: row
        for row in tests
        if row["test"] == NAME and (row["profile"], row["seed"]) == (how.rules.profile, how.rules.seed)
    }
    rows: list[Row] = []
    contributions: list[Row] = []
    for question in questions:
        row = {
            "item_id": question.item_id,
            "profile": how.rules.profile,
            "setting": setting(question),
            "seed": how.rules.seed,
            "image": question.image,
        }
        try:
            found, after = _compared(how, question, of_run.get(question.item_id), load)
            row |= found
            if after is not None:
                contributions += contribution_rows(how, question, f"{POST_HOC}-edited", after.kinds[POST_HOC])
        except UserError as error:
            row["error"] = str(error)
        rows.append(row)
        done(1)
    return rows, contributions


def _compared(
    how: Explaining, question: Question, found: Mapping[str, Any] | None, load: Load
) -> tuple[Row, Kept | None]:
    """How far contributions moved, and those after the edit where there is one."""
    if found is None or found["error"] is not None:
        return {"error": "the item was not edited" if found is None else found["error"]}, None
    if found["edited_input"] is None:
        return {"reason": found["reason"]}, None
    only = replace(how, kinds=(POST_HOC,))
    before = contributions_of(how if POST_HOC in how.kinds else only, question, load)
    after = contributions_of(only, question, load, words=found["edited_input"], grid=before.grid or None)
    what = moved(_explained(before), _explained(after), how.rules.profile, how.rules.least)
    said = after.kinds[POST_HOC]["row"]
    return {
        "answer": what.answer,
        "explanation": what.explanation,
        "inserted_answer": what.inserted_answer,
        "inserted_explanation": what.inserted_explanation,
        "edited_input": found["edited_input"],
        "inserted": found["inserted"],
        "flipped": found["flipped"],
        "edited_answer": said["answer"],
        "edited_explanation": said["explanation"],
        "cc_shap": said["value"],
        "reason": what.reason,
    }, after


def _explained(kept: Kept) -> Explained:
    """A kept item as it is compared.

    Raises:
        UserError: It could not be explained.
    """
    one = kept.kinds[POST_HOC]
    if "answer" not in one:
        raise UserError(one["row"]["error"])
    names = [tuple(name) if isinstance(name, list) else name for name in one["answer"]["names"]]
    return Explained(side_of(one["answer"]), side_of(one["explanation"]), names)
