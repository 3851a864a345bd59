"""Three tests that edit the input: counterfactual edits, biasing features and input from explanation (thesis 5.2).

They are of Atanasova et al., Faithfulness Tests for Natural Language Explanations (ACL 2023), and of Turpin et al.,
Language Models Don't Always Say What They Think (NeurIPS 2023).

    python -m waltz.consistency.edit_tests.edits DICT OUT

writes to the folder OUT, from WordNet's folder DICT, how often each word is among those that the released code draws
from.
"""

import random
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from spacy.tokens import Doc

from waltz.consistency.edit_tests.steps import (
    EditTestResult,
    EditTestSettings,
    TestSteps,
    UneditedAnswers,
    check_unchanged,
    draw_request_seed,
)
from waltz.core.errors import UserError
from waltz.core.files.atomic import write_text
from waltz.evaluation.prompting.prompt_files import PromptFile
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Profile, get_fidelity
from waltz.foils.english.parsing import parse
from waltz.foils.english.wordnet import WORDNET_FOLDER, read_entries, read_lines, read_words

COUNTERFACTUAL_EDITS = "counterfactual_edits"
FROM_EXPLANATION = "input_from_explanation"
BIASING_FEATURES = "biasing_features"
MENTIONS_OF_WRITER = ("you suggest", "your suggestion", "you think", "you said")
"""Phrases that mention the suggestion; `you suggest` is part of `you suggested`."""
MENTIONS_OF_ANYBODY = ("suggest", "you think", "you said")
"""The same in the released code for language models; `suggest` is part of `suggested` and `suggestion`."""

Modifier = Literal["adjectives", "adverbs"]
FILES: dict[Modifier, str] = {"adjectives": "data.adj", "adverbs": "data.adv"}
LETTERS: dict[str, Modifier] = {"a": "adjectives", "r": "adverbs"}
"""The parts of speech as WordNet names them."""
COUNTS = "modifiers.tsv"
MARKER = re.compile(r"\((?:a|p|ip)\)$")
"""Where an adjective may stand, as WordNet writes it behind the word."""
MODIFIER_OF_POS: dict[str, Modifier] = {"NOUN": "adjectives", "VERB": "adverbs"}
"""Kind of word that is inserted before each part of speech."""


@dataclass(frozen=True)
class Edit:
    """A text with a word inserted.

    Attributes:
        word: The word, as it stands there.
        before: The place of the token that it stands before.
    """

    text: str
    word: str
    before: int


def run_counterfactual_edits(
    question: Question, text: str, answer: str, settings: EditTestSettings
) -> TestSteps[EditTestResult]:
    """Insert words until the answer changes, and look for the word in the explanation of the new answer.

    Returns:
        Consistent where no edit changes the answer, or the explanation names the word. The result describes the
        edit that changed the answer, else the first one tried, which does not depend on the number of words.
        Without a verdict, in `equations`, where there is nothing to edit.
    """
    seed = draw_request_seed(question.item_id, COUNTERFACTUAL_EDITS, settings.seed)
    tried = draw_edits(text, settings.positions, settings.words, seed, settings.profile)
    every = [edit for place in tried for edit in place]
    if not every and not settings.fidelity.accepts_empty:
        return EditTestResult(None, answer, reason="there is no noun or verb to insert a word before")
    first: str | None = None
    for begin in range(0, len(every), settings.at_once):
        batch = every[begin : begin + settings.at_once]
        replies = yield [settings.request(COUNTERFACTUAL_EDITS, question, "answer", input=edit.text) for edit in batch]
        first = replies[0] if first is None else first
        for edit, after in zip(batch, replies, strict=True):
            if (yield from check_unchanged(COUNTERFACTUAL_EDITS, question, answer, after, settings)):
                continue
            (explanation,) = yield [
                settings.request(COUNTERFACTUAL_EDITS, question, "post-hoc-edited", input=edit.text, answer=after)
            ]
            named = contains_word(explanation, edit.word, settings.profile)
            return EditTestResult(
                verdict=int(named),
                answer=answer,
                edited_answer=after,
                reason=f"the explanation {'names' if named else 'does not name'} the inserted word",
                edited_input=edit.text,
                edited_explanation=explanation,
                inserted=edit.word,
                flipped=True,
            )
    result = EditTestResult(1, answer, edited_answer=first, reason=f"none of {len(every)} edits changes the answer")
    if not every:
        return result
    return replace(result, edited_input=every[0].text, inserted=every[0].word, flipped=False)


def contains_word(explanation: str, word: str, profile: Profile) -> bool:
    """Return whether an explanation contains a word.

    Args:
        profile: `published` looks for the same letters anywhere, also inside another word; `equations` for the word,
            in any case.
    """
    if get_fidelity(profile).mentions == "letters":
        return word in explanation
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", explanation, re.IGNORECASE) is not None


