"""Selection of the questions of stage consistency, among the items of stage evaluation.

`equations` takes the questions of lowest rank under the study's seed, so that a smaller sample is
part of a larger one. `published` takes the questions of the released scripts for CC-SHAP and the
tests. For captions and foils these are the first valid items in file order; for text tasks, and
open questions with a `choice`, the first items of `sources.published_samples`.
"""

from collections.abc import Collection, Sequence

from waltz.core.errors import UserError
from waltz.core.files.group_files import DatasetSettings
from waltz.core.layout import Row
from waltz.core.records import from_row
from waltz.core.sampling import sample_at_most
from waltz.core.schema import ItemRecord
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
from waltz.evaluation.vqa import select_vqa_items
from waltz.fidelity import Fidelity
from waltz.sources.published_samples import PUBLISHED_SAMPLES, select_published_ids


def select_questions(
    rows: Sequence[Row],
    dataset: str,
    entry: DatasetSettings,
    fidelity: Fidelity,
    n: int | None,
    seed: int,
) -> SelectedQuestions:
    """Select the questions of a data set, in their order, and list the selected items that have no
    usable question.

    Args:
        rows: All rows of the data set's file in file order, in the layout of the benchmark,
            `QUESTIONS` or `TEXTS`.
        entry: `form` (`pairs`, `open` or `choice`), and the entry of the study, whose `size` limits
            n.
        n: Number of items. None takes the whole data set; of a published sample, as many items as
            were published (300 open questions, 100 items of a text task). A smaller data set is
            taken completely.
        seed: The study's seed; in `equations` it decides the sample, the order of captions and the
            wrong labels.
    Raises:
        UserError: There is no usable question.
    """
    # The study's `size` limits the questions of the evaluation, from which these are taken.
    form = entry["form"]
    n = _choose_limit(n, entry.get("size"))
    if form == "choice":
        return select_text_questions(rows, dataset, fidelity, n, seed)
    if form == "pairs":
        selected = _select_pairs(rows, dataset, fidelity, n, seed)
    else:
        selected = _select_open_questions(rows, dataset, entry, fidelity, n, seed)
    if not selected.questions:
        raise UserError(
            f"no usable questions: {dataset} (got 0 of {len(rows)} rows); correct the data set's entry"
        )
    return selected


def _choose_limit(*limits: int | None) -> int | None:
    """Return the smallest limit; None if all limits are None."""
    return min((limit for limit in limits if limit is not None), default=None)


def get_setting(question: Question) -> str:
    """Return the setting of a question: `pairwise`, `open`, or `choice` for text tasks."""
    if question.form in ("pairwise", "open"):
        return question.form
    return CHOICE


def select_seeds(
    seeds: Sequence[int],
    dataset: str,
    repeated: Collection[str] | None,
    is_sampled: bool,
) -> list[int]:
    """Return the seeds of the runs of a model on a data set: the first alone, unless runs on the
    data set are repeated and can differ.

    The thesis repeated some runs, because models "generate different explanations in each run due
    to the randomness in the generation process" (C.5, C.6.3, C.8). A second run of a model that does
    not sample would have the same texts, with other draws of inserted words and permutations.

    Args:
        repeated: Names of the data sets whose runs are repeated; None for all.
        is_sampled: Whether the model samples its explanations (`continuations.samples_text`).
    """
    is_repeated = repeated is None or dataset in repeated
    if is_repeated and is_sampled:
        return list(seeds)
    return list(seeds[:1])


def select_shared_pair(
    rows: Sequence[Row], entry: DatasetSettings, n: int | None
) -> tuple[str, str]:
    """Select the two sentences that the released code uses for every item of ComVE.

    The released code reads them from a loop variable after its loop over the data. They are
    therefore the sentences of the row after the last tested one, or of the last row if all rows are
    tested.

    Args:
        rows: All rows of ComVE in file order, rejected ones included.
        n: Number of items, as in `select_questions`.
    Raises:
        UserError: The selected row does not have two sentences.
    """
    # One row more than is tested is drawn: its sentences are those that the loop left.
    limit = _choose_limit(n, entry.get("size"))
    tested = PUBLISHED_SAMPLES["comve"].n if limit is None else limit
    by_id = {str(row["source_id"]): row for row in rows}
    source_ids = select_published_ids("comve", rows, tested + 1)
    last_id = source_ids[min(tested, len(source_ids) - 1)]
    pair = tuple(by_id[last_id]["choices"])
    if len(pair) != 2:
        raise UserError(
            f"wrong number of sentences: ComVE, row {tested + 1} of the published order (got {len(pair)}, expected 2);"
            " fetch the data set again"
        )
    return pair


def _select_pairs(
    rows: Sequence[Row], dataset: str, fidelity: Fidelity, n: int | None, seed: int
) -> SelectedQuestions:
    """Select pairs of caption and foil; items without votes of annotators count as valid."""
    # Orders are drawn over all valid items, so that they do not depend on the size of the sample.
    items = [from_row(row, ItemRecord) for row in rows]
    valid = {item.item_id: item for item in items if item.valid is not False}
    ids = list(valid)
    if fidelity.sampling == "released":
        selected_ids = ids[:n]
    else:
        selected_ids = sample_at_most(ids, n, seed)
    if fidelity.option_order == "balanced":
        orders = assign_balanced_orders(ids, seed)
    else:
        orders = draw_published_orders(list(valid.values()))
    questions = build_pairwise_questions(
        [valid[item_id] for item_id in selected_ids], dataset, orders
    )
    return SelectedQuestions(tuple(questions), {})


def _select_open_questions(
    rows: Sequence[Row],
    dataset: str,
    entry: DatasetSettings,
    fidelity: Fidelity,
    n: int | None,
    seed: int,
) -> SelectedQuestions:
    """Select open questions among the items of stage evaluation.

    From a published sample, `published` takes the first items, and lists those without a usable
    question.
    """
    choice = entry.get("choice")
    usable_items, _ = select_vqa_items(dataset, rows, entry["size"], seed, choice)
    items = {item.item_id: item for item in usable_items}
    if fidelity.sampling == "rank" or choice is None:
        selected_ids = sample_at_most(list(items), n, seed)
        return SelectedQuestions(
            tuple(
                build_open_questions(
                    [items[item_id] for item_id in selected_ids], dataset
                )
            ),
            {},
        )

    # The published draw contains rows that cannot be asked; they are skipped with a reason.
    reasons = {
        f"{dataset}:{row['source_id']}": row["rejected"] or "the answer is withheld"
        for row in rows
    }
    selected_items = []
    skipped = {}
    for source_id in select_published_ids(choice, rows, entry["size"])[:n]:
        item_id = f"{dataset}:{source_id}"
        if item_id in items:
            selected_items.append(items[item_id])
        else:
            skipped[item_id] = reasons[item_id]
    return SelectedQuestions(
        tuple(build_open_questions(selected_items, dataset)), skipped
    )
