"""CC-SHAP of items, one after the other, with the attributions of answers and explanations, and after edits.

Thesis 5.3, 5.4 and C.13 to C.22 show items with a word inserted: counterfactual edits of the self-consistency tests.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from waltz.consistency.cc_shap.dialogue import POST_HOC
from waltz.consistency.cc_shap.edit_shifts import ExplainedItem, compute_edit_shift
from waltz.consistency.cc_shap.items import (
    CCShapSetup,
    ItemAttributions,
    StoredPair,
    build_setup,
    load_or_attribute_item,
    read_side,
)
from waltz.consistency.edit_tests.counterfactual import NAME
from waltz.consistency.item_selection import get_setting, select_questions
from waltz.core.errors import UserError
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.encoder_vqa import ROLE
from waltz.evaluation.prompting.generation_cache import LoadImage
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.decoder import Decoder
from waltz.sources.images import load_image, open_images

Row = dict[str, Any]


def compute_cc_shap_rows(
    setup: CCShapSetup, questions: Iterable[Question], load: LoadImage, done: Callable[[int], object]
) -> tuple[list[Row], list[Row]]:
    """Return rows of the layout `CC_SHAP`, and of the attribution layout with all attributions.

    Args:
        setup: The decoder, profile and seed.
        questions: Questions of one data set.
        load: Opens images.
        done: Called with 1 after each question.
    """
    rows: list[Row] = []
    attribution_rows: list[Row] = []
    for question in questions:
        kinds: Mapping[str, StoredPair]
        try:
            kinds = load_or_attribute_item(setup, question, load).kinds
        except UserError as error:
            kinds = {kind: {"row": {"error": str(error)}} for kind in setup.kinds}
        for kind, pair in kinds.items():
            rows.append({**_build_common(setup, question), "kind": kind, **pair["row"]})
            attribution_rows += build_attribution_rows(setup, question, kind, pair)
        done(1)
    return rows, attribution_rows


def compute_edit_rows(
    setup: CCShapSetup,
    questions: Iterable[Question],
    tests: Iterable[Mapping[str, Any]],
    load: LoadImage,
    done: Callable[[int], object],
) -> tuple[list[Row], list[Row]]:
    """Return rows of the layout `EDITED`, and of the attribution layout with all attributions of edited items.

    The first say how far attributions of answers and post-hoc explanations moved with the edits; items without an edit
    have no attribution rows.

    Args:
        setup: The decoder, profile and seed; stored attributions of the unedited items are used again.
        questions: Questions of one data set.
        tests: Rows of the layout `CONSISTENCY`.
        load: Opens images.
        done: Called with 1 after each question.
    """
    profile, seed = setup.settings.profile, setup.settings.seed
    edits = {
        row["item_id"]: row for row in tests if row["test"] == NAME and (row["profile"], row["seed"]) == (profile, seed)
    }
    rows: list[Row] = []
    attribution_rows: list[Row] = []
    for question in questions:
        row = _build_common(setup, question)
        try:
            columns, edited = _compare_edit(setup, question, edits.get(question.item_id), load)
            row |= columns
            if edited is not None:
                pair = edited.kinds[POST_HOC]
                attribution_rows += build_attribution_rows(setup, question, f"{POST_HOC}-edited", pair)
        except UserError as error:
            row["error"] = str(error)
        rows.append(row)
        done(1)
    return rows, attribution_rows


def build_attribution_rows(setup: CCShapSetup, question: Question, kind: str, pair: StoredPair) -> list[Row]:
    """Return rows of the attribution layout: of an answer, then of its explanation.

    Args:
        setup: The decoder, profile and seed.
        question: The item.
        kind: Kind of explanation; it begins the rows' setting.
        pair: Their attributions, or the error why there are none.
    """
    sides = (("answer", pair.get("answer")), ("explanation", pair.get("explanation")))
    return [
        {
            "item_id": question.item_id,
            "role": "caption" if question.form == "pairwise" else ROLE,
            "profile": setup.settings.profile,
            "setting": f"{kind}:{name}",
            "image": question.image,
            "explained": setup.explained,
            **(
                {"text": "", "seed": setup.settings.seed, "error": pair["row"]["error"]}
                if side is None
                else side["columns"]
            ),
        }
        for name, side in sides
    ]


def count_outcomes(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return counts for the run record: errors, rows without a value, tokens that next to nothing contributes to."""
    rows = list(rows)
    return {
        "rows_with_error": sum(row.get("error") is not None for row in rows),
        "rows_without_value": sum(row.get("value") is None for row in rows),
        "small_contributions": sum((row.get("weak_answer") or 0) + (row.get("weak_explanation") or 0) for row in rows),
        "evaluations": sum(row.get("evaluated") or 0 for row in rows),
    }


