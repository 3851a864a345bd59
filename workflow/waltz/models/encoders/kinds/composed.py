"""A scorer composed of an image classifier and a sentence encoder, which were never trained
together.

EfficientNet-lite0 gives the probabilities of the classes of ImageNet, MiniLM a vector of each text,
and the vectors of the prompts "a photo of a CLASS" connect the two:

    image vector = Σ_c √p(c) · (e("a photo of a c") − m)        text vector = e(text) − m

where e is the mean of MiniLM's last states, of unit length, and m the mean of e over all prompts.
The score is the cosine of the two vectors. m is the same for every text and image, so that no score
depends on other items.
"""

import ast
import contextlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn.functional import normalize

from waltz.core.errors import UserError, get_first_line
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.checkpoint_file import load_weights, read_checkpoint
from waltz.models.encoders.base import (
    LateFusionEncoder,
    build_common_fields,
    pack_linear_layers,
)
from waltz.models.networks.efficientnet_lite import (
    CLASSES,
    EfficientNetLite0,
    fold_batch_norms,
)
from waltz.models.pretrained import fetch_folder, load_pretrained
from waltz.models.user_text import check_user_text

CLASSIFIER_FILES = "efficientnet-lite0*.pth"
"""Pattern of the classifier's checkpoint file."""
CLASS_NAMES_FILE, CLASS_NAMES = "zero_shot_metadata.py", "IMAGENET_CLASSNAMES"
"""File with the names of ImageNet's classes in order, and the name of their tuple in it."""
PROMPT = "a photo of a {}"
SIDE = 224
"""Pixels that a whole image is resized to, in both directions."""


@dataclass(frozen=True, kw_only=True)
class Composed(LateFusionEncoder):
    """A loaded scorer; `network` is the sentence encoder.

    Attributes:
        classifier: The image classifier, in evaluation mode.
        class_vectors: Centered vectors of the classes' prompts, of shape (classes, size).
        center: Mean vector of the prompts, of shape (size,).
    """

    classifier: EfficientNetLite0
    class_vectors: torch.Tensor
    center: torch.Tensor
    images_per_batch: int = 8

    def compute_image_vectors(self, images: torch.Tensor) -> torch.Tensor:
        """Return the sum of class vectors, weighted by the roots of the classes' probabilities."""
        # This memory layout halves the time of convolutions on a CPU.
        logits = self.classifier(images.contiguous(memory_format=torch.channels_last))
        vectors: torch.Tensor = logits.softmax(dim=-1).sqrt() @ self.class_vectors
        return vectors

    def compute_text_vectors(self, ids: torch.Tensor) -> torch.Tensor:
        """Return centered sentence vectors."""
        return compute_sentence_vectors(self.network, ids) - self.center


def load_composed(spec: ModelSpec, device: Device) -> Composed:
    """Load a scorer from the folder of its packages, which holds the files of all three.

    Raises:
        UserError: A file is missing, or the weights are not those of the networks.
    """
    folder = fetch_folder(spec, (CLASSIFIER_FILES, CLASS_NAMES_FILE))
    file = next(folder.glob(CLASSIFIER_FILES), folder / CLASSIFIER_FILES)
    classifier = EfficientNetLite0()
    load_weights(
        classifier,
        read_checkpoint(file),
        file,
        spec.name,
        lambda _: False,
        spec.allow_missing,
    )
    class_names = read_class_names(folder / CLASS_NAMES_FILE)
    network, tokenizer = load_pretrained(spec, transformers.BertModel)
    fields = build_common_fields(spec, device, network, tokenizer)
    pack_linear_layers(fields["network"].encoder)
    fold_batch_norms(classifier.eval())
    prompts = [PROMPT.format(name) for name in class_names]
    class_vectors = encode_sentences(fields["network"], tokenizer, prompts, device.name)
    # m of the module's formula.
    center = class_vectors.mean(dim=0)
    return Composed(
        **fields,
        processor=transformers.CLIPImageProcessorPil(
            size={"height": SIDE, "width": SIDE},
            do_center_crop=False,
            image_mean=[127 / 255] * 3,
            image_std=[128 / 255] * 3,
        ),
        scale=1.0,
        classifier=classifier.to(device.name),
        class_vectors=class_vectors - center,
        center=center,
    )


def read_class_names(file: Path) -> tuple[str, ...]:
    """Return the class names that a Python file of open_clip lists, without running its code.

    Raises:
        UserError: The file is missing, or its list does not have exactly one text for each class of
            the classifier.
    """
    try:
        statements = ast.parse(file.read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise UserError(
            f"{file}: the names of ImageNet's classes cannot be read ({get_first_line(error)}); get it again"
        ) from error
    # The names are a literal tuple or list that is assigned to `CLASS_NAMES`; other statements are
    # skipped.
    for statement in statements:
        if not isinstance(statement, ast.Assign) or CLASS_NAMES not in map(
            ast.unparse, statement.targets
        ):
            continue
        with contextlib.suppress(ValueError, MemoryError, RecursionError):
            names = ast.literal_eval(statement.value)
            is_list = isinstance(names, tuple | list) and len(names) == CLASSES
            if is_list and all(type(name) is str for name in names):
                return tuple(names)
    raise UserError(
        f"{file}: has no {CLASS_NAMES}, {CLASSES} texts; get the file of open_clip 3.3.0"
    )


def compute_sentence_vectors(network: Any, ids: torch.Tensor) -> torch.Tensor:
    """Return the mean of the last states of all tokens, special tokens included, as vectors of unit
    length.

    Args:
        network: A BERT.
        ids: Token ids of texts of one length, of shape (batch, length).
    Returns:
        float32 of shape (batch, size).
    """
    # e of the module's formula; nothing is padded, so that all positions count.
    return normalize(
        network(input_ids=ids).last_hidden_state.float().mean(dim=1), dim=-1
    )


@torch.inference_mode()
def encode_sentences(
    network: Any, tokenizer: Any, texts: Sequence[str], device: str
) -> torch.Tensor:
    """Return the sentence vectors of texts: float32 of shape (texts, size).

    Texts of one length form a batch, so that nothing is padded.
    """
    for text in texts:
        check_user_text(tokenizer, text, "sentence vectors")
    ids = tokenizer(list(texts))["input_ids"]
    indices_by_length: dict[int, list[int]] = defaultdict(list)
    for index, text_ids in enumerate(ids):
        indices_by_length[len(text_ids)].append(index)
    vectors = torch.empty(len(ids), network.config.hidden_size, device=device)
    for indices in indices_by_length.values():
        batch = torch.tensor([ids[index] for index in indices], device=device)
        vectors[indices] = compute_sentence_vectors(network, batch)
    return vectors
