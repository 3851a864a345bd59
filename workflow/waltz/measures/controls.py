"""Null controls: T-SHAP of other images and of random weights, CC-SHAP of explanations of other items."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.consistency.cc_shap.measure import compute_cosine
from waltz.consistency.cc_shap.rows import explain_datasets
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Measure, Resampling, compute_interval, resample
from waltz.core.sampling import rank
from waltz.measures.items import Item, derive_seed, identify_scene, read_items
from waltz.measures.rows import Row, average, build_row
from waltz.models.decoders.decoder import Decoder
from waltz.models.encoders.base import PackedLinear
from waltz.models.encoders.encoder import Encoder

MEASUREMENT = "controls"
SIGNED = (-1.0, 1.0)
"""Bounds of a correlation."""
Reload = Callable[[], Encoder]
"""Loads an encoder anew, so that its weights can be changed."""


def measure_encoder_controls(
    encoders: Mapping[str, Reload],
    datasets: Sequence[DatasetFiles],
    *,
    sample: int,
    evaluations: int,
    repeats: int,
    random_sample: int,
    seed: int,
    how: Resampling,
) -> list[Row]:
    """Return mean T-SHAP of encoders in percent: as they are, by another seed, with other images, with random weights.

    Args:
        encoders: Function that loads each encoder, by name.
        sample: Number of captions a data set.
        evaluations: Most coalitions of a text, or passes of an encoder of late fusion.
        repeats: Random networks of each encoder, one a seed.
        random_sample: Number of those captions a data set that random networks score.
    """
    ranked = [pair for dataset in datasets for pair in enumerate(read_items(dataset, sample, seed))]
    items = [item for _, item in ranked]
    few = np.flatnonzero([place < random_sample for place, _ in ranked])
    clusters = [item.scene for item in items]
    lenders = [items[place] for place in shift_images(clusters)]
    rows: list[Row] = []
    settings = AttributionSettings("equations", "auto", evaluations, seed)
    for name, load in encoders.items():
        encoder = load()
        plain = _attribute(encoder, items, items, settings)
        again = _attribute(encoder, items, items, replace(settings, seed=seed + 1))
        shuffled = _attribute(encoder, items, lenders, settings)
        random = []
        for repeat in range(repeats):
            network = load()
            randomize_weights(network, seed + repeat)
            scored = [items[place] for place in few]
            random.append(_attribute(network, scored, scored, settings))
        levels = {"none": plain, "another seed": again, "other image": shuffled}
        rows += summarize_controls(name, levels, clusters, how)
        rows += summarize_random_networks(name, np.array(random), plain[few], [clusters[place] for place in few], how)
        players = [100 * _count_text_share(encoder, item) for item in items]
        measure = average(players, clusters, name, how)
        rows.append(build_row(MEASUREMENT, "t_shap", measure, model=name, factor="control", level="share of players"))
    return rows


def summarize_controls(
    model: str, levels: Mapping[str, np.ndarray], clusters: Sequence[str], how: Resampling
) -> list[Row]:
    """Return the mean of each control, its difference to none, and the correlation of its items with those of none.

    Args:
        levels: T-SHAP of each item in percent, by control.
        clusters: The scene of each item.
    """
    rows = []
    for level, values in levels.items():
        place = {"model": model, "factor": "control", "level": level}
        rows.append(build_row(MEASUREMENT, "t_shap", average(values.tolist(), clusters, model, how), **place))
        steps = (values - levels["none"]).tolist()
        rows.append(build_row(MEASUREMENT, "t_shap_difference", average(steps, clusters, model, how), **place))
        if level != "none" and np.ptp(values) and np.ptp(levels["none"]):
            correlation = correlate(values, levels["none"], clusters, model, how)
            rows.append(build_row(MEASUREMENT, "correlation", correlation, **place))
    return rows


def summarize_random_networks(
    model: str, values: np.ndarray, plain: np.ndarray, clusters: Sequence[str], how: Resampling
) -> list[Row]:
    """Return the mean of random networks, its difference to the trained one, and the deviation between networks.

    Args:
        values: T-SHAP in percent, float64 of shape (networks, items), at least two networks.
        plain: That of the trained network, float64 of shape (items,).
        clusters: The scene of each item.
        how: Resampling: networks and scenes are drawn, each on its own.
    Source:
        Owen (Annals of Applied Statistics 1, 2007), on resamples of both factors.
    """
    place = {"model": model, "factor": "control", "level": "random weights"}
    networks = [str(number) for number in range(len(values))]
    drawn = resample(networks, resamples=how.resamples, seed=how.seed, label=f"{model}, networks")
    weights = drawn.counts[:, drawn.cluster] / len(values)
    items = resample(clusters, resamples=how.resamples, seed=how.seed, label=model)
    of_items = items.counts[:, items.cluster] / items.counts[:, items.cluster].sum(axis=1, keepdims=True)
    rows = []
    for quantity, table in (("t_shap", values), ("t_shap_difference", values - plain)):
        means = np.einsum("rn,ni,ri->r", weights, table, of_items, optimize=True)
        measure = Measure(float(table.mean()), len(plain), *compute_interval(means, how.confidence, len(values), None))
        rows.append(build_row(MEASUREMENT, quantity, measure, **place))
    deviation = Measure(float(values.mean(axis=1).std(ddof=1)), len(values))
    return [*rows, build_row(MEASUREMENT, "t_shap_sd_networks", deviation, **place)]


def correlate(first: np.ndarray, second: np.ndarray, clusters: Sequence[str], label: str, how: Resampling) -> Measure:
    """Return Pearson's correlation of two numbers of each item, with its interval over scenes."""
    draws = resample(clusters, resamples=how.resamples, seed=how.seed, label=label)
    weights = np.concatenate([np.ones((1, len(first))), draws.counts[:, draws.cluster]])
    weights /= weights.sum(axis=1, keepdims=True)
    a, b = (values - weights @ values[:, None] for values in (first, second))
    spreads = (weights * a**2).sum(axis=1) * (weights * b**2).sum(axis=1)
    with np.errstate(invalid="ignore"):
        found = (weights * a * b).sum(axis=1) / np.sqrt(spreads)
    return Measure(float(found[0]), len(first), *compute_interval(found[1:], how.confidence, draws.clusters, SIGNED))


