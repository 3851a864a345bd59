"""Outputs of a decoder (scores of continuations, generated text), computed once per prompt and
cached in blocks.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
from PIL import Image

from waltz.core.digest import digest
from waltz.core.errors import UserError, shorten_value
from waltz.core.files import result_cache
from waltz.evaluation.prompting.prompt_files import ANSWER_KINDS
from waltz.evaluation.prompting.prompts import PromptTemplate, render_label
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import Fidelity
from waltz.model_registry import compute_fingerprint, select_decisive_fields
from waltz.models.batches import ProgressCallback, compute_in_halves, ignore_progress
from waltz.models.decoders.continuations import (
    FIRST_STEP,
    get_published_sampling,
    samples_text,
    score_targets,
)
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, Sampling

FindTokens = Callable[[Decoder, Prompt, Sequence[str]], tuple[int, ...]]
"""Function that takes a prompt and texts that could follow it, and returns the ids of the tokens
that are scored.
"""
BLOCK_SIZE = 64
"""Minimum number of queries in a block; it ends once it also holds all queries of its last image.
"""
CACHED_IMAGES = 32
"""Number of prepared images that are kept for the next queries."""
LoadImage = Callable[[str], Image.Image]
"""Function that opens an RGB image by its name; its `UserError` becomes the error of the queries of
the image.
"""
_Rows = Sequence[Sequence[float]]
DigestedPicture = tuple[PreparedImage, str]
"""A prepared image and a digest of the original."""


def add_leading_space(prompt: str, text: str) -> str:
    """Return a text as it continues a prompt: with a space before it, unless the prompt ends in
    whitespace or `(`.
    """
    if prompt[-1:].isspace() or prompt.endswith("("):
        return text
    return f" {text}"


def find_label_tokens(
    decoder: Decoder, prompt: Prompt, texts: Sequence[str]
) -> tuple[int, ...]:
    """Return, for each label, the token with which an answer begins if it begins with this label.

    Raises:
        UserError: The first token of a label merges with the prompt, or two labels begin with the
            same token.
    """
    ids = [
        decoder.find_label_id(prompt, add_leading_space(prompt.text, text))
        for text in texts
    ]
    return _check_distinct(decoder, ids, texts)


def find_published_label_tokens(
    decoder: Decoder, prompt: Prompt, texts: Sequence[str]
) -> tuple[int, ...]:
    """Return the label tokens of the released code.

    The released code tokenizes each letter alone and takes the second id, or the only id. The first
    id is the start token of Llama's and Mistral's tokenizers; the tokenizers of GPT, BLOOM, Falcon
    and Qwen add no start token. With SentencePiece the second id is a letter that begins a word,
    although the prompt ends in a bracket.

    Raises:
        UserError: Two labels have the same token.
    """
    ids = [decoder.build_prompt(text).ids[:2][-1] for text in texts]
    return _check_distinct(decoder, ids, texts)


def find_continuation_tokens(
    decoder: Decoder, prompt: Prompt, texts: Sequence[str]
) -> tuple[int, ...]:
    """Return all tokens of the single text that follows the prompt; prompt and text are tokenized
    together.

    Raises:
        UserError: Prompt and text are too long, or the first token of the text merges with the
            prompt.
    """
    (text,) = texts
    ids = decoder.build_continuation(prompt, add_leading_space(prompt.text, text))
    if not ids:
        raise UserError(
            f"models.{decoder.spec.name}: after {prompt.text[-20:]!r}, {text!r} does not begin with a token of its own;"
            " end the prompt elsewhere"
        )
    return ids


CACHE_NAMES: dict[FindTokens, str] = {
    find_label_tokens: "labels",
    find_published_label_tokens: "published_labels",
    find_continuation_tokens: "continuation",
}
"""Name of each function in keys of cached results; the name stays if the function is renamed."""


def get_label_token_finder(fidelity: Fidelity) -> FindTokens:
    """Return the function that finds the tokens of labels by the rule of a profile."""
    if fidelity.label_token == "context":
        return find_label_tokens
    return find_published_label_tokens


def _check_distinct(
    decoder: Decoder, ids: Sequence[int], texts: Sequence[str]
) -> tuple[int, ...]:
    """Return the tokens of labels; refuse labels with the same token."""
    if len(set(ids)) < len(ids):
        raise UserError(
            f"models.{decoder.spec.name}: of the labels {', '.join(texts)} two begin with the same token; give the form"
            " other label_texts in a prompt file"
        )
    return tuple(ids)


def choose_label(
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage | None,
    question: Question,
    template: PromptTemplate,
) -> tuple[str, int]:
    """Return the label whose token has the highest logit after the prompt, and this token.

    If several labels have the highest logit, the first of them is chosen.

    Raises:
        UserError: Two labels begin with the same token, or the first token of a label merges with
            the prompt.
    """
    texts = tuple(
        render_label(question, template.prompt_file, label) for label in question.labels
    )
    find_tokens = get_label_token_finder(template.prompt_file.fidelity)
    ids = find_tokens(decoder, prompt, texts)
    (logits,) = score_targets(decoder, [prompt], [picture], [ids], FIRST_STEP)
    index = int(logits.argmax())
    return question.labels[index], ids[index]


@dataclass(frozen=True)
class DecoderQuery:
    """Hold a prompt for a decoder, with the texts that are scored or the seed of the text that is
    generated.

    Attributes:
        image: Name of the image that the prompt shows, or None.
        prompt: The rendered prompt.
        continuations: Texts that could follow the prompt and are scored; empty if text is
            generated.
        seed: Seed of the draws if text is sampled.
        error: Why the prompt could not be rendered; None if it was rendered.
    """

    image: str | None
    prompt: str
    continuations: tuple[str, ...] = ()
    seed: int = 0
    error: str | None = None


@dataclass(frozen=True)
class DecoderOutput:
    """Hold the output of a decoder for one query.

    Attributes:
        scores: A number for each scored token; None with an error, or if text was generated.
        token_ids: Ids of the generated text; None with an error, or if continuations were scored.
        tokens: Length of the prompt in tokens, where its image is one placeholder; 0 if it cannot
            be read.
        error: Why there is no output.
    """

    scores: tuple[float, ...] | None
    token_ids: tuple[int, ...] | None
    tokens: int
    error: str | None = None


@dataclass(frozen=True, eq=False)
class _TokenizedQuery:
    """Hold a query with its tokens, its prepared image and the tokens that are scored, or with its
    error.

    Attributes:
        image_digest: Digest of the original image, by which stored results are found.
    """

    query: DecoderQuery
    prompt: Prompt | None = None
    error: str | None = None
    picture: PreparedImage | None = None
    image_digest: str | None = None
    targets: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """Return the length of the prompt in tokens; 0 if it cannot be read."""
        return 0 if self.prompt is None else len(self.prompt.ids)


@dataclass(frozen=True)
class DecoderSession:
    """Hold a decoder, its images, and the file of its stored results.

    Attributes:
        decoder: A loaded decoder.
        load_image: Opens an image by its name.
        cache_file: File of finished blocks; None stores nothing.
        report_progress: Called with the number of queries in each finished block.
        images: The last prepared images by name, each with its digest, or the reason why it cannot
            be opened.
    """

    decoder: Decoder
    load_image: LoadImage
    cache_file: Path | None = None
    report_progress: ProgressCallback = ignore_progress
    images: OrderedDict[str, DigestedPicture | str] = field(
        default_factory=OrderedDict, repr=False, compare=False
    )


def score_continuations(
    session: DecoderSession,
    queries: Iterable[DecoderQuery],
    find_tokens: FindTokens,
    value: str,
) -> dict[DecoderQuery, DecoderOutput]:
    """Score the continuations of each distinct query.

    Args:
        session: A decoder with its images.
        queries: Prompts with their continuations.
        find_tokens: Finds the tokens that are scored; a key of `CACHE_NAMES`.
        value: A key of `continuations.OUTCOMES`; with `first-step-logit` all tokens are
            alternatives for the first position.
    """

    def compute(
        rows: list[_TokenizedQuery],
        prompts: list[Prompt],
        pictures: list[PreparedImage | None],
    ) -> _Rows:
        scores = score_targets(
            session.decoder, prompts, pictures, [row.targets for row in rows], value
        )
        return [row_scores.tolist() for row_scores in scores]

    # Names of keys stay as they are, so that stored results are found.
    content = {"follow": CACHE_NAMES[find_tokens], "value": value}
    computation = _Computation(compute, content, find_tokens, fill=np.nan)
    outputs: dict[DecoderQuery, DecoderOutput] = {}
    for row, numbers in _run(session, queries, computation):
        outputs[row.query] = _build_score_output(row, numbers)
    return outputs


def _build_score_output(
    row: "_TokenizedQuery", numbers: np.ndarray | None
) -> DecoderOutput:
    """Return the scores of a query's tokens, or its error; a score that is not finite is an error."""
    if numbers is None:
        return DecoderOutput(None, None, row.tokens, row.error)
    # Rows are filled up to the longest one of their block.
    scores = tuple(numbers[: len(row.targets)].tolist())
    for score in scores:
        if not np.isfinite(score):
            return DecoderOutput(
                None, None, row.tokens, f"the model's score is {score}"
            )
    return DecoderOutput(scores, None, row.tokens, row.error)


