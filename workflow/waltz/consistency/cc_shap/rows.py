"""CC-SHAP of items, one after the other, with the attributions of answers and explanations, and after edits."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa

from waltz.attribution.prompt_attribution import (
    PROBABILITY,
    PromptSettings,
    Regroup,
    build_columns,
)
from waltz.attribution.shapley.estimate import Estimate, to_null
from waltz.consistency.cc_shap.dialogue import (
    EXPLANATION_KINDS,
    MAX_ANSWER_TOKENS,
    MAX_EXPLANATION_TOKENS,
    POST_HOC,
    Dialogue,
    GeneratedPairs,
    apply_family_rules,
    generate_pairs,
)
from waltz.consistency.cc_shap.edit_shifts import ExplainedItem, compute_edit_shift
from waltz.consistency.cc_shap.measure import Companions, SharedEstimate
from waltz.consistency.cc_shap.pair_attribution import PairAttribution, SideAttribution, attribute_pairs
from waltz.consistency.edit_tests.edits import COUNTERFACTUAL_EDITS
from waltz.consistency.item_selection import get_setting, select_questions, select_seeds
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import parquet, result_cache
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.job_records import show_progress
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.decoder_outputs import LoadImage
from waltz.evaluation.prompting.prompts import PromptTemplate, render_prompt
from waltz.evaluation.prompting.questions import Question
from waltz.evaluation.vqa import ANSWER
from waltz.model_registry import compute_fingerprint, select_decisive_fields
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.sources.images import load_image, open_images

Row = dict[str, Any]


@dataclass(frozen=True)
class CCShapSetup:
    """A decoder whose answers and explanations are compared, in one profile and with one seed."""

    dialogue: Dialogue
    settings: PromptSettings
    stored: Path
    kinds: tuple[str, ...] = EXPLANATION_KINDS

    @property
    def explained(self) -> str:
        """Explained value of a token."""
        return self.settings.explained_value(self.dialogue.decoder.reads_images)


class StoredSide(TypedDict):
    """Attribution of an answer or an explanation, as it is stored.

    Attributes:
        columns: Columns of the attribution layout.
        shared: Numbers of the shared players among these, text players first.
        names: Identities of the shared players: token ids or pieces; [row, column] of patches.
    """

    columns: dict[str, Any]
    shared: list[int]
    names: list[Any]


class StoredPair(TypedDict, total=False):
    """One kind of explanation with its answer, as it is stored.

    Attributes:
        row: Columns of the layout `CC_SHAP`; with an error alone where there is no attribution.
    """

    row: dict[str, Any]
    answer: StoredSide
    explanation: StoredSide


@dataclass(frozen=True, eq=False)
class ItemAttributions:
    """One item as it is stored.

    Attributes:
        grid: Patches on a side.
    """

    kinds: Mapping[str, StoredPair]
    grid: int


def build_setup(
    decoder: Decoder,
    template: PromptTemplate,
    seed: int,
    cc_shap: Mapping[str, Any],
    tokens: Mapping[str, int],
    stored: Path,
) -> CCShapSetup:
    """Return the setup that a study describes.

    Args:
        cc_shap: The study's `consistency.cc_shap`: permutations, value, kinds.
        tokens: The study's `consistency.tokens`.
    """
    dialogue = Dialogue(
        decoder,
        template,
        seed,
        tokens.get("explanation", MAX_EXPLANATION_TOKENS),
        tokens.get("answer", MAX_ANSWER_TOKENS),
    )
    kinds = tuple(kind for kind in EXPLANATION_KINDS if kind in cc_shap.get("kinds", EXPLANATION_KINDS))
    settings = PromptSettings(dialogue.fidelity.name, seed)
    if dialogue.fidelity.estimators:
        settings = apply_family_rules(settings, decoder, template)
    else:
        value = cc_shap.get("value", PROBABILITY)
        settings = replace(settings, permutations=cc_shap["permutations"], value=value)
    return CCShapSetup(dialogue, settings, stored, kinds)


def load_or_attribute_item(
    setup: CCShapSetup, question: Question, load: LoadImage, item_text: str | None = None, grid: int | None = None
) -> ItemAttributions:
    """Return the attributions of one item's answer and explanations, computed or stored.

    Args:
        item_text: The item's text where it was edited.
        grid: Patches on a side; the item's own where None.
    Raises:
        UserError: There is no image or no answer.
    """
    dialogue, decoder = setup.dialogue, setup.dialogue.decoder
    image = None if question.image is None else load(question.image)
    fields = {"answer": ""} if item_text is None else {"answer": "", "input": item_text}
    content = {
        "texts": [
            render_prompt(kind, question, dialogue.template, fields).text
            for kind in ("answer-attributed", "post-hoc", "cot-attributed")
        ],
        "question": [question.item_id, question.role, question.labels],
        "image": None if image is None else result_cache.compute_array_key(image.tobytes(), image.size),
        "model": compute_fingerprint(decoder.spec),
        "entry": select_decisive_fields(decoder.spec),
        "device": decoder.device.partition(":")[0],
        "code": digest(__file__, type(decoder).__module__),
        "rules": setup.settings.build_key(),
        "kinds": setup.kinds,
        "most": [dialogue.seed, dialogue.max_explanation, dialogue.max_answer],
        "grid": grid,
    }

    def compute() -> dict[str, Any]:
        picture = None if image is None else decoder.prepare_image(image)
        generated = generate_pairs(dialogue, question, picture, setup.kinds, item_text)
        attributions = attribute_kinds(setup, generated, picture, grid)
        kinds = {kind: _build_stored_pair(setup, generated, pair) for kind, pair in attributions.items()}
        grids = [pair["answer"]["columns"]["grid"] for pair in kinds.values() if "answer" in pair]
        return {"kinds": kinds, "grid": grids[0] if grids else 0}

    item = result_cache.load_or_compute_json(setup.stored, content, compute)
    return ItemAttributions(item["kinds"], item["grid"])


def read_side(side: StoredSide) -> SharedEstimate:
    """Return the values of one side of a stored item."""
    columns = side["columns"]
    estimate = Estimate(
        np.array(columns["phi"], dtype=np.float64),
        np.array(columns["base_value"], dtype=np.float64),
        np.array(columns["value"], dtype=np.float64),
        columns["budget"],
    )
    return SharedEstimate(estimate, np.array(side["shared"], dtype=np.int64))


def attribute_kinds(
    setup: CCShapSetup,
    generated: GeneratedPairs,
    picture: PreparedImage | None,
    grid: int | None = None,
    regroup: Regroup | None = None,
) -> dict[str, PairAttribution | UserError]:
    """Return the attributions of each kind, computed together where that is possible, else one by one.

    Args:
        grid: Patches on a side; the item's own where None.
        regroup: See `attribute_prompts`.
    """
    attributions: dict[str, PairAttribution | UserError] = {
        kind: pair for kind, pair in generated.pairs.items() if isinstance(pair, UserError)
    }
    pairs = {kind: pair for kind, pair in generated.pairs.items() if not isinstance(pair, UserError)}
    decoder = setup.dialogue.decoder
    try:
        joint = attribute_pairs(decoder, picture, list(pairs.values()), setup.settings, grid, regroup) if pairs else []
        return attributions | dict(zip(pairs, joint, strict=True))
    except UserError as error:
        if len(pairs) == 1:
            return attributions | dict.fromkeys(pairs, error)
    for kind, pair in pairs.items():
        try:
            (attributions[kind],) = attribute_pairs(decoder, picture, [pair], setup.settings, grid, regroup)
        except UserError as error:
            attributions[kind] = error
    return attributions


def _build_stored_pair(setup: CCShapSetup, generated: GeneratedPairs, pair: PairAttribution | UserError) -> StoredPair:
    """Return one kind of explanation of one item, as it is stored."""
    decoder = setup.dialogue.decoder
    if isinstance(pair, UserError):
        return {"row": {"answer": generated.answer, "error": str(pair)}}
    order = np.argsort(_renumber_shared(pair.answer))
    cc_shap = pair.cc_shap
    companions = {field.name: getattr(cc_shap.companions, field.name, None) for field in fields(Companions)}
    row: Row = {
        "value": cc_shap.value,
        "standard_error": cc_shap.standard_error,
        **companions,
        "with_weak": cc_shap.with_weak,
        "weak_answer": cc_shap.weak_answer,
        "weak_explanation": cc_shap.weak_explanation,
        "ratios_answer": [to_null(ratio) for ratio in cc_shap.ratios_answer[order]],
        "ratios_explanation": [to_null(ratio) for ratio in cc_shap.ratios_explanation[order]],
        "reason": cc_shap.reason,
        "answer": generated.answer,
        "explanation": decoder.decode_text(pair.explanation.attribution.game.targets),
        "evaluated": pair.answer.attribution.evaluated + pair.explanation.attribution.evaluated,
    }
    if decoder.reads_images:
        for name, side in (("answer", pair.answer), ("explanation", pair.explanation)):
            row[f"t_shap_{name}"] = to_null(side.attribution.t_shap.value)
            row[f"t_shap_{name}_se"] = to_null(side.attribution.t_shap.standard_error)
    seed = setup.settings.seed
    return {
        "row": row,
        "answer": _build_stored_side(decoder, pair.answer, seed),
        "explanation": _build_stored_side(decoder, pair.explanation, seed),
    }


def _build_stored_side(decoder: Decoder, side: SideAttribution, seed: int) -> StoredSide:
    """Return one side with text players before patches."""
    attribution = side.attribution
    words, shared = len(attribution.tokens), sorted(_renumber_shared(side).tolist())
    token_ids = attribution.token_ids
    return {
        "columns": {"text": attribution.game.text, **build_columns(decoder, attribution, seed)},
        "shared": shared,
        "names": [
            token_ids[player] if player < words else list(divmod(player - words, attribution.grid)) for player in shared
        ],
    }


def _renumber_shared(side: SideAttribution) -> np.ndarray:
    """Return the shared players' numbers where text players stand before patches, in the order of comparison."""
    players, words = len(side.attribution.estimate.phi), len(side.attribution.tokens)
    patches_before = players - words if side.attribution.text.start else 0
    numbers: np.ndarray = (side.shared - patches_before) % players
    return numbers


