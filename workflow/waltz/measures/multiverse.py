"""Multiverse of T-SHAP: vary the choices that papers leave open, one at a time and crossed, and
compare rankings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product

import numpy as np
import torch
from scipy.special import expit

from waltz.attribution.custom_players import WORDS, group_text_players
from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Resampling
from waltz.core.measure import Measure
from waltz.core.sampling import derive_seed
from waltz.core.schema import MeasurementRecord
from waltz.fidelity import EQUATIONS, PROFILES, PUBLISHED, Fidelity
from waltz.measures.items import Item, read_item_sample
from waltz.measures.rows import SINGLE, average, build_row
from waltz.models.encoders.coalitions import PUBLISHED_MASK, EncoderPlayers
from waltz.models.encoders.encoder import Encoder

MEASUREMENT = "multiverse"
_build_row = partial(build_row, MEASUREMENT)
Change = Callable[[EncoderPlayers, str], EncoderPlayers]
"""Function from the players of a text and its image, and the text, to the players of another
choice.
"""


@dataclass(frozen=True, slots=True)
class MultiverseSettings:
    """Settings of the multiverse.

    Attributes:
        sample: Number of captions a data set.
        evaluations: Budget of a text: the largest number of coalitions, or of passes of an encoder
            of late fusion.
        cross_items: Number of captions under crossed choices, spread over the data sets.
    """

    sample: int
    evaluations: int
    cross_items: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Describe one way to compute T-SHAP.

    Attributes:
        changes: Changes of the players, in order.
        outcome: Explained output, `logit` or `probability`; empty for the output that the encoder
            explains by default.
        fidelity: Profile that the players and the estimator come from.
        estimator: Name of an estimator.
        seed_step: Number that is added to the seed of the estimator.
    """

    changes: tuple[Change, ...] = ()
    outcome: str = ""
    fidelity: Fidelity = EQUATIONS
    estimator: str = "auto"
    seed_step: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class FilledPlayers(EncoderPlayers):
    """Mask patches by a chosen pixel value instead of 0.

    Attributes:
        fill: Value of masked pixels after normalization: a number, or `mean` for the mean of the
            image's channels.
    """

    fill: float | str

    def mask_image(self, image: torch.Tensor, masks: np.ndarray) -> torch.Tensor:
        """Return the prepared image with filled patches: from bool (k, patches) to (k,
        *image.shape).
        """
        # Masking an image of ones shows which pixels are hidden: those that become 0.
        is_hidden = super().mask_image(torch.ones_like(image), masks) == 0
        if self.fill == "mean":
            fill = image.mean(dim=(-2, -1), keepdim=True)
        else:
            fill = torch.full_like(image, float(self.fill))
        return torch.where(is_hidden, fill, image)


def fill_patches(
    players: EncoderPlayers, text: str, *, fill: float | str
) -> EncoderPlayers:
    """Return players whose masked patches have a chosen value instead of 0."""
    return FilledPlayers(**vars(players), fill=fill)


def mask_by_id_0(players: EncoderPlayers, text: str) -> EncoderPlayers:
    """Return players whose masked tokens become id 0, as in the released code."""
    return replace(players, masked_id=PUBLISHED_MASK)


def change_grid(
    players: EncoderPlayers,
    text: str,
    *,
    step: int = 0,
    patches: int = 0,
    floor: bool = False,
) -> EncoderPlayers:
    """Return players with another grid.

    Args:
        players: Players of a text and its image.
        text: The text.
        step: Patches that are added to each side of the grid.
        patches: Patches along each side; 0 keeps the patches of the players.
        floor: Whether a patch has floor(side / p) pixels, so that those that remain are never
            masked.
    """
    grid = patches or max(1, players.grid + step)
    height, width = players.cells.shape
    # Row and column of the patch of each pixel; with `floor`, pixels that remain get a number
    # outside the grid.
    if floor:
        rows = np.arange(height) // (height // grid)
        columns = np.arange(width) // (width // grid)
    else:
        rows = np.arange(height) * grid // height
        columns = np.arange(width) * grid // width
    # Number of the patch of each pixel, row by row: int64 of shape (height, width); grid**2 stands
    # for no patch.
    is_in_grid = (rows[:, None] < grid) & (columns < grid)
    cells = np.where(is_in_grid, rows[:, None] * grid + columns, grid**2)
    always_visible = np.concatenate(
        [
            players.always_visible[: players.n_text_players],
            np.zeros(grid**2, dtype=bool),
        ]
    )
    return replace(
        players,
        grid=grid,
        cells=torch.from_numpy(cells).to(players.cells),
        always_visible=always_visible,
    )


