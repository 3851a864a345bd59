"""Check of user texts: a text that spells a control token of a tokenizer is refused, whatever model
reads it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from waltz.core.errors import ItemError

MARKS = frozenset("<>[]|")
"""Letters of markers; a special token without them, such as the "!" by which some CLIPs pad, is an
ordinary word.
"""
BRACKETS = (("<", ">"), ("[", "]"))
"""First and last letter of an added token that is a marker of a format, such as `<tool_call>`, and
not a word.
"""
HTML_ELEMENTS = {
    "a", "b", "blockquote", "body", "br", "caption", "code", "dd", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4",
    "h5", "h6", "head", "hr", "html", "i", "img", "li", "ol", "p", "pre", "s", "small", "span", "strong", "sub", "sup",
    "table", "tbody", "td", "tfoot", "th", "thead", "title", "tr", "u", "ul",
}  # fmt: skip
"""Elements of HTML, whose tags are ordinary text even if they are single tokens, as in Gemma's
vocabulary.
"""


def check_user_text(tokenizer: Any, text: str, label: str) -> None:
    """Refuse a text in which a tokenizer finds a control token, which would cut or shift the text
    silently.

    The tokenizer itself is asked, so that its own normalization and the spaces that a token takes
    with it count.

    Args:
        tokenizer: A tokenizer of transformers, fast or slow.
        text: Text of a user, without special tokens that waltz adds.
        label: What reads the text, such as `models.clip`.
    Raises:
        ItemError: The text holds a control token.
    """
    _refuse_tokens(find_control_tokens(tokenizer, text), text, label)


def check_generated_text(tokenizer: Any, text: str, label: str) -> None:
    """Refuse a text of a model that a prompt repeats if a tokenizer finds a special token in it.

    Decoding has removed the special tokens that were generated as such, so that a remaining one was
    spelled, or belongs to another model. Markers of a format, such as `<think>`, are part of what
    models write.

    Args:
        tokenizer: The tokenizer of the model that reads the text.
        text: Generated text.
        label: What the text belongs to, such as an item.
    Raises:
        ItemError: The text holds a special token.
    """
    _refuse_tokens(
        _find_tokens(tokenizer, text, _list_special_tokens(tokenizer)), text, label
    )


def select_readable(texts: Iterable[str], *tokenizers: Any) -> list[str]:
    """Return the distinct texts in which none of some tokenizers finds a control token, in their
    order.
    """
    readable = []
    for text in dict.fromkeys(texts):
        if not any(find_control_tokens(tokenizer, text) for tokenizer in tokenizers):
            readable.append(text)
    return readable


def find_control_tokens(tokenizer: Any, text: str) -> list[str]:
    """Return the control tokens that a tokenizer reads in a text, in the order of the text."""
    return _find_tokens(tokenizer, text, _list_control_tokens(tokenizer))


def _refuse_tokens(tokens: Sequence[str], text: str, label: str) -> None:
    if not tokens:
        return
    token = tokens[0]
    # A prompt may begin with many words that are not the user's; a tokenizer may know a token in
    # another form.
    start = max(text.casefold().find(token.casefold()) - 30, 0)
    raise ItemError(
        f"{label}: control token in a text: {text[start : start + 60]!r} (got {token!r}, expected plain text);"
        " remove it or spell it another way"
    )


def _find_tokens(tokenizer: Any, text: str, control: Mapping[int, str]) -> list[str]:
    # Without the special tokens that the tokenizer adds.
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    unknown = tokenizer.unk_token_id
    tokens = [
        control[token_id]
        for token_id in ids
        if token_id in control and token_id != unknown
    ]
    # An unknown word has the id of the unknown token, too, so the unknown token counts only if it
    # is spelled.
    is_unknown_read = unknown in control and unknown in ids
    if is_unknown_read and control[unknown].casefold() in text.casefold():
        tokens.append(control[unknown])
    return tokens


def _list_control_tokens(tokenizer: Any) -> dict[int, str]:
    """Return special tokens that are spelled as markers, and added tokens in brackets, by id."""
    markers = {}
    for token_id, token in _read_added_tokens(tokenizer).items():
        spelling = str(token)
        is_bracketed = (spelling[:1], spelling[-1:]) in BRACKETS
        if is_bracketed and _strip_tag(spelling) not in HTML_ELEMENTS:
            markers[token_id] = spelling
    return _select_markers(markers) | _list_special_tokens(tokenizer)


def _list_special_tokens(tokenizer: Any) -> dict[int, str]:
    """Return the special tokens that are spelled as markers, by id."""
    # Tokens that were added as special, and those that have a role, such as the end token.
    special = {
        token_id: str(token)
        for token_id, token in _read_added_tokens(tokenizer).items()
        if token.special
    }
    named = zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
    special |= {token_id: str(token) for token_id, token in named}
    return _select_markers(special)


def _read_added_tokens(tokenizer: Any) -> Mapping[int, Any]:
    """Return the added tokens by id; the tokenizer of mistral-common has none that a text could
    spell.
    """
    added = getattr(tokenizer, "added_tokens_decoder", None)
    return added if isinstance(added, Mapping) else {}


def _select_markers(tokens: Mapping[int, str]) -> dict[int, str]:
    """Return the tokens that are spelled with a letter of markers, and not this letter alone."""
    return {
        token_id: token
        for token_id, token in tokens.items()
        if len(token) > 2 and MARKS & set(token)
    }


def _strip_tag(token: str) -> str:
    """Return the name of an element from its tag, such as `br` from `<br/>`."""
    return token.strip("</>").lower()


def list_message_texts(messages: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield the texts of a conversation as transformers takes it: all but the types of parts, which
    are not texts.
    """
    for message in messages:
        yield from _list_texts(message)


def _list_texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        for name, value in content.items():
            if name != "type":
                yield from _list_texts(value)
    elif isinstance(content, list | tuple):
        for part in content:
            yield from _list_texts(part)
