"""Tasks for the annotation platforms, and the answers that come back."""

import csv
import json
import tempfile
from collections import Counter
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stand_ins import annotation_platforms as platforms
from waltz.benchmark.people.platforms import (
    PLATFORMS,
    choose_platform,
    export_tasks,
    import_annotations,
)
from waltz.benchmark.people.tasks import build_image_url, build_tasks
from waltz.benchmark.votes import ANSWERS, ItemVotes, SkippedAnswer, count_votes
from waltz.core.errors import UserError
from waltz.core.schema import AnnotationRecord, PairRecord, StoredSpan
from waltz.sources.formats.pairs import read_release

PREFIX = "https://images.example/a folder/"
PEOPLE = ("w1", "w2", "w3.x")
OTHER = {"first": "second", "second": "first"}

texts = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cn"))
    | st.sampled_from("\r\n\t,;\"'<>&$*{}|#"),
    min_size=1,
    max_size=25,
)


@st.composite
def spans(draw, text):
    start = draw(st.integers(0, len(text)))
    return StoredSpan(start, draw(st.integers(start, len(text))))


@st.composite
def items(draw):
    rows = []
    for number in range(draw(st.integers(1, 6))):
        caption, foil = draw(st.lists(texts, min_size=2, max_size=2, unique=True))
        rows.append(
            PairRecord(
                item_id=f"{draw(texts)}-{number}",
                instrument="plurality",
                piece="plurality",
                source="tests",
                image=f"{number} é&.png",
                caption=caption,
                foil=foil,
                caption_span=draw(spans(caption)),
                foil_span=draw(spans(foil)),
                caption_phrases=[],
                foil_phrases=[],
            )
        )
    return rows


def item(number, instrument="relations"):
    return PairRecord(
        item_id=f"item-{number}",
        instrument=instrument,
        piece=instrument,
        source="tests",
        image=f"{number}.png",
        caption=f"{number} cats sit on a mat.",
        foil=f"{number} cats sit under a mat.",
        caption_phrases=["on"],
        foil_phrases=["under"],
    )


ITEMS = [item(number) for number in range(5)]


def first_task(platform, folder, rows=ITEMS):
    """Name of the first task of an export, and the item and the position that it stands for."""
    export_tasks(rows, platform, folder, PREFIX, seed=3)
    key = json.loads((folder / "keys" / "relations.json").read_text(encoding="utf-8"))[
        "tasks"
    ][0]
    return key["task"], key["item_id"], key["caption_position"]


def test_the_stand_ins_wording_is_the_thesiss(shared_data: Path) -> None:
    thesis = (shared_data.parent / "papers" / "thesis.txt").read_text()
    assert platforms.INSTRUCTION in thesis
    for words in (platforms.QUESTION, *platforms.OPTIONS):
        # The thesis states the question and the options within sentences of its own.
        assert f"{words[0].lower()}{words[1:]}" in thesis or words in thesis


@pytest.mark.parametrize(
    ("platform", "suffix"), [("mturk", ".html"), ("label-studio", ".xml")]
)
def test_layouts_ask_as_the_thesis_does(platform, suffix, tmp_path):
    export_tasks(ITEMS, platform, tmp_path, PREFIX, seed=3)
    layout = (tmp_path / f"relations{suffix}").read_text(encoding="utf-8")
    words = (platforms.INSTRUCTION, platforms.QUESTION, *platforms.OPTIONS)
    assert [layout.count(text) for text in words] == [1] * len(words)
    assert "grammar" not in layout


