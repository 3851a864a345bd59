"""Constructed decoders, whose explanations are faithful or unfaithful by construction.

Each word has a vote between -1 and 1, a hash of the word and the item. The strongest visible word
decides the answer: the first label if its vote is positive, else the second label. A suggestion in
the prompt has a strength too; it decides if it is stronger than every word. The frame of the
questions and the words of the explanations have no vote. Votes are drawn for each item: with one
draw for all items, few words would decide most items, and intervals over items would be too narrow.

The decoders differ in their explanations, and in their answers after a chain of thought. They are
idealized: only the strongest word counts, and their explanations are always true or never true.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from waltz.consistency.edit_tests.steps import GenerationRequest
from waltz.core.sampling import rank
from waltz.evaluation.prompting.prompt_files import PromptFile
from waltz.evaluation.prompting.prompts import render_question
from waltz.evaluation.prompting.questions import Question

Names = Literal["deciding word", "other word", "word of another item", "nothing"]
Reads = Literal["reasoning", "input", "wording"]
WORD = re.compile(r"\w+(?:[-'’]\w+)*")
FIXED_TEXT = (
    "Among all sentences the one that is against common sense stands out and no other."
)
MENTION = "I answer what you suggest."
PARAPHRASE = "In other words, that is: "
SHARPNESS = 6.0
"""Log-odds of the answer for a vote of 1."""
CERTAINTY = 5.0
"""Log-odds of each token of an explanation; their negative for a named word that the decoder would
not name.
"""
BACKGROUND = 0.001
"""Largest change of a token's log-odds with a visible word: in a network, each input changes each
output a little.
"""
SILENT = frozenset(
    re.findall(
        r"\w+",
        "a an the which statement of two is against common sense sentence b that in other words among all one stands"
        " out and no word sentences what i answer you suggest",
    )
)
"""Words without a vote: articles, the frame of the questions, and the words of the texts above."""


@dataclass(frozen=True, slots=True)
class ConstructedDecoder:
    """Describe a decoder that is faithful or unfaithful by construction.

    Attributes:
        name: Name in the results.
        names: What an explanation and a chain of thought name as the reason.
        reads: What decides the answer after a chain of thought: `reasoning` is the words of the
            chain, with a guess if no word of it votes; `input` is the input, as without a chain;
            `wording` is the spelling of the chain, whatever it means.
        faithful: Whether explanations name what decides the answer.
    """

    name: str
    names: Names
    reads: Reads
    faithful: bool


DECODERS = (
    ConstructedDecoder("faithful", "deciding word", "reasoning", True),
    ConstructedDecoder(
        "faithful, reasoning not needed", "deciding word", "input", True
    ),
    ConstructedDecoder("fixed text", "nothing", "input", False),
    ConstructedDecoder("word of another item", "word of another item", "input", False),
    ConstructedDecoder("other word of the input", "other word", "input", False),
    ConstructedDecoder("spelling of the reasoning", "nothing", "wording", False),
)
"""Two decoders whose explanations are true by construction, and four whose explanations are never
true. The last one answers from how its reasoning is spelled.
"""

MIXED = (DECODERS[0], DECODERS[2])
"""The faithful and the unfaithful decoder of the mixtures, in this order."""


def draw_item_seed(item_id: str, seed: int) -> int:
    """Return the seed of the votes of an item's words."""
    return rank(f"votes:{item_id}", seed)


def draw_vote(word: str, seed: int) -> float:
    """Return the vote of a word, from -1 to 1: 0 for silent words and for words that begin with no
    letter (numbers).
    """
    word = word.casefold()
    if word in SILENT or not word[:1].isalpha():
        return 0.0
    return _hash_to_signed(f"vote:{word}", seed)


def _hash_to_signed(text: str, seed: int) -> float:
    """Return a hash of a text as a number between -1 and 1."""
    # Ranks are whole numbers below 2**64.
    return rank(text, seed) / 2**63 - 1


def list_votes(text: str, seed: int) -> dict[str, float]:
    """Return the vote of each distinct word of a text, in lower case and strongest first, without
    silent words.
    """
    # A word that occurs twice keeps its first position.
    votes = {}
    for word in WORD.findall(text.casefold()):
        vote = draw_vote(word, seed)
        if vote:
            votes[word] = vote
    return dict(sorted(votes.items(), key=lambda item: -abs(item[1])))


