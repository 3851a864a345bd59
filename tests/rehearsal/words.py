"""Stand-ins for the tokenizers that no package holds: cased BERT, GPT-1 and ALBERT.

They are of the real classes and have the same special tokens at the same ids, but few words.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import transformers

from waltz.core.files.resources import RESOURCES
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.sampling import draw_scenes

ROOT = Path(__file__).parents[2]
MOST = 400
"""Words of a vocabulary; others fall into letters."""
CAPITALS = 80
"""Words that a cased vocabulary has with a capital too."""
LETTERS = [chr(code) for code in range(33, 127)]

Merges = list[tuple[str, str]]


@functools.cache
def _texts() -> str:
    """Scenes' captions, the prompts and the templates of chats."""
    captions = [
        caption
        for graph in draw_scenes(40, 11)
        for caption in draw_captions(graph, Random(graph.id))
    ]
    files = [
        *(RESOURCES / "prompts").glob("*.yaml"),
        *(RESOURCES / "chat-templates").glob("*.jinja"),
    ]
    return " ".join(
        [*captions, *(path.read_text(encoding="utf-8") for path in sorted(files))]
    )


@functools.cache
def common(cased: bool) -> tuple[str, ...]:
    """The commonest words of these texts, commonest first."""
    words = _commonest(re.findall(r"[a-z]+", _texts().lower()))[:MOST]
    return (
        (*words, *(word.capitalize() for word in words[:CAPITALS]))
        if cased
        else tuple(words)
    )


def _commonest(words: Sequence[str]) -> list[str]:
    return [
        word
        for word, _ in sorted(
            Counter(words).items(), key=lambda pair: (-pair[1], pair[0])
        )
    ]


def build_cased_bert() -> Any:
    """Return WordPiece with BERT's special tokens at the ids of the released vocabularies."""
    unused = [f"[unused{place}]" for place in range(99)]
    pieces = [
        "[PAD]",
        *unused,
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *LETTERS,
        *(f"##{letter}" for letter in LETTERS),
    ]
    ids = _numbered([*pieces, *common(cased=True)])
    return transformers.BertTokenizer(
        vocab=ids, do_lower_case=False, model_max_length=512
    )


def build_gpt1() -> Any:
    """Return GPT-1's: lower-cased, ends of words marked, no start token."""
    symbols = ["<unk>", *LETTERS, *(f"{letter}</w>" for letter in LETTERS)]
    vocabulary, merges = _merged(symbols, common(cased=False), end="</w>")
    return transformers.OpenAIGPTTokenizer(
        vocab=_numbered(vocabulary), merges=merges, model_max_length=512
    )


def build_albert() -> Any:
    """Return ALBERT's: pieces with scores, lower-cased."""
    specials = [(name, 0.0) for name in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")]
    letters = [letter for letter in LETTERS if letter == letter.lower()]
    known = dict.fromkeys(
        ["▁", *(f"▁{word}" for word in common(cased=False)), *letters]
    )
    scores = [(piece, -1.0 - place / 100) for place, piece in enumerate(known)]
    return transformers.AlbertTokenizer(
        vocab=[*specials, *scores], model_max_length=512
    )


def _merged(
    symbols: Sequence[str], words: Sequence[str], end: str = ""
) -> tuple[list[str], Merges]:
    """Symbols and the pieces that words are put together from, letter by letter."""
    known, merges = dict.fromkeys(symbols), []
    for word in words:
        pieces = [*word[:-1], word[-1] + end]
        while len(pieces) > 1:
            if "".join(pieces[:2]) not in known:
                known["".join(pieces[:2])] = None
                merges.append((pieces[0], pieces[1]))
            pieces[:2] = ["".join(pieces[:2])]
    return list(known), merges


def _numbered(pieces: Sequence[str]) -> dict[str, int]:
    return {piece: place for place, piece in enumerate(dict.fromkeys(pieces))}
