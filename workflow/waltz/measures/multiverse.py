"""Multiverse of T-SHAP: choices that papers leave open, one at a time and crossed, and the rankings that survive."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product

import numpy as np
import torch
from scipy.special import expit

from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.own_players import WORDS, group_text_players
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Measure, Resampling
from waltz.measures.items import Item, derive_seed, read_items
from waltz.measures.rows import SINGLE, Row, average, build_row
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
        seed_step: What is added to the seed of the estimator.
    """

    changes: tuple[Change, ...] = ()
    outcome: str = ""
    profile: str = "equations"
    estimator: str = "auto"
    seed_step: int = 0


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
    "seed": {"another seed": Choice(seed_step=1)},
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
"""Choices that differ from profile `equations` in one factor; another seed is none, but what noise alone changes."""
CROSSED: dict[str, tuple[str, str]] = {
    "masked patch": ("reference", "black"),
    "masked token": ("reference", "id 0"),
    "grid": ("reference", "2 x 2"),
    "players": ("reference", "words"),
    "profile": ("equations", "published"),
    "value": ("logit", "probability"),
    "estimator": ("auto", "permutation"),
}
"""Levels of each factor that are crossed; values before estimators, since a probability follows from known logits."""
FIXED = ("masked token", "estimator")
"""Factors without a meaning in `published`, which masks by id 0 and draws permutations."""
NO_MEANING = "–"
Levels = tuple[str, ...]
"""Levels of a combination, in the order of `CROSSED`."""


