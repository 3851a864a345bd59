"""VQA v2, GQA, Visual7W and VisDial."""

import json
from pathlib import Path
from typing import Any

import pytest

from waltz.core.errors import UserError
from waltz.core.records import read_records, to_row, write_records
from waltz.sources.formats.pairs import read_release
from waltz.sources.formats.questions import (
    read_gqa,
    read_gqa_lines,
    read_visdial,
    read_visual7w,
    read_vqa,
)
from waltz.sources.records import DialogueTurn, QuestionRecord, TurnRecord


def question(question_id: int, **changes: Any) -> dict[str, Any]:
    return {
        "question_id": question_id,
        "image_id": 4,
        "question": "What is it?",
    } | changes


def annotation(
    question_id: int, answers: str = "net net mesh", **changes: Any
) -> dict[str, Any]:
    records = [
        {"answer": word, "answer_id": number}
        for number, word in enumerate(answers.split(), 1)
    ]
    return {"question_id": question_id, "answers": records} | changes


def read(
    write_json: Any, questions: list[Any], annotations: list[Any] | None
) -> list[QuestionRecord]:
    path = write_json(
        {"data_subtype": "val2014", "questions": questions}, "questions.json"
    )
    answers = (
        None
        if annotations is None
        else write_json({"annotations": annotations}, "annotations.json")
    )
    return list(read_vqa(path, answers, "vqa"))


def test_questions_are_joined_with_their_answers(
    write_json: Any, tmp_path: Path
) -> None:
    full = annotation(
        40,
        image_id=4,
        multiple_choice_answer="mesh",
        question_type="what is",
        answer_type="other",
    )
    rows = read(
        write_json,
        [question(40), question(41)],
        [annotation(41, "dog cat cat dog"), full],
    )
    assert to_row(rows[0]) == {
        "source": "vqa",
        "source_id": "40",
        "split": "val2014",
        "image": "COCO_val2014_000000000004.jpg",
        "question": "What is it?",
        "answer": "mesh",
        "answers": ["net", "net", "mesh"],
        "choices": (),
        "type": "what is",
        "answer_type": "other",
        "full_answer": None,
        "balanced": None,
        "rejected": None,
    }
    assert rows[1].answer == "dog"
    assert (rows[1].type, rows[1].answer_type) == (None, None)
    assert write_records(tmp_path / "rows.parquet", rows, QuestionRecord) == (2, 0)


def test_withheld_answers_are_no_reason_to_reject(write_json: Any) -> None:
    (row,) = read(write_json, [question(40)], None)
    assert (row.answer, row.rejected) == (None, None)


def test_unusable_questions_of_vqa_stay_with_their_reason(write_json: Any) -> None:
    questions = [question(40), question(41, question="\n"), question(42), question(43)]
    annotations = [
        annotation(42, ""),
        annotation(43, "x", multiple_choice_answer=""),
        annotation(41),
    ]
    assert [row.rejected for row in read(write_json, questions, annotations)] == [
        "the question has no annotation",
        "the question is empty",
        "the answer is empty",
        "the answer is empty",
    ]