@pytest.mark.parametrize("platform", PLATFORMS)
@settings(max_examples=25, deadline=None)
@given(rows=items(), seed=st.integers(0, 2**32), data=st.data())
def test_every_answer_survives_export_annotation_and_import(platform, rows, seed, data):
    by_image = {build_image_url(row.image, PREFIX): row for row in rows}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export_tasks(rows, platform, folder, PREFIX, seed)
        answers, expected, meanings = (
            [],
            [],
            {row.item_id: Counter() for row in rows},
        )
        positions = Counter()
        presented = platforms.shown_tasks(
            platform, folder / f"plurality{platforms.SUFFIX[platform]}"
        )
        for task, image, texts in presented:
            row = by_image.pop(image)
            position = platforms.caption_position(row, texts)
            positions[position] += 1
            for person in PEOPLE:
                meaning = data.draw(st.sampled_from(("caption", "foil", *ANSWERS[2:])))
                answer = {"caption": position, "foil": OTHER[position]}.get(
                    meaning, meaning
                )
                answers.append((task, person, answer))
                expected.append(
                    AnnotationRecord(
                        item_id=row.item_id,
                        annotator=person,
                        answer=answer,
                        caption_position=position,
                    )
                )
                meanings[row.item_id][
                    meaning if meaning in ("caption", "foil") else "other"
                ] += 1
        assert not by_image
        imported = import_annotations(
            [platforms.write_results(platform, folder / "results", answers)],
            platform,
            rows,
            seed,
        )
    assert imported.skipped == []
    assert imported.annotations == sorted(
        expected, key=attrgetter("item_id", "annotator")
    )
    assert 0 <= positions["first"] - positions["second"] <= 1
    for item_id, votes in count_votes(imported.annotations, 2).items():
        count = meanings[item_id]
        assert votes == ItemVotes(
            caption=count["caption"],
            foil=count["foil"],
            other=count["other"],
            valid=count["caption"] >= 2,
        )


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_task_file_reveals_neither_item_nor_caption(tmp_path, platform):
    empty = StoredSpan(0, 0)
    rows = [
        replace(item(number), caption_span=empty, foil_span=empty)
        for number in range(200)
    ]
    export_tasks(rows, platform, tmp_path / "a", PREFIX, seed=3)
    export_tasks(rows[::-1], platform, tmp_path / "b", PREFIX, seed=3)
    name = f"relations{platforms.SUFFIX[platform]}"
    text = (tmp_path / "a" / name).read_text(encoding="utf-8")
    assert text == (tmp_path / "b" / name).read_text(encoding="utf-8")
    assert all(
        word not in text.lower() for word in ("item-", "caption", "foil", "relations")
    )
    by_image = {build_image_url(row.image, PREFIX): row for row in rows}
    positions = [
        platforms.caption_position(by_image[image], texts)
        for _, image, texts in platforms.shown_tasks(platform, tmp_path / "a" / name)
    ]
    assert positions.count("first") == 100
    # The order of tasks says nothing about positions.
    assert 35 <= positions[:100].count("first") <= 65


def test_positions_follow_the_seed_and_names_the_texts():
    def names(rows, seed):
        return {
            task.item_id: (task.task, task.caption_position)
            for task in build_tasks(rows, PREFIX, seed)
        }

    rows = [item(number) for number in range(50)]
    assert names(rows, 1) == names(rows[::-1], 1)
    assert [position for _, position in names(rows, 1).values()] != [
        position for _, position in names(rows, 2).values()
    ]
    changed = [replace(rows[0], foil="another"), *rows[1:]]
    assert {
        item_id
        for item_id, name in names(changed, 1).items()
        if name != names(rows, 1)[item_id]
    } == {"item-0"}


def test_label_studios_configuration_shows_the_tasks_and_gives_the_answers(tmp_path):
    export_tasks(ITEMS, "label-studio", tmp_path, PREFIX, seed=3)
    view = ElementTree.parse(tmp_path / "relations.xml").getroot()
    sources = {
        tag.get("name"): tag.get("value")
        for tag in view
        if tag.tag in ("Image", "HyperText")
    }
    (choices,) = view.iter("Choices")
    assert [choice.get("alias") for choice in choices] == list(ANSWERS)
    assert (choices.get("name"), choices.get("required")) == ("answer", "true")
    assert choices.get("toName") in sources
    (data, *_) = (
        entry["data"] for entry in json.loads((tmp_path / "relations.json").read_text())
    )
    assert {f"${name}" for name in data} - {"$task"} == set(sources.values())


