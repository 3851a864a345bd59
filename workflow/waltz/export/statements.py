"""Sentences about a data set for its card and its Croissant metadata: summary, licences, votes, faults, biases.

Faults are counted over the items or known beforehand (`faults.yaml`).
"""

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
from waltz.export.facts import UNKNOWN, SourceFacts, StudyFacts
from waltz.export.parts import Part, WrittenPart

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
RELEASE_PLATFORM = "Amazon Mechanical Turk"
"""Platform on which the votes of the VALSE release were collected."""

FAULTS_FILE = Path(__file__).with_name("faults.yaml")
ODD_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]|  ")
MAX_LISTED_IMAGES = 5
"""Number of images that a sentence lists by name."""


@dataclass(frozen=True)
class ValidityCounts:
    """Numbers of items of a part: all, valid, not valid, and without votes."""

    items: int
    valid: int
    invalid: int
    unvoted: int


@dataclass(frozen=True)
class Statements:
    """Sentences about a data set.

    Attributes:
        summary: Description of the data set.
        languages: ISO 639 codes; `und` if texts of a user are part of it.
        tags: Keywords.
        licences: Licences of the content as its sources state them; `unknown` where a source states none.
        citations: Citations of the sources.
        parts: Description of each part, by its name.
        common_faults: Known faults of all parts.
        faults: Known faults of each part, by its name.
        responsible: Croissant's responsible-AI fields, without their prefix; unknown ones are missing.
    """

    summary: str
    languages: tuple[str, ...]
    tags: tuple[str, ...]
    licences: tuple[str, ...]
    citations: tuple[str, ...]
    parts: Mapping[str, str]
    common_faults: tuple[str, ...]
    faults: Mapping[str, Sequence[str]]
    responsible: Mapping[str, Any]


def build_statements(facts: StudyFacts, written_parts: Sequence[WrittenPart]) -> Statements:
    """Build all sentences about a data set of some parts."""
    parts = [written_part.part for written_part in written_parts]
    sources = _list_sources(facts, parts)
    sources_with_images = {part.source for part in parts if part.images is not None}
    licences = [source.terms.texts or UNKNOWN for source in sources]
    licences += [source.terms.images or UNKNOWN for source in sources if source.name in sources_with_images]
    common_faults = list_common_faults(parts, facts)
    faults = {written_part.part.name: list_part_faults(written_part) for written_part in written_parts}
    limits = [*common_faults, *(f"{name}: {fault}" for name, part_faults in faults.items() for fault in part_faults)]
    return Statements(
        summary=_summarize(facts, parts),
        languages=tuple(dict.fromkeys("und" if part.form == "pairs" else "en" for part in parts)),
        tags=TAGS,
        licences=tuple(dict.fromkeys(licences)),
        citations=tuple(dict.fromkeys(source.terms.citation for source in sources if source.terms.citation)),
        parts={part.name: _describe_part(part, facts) for part in parts},
        common_faults=tuple(common_faults),
        faults=faults,
        responsible=_build_responsible_fields(facts, parts, limits),
    )


def count_validity(part: Part) -> ValidityCounts | None:
    """Count the items of a part by validity; None where its layout has no votes."""
    if part.layout is not BENCHMARK:
        return None
    column = part.items.column("valid")
    valid = pc.sum(column).as_py() or 0
    return ValidityCounts(len(column), valid, len(column) - column.null_count - valid, column.null_count)


def list_common_faults(parts: Sequence[Part], facts: StudyFacts) -> list[str]:
    """List the faults that hold for all parts of a form, and ids that occur in several parts."""
    forms = [part.form for part in parts] + ["drawn"] * any(source.drawn for source in facts.sources.values())
    faults = [fault for form in dict.fromkeys(forms) for fault in _read_known_faults()[form].get("all", [])]
    id_counts: Counter[str] = Counter()
    for part in parts:
        id_counts.update(part.items.column("item_id").to_pylist())
    shared = sum(count > 1 for count in id_counts.values())
    if shared:
        faults.append(f"In more than one part: {_count_noun(shared, 'id')}. Name an item by its part and its id.")
    return faults


