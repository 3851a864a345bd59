"""Scores of continuations and generated text of a decoder, computed once for each prompt and stored in blocks."""

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
from waltz.evaluation.prompting.label_tokens import CACHE_NAMES, FindTokens, find_continuation_tokens
from waltz.evaluation.prompting.prompts import PromptTemplate
from waltz.model_registry import compute_fingerprint, select_decisive_fields
from waltz.models.batches import ProgressCallback, compute_in_halves, ignore_progress
from waltz.models.decoders.continuations import score_targets
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, Sampling

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
