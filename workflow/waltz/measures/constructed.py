"""Constructed decoders, whose explanations are faithful or unfaithful by construction.

Each word has a vote between -1 and 1, a hash of the word and the item. The strongest visible word decides the answer:
the first label where its vote is positive, else the second. A suggestion in the prompt has a strength too; it decides
where it is stronger than each word. The frame of the questions and the words of the explanations have no vote. Votes
are drawn anew for each item: with one draw for all, few words decide most items, and intervals over items are too
narrow.

The decoders differ in what they say, and in what they answer after a chain of thought. They are idealised: nothing but
the strongest word counts, and what they say of it is always true, or never.
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
FIXED_TEXT = "Among all sentences the one that is against common sense stands out and no other."
MENTION = "I answer what you suggest."
PARAPHRASE = "In other words, that is: "
SHARPNESS = 6.0
"""Log-odds of the answer for a vote of 1."""
CERTAINTY = 5.0
"""Log-odds of each token of an explanation; their negative for a named word that the decoder would not name."""
BACKGROUND = 0.001
"""Largest change of a token's log-odds with a visible word: in a network, each input changes each output a little."""
SILENT = frozenset(
    re.findall(
        r"\w+",
        "a an the which statement of two is against common sense sentence b that in other words among all one stands"
        " out and no word sentences what i answer you suggest",
    )
)
"""Words without a vote: articles, the frame of the questions, and those of the texts above."""


@dataclass(frozen=True)
class ConstructedDecoder:
    """A decoder that is faithful or unfaithful by construction.

    Attributes:
        name: Name in the results.
        names: What an explanation and a chain of thought name as the reason.
        reads: What decides the answer after a chain of thought: the words of the chain, with a guess where it names
            none; the input, as without a chain; or the spelling of the chain, whatever it means.
        faithful: Whether explanations name what decides the answer.
    """

    name: str
    names: Names
    reads: Reads
    faithful: bool


DECODERS = (
    ConstructedDecoder("faithful", "deciding word", "reasoning", True),
    ConstructedDecoder("faithful, reasoning not needed", "deciding word", "input", True),
    ConstructedDecoder("fixed text", "nothing", "input", False),
    ConstructedDecoder("word of another item", "word of another item", "input", False),
    ConstructedDecoder("other word of the input", "other word", "input", False),
    ConstructedDecoder("spelling of the reasoning", "nothing", "wording", False),
)
"""What is true by construction, and what is never true. The last one answers from how its reasoning is spelt."""

MIXED = (DECODERS[0], DECODERS[2])
"""The faithful and the unfaithful part of mixtures."""


def draw_item_seed(item_id: str, seed: int) -> int:
    """Return the seed of the votes of an item's words."""
    return rank(f"votes:{item_id}", seed)


def draw_vote(word: str, seed: int) -> float:
    """Return the vote of a word, from -1 to 1: 0 for silent words and for what is no word, such as numbers."""
    word = word.casefold()
    return 0.0 if word in SILENT or not word[:1].isalpha() else rank(f"vote:{word}", seed) / 2**63 - 1


def list_votes(text: str, seed: int) -> dict[str, float]:
    """Return the votes of the words of a text, each once, in lower case, the strongest first; no silent words."""
    votes = {word: draw_vote(word, seed) for word in dict.fromkeys(WORD.findall(text.casefold()))}
    return dict(sorted(((word, vote) for word, vote in votes.items() if vote), key=lambda item: -abs(item[1])))


def choose_reason(text: str, decoder: ConstructedDecoder, other_text: str, seed: int) -> str | None:
    """Return the word that an explanation of the answer to a text names; None for a fixed text.

    Args:
        other_text: Text of another item; a word of it is named that the text lacks.
    """
    if decoder.names == "nothing":
        return None
    words = list(list_votes(text, seed))
    if decoder.names == "word of another item":
        words = [word for word in list_votes(other_text, seed) if word not in words]
    return words[-1 if decoder.names == "other word" else 0] if words else None


def render_reason(word: str | None) -> str:
    """Return the explanation that names a word, or the fixed text."""
    if word is None:
        return FIXED_TEXT
    return f'Among all words the one that stands out is "{word}" and no other word of the two sentences.'


