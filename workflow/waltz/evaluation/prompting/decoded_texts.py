"""Generated tokens as text, by the rules of the released scripts or of the definitions.

The released scripts decode a prompt together with the chain of thought that follows it, cut the
text by the length of the prompt, and repeat it in later prompts. A tokenizer does not return every
prompt as it was written: later prompts therefore differ from the first one.
"""

from collections.abc import Sequence
from typing import TypeVar

from waltz.evaluation.prompting.prompt_files import PromptFamily, PromptFile
from waltz.evaluation.prompting.prompts import DECODED_PROMPT, PromptTemplate
from waltz.models.decoders.decoder import Decoder, Prompt

T = TypeVar("T", str, str | None)
END_MARK = "</s>"
"""The end mark, whose length the released code cuts off the text, even if the text has no end mark.
"""


class DecodedReasoning(str):
    """A chain of thought, with the prompt before it as the tokenizer returned it.

    The text is what follows the length of the prompt in the decoded text of both.

    Attributes:
        decoded_prompt: The decoded text up to the length of the prompt. It is shorter than the
            prompt if the tokenizer removed more characters than were generated.
        generated: The text of the generated tokens alone.
    """

    decoded_prompt: str
    generated: str

    def __new__(
        cls, text: str, decoded_prompt: str, generated: str
    ) -> "DecodedReasoning":
        """Return a chain of thought with the texts next to it."""
        reasoning = super().__new__(cls, text)
        reasoning.decoded_prompt = decoded_prompt
        reasoning.generated = generated
        return reasoning


def get_generated_text(reasoning: T) -> T:
    """Return a chain of thought, if there is one, as the text of its tokens alone."""
    generated: T = getattr(reasoning, "generated", reasoning)
    return generated


def replace_reasoning(reasoning: str, text: str) -> str:
    """Return another chain of thought after the same prompt."""
    if isinstance(reasoning, DecodedReasoning):
        return DecodedReasoning(text, reasoning.decoded_prompt, text)
    return text


def join_reasoning(begun: str, rest: str) -> str:
    """Join the beginning of a chain of thought, with which a prompt ended, and its continuation."""
    if not isinstance(rest, DecodedReasoning):
        return begun + rest
    text = rest.decoded_prompt + rest
    start = len(rest.decoded_prompt) - len(begun)
    return DecodedReasoning(text[start:], text[:start], begun + rest.generated)


def repeat_reasoning(reasoning: str | None) -> dict[str, str]:
    """Return the texts by which a prompt repeats a chain of thought, as `render_prompt` takes them;
    no texts without a chain of thought.
    """
    if reasoning is None:
        return {}
    if isinstance(reasoning, DecodedReasoning):
        return {
            "reasoning": str(reasoning),
            DECODED_PROMPT: reasoning.decoded_prompt,
        }
    return {"reasoning": reasoning}


def decode_generation(
    decoder: Decoder, ids: Sequence[int], max_tokens: int, template: PromptTemplate
) -> str:
    """Return generated tokens as text.

    Args:
        decoder: The decoder.
        ids: The tokens, with or without the end token.
        max_tokens: Maximum number of tokens.
        template: The prompts, whose family has the rule of the released script (`text_rule`).
    """
    if template.family is None:
        return decoder.decode_text(ids)
    family = template.prompt_file.families[template.family]
    text = decoder.decode_text(ids)
    return _apply_text_rule(text, decoder, family, _has_end(decoder, ids, max_tokens))


def decode_reasoning(
    decoder: Decoder,
    prompt: Prompt,
    ids: Sequence[int],
    max_tokens: int,
    template: PromptTemplate,
) -> str:
    """Return the tokens of a chain of thought as text; a `DecodedReasoning` where later prompts
    repeat the decoded prompt.

    Args:
        prompt: The prompt after which the tokens were generated.
        ids: The tokens, with or without the end token.
        max_tokens: Maximum number of tokens.
        template: The prompts.
    """
    generated = decode_generation(decoder, ids, max_tokens, template)
    repeated_prompt = template.prompt_file.fidelity.repeated_prompt
    if template.family is None or repeated_prompt == "rendered":
        return generated
    family = template.prompt_file.families[template.family]
    if family.text_rule == "reply-only":
        return generated
    text = decoder.decode_text((*prompt.ids, *ids), prompt.image_position)
    has_end = _has_end(decoder, ids, max_tokens)
    text = _apply_text_rule(text, decoder, family, has_end)
    length = len(prompt.text)
    return DecodedReasoning(text[length:], text[:length], generated)


def decode_helper_text(
    decoder: Decoder, ids: Sequence[int], prompt_file: PromptFile
) -> str:
    """Return a text of the helper model, which no released script cuts.

    Args:
        prompt_file: The prompts of the profile, whose families say which tokenizers remove spaces.
    """
    text = decoder.decode_text(ids)
    family = prompt_file.families.get(decoder.spec.family)
    if family is not None and family.cleans_spaces:
        return _remove_spaces(decoder, text)
    return text


def _has_end(decoder: Decoder, ids: Sequence[int], max_tokens: int) -> bool:
    """Return whether the end token was generated, even if it is not among the tokens."""
    return len(ids) < max_tokens or ids[-1] in decoder.ends


def _apply_text_rule(
    text: str, decoder: Decoder, family: PromptFamily, has_end: bool
) -> str:
    """Return decoded text as the released script of a family has it."""
    # The script cuts off the length of the end mark, whether the text ends in one or not.
    if family.text_rule == "marks-cut" and not has_end:
        text = text[: -len(END_MARK)]
    if family.cleans_spaces:
        text = _remove_spaces(decoder, text)
    return text


def _remove_spaces(decoder: Decoder, text: str) -> str:
    """Remove the spaces before punctuation and English contractions, as transformers 4.35 does by
    default when it decodes.
    """
    return str(decoder.tokenizer.clean_up_tokenization(text))
