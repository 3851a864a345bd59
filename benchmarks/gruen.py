"""Grammaticality in batches against one sentence at a time: the same texts, the same models, in one
run.

Usage: python benchmarks/gruen.py [--masked FOLDER] [--acceptability FOLDER] [--items N] [--release
FOLDER]

FOLDER of the models is one in transformers format (the scene models by default), that of the
release holds the released benchmark's JSON files ($WALTZ_DATA/valse by default). Prints seconds and
texts per second of both ways, their ratio, and the largest difference between their scores.
"""

import argparse
import os
import time
from pathlib import Path

import torch

from waltz.core.jobs.devices import lease_device
from waltz.core.jobs.records import measure_peak_memory_mb
from waltz.filters.gruen import (
    ACCEPTABILITY_POSITIONS,
    compute_grammaticality,
    find_acceptable_class,
    score_texts,
    split_sentences,
)
from waltz.model_registry import ModelSpec
from waltz.models.text.classifier import Classifier, load_classifier
from waltz.models.text.masked import MaskedModel, load_masked_model
from waltz.sources.formats.pairs import read_release

MODELS = Path(__file__).parents[1] / "resources" / "scenes" / "models"


@torch.inference_mode()
def one_by_one(text: str, masked: MaskedModel, acceptability: Classifier) -> float:
    """Return the score of a text by one forward pass per sentence and model, with the network's own
    loss.
    """
    losses, logits = [], []
    for sentence in split_sentences(text):
        ids = torch.tensor([masked.tokenize(sentence)], device=masked.device)
        losses.append(float(masked.network(input_ids=ids, labels=ids).loss))
        most = min(ACCEPTABILITY_POSITIONS, acceptability.window)
        encoded = acceptability.tokenizer(
            sentence, truncation=True, max_length=most, return_tensors="pt"
        )
        encoded = encoded.to(acceptability.device)
        logits.append(
            float(
                acceptability.network(**encoded).logits[
                    0, find_acceptable_class(acceptability)
                ]
            )
        )
    return compute_grammaticality(losses, logits)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--masked", type=Path, default=MODELS / "masked-lm")
    parser.add_argument("--acceptability", type=Path, default=MODELS / "acceptability")
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument(
        "--release",
        type=Path,
        default=Path(os.environ.get("WALTZ_DATA", ".")) / "valse",
    )
    arguments = parser.parse_args()
    with lease_device(1, torch.get_num_threads()) as device:
        masked = load_masked_model(
            ModelSpec("masked", "masked", str(arguments.masked), "local"), device
        )
        acceptability = load_classifier(
            ModelSpec(
                "acceptability", "classifier", str(arguments.acceptability), "local"
            ),
            device,
        )
        for name in ("relations", "plurals", "actant-swap"):
            items = read_release(arguments.release / f"{name}.json", "relations", 2)[
                : arguments.items
            ]
            texts = sorted(
                {text for item in items for text in (item.caption, item.foil)}
            )
            score_texts(texts[:1], masked, acceptability)
            start = time.perf_counter()
            batch_scores = score_texts(texts, masked, acceptability)
            batched_seconds = time.perf_counter() - start
            start = time.perf_counter()
            single = {text: one_by_one(text, masked, acceptability) for text in texts}
            single_seconds = time.perf_counter() - start
            difference = max(abs(batch_scores[text] - single[text]) for text in texts)
            print(f"{name}: {len(texts)} texts on {device.name}")
            print(
                f"  in batches {batched_seconds:.1f} s, {len(texts) / batched_seconds:.0f} texts/s"
            )
            print(
                f"  one by one {single_seconds:.1f} s, {len(texts) / single_seconds:.0f} texts/s"
            )
            print(
                f"  ratio {single_seconds / batched_seconds:.2f}, largest difference {difference:.1e}"
            )
        print(f"peak memory {measure_peak_memory_mb()} MB")


if __name__ == "__main__":
    main()
