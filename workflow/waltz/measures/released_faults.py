"""Measure how each deviation of the released code from the definitions changes T-SHAP and CC-SHAP."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from PIL import Image

from waltz.attribution.custom_players import (
    number_decoder_pixels,
    number_encoder_pixels,
)
from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.prompt_attribution import Regroup
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.t_shap import (
    compute_t_shap_of_outputs,
    find_contributing_outputs,
)
from waltz.consistency.cc_shap.dialogue import generate_pairs
from waltz.consistency.cc_shap.pair_attribution import SideAttribution
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
from waltz.core.intervals import Resampling
from waltz.core.sampling import derive_seed
from waltz.core.schema import MeasurementRecord
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS, PUBLISHED, Fidelity
from waltz.measures.items import Item, identify_scene, read_item_sample
from waltz.measures.plausibility import ALL
from waltz.measures.rows import average
from waltz.models import games
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.encoders.coalitions import EncoderPlayers
from waltz.models.encoders.encoder import Encoder
from waltz.sources.images import load_image, open_images

MEASUREMENT = "released_faults"
AnyPlayers = TypeVar("AnyPlayers", bound=games.Players)
TracePatches = Callable[[np.ndarray], torch.Tensor]
"""Function from regions of the raw image, bool (regions, height, width), to the region of each
value of model input.
"""


@dataclass(frozen=True, slots=True)
class FaultSettings:
    """Settings of the measurement of released faults.

    Attributes:
        sample: Number of items a data set.
        evaluations: Budget of a text of an encoder: the largest number of coalitions, or of passes
            in late fusion.
        permutations: Permutations of a decoder's prompt.
        tokens: Maximum number of tokens of an explanation.
    """

    sample: int
    evaluations: int
    permutations: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Describe one deviation of the released code.

    Attributes:
        fields: Fields of `Fidelity` that are set as in `published`; the other fields stay as in
            `equations`.
        shows_first_patch: Whether the first patch is never masked: an index slip until March 2025.
        masks_corner: Whether patches have (side of the network's input) // grid pixels of the raw
            image, so that they cover its upper left corner alone, as in the scripts for LLaVA-NeXT
            and mPLUG-Owl3.
        splits_at_words: Whether text players are counted from position n_text on, although the
            patches stand first and text begins after the patches: until April 2025.
        seed_step: Number that is added to the seed of permutations; this shows the effect of noise
            and is not a fault.
    """

    fields: tuple[str, ...] = ()
    shows_first_patch: bool = False
    masks_corner: bool = False
    splits_at_words: bool = False
    seed_step: int = 0


NONE = "none"
FAULTS: dict[str, Fault] = {
    NONE: Fault(),
    "another seed": Fault(seed_step=1),
    "patch 0 stays": Fault(shows_first_patch=True),
    "corner masked": Fault(masks_corner=True),
    "old split": Fault(splits_at_words=True),
    "first step only": Fault(("first_step_only",)),
    "weak outputs kept": Fault(("drops_weak_outputs",)),
    "outputs by magnitude": Fault(("output_weights",)),
    "suffix by count": Fault(("shared_players", "ratio_total")),
    "end token explained": Fault(("keeps_end_token",)),
    "special tokens play": Fault(("special_tokens_play",)),
}
"""Faults by name: first the definitions without a fault, then their noise. Faults with `fields`
concern outputs and prompts, which encoders lack.
"""


class ItemKey(NamedTuple):
    """Identify an item and, for decoders, the kind of its explanation; `kind` is empty for
    encoders.
    """

    dataset: str
    item_id: str
    kind: str
    scene: str


Quantities = Mapping[str, float]
"""Quantities of an item by name, in percent but for CC-SHAP."""
ItemQuantities = Mapping[ItemKey, Quantities]


def build_faulty_fidelity(fields: Sequence[str]) -> Fidelity:
    """Return profile `equations` with some fields as in the released code."""
    changes: dict[str, Any] = {field: getattr(PUBLISHED, field) for field in fields}
    return replace(EQUATIONS, **changes)