def test_an_item_without_spans_shows_the_difference_in_bold(tmp_path):
    export_tasks(ITEMS[:1], "label-studio", tmp_path, "", seed=3)
    (entry,) = json.loads((tmp_path / "relations.json").read_text())
    assert {entry["data"]["first"], entry["data"]["second"]} == {
        "0 cats sit <b>on</b> a mat.",
        "0 cats sit <b>under</b> a mat.",
    }


def test_the_batch_is_ascii_with_one_line_for_each_task(tmp_path):
    row = replace(item(1), caption="🐈\r\n costs ${task}", foil="é")
    export_tasks([row], "mturk", tmp_path, PREFIX, seed=3)
    lines = (tmp_path / "relations.csv").read_bytes().decode("ascii").splitlines()
    assert len(lines) == 2
    assert "$" not in lines[1]


def test_each_instrument_has_a_file_and_a_key_of_its_tasks(tmp_path):
    files = export_tasks(
        [*ITEMS, item(9, "counting-small")],
        "doccano",
        tmp_path,
        PREFIX,
        seed=3,
        annotators=4,
    )
    assert sorted(str(path.relative_to(tmp_path)) for path in files) == [
        "counting-small.jsonl",
        "counting-small.labels.json",
        "keys/counting-small.json",
        "keys/relations.json",
        "relations.jsonl",
        "relations.labels.json",
    ]
    key = json.loads((tmp_path / "keys" / "relations.json").read_text())
    assert (key["annotators"], key["seed"], key["platform"]) == (4, 3, "doccano")
    assert {task["item_id"] for task in key["tasks"]} == {row.item_id for row in ITEMS}
    lines = [
        json.loads(line)
        for line in (tmp_path / "relations.jsonl").read_text().splitlines()
    ]
    # Doccano complains of lines without.
    assert [line["label"] for line in lines] == [[]] * 5
    labels = json.loads((tmp_path / "relations.labels.json").read_text())
    assert [label["text"] for label in labels] == list(ANSWERS)


def test_items_added_after_the_export_do_not_change_answers(tmp_path):
    task, item_id, position = first_task("mturk", tmp_path)
    path = platforms.write_results(
        "mturk", tmp_path / "results", [(task, "w1", "both")]
    )
    more = [item(number) for number in range(40)]
    (row,) = import_annotations([path], "mturk", more, seed=3).annotations
    assert (row.item_id, row.caption_position) == (item_id, position)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_missing_answer_is_skipped_with_its_reason(tmp_path, platform):
    task, item_id, _ = first_task(platform, tmp_path)
    path = platforms.write_results(
        platform, tmp_path / "results", [(task, "w1", ""), (task, "w2", "both")]
    )
    imported = import_annotations([path], platform, ITEMS, seed=3)
    assert imported.skipped == [SkippedAnswer(item_id, "w1", "not answered")]
    assert [row.annotator for row in imported.annotations] == ["w2"]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    ("answers", "seed", "fault"),
    [
        (
            [("T", "w1", "both"), ("T", "w1", "first")],
            3,
            "annotator 'w1' answered task '.*' twice, before at .*",
        ),
        ([("unknown", "w1", "both")], 3, "unknown task 'unknown'"),
        ([("T", "w1", "both")], 4, "unknown task '.*'; give the seed"),
        (
            [("T", "w1", "maybe")],
            3,
            "answer 'maybe' is none of first, second, both, neither, cannot tell",
        ),
    ],
)
def test_a_faulty_answer_is_refused_with_its_position(
    tmp_path, platform, answers, seed, fault
):
    task, _, _ = first_task(platform, tmp_path)
    answers = [
        (task if name == "T" else name, annotator, answer)
        for name, annotator, answer in answers
    ]
    if platform == "mturk" and answers[0][2] == "maybe":
        path = tmp_path / "results.csv"
        path.write_text(
            f"WorkerId,AssignmentStatus,Input.task,Answer.answer\nw1,Approved,{task},maybe\n"
        )
    else:
        path = platforms.write_results(platform, tmp_path / "results", answers)
    with pytest.raises(UserError, match=rf": (line|item) \d+: {fault}"):
        import_annotations([path], platform, ITEMS, seed)


