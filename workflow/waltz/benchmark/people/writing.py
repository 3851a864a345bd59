"""CV-Probes: people write captions that avoid a verb, and check captions against images; both in doccano.

A captioner sees an image and the verb that the image shows and that the caption must not use. Which captions pass is
judged elsewhere. A checker sees an image that was retrieved for a caption and answers yes or no.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from waltz.benchmark.people.doccano import read_labelled_lines, write_labels, write_lines
from waltz.benchmark.people.tasks import NOT_ANSWERED, build_image_url, compute_opaque_name, write_key
from waltz.core.errors import UserError

PLATFORM = "doccano"
YES_NO = ("yes", "no")
EMPTY_TEXT = "empty text"
REPEATED_TEXT = "the annotator's same text again"

Rows = list[dict[str, str]]


@dataclass(frozen=True)
class ImportedRows:
    """What people gave back.

    Attributes:
        rows: Written captions (image, verb, annotator, text) or checks (image, caption, annotator, answer).
        left_out: The same columns but the last, and the reason.
    """

    rows: Rows
    left_out: Rows


def export_caption_tasks(
    rows: Sequence[Mapping[str, str]],
    folder: str | Path,
    image_prefix: str,
    seed: int,
    annotators: int = 4,
) -> list[Path]:
    """Write `write-captions.jsonl` for a doccano project of the kind sequence to sequence.

    Args:
        rows: image and verb, as a lemma.
        folder: Where to.
        image_prefix: What stands before the name of an image in its URL, final slash included.
        seed: Seed of the tasks' names and so of their order; the import needs it again.
        annotators: People who write, each for every image; written into the key, to be added to the project.
    Raises:
        UserError: There are no rows, or one stands twice.
    """
    named = _named(rows, ("image", "verb"), seed)
    lines = [
        {
            "text": f"Describe the image in one sentence, as you see it. Do not use the verb “{row['verb']}” "
            "in any form.",
            "task": name,
            "im_url": build_image_url(row["image"], image_prefix),
        }
        for name, row in named
    ]
    files = write_lines(lines, Path(folder) / "write-captions")
    return [*files, write_key(folder, "write-captions", PLATFORM, seed, annotators, _key(named))]


def import_captions(path: str | Path, rows: Sequence[Mapping[str, str]], seed: int) -> ImportedRows:
    """Captions that people wrote, several a person and image where they did.

    Args:
        path: Folder of one file an annotator.
        rows: image and verb, as exported.
        seed: The seed of the export.
    Raises:
        UserError: An unknown task, a task twice in one annotator's file, or a file that cannot be read.
    """
    returned = ImportedRows([], [])
    for _, person, labels in _labels(path, rows, ("image", "verb"), seed):
        for place, text in enumerate(labels):
            if not text.strip():
                returned.left_out.append({**person, "reason": EMPTY_TEXT})
            elif text in labels[:place]:
                returned.left_out.append({**person, "reason": REPEATED_TEXT})
            else:
                returned.rows.append({**person, "text": text})
        if not labels:
            returned.left_out.append({**person, "reason": NOT_ANSWERED})
    return returned


def export_checks(
    rows: Sequence[Mapping[str, str]], folder: str | Path, image_prefix: str, seed: int, annotators: int = 3
) -> list[Path]:
    """Write `check-captions.jsonl` and its labels for a doccano project of the kind text classification.

    Args:
        rows: image and caption.
        folder: Where to.
        image_prefix: As `export_writing`.
        seed: As `export_writing`.
        annotators: As `export_writing`.
    Raises:
        UserError: There are no rows, or one stands twice.
    """
    named = _named(rows, ("image", "caption"), seed)
    lines = [
        {
            "text": f"{row['caption']}\n\nDoes this text describe the image?",
            "task": name,
            "im_url": build_image_url(row["image"], image_prefix),
        }
        for name, row in named
    ]
    stem = Path(folder) / "check-captions"
    key = write_key(folder, stem.name, PLATFORM, seed, annotators, _key(named))
    return [*write_lines(lines, stem), write_labels(YES_NO, stem), key]


def import_checks(path: str | Path, rows: Sequence[Mapping[str, str]], seed: int) -> ImportedRows:
    """Answers of the check task, `yes` or `no`.

    Raises:
        UserError: As `import_writing`, or another or a second answer.
    """
    returned = ImportedRows([], [])
    for where, person, labels in _labels(path, rows, ("image", "caption"), seed):
        if not labels:
            returned.left_out.append({**person, "reason": NOT_ANSWERED})
        elif len(labels) > 1 or labels[0] not in YES_NO:
            raise UserError(f"{where}: answer {', '.join(labels)!r} is not one of {', '.join(YES_NO)}")
        else:
            returned.rows.append({**person, "answer": labels[0]})
    return returned


def _named(
    rows: Sequence[Mapping[str, str]], columns: tuple[str, str], seed: int
) -> list[tuple[str, Mapping[str, str]]]:
    """Rows by the name of their task, in the order of the names."""
    if not rows:
        raise UserError(f"there are no rows of {' and '.join(columns)} to export")
    named: dict[str, Mapping[str, str]] = {}
    for row in rows:
        name = compute_opaque_name(seed, *columns, *(row[column] for column in columns))
        if name in named:
            raise UserError(f"{columns[0]} {row[columns[0]]!r} with {columns[1]} {row[columns[1]]!r} stands twice")
        named[name] = {column: row[column] for column in columns}
    return sorted(named.items())


def _key(named: Sequence[tuple[str, Mapping[str, str]]]) -> list[dict[str, str]]:
    return [{"task": name, **row} for name, row in named]


def _labels(
    path: str | Path, rows: Sequence[Mapping[str, str]], columns: tuple[str, str], seed: int
) -> list[tuple[str, dict[str, str], list[str]]]:
    """Place, the row's columns with the annotator, and labels of each line, ordered by columns and annotator."""
    known = dict(_named(rows, columns, seed))
    seen: dict[tuple[str, str], str] = {}
    found = []
    for where, annotator, task, labels in read_labelled_lines(Path(path)):
        if task not in known:
            raise UserError(f"{where}: task {task!r} is of none of the rows; give the seed and rows of the export")
        if (task, annotator) in seen:
            raise UserError(f"{where}: annotator {annotator!r} has task {task!r} twice: {seen[task, annotator]}")
        seen[task, annotator] = where
        person = {column: known[task][column] for column in columns} | {"annotator": annotator}
        found.append((where, person, labels))
    return sorted(found, key=lambda line: tuple(line[1].values()))
