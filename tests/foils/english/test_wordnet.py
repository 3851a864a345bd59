"""Relations among SWiG's verbs: extraction from files of WordNet's format, and the committed
resource.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

from waltz.core.errors import UserError
from waltz.foils.english.wordnet import (
    WORDNET_FOLDER,
    extract_resource,
    find_base_form,
    is_kind_of,
    main,
    read_nouns,
    read_verbs,
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
    (tmp_path / "data.verb").write_text(DATA + "\n")
    (tmp_path / "data.noun1").write_text(
        HEAD + "00000001 03 n 01 thing 0 000 | what there is"
    )
    (tmp_path / "data.noun2").write_text(
        "00000002 05 n 02 dog 0 hound 0 002 @ 00000001 n 0000 ! 00000003 n 0101 | barks\n"
        "00000003 05 n 01 Rex 0 001 @i 00000002 n 0000 | a dog\n00000004 05 n 01 tree 0 001 @ 00000001 n 0000 | grows\n"
    )
    (tmp_path / "index.adj").write_text(
        HEAD + "red a 1 0 1 0 00000001  \nfar_off a 1 0 1 0 00000002  \n"
    )
    (tmp_path / "index.adv").write_text(
        HEAD + "well-nigh r 1 0 1 0 00000003  \n'tween r 1 0 1 0 00000004  \n"
    )
    return tmp_path


def test_extraction_of_a_dictionary_worked_by_hand(
    dictionary: Path, tmp_path: Path
) -> None:
    (tmp_path / "verbs.txt").write_text(
        "pushing\nshoving\nmoving\npulling\nnudging\npooing\n"
    )
    (tmp_path / "nouns.csv").write_text("blank,0\nn00000003,1\n")
    main(
        [
            str(dictionary),
            *(str(tmp_path / name) for name in ("verbs.txt", "nouns.csv", "out")),
        ]
    )
    verbs = read_verbs(tmp_path / "out")
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
    nouns = read_nouns(tmp_path / "out")
    assert nouns == {
        "n00000001": (),
        "n00000002": ("n00000001",),
        "n00000003": ("n00000002",),
    }
    assert is_kind_of("n00000003", "n00000001", nouns)
    assert not is_kind_of("n00000001", "n00000003", nouns)
    # No class of SWiG, so not extracted.
    assert not is_kind_of("n00000004", "n00000001", nouns)
    assert read_words("adjectives", tmp_path / "out") == {"red"}
    assert read_words("adverbs", tmp_path / "out") == {"well-nigh"}


def test_files_that_are_not_wordnet_3_0_are_refused(dictionary: Path) -> None:
    (dictionary / "data.verb").write_text(DATA.replace("WordNet 3.0", "WordNet 3.1"))
    with pytest.raises(
        UserError, match=r"data\.verb: its head does not say WordNet 3\.0"
    ):
        extract_resource(dictionary, ["pushing"], [])
    (dictionary / "data.verb").write_text(DATA)
    (dictionary / "index.adj").unlink()
    with pytest.raises(UserError, match=r"index\.adj: no such file"):
        extract_resource(dictionary, ["pushing"], [])


def test_a_broken_resource_is_refused(tmp_path: Path) -> None:
    (tmp_path / "verbs.tsv").write_text(
        "verb\tbase\tsynonyms\tantonyms\thypernyms\thyponyms\npushing\tpush\n"
    )
    with pytest.raises(UserError, match="line 2 has 2 columns, not 6"):
        read_verbs(tmp_path)


def test_the_resource_is_what_the_command_extracts() -> None:
    package = find_spec("pattern")
    if package is None or not package.submodule_search_locations:
        pytest.skip(
            "the package pattern, which comes with files of WordNet 3.0, is not installed"
        )
    dictionary = (
        Path(package.submodule_search_locations[0]) / "text" / "en" / "wordnet" / "dict"
    )
    for name, text in extract_resource(
        dictionary, list(read_verbs()), list(read_nouns())
    ).items():
        assert (WORDNET_FOLDER / name).read_text() == text, name


def test_the_resource_has_swigs_verbs(shared_data: Path) -> None:
    assert (
        list(read_verbs())
        == (shared_data / "swig_imsitu" / "verb_indices.txt").read_text().split()
    )


def test_relations_of_the_resource_hold_both_ways() -> None:
    verbs = read_verbs()
    inverses = {
        "synonym": "synonym",
        "antonym": "antonym",
        "hypernym": "hyponym",
        "hyponym": "hypernym",
    }
    for verb in verbs.values():
        for relation, inverse in inverses.items():
            for name in verb.related[relation]:
                assert verb.name in verbs[name].related[inverse]
    assert verbs["buying"].find_relation("selling") == "antonym"
    assert verbs["educating"].find_relation("teaching") == "hypernym"
    assert verbs["peeing"].find_relation("urinating") == "synonym"
    assert sum(path.stat().st_size for path in WORDNET_FOLDER.iterdir()) < 1_000_000


def test_nouns_of_the_resource() -> None:
    nouns = read_nouns()
    man, person, dog, animal = "n10287213", "n00007846", "n02084071", "n00015388"
    assert is_kind_of(man, person, nouns)
    assert is_kind_of(dog, animal, nouns)
    assert not is_kind_of(person, man, nouns)
    assert not is_kind_of(man, dog, nouns)


def test_words_of_the_resource() -> None:
    assert {"red", "wooden", "middle-aged"} <= read_words("adjectives")
    assert {"quickly", "never"} <= read_words("adverbs")
    assert "quickly" not in read_words("adjectives")


@pytest.mark.parametrize(
    ("name", "base"),
    [("taxiing", "taxi"), ("putting", "put"), ("dyeing", "dye"), ("pooing", "poo")],
)
def test_base_forms(name: str, base: str) -> None:
    assert find_base_form(name, {"taxi": 1, "put": 1, "putt": 1, "dye": 1}) == base
