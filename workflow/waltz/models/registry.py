"""Which models can be named, and what each entry says."""

import difflib
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from waltz.core.errors import UserError
from waltz.core.files.urls import is_url

REGISTRY_FILE = Path(__file__).with_name("registry.yaml")
TEXT_KINDS = ("text", "masked", "classifier")
"""Kinds of models that read texts alone."""
DECODER_KINDS = ("text", "vision")
"""Kinds of models that answer and explain in words."""
DETECTOR_KIND = "detector"
"""Kind of what finds regions in images for encoders that see regions; it scores nothing itself."""
ENCODER_PACKAGE = "waltz.models.encoders.kinds"
"""Package with one module for each kind of encoder."""
DETECTOR_CONFIG = "config.yaml"
"""Name of a detector's configuration beside its weights, which decides where it is there."""
UNPACK_FORMATS = ("folder", "spanbert")
"""What can be made of an archive of weights; see `ModelSpec.unpack`."""
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of a parameter by dtype."""
DECISIVE_FIELDS = (
    "labels",
    "masked_token",
    "regions",
    "detector",
    "detector_revision",
    "masks",
    "answers",
    "config",
    "family",
    "prompts",
    "chat_template",
    "four_bit",
    "device_map",
    "trust_remote_code",
    "allow_missing",
)
"""Fields that decide numbers of the models that they are given for."""


@dataclass(frozen=True)
class ModelSpec:
    """A model that can be named: what decides its numbers, and what a reader wants to know.

    Attributes:
        name: Name in the study and in the results.
        kind: Family of the adapter: `text` (causal LM), `vision` (decoder that sees), `masked` (masked LM),
            `classifier` (of texts), or one of `encoder_kinds()`.
        weights: Hub id, folder in transformers format, `package:NAME`, url, or checkpoint file.
        revision: Full commit hash, package version, `local` for a folder or file, or `lock` for the commit that the
            study's lock file records on the first download.
        dtype: Precision of weights and activations.
        parameters: Number of parameters; 0 where nobody said.
        licence: Licence of the weights.
        note: What a user should know.
        labels: A classifier's classes in the order of its outputs, with commas between; empty where the
            checkpoint's own config names them.
        masked_token: An encoder's token that stands for a masked one; empty for its tokenizer's own.
        regions: The .npz or folder of regions that an encoder sees instead of pixels.
        detector: The Faster R-CNN that finds regions for an encoder: a model of kind `detector`, a file, a folder, or
            a hub id.
        detector_revision: Full commit hash of a hub id's repository.
        masks: `regions` where an encoder's regions shall play in the place of patches.
        answers: JSON list of the answers that an encoder chooses from: a file, its name beside the weights, or a url
            (`#` and a path for a file of an archive).
        config: What gives the dimensions of a checkpoint that does not hold them: a file, or a url.
        family: A decoder's family in the `published` prompts; empty for models that they do not know.
        prompts: Prompt file that stands in the place of the `equations` prompts; empty for those.
        chat_template: Jinja file that stands in the place of the chat template that a decoder's checkpoint lacks.
        four_bit: Whether linear layers are loaded in 4 bits (NF4 of bitsandbytes), which needs a GPU.
        device_map: `auto` and the like of accelerate, to spread a decoder over devices; empty for the job's own.
        trust_remote_code: Whether the repository's own code may run, at this very revision.
        allow_missing: Patterns of keys that the checkpoint may lack or have left over, each with the reason why that
            harms nothing.
        sha256: SHA-256 of what the url of `weights` gives, or `lock`.
        unpack: What an archive of weights is made into: `folder`, the folder with its config.json; `spanbert`, the
            released fairseq checkpoint in transformers format, with the config of the archive `config`.
        gpu_gb: GPU memory that a job needs, in GB, where it is more than `gpu_memory` estimates.
        gated: Whether the hub asks for a licence to be accepted, and a token.
    """

    name: str
    kind: str = "text"
    weights: str = ""
    revision: str = ""
    dtype: str = "float32"
    parameters: int = 0
    licence: str = "unknown"
    note: str = ""
    labels: str = ""
    masked_token: str = ""
    regions: str = ""
    detector: str = ""
    detector_revision: str = ""
    masks: str = ""
    answers: str = ""
    family: str = ""
    prompts: str = ""
    chat_template: str = ""
    four_bit: bool = False
    device_map: str = ""
    trust_remote_code: bool = False
    allow_missing: Mapping[str, str] = field(default_factory=dict, hash=False)
    config: str = ""
    sha256: str = ""
    unpack: str = ""
    gpu_gb: int = 0
    gated: bool = False


@functools.cache
def load_registry() -> Mapping[str, ModelSpec]:
    """The registry, by name."""
    entries = yaml.safe_load(REGISTRY_FILE.read_text(encoding="utf-8"))
    return {
        name: ModelSpec(name, **{key: _to_plain_value(value) for key, value in entry.items()})
        for name, entry in entries.items()
    }


def resolve_model(name: str, entry: Mapping[str, Any] | None) -> ModelSpec:
    """A study's model: the registry's entry of that name, changed by the study's own.

    Raises:
        UserError: The name is not registered and the entry names no weights, weights from the hub come without a
            revision or those of a url without a checksum, the kind is unknown, or a detector has a `config`.
    """
    known = load_registry()
    known_fields = {known_field.name for known_field in fields(ModelSpec)}
    changes = {key: value for key, value in (entry or {}).items() if key in known_fields}
    spec = replace(known.get(name, ModelSpec(name)), **changes)
    if not spec.weights:
        close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
        nearest = f" (did you mean {close[0]!r}?)" if close else ""
        raise UserError(
            f"study file: models.{name}: not in the registry{nearest}; name its weights, or see `waltz models`"
        )
    kinds = [*TEXT_KINDS, "vision", DETECTOR_KIND, *list_encoder_kinds()]
    if spec.kind not in kinds:
        close = difflib.get_close_matches(spec.kind, kinds, n=1, cutoff=0.4)
        nearest = f" (did you mean {close[0]!r}?)" if close else ""
        raise UserError(
            f"study file: models.{name}.kind: there is no kind {spec.kind!r}{nearest}; there are {', '.join(kinds)}"
        )
    if spec.unpack and spec.unpack not in UNPACK_FORMATS:
        raise UserError(f"study file: models.{name}.unpack: {spec.unpack!r} is none of {', '.join(UNPACK_FORMATS)}")
    if spec.kind == DETECTOR_KIND and spec.config:
        raise UserError(
            f"study file: models.{name}.config: a detector reads the {DETECTOR_CONFIG} beside its weights, and without"
            " one the released values; put the file there"
        )
    if is_url(spec.weights):
        if not spec.sha256:
            raise UserError(
                f"study file: models.{name}: weights from a url need a sha256, or `sha256: lock`, which records it on"
                " the first download"
            )
        return replace(spec, revision=spec.sha256)
    if Path(spec.weights).exists():
        return replace(spec, revision="local")
    if spec.weights.startswith(("/", ".", "~")):
        raise UserError(f"study file: models.{name}.weights: there is no file or folder {spec.weights}")
    if not spec.revision:
        raise UserError(f"study file: models.{name}: weights {spec.weights!r} need a revision (a full commit hash)")
    return spec


def list_encoder_kinds() -> list[str]:
    """Kinds of alignment encoders: the modules of their package, with `-` for `_`; nothing is imported."""
    folder = Path(__file__).parent / "encoders" / "kinds"
    return sorted(file.stem.replace("_", "-") for file in folder.glob("[a-z]*.py"))


def get_encoder_module(kind: str) -> str:
    """Full name of the module of a kind of encoder."""
    return f"{ENCODER_PACKAGE}.{kind.replace('-', '_')}"


def select_decisive_fields(spec: ModelSpec) -> dict[str, Any]:
    """The part of a model's entry that its numbers depend on; the rest is for readers."""
    given = (name for name in DECISIVE_FIELDS if getattr(spec, name))
    names = ("name", "kind", "weights", "revision", "dtype", *given)
    return {name: getattr(spec, name) for name in names}


def estimate_gpu_memory(spec: ModelSpec) -> int:
    """GPU memory that a job with a model needs, in GB: what its entry says, else an estimate.

    The estimate is 1.25 times the bytes of its parameters (half a byte each in 4 bits) and 4 GB for what is
    computed; it was not measured.
    """
    size = 0.5 if spec.four_bit else DTYPE_BYTES[spec.dtype]
    return spec.gpu_gb or math.ceil(1.25 * spec.parameters * size / 1e9 + 4)


def _to_plain_value(value: Any) -> Any:
    return value if isinstance(value, int | dict) else str(value)
