"""Sentences about a data set for its card and its Croissant metadata: summary, licenses, votes,
faults, biases.

Faults are counted over the items or known beforehand (`faults.yaml`).
"""

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from waltz.core.files.json_objects import JsonObject
from waltz.core.schema import BENCHMARK
from waltz.export.facts import UNKNOWN, BenchmarkFacts, SourceFacts
from waltz.export.parts import DatasetPart, WrittenPart
from waltz.sources.images import ImageFault

TAGS = (
    "vision-language",
    "foils",
    "image-sentence-alignment",
    "linguistic-phenomena",
    "VALSE",
    "benchmark",
)
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
LANGUAGES = {"pairs": "und"}
"""ISO 639 code of a part's texts by its form, unless it is English."""
MAX_LISTED_IMAGES = 5
"""Number of images that a sentence lists by name."""


@dataclass(frozen=True)
class ValidityCounts:
    """Hold the numbers of items of a part.

    Attributes:
        items: Number of all items.
        valid: Number of items that were voted valid.
        invalid: Number of items that were voted not valid.
        unvoted: Number of items without votes.
    """

    items: int
    valid: int
    invalid: int
    unvoted: int


@dataclass(frozen=True)
class Statements:
    """Hold the sentences about a data set.

    Attributes:
        summary: Description of the data set.
        languages: ISO 639 codes; `und` if texts of a user are part of it.
        tags: Keywords.
        licenses: Licenses of the content as its sources state them; `unknown` where a source states
            none.
        citations: Citations of the sources.
        parts: Description of each part, by its name.
        common_faults: Known faults of all parts.
        faults: Known faults of each part, by its name.
        responsible: Croissant's responsible-AI fields, without their prefix; unknown ones are
            missing.
    """

    summary: str
    languages: tuple[str, ...]
    tags: tuple[str, ...]
    licenses: tuple[str, ...]
    citations: tuple[str, ...]
    parts: Mapping[str, str]
    common_faults: tuple[str, ...]
    faults: Mapping[str, Sequence[str]]
    responsible: JsonObject


def build_statements(
    facts: BenchmarkFacts, written_parts: Sequence[WrittenPart]
) -> Statements:
    """Return all sentences about a data set, for its card and its metadata.

    Args:
        facts: Facts of the study.
        written_parts: Parts of the data set.
    """
    parts = [written_part.part for written_part in written_parts]
    sources = _list_sources(facts, parts)
    # Each statement once, in the order of the sources.
    citations = [source.terms.citation for source in sources if source.terms.citation]
    # The language of a user's pairs is not known.
    languages = [LANGUAGES.get(part.form, "en") for part in parts]

    common_faults = list_common_faults(parts, facts)
    faults = {
        written_part.part.name: list_part_faults(written_part)
        for written_part in written_parts
    }
    # Croissant has one list for all parts, so each fault names its part.
    limits = list(common_faults)
    for name, part_faults in faults.items():
        limits += [f"{name}: {fault}" for fault in part_faults]

    return Statements(
        summary=_summarize(facts, parts),
        languages=tuple(dict.fromkeys(languages)),
        tags=TAGS,
        licenses=_list_licenses(sources, parts),
        citations=tuple(dict.fromkeys(citations)),
        parts={part.name: _describe_part(part, facts) for part in parts},
        common_faults=tuple(common_faults),
        faults=faults,
        responsible=_build_responsible_fields(facts, parts, limits),
    )


def _list_licenses(
    sources: Sequence[SourceFacts], parts: Sequence[DatasetPart]
) -> tuple[str, ...]:
    """Return the licenses of the sources' texts, then of the images that are included, each once."""
    sources_with_images = {part.source for part in parts if part.images is not None}
    text_licenses: list[str | None] = []
    image_licenses: list[str | None] = []
    for source in sources:
        text_licenses.append(source.terms.texts)
        if source.name in sources_with_images:
            image_licenses.append(source.terms.images)
    stated = [license or UNKNOWN for license in text_licenses + image_licenses]
    return tuple(dict.fromkeys(stated))