def add_special_tokens(players: EncoderPlayers, text: str) -> EncoderPlayers:
    """Return players that include the special tokens, which are masked like other tokens."""
    count = len(players.text_input.ids)
    always_visible = np.zeros(count + players.n_image_players, dtype=bool)
    return replace(
        players, positions=tuple(range(count)), always_visible=always_visible
    )


def group_words(players: EncoderPlayers, text: str) -> EncoderPlayers:
    """Return players whose text players are whole words instead of tokens."""
    return group_text_players(players, text, players.text_input.spans, WORDS)


FACTORS: dict[str, dict[str, Choice]] = {
    "reference": {"equations": Choice()},
    "seed": {"another seed": Choice(seed_step=1)},
    "masked patch": {
        "mean colour": Choice((partial(fill_patches, fill="mean"),)),
        "black": Choice((partial(fill_patches, fill=-2.0),)),
        "white": Choice((partial(fill_patches, fill=2.0),)),
    },
    "masked token": {"id 0": Choice((mask_by_id_0,))},
    "grid": {
        "p - 1": Choice((partial(change_grid, step=-1),)),
        "p + 1": Choice((partial(change_grid, step=1),)),
        "2 x 2": Choice((partial(change_grid, patches=2),)),
        "6 x 6": Choice((partial(change_grid, patches=6),)),
        "pixels left over": Choice((partial(change_grid, floor=True),)),
    },
    "value": {
        "logit": Choice(outcome="logit"),
        "probability": Choice(outcome="probability"),
    },
    "players": {
        "special tokens": Choice((add_special_tokens,)),
        "words": Choice((group_words,)),
    },
    "profile": {"published": Choice(fidelity=PUBLISHED)},
    "estimator": {
        "permutation": Choice(estimator="permutation"),
        "KernelSHAP": Choice(estimator="KernelSHAP"),
        "SVARM": Choice(estimator="SVARM"),
    },
}
"""Choices by factor and level; each differs from profile `equations` in one factor. Another seed
changes only noise.
"""
CROSSED: dict[str, tuple[str, str]] = {
    "masked patch": ("reference", "black"),
    "masked token": ("reference", "id 0"),
    "grid": ("reference", "2 x 2"),
    "players": ("reference", "words"),
    "profile": ("equations", "published"),
    "value": ("logit", "probability"),
    "estimator": ("auto", "permutation"),
}
"""Levels of each factor that are crossed.

The value comes before the estimator, so that probabilities are computed from logits that are
already known.
"""
FIXED = ("masked token", "estimator")
"""Factors without a meaning in `published`, which masks by id 0 and draws permutations."""
NO_MEANING = "–"
SEPARATOR = ", "
"""Separator of the levels in the name of a combination."""

Levels = tuple[str, ...]
"""Levels of a combination, in the order of `CROSSED`."""
ChoiceName = tuple[str, str]
"""Factor and level of a choice."""
Shares = Mapping[str, Mapping[str, Sequence[float] | np.ndarray]]
"""T-SHAP in percent of each item, by model and data set."""
SharesByChoice = Mapping[ChoiceName, Shares]
KnownLogits = dict[tuple[tuple[Change, ...], Fidelity], dict[bytes, np.ndarray]]
"""Logits of one item by changes and fidelity, then by coalition; probabilities are computed from
them.
"""

REFERENCE: ChoiceName = ("reference", "equations")
SPLITS = 200
"""Number of random halves of the items whose rankings are compared within one choice."""