def shift_images(scenes: Sequence[str]) -> list[int]:
    """Return for each item the position of another one that lends its image: the first below it of another scene.

    Raises:
        ValueError: All items have one scene.
    """
    if len(set(scenes)) < 2:
        raise ValueError("all items have one scene, so that none can exchange its image")
    count = len(scenes)
    return [
        next((place + step) % count for step in range(1, count) if scenes[(place + step) % count] != scenes[place])
        for place in range(count)
    ]


def randomize_weights(encoder: Any, seed: int) -> None:
    """Draw every weight of an encoder anew: normal with the mean and standard deviation of its tensor as trained.

    Args:
        encoder: A loaded encoder with a `network`.
        seed: Seed of the draws.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(weights: torch.Tensor) -> torch.Tensor:
        if weights.numel() == 1:
            return weights
        return weights.mean() + weights.std() * torch.randn(weights.shape, generator=generator).to(weights)

    with torch.no_grad():
        for weights in encoder.network.state_dict().values():
            if weights.is_floating_point():
                weights.copy_(draw(weights))
        for layer in encoder.network.modules():
            if isinstance(layer, PackedLinear):  # whose weights are no parameters
                layer.weight = torch.ops.mkldnn._reorder_linear_weight(draw(layer.weight.to_dense()))
                layer.bias = None if layer.bias is None else draw(layer.bias)


def measure_decoder_controls(
    decoders: Sequence[Decoder],
    datasets: Sequence[DatasetFiles],
    *,
    sample: int,
    permutations: int,
    tokens: int,
    seed: int,
    how: Resampling,
) -> list[Row]:
    """Return mean CC-SHAP of decoders, and of answers with explanations that are not theirs.

    Args:
        sample: Number of items a data set.
        permutations: Permutations of a prompt's players, each with its reverse.
        tokens: Most tokens of an explanation.
    """
    rows: list[Row] = []
    for decoder in decoders:
        with tempfile.TemporaryDirectory() as folder:
            explained = [
                {"dataset": result.dataset.name, **row}
                for result in explain_datasets(
                    decoder,
                    datasets,
                    ["equations"],
                    Path(folder) / "stored.sqlite",
                    sample=sample,
                    seed=seed,
                    seeds=[seed],
                    cc_shap={"permutations": permutations},
                    tokens={"explanation": tokens},
                    shard=slice(None),
                )
                for row in result.tables["rows"]
            ]
        rows += measure_shuffled_explanations(decoder.spec.name, explained, seed, how)
    return rows


def measure_shuffled_explanations(
    model: str, rows: Sequence[Mapping[str, Any]], seed: int, how: Resampling
) -> list[Row]:
    """Return mean CC-SHAP by kind: of items, of those with the explanation of another item, and of shuffled players.

    Another item is the next one of another scene, by seeded rank, whose explanation has as many players: of others the
    contributions cannot be compared. The excess is CC-SHAP of the own explanations less that with the others, over the
    items that have both.

    Args:
        rows: Rows of the layout `CC_SHAP` with a column `dataset`.
    """
    found: list[Row] = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        usable = [row for row in rows if row["kind"] == kind and row.get("value") is not None]
        usable.sort(key=lambda row: rank(f"{row['dataset']}/{row['item_id']}", seed))
        levels: dict[str, list[tuple[str, float, float]]] = {
            "none": [],
            "other explanation": [],
            "shuffled players": [],
        }
        for place, row in enumerate(usable):
            name, scene = f"{row['dataset']}/{row['item_id']}", identify_scene(str(row["image"]))
            answer, own = np.array(row["ratios_answer"]), np.array(row["ratios_explanation"])
            generator = np.random.default_rng(rank(name, seed))
            exchanged = {"none": own, "shuffled players": generator.permutation(own)}
            for other in [*usable[place + 1 :], *usable[:place]]:
                if len(other["ratios_explanation"]) == len(own) and identify_scene(str(other["image"])) != scene:
                    exchanged["other explanation"] = np.array(other["ratios_explanation"])
                    break
            for level, ratios in exchanged.items():
                value = row["value"] if level == "none" else float(compute_cosine(answer, ratios))
                levels[level].append((scene, value, row["value"] - value))
        for level, values in levels.items():
            clusters = [scene for scene, *_ in values]
            place_of = {"model": model, "factor": f"control, {kind}", "level": level}
            quantities = {"cc_shap": [value for _, value, _ in values]}
            if level != "none":
                quantities["cc_shap_excess"] = [excess for *_, excess in values]
            for quantity, numbers in quantities.items():
                found.append(build_row(MEASUREMENT, quantity, average(numbers, clusters, model, how), **place_of))
    return found


def _attribute(
    encoder: Encoder, items: Sequence[Item], lenders: Sequence[Item], settings: AttributionSettings
) -> np.ndarray:
    """Return T-SHAP in percent of the caption of each item with the image of its lender."""
    return np.array(
        [
            100 * attribute_texts(encoder, lender.image, [item.caption], own)[0].t_shap
            for item, lender in zip(items, lenders, strict=True)
            for own in [replace(settings, seed=derive_seed(item.dataset, item.item_id, settings.seed))]
        ]
    )


def _count_text_share(encoder: Encoder, item: Item) -> float:
    words = sum(not special for special in encoder.tokenize(item.caption).special)
    return words / (words + int(np.ceil(np.sqrt(words))) ** 2)
