"""Tasks of annotators: an image and two numbered texts, of which either may be the caption; their
names and keys.
"""

import hashlib
import html
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import quote

from waltz.benchmark.votes import POSITIONS
from waltz.core.files.atomic import write_text
from waltz.core.sampling import rank
from waltz.core.schema import PairRecord, StoredSpan
from waltz.core.text_diff import find_changed_spans

URL_SCHEMES = ("http://", "https://", "data:")
INSTRUCTION = (
    "You will see a series of images, each accompanied by two short texts. Your task is to judge which of the two texts"
    " accurately describes what can be seen in the image."
)
"""General instruction of the annotators, as thesis A.3 states it; the templates have it, too."""
QUESTION = (
    "Which of the two sentences accurately describes what can be seen in the image?"
)
"""Question of a task, as thesis A.3 states it; the templates have it, too."""
NOT_ANSWERED = "not answered"
UNSET_WORDS = {"", "0", "false", "no", "off", "null", "none", "nan"}
"""Texts, in small letters, by which tables say that something does not hold."""


@dataclass(frozen=True)
class MarkedText:
    """A text in three parts; the middle part is shown in bold and may be empty."""

    before: str
    marked: str
    after: str


@dataclass(frozen=True)
class Task:
    """The presentation of one item; its name `task` reveals neither the item nor which text is the
    caption.
    """

    task: str
    item_id: str
    image: str
    first: MarkedText
    second: MarkedText
    caption_position: str


@dataclass(frozen=True)
class PlatformAnswer:
    """The answer of one annotator to one task, as the platform exports it.

    Attributes:
        location: File and line or entry, for error messages.
        task: Name of the task.
        annotator: Key of the annotator on the platform.
        answer: The answer, by the order of presentation; empty where no answer counts.
        reason: Why no answer counts, else empty.
        second_key: Another key of the same annotator, such as an e-mail address next to a number;
            else empty.
        record: Id of the answer on the platform; empty where the export has none.
        replaces: Id of the answer that this one revises, else empty.
        time: When the answer was last changed; None where the export does not say.
    """

    location: str
    task: str
    annotator: str
    answer: str
    reason: str = ""
    second_key: str = ""
    record: str = ""
    replaces: str = ""
    time: datetime | None = None


def build_tasks(
    items: Sequence[PairRecord], image_prefix: str, seed: int
) -> list[Task]:
    """Build the tasks of the items of one instrument, sorted by name; the order of the items makes
    no difference.

    A seeded hash of the item ids selects the half of the tasks (rounded up) in which the caption
    comes first.

    Args:
        image_prefix: Start of the URL before the name of an image, final slash included; an image
            that is a URL stays unchanged.
        seed: Seed of positions and names.
    """
    ids = {item.item_id for item in items}
    if len(ids) != len(items):
        raise ValueError("duplicate item ids; name each item once")
    # The order depends on the ids and the seed alone, not on the order of the items.
    shuffled_ids = sorted(
        ids, key=lambda name: (rank(f"caption position:{name}", seed), name)
    )
    n_caption_first = (len(shuffled_ids) + 1) // 2
    caption_first = set(shuffled_ids[:n_caption_first])
    tasks = []
    for item in items:
        position = "first" if item.item_id in caption_first else "second"
        tasks.append(_build_task(item, position, image_prefix, seed))
    # Names are hashes, so their order tells annotators nothing.
    return sorted(tasks, key=lambda task: task.task)


def index_presentations(
    items: Sequence[PairRecord], seed: int
) -> dict[str, tuple[str, str]]:
    """Return for each task name its item id and the position of the caption; each item has two
    names.

    A name is a hash of seed, item id, both texts and the position of the caption. So it is resolved
    without a key file and without the other items, and an answer to a text that has changed since
    the export matches no task.
    """
    presentations = {}
    for item in items:
        for position in POSITIONS:
            name = compute_task_name(item, position, seed)
            presentations[name] = (item.item_id, position)
    return presentations


def compute_task_name(item: PairRecord, position: str, seed: int) -> str:
    """Return the name of a task: 20 hexadecimal digits."""
    return compute_opaque_name(seed, item.item_id, item.caption, item.foil, position)


def compute_opaque_name(*parts: object) -> str:
    """Return 20 hexadecimal digits of a hash of texts and numbers."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def is_set(value: object) -> bool:
    """Return whether a flag of an export holds, which may be a text such as `False`."""
    return value is not None and str(value).strip().lower() not in UNSET_WORDS


def read_time(value: object) -> datetime | None:
    """Return a time of an export, of ISO 8601 or as `Mon Nov 02 07:00:00 PST 2026`; without a zone it is UTC.

    Other values give None.
    """
    if not isinstance(value, str):
        return None
    time = None
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError):
            time = time or parse(value)
    if time is not None and time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    return time


def build_image_url(image: str, prefix: str) -> str:
    """Return the URL of an image: prefix and escaped name; an image that is a URL stays unchanged."""
    if image.startswith(URL_SCHEMES):
        return image
    return prefix + quote(image)


def _build_task(item: PairRecord, position: str, image_prefix: str, seed: int) -> Task:
    # Spans of the item mark what was exchanged; without them, the words that differ are marked.
    caption_span, foil_span = find_changed_spans(item.caption, item.foil)
    caption = _mark_span(item.caption, item.caption_span or StoredSpan(**caption_span))
    foil = _mark_span(item.foil, item.foil_span or StoredSpan(**foil_span))
    first, second = (caption, foil) if position == "first" else (foil, caption)
    return Task(
        task=compute_task_name(item, position, seed),
        item_id=item.item_id,
        image=build_image_url(item.image, image_prefix),
        first=first,
        second=second,
        caption_position=position,
    )


def _mark_span(text: str, span: StoredSpan) -> MarkedText:
    return MarkedText(
        before=text[: span.start],
        marked=text[span.start : span.end],
        after=text[span.end :],
    )


def render_bold_html(text: MarkedText) -> str:
    """Return a text as HTML, with its middle part in `<b>`."""
    before = html.escape(text.before)
    after = html.escape(text.after)
    if not text.marked:
        return before + after
    return f"{before}<b>{html.escape(text.marked)}</b>{after}"


def write_key(
    folder: str | Path,
    name: str,
    platform: str,
    seed: int,
    annotators: int,
    tasks: Sequence[dict[str, str]],
) -> Path:
    """Write `keys/<name>.json`, which says which item each task shows; annotators must not see it."""
    key = {
        "platform": platform,
        "seed": seed,
        "annotators": annotators,
        "tasks": tasks,
    }
    path = Path(folder) / "keys" / f"{name}.json"
    write_text(path, json.dumps(key, indent=1, ensure_ascii=False) + "\n")
    return path
