"""Outputs of a decoder (scores of continuations, generated text), computed once per prompt and cached in blocks."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

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
_Rows = Sequence[Sequence[float]]
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
    """Return the label whose token has the highest logit after the prompt (the first of equal ones), and the token.

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
    """A query with its tokens, its prepared image and the tokens that are scored, or why it cannot be run."""

    query: DecoderQuery
    prompt: Prompt | None
    error: str | None = None
    picture: PreparedImage | None = None
    targets: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """Length of the prompt in tokens; 0 where it cannot be read."""
        return 0 if self.prompt is None else len(self.prompt.ids)


@dataclass(frozen=True)
class DecoderSession:
    """A decoder, its images, and its stored results.

    Attributes:
        decoder: A loaded decoder.
        load_image: Opens images.
        cache_file: File of finished blocks; None stores nothing.
        report_progress: Receives the number of queries of each finished block.
        images: The last prepared images by name: image and digest, or why there is none.
    """

    decoder: Decoder
    load_image: LoadImage
    cache_file: Path | None = None
    report_progress: ProgressCallback = ignore_progress
    images: OrderedDict[str, DigestedPicture | str] = field(default_factory=OrderedDict, repr=False, compare=False)


def score_continuations(
    session: DecoderSession, queries: Iterable[DecoderQuery], find_tokens: FindTokens, value: str
) -> dict[DecoderQuery, DecoderOutput]:
    """Return scores of what could follow each distinct query.

    Args:
        queries: Prompts with their continuations.
        find_tokens: Finds the tokens that are scored; a key of `CACHE_NAMES`.
        value: A key of `continuations.OUTCOMES`; with `first-step-logit` the tokens are alternatives for the first one.
    """

    def compute(rows: list[_TokenizedQuery], prompts: list[Prompt], pictures: list[PreparedImage | None]) -> _Rows:
        scores = score_targets(session.decoder, prompts, pictures, [row.targets for row in rows], value)
        return [row_scores.tolist() for row_scores in scores]

    content = {"follow": CACHE_NAMES[find_tokens], "value": value}
    outputs: dict[DecoderQuery, DecoderOutput] = {}
    for row, numbers in _run(session, queries, compute, content, find_tokens, fill=np.nan):
        scores = None if numbers is None else tuple(numbers[: len(row.targets)].tolist())
        infinite = [number for number in scores or () if not np.isfinite(number)]
        if infinite:
            outputs[row.query] = DecoderOutput(None, None, row.tokens, f"the model's score is {infinite[0]}")
        else:
            outputs[row.query] = DecoderOutput(scores, None, row.tokens, row.error)
    return outputs


def generate_tokens(
    session: DecoderSession, queries: Iterable[DecoderQuery], most_tokens: int, sampling: Sampling | None
) -> dict[DecoderQuery, DecoderOutput]:
    """Generate text after each distinct query, as token ids; without sampling the likeliest tokens."""

    def compute(rows: list[_TokenizedQuery], prompts: list[Prompt], pictures: list[PreparedImage | None]) -> _Rows:
        seeds = [row.query.seed for row in rows]
        return session.decoder.generate(prompts, pictures, most_tokens, sampling, seeds)

    content = {"most": most_tokens, "sampling": asdict(sampling) if sampling else None}
    outputs: dict[DecoderQuery, DecoderOutput] = {}
    for row, numbers in _run(session, queries, compute, content, None, fill=-1, width=most_tokens):
        ids = None if numbers is None else tuple(int(token) for token in numbers if token >= 0)
        outputs[row.query] = DecoderOutput(None, ids, row.tokens, row.error)
    return outputs


def decode_generation(decoder: Decoder, ids: Sequence[int], most_tokens: int, template: PromptTemplate) -> str:
    """Return generated tokens as text.

    Args:
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
    compute: Callable[[list[_TokenizedQuery], list[Prompt], list[PreparedImage | None]], _Rows],
    content: Mapping[str, Any],
    find_tokens: FindTokens | None,
    *,
    fill: float,
    width: int | None = None,
) -> Iterator[tuple[_TokenizedQuery, np.ndarray | None]]:
    """Yield each query and its row of numbers, filled up to a width (that of the targets); None with an error."""
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
        rows = [_tokenize(decoder, query, pictures, find_tokens) for query in block]
        valid = [row for row in rows if row.error is None]
        results: Iterator[np.ndarray] = iter(())
        if valid:
            digests = {name: picture[1] for name, picture in pictures.items() if not isinstance(picture, str)}
            texts = [(row.query.prompt, row.targets, row.query.seed) for row in valid]
            image_digests = [digests.get(row.query.image or "") for row in valid]
            row_width = width or max(len(row.targets) for row in valid)

            def compute_rows(batch: list[_TokenizedQuery], row_width: int = row_width) -> np.ndarray:
                prompts = [row.prompt for row in batch if row.prompt is not None]
                numbers = compute(batch, prompts, [row.picture for row in batch])
                return np.array([[*row, *[fill] * (row_width - len(row))] for row in numbers])

            results = iter(
                result_cache.load_or_compute(
                    session.cache_file,
                    {"texts": texts, "shown": image_digests, **key_content},
                    partial(compute_in_halves, compute_rows, valid),
                )
            )
        for row in rows:
            yield row, None if row.error is not None else next(results)
        session.report_progress(len(block))


def _prepare_image(session: DecoderSession, name: str) -> DigestedPicture | str:
    """Return a prepared image and a digest of the original, or why there is none."""
    if name not in session.images:
        try:
            image = session.load_image(name)
            content = sha256(f"{image.size}".encode() + image.tobytes()).hexdigest()
            session.images[name] = session.decoder.prepare_image(image), content
        except UserError as error:
            session.images[name] = str(error)
    session.images.move_to_end(name)
    prepared = session.images[name]
    while len(session.images) > CACHED_IMAGES:
        session.images.popitem(last=False)
    return prepared


def _tokenize(
    decoder: Decoder, query: DecoderQuery, pictures: Mapping[str, DigestedPicture | str], find_tokens: FindTokens | None
) -> _TokenizedQuery:
    """Tokenize a query, as far as it can be tokenized."""
    try:
        prompt = decoder.build_prompt(query.prompt)
    except UserError as error:
        return _TokenizedQuery(query, None, str(error))
    prepared = None if query.image is None else pictures[query.image]
    if isinstance(prepared, str):
        return _TokenizedQuery(query, prompt, prepared)
    picture = None if prepared is None else prepared[0]
    try:
        targets = () if find_tokens is None else find_tokens(decoder, prompt, query.continuations)
        positions = decoder.build_layout(prompt, picture).positions.shape[-1]
    except UserError as error:
        return _TokenizedQuery(query, prompt, str(error))
    if find_tokens is find_continuation_tokens and positions + len(targets) > decoder.window:
        error_text = (
            f"models.{decoder.spec.name}: {positions} positions and {len(targets)} more, at most {decoder.window}"
            f" are read: {query.prompt[:60]!r}..."
        )
        return _TokenizedQuery(query, prompt, error_text)
    return _TokenizedQuery(query, prompt, None, picture, targets)
