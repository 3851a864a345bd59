"""Small vocabularies for the real tokenizer classes: the same special tokens at the same places, few words."""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel

from waltz.core.files.resources import RESOURCES
from waltz.scenes.language.captions import draw_captions
from waltz.scenes.sampling import draw_scenes

ROOT = Path(__file__).parents[2]
MOST = 400
"""Words of a vocabulary; others fall into letters."""
CAPITALS = 80
"""Words that a cased vocabulary has with a capital too."""
LETTERS = [chr(code) for code in range(33, 127)]
END = "<|endoftext|>"

Merges = list[tuple[str, str]]


@functools.cache
def _texts() -> str:
    """Scenes' captions, the prompts and the templates of chats."""
    captions = [caption for graph in draw_scenes(40, 11) for caption in draw_captions(graph, Random(graph.id))]
    files = [
        *(RESOURCES / "prompts").glob("*.yaml"),
        *(RESOURCES / "chat-templates").glob("*.jinja"),
    ]
    return " ".join([*captions, *(path.read_text(encoding="utf-8") for path in sorted(files))])


@functools.cache
def common(cased: bool) -> tuple[str, ...]:
    """The commonest words of these texts, commonest first."""
    words = _commonest(re.findall(r"[a-z]+", _texts().lower()))[:MOST]
    return (*words, *(word.capitalize() for word in words[:CAPITALS])) if cased else tuple(words)


def written(blank: str) -> list[str]:
    """Words as these texts write them, after a blank and, merged where that does not fit, without one.

    So prompts are about as long as the real tokenizers make them, and no longer.
    """
    words = _commonest(re.findall(r"[A-Za-z]+", _texts()))
    return [*(blank + word for word in words), *words]


def _commonest(words: Sequence[str]) -> list[str]:
    return [word for word, _ in sorted(Counter(words).items(), key=lambda pair: (-pair[1], pair[0]))]


def bert(cased: bool) -> Any:
    """WordPiece with BERT's special tokens at the ids that the released vocabularies give them."""
    unused = [f"[unused{place}]" for place in range(99)]
    pieces = ["[PAD]", *unused, "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    if not cased:
        pieces = [piece for piece in pieces if piece.startswith("[") or piece == piece.lower()]
    ids = _numbered([*pieces, *common(cased)])
    return transformers.BertTokenizer(vocab=ids, do_lower_case=not cased, model_max_length=512)


def gpt2(specials: Sequence[str] = (END,)) -> tuple[dict[str, int], Merges]:
    """Vocabulary and merges of a byte-level BPE whose words begin with a blank; special tokens come last."""
    symbols = sorted(ByteLevel.alphabet())
    vocabulary, merges = _merged(symbols, written("Ġ"))
    return _numbered([*vocabulary, *specials]), merges


def gpt2_tokenizer() -> Any:
    """GPT-2's."""
    vocabulary, merges = gpt2()
    return transformers.GPT2Tokenizer(vocab=vocabulary, merges=merges, model_max_length=1024)


def gpt1_tokenizer() -> Any:
    """GPT-1's: lower-cased, ends of words marked, no start token."""
    symbols = ["<unk>", *LETTERS, *(f"{letter}</w>" for letter in LETTERS)]
    vocabulary, merges = _merged(symbols, common(cased=False), end="</w>")
    return transformers.OpenAIGPTTokenizer(vocab=_numbered(vocabulary), merges=merges, model_max_length=512)


def clip_tokenizer() -> Any:
    """CLIP's: byte-level, ends of words marked, its two special tokens last and `!` first."""
    letters = sorted(ByteLevel.alphabet(), key=lambda letter: (letter != "!", letter))
    symbols = [*letters, *(f"{letter}</w>" for letter in letters)]
    vocabulary, merges = _merged(symbols, common(cased=False), end="</w>")
    ids = _numbered([*vocabulary, "<|startoftext|>", END])
    return transformers.CLIPTokenizer(vocab=ids, merges=merges, model_max_length=77)


def llama_tokenizer(added: Sequence[str] = (), **options: Any) -> Any:
    """Llama's and Mistral's: blanks as ▁, unknown letters as bytes; added tokens come last."""
    symbols = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *LETTERS]
    vocabulary, merges = _merged(symbols, written("▁"))
    tokenizer = transformers.LlamaTokenizer(
        vocab=_numbered(vocabulary), merges=merges, add_bos_token=True, model_max_length=4096, **options
    )
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in added])
    return tokenizer


def falcon_tokenizer() -> Any:
    """Falcon's: byte-level, its names of parts of a web page first, an end token and no other."""
    vocabulary, merges = gpt2(())
    named = [">>TITLE<<", ">>ABSTRACT<<", ">>INTRODUCTION<<", ">>SUMMARY<<", ">>COMMENT<<", ">>ANSWER<<"]
    named += [">>QUESTION<<", ">>DOMAIN<<", ">>PREFIX<<", ">>SUFFIX<<", ">>MIDDLE<<", END]
    core = Tokenizer(models.BPE(_numbered([*named, *vocabulary]), merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in named])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, model_max_length=2048)


def albert_tokenizer() -> Any:
    """ALBERT's: pieces with scores, lower-cased."""
    specials = [(name, 0.0) for name in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")]
    letters = [letter for letter in LETTERS if letter == letter.lower()]
    known = dict.fromkeys(["▁", *(f"▁{word}" for word in common(cased=False)), *letters])
    scores = [(piece, -1.0 - place / 100) for place, piece in enumerate(known)]
    return transformers.AlbertTokenizer(vocab=[*specials, *scores], model_max_length=512)


def _merged(symbols: Sequence[str], words: Sequence[str], end: str = "") -> tuple[list[str], Merges]:
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
