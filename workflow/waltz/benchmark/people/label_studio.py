"""Tasks for Label Studio, and the answers of its exports.

Answers come from the exports JSON, JSON-MIN, CSV or TSV, or from the files of cloud storages, which hold one task or
annotation each. Only JSON says who has which e-mail address, and which answers are marked as ground truth.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from waltz.benchmark.people.tasks import (
    NOT_ANSWERED,
    MarkedText,
    PlatformAnswer,
    Task,
    is_set,
    read_time,
    render_bold_html,
)
from waltz.benchmark.votes import fold_annotator
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.core.files.json_objects import JsonObject, parse_json
from waltz.sources.raw_entry import RawEntry
from waltz.sources.tables import read_table

CONFIGURATION = Path(__file__).with_name("templates") / "label-studio.xml"
TASK_FIELDS = ("task", "data")
"""Objects that hold the texts of a task: `data` of a task, and `task.data` of an annotation in a file of its own."""
CONTROL = "answer"
"""Name of the choices in the labeling configuration."""
SKIPPED = "skipped by the annotator"
GROUND_TRUTH = "marked as ground truth, which is no vote"
REVIEWS = {
    "rejected": "rejected by a reviewer",
    "fixed_and_accepted": "changed by a reviewer",
}
"""Reasons by the last action on an answer, for actions of others than its annotator."""


def write_label_studio_tasks(tasks: Sequence[Task], stem: Path) -> list[Path]:
    """Write `<stem>.json`, a list of tasks, and the labeling configuration `<stem>.xml`."""
    entries = []
    for task in tasks:
        data = {
            "task": task.task,
            "image": task.image,
            "first": _render_studio_html(task.first),
            "second": _render_studio_html(task.second),
        }
        entries.append({"data": data})
    task_file = stem.with_name(f"{stem.name}.json")
    write_text(task_file, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    configuration = stem.with_name(f"{stem.name}.xml")
    write_text(configuration, CONFIGURATION.read_text(encoding="utf-8"))
    return [task_file, configuration]


def _render_studio_html(text: MarkedText) -> str:
    return render_bold_html(text).replace("\n", "<br>")


def read_label_studio_answers(path: Path) -> Iterator[PlatformAnswer]:
    """Yield the answers of an export.

    An answer that does not count has a reason: the annotator skipped the task, the answer is marked as ground truth, or
    a reviewer rejected or changed it.
    """
    if path.is_dir():
        raise UserError(
            f"{path}: is a folder (expected files); name its .json files, or export the project as JSON"
        )
    for row in read_table(path, TASK_FIELDS):
        annotations = _list_annotations(row)
        task = row.fields
        for field in TASK_FIELDS:
            if isinstance(task.get(field), dict):
                task = task[field]
        if not isinstance(task.get("task"), str):
            raise UserError(
                f"{row.location}: no name of a task in 'data' or 'task'; export the project as JSON"
            )
        for annotation in annotations:
            yield _read_annotation(annotation, task["task"], row.location)


def _list_annotations(row: RawEntry) -> list[JsonObject]:
    """Return the annotations of a task; a row of JSON-MIN, CSV or TSV has one, or is one."""
    if isinstance(row.fields.get("task"), dict):
        return [row.fields]
    # Exports before 1.0 have "completions".
    annotations = row.fields.get("annotations", row.fields.get("completions"))
    if isinstance(annotations, list):
        for annotation in annotations:
            if not isinstance(annotation, dict):
                raise UserError(
                    f"{row.location}: an annotation is {annotation!r}, not an object; export the project as JSON"
                )
        return annotations
    if "annotator" not in row.fields:
        raise UserError(
            f"{row.location}: neither a list of annotations nor an annotator; export the project as JSON"
        )
    return [_build_annotation(row)]


def _build_annotation(row: RawEntry) -> JsonObject:
    """Return the annotation of a row of JSON-MIN, CSV or TSV."""
    answer = row.fields.get(CONTROL)
    # Several choices are an object, which a table holds as JSON.
    if isinstance(answer, str) and answer.startswith("{"):
        try:
            answer = parse_json(answer)
        except ValueError:
            raise UserError(
                f"{row.location}: {CONTROL!r} is no choice (got {answer!r}); export the project as JSON"
            ) from None
    value = answer
    if not isinstance(answer, dict):
        value = {"choices": [answer] if isinstance(answer, str) and answer else []}
    result = [{"from_name": CONTROL, "value": value}]
    return {
        **row.fields,
        "result": result,
        "completed_by": row.fields["annotator"],
        "id": row.fields.get("annotation_id"),
    }


def _read_annotation(
    annotation: JsonObject, task: str, location: str
) -> PlatformAnswer:
    """Read one annotation of a task."""
    annotator, second_key = _read_annotator(annotation, location)
    answer = _read_answer(annotation, location)
    reason = _find_reason(annotation)
    if reason:
        answer = ""
    elif not answer:
        reason = NOT_ANSWERED
    return PlatformAnswer(
        location,
        task,
        annotator,
        answer,
        reason,
        second_key=second_key,
        record=_read_key(annotation.get("id")),
        replaces=_read_key(annotation.get("parent_annotation")),
        time=read_time(annotation.get("updated_at") or annotation.get("created_at")),
    )


def _find_reason(annotation: JsonObject) -> str:
    """Return why an annotation does not count, whatever it holds; empty where it counts."""
    # A skipped task may hold a choice all the same.
    if is_set(annotation.get("was_cancelled")) or is_set(annotation.get("skipped")):
        return SKIPPED
    # It states what is right, so that others can be judged by it.
    if is_set(annotation.get("ground_truth")):
        return GROUND_TRUTH
    return REVIEWS.get(str(annotation.get("last_action")), "")


def _read_answer(annotation: JsonObject, location: str) -> str:
    """Return the choice of an annotation; empty where it has no choice."""
    choices: list[str] = []
    other_controls: list[str] = []
    try:
        for region in annotation.get("result") or []:
            # Results of other controls, and links between regions, are ignored.
            values = (region.get("value") or {}).get("choices") or []
            if region.get("from_name") == CONTROL:
                choices += [values] if isinstance(values, str) else map(str, values)
            elif values:
                other_controls.append(str(region.get("from_name")))
    except (AttributeError, TypeError):
        raise UserError(
            f"{location}: an annotation has no result of choices; export the project as JSON"
        ) from None
    if other_controls and not choices:
        raise UserError(
            f"{location}: choices of {other_controls[0]!r} (expected of {CONTROL!r}); use the labeling interface that"
            " the export wrote"
        )
    different = list(dict.fromkeys(choices))
    if len(different) > 1:
        raise UserError(
            f"{location}: more than one answer (got {', '.join(different)}, expected 1); allow a single choice"
        )
    return "".join(different)


def _read_annotator(annotation: JsonObject, location: str) -> tuple[str, str]:
    """Return the keys of a user: the number, and the e-mail address where the export has it.

    The address alone is the key where there is no number, and the second key is then empty. Names
    are no keys, because people change and share them.
    """
    user = annotation.get("completed_by")
    # Some exports list users, and an annotation has one.
    if isinstance(user, list) and len(user) == 1:
        user = user[0]
    if isinstance(user, dict):
        keys = [_read_key(user.get("id")), _read_key(user.get("email"))]
    else:
        # Other exports have the address, the number, or both ("ann@example.org, 7").
        words = _read_key(user).replace(",", " ").split()
        addresses = [word for word in words if "@" in word]
        others = [word for word in words if "@" not in word]
        keys = [" ".join(others), " ".join(addresses)]
    found = [key for key in keys if key]
    if not found:
        raise UserError(
            f"{location}: an annotation has no annotator (completed_by); export the project as JSON"
        )
    second_key = found[1] if len(found) == 2 else ""
    return found[0], second_key


def _read_key(value: object) -> str:
    """Return a number or an e-mail address as a key; empty for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    return fold_annotator(str(value))