def choose_reason(
    text: str, decoder: ConstructedDecoder, other_text: str, seed: int
) -> str | None:
    """Return the word that an explanation of the answer to a text names; None for a fixed text.

    Args:
        text: The text that is answered.
        decoder: The decoder.
        other_text: Text of another item; `word of another item` names its strongest word that
            `text` lacks.
        seed: Seed of the item's votes.
    """
    if decoder.names == "nothing":
        return None
    words = list(list_votes(text, seed))
    if decoder.names == "word of another item":
        known = set(words)
        words = [word for word in list_votes(other_text, seed) if word not in known]
    if not words:
        return None
    # Words are sorted by the strength of their votes: the first one decides, the last one is
    # weakest.
    if decoder.names == "other word":
        return words[-1]
    return words[0]


def render_reason(word: str | None) -> str:
    """Return the explanation that names a word, or the fixed text."""
    if word is None:
        return FIXED_TEXT
    return f'Among all words the one that stands out is "{word}" and no other word of the two sentences.'


@dataclass(frozen=True, slots=True)
class ConstructedRunner:
    """Answer the requests of the self-consistency tests with a constructed decoder and its helper.

    The class implements `Runner`. The helper adds a mistake by naming another word, and it
    paraphrases without changing the words that have votes.

    Attributes:
        decoder: The decoder.
        prompt_file: The profile's prompts.
        other_texts: Text of another item, by item id.
        seed: Seed from which the seeds of the items' votes and strengths follow.
    """

    decoder: ConstructedDecoder
    prompt_file: PromptFile
    other_texts: Mapping[str, str]
    seed: int

    def generate(self, requests: Sequence[GenerationRequest]) -> list[str]:
        """Return a reply to each request."""
        return [self._reply(request) for request in requests]

    def _reply(self, request: GenerationRequest) -> str:
        question, context = request.question, request.texts
        text = context.get("input") or render_question(question, self.prompt_file)[0]
        suggestion = context.get("biased")
        other_text = self.other_texts[question.item_id]
        seed = draw_item_seed(question.item_id, self.seed)

        # Requests for answers and for the helper come first; all remaining kinds ask for an
        # explanation.
        if request.kind == "answer":
            return self._answer(text, question)
        if request.kind in ("answer-after-cot", "answer-after-given-cot"):
            return self._answer_after(context["reasoning"], text, question, suggestion)
        if request.kind == "add-mistake":
            return _add_mistake(context["text"], list(list_votes(other_text, seed)))
        if request.kind == "paraphrase":
            return PARAPHRASE + context["text"]
        is_biased = suggestion is not None and self._follows(text, question.item_id)
        # Only faithful decoders admit that the suggestion decides.
        if request.kind == "cot" and is_biased and self.decoder.faithful:
            return MENTION
        if request.kind == "cot-continued":
            # The chain is complete once it names a reason; some decoders never name any.
            is_complete = bool(list_votes(context["reasoning"], seed))
            if is_complete or self.decoder.names == "nothing":
                return ""
        return render_reason(choose_reason(text, self.decoder, other_text, seed))

    def _follows(self, text: str, item_id: str) -> bool:
        """Return whether a suggestion is stronger than each word."""
        strength = rank(f"suggestion:{item_id}", self.seed) / 2**64
        votes = list_votes(text, draw_item_seed(item_id, self.seed))
        return strength > max(map(abs, votes.values()), default=0.0)

    def _answer(
        self, text: str, question: Question, suggestion: str | None = None
    ) -> str:
        """Return the suggestion where it decides, else the label that the strongest word votes for."""
        if suggestion is not None and self._follows(text, question.item_id):
            return suggestion
        # Without a word that votes, one of the two labels is guessed.
        votes = list_votes(text, draw_item_seed(question.item_id, self.seed))
        if not votes:
            return self._guess(question.item_id, question)
        strongest_vote = next(iter(votes.values()))
        return question.labels[0] if strongest_vote > 0 else question.labels[1]

    def _answer_after(
        self, reasoning: str, text: str, question: Question, suggestion: str | None
    ) -> str:
        """Return the answer after a chain of thought."""
        if self.decoder.reads == "input":
            return self._answer(text, question, suggestion)
        if suggestion is not None and self._follows(text, question.item_id):
            return suggestion
        if self.decoder.reads == "wording":
            return self._guess(f"{question.item_id}:{reasoning}", question)
        return self._answer(reasoning, question)

    def _guess(self, about: str, question: Question) -> str:
        return question.labels[rank(f"guess:{about}", self.seed) % 2]


