"""Reliability of T-SHAP and CC-SHAP: variance between items, seeds, masks, grids and prompts, and
the numbers of seeds and items that an order needs.

Items, seeds, masks, grids and prompts count as draws from the levels that a paper could have taken.
Data sets and models are what is put in order.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from waltz.consistency.cc_shap.dialogue import POST_HOC, generate_pairs
from waltz.consistency.cc_shap.rows import (
    CCShapSettings,
    CCShapSetup,
    attribute_kinds,
    build_setup,
)
from waltz.consistency.item_selection import select_questions
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import (
    NON_NEGATIVE,
    PERCENT,
    Bounds,
    Resamples,
    Resampling,
    resample,
)
from waltz.core.measure import Measure
from waltz.core.sampling import derive_seed
from waltz.core.schema import MeasurementRecord
from waltz.core.variance_components import (
    TARGET,
    Components,
    Effect,
    build_component_measure,
    compute_coefficient,
    count_levels_needed,
    resample_components,
    truncate_components,
)
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.prompts import PromptTemplate
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS
from waltz.measures.items import Item, identify_scene, read_item_sample
from waltz.measures.multiverse import FACTORS, Change, Choice, compute_choice_t_shap
from waltz.measures.rows import build_row
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.encoders.encoder import Encoder
from waltz.sources.images import load_image, open_images

MEASUREMENT = "reliability"
_build_row = partial(build_row, MEASUREMENT)
SHARE: Bounds = (0.0, 1.0)
ITEM, DATASET, MODEL, SEED = "item", "data set", "model", "seed"
SETUP = frozenset({"mask", "grid", "prompt"})
"""Facets that a paper fixes, and that other papers fix otherwise."""
SCOPES = {"one setup": SETUP, "any setup": frozenset[str]()}
"""Facets of which one level is kept, by what a coefficient generalizes over."""
GROUPS = ("items", "setups", "items × setups", "seeds")
"""Groups of effects whose shares of the variance are stated; `seeds` has all effects with a seed."""
NOT_REACHED = "not reached with any number of {}s"

MASKS = ("reference", "black")
GRIDS = ("reference", "2 x 2")
WORDINGS = {
    "as published": None,
    "answer first": "Answer A or B. Which sentence describes the image? A: {first} B: {second}",
    "sentences first": "A: {first} B: {second} Which sentence describes the image? Answer A or B.",
}
"""Wordings of the question by name; None keeps that of the decoder's prompt file."""
ENCODER_FACETS = (SEED, "mask", "grid")
DECODER_FACETS = (SEED, "prompt")
DECODER_QUANTITIES = ("cc_shap", "t_shap_answer")


@dataclass(frozen=True, slots=True)
class ReliabilitySettings:
    """Settings of the measurement of reliability.

    Attributes:
        sample: Number of captions a data set that encoders score.
        decoder_sample: Number of items a data set that decoders explain.
        seeds: Number of seeds; each stands for ten permutations of a caption, as published, or for
            `permutations` of a prompt.
        permutations: Permutations of a prompt's players, each with its reverse.
        tokens: Maximum number of tokens of an explanation.
    """

    sample: int
    decoder_sample: int
    seeds: int
    permutations: int
    tokens: int


@dataclass(frozen=True, eq=False)
class CrossedItems:
    """Hold one quantity of items under all combinations of levels.

    Attributes:
        values: float64 of shape (items, seeds, ...), one axis a facet.
        facets: Names of the axes after the first.
        datasets: Data set of each item; items of a data set follow each other.
        scenes: Scene of each item.
    """

    values: np.ndarray
    facets: tuple[str, ...]
    datasets: Sequence[str]
    scenes: Sequence[str]

    def nest_items(self) -> tuple[np.ndarray, list[str]]:
        """Return the values with an axis of data sets before that of their items, and the names of
        the data sets.

        Each data set has as many items as the one with the fewest.
        """
        names = list(dict.fromkeys(self.datasets))
        labels = np.array(self.datasets)
        blocks = [self.values[labels == name] for name in names]
        fewest = min(map(len, blocks), default=0)
        return np.array([block[:fewest] for block in blocks]), names