@pytest.mark.parametrize(
    ("questions", "annotations", "message"),
    [
        (
            [question(40), question(40) | {"more": 1}],
            [],
            r"questions\.json: question 40: duplicate id",
        ),
        (
            [question(40)],
            [annotation(40), annotation(40) | {"more": 1}],
            r"annotations\.json: question 40: duplicate id",
        ),
        (
            [question(40)],
            [annotation(40), annotation(41)],
            "question 41 is not in .*questions.json; use two files",
        ),
        (
            [question(40)],
            [annotation(41), annotation(40)],
            "question 41 is not in .*questions.json; use two files",
        ),
        (
            [question(40)],
            [annotation(40, image_id=5)],
            "question 40: image_id 5 is not the question's, 4",
        ),
        (
            [question(40)],
            [annotation(40) | {"answers": ["net"]}],
            "question 40: field 'answers': entry 0 is a text, not an object",
        ),
        (
            [question(40)],
            [annotation(40) | {"answers": [{}]}],
            "question 40: answer 0: field 'answer' is missing",
        ),
        (
            [question(40, question=3)],
            [],
            "question 40: field 'question' is a whole number, not a text",
        ),
        (
            [question(40, image_id=None)],
            [],
            "question 40: field 'image_id' is null, not a whole number",
        ),
    ],
)
def test_broken_files_of_vqa_are_named(
    write_json: Any, questions: Any, annotations: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read(write_json, questions, annotations)


def test_the_real_questions_of_vqa(shared_data: Path) -> None:
    folder = shared_data / "vqa_v2"
    rows = list(read_vqa(folder / "questions.json", folder / "annotations.json", "vqa"))
    assert [row.source_id for row in rows] == ["458752000", "458752001", "458752002"]
    assert {row.image for row in rows} == {"COCO_train2014_000000458752.jpg"}
    assert [len(row.answers) for row in rows] == [10, 10, 10]
    assert rows[0].answer == "net"


RECORD = {
    "question": "Is it round?",
    "imageId": "n16",
    "answer": "yes",
    "fullAnswer": "Yes, it is.",
    "isBalanced": False,
    "types": {"structural": "verify", "semantic": "attr", "detailed": "verifyAttr"},
    "semantic": [{"operation": "select", "dependencies": [], "argument": "it"}],
}


def test_questions_of_gqa_become_rows(write_json: Any, tmp_path: Path) -> None:
    test_record = {"question": "Is it?", "imageId": 16, "isBalanced": True}
    rows = list(read_gqa(write_json({"20": RECORD, "21": test_record}), "gqa", "val"))
    assert to_row(rows[0]) == {
        "source": "gqa",
        "source_id": "20",
        "split": "val",
        "image": "n16.jpg",
        "question": "Is it round?",
        "answer": "yes",
        "answers": (),
        "choices": (),
        "type": "verify",
        "answer_type": None,
        "full_answer": "Yes, it is.",
        "balanced": False,
        "rejected": None,
    }
    assert rows[1].image == "16.jpg"
    assert (
        rows[1].answer,
        rows[1].type,
        rows[1].balanced,
        rows[1].rejected,
    ) == (None, None, True, None)
    assert write_records(tmp_path / "rows.parquet", rows, QuestionRecord) == (2, 0)


def test_unusable_questions_of_gqa_stay_with_their_reason(write_json: Any) -> None:
    content = {"20": RECORD | {"question": ""}, "21": RECORD | {"answer": ""}}
    reasons = [row.rejected for row in read_gqa(write_json(content), "gqa", None)]
    assert reasons == ["the question is empty", "the answer is empty"]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (RECORD | {"imageId": None}, "question 20: field 'imageId' is null"),
        (
            RECORD | {"isBalanced": "yes"},
            "question 20: field 'isBalanced' is a text, not true or false",
        ),
        (
            RECORD | {"types": ["verify"]},
            "question 20: field 'types' is a list, not an object",
        ),
        ([RECORD], "'20' of the root is a list, not an object"),
    ],
)
def test_broken_questions_are_named(write_json: Any, record: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(read_gqa(write_json({"20": record}), "gqa", None))


def test_a_repeated_question_is_named(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text(
        '{"20": {"question": "a", "imageId": "1"}, "20": {"question": "b", "imageId": "1"}}'
    )
    with pytest.raises(UserError, match="the root: key '20' stands twice"):
        list(read_gqa(path, "gqa", None))


def test_lines_lose_the_instruction(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    text = "Is it?\nAnswer the question using a single word or phrase."
    line = json.dumps({"question_id": "7", "image": "n1.jpg", "text": text}) + "\n"
    path.write_text(line)
    (row,) = read_gqa_lines(path, "gqa", "testdev")
    assert (row.question, row.image, row.answer) == ("Is it?", "n1.jpg", None)
    path.write_text(line * 2)
    with pytest.raises(UserError, match="line 2: question 7: duplicate id"):
        list(read_gqa_lines(path, "gqa", "testdev"))


def test_the_real_questions_of_gqa(shared_data: Path) -> None:
    lines = list(
        read_gqa_lines(
            shared_data / "gqa" / "llava_gqa_testdev_balanced.jsonl", "gqa", "testdev"
        )
    )
    assert len(lines) == 12_578
    assert len({row.image for row in lines}) == 398
    assert not any("Answer the question" in row.question for row in lines)
    by_id = {row.source_id: row for row in lines}
    (question,) = read_gqa(
        shared_data / "gqa" / "fixture_questions_a.json", "gqa", "testdev"
    )
    assert question.answer == "picture"
    line = by_id["202218649"]
    assert (line.question, line.image) == (question.question, question.image)


def pair(qa_id: int = 5, **changes: Any) -> dict[str, Any]:
    return {
        "qa_id": qa_id,
        "image_id": 1,
        "question": "How many dogs are there?",
        "answer": "Two.",
        "multiple_choices": ["One.", "Three.", "Four."],
        "type": "how",
    } | changes


def build_visual7w(*pairs: Any) -> dict[str, Any]:
    image = {
        "image_id": 1,
        "filename": "v7w_1.jpg",
        "split": "test",
        "qa_pairs": list(pairs),
    }
    return {"dataset": "visual7w-telling", "images": [image]}


def test_questions_of_visual7w_become_rows(write_json: Any, tmp_path: Path) -> None:
    rows = list(
        read_visual7w(
            write_json(
                build_visual7w(pair(), pair(6, answer="One."), pair(7, question=" "))
            ),
            "visual7w",
        )
    )
    assert to_row(rows[0]) == {
        "source": "visual7w",
        "source_id": "5",
        "split": "test",
        "image": "v7w_1.jpg",
        "question": "How many dogs are there?",
        "answer": "Two.",
        "answers": (),
        "choices": ["One.", "Three.", "Four."],
        "type": "how",
        "answer_type": None,
        "full_answer": None,
        "balanced": None,
        "rejected": None,
    }
    assert [row.rejected for row in rows[1:]] == [
        "the answer stands among the wrong ones",
        "the question is empty",
    ]
    assert write_records(tmp_path / "rows.parquet", rows, QuestionRecord) == (3, 2)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (pair(), "question 5: duplicate id"),
        (
            pair(6, image_id=2),
            "question 6: image_id 2 is not the image that lists it, 1",
        ),
        (pair(6, answer=3), "question 6: field 'answer' is a whole number, not a text"),
        (
            pair(6, multiple_choices=["One.", 2]),
            "question 6: field 'multiple_choices': entry 1 is a whole number",
        ),
        (7, "image 1: field 'qa_pairs': entry 1 is a whole number, not an object"),
    ],
)
def test_broken_pairs_are_named(write_json: Any, broken: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(read_visual7w(write_json(build_visual7w(pair(), broken)), "visual7w"))


def test_a_repeated_image_is_named(write_json: Any) -> None:
    content = build_visual7w(pair())
    content["images"].append({**content["images"][0], "filename": "other.jpg"})
    with pytest.raises(UserError, match="image 1: duplicate id"):
        list(read_visual7w(write_json(content), "visual7w"))


def build_visdial(*rounds: Any, **changes: Any) -> dict[str, Any]:
    dialogue = {
        "image_id": 12,
        "caption": "a dog runs",
        "dialog": list(rounds),
    } | changes
    pools = {
        "questions": ["is it big", "is it brown"],
        "answers": ["no", "yes it is", " "],
    }
    return {
        "data": {"dialogs": [dialogue], **pools},
        "version": "1.0",
        "split": "val2018",
    }


def turn(question: Any, answer: Any) -> dict[str, Any]:
    return {
        "question": question,
        "answer": answer,
        "answer_options": [0, 1],
        "gt_index": 0,
    }


def test_rounds_become_rows(write_json: Any, tmp_path: Path) -> None:
    rows = list(
        read_visdial(write_json(build_visdial(turn(0, 0), turn(1, 1))), "visdial")
    )
    assert to_row(rows[1]) == {
        "source": "visdial",
        "source_id": "12#2",
        "split": "val2018",
        "image": "VisualDialog_val2018_000000000012.jpg",
        "caption": "a dog runs",
        "round": 2,
        "question": "is it brown",
        "answer": "yes it is",
        "history": [{"question": "is it big", "answer": "no"}],
        "rejected": None,
    }
    assert (rows[0].round, rows[0].history) == (1, [])
    write_records(tmp_path / "turns.parquet", rows, TurnRecord)
    assert list(read_records(tmp_path / "turns.parquet", TurnRecord)) == rows


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (turn(2, 0), "question 2 is outside its pool of 2"),
        (turn(0, -1), "answer -1 is outside its pool of 3"),
        (turn(0, 2), "the answer is empty"),
        ({"question": 0, "answer_options": []}, "the round has no answer"),
    ],
)
def test_an_unusable_round_and_those_after_it_are_rejected(
    write_json: Any, broken: Any, reason: str
) -> None:
    rows = list(
        read_visdial(
            write_json(build_visdial(turn(0, 0), broken, turn(1, 1))), "visdial"
        )
    )
    assert [row.rejected for row in rows] == [None, reason, f"round 2: {reason}"]
    assert rows[2].history == [DialogueTurn("is it big", "no")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            build_visdial(turn("0", 0)),
            "dialogue of image 12: round 1: field 'question' is a text, not a whole number",
        ),
        (
            build_visdial("none"),
            "dialogue of image 12: field 'dialog': entry 0 is a text, not an object",
        ),
        (
            build_visdial(caption=None),
            "dialogue of image 12: field 'caption' is null, not a text",
        ),
        (
            build_visdial(image_id="twelve"),
            "image id 'twelve' does not fit the template",
        ),
        ([], "'split' is missing"),
        ({"split": "val2018", "data": []}, "'data.questions' is missing"),
        (
            {"split": "val2018", "data": {"questions": {}}},
            "'data.questions' is an object, not a list",
        ),
    ],
)
def test_broken_files_of_visdial_are_named(
    write_json: Any, content: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        list(read_visdial(write_json(content), "visdial"))


def test_image_names_may_be_given(write_json: Any) -> None:
    path = write_json(build_visdial(turn(0, 0)))
    (row,) = read_visdial(path, "visdial", {"12": "COCO_val2014_000000000012.jpg"})
    assert row.image == "COCO_val2014_000000000012.jpg"
    with pytest.raises(
        UserError,
        match="dialogue of image 12: image id 12 is not among the 1 known images",
    ):
        list(read_visdial(path, "visdial", {"13": "x.jpg"}))


def test_a_repeated_dialogue_is_named(write_json: Any) -> None:
    content = build_visdial(turn(0, 0))
    (dialogue,) = content["data"]["dialogs"]
    content["data"]["dialogs"].append({**dialogue, "more": 1})
    with pytest.raises(UserError, match="dialogue of image 12: duplicate id"):
        list(read_visdial(write_json(content), "visdial"))


def test_the_real_dialogues(shared_data: Path) -> None:
    rows = list(
        read_visdial(
            shared_data / "visdial" / "visdial_1.0_val_visdialconv.json", "visdial"
        )
    )
    assert len(rows) == 970
    assert len({row.image for row in rows}) == 97
    assert all(row.rejected is None for row in rows)
    assert [len(row.history) for row in rows[:10]] == list(range(10))
    clean = read_release(
        shared_data / "valse" / "coreference-hard.json", "coreference-clean", 2
    )
    assert len({item.image for item in clean} & {row.image for row in rows}) == 13