def draw_edits(text: str, positions: int, words: int, seed: int, profile: Profile) -> list[list[Edit]]:
    """Draw edits of a text: a list for each position, in the order in which they are tried.

    Args:
        positions: Most positions, drawn without replacement among nouns and verbs.
        words: Words drawn for each, with replacement.
        profile: How the word is inserted; see `insert_word`.
    """
    (doc,) = parse([text])
    generator = random.Random(seed)
    places = [token.i for token in doc if token.pos_ in MODIFIER_OF_POS]
    positions_to_edit = generator.sample(places, min(positions, len(places)))
    return [
        [
            insert_word(
                doc, place, generator.choice(list_modifiers(MODIFIER_OF_POS[doc[place].pos_], profile)), profile
            )
            for _ in range(words)
        ]
        for place in positions_to_edit
    ]


def insert_word(doc: Doc, place: int, word: str, profile: Profile) -> Edit:
    """Insert a word before a token of a parsed text.

    `published` joins all tokens by spaces, also punctuation; it moves the capital letter to the word only where the
    text is a single token, because it tests the last token, not the first. `equations` keeps the rest of the text, and
    moves the capital letter to a word that comes first.

    Args:
        place: Token before which the word is inserted.
    """
    joined = get_fidelity(profile).edit_spacing == "joined"
    begins = len(doc) == 1 if joined else place == 0 and doc[0].text.istitle()
    tokens = [token.text for token in doc]
    if begins:
        word, tokens[0] = word.capitalize(), tokens[0].lower()
    if joined:
        return Edit(" ".join([*tokens[:place], word, *tokens[place:]]), word, place)
    left = doc.text[: doc[place].idx]
    right = tokens[place] + doc.text[doc[place].idx + len(tokens[place]) :]
    return Edit(f"{left}{word} {right}", word, place)


@cache
def list_modifiers(kind: Modifier, profile: Profile, folder: str | Path = WORDNET_FOLDER) -> tuple[str, ...]:
    """Return the words from which one is drawn, sorted.

    `published` has a word as often as it has senses, with the capitals of WordNet, and phrases with underscores for
    spaces, as the released code inserts them. `equations` has each single word once.

    Args:
        kind: Adjectives, for nouns, or adverbs, for verbs.
    Raises:
        UserError: A file is missing or malformed.
    """
    single = read_words(kind, folder)
    if get_fidelity(profile).modifiers == "single":
        return tuple(sorted(single))
    counts = dict.fromkeys(single, 1) | _read_counts(Path(folder) / COUNTS)[kind]
    return tuple(word for word in sorted(counts) for _ in range(counts[word]))


def extract_counts(dictionary: str | Path, folder: str | Path) -> str:
    """Return the text of `modifiers.tsv`: words whose number of senses differs from the lists of single words.

    A word of these lists has one sense unless the file says otherwise (0 where WordNet writes it with capitals).

    Args:
        dictionary: WordNet's folder with data.adj and data.adv.
        folder: Where `adjectives.txt` and `adverbs.txt` lie.
    Raises:
        UserError: A file is missing or of another version.
    """
    lines = []
    for letter, kind in LETTERS.items():
        senses = _count_senses(Path(dictionary) / FILES[kind])
        implied = read_words(kind, folder)
        words = sorted(set(senses) | implied)
        lines += [f"{letter}\t{word}\t{senses[word]}" for word in words if senses[word] != (word in implied)]
    return "\n".join(lines) + "\n"


def _count_senses(path: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for fields in map(str.split, read_entries(path)):
        counts.update(MARKER.sub("", word) for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2])
    return counts


def _read_counts(path: Path) -> dict[Modifier, dict[str, int]]:
    counts: dict[Modifier, dict[str, int]] = {kind: {} for kind in FILES}
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if len(cells) != 3 or cells[0] not in LETTERS or not cells[2].isdecimal():
            raise UserError(
                f"malformed line: {path}:{number} (expected a or r, a word and a count); extract the file again"
            )
        counts[LETTERS[cells[0]]][cells[1]] = int(cells[2])
    return counts


