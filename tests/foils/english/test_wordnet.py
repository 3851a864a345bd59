"""Relations among SWiG's verbs and nouns, and the words of WordNet, in the committed tables."""

from pathlib import Path

import pytest

from waltz.core.errors import UserError
from waltz.foils.english.wordnet import (
    WORDNET_FOLDER,
    is_kind_of,
    read_hypernyms,
    read_swig_verbs,
    read_words,
)


def test_a_broken_resource_is_refused(tmp_path: Path) -> None:
    (tmp_path / "verbs.tsv").write_text(
        "verb\tbase\tsynonyms\tantonyms\thypernyms\thyponyms\npushing\tpush\n"
    )
    with pytest.raises(UserError, match="line 2 has 2 columns, not 6"):
        read_swig_verbs(tmp_path)


def test_the_resource_has_swigs_verbs(shared_data: Path) -> None:
    assert (
        list(read_swig_verbs())
        == (shared_data / "swig_imsitu" / "verb_indices.txt").read_text().split()
    )


def test_relations_of_the_resource_hold_both_ways() -> None:
    verbs = read_swig_verbs()
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
    hypernyms = read_hypernyms()
    man, person, dog, animal = "n10287213", "n00007846", "n02084071", "n00015388"
    assert is_kind_of(man, person, hypernyms)
    assert is_kind_of(dog, animal, hypernyms)
    assert not is_kind_of(person, man, hypernyms)
    assert not is_kind_of(man, dog, hypernyms)


def test_words_of_the_resource() -> None:
    assert {"red", "wooden", "middle-aged"} <= read_words("adjectives")
    assert {"quickly", "never"} <= read_words("adverbs")
    assert "quickly" not in read_words("adjectives")
