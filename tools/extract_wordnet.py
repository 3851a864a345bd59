"""Extract waltz's tables of verbs, nouns, adjectives, adverbs and kinds of nouns from WordNet.

    python -m tools.extract_wordnet DICT VERBS NOUNS OUT

reads the files of WordNet in the folder DICT, the list of verbs of SWiG (-ing forms) and its list of
noun classes (synsets, `train_classes.csv`), and writes the tables to the folder OUT. The files of
WordNet are parsed here because the distributions of WordNet 3.0 lack files that the reader of nltk
needs.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from lemminflect import getAllLemmas

from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.foils.english.wordnet import COLUMNS, RELATIONS, Relation, read_lines

VERSION = "WordNet 3.0"
HEAD_START = "  "
"""Beginning of the lines at the head of a file of WordNet, which contains the license."""
POINTERS: dict[str, Relation] = {"!": "antonym", "@": "hypernym", "~": "hyponym"}
"""Relation of each symbol in the data files of WordNet."""
HYPERNYM_SYMBOLS = ("@", "@i")
"""Symbols of pointers to the synset above a noun, also above an instance such as "Paris" (@i)."""
SINGLE_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
POSITION_MARKER = re.compile(r"\((?:a|p|ip)\)$")
"""Pattern of the marker behind an adjective, with which WordNet restricts its position in a
sentence.
"""
KINDS = {
    "people.txt": {"18"},
    "animals.txt": {"05"},
    # Artifacts, locations, natural objects and plants.
    "things.txt": {"06", "15", "17", "20"},
    # Attributes, cognition, feelings, motives, phenomena, processes, relations, states,
    # substances and times.
    "abstract.txt": {"07", "09", "12", "16", "19", "22", "24", "26", "27", "28"},
}
"""Numbers of WordNet's files (05 is noun.animal) for each table of nouns."""


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
    """The words of a synset, as WordNet spells them, its pointers, and the number of the file in
    which WordNet's authors wrote it ("05" for animals).
    """

    file: str
    words: list[str]
    pointers: list[Pointer]


def extract_tables(
    dictionary: Path, verbs: Sequence[str], nouns: Sequence[str]
) -> dict[str, str]:
    """Return the text of each table by the name of its file.

    Args:
        dictionary: WordNet's folder with data.verb, data.noun (or its parts, data.noun1 and on),
            data.adj, data.adv, index.noun, index.adj, index.adv.
        nouns: Synsets in the spelling of imSitu; synsets that WordNet does not know are skipped.
    """
    adjectives = _read_lemmas(dictionary / "index.adj")
    adverbs = _read_lemmas(dictionary / "index.adv")
    modifiers = [
        *_list_exceptions("a", adjectives, dictionary / "data.adj"),
        *_list_exceptions("r", adverbs, dictionary / "data.adv"),
    ]
    tables = {
        "verbs.tsv": _list_verbs(dictionary, verbs),
        "nouns.tsv": _list_hypernyms(dictionary, nouns),
        "adjectives.txt": adjectives,
        "adverbs.txt": adverbs,
        "modifiers.tsv": modifiers,
        **_list_kinds(dictionary),
    }
    return {name: "\n".join(lines) + "\n" for name, lines in tables.items()}


def _list_verbs(dictionary: Path, verbs: Sequence[str]) -> list[str]:
    """Return the lines of `verbs.tsv`: each verb with its base form, and the related verbs of the
    list by relation.
    """
    synsets = dict(_read_synsets(dictionary / "data.verb"))
    senses: dict[str, set[str]] = {}  # the synsets of each word
    for name, synset in synsets.items():
        for word in _list_lowered(synset):
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
        related["synonym"].update(_list_lowered(synset))
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
    words = _list_lowered(synset)
    return [words[number - 1]] if number else words


def _list_lowered(synset: Synset) -> list[str]:
    return [word.lower() for word in synset.words]


