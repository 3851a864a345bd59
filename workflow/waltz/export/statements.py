"""What is said of a data set in sentences, the same on its card and in its Croissant metadata."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from waltz.core.schema import BENCHMARK
from waltz.export.facts import Facts
from waltz.export.faults import common_faults, faults_of
from waltz.export.licences import UNKNOWN
from waltz.export.parts import Part, WrittenPart

TAGS = ("vision-language", "foils", "image-sentence-alignment", "linguistic-phenomena", "VALSE", "benchmark")
USES = (
    "To test whether a vision-language model that sees an image prefers a true caption to a foil that differs in one"
    " phrase, phenomenon by phenomenon. Not meant for training."
)
PROTOCOLS = {
    "people": "People saw the image and two numbered texts, caption and foil, and answered first, second, both, neither"
    " or cannot tell; the first two are votes, all else counts as other.",
    "oracle": "An oracle that knows what each drawn scene shows gave three equal votes on each item; no people voted.",
    "valse-release": "Three annotators saw each image with caption and foil; the counts of their votes are those of the"
    " VALSE release.",
}
PLATFORM = "Amazon Mechanical Turk"
"""Where the votes of the VALSE release come from."""


@dataclass(frozen=True)
class Counts:
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


def statements(facts: Facts, written: Sequence[WrittenPart]) -> Statements:
    """All sentences about a data set of some parts."""
    parts = [entry.part for entry in written]
    used = [facts.sources[name] for name in dict.fromkeys(part.source for part in parts)]
    open_images = {part.source for part in parts if part.images is not None}
    licences = [source.terms.texts or UNKNOWN for source in used]
    licences += [source.terms.images or UNKNOWN for source in used if source.name in open_images]
    common = common_faults(parts, facts)
    faults = {entry.part.name: faults_of(entry) for entry in written}
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


def counts(part: Part) -> Counts | None:
    """Items of a part by what the votes say; None where its layout has no votes."""
    if part.layout is not BENCHMARK:
        return None
    valid = part.items.column("valid")
    yes = pc.sum(valid).as_py() or 0
    return Counts(len(valid), yes, len(valid) - valid.null_count - yes, valid.null_count)


def _summary(facts: Facts, parts: Sequence[Part]) -> str:
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


def _told(part: Part, facts: Facts) -> str:
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


def _responsible(facts: Facts, parts: Sequence[Part], limits: Sequence[str]) -> dict[str, Any]:
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
    silent = sum(found.silent for part in parts if (found := counts(part)))
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
        "dataUseCases": [USES],
        "personalSensitiveInformation": _personal(parts, facts),
    }


def _voting(facts: Facts, parts: Sequence[Part]) -> dict[str, Any]:
    """Who voted, how often, and with what outcome."""
    voters: list[str] = []
    sums: set[int] = set()
    found = []
    for part in parts:
        numbers = counts(part)
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
        "dataAnnotationProtocol": [*(PROTOCOLS[voter] for voter in dict.fromkeys(voters)), rule],
        "dataAnnotationPlatform": [PLATFORM] if "valse-release" in voters else [],
        "dataAnnotationAnalysis": found,
        "annotationsPerItem": str(min(sums)) if len(sums) == 1 else f"{min(sums)} to {max(sums)}",
    }


def _personal(parts: Sequence[Part], facts: Facts) -> list[str]:
    used = {part.source for part in parts}
    if all(facts.sources[name].drawn for name in used):
        return ["None: the images are drawn scenes."]
    return [
        "The images of the sources are photographs, many of them of people, who were not asked for this data set.",
        "Names of annotators are not part of it.",
    ]
