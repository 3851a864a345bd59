"""The share of released items that the foiling functions make again, and the causes of the others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from waltz.core.intervals import Measure
from waltz.foils.coco_captions import parsed
from waltz.foils.relations import attested, slots
from waltz.foils.release import actions, captions, numbers
from waltz.foils.release.compare import Cause, Miss, Reproduce, misses

Item = Mapping[str, Any]

NO_INPUTS = "made from FOIL-it's own annotations, which the release does not hold"
NO_CAPTIONS = "the study has no source in the format coco-captions"
FROM_CAPTIONS = ("plurality", "relations")

WAYS: dict[str, tuple[Reproduce, Cause]] = {
    "existence": (numbers.reproduce_existence, numbers.cause_existence),
    **dict.fromkeys(
        ("counting-balanced", "counting-small", "counting-adversarial"),
        (numbers.reproduce_counting, numbers.cause_counting),
    ),
    **dict.fromkeys(
        ("coreference-standard", "coreference-clean"), (numbers.reproduce_coreference, numbers.cause_coreference)
    ),
    "action-replacement": (actions.reproduce_action_replacement, actions.cause_action_replacement),
    "actant-swap": (actions.reproduce_actant_swap, actions.cause_actant_swap),
}
"""How the items of an instrument are made again from their own texts, and why one is not."""


def reproduction(instrument: str, released: Sequence[Item], originals: Mapping[str, str]) -> tuple[Measure, list[Miss]]:
    """The share of an instrument's items that are among our candidates.

    Args:
        instrument: Name of the instrument.
        released: Records of the release, each with its `id`.
        originals: COCO captions by id, for plurality and relations.
    Returns:
        The share in percent, or why there is none; and the items that are not made.
    """
    if instrument in FROM_CAPTIONS:
        if not originals:
            return Measure(None, 0, reason=NO_CAPTIONS), []
        reproduce, cause = _from_captions(instrument, originals)
    elif instrument in WAYS:
        reproduce, cause = WAYS[instrument]
    else:
        return Measure(None, 0, reason=NO_INPUTS), []
    count, missed = misses(released, reproduce, cause)
    return Measure(100 * (count - len(missed)) / count, count), missed


def _from_captions(instrument: str, originals: Mapping[str, str]) -> tuple[Reproduce, Cause]:
    def original(item: Item) -> str:
        return originals[str(item["dataset_idx"])]

    if instrument == "plurality":
        return lambda item: captions.reproduce_plurality(item, original(item)), captions.cause_plurality
    sequences = attested(slot for doc in parsed(originals.values()) for slot in slots(doc))
    reproduce = partial(captions.reproduce_relations, sequences=sequences)
    return lambda item: reproduce(item, original(item)), captions.cause_relations


def markdown(shares: Sequence[Mapping[str, Any]], missed: Sequence[Mapping[str, Any]]) -> str:
    """A page that says how much of each instrument is made again, and lists the causes of the rest with an example.

    Args:
        shares: Rows of the layout `REPRODUCTION`.
        missed: Rows of the layout `MISSES`.
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
            lost = sum(miss["instrument"] == row["instrument"] for miss in missed)
            lines.append(f"| {row['instrument']} | {row['value']:.1f} % | {row['n']} | {lost} |")
    for row in shares:
        mine = [miss for miss in missed if miss["instrument"] == row["instrument"]]
        if mine:
            lines += ["", f"## {row['instrument']}: why the others are not", "", *_causes(mine)]
    return "\n".join([*lines, ""])


def _causes(missed: Sequence[Mapping[str, Any]]) -> list[str]:
    examples = {miss["cause"]: miss for miss in reversed(missed)}
    return [
        f"- {number}: {cause}. “{_one_line(examples[cause]['caption'])}” / “{_one_line(examples[cause]['foil'])}”"
        for cause, number in Counter(miss["cause"] for miss in missed).most_common()
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())