def list_part_faults(written_part: WrittenPart) -> list[str]:
    """List the faults of one part in sentences: those counted over its items, then the known ones."""
    part = written_part.part
    rows = part.items.drop_columns(["release"] if "release" in part.items.schema.names else []).to_pylist()
    faults = _list_pair_faults(rows) if "foil" in part.items.schema.names else []
    odd = sum(any(ODD_CHARACTERS.search(row.get(side, "")) for side in ("caption", "foil")) for row in rows)
    if odd:
        faults.append(
            f"A text has a double space, a line break or another control character in {_count_items(odd, rows)}."
        )
    images = Counter(row["image"] for row in rows)
    repeated = sum(count > 1 for count in images.values())
    if repeated:
        faults.append(
            f"In more than one item, at most in {max(images.values())}:"
            f" {_count_noun(repeated, 'image')} of {len(images)}."
        )
    if written_part.faults:
        listed = "; ".join(f"{fault.image} {fault.reason}" for fault in written_part.faults[:MAX_LISTED_IMAGES])
        more = "; …" if len(written_part.faults) > MAX_LISTED_IMAGES else ""
        faults.append(
            f"Null because they could not be opened: {_count_noun(len(written_part.faults), 'image')} ({listed}{more})."
        )
    return [*faults, *_read_known_faults()[part.form].get(part.name, [])]