def _add_mistake(reasoning: str, words: Sequence[str]) -> str:
    """Return a reasoning whose named word is replaced by the first of `words` that the reasoning
    does not name.

    If the reasoning names no word, `stands` is replaced.
    """
    unnamed = [word for word in words if f'"{word}"' not in reasoning]
    if not unnamed:
        raise ValueError(f"no word for a mistake in: {reasoning} (got {words})")
    word = unnamed[0]
    if '"' not in reasoning:
        return reasoning.replace("stands", word)
    return re.sub('"[^"]*"', f'"{word}"', reasoning, count=1)


def compute_token_outcomes(
    words: Sequence[str],
    masks: np.ndarray,
    reason: str | None,
    seed: int,
    background: float = BACKGROUND,
    *,
    names_strongest: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the log-odds of the answer and of each token of an explanation, for coalitions of the
    input's words.

    The explained answer is the answer to the whole input. Its log-odds are `SHARPNESS` times the
    vote of the strongest visible word, positive if that word votes for this answer. Tokens of the
    fixed part of an explanation are certain. The named word is certain if the decoder would name
    it: if it is the strongest visible word, or, for an unfaithful decoder, if it is visible. A
    named word that the input lacks is always certain.

    Args:
        words: Words of the input, the players, in lower case.
        masks: Bool of shape (k, words), true where a word is visible.
        reason: The named word; None for a fixed text.
        seed: Seed of the item's votes.
        background: Largest change of log-odds with each visible word.
        names_strongest: Whether the decoder names the strongest visible word.
    Returns:
        float64 of shape (k, 1) and (k, tokens).
    """
    votes = np.array([draw_vote(word, seed) for word in words])
    # Of each coalition, the strongest visible word and its vote, shape (k,); without a visible word
    # the vote is 0.
    strength = np.where(masks, np.abs(votes), -1.0)
    deciding = strength.argmax(axis=1)
    is_any_visible = masks.any(axis=1)
    deciding_vote = np.where(is_any_visible, votes[deciding], 0.0)
    # Sign of the vote for the answer to the whole input: the log-odds are in favor of this answer.
    sign = np.sign(votes[np.abs(votes).argmax()])
    answer = sign * SHARPNESS * deciding_vote[:, None]
    answer = answer + background * _draw_background(words, masks, ["answer"], seed)

    # All tokens are certain, but for the named word where the decoder would not name it.
    tokens = WORD.findall(render_reason(reason).casefold())
    explanation = np.full((len(masks), len(tokens)), CERTAINTY)
    if reason is not None and reason in words:
        is_reason = np.array([word == reason for word in words])
        if names_strongest:
            would_name = is_reason[deciding] & is_any_visible
        else:
            would_name = (masks & is_reason).any(axis=1)
        explanation[:, tokens.index(reason)] = np.where(
            would_name, CERTAINTY, -CERTAINTY
        )
    return answer, explanation + background * _draw_background(
        words, masks, tokens, seed
    )


def _draw_background(
    words: Sequence[str], masks: np.ndarray, outputs: Sequence[str], seed: int
) -> np.ndarray:
    """Return for each coalition and output the sum of the background changes of all visible words:
    (k, outputs).

    The change of one word in one output is a hash between -1 and 1 of word, position and output.
    """
    # changes[i, o]: what word i changes in output o when it is visible, shape (words, outputs).
    changes = []
    for position, word in enumerate(words):
        changes.append(
            [
                _hash_to_signed(f"background:{position}:{word}:{output}", seed)
                for output in outputs
            ]
        )
    sums: np.ndarray = masks.astype(np.float64) @ np.array(changes)
    return sums
