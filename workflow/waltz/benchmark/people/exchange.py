"""Export of items to annotation platforms, and import of people's answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from waltz.benchmark.people import doccano, labelstudio, turk
from waltz.benchmark.people.tasks import PlatformAnswer, Task, build_tasks, index_presentations, write_key
from waltz.benchmark.votes import ANSWERS
from waltz.core.errors import UserError

class Platform(NamedTuple):
    """How tasks are written for an annotation platform, and its answers read."""

    write_tasks: Callable[[Sequence[Task], Path], list[Path]]
    read_answers: Callable[[Path], Iterator[PlatformAnswer]]


PLATFORMS = {
    "mturk": Platform(turk.write_tasks, turk.read_answers),
    "label-studio": Platform(labelstudio.write_tasks, labelstudio.read_answers),
    "doccano": Platform(doccano.write_tasks, doccano.read_answers),
}


@dataclass(frozen=True)
class ImportedAnnotations:
    """Annotations of a platform.

    Attributes:
        annotations: Rows of the annotations layout, ordered by item and annotator.
        skipped: item_id, annotator and reason of each assignment without an answer.
    """

    annotations: list[dict[str, str]]
    skipped: list[dict[str, str]]


def export_tasks(
    items: Sequence[Mapping[str, Any]],
    platform: str,
    folder: str | Path,
    image_prefix: str,
    seed: int,
    annotators: int = 3,
) -> list[Path]:
    """Write for each instrument a task file, the platform's further files, and a key.

    The key `keys/<instrument>.json` says what each task is and is not for annotators. The import does not need it.

    Args:
        items: Rows of the benchmark layout, of any number of instruments.
        platform: One of `PLATFORMS`.
        folder: Folder of the files.
        image_prefix: Start of the URL before the name of an image, final slash included.
        seed: Seed of the captions' positions and the tasks' names; the import needs it again.
        annotators: Number of answers for each task; stored in the key, and to be set on the platform.
    Returns:
        The files written.
    Raises:
        UserError: An unknown platform, or no items.
    """
    exchange = _get_platform(platform)
    if not items:
        raise UserError("no items to export; build the benchmark first")
    files: list[Path] = []
    for instrument in sorted({item["instrument"] for item in items}):
        tasks = build_tasks([item for item in items if item["instrument"] == instrument], image_prefix, seed)
        files += exchange.write_tasks(tasks, Path(folder) / instrument)
        key = [
            {"task": task.task, "item_id": task.item_id, "caption_position": task.caption_position} for task in tasks
        ]
        files.append(write_key(folder, instrument, platform, seed, annotators, key))
    return files


def import_annotations(
    paths: Sequence[str | Path], platform: str, items: Sequence[Mapping[str, Any]], seed: int
) -> ImportedAnnotations:
    """Read the annotations in the results of a platform.

    Args:
        paths: Files of results; for doccano also folders of one file an annotator.
        platform: One of `PLATFORMS`.
        items: Rows of the benchmark layout; they may include items that were not exported.
        seed: The seed of the export.
    Raises:
        UserError: An unknown platform, task or answer, an annotator who answered an item twice, or a file that
            cannot be read.
    """
    exchange = _get_platform(platform)
    presentations = index_presentations(items, seed)
    first_answers: dict[tuple[str, str], str] = {}
    annotations, skipped = [], []
    for path in map(Path, paths):
        for answer in exchange.read_answers(path):
            if answer.task not in presentations:
                raise UserError(f"{answer.where}: unknown task {answer.task!r}; give the seed and items of the export")
            item_id, position = presentations[answer.task]
            if not answer.annotator:
                raise UserError(f"{answer.where}: task {answer.task!r} has no annotator")
            if answer.reason:
                skipped.append({"item_id": item_id, "annotator": answer.annotator, "reason": answer.reason})
                continue
            if answer.answer not in ANSWERS:
                raise UserError(f"{answer.where}: answer {answer.answer!r} is none of {', '.join(ANSWERS)}")
            if (item_id, answer.annotator) in first_answers:
                first = first_answers[item_id, answer.annotator]
                raise UserError(
                    f"{answer.where}: annotator {answer.annotator!r} answered item {item_id!r} twice, before at {first}"
                )
            first_answers[item_id, answer.annotator] = answer.where
            annotations.append(
                {
                    "item_id": item_id,
                    "annotator": answer.annotator,
                    "answer": answer.answer,
                    "caption_position": position,
                }
            )
    return ImportedAnnotations(
        sorted(annotations, key=lambda row: (row["item_id"], row["annotator"])),
        sorted(skipped, key=lambda row: (row["item_id"], row["annotator"], row["reason"])),
    )


def _get_platform(platform: str) -> Platform:
    if platform not in PLATFORMS:
        raise UserError(f"platform {platform!r} is none of {', '.join(PLATFORMS)}")
    return PLATFORMS[platform]
