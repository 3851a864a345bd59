"""From a conversation to the token ids of a prompt, and the token of a label after it."""

from collections.abc import Callable, Sequence
from typing import Any

import jinja2

from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.models.decoders.decoder import Prompt, Turn
from waltz.models.registry import ModelSpec

UNDERSCORE = "_"
"""What the published code puts in the place of a masked token of a decoder."""


def render_chat(
    template: Callable[..., str], has_template: bool, turns: Sequence[Turn], spec: ModelSpec, parts: bool
) -> str:
    """A conversation by a chat template, ready for the assistant to go on.

    An assistant's last turn is put behind the template's own opening of a turn, as it is: templates strip blanks.

    Args:
        template: `apply_chat_template` of a tokenizer or processor.
        has_template: Whether there is a chat template.
        turns: The conversation.
        spec: The model, for errors.
        parts: Whether a message is a list of parts, as processors want it, or one text.
    Raises:
        UserError: There is no chat template, or it refuses the conversation, as some do with a system's turn.
    """
    if not has_template:
        raise UserError(
            f"models.{spec.name}: {spec.weights} has no chat template; name one under chat_template, or use a"
            " profile with its own turn markers"
        )
    goes_on = turns[-1].speaker == "assistant"
    messages = [
        {"role": turn.speaker, "content": _build_message_content(turn) if parts else turn.text}
        for turn in (turns[:-1] if goes_on else turns)
    ]
    try:
        opened = template(messages, add_generation_prompt=True, tokenize=False)
    except (jinja2.TemplateError, TypeError) as error:
        raise UserError(
            f"models.{spec.name}: the chat template of {spec.weights} refuses the conversation: {error}"
        ) from error
    return opened + (turns[-1].text if goes_on else "")


def tokenize_prompt(tokenizer: Any, text: str, placeholder: str, window: int, spec: ModelSpec) -> Prompt:
    """A rendered prompt as ids; a start token that the text spells is not added again.

    Args:
        tokenizer: A fast tokenizer.
        text: The prompt.
        placeholder: What stands for an image in the text; empty for a model that sees none.
        window: Most tokens.
        spec: The model, for errors.
    Raises:
        UserError: The prompt is too long or empty, or has several placeholders.
    """
    spelt = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
    found = tokenizer(
        text, add_special_tokens=not spelt, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False
    )
    ids, offsets, added = found["input_ids"], found["offset_mapping"], found["special_tokens_mask"]
    while ids and ids[-1] == tokenizer.eos_token_id and offsets[-1][0] == offsets[-1][1]:
        ids, offsets, added = ids[:-1], offsets[:-1], added[:-1]
    if not 0 < len(ids) <= window:
        raise UserError(f"models.{spec.name}: a prompt of {len(ids)} tokens, 1 to {window} are read: {text[:60]!r}...")
    special_ids = get_special_ids(tokenizer)
    image_id = tokenizer.convert_tokens_to_ids(placeholder) if placeholder else None
    places = [place for place, token in enumerate(ids) if token == image_id]
    if len(places) > 1:
        raise UserError(
            f"models.{spec.name}: {len(places)} images in one prompt, at most one is shown: {text[:60]!r}..."
        )
    return Prompt(
        text,
        tuple(ids),
        tuple(tokenizer.convert_ids_to_tokens(ids)),
        tuple(Span(start=start, end=end) for start, end in offsets),
        tuple(bool(mark) or token in special_ids for mark, token in zip(added, ids, strict=True)),
        places[0] if places else None,
    )


def get_special_ids(tokenizer: Any) -> frozenset[int]:
    """Ids that the tokenizer knows as special: start, end, turn markers, placeholders; a word that it lacks is none."""
    marked = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    ends = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}
    return frozenset((marked | set(tokenizer.all_special_ids)) - ({tokenizer.unk_token_id} - ends))


def find_label_id(
    tokenize: Callable[[str], Prompt], prompt: Prompt, label: str, spec: ModelSpec, unknown: int | None
) -> int:
    """The first token of a label after a prompt, found by tokenising both together.

    Args:
        tokenize: The decoder's `prompt`.
        prompt: The prompt.
        label: The label, with the blank before it.
        spec: The model, for errors.
        unknown: Id of a word that the tokenizer lacks.
    Raises:
        UserError: The label begins within the prompt's last token, with a special or unknown token, or is empty.
    """
    both = tokenize(prompt.text + label)
    place = len(prompt.ids)
    if both.ids[:place] != prompt.ids or len(both.ids) == place or both.special[place] or both.ids[place] == unknown:
        raise UserError(
            f"models.{spec.name}: after {prompt.text[-20:]!r}, the label {label!r} does not begin with a token of its"
            " own; end the prompt elsewhere"
        )
    return both.ids[place]


def find_masked_id(tokenizer: Any, spec: ModelSpec) -> int:
    """The id that stands for a masked token: the entry's, the mask token, an underscore, or the unknown token.

    Raises:
        UserError: None of them is a token, or it ends an answer.
    """
    for named in [spec.masked_token] if spec.masked_token else [tokenizer.mask_token, UNDERSCORE, tokenizer.unk_token]:
        found = tokenizer.convert_tokens_to_ids(named) if named else None
        known = found is not None and (found != tokenizer.unk_token_id or named == tokenizer.unk_token)
        if known and found != tokenizer.eos_token_id:
            assert isinstance(found, int)
            return found
    raise UserError(
        f"models.{spec.name}.masked_token: {spec.masked_token!r} is no token that can stand for a masked one; name one"
    )


def _build_message_content(turn: Turn) -> list[dict[str, str]]:
    return [*([{"type": "image"}] if turn.image else []), {"type": "text", "text": turn.text}]