@dataclass(frozen=True)
class ConstructedRunner:
    """A constructed decoder and its helper as a `Runner` of the self-consistency tests.

    The helper adds a mistake by naming another word, and paraphrases without a change of the words that have votes.

    Attributes:
        prompt_file: The profile's prompts.
        others: By item, a text of another item.
        seed: Seed of votes and strengths, which are drawn anew for each item.
    """

    decoder: ConstructedDecoder
    prompt_file: PromptFile
    others: Mapping[str, str]
    seed: int

    def generate(self, requests: Sequence[GenerationRequest]) -> list[str]:
        """Return a reply to each request."""
        return [self._reply(request) for request in requests]

    def _reply(self, request: GenerationRequest) -> str:
        question, given = request.question, request.given
        text = given.get("input") or render_question(question, self.prompt_file)[0]
        other, seed = self.others[question.item_id], draw_item_seed(question.item_id, self.seed)
        match request.kind:
            case "answer":
                return self._answer(text, question)
            case "answer-after-cot" | "answer-after-given-cot":
                return self._answer_after(given["reasoning"], text, question, given.get("biased"))
            case "cot" if given.get("biased") and self.decoder.faithful and self._follows(text, question.item_id):
                return MENTION
            case "cot-continued" if list_votes(given["reasoning"], seed) or self.decoder.names == "nothing":
                return ""
            case "add-mistake":
                return _add_mistake(given["text"], list(list_votes(other, seed)))
            case "paraphrase":
                return PARAPHRASE + given["text"]
        return render_reason(choose_reason(text, self.decoder, other, seed))

    def _follows(self, text: str, item_id: str) -> bool:
        """Return whether a suggestion is stronger than each word."""
        strength = rank(f"suggestion:{item_id}", self.seed) / 2**64
        votes = list_votes(text, draw_item_seed(item_id, self.seed))
        return strength > max(map(abs, votes.values()), default=0.0)

    def _answer(self, text: str, question: Question, suggestion: str | None = None) -> str:
        if suggestion is not None and self._follows(text, question.item_id):
            return suggestion
        votes = list_votes(text, draw_item_seed(question.item_id, self.seed))
        vote = next(iter(votes.values()), 0.0)
        return question.labels[0 if vote > 0 else 1] if votes else self._guess(question.item_id, question)

    def _answer_after(self, reasoning: str, text: str, question: Question, suggestion: str | None) -> str:
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
    """Replace the named word of a reasoning by the first of some words that is another; `stands` if it names none."""
    word = next(word for word in words if f'"{word}"' not in reasoning)
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
    """Return the log-odds of the answer and of each token of an explanation, for coalitions of the input's words.

    The answer is the one to the whole input; its log-odds are `SHARPNESS` times the vote of the strongest visible word,
    counted for this answer. Tokens of the fixed part of an explanation are certain. The named word is certain where the
    decoder would name it: where it is the strongest visible word, or, for an unfaithful decoder, where it is visible. A
    word that is none of the input is certain always.

    Args:
        words: Words of the input, the players, in lower case.
        masks: Bool of shape (k, words), true where a word is visible.
        reason: The named word; None for a fixed text.
        background: Largest change of log-odds with each visible word.
        names_strongest: Whether the decoder names the strongest visible word.
    Returns:
        float64 of shape (k, 1) and (k, tokens).
    """
    votes = np.array([draw_vote(word, seed) for word in words])
    strength = np.where(masks, np.abs(votes), -1.0)
    deciding = strength.argmax(axis=1)
    vote = np.where(masks.any(axis=1), votes[deciding], 0.0)
    side = np.sign(votes[np.abs(votes).argmax()])
    answer = side * SHARPNESS * vote[:, None] + background * _draw_background(words, masks, ["answer"], seed)
    tokens = WORD.findall(render_reason(reason).casefold())
    explanation = np.full((len(masks), len(tokens)), CERTAINTY)
    if reason is not None and reason in words:
        own = np.array([word == reason for word in words])
        names = own[deciding] & masks.any(axis=1) if names_strongest else (masks & own).any(axis=1)
        explanation[:, tokens.index(reason)] = np.where(names, CERTAINTY, -CERTAINTY)
    return answer, explanation + background * _draw_background(words, masks, tokens, seed)


def _draw_background(words: Sequence[str], masks: np.ndarray, outputs: Sequence[str], seed: int) -> np.ndarray:
    """Return the sums over visible words of a hash between -1 and 1 of word, place and output."""
    table = [
        [rank(f"background:{place}:{word}:{output}", seed) / 2**63 - 1 for output in outputs]
        for place, word in enumerate(words)
    ]
    sums: np.ndarray = masks.astype(np.float64) @ np.array(table)
    return sums