def measure_multiverse(
    encoders: Sequence[Encoder],
    datasets: Sequence[DatasetFiles],
    settings: MultiverseSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return mean T-SHAP of encoders under each choice, and the agreement of its rankings with the
    reference.

    Args:
        encoders: Encoders of either fusion.
        datasets: Data sets of captions and foils; captions are attributed.
        settings: Samples and budget.
        seed: Seed of the sample and of the estimators.
        resampling: Resampling of scenes.
    """
    # One read serves both parts: the choices one at a time, and the crossed choices. Rankings of
    # other items need twice as many.
    per_dataset = -(-settings.cross_items // len(datasets))  # rounded up
    items_read = {}
    for dataset in datasets:
        items_read[dataset.name] = read_item_sample(
            dataset, 2 * max(settings.sample, per_dataset), seed
        )
    rows = _vary_one_factor(encoders, items_read, settings, seed, resampling)
    rows += _cross_factors(encoders, items_read, settings, seed, resampling)
    return rows


def _vary_one_factor(
    encoders: Sequence[Encoder],
    items_read: Mapping[str, Sequence[Item]],
    settings: MultiverseSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return the rows of choices that differ from the reference in one factor."""
    items = {
        name: dataset_items[: settings.sample]
        for name, dataset_items in items_read.items()
    }
    choices = {}
    for factor, levels in FACTORS.items():
        for level, choice in levels.items():
            choices[factor, level] = choice
    shares = _attribute(encoders, items, choices, settings.evaluations, seed)
    # The reference and its noise do not differ in a factor, so they do not count in the summary.
    varied = [name for name in shares if name[0] not in ("reference", "seed")]
    rows = build_choice_rows(shares, items, REFERENCE, resampling)
    rows += summarize_rankings(shares, REFERENCE, {("one at a time", "all"): varied})
    # Two halves of twice the sample are as large as the sample that choices are compared on.
    doubled = {
        name: dataset_items[: 2 * settings.sample]
        for name, dataset_items in items_read.items()
    }
    plain = _attribute(
        encoders, doubled, {REFERENCE: choices[REFERENCE]}, settings.evaluations, seed
    )
    rows += compare_halves(plain[REFERENCE], "one at a time", seed)
    return rows


def _cross_factors(
    encoders: Sequence[Encoder],
    items_read: Mapping[str, Sequence[Item]],
    settings: MultiverseSettings,
    seed: int,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return the rows of all combinations of the crossed factors, and of the reference with another
    seed.
    """
    items = spread_items(items_read, settings.cross_items)
    choices = {
        (SINGLE, SEPARATOR.join(levels)): choice
        for levels, choice in cross_choices().items()
    }
    reference, *varied = choices
    other_seed = (SINGLE, "another seed")
    choices[other_seed] = replace(choices[reference], seed_step=1)
    shares = _attribute(encoders, items, choices, settings.evaluations, seed)

    # Rankings are summarized over all combinations, and over those that share a level.
    groups = {("cross", "all"): varied, ("cross, seed", "another seed"): [other_seed]}
    for position, (factor, levels) in enumerate(CROSSED.items()):
        for level in levels:
            names = [
                name for name in varied if name[1].split(SEPARATOR)[position] == level
            ]
            groups[f"cross, {factor}", level] = names
    rows = build_choice_rows(shares, items, reference, resampling)
    rows += summarize_rankings(shares, reference, groups)
    doubled = spread_items(items_read, 2 * settings.cross_items)
    plain = _attribute(
        encoders, doubled, {reference: choices[reference]}, settings.evaluations, seed
    )
    rows += compare_halves(plain[reference], "cross", seed)
    return rows


def spread_items(
    items: Mapping[str, Sequence[Item]], count: int
) -> dict[str, list[Item]]:
    """Return `count` items by data set: the first item of each data set, then the second, until
    there are enough.
    """
    spread: dict[str, list[Item]] = {}
    longest = max(map(len, items.values()), default=0)
    remaining = count
    for position in range(longest):
        for name, dataset_items in items.items():
            if remaining and position < len(dataset_items):
                spread.setdefault(name, []).append(dataset_items[position])
                remaining -= 1
    return spread


def cross_choices() -> dict[Levels, Choice]:
    """Return all combinations of the crossed factors by their levels, the reference first.

    In `published` the factors that it fixes have no meaning and are not crossed.
    """
    crossed: dict[Levels, Choice] = {}
    for combination in product(*CROSSED.values()):
        levels = dict(zip(CROSSED, combination, strict=True))
        estimator = levels["estimator"]
        # In `published` these factors are fixed, so that their combinations would be the same
        # choice again.
        if levels["profile"] == "published":
            varies_fixed = any(levels[factor] != CROSSED[factor][0] for factor in FIXED)
            if varies_fixed:
                continue
            levels |= dict.fromkeys(FIXED, NO_MEANING)
            estimator = "auto"
        changes: list[Change] = []
        for factor, level in levels.items():
            choice = FACTORS[factor].get(level)  # None for the reference
            if choice is not None:
                changes += choice.changes
        crossed[tuple(levels.values())] = Choice(
            tuple(changes), levels["value"], PROFILES[levels["profile"]], estimator
        )
    return crossed


def build_choice_rows(
    shares: SharesByChoice,
    items: Mapping[str, Sequence[Item]],
    reference: ChoiceName,
    resampling: Resampling,
) -> list[MeasurementRecord]:
    """Return for each choice mean T-SHAP, its difference to the reference, and Kendall's tau with
    its rankings.
    """
    clusters: list[str] = []
    for dataset_items in items.values():
        clusters += [item.scene for item in dataset_items]
    rows: list[MeasurementRecord] = []
    for (factor, level), by_model in shares.items():
        for model, by_dataset in by_model.items():
            # T-SHAP of all items, in the order of `clusters`.
            values = _concatenate_datasets(by_dataset)
            differences = values - _concatenate_datasets(shares[reference][model])
            mean = average(values.tolist(), clusters, model, resampling)
            rows.append(_build_row("t_shap", mean, factor, level, model=model))
            mean_difference = average(differences.tolist(), clusters, model, resampling)
            rows.append(
                _build_row(
                    "t_shap_difference", mean_difference, factor, level, model=model
                )
            )
        for model, tau in compare_rankings(shares[reference], by_model).items():
            n_ranked = len(by_model[model]) if model else len(by_model)
            rows.append(
                _build_row(
                    "kendall_tau", Measure(tau, n_ranked), factor, level, model=model
                )
            )
    return rows


def summarize_rankings(
    shares: SharesByChoice,
    reference: ChoiceName,
    groups: Mapping[ChoiceName, Sequence[ChoiceName]],
) -> list[MeasurementRecord]:
    """Return for each group of choices mean Kendall's tau with the rankings of the reference.

    Args:
        shares: T-SHAP by choice.
        reference: Choice whose rankings the others are compared with.
        groups: Choices by the factor and level of their rows.
    """
    rows = []
    for (factor, level), names in groups.items():
        taus_of: dict[str, list[float]] = {}
        for name in names:
            for model, tau in compare_rankings(shares[reference], shares[name]).items():
                taus_of.setdefault(model, []).append(tau)
        for model, taus in taus_of.items():
            mean = float(np.mean(taus))
            rows.append(
                _build_row(
                    "kendall_tau", Measure(mean, len(taus)), factor, level, model=model
                )
            )
    return rows


def compare_halves(shares: Shares, level: str, seed: int) -> list[MeasurementRecord]:
    """Return mean Kendall's tau between the rankings of two halves of the items of one choice: what
    other items change.

    Args:
        shares: T-SHAP of twice as many items as choices are compared on.
        level: Level of the rows.
        seed: Seed of `SPLITS` random splits.
    Returns:
        One row for each model and one for the order of models; none unless two data sets have two
        items, since halves of one data set have no ranking.
    """
    datasets = next(iter(shares.values())).values()
    if sum(len(values) >= 2 for values in datasets) < 2:
        return []
    # The rankings of both halves of each split, compared like those of two choices.
    generator = np.random.default_rng(seed)
    taus_of: dict[str, list[float]] = {}
    for _ in range(SPLITS):
        first, second = _split_items(shares, generator)
        for model, tau in compare_rankings(first, second).items():
            taus_of.setdefault(model, []).append(tau)
    rows = []
    for model, taus in taus_of.items():
        mean = Measure(float(np.mean(taus)), SPLITS)
        rows.append(_build_row("kendall_tau", mean, "other items", level, model=model))
    return rows


def _split_items(
    shares: Shares, generator: np.random.Generator
) -> tuple[Shares, Shares]:
    """Return two random halves of the items of each data set, the same for all models.

    Data sets of one item are left out.
    """
    first: dict[str, dict[str, np.ndarray]] = {model: {} for model in shares}
    second: dict[str, dict[str, np.ndarray]] = {model: {} for model in shares}
    # All models have the same items, so that one order serves them all.
    sizes = {name: len(values) for name, values in next(iter(shares.values())).items()}
    for dataset, size in sizes.items():
        half = size // 2
        if half == 0:
            continue
        order = generator.permutation(size)
        for model, by_dataset in shares.items():
            values = np.asarray(by_dataset[dataset])[order]
            first[model][dataset] = values[:half]
            second[model][dataset] = values[half : 2 * half]
    return first, second


def compare_rankings(first: Shares, second: Shares) -> dict[str, float]:
    """Return Kendall's tau between the rankings of two choices.

    Returns:
        By model, tau between rankings of its data sets by mean T-SHAP; under "", tau between
        rankings of the models.
    """
    taus = {}
    for model in first:
        taus[model] = compute_kendall_tau(
            _average_each(first[model]), _average_each(second[model])
        )
    taus[""] = compute_kendall_tau(_average_models(first), _average_models(second))
    return taus


def _average_each(
    by_dataset: Mapping[str, Sequence[float] | np.ndarray],
) -> list[float]:
    """Return mean T-SHAP of each data set."""
    return [float(np.mean(values)) for values in by_dataset.values()]


def _average_models(shares: Shares) -> list[float]:
    """Return mean T-SHAP of each model over the items of all data sets."""
    return [
        float(np.mean(_concatenate_datasets(by_dataset)))
        for by_dataset in shares.values()
    ]


def _concatenate_datasets(
    by_dataset: Mapping[str, Sequence[float] | np.ndarray],
) -> np.ndarray:
    return np.concatenate([np.asarray(values) for values in by_dataset.values()])


def compute_kendall_tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Kendall's tau-a of two series: concordant pairs less discordant pairs, over all pairs.

    Args:
        first: At least two numbers.
        second: The same number of numbers.
    """
    signs = []
    for i, j in combinations(range(len(first)), 2):
        # 1 if both series order the pair alike, -1 if they disagree, 0 for a tie in either.
        signs.append(np.sign((first[i] - first[j]) * (second[i] - second[j])))
    return float(np.mean(signs))


def _attribute(
    encoders: Sequence[Encoder],
    items: Mapping[str, Sequence[Item]],
    choices: Mapping[ChoiceName, Choice],
    evaluations: int,
    seed: int,
) -> SharesByChoice:
    """Return T-SHAP in percent of the caption of each item, by choice, model and data set."""
    shares: dict[ChoiceName, dict[str, dict[str, list[float]]]] = {
        name: {} for name in choices
    }
    for encoder in encoders:
        model = encoder.spec.name
        for name in choices:
            shares[name][model] = {dataset: [] for dataset in items}
        for dataset, dataset_items in items.items():
            for item in dataset_items:
                logits: KnownLogits = {}  # of this item, which its choices share
                for name, choice in choices.items():
                    share = compute_choice_t_shap(
                        encoder, item, choice, evaluations, seed, logits
                    )
                    shares[name][model][dataset].append(share)
    return shares


def compute_choice_t_shap(
    encoder: Encoder,
    item: Item,
    choice: Choice,
    evaluations: int | None,
    seed: int,
    logits: KnownLogits,
) -> float:
    """Return T-SHAP of a caption under a choice, in percent, and add newly evaluated logits to
    `logits`; without `evaluations`, as many coalitions as ten permutations need.
    """
    # Some choices fix the estimator: probabilities of late fusion, and profile `published`.
    estimator = choice.estimator
    budget = evaluations
    if choice.outcome == "probability" and estimator == "auto" and encoder.late:
        estimator = "permutation"  # the shortcut of late fusion needs a dot product; a probability is not one
    if choice.fidelity is PUBLISHED:
        estimator, budget = "auto", None  # the profile fixes both
    item_seed = derive_seed(item.dataset, item.item_id, seed + choice.seed_step)
    settings = AttributionSettings(choice.fidelity, estimator, budget, item_seed)

    def change(players: EncoderPlayers, text: str) -> EncoderPlayers:
        for change_players in choice.changes:
            players = change_players(players, text)
        return players

    outcomes = {"": None, "logit": lambda logits: logits, "probability": torch.sigmoid}
    # Coalitions that an earlier choice evaluated with the same players are not evaluated again.
    known = logits.setdefault((choice.changes, choice.fidelity), {})
    if choice.outcome == "":
        known = {}  # what the encoder explains by default may be no logit
    elif choice.outcome == "probability":
        known = {key: expit(value) for key, value in known.items()}
    (attribution,) = attribute_texts(
        encoder,
        item.image,
        [item.caption],
        settings,
        [known],
        outcome=outcomes[choice.outcome],
        regroup=change,
    )
    return 100 * attribution.t_shap.value