def test_answers_of_two_files_are_merged(tmp_path):
    task, _, _ = first_task("mturk", tmp_path)
    paths = [
        platforms.write_results("mturk", tmp_path / name, [(task, name, "both")])
        for name in ("w1", "w2")
    ]
    assert len(import_annotations(paths, "mturk", ITEMS, seed=3).annotations) == 2


@pytest.mark.parametrize(
    ("columns", "cells", "answer"),
    [
        ("Answer.answer", "cannot tell", "cannot tell"),
        ("Answer.answer.first,Answer.answer.cannot tell", "FALSE,TRUE", "cannot tell"),
        ("Answer.answer.first,Answer.answer.both", "0,1", "both"),
        ("Answer.taskAnswers", '"[{""answer"":""neither""}]"', "neither"),
        (
            "Answer.taskAnswers",
            '"[{""answer"":{""both"":true,""first"":false}}]"',
            "both",
        ),
    ],
)
def test_every_form_of_mechanical_turks_answers_is_read(
    tmp_path, columns, cells, answer
):
    task, _, _ = first_task("mturk", tmp_path)
    path = tmp_path / "results.csv"
    path.write_text(
        f"WorkerId,AssignmentStatus,Input.task,{columns}\nw1,Submitted,{task},{cells}\n"
    )
    (row,) = import_annotations([path], "mturk", ITEMS, seed=3).annotations
    assert row.answer == answer


@pytest.mark.parametrize(
    ("columns", "cells", "fault"),
    [
        ("Answer.other", "x", "no column Answer.taskAnswers or Answer.answer"),
        (
            "Answer.taskAnswers",
            "x",
            "Answer.taskAnswers 'x' is not a list of one object",
        ),
        (
            "Answer.taskAnswers",
            '"[{""answer"":""both"",""answer"":""first""}]"',
            "Answer.taskAnswers .* is not a list",
        ),
        ("Answer.taskAnswers", "[]", r"Answer.taskAnswers '\[\]' is not"),
        (
            "Answer.answer.first,Answer.answer.both",
            "true,true",
            r"more than one answer \(got first, both",
        ),
    ],
)
def test_results_that_cannot_be_read_are_refused(tmp_path, columns, cells, fault):
    path = tmp_path / "results.csv"
    path.write_text(
        f"WorkerId,AssignmentStatus,Input.task,{columns}\nw1,Submitted,t,{cells}\n"
    )
    with pytest.raises(UserError, match=rf"results\.csv: line 2: {fault}"):
        import_annotations([path], "mturk", ITEMS, seed=3)


@pytest.mark.parametrize(
    "cells", ["Rejected,{},first,", "Submitted,{},first,no answer is right"]
)
def test_a_rejected_assignment_is_skipped_with_its_reason(tmp_path, cells):
    task, item_id, _ = first_task("mturk", tmp_path)
    path = tmp_path / "results.csv"
    path.write_text(
        "workerid,assignmentstatus,input.task,answer.answer,Reject\n"
        f"w1,{cells.format(task)}\n,,,,\n"
    )
    imported = import_annotations([path], "mturk", ITEMS, seed=3)
    assert imported.annotations == []
    assert imported.skipped == [
        SkippedAnswer(item_id, "w1", "rejected by the requester")
    ]