def mask_with_fault(
    players: AnyPlayers,
    fault: Fault,
    image: Image.Image,
    input_size: int,
    trace: TracePatches,
) -> AnyPlayers:
    """Return players that are masked with a fault.

    Args:
        players: Players of a text or prompt and its image.
        fault: The fault.
        image: The raw image.
        input_size: Pixels along each side of the network's input.
        trace: Function that finds regions of the raw image in the input of the model.
    """
    # The definitions' cells and visible players, which each fault changes.
    always_visible = players.always_visible.copy()
    cells = players.cells
    if fault.masks_corner:
        cells = trace(
            cut_corner(
                image.height, image.width, input_size // players.grid, players.grid
            )
        )
        # Patches that cover no pixel of what the model reads cannot be masked.
        covered = set(torch.unique(cells).tolist())
        always_visible[players.image] = [
            patch not in covered for patch in range(players.n_image_players)
        ]
    # An index slip left the first patch out of those that are masked.
    if fault.shows_first_patch:
        always_visible[players.image.start] = True
    return replace(players, cells=cells, always_visible=always_visible)


def cut_corner(height: int, width: int, patch: int, grid: int) -> np.ndarray:
    """Return grid x grid squares from the upper left corner of an image: bool of shape (grid**2,
    height, width).

    Args:
        height: Pixels of the image.
        width: Pixels of the image.
        patch: Pixels along each side of a square.
        grid: Squares along each side.
    """
    numbers = np.arange(grid)
    is_in_row = np.arange(height) // patch == numbers[:, None]  # (grid, height)
    is_in_column = np.arange(width) // patch == numbers[:, None]  # (grid, width)
    # Axes: row and column of the square, row and column of the pixel.
    squares: np.ndarray = is_in_row[:, None, :, None] & is_in_column[None, :, None, :]
    return squares.reshape(grid**2, height, width)


def compute_old_t_shap(phi: np.ndarray, text: slice, image: slice) -> float:
    """Return T-SHAP, a share of 1, with the wrong split of text and image that the code had before
    April 2025.

    Patches came first, but the code took all players from position n_text on as text.

    Args:
        phi: Shapley values, shape (players, outputs).
        text: Text players.
        image: Patches.
    """
    # The released code skipped n_text players to reach the text; the right number is the number of
    # patches.
    patches_first = np.concatenate([phi[image], phi[text]])
    n_text = len(phi[text])
    taken_as_text = slice(n_text, None)
    return float(
        compute_t_shap_of_outputs(
            patches_first,
            taken_as_text,
            EQUATIONS,
            find_contributing_outputs(phi),
        )
    )


