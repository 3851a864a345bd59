"""Outputs of a decoder (scores of continuations, generated text), computed once per prompt and cached in blocks."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.evaluation.prompting.prompts import PromptTemplate, render_label
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import get_fidelity
from waltz.model_registry import compute_fingerprint, select_decisive_fields
from waltz.models.batches import ProgressCallback, compute_in_halves, ignore_progress
from waltz.models.decoders.continuations import FIRST_STEP, score_targets
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, Sampling

FindTokens = Callable[[Decoder, Prompt, Sequence[str]], tuple[int, ...]]
"""From a prompt and texts that could follow it to the token ids that are scored."""
BLOCK_SIZE = 64
"""Queries after which a block ends, once it holds all queries of its last image."""
CACHED_IMAGES = 32
"""Prepared images that are kept for the next queries."""
END_MARK = "</s>"
"""The mark that the released code cuts off by its length, whether or not it is there."""
LoadImage = Callable[[str], Image.Image]
"""From the name of an image to an RGB image; a `UserError` becomes the error of its queries."""
T = TypeVar("T")
DigestedPicture = tuple[PreparedImage, str]
"""A prepared image and a digest of the original."""


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
    return find_label_tokens if get_fidelity(profile).label_token == "context" else find_published_label_tokens


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


@dataclass(frozen=True)
class DecoderQuery:
    """A prompt for a decoder.

    Attributes:
        image: Name of the image that it shows, or None.
        prompt: The rendered prompt.
        continuations: Texts that could follow, where they are scored.
        seed: Seed of the draws, where text is sampled.
    """

    image: str | None
    prompt: str
    continuations: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class DecoderOutput:
    """The output of a decoder for one query.

    Attributes:
        scores: A number for each scored token; None with an error, or where text was generated.
        token_ids: Ids of the generated text; None with an error, or where continuations were scored.
        tokens: Length of the prompt in tokens, its image one placeholder; 0 where it cannot be read.
        error: Why there is no output.
    """

    scores: tuple[float, ...] | None
    token_ids: tuple[int, ...] | None
    tokens: int
    error: str | None = None


@dataclass(frozen=True, eq=False)
class _TokenizedQuery:
    """A query with its tokens, its prepared image and the tokens that are scored."""

    query: DecoderQuery
    prompt: Prompt
    picture: PreparedImage | None
    targets: tuple[int, ...]


@dataclass(frozen=True)
class DecoderSession:
    """A decoder, its images, and its stored results.

    Attributes:
        decoder: A loaded decoder.
        load_image: Opens images.
        cache_folder: Folder of finished blocks; None stores nothing.
        report_progress: Receives the number of queries of each finished block.
        images: The last prepared images by name: image and digest, or why there is none.
    """

    decoder: Decoder
    load_image: LoadImage
    cache_folder: Path | None = None
    report_progress: ProgressCallback = ignore_progress
    images: OrderedDict[str, DigestedPicture | str] = field(default_factory=OrderedDict, repr=False, compare=False)


def score_continuations(
    session: DecoderSession, queries: Iterable[DecoderQuery], find_tokens: FindTokens, value: str
) -> dict[DecoderQuery, DecoderOutput]:
    """Return scores of what could follow each distinct query.

    Args:
        session: The decoder.
        queries: Prompts with their continuations.
        find_tokens: Finds the tokens that are scored; a key of `CACHE_NAMES`.
        value: One of `outcomes.VALUES`; with `first-step-logit` the tokens are alternatives for the first one.
    """

    def compute(width: int, rows: list[_TokenizedQuery]) -> np.ndarray:
        prompts, pictures = [row.prompt for row in rows], [row.picture for row in rows]
        targets = [row.targets for row in rows]
        scores_of_rows = score_targets(session.decoder, prompts, pictures, targets, value)
        return _pad([row_scores.tolist() for row_scores in scores_of_rows], width, np.nan)

    content = {"follow": CACHE_NAMES[find_tokens], "value": value}
    outputs: dict[DecoderQuery, DecoderOutput] = {}
    for query, tokenized, result in _run(session, queries, compute, content, find_tokens):
        if isinstance(result, str):
            outputs[query] = DecoderOutput(None, None, _count_tokens(tokenized), result)
            continue
        assert tokenized is not None
        numbers = tuple(result[: len(tokenized.targets)].tolist())
        error = next((f"the model's score is {number}" for number in numbers if not np.isfinite(number)), None)
        outputs[query] = DecoderOutput(None if error else numbers, None, _count_tokens(tokenized), error)
    return outputs


def generate_tokens(
    session: DecoderSession, queries: Iterable[DecoderQuery], most_tokens: int, sampling: Sampling | None
) -> dict[DecoderQuery, DecoderOutput]:
    """Generate text after each distinct query, as token ids.

    Args:
        session: The decoder.
        queries: Prompts, with the seed of the draws after each.
        most_tokens: Most tokens.
        sampling: Settings of sampling; None takes the likeliest tokens.
    """

    def compute(width: int, rows: list[_TokenizedQuery]) -> np.ndarray:
        prompts, pictures = [row.prompt for row in rows], [row.picture for row in rows]
        seeds = [row.query.seed for row in rows]
        return _pad(session.decoder.generate(prompts, pictures, most_tokens, sampling, seeds), most_tokens, -1)

    content = {"most": most_tokens, "sampling": asdict(sampling) if sampling else None}
    outputs: dict[DecoderQuery, DecoderOutput] = {}
    for query, tokenized, result in _run(session, queries, compute, content, None):
        if isinstance(result, str):
            outputs[query] = DecoderOutput(None, None, _count_tokens(tokenized), result)
        else:
            ids = tuple(int(token) for token in result if token >= 0)
            outputs[query] = DecoderOutput(None, ids, _count_tokens(tokenized))
    return outputs


def decode_generation(decoder: Decoder, ids: Sequence[int], most_tokens: int, template: PromptTemplate) -> str:
    """Return generated tokens as text.

    Args:
        decoder: The decoder that generated them.
        ids: The tokens, without the end token.
        most_tokens: Most tokens that were allowed; with as many, no end token was generated.
        template: The prompts. The released code for VL decoders cuts the end mark off by its length, so text without
            an end token loses its last characters.
    """
    text = decoder.decode_text(ids)
    families = template.prompt_file.families
    is_cut = template.family is not None and families[template.family].script == "images" and len(ids) >= most_tokens
    return text[: -len(END_MARK)] if is_cut else text


def split_into_blocks(queries: Iterable[DecoderQuery]) -> Iterator[list[DecoderQuery]]:
    """Yield distinct queries in order, in blocks of at least `BLOCK_SIZE` that do not split the queries of an image."""
    block: list[DecoderQuery] = []
    ordered = sorted(set(queries), key=lambda query: (query.image or "", query.prompt, query.continuations, query.seed))
    for query in ordered:
        same_image = block and query.image is not None and query.image == block[-1].image
        if len(block) >= BLOCK_SIZE and not same_image:
            yield block
            block = []
        block.append(query)
    if block:
        yield block


def _run(
    session: DecoderSession,
    queries: Iterable[DecoderQuery],
    compute: Callable[[int, list[_TokenizedQuery]], np.ndarray],
    content: Mapping[str, Any],
    find_tokens: FindTokens | None,
) -> Iterator[tuple[DecoderQuery, _TokenizedQuery | None, np.ndarray | str]]:
    """Yield each query, its tokens, and its row of numbers or why there is none."""
    decoder = session.decoder
    key_content = {
        "code": digest(__file__, type(decoder).__module__),
        "model": compute_fingerprint(decoder.spec),
        "entry": select_decisive_fields(decoder.spec),
        "device": decoder.device.partition(":")[0],
        **content,
    }
    for block in split_into_blocks(queries):
        names = dict.fromkeys(query.image for query in block if query.image is not None)
        pictures = {name: _prepare_image(session, name) for name in names}
        tokenized = [(query, _tokenize(decoder, query, pictures, find_tokens)) for query in block]
        valid = [row for _, (row, error) in tokenized if row is not None and error is None]
        results: Iterator[np.ndarray] = iter(())
        if valid:
            digests = {name: picture[1] for name, picture in pictures.items() if not isinstance(picture, str)}
            texts = [(row.prompt.text, row.targets, row.query.seed) for row in valid]
            image_digests = [digests.get(row.query.image or "") for row in valid]
            width = max(len(row.targets) for row in valid)
            results = iter(
                result_cache.load_or_compute(
                    session.cache_folder,
                    {"texts": texts, "shown": image_digests, **key_content},
                    partial(compute_in_halves, partial(compute, width), valid),
                )
            )
        for query, (row, error) in tokenized:
            yield query, row, error if error is not None else next(results)
        session.report_progress(len(block))


def _prepare_image(session: DecoderSession, name: str) -> DigestedPicture | str:
    """Return a prepared image and a digest of the original, or why there is none."""
    if name not in session.images:
        image = _call_or_error(session.load_image, name)
        picture = image if isinstance(image, str) else _call_or_error(session.decoder.prepare_image, image)
        if isinstance(image, str) or isinstance(picture, str):
            session.images[name] = str(picture)
        else:
            session.images[name] = picture, sha256(f"{image.size}".encode() + image.tobytes()).hexdigest()
    session.images.move_to_end(name)
    prepared = session.images[name]
    while len(session.images) > CACHED_IMAGES:
        session.images.popitem(last=False)
    return prepared


def _tokenize(
    decoder: Decoder, query: DecoderQuery, pictures: Mapping[str, DigestedPicture | str], find_tokens: FindTokens | None
) -> tuple[_TokenizedQuery | None, str | None]:
    """Return a query with its tokens, as far as it can be tokenized, and why it cannot be run."""
    prepared = None if query.image is None else pictures[query.image]
    picture = prepared[0] if isinstance(prepared, tuple) else None
    tokenized: _TokenizedQuery | None = None
    try:
        prompt = decoder.build_prompt(query.prompt)
        tokenized = _TokenizedQuery(query, prompt, None, ())
        if isinstance(prepared, str):
            return tokenized, prepared
        targets = () if find_tokens is None else find_tokens(decoder, prompt, query.continuations)
        positions = decoder.build_layout(prompt, picture).positions.shape[-1]
        if find_tokens is find_continuation_tokens and positions + len(targets) > decoder.window:
            raise UserError(
                f"models.{decoder.spec.name}: {positions} positions and {len(targets)} more, at most {decoder.window}"
                f" are read: {query.prompt[:60]!r}..."
            )
        return _TokenizedQuery(query, prompt, picture, targets), None
    except UserError as error:
        return tokenized, str(error)


def _count_tokens(tokenized: _TokenizedQuery | None) -> int:
    return 0 if tokenized is None else len(tokenized.prompt.ids)


def _pad(rows: Sequence[Sequence[float]], width: int, fill: float) -> np.ndarray:
    """Return rows of different lengths as one array of shape (rows, width)."""
    return np.array([[*row, *[fill] * (width - len(row))] for row in rows])


def _call_or_error(function: Callable[[Any], T], argument: Any) -> T | str:
    """Return the result of a call, or the message of its `UserError`."""
    try:
        return function(argument)
    except UserError as error:
        return str(error)
