"""CC-SHAP of items, one after the other, with the attributions of answers and explanations, and
after edits.
"""

from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa

from waltz.attribution.prompt_attribution import (
    PROBABILITY,
    PromptSettings,
    Regroup,
)
from waltz.attribution.shapley.estimate import Estimate, to_null
from waltz.attribution.stored_rows import build_columns
from waltz.consistency.cc_shap.dialogue import (
    EXPLANATION_KINDS,
    MAX_ANSWER_TOKENS,
    MAX_EXPLANATION_TOKENS,
    POST_HOC,
    PROMPT_KINDS,
    Dialogue,
    GeneratedPairs,
    apply_family_rules,
    generate_pairs,
)
from waltz.consistency.cc_shap.edit_shifts import ExplainedItem, compute_edit_shift
from waltz.consistency.cc_shap.measure import SharedEstimate, list_companions
from waltz.consistency.cc_shap.pair_attribution import (
    PairAttribution,
    SideAttribution,
    attribute_pairs,
)
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
from waltz.fidelity import get_fidelity
from waltz.model_registry import compute_fingerprint, select_decisive_fields
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.sources.images import load_image, open_images

Row = dict[str, Any]

KEY_PROMPTS = tuple(chain.from_iterable(PROMPT_KINDS.values()))
"""Kinds of prompt whose texts identify a stored item."""


@dataclass(frozen=True)
class CCShapSetup:
    """Hold a decoder whose answers and explanations are compared, with its settings in one profile
    and for one seed.

    Attributes:
        dialogue: The decoder with its prompts.
        settings: Settings of the attribution.
        stored: File of stored items.
        kinds: Kinds of explanation.
    """

    dialogue: Dialogue
    settings: PromptSettings
    stored: Path
    kinds: tuple[str, ...] = EXPLANATION_KINDS

    @property
    def explained(self) -> str:
        """Return the name of the explained value of a token."""
        return self.settings.explained_value(self.dialogue.decoder.reads_images)


class StoredSide(TypedDict):
    """Declare the form in which the attribution of an answer or an explanation is stored.

    Attributes:
        columns: Columns of the attribution layout.
        shared: Numbers of the shared players in these columns, text players first.
        names: Identities of the shared players: token ids or pieces of text; [row, column] for
            patches.
    """

    columns: dict[str, Any]
    shared: list[int]
    names: list[Any]


class StoredPair(TypedDict, total=False):
    """Declare the form in which an answer with one kind of explanation is stored.

    Attributes:
        row: Columns of the layout `CC_SHAP`; only answer and error if the attribution failed.
        answer: Attribution of the answer; missing if the attribution failed.
        explanation: Attribution of the explanation; missing if the attribution failed.
    """

    row: dict[str, Any]
    answer: StoredSide
    explanation: StoredSide


@dataclass(frozen=True, eq=False)
class ItemAttributions:
    """Hold the stored attributions of one item.

    Attributes:
        kinds: Attributions for each kind of explanation.
        grid: Number of patches on a side.
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
    """Build the setup that a study describes, for one decoder, profile and seed.

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
    # `published` has fixed settings; only `equations` takes permutations and explained value from
    # the study.
    kinds = tuple(
        kind
        for kind in EXPLANATION_KINDS
        if kind in cc_shap.get("kinds", EXPLANATION_KINDS)
    )
    settings = PromptSettings(dialogue.fidelity, seed)
    if dialogue.fidelity.estimators:
        settings = apply_family_rules(settings, decoder, template)
    else:
        value = cc_shap.get("value", PROBABILITY)
        settings = replace(settings, permutations=cc_shap["permutations"], value=value)
    return CCShapSetup(dialogue, settings, stored, kinds)


