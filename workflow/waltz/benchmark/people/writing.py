"""Tasks of CV-Probes in doccano: people write captions that avoid a verb, and check captions
against images.

A captioner sees an image, its contextual captions and their verb; the new caption must not use this
verb (section 3.2). `benchmark.cv_probes` decides which captions are used. A checker sees an image
that was retrieved for a caption and answers yes or no.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from waltz.benchmark.people.platforms import (
    read_labeled_lines,
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


@dataclass(frozen=True, slots=True)
class DoccanoTask:
    """A task for people in doccano.

    Attributes:
        name: Name of the task's files.
        columns: Columns that identify a row of the task.
        wording: Text that people see, with the columns of a row in braces.
        labels: Answers that people choose from; empty where they write texts.
    """

    name: str
    columns: tuple[str, str]
    wording: str
    labels: Sequence[str] = ()


CAPTION_TASK = DoccanoTask(
    "write-captions",
    ("image", "verb"),
    "Captions of this image that say more than can be seen:\n{captions}\n\nDescribe precisely what you see, in one"
    " sentence, without interpreting it. Do not use the verb “{verb}” in any form.",
)
"""Task for a project of the type sequence to sequence. Its rows have the columns image, verb (a
lemma), and captions: the contextual captions of the image, one on each line.
"""
CHECK_TASK = DoccanoTask(
    "check-captions",
    ("image", "caption"),
    "{caption}\n\nDoes this text describe the image?",
    labels=YES_NO,
)
"""Task for a project of the type text classification. Its rows have the columns image and
caption.
"""
EMPTY_TEXT = "empty text"
REPEATED_TEXT = "the annotator's same text again"

Rows = list[dict[str, str]]


class ImportedRows(NamedTuple):
    """The captions or checks of people, as imported.

    Attributes:
        rows: Written captions (image, verb, annotator, caption) or checks (image, caption, annotator,
            answer).
        skipped: The same columns, with the reason in place of caption or answer.
    """

    rows: Rows
    skipped: Rows


def export_doccano_task(
    task: DoccanoTask,
    rows: Sequence[Mapping[str, str]],
    folder: str | Path,
    image_prefix: str,
    seed: int,
    annotators: int,
) -> list[Path]:
    """Write the lines of a task, its labels if it has any, and its key.

    Args:
        rows: Rows with the columns of the task.
        image_prefix: Start of the URL before the name of an image, final slash included.
        seed: Seed of the names of the lines, which decide their order; the import needs it again.
        annotators: Number of people who answer each line; stored in the key.
    """
    rows_by_name = _name_rows(rows, task.columns, seed)
    stem = Path(folder) / task.name
    lines = []
    keys = []
    for name, row in rows_by_name.items():
        url = build_image_url(row["image"], image_prefix)
        text = task.wording.format(**row)
        lines.append({"text": text, "task": name, "im_url": url})
        # The key holds what identifies the row; other columns are only shown.
        keys.append({"task": name, **_select_columns(row, task.columns)})
    files = [write_lines(lines, stem)]
    if task.labels:
        files.append(write_labels(task.labels, stem))
    files.append(write_key(folder, task.name, PLATFORM, seed, annotators, keys))
    return files


def import_captions(
    path: str | Path, rows: Sequence[Mapping[str, str]], seed: int
) -> ImportedRows:
    """Read the captions that people wrote; a person may write several captions for an image.

    Args:
        path: Folder with one file for each annotator.
        rows: Rows of image and verb, as exported with the same seed.
    """
    imported = ImportedRows([], [])
    for _, answered_row, labels in _read_labels(path, rows, CAPTION_TASK.columns, seed):
        # In a project of the type sequence to sequence, the labels are the written texts.
        for index, text in enumerate(labels):
            if not text.strip():
                imported.skipped.append({**answered_row, "reason": EMPTY_TEXT})
            elif text in labels[:index]:
                imported.skipped.append({**answered_row, "reason": REPEATED_TEXT})
            else:
                imported.rows.append({**answered_row, "caption": text})
        if not labels:
            imported.skipped.append({**answered_row, "reason": NOT_ANSWERED})
    return imported


def import_checks(
    path: str | Path, rows: Sequence[Mapping[str, str]], seed: int
) -> ImportedRows:
    """Read the answers `yes` and `no` of the check task.

    The rows have image and caption; the other arguments mean the same as in `import_captions`.
    """
    imported = ImportedRows([], [])
    for location, answered_row, labels in _read_labels(
        path, rows, CHECK_TASK.columns, seed
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


def _name_rows(
    rows: Sequence[Mapping[str, str]], columns: tuple[str, str], seed: int
) -> dict[str, Mapping[str, str]]:
    """Return the rows by their names, seeded hashes, in the order of the names."""
    first, second = columns
    if not rows:
        raise UserError(
            f"no rows of {first} and {second} to export; build the benchmark first"
        )
    rows_by_name: dict[str, Mapping[str, str]] = {}
    for row in rows:
        name = compute_opaque_name(seed, *columns, row[first], row[second])
        if name in rows_by_name:
            raise UserError(
                f"duplicate row: {first} {row[first]!r} with {second} {row[second]!r}; name it once"
            )
        rows_by_name[name] = row
    return dict(sorted(rows_by_name.items()))


def _select_columns(row: Mapping[str, str], columns: tuple[str, str]) -> dict[str, str]:
    return {column: row[column] for column in columns}


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
    rows_by_task = _name_rows(rows, columns, seed)
    positions: dict[tuple[str, str], str] = {}
    lines = []
    for location, annotator, task, labels, _ in read_labeled_lines(Path(path)):
        if task not in rows_by_task:
            raise UserError(
                f"{location}: unknown task {task!r}; give the seed and rows of the export"
            )
        if (task, annotator) in positions:
            raise UserError(
                f"{location}: annotator {annotator!r} has task {task!r} twice: {positions[task, annotator]}"
            )
        positions[task, annotator] = location
        answered_row = _select_columns(rows_by_task[task], columns)
        answered_row["annotator"] = annotator
        lines.append((location, answered_row, labels))
    return sorted(lines, key=lambda line: tuple(line[1].values()))
