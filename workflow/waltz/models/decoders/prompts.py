"""Conversations as token ids of a prompt, and the token of a label after it."""

from collections.abc import Callable, Sequence
from typing import Any

import jinja2

from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.model_registry import ModelSpec
from waltz.models.decoders.decoder import Prompt, Turn

UNDERSCORE = "_"
"""Masked token of a decoder in the published code."""


def render_chat(
    template: Callable[..., str], has_template: bool, turns: Sequence[Turn], spec: ModelSpec, as_parts: bool
) -> str:
    """Render a conversation with a chat template, ready for the assistant to continue.

    An assistant's last turn is appended unchanged after the template's opening of a turn, because templates strip
    whitespace.

    Args:
        template: `apply_chat_template` of a tokenizer or processor.
        has_template: Whether there is a chat template.
        turns: The conversation.
        spec: The model, for errors.
        as_parts: Whether a message is a list of parts, as processors want it, or one text.
    Raises:
        UserError: There is no chat template, or it refuses the conversation, as some do with a system's turn.
    """
    if not has_template:
        raise UserError(
            f"models.{spec.name}: {spec.weights} has no chat template; name one under chat_template, or use a"
            " profile with its own turn markers"
        )
    continues = turns[-1].speaker == "assistant"
    messages = [
        {"role": turn.speaker, "content": _build_message_content(turn) if as_parts else turn.text}
        for turn in (turns[:-1] if continues else turns)
    ]
    try:
        rendered = template(messages, add_generation_prompt=True, tokenize=False)
    except (jinja2.TemplateError, TypeError) as error:
        raise UserError(
            f"models.{spec.name}: the chat template of {spec.weights} refuses the conversation: {error}"
        ) from error
    return rendered + (turns[-1].text if continues else "")


def tokenize_prompt(tokenizer: Any, text: str, placeholder: str, window: int, spec: ModelSpec) -> Prompt:
    """Return a rendered prompt as ids; a start token that the text already contains is not added again.

    Args:
        tokenizer: A fast tokenizer.
        text: The prompt.
        placeholder: What stands for an image in the text; empty for a model that sees none.
        window: Most tokens.
        spec: The model, for errors.
    Raises:
        UserError: The prompt is too long or empty, or has several placeholders.
    """
    has_start = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
    encoding = tokenizer(
        text,
        add_special_tokens=not has_start,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        verbose=False,
    )
    ids, offsets, is_added = encoding["input_ids"], encoding["offset_mapping"], encoding["special_tokens_mask"]
    while ids and ids[-1] == tokenizer.eos_token_id and offsets[-1][0] == offsets[-1][1]:
        ids, offsets, is_added = ids[:-1], offsets[:-1], is_added[:-1]
    if not 0 < len(ids) <= window:
        raise UserError(f"models.{spec.name}: a prompt of {len(ids)} tokens, 1 to {window} are read: {text[:60]!r}...")
    special_ids = get_special_ids(tokenizer)
    image_id = tokenizer.convert_tokens_to_ids(placeholder) if placeholder else None
    positions = [position for position, token in enumerate(ids) if token == image_id]
    if len(positions) > 1:
        raise UserError(
            f"models.{spec.name}: {len(positions)} images in one prompt, at most one is shown: {text[:60]!r}..."
        )
    return Prompt(
        text,
        tuple(ids),
        tuple(tokenizer.convert_ids_to_tokens(ids)),
        tuple(Span(start=start, end=end) for start, end in offsets),
        tuple(bool(is_special) or token in special_ids for is_special, token in zip(is_added, ids, strict=True)),
        positions[0] if positions else None,
    )


def get_special_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids that the tokenizer knows as special: start, end, turn markers, placeholders."""
    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    named = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}
    return frozenset((special | set(tokenizer.all_special_ids)) - ({tokenizer.unk_token_id} - named))


def find_label_id(
    tokenize: Callable[[str], Prompt], prompt: Prompt, label: str, spec: ModelSpec, unknown: int | None
) -> int:
    """Return the first token of a label after a prompt, found by tokenising both together.

    Args:
        tokenize: The decoder's `prompt`.
        prompt: The prompt.
        label: The label, with the space before it.
        spec: The model, for errors.
        unknown: Id of a word that the tokenizer lacks.
    Raises:
        UserError: The label begins within the prompt's last token, with a special or unknown token, or is empty.
    """
    both = tokenize(prompt.text + label)
    position = len(prompt.ids)
    if (
        both.ids[:position] != prompt.ids
        or len(both.ids) == position
        or both.special[position]
        or both.ids[position] == unknown
    ):
        raise UserError(
            f"models.{spec.name}: after {prompt.text[-20:]!r}, the label {label!r} does not begin with a token of its"
            " own; end the prompt elsewhere"
        )
    return both.ids[position]


def find_masked_id(tokenizer: Any, spec: ModelSpec) -> int:
    """Return the id for masked tokens: the entry's, the mask token, an underscore, or the unknown token.

    Raises:
        UserError: None of them is a token, or it ends an answer.
    """
    for token in [spec.masked_token] if spec.masked_token else [tokenizer.mask_token, UNDERSCORE, tokenizer.unk_token]:
        token_id = tokenizer.convert_tokens_to_ids(token) if token else None
        is_known = token_id is not None and (token_id != tokenizer.unk_token_id or token == tokenizer.unk_token)
        if is_known and token_id != tokenizer.eos_token_id:
            assert isinstance(token_id, int)
            return token_id
    raise UserError(
        f"models.{spec.name}.masked_token: {spec.masked_token!r} is no token that can stand for a masked one; name one"
    )


def _build_message_content(turn: Turn) -> list[dict[str, str]]:
    return [*([{"type": "image"}] if turn.image else []), {"type": "text", "text": turn.text}]