def measure_multiverse(
    encoders: Sequence[Encoder],
    datasets: Sequence[DatasetFiles],
    *,
    sample: int,
    evaluations: int,
    cross_items: int,
    seed: int,
    how: Resampling,
) -> list[Row]:
    """Return mean T-SHAP of encoders under each choice, and how rankings agree with those of the reference.

    Args:
        encoders: Encoders of either fusion.
        sample: Number of captions a data set.
        evaluations: Most coalitions of a text, or passes of an encoder of late fusion.
        cross_items: Number of captions under crossed choices, spread over the data sets.
    """
    many = {
        dataset.name: read_items(dataset, max(sample, -(-cross_items // len(datasets))), seed) for dataset in datasets
    }
    items = {name: own[:sample] for name, own in many.items()}
    choices = {(factor, level): choice for factor, levels in FACTORS.items() for level, choice in levels.items()}
    found = _attribute(encoders, items, choices, evaluations, seed)
    rows = build_choice_rows(found, items, ("reference", "equations"), how)
    varied = [name for name in found if name[0] not in ("reference", "seed")]
    rows += summarize_rankings(found, ("reference", "equations"), {("one at a time", "all"): varied})
    few = spread_items(many, cross_items)
    crossed = cross_choices()
    choices = {(SINGLE, ", ".join(own)): crossed[own] for own in crossed}
    reference, *others = choices
    again = (SINGLE, "another seed")
    choices[again] = replace(choices[reference], seed_step=1)
    found = _attribute(encoders, few, choices, evaluations, seed)
    groups = {("cross", "all"): others, ("cross, seed", "another seed"): [again]}
    for place, (factor, levels) in enumerate(CROSSED.items()):
        for level in levels:
            groups[f"cross, {factor}", level] = [name for name in others if name[1].split(", ")[place] == level]
    rows += build_choice_rows(found, few, reference, how)
    return rows + summarize_rankings(found, reference, groups)


def spread_items(items: Mapping[str, Sequence[Item]], count: int) -> dict[str, list[Item]]:
    """Return so many items of all data sets: the first of each, then the second, until there are enough."""
    ranked = sorted((place, number) for number, own in enumerate(items.values()) for place in range(len(own)))[:count]
    return {
        name: [item for place, item in enumerate(own) if (place, number) in ranked]
        for number, (name, own) in enumerate(items.items())
        if (0, number) in ranked
    }


def cross_choices() -> dict[Levels, Choice]:
    """Return all combinations of the crossed factors by their levels, the reference first.

    In `published` the factors that it fixes have no meaning and are not crossed.
    """
    crossed: dict[Levels, Choice] = {}
    for picked in product(*CROSSED.values()):
        levels = dict(zip(CROSSED, picked, strict=True))
        if levels["profile"] == "published":
            if any(levels[factor] != CROSSED[factor][0] for factor in FIXED):
                continue
            levels |= dict.fromkeys(FIXED, NO_MEANING)
        own = [FACTORS[factor].get(level) for factor, level in levels.items()]
        crossed[tuple(levels.values())] = Choice(
            tuple(change for choice in own if choice is not None for change in choice.changes),
            levels["value"],
            levels["profile"],
            levels["estimator"] if levels["estimator"] != NO_MEANING else "auto",
        )
    return crossed


Found = dict[tuple[str, str], dict[str, dict[str, list[float]]]]
"""T-SHAP in percent of each item, by choice, model and data set."""


def build_choice_rows(
    found: Found, items: Mapping[str, Sequence[Item]], reference: tuple[str, str], how: Resampling
) -> list[Row]:
    """Return mean T-SHAP under each choice and its differences to the reference, and Kendall's tau of the rankings."""
    rows: list[Row] = []
    clusters = [item.scene for own in items.values() for item in own]
    for (factor, level), by_model in found.items():
        place = {"factor": factor, "level": level}
        for model, by_dataset in by_model.items():
            values = np.concatenate([by_dataset[name] for name in items])
            steps = values - np.concatenate([found[reference][model][name] for name in items])
            for quantity, numbers in (("t_shap", values), ("t_shap_difference", steps)):
                measure = average(numbers.tolist(), clusters, model, how)
                rows.append(build_row(MEASUREMENT, quantity, measure, model=model, **place))
        for model, tau in compare_rankings(found[reference], by_model).items():
            compared = len(by_model[model]) if model else len(by_model)
            rows.append(build_row(MEASUREMENT, "kendall_tau", Measure(tau, compared), model=model, **place))
    return rows


def summarize_rankings(
    found: Found, reference: tuple[str, str], groups: Mapping[tuple[str, str], Sequence[tuple[str, str]]]
) -> list[Row]:
    """Return the mean of Kendall's tau over each group of choices, and the percent under which the order is the same.

    Args:
        groups: Choices by the factor and level of their rows.
    """
    rows = []
    for (factor, level), names in groups.items():
        taus: dict[str, list[float]] = {}
        for name in names:
            for model, tau in compare_rankings(found[reference], found[name]).items():
                taus.setdefault(model, []).append(tau)
        for model, own in taus.items():
            place = {"model": model, "factor": factor, "level": level}
            survives = 100 * np.mean(np.array(own) == 1)
            rows.append(build_row(MEASUREMENT, "kendall_tau", Measure(float(np.mean(own)), len(own)), **place))
            rows.append(build_row(MEASUREMENT, "ranking_survives", Measure(float(survives), len(own)), **place))
    return rows


Shares = Mapping[str, Mapping[str, Sequence[float]]]
"""T-SHAP in percent of each item, by model and data set."""


def compare_rankings(first: Shares, second: Shares) -> dict[str, float]:
    """Return Kendall's tau between two choices: by model of its data sets by mean T-SHAP, under "" of the models."""
    taus = {
        model: compute_kendall_tau(
            *([float(np.mean(by_dataset)) for by_dataset in own[model].values()] for own in (first, second))
        )
        for model in first
    }
    return taus | {
        "": compute_kendall_tau(*([_average_all(by_dataset) for by_dataset in own.values()] for own in (first, second)))
    }


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
    found: Found = {
        name: {encoder.spec.name: {dataset: [] for dataset in items} for encoder in encoders} for name in choices
    }
    for encoder in encoders:
        for dataset, own in items.items():
            for item in own:
                logits: KnownLogits = {}
                for name, choice in choices.items():
                    share = _compute_t_shap(encoder, item, choice, evaluations, seed, logits)
                    found[name][encoder.spec.name][dataset].append(share)
    return found


KnownLogits = dict[tuple[tuple[Change, ...], str], dict[bytes, np.ndarray]]
"""Logits of coalitions of an item by what is visible, by changes and profile: a probability follows from them."""


def _compute_t_shap(
    encoder: Encoder, item: Item, choice: Choice, evaluations: int, seed: int, logits: KnownLogits
) -> float:
    """Return T-SHAP of a caption under a choice, in percent; new logits are added to those that are known."""
    published = choice.profile == "published"
    estimator = choice.estimator
    if choice.outcome == "probability" and estimator == "auto" and encoder.late:
        estimator = "permutation"  # a probability of late fusion is no dot product
    settings = AttributionSettings(
        choice.profile,
        "auto" if published else estimator,
        None if published else evaluations,
        derive_seed(item.dataset, item.item_id, seed + choice.seed_step),
    )

    def change(players: Players, text: str) -> Players:
        for step in choice.changes:
            players = step(players, text)
        return players

    outcomes = {"": None, "logit": lambda logits: logits, "probability": torch.sigmoid}
    known = logits.setdefault((choice.changes, choice.profile), {})
    if choice.outcome != "logit":
        known = {} if not choice.outcome else {key: expit(value) for key, value in known.items()}
    (attribution,) = attribute_texts(
        encoder, item.image, [item.caption], settings, [known], outcome=outcomes[choice.outcome], regroup=change
    )
    return 100 * attribution.t_shap
