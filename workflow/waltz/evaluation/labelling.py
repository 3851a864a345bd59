"""The label that a decoder gives to one question, and the token that it begins with."""

from waltz.evaluation.following import labels, published_labels
from waltz.evaluation.prompts import Voice, said
from waltz.evaluation.questions import Question
from waltz.models.decoders.decoder import Decoder, Picture, Prompt
from waltz.models.decoders.outcomes import FIRST_STEP, scores


def label_of(
    decoder: Decoder, prompt: Prompt, picture: Picture | None, question: Question, voice: Voice
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
    place = int(scores(decoder, [prompt], [picture], [ids], FIRST_STEP)[0].argmax())
    return question.labels[place], ids[place]
