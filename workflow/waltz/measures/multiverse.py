"""Multiverse of T-SHAP: choices that papers leave open, one at a time and crossed, and the rankings that survive."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product

import numpy as np
import torch

from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.own_players import WORDS, group_text_players
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Measure, Resampling
from waltz.measures.items import Item, read_items
from waltz.measures.rows import Row, average, build_row
from waltz.models.encoders.coalitions import PUBLISHED_MASK, Players
from waltz.models.encoders.encoder import Encoder

MEASUREMENT = "multiverse"
Change = Callable[[Players, str], Players]
"""From the players of a text and its image, with the text, to those of another choice."""


@dataclass(frozen=True)
class Choice:
    """One way to compute T-SHAP.

    Attributes:
        changes: Changes of the players, in order.
        outcome: `logit` or `probability`; empty for the encoder's own.
        profile: Profile that the players and the estimator come from.
        estimator: Name of an estimator.
    """

    changes: tuple[Change, ...] = ()
    outcome: str = ""
    profile: str = "equations"
    estimator: str = "auto"


@dataclass(frozen=True, eq=False, kw_only=True)
class FilledPlayers(Players):
    """Players whose masked patches have a value of their own.

    Attributes:
        fill: Value of masked pixels after normalisation: a number, or `mean` for the mean of the image's channels.
    """

    fill: float | str

    def mask_image(self, image: torch.Tensor, masks: np.ndarray) -> torch.Tensor:
        """Return the prepared image with filled patches: from bool (k, patches) to (k, *image.shape)."""
        hidden = super().mask_image(torch.ones_like(image), masks) == 0
        fill = (
            image.mean(dim=(-2, -1), keepdim=True) if self.fill == "mean" else torch.full_like(image, float(self.fill))
        )
        return torch.where(hidden, fill, image)


def fill_patches(players: Players, text: str, *, fill: float | str) -> Players:
    """Return players whose masked patches have another value than 0."""
    return FilledPlayers(**vars(players), fill=fill)


def mask_by_first_id(players: Players, text: str) -> Players:
    """Return players whose masked tokens become id 0, as in the released code."""
    return replace(players, masked_id=PUBLISHED_MASK)


def change_grid(players: Players, text: str, *, step: int = 0, side: int = 0, floor: bool = False) -> Players:
    """Return players with another grid.

    Args:
        step: Patches a side that are added.
        side: Patches a side; 0 takes those of the players.
        floor: Whether patches have floor(side / p) pixels, so that those that remain are never masked.
    """
    grid = side or max(1, players.grid + step)
    height, width = players.cells.shape
    rows, columns = (
        np.arange(pixels) // (pixels // grid) if floor else np.arange(pixels) * grid // pixels
        for pixels in (height, width)
    )
    cells = np.where((rows[:, None] < grid) & (columns < grid), rows[:, None] * grid + columns, grid**2)
    fixed = np.concatenate([players.always_visible[: players.words], np.zeros(grid**2, dtype=bool)])
    return replace(players, grid=grid, cells=torch.from_numpy(cells).to(players.cells), always_visible=fixed)


def add_special_tokens(players: Players, text: str) -> Players:
    """Return players among which are the tokens that the tokenizer adds, masked like others."""
    count = len(players.text_input.ids)
    fixed = np.zeros(count + players.patches, dtype=bool)
    return replace(players, positions=tuple(range(count)), always_visible=fixed)


def group_words(players: Players, text: str) -> Players:
    """Return players whose text players are words."""
    return group_text_players(players, text, players.text_input.spans, WORDS)


FACTORS: dict[str, dict[str, Choice]] = {
    "reference": {"equations": Choice()},
    "masked patch": {
        "mean colour": Choice((partial(fill_patches, fill="mean"),)),
        "black": Choice((partial(fill_patches, fill=-2.0),)),
        "white": Choice((partial(fill_patches, fill=2.0),)),
    },
    "masked token": {"id 0": Choice((mask_by_first_id,))},
    "grid": {
        "p - 1": Choice((partial(change_grid, step=-1),)),
        "p + 1": Choice((partial(change_grid, step=1),)),
        "2 x 2": Choice((partial(change_grid, side=2),)),
        "6 x 6": Choice((partial(change_grid, side=6),)),
        "pixels left over": Choice((partial(change_grid, floor=True),)),
    },
    "value": {"logit": Choice(outcome="logit"), "probability": Choice(outcome="probability")},
    "players": {"special tokens": Choice((add_special_tokens,)), "words": Choice((group_words,))},
    "profile": {"published": Choice(profile="published")},
    "estimator": {
        "permutation": Choice(estimator="permutation"),
        "KernelSHAP": Choice(estimator="KernelSHAP"),
        "SVARM": Choice(estimator="SVARM"),
    },
}
"""Choices that differ from profile `equations` in one factor."""
CROSSED = {"masked patch": "mean colour", "masked token": "id 0", "grid": "2 x 2"}
"""Level of each factor that is crossed with the reference, and with both values."""


def measure_multiverse(
    encoders: Sequence[Encoder],
    datasets: Sequence[DatasetFiles],
    *,
    sample: int,
    evaluations: int,
    cross_sample: int,
    seed: int,
    how: Resampling,
) -> list[Row]:
    """Return mean T-SHAP of encoders under each choice, and how rankings agree with those of the reference.

    Args:
        encoders: Encoders of either fusion.
        sample: Number of captions a data set.
        evaluations: Most coalitions of a text, or passes of an encoder of late fusion.
        cross_sample: Number of captions a data set under crossed choices.
    """
    items = {dataset.name: read_items(dataset, sample, seed) for dataset in datasets}
    choices = {(factor, level): choice for factor, levels in FACTORS.items() for level, choice in levels.items()}
    found = _attribute(encoders, items, choices, evaluations, seed)
    rows = build_choice_rows(found, items, ("reference", "equations"), how)
    crossed = {("cross", name): choice for name, choice in cross_choices().items()}
    few = {name: own[:cross_sample] for name, own in items.items()}
    found = _attribute(encoders, few, crossed, evaluations, seed)
    return [*rows, *build_choice_rows(found, few, next(iter(crossed)), how)]


def cross_choices() -> dict[str, Choice]:
    """Return all combinations of the crossed factors, by their levels; the reference in all but the value first."""
    options = [[("reference", Choice()), (level, FACTORS[factor][level])] for factor, level in CROSSED.items()]
    options.append(list(FACTORS["value"].items()))
    return {
        ", ".join(name for name, _ in picked): Choice(
            tuple(change for _, choice in picked for change in choice.changes),
            picked[-1][1].outcome,
        )
        for picked in product(*options)
    }


Found = dict[tuple[str, str], dict[str, dict[str, list[float]]]]
"""T-SHAP in percent of each item, by choice, model and data set."""


def build_choice_rows(
    found: Found, items: Mapping[str, Sequence[Item]], reference: tuple[str, str], how: Resampling
) -> list[Row]:
    """Return mean T-SHAP under each choice and its differences to the reference, and how rankings agree.

    `kendall_tau` of a model compares its order of data sets by mean T-SHAP, of all models the order of models. Rows of
    level `all` are the mean over choices, and the percent of choices under which the order is the same.
    """
    rows: list[Row] = []
    taus: dict[str, list[float]] = {}
    clusters = [item.image_name for own in items.values() for item in own]
    for (factor, level), by_model in found.items():
        place = {"factor": factor, "level": level}
        for model, by_dataset in by_model.items():
            values = np.concatenate([by_dataset[name] for name in items])
            steps = values - np.concatenate([found[reference][model][name] for name in items])
            for quantity, numbers in (("t_shap", values), ("t_shap_difference", steps)):
                measure = average(numbers.tolist(), clusters, model, how)
                rows.append(build_row(MEASUREMENT, quantity, measure, model=model, **place))
            means = [[float(np.mean(own[model][name])) for name in items] for own in (found[reference], by_model)]
            taus.setdefault(model, []).append(compute_kendall_tau(*means))
            measure = Measure(taus[model][-1], len(items))
            rows.append(build_row(MEASUREMENT, "kendall_tau", measure, model=model, **place))
        order = [[_average_all(own[model]) for model in by_model] for own in (found[reference], by_model)]
        taus.setdefault("", []).append(compute_kendall_tau(*order))
        rows.append(build_row(MEASUREMENT, "kendall_tau", Measure(taus[""][-1], len(by_model)), **place))
    place = {"factor": "cross" if reference[0] == "cross" else "one at a time", "level": "all"}
    for model, every in taus.items():
        choices = np.array(every[1:])  # the reference comes first
        for quantity, value in (("kendall_tau", choices.mean()), ("ranking_survives", 100 * np.mean(choices == 1))):
            measure = Measure(float(value), len(choices))
            rows.append(build_row(MEASUREMENT, quantity, measure, model=model, **place))
    return rows


def compute_kendall_tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Kendall's tau-a of two series: pairs in the same order less pairs in the other, over all pairs.

    Args:
        first: At least two numbers.
        second: As many.
    """
    signs = [np.sign((a - b) * (c - d)) for (a, c), (b, d) in combinations(list(zip(first, second, strict=True)), 2)]
    return float(np.mean(signs))


