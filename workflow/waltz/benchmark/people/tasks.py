"""What an annotator sees of an item: an image and two numbered texts, the caption first or second."""

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


@dataclass(frozen=True)
class MarkedText:
    """A text cut in three, of which the middle is shown in bold; it may be empty."""

    before: str
    marked: str
    after: str


@dataclass(frozen=True)
class Task:
    """One item as it is presented.

    Attributes:
        task: Name that tells an annotator neither the item nor which text is the caption.
        item_id: The item.
        image: URL of the image.
        first: Text 1.
        second: Text 2.
        caption_position: `first` or `second`.
    """

    task: str
    item_id: str
    image: str
    first: MarkedText
    second: MarkedText
    caption_position: str


def build_tasks(items: Sequence[Mapping[str, Any]], image_prefix: str, seed: int) -> list[Task]:
    """Tasks of one instrument's items, in the order of their names, which is that of no item.

    The caption stands first in half of the tasks (of an odd number, in one more), chosen by a seeded hash of
    the item ids.

    Args:
        items: Rows of the benchmark layout.
        image_prefix: What stands before the name of an image in its URL, final slash included; an image that
            is a URL already is left as it is.
        seed: Seed of positions and names.
    Raises:
        ValueError: An item id repeats.
    """
    order = sorted(_ids(items), key=lambda name: (rank(f"caption position:{name}", seed), name))
    caption_first = set(order[: (len(order) + 1) // 2])
    tasks = [_task(item, POSITIONS[item["item_id"] not in caption_first], image_prefix, seed) for item in items]
    return sorted(tasks, key=lambda task: task.task)


def index_presentations(items: Sequence[Mapping[str, Any]], seed: int) -> dict[str, tuple[str, str]]:
    """Item and caption position that the name of a task stands for.

    A name is a hash of seed, item, both texts and the position. So it is undone without a key file and whatever
    other items there are by now, and answers to texts that changed since are found to be of an unknown task.

    Returns:
        By task name: item id, `first` or `second`; both positions of each item.
    """
    return {
        compute_task_name(item, position, seed): (item["item_id"], position) for item in items for position in POSITIONS
    }


def compute_task_name(item: Mapping[str, Any], position: str, seed: int) -> str:
    """Name of a task: 20 hexadecimal digits."""
    return compute_opaque_name(seed, item["item_id"], item["caption"], item["foil"], position)


def compute_opaque_name(*parts: object) -> str:
    """20 hexadecimal digits of a hash of texts and numbers."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def build_image_url(image: str, prefix: str) -> str:
    """URL of an image: the prefix as given, then the name with what a URL cannot hold escaped."""
    return image if image.startswith(URL_SCHEMES) else prefix + quote(image)


def _ids(items: Sequence[Mapping[str, Any]]) -> list[str]:
    ids = [item["item_id"] for item in items]
    if len(set(ids)) != len(ids):
        raise ValueError("item ids repeat")
    return ids


def _task(item: Mapping[str, Any], position: str, image_prefix: str, seed: int) -> Task:
    caption_span, foil_span = find_changed_spans(item["caption"], item["foil"])
    caption = _marked(item["caption"], item["caption_span"] or caption_span)
    foil = _marked(item["foil"], item["foil_span"] or foil_span)
    first, second = (caption, foil) if position == "first" else (foil, caption)
    return Task(
        task=compute_task_name(item, position, seed),
        item_id=item["item_id"],
        image=build_image_url(item["image"], image_prefix),
        first=first,
        second=second,
        caption_position=position,
    )


def _marked(text: str, span: Span) -> MarkedText:
    return MarkedText(text[: span["start"]], text[span["start"] : span["end"]], text[span["end"] :])


NOT_ANSWERED = "not answered"


@dataclass(frozen=True)
class PlatformAnswer:
    """One annotator's answer to one task, as the platform tells it.

    Attributes:
        where: File and line or entry, for error messages.
        task: Name of the task.
        annotator: Who answered.
        answer: The answer as presented; empty where there is none that counts.
        reason: Why there is none, else empty.
    """

    where: str
    task: str
    annotator: str
    answer: str
    reason: str = ""


def render_bold_html(text: MarkedText) -> str:
    """A text as HTML, what differs in `<b>`."""
    before, marked, after = map(html.escape, (text.before, text.marked, text.after))
    return f"{before}<b>{marked}</b>{after}" if marked else before + after


def write_key(
    folder: str | Path, name: str, platform: str, seed: int, annotators: int, tasks: Sequence[Mapping[str, str]]
) -> Path:
    """Write `keys/<name>.json`.

    Args:
        folder: Folder of the task files.
        name: Name of the task file.
        platform: Where it is annotated.
        seed: Seed of the tasks.
        annotators: Answers wanted for each task, to be set on the platform.
        tasks: Name of each task and what it stands for.
    """
    key = {"platform": platform, "seed": seed, "annotators": annotators, "tasks": [dict(task) for task in tasks]}
    path = Path(folder) / "keys" / f"{name}.json"
    write_text(path, json.dumps(key, indent=1, ensure_ascii=False) + "\n")
    return path
