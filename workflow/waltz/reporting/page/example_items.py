"""Items of the example browser of the page: their texts, and further facts about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from waltz.core.files import parquet
from waltz.core.records import read_records
from waltz.core.schema import CONDITIONS, ItemRecord, ProbeRecord
from waltz.evaluation.settings import ALIGNMENT, MISMATCHED
from waltz.evaluation.vqa import VqaItem, select_vqa_items

VALIDITIES = {True: ("valid",), False: ("not valid",), None: ()}
"""Words for the field `valid` of an item."""
MATCHES = {True: "a match", False: "no match"}
"""Words for the field `match` of an item of CV-Probes."""


@dataclass(frozen=True)
class ExampleItem:
    """Item as the page shows it.

    Attributes:
        id: Name of the item.
        image: Path of its image; None for an item without an image.
        texts: Its texts by role.
        spans: First character of the exchanged words, and the character after them, by role.
        facts: Further facts about the item.
    """

    id: str
    image: str | None
    texts: Mapping[str, str]
    spans: Mapping[str, tuple[int, int]]
    facts: Sequence[str]


class QuestionSettings(TypedDict):
    """Entry of a data set of open questions in the study: number of questions, published draw."""

    size: int | None
    choice: NotRequired[str | None]


def read_example_items(
    datasets: Mapping[str, str],
    questions: Mapping[str, str],
    entries: Mapping[str, QuestionSettings],
    seed: int,
) -> dict[str, list[ExampleItem]]:
    """Return all items of each data set, by its name.

    Args:
        datasets: Parquet file of each data set of items, of `ItemRecord` or `ProbeRecord`.
        questions: Parquet file of the source of each data set of open questions.
        entries: Entry of each data set of open questions in the study.
        seed: Seed of the sample of questions.
    """
    items = {}
    for name, file in datasets.items():
        if parquet.read_schema(file).names == CONDITIONS.schema.names:
            items[name] = list(map(describe_probe, read_records(file, ProbeRecord)))
        else:
            items[name] = list(map(describe_pair, read_records(file, ItemRecord)))
    for name, file in questions.items():
        rows, entry = parquet.read_table(file).to_pylist(), entries[name]
        selected, _ = select_vqa_items(
            name, rows, entry["size"], seed, entry.get("choice")
        )
        items[name] = list(map(describe_question, selected))
    return items


def describe_pair(item: ItemRecord) -> ExampleItem:
    """Return a pair of a caption and a foil as the page shows it."""
    # An item of alignment has the caption of another image instead of a foil.
    foil_role = MISMATCHED if item.instrument == ALIGNMENT else "foil"
    spans = {}
    for role, span in (("caption", item.caption_span), ("foil", item.foil_span)):
        if span is not None and span.end > span.start:
            spans[role] = (span.start, span.end)
    facts = _list_facts(
        piece=item.piece,
        source=item.source,
        split=item.split,
        direction=item.direction,
    )
    facts += VALIDITIES[item.valid]
    votes = (item.votes_caption, item.votes_foil, item.votes_other)
    counts = [str(vote) for vote in votes if vote is not None]
    if counts:
        voters = item.voter or "people"
        facts.append(
            f"votes of {voters} for caption, foil, neither: {', '.join(counts)}"
        )
    texts = {"caption": item.caption, foil_role: item.foil}
    return ExampleItem(item.item_id, item.image, _drop_empty(texts), spans, facts)


def describe_question(item: VqaItem) -> ExampleItem:
    """Return an open question as the page shows it."""
    texts = _drop_empty({"question": item.question, "gold answer": item.answer})
    return ExampleItem(item.item_id, item.image, texts, {}, [])


def describe_probe(item: ProbeRecord) -> ExampleItem:
    """Return an item of CV-Probes as the page shows it."""
    facts = _list_facts(condition=item.condition, form=item.form, verb=item.verb)
    facts.append(MATCHES[item.match])
    texts = _drop_empty({"caption": item.caption})
    return ExampleItem(item.item_id, item.image, texts, {}, facts)


def _list_facts(**fields: str | None) -> list[str]:
    """Return the fields of an item that are not empty, each after its name."""
    return [f"{name} {value}" for name, value in _drop_empty(fields).items()]


def _drop_empty(texts: Mapping[str, str | None]) -> dict[str, str]:
    """Return the texts that are not empty, by name."""
    return {name: text for name, text in texts.items() if text}