def _average_all(by_dataset: Mapping[str, Sequence[float]]) -> float:
    return float(np.mean(np.concatenate([np.asarray(own) for own in by_dataset.values()])))


def _attribute(
    encoders: Sequence[Encoder],
    items: Mapping[str, Sequence[Item]],
    choices: Mapping[tuple[str, str], Choice],
    evaluations: int,
    seed: int,
) -> Found:
    return {
        name: {
            encoder.spec.name: {
                dataset: [_compute_t_shap(encoder, item, choice, evaluations, seed) for item in own]
                for dataset, own in items.items()
            }
            for encoder in encoders
        }
        for name, choice in choices.items()
    }


def _compute_t_shap(encoder: Encoder, item: Item, choice: Choice, evaluations: int, seed: int) -> float:
    """Return T-SHAP of a caption under a choice, in percent."""
    published = choice.profile == "published"
    estimator = choice.estimator
    if choice.outcome == "probability" and estimator == "auto":
        estimator = "permutation"  # a probability of late fusion is no dot product
    settings = AttributionSettings(
        choice.profile, "auto" if published else estimator, None if published else evaluations, seed
    )

    def change(players: Players, text: str) -> Players:
        for step in choice.changes:
            players = step(players, text)
        return players

    outcomes = {"": None, "logit": lambda logits: logits, "probability": torch.sigmoid}
    (attribution,) = attribute_texts(
        encoder, item.image, [item.caption], settings, outcome=outcomes[choice.outcome], regroup=change
    )
    return 100 * attribution.t_shap
