"""Null controls: T-SHAP of other images and of random weights, CC-SHAP of explanations of other items."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.consistency.cc_shap.measure import compute_cosine
from waltz.consistency.cc_shap.rows import explain_datasets
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Measure, Resampling
from waltz.core.sampling import rank
from waltz.measures.items import Item, read_items
from waltz.measures.rows import Row, average, build_row
from waltz.models.decoders.decoder import Decoder
from waltz.models.encoders.base import PackedLinear
from waltz.models.encoders.encoder import Encoder

MEASUREMENT = "controls"
Reload = Callable[[], Encoder]
"""Loads an encoder anew, so that its weights can be changed."""


def measure_encoder_controls(
    encoders: Mapping[str, Reload],
    datasets: Sequence[DatasetFiles],
    *,
    sample: int,
    evaluations: int,
    repeats: int,
    seed: int,
    how: Resampling,
) -> list[Row]:
    """Return mean T-SHAP of encoders as they are, with other items' images, and with random weights, in percent.

    Args:
        encoders: Function that loads each encoder, by name.
        sample: Number of captions a data set.
        evaluations: Most coalitions of a text, or passes of an encoder of late fusion.
        repeats: Random networks, one a seed.
    """
    items = [item for dataset in datasets for item in read_items(dataset, sample, seed)]
    lenders = [items[place] for place in shift_images([item.image_name for item in items])]
    rows: list[Row] = []
    settings = AttributionSettings("equations", "auto", evaluations, seed)
    for name, load in encoders.items():
        encoder = load()
        plain = _attribute(encoder, items, items, settings)
        shuffled = _attribute(encoder, items, lenders, settings)
        random = []
        for repeat in range(repeats):
            network = load()
            randomize_weights(network, seed + repeat)
            random.append(_attribute(network, items, items, settings))
        levels = {"none": plain, "other image": shuffled, "random weights": np.mean(random, axis=0)}
        rows += summarize_controls(name, levels, items, how)
        players = [100 * _count_text_share(encoder, item) for item in items]
        clusters = [item.image_name for item in items]
        measure = average(players, clusters, name, how)
        rows.append(build_row(MEASUREMENT, "t_shap", measure, model=name, factor="control", level="share of players"))
    return rows


def summarize_controls(
    model: str, levels: Mapping[str, np.ndarray], items: Sequence[Item], how: Resampling
) -> list[Row]:
    """Return the mean of each control, its difference to none, and the correlation of its items with those of none."""
    clusters = [item.image_name for item in items]
    rows = []
    for level, values in levels.items():
        place = {"model": model, "factor": "control", "level": level}
        rows.append(build_row(MEASUREMENT, "t_shap", average(values.tolist(), clusters, model, how), **place))
        steps = (values - levels["none"]).tolist()
        rows.append(build_row(MEASUREMENT, "t_shap_difference", average(steps, clusters, model, how), **place))
        if level != "none" and np.ptp(values) and np.ptp(levels["none"]):
            correlation = float(np.corrcoef(values, levels["none"])[0, 1])
            rows.append(build_row(MEASUREMENT, "correlation", Measure(correlation, len(values)), **place))
    return rows


def shift_images(names: Sequence[str]) -> list[int]:
    """Return for each item the position of another one that lends its image: the first below it with another name.

    Raises:
        ValueError: All items have one image.
    """
    if len(set(names)) < 2:
        raise ValueError("all items have one image, which none can exchange")
    count = len(names)
    return [
        next((place + step) % count for step in range(1, count) if names[(place + step) % count] != names[place])
        for place in range(count)
    ]


def randomize_weights(encoder: Any, seed: int) -> None:
    """Draw every weight of an encoder anew: normal with the mean and spread of its tensor, so that scales stay.

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

    Another item is the next one, by seeded rank, whose explanation has as many players: of others the contributions
    cannot be compared.

    Args:
        rows: Rows of the layout `CC_SHAP` with a column `dataset`.
    """
    found: list[Row] = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        usable = [row for row in rows if row["kind"] == kind and row.get("value") is not None]
        usable.sort(key=lambda row: rank(f"{row['dataset']}/{row['item_id']}", seed))
        levels: dict[str, list[tuple[str, float]]] = {"none": [], "other explanation": [], "shuffled players": []}
        for place, row in enumerate(usable):
            name = f"{row['dataset']}/{row['item_id']}"
            answer, own = np.array(row["ratios_answer"]), np.array(row["ratios_explanation"])
            generator = np.random.default_rng(rank(name, seed))
            levels["none"].append((name, row["value"]))
            levels["shuffled players"].append((name, float(compute_cosine(answer, generator.permutation(own)))))
            others = [*usable[place + 1 :], *usable[:place]]
            other = next(
                (row["ratios_explanation"] for row in others if len(row["ratios_explanation"]) == len(own)), None
            )
            if other is not None:
                levels["other explanation"].append((name, float(compute_cosine(answer, np.array(other)))))
        for level, values in levels.items():
            measure = average([value for _, value in values], [name for name, _ in values], model, how)
            place_of = {"model": model, "factor": f"control, {kind}", "level": level}
            found.append(build_row(MEASUREMENT, "cc_shap", measure, **place_of))
    return found


def _attribute(
    encoder: Encoder, items: Sequence[Item], lenders: Sequence[Item], settings: AttributionSettings
) -> np.ndarray:
    """Return T-SHAP in percent of the caption of each item with the image of its lender."""
    return np.array(
        [
            100 * attribute_texts(encoder, lender.image, [item.caption], settings)[0].t_shap
            for item, lender in zip(items, lenders, strict=True)
        ]
    )


def _count_text_share(encoder: Encoder, item: Item) -> float:
    words = sum(not special for special in encoder.tokenize(item.caption).special)
    return words / (words + int(np.ceil(np.sqrt(words))) ** 2)