def count_validity(part: DatasetPart) -> ValidityCounts | None:
    """Return numbers of items of a part by validity; None if its layout has no votes."""
    if part.layout is not BENCHMARK:
        return None
    column = part.items.column("valid")
    # The sum of no values is null.
    valid = pc.sum(column).as_py() or 0
    unvoted = column.null_count
    return ValidityCounts(len(column), valid, len(column) - unvoted - valid, unvoted)


def list_common_faults(
    parts: Sequence[DatasetPart], facts: BenchmarkFacts
) -> list[str]:
    """List the faults that hold for all parts of a form, and ids that occur in several parts."""
    # `faults.yaml` lists known faults by form, and those of drawn scenes.
    forms = [part.form for part in parts]
    if any(source.is_drawn for source in facts.sources.values()):
        forms.append("drawn")
    faults = []
    for form in dict.fromkeys(forms):
        faults += _read_known_faults()[form].get("all", [])

    id_counts: Counter[str] = Counter()
    for part in parts:
        id_counts.update(part.items.column("item_id").to_pylist())
    # Number of ids, not of items.
    n_shared = sum(count > 1 for count in id_counts.values())
    if n_shared:
        faults.append(
            f"In more than one part: {_count_noun(n_shared, 'id')}. Name an item by its part and its id."
        )
    return faults


def list_part_faults(written_part: WrittenPart) -> list[str]:
    """Return the faults of one part in sentences: first faults that are counted over its items,
    then known faults.
    """
    part = written_part.part
    items = part.items
    faults = []
    counts = count_validity(part)
    if counts is not None:  # CV-Probes have neither foils nor votes
        faults += _list_pair_faults(items, counts)
    n_odd = _count_odd_items(items)
    if n_odd:
        faults.append(
            f"A text has a double space, a line break or another control character in {_count_items(n_odd, items)}."
        )
    # Items with one image are not independent.
    images = Counter(items.column("image").to_pylist())
    n_repeated = sum(count > 1 for count in images.values())
    if n_repeated:
        faults.append(
            f"In more than one item, at most in {max(images.values())}:"
            f" {_count_noun(n_repeated, 'image')} of {len(images)}."
        )
    if written_part.faults:
        faults.append(_describe_broken_images(written_part.faults))
    return [*faults, *_read_known_faults()[part.form].get(part.name, [])]


def _count_odd_items(items: pa.Table) -> int:
    """Return the number of items whose caption or foil has a double space or a control character."""
    names = [name for name in ("caption", "foil") if name in items.schema.names]
    count = 0
    for texts in items.select(names).to_pylist():
        count += any(map(ODD_CHARACTERS.search, texts.values()))
    return count


def _describe_broken_images(faults: Sequence[ImageFault]) -> str:
    listed = "; ".join(
        f"{fault.image} {fault.reason}" for fault in faults[:MAX_LISTED_IMAGES]
    )
    if len(faults) > MAX_LISTED_IMAGES:
        listed += "; …"
    return f"Null because they could not be opened: {_count_noun(len(faults), 'image')} ({listed})."


def _list_pair_faults(items: pa.Table, counts: ValidityCounts) -> list[str]:
    """List the faults of caption-foil pairs that can be counted."""
    faults = []
    is_same = pc.equal(items.column("caption"), items.column("foil"))
    n_same = pc.sum(is_same).as_py()
    if n_same:
        is_valid = pc.fill_null(items.column("valid"), False)
        n_valid = pc.sum(pc.and_(is_same, is_valid)).as_py()
        faults.append(
            f"Caption and foil are the same text in {_count_items(n_same, items)}, {n_valid} of them valid."
        )
    # Every repetition counts, the first occurrence does not.
    n_distinct = items.group_by(["image", "caption", "foil"]).aggregate([]).num_rows
    n_repeated = items.num_rows - n_distinct
    if n_repeated:
        faults.append(
            f"Image, caption and foil repeat those of an earlier item in {_count_items(n_repeated, items)}."
        )
    if counts.unvoted:
        faults.append(
            f"Nobody voted on {_count_items(counts.unvoted, items)}, so their validity is unknown."
        )
    if counts.invalid:
        faults.append(
            f"Not valid: {_count_items(counts.invalid, items)}. They are included, so that you can choose."
        )
    return faults