def measure_released_faults(
    encoders: Sequence[Encoder],
    decoders: Sequence[Decoder],
    datasets: Sequence[DatasetFiles],
    settings: FaultSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return the effect of each fault on the reported measures: T-SHAP of encoders, CC-SHAP and
    T-SHAP of decoders.

    Args:
        encoders: Encoders, to which the faults of masks and of the split apply.
        decoders: Decoders, to which all faults apply.
        datasets: Data sets of captions and foils.
        settings: Sample and budgets.
        seed: Seed of the sample and of the estimators.
        resampling: Resampling of scenes.
    """
    rows: list[MeasurementRecord] = []
    attribution_settings = AttributionSettings(
        EQUATIONS, "auto", settings.evaluations, seed
    )
    items: list[Item] = []
    for dataset in datasets:
        items += read_item_sample(dataset, settings.sample, seed)
    names = [dataset.name for dataset in datasets]
    # Faults with fields are about outputs and prompts, which encoders lack.
    encoder_faults = {name: fault for name, fault in FAULTS.items() if not fault.fields}
    for encoder in encoders:
        encoder_quantities = {}
        for name, fault in encoder_faults.items():
            encoder_quantities[name] = compute_encoder_quantities(
                encoder, items, fault, attribution_settings
            )
        rows += compare_faults(encoder.spec.name, encoder_quantities, names, resampling)
    for decoder in decoders:
        decoder_quantities = {}
        for name, fault in FAULTS.items():
            decoder_quantities[name] = compute_decoder_quantities(
                decoder, datasets, fault, settings, seed
            )
        rows += compare_faults(decoder.spec.name, decoder_quantities, names, resampling)
    return rows


def compute_encoder_quantities(
    encoder: Encoder, items: Sequence[Item], fault: Fault, settings: AttributionSettings
) -> ItemQuantities:
    """Return T-SHAP of captions and foils with a fault, in percent."""
    quantities: dict[ItemKey, Quantities] = {}
    for item in items:
        # Shapley values of caption and foil, with the fault's masks and from the item's seed.
        mask = partial(
            mask_with_fault,
            fault=fault,
            image=item.image,
            input_size=encoder.prepare_image(item.image).shape[-1],
            trace=partial(number_encoder_pixels, encoder, item.image),
        )

        # The default binds this item's mask.
        def regroup(
            players: EncoderPlayers,
            text: str,
            mask: Callable[[EncoderPlayers], EncoderPlayers] = mask,
        ) -> EncoderPlayers:
            return mask(players)

        item_seed = derive_seed(
            item.dataset, item.item_id, settings.seed + fault.seed_step
        )
        item_settings = replace(settings, seed=item_seed)
        attributions = attribute_texts(
            encoder,
            item.image,
            [item.caption, item.foil],
            item_settings,
            regroup=regroup,
        )
        t_shap = {}
        for quantity, attribution in zip(
            ("t_shap_c", "t_shap_f"), attributions, strict=True
        ):
            n_text = len(attribution.tokens)
            share = attribution.t_shap.value
            if fault.splits_at_words:
                share = compute_old_t_shap(
                    attribution.estimate.phi, slice(0, n_text), slice(n_text, None)
                )
            t_shap[quantity] = 100 * share
        quantities[ItemKey(item.dataset, item.item_id, "", item.scene)] = t_shap
    return quantities


def compute_decoder_quantities(
    decoder: Decoder,
    datasets: Sequence[DatasetFiles],
    fault: Fault,
    settings: FaultSettings,
    seed: int,
) -> ItemQuantities:
    """Return CC-SHAP, and T-SHAP of answers and explanations in percent, with a fault."""
    fidelity = build_faulty_fidelity(fault.fields)
    template = build_template(decoder, fidelity)
    cc_shap = CCShapSettings(permutations=settings.permutations)
    tokens = {"explanation": settings.tokens}
    setup = build_setup(decoder, template, seed, cc_shap, tokens, Path())
    # Faults are compared on the same texts, so that explanations are the most probable tokens.
    setup = replace(setup, dialogue=replace(setup.dialogue, samples_explanations=False))
    quantities: dict[ItemKey, Quantities] = {}
    for dataset in datasets:
        rows = parquet.read_table(dataset.rows).to_pylist()
        questions = select_questions(
            rows,
            dataset.name,
            dataset.settings,
            fidelity,
            settings.sample,
            seed,
        ).questions
        with open_images(dataset.images) as images:
            for question in questions:
                picture = decoder.prepare_image(load_image(images, str(question.image)))
                # The seed of permutations is the item's, and the same with each fault but the other
                # seed.
                item_seed = derive_seed(
                    dataset.name, question.item_id, seed + fault.seed_step
                )
                item_setup = replace(
                    setup, settings=replace(setup.settings, seed=item_seed)
                )
                scene = identify_scene(str(question.image))
                for kind, values in _explain_question(
                    item_setup, question, picture, fault
                ).items():
                    quantities[ItemKey(dataset.name, question.item_id, kind, scene)] = (
                        values
                    )
    return quantities


def _explain_question(
    setup: CCShapSetup, question: Question, picture: PreparedImage, fault: Fault
) -> dict[str, Quantities]:
    """Return the defined quantities of one item by kind of explanation."""
    decoder = setup.dialogue.decoder
    # An item whose answer or explanation is refused has no quantity.
    try:
        generated = generate_pairs(setup.dialogue, question, picture, setup.kinds)
    except UserError:
        return {}

    regroup: Regroup = partial(
        mask_with_fault,
        fault=fault,
        image=picture.image,
        input_size=picture.pixels.shape[-1],
        trace=partial(number_decoder_pixels, decoder, picture, raw=False),
    )
    quantities: dict[str, Quantities] = {}
    for kind, pair in attribute_kinds(
        setup, generated, picture, regroup=regroup
    ).items():
        if isinstance(pair, UserError):
            continue
        values = {
            "t_shap_answer": _compute_t_shap(pair.answer, fault),
            "t_shap_explanation": _compute_t_shap(pair.explanation, fault),
        }
        cc_shap = pair.cc_shap.value
        # CC-SHAP does not depend on the split.
        if cc_shap is not None and not fault.splits_at_words:
            values["cc_shap"] = cc_shap
        quantities[kind] = {
            quantity: value for quantity, value in values.items() if np.isfinite(value)
        }
    return quantities


def _compute_t_shap(attributed: SideAttribution, fault: Fault) -> float:
    """Return T-SHAP of an answer or of an explanation in percent."""
    attribution = attributed.attribution
    if not fault.splits_at_words or attribution.players is None:
        return 100 * attribution.t_shap.value
    players = attribution.players
    return 100 * compute_old_t_shap(
        attribution.estimate.phi, players.text, players.image
    )


def compare_faults(
    model: str,
    quantities: Mapping[str, ItemQuantities],
    datasets: Sequence[str],
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return the mean of each quantity with each fault, and its difference to the mean without a
    fault.

    Means and differences are computed for each data set and for all together, absolute differences
    only for all together. Items that lack a quantity with or without the fault are left out of the
    differences.

    Args:
        model: Name of the model.
        quantities: Quantities of the items, by fault; the other faults are compared with `NONE`.
        datasets: Names of the data sets.
        resampling: Resampling of scenes.
    """
    rows: list[MeasurementRecord] = []
    plain = quantities[NONE]
    names = list(
        dict.fromkeys(
            name for item_quantities in plain.values() for name in item_quantities
        )
    )
    for fault, switched in quantities.items():
        for name in names:
            columns = _build_columns(
                name, plain, switched, datasets, with_differences=fault != NONE
            )
            for column in columns:
                row = MeasurementRecord(
                    measurement=MEASUREMENT,
                    quantity=column.quantity,
                    measure=average(column.values, column.clusters, model, resampling),
                    model=model,
                    dataset=column.dataset,
                    factor="fault",
                    level=fault,
                )
                rows.append(row)
    return rows


@dataclass(frozen=True, slots=True)
class Column:
    """Hold the values of one quantity over the items of one or all data sets, with the scene of
    each item.
    """

    quantity: str
    dataset: str
    values: list[float]
    clusters: list[str]


def _build_columns(
    name: str,
    plain: ItemQuantities,
    switched: ItemQuantities,
    datasets: Sequence[str],
    *,
    with_differences: bool,
) -> list[Column]:
    """Return the values of a quantity with a fault by data set, and their differences to the values
    without it.

    Returns:
        The columns; an empty list if no item has the quantity.
    """
    columns = []
    keys = [key for key in switched if name in switched[key]]
    if not keys:
        return []
    for dataset in (ALL, *datasets):
        values, value_clusters = [], []
        differences, difference_clusters = [], []
        for key in keys:
            if dataset not in (ALL, key.dataset):
                continue
            values.append(switched[key][name])
            value_clusters.append(key.scene)
            # Differences are of the items that have the quantity without the fault, too.
            if name in plain.get(key, {}):
                differences.append(switched[key][name] - plain[key][name])
                difference_clusters.append(key.scene)

        columns.append(Column(name, dataset, values, value_clusters))
        if with_differences:
            columns.append(
                Column(f"{name}_difference", dataset, differences, difference_clusters)
            )
        if with_differences and dataset == ALL:
            magnitudes = list(map(abs, differences))
            columns.append(
                Column(
                    f"{name}_absolute_difference",
                    dataset,
                    magnitudes,
                    difference_clusters,
                )
            )
    return columns
