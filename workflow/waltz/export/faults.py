"""Faults of a benchmark's parts: those that can be counted, and those that are known (`faults.yaml`)."""

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from waltz.export.facts import Facts
from waltz.export.parts import Part, WrittenPart

FILE = Path(__file__).with_name("faults.yaml")
ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]|  ")
SHOWN = 5
"""Names of images that a sentence lists."""


def common_faults(parts: Sequence[Part], facts: Facts) -> list[str]:
    """Faults that hold for all parts of a form, and ids that stand in several parts."""
    kinds = [part.form for part in parts] + ["drawn"] * any(source.drawn for source in facts.sources.values())
    found = [fault for kind in dict.fromkeys(kinds) for fault in _known()[kind].get("all", [])]
    places: Counter[str] = Counter()
    for part in parts:
        places.update(part.items.column("item_id").to_pylist())
    shared = sum(count > 1 for count in places.values())
    if shared:
        found.append(f"In more than one part: {_many(shared, 'id')}. Name an item by its part and its id.")
    return found


def faults_of(written: WrittenPart) -> list[str]:
    """Faults of one part, in sentences: what its items show, then what is known of it."""
    part = written.part
    rows = part.items.drop_columns(["release"] if "release" in part.items.schema.names else []).to_pylist()
    found = [*_pairs(rows)] if "foil" in part.items.schema.names else []
    odd = sum(any(ODD.search(row.get(side, "")) for side in ("caption", "foil")) for row in rows)
    if odd:
        found.append(f"A text has a double blank, a line break or another control character in {_of(odd, rows)}.")
    images = Counter(row["image"] for row in rows)
    repeated = sum(count > 1 for count in images.values())
    if repeated:
        found.append(
            f"In more than one item, at most in {max(images.values())}: {_many(repeated, 'image')} of {len(images)}."
        )
    if written.faults:
        named = "; ".join(f"{fault.image} {fault.reason}" for fault in written.faults[:SHOWN])
        more = "; …" if len(written.faults) > SHOWN else ""
        found.append(f"Null, for they could not be opened: {_many(len(written.faults), 'image')} ({named}{more}).")
    return [*found, *_known()[part.form].get(part.name, [])]


def _pairs(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    same = [row for row in rows if row["caption"] == row["foil"]]
    if same:
        valid = sum(row["valid"] is True for row in same)
        found.append(f"Caption and foil are the same text in {_of(len(same), rows)}, {valid} of them valid.")
    twice = Counter((row["image"], row["caption"], row["foil"]) for row in rows)
    again = sum(count - 1 for count in twice.values())
    if again:
        found.append(f"Image, caption and foil are those of an item before in {_of(again, rows)}.")
    silent = sum(row["valid"] is None for row in rows)
    if silent:
        found.append(f"Nobody voted on {_of(silent, rows)}, so that nothing is known of their validity.")
    invalid = sum(row["valid"] is False for row in rows)
    if invalid:
        found.append(f"Not valid: {_of(invalid, rows)}. They are kept, so that you can choose.")
    return found


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _of(count: int, rows: Sequence[object]) -> str:
    return f"{count} of {len(rows)} items"


@functools.cache
def _known() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found
