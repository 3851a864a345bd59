"""The share of released items that the foiling functions reproduce, and the causes of the misses."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from waltz.core.measure import Measure
from waltz.core.schema import MissRecord, ReproductionRecord
from waltz.foils.candidates import Candidate
from waltz.foils.english.parsing import parse_captions
from waltz.foils.relations import count_attested, find_slots
from waltz.foils.released_items import (
    ReleasedItem,
    explain_actant_swap,
    explain_action_replacement,
    explain_coreference,
    explain_counting,
    explain_existence,
    explain_plurality,
    explain_relations,
    reproduce_actant_swap,
    reproduce_action_replacement,
    reproduce_coreference,
    reproduce_counting,
    reproduce_existence,
    reproduce_plurality,
    reproduce_relations,
    texts_match,
)

Reproduce = Callable[[ReleasedItem], Sequence[Candidate]]
"""Function that builds candidates from the inputs of a released item."""
Explain = Callable[[ReleasedItem, Sequence[Candidate]], str]
"""Function that returns the reason why a released item is not among its candidates."""

NO_INPUTS = "made from FOIL-it's own annotations, which the release does not hold"
NO_CAPTIONS = "the study has no source in the format coco-captions"
FROM_CAPTIONS = ("plurality", "relations")

FUNCTIONS: dict[str, tuple[Reproduce, Explain]] = {
    "existence": (reproduce_existence, explain_existence),
    "counting-balanced": (reproduce_counting, explain_counting),
    "counting-small": (reproduce_counting, explain_counting),
    "counting-adversarial": (reproduce_counting, explain_counting),
    "coreference-standard": (reproduce_coreference, explain_coreference),
    "coreference-clean": (reproduce_coreference, explain_coreference),
    "action-replacement": (reproduce_action_replacement, explain_action_replacement),
    "actant-swap": (reproduce_actant_swap, explain_actant_swap),
}
"""Functions for the instruments whose items are rebuilt from their released texts, by instrument.
"""


def measure_reproduction(
    instrument: str, released: Sequence[ReleasedItem], originals: Mapping[str, str]
) -> tuple[Measure, list[MissRecord]]:
    """Return the share in percent of an instrument's released items that are among our candidates,
    and all misses.

    Args:
        released: The released items.
        originals: COCO captions by id, for plurality and relations.
    """
    if instrument in FROM_CAPTIONS:
        if not originals:
            return Measure(None, 0, reason=NO_CAPTIONS), []
        reproduce, explain = _select_caption_functions(instrument, originals)
    elif instrument in FUNCTIONS:
        reproduce, explain = FUNCTIONS[instrument]
    else:
        return Measure(None, 0, reason=NO_INPUTS), []

    misses = []
    for item in released:
        candidates = reproduce(item)
        if not any(_is_released_pair(candidate, item) for candidate in candidates):
            miss = MissRecord(
                instrument=instrument,
                item_id=item.item_id,
                caption=item.caption,
                foil=item.foil,
                cause=explain(item, candidates),
            )
            misses.append(miss)
    n_reproduced = len(released) - len(misses)
    return Measure(100 * n_reproduced / len(released), len(released)), misses


def _select_caption_functions(
    instrument: str, originals: Mapping[str, str]
) -> tuple[Reproduce, Explain]:
    """Return the functions for an instrument whose items are rebuilt from COCO captions, which
    `dataset_idx` names.
    """
    if instrument == "plurality":
        return (
            lambda item: reproduce_plurality(originals[item.dataset_idx]),
            explain_plurality,
        )
    slots = chain.from_iterable(map(find_slots, parse_captions(originals.values())))
    sequences = count_attested(slots)
    return (
        lambda item: reproduce_relations(originals[item.dataset_idx], sequences),
        explain_relations,
    )


def _is_released_pair(candidate: Candidate, item: ReleasedItem) -> bool:
    """Return True for a usable candidate whose texts match the texts of a released item."""
    if candidate.rejected is not None:
        return False
    # A candidate whose texts are equal reproduces no item.
    if texts_match(candidate.caption, candidate.foil):
        return False
    return texts_match(candidate.caption, item.caption) and texts_match(
        candidate.foil, item.foil
    )


def render_markdown(
    shares: Sequence[ReproductionRecord], misses: Sequence[MissRecord]
) -> str:
    """Render the Markdown page with the reproduced share of each instrument, and each cause of
    misses with an example.
    """
    misses_by_instrument: dict[str, list[MissRecord]] = {}
    for miss in misses:
        misses_by_instrument.setdefault(miss.instrument, []).append(miss)

    lines = [
        "# How close the foiling functions come to the released benchmark",
        "",
        "Share of released (caption, foil) pairs that are among the candidates made from their inputs: plurality and"
        " relations from the COCO caption; existence, counting, coreference and actions from the released caption and"
        " the released class, verb or fillers. White space, case and the final full stop do not count.",
        "",
        "| instrument | made again | items | not made |",
        "|---|---|---|---|",
    ]
    for share in shares:
        measure = share.measure
        if measure.value is None:
            lines.append(f"| {share.instrument} | {measure.reason} | | |")
        else:
            n_misses = len(misses_by_instrument.get(share.instrument, []))
            lines.append(
                f"| {share.instrument} | {measure.value:.1f} % | {measure.n} | {n_misses} |"
            )
    # One section for each instrument with misses.
    for share in shares:
        if share.instrument in misses_by_instrument:
            causes = _list_causes(misses_by_instrument[share.instrument])
            heading = f"## {share.instrument}: why the others are not"
            lines += ["", heading, "", *causes]
    return "\n".join([*lines, ""])


def _list_causes(misses: Sequence[MissRecord]) -> list[str]:
    """Return a line for each cause of misses, the most frequent first, with its number of items and
    its first item.
    """
    counts = Counter(miss.cause for miss in misses)
    examples: dict[str, MissRecord] = {}
    for miss in misses:
        examples.setdefault(miss.cause, miss)
    lines = []
    for cause, number in counts.most_common():
        caption = " ".join(examples[cause].caption.split())
        foil = " ".join(examples[cause].foil.split())
        lines.append(f"- {number}: {cause}. “{caption}” / “{foil}”")
    return lines
