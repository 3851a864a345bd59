"""Relations among SWiG's verbs: extraction from files of WordNet's format, and the committed resource."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from waltz.core.errors import UserError
from waltz.foils.wordnet import RESOURCE, base_of, extract, main, read_verbs, read_words

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
    (tmp_path / "index.adj").write_text(HEAD + "red a 1 0 1 0 00000001  \nfar_off a 1 0 1 0 00000002  \n")
    (tmp_path / "index.adv").write_text(HEAD + "well-nigh r 1 0 1 0 00000003  \n'tween r 1 0 1 0 00000004  \n")
    return tmp_path


def test_extraction_of_a_dictionary_worked_by_hand(dictionary: Path, tmp_path: Path) -> None:
    (tmp_path / "verbs.txt").write_text("pushing\nshoving\nmoving\npulling\nnudging\npooing\n")
    main([str(dictionary), str(tmp_path / "verbs.txt"), str(tmp_path / "out")])
    verbs = read_verbs(tmp_path / "out")
    assert {other: verbs["pushing"].relation(other) for other in verbs} == {
        "pushing": None,
        "shoving": "synonym",
        "moving": "hypernym",
        "pulling": "antonym",
        "nudging": "hyponym",
        "pooing": None,
    }
    assert verbs["shoving"].relation("pulling") is None  # antonymy is of the word push
    assert verbs["nudging"].relation("moving") is None  # two steps up
    assert (verbs["pushing"].base, verbs["pooing"].base) == ("push", "poo")
    assert read_words("adjectives", tmp_path / "out") == {"red"}
    assert read_words("adverbs", tmp_path / "out") == {"well-nigh"}


def test_files_that_are_not_wordnet_3_0_are_refused(dictionary: Path) -> None:
    (dictionary / "data.verb").write_text(DATA.replace("WordNet 3.0", "WordNet 3.1"))
    with pytest.raises(UserError, match=r"data\.verb: its head does not say WordNet 3\.0"):
        extract(dictionary, ["pushing"])
    (dictionary / "data.verb").write_text(DATA)
    (dictionary / "index.adj").unlink()
    with pytest.raises(UserError, match=r"index\.adj: no such file"):
        extract(dictionary, ["pushing"])


def test_a_broken_resource_is_refused(tmp_path: Path) -> None:
    (tmp_path / "verbs.tsv").write_text("verb\tbase\tsynonyms\tantonyms\thypernyms\thyponyms\npushing\tpush\n")
    with pytest.raises(UserError, match="line 2 has 2 columns, not 6"):
        read_verbs(tmp_path)


def test_the_resource_is_what_the_command_extracts() -> None:
    package = find_spec("pattern")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the package pattern, which comes with files of WordNet 3.0, is not installed")
    dictionary = Path(package.submodule_search_locations[0]) / "text" / "en" / "wordnet" / "dict"
    for name, text in extract(dictionary, list(read_verbs())).items():
        assert (RESOURCE / name).read_text() == text, name


def test_the_resource_has_swigs_verbs(shared_data: Path) -> None:
    assert list(read_verbs()) == (shared_data / "swig_imsitu" / "verb_indices.txt").read_text().split()


def test_relations_of_the_resource_hold_both_ways() -> None:
    verbs = read_verbs()
    back = {"synonym": "synonyms", "antonym": "antonyms", "hypernym": "hyponyms", "hyponym": "hypernyms"}
    for verb in verbs.values():
        for name, inverse in back.items():
            for other in getattr(verb, f"{name}s"):
                assert verb.name in getattr(verbs[other], inverse), (verb.name, name, other)
    assert verbs["buying"].relation("selling") == "antonym"
    assert verbs["educating"].relation("teaching") == "hypernym"
    assert verbs["peeing"].relation("urinating") == "synonym"
    assert sum(path.stat().st_size for path in RESOURCE.iterdir()) < 1_000_000


def test_words_of_the_resource() -> None:
    assert {"red", "wooden", "middle-aged"} <= read_words("adjectives")
    assert {"quickly", "never"} <= read_words("adverbs")
    assert "quickly" not in read_words("adjectives")


@pytest.mark.parametrize(
    ("name", "base"), [("taxiing", "taxi"), ("putting", "put"), ("dyeing", "dye"), ("pooing", "poo")]
)
def test_base_forms(name: str, base: str) -> None:
    assert base_of(name, {"taxi": 1, "put": 1, "putt": 1, "dye": 1}) == base
