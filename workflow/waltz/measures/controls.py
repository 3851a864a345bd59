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
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.consistency.cc_shap.exchanged import Excess, compute_excesses
from waltz.consistency.cc_shap.measure import compute_cosine
from waltz.consistency.cc_shap.rows import (
    CCShapRun,
    CCShapSettings,
    explain_datasets,
)
from waltz.consistency.differences import EXPLANATION_LESS_ANSWER
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Resampling, build_measure, resample
from waltz.core.measure import Measure
from waltz.core.sampling import derive_seed, rank
from waltz.core.schema import CcShapRecord, MeasurementRecord
from waltz.fidelity import EQUATIONS
from waltz.measures.items import Item, identify_scene, read_item_sample
from waltz.measures.random_decoders import (
    NetworkDifferences,
    attribute_given_texts,
)
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
        random_decoders: Random networks of each decoder, which are given the explanations of the first
            item of each data set.
        permutations: Permutations of a prompt's players, each with its reverse.
        tokens: Maximum number of tokens of an explanation.
    """

    sample: int
    evaluations: int
    repeats: int
    random_sample: int
    decoder_sample: int
    random_decoders: int
    permutations: int
    tokens: int


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
        resampling: Networks and scenes are drawn independently (`average_networks`).
    """
    rows = []
    for quantity, table in (("t_shap", values), ("t_shap_difference", values - plain)):
        measure = average_networks(model, table, clusters, resampling)
        rows.append(_build_row(quantity, measure, model=model, level="random weights"))
    # Deviation between networks of the mean over items; axis 1 are the items.
    deviation = Measure(float(values.mean(axis=1).std(ddof=1)), len(values))
    rows.append(
        _build_row("t_shap_sd_networks", deviation, model=model, level="random weights")
    )
    return rows


def average_networks(
    model: str, table: np.ndarray, clusters: Sequence[str], resampling: Resampling
) -> Measure:
    """Return the mean over random networks and items, with its interval over both.

    Args:
        model: Name of the model.
        table: float64 of shape (networks, items), at least two networks.
        clusters: The scene of each item.
        resampling: Networks and scenes are drawn independently.
    Source:
        Owen (Annals of Applied Statistics 1, 2007), on resamples of both factors.
    """
    networks = [str(number) for number in range(len(table))]
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
    network_weights = network_draws.count_items() / len(table)
    item_counts = scene_draws.count_items()
    item_weights = item_counts / item_counts.sum(axis=1, keepdims=True)
    # A resample's mean weighs cell (n, i) of the table by the weights of its network and of its
    # item.
    means = np.einsum(
        "rn,ni,ri->r", network_weights, table, item_weights, optimize=True
    )
    return build_measure(
        float(table.mean()), table.shape[1], means, resampling, len(table), None
    )


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
    decoders: Mapping[str, Callable[[], Decoder]],
    datasets: Sequence[DatasetFiles],
    settings: ControlSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return mean CC-SHAP of decoders, and T-SHAP of their explanations less T-SHAP of their answers,
    without a control and with each null control.

    The controls of CC-SHAP compare an answer with explanations of other items, and with shuffled
    players; those of T-SHAP are images of other scenes, and random weights that are given the texts
    of the trained decoder.

    Args:
        decoders: Function that loads each decoder, by name.
    """
    rows: list[MeasurementRecord] = []
    for name, load in decoders.items():
        decoder = load()
        plain = _explain_items(decoder, datasets, settings, seed)
        rows += measure_shuffled_explanations(name, plain, seed, resampling)
        with tempfile.TemporaryDirectory() as folder:
            exchanged = [_exchange_images(dataset, folder) for dataset in datasets]
            other_image = _explain_items(decoder, exchanged, settings, seed)
        runs = {"none": plain, "other image": other_image}
        rows += measure_answer_differences(name, runs, resampling)
        random = attribute_given_texts(
            load,
            datasets,
            sample=settings.decoder_sample,
            networks=settings.random_decoders,
            permutations=settings.permutations,
            tokens=settings.tokens,
            seed=seed,
        )
        for kind, differences in random.items():
            trained = _compute_answer_differences(plain, kind)
            rows += summarize_random_decoders(
                name, kind, differences, trained, resampling
            )
    return rows


def summarize_random_decoders(
    model: str,
    kind: str,
    random: NetworkDifferences,
    trained: Mapping[str, float],
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return T-SHAP of given explanations less T-SHAP of their answers in random networks, and the
    excess of the trained network over them, on the items that it has a number of.

    Args:
        model: Name of the decoder.
        kind: Kind of explanation.
        random: The differences in random networks.
        trained: The difference of each item in the trained network.
        resampling: Networks and scenes are drawn independently (`average_networks`).
    """
    # Items that the trained network has a number of, and their positions in the table.
    positions = []
    scenes = []
    differences = []
    for position, name in enumerate(random.names):
        if name in trained:
            positions.append(position)
            scenes.append(random.scenes[position])
            differences.append(trained[name])
    floor = random.values[:, positions]
    tables = {
        EXPLANATION_LESS_ANSWER: floor,
        f"{EXPLANATION_LESS_ANSWER}_excess": np.array(differences) - floor,
    }
    rows = []
    for quantity, table in tables.items():
        # The interval is over networks and scenes, so that it needs several items.
        measure = Measure(None, len(scenes), reason="no item has a value")
        if scenes:
            measure = average_networks(model, table, scenes, resampling)
        rows.append(
            _build_row(
                quantity,
                measure,
                model=model,
                factor=f"control, {kind}",
                level="random weights",
            )
        )
    return rows


