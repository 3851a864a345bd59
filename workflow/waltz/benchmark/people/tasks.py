"""Tasks of annotators: an image and two numbered texts, the caption first or second; their names, keys and answers."""

import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from waltz.benchmark.votes import POSITIONS
from waltz.core.files.atomic import write_text
from waltz.core.sampling import rank
from waltz.core.text_diff import Span, find_changed_spans

URL_SCHEMES = ("http://", "https://", "data:")
QUESTION = "Which text describes the image?"
NOT_ANSWERED = "not answered"


@dataclass(frozen=True)
class MarkedText:
    """Three parts of a text; the middle one is shown in bold and may be empty."""

    before: str
    marked: str
    after: str


@dataclass(frozen=True)
class Task:
    """Presentation of one item; the name `task` reveals neither the item nor which text is the caption."""

    task: str
    item_id: str
    image: str
    first: MarkedText
    second: MarkedText
    caption_position: str


@dataclass(frozen=True)
class PlatformAnswer:
    """Answer of one annotator to one task, as the platform exports it.

    Attributes:
        where: File and line or entry, for error messages.
        task: Name of the task.
        annotator: Name of the annotator.
        answer: The answer as presented; empty where none counts.
        reason: Why no answer counts, else empty.
    """

    where: str
    task: str
    annotator: str
    answer: str
    reason: str = ""


def build_tasks(items: Sequence[Mapping[str, Any]], image_prefix: str, seed: int) -> list[Task]:
    """Build the tasks of one instrument's items, in the order of their names, which is independent of the items' order.

    The caption comes first in half of the tasks (one more if their number is odd), by a seeded hash of the item ids.

    Args:
        image_prefix: Start of the URL before the name of an image, final slash included; an image that is a URL
            stays unchanged.
        seed: Seed of positions and names.
    """
    ids = {item["item_id"] for item in items}
    if len(ids) != len(items):
        raise ValueError("duplicate item ids; name each item once")
    shuffled_ids = sorted(ids, key=lambda name: (rank(f"caption position:{name}", seed), name))
    caption_first = set(shuffled_ids[: (len(shuffled_ids) + 1) // 2])
    tasks = [_build_task(item, POSITIONS[item["item_id"] not in caption_first], image_prefix, seed) for item in items]
    return sorted(tasks, key=lambda task: task.task)


def index_presentations(items: Sequence[Mapping[str, Any]], seed: int) -> dict[str, tuple[str, str]]:
    """Return the item and the caption position by task name, for both positions of each item.

    A name is a hash of seed, item, both texts and the position. It can be resolved without a key file and independently
    of other items, and answers to texts that have changed since the export belong to no known task.
    """
    return {
        compute_task_name(item, position, seed): (item["item_id"], position) for item in items for position in POSITIONS
    }


def compute_task_name(item: Mapping[str, Any], position: str, seed: int) -> str:
    """Return the name of a task: 20 hexadecimal digits."""
    return compute_opaque_name(seed, item["item_id"], item["caption"], item["foil"], position)


def compute_opaque_name(*parts: object) -> str:
    """Return 20 hexadecimal digits of a hash of texts and numbers."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def build_image_url(image: str, prefix: str) -> str:
    """Return the URL of an image: the unchanged prefix and the escaped name."""
    return image if image.startswith(URL_SCHEMES) else prefix + quote(image)


def _build_task(item: Mapping[str, Any], position: str, image_prefix: str, seed: int) -> Task:
    caption_span, foil_span = find_changed_spans(item["caption"], item["foil"])
    caption = _mark_span(item["caption"], item["caption_span"] or caption_span)
    foil = _mark_span(item["foil"], item["foil_span"] or foil_span)
    first, second = (caption, foil) if position == "first" else (foil, caption)
    return Task(
        task=compute_task_name(item, position, seed),
        item_id=item["item_id"],
        image=build_image_url(item["image"], image_prefix),
        first=first,
        second=second,
        caption_position=position,
    )


def _mark_span(text: str, span: Span) -> MarkedText:
    return MarkedText(text[: span["start"]], text[span["start"] : span["end"]], text[span["end"] :])


def render_bold_html(text: MarkedText) -> str:
    """Return a text as HTML with the marked part in `<b>`."""
    before, marked, after = map(html.escape, (text.before, text.marked, text.after))
    return f"{before}<b>{marked}</b>{after}" if marked else before + after


def write_key(
    folder: str | Path, name: str, platform: str, seed: int, annotators: int, tasks: Sequence[Mapping[str, str]]
) -> Path:
    """Write `keys/<name>.json`, which says what each task is; it is not for annotators."""
    key = {"platform": platform, "seed": seed, "annotators": annotators, "tasks": [dict(task) for task in tasks]}
    path = Path(folder) / "keys" / f"{name}.json"
    write_text(path, json.dumps(key, indent=1, ensure_ascii=False) + "\n")
    return path