def _count_noun(count: int, noun: str) -> str:
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}s"


def _count_items(count: int, items: pa.Table) -> str:
    return f"{count} of {items.num_rows} items"


@functools.cache
def _read_known_faults() -> dict[str, dict[str, list[str]]]:
    faults: dict[str, dict[str, list[str]]] = yaml.safe_load(
        FAULTS_FILE.read_text(encoding="utf-8")
    )
    return faults


def _list_sources(
    facts: BenchmarkFacts, parts: Sequence[DatasetPart]
) -> list[SourceFacts]:
    """Return the sources of some parts, each once."""
    return [
        facts.sources[name] for name in dict.fromkeys(part.source for part in parts)
    ]


def _summarize(facts: BenchmarkFacts, parts: Sequence[DatasetPart]) -> str:
    pairs, probes = 0, 0
    for part in parts:
        if part.layout is BENCHMARK:
            pairs += part.items.num_rows
        else:
            probes += part.items.num_rows
    contents = []
    if pairs:
        contents.append(
            f"{pairs:,} items, each an image with a caption and a foil, which differs from the caption in one phrase"
        )
    if probes:
        contents.append(
            f"{probes:,} items of CV-Probes, each an image with a caption that names, or avoids, an action"
        )
    return (
        f"The benchmark of the study {facts.study}: {'; '.join(contents)}. A model that understands image and text"
        f" prefers the caption that is true. Made with waltz, in {_count_noun(len(parts), 'part')}."
    )


def _describe_part(part: DatasetPart, facts: BenchmarkFacts) -> str:
    source = facts.sources[part.source]
    number = part.items.num_rows
    if part.form == "valse-release":
        return f"{number:,} items of VALSE's instrument {part.name}, as they were released."
    if part.form == "pairs":
        return f"{number:,} pairs of the data set {part.name}, as its authors provided them."
    if part.form == "cv-probes":
        return (
            f"{number:,} items of CV-Probes, built from {source.name} ({source.form})."
        )
    entry = facts.instruments[part.name]
    splits = ""
    if entry.get("splits"):
        splits = f", splits {', '.join(entry['splits'])}"
    filters = "no filters"
    if entry["filters"]:
        filters = f"filters: {', '.join(entry['filters'])}"
    return (
        f"{number:,} items of the instrument {part.name}, "
        f"built from {source.name} ({source.form}{splits}); {filters}."
    )


def _build_responsible_fields(
    facts: BenchmarkFacts, parts: Sequence[DatasetPart], limits: Sequence[str]
) -> JsonObject:
    """Return Croissant's responsible-AI fields; fields without a value are empty or None."""
    sources = _list_sources(facts, parts)
    built_parts = [part for part in parts if part.form in ("instrument", "cv-probes")]
    origins = "; ".join(map(_describe_origin, sources))
    construction = ""
    tools = []
    if built_parts:
        tools = [f"{role}: {model}" for role, model in facts.models.items()]
        construction = (
            " Captions were taken from their annotations, "
            "foils derived from the captions by rules and models."
        )
    return {
        "dataCollection": f"From {origins}.{construction}",
        "dataCollectionType": _list_collection_types(sources),
        "dataCollectionMissingData": _describe_missing_votes(parts),
        "dataPreprocessingProtocol": _list_filters(facts, built_parts),
        **_build_annotation_fields(facts, parts),
        "machineAnnotationTools": tools,
        "dataBiases": [
            f"{record.instrument}: {record.warning}."
            for record in facts.audit
            if record.warning
        ],
        "dataLimitations": list(limits),
        "dataUseCases": [USE_CASES],
        "personalSensitiveInformation": _list_personal_information(facts, parts),
    }


