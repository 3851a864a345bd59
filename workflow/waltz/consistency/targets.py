"""What a model says after a prompt, as the tokens that are explained."""

from waltz.attribution.ratios import Profile
from waltz.core.errors import UserError
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, Sampling
from waltz.models.decoders.generation import generate_texts


def target_ids(
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage | None,
    most: int,
    profile: Profile,
    sampling: Sampling | None = None,
    seed: int = 0,
) -> tuple[int, ...]:
    """The tokens that a model says after a prompt, each an output to be explained.

    `equations` leaves the end token out. In `published` the first token never ends what is said; of models that see an
    end token later on is an output too; of language models a special token at the beginning, or at the end of several,
    is cut off, as `shap.models.TextGeneration` does.

    Args:
        decoder: The model.
        prompt: The prompt.
        picture: Its image.
        most: Most tokens; the released code has 1 for an answer, 100 for an explanation.
        profile: `published` or `equations`.
        sampling: How tokens are drawn (`evaluation.decoders.sampling_of`); None takes the likeliest.
        seed: Seed of the draws.
    Returns:
        At least one token id.
    Raises:
        UserError: Nothing is left that could be explained.
    Source:
        CC-SHAP's and CC-SHAP-VLM's released scripts.
    """
    if profile == "equations":
        (said,) = decoder.generate([prompt], [picture], most, sampling, [seed])
    else:
        (said,) = generate_texts(decoder, [prompt], [picture], most, sampling, [seed], least=1, ended=True)
        if picture is None:
            said = _cut(decoder, said)
    if not said:
        raise UserError(
            f"models.{decoder.spec.name}: says nothing after {prompt.text[-40:]!r}, so there is nothing to explain;"
            " ask otherwise"
        )
    return said


def _cut(decoder: Decoder, said: tuple[int, ...]) -> tuple[int, ...]:
    """What is said without a special first token, and without a special last one where there are several."""
    known = getattr(decoder, "tokenizer", None)
    named = set() if known is None else {token for token in known.special_tokens_map.values() if isinstance(token, str)}
    special = [known is not None and known.convert_ids_to_tokens(one) in named for one in said]
    start = int(bool(special) and special[0])
    return said[start : len(said) - int(len(said) > 1 and special[-1])]
