"""Annotators that do not exist: they see only what a task file shows, and answer in a platform's
format of results.
"""

import csv
import html
import json
import re

INSTRUCTION = (
    "You will see a series of images, each accompanied by two short texts. Your task is to judge which of the two texts"
    " accurately describes what can be seen in the image."
)
QUESTION = (
    "Which of the two sentences accurately describes what can be seen in the image?"
)
OPTIONS = (
    "The first, but not the second",
    "The second, but not the first",
    "Both of them",
    "Neither of the two",
    "I cannot tell",
)
"""Instruction, question and options of thesis A.3."""
DOCCANO_HINT = "(A click on the image opens the whole of it.)"
SUFFIX = {"mturk": ".csv", "label-studio": ".json", "doccano": ".jsonl"}


def plain(markup):
    """The text that a browser shows of HTML without other tags than `<b>` and `<br>`."""
    return html.unescape(re.sub(r"</?b>", "", markup.replace("<br>", "\n")))


def starred(text, span):
    start, end = span.start, span.end
    return f"{text[:start]}**{text[start:end]}**{text[end:]}" if end > start else text


def shown_tasks(platform, path):
    """Name, image URL, and (for doccano both in one) texts of each task of a task file."""
    if platform == "mturk":
        with path.open(encoding="ascii", newline="") as file:
            return [
                (
                    row["task"],
                    html.unescape(row["image_url"]),
                    (plain(row["first"]), plain(row["second"])),
                )
                for row in csv.DictReader(file)
            ]
    if platform == "label-studio":
        tasks = [
            entry["data"] for entry in json.loads(path.read_text(encoding="utf-8"))
        ]
        return [
            (task["task"], task["image"], (plain(task["first"]), plain(task["second"])))
            for task in tasks
        ]
    lines = [
        json.loads(line)
        for line in path.read_text(encoding="utf-8").split("\n")
        if line
    ]
    return [(line["task"], line["im_url"], line["text"]) for line in lines]


def caption_position(item, texts):
    """Where the caption stands in what is shown."""
    if isinstance(texts, tuple):
        assert set(texts) == {item.caption, item.foil}
        return "first" if texts[0] == item.caption else "second"
    caption, foil = (
        starred(item.caption, item.caption_span),
        starred(item.foil, item.foil_span),
    )
    shown = {
        f"{INSTRUCTION}\n\nText 1: {one}\n\nText 2: {two}\n\n{QUESTION}\n\n{DOCCANO_HINT}": position
        for one, two, position in ((caption, foil, "first"), (foil, caption, "second"))
    }
    return shown[texts]


def write_results(platform, folder, answers):
    """Results of (task, annotator, answer), in the platform's format; an empty answer is none.

    Returns:
        What the import is given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if platform == "mturk":
        path = folder / "Batch_1_batch_results.csv"
        options = ("first", "second", "both", "neither", "cannot tell")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow(
                [
                    "HITId",
                    "AssignmentId",
                    "WorkerId",
                    "AssignmentStatus",
                    "Input.task",
                    "Answer.taskAnswers",
                ]
            )
            for number, (task, annotator, answer) in enumerate(answers):
                form = [
                    {
                        "answer": {option: option == answer for option in options},
                        "task": task,
                    }
                ]
                writer.writerow(
                    [
                        f"H{task}",
                        f"A{number}",
                        annotator,
                        "Approved",
                        task,
                        json.dumps(form),
                    ]
                )
        return path
    if platform == "label-studio":
        tasks = {task: [] for task, _, _ in answers}
        for task, annotator, answer in answers:
            choice = {
                "from_name": "answer",
                "to_name": "image",
                "type": "choices",
                "value": {"choices": [answer]},
            }
            result = [choice] if answer else []
            tasks[task].append(
                {"completed_by": annotator, "was_cancelled": False, "result": result}
            )
        entries = [
            {
                "id": number,
                "data": {"task": task, "image": "seen"},
                "annotations": annotations,
            }
            for number, (task, annotations) in enumerate(tasks.items())
        ]
        path = folder / "project-1.json"
        path.write_text(json.dumps(entries), encoding="utf-8")
        return path
    for annotator in {annotator for _, annotator, _ in answers}:
        lines = [
            {
                "id": number,
                "text": "as shown",
                "task": task,
                "label": [answer] if answer else [],
                "Comments": [],
            }
            for number, (task, who, answer) in enumerate(answers)
            if who == annotator
        ]
        (folder / f"{annotator}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
        )
    return folder
