"""The share of released items that the foiling functions reproduce, and the causes of the others."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waltz.core.intervals import Measure
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
"""Build candidates from an item's inputs."""
Explain = Callable[[Item, Sequence[Candidate]], str]
"""Say why an item is not among its candidates."""

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
"""Functions for items whose own texts are their inputs, by instrument."""


@dataclass(frozen=True)
class Miss:
    """A released item that is not among our candidates, with the cause."""

    item_id: str
    caption: str
    foil: str
    cause: str


def measure_reproduction(
    instrument: str, released: Sequence[Item], originals: Mapping[str, str]
) -> tuple[Measure, list[Miss]]:
    """Return the share in percent of an instrument's items that are among our candidates, and the others.

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
            misses.append(Miss(item["id"], item["caption"], item["foil"], explain(item, candidates)))
    return Measure(100 * (len(released) - len(misses)) / len(released), len(released)), misses


def _select_caption_functions(instrument: str, originals: Mapping[str, str]) -> tuple[Reproduce, Explain]:
    """Return the functions for items whose input is the COCO caption with their `dataset_idx`."""
    if instrument == "plurality":
        return lambda item: reproduce_plurality(originals[str(item["dataset_idx"])]), explain_plurality
    sequences = count_attested(slot for doc in parse_captions(originals.values()) for slot in find_slots(doc))
    return lambda item: reproduce_relations(originals[str(item["dataset_idx"])], sequences), explain_relations


def _is_released_pair(candidate: Candidate, item: Item) -> bool:
    return (
        candidate.rejected is None
        and texts_match(candidate.caption, item["caption"])
        and texts_match(candidate.foil, item["foil"])
        and not texts_match(candidate.caption, candidate.foil)
    )


def render_markdown(shares: Sequence[Mapping[str, Any]], misses: Sequence[Mapping[str, Any]]) -> str:
    """Render the page with the share of each instrument that is reproduced, and causes of the misses with an example.

    `shares` and `misses` are rows of the layouts `REPRODUCTION` and `MISSES`.
    """
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
        if row["value"] is None:
            lines.append(f"| {row['instrument']} | {row['reason']} | | |")
        else:
            count = sum(miss["instrument"] == row["instrument"] for miss in misses)
            lines.append(f"| {row['instrument']} | {row['value']:.1f} % | {row['n']} | {count} |")
    for row in shares:
        row_misses = [miss for miss in misses if miss["instrument"] == row["instrument"]]
        if row_misses:
            lines += ["", f"## {row['instrument']}: why the others are not", "", *_list_causes(row_misses)]
    return "\n".join([*lines, ""])


def _list_causes(misses: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for cause, number in Counter(miss["cause"] for miss in misses).most_common():
        example = next(miss for miss in misses if miss["cause"] == cause)
        caption, foil = (" ".join(example[side].split()) for side in ("caption", "foil"))
        lines.append(f"- {number}: {cause}. “{caption}” / “{foil}”")
    return lines
