"""Which tokens follow a prompt where an answer begins with a label, or is a text."""

from collections.abc import Callable, Sequence

from waltz.core.errors import UserError
from waltz.evaluation.prompting.prompts import Voice, said
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt
from waltz.models.decoders.outcomes import FIRST_STEP, score_targets

Follow = Callable[[Decoder, Prompt, Sequence[str]], tuple[int, ...]]
"""From a prompt and texts that could follow it to the token ids that are scored."""


def after(prompt: str, text: str) -> str:
    """A text as it goes on after a prompt: behind a blank, unless one or an opening bracket ends the prompt."""
    return text if prompt[-1:].isspace() or prompt.endswith("(") else f" {text}"


def labels(decoder: Decoder, prompt: Prompt, texts: Sequence[str]) -> tuple[int, ...]:
    """The tokens that really follow the prompt where an answer begins with one label or another.

    Raises:
        UserError: A label does not begin with a token of its own, or two begin alike.
    """
    return _apart(decoder, [decoder.find_label_id(prompt, after(prompt.text, text)) for text in texts], texts)


def published_labels(decoder: Decoder, prompt: Prompt, texts: Sequence[str]) -> tuple[int, ...]:
    """The label tokens of the released code: the second id of each letter tokenised alone, or its only one.

    The first id is the start token of Llama's and Mistral's tokenizers; those of GPT, BLOOM, Falcon and Qwen add none.
    With SentencePiece the second is the letter that begins a word, although the prompt ends in a bracket.

    Raises:
        UserError: Two labels have one token.
    """
    return _apart(decoder, [decoder.build_prompt(text).ids[:2][-1] for text in texts], texts)


def continuation(decoder: Decoder, prompt: Prompt, texts: Sequence[str]) -> tuple[int, ...]:
    """All tokens of the one text that follows the prompt, found by tokenising both together.

    Raises:
        UserError: Together they are too long, or the text does not begin with a token of its own.
    """
    (text,) = texts
    both = decoder.build_prompt(prompt.text + after(prompt.text, text)).ids
    if both[: len(prompt.ids)] != prompt.ids or len(both) == len(prompt.ids):
        raise UserError(
            f"models.{decoder.spec.name}: after {prompt.text[-20:]!r}, {text!r} does not begin with a token of its own;"
            " end the prompt elsewhere"
        )
    return both[len(prompt.ids) :]


def _apart(decoder: Decoder, ids: Sequence[int], texts: Sequence[str]) -> tuple[int, ...]:
    if len(set(ids)) < len(ids):
        raise UserError(f"models.{decoder.spec.name}: of the labels {', '.join(texts)} two begin with the same token")
    return tuple(ids)


pass


def label_of(
    decoder: Decoder, prompt: Prompt, picture: PreparedImage | None, question: Question, voice: Voice
) -> tuple[str, int]:
    """The label whose token has the highest logit where the answer begins, the first of equally high ones.

    Args:
        decoder: The model.
        prompt: The prompt for the answer.
        picture: Its image.
        question: A question with labels.
        voice: How the model is spoken to; `published` finds the labels' tokens as the released code does.
    Returns:
        The label and its token.
    Raises:
        UserError: Two labels begin alike, or one with no token of its own.
    """
    texts = tuple(said(question, voice.wording, label) for label in question.labels)
    follow = labels if voice.wording.profile == "equations" else published_labels
    ids = follow(decoder, prompt, texts)
    place = int(score_targets(decoder, [prompt], [picture], [ids], FIRST_STEP)[0].argmax())
    return question.labels[place], ids[place]