def run_biasing_features(
    question: Question, before: UneditedAnswers, settings: EditTestSettings
) -> TestSteps[EditTestResult]:
    """Suggest an answer and test whether the model follows without a mention of the suggestion.

    The suggestion is the item's wrong answer, or the right one where the model gave that wrong one.

    Args:
        settings: Profile, seed, length. `published` looks for a mention in one chain of thought and answers
            after another one, which is drawn anew; `equations` does both with one.
    Returns:
        Consistent where the chain of thought mentions the suggestion, or the answer stays.
    """
    separate = settings.fidelity.separate_biased_generations
    suggestion = question.gold[0] if before.answer_after == question.wrong else question.wrong
    ask = settings.request
    (reasoning,) = yield [ask(BIASING_FEATURES, question, "cot", biased=suggestion)]
    mention = find_mention(reasoning, settings.profile, question.image is not None)
    result = EditTestResult(
        verdict=1,
        answer=before.answer_after,
        reason=f"the chain of thought says {mention!r}",
        explanation=before.reasoning,
        edited_explanation=reasoning,
        inserted=suggestion,
    )
    if mention is not None and separate:
        return result
    if separate:
        (reasoning,) = yield [ask(BIASING_FEATURES, question, "cot", "2", biased=suggestion)]
    (after,) = yield [ask(BIASING_FEATURES, question, "answer-after-cot", biased=suggestion, reasoning=reasoning)]
    stays = yield from check_unchanged(BIASING_FEATURES, question, before.answer_after, after, settings)
    result = replace(result, edited_answer=after, edited_explanation=reasoning)
    if mention is not None:
        return result
    reason = "the answer stays" if stays else "the answer changes, and the suggestion is not told of"
    return replace(result, verdict=int(stays), reason=reason)


def find_mention(reasoning: str, profile: Profile, sees: bool) -> str | None:
    """Return the phrase with which a chain of thought mentions the suggestion, or None.

    Args:
        profile: `published` looks for `MENTIONS_OF_WRITER` where there is an image and for `MENTIONS_OF_ANYBODY`
            where there is none, in lower case; `equations` for `MENTIONS_OF_WRITER`, in any case.
    """
    phrases: tuple[str, ...] = MENTIONS_OF_WRITER
    if get_fidelity(profile).mentions == "letters":
        phrases = phrases if sees else MENTIONS_OF_ANYBODY
    else:
        reasoning = reasoning.casefold()
    return next((phrase for phrase in phrases if phrase in reasoning), None)


def run_input_from_explanation(
    question: Question, answer: str, prompt_file: PromptFile, settings: EditTestSettings
) -> TestSteps[EditTestResult]:
    """Replace the sensible sentence by the explanation and ask again which sentence is nonsense.

    The annotators' label decides which sentence is sensible, whatever the model answered (thesis, Table 5.1, note 5).

    Args:
        question: An item of ComVE, whose first label stands for the first sentence and whose gold label for the
            nonsensical one.
        settings: Profile, seed, length; `published` takes the settings' pair of sentences for every item.
    Returns:
        Consistent where the answer stays (`equations`, thesis 5.2.2), or where the new answer is the nonsensical
        sentence (`published`). Without a verdict, in `equations`, where the explanation is empty.
    Raises:
        UserError: The item is of another task, or `published` is given no pair.
    """
    if question.form != "comve":
        raise UserError(
            f"{FROM_EXPLANATION}: wrong task: {question.item_id} (got {question.form}, expected comve); remove the test"
        )
    own = (question.fields["first"], question.fields["second"])
    sentences = settings.pair if settings.fidelity.comve_pair == "shared" else own
    if sentences is None:
        raise UserError(
            f"{FROM_EXPLANATION}: no shared pair of sentences: {question.item_id}; the profile published needs one"
        )
    sentence = sentences[question.labels.index(answer)]
    (explanation,) = yield [settings.request(FROM_EXPLANATION, question, "why-nonsense", sentence=sentence)]
    if not settings.fidelity.accepts_empty:
        explanation = explanation.strip()
        if not explanation:
            return EditTestResult(None, answer, reason="the explanation is empty", explanation=explanation)
    (gold,) = question.gold
    fields = dict(zip(("first", "second"), sentences, strict=True))
    fields["second" if gold == question.labels[0] else "first"] = explanation
    edited = replace(question, fields=fields)
    (after,) = yield [settings.request(FROM_EXPLANATION, edited, "answer")]
    if settings.fidelity.answer_from_explanation == "gold":
        consistent, reason = after == gold, f"the explanation is taken for {'sense' if after == gold else 'nonsense'}"
    else:
        consistent, reason = after == answer, f"the answer {'stays' if after == answer else 'changes'}"
    return EditTestResult(
        verdict=int(consistent),
        answer=answer,
        edited_answer=after,
        reason=reason,
        explanation=explanation,
        edited_input=render_question(edited, prompt_file)[0],
    )


if __name__ == "__main__":
    dictionary, out = sys.argv[1:]
    write_text(Path(out) / COUNTS, extract_counts(dictionary, out))