def choose_sampling(decoder: Decoder) -> Sampling | None:
    """Return the settings with which a decoder samples its explanations and chains of thought; None
    if it does not sample.
    """
    return get_published_sampling(decoder) if samples_text(decoder) else None


def select_sampling(
    sampling: Sampling | None, kind: str, fidelity: Fidelity
) -> Sampling | None:
    """Return the settings with which the reply to one kind of prompt is sampled; None takes the most
    probable tokens.

    `equations` samples explanations, chains of thought, mistakes and paraphrases, as the thesis's
    runs did (C.5, C.6.3), but no answers. `published` samples open answers, too.

    Args:
        sampling: Settings of the decoder (`choose_sampling`).
        kind: Kind of prompt (`prompt_files.KINDS`).
    """
    is_answer = kind in ANSWER_KINDS or kind == "same-meaning"
    if is_answer and not fidelity.samples_answers:
        return None
    return sampling


def generate_tokens(
    session: DecoderSession,
    queries: Iterable[DecoderQuery],
    max_tokens: int,
    sampling: Sampling | None,
    min_tokens: int = 0,
) -> dict[DecoderQuery, DecoderOutput]:
    """Generate text after each distinct query, as token ids; without sampling, the most probable
    tokens.

    Args:
        session: The decoder with its images and its cache.
        queries: The queries.
        max_tokens: Maximum number of tokens of a text.
        sampling: Settings of the sampling; None takes the most probable tokens.
        min_tokens: Minimum number of tokens of a text.
    """

    def compute(
        rows: list[_TokenizedQuery],
        prompts: list[Prompt],
        pictures: list[PreparedImage | None],
    ) -> _Rows:
        seeds = [row.query.seed for row in rows]
        return session.decoder.generate(
            prompts, pictures, max_tokens, sampling, seeds, min_tokens=min_tokens
        )

    content = {
        "most": max_tokens,
        "least": min_tokens,
        "sampling": None if sampling is None else asdict(sampling),
    }
    computation = _Computation(compute, content, None, fill=-1, width=max_tokens)
    outputs: dict[DecoderQuery, DecoderOutput] = {}
    for row, numbers in _run(session, queries, computation):
        # -1 fills the row after the last token.
        ids = None
        if numbers is not None:
            ids = tuple(int(token) for token in numbers if token >= 0)
        outputs[row.query] = DecoderOutput(None, ids, row.tokens, row.error)
    return outputs