def _build_common(setup: CCShapSetup, question: Question) -> Row:
    """Return the columns that the layouts `CC_SHAP` and `EDITED` share."""
    return {
        "item_id": question.item_id,
        "profile": setup.settings.profile,
        "setting": get_setting(question),
        "image": question.image,
        "seed": setup.settings.seed,
    }


def _compare_edit(
    setup: CCShapSetup, question: Question, edit: Mapping[str, Any] | None, load: LoadImage
) -> tuple[Row, ItemAttributions | None]:
    """Return how far attributions moved with an edit, and those after it; only why not where there is no edit."""
    if edit is None or edit["error"] is not None:
        return {"error": "the item was not edited" if edit is None else edit["error"]}, None
    if edit["edited_input"] is None:
        return {"reason": edit["reason"]}, None
    post_hoc = replace(setup, kinds=(POST_HOC,))
    before = load_or_attribute_item(setup if POST_HOC in setup.kinds else post_hoc, question, load)
    after = load_or_attribute_item(post_hoc, question, load, edit["edited_input"], before.grid or None)
    settings = setup.settings
    shift = compute_edit_shift(_read_item(before), _read_item(after), settings.profile, settings.min_contribution)
    row = after.kinds[POST_HOC]["row"]
    return {
        "answer": shift.answer,
        "explanation": shift.explanation,
        "inserted_answer": shift.inserted_answer,
        "inserted_explanation": shift.inserted_explanation,
        "edited_input": edit["edited_input"],
        "inserted": edit["inserted"],
        "flipped": edit["flipped"],
        "edited_answer": row["answer"],
        "edited_explanation": row["explanation"],
        "cc_shap": row["value"],
        "reason": shift.reason,
    }, after


def _read_item(item: ItemAttributions) -> ExplainedItem:
    """Return a stored item as it is compared.

    Raises:
        UserError: It could not be explained.
    """
    pair = item.kinds[POST_HOC]
    if "answer" not in pair or "explanation" not in pair:
        raise UserError(pair["row"]["error"])
    names = [tuple(name) if isinstance(name, list) else name for name in pair["answer"]["names"]]
    return ExplainedItem(read_side(pair["answer"]), read_side(pair["explanation"]), names)


def explain_datasets(
    decoder: Decoder,
    datasets: Iterable[DatasetFiles],
    profiles: Sequence[str],
    cache: Path,
    *,
    sample: int | None,
    seed: int,
    seeds: Sequence[int],
    cc_shap: Mapping[str, Any],
    tokens: Mapping[str, int],
    shard: slice,
    tests: Mapping[str, pa.Table] | None = None,
) -> Iterator[DatasetResult]:
    """Compute CC-SHAP of one decoder on one shard of the items of data sets, or how edits shift its attributions.

    Args:
        decoder: The decoder.
        datasets: Files of the data sets, with their form.
        profiles: Fidelity profiles.
        cache: Folder of finished items.
        sample: Number of items a data set; None for all.
        seed: Seed of the sample.
        seeds: Seeds of permutations and draws, each a whole run; attributions are kept of the first.
        cc_shap: Kinds of explanation, permutations and explained value.
        tokens: Most new tokens by kind of generation.
        shard: Items of the shard.
        tests: Self-consistency tests by data set, whose counterfactual edits are explained; None
            explains items as they are.
    Yields:
        Rows of the layout `CC_SHAP`, or `EDITED`, as `rows`, and of the attribution layout as `contributions`.
    """
    for dataset in datasets:
        source = pq.read_table(dataset.rows).to_pylist()
        tested = tests[dataset.name].to_pylist() if tests is not None else []
        selected = {
            profile: select_questions(source, dataset.name, dataset.settings, profile, sample, seed)
            for profile in profiles
        }
        total = sum(len(items.questions[shard]) for items in selected.values()) * len(seeds)
        rows: list[Row] = []
        contributions: list[Row] = []
        images: AbstractContextManager[Any] = open_images(dataset.images) if dataset.images else nullcontext()
        with images as opened, show_progress(total, "item", f"{decoder.spec.name} {dataset.name}") as bar:
            load = partial(load_image, opened)
            for profile, items in selected.items():
                template, questions = build_template(decoder, profile), items.questions[shard]
                for number in seeds:
                    setup = build_setup(decoder, template, number, cc_shap, tokens, cache)
                    if tests is None:
                        computed, attributions = compute_cc_shap_rows(setup, questions, load, bar.update)
                    else:
                        computed, attributions = compute_edit_rows(setup, questions, tested, load, bar.update)
                    rows += computed
                    contributions += attributions if number == seeds[0] else []
        if tests is None:
            skipped = {profile: dict(items.skipped) for profile, items in selected.items()}
            facts: dict[str, Any] = {"skipped": skipped, **count_outcomes(rows)}
        else:
            facts = {"rows_with_error": sum(row.get("error") is not None for row in rows)}
        read = len(source) if tests is None else len(tested)
        yield DatasetResult(dataset, {"rows": rows, "contributions": contributions}, read, facts)
