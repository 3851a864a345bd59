"""WordNet 3.0: relations among the verbs and nouns of SWiG, and lists of adjectives and adverbs.

    python -m waltz.foils.english.wordnet DICT VERBS NOUNS OUT

writes these tables to the folder OUT. It reads the files of WordNet in the folder DICT, the list of
verbs of SWiG (-ing forms) and its list of noun classes (synsets, `train_classes.csv`). The files of
WordNet are parsed here because the distributions of WordNet 3.0 lack files that the reader of nltk
needs.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal

from lemminflect import getAllLemmas

from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.core.files.resources import RESOURCES

VERSION = "WordNet 3.0"

WORDNET_FOLDER = RESOURCES / "wordnet"
"""Folder of the extracted tables."""

COLUMNS = ("verb", "base", "synonyms", "antonyms", "hypernyms", "hyponyms")

Relation = Literal["antonym", "synonym", "hypernym", "hyponym"]
RELATIONS: tuple[Relation, ...] = ("synonym", "antonym", "hypernym", "hyponym")
"""The relations, in the order of their columns in `verbs.tsv`."""
PRECEDENCE: tuple[Relation, ...] = ("antonym", "synonym", "hypernym", "hyponym")
"""The relations; of several relations between two verbs the first one counts."""

POINTERS: dict[str, Relation] = {"!": "antonym", "@": "hypernym", "~": "hyponym"}
"""Relation of each symbol in the data files of WordNet."""

HEAD_START = "  "
"""Beginning of the lines at the head of a file of WordNet, which contains the license."""
SINGLE_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")


@dataclass(frozen=True)
class Verb:
    """A verb of SWiG, and the verbs of SWiG to which any of its senses is related.

    Attributes:
        name: The verb as an -ing form.
        base: Base form.
        related: Names of verbs by relation: synonyms share a synset with the verb, antonyms have a
            contrary sense, hypernyms are directly above one of its synsets, hyponyms directly below.
    """

    name: str
    base: str
    related: Mapping[Relation, frozenset[str]]

    def find_relation(self, verb: str) -> Relation | None:
        """Return the first of four relations that a verb has to this verb in any sense; None
        without a relation.
        """
        for relation in PRECEDENCE:
            if verb in self.related[relation]:
                return relation
        return None


@dataclass(frozen=True, slots=True)
class Pointer:
    """A relation of a synset, or of one of its words, to another synset or word.

    Attributes:
        symbol: WordNet's sign of the relation, as in `POINTERS`.
        target: Number of the other synset.
        part_of_speech: Part of speech of the other synset.
        source_word: Number of the word of this synset that is related, from 1; 0 for all of them.
        target_word: Number of the word of the other synset, from 1; 0 for all of them.
    """

    symbol: str
    target: str
    part_of_speech: str
    source_word: int
    target_word: int


@dataclass(frozen=True, slots=True)
class Synset:
    """The lower-cased words of a synset and its pointers."""

    words: list[str]
    pointers: list[Pointer]


@cache
def read_verbs(folder: str | Path = WORDNET_FOLDER) -> Mapping[str, Verb]:
    """Return the 504 verbs of SWiG by name, with their relations."""
    path = Path(folder) / "verbs.tsv"
    lines = read_lines(path)
    if lines[:1] != ["\t".join(COLUMNS)]:
        raise UserError(
            f"{path}: the first line does not name the columns {', '.join(COLUMNS)}; extract it again"
        )
    verbs = {}
    for number, line in enumerate(lines[1:], 2):
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise UserError(
                f"{path}: line {number} has {len(cells)} columns, not {len(COLUMNS)}; extract it again"
            )
        name, base, *related = cells
        names = (frozenset(cell.split()) for cell in related)
        verbs[name] = Verb(name, base, dict(zip(RELATIONS, names, strict=True)))
    return verbs


@cache
def read_words(
    kind: Literal["adjectives", "adverbs"], folder: str | Path = WORDNET_FOLDER
) -> frozenset[str]:
    """Return all adjectives, or all adverbs, that are single words, in lower case."""
    return frozenset(read_lines(Path(folder) / f"{kind}.txt"))


@cache
def read_nouns(folder: str | Path = WORDNET_FOLDER) -> Mapping[str, tuple[str, ...]]:
    """Return for each noun synset of SWiG, and each synset above it, the synsets directly above.

    Synsets are in the spelling of imSitu (n00007846).
    """
    cells = (line.split("\t") for line in read_lines(Path(folder) / "nouns.tsv"))
    return {synset: tuple(above.split()) for synset, above in cells}


def is_kind_of(lower: str, higher: str, nouns: Mapping[str, Sequence[str]]) -> bool:
    """Return True where a noun synset equals or lies below a higher synset; False for unknown
    synsets.

    Args:
        lower: Synset in the spelling of imSitu, as all synsets here.
        nouns: Synsets directly above each synset.
    """
    if lower == higher:
        return True
    return any(is_kind_of(parent, higher, nouns) for parent in nouns.get(lower, ()))


def extract_resource(
    dictionary: str | Path, verbs: Sequence[str], nouns: Sequence[str]
) -> dict[str, str]:
    """Return the texts of `verbs.tsv`, `nouns.tsv`, `adjectives.txt` and `adverbs.txt`.

    Args:
        dictionary: WordNet's folder with data.verb, data.noun (or its parts, data.noun1 and on),
            index.adj, index.adv.
        nouns: Synsets in the spelling of imSitu; synsets that WordNet does not know are skipped.
    """
    root = Path(dictionary)
    tables = {
        "verbs.tsv": _list_verbs(root, verbs),
        "nouns.tsv": _list_hypernyms(root, nouns),
        "adjectives.txt": _read_lemmas(root / "index.adj"),
        "adverbs.txt": _read_lemmas(root / "index.adv"),
    }
    return {name: "\n".join(lines) + "\n" for name, lines in tables.items()}


def _list_verbs(root: Path, verbs: Sequence[str]) -> list[str]:
    """Return the lines of `verbs.tsv`: each verb with its base form, and the related verbs of the
    list by relation.
    """
    synsets = dict(_read_synsets(root / "data.verb"))
    senses: dict[str, set[str]] = {}  # the synsets of each word
    for name, synset in synsets.items():
        for word in synset.words:
            senses.setdefault(word, set()).add(name)

    # Relations hold between base forms; the table names verbs by their -ing forms.
    bases = {verb: find_base_form(verb, senses) for verb in verbs}
    lines = ["\t".join(COLUMNS)]
    for verb in verbs:
        related = _find_related(bases[verb], synsets, senses)
        cells = [verb, bases[verb]]
        for relation in RELATIONS:
            names = {name for name in verbs if bases[name] in related[relation]}
            cells.append(" ".join(sorted(names - {verb})))
        lines.append("\t".join(cells))
    return lines


def find_base_form(name: str, senses: Mapping[str, object]) -> str:
    """Return the base form of an -ing form: its first lemma in WordNet, else the form without
    `ing`.
    """
    for lemma in getAllLemmas(name, upos="VERB").get("VERB", ()):
        if lemma in senses:
            return str(lemma)
    return name.removesuffix("ing")


def _find_related(
    base: str, synsets: Mapping[str, Synset], senses: Mapping[str, set[str]]
) -> dict[Relation, set[str]]:
    """Return by relation the words to which any sense of a verb is related."""
    related: dict[Relation, set[str]] = {relation: set() for relation in RELATIONS}
    for name in senses.get(base, ()):
        synset = synsets[name]
        related["synonym"].update(synset.words)
        for pointer in filter(_is_verb_relation, synset.pointers):
            # 0 stands for the whole synset: hypernymy is of synsets, antonymy of words, numbered from 1.
            source_words = _select_words(synset, pointer.source_word)
            target_words = _select_words(synsets[pointer.target], pointer.target_word)
            if base in source_words:
                related[POINTERS[pointer.symbol]].update(target_words)
    return related


def _is_verb_relation(pointer: Pointer) -> bool:
    """Return True for one of the relations `POINTERS` to a verb."""
    return pointer.symbol in POINTERS and pointer.part_of_speech == "v"


def _select_words(synset: Synset, number: int) -> list[str]:
    """Return the word of a synset with a number from 1; all words for 0."""
    return [synset.words[number - 1]] if number else synset.words


def _list_hypernyms(root: Path, nouns: Sequence[str]) -> list[str]:
    """Return the lines of `nouns.tsv`: each noun synset and each synset above one, with the synsets
    directly above.
    """
    hypernyms: dict[str, list[str]] = {}
    # Without any file, reading data.noun raises the error that names it.
    parts = sorted(root.glob("data.noun*")) or [root / "data.noun"]
    for part in parts:
        for name, synset in _read_synsets(part):
            above = filter(_is_hypernym, synset.pointers)
            hypernyms[f"n{name}"] = [f"n{pointer.target}" for pointer in above]

    # Go up from the nouns, one level after another.
    reached: set[str] = set()
    level = hypernyms.keys() & set(nouns)
    while level:
        reached |= level
        parents = chain.from_iterable(hypernyms[noun] for noun in level)
        level = set(parents) - reached
    return [f"{noun}\t{' '.join(hypernyms[noun])}" for noun in sorted(reached)]


def _is_hypernym(pointer: Pointer) -> bool:
    """Return True for a pointer to the synset above a noun, also above an instance such as "Paris"
    ("@i").
    """
    return pointer.symbol in ("@", "@i") and pointer.part_of_speech == "n"


def _read_synsets(path: Path) -> Iterator[tuple[str, Synset]]:
    """Yield the number of each synset of a data file, and the synset."""
    # The second part of a file that a package split has no head.
    lines = read_lines(path) if path.suffix == ".noun2" else read_entries(path)
    for line in lines:
        # synset_offset lex_filenum ss_type w_cnt [word lex_id]... p_cnt [symbol offset pos
        # source/target]... | gloss
        fields = line.split("|")[0].split()
        # WordNet writes the number of words and the numbers of related words in hexadecimal digits.
        n_words = int(fields[3], 16)
        end_of_words = 4 + 2 * n_words
        words = [word.lower() for word in fields[4:end_of_words:2]]
        first = end_of_words + 1
        n_pointers = int(fields[end_of_words])
        pointers = []
        for index in range(first, first + 4 * n_pointers, 4):
            symbol, target, part_of_speech, ends = fields[index : index + 4]
            # `ends` holds two digits for the source word and two for the target word.
            pointers.append(
                Pointer(
                    symbol, target, part_of_speech, int(ends[:2], 16), int(ends[2:], 16)
                )
            )
        yield fields[0], Synset(words, pointers)


def _read_lemmas(path: Path) -> list[str]:
    words = (line.split(" ", 1)[0] for line in read_entries(path))
    return sorted(word for word in words if SINGLE_WORD.fullmatch(word))


def read_entries(path: Path) -> list[str]:
    """Return the lines of a file of WordNet after its head, and check the version that the head
    names.
    """
    lines = read_lines(path)
    head = [line for line in lines if line.startswith(HEAD_START)]
    if VERSION not in "\n".join(head):
        raise UserError(
            f"{path}: its head does not say {VERSION}; give the folder of that version's dict files"
        )
    return lines[len(head) :]


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file."""
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; see docs/explanation/foils-actions.md on where WordNet's files come from"
        )
    return path.read_text(encoding="utf-8").splitlines()


def main(arguments: Sequence[str]) -> None:
    """Extract the tables.

    Args:
        arguments: Folder of WordNet, list of verbs of SWiG, list of noun classes of SWiG, and
            folder to write to.
    """
    if len(arguments) != 4:
        raise UserError(
            "usage: python -m waltz.foils.english.wordnet DICT VERBS NOUNS OUT"
        )
    dictionary, verb_file, noun_file, out = map(Path, arguments)
    verbs = "\n".join(read_lines(verb_file)).split()
    nouns = [line.split(",")[0] for line in read_lines(noun_file)]
    for name, text in extract_resource(dictionary, verbs, nouns).items():
        write_text(out / name, text)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