def measure_reliability(
    encoders: Sequence[Encoder],
    decoders: Sequence[Decoder],
    datasets: Sequence[DatasetFiles],
    settings: ReliabilitySettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return variance components, generalizability coefficients, and the numbers of seeds and items
    that a coefficient of `TARGET` needs.

    Args:
        encoders: Encoders, whose T-SHAP is measured.
        decoders: VL decoders, whose CC-SHAP and T-SHAP of the answer are measured.
        datasets: Data sets of captions and foils.
        settings: Samples, seeds and permutations.
        seed: Seed of the sample, and first seed of the permutations.
        resampling: Resampling of scenes.
    """
    items: list[Item] = []
    for dataset in datasets:
        items += read_item_sample(dataset, settings.sample, seed)
    # Encoders are measured on the same items, so that models can be compared.
    rows: list[MeasurementRecord] = []
    t_shap: dict[str, CrossedItems] = {}
    for encoder in encoders:
        crossed = cross_encoder_choices(encoder, items, settings.seeds, seed)
        t_shap[encoder.spec.name] = crossed
        rows += summarize_items("t_shap", encoder.spec.name, crossed, resampling)
    if len(t_shap) > 1:
        rows += summarize_models("t_shap", t_shap, resampling)
    for decoder in decoders:
        tables = cross_decoder_prompts(decoder, datasets, settings, seed)
        for quantity, crossed in tables.items():
            rows += summarize_items(quantity, decoder.spec.name, crossed, resampling)
    return rows


def cross_encoder_choices(
    encoder: Encoder, items: Sequence[Item], seeds: int, seed: int
) -> CrossedItems:
    """Return T-SHAP of captions in percent by seed, mask and grid, each from ten permutations with
    their reverses.
    """
    # Each combination of levels is a choice of the multiverse.
    choices = []
    for step, mask, grid in product(range(seeds), MASKS, GRIDS):
        changes = _find_changes("masked patch", mask) + _find_changes("grid", grid)
        choices.append(Choice(changes, estimator="permutation", seed_step=step))
    shares = []
    for item in items:
        for choice in choices:
            shares.append(compute_choice_t_shap(encoder, item, choice, None, seed, {}))
    return CrossedItems(
        np.array(shares).reshape(len(items), seeds, len(MASKS), len(GRIDS)),
        ENCODER_FACETS,
        [item.dataset for item in items],
        [item.scene for item in items],
    )


def _find_changes(factor: str, level: str) -> tuple[Change, ...]:
    """Return the changes of players that a level of the multiverse makes; none for the reference."""
    if level == "reference":
        return ()
    return FACTORS[factor][level].changes


def cross_decoder_prompts(
    decoder: Decoder,
    datasets: Sequence[DatasetFiles],
    settings: ReliabilitySettings,
    seed: int,
) -> dict[str, CrossedItems]:
    """Return CC-SHAP of post-hoc explanations, and T-SHAP of answers in percent, by seed and wording
    of the prompt.

    Seeds draw permutations alone: texts are the most probable tokens. Items that lack a number
    under one combination are left out.
    """
    # One setup for each wording; the seed of the permutations is set item by item.
    setups = {}
    for name, wording in WORDINGS.items():
        template = reword_template(build_template(decoder, EQUATIONS), wording)
        cc_shap = CCShapSettings(permutations=settings.permutations, kinds=(POST_HOC,))
        tokens = {"explanation": settings.tokens}
        setup = build_setup(decoder, template, seed, cc_shap, tokens, Path())
        dialogue = replace(setup.dialogue, samples_explanations=False)
        setups[name] = replace(setup, dialogue=dialogue)

    values = []
    names: list[str] = []
    scenes: list[str] = []
    for dataset in datasets:
        source = parquet.read_table(dataset.rows).to_pylist()
        questions = select_questions(
            source,
            dataset.name,
            dataset.settings,
            EQUATIONS,
            settings.decoder_sample,
            seed,
        ).questions
        with open_images(dataset.images) as images:
            for question in questions:
                picture = decoder.prepare_image(load_image(images, str(question.image)))
                # Each item has its own permutations, as in all measurements.
                seeds = []
                for step in range(settings.seeds):
                    seeds.append(
                        derive_seed(dataset.name, question.item_id, seed + step)
                    )
                by_wording = [
                    explain_by_seed(setup, question, picture, seeds)
                    for setup in setups.values()
                ]
                # (quantities, seeds, wordings)
                cells = np.stack(by_wording, axis=2)
                if np.isfinite(cells).all():
                    values.append(cells)
                    names.append(dataset.name)
                    scenes.append(identify_scene(str(question.image)))
    # (items, quantities, seeds, wordings)
    crossed = {}
    shape = (len(DECODER_QUANTITIES), settings.seeds, len(WORDINGS))
    table = np.array(values).reshape(-1, *shape)
    for index, quantity in enumerate(DECODER_QUANTITIES):
        crossed[quantity] = CrossedItems(table[:, index], DECODER_FACETS, names, scenes)
    return crossed


def reword_template(template: PromptTemplate, wording: str | None) -> PromptTemplate:
    """Return prompts that ask about caption and foil in another wording; None keeps the wording."""
    if wording is None:
        return template
    forms = dict(template.prompt_file.forms)
    forms["pairwise"] = forms["pairwise"].model_copy(update={"text": wording})
    prompt_file = template.prompt_file.model_copy(update={"forms": forms})
    return replace(template, prompt_file=prompt_file)


def explain_by_seed(
    setup: CCShapSetup,
    question: Question,
    picture: PreparedImage,
    seeds: Sequence[int],
) -> np.ndarray:
    """Return the quantities of `DECODER_QUANTITIES` of one answer and its post-hoc explanation by
    seed: float64 of shape (quantities, seeds), NaN if one is undefined.
    """
    cells = np.full((len(DECODER_QUANTITIES), len(seeds)), np.nan)
    # An item whose answer or explanation is refused has no number.
    try:
        generated = generate_pairs(setup.dialogue, question, picture, setup.kinds)
    except UserError:
        return cells
    # Texts are generated once; seeds change the permutations.
    for column, seed in enumerate(seeds):
        seeded = replace(setup, settings=replace(setup.settings, seed=seed))
        pair = attribute_kinds(seeded, generated, picture)[POST_HOC]
        if isinstance(pair, UserError) or pair.cc_shap.value is None:
            continue
        t_shap = pair.answer.attribution.t_shap.value
        cells[:, column] = pair.cc_shap.value, 100 * t_shap
    return cells


@dataclass(frozen=True, eq=False)
class Comparison:
    """Describe what is put in order by a measure, and the numbers that it is put in order by.

    Attributes:
        quantity: Name of the measure.
        model: Name of the model; empty for an order of models.
        measured: The facet that is put in order: `ITEM`, `DATASET` or `MODEL`.
        averaged: The facet whose levels a mean is taken over: `SEED` or `ITEM`.
        values: float64 with one axis a facet.
        facets: Names of the axes.
        draws: Resamples of one axis.
        axis: Number of this axis.
    """

    quantity: str
    model: str
    measured: str
    averaged: str
    values: np.ndarray
    facets: tuple[str, ...]
    draws: Resamples
    axis: int = 0

    @property
    def factor(self) -> str:
        """Return the name of the comparison in the rows."""
        return f"{self.quantity}, {self.measured}s"

    @property
    def n_items(self) -> int:
        """Return the number of items, of each data set where these are compared."""
        return int(self.values.shape[self.facets.index(ITEM)])

    def estimate(self) -> list[Components]:
        """Return the truncated components of the values, then those of each resample."""
        # Items belong to data sets wherever these are a facet.
        nested = {}
        if DATASET in self.facets:
            nested[ITEM] = DATASET
        components = resample_components(
            self.values, self.facets, self.draws, nested, self.axis
        )
        return list(map(truncate_components, components))

    def measure(
        self, numbers: Sequence[float], resampling: Resampling, bounds: Bounds
    ) -> Measure:
        """Return the first number with its interval from the others, which are those of resamples."""
        return build_component_measure(
            numbers, self.n_items, self.draws.clusters, resampling, bounds
        )

    def name_effect(self, effect: Effect) -> str:
        """Return the name of an effect: its facets in the order of the axes."""
        return " × ".join(sorted(effect, key=self.facets.index))


def summarize_items(
    quantity: str, model: str, crossed: CrossedItems, resampling: Resampling
) -> list[MeasurementRecord]:
    """Return the variance components and coefficients of items, and the coefficients of data sets.

    Args:
        quantity: Name of the measure.
        model: Name of the model.
        crossed: Numbers of the measure.
        resampling: Scenes are drawn for items, and data sets for the order of data sets.
    """
    items = Comparison(
        quantity,
        model,
        ITEM,
        SEED,
        crossed.values,
        (ITEM, *crossed.facets),
        _draw(crossed.scenes, quantity, resampling),
    )
    components = items.estimate()
    rows = describe_components(items, components, resampling)
    rows += describe_order(items, components, resampling)

    # Items belong to data sets; the mean of a data set is taken over its items.
    values, names = crossed.nest_items()
    # An order of data sets needs several of them, with several items each.
    if min(values.shape[:2]) < 2:
        return rows
    datasets = Comparison(
        quantity,
        model,
        DATASET,
        ITEM,
        values,
        (DATASET, ITEM, *crossed.facets),
        _draw(names, quantity, resampling),
    )
    return rows + describe_order(datasets, datasets.estimate(), resampling)


def summarize_models(
    quantity: str, tables: Mapping[str, CrossedItems], resampling: Resampling
) -> list[MeasurementRecord]:
    """Return the coefficients of an order of models that were measured on the same items.

    Args:
        quantity: Name of the measure.
        tables: At least two tables of the same items, by model.
        resampling: Resampling of scenes.
    """
    crossed = next(iter(tables.values()))
    models = Comparison(
        quantity,
        "",
        MODEL,
        ITEM,
        np.array([table.values for table in tables.values()]),
        (MODEL, ITEM, *crossed.facets),
        _draw(crossed.scenes, quantity, resampling),
        axis=1,
    )
    return describe_order(models, models.estimate(), resampling)


def _draw(clusters: Sequence[str], quantity: str, resampling: Resampling) -> Resamples:
    return resample(
        clusters,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=f"{MEASUREMENT}:{quantity}",
    )


def describe_components(
    comparison: Comparison, components: Sequence[Components], resampling: Resampling
) -> list[MeasurementRecord]:
    """Return the variance of each effect, and the share of the variance of a single number that each
    group of effects has, in percent.

    Args:
        comparison: The comparison.
        components: Its components, then those of each resample.
        resampling: Coverage of the intervals.
    """
    build_order_row = partial(
        _build_row, factor=comparison.factor, model=comparison.model
    )
    rows = []
    for effect in components[0]:
        variances = []
        for draw in components:
            variances.append(draw[effect])
        measure = comparison.measure(variances, resampling, NON_NEGATIVE)
        rows.append(
            build_order_row("variance", measure, level=comparison.name_effect(effect))
        )
    # (resamples, groups), whose groups add up to the variance of one number
    groups = []
    for draw in components:
        groups.append(list(group_components(draw).values()))
    grouped = np.array(groups)
    with np.errstate(invalid="ignore"):  # NaN where nothing varies
        shares = 100 * grouped / grouped.sum(axis=1, keepdims=True)
    for group, numbers in zip(GROUPS, shares.T, strict=True):
        measure = comparison.measure(numbers.tolist(), resampling, PERCENT)
        rows.append(build_order_row("variance_share", measure, level=group))
    return rows


def group_components(components: Components) -> dict[str, float]:
    """Return the variance of items, of what setups shift in all items and in single items, and of
    seeds with all their interactions.
    """
    variances = dict.fromkeys(GROUPS, 0.0)
    items, setups, changed_items, seeds = GROUPS
    for effect, variance in components.items():
        group = setups
        if SEED in effect:
            group = seeds
        elif effect == {ITEM}:
            group = items
        elif ITEM in effect:
            group = changed_items
        variances[group] += variance
    return variances


def describe_order(
    comparison: Comparison, components: Sequence[Components], resampling: Resampling
) -> list[MeasurementRecord]:
    """Return the coefficients of an order within one setup and over setups, their limit with any
    number of seeds or items, and the number that `TARGET` needs.

    Args:
        comparison: The comparison.
        components: Its components, then those of each resample.
        resampling: Coverage of the intervals.
    """
    measured, averaged = comparison.measured, comparison.averaged
    build_order_row = partial(
        _build_row, factor=comparison.factor, model=comparison.model
    )
    # Items have one number each; data sets and models have the mean of theirs.
    counts = {SEED: 1.0}
    if averaged == ITEM:
        counts[ITEM] = comparison.n_items
    rows = []
    for scope, fixed in SCOPES.items():
        coefficients = {
            "g": partial(compute_coefficient, counts=counts),
            "phi": partial(compute_coefficient, counts=counts, absolute=True),
            "g_limit": partial(compute_coefficient, counts={averaged: math.inf}),
        }
        for quantity, compute in coefficients.items():
            numbers = []
            for draw in components:
                numbers.append(compute(draw, measured, fixed))
            measure = comparison.measure(numbers, resampling, SHARE)
            rows.append(build_order_row(quantity, measure, level=scope))
        # An order of items needs seeds, an order of data sets or models needs items.
        needed = count_levels_needed(components[0], measured, averaged, TARGET, fixed)
        count = Measure(needed, comparison.n_items)
        if needed is None:
            count = replace(count, reason=NOT_REACHED.format(averaged))
        rows.append(build_order_row(f"{averaged}s_needed", count, level=scope))
    return rows
