"""Compare estimators of Shapley values on recorded games.

Usage: python benchmarks/estimators.py FOLDER [--estimators NAME ...] [--budgets N ...] [--seeds N] [--games N]

FOLDER has games of `benchmarks/record_games.py`; only their first output is used. Prints, as a table in
Markdown, the relative error ‖φ - exact‖ / ‖exact‖ of each estimator by budget: the median over seeds, then
the geometric mean over the games of each network. A cell is empty if the estimator refuses the budget.

It needs an environment of Python 3.12 with `pip install "shapiq[proxy,shapleig]>=1.8" shap captum torch`, and
`PYTHONPATH=workflow` for the estimators of waltz.
"""

import argparse
import contextlib
import io
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from pathlib import Path

import captum.attr
import numpy as np
import shap
import shapiq
import torch

from waltz.attribution.shapley.estimate import Estimation
from waltz.attribution.shapley.estimators import begin_permutations
from waltz.attribution.shapley.regression import begin_regression

BUDGETS = (64, 96, 160, 320)
Game = Callable[[np.ndarray], np.ndarray]
Estimator = Callable[[Game, int, int, int], np.ndarray]
"""Function of a game, its players, a budget and a seed; it returns φ, (players,)."""


@dataclass(frozen=True)
class RecordedGame:
    """Hold the values of all coalitions, (2^players,), and the exact Shapley values, (players,)."""

    network: str
    values: np.ndarray
    exact: np.ndarray

    def __call__(self, coalitions: np.ndarray) -> np.ndarray:
        """Return the values of coalitions, (k,)."""
        masks = np.atleast_2d(np.asarray(coalitions, dtype=bool))
        values: np.ndarray = self.values[masks @ (1 << np.arange(masks.shape[1]))]
        return values


def read_game(path: Path) -> RecordedGame:
    """Read a game of `record_games.py`, named NETWORK-NUMBER.npz."""
    values = np.load(path)["values"][:, 0]
    return RecordedGame(path.stem.split("-")[0], values, compute_exact(values))


def compute_exact(values: np.ndarray) -> np.ndarray:
    """Return the Shapley values of a game from the values of all coalitions."""
    numbers = np.arange(len(values))
    players = len(values).bit_length() - 1
    sizes = np.bitwise_count(numbers)
    weights = np.array(
        [
            factorial(size) * factorial(players - size - 1) / factorial(players)
            for size in range(players)
        ]
    )
    exact = np.empty(players)
    for player in range(players):
        without = numbers[numbers & 1 << player == 0]
        gains = values[without | 1 << player] - values[without]
        exact[player] = weights[sizes[without]] @ gains
    return exact


def run_estimation(estimation: Estimation, game: Game) -> np.ndarray:
    """Return φ of an estimation of waltz."""
    coalitions = next(estimation)
    while True:
        try:
            coalitions = estimation.send(game(coalitions)[:, None])
        except StopIteration as stop:
            phi: np.ndarray = stop.value.phi[:, 0]
            return phi


