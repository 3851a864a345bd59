"""Amazon Mechanical Turk: a batch CSV with its HTML layout, and the CSV of a batch's results.

Results are those that "Download CSV" gives on a batch's review page of the requester site: `WorkerId`,
`AssignmentStatus`, the batch's columns as `Input.<name>` and the answer, which Crowd HTML elements put as JSON into
`Answer.taskAnswers`, with `answer-format="flatten-objects"` as `Answer.answer.<option>`, and a plain form as
`Answer.answer`.
"""

import csv
import html
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from waltz.benchmark.people.tasks import NOT_ANSWERED, PlatformAnswer, Task, render_bold_html
from waltz.benchmark.votes import ANSWERS
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.sources.raw_files import read_csv_records

LAYOUT = Path(__file__).with_name("templates") / "turk.html"
COLUMNS = ("task", "image_url", "first", "second")
REJECTED = "rejected by the requester"


def write_tasks(tasks: Sequence[Task], stem: Path) -> list[Path]:
    """Write `<stem>.csv`, one line a task, and the layout `<stem>.html`, which shows one."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for task in tasks:
        image = html.escape(task.image)
        writer.writerow([task.task, *map(_plain, (image, render_bold_html(task.first), render_bold_html(task.second)))])
    batch, layout = stem.with_name(f"{stem.name}.csv"), stem.with_name(f"{stem.name}.html")
    write_text(batch, text.getvalue())
    write_text(layout, LAYOUT.read_text(encoding="utf-8"))
    return [batch, layout]


def read_answers(path: Path) -> Iterator[PlatformAnswer]:
    """Answers of a batch's results; those of rejected assignments count as none.

    Raises:
        UserError: A column is missing, or a cell cannot be read.
    """
    for line, record in read_csv_records(path, required=("WorkerId", "AssignmentStatus", "Input.task")):
        where = f"{path}: line {line}"
        answer = _answer(record, where)
        reason = NOT_ANSWERED if not answer else ""
        if record["AssignmentStatus"].strip().lower() == "rejected":
            answer, reason = "", REJECTED
        yield PlatformAnswer(where, record["Input.task"].strip(), record["WorkerId"].strip(), answer, reason)


def _plain(markup: str) -> str:
    """HTML in ASCII, in one line, without `$`: the site refuses four-byte characters and fills in `${…}`."""
    fixed = markup.replace("$", "&#36;").replace("\r", "&#13;").replace("\n", "&#10;")
    return fixed.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _answer(record: Mapping[str, str], where: str) -> str:
    """The option chosen, empty where none is."""
    if "Answer.taskAnswers" in record:
        return _chosen(_task_answers(record["Answer.taskAnswers"], where), where)
    if "Answer.answer" in record:
        return record["Answer.answer"].strip()
    options = {option: record[name] for option in ANSWERS if (name := f"Answer.answer.{option}") in record}
    if not options:
        raise UserError(f"{where}: no column Answer.taskAnswers or Answer.answer; was this layout's batch downloaded?")
    return _chosen({option: cell.strip().lower() == "true" for option, cell in options.items()}, where)


def _task_answers(cell: str, where: str) -> Any:
    try:
        forms = json.loads(cell)
        return forms[0].get("answer", "")
    except (json.JSONDecodeError, AttributeError, IndexError, KeyError, TypeError):
        raise UserError(
            f"{where}: Answer.taskAnswers {cell!r} is not a list of one object; download it again"
        ) from None


def _chosen(given: Any, where: str) -> str:
    """The option of a native group of radio buttons, `{option: chosen}`, or of an element that gives it as text."""
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        raise UserError(f"{where}: answer {given!r} is neither a text nor an object of options")
    chosen = [option for option, is_chosen in given.items() if is_chosen]
    if len(chosen) > 1:
        raise UserError(f"{where}: more than one answer: {', '.join(chosen)}")
    return str(chosen[0]) if chosen else ""
