"""Candidates of a single text, and the command `waltz foil` that prints them."""

import json
import time

import pytest
from typer.testing import CliRunner

from waltz.cli.app import app
from waltz.core.errors import UserError
from waltz.foils.candidates import Refusal, build_candidate
from waltz.foils.invariants import TRUE_FOIL
from waltz.foils.single_text import BUILDERS, RANKED, build_from_texts
from waltz.instruments import TEXT_INPUTS

COPPER = "A small copper vase with some flowers in it."


def foil(*arguments, given=None):
    return CliRunner().invoke(app, ["foil", *arguments], input=given)


def objects(*arguments, given=None):
    done = foil("--json", *arguments, given=given)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("instrument", "text", "pair"),
    [
        ("plurality", "A dog sits. ", ("Exactly one dog sits.", "Some dogs sit.")),
        (
            "existence",
            "How many dogs are there? 3",
            ("There are dogs.", "There are no dogs."),
        ),
        (
            "counting-balanced",
            "How many dogs are there? 20.",
            ("There are exactly 20 dogs.", "There is exactly 1 dog."),
        ),
        (
            "counting-small",
            "How many dogs are there? 3",
            ("There are exactly 3 dogs.", "There are exactly 0 dogs."),
        ),
        (
            "counting-adversarial",
            "How many dogs are there? 4",
            ("There are exactly 4 dogs.", "There is exactly 1 dog."),
        ),
        (
            "coreference-clean",
            "A dog. Is it wet? No.",
            ("a dog. is it wet? no.", "a dog. is it wet? yes."),
        ),
    ],
)
def test_instruments_that_need_but_a_text(instrument, text, pair):
    ((given, candidates),) = build_from_texts(instrument, [text])
    results = list(candidates)
    assert given == text.strip()
    assert pair in [(candidate.caption, candidate.foil) for candidate in results]


def test_texts_stay_in_order_whatever_they_give():
    texts = ["How many dogs are there? 3", "it rains", "How many cats are there? 1"]
    results = [
        (given, list(candidates))
        for given, candidates in build_from_texts("existence", texts)
    ]
    assert [given for given, _ in results] == texts
    assert [isinstance(candidate, Refusal) for _, (candidate,) in results] == [
        False,
        True,
        False,
    ]
    ((_, refused),) = build_from_texts("coreference-clean", ["a dog on a bed"])
    assert next(refused) == Refusal(
        'the text is not of the form "caption. question? answer."'
    )


@pytest.mark.parametrize("instrument", ["plurality", "existence", "coreference-clean"])
def test_a_text_has_its_candidates_before_the_next_is_read(instrument):
    def write_texts():
        yield "A dog. How many are there? 3"
        pytest.fail("a second text was read")

    _, candidates = next(build_from_texts(instrument, write_texts()))
    assert list(candidates)


def test_a_long_text_takes_no_longer_than_its_candidates_are_long():
    (_, _), (_, candidates) = build_from_texts("plurality", ["a dog", "a dog " * 500])
    began = time.process_time()
    assert len(list(candidates)) == 2000
    # It took 15 s where each candidate walked through all words.
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("instrument", "needs"),
    [
        ("relations", "a source of format coco-captions and a masked language model"),
        ("action-replacement", "a source of format swig and a masked language model"),
        ("actant-swap", "a source of format swig"),
    ],
)
def test_an_instrument_that_needs_more_is_refused_before_any_text_is_read(
    instrument, needs
):
    with pytest.raises(
        UserError,
        match=rf"not enough for '{instrument}' \(got texts, expected {needs}\); name one of",
    ):
        next(build_from_texts(instrument, iter(["a dog"])))
    assert "actant-swap" not in BUILDERS


def test_a_misspelled_instrument_is_named_with_its_nearest():
    with pytest.raises(
        UserError,
        match=r"unknown instrument \(got 'pluralty'\); did you mean 'plurality'\?",
    ):
        next(build_from_texts("pluralty", ["a dog"]))


