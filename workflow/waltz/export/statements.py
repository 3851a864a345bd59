"""What is said of a data set in sentences, the same on its card and in its Croissant metadata."""

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import yaml

from waltz.core.schema import BENCHMARK
from waltz.export.facts import StudyFacts
from waltz.export.licences import UNKNOWN
from waltz.export.parts import Part, WrittenPart

pass

TAGS = ("vision-language", "foils", "image-sentence-alignment", "linguistic-phenomena", "VALSE", "benchmark")
USE_CASES = (
    "To test whether a vision-language model that sees an image prefers a true caption to a foil that differs in one"
    " phrase, phenomenon by phenomenon. Not meant for training."
)
VOTING_PROTOCOLS = {
    "people": "People saw the image and two numbered texts, caption and foil, and answered first, second, both, neither"
    " or cannot tell; the first two are votes, all else counts as other.",
    "oracle": "An oracle that knows what each drawn scene shows gave three equal votes on each item; no people voted.",
    "valse-release": "Three annotators saw each image with caption and foil; the counts of their votes are those of the"
    " VALSE release.",
}
PLATFORM = "Amazon Mechanical Turk"
"""Where the votes of the VALSE release come from."""


@dataclass(frozen=True)
class ValidityCounts:
    """Items of a part, and how many of them are valid, not valid, and without votes."""

    items: int
    valid: int
    invalid: int
    silent: int


@dataclass(frozen=True)
class Statements:
    """Sentences about a data set.

    Attributes:
        summary: What it is.
        languages: ISO 639 codes; `und` where a user's own texts are in it.
        tags: Words to find it by.
        licences: Licences of what is in it, as they are stated; `unknown` where one is not.
        citations: What to cite.
        parts: What each part is, by its name.
        common: Known faults of all parts.
        faults: Known faults of each part, by its name.
        responsible: Croissant's responsible-AI fields, without their prefix; those that are not known are missing.
    """

    summary: str
    languages: tuple[str, ...]
    tags: tuple[str, ...]
    licences: tuple[str, ...]
    citations: tuple[str, ...]
    parts: Mapping[str, str]
    common: tuple[str, ...]
    faults: Mapping[str, Sequence[str]]
    responsible: Mapping[str, Any]


def build_statements(facts: StudyFacts, written: Sequence[WrittenPart]) -> Statements:
    """All sentences about a data set of some parts."""
    parts = [entry.part for entry in written]
    used = [facts.sources[name] for name in dict.fromkeys(part.source for part in parts)]
    open_images = {part.source for part in parts if part.images is not None}
    licences = [source.terms.texts or UNKNOWN for source in used]
    licences += [source.terms.images or UNKNOWN for source in used if source.name in open_images]
    common = list_common_faults(parts, facts)
    faults = {entry.part.name: list_part_faults(entry) for entry in written}
    limits = [*common, *(f"{name}: {fault}" for name, found in faults.items() for fault in found)]
    return Statements(
        summary=_summary(facts, parts),
        languages=tuple(dict.fromkeys("und" if part.form == "pairs" else "en" for part in parts)),
        tags=TAGS,
        licences=tuple(dict.fromkeys(licences)),
        citations=tuple(dict.fromkeys(source.terms.citation for source in used if source.terms.citation)),
        parts={part.name: _told(part, facts) for part in parts},
        common=tuple(common),
        faults=faults,
        responsible=_responsible(facts, parts, limits),
    )


def count_validity(part: Part) -> ValidityCounts | None:
    """Items of a part by what the votes say; None where its layout has no votes."""
    if part.layout is not BENCHMARK:
        return None
    valid = part.items.column("valid")
    yes = pc.sum(valid).as_py() or 0
    return ValidityCounts(len(valid), yes, len(valid) - valid.null_count - yes, valid.null_count)


def _summary(facts: StudyFacts, parts: Sequence[Part]) -> str:
    pairs = sum(part.items.num_rows for part in parts if part.layout is BENCHMARK)
    probes = sum(part.items.num_rows for part in parts if part.layout is not BENCHMARK)
    said = (
        [f"{pairs:,} items, each an image with a caption and a foil, which differs from the caption in one phrase"]
        if pairs
        else []
    )
    said += (
        [f"{probes:,} items of CV-Probes, each an image beside a caption that names, or avoids, an action"]
        if probes
        else []
    )
    return (
        f"The benchmark of the study {facts.study}: {'; '.join(said)}. A model that understands image and text prefers"
        f" the caption that is true. Made with waltz, in {len(parts)} part{'' if len(parts) == 1 else 's'}."
    )


def _told(part: Part, facts: StudyFacts) -> str:
    source = facts.sources[part.source]
    number = part.items.num_rows
    if part.form == "valse-release":
        return f"{number:,} items of VALSE's instrument {part.name}, as they were released."
    if part.form == "pairs":
        return f"{number:,} pairs of the data set {part.name}, as its authors gave them."
    if part.form == "cv-probes":
        return f"{number:,} items of CV-Probes, built from {source.name} ({source.form})."
    entry = facts.instruments[part.name]
    splits = f", splits {', '.join(entry['splits'])}" if entry.get("splits") else ""
    filters = f"filters: {', '.join(entry['filters'])}" if entry["filters"] else "no filters"
    return (
        f"{number:,} items of the instrument {part.name}, built from {source.name} ({source.form}{splits}); {filters}."
    )


