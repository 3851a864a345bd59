"""The tokenizers of released models, put together from their vocabularies as their repositories
hold them.
"""

import functools
from collections.abc import Sequence
from typing import Any

import transformers
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from real_tokenizers import vocabularies
from real_tokenizers.vocabularies import NORMAL, Piece

SPACE = "▁"
END = "<|endoftext|>"


def build_llama2(added: Sequence[str] = ()) -> Any:
    """Return the tokenizer of Llama 2 and Vicuna, with added special tokens."""
    return _build_sentencepiece(vocabularies.read_llama2(), added)


def build_mistral(added: Sequence[str] = ()) -> Any:
    """Return the first tokenizer of Mistral, with added special tokens."""
    return _build_sentencepiece(vocabularies.read_mistral(), added)


def build_falcon() -> Any:
    """Return the tokenizer of Falcon."""
    ids, merges, special = vocabularies.read_byte_level("falcon")
    core = Tokenizer(models.BPE(ids, list(merges)))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    )
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in special]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=END, model_max_length=2048
    )


def build_gpt2() -> Any:
    """Return the tokenizer of GPT-2."""
    ids, merges, _ = vocabularies.read_byte_level("gpt2")
    return transformers.GPT2Tokenizer(vocab=ids, merges=merges, model_max_length=1024)


def build_qwen2() -> Any:
    """Return the tokenizer of Qwen2, on which mPLUG-Owl3 builds."""
    ids, merges, special = vocabularies.read_byte_level("qwen2")
    tokenizer = transformers.Qwen2Tokenizer(
        vocab=ids, merges=merges, eos_token="<|im_end|>", model_max_length=32768
    )
    tokenizer.add_tokens(
        [AddedToken(text, special=True, normalized=False) for text in special]
    )
    return tokenizer


def build_bert() -> Any:
    """Return the tokenizer of uncased BERT."""
    return transformers.BertTokenizer(
        vocab=vocabularies.read_bert(), do_lower_case=True, model_max_length=512
    )


def build_clip() -> Any:
    """Return the tokenizer of CLIP."""
    ids, merges = vocabularies.read_clip()
    return transformers.CLIPTokenizer(vocab=ids, merges=merges, model_max_length=77)


def _build_sentencepiece(pieces: tuple[Piece, ...], added: Sequence[str]) -> Any:
    """Return the fast tokenizer of a SentencePiece BPE, with the normalizer of the files of Llama 2
    and Mistral.
    """
    ids = {piece.text: place for place, piece in enumerate(pieces)}
    core = Tokenizer(
        models.BPE(
            ids,
            _find_merges(pieces),
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    core.normalizer = normalizers.Sequence(
        [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    )
    core.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    special = ("<unk>", "<s>", "</s>", *added)
    core.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in special]
    )
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", ids["<s>"])]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


@functools.cache
def _find_merges(pieces: tuple[Piece, ...]) -> list[tuple[str, str]]:
    """Return every way to put a piece together from two others, by the score of the piece, then by
    their ids.
    """
    ids = {piece.text: place for place, piece in enumerate(pieces)}
    merges: list[tuple[float, tuple[str, str]]] = []
    for piece in pieces:
        if piece.kind == NORMAL:
            text = piece.text
            pairs = [(text[:cut], text[cut:]) for cut in range(1, len(text))]
            known = [
                (first, second)
                for first, second in pairs
                if first in ids and second in ids
            ]
            merges += [
                (piece.score, pair)
                for pair in sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
            ]
    merges.sort(key=lambda merge: -merge[0])
    return [pair for _, pair in merges]
