"""Tasks of CV-Probes in doccano: people write captions that avoid a verb, and check captions
against images.

A captioner sees an image, its contextual captions and their verb; the new caption must not use this
verb (section 3.2). `benchmark.cv_probes` decides which captions are used. A checker sees an image
that was retrieved for a caption and answers yes or no.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from waltz.benchmark.people.platforms import (
    read_labelled_lines,
    write_labels,
    write_lines,
)
from waltz.benchmark.people.tasks import (
    NOT_ANSWERED,
    build_image_url,
    compute_opaque_name,
    write_key,
)
from waltz.core.errors import UserError

PLATFORM = "doccano"
YES_NO = ("yes", "no")
CAPTION_TASK = (
    "Captions of this image that say more than can be seen:\n{captions}\n\nDescribe precisely what you see, in one"
    " sentence, without interpreting it. Do not use the verb “{verb}” in any form."
)
CHECK_TASK = "{caption}\n\nDoes this text describe the image?"
EMPTY_TEXT = "empty text"
REPEATED_TEXT = "the annotator's same text again"

Rows = list[dict[str, str]]


class ImportedRows(NamedTuple):
    """The captions or checks of people, as imported.

    Attributes:
        rows: Written captions (image, verb, annotator, text) or checks (image, caption, annotator,
            answer).
        skipped: The same columns, with the reason in place of text or answer.
    """

    rows: Rows
    skipped: Rows


def export_caption_tasks(
    rows: Sequence[Mapping[str, str]],
    folder: str | Path,
    image_prefix: str,
    seed: int,
    annotators: int = 4,
) -> list[Path]:
    """Write `write-captions.jsonl` for a doccano project of the type sequence to sequence.

    Args:
        rows: Rows of image, verb (a lemma), and captions: the contextual captions of the image, one
            on each line.
        image_prefix: Start of the URL before the name of an image, final slash included.
        seed: Seed of the names of the tasks, which decide their order; the import needs it again.
        annotators: Number of people who write for every image; stored in the key.
    """
    tasks = _sort_by_task_name(rows, ("image", "verb"), seed)
    stem = Path(folder) / "write-captions"
    return [
        _write_tasks(tasks, CAPTION_TASK, image_prefix, stem),
        _write_key(tasks, stem, seed, annotators),
    ]


def import_captions(
    path: str | Path, rows: Sequence[Mapping[str, str]], seed: int
) -> ImportedRows:
    """Read the captions that people wrote; a person may write several captions for an image.

    Args:
        path: Folder with one file for each annotator.
        rows: Rows of image and verb, as exported with the same seed.
    """
    imported = ImportedRows([], [])
    for _, answered_row, labels in _read_labels(path, rows, ("image", "verb"), seed):
        # In a project of the type sequence to sequence, the labels are the written texts.
        for index, text in enumerate(labels):
            if not text.strip():
                imported.skipped.append({**answered_row, "reason": EMPTY_TEXT})
            elif text in labels[:index]:
                imported.skipped.append({**answered_row, "reason": REPEATED_TEXT})
            else:
                imported.rows.append({**answered_row, "text": text})
        if not labels:
            imported.skipped.append({**answered_row, "reason": NOT_ANSWERED})
    return imported


def export_checks(
    rows: Sequence[Mapping[str, str]],
    folder: str | Path,
    image_prefix: str,
    seed: int,
    annotators: int = 3,
) -> list[Path]:
    """Write `check-captions.jsonl` and its labels for a doccano project of the type text
    classification.

    The rows have image and caption; the other arguments mean the same as in `export_caption_tasks`.
    """
    tasks = _sort_by_task_name(rows, ("image", "caption"), seed)
    stem = Path(folder) / "check-captions"
    task_file = _write_tasks(tasks, CHECK_TASK, image_prefix, stem)
    return [
        task_file,
        write_labels(YES_NO, stem),
        _write_key(tasks, stem, seed, annotators),
    ]


def import_checks(
    path: str | Path, rows: Sequence[Mapping[str, str]], seed: int
) -> ImportedRows:
    """Read the answers `yes` and `no` of the check task.

    The rows have image and caption; the other arguments mean the same as in `import_captions`.
    """
    imported = ImportedRows([], [])
    for location, answered_row, labels in _read_labels(
        path, rows, ("image", "caption"), seed
    ):
        if not labels:
            imported.skipped.append({**answered_row, "reason": NOT_ANSWERED})
        elif len(labels) > 1 or labels[0] not in YES_NO:
            raise UserError(
                f"{location}: answer {', '.join(labels)!r} is not one of {', '.join(YES_NO)}"
            )
        else:
            imported.rows.append({**answered_row, "answer": labels[0]})
    return imported


def _sort_by_task_name(
    rows: Sequence[Mapping[str, str]], columns: tuple[str, str], seed: int
) -> list[tuple[str, Mapping[str, str]]]:
    """Return pairs of task name and row, sorted by the name, a seeded hash of the row."""
    if not rows:
        raise UserError(
            f"no rows of {' and '.join(columns)} to export; build the benchmark first"
        )
    rows_by_task: dict[str, Mapping[str, str]] = {}
    for row in rows:
        name = compute_opaque_name(seed, *columns, *(row[column] for column in columns))
        if name in rows_by_task:
            raise UserError(
                f"duplicate row: {columns[0]} {row[columns[0]]!r} with {columns[1]} {row[columns[1]]!r}; name it once"
            )
        rows_by_task[name] = row
    return sorted(rows_by_task.items())


def _write_tasks(
    tasks: Sequence[tuple[str, Mapping[str, str]]],
    wording: str,
    image_prefix: str,
    stem: Path,
) -> Path:
    lines = [
        {
            "text": wording.format(**row),
            "task": name,
            "im_url": build_image_url(row["image"], image_prefix),
        }
        for name, row in tasks
    ]
    return write_lines(lines, stem)


def _write_key(
    tasks: Sequence[tuple[str, Mapping[str, str]]],
    stem: Path,
    seed: int,
    annotators: int,
) -> Path:
    # The key holds what identifies the row; the contextual captions are only shown.
    keys = [
        {
            "task": name,
            **{column: text for column, text in row.items() if column != "captions"},
        }
        for name, row in tasks
    ]
    return write_key(stem.parent, stem.name, PLATFORM, seed, annotators, keys)


def _read_labels(
    path: str | Path,
    rows: Sequence[Mapping[str, str]],
    columns: tuple[str, str],
    seed: int,
) -> list[tuple[str, dict[str, str], list[str]]]:
    """Return location, answered row and labels of each line of doccano's export.

    An answered row has the columns of its task and the annotator; the lines are sorted by these
    values.
    """
    rows_by_task = dict(_sort_by_task_name(rows, columns, seed))
    positions: dict[tuple[str, str], str] = {}
    lines = []
    for location, annotator, task, labels in read_labelled_lines(Path(path)):
        if task not in rows_by_task:
            raise UserError(
                f"{location}: unknown task {task!r}; give the seed and rows of the export"
            )
        if (task, annotator) in positions:
            raise UserError(
                f"{location}: annotator {annotator!r} has task {task!r} twice: {positions[task, annotator]}"
            )
        positions[task, annotator] = location
        answered_row = {column: rows_by_task[task][column] for column in columns} | {
            "annotator": annotator
        }
        lines.append((location, answered_row, labels))
    return sorted(lines, key=lambda line: tuple(line[1].values()))