def test_label_studio_users_skips_and_other_exports(tmp_path):
    task, item_id, _ = first_task("label-studio", tmp_path)
    choice = {"from_name": "answer", "value": {"choices": ["both"]}}
    skipped = {"completed_by": 7, "was_cancelled": True, "result": [choice]}
    answered = {
        "completed_by": {"id": 8, "email": "b@example.org"},
        "was_cancelled": False,
        "result": [choice],
    }
    path = tmp_path / "export.json"
    path.write_text(
        json.dumps([{"data": {"task": task}, "annotations": [skipped, answered]}])
    )
    imported = import_annotations([path], "label-studio", ITEMS, seed=3)
    assert imported.skipped == [SkippedAnswer(item_id, "7", "skipped by the annotator")]
    assert [row.annotator for row in imported.annotations] == ["8"]
    for annotation, fault in (
        (
            {**answered, "completed_by": None},
            r"has no annotator \(completed_by\)",
        ),
        (
            {**answered, "result": [choice, chosen("first")]},
            r"more than one answer \(got both, first",
        ),
        ({**answered, "result": [5]}, "no result of choices"),
        (
            {**answered, "result": [{**choice, "from_name": "quality"}]},
            r"choices of 'quality' \(expected of 'answer'\)",
        ),
    ):
        path.write_text(
            json.dumps([{"data": {"task": task}, "annotations": [annotation]}])
        )
        with pytest.raises(UserError, match=rf"export\.json: item 1: .*{fault}"):
            import_annotations([path], "label-studio", ITEMS, seed=3)
    for row, fault in (
        ({"id": 1, "task": task}, "neither a list of annotations nor an annotator"),
        ({"id": 1, "annotations": []}, "no name of a task in 'data' or 'task'"),
    ):
        path.write_text(json.dumps([row]))
        with pytest.raises(UserError, match=f"item 1: {fault}; export the project as"):
            import_annotations([path], "label-studio", ITEMS, seed=3)


def chosen(answer):
    """A result of Label Studio."""
    return {"from_name": "answer", "value": {"choices": [answer]}}


def annotate(number, user, answer="both", **fields):
    """An annotation of Label Studio."""
    return {
        "id": number,
        "completed_by": user,
        "result": [chosen(answer)],
        **fields,
    }


@pytest.mark.parametrize("arrangement", ["json-min", "csv", "tsv", "old", "lines"])
def test_every_export_of_label_studio_is_read(tmp_path, arrangement):
    task, item_id, _ = first_task("label-studio", tmp_path)
    rows = []
    for number, answer in enumerate(("first", "", "first")):
        rows.append(
            {
                "task": task,
                "answer": answer,
                "annotator": number,
                "annotation_id": number,
                "was_cancelled": number == 2,
            }
        )
    path = tmp_path / f"export.{arrangement.removeprefix('json-')}"
    if arrangement in ("csv", "tsv"):
        with path.open("w", newline="") as file:
            separator = {"csv": ",", "tsv": "\t"}[arrangement]
            writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
            writer.writeheader()
            writer.writerows(rows)
    else:
        path = tmp_path / "export.json"
        entries = []
        for row in rows:
            annotation = annotate(row["annotator"], row["annotator"], row["answer"])
            annotation["was_cancelled"] = row["was_cancelled"]
            if not row["answer"]:
                annotation["result"] = None
            entries.append({"data": {"task": task}, "completions": [annotation]})
        if arrangement == "json-min":
            entries = rows
        path.write_text(json.dumps(entries))
        if arrangement == "lines":
            path.write_text("\n".join(map(json.dumps, entries)))
    imported = import_annotations([path], "label-studio", ITEMS, seed=3)
    (annotation,) = imported.annotations
    assert (annotation.annotator, annotation.answer) == ("0", "first")
    assert imported.skipped == [
        SkippedAnswer(item_id, "1", "not answered"),
        SkippedAnswer(item_id, "2", "skipped by the annotator"),
    ]


