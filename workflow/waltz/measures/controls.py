"""Null controls: T-SHAP of other images and of random weights, CC-SHAP of explanations of other
items.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.consistency.cc_shap.measure import compute_cosine
from waltz.consistency.cc_shap.rows import (
    CCShapRun,
    CCShapSettings,
    explain_datasets,
)
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Resampling, build_measure, resample
from waltz.core.measure import Measure
from waltz.core.sampling import derive_seed, rank
from waltz.core.schema import CcShapRecord, MeasurementRecord
from waltz.fidelity import EQUATIONS
from waltz.measures.items import Item, identify_scene, read_item_sample
from waltz.measures.rows import SIGNED, average, build_row
from waltz.models.decoders.decoder import Decoder
from waltz.models.encoders.base import PackedLinear
from waltz.models.encoders.encoder import Encoder

MEASUREMENT = "controls"
_build_row = partial(build_row, MEASUREMENT, factor="control")
Reload = Callable[[], Encoder]
"""Function that loads an encoder again, so that its weights can be changed without changing the
first one.
"""


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Settings of the null controls.

    Attributes:
        sample: Number of captions a data set.
        evaluations: Budget of a text: the largest number of coalitions, or of passes of an encoder
            of late fusion.
        repeats: Random networks of each encoder, one a seed.
        random_sample: Number of captions a data set that random networks score, the first ones of
            the sample.
        decoder_sample: Number of items a data set that decoders explain.
        permutations: Permutations of a prompt's players, each with its reverse.
        tokens: Maximum number of tokens of an explanation.
    """

    sample: int
    evaluations: int
    repeats: int
    random_sample: int
    decoder_sample: int
    permutations: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ExplainedItem:
    """Hold the contribution ratios of the answer to one item and of its explanation.

    Attributes:
        name: Data set and id of the item.
        scene: The scene of its image.
        cc_shap: CC-SHAP of answer and explanation.
        answer: Ratios of the answer, float64 of shape (shared players,).
        explanation: Ratios of the explanation, of the same shape.
    """

    name: str
    scene: str
    cc_shap: float
    answer: np.ndarray
    explanation: np.ndarray


