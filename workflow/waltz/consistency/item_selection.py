"""Selection of the questions of stage consistency, among the items that stage evaluation asks.

`equations` takes those of lowest rank under the study's seed, so that a smaller sample is part of a larger one.
`published` takes what the released scripts for CC-SHAP and the tests took: of captions and foils the first valid ones
in file order, of text tasks and of open questions with a `choice` the first that `sources.published_samples` draws.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from waltz.core.errors import UserError
from waltz.core.sampling import sample
from waltz.evaluation.prompting.questions import (
    Question,
    SelectedQuestions,
    assign_balanced_orders,
    build_open_questions,
    build_pairwise_questions,
    draw_published_orders,
    select_text_questions,
)
from waltz.evaluation.settings import CHOICE
from waltz.evaluation.vqa import select_questions as select_vqa_items
from waltz.fidelity import get_fidelity
from waltz.sources.published_samples import PUBLISHED_SAMPLES, select_published_ids

Row = Mapping[str, Any]


def select_questions(
    rows: Sequence[Row], dataset: str, entry: Mapping[str, Any], profile: str, n: int | None, seed: int
) -> SelectedQuestions:
    """Select the questions of a data set, in their order, and list the drawn items that cannot be asked.

    Args:
        rows: All rows of the data set's file in file order: of the benchmark, of the layout `QUESTIONS` or of `TEXTS`.
        entry: `form` (`pairs`, `open` or `choice`), and the study's own entry, whose `size` bounds n.
        n: Number of items; None takes all of the data set, of published samples as many as were published (300 open
            questions, 100 items of a text task). A smaller data set is taken completely.
        seed: The study's seed: of sample, order of captions and wrong labels in `equations`.
    Raises:
        UserError: Nothing can be asked.
    """
    form, size = entry["form"], entry.get("size")
    n = min((limit for limit in (n, size) if limit is not None), default=None)
    if form == "choice":
        return select_text_questions(rows, dataset, profile, n, seed)
    selected = (
        _select_pairs(rows, dataset, profile, n, seed)
        if form == "pairs"
        else _select_open_questions(rows, dataset, entry, profile, n, seed)
    )
    if not selected.questions:
        raise UserError(f"no usable questions: {dataset} (got 0 of {len(rows)} rows); correct the data set's entry")
    return selected


def get_setting(question: Question) -> str:
    """Return the setting of a question: `pairwise`, `open`, or `choice` for text tasks."""
    return question.form if question.form in ("pairwise", "open") else CHOICE


def select_seeds(seeds: Sequence[int], dataset: str, profile: str, repeated: Collection[str] | None) -> list[int]:
    """Return the seeds of the runs on a data set: in `published` only the first, unless its runs were repeated.

    Args:
        repeated: Data sets whose runs were repeated, None for all.
    """
    is_repeated = repeated is None or dataset in repeated
    return list(seeds if is_repeated or get_fidelity(profile).sampling == "rank" else seeds[:1])


def select_shared_pair(rows: Sequence[Row], entry: Mapping[str, Any], n: int | None) -> tuple[str, str]:
    """Select the sentences that all items of ComVE share in the released code: what its loop over the data leaves.

    They are those of the row after the last one tested, or of the last row where all are tested.

    Args:
        rows: All rows of ComVE in file order, rejected ones included.
        n: Number of items, as in `select_questions`.
    Raises:
        UserError: The selected row does not have two sentences.
    """
    tested = min((limit for limit in (n, entry.get("size")) if limit is not None), default=PUBLISHED_SAMPLES["comve"].n)
    by_id = {str(row["source_id"]): row for row in rows}
    read = [tuple(by_id[place]["choices"]) for place in select_published_ids("comve", rows, tested + 1)]
    pair = read[min(tested, len(read) - 1)]
    if len(pair) != 2:
        raise UserError(
            f"wrong number of sentences: ComVE, row {tested + 1} of the published order (got {len(pair)}, expected 2)"
        )
    return pair


def _select_pairs(rows: Sequence[Row], dataset: str, profile: str, n: int | None, seed: int) -> SelectedQuestions:
    """Select captions and foils; items without votes count as valid. Orders are those of all valid items."""
    valid = {str(row["item_id"]): row for row in rows if row["valid"] is not False}
    ids = list(valid)
    fidelity = get_fidelity(profile)
    released = fidelity.sampling == "released"
    taken = ids[:n] if released else sample(ids, None if n is None else min(n, len(ids)), seed)
    balanced = fidelity.option_order == "balanced"
    orders = assign_balanced_orders(ids, seed) if balanced else draw_published_orders(list(valid.values()))
    return SelectedQuestions(
        tuple(build_pairwise_questions([valid[item_id] for item_id in taken], dataset, orders)), {}
    )


def _select_open_questions(
    rows: Sequence[Row], dataset: str, entry: Mapping[str, Any], profile: str, n: int | None, seed: int
) -> SelectedQuestions:
    """Select open questions among those that stage evaluation asks.

    Of a published draw, `published` takes the first and lists those that cannot be asked.
    """
    choice = entry.get("choice")
    items = {item["item_id"]: item for item in select_vqa_items(dataset, rows, entry["size"], seed, choice)[0]}
    if get_fidelity(profile).sampling == "rank" or choice is None:
        drawn, skipped = sample(list(items), None if n is None else min(n, len(items)), seed), {}
    else:
        drawn = [f"{dataset}:{source_id}" for source_id in select_published_ids(choice, rows, entry["size"])[:n]]
        reasons = {f"{dataset}:{row['source_id']}": row["rejected"] or "the answer is withheld" for row in rows}
        skipped = {item_id: reasons[item_id] for item_id in drawn if item_id not in items}
    taken = [items[item_id] for item_id in drawn if item_id in items]
    return SelectedQuestions(tuple(build_open_questions(taken, dataset)), skipped)