@pytest.mark.parametrize(
    ("answer", "flags", "expected", "reason"),
    [
        ("both", {"was_cancelled": "False", "ground_truth": "0"}, "both", ""),
        ("both", {"was_cancelled": "True"}, "", "skipped by the annotator"),
        ("both", {"skipped": True}, "", "skipped by the annotator"),
        ("both", {"last_action": "rejected"}, "", "rejected by a reviewer"),
        ("both", {"last_action": "fixed_and_accepted"}, "", "changed by a reviewer"),
        ("both", {"last_action": "accepted"}, "both", ""),
        (" Cannot_tell", {}, "cannot tell", ""),
        ("both", {"result": [chosen("both")] * 2}, "both", ""),
        ("", {"result": [{"type": "relation"}, chosen("first")]}, "first", ""),
        ("", {"result": [{**chosen("both"), "value": None}]}, "", "not answered"),
    ],
)
def test_what_an_annotation_says_besides_its_choice(
    tmp_path, answer, flags, expected, reason
):
    answers, skipped = import_annotated(tmp_path, [annotate(1, 7, answer, **flags)])
    assert answers == ([("7", expected)] if expected else [])
    assert skipped == ([("7", reason)] if reason else [])


def import_annotated(tmp_path, *exports):
    """The answers (annotator, answer) and skipped answers of exports, each of one task."""
    task, _, _ = first_task("label-studio", tmp_path)
    paths = []
    for number, annotations in enumerate(exports):
        paths.append(tmp_path / f"export-{number}.json")
        paths[-1].write_text(
            json.dumps([{"data": {"task": task}, "annotations": annotations}])
        )
    imported = import_annotations(paths, "label-studio", ITEMS, seed=3)
    answers = [(row.annotator, row.answer) for row in imported.annotations]
    return answers, [(row.annotator, row.reason) for row in imported.skipped]


@pytest.mark.parametrize(
    "user",
    [
        7,
        7.0,
        "7",
        " 7 ",
        [7],
        {"id": 7, "email": "Ann@Example.org", "first_name": "Ann"},
        {"id": "7"},
        "ann@example.org 7",
        "ann@example.org, 7",
        "ann@example.org",
        {"email": "ANN@example.org", "first_name": "Anna"},
    ],
)
def test_a_person_is_one_annotator_in_every_form(tmp_path, user):
    known = {"id": 7, "email": "ann@example.org"}
    later = {"updated_at": "2026-02-01T00:00:00Z"}
    answers, skipped = import_annotated(
        tmp_path,
        [annotate(1, known, updated_at="2026-01-01T00:00:00Z"), annotate(2, 8)],
        [annotate(3, user, "first", **later)],
    )
    assert answers == [("7", "first"), ("8", "both")]
    assert skipped == [("7", "replaced by a later answer of the annotator")]


def test_numbers_of_one_address_are_one_person(tmp_path):
    users = [{"id": number, "email": "ann@example.org"} for number in (7, 9)]
    exports = []
    for number, user in enumerate(users):
        later = f"2026-01-0{number + 1}T00:00:00Z"
        exports.append([annotate(number, user, updated_at=later)])
    answers, _ = import_annotated(tmp_path, *exports)
    assert answers == [("7", "both")]


@pytest.mark.parametrize(
    ("users", "fault"),
    [
        ([7, "ann@example.org"], "annotator '7' may be 'ann@example.org' of .*item 1"),
        (
            [{"id": 7, "email": "a@x.org"}, {"id": 7, "email": "b@x.org"}],
            "'7' is 'a@x.org' and 'b@x.org'; import the exports of each server",
        ),
    ],
)
def test_annotators_that_cannot_be_told_apart_are_refused(tmp_path, users, fault):
    exports = [[annotate(number, user)] for number, user in enumerate(users)]
    with pytest.raises(UserError, match=fault):
        import_annotated(tmp_path, *exports)


def test_people_of_one_name_are_two(tmp_path):
    users = [{"id": number, "first_name": "Ann"} for number in (7, 8)]
    answers, _ = import_annotated(
        tmp_path, [annotate(number, user) for number, user in enumerate(users)]
    )
    assert answers == [("7", "both"), ("8", "both")]


def test_a_record_that_comes_twice_is_one_answer(tmp_path):
    annotations = [annotate(1, 7), annotate(2, 8, "first")]
    assert import_annotated(tmp_path, annotations, annotations) == (
        [("7", "both"), ("8", "first")],
        [],
    )


