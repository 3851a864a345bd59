"""Tokenizers with the vocabulary of the scenes."""

import re
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

PIECE = r"\w+|[^\w\s]"
CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;?!'\"()-"


def train_word_pieces(
    texts: Iterable[str],
    *,
    specials: dict[str, str],
    template: str,
    pair: str | None = None,
    lower: bool = True,
    longest: int = 64,
    types: bool = False,
) -> PreTrainedTokenizerFast:
    """Train a word-piece tokenizer: each word of the texts is one token, other words are split into characters.

    Args:
        texts: Texts with the words of the vocabulary.
        specials: Special tokens by role (`pad_token`, `unk_token`, …), padding first; their ids are 0, 1, ….
        template: Special tokens around one text, `$A` in its place.
        pair: The same for two texts, `$A` and `$B`.
        lower: Whether capitals are folded.
        longest: Maximum number of tokens.
        types: Whether the tokenizer returns token types (which of two texts a token is in).
    """
    words = {word for text in texts for word in re.findall(PIECE, text.lower() if lower else text)}
    characters = dict.fromkeys(CHARACTERS.lower() if lower else CHARACTERS)
    pieces = [
        *specials.values(),
        *characters,
        *(f"##{letter}" for letter in characters),
        *sorted(words - set(characters)),
    ]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    core = Tokenizer(models.WordPiece(vocabulary, unk_token=specials["unk_token"], max_input_chars_per_word=40))
    core.normalizer = normalizers.Lowercase() if lower else None
    core.pre_tokenizer = pre_tokenizers.Split(Regex(PIECE), behavior="removed", invert=True)
    core.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    ids = [(token, vocabulary[token]) for token in specials.values()]
    core.post_processor = processors.TemplateProcessing(single=template, pair=pair, special_tokens=ids)
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    return PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=longest, model_input_names=names, **specials)
