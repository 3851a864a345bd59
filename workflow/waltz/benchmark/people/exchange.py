"""Items out to people, and their answers back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from waltz.benchmark.people import doccano, labelstudio, turk
from waltz.benchmark.people.tasks import build_tasks, index_presentations, write_key
from waltz.benchmark.votes import ANSWERS
from waltz.core.errors import UserError

PLATFORMS: dict[str, ModuleType] = {"mturk": turk, "label-studio": labelstudio, "doccano": doccano}


@dataclass(frozen=True)
class ImportedAnnotations:
    """Answers that count, and those that do not.

    Attributes:
        annotations: Rows of the annotations layout, ordered by item and annotator.
        left_out: item_id, annotator and reason of each assignment that holds no answer.
    """

    annotations: list[dict[str, str]]
    left_out: list[dict[str, str]]


def export_tasks(
    items: Sequence[Mapping[str, Any]],
    platform: str,
    folder: str | Path,
    image_prefix: str,
    seed: int,
    annotators: int = 3,
) -> list[Path]:
    """Write one task file an instrument, what the platform needs beside it, and a key.

    The key `keys/<instrument>.json` says what the tasks are and is not for annotators. The import does not need it.

    Args:
        items: Rows of the benchmark layout, of any number of instruments.
        platform: One of `PLATFORMS`.
        folder: Where to.
        image_prefix: What stands before the name of an image in its URL, final slash included.
        seed: Seed of the captions' positions and the tasks' names; the import needs it again.
        annotators: Answers wanted for each task; written into the key, and to be set on the platform.
    Returns:
        The files written.
    Raises:
        UserError: An unknown platform, or no items.
    """
    module = _module(platform)
    if not items:
        raise UserError("there are no items to export; build the benchmark first")
    written: list[Path] = []
    for instrument in sorted({item["instrument"] for item in items}):
        tasks = build_tasks([item for item in items if item["instrument"] == instrument], image_prefix, seed)
        written += module.write_tasks(tasks, Path(folder) / instrument)
        key = [
            {"task": task.task, "item_id": task.item_id, "caption_position": task.caption_position} for task in tasks
        ]
        written.append(write_key(folder, instrument, platform, seed, annotators, key))
    return written


def import_annotations(
    paths: Sequence[str | Path], platform: str, items: Sequence[Mapping[str, Any]], seed: int
) -> ImportedAnnotations:
    """Read the results of a platform.

    Args:
        paths: Files of results; for doccano also folders of one file an annotator.
        platform: One of `PLATFORMS`.
        items: Rows of the benchmark layout; more than were exported do no harm.
        seed: The seed of the export.
    Raises:
        UserError: An unknown platform, task or answer, an annotator who answered an item twice, or a file that
            cannot be read.
    """
    module = _module(platform)
    known = index_presentations(items, seed)
    seen: dict[tuple[str, str], str] = {}
    annotations, left_out = [], []
    for path in map(Path, paths):
        for given in module.read_answers(path):
            if given.task not in known:
                raise UserError(
                    f"{given.where}: task {given.task!r} is of none of the items; give the seed and items of the export"
                )
            item_id, position = known[given.task]
            if not given.annotator:
                raise UserError(f"{given.where}: task {given.task!r} has no annotator")
            if given.reason:
                left_out.append({"item_id": item_id, "annotator": given.annotator, "reason": given.reason})
                continue
            if given.answer not in ANSWERS:
                raise UserError(f"{given.where}: answer {given.answer!r} is none of {', '.join(ANSWERS)}")
            if (item_id, given.annotator) in seen:
                first = seen[item_id, given.annotator]
                raise UserError(
                    f"{given.where}: annotator {given.annotator!r} answered item {item_id!r} twice, before at {first}"
                )
            seen[item_id, given.annotator] = given.where
            annotations.append(
                {
                    "item_id": item_id,
                    "annotator": given.annotator,
                    "answer": given.answer,
                    "caption_position": position,
                }
            )
    return ImportedAnnotations(
        sorted(annotations, key=lambda row: (row["item_id"], row["annotator"])),
        sorted(left_out, key=lambda row: (row["item_id"], row["annotator"], row["reason"])),
    )


def _module(platform: str) -> ModuleType:
    if platform not in PLATFORMS:
        raise UserError(f"platform {platform!r} is none of {', '.join(PLATFORMS)}")
    return PLATFORMS[platform]