def test_a_revised_answer_replaces_the_first(tmp_path):
    annotations = [annotate(1, 7), annotate(9, 7, "first", parent_annotation=1)]
    skipped = [("7", "replaced by a later answer of the annotator")]
    for order in (annotations, annotations[::-1]):
        assert import_annotated(tmp_path, order) == ([("7", "first")], skipped)
    # Another person may begin with a copy of an answer; both count.
    copied = [annotate(1, 7), annotate(9, 8, "first", parent_annotation=1)]
    assert import_annotated(tmp_path, copied) == ([("7", "both"), ("8", "first")], [])


def test_the_later_state_of_a_record_counts(tmp_path):
    states = [
        [annotate(1, 7, "first", updated_at="2026-01-02T00:00:00Z")],
        [annotate(1, 7, "both", updated_at="2026-01-01T12:00:00")],
    ]
    assert import_annotated(tmp_path, *states) == ([("7", "first")], [])
    with pytest.raises(UserError, match=r"'7' answered task '.*' twice"):
        import_annotated(tmp_path, [annotate(1, 7)], [annotate(1, 7, "first")])


@pytest.mark.parametrize("holds", ["task", "annotation"])
def test_a_file_of_one_task_or_annotation_is_read(tmp_path, holds):
    task, _, _ = first_task("label-studio", tmp_path)
    annotation = annotate(1, 7, "first")
    content = {"id": 4, "data": {"task": task}, "annotations": [annotation]}
    if holds == "annotation":
        content = {**annotation, "task": {"id": 4, "data": {"task": task}}}
    path = tmp_path / "4.json"
    path.write_text(json.dumps(content))
    (row,) = import_annotations([path], "label-studio", ITEMS, seed=3).annotations
    assert (row.annotator, row.answer) == ("7", "first")


def test_a_gold_answer_is_no_vote(tmp_path):
    answers, skipped = import_annotated(
        tmp_path, [annotate(1, 7), annotate(2, 9, "first", ground_truth=True)]
    )
    assert answers == [("7", "both")]
    assert skipped == [("9", "marked as ground truth, which is no vote")]


def test_an_assignment_that_was_downloaded_twice_is_one_answer(tmp_path):
    task, _, _ = first_task("mturk", tmp_path)
    header = "AssignmentId,WorkerId,AssignmentStatus,Input.task,Answer.answer\n"
    paths = [tmp_path / "first.csv", tmp_path / "second.csv"]
    for path in paths:
        path.write_text(f"{header}A1,w1,Approved,{task},both\n")
    assert len(import_annotations(paths, "mturk", ITEMS, seed=3).annotations) == 1
    paths[1].write_text(f"{header}A2,w1,Approved,{task},first\n")
    with pytest.raises(UserError, match=r"'w1' answered task '.*' twice"):
        import_annotations(paths, "mturk", ITEMS, seed=3)


def test_the_assignment_that_was_submitted_last_counts(tmp_path):
    task, _, _ = first_task("mturk", tmp_path)
    path = tmp_path / "results.csv"
    path.write_text(
        "AssignmentId,WorkerId,AssignmentStatus,SubmitTime,Input.task,Answer.answer\n"
        f"A1,w1,Approved,Mon Nov 02 07:00:00 PST 2026,{task},first\n"
        f"A2,w1,Approved,Mon Nov 02 07:30:00 PDT 2026,{task},both\n"  # 06:30 PST
    )
    (annotation,) = import_annotations([path], "mturk", ITEMS, seed=3).annotations
    assert annotation.answer == "first"


