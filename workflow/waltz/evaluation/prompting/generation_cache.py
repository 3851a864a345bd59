"""What a decoder gives to prompts: numbers of what could follow, or what it says; each prompt once, blocks kept."""

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
from waltz.evaluation.prompting.label_tokens import Follow, continuation
from waltz.evaluation.prompting.prompts import Voice
from waltz.models.batches import ProgressCallback, compute_in_halves, ignore_progress
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt, Sampling
from waltz.models.decoders.outcomes import score_targets
from waltz.models.registry import select_decisive_fields
from waltz.models.weights import compute_fingerprint

QUERIES = 64
"""Queries after which a block ends, once all of its last image's are in it."""
PICTURES = 32
"""Pictures that are kept for what is asked next."""
END_MARK = "</s>"
"""The mark that the published code cuts off by its length, whether or not it is there."""

Load = Callable[[str], Image.Image]
"""From the name of an image to an RGB image; a `UserError` becomes the error of what is asked about it."""
T = TypeVar("T")


@dataclass(frozen=True)
class Query:
    """A prompt that is put to a decoder.

    Attributes:
        image: Name of the image that it shows, or None.
        prompt: The rendered prompt.
        follows: Texts that could follow, where they are scored.
        seed: Seed of the draws, where what the decoder says is sampled.
    """

    image: str | None
    prompt: str
    follows: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Reply:
    """What a decoder gives to a query.

    Attributes:
        numbers: A number for each scored token; None with an error, or where something was said instead.
        said: Ids of what was said; None with an error, or where something was scored instead.
        tokens: Length of the prompt in tokens, its image one placeholder; 0 where it cannot be read.
        error: Why there is nothing.
    """

    numbers: tuple[float, ...] | None
    said: tuple[int, ...] | None
    tokens: int
    error: str | None = None


@dataclass(frozen=True, eq=False)
class _Read:
    """A query as the decoder reads it."""

    query: Query
    prompt: Prompt
    picture: PreparedImage | None
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Examinee:
    """Who is asked, and where things lie.

    Attributes:
        decoder: A loaded decoder.
        load: Opens images.
        stored: Folder of finished blocks; None keeps none.
        done: Told the number of queries that each block finished.
        shown: What was shown last, by name: the picture and a digest of its image, or why there is none.
    """

    decoder: Decoder
    load: Load
    stored: Path | None = None
    done: ProgressCallback = ignore_progress
    shown: OrderedDict[str, tuple[PreparedImage, str] | str] = field(
        default_factory=OrderedDict, repr=False, compare=False
    )


def scored(examinee: Examinee, queries: Iterable[Query], follow: Follow, value: str) -> dict[Query, Reply]:
    """Numbers of what could follow each distinct query.

    Args:
        examinee: Who is asked.
        queries: Prompts with what could follow them.
        follow: Finds the tokens that are scored.
        value: One of `outcomes.VALUES`; with `first-step-logit` the tokens are alternatives for the first one.
    """

    def compute(width: int, rows: list[_Read]) -> np.ndarray:
        prompts, pictures = [row.prompt for row in rows], [row.picture for row in rows]
        found = score_targets(examinee.decoder, prompts, pictures, [row.targets for row in rows], value)
        return _padded([values.tolist() for values in found], width, np.nan)

    content = {"follow": follow.__name__, "value": value}
    found: dict[Query, Reply] = {}
    for query, read, values in _answered(examinee, queries, compute, content, follow):
        if isinstance(values, str):
            found[query] = Reply(None, None, _length(read), values)
            continue
        assert read is not None
        numbers = tuple(values[: len(read.targets)].tolist())
        error = next((f"the model's score is {number}" for number in numbers if not np.isfinite(number)), None)
        found[query] = Reply(None if error else numbers, None, _length(read), error)
    return found


def said(examinee: Examinee, queries: Iterable[Query], most: int, sampling: Sampling | None) -> dict[Query, Reply]:
    """What the decoder says after each distinct query, as token ids.

    Args:
        examinee: Who is asked.
        queries: Prompts, with the seed of what is drawn after each.
        most: Most tokens.
        sampling: How tokens are drawn; None takes the likeliest.
    """

    def compute(width: int, rows: list[_Read]) -> np.ndarray:
        prompts, pictures = [row.prompt for row in rows], [row.picture for row in rows]
        seeds = [row.query.seed for row in rows]
        return _padded(examinee.decoder.generate(prompts, pictures, most, sampling, seeds), most, -1)

    content = {"most": most, "sampling": asdict(sampling) if sampling else None}
    found: dict[Query, Reply] = {}
    for query, read, values in _answered(examinee, queries, compute, content, None):
        if isinstance(values, str):
            found[query] = Reply(None, None, _length(read), values)
        else:
            found[query] = Reply(None, tuple(int(token) for token in values if token >= 0), _length(read))
    return found