def regress(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Run `regression` of waltz."""
    return run_estimation(begin_regression(players, budget, seed), game)


def permute(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Run `permutation` of waltz, which draws the permutations of `shap`."""
    return run_estimation(begin_permutations(players, budget, seed), game)


def run_shapiq(name: str, **options: object) -> Estimator:
    """Return an estimator of shapiq."""

    def estimate(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
        approximator = getattr(shapiq.approximator, name)
        settings = {"n": players, "random_state": seed, **options}
        values = approximator(**settings).approximate(budget=budget, game=game)
        return np.array([values[(player,)] for player in range(players)])

    return estimate


def run_shap_kernel(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Run `shap.KernelExplainer`, which evaluates no and all players besides its samples."""
    np.random.seed(seed)
    explainer = shap.KernelExplainer(game, np.zeros((1, players)))
    everyone = np.ones((1, players))
    values = explainer.shap_values(everyone, nsamples=budget - 2, l1_reg=0, silent=True)
    return np.asarray(values).reshape(players)


def run_captum(name: str, samples_per_evaluation: Callable[[int], int]) -> Estimator:
    """Return an estimator of captum.

    Args:
        samples_per_evaluation: Number of evaluations of one sample, by players.
    """

    def estimate(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
        torch.manual_seed(seed)
        np.random.seed(seed)

        def forward(inputs: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(game(inputs.numpy() > 0.5))

        method = getattr(captum.attr, name)(forward)
        samples = budget // samples_per_evaluation(players)
        values = method.attribute(
            torch.ones(1, players), torch.zeros(1, players), n_samples=samples
        )
        phi: np.ndarray = values[0].double().numpy()
        return phi

    return estimate


ESTIMATORS: dict[str, Estimator] = {
    "`regression`": regress,
    "`permutation`, as `shap`'s": permute,
    "shapiq OddSHAP": run_shapiq("OddSHAP"),
    "shapiq LeverageSHAP": run_shapiq("LeverageSHAP"),
    "shapiq PolySHAP, order 2": run_shapiq("PolySHAP", max_order=2, pairing_trick=True),
    "shapiq ProxySHAP": run_shapiq("ProxySHAP", index="SV", max_order=1),
    "shapiq ProxySPEX": run_shapiq("ProxySPEX", index="SV", max_order=1, hpo=False),
    "shapiq RegressionMSR": run_shapiq("RegressionMSR", index="SV"),
    "shapiq ShaplEIG": run_shapiq("ShaplEIG", show_progress=False),
    "shapiq KernelSHAP, pairs": run_shapiq("KernelSHAP", pairing_trick=True),
    "shapiq PermutationSamplingSV": run_shapiq("PermutationSamplingSV"),
    "shapiq SVARM": run_shapiq("SVARM"),
    "shapiq UnbiasedKernelSHAP": run_shapiq("UnbiasedKernelSHAP"),
    "shap KernelExplainer": run_shap_kernel,
    "captum KernelShap": run_captum("KernelShap", lambda players: 1),
    "captum ShapleyValueSampling": run_captum(
        "ShapleyValueSampling", lambda players: players
    ),
}


def measure_error(
    estimator: Estimator, game: RecordedGame, budget: int, seeds: int
) -> float | None:
    """Return the median relative error over seeds; None if the estimator refuses the budget."""
    players = len(game.exact)
    errors = []
    for seed in range(seeds):
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                phi = estimator(game, players, budget, seed)
        except Exception as error:
            logging.info("%s", error)
            return None
        difference = np.linalg.norm(phi - game.exact)
        errors.append(difference / np.linalg.norm(game.exact))
    return float(np.median(errors))


def average(errors: list[float | None]) -> str:
    """Return the geometric mean as text; a dash if one is missing."""
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return "–"
    return f"{np.exp(np.mean(np.log(known))):.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--estimators", nargs="+", choices=list(ESTIMATORS), default=list(ESTIMATORS)
    )
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--games", type=int, default=4, help="games of each network")
    parser.add_argument("--verbose", action="store_true", help="print refusals")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO if arguments.verbose else logging.ERROR)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    games: dict[str, list[RecordedGame]] = {}
    for path in sorted(arguments.folder.glob("*.npz")):
        game = read_game(path)
        games.setdefault(game.network, []).append(game)
    columns = [(name, budget) for name in games for budget in arguments.budgets]
    heads = [f"{name}, {budget}" for name, budget in columns]
    print("| estimator | " + " | ".join(heads) + " |")
    print("|---|" + "---|" * len(columns), flush=True)
    for name in arguments.estimators:
        cells = []
        for network, budget in columns:
            chosen = games[network][: arguments.games]
            errors = [
                measure_error(ESTIMATORS[name], game, budget, arguments.seeds)
                for game in chosen
            ]
            cells.append(average(errors))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