def test_hidden_files_next_to_doccanos_are_no_annotators(tmp_path):
    task, _, _ = first_task("doccano", tmp_path)
    folder = tmp_path / "exports"
    folder.mkdir()
    line = json.dumps({"id": 4, "task": task, "label": ["both"]}) + "\n"
    (folder / "ann.jsonl").write_text(line * 2)  # one record twice
    (folder / "._ann.jsonl").write_bytes(b"\x00\x05\x16\x07")
    (annotation,) = import_annotations([folder], "doccano", ITEMS, seed=3).annotations
    assert (annotation.annotator, annotation.answer) == ("ann", "both")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ann.JSONL", '{"id": 4, "task": "T", "label": ["Both", "Both"]}'),
        ("ann.json", '[{"id": 4, "task": "T", "label": ["both"]}]'),
        ("ann.csv", "id,task,label\n4,T,both\n"),
        ("deeper/ann (1).jsonl", '{"id": 4, "task": "T", "label": ["both"]}'),
        ("ann - Copy.jsonl", '{"id": 4, "task": "T", "label": ["both"]}'),
    ],
)
def test_every_export_of_doccano_is_read(tmp_path, name, content):
    task, _, _ = first_task("doccano", tmp_path)
    folder = tmp_path / "exports"
    (folder / "deeper").mkdir(parents=True)
    (folder / name).write_text(content.replace("T", task))
    if "Copy" in name:  # a copy is no other annotator
        (folder / "ann.jsonl").write_text(content.replace("T", task))
    (annotation,) = import_annotations([folder], "doccano", ITEMS, seed=3).annotations
    assert (annotation.annotator, annotation.answer) == ("ann", "both")


def test_a_folder_of_label_studio_is_refused(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        import_annotations([tmp_path], "label-studio", ITEMS, seed=3)


def test_doccano_exports_without_annotators_are_refused(tmp_path):
    line = json.dumps({"task": "t", "label": ["both", "first"]}) + "\n"
    for name, fault in (
        ("all.jsonl", "no names of annotators"),
        ("x.ZIP", "not a folder but an archive"),
        ("All (1).csv", "no names of annotators"),
        ("x.txt", r"ends in \.txt \(expected \.jsonl\)"),
        ("x.jsonl", "line 1: "),
    ):
        (tmp_path / name).write_text(line)
        with pytest.raises(UserError, match=fault):
            import_annotations([tmp_path / name], "doccano", ITEMS, seed=3)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no \.jsonl file"):
        import_annotations([tmp_path / "empty"], "doccano", ITEMS, seed=3)
    for line, fault in (
        ({"label": []}, "'task' is missing"),
        ({"task": "t", "label": 3}, "'label' is 3"),
    ):
        (tmp_path / "x.jsonl").write_text(json.dumps(line))
        with pytest.raises(UserError, match=rf"x\.jsonl: line 1: {fault}"):
            import_annotations([tmp_path / "x.jsonl"], "doccano", ITEMS, seed=3)


@pytest.mark.parametrize("name", ["label-studio", "LabelStudio", "label_studio"])
def test_platforms_are_known_by_other_spellings(name):
    assert choose_platform(name) == "label-studio"


def test_impossible_exports_are_refused(tmp_path):
    with pytest.raises(
        UserError, match="--platform: unknown platform \\(got 'prodigy'"
    ):
        export_tasks(ITEMS, "prodigy", tmp_path, PREFIX, seed=3)
    with pytest.raises(UserError, match="no items to export"):
        export_tasks([], "doccano", tmp_path, PREFIX, seed=3)
    with pytest.raises(ValueError, match="duplicate item ids"):
        export_tasks([*ITEMS, ITEMS[0]], "doccano", tmp_path, PREFIX, seed=3)


def test_the_release_round_trips(shared_data, tmp_path):
    rows = read_release(shared_data / "valse" / "plurals.json", "plurality", 2)
    export_tasks(rows, "mturk", tmp_path, PREFIX, seed=1)
    with (tmp_path / "plurality.csv").open(encoding="ascii", newline="") as file:
        tasks = [record["task"] for record in csv.DictReader(file)]
    path = platforms.write_results(
        "mturk", tmp_path / "results", [(task, "w1", "first") for task in tasks]
    )
    votes = count_votes(
        import_annotations([path], "mturk", rows, seed=1).annotations, 1
    )
    assert len(votes) == len(rows) == 1000
    # Who always says "first" is right in half.
    assert sum(vote.caption for vote in votes.values()) == 500
