"""What the licence of a source allows; the licences themselves are data, in `licences.yaml` beside this file."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from waltz.core.errors import UserError

LICENCES_FILE = Path(__file__).with_name("licences.yaml")
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Licence:
    """A known licence.

    Attributes:
        name: Its SPDX identifier.
        hub: Its identifier on the Hugging Face hub.
        url: Its text.
        embed: Whether images under it may be passed on inside a data set.
    """

    name: str
    hub: str
    url: str
    embed: bool


@dataclass(frozen=True)
class Terms:
    """What is known of the terms of one source.

    Attributes:
        texts: Licence of its annotations, as its origin or the study states it; None where nobody does.
        images: Licence of its images; None where it is not known.
        citation: What to cite.
        kept_out: Why its images stay out of an export; None where they may be passed on.
    """

    texts: str | None
    images: str | None
    citation: str | None
    kept_out: str | None


def find_licence(stated: str | None) -> Licence | None:
    """The known licence that a text names ("CC BY 4.0", "cc-by-4.0"); None where it names none."""
    return None if stated is None else _known().get(_normal(stated))


def get_hub_name(stated: str | None) -> str:
    """The hub's identifier of a stated licence: `other` for one not known here, `unknown` where none is stated."""
    if stated is None:
        return UNKNOWN
    known = find_licence(stated)
    return known.hub if known else "other"


def read_terms(source: Mapping[str, Any]) -> Terms:
    """The terms of one source of a study.

    Args:
        source: Its entry: format, files, and where given licence, citation and images (whose own `licence` overrules).
    Raises:
        UserError: `licences.yaml` says nothing of the format's images.
    """
    data = _data()
    given = source.get("images", {})
    given = given[0] if isinstance(given, list) else given  # the places of one source's images share their terms
    drawn = data["drawn"]
    is_drawn = any("drawn" in file for file in (given, *source["files"].values()))
    texts = source.get("licence") or (drawn["texts"] if is_drawn else None)
    citation = source.get("citation") or (drawn["citation"] if is_drawn else None)
    if "licence" in given:
        images, reason = given["licence"], None
    elif "drawn" in given:
        images, reason = drawn["images"], None
    elif source["format"] not in data["images"]:
        raise UserError(
            f"{LICENCES_FILE.name}: images: no entry for the format {source['format']};"
            " state whether the source's licence covers its images"
        )
    else:
        reason = data["images"][source["format"]]
        images = texts if reason is None else None
    return Terms(texts, images, citation, _kept_out(images, reason, "images" in source))


def _kept_out(images: str | None, reason: str | None, given: bool) -> str | None:
    """Why images may not be passed on, if so."""
    if reason is not None:
        return reason
    if not given:
        return "the study names no images"
    if images is None:
        return "no licence is stated"
    known = find_licence(images)
    if known is None:
        return f"the licence {images!r} is not among the known ones"
    return None if known.embed else f"{known.name} allows it for some uses only"


@functools.cache
def _data() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(LICENCES_FILE.read_text(encoding="utf-8"))
    return found


@functools.cache
def _known() -> dict[str, Licence]:
    return {
        _normal(name): Licence(entry["name"], entry["hub"], entry["url"], entry["embed"])
        for entry in _data()["licences"]
        for name in (entry["name"], *entry["names"])
    }


def _normal(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", " ", name.casefold()).strip().removeprefix("the ")
