"""Shared prefixes against one text at a time: the same texts, the same model, in one run.

Usage: python benchmarks/perplexity.py [--model NAME] [--items N] [--release FOLDER]

FOLDER holds the released benchmark's JSON files ($WALTZ_DATA/valse by default). Prints seconds,
tokens per second and peak memory of both ways, their ratio, and the largest difference between
their losses.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch

from waltz.core.jobs.devices import lease_device
from waltz.core.jobs.records import measure_peak_memory_mb
from waltz.model_registry import load_registry
from waltz.models.text.causal import (
    batch_prefix_trees,
    build_prefix_trees,
    compute_node_losses,
    load_causal_model,
)
from waltz.sources.formats.pairs import read_release


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument(
        "--release",
        type=Path,
        default=Path(os.environ.get("WALTZ_DATA", ".")) / "valse",
    )
    arguments = parser.parse_args()
    with lease_device(1, torch.get_num_threads()) as device:
        model = load_causal_model(load_registry()[arguments.model], device)
        for name in ("counting-hard", "plurals", "actant-swap"):
            items = read_release(arguments.release / f"{name}.json", "relations", 2)[
                : arguments.items
            ]
            texts = {
                model.tokenize(text)
                for item in items
                for text in (item.caption, item.foil)
            }
            compute_node_losses(model, build_prefix_trees([min(texts)]))
            start = time.perf_counter()
            shared = {
                sequence: losses[trie.get_path(place)]
                for trie in batch_prefix_trees(texts, 512)
                for losses in [compute_node_losses(model, trie)]
                for place, sequence in enumerate(trie.sequences)
            }
            shared_seconds = time.perf_counter() - start
            start = time.perf_counter()
            single = {
                sequence: compute_node_losses(model, build_prefix_trees([sequence]))
                for sequence in sorted(texts)
            }
            single_seconds = time.perf_counter() - start
            difference = max(
                np.nanmax(np.abs(shared[text] - single[text]))
                for text in texts
                if len(text) > 1
            )
            tokens = sum(map(len, texts))
            print(f"{name}: {len(texts)} texts, {tokens} tokens on {device.name}")
            print(
                f"  shared prefixes {shared_seconds:.1f} s, {tokens / shared_seconds:.0f} tokens/s"
            )
            print(
                f"  one by one      {single_seconds:.1f} s, {tokens / single_seconds:.0f} tokens/s"
            )
            print(
                f"  ratio {single_seconds / shared_seconds:.2f}, largest difference {difference:.1e} nats"
            )
        print(f"peak memory {measure_peak_memory_mb()} MB")


if __name__ == "__main__":
    main()
