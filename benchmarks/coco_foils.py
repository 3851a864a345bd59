"""Plurality and relations over all captions of a COCO file, without models: seconds, candidates and
peak memory.

    python benchmarks/coco_foils.py captions_val2017.json

Captions are parsed once and streamed; parsing alone, in the same process on every fifth caption
before, gives the ratio of the total to the parser. Seconds are those of the processor, so that
other work on the machine does not count. The limits are 3 minutes and 1.5 GB for the 25,014
captions of val2017.
"""

import argparse
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

from waltz.foils.candidates import Candidate
from waltz.foils.english.parsing import parse_captions
from waltz.foils.plurality import build_plurality_foils
from waltz.foils.relations import build_attested_foils, count_attested, find_slots
from waltz.sources.formats.coco import read_captions


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    captions = [
        row.caption for row in read_captions(parser.parse_args().path, "coco", None)
    ]
    begin = time.process_time()
    parsed_alone = sum(1 for _ in parse_captions(captions[::5]))
    alone = (time.process_time() - begin) / parsed_alone * len(captions)
    begin = time.process_time()
    numbers, kept, places = 0, 0, []
    for doc in parse_captions(captions):
        outcomes = build_plurality_foils(doc)
        candidates = [item for item in outcomes if isinstance(item, Candidate)]
        numbers += len(candidates)
        kept += sum(candidate.rejected is None for candidate in candidates)
        places.append((doc.text, tuple(find_slots(doc))))
    both = time.process_time() - begin
    sequences = count_attested(slot for _, slots in places for slot in slots)
    pairs = sum(
        1
        for text, slots in places
        for slot in slots
        for _ in build_attested_foils(text, slot, sequences)
    )
    total = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(captions)} captions: parsing alone would take {alone:.0f} s")
    print(
        f"  plurality, {kept} of {numbers} candidates kept, and slots, {len(sequences)} sequences:"
        f" {both:.0f} s with parsing"
    )
    print(
        f"  every slot with every sequence, {pairs} candidates: {total - both:.0f} s more"
    )
    print(
        f"  {total:.0f} s in all, {total / alone:.2f} times the parsing, peak {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()
