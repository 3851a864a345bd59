"""CC-SHAP of items one after the other, with all contributions to answers and explanations."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from waltz.consistency.contributions import Explaining, contributions_of
from waltz.consistency.item_selection import setting
from waltz.core.errors import UserError
from waltz.evaluation.encoder_vqa import ROLE
from waltz.evaluation.prompting.generation_cache import Load
from waltz.evaluation.prompting.questions import Question

Row = dict[str, Any]
SIDES = ("answer", "explanation")


def cc_shap_rows(
    how: Explaining, questions: Iterable[Question], load: Load, done: Callable[[int], object]
) -> tuple[list[Row], list[Row]]:
    """Rows of the layout `CC_SHAP`, and of the attribution layout with all contributions.

    Args:
        how: The decoder, profile and seed.
        questions: Questions of one data set.
        load: Opens images.
        done: Told 1 after each question.
    """
    rows: list[Row] = []
    contributions: list[Row] = []
    for question in questions:
        common = {
            "item_id": question.item_id,
            "profile": how.rules.profile,
            "setting": setting(question),
            "image": question.image,
        }
        kinds: Mapping[str, Mapping[str, Any]]
        try:
            kinds = contributions_of(how, question, load).kinds
        except UserError as error:
            kinds = {kind: {"row": {"error": str(error)}} for kind in how.kinds}
        for kind, kept in kinds.items():
            rows.append({**common, "kind": kind, "seed": how.rules.seed, **kept["row"]})
            contributions += contribution_rows(how, question, kind, kept)
        done(1)
    return rows, contributions


def contribution_rows(how: Explaining, question: Question, kind: str, kept: Mapping[str, Any]) -> list[Row]:
    """Rows of the attribution layout: contributions to an answer, then to its explanation.

    Args:
        how: The decoder, profile and seed.
        question: The item.
        kind: What the explanation is; it begins the rows' setting.
        kept: One kind of `Kept.kinds`.
    """
    return [
        {
            "item_id": question.item_id,
            "role": "caption" if question.form == "pairwise" else ROLE,
            "profile": how.rules.profile,
            "setting": f"{kind}:{side}",
            "image": question.image,
            "explained": how.value,
            **(
                kept[side]["columns"]
                if side in kept
                else {"text": "", "seed": how.rules.seed, "error": kept["row"]["error"]}
            ),
        }
        for side in SIDES
    ]


def tally(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Rows with errors and without a value, and tokens that next to nothing contributes to, for the run record."""
    kept = list(rows)
    return {
        "rows_with_error": sum(row.get("error") is not None for row in kept),
        "rows_without_value": sum(row.get("value") is None for row in kept),
        "small_contributions": sum((row.get("weak_answer") or 0) + (row.get("weak_explanation") or 0) for row in kept),
        "evaluations": sum(row.get("evaluated") or 0 for row in kept),
    }
