"""Training of several models at once, each in a process on one core."""

import logging
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

from tools.train_scene_models import STARTS
from tools.train_scene_models.recipes import build_model
from waltz.core.jobs.devices import lease_device


def train_models(
    names: list[str], folder: Path, seed: int, held_out: int, processes: int
) -> None:
    """Train models, those that start from another one after it.

    The models that others start from come first: theirs is the longest chain, and begun last it
    would leave a core idle.
    """
    waiting = [name for name in names if STARTS.get(name) in names]
    ready = [name for name in names if name not in waiting]
    ready.sort(key=lambda name: name not in STARTS.values())
    running: dict[Future[None], str] = {}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:

        def submit(name: str) -> None:
            running[pool.submit(run_training, name, folder, seed, held_out)] = name

        for name in ready:
            submit(name)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()  # raises what the training raised
                finished = running.pop(future)
                for name in waiting:
                    if STARTS[name] == finished:
                        submit(name)


def run_training(name: str, folder: Path, seed: int, held_out: int) -> None:
    """Train one model in this process, on one core, and log each hundredth step."""
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {name}: %(message)s")
    start = folder / STARTS[name] if name in STARTS else None
    with lease_device(0, 1):
        build_model(name, start, folder / name, seed, held_out)
