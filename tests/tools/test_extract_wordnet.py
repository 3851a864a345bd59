"""Extraction of waltz's tables from files of WordNet's format, worked by hand."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.extract_wordnet import extract_tables, find_base_form, main
from waltz.core.errors import UserError
from waltz.foils.english.wordnet import (
    WORDNET_FOLDER,
    is_kind_of,
    read_hypernyms,
    read_swig_verbs,
    read_words,
)

HEAD = "  1 WordNet 3.0 Copyright 2006 by Princeton University.\n"

# 10 push/shove, above it 20 move; 30 pull, antonym of the word `push` of 10 only; 40 nudge, below 10.
DATA = HEAD + "\n".join(
    [
        "00000010 38 v 02 push 0 shove 0 003 @ 00000020 v 0000 ! 00000030 v 0101 ~ 00000040 v 0000 01 + 08 00 | press",
        "00000020 38 v 01 move 0 002 ~ 00000010 v 0000 ~ 00000030 v 0000 01 + 08 00 | displace",
        "00000030 38 v 01 pull 0 002 @ 00000020 v 0000 ! 00000010 v 0101 01 + 08 00 | draw | toward",
        "00000040 38 v 01 nudge 0 002 @ 00000010 v 0000 + 00000099 n 0101 01 + 08 00 | push gently",
    ]
)


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    texts = {
        "data.verb": DATA + "\n",
        "data.noun1": HEAD + "00000001 03 n 01 thing 0 000 | what there is",
        "data.noun2": (
            "00000002 05 n 02 dog 0 hound 0 002 @ 00000001 n 0000 ! 00000003 n 0101 | barks\n"
            "00000003 18 n 01 Rex 0 001 @i 00000002 n 0000 | a dog\n"
            "00000004 20 n 01 tree 0 001 @ 00000001 n 0000 | grows\n"
        ),
        "index.noun": HEAD
        + "dog n 2 1 @ 2 1 00000002 00000001  \nrex n 1 1 @ 1 0 00000003  \n"
        + "hot_dog n 1 0 1 0 00000002  \ntree n 1 1 @ 1 0 00000004  \n"
        + "thing n 2 0 2 1 00000001 00000002  \n",
        "index.adj": HEAD
        + "red a 1 0 1 0 00000001  \nfar_off a 1 0 1 0 00000002  \nroman a 1 0 1 0 00000001  \n",
        "index.adv": HEAD
        + "well-nigh r 1 0 1 0 00000003  \n'tween r 1 0 1 0 00000004  \n",
        "data.adj": HEAD
        + "00000001 00 a 02 red 0 Roman 0 000 | a red rose\n00000002 00 s 03 red(p) 1 far_off(ip) 0 red(x) 0 000 |\n",
        "data.adv": HEAD + "00000003 02 r 01 well-nigh 0 000 | almost\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_extraction_of_a_dictionary_worked_by_hand(
    dictionary: Path, tmp_path: Path
) -> None:
    (tmp_path / "verbs.txt").write_text(
        "pushing\nshoving\nmoving\npulling\nnudging\npooing\n"
    )
    (tmp_path / "nouns.csv").write_text("blank,0\nn00000003,1\n")
    out = tmp_path / "out"
    files = (tmp_path / "verbs.txt", tmp_path / "nouns.csv", out)
    main([str(dictionary), *map(str, files)])
    verbs = read_swig_verbs(out)
    assert {other: verbs["pushing"].find_relation(other) for other in verbs} == {
        "pushing": None,
        "shoving": "synonym",
        "moving": "hypernym",
        "pulling": "antonym",
        "nudging": "hyponym",
        "pooing": None,
    }
    # Antonymy is of the word push.
    assert verbs["shoving"].find_relation("pulling") is None
    assert verbs["nudging"].find_relation("moving") is None  # two steps up
    assert (verbs["pushing"].base, verbs["pooing"].base) == ("push", "poo")
    hypernyms = read_hypernyms(out)
    assert hypernyms == {
        "n00000001": (),
        "n00000002": ("n00000001",),
        "n00000003": ("n00000002",),
    }
    assert is_kind_of("n00000003", "n00000001", hypernyms)
    assert not is_kind_of("n00000001", "n00000003", hypernyms)
    # No class of SWiG, so not extracted.
    assert not is_kind_of("n00000004", "n00000001", hypernyms)
    assert read_words("adjectives", out) == {"red", "roman"}
    assert read_words("adverbs", out) == {"well-nigh"}
    assert read_words("things", out) == {"tree"}
    # "Rex" is a name, and the second sense of "thing" does not count.
    assert "rex" not in read_words("people", out)
    assert read_words("animals", out) == {"dog"}
    # The numbers of senses that differ from one for each single word.
    assert (out / "modifiers.tsv").read_text() == (
        "a\tRoman\t1\na\tfar_off\t1\na\tred\t2\na\tred(x)\t1\na\troman\t0\n"
    )


@pytest.mark.parametrize("name", ["data.verb", "data.adv"])
def test_files_that_are_not_wordnet_3_0_are_refused(
    dictionary: Path, name: str
) -> None:
    text = (dictionary / name).read_text()
    (dictionary / name).write_text(text.replace("WordNet 3.0", "WordNet 3.1"))
    with pytest.raises(UserError, match=rf"{name}: its head does not say WordNet 3\.0"):
        extract_tables(dictionary, ["pushing"], [])


def test_a_missing_file_is_named(dictionary: Path) -> None:
    (dictionary / "index.adj").unlink()
    with pytest.raises(UserError, match=r"index\.adj: no such file"):
        extract_tables(dictionary, ["pushing"], [])


def test_the_committed_tables_are_what_the_command_extracts() -> None:
    spec = find_spec("pattern")
    if spec is None or spec.origin is None:
        pytest.skip(
            "patternfork-nosql-fix, which has WordNet's files, is not installed"
        )
    dictionary = Path(spec.origin).parent / "text" / "en" / "wordnet" / "dict"
    verbs = list(read_swig_verbs())
    tables = extract_tables(dictionary, verbs, list(read_hypernyms()))
    for name, text in tables.items():
        assert (WORDNET_FOLDER / name).read_text(encoding="utf-8") == text, name


@pytest.mark.parametrize(
    ("name", "base"),
    [("taxiing", "taxi"), ("putting", "put"), ("dyeing", "dye"), ("pooing", "poo")],
)
def test_base_forms(name: str, base: str) -> None:
    assert find_base_form(name, {"taxi": 1, "put": 1, "putt": 1, "dye": 1}) == base