def load_or_attribute_item(
    setup: CCShapSetup,
    question: Question,
    load: LoadImage,
    item_text: str | None = None,
    grid: int | None = None,
) -> ItemAttributions:
    """Return the attributions of one item's answer and explanations, from the cache of results if
    they are there.

    Args:
        load: Opens an image by its name.
        item_text: The edited text of the item; None if the item is not edited.
        grid: Number of patches on a side; None chooses it for the item.
    Raises:
        UserError: The image or the answer is missing.
    """
    dialogue, decoder = setup.dialogue, setup.dialogue.decoder
    image = None if question.image is None else load(question.image)
    # The key names all that decides the values. Prompts are rendered with an empty answer, which is
    # not known yet.
    fields = {"answer": ""}
    if item_text is not None:
        fields["input"] = item_text
    prompts = [
        render_prompt(kind, question, dialogue.template, fields) for kind in KEY_PROMPTS
    ]
    content = {
        "texts": [prompt.text for prompt in prompts],
        "question": [question.item_id, question.role, question.labels],
        "image": None
        if image is None
        else result_cache.compute_array_key(image.tobytes(), image.size),
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
        kinds = {
            kind: _build_stored_pair(setup, generated, pair)
            for kind, pair in attributions.items()
        }
        item_grid = 0
        for pair in kinds.values():
            if "answer" in pair:
                item_grid = pair["answer"]["columns"]["grid"]  # the same for all kinds
                break
        return {"kinds": kinds, "grid": item_grid}

    item = result_cache.load_or_compute_json(setup.stored, content, compute)
    return ItemAttributions(item["kinds"], item["grid"])


def read_side(output: StoredSide) -> SharedEstimate:
    """Return the Shapley values of a stored answer or explanation, in the form that CC-SHAP
    compares.
    """
    columns = output["columns"]
    estimate = Estimate(
        np.array(columns["phi"], dtype=np.float64),
        np.array(columns["base_value"], dtype=np.float64),
        np.array(columns["value"], dtype=np.float64),
        columns["requested"],
    )
    return SharedEstimate(estimate, np.array(output["shared"], dtype=np.int64))


def attribute_kinds(
    setup: CCShapSetup,
    generated: GeneratedPairs,
    picture: PreparedImage | None,
    grid: int | None = None,
    regroup: Regroup | None = None,
) -> dict[str, PairAttribution | UserError]:
    """Return the attributions for each kind of explanation, or the error that prevented them.

    All kinds are computed together if possible, else one by one.

    Args:
        generated: The answer with its explanations.
        grid: Number of patches on a side; None chooses it for the item.
        regroup: See `attribute_prompts`.
    """
    attributions: dict[str, PairAttribution | UserError] = {}
    pairs = {}
    for kind, pair in generated.pairs.items():
        if isinstance(pair, UserError):
            attributions[kind] = pair
        else:
            pairs[kind] = pair
    if not pairs:
        return attributions

    decoder = setup.dialogue.decoder
    try:
        joint = attribute_pairs(
            decoder, picture, list(pairs.values()), setup.settings, grid, regroup
        )
        return attributions | dict(zip(pairs, joint, strict=True))
    except UserError as error:
        if len(pairs) == 1:
            return attributions | dict.fromkeys(pairs, error)
    # One of several kinds cannot be attributed: each is tried alone, so that the others keep their
    # values.
    for kind, pair in pairs.items():
        try:
            (attributions[kind],) = attribute_pairs(
                decoder, picture, [pair], setup.settings, grid, regroup
            )
        except UserError as error:
            attributions[kind] = error
    return attributions


def _build_stored_pair(
    setup: CCShapSetup, generated: GeneratedPairs, pair: PairAttribution | UserError
) -> StoredPair:
    """Convert the attributions for one kind of explanation to the form in which they are stored."""
    decoder = setup.dialogue.decoder
    if isinstance(pair, UserError):
        return {"row": {"answer": generated.answer, "error": str(pair)}}
    # Ratios are stored with text players before patches; the games of `published` have patches
    # first.
    order = np.argsort(_renumber_shared(pair.answer))
    cc_shap = pair.cc_shap
    row: Row = {
        "value": cc_shap.value,
        "standard_error": cc_shap.standard_error,
        **list_companions(cc_shap),
        "with_weak": cc_shap.with_weak,
        "weak_answer": cc_shap.weak_answer,
        "weak_explanation": cc_shap.weak_explanation,
        "ratios_answer": [to_null(ratio) for ratio in cc_shap.ratios_answer[order]],
        "ratios_explanation": [
            to_null(ratio) for ratio in cc_shap.ratios_explanation[order]
        ],
        "reason": cc_shap.reason,
        "answer": generated.answer,
        "explanation": decoder.decode_text(
            pair.explanation.attribution.instance.targets
        ),
        "evaluated": pair.answer.attribution.evaluated
        + pair.explanation.attribution.evaluated,
    }
    # Without an image T-SHAP is 1 by definition and not stored.
    if decoder.reads_images:
        for name, output in (
            ("answer", pair.answer),
            ("explanation", pair.explanation),
        ):
            row[f"t_shap_{name}"] = to_null(output.attribution.t_shap.value)
            row[f"t_shap_{name}_se"] = to_null(output.attribution.t_shap.standard_error)
    return {
        "row": row,
        "answer": _build_stored_side(decoder, pair.answer),
        "explanation": _build_stored_side(decoder, pair.explanation),
    }


def _build_stored_side(decoder: Decoder, output: SideAttribution) -> StoredSide:
    """Convert the attribution of an answer or explanation to the form in which it is stored, text
    players first.
    """
    attribution = output.attribution
    n_text = len(attribution.tokens)
    shared = sorted(_renumber_shared(output).tolist())
    # An edit can move tokens, so that players are compared by identity: the token, or row and
    # column of a patch.
    names = []
    for player in shared:
        if player < n_text:
            names.append(attribution.token_ids[player])
        else:
            row_and_column = divmod(player - n_text, attribution.grid)
            names.append(list(row_and_column))
    outputs = [decoder.decode_text([token]) for token in attribution.instance.targets]
    return {
        "columns": {
            "text": attribution.text,
            "outputs": outputs,
            **build_columns(attribution),
        },
        "shared": shared,
        "names": names,
    }


def _renumber_shared(output: SideAttribution) -> np.ndarray:
    """Return the numbers that the shared players have when text players stand before patches.

    Returns:
        int64 of shape (shared,), in the order in which CC-SHAP compares the players.
    """
    n_players, n_text = (
        len(output.attribution.estimate.phi),
        len(output.attribution.tokens),
    )
    patches_before = n_players - n_text if output.attribution.text_slice.start else 0
    # Patches before the text move behind it: their numbers become negative, and the modulus moves
    # them to the end.
    numbers: np.ndarray = (output.shared - patches_before) % n_players
    return numbers


def compute_cc_shap_rows(
    setup: CCShapSetup,
    questions: Iterable[Question],
    load: LoadImage,
    done: Callable[[int], object],
) -> tuple[list[Row], list[Row]]:
    """Return the rows of the layout `CC_SHAP` for some questions, and rows of the attribution
    layout.

    Args:
        load: Opens an image by its name.
        done: Called with 1 after each question.
    """
    rows: list[Row] = []
    attribution_rows: list[Row] = []
    for question in questions:
        # A question that fails has a row with an error for each kind of explanation.
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
    """Return the rows of the layout `EDITED` for some questions, and rows of the attribution layout
    for edited items.

    Rows of `EDITED` hold how far the edits moved the attributions of answers and of post-hoc
    explanations. Items without an edit have no attribution rows.

    Args:
        setup: The decoder, profile and seed; stored attributions of the unedited items are used
            again.
        tests: Rows of the layout `CONSISTENCY`.
        done: Called with 1 after each question.
    """
    settings = setup.settings
    # The test of counterfactual edits, in the same run, states the edit of each item.
    edits = {}
    for test in tests:
        is_of_run = (test["profile"], test["seed"]) == (settings.profile, settings.seed)
        if is_of_run and test["test"] == COUNTERFACTUAL_EDITS:
            edits[test["item_id"]] = test
    rows: list[Row] = []
    attribution_rows: list[Row] = []
    for question in questions:
        row = _build_common(setup, question)
        try:
            columns, edited = _compare_edit(
                setup, question, edits.get(question.item_id), load
            )
            row |= columns
            if edited is not None:
                pair = edited.kinds[POST_HOC]
                attribution_rows += build_attribution_rows(
                    setup, question, f"{POST_HOC}-edited", pair
                )
        except UserError as error:
            row["error"] = str(error)
        rows.append(row)
        done(1)
    return rows, attribution_rows


def build_attribution_rows(
    setup: CCShapSetup, question: Question, kind: str, pair: StoredPair
) -> list[Row]:
    """Return two rows of the attribution layout: for an answer, and for its explanation.

    Args:
        kind: Kind of explanation, with which the setting of the rows begins.
        pair: The stored attributions of both, or the error that prevented them.
    """
    rows = []
    for name, output in (
        ("answer", pair.get("answer")),
        ("explanation", pair.get("explanation")),
    ):
        row: Row = {
            "item_id": question.item_id,
            "role": "caption" if question.form == "pairwise" else ANSWER,
            "profile": setup.settings.profile,
            "setting": f"{kind}:{name}",
            "image": question.image,
            "explained": setup.explained,
        }
        if output is None:
            row |= {
                "text": "",
                "seed": setup.settings.seed,
                "error": pair["row"]["error"],
            }
        else:
            row |= output["columns"]
        rows.append(row)
    return rows


def count_outcomes(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count, for the run record, errors, rows without a value, weak tokens, and evaluations."""
    counts = dict.fromkeys(
        ("rows_with_error", "rows_without_value", "small_contributions", "evaluated"), 0
    )
    for row in rows:
        counts["rows_with_error"] += row.get("error") is not None
        counts["rows_without_value"] += row.get("value") is None
        counts["small_contributions"] += (row.get("weak_answer") or 0) + (
            row.get("weak_explanation") or 0
        )
        counts["evaluated"] += row.get("evaluated") or 0
    return counts


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
    setup: CCShapSetup,
    question: Question,
    edit: Mapping[str, Any] | None,
    load: LoadImage,
) -> tuple[Row, ItemAttributions | None]:
    """Return the columns that say how far an edit moved the attributions, and the attributions
    after the edit.

    Without an edit, the columns hold the reason, and the attributions are None.
    """
    if edit is None:
        return {"error": "the item was not edited"}, None
    if edit["error"] is not None:
        return {"error": edit["error"]}, None
    if edit["edited_input"] is None:
        return {"reason": edit["reason"]}, None
    post_hoc = replace(setup, kinds=(POST_HOC,))
    # The stored item of the unedited run serves where it has a post-hoc explanation.
    setup_before = setup if POST_HOC in setup.kinds else post_hoc
    # The edited item takes the grid of the unedited item, so that both have the same patches.
    before = load_or_attribute_item(setup_before, question, load)
    after = load_or_attribute_item(
        post_hoc, question, load, edit["edited_input"], before.grid or None
    )
    settings = setup.settings
    shift = compute_edit_shift(
        _read_item(before),
        _read_item(after),
        settings.fidelity,
        settings.min_contribution,
    )
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
    """Return the attributions of a stored item's answer and post-hoc explanation.

    Raises:
        UserError: The item could not be attributed.
    """
    pair = item.kinds[POST_HOC]
    if "answer" not in pair:
        raise UserError(pair["row"]["error"])
    # JSON has no tuples: row and column of a patch come back as a list, which cannot be hashed.
    names: list[Hashable] = []
    for name in pair["answer"]["names"]:
        names.append(tuple(name) if isinstance(name, list) else name)
    return ExplainedItem(
        read_side(pair["answer"]), read_side(pair["explanation"]), names
    )


@dataclass(frozen=True)
class CCShapRun:
    """Hold what a job explains: the settings and the items for one decoder.

    Attributes:
        profiles: Profiles of the study.
        cache: File of stored items.
        sample: Number of items of each data set; None for all.
        seed: The study's seed.
        seeds: Seeds of permutations and samples; each is a complete run. Attributions are stored
            for the first.
        repeated: Data sets on which `published` takes all these seeds instead of the first alone;
            None for all.
        cc_shap: Kinds of explanation, permutations and explained value.
        tokens: Maximum number of new tokens by kind of generation.
        shard: The items of this job.
    """

    profiles: Sequence[str]
    cache: Path
    sample: int | None
    seed: int
    seeds: Sequence[int]
    cc_shap: Mapping[str, Any]
    tokens: Mapping[str, int]
    shard: slice
    repeated: Collection[str] | None = None


def explain_datasets(
    decoder: Decoder,
    datasets: Iterable[DatasetFiles],
    run: CCShapRun,
    tests: Mapping[str, pa.Table] | None = None,
) -> Iterator[DatasetResult]:
    """Compute CC-SHAP of one decoder on one shard of the items of each data set, or how edits shift
    its attributions.

    Args:
        datasets: Files of the data sets, with their form.
        tests: For each data set, the results of the tests whose counterfactual edits are explained;
            None explains the unedited items.
    Yields:
        For each data set, rows of the layout `CC_SHAP` or `EDITED` under the name `rows`, and rows
        of the attribution layout under the name `contributions`.
    """
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        tested = tests[dataset.name].to_pylist() if tests is not None else []
        # Each profile has its own sample and its own seeds; each seed is a complete run.
        selected = {
            profile: select_questions(
                source,
                dataset.name,
                dataset.settings,
                get_fidelity(profile),
                run.sample,
                run.seed,
            )
            for profile in dataset.select_profiles(run.profiles)
        }
        seeds = {
            profile: select_seeds(
                run.seeds, dataset.name, get_fidelity(profile), run.repeated
            )
            for profile in selected
        }
        total = sum(
            len(items.questions[run.shard]) * len(seeds[profile])
            for profile, items in selected.items()
        )
        rows: list[Row] = []
        contributions: list[Row] = []
        images: AbstractContextManager[Any] = (
            open_images(dataset.images) if dataset.images else nullcontext()
        )
        with (
            images as opened,
            show_progress(total, "item", f"{decoder.spec.name} {dataset.name}") as bar,
        ):
            load = partial(load_image, opened)
            for profile, items in selected.items():
                template, questions = (
                    build_template(decoder, get_fidelity(profile)),
                    items.questions[run.shard],
                )
                for seed in seeds[profile]:
                    setup = build_setup(
                        decoder, template, seed, run.cc_shap, run.tokens, run.cache
                    )
                    if tests is None:
                        seed_rows, attributions = compute_cc_shap_rows(
                            setup, questions, load, bar.update
                        )
                    else:
                        seed_rows, attributions = compute_edit_rows(
                            setup, questions, tested, load, bar.update
                        )
                    rows += seed_rows
                    if seed == run.seeds[0]:
                        contributions += attributions

        tables = {"rows": rows, "contributions": contributions}
        if tests is None:
            skipped = {
                profile: dict(items.skipped) for profile, items in selected.items()
            }
            yield DatasetResult(
                dataset,
                tables,
                len(source),
                {"skipped": skipped, **count_outcomes(rows)},
            )
        else:
            facts = {
                "rows_with_error": sum(row.get("error") is not None for row in rows)
            }
            yield DatasetResult(dataset, tables, len(tested), facts)