def split_into_blocks(queries: Iterable[DecoderQuery]) -> Iterator[list[DecoderQuery]]:
    """Yield distinct queries in order, in blocks that do not split the queries of an image.

    Blocks have at least `BLOCK_SIZE` queries, except the last.
    """
    # Sorted queries make blocks that depend only on the set of queries, so that stored blocks are
    # found again.
    block: list[DecoderQuery] = []
    for query in sorted(set(queries), key=_get_order):
        if len(block) >= BLOCK_SIZE and not _share_image(query, block[-1]):
            yield block
            block = []
        block.append(query)
    if block:
        yield block


def _get_order(query: DecoderQuery) -> tuple[str, str, tuple[str, ...], int]:
    """Return the key by which queries are sorted; queries of one image stand together."""
    return query.image or "", query.prompt, query.continuations, query.seed


def _share_image(first: DecoderQuery, second: DecoderQuery) -> bool:
    return first.image is not None and first.image == second.image


@dataclass(frozen=True)
class _Computation:
    """Hold how the numbers of queries are computed: scores, or ids of generated tokens.

    Attributes:
        compute: Computes a list of numbers for each of some queries, from their prompts and images.
        content: Everything that decides the numbers, as a part of the keys of cached results.
        find_tokens: Finds the tokens that are scored; None if text is generated.
        fill: Number with which rows are filled up to the same width.
        width: The width of rows; None takes the largest number of scored tokens.
    """

    compute: Callable[
        [list["_TokenizedQuery"], list[Prompt], list[PreparedImage | None]], _Rows
    ]
    content: Mapping[str, object]
    find_tokens: FindTokens | None
    fill: float
    width: int | None = None