def _describe_origin(source: SourceFacts) -> str:
    if source.is_drawn:
        return f"{source.name} (drawn by waltz)"
    return f"{source.name} ({source.form})"


def _list_collection_types(sources: Sequence[SourceFacts]) -> list[str]:
    n_drawn = sum(source.is_drawn for source in sources)
    types = []
    if n_drawn > 0:
        types.append("Software Collection")
    if n_drawn < len(sources):
        types.append("Secondary Data Analysis")
    return types


def _describe_missing_votes(parts: Sequence[DatasetPart]) -> str | None:
    n_unvoted = 0
    for part in parts:
        counts = count_validity(part)
        if counts is not None:
            n_unvoted += counts.unvoted
    if n_unvoted == 0:
        return None
    return f"`valid` is null for {n_unvoted:,} items, on which nobody voted."


def _list_filters(
    facts: BenchmarkFacts, built_parts: Sequence[DatasetPart]
) -> list[str]:
    steps = []
    for part in built_parts:
        if part.form != "instrument":
            continue
        filters = facts.instruments[part.name]["filters"]
        if filters:
            steps.append(
                f"{part.name}: candidates were filtered by {', '.join(filters)}."
            )
    return steps


def _build_annotation_fields(
    facts: BenchmarkFacts, parts: Sequence[DatasetPart]
) -> JsonObject:
    """Return the fields about voters, numbers of votes and their outcome; empty if nobody voted."""
    voters: list[str] = []
    votes_per_item: set[int] = set()
    outcomes = []
    for part in parts:
        counts = count_validity(part)
        if counts is None or counts.unvoted == counts.items:
            continue
        voters += _list_voters(part)
        votes_per_item |= _list_vote_totals(part.items)
        outcomes.append(
            f"{part.name}: {counts.valid:,} of {counts.items - counts.unvoted:,} items with votes are valid."
        )
    if not outcomes:
        return {}
    # Numbers of votes that an item may have.
    lowest, highest = min(votes_per_item), max(votes_per_item)
    n_votes = str(lowest)
    if lowest < highest:
        n_votes += f" to {highest}"
    platforms = []
    if "valse-release" in voters:
        platforms.append(RELEASE_PLATFORM)
    protocols = [VOTING_PROTOCOLS[voter] for voter in dict.fromkeys(voters)]
    rule = f"An item is valid with at least {facts.valid_votes} votes for the caption and fewer for the foil."
    return {
        "dataAnnotationProtocol": [*protocols, rule],
        "dataAnnotationPlatform": platforms,
        "dataAnnotationAnalysis": outcomes,
        "annotationsPerItem": n_votes,
    }


def _list_voters(part: DatasetPart) -> list[str]:
    """Return the voters of a part with votes; unnamed voters are the release's workers or people."""
    named: list[str] = part.items.column("voter").drop_null().unique().to_pylist()
    if named:
        return named
    if part.form == "valse-release":
        return ["valse-release"]
    return ["people"]


def _list_vote_totals(items: pa.Table) -> set[int]:
    """Return the numbers of votes that items have."""
    # Null where nobody voted, and so is the sum.
    votes_for_texts = pc.add(items.column("votes_caption"), items.column("votes_foil"))
    totals = pc.add(votes_for_texts, items.column("votes_other"))
    return set(totals.drop_null().to_pylist())


def _list_personal_information(
    facts: BenchmarkFacts, parts: Sequence[DatasetPart]
) -> list[str]:
    if all(source.is_drawn for source in _list_sources(facts, parts)):
        return ["None: the images are drawn scenes."]
    return [
        "The images of the sources are photographs, many of them of people, who were not asked for this data set.",
        "Names of annotators are not part of it.",
    ]
