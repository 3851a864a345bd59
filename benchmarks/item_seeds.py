"""Measure the noise that permutations leave in a mean T-SHAP, with one seed and with a seed for each item.

Usage: python benchmarks/item_seeds.py results/scenes [--items N] [--permutations N ...] [--runs N]

The items are captions of existence with `PLAYERS` players, of the default study; all values of their games with
`scenes-matcher` are computed first. Prints, as a table in Markdown, the standard deviation over runs (study
seeds) of the mean T-SHAP over the items, in percentage points.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from record_games import build_encoder_game, list_coalitions, load_scenes_encoder

from waltz.attribution.shapley.estimate import Estimate, estimate_in_step
from waltz.attribution.shapley.estimators import begin_permutations
from waltz.attribution.t_shap import measure_t_shap
from waltz.core.files.group_files import DatasetFiles
from waltz.core.sampling import derive_seed
from waltz.measures.items import read_item_sample

PLAYERS = 15


def record_games(results: Path, count: int) -> tuple[list[np.ndarray], list[int]]:
    """Return the values of all coalitions of some captions, (2^players, 1), and their text players."""
    images = results / "sources/drawn/visual7w/images"
    rows = results / "benchmark/existence.parquet"
    dataset = DatasetFiles("existence", str(rows), str(images), {"form": "pairs"})
    matcher = load_scenes_encoder("blip", "matcher")
    games, text_players = [], []
    for item in read_item_sample(dataset, 10 * count, 0):
        table, n_text = build_encoder_game(matcher, item.image, item.caption)
        if len(table.players[0]) == PLAYERS and len(games) < count:
            (values,) = table.values([list_coalitions(PLAYERS)])
            games.append(values)
            text_players.append(n_text)
    return games, text_players


def estimate_games(
    games: list[np.ndarray], seeds: list[int], permutations: int
) -> list[Estimate]:
    """Return the estimate of each game by permutations of its seed."""
    players = len(games[0]).bit_length() - 1
    budget = permutations * (2 * players + 1)

    def look_up(coalitions: list[np.ndarray]) -> list[np.ndarray]:
        bits = 1 << np.arange(players)
        return [
            values[masks @ bits]
            for values, masks in zip(games, coalitions, strict=True)
        ]

    return estimate_in_step(
        [begin_permutations(players, budget, seed) for seed in seeds], look_up
    )


def measure_noise(
    games: list[np.ndarray],
    text_players: list[int],
    permutations: int,
    seeds: np.ndarray,
) -> float:
    """Return the standard deviation over runs of the mean T-SHAP, in points.

    Args:
        seeds: The seed of each item in each run, (runs, items).
    """
    means = []
    for seeds_of_items in seeds.tolist():
        estimates = estimate_games(games, seeds_of_items, permutations)
        shares = [
            measure_t_shap(estimate, count).value
            for estimate, count in zip(estimates, text_players, strict=True)
        ]
        means.append(100 * np.mean(shares))
    return float(np.std(means, ddof=1))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("--items", type=int, default=13)
    parser.add_argument("--permutations", type=int, nargs="+", default=[1, 4, 10])
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    games, text_players = record_games(arguments.results, arguments.items)
    items, runs = range(len(games)), range(arguments.runs)
    common_seeds = np.array([[run for _ in items] for run in runs])
    item_seeds = np.array(
        [[derive_seed("games", str(item), run) for item in items] for run in runs]
    )
    print(f"{len(games)} items of {len(games[0]).bit_length() - 1} players")
    print("| permutations | one seed | a seed for each item |\n|---|---|---|")
    for permutations in arguments.permutations:
        noise = [
            measure_noise(games, text_players, permutations, seeds)
            for seeds in (common_seeds, item_seeds)
        ]
        print(f"| {permutations} | {noise[0]:.2f} | {noise[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