def _list_pair_faults(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the faults of caption-foil pairs that can be counted."""
    faults = []
    same_texts = [row for row in rows if row["caption"] == row["foil"]]
    if same_texts:
        valid = sum(row["valid"] is True for row in same_texts)
        faults.append(
            f"Caption and foil are the same text in {_count_items(len(same_texts), rows)}, {valid} of them valid."
        )
    pair_counts = Counter((row["image"], row["caption"], row["foil"]) for row in rows)
    repeated = sum(count - 1 for count in pair_counts.values())
    if repeated:
        faults.append(f"Image, caption and foil repeat those of an earlier item in {_count_items(repeated, rows)}.")
    unvoted = sum(row["valid"] is None for row in rows)
    if unvoted:
        faults.append(f"Nobody voted on {_count_items(unvoted, rows)}, so their validity is unknown.")
    invalid = sum(row["valid"] is False for row in rows)
    if invalid:
        faults.append(f"Not valid: {_count_items(invalid, rows)}. They are included, so that you can choose.")
    return faults


def _count_noun(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _count_items(count: int, rows: Sequence[object]) -> str:
    return f"{count} of {len(rows)} items"


@functools.cache
def _read_known_faults() -> dict[str, dict[str, list[str]]]:
    faults: dict[str, dict[str, list[str]]] = yaml.safe_load(FAULTS_FILE.read_text(encoding="utf-8"))
    return faults


def _list_sources(facts: StudyFacts, parts: Sequence[Part]) -> list[SourceFacts]:
    """Return the sources of some parts, each once."""
    return [facts.sources[name] for name in dict.fromkeys(part.source for part in parts)]


def _summarize(facts: StudyFacts, parts: Sequence[Part]) -> str:
    pairs = sum(part.items.num_rows for part in parts if part.layout is BENCHMARK)
    probes = sum(part.items.num_rows for part in parts if part.layout is not BENCHMARK)
    contents = []
    if pairs:
        contents.append(
            f"{pairs:,} items, each an image with a caption and a foil, which differs from the caption in one phrase"
        )
    if probes:
        contents.append(f"{probes:,} items of CV-Probes, each an image with a caption that names, or avoids, an action")
    return (
        f"The benchmark of the study {facts.study}: {'; '.join(contents)}. A model that understands image and text"
        f" prefers the caption that is true. Made with waltz, in {_count_noun(len(parts), 'part')}."
    )


def _describe_part(part: Part, facts: StudyFacts) -> str:
    source = facts.sources[part.source]
    number = part.items.num_rows
    if part.form == "valse-release":
        return f"{number:,} items of VALSE's instrument {part.name}, as they were released."
    if part.form == "pairs":
        return f"{number:,} pairs of the data set {part.name}, as its authors provided them."
    if part.form == "cv-probes":
        return f"{number:,} items of CV-Probes, built from {source.name} ({source.form})."
    entry = facts.instruments[part.name]
    splits = f", splits {', '.join(entry['splits'])}" if entry.get("splits") else ""
    filters = f"filters: {', '.join(entry['filters'])}" if entry["filters"] else "no filters"
    return (
        f"{number:,} items of the instrument {part.name}, built from {source.name} ({source.form}{splits}); {filters}."
    )


def _build_responsible_fields(facts: StudyFacts, parts: Sequence[Part], limits: Sequence[str]) -> dict[str, Any]:
    """Return Croissant's responsible-AI fields."""
    sources = _list_sources(facts, parts)
    built_parts = [part for part in parts if part.form in ("instrument", "cv-probes")]
    origins = "; ".join(f"{source.name} ({'drawn by waltz' if source.drawn else source.form})" for source in sources)
    construction = (
        " Captions were taken from their annotations, foils derived from the captions by rules and models."
        if built_parts
        else ""
    )
    collection_types = ["Software Collection"] * any(source.drawn for source in sources)
    collection_types += ["Secondary Data Analysis"] * any(not source.drawn for source in sources)
    unvoted = sum(counts.unvoted for part in parts if (counts := count_validity(part)))
    steps = [
        f"{part.name}: candidates were filtered by {', '.join(facts.instruments[part.name]['filters'])}."
        for part in built_parts
        if part.form == "instrument" and facts.instruments[part.name]["filters"]
    ]
    biases = [f"{row['instrument']}: {row['warning']}." for row in facts.audit if row["warning"]]
    return {
        "dataCollection": f"From {origins}.{construction}",
        "dataCollectionType": collection_types,
        "dataCollectionMissingData": f"`valid` is null for {unvoted:,} items, on which nobody voted."
        if unvoted
        else None,
        "dataPreprocessingProtocol": steps,
        **_build_annotation_fields(facts, parts),
        "machineAnnotationTools": [f"{role}: {model}" for role, model in facts.models.items()] if built_parts else [],
        "dataBiases": biases,
        "dataLimitations": list(limits),
        "dataUseCases": [USE_CASES],
        "personalSensitiveInformation": _list_personal_information(facts, parts),
    }


def _build_annotation_fields(facts: StudyFacts, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the fields about voters, numbers of votes and their outcome."""
    voters: list[str] = []
    votes_per_item: set[int] = set()
    outcomes = []
    for part in parts:
        counts = count_validity(part)
        if counts is None or counts.unvoted == counts.items:
            continue
        part_voters = [voter for voter in pc.unique(part.items.column("voter")).to_pylist() if voter is not None]
        voters += part_voters or (["valse-release"] if part.form == "valse-release" else ["people"])
        totals = pc.add(
            pc.add(part.items.column("votes_caption"), part.items.column("votes_foil")),
            part.items.column("votes_other"),
        )
        votes_per_item |= {total for total in pc.unique(totals).to_pylist() if total is not None}
        outcomes.append(
            f"{part.name}: {counts.valid:,} of {counts.items - counts.unvoted:,} items with votes are valid."
        )
    if not outcomes:
        return {}
    lowest, highest = min(votes_per_item), max(votes_per_item)
    rule = f"An item is valid with at least {facts.valid_votes} votes for the caption and fewer for the foil."
    return {
        "dataAnnotationProtocol": [*(VOTING_PROTOCOLS[voter] for voter in dict.fromkeys(voters)), rule],
        "dataAnnotationPlatform": [RELEASE_PLATFORM] if "valse-release" in voters else [],
        "dataAnnotationAnalysis": outcomes,
        "annotationsPerItem": str(lowest) if lowest == highest else f"{lowest} to {highest}",
    }


def _list_personal_information(facts: StudyFacts, parts: Sequence[Part]) -> list[str]:
    if all(source.drawn for source in _list_sources(facts, parts)):
        return ["None: the images are drawn scenes."]
    return [
        "The images of the sources are photographs, many of them of people, who were not asked for this data set.",
        "Names of annotators are not part of it.",
    ]