def _responsible(facts: StudyFacts, parts: Sequence[Part], limits: Sequence[str]) -> dict[str, Any]:
    used = [facts.sources[name] for name in dict.fromkeys(part.source for part in parts)]
    built = [part for part in parts if part.form in ("instrument", "cv-probes")]
    origins = "; ".join(f"{source.name} ({'drawn by waltz' if source.drawn else source.form})" for source in used)
    made = (
        " Captions were taken from their annotations, foils made from the captions by rules and models."
        if built
        else ""
    )
    kinds = ["Software Collection"] * any(source.drawn for source in used)
    kinds += ["Secondary Data Analysis"] * any(not source.drawn for source in used)
    silent = sum(found.silent for part in parts if (found := count_validity(part)))
    steps = [
        f"{part.name}: candidates were filtered by {', '.join(facts.instruments[part.name]['filters'])}."
        for part in built
        if part.form == "instrument" and facts.instruments[part.name]["filters"]
    ]
    biases = [f"{row['instrument']}: {row['warning']}." for row in facts.audit if row["warning"]]
    return {
        "dataCollection": f"From {origins}.{made}",
        "dataCollectionType": kinds,
        "dataCollectionMissingData": f"`valid` is null for {silent:,} items, on which nobody voted."
        if silent
        else None,
        "dataPreprocessingProtocol": steps,
        **_voting(facts, parts),
        "machineAnnotationTools": [f"{role}: {model}" for role, model in facts.models.items()] if built else [],
        "dataBiases": biases,
        "dataLimitations": list(limits),
        "dataUseCases": [USE_CASES],
        "personalSensitiveInformation": _personal(parts, facts),
    }


def _voting(facts: StudyFacts, parts: Sequence[Part]) -> dict[str, Any]:
    """Who voted, how often, and with what outcome."""
    voters: list[str] = []
    sums: set[int] = set()
    found = []
    for part in parts:
        numbers = count_validity(part)
        if numbers is None or numbers.silent == numbers.items:
            continue
        named = [voter for voter in pc.unique(part.items.column("voter")).to_pylist() if voter is not None]
        voters += named or (["valse-release"] if part.form == "valse-release" else ["people"])
        totals = pc.add(
            pc.add(part.items.column("votes_caption"), part.items.column("votes_foil")),
            part.items.column("votes_other"),
        )
        sums |= {total for total in pc.unique(totals).to_pylist() if total is not None}
        found.append(
            f"{part.name}: {numbers.valid:,} of {numbers.items - numbers.silent:,} items with votes are valid."
        )
    if not found:
        return {}
    rule = f"An item is valid with at least {facts.valid_votes} votes for the caption and fewer for the foil."
    return {
        "dataAnnotationProtocol": [*(VOTING_PROTOCOLS[voter] for voter in dict.fromkeys(voters)), rule],
        "dataAnnotationPlatform": [PLATFORM] if "valse-release" in voters else [],
        "dataAnnotationAnalysis": found,
        "annotationsPerItem": str(min(sums)) if len(sums) == 1 else f"{min(sums)} to {max(sums)}",
    }


def _personal(parts: Sequence[Part], facts: StudyFacts) -> list[str]:
    used = {part.source for part in parts}
    if all(facts.sources[name].drawn for name in used):
        return ["None: the images are drawn scenes."]
    return [
        "The images of the sources are photographs, many of them of people, who were not asked for this data set.",
        "Names of annotators are not part of it.",
    ]


FAULTS_FILE = Path(__file__).with_name("faults.yaml")
ODD_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]|  ")
MAX_LISTED_IMAGES = 5
"""Names of images that a sentence lists."""


def list_common_faults(parts: Sequence[Part], facts: StudyFacts) -> list[str]:
    """Faults that hold for all parts of a form, and ids that stand in several parts."""
    kinds = [part.form for part in parts] + ["drawn"] * any(source.drawn for source in facts.sources.values())
    found = [fault for kind in dict.fromkeys(kinds) for fault in _read_known_faults()[kind].get("all", [])]
    places: Counter[str] = Counter()
    for part in parts:
        places.update(part.items.column("item_id").to_pylist())
    shared = sum(count > 1 for count in places.values())
    if shared:
        found.append(f"In more than one part: {_many(shared, 'id')}. Name an item by its part and its id.")
    return found


def list_part_faults(written: WrittenPart) -> list[str]:
    """Faults of one part, in sentences: what its items show, then what is known of it."""
    part = written.part
    rows = part.items.drop_columns(["release"] if "release" in part.items.schema.names else []).to_pylist()
    found = [*_pairs(rows)] if "foil" in part.items.schema.names else []
    odd = sum(any(ODD_CHARACTERS.search(row.get(side, "")) for side in ("caption", "foil")) for row in rows)
    if odd:
        found.append(f"A text has a double blank, a line break or another control character in {_of(odd, rows)}.")
    images = Counter(row["image"] for row in rows)
    repeated = sum(count > 1 for count in images.values())
    if repeated:
        found.append(
            f"In more than one item, at most in {max(images.values())}: {_many(repeated, 'image')} of {len(images)}."
        )
    if written.faults:
        named = "; ".join(f"{fault.image} {fault.reason}" for fault in written.faults[:MAX_LISTED_IMAGES])
        more = "; …" if len(written.faults) > MAX_LISTED_IMAGES else ""
        found.append(f"Null, for they could not be opened: {_many(len(written.faults), 'image')} ({named}{more}).")
    return [*found, *_read_known_faults()[part.form].get(part.name, [])]


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
def _read_known_faults() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = yaml.safe_load(FAULTS_FILE.read_text(encoding="utf-8"))
    return found