def test_the_command_marks_what_was_exchanged():
    done = foil(COPPER)
    assert done.exit_code == 0, done.output
    pairs = done.stdout.rstrip("\n").split("\n\n")
    assert all(len(pair.splitlines()) == 2 for pair in pairs)
    assert all(
        line.count("[") == line.count("]") == 1
        for pair in pairs
        for line in pair.splitlines()
    )
    plain = [
        tuple(line.replace("[", "").replace("]", "") for line in pair.splitlines())
        for pair in pairs
    ]
    assert (
        "caption: Exactly one small copper vase with some flowers in it.",
        "foil:    Some small copper vases with some flowers in them.",
    ) in plain


def test_the_command_prints_one_object_a_line():
    results = objects("--instrument", "plurality", COPPER)
    assert {tuple(candidate) for candidate in results} == {
        ("source_text", "caption", "foil", "caption_span", "foil_span", "direction")
    }
    assert {candidate["source_text"] for candidate in results} == {COPPER}
    assert {candidate["direction"] for candidate in results} == {"sg2pl", "pl2sg"}
    for candidate in results:
        before, after = candidate["caption_span"], candidate["foil_span"]
        assert (
            candidate["caption"][: before["start"]]
            == candidate["foil"][: after["start"]]
        )
        assert (
            candidate["caption"][before["end"] :] == candidate["foil"][after["end"] :]
        )


def test_a_rejected_candidate_is_named_and_never_printed_as_a_pair():
    text = "There is no dog in the room"
    done = foil(text)
    assert done.exit_code == 0
    assert "dogs" not in done.stdout
    assert (
        f"waltz: {text!r}: 'There are some dogs in the room' is not a foil: "
        in done.stderr
    )


def test_a_rejected_candidate_is_an_object_with_the_reason():
    refused = [
        result for result in objects(COPPER.replace("A", "No")) if "foil" not in result
    ]
    assert refused[0].keys() == {"source_text", "refused", "refused_text"}
    assert refused[0]["refused_text"].startswith("Some small copper vases")


def test_a_foil_that_is_the_text_itself_is_refused(monkeypatch):
    candidate = build_candidate("Exactly one dog.", "A dog", "one", "a", "sg2pl")
    monkeypatch.setitem(BUILDERS, "plurality", lambda *_: iter([candidate]))
    assert objects("A dog.") == [{"source_text": "A dog.", "refused": TRUE_FOIL}]
    assert foil("A dog.").stderr == f"waltz: 'A dog.': {TRUE_FOIL}\n"


def test_a_dash_reads_one_text_a_line():
    results = objects(
        "--instrument",
        "existence",
        "-",
        given="How many dogs are there? 3\n\nHow many cats are there? 0\n",
    )
    assert [(candidate["source_text"], candidate["foil"]) for candidate in results] == [
        ("How many dogs are there? 3", "There are no dogs."),
        ("How many cats are there? 0", "There are cats."),
    ]
    assert objects("--instrument", "existence", "-", given="") == []


def test_a_line_that_is_no_utf_8_is_named_after_those_before_it():
    done = foil("-", given=b"a dog\na \xff dog\n")
    assert done.exit_code == 1
    assert "caption: [Exactly one dog]" in done.stdout
    assert (
        done.stderr
        == "waltz: standard input: line 2: no UTF-8 (got 0xff at byte 2); write it in UTF-8\n"
    )


def test_a_text_without_candidates_is_named_on_standard_error():
    done = foil("--instrument", "existence", "How many dogs are there? many")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == (
        "waltz: 'How many dogs are there? many': a question whose answer is no numeral (expected a"
        ' question with its answer, such as "How many dogs are there? Three.", or a caption)\n'
    )


@pytest.mark.parametrize("instrument", ["plurality", "nouns"])
def test_a_question_gives_no_foil_of_a_caption(instrument):
    text = "How many dogs are there? Three."
    assert objects("--instrument", instrument, text) == [
        {
            "source_text": text,
            "refused": 'a question (expected a caption, such as "Two dogs sleep.")',
        }
    ]
    assert "foil" in objects('A dog by a sign that says "Who?"')[0]


@pytest.mark.parametrize(
    ("instrument", "pair"),
    [
        ("existence", ("There are dogs.", "There are no dogs.")),
        (
            "counting",
            ("Two dogs sleep on a couch.", "Three dogs sleep on a couch."),
        ),
        ("nouns", ("Two dogs sleep on a couch.", "Two cats sleep on a couch.")),
    ],
)
def test_short_names_take_a_caption(instrument, pair):
    results = objects("--instrument", instrument, "Two dogs sleep on a couch.")
    assert pair in [(result["caption"], result["foil"]) for result in results]


