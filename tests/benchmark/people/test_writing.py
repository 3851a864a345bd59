import json

import pytest

from waltz.benchmark.people.writing import (
    CAPTION_TASK,
    CHECK_TASK,
    export_doccano_task,
    import_captions,
    import_checks,
)
from waltz.core.errors import UserError

PREFIX = "https://images.example/"
PROBES = [
    {
        "image": "shop 1.jpg",
        "verb": "browse",
        "captions": "A man browses books.\nA man browses in a shop.",
    },
    {"image": "shop 1.jpg", "verb": "buy", "captions": "A man buys a book."},
    {"image": "b.jpg", "verb": "buy", "captions": "A man buys a hat."},
]
ROWS = [{"image": row["image"], "verb": row["verb"]} for row in PROBES]
CHECKS = [
    {"image": "a.jpg", "caption": 'A "man", é\nreads.'},
    {"image": "b.jpg", "caption": "A man reads."},
]


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def annotate(folder, annotator, tasks, labels):
    """Write a file of doccano's export with one annotator's labels."""
    folder.mkdir(exist_ok=True)
    exported = [
        {"id": number, **task, "label": labels(task)}
        for number, task in enumerate(tasks)
    ]
    (folder / f"{annotator}.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in exported), encoding="utf-8"
    )


def test_a_caption_task_shows_the_image_its_captions_and_the_verb_to_avoid(tmp_path):
    export_doccano_task(CAPTION_TASK, PROBES, tmp_path, PREFIX, seed=1, annotators=4)
    tasks = lines(tmp_path / "write-captions.jsonl")
    assert sorted(task["im_url"] for task in tasks) == [
        PREFIX + name for name in ("b.jpg", "shop%201.jpg", "shop%201.jpg")
    ]
    (browsing,) = (
        task["text"] for task in tasks if "Do not use the verb “browse”" in task["text"]
    )
    assert "A man browses books.\nA man browses in a shop." in browsing
    key = json.loads((tmp_path / "keys" / "write-captions.json").read_text())
    assert key["annotators"] == 4
    assert sorted(key["tasks"], key=str) == sorted(
        (
            {"task": task["task"], **row}
            for task in tasks
            for row in ROWS
            if f"“{row['verb']}”" in task["text"]
            and task["im_url"].endswith(row["image"].replace(" ", "%20"))
        ),
        key=str,
    )


def test_written_captions_are_imported_with_image_verb_and_annotator(tmp_path):
    export_doccano_task(CAPTION_TASK, PROBES, tmp_path, PREFIX, seed=1, annotators=4)
    tasks = lines(tmp_path / "write-captions.jsonl")
    annotate(
        tmp_path / "done", "w1", tasks, lambda task: ["two, of\n“them”", task["im_url"]]
    )
    annotate(
        tmp_path / "done",
        "w2",
        tasks,
        lambda task: ["once", " ", "once"] if "browse" in task["text"] else [],
    )
    imported = import_captions(tmp_path / "done", PROBES, seed=1)
    w1 = [row for row in imported.rows if row["annotator"] == "w1"]
    assert [(row["image"], row["verb"]) for row in w1[::2]] == [
        ("b.jpg", "buy"),
        *((p["image"], p["verb"]) for p in PROBES[:2]),
    ]
    assert {row["caption"] for row in w1 if row["image"] == "b.jpg"} == {
        "two, of\n“them”",
        PREFIX + "b.jpg",
    }
    assert [row for row in imported.rows if row["annotator"] == "w2"] == [
        {**ROWS[0], "annotator": "w2", "caption": "once"}
    ]
    assert imported.skipped == [
        {**ROWS[2], "annotator": "w2", "reason": "not answered"},
        {**ROWS[0], "annotator": "w2", "reason": "empty text"},
        {**ROWS[0], "annotator": "w2", "reason": "the annotator's same text again"},
        {**ROWS[1], "annotator": "w2", "reason": "not answered"},
    ]


def test_checks_round_trip(tmp_path):
    export_doccano_task(CHECK_TASK, CHECKS, tmp_path, PREFIX, seed=1, annotators=3)
    tasks = lines(tmp_path / "check-captions.jsonl")
    labels = json.loads((tmp_path / "check-captions.labels.json").read_text())
    assert [label["text"] for label in labels] == ["yes", "no"]
    annotate(
        tmp_path / "done",
        "w1",
        tasks,
        lambda task: ["yes" if task["text"].startswith(CHECKS[0]["caption"]) else "no"],
    )
    annotate(tmp_path / "done", "w2", tasks[:1], lambda task: [])
    imported = import_checks(tmp_path / "done", CHECKS, seed=1)
    assert imported.rows == [
        {**CHECKS[0], "annotator": "w1", "answer": "yes"},
        {**CHECKS[1], "annotator": "w1", "answer": "no"},
    ]
    assert [(row["annotator"], row["reason"]) for row in imported.skipped] == [
        ("w2", "not answered")
    ]


def test_faults_of_writing_and_checking_are_refused(tmp_path):
    with pytest.raises(
        UserError, match=r"duplicate row: image 'b\.jpg' with verb 'buy'"
    ):
        export_doccano_task(
            CAPTION_TASK, [PROBES[2]] * 2, tmp_path, PREFIX, seed=1, annotators=4
        )
    with pytest.raises(UserError, match="no rows of image and caption"):
        export_doccano_task(CHECK_TASK, [], tmp_path, PREFIX, seed=1, annotators=3)
    export_doccano_task(CHECK_TASK, CHECKS, tmp_path, PREFIX, seed=1, annotators=3)
    tasks = lines(tmp_path / "check-captions.jsonl")
    annotate(tmp_path / "done", "w1", tasks[:1], lambda task: ["maybe"])
    with pytest.raises(
        UserError, match=r"w1\.jsonl: line 1: answer 'maybe' is not one of yes, no"
    ):
        import_checks(tmp_path / "done", CHECKS, seed=1)
    with pytest.raises(UserError, match=r"w1\.jsonl: line 1: unknown task '.*'"):
        import_checks(tmp_path / "done", CHECKS, seed=2)
    annotate(tmp_path / "done", "w1", [tasks[0], tasks[0]], lambda task: ["yes"])
    with pytest.raises(
        UserError, match=r"line 2: annotator 'w1' has task '.*' twice: .*line 1"
    ):
        import_checks(tmp_path / "done", CHECKS, seed=1)
