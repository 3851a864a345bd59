"""CC-SHAP of items, one after the other, with the attributions of answers and explanations, and
after edits.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from waltz.attribution.prompt_attribution import (
    PROBABILITY,
    PromptSettings,
    Regroup,
)
from waltz.attribution.shapley.estimate import Estimate, to_null
from waltz.attribution.stored_rows import add_values, set_item_seed
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
from waltz.consistency.cc_shap.edit_shifts import ExplainedAnswer, compute_edit_shift
from waltz.consistency.cc_shap.measure import SharedEstimate
from waltz.consistency.cc_shap.pair_attribution import (
    PairAttribution,
    SideAttribution,
    add_pair,
    attribute_pairs,
)
from waltz.consistency.edit_tests.edits import COUNTERFACTUAL_EDITS
from waltz.consistency.item_selection import get_setting, select_questions, select_seeds
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import parquet, result_cache
from waltz.core.files.group_files import DatasetFiles, DatasetResult
from waltz.core.jobs.records import show_progress
from waltz.core.layout import Row
from waltz.core.records import AnyRecord, convert_to_records
from waltz.core.schema import (
    AttributionRecord,
    CcShapRecord,
    ConsistencyRecord,
    EditedRecord,
)
from waltz.evaluation.decoder_tasks import build_template, open_dataset_images
from waltz.evaluation.prompting.decoder_outputs import LoadImage
from waltz.evaluation.prompting.prompts import PromptTemplate, render_prompt
from waltz.evaluation.prompting.questions import Question, SelectedQuestions
from waltz.evaluation.vqa import ANSWER
from waltz.fidelity import Fidelity, get_fidelity
from waltz.model_registry import compute_fingerprint, select_decisive_fields
from waltz.models.decoders.continuations import samples_text
from waltz.models.decoders.decoder import Decoder, PreparedImage

KEY_PROMPTS = tuple(chain.from_iterable(PROMPT_KINDS.values()))
"""Kinds of prompt whose texts identify a stored item."""


@dataclass(frozen=True)
class CCShapSetup:
    """Hold a decoder whose answers and explanations are compared, with its settings in one profile
    and for one seed.

    Attributes:
        dialogue: The decoder with its prompts.
        settings: Settings of the attribution, with the seed of the run or of an item.
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


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """Hold the attribution of an answer or an explanation, as the cache of results stores it.

    Attributes:
        record: The attribution, text players first.
        shared: Numbers of the shared players in this record.
        identities: Identities of the shared players, by which an edited prompt is compared: a token
            id, the ids of a word, or a piece of text; (row, column) for patches.
    """

    record: AttributionRecord
    shared: tuple[int, ...]
    identities: tuple[int | str | tuple[int, ...], ...]

    @property
    def estimate(self) -> SharedEstimate:
        """Return the Shapley values in the form that CC-SHAP compares."""
        record = self.record
        estimate = Estimate(
            np.array(record.phi, dtype=np.float64),
            np.array(record.base_value, dtype=np.float64),
            np.array(record.value, dtype=np.float64),
            record.requested or 0,
        )
        return SharedEstimate(estimate, np.array(self.shared, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class StoredPair:
    """Hold an answer with one kind of explanation, as the cache of results stores it.

    Attributes:
        record: The record of CC-SHAP; without values but with an error if the attribution failed.
        answer: Attribution of the answer; None if the attribution failed.
        explanation: Attribution of the explanation; None if the attribution failed.
    """

    record: CcShapRecord
    answer: StoredOutput | None = None
    explanation: StoredOutput | None = None


@dataclass(frozen=True, slots=True)
class ItemAttributions:
    """Hold the stored attributions of one item.

    Attributes:
        pairs: Attributions by kind of explanation.
        grid: Number of patches on a side.
    """

    pairs: dict[str, StoredPair]
    grid: int


STORED_ITEM = TypeAdapter(ItemAttributions)
"""Conversion of an item's attributions to JSON and back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CCShapSettings:
    """Hold the settings of CC-SHAP, as a study states them.

    Attributes:
        permutations: Number of permutations of a prompt's players, for `equations`.
        kinds: Kinds of explanation.
        value: Explained value of a token, for `equations`.
    """

    permutations: int
    kinds: Sequence[str] = EXPLANATION_KINDS
    value: str = PROBABILITY


def build_setup(
    decoder: Decoder,
    template: PromptTemplate,
    seed: int,
    cc_shap: CCShapSettings,
    tokens: Mapping[str, int],
    stored: Path,
) -> CCShapSetup:
    """Build the setup that a study describes, for one decoder, profile and seed.

    Args:
        cc_shap: The study's `consistency.cc_shap`.
        tokens: The study's `consistency.tokens`.
    """
    dialogue = Dialogue(
        decoder,
        template,
        seed,
        tokens.get("explanation", MAX_EXPLANATION_TOKENS),
        tokens.get("answer", MAX_ANSWER_TOKENS),
    )
    kinds = tuple(kind for kind in EXPLANATION_KINDS if kind in cc_shap.kinds)
    settings = PromptSettings(dialogue.fidelity, seed)
    # `published` has fixed settings; only `equations` takes permutations and explained value from
    # the study.
    if dialogue.fidelity.estimators:
        settings = apply_family_rules(settings, decoder, template)
    else:
        settings = replace(
            settings, permutations=cc_shap.permutations, value=cc_shap.value
        )
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

    def compute() -> object:
        picture = None if image is None else decoder.prepare_image(image)
        generated = generate_pairs(dialogue, question, picture, setup.kinds, item_text)
        pairs = {}
        item_grid = 0
        for kind, pair in attribute_kinds(setup, generated, picture, grid).items():
            pairs[kind] = _build_stored_pair(setup, question, kind, generated, pair)
            if isinstance(pair, PairAttribution):
                # In `published` the prompts of a later kind can have another grid.
                item_grid = item_grid or pair.answer.attribution.grid
        return STORED_ITEM.dump_python(ItemAttributions(pairs, item_grid))

    return STORED_ITEM.validate_python(
        result_cache.load_or_compute_json(setup.stored, content, compute)
    )


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
    setup: CCShapSetup,
    question: Question,
    kind: str,
    generated: GeneratedPairs,
    pair: PairAttribution | UserError,
) -> StoredPair:
    """Convert the attributions for one kind of explanation to the form in which they are stored."""
    record = replace(_name_pair(setup, question, kind), answer=generated.answer)
    if isinstance(pair, UserError):
        return StoredPair(replace(record, error=str(pair)))
    decoder = setup.dialogue.decoder
    answer, explanation = pair.answer.attribution, pair.explanation.attribution
    record = replace(
        add_pair(record, pair),
        explanation=decoder.decode_text(explanation.instance.targets),
        evaluated=answer.evaluated + explanation.evaluated,
    )
    # Without an image T-SHAP is 1 by definition and not stored.
    if decoder.reads_images:
        record = replace(
            record,
            t_shap_answer=to_null(answer.t_shap.value),
            t_shap_answer_se=to_null(answer.t_shap.standard_error),
            t_shap_explanation=to_null(explanation.t_shap.value),
            t_shap_explanation_se=to_null(explanation.t_shap.standard_error),
        )
    return StoredPair(
        record,
        _build_stored_output(setup, question, pair.answer),
        _build_stored_output(setup, question, pair.explanation),
    )


def _build_stored_output(
    setup: CCShapSetup, question: Question, output: SideAttribution
) -> StoredOutput:
    """Convert the attribution of an answer or explanation to the form in which it is stored, text
    players first.
    """
    attribution, decoder = output.attribution, setup.dialogue.decoder
    n_text = len(attribution.tokens)
    shared = sorted(output.text_first_positions.tolist())
    # An edit can move tokens, so that players are compared by identity: the token, or row and
    # column of a patch.
    identities = []
    for player in shared:
        if player < n_text:
            identities.append(attribution.token_ids[player])
        else:
            identities.append(divmod(player - n_text, attribution.grid))
    outputs = [decoder.decode_text([token]) for token in attribution.instance.targets]
    record = replace(
        _name_output(setup, question), text=attribution.text, outputs=outputs
    )
    return StoredOutput(
        add_values(record, attribution), tuple(shared), tuple(identities)
    )


def _set_item_seed(setup: CCShapSetup, question: Question) -> CCShapSetup:
    """Return a setup whose estimator has the seed of the item; texts are sampled as before."""
    settings = set_item_seed(setup.settings, question.dataset, question.item_id)
    return replace(setup, settings=settings)


def compute_cc_shap_records(
    setup: CCShapSetup,
    questions: Iterable[Question],
    load: LoadImage,
    done: Callable[[int], object],
) -> tuple[list[CcShapRecord], list[AttributionRecord]]:
    """Return the records of CC-SHAP of some questions, and of the attributions that it compares.

    Args:
        load: Opens an image by its name.
        done: Called with 1 after each question.
    """
    records: list[CcShapRecord] = []
    attributions: list[AttributionRecord] = []
    for question in questions:
        item_setup = _set_item_seed(setup, question)
        # A question that fails has a record with an error for each kind of explanation.
        try:
            pairs = load_or_attribute_item(item_setup, question, load).pairs
        except UserError as error:
            pairs = {}
            for kind in item_setup.kinds:
                record = replace(
                    _name_pair(item_setup, question, kind), error=str(error)
                )
                pairs[kind] = StoredPair(record)
        for kind, pair in pairs.items():
            # The name of the image does not decide the values, so that stored ones may have
            # another.
            records.append(replace(pair.record, image=question.image))
            attributions += build_attribution_records(item_setup, question, kind, pair)
        done(1)
    return records, attributions


def compute_edit_records(
    setup: CCShapSetup,
    questions: Iterable[Question],
    load: LoadImage,
    done: Callable[[int], object],
    tests: Iterable[ConsistencyRecord],
) -> tuple[list[EditedRecord], list[AttributionRecord]]:
    """Return the records of how far edits moved the attributions of answers and of post-hoc
    explanations, and the records of the attributions of edited items.

    Items without an edit have no attributions.

    Args:
        setup: The decoder, profile and seed; stored attributions of the unedited items are used
            again.
        done: Called with 1 after each question.
        tests: Results of the self-consistency tests.
    """
    settings = setup.settings
    # The test of counterfactual edits, in the same run, states the edit of each item.
    run = (COUNTERFACTUAL_EDITS, settings.profile, setup.dialogue.seed)
    edits = {}
    for test in tests:
        if (test.test, test.profile, test.seed) == run:
            edits[test.item_id] = test
    records: list[EditedRecord] = []
    attributions: list[AttributionRecord] = []
    for question in questions:
        item_setup = _set_item_seed(setup, question)
        record = EditedRecord(
            item_id=question.item_id,
            profile=settings.profile,
            setting=get_setting(question),
            seed=setup.dialogue.seed,
            image=question.image,
        )
        edit = edits.get(question.item_id)
        try:
            record, edited = _compare_edit(item_setup, question, record, edit, load)
            if edited is not None:
                attributions += build_attribution_records(
                    item_setup, question, f"{POST_HOC}-edited", edited
                )
        except UserError as error:
            record = replace(record, error=str(error))
        records.append(record)
        done(1)
    return records, attributions


def build_attribution_records(
    setup: CCShapSetup, question: Question, kind: str, pair: StoredPair
) -> list[AttributionRecord]:
    """Return two records of attributions: of an answer, and of its explanation.

    Args:
        kind: Kind of explanation, with which the setting of the records begins.
        pair: The stored attributions of both, or the error that prevented them.
    """
    records = []
    for name, output in (("answer", pair.answer), ("explanation", pair.explanation)):
        if output is None:
            record = replace(_name_output(setup, question), error=pair.record.error)
        else:
            record = output.record
        records.append(replace(record, setting=f"{kind}:{name}", image=question.image))
    return records


def count_values(records: Sequence[CcShapRecord]) -> dict[str, int]:
    """Count, for the run record, errors, rows without a value, weak tokens, and evaluations."""
    counts = {
        "rows_with_error": 0,
        "rows_without_value": 0,
        "small_contributions": 0,
        "evaluated": 0,
    }
    for record in records:
        counts["rows_with_error"] += record.error is not None
        counts["rows_without_value"] += record.value is None
        counts["small_contributions"] += record.weak_answer or 0
        counts["small_contributions"] += record.weak_explanation or 0
        counts["evaluated"] += record.evaluated or 0
    return counts


def _name_pair(setup: CCShapSetup, question: Question, kind: str) -> CcShapRecord:
    """Return the record of a question and a kind of explanation, without values."""
    return CcShapRecord(
        item_id=question.item_id,
        profile=setup.settings.profile,
        setting=get_setting(question),
        kind=kind,
        seed=setup.dialogue.seed,
        estimator_seed=setup.settings.seed,
        image=question.image,
        sampled=samples_text(setup.dialogue.decoder),
    )


def _name_output(setup: CCShapSetup, question: Question) -> AttributionRecord:
    """Return the record of an answer or explanation, without values; its setting is set when it is
    written.
    """
    return AttributionRecord(
        item_id=question.item_id,
        role="caption" if question.form == "pairwise" else ANSWER,
        profile=setup.settings.profile,
        setting="",
        image=question.image,
        text="",
        explained=setup.explained,
        seed=setup.settings.seed,
    )


def _compare_edit(
    setup: CCShapSetup,
    question: Question,
    record: EditedRecord,
    edit: ConsistencyRecord | None,
    load: LoadImage,
) -> tuple[EditedRecord, StoredPair | None]:
    """Return the record with how far an edit moved the attributions, and the attributions after the
    edit.

    Without an edit, the record holds the reason, and the attributions are None.
    """
    if edit is None:
        return replace(record, error="the item was not edited"), None
    if edit.error is not None:
        return replace(record, error=edit.error), None
    if edit.edited_input is None:
        return replace(record, reason=edit.reason), None
    post_hoc = replace(setup, kinds=(POST_HOC,))
    # The stored item of the unedited run serves where it has a post-hoc explanation.
    setup_before = setup if POST_HOC in setup.kinds else post_hoc
    # The edited item takes the grid of the unedited item, so that both have the same patches.
    before = load_or_attribute_item(setup_before, question, load)
    after = load_or_attribute_item(
        post_hoc, question, load, edit.edited_input, before.grid or None
    )
    pair = after.pairs[POST_HOC]
    settings = setup.settings
    shift = compute_edit_shift(
        _read_pair(before.pairs[POST_HOC]),
        _read_pair(pair),
        settings.fidelity,
        settings.min_contribution,
    )
    record = replace(
        record,
        answer=shift.answer,
        explanation=shift.explanation,
        inserted_answer=shift.inserted_answer,
        inserted_explanation=shift.inserted_explanation,
        edited_input=edit.edited_input,
        inserted=edit.inserted,
        flipped=edit.flipped,
        edited_answer=pair.record.answer,
        edited_explanation=pair.record.explanation,
        cc_shap=pair.record.value,
        reason=shift.reason,
    )
    return record, pair


def _read_pair(pair: StoredPair) -> ExplainedAnswer:
    """Return the stored attributions of an answer and its explanation, in the form that edits are
    compared in.

    Raises:
        UserError: The item could not be attributed.
    """
    if pair.answer is None or pair.explanation is None:
        raise UserError(str(pair.record.error))
    return ExplainedAnswer(
        pair.answer.estimate, pair.explanation.estimate, pair.answer.identities
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
        repeated: Data sets on which a model that samples takes all these seeds instead of the first
            alone; None for all.
        cc_shap: Settings of CC-SHAP.
        tokens: Maximum number of new tokens by kind of generation.
        shard: The items of this job.
    """

    profiles: Sequence[str]
    cache: Path
    sample: int | None
    seed: int
    seeds: Sequence[int]
    cc_shap: CCShapSettings
    tokens: Mapping[str, int]
    shard: slice
    repeated: Collection[str] | None = None


ComputeRecords = Callable[
    [CCShapSetup, Sequence[Question], LoadImage, Callable[[int], object]],
    tuple[list[AnyRecord], list[AttributionRecord]],
]
"""Function that returns the records of some questions, and of their attributions."""


def explain_datasets(
    decoder: Decoder, datasets: Iterable[DatasetFiles], run: CCShapRun
) -> Iterator[DatasetResult]:
    """Compute CC-SHAP of one decoder on one shard of the items of each data set.

    Args:
        datasets: Files of the data sets, with their form.
    Yields:
        For each data set, `CcShapRecord`s under the name `rows`, and `AttributionRecord`s under the
        name `contributions`.
    """
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        selected = _select_questions(source, dataset, run)
        records, attributions = _explain_dataset(
            decoder, dataset, run, selected, compute_cc_shap_records
        )
        skipped = {
            fidelity.name: dict(items.skipped) for fidelity, items in selected.items()
        }
        yield DatasetResult(
            dataset,
            {"rows": records, "contributions": attributions},
            len(source),
            {"skipped": skipped, **count_values(records)},
        )


def explain_edits(
    decoder: Decoder,
    datasets: Iterable[DatasetFiles],
    run: CCShapRun,
    tests: Mapping[str, pa.Table],
) -> Iterator[DatasetResult]:
    """Compute how counterfactual edits shift the attributions of one decoder, on one shard of the
    items of each data set.

    Args:
        datasets: Files of the data sets, with their form.
        tests: For each data set, the table of the results of the tests, which contain the edits.
    Yields:
        For each data set, `EditedRecord`s under the name `rows`, and `AttributionRecord`s of the
        edited items under the name `contributions`.
    """
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        selected = _select_questions(source, dataset, run)
        # Records hold all exchanges of a test, so that only those of one data set's edits are
        # made.
        table = tests[dataset.name]
        edits = table.filter(pc.equal(table.column("test"), COUNTERFACTUAL_EDITS))
        compute = partial(
            compute_edit_records,
            tests=list(convert_to_records(edits, ConsistencyRecord)),
        )
        records, attributions = _explain_dataset(
            decoder, dataset, run, selected, compute
        )
        yield DatasetResult(
            dataset,
            {"rows": records, "contributions": attributions},
            table.num_rows,
            {"rows_with_error": sum(record.error is not None for record in records)},
        )


def _select_questions(
    source: Sequence[Row], dataset: DatasetFiles, run: CCShapRun
) -> dict[Fidelity, SelectedQuestions]:
    """Return the questions of a data set by fidelity: each has its own sample."""
    selected = {}
    for profile in dataset.select_profiles(run.profiles):
        fidelity = get_fidelity(profile)
        selected[fidelity] = select_questions(
            source, dataset.name, dataset.settings, fidelity, run.sample, run.seed
        )
    return selected


def _explain_dataset(
    decoder: Decoder,
    dataset: DatasetFiles,
    run: CCShapRun,
    selected: Mapping[Fidelity, SelectedQuestions],
    compute: ComputeRecords[AnyRecord],
) -> tuple[list[AnyRecord], list[AttributionRecord]]:
    """Return the records of the selected questions of one data set for all seeds, and the records
    of attributions for the first seed.
    """
    # Each seed is a complete run.
    seeds = select_seeds(run.seeds, dataset.name, run.repeated, samples_text(decoder))
    total = 0
    for items in selected.values():
        total += len(items.questions[run.shard]) * len(seeds)
    records: list[AnyRecord] = []
    attributions: list[AttributionRecord] = []
    with (
        open_dataset_images(dataset) as load,
        show_progress(total, "item", f"{decoder.spec.name} {dataset.name}") as bar,
    ):
        for fidelity, items in selected.items():
            template = build_template(decoder, fidelity)
            for seed in seeds:
                setup = build_setup(
                    decoder, template, seed, run.cc_shap, run.tokens, run.cache
                )
                seed_records, seed_attributions = compute(
                    setup, items.questions[run.shard], load, bar.update
                )
                records += seed_records
                if seed == run.seeds[0]:
                    attributions += seed_attributions
    return records, attributions