def compute_cc_shap_rows(
    setup: CCShapSetup, questions: Iterable[Question], load: LoadImage, done: Callable[[int], object]
) -> tuple[list[Row], list[Row]]:
    """Return rows of the layout `CC_SHAP`, and of the attribution layout with all attributions.

    Args:
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
        tests: Rows of the layout `CONSISTENCY`.
        done: Called with 1 after each question.
    """
    profile, seed = setup.settings.profile, setup.settings.seed
    edits = {
        row["item_id"]: row
        for row in tests
        if row["test"] == COUNTERFACTUAL_EDITS and (row["profile"], row["seed"]) == (profile, seed)
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
        kind: Kind of explanation; it begins the rows' setting.
        pair: Their attributions, or the error why there are none.
    """
    sides = (("answer", pair.get("answer")), ("explanation", pair.get("explanation")))
    return [
        {
            "item_id": question.item_id,
            "role": "caption" if question.form == "pairwise" else ANSWER,
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
    repeated: Collection[str] | None = None,
    cc_shap: Mapping[str, Any],
    tokens: Mapping[str, int],
    shard: slice,
    tests: Mapping[str, pa.Table] | None = None,
) -> Iterator[DatasetResult]:
    """Compute CC-SHAP of one decoder on one shard of the items of data sets, or how edits shift its attributions.

    Args:
        datasets: Files of the data sets, with their form.
        sample: Number of items a data set; None for all.
        seeds: Seeds of permutations and draws, each a whole run; attributions are kept of the first.
        repeated: Data sets on which `published` takes all of these seeds, and not the first alone; None for all.
        cc_shap: Kinds of explanation, permutations and explained value.
        tokens: Most new tokens by kind of generation.
        tests: Self-consistency tests by data set, whose counterfactual edits are explained; None
            explains items as they are.
    Yields:
        Rows of the layout `CC_SHAP`, or `EDITED`, as `rows`, and of the attribution layout as `contributions`.
    """
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        tested = tests[dataset.name].to_pylist() if tests is not None else []
        selected = {
            profile: select_questions(source, dataset.name, dataset.settings, profile, sample, seed)
            for profile in dataset.select_profiles(profiles)
        }
        run_seeds = {profile: select_seeds(seeds, dataset.name, profile, repeated) for profile in selected}
        total = sum(len(items.questions[shard]) * len(run_seeds[profile]) for profile, items in selected.items())
        rows: list[Row] = []
        contributions: list[Row] = []
        images: AbstractContextManager[Any] = open_images(dataset.images) if dataset.images else nullcontext()
        with images as opened, show_progress(total, "item", f"{decoder.spec.name} {dataset.name}") as bar:
            load = partial(load_image, opened)
            for profile, items in selected.items():
                template, questions = build_template(decoder, profile), items.questions[shard]
                for number in run_seeds[profile]:
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
