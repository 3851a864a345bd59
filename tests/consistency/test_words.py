"""The words that edits insert: extraction, and what is committed."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from waltz.consistency.edit_tests.modifiers import COUNTS, extract_counts, list_modifiers, main
from waltz.core.errors import UserError
from waltz.foils.english.wordnet import WORDNET_FOLDER

HEAD = "  1 WordNet 3.0 Copyright 2006 by Princeton University.\n"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    dictionary, out = tmp_path / "dict", tmp_path / "out"
    dictionary.mkdir()
    out.mkdir()
    (dictionary / "data.adj").write_text(
        HEAD
        + "00000001 00 a 02 red 0 Roman 0 000 | a red rose\n00000002 00 s 03 red(p) 1 far_off(ip) 0 red(x) 0 000 |\n"
    )
    (dictionary / "data.adv").write_text(HEAD + "00000003 02 r 01 well 0 000 | in a good way\n")
    (out / "adjectives.txt").write_text("red\nroman\n")
    (out / "adverbs.txt").write_text("well\n")
    return dictionary, out


def test_words_of_a_dictionary_worked_by_hand(folders: tuple[Path, Path]):
    dictionary, out = folders
    main([str(dictionary), str(out)])
    assert (out / COUNTS).read_text() == "a\tRoman\t1\na\tfar_off\t1\na\tred\t2\na\tred(x)\t1\na\troman\t0\n"
    assert list_modifiers("adjectives", "published", out) == ("Roman", "far_off", "red", "red", "red(x)")
    assert list_modifiers("adverbs", "published", out) == ("well",)
    assert list_modifiers("adjectives", "equations", out) == ("red", "roman")


def test_files_that_cannot_be_used_are_named(folders: tuple[Path, Path]):
    dictionary, out = folders
    (dictionary / "data.adv").write_text("00000003 02 r 01 well 0 000 | in a good way\n")
    with pytest.raises(UserError, match=r"data\.adv: its head does not say WordNet 3\.0"):
        extract_counts(dictionary, out)
    (out / COUNTS).write_text("a\tred\t2\nn\tdog\t1\n")
    with pytest.raises(UserError, match=r"malformed line: .*:2"):
        list_modifiers("adjectives", "published", out)
    with pytest.raises(UserError, match="usage"):
        main([])


def test_the_committed_urns_have_as_many_words_as_wordnet_has_senses():
    # wnstats of WordNet 3.0: 5580 word-sense pairs of adverbs, 4481 of them distinct; two of its 30002 of adjectives
    # stand twice in their synset
    adverbs, adjectives = list_modifiers("adverbs", "published"), list_modifiers("adjectives", "published")
    assert (len(adverbs), len(set(adverbs)), len(adjectives)) == (5580, 4481, 30004)
    assert {"a_cappella", "A.D.", "then"} <= set(adverbs)
    assert not any("_" in word or word != word.lower() for word in list_modifiers("adverbs", "equations"))


def test_the_committed_counts_are_what_the_dictionary_gives():
    found = find_spec("pattern")
    if found is None or found.origin is None:
        pytest.skip("patternfork-nosql-fix, which has WordNet's files, is not installed")
    dictionary = Path(found.origin).parent / "text" / "en" / "wordnet" / "dict"
    assert extract_counts(dictionary, WORDNET_FOLDER) == (WORDNET_FOLDER / COUNTS).read_text(encoding="utf-8")