def written(decoder: Decoder, ids: Sequence[int], most: int, voice: Voice) -> str:
    """What was said, as text.

    Args:
        decoder: Who said it.
        ids: Its tokens, the end token left out.
        most: Most tokens that were allowed: with as many, nothing ended the answer.
        voice: Where it speaks to a VL decoder of the released code, whose end mark was cut off by its length, the last
            characters of what nothing ended are lost.
    """
    text = decoder.decode_text(ids)
    cut = voice.family is not None and voice.wording.families[voice.family].script == "images" and len(ids) >= most
    return text[: -len(END_MARK)] if cut else text


def blocks(queries: Iterable[Query]) -> Iterator[list[Query]]:
    """Distinct queries in order, in blocks of at least `QUERIES` that end where an image does."""
    pending: list[Query] = []
    ordered = sorted(set(queries), key=lambda query: (query.image or "", query.prompt, query.follows, query.seed))
    for query in ordered:
        same = pending and query.image is not None and query.image == pending[-1].image
        if len(pending) >= QUERIES and not same:
            yield pending
            pending = []
        pending.append(query)
    if pending:
        yield pending


def _answered(
    examinee: Examinee,
    queries: Iterable[Query],
    compute: Callable[[int, list[_Read]], np.ndarray],
    content: Mapping[str, Any],
    follow: Follow | None,
) -> Iterator[tuple[Query, _Read | None, np.ndarray | str]]:
    """Each query, how it was read, and its row of numbers or why there is none."""
    decoder = examinee.decoder
    known = {
        "code": digest(__file__, type(decoder).__module__),
        "model": compute_fingerprint(decoder.spec),
        "entry": select_decisive_fields(decoder.spec),
        "device": decoder.device.partition(":")[0],
        **content,
    }
    for block in blocks(queries):
        names = dict.fromkeys(query.image for query in block if query.image is not None)
        pictures = {name: _shown(examinee, name) for name in names}
        tried = [(query, _read(decoder, query, pictures, follow)) for query in block]
        readable = [read for _, (read, error) in tried if read is not None and error is None]
        rows: Iterator[np.ndarray] = iter(())
        if readable:
            digests = {name: found[1] for name, found in pictures.items() if not isinstance(found, str)}
            texts = [(read.prompt.text, read.targets, read.query.seed) for read in readable]
            shown = [digests.get(read.query.image or "") for read in readable]
            width = max(len(read.targets) for read in readable)
            rows = iter(
                result_cache.load_or_compute(
                    examinee.stored,
                    {"texts": texts, "shown": shown, **known},
                    partial(compute_in_halves, partial(compute, width), readable),
                )
            )
        for query, (read, error) in tried:
            yield query, read, error if error is not None else next(rows)
        examinee.done(len(block))


def _shown(examinee: Examinee, name: str) -> tuple[PreparedImage, str] | str:
    """A picture and a digest of its image, or why there is none."""
    if name not in examinee.shown:
        image = _tried(examinee.load, name)
        picture = image if isinstance(image, str) else _tried(examinee.decoder.prepare_image, image)
        if isinstance(image, str) or isinstance(picture, str):
            examinee.shown[name] = str(picture)
        else:
            examinee.shown[name] = picture, sha256(f"{image.size}".encode() + image.tobytes()).hexdigest()
    examinee.shown.move_to_end(name)
    found = examinee.shown[name]
    while len(examinee.shown) > PICTURES:
        examinee.shown.popitem(last=False)
    return found


def _read(
    decoder: Decoder, query: Query, pictures: Mapping[str, tuple[PreparedImage, str] | str], follow: Follow | None
) -> tuple[_Read | None, str | None]:
    """A query as the decoder reads it, as far as it does, and why it cannot go further."""
    found = None if query.image is None else pictures[query.image]
    picture = found[0] if isinstance(found, tuple) else None
    read: _Read | None = None
    try:
        prompt = decoder.build_prompt(query.prompt)
        read = _Read(query, prompt, None, ())
        if isinstance(found, str):
            return read, found
        targets = () if follow is None else follow(decoder, prompt, query.follows)
        positions = decoder.build_layout(prompt, picture).positions.shape[-1]
        if follow is continuation and positions + len(targets) > decoder.window:
            raise UserError(
                f"models.{decoder.spec.name}: {positions} positions and {len(targets)} more, at most {decoder.window}"
                f" are read: {query.prompt[:60]!r}..."
            )
        return _Read(query, prompt, picture, targets), None
    except UserError as error:
        return read, str(error)


def _length(read: _Read | None) -> int:
    return 0 if read is None else len(read.prompt.ids)


def _padded(rows: Sequence[Sequence[float]], width: int, fill: float) -> np.ndarray:
    """Rows of different lengths as one array of shape (rows, width)."""
    return np.array([[*row, *[fill] * (width - len(row))] for row in rows])


def _tried(act: Callable[[Any], T], value: Any) -> T | str:
    """What comes of a value, or why nothing does."""
    try:
        return act(value)
    except UserError as error:
        return str(error)
