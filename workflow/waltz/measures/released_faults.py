"""Deviations of the released code from the definitions, switched on one by one: their effect on T-SHAP and CC-SHAP."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image

from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.own_players import number_decoder_pixels, number_encoder_pixels
from waltz.attribution.prompt_attribution import Regroup
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.t_shap import compute_t_shap_of_outputs, find_contributing_outputs
from waltz.consistency.cc_shap.dialogue import generate_pairs
from waltz.consistency.cc_shap.pair_attribution import SideAttribution
from waltz.consistency.cc_shap.rows import CCShapSetup, attribute_kinds, build_setup
from waltz.consistency.item_selection import select_questions
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Resampling
from waltz.evaluation.decoder_tasks import build_template
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS, PROFILES, PUBLISHED, Profile
from waltz.measures.items import Item, derive_seed, identify_scene, read_items
from waltz.measures.plausibility import ALL
from waltz.measures.rows import Row, average, build_row
from waltz.models import games
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.encoders.coalitions import Players
from waltz.models.encoders.encoder import Encoder
from waltz.sources.images import load_image, open_images

MEASUREMENT = "released_faults"
PROFILE: Profile = "equations"
AnyPlayers = TypeVar("AnyPlayers", bound=games.Players)
TracePatches = Callable[[np.ndarray], torch.Tensor]
"""From regions of the raw image, bool (regions, height, width), to the region of each value that the model reads."""


@dataclass(frozen=True)
class Fault:
    """One deviation of the released code.

    Attributes:
        fields: Fields of `Fidelity` that are set as in `published`; the others stay those of `equations`.
        shows_first_patch: Whether the first patch is never masked: an index slip until March 2025.
        masks_corner: Whether patches have (side of the network's input) // grid pixels of the raw image, so that they
            cover its upper left corner alone, as in the scripts for LLaVA-NeXT and mPLUG-Owl3.
        splits_at_words: Whether text begins after as many players as text has, not after the patches, which stand
            first: until April 2025.
        seed_step: What is added to the seed of permutations: no fault, but what noise alone changes.
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
"""Faults by name, the definitions first, then their noise. Those with `fields` are about outputs and prompts, which
encoders lack."""
Values = dict[tuple[str, str, str, str], dict[str, float]]
"""Quantities of an item, in percent but for CC-SHAP, by data set, item, kind of explanation (of decoders) and scene."""


@contextmanager
def switch_on(fields: Sequence[str]) -> Iterator[None]:
    """Let profile `equations` follow the released code in some fields, within the block."""
    changes: dict[str, Any] = {field: getattr(PUBLISHED, field) for field in fields}
    PROFILES[PROFILE] = replace(EQUATIONS, **changes)
    try:
        yield
    finally:
        PROFILES[PROFILE] = EQUATIONS


def mask_with_fault(
    players: AnyPlayers, fault: Fault, image: Image.Image, side: int, trace: TracePatches
) -> AnyPlayers:
    """Return players that are masked with a fault.

    Args:
        image: The raw image.
        side: Pixels a side of the network's input.
        trace: Finds regions of the raw image in what the model reads.
    """
    visible = players.always_visible.copy()
    cells = players.cells
    if fault.masks_corner:
        cells = trace(cut_corner(image.height, image.width, side // players.grid, players.grid))
        covered = set(torch.unique(cells).tolist())
        visible[players.image] = [patch not in covered for patch in range(players.patches)]
    if fault.shows_first_patch:
        visible[players.image.start] = True
    return replace(players, cells=cells, always_visible=visible)


def cut_corner(height: int, width: int, patch: int, grid: int) -> np.ndarray:
    """Return grid x grid squares from the upper left corner of an image: bool of shape (grid**2, height, width).

    Args:
        patch: Pixels on a side of a square.
    """
    rows, columns = np.arange(height) // patch, np.arange(width) // patch
    numbers = np.arange(grid)
    of_rows, of_columns = rows == numbers[:, None], columns == numbers[:, None]
    squares: np.ndarray = of_rows[:, None, :, None] & of_columns[None, :, None, :]
    return squares.reshape(grid**2, height, width)


def compute_old_t_shap(phi: np.ndarray, text: slice, image: slice) -> float:
    """Return T-SHAP with the split of releases before April 2025: after as many players as text has, patches first.

    Args:
        phi: Shapley values, shape (players, outputs).
        text: Text players.
        image: Patches.
    """
    patches_first = np.concatenate([phi[image], phi[text]])
    words = slice(len(phi[text]), None)
    return float(compute_t_shap_of_outputs(patches_first, words, PROFILE, find_contributing_outputs(phi)))


def measure_released_faults(
    encoders: Sequence[Encoder],
    decoders: Sequence[Decoder],
    datasets: Sequence[DatasetFiles],
    *,
    sample: int,
    evaluations: int,
    permutations: int,
    tokens: int,
    seed: int,
    how: Resampling,
) -> list[Row]:
    """Return what each fault does to the figures of reports: T-SHAP of encoders, CC-SHAP and T-SHAP of decoders.

    Args:
        encoders: Encoders, to which faults of masks and of the split apply.
        decoders: Decoders, to which all apply.
        sample: Number of items a data set.
        evaluations: Most coalitions of a text of an encoder, or passes of one of late fusion.
        permutations: Permutations of a decoder's prompt.
        tokens: Most tokens of an explanation.
    """
    rows: list[Row] = []
    settings = AttributionSettings(PROFILE, "auto", evaluations, seed)
    items = [item for dataset in datasets for item in read_items(dataset, sample, seed)]
    names = [dataset.name for dataset in datasets]
    for encoder in encoders:
        found = {
            name: compute_encoder_values(encoder, items, fault, settings)
            for name, fault in FAULTS.items()
            if not fault.fields
        }
        rows += compare_values(encoder.spec.name, found, names, how)
    for decoder in decoders:
        found = {}
        for name, fault in FAULTS.items():
            with switch_on(fault.fields):
                found[name] = compute_decoder_values(decoder, datasets, fault, sample, permutations, tokens, seed)
        rows += compare_values(decoder.spec.name, found, names, how)
    return rows


def compute_encoder_values(
    encoder: Encoder, items: Sequence[Item], fault: Fault, settings: AttributionSettings
) -> Values:
    """Return T-SHAP of captions and foils with a fault."""
    found: Values = {}
    for item in items:
        side = encoder.prepare_image(item.image).shape[-1]
        mask = partial(
            mask_with_fault,
            fault=fault,
            image=item.image,
            side=side,
            trace=partial(number_encoder_pixels, encoder, item.image),
        )

        def regroup(players: Players, text: str, mask: Callable[[Players], Players] = mask) -> Players:
            return mask(players)

        own_seed = derive_seed(item.dataset, item.item_id, settings.seed + fault.seed_step)
        own_settings = replace(settings, seed=own_seed)
        attributions = attribute_texts(encoder, item.image, [item.caption, item.foil], own_settings, regroup=regroup)
        values = {}
        for quantity, own in zip(("t_shap_c", "t_shap_f"), attributions, strict=True):
            text, image = slice(0, len(own.tokens)), slice(len(own.tokens), None)
            values[quantity] = 100 * (compute_old_t_shap(own.phi, text, image) if fault.splits_at_words else own.t_shap)
        found[item.dataset, item.item_id, "", item.scene] = values
    return found


def compute_decoder_values(
    decoder: Decoder,
    datasets: Sequence[DatasetFiles],
    fault: Fault,
    sample: int,
    permutations: int,
    tokens: int,
    seed: int,
) -> Values:
    """Return CC-SHAP, and T-SHAP of answers and explanations, with a fault whose fields are switched on."""
    template = build_template(decoder, PROFILE)
    setup = build_setup(decoder, template, seed, {"permutations": permutations}, {"explanation": tokens}, Path())
    found: Values = {}
    for dataset in datasets:
        rows = parquet.read_table(dataset.rows).to_pylist()
        questions = select_questions(rows, dataset.name, dataset.settings, PROFILE, sample, seed).questions
        with open_images(dataset.images) as images:
            for question in questions:
                picture = decoder.prepare_image(load_image(images, str(question.image)))
                own_seed = derive_seed(dataset.name, question.item_id, seed + fault.seed_step)
                own_setup = replace(setup, settings=replace(setup.settings, seed=own_seed))
                for kind, values in _explain_question(own_setup, question, picture, fault).items():
                    scene = identify_scene(str(question.image))
                    found[dataset.name, question.item_id, kind, scene] = values
    return found


def _explain_question(
    setup: CCShapSetup, question: Question, picture: PreparedImage, fault: Fault
) -> dict[str, dict[str, float]]:
    """Return the quantities of one item by kind of explanation, without those that are undefined."""
    decoder = setup.dialogue.decoder
    try:
        generated = generate_pairs(setup.dialogue, question, picture, setup.kinds)
    except UserError:
        return {}

    regroup: Regroup = partial(
        mask_with_fault,
        fault=fault,
        image=picture.image,
        side=picture.pixels.shape[-1],
        trace=partial(number_decoder_pixels, decoder, picture, raw=False),
    )
    found = {}
    for kind, pair in attribute_kinds(setup, generated, picture, regroup=regroup).items():
        if isinstance(pair, UserError):
            continue
        values = {
            "t_shap_answer": _compute_t_shap(pair.answer, fault),
            "t_shap_explanation": _compute_t_shap(pair.explanation, fault),
        }
        if not fault.splits_at_words:  # which CC-SHAP does not ask for
            values["cc_shap"] = np.nan if pair.cc_shap.value is None else pair.cc_shap.value
        found[kind] = {quantity: value for quantity, value in values.items() if np.isfinite(value)}
    return found


def _compute_t_shap(side: SideAttribution, fault: Fault) -> float:
    """Return T-SHAP of one side in percent."""
    own = side.attribution
    if not fault.splits_at_words or own.players is None:
        return 100 * own.t_shap.value
    return 100 * compute_old_t_shap(own.estimate.phi, own.players.text, own.players.image)


def compare_values(model: str, found: Mapping[str, Values], datasets: Sequence[str], how: Resampling) -> list[Row]:
    """Return the mean of each quantity with each fault, and its difference to none: of data sets, and of all together.

    Items that lack a quantity on either side are left out of the differences. Absolute differences are of all together.
    """
    rows = []
    plain = found[NONE]
    quantities = list(dict.fromkeys(quantity for own in plain.values() for quantity in own))
    for name, switched in found.items():
        for quantity in quantities:
            if not any(quantity in own for own in switched.values()):
                continue
            for dataset in (ALL, *datasets):
                keys = [key for key in switched if quantity in switched[key] and dataset in (ALL, key[0])]
                both = [key for key in keys if quantity in plain.get(key, {})]
                steps = [switched[key][quantity] - plain[key][quantity] for key in both]
                columns = [("", [switched[key][quantity] for key in keys], keys)]
                if name != NONE:
                    columns.append(("_difference", steps, both))
                    columns += [("_absolute_difference", [abs(step) for step in steps], both)] * (dataset == ALL)
                for suffix, values, of in columns:
                    clusters = [key[3] for key in of]
                    place = {"model": model, "dataset": dataset, "factor": "fault", "level": name}
                    measure = average(values, clusters, model, how)
                    rows.append(build_row(MEASUREMENT, quantity + suffix, measure, **place))
    return rows
