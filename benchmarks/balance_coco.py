"""Balancing of plurality and relations on candidates of real captions: Jensen-Shannon distance and
seconds.

    python benchmarks/balance_coco.py captions_val2017.json [--captions N] [--rows N] [--tries N]
    [--seed N]

Candidates are attested, but no model proposes or filters them. All captions are parsed, or a seeded
sample of N of them with --captions. To bound the integer program, a seeded sample of --rows
captions is drawn for each instrument, with
--tries candidates each: for plurality among all of a caption, for relations with the words of other slots of the
sample, drawn as often as captions have them. Sizes are the published ones, 1000 and 614, or as many
as --sizes says.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

from waltz.benchmark.balance import BalanceLimits, select_balanced
from waltz.benchmark.statistics import compute_jensen_shannon
from waltz.core.sampling import rank, sample
from waltz.core.schema import CandidateRecord
from waltz.foils.candidates import Candidate, build_candidate_record
from waltz.foils.english.parsing import parse_captions
from waltz.foils.plurality import build_plurality_foils
from waltz.foils.relations import PrepositionSlot, build_attested_foils, find_slots
from waltz.sources.formats.coco import read_captions
from waltz.sources.records import CaptionRecord

PAPER_VALUES = {"plurality": (1000, 0.742), "relations": (614, 0.083)}
"""Size and distance of thesis A.2."""

Rows = list[CandidateRecord]


def candidates(
    rows: Sequence[CaptionRecord], size: int, tries: int, seed: int
) -> dict[str, Rows]:
    """Candidates of some captions by instrument.

    Args:
        rows: Captions.
        size: Most captions of an instrument.
        tries: Most candidates of a caption.
        seed: Seed of what is drawn.
    """
    candidate_rows: dict[str, Rows] = {}
    places: dict[str, tuple[CaptionRecord, str, list[PrepositionSlot]]] = {}
    source_ids = {row.source_id for row in _first(rows, "plurality", size, seed)}
    for row, doc in zip(rows, parse_captions(row.caption for row in rows), strict=True):
        if there := list(find_slots(doc)):
            places[row.source_id] = (row, doc.text, there)
        if row.source_id in source_ids:
            usable = [
                one
                for one in build_plurality_foils(doc)
                if isinstance(one, Candidate) and one.rejected is None
            ]
            candidate_rows.setdefault("plurality", []).extend(
                _rows(usable, row, "plurality", tries, seed)
            )
    chosen = _first([row for row, *_ in places.values()], "relations", size, seed)
    texts = [slot.text for row in chosen for slot in places[row.source_id][2]]
    for row in chosen:
        _, text, there = places[row.source_id]
        drawn: dict[str, Candidate] = {}
        for number in range(tries):
            lot = rank(f"relations:{row.source_id}:{number}", seed)
            slot, words = there[lot % len(there)], texts[lot // len(there) % len(texts)]
            drawn |= {
                one.foil: one for one in build_attested_foils(text, slot, [words])
            }
        candidate_rows.setdefault("relations", []).extend(
            _rows(drawn.values(), row, "relations", tries, seed)
        )
    return candidate_rows


def _first(
    rows: Sequence[CaptionRecord], instrument: str, size: int, seed: int
) -> list[CaptionRecord]:
    named = {f"{instrument}:{row.source_id}": row for row in rows}
    return [named[key] for key in sample(list(named), min(size, len(named)), seed)]


def _rows(
    generated: Iterable[Candidate],
    row: CaptionRecord,
    instrument: str,
    tries: int,
    seed: int,
) -> Rows:
    rows = [
        build_candidate_record(one, row, number, instrument)
        for number, one in enumerate(generated)
    ]
    return sorted(rows, key=lambda entry: rank(entry.item_id, seed))[:tries]


def measured(
    rows: Rows, size: int, distance: float, seed: int
) -> tuple[int, float, float]:
    """Items chosen, their Jensen-Shannon distance, and seconds.

    Args:
        rows: Candidates of one instrument.
        size: Most items.
        distance: Highest distance.
        seed: Seed of the choice.
    """
    begin = time.perf_counter()
    chosen = select_balanced(rows, BalanceLimits(size=size, js=distance), seed)
    seconds = time.perf_counter() - begin
    return (
        len(chosen),
        compute_jensen_shannon([row for row in rows if row.item_id in chosen]),
        seconds,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument(
        "--captions",
        type=int,
        default=None,
        help="captions that are parsed; all of them",
    )
    parser.add_argument(
        "--rows", type=int, default=3000, help="captions of an instrument"
    )
    parser.add_argument("--tries", type=int, default=4, help="candidates of a caption")
    parser.add_argument(
        "--sizes",
        type=int,
        nargs=2,
        default=[size for size, _ in PAPER_VALUES.values()],
    )
    parser.add_argument("--seed", type=int, default=1520)
    given = parser.parse_args()
    rows = [
        row for row in read_captions(given.path, "coco", None) if row.rejected is None
    ]
    ids = set(sample([row.source_id for row in rows], given.captions, given.seed))
    begin = time.perf_counter()
    candidate_rows = candidates(
        [row for row in rows if row.source_id in ids],
        given.rows,
        given.tries,
        given.seed,
    )
    print(
        f"{len(ids)} captions parsed, candidates made in {time.perf_counter() - begin:.0f} s"
    )
    for (instrument, (_, paper_value)), size in zip(
        PAPER_VALUES.items(), given.sizes, strict=True
    ):
        for allowed in (0.0, paper_value):
            count, js, seconds = measured(
                candidate_rows[instrument], size, allowed, given.seed
            )
            print(
                f"{instrument}: {count} items of {size} among {len(candidate_rows[instrument])} candidates,"
                f" at most {allowed} allowed: JS {js:.3f} (print {paper_value}), {seconds:.1f} s"
            )


if __name__ == "__main__":
    main()
