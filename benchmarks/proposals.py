"""Proposals for many slots in batches against CheckList's own code, one slot at a time.

Usage: python benchmarks/proposals.py [--model FOLDER] [--items N] [--release FOLDER]

FOLDER of the model is a masked LM in transformers format (the scenes' by default), that of the
release holds the released benchmark's JSON files ($WALTZ_DATA/valse by default): the slots are the
prepositions of `relations`. Prints seconds of both ways, their ratio, and for how many slots and
span lengths the ten best proposals are the same. CheckList's code is no part of the installation:
without it, one line says how to install it.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import torch

from waltz.core.errors import UserError
from waltz.core.jobs.devices import lease_device
from waltz.core.jobs.records import measure_peak_memory_mb
from waltz.foils.candidates import Slot
from waltz.foils.masked_proposals import propose_spans, propose_spans_with_checklist
from waltz.model_registry import ModelSpec
from waltz.models.text.masked import load_masked_model
from waltz.sources.formats.pairs import read_release

MODEL = Path(__file__).parents[1] / "resources" / "scenes" / "models" / "masked-lm"
LONGEST = 3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument(
        "--release",
        type=Path,
        default=Path(os.environ.get("WALTZ_DATA", ".")) / "valse",
    )
    arguments = parser.parse_args()
    with lease_device(1, torch.get_num_threads()) as device:
        model = load_masked_model(
            ModelSpec("masked", "masked", str(arguments.model), "local"), device
        )
        items = read_release(arguments.release / "relations.json", "relations", 2)[
            : arguments.items
        ]
        slots = [
            Slot(
                item.caption,
                item.caption_span.start,
                item.caption_span.end,
            )
            for item in items
            if len(model.tokenize(item.caption)) + LONGEST
            < model.window  # CheckList does not cut what is longer
        ]
        propose_spans_with_checklist(slots[:1], model)
        start = time.perf_counter()
        ours = propose_spans(slots, model, longest=LONGEST)
        batched_seconds = time.perf_counter() - start
        start = time.perf_counter()
        theirs = propose_spans_with_checklist(slots, model, longest=LONGEST)
        single_seconds = time.perf_counter() - start
        decode, number = model.tokenizer.decode, model.tokenizer.convert_tokens_to_ids
        same = 0
        for slot in theirs:
            for length in range(1, LONGEST + 1):
                mine = [
                    tuple(decode([number(piece)]).strip() for piece in proposal.pieces)
                    for proposal in ours[slot]
                    if len(proposal.pieces) == length
                ]
                same += mine == [
                    proposal.pieces
                    for proposal in theirs[slot]
                    if len(proposal.pieces) == length
                ]
        print(f"{len(theirs)} slots on {device.name}")
        print(
            f"  in batches {batched_seconds:.1f} s, {len(ours) / batched_seconds:.1f} slots/s"
        )
        print(
            f"  CheckList  {single_seconds:.1f} s, {len(theirs) / single_seconds:.1f} slots/s"
        )
        print(
            f"  ratio {single_seconds / batched_seconds:.2f}, same ten best in {same} of {LONGEST * len(theirs)} lists"
        )
        print(f"peak memory {measure_peak_memory_mb()} MB")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"proposals.py: {error} (see --help)")
