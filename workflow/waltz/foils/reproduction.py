"""The share of released items that the foiling functions reproduce, and the causes of the misses."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waltz.core.measure import Measure
from waltz.foils.candidates import Candidate
from waltz.foils.english.parsing import parse_captions
from waltz.foils.relations import count_attested, find_slots
from waltz.foils.released_items import (
    Item,
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

Reproduce = Callable[[Item], Sequence[Candidate]]
"""Function that builds candidates from the inputs of a released item."""
Explain = Callable[[Item, Sequence[Candidate]], str]
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


@dataclass(frozen=True)
class Miss:
    """A released item that is not among its candidates, with the cause."""

    item_id: str
    caption: str
    foil: str
    cause: str


def measure_reproduction(
    instrument: str, released: Sequence[Item], originals: Mapping[str, str]
) -> tuple[Measure, list[Miss]]:
    """Return the share in percent of an instrument's released items that are among our candidates,
    and all misses.

    Args:
        released: Records of the release, each with its `id`.
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
            cause = explain(item, candidates)
            misses.append(Miss(item["id"], item["caption"], item["foil"], cause))
    n_reproduced = len(released) - len(misses)
    return Measure(100 * n_reproduced / len(released), len(released)), misses


def _select_caption_functions(
    instrument: str, originals: Mapping[str, str]
) -> tuple[Reproduce, Explain]:
    """Return the functions for an instrument whose items are rebuilt from COCO captions, which
    `dataset_idx` names.
    """
    if instrument == "plurality":
        return lambda item: reproduce_plurality(
            originals[str(item["dataset_idx"])]
        ), explain_plurality
    sequences = count_attested(
        slot for doc in parse_captions(originals.values()) for slot in find_slots(doc)
    )
    return lambda item: reproduce_relations(
        originals[str(item["dataset_idx"])], sequences
    ), explain_relations


def _is_released_pair(candidate: Candidate, item: Item) -> bool:
    """Return True for a usable candidate whose texts match the texts of a released item."""
    if candidate.rejected is not None:
        return False
    # A candidate whose texts are equal reproduces no item.
    if texts_match(candidate.caption, candidate.foil):
        return False
    return texts_match(candidate.caption, item["caption"]) and texts_match(
        candidate.foil, item["foil"]
    )


def render_markdown(
    shares: Sequence[Mapping[str, Any]], misses: Sequence[Mapping[str, Any]]
) -> str:
    """Render the Markdown page with the reproduced share of each instrument, and each cause of
    misses with an example.

    Args:
        shares: Rows of the layout `REPRODUCTION`.
        misses: Rows of the layout `MISSES`.
    """
    misses_by_instrument: dict[str, list[Mapping[str, Any]]] = {}
    for miss in misses:
        misses_by_instrument.setdefault(miss["instrument"], []).append(miss)

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
    for row in shares:
        instrument = row["instrument"]
        if row["value"] is None:
            lines.append(f"| {instrument} | {row['reason']} | | |")
        else:
            n_misses = len(misses_by_instrument.get(instrument, []))
            lines.append(
                f"| {instrument} | {row['value']:.1f} % | {row['n']} | {n_misses} |"
            )
    # One section for each instrument with misses.
    for row in shares:
        instrument = row["instrument"]
        if instrument in misses_by_instrument:
            causes = _list_causes(misses_by_instrument[instrument])
            lines += ["", f"## {instrument}: why the others are not", "", *causes]
    return "\n".join([*lines, ""])


def _list_causes(misses: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each cause of misses, the most frequent first, with its number of items and
    its first item.
    """
    counts = Counter(miss["cause"] for miss in misses)
    examples: dict[str, Mapping[str, Any]] = {}
    for miss in misses:
        examples.setdefault(miss["cause"], miss)
    lines = []
    for cause, number in counts.most_common():
        caption = " ".join(examples[cause]["caption"].split())
        foil = " ".join(examples[cause]["foil"].split())
        lines.append(f"- {number}: {cause}. “{caption}” / “{foil}”")
    return lines
