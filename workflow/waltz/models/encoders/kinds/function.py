"""Encoders that are functions of the user: a score of images with texts, or an encoder of each.

A function sees ordinary images and texts. Hidden words are left out or replaced by a word, hidden
pixels by a colour or a blurred image; so the network behind it, its tokenizer and its processor
need not be known.
"""

import importlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, cast

import numpy as np
import torch
import transformers
from PIL import Image, ImageFilter
from torch.nn.functional import normalize

from waltz.core.errors import UserError, get_first_line
from waltz.core.files.user_modules import (
    find_module_file,
    search_folder,
)
from waltz.core.jobs.devices import Device
from waltz.core.text_diff import WORD, Span
from waltz.model_registry import ModelSpec
from waltz.models.encoders.encoder import Encoder, States, TokenizedText

ScoreFunction = Callable[[list[Image.Image], list[str]], Any]
"""Function of n images and n texts; returns n numbers, each of the image and text in one position."""
TextFunction = Callable[[list[str]], Any]
"""Function of n texts; returns n vectors, of shape (n, size)."""
ImageFunction = Callable[[list[Image.Image]], Any]
"""Function of n images; returns n vectors, of shape (n, size)."""
HiddenImage = Literal["mean", "blur", "black"]
HIDDEN_IMAGES = ("mean", "blur", "black")
BLUR_SHARE = 0.1
"""Radius of the blur as a share of the longer side, at which objects can no longer be recognized."""
HIDDEN_ADVICE = (
    "a text is empty where all its words are hidden: give it a score as well, or name a hidden_word, see"
    " waltz.FunctionModel"
)
INPUT_ADVICE = "a function takes a list of PIL images and a list of texts, and returns a score for each pair"
"""What the user of a function that fails should do, with and without an empty text."""
HIDDEN = 0
"""Id of a hidden word."""


@dataclass(frozen=True, kw_only=True)
class FunctionModel:
    """A model that is a function: of images with texts, or of images and of texts.

    Attributes:
        score: Function of a list of PIL images and a list of texts of the same length; returns a
            number for each pair. Leave it out if both encoders are given.
        encode_text: Function of a list of texts; returns a vector for each.
        encode_image: Function of a list of PIL images; returns a vector for each. The score is then
            `scale` times the cosine of both vectors, whose Shapley values are computed from the
            vectors alone (late fusion).
        scale: Factor of the cosine.
        tokenizer: A fast tokenizer of transformers whose tokens are the text players; None makes
            each word a player, with the punctuation and spaces that follow it.
        hidden_word: Text in place of a hidden word; empty to leave it out.
        hidden_image: Colour of hidden pixels: `mean`, the mean colour of the image; `blur`, the
            blurred image; `black`.
        probability: Whether the score is a log odds whose sigmoid is the probability of a match,
            which is explained then.
        batch_size: Largest number of pairs, texts or images in one call.
    """

    score: ScoreFunction | None = None
    encode_text: TextFunction | None = None
    encode_image: ImageFunction | None = None
    scale: float = 1.0
    tokenizer: Any = None
    hidden_word: str = ""
    hidden_image: HiddenImage = "mean"
    probability: bool = False
    batch_size: int = 32

    def __post_init__(self) -> None:
        """Refuse a model without functions, and unknown settings.

        Raises:
            ValueError: Neither a score nor two encoders are given, or a value is out of range.
        """
        has_encoders = self.encode_text is not None and self.encode_image is not None
        if self.score is None and not has_encoders:
            raise ValueError(
                "score: missing; give a function of images and texts, or encode_text and encode_image"
            )
        if self.score is not None and (self.encode_text or self.encode_image):
            raise ValueError(
                "score: given with encode_text or encode_image, which make a score themselves; leave one out"
            )
        if self.hidden_image not in HIDDEN_IMAGES:
            raise ValueError(
                f"hidden_image: got {self.hidden_image!r}, expected {', '.join(HIDDEN_IMAGES)}"
            )
        if self.batch_size < 1:
            raise ValueError(f"batch_size: got {self.batch_size}, expected at least 1")
        if self.tokenizer is not None and not getattr(self.tokenizer, "is_fast", False):
            raise ValueError(
                f"tokenizer: got {type(self.tokenizer).__name__}, expected a fast tokenizer of transformers,"
                " which knows the characters of its tokens"
            )


@dataclass(frozen=True)
class FunctionSpec(ModelSpec):
    """The entry of a function that the user gives as an object."""

    model: FunctionModel | None = None