def measure_encoder_controls(
    encoders: Mapping[str, Reload],
    datasets: Sequence[DatasetFiles],
    settings: ControlSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return mean T-SHAP of encoders in percent, without a control and with each null control.

    The controls are another seed, images of other scenes, random weights, and the share of tokens
    among the players.

    Args:
        encoders: Function that loads each encoder, by name.
        datasets: Data sets of captions and foils; captions are attributed.
        settings: Samples, budget and number of random networks.
        seed: Seed of the sample and of the estimators.
        resampling: Resampling of scenes.
    """
    # The items of all data sets, and the positions of those that random networks score: the first
    # of each data set.
    items: list[Item] = []
    random_positions: list[int] = []
    for dataset in datasets:
        sample = read_item_sample(dataset, settings.sample, seed)
        random_positions += range(
            len(items), len(items) + min(len(sample), settings.random_sample)
        )
        items += sample
    clusters = [item.scene for item in items]
    lenders = [items[position] for position in shift_images(clusters)]
    random_items = [items[position] for position in random_positions]
    random_clusters = [clusters[position] for position in random_positions]

    rows: list[MeasurementRecord] = []
    attribution_settings = AttributionSettings(
        EQUATIONS, "auto", settings.evaluations, seed
    )
    for name, load in encoders.items():
        encoder = load()
        # The controls that keep the weights: none, other draws of coalitions, and images of other
        # scenes.
        plain = _attribute(encoder, items, items, attribution_settings)
        other_seed = _attribute(
            encoder, items, items, replace(attribution_settings, seed=seed + 1)
        )
        shuffled = _attribute(encoder, items, lenders, attribution_settings)
        # Networks are loaded again, since their weights are changed in place.
        random = []
        for repeat in range(settings.repeats):
            network = load()
            randomize_weights(network, seed + repeat)
            random.append(
                _attribute(network, random_items, random_items, attribution_settings)
            )

        levels = {"none": plain, "another seed": other_seed, "other image": shuffled}
        rows += summarize_controls(name, levels, clusters, resampling)
        rows += summarize_random_networks(
            name, np.array(random), plain[random_positions], random_clusters, resampling
        )
        text_shares = [100 * _count_text_share(encoder, item) for item in items]
        share_of_players = average(text_shares, clusters, name, resampling)
        rows.append(
            _build_row("t_shap", share_of_players, model=name, level="share of players")
        )
    return rows


def summarize_controls(
    model: str,
    levels: Mapping[str, np.ndarray],
    clusters: Sequence[str],
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return for each control the mean, the difference to no control, and the correlation with no
    control over items.

    Args:
        model: Name of the encoder.
        levels: T-SHAP of each item in percent, by control.
        clusters: The scene of each item.
        resampling: Resampling of scenes.
    """
    rows = []
    plain = levels["none"]
    for level, values in levels.items():
        mean = average(values.tolist(), clusters, model, resampling)
        difference = average((values - plain).tolist(), clusters, model, resampling)
        rows.append(_build_row("t_shap", mean, model=model, level=level))
        rows.append(
            _build_row("t_shap_difference", difference, model=model, level=level)
        )
        # A correlation is defined where both vary.
        both_vary = np.ptp(values) > 0 and np.ptp(plain) > 0
        if level != "none" and both_vary:
            correlation = correlate(values, plain, clusters, model, resampling)
            rows.append(
                _build_row("correlation", correlation, model=model, level=level)
            )
    return rows


def summarize_random_networks(
    model: str,
    values: np.ndarray,
    plain: np.ndarray,
    clusters: Sequence[str],
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return mean T-SHAP of random networks, its difference to the trained network, and its
    deviation between networks.

    Args:
        model: Name of the encoder.
        values: T-SHAP in percent, float64 of shape (networks, items), at least two networks.
        plain: T-SHAP of the trained network in percent, float64 of shape (items,).
        clusters: The scene of each item.
        resampling: Networks and scenes are drawn independently.
    Source:
        Owen (Annals of Applied Statistics 1, 2007), on resamples of both factors.
    """
    networks = [str(number) for number in range(len(values))]
    network_draws = resample(
        networks,
        resamples=resampling.resamples,
        seed=resampling.seed,
        label=f"{model}, networks",
    )
    scene_draws = resample(
        clusters, resamples=resampling.resamples, seed=resampling.seed, label=model
    )
    # Weight of each network and of each item in each resample, both of which sum to 1 over axis 1:
    # (resamples, networks) and (resamples, items).
    network_weights = network_draws.count_items() / len(values)
    item_counts = scene_draws.count_items()
    item_weights = item_counts / item_counts.sum(axis=1, keepdims=True)

    rows = []
    for quantity, table in (("t_shap", values), ("t_shap_difference", values - plain)):
        # A resample's mean weighs cell (n, i) of the table by the weights of its network and of its
        # item.
        means = np.einsum(
            "rn,ni,ri->r", network_weights, table, item_weights, optimize=True
        )
        measure = build_measure(
            float(table.mean()), len(plain), means, resampling, len(values), None
        )
        rows.append(_build_row(quantity, measure, model=model, level="random weights"))
    # Deviation between networks of the mean over items; axis 1 are the items.
    deviation = Measure(float(values.mean(axis=1).std(ddof=1)), len(values))
    rows.append(
        _build_row("t_shap_sd_networks", deviation, model=model, level="random weights")
    )
    return rows


def correlate(
    first: np.ndarray,
    second: np.ndarray,
    clusters: Sequence[str],
    label: str,
    resampling: Resampling,
) -> Measure:
    """Return Pearson's correlation over items between two series, with its interval over scenes."""
    draws = resample(
        clusters, resamples=resampling.resamples, seed=resampling.seed, label=label
    )
    # Row 0 weighs all items alike, each further row as one resample draws them: (1 + resamples,
    # items).
    weights = np.concatenate([np.ones((1, len(first))), draws.count_items()])
    weights /= weights.sum(axis=1, keepdims=True)
    # Deviations from the weighted mean of each row.
    a = first - weights @ first[:, None]
    b = second - weights @ second[:, None]
    variances = (weights * a**2).sum(axis=1) * (weights * b**2).sum(axis=1)
    with np.errstate(invalid="ignore"):  # NaN where a resample has one scene alone
        correlations = (weights * a * b).sum(axis=1) / np.sqrt(variances)
    return build_measure(
        float(correlations[0]),
        len(first),
        correlations[1:],
        resampling,
        draws.clusters,
        SIGNED,
    )


def shift_images(scenes: Sequence[str]) -> list[int]:
    """Return for each item the position of the item that lends its image: the next item of another
    scene.

    Raises:
        ValueError: All items have one scene.
    """
    if len(set(scenes)) < 2:
        raise ValueError(
            "all items have one scene, so that none can exchange its image"
        )
    count = len(scenes)
    lenders = []
    for position, scene in enumerate(scenes):
        # The search wraps around, and ends because there are at least two scenes.
        lender = (position + 1) % count
        while scenes[lender] == scene:
            lender = (lender + 1) % count
        lenders.append(lender)
    return lenders


def randomize_weights(encoder: Any, seed: int) -> None:
    """Replace the weights of an encoder in place by normal draws.

    Each tensor keeps the mean and the standard deviation that it had after training.

    Args:
        encoder: A loaded encoder with a `network`.
        seed: Seed of the draws.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(weights: torch.Tensor) -> torch.Tensor:
        if weights.numel() == 1:
            return weights  # one number has no deviation
        return weights.mean() + weights.std() * torch.randn(
            weights.shape, generator=generator
        ).to(weights)

    with torch.no_grad():
        for weights in encoder.network.state_dict().values():
            if weights.is_floating_point():
                weights.copy_(draw(weights))
        # oneDNN layers hold a reordered copy of their weights.
        for layer in encoder.network.modules():
            if isinstance(layer, PackedLinear):  # whose weights are not in the state
                layer.weight = torch.ops.mkldnn._reorder_linear_weight(
                    draw(layer.weight.to_dense())
                )
                if layer.bias is not None:
                    layer.bias = draw(layer.bias)


def measure_decoder_controls(
    decoders: Sequence[Decoder],
    datasets: Sequence[DatasetFiles],
    settings: ControlSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return mean CC-SHAP of decoders, for their explanations and for the null controls.

    The controls compare an answer with the explanation of another item, and with shuffled players.
    """
    rows: list[MeasurementRecord] = []
    for decoder in decoders:
        explained = _explain_items(decoder, datasets, settings, seed)
        rows += measure_shuffled_explanations(
            decoder.spec.name, explained, seed, resampling
        )
    return rows


def _explain_items(
    decoder: Decoder,
    datasets: Sequence[DatasetFiles],
    settings: ControlSettings,
    seed: int,
) -> dict[str, list[ExplainedItem]]:
    """Return the items whose CC-SHAP is defined, by kind of explanation."""
    explained: dict[str, list[ExplainedItem]] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = CCShapRun(
            ["equations"],
            Path(folder) / "stored.sqlite",
            sample=settings.decoder_sample,
            seed=seed,
            seeds=[seed],
            cc_shap=CCShapSettings(permutations=settings.permutations),
            tokens={"explanation": settings.tokens},
            shard=slice(None),
        )
        for result in explain_datasets(decoder, datasets, run):
            for record in result.tables["rows"]:
                assert isinstance(record, CcShapRecord)
                items = explained.setdefault(record.kind, [])
                if record.value is None:
                    continue
                item = ExplainedItem(
                    f"{result.dataset.name}/{record.item_id}",
                    identify_scene(str(record.image)),
                    record.value,
                    np.array(record.ratios_answer),
                    np.array(record.ratios_explanation),
                )
                items.append(item)
    return explained


def measure_shuffled_explanations(
    model: str,
    items: Mapping[str, Sequence[ExplainedItem]],
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return mean CC-SHAP by kind of explanation, with and without the null controls, and its
    excess over them.

    The controls are the explanation of another item, and the item's explanation with shuffled
    players. The other item is the next item of another scene, by seeded rank, whose explanation has
    the same number of players; otherwise the contributions cannot be compared. The excess is
    CC-SHAP of an item less CC-SHAP under the control, over the items that have both.

    Args:
        model: Name of the decoder.
        items: Explained items by kind of explanation.
        seed: Seed of the ranks and of the shuffles.
        resampling: Resampling of scenes.
    """
    rows: list[MeasurementRecord] = []
    for kind, explained in items.items():
        ranked = sorted(explained, key=lambda item: rank(item.name, seed))
        clusters: dict[str, list[str]] = {
            "none": [],
            "other explanation": [],
            "shuffled players": [],
        }
        values: dict[str, list[float]] = {level: [] for level in clusters}
        excesses: dict[str, list[float]] = {level: [] for level in clusters}
        for position, item in enumerate(ranked):
            # The same ratios in random order show the agreement that chance alone gives.
            generator = np.random.default_rng(rank(item.name, seed))
            cc_shap = {
                "none": item.cc_shap,
                "shuffled players": float(
                    compute_cosine(item.answer, generator.permutation(item.explanation))
                ),
            }
            lender = _find_lender(item, [*ranked[position + 1 :], *ranked[:position]])
            if lender is not None:
                cc_shap["other explanation"] = float(
                    compute_cosine(item.answer, lender.explanation)
                )
            for level, value in cc_shap.items():
                clusters[level].append(item.scene)
                values[level].append(value)
                excesses[level].append(item.cc_shap - value)

        for level in values:
            factor = f"control, {kind}"
            mean = average(values[level], clusters[level], model, resampling)
            rows.append(
                _build_row("cc_shap", mean, model=model, factor=factor, level=level)
            )
            if level != "none":
                excess = average(excesses[level], clusters[level], model, resampling)
                rows.append(
                    _build_row(
                        "cc_shap_excess",
                        excess,
                        model=model,
                        factor=factor,
                        level=level,
                    )
                )
    return rows


def _find_lender(
    item: ExplainedItem, candidates: Sequence[ExplainedItem]
) -> ExplainedItem | None:
    """Return the first item of another scene whose explanation has the same number of players, or
    None.
    """
    for candidate in candidates:
        has_as_many_players = len(candidate.explanation) == len(item.explanation)
        if has_as_many_players and candidate.scene != item.scene:
            return candidate
    return None


def _attribute(
    encoder: Encoder,
    items: Sequence[Item],
    lenders: Sequence[Item],
    settings: AttributionSettings,
) -> np.ndarray:
    """Return T-SHAP in percent of the caption of each item with the image of its lender: float64 of
    shape (items,).
    """
    shares = []
    for item, lender in zip(items, lenders, strict=True):
        item_settings = replace(
            settings, seed=derive_seed(item.dataset, item.item_id, settings.seed)
        )
        (attribution,) = attribute_texts(
            encoder, lender.image, [item.caption], item_settings
        )
        shares.append(100 * attribution.t_shap.value)
    return np.array(shares)


def _count_text_share(encoder: Encoder, item: Item) -> float:
    """Return the share of tokens among the players: a text of n tokens has a grid of ceil(sqrt(n))
    patches a side.
    """
    # Special tokens do not play.
    tokens = sum(
        not is_special for is_special in encoder.tokenize(item.caption).special
    )
    patches = int(np.ceil(np.sqrt(tokens))) ** 2
    return tokens / (tokens + patches)
