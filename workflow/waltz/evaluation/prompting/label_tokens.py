"""Tokens that follow a prompt where an answer begins with a label, or is a text."""

from collections.abc import Callable, Sequence

from waltz.core.errors import UserError
from waltz.evaluation.prompting.prompts import PromptTemplate, render_label
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.continuations import FIRST_STEP, score_targets
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt

FindTokens = Callable[[Decoder, Prompt, Sequence[str]], tuple[int, ...]]
"""From a prompt and texts that could follow it to the token ids that are scored."""


def add_leading_space(prompt: str, text: str) -> str:
    """Return a text as it continues a prompt: after a space, unless the prompt ends in whitespace or `(`."""
    return text if prompt[-1:].isspace() or prompt.endswith("(") else f" {text}"


def find_label_tokens(decoder: Decoder, prompt: Prompt, texts: Sequence[str]) -> tuple[int, ...]:
    """Return the tokens that follow the prompt where an answer begins with each label.

    Raises:
        UserError: A label does not begin with a token of its own, or two labels begin with the same token.
    """
    ids = [decoder.find_label_id(prompt, add_leading_space(prompt.text, text)) for text in texts]
    return _check_distinct(decoder, ids, texts)


def find_published_label_tokens(decoder: Decoder, prompt: Prompt, texts: Sequence[str]) -> tuple[int, ...]:
    """Return the label tokens of the released code: the second id of each letter tokenized alone, or its only one.

    The first id is the start token of Llama's and Mistral's tokenizers; those of GPT, BLOOM, Falcon and Qwen add none.
    With SentencePiece the second is the letter that begins a word, although the prompt ends in a bracket.

    Raises:
        UserError: Two labels have one token.
    """
    return _check_distinct(decoder, [decoder.build_prompt(text).ids[:2][-1] for text in texts], texts)


def find_continuation_tokens(decoder: Decoder, prompt: Prompt, texts: Sequence[str]) -> tuple[int, ...]:
    """Return all tokens of the one text that follows the prompt, from prompt and text tokenized as one.

    Raises:
        UserError: Prompt and text are too long, or the text does not begin with a token of its own.
    """
    (text,) = texts
    ids = decoder.build_prompt(prompt.text + add_leading_space(prompt.text, text)).ids
    if ids[: len(prompt.ids)] != prompt.ids or len(ids) == len(prompt.ids):
        raise UserError(
            f"models.{decoder.spec.name}: after {prompt.text[-20:]!r}, {text!r} does not begin with a token of its own;"
            " end the prompt elsewhere"
        )
    return ids[len(prompt.ids) :]


CACHE_NAMES: dict[FindTokens, str] = {
    find_label_tokens: "labels",
    find_published_label_tokens: "published_labels",
    find_continuation_tokens: "continuation",
}
"""Names of the functions in keys of cached results, which stay when a function is renamed."""


def get_label_token_finder(profile: str) -> FindTokens:
    """Return the function that finds the tokens of labels in a profile."""
    return find_label_tokens if profile == "equations" else find_published_label_tokens


def _check_distinct(decoder: Decoder, ids: Sequence[int], texts: Sequence[str]) -> tuple[int, ...]:
    if len(set(ids)) < len(ids):
        raise UserError(f"models.{decoder.spec.name}: of the labels {', '.join(texts)} two begin with the same token")
    return tuple(ids)


def choose_label(
    decoder: Decoder, prompt: Prompt, picture: PreparedImage | None, question: Question, template: PromptTemplate
) -> tuple[str, int]:
    """Return the label whose token has the highest logit where the answer begins, the first of equally high ones.

    Args:
        decoder: The model.
        prompt: The prompt for the answer.
        picture: Its image.
        question: A question with labels.
        template: Wording and markers; `published` finds the labels' tokens as the released code does.
    Returns:
        The label and its token.
    Raises:
        UserError: Two labels begin with the same token, or one with no token of its own.
    """
    texts = tuple(render_label(question, template.prompt_file, label) for label in question.labels)
    ids = get_label_token_finder(template.prompt_file.profile)(decoder, prompt, texts)
    index = int(score_targets(decoder, [prompt], [picture], [ids], FIRST_STEP)[0].argmax())
    return question.labels[index], ids[index]
