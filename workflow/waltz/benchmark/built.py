"""From candidates that passed the filters to the items of a benchmark: chosen, then voted on."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from waltz.benchmark.balance import Balance, balance, least_cap
from waltz.core.schema import BENCHMARK

Rows = list[dict[str, Any]]
NOT_CHOSEN = "balancing: not chosen"
NO_VOTES = {"voter": None, "votes_caption": None, "votes_foil": None, "votes_other": None, "valid": None}


def wanted_balance(settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Balance:
    """What a study asks of an instrument's choice; caps given as `even` become the lowest that still reach the size.

    Args:
        settings: The instrument's entry in the study.
        rows: The candidates to choose from.
    """
    caps = {"cap": settings.get("cap"), "foil_cap": settings.get("foil_cap")}
    sides = {"cap": "caption", "foil_cap": "foil"}
    size = settings.get("size")
    return Balance(
        size=size,
        js=settings.get("js"),
        halves=settings.get("halves", False),
        **{
            name: least_cap(rows, sides[name], len(rows) if size is None else size) if cap == "even" else cap
            for name, cap in caps.items()
        },
    )


def choose(rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], seed: int) -> Rows:
    """Candidates with the verdict of balancing: `kept` are the items, the others say why they are none.

    Args:
        rows: Rows of the filtered layout.
        settings: The instrument's entry in the study.
        seed: Seed of the order in which equals are preferred.
    """
    passed = [row for row in rows if row["kept"]]
    taken = balance(passed, wanted_balance(settings, passed), seed)
    return [
        {**row, "kept": False, "rejected": NOT_CHOSEN} if row["kept"] and row["item_id"] not in taken else dict(row)
        for row in rows
    ]


def items(rows: Iterable[Mapping[str, Any]], votes: Mapping[str, Mapping[str, Any]], voter: str | None) -> Rows:
    """Rows of the benchmark layout from the kept candidates.

    Args:
        rows: Rows of the filtered layout after balancing.
        votes: votes_caption, votes_foil, votes_other and valid by item id.
        voter: Who voted, `people` or `oracle`; None where nobody did.
    """
    names = BENCHMARK.schema.names
    found = []
    for row in rows:
        if row["kept"]:
            counted = {**votes[row["item_id"]], "voter": voter} if row["item_id"] in votes else NO_VOTES
            found.append({name: {**row, **counted, "release": None}[name] for name in names})
    return found