def _exchange_images(dataset: DatasetFiles, folder: str) -> DatasetFiles:
    """Return a data set in which each item has the image of the next item of another scene; its rows
    are written to a folder.
    """
    table = parquet.read_table(dataset.rows)
    images = table.column("image").to_pylist()
    lenders = shift_images(list(map(identify_scene, images)))
    column = pa.array([images[lender] for lender in lenders])
    position = table.column_names.index("image")
    rows = Path(folder) / f"{dataset.name}.parquet"
    pq.write_table(table.set_column(position, table.field(position), column), rows)
    return replace(dataset, rows=str(rows))


def _explain_items(
    decoder: Decoder,
    datasets: Sequence[DatasetFiles],
    settings: ControlSettings,
    seed: int,
) -> list[CcShapRecord]:
    """Return CC-SHAP of a sample of each data set; the item's name has its data set, and the image is
    named by its scene.
    """
    records = []
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
                name = f"{result.dataset.name}/{record.item_id}"
                scene = identify_scene(str(record.image))
                records.append(replace(record, item_id=name, image=scene))
    return records


def measure_shuffled_explanations(
    model: str, records: Sequence[CcShapRecord], seed: int, resampling: Resampling
) -> list[MeasurementRecord]:
    """Return mean CC-SHAP by kind of explanation, with and without the null controls, and its
    excess over them.

    The controls are the explanations of items of other scenes (`compute_excesses`), and the item's
    explanation with shuffled players. The excess is CC-SHAP of an item less CC-SHAP under the
    control, over the items that have both.

    Args:
        model: Name of the decoder.
        records: CC-SHAP of the items, whose images are named by their scenes.
        seed: Seed of the shuffles.
        resampling: Resampling of scenes.
    """
    rows: list[MeasurementRecord] = []
    for kind in dict.fromkeys(record.kind for record in records):
        explained = [
            record
            for record in records
            if record.kind == kind and record.value is not None
        ]
        scenes = [str(record.image) for record in explained]
        excesses = compute_excesses(explained)
        cc_shap = np.array([record.value for record in explained], dtype=np.float64)
        differences = _list_numbers(excesses, "difference")
        levels = {
            "none": cc_shap,
            "other explanation": cc_shap - differences,
            "shuffled players": np.array(
                [_shuffle_players(record, seed) for record in explained]
            ),
        }
        measures = []
        for level, values in levels.items():
            measures.append(("cc_shap", level, values))
            if level != "none":
                measures.append(("cc_shap_excess", level, cc_shap - values))
        for quantity, column, scale in (
            ("identified", "identified", 100),
            ("excess_content", "content", 1),
            ("excess_centered", "centered", 1),
        ):
            numbers = scale * _list_numbers(excesses, column)
            measures.append((quantity, "other explanation", numbers))
        for quantity, level, numbers in measures:
            mean = average(numbers.tolist(), scenes, model, resampling)
            factor = f"control, {kind}"
            rows.append(
                _build_row(quantity, mean, model=model, factor=factor, level=level)
            )
    return rows


def _list_numbers(excesses: Sequence[Excess | None], name: str) -> np.ndarray:
    """Return an attribute of each excess, float64 of shape (items,), NaN where there is none."""
    numbers = [getattr(excess, name, None) for excess in excesses]
    return np.array(numbers, dtype=np.float64)


def _shuffle_players(record: CcShapRecord, seed: int) -> float:
    """Return CC-SHAP with the explanation's ratios in random order, the agreement of chance."""
    generator = np.random.default_rng(rank(record.item_id, seed))
    answer = np.array(record.ratios_answer, dtype=np.float64)
    explanation = np.array(record.ratios_explanation, dtype=np.float64)
    return float(compute_cosine(answer, generator.permutation(explanation)))


def measure_answer_differences(
    model: str,
    runs: Mapping[str, Sequence[CcShapRecord]],
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return T-SHAP of explanations less T-SHAP of their answers in points, by kind of explanation
    and control, and its excess over each control on the items that have both.

    Args:
        model: Name of the decoder.
        runs: CC-SHAP of the items by control, `none` among them.
        resampling: Resampling of scenes.
    """
    rows = []
    for kind in dict.fromkeys(record.kind for record in runs["none"]):
        scenes = {
            record.item_id: str(record.image)
            for record in runs["none"]
            if record.kind == kind
        }
        plain = _compute_answer_differences(runs["none"], kind)
        for level, records in runs.items():
            differences = _compute_answer_differences(records, kind)
            excesses = {
                name: plain[name] - difference
                for name, difference in differences.items()
                if name in plain
            }
            measures = {EXPLANATION_LESS_ANSWER: differences}
            if level != "none":
                measures[f"{EXPLANATION_LESS_ANSWER}_excess"] = excesses
            for quantity, numbers in measures.items():
                clusters = [scenes[name] for name in numbers]
                mean = average(list(numbers.values()), clusters, model, resampling)
                factor = f"control, {kind}"
                rows.append(
                    _build_row(quantity, mean, model=model, factor=factor, level=level)
                )
    return rows


def _compute_answer_differences(
    records: Sequence[CcShapRecord], kind: str
) -> dict[str, float]:
    """Return T-SHAP of the explanation less T-SHAP of the answer in points by item."""
    differences = {}
    for record in records:
        answer, explanation = record.t_shap_answer, record.t_shap_explanation
        if record.kind == kind and answer is not None and explanation is not None:
            differences[record.item_id] = 100 * (explanation - answer)
    return differences


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
