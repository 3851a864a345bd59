"""T-SHAP of given answers and explanations in decoders with random weights: the floor of T-SHAP of
explanations less that of their answers.

A decoder with random weights would write one token again and again, and so it is given the answer
and the explanations that the trained decoder wrote.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from waltz.consistency.cc_shap.dialogue import GeneratedPairs, generate_pairs
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
from waltz.core.sampling import derive_seed
from waltz.evaluation.decoder_tasks import build_template
from waltz.fidelity import EQUATIONS
from waltz.measures.items import identify_scene
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.sources.images import load_image, open_images

DEVIATION = 0.1
"""Standard deviation of random weights. With the deviations of trained weights, the probability of a
given token is 0 whatever is masked; with transformers' 0.02, contributions are near rounding.
"""


@dataclass(frozen=True, eq=False)
class GivenTexts:
    """Hold the texts that the trained decoder wrote about one item.

    Attributes:
        name: Name of the item, with its data set.
        scene: The scene of its image.
        picture: The prepared image.
        generated: The answer with its explanations.
        seed: Seed of the item's permutations.
    """

    name: str
    scene: str
    picture: PreparedImage
    generated: GeneratedPairs
    seed: int


@dataclass(frozen=True, eq=False)
class NetworkDifferences:
    """Hold T-SHAP of explanations less T-SHAP of their answers in several networks.

    Attributes:
        names: Names of the items that have a number in each network, with their data sets.
        scenes: The scene of each item.
        values: Points, float64 of shape (networks, items).
    """

    names: Sequence[str]
    scenes: Sequence[str]
    values: np.ndarray


def attribute_given_texts(
    load: Callable[[], Decoder],
    datasets: Sequence[DatasetFiles],
    *,
    sample: int,
    networks: int,
    permutations: int,
    tokens: int,
    seed: int,
) -> dict[str, NetworkDifferences]:
    """Return T-SHAP of the trained decoder's explanations less T-SHAP of its answers in networks of
    random weights, by kind of explanation.

    Args:
        load: Function that loads the trained decoder.
        datasets: Data sets of captions and foils.
        sample: Number of items a data set that the trained decoder explains; random networks are
            given the first one.
        networks: Number of random networks.
        permutations: Permutations of a prompt's players, each with its reverse.
        tokens: Maximum number of tokens of an explanation.
        seed: Seed of the sample and the permutations; seed of the first network.
    """
    cc_shap = CCShapSettings(permutations=permutations)

    def build(decoder: Decoder) -> CCShapSetup:
        template = build_template(decoder, EQUATIONS)
        lengths = {"explanation": tokens}
        return build_setup(decoder, template, seed, cc_shap, lengths, Path())

    trained = build(load())
    items: list[GivenTexts] = []
    for dataset in datasets:
        items += _generate_texts(trained, dataset, sample, seed)

    # One row for each network, by kind of explanation.
    tables: dict[str, list[list[float]]] = {kind: [] for kind in trained.kinds}
    for network in range(networks):
        # Loaded again, since a decoder may have stored what it computed with other weights.
        decoder = load()
        initialize_weights(decoder.network.model, seed + network)
        setup = build(decoder)
        for table in tables.values():
            table.append([])
        for item in items:
            for kind, difference in _compute_differences(setup, item).items():
                tables[kind][-1].append(difference)
    return {kind: _select_complete(items, table) for kind, table in tables.items()}


def _select_complete(
    items: Sequence[GivenTexts], table: Sequence[Sequence[float]]
) -> NetworkDifferences:
    """Return the differences of the items that have one in each network.

    Args:
        table: Difference of each network and item, NaN where it is undefined.
    """
    values = np.array(table)  # (networks, items)
    is_complete = np.isfinite(values).all(axis=0)
    names = []
    scenes = []
    for item, complete in zip(items, is_complete, strict=True):
        if complete:
            names.append(item.name)
            scenes.append(item.scene)
    return NetworkDifferences(names, scenes, values[:, is_complete])


def initialize_weights(network: torch.nn.Module, seed: int) -> None:
    """Replace the matrices of a network in place by normal draws of deviation `DEVIATION`; vectors,
    as of norms and biases, keep their values.

    Args:
        network: A network, whose matrices may share their weights.
        seed: Seed of the draws.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in network.parameters():
            # Shared weights are one parameter, which is drawn once.
            if weights.ndim > 1:
                normal = torch.randn(weights.shape, generator=generator)
                weights.copy_(DEVIATION * normal)


def _generate_texts(
    setup: CCShapSetup,
    dataset: DatasetFiles,
    sample: int,
    seed: int,
) -> list[GivenTexts]:
    """Return the answer and the explanations of the first item of a sample; none if its answer or prompt
    is refused.
    """
    source = parquet.read_table(dataset.rows).to_pylist()
    questions = select_questions(
        source, dataset.name, dataset.settings, EQUATIONS, sample, seed
    ).questions
    items = []
    with open_images(dataset.images) as images:
        for question in questions[:1]:
            # The pixels do not depend on the weights.
            decoder = setup.dialogue.decoder
            picture = decoder.prepare_image(load_image(images, str(question.image)))
            try:
                generated = generate_pairs(
                    setup.dialogue, question, picture, setup.kinds
                )
            except UserError:
                continue
            items.append(
                GivenTexts(
                    f"{dataset.name}/{question.item_id}",
                    identify_scene(str(question.image)),
                    picture,
                    generated,
                    derive_seed(dataset.name, question.item_id, seed),
                )
            )
    return items


def _compute_differences(setup: CCShapSetup, texts: GivenTexts) -> dict[str, float]:
    """Return T-SHAP of each explanation less T-SHAP of its answer in points, by kind; NaN where it is
    undefined.
    """
    # The permutations are those of the trained decoder.
    seeded = replace(setup, settings=replace(setup.settings, seed=texts.seed))
    differences = dict.fromkeys(setup.kinds, np.nan)
    for kind, pair in attribute_kinds(seeded, texts.generated, texts.picture).items():
        if not isinstance(pair, UserError):
            explanation = pair.explanation.attribution.t_shap.value
            answer = pair.answer.attribution.t_shap.value
            differences[kind] = 100 * (explanation - answer)
    return differences