@dataclass
class FunctionEncoder:
    """A function as an encoder; see `encoder.Encoder`.

    Ids are numbers of pieces of texts, so that a text is what its pieces join to.

    Attributes:
        model: The function with its settings.
        pieces: The pieces of texts, by id; the first is that of a hidden word.
    """

    spec: ModelSpec
    model: FunctionModel
    late: bool
    probability: bool
    scale: float
    images_per_batch: int
    texts_per_batch: int
    pairs_per_batch: int
    pieces: list[str]
    device: str = "cpu"
    masked_id: int = HIDDEN
    bias: float = 0.0

    def tokenize(self, text: str) -> TokenizedText:
        """Return the players of a text: words, or the tokens of a tokenizer."""
        spans = list(self._find_spans(text))
        # Each piece ends where the next player begins; the first one begins with the text.
        starts = [0, *(span["start"] for span in spans[1:]), len(text)]
        ids = []
        for start, end in itertools.pairwise(starts):
            piece = text[start:end]
            ids.append(self._number_piece(piece))
        return TokenizedText(
            ids=tuple(ids),
            tokens=tuple(text[span["start"] : span["end"]] for span in spans),
            spans=tuple(spans),
            special=(False,) * len(ids),
        )

    def _number_piece(self, piece: str) -> int:
        """Return the id of a piece, which is new or not; a text may hold the hidden word itself."""
        if piece not in self.pieces[1:]:
            self.pieces.append(piece)
        return self.pieces.index(piece, 1)

    def _find_spans(self, text: str) -> Iterator[Span]:
        """Yield the characters of the players of a text, at least one."""
        if self.model.tokenizer is not None:
            encoding = self.model.tokenizer(
                text, return_offsets_mapping=True, add_special_tokens=False
            )
            offsets = encoding["offset_mapping"]
        else:
            words = (match for match in WORD.finditer(text) if match[0][0].isalnum())
            offsets = [match.span() for match in words]
        position = 0
        for start, end in offsets:
            # Bytes of one character are one player.
            if end > start >= position:
                yield Span(start=start, end=end)
                position = end
        if position == 0:
            yield Span(start=0, end=len(text))

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        """Return the pixels of an image, from 0 to 1, in its own size."""
        pixels = np.asarray(image.convert("RGB"), dtype=np.float32) / 255
        return torch.from_numpy(pixels).permute(2, 0, 1)

    def hide_image(self, image: torch.Tensor) -> torch.Tensor:
        """Return what a prepared image shows where it is hidden: shape (3, height, width)."""
        if self.model.hidden_image == "black":
            return torch.zeros_like(image)
        if self.model.hidden_image == "mean":
            return image.mean(dim=(1, 2), keepdim=True).expand_as(image)
        radius = BLUR_SHARE * max(image.shape[1:])
        blurred = _render(image).filter(ImageFilter.GaussianBlur(radius))
        return self.prepare_image(blurred)

    def encode_image(self, images: torch.Tensor) -> States:
        """Return the vectors of images; for a score, the pixels as bytes."""
        if self.model.encode_image is None:
            return (_count_levels(images),)
        return (self._call(self.model.encode_image, list(map(_render, images))),)

    def encode_text(self, ids: torch.Tensor) -> States:
        """Return the vectors of texts; for a score, the ids."""
        if self.model.encode_text is None:
            return (ids,)
        return (self._call(self.model.encode_text, self._join_pieces(ids)),)

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return the scores of pairs, float64 of shape (batch,)."""
        if self.model.score is None:
            return self.scale * (text[0] * image[0]).sum(dim=-1)
        images = [Image.fromarray(levels) for levels in _list_arrays(image[0])]
        texts = self._join_pieces(text[0])
        scores = self._ask(self.model.score, images, texts)
        if scores.shape != (len(texts),):
            raise UserError(
                f"{self.spec.name}: the scores have the shape {tuple(scores.shape)} (expected ({len(texts)},), one"
                " number for each pair of an image and a text); loop over both lists if the model reads one pair, take"
                " the diagonal of a matrix of all pairs, or one column of a table"
            )
        return scores

    def _join_pieces(self, ids: torch.Tensor) -> list[str]:
        return ["".join(self.pieces[number] for number in row) for row in ids.tolist()]

    def _ask(self, function: Callable[..., Any], *inputs: list[Any]) -> torch.Tensor:
        """Return the numbers that a function of the user gives for images, texts, or both.

        Raises:
            UserError: The function fails, or returns no numbers.
        """
        try:
            return _convert(function(*inputs))
        except Exception as error:  # a function of the user can raise anything
            is_text_hidden = "" in inputs[-1]
            advice = HIDDEN_ADVICE if is_text_hidden else INPUT_ADVICE
            raise UserError(
                f"{self.spec.name}: failed for {len(inputs[-1])} inputs ({type(error).__name__}:"
                f" {get_first_line(error)}); {advice}"
            ) from error

    def _call(
        self, encode: Callable[[list[Any]], Any], inputs: list[Any]
    ) -> torch.Tensor:
        """Return vectors of unit length."""
        vectors = self._ask(encode, inputs)
        if vectors.ndim != 2 or len(vectors) != len(inputs):
            raise UserError(
                f"{self.spec.name}: the vectors have the shape {tuple(vectors.shape)} (expected ({len(inputs)}, size),"
                " a vector for each input); correct the function"
            )
        return normalize(vectors, dim=-1)


def _convert(values: Any) -> torch.Tensor:
    """Return numbers of any array library, or a list of numbers or tensors, as float64 on the CPU."""
    if isinstance(values, torch.Tensor):
        return values.detach().to("cpu", torch.float64)
    if isinstance(values, list) and all(
        isinstance(value, torch.Tensor) for value in values
    ):
        return torch.stack(values).detach().to("cpu", torch.float64)
    return torch.from_numpy(np.array(values, dtype=np.float64))


def _count_levels(images: torch.Tensor) -> torch.Tensor:
    """Return pixels from 0 to 1 as levels from 0 to 255, uint8 of the same shape."""
    return (images * 255).round().clamp(0, 255).to(torch.uint8)


def _list_arrays(levels: torch.Tensor) -> Iterator[np.ndarray]:
    """Yield each image of a batch as an array of shape (height, width, 3)."""
    for image in levels:
        yield image.permute(1, 2, 0).contiguous().numpy()


def _render(image: torch.Tensor) -> Image.Image:
    """Return a prepared image as a PIL image."""
    (levels,) = _list_arrays(_count_levels(image)[None])
    return Image.fromarray(levels)


def is_function(model: object) -> TypeGuard[FunctionModel | ScoreFunction]:
    """Return whether a model that the user gives is a function, and no network of transformers."""
    if isinstance(model, FunctionModel):
        return True
    is_known = isinstance(model, transformers.PreTrainedModel | str)
    # A model of peft is unwrapped.
    return callable(model) and not is_known and not hasattr(model, "get_base_model")


def describe_function(model: FunctionModel | ScoreFunction) -> FunctionSpec:
    """Return the entry of a function that the user gives as an object."""
    function = model if isinstance(model, FunctionModel) else FunctionModel(score=model)
    part = function.score or function.encode_image
    name = getattr(part, "__name__", type(part).__name__)
    return FunctionSpec(name, "function", name, "loaded", model=function)


def load_function(spec: ModelSpec, _: Device) -> Encoder:
    """Load a function: the user's object, or what `module:name` in the entry names.

    Raises:
        UserError: There is no such function, or it fails at a first image and text.
    """
    model = spec.model if isinstance(spec, FunctionSpec) else None
    encoder = wrap_function(spec, model or import_function(spec.weights))
    _try_function(encoder)
    return encoder


def wrap_function(spec: ModelSpec, model: FunctionModel) -> FunctionEncoder:
    """Return a function as an encoder."""
    return FunctionEncoder(
        spec,
        model,
        late=model.score is None,
        probability=model.probability,
        scale=model.scale,
        images_per_batch=model.batch_size,
        texts_per_batch=model.batch_size,
        pairs_per_batch=model.batch_size,
        pieces=[f"{model.hidden_word} " if model.hidden_word else ""],
    )


def import_function(name: str) -> FunctionModel:
    """Return the function that `module:name` or `folder/module:name` names.

    The module is looked for in the folder, by default the working directory, then among the
    installed packages.

    Raises:
        UserError: There is no such module or name, or the import fails.
    """
    find_module_file(name)
    attribute = name.partition(":")[2]
    try:
        with search_folder(name) as module:
            function = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module of the user can raise anything
        raise UserError(
            f"{name}: cannot be imported ({type(error).__name__}: {get_first_line(error)}); correct the module"
        ) from error
    if isinstance(function, FunctionModel):
        return function
    if not callable(function):
        raise UserError(
            f"{name}: is no function (got {type(function).__name__}); name a function of images and texts, or a"
            " waltz.FunctionModel"
        )
    return FunctionModel(score=cast(ScoreFunction, function))


def _try_function(encoder: FunctionEncoder) -> None:
    """Refuse a function that fails for two images and texts."""
    pixels = torch.stack(
        [
            encoder.prepare_image(Image.new("RGB", (32, 24), color))
            for color in ("gray", "white")
        ]
    )
    ids = [encoder.tokenize(text).ids for text in ("cat", "dog")]
    text = encoder.encode_text(torch.tensor(ids))
    scores = encoder.fuse(text, encoder.encode_image(pixels))
    if scores.isnan().all():
        raise UserError(
            f"{encoder.spec.name}: gave no numbers for two images and two texts (got nan); correct the function"
        )
