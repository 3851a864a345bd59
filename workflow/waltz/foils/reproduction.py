"""The share of released items that the foiling functions reproduce, and the causes of the others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from waltz.core.intervals import Measure
from waltz.foils import released_items
from waltz.foils.english.parsing import parse_captions
from waltz.foils.relations import count_attested, find_slots
from waltz.foils.released_items import Explain, Miss, Reproduce, find_misses

Item = Mapping[str, Any]

NO_INPUTS = "made from FOIL-it's own annotations, which the release does not hold"
NO_CAPTIONS = "the study has no source in the format coco-captions"
FROM_CAPTIONS = ("plurality", "relations")

FUNCTIONS: dict[str, tuple[Reproduce, Explain]] = {
    "existence": (released_items.reproduce_existence, released_items.explain_existence),
    **dict.fromkeys(
        ("counting-balanced", "counting-small", "counting-adversarial"),
        (released_items.reproduce_counting, released_items.explain_counting),
    ),
    **dict.fromkeys(
        ("coreference-standard", "coreference-clean"),
        (released_items.reproduce_coreference, released_items.explain_coreference),
    ),
    "action-replacement": (released_items.reproduce_action_replacement, released_items.explain_action_replacement),
    "actant-swap": (released_items.reproduce_actant_swap, released_items.explain_actant_swap),
}
"""Functions that build candidates from an item's own texts, and that explain a miss, by instrument."""


def measure_reproduction(
    instrument: str, released: Sequence[Item], originals: Mapping[str, str]
) -> tuple[Measure, list[Miss]]:
    """Return the share of an instrument's items that are among our candidates.

    Args:
        instrument: Name of the instrument.
        released: Records of the release, each with its `id`.
        originals: COCO captions by id, for plurality and relations.
    Returns:
        The share in percent, or why there is none; and the missed items.
    """
    if instrument in FROM_CAPTIONS:
        if not originals:
            return Measure(None, 0, reason=NO_CAPTIONS), []
        reproduce, explain = _from_captions(instrument, originals)
    elif instrument in FUNCTIONS:
        reproduce, explain = FUNCTIONS[instrument]
    else:
        return Measure(None, 0, reason=NO_INPUTS), []
    count, misses = find_misses(released, reproduce, explain)
    return Measure(100 * (count - len(misses)) / count, count), misses


def _from_captions(instrument: str, originals: Mapping[str, str]) -> tuple[Reproduce, Explain]:
    def get_original(item: Item) -> str:
        return originals[str(item["dataset_idx"])]

    if instrument == "plurality":
        return lambda item: released_items.reproduce_plurality(
            item, get_original(item)
        ), released_items.explain_plurality
    sequences = count_attested(slot for doc in parse_captions(originals.values()) for slot in find_slots(doc))
    reproduce = partial(released_items.reproduce_relations, sequences=sequences)
    return lambda item: reproduce(item, get_original(item)), released_items.explain_relations


def render_markdown(shares: Sequence[Mapping[str, Any]], misses: Sequence[Mapping[str, Any]]) -> str:
    """Render the page with the share of each instrument that is reproduced, and causes of the misses with an example.

    Args:
        shares: Rows of the layout `REPRODUCTION`.
        misses: Rows of the layout `MISSES`.
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
    examples = {miss["cause"]: miss for miss in reversed(misses)}
    return [
        f"- {number}: {cause}. “{_join_lines(examples[cause]['caption'])}” / “{_join_lines(examples[cause]['foil'])}”"
        for cause, number in Counter(miss["cause"] for miss in misses).most_common()
    ]


def _join_lines(text: str) -> str:
    return " ".join(text.split())