def _run(
    session: DecoderSession, queries: Iterable[DecoderQuery], computation: _Computation
) -> Iterator[tuple[_TokenizedQuery, np.ndarray | None]]:
    """Yield each query with its row of numbers, which is filled up to a width; None for a query
    with an error.
    """
    # The key names all that decides the numbers, except the texts and images of a block.
    decoder = session.decoder
    key_content = {
        "code": digest(__file__, type(decoder).__module__),
        "model": compute_fingerprint(decoder.spec),
        "entry": select_decisive_fields(decoder.spec),
        "device": decoder.device.partition(":")[0],
        **computation.content,
    }
    for block in split_into_blocks(queries):
        valid_rows: list[_TokenizedQuery] = []
        for query in block:
            row = _tokenize(session, query, computation.find_tokens)
            if row.error is None:
                valid_rows.append(row)
            else:
                yield row, None
        if valid_rows:
            numbers = _load_or_compute(session, valid_rows, computation, key_content)
            yield from zip(valid_rows, numbers, strict=True)
        session.report_progress(len(block))


def _load_or_compute(
    session: DecoderSession,
    rows: list[_TokenizedQuery],
    computation: _Computation,
    key_content: Mapping[str, object],
) -> np.ndarray:
    """Return the numbers of a block's queries, float64 of shape (queries, width), from the cache if
    it has them.
    """
    texts = [(row.query.prompt, row.targets, row.query.seed) for row in rows]
    width = computation.width or max(len(row.targets) for row in rows)

    def compute_batch(batch: list[_TokenizedQuery]) -> np.ndarray:
        prompts = [row.prompt for row in batch if row.prompt is not None]
        # A batch that does not fit into memory is halved; results do not depend on its size.
        numbers = computation.compute(batch, prompts, [row.picture for row in batch])
        return np.array(
            [[*row, *[computation.fill] * (width - len(row))] for row in numbers]
        )

    return result_cache.load_or_compute(
        session.cache_file,
        {
            "texts": texts,
            # The key names the content of an image, not its path.
            "shown": [row.image_digest for row in rows],
            **key_content,
        },
        partial(compute_in_halves, compute_batch, rows),
    )


def _prepare_image(session: DecoderSession, name: str) -> DigestedPicture:
    """Return a prepared image and a digest of the original.

    Raises:
        UserError: The image cannot be opened.
    """
    if name not in session.images:
        try:
            image = session.load_image(name)
            content = sha256(f"{image.size}".encode() + image.tobytes()).hexdigest()
            session.images[name] = session.decoder.prepare_image(image), content
        except UserError as error:
            session.images[name] = str(error)
    # The least recently used image is dropped first.
    session.images.move_to_end(name)
    prepared = session.images[name]
    while len(session.images) > CACHED_IMAGES:
        session.images.popitem(last=False)
    if isinstance(prepared, str):
        raise UserError(prepared)
    return prepared


def _tokenize(
    session: DecoderSession, query: DecoderQuery, find_tokens: FindTokens | None
) -> _TokenizedQuery:
    """Tokenize a query, prepare its image and find its scored tokens; the result has an error where
    this fails.
    """
    row = _TokenizedQuery(query, error=query.error)
    if query.error is not None:
        return row
    decoder = session.decoder
    try:
        prompt = decoder.build_prompt(query.prompt)
        row = replace(row, prompt=prompt)
        if query.image is not None:
            picture, image_digest = _prepare_image(session, query.image)
            row = replace(row, picture=picture, image_digest=image_digest)
        if find_tokens is not None:
            targets = find_tokens(decoder, prompt, query.continuations)
            row = replace(row, targets=targets)
        positions = decoder.build_layout(prompt, row.picture).positions.shape[-1]
    except UserError as error:
        return replace(row, error=str(error))
    # The tokens of a continuation follow each other and need positions; labels are alternatives for
    # one token, which is predicted from the last position of the prompt.
    needs_positions = find_tokens is find_continuation_tokens
    if needs_positions and positions + len(row.targets) > decoder.window:
        fault = (
            f"models.{decoder.spec.name}: {positions} positions and {len(row.targets)} more, at most {decoder.window}"
            f" are read: {shorten_value(repr(query.prompt))}"
        )
        return replace(row, error=fault)
    return row