def _list_hypernyms(dictionary: Path, nouns: Sequence[str]) -> list[str]:
    """Return the lines of `nouns.tsv`: each noun synset and each synset above one, with the synsets
    directly above.
    """
    hypernyms: dict[str, list[str]] = {}
    for name, synset in _read_nouns(dictionary):
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


def _list_kinds(dictionary: Path) -> dict[str, list[str]]:
    """Return the lines of the tables `KINDS`: the single words without a capital that name, in
    their most frequent sense, a thing of this kind.
    """
    synsets = dict(_read_nouns(dictionary))
    tables: dict[str, list[str]] = {table: [] for table in KINDS}
    for line in sorted(_read_entries(dictionary / "index.noun")):
        # lemma pos synset_cnt p_cnt [symbol...] sense_cnt tagsense_cnt synset_offset...
        fields = line.split()
        word, first_sense = fields[0], synsets[fields[-int(fields[2])]]
        # The index is in lower case, the synset has the capitals of names.
        if SINGLE_WORD.fullmatch(word) is None or word not in first_sense.words:
            continue
        for table, files in KINDS.items():
            if first_sense.file in files:
                tables[table].append(word)
    return tables


def _read_nouns(dictionary: Path) -> Iterator[tuple[str, Synset]]:
    # Without any file, reading data.noun raises the error that names it.
    parts = sorted(dictionary.glob("data.noun*")) or [dictionary / "data.noun"]
    return chain.from_iterable(map(_read_synsets, parts))


def _is_hypernym(pointer: Pointer) -> bool:
    return pointer.symbol in HYPERNYM_SYMBOLS and pointer.part_of_speech == "n"


def _list_exceptions(letter: str, single_words: Sequence[str], path: Path) -> list[str]:
    """Return the lines of `modifiers.tsv` for one part of speech: the words that do not have
    exactly one sense.

    The list of single words implies one sense for each of its words. The exceptions are words with
    another number, such as 0 for a word that WordNet writes with capital letters, and words that
    are not in the list.

    Args:
        letter: WordNet's letter of the part of speech.
        path: Data file of the part of speech.
    """
    senses: Counter[str] = Counter()
    for _, synset in _read_synsets(path):
        senses.update(POSITION_MARKER.sub("", word) for word in synset.words)
    implied = Counter(single_words)
    return [
        f"{letter}\t{word}\t{senses[word]}"
        for word in sorted(senses | implied)
        if senses[word] != implied[word]
    ]


def _read_synsets(path: Path) -> Iterator[tuple[str, Synset]]:
    """Yield the number of each synset of a data file, and the synset."""
    # The second part of a file that a package split has no head.
    lines = read_lines(path) if path.suffix == ".noun2" else _read_entries(path)
    for line in lines:
        # synset_offset lex_filenum ss_type w_cnt [word lex_id]... p_cnt [symbol offset pos
        # source/target]... | gloss
        fields = line.split("|")[0].split()
        # WordNet writes the number of words and the numbers of related words in hexadecimal digits.
        n_words = int(fields[3], 16)
        end_of_words = 4 + 2 * n_words
        words = fields[4:end_of_words:2]
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
        yield fields[0], Synset(fields[1], words, pointers)


def _read_lemmas(path: Path) -> list[str]:
    """Return the single words of an index file, sorted."""
    words = {line.split(" ", 1)[0] for line in _read_entries(path)}
    return sorted(filter(SINGLE_WORD.fullmatch, words))


def _read_entries(path: Path) -> list[str]:
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


def main(arguments: Sequence[str]) -> None:
    """Extract the tables.

    Args:
        arguments: Folder of WordNet, list of verbs of SWiG, list of noun classes of SWiG, and
            folder to write to.
    """
    if len(arguments) != 4:
        raise UserError("usage: python -m tools.extract_wordnet DICT VERBS NOUNS OUT")
    dictionary, verb_file, noun_file, out = map(Path, arguments)
    verbs = "\n".join(read_lines(verb_file)).split()
    nouns = [line.split(",")[0] for line in read_lines(noun_file)]
    for name, text in extract_tables(dictionary, verbs, nouns).items():
        write_text(out / name, text)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