def test_the_help_says_what_each_instrument_takes():
    text = foil("--help").stdout
    for name, text_input in TEXT_INPUTS.items():
        assert name in text
        assert text_input.split(";")[0] in text
    assert set(TEXT_INPUTS) == {*BUILDERS, RANKED}


def test_prepositions_are_ranked_by_a_language_model(monkeypatch):
    monkeypatch.setattr(
        "waltz.cli.commands.foil._load_ranker",
        lambda: lambda texts: {text: -float(len(text)) for text in texts},
    )
    results = objects("--instrument", "prepositions", "A cat on a couch.")
    assert [result["foil"] for result in results if "foil" in result] == [
        "A cat under a couch.",
        "A cat next to a couch.",
    ]
    (refused,) = objects("--instrument", "prepositions", "Is a cat on a couch?")
    assert refused["refused"].startswith("a question")


COCO = {
    "images": [{"id": 1, "file_name": "1.jpg"}],
    "annotations": [
        {"id": 5, "image_id": 1, "caption": "A dog."},
        {"id": 6, "image_id": 1, "caption": "A cat."},
    ],
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("texts.txt", "A dog.\n\nA cat.\n"),
        ("texts", "A dog.\nA cat.\n"),
        ("marked.txt", "\ufeffA dog.\nA cat.\n"),
        ("captions.csv", "image,caption\n1.jpg,A dog.\n2.jpg,A cat.\n"),
        ("captions.csv", "\ufeffcaption\nA dog.\nA cat.\n"),
        ("texts.jsonl", '{"text": "A dog.", "id": 1}\n{"text": "A cat.", "id": 2}\n'),
        ("coco.json", json.dumps(COCO)),
        ("captions.tsv", "image\tcaption\n1.jpg\tA dog.\n2.jpg\tA cat.\n"),
        ("captions.csv", "image; Caption\n1.jpg;A dog.\n2.jpg;A cat.\n"),
        ("captions.json", '[{"caption": "A dog."}, {"caption": "A cat."}]'),
    ],
)
def test_a_file_has_the_candidates_of_its_texts(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    results = objects(str(path))
    assert results == objects("A dog.") + objects("A cat.")


def test_a_row_without_text_is_named_and_not_skipped(tmp_path):
    path = tmp_path / "captions.json"
    path.write_text('[{"caption": null, "id": 1}, {"caption": "A dog.", "id": 2}]')
    first, *others = objects(str(path))
    assert first == {"source_text": "", "refused": "no noun phrase"}
    assert others == objects("A dog.")


def test_a_table_of_questions_has_their_answers(tmp_path):
    path = tmp_path / "questions.csv"
    path.write_text("question,answer\nHow many dogs are there?,3\n", encoding="utf-8")
    (result,) = objects("--instrument", "existence", str(path))
    assert result["foil"] == "There are no dogs."


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            "image,heading\n1.jpg,A dog.\n",
            "no column of texts (got image, heading, expected caption, captions, text, sentence, sentences,"
            " description, title, comment, or question and answer); name it in the first line",
        ),
        (
            "a.jsonl",
            '{"caption": true}\n',
            "line 1: caption is True (expected a text); correct it",
        ),
        ("a.csv", None, "no such file"),
        ("a.txt", None, "no such file"),
        ("my own a.csv", None, "no such file; check the path"),
        ("a.xlsx", "?", "a.xlsx"),
    ],
)
def test_a_file_without_texts_is_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_text(content, encoding="utf-8")
    done = foil(str(path))
    assert done.exit_code == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_is_no_text(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    done = foil("photos")
    assert done.exit_code == 1
    assert done.stderr.startswith("waltz: photos: is a folder, and no data set that")


def test_the_command_refuses_an_instrument_that_needs_more():
    done = foil("--instrument", "actant-swap", "a dog on a bed")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "waltz: --instrument: a text is not enough for 'actant-swap' (got texts, expected a source"
    )
    assert len(done.stderr.splitlines()) == 1


def test_an_empty_text_is_refused():
    result = foil(" ")
    assert result.exit_code == 1
    assert (
        result.stderr == "waltz: text: empty (got ' ', expected words); write a text\n"
    )
