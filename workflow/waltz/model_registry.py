"""The registry of models: fields of its entries, local paths of their weights, and identifiers of their content."""

import functools
import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from waltz.core.errors import UserError, suggest_name
from waltz.core.files.downloads import LOCK_ON_DOWNLOAD, get_archive_member, get_copy_path, is_url, may_hold_secret
from waltz.core.files.packages import Package
from waltz.core.files.resources import find_in_checkout

REGISTRY_FILE = Path(__file__).with_name("model_registry.yaml")
PACKAGE_PREFIX = "package:"
"""Prefix of weights that come in Python packages."""
PACKAGE_WORD = re.compile("[A-Za-z0-9][A-Za-z0-9._+!-]*")
"""Name or version of a package; pip would take others for options, or for places of code that it runs."""
TEXT_KINDS = ("text", "masked", "classifier")
"""Kinds of models that read only text."""
DECODER_KINDS = ("text", "vision")
"""Kinds of models that generate text."""
DETECTOR_KIND = "detector"
"""Kind of models that detect regions in images for encoders that read regions; they score nothing themselves."""
VILBERT_DETECTOR_KIND = "vilbert-detector"
"""Kind of ViLBERT's detector."""
DETECTOR_CONFIGS = {DETECTOR_KIND: "config.yaml", VILBERT_DETECTOR_KIND: "detectron_config.yaml"}
"""Kinds of detectors, and the name of the configuration next to their weights, which overrides the released values."""
ENCODER_MODULES = {
    "albef": "albef",
    "albef-answering": "albef",
    "align": "two_towers",
    "blip": "blip",
    "blip-2": "blip",
    "clip": "two_towers",
    "composed": "composed",
    "flava": "flava",
    "flava-contrastive": "flava",
    "lxmert": "lxmert",
    "lxmert-answering": "lxmert",
    "metaclip-2": "two_towers",
    "open-clip": "open_clip",
    "ruler": "ruler",
    "siglip": "two_towers",
    "vilbert": "vilbert",
    "vilbert-12in1": "vilbert",
    "vilbert-12in1-itm": "vilbert",
    "vilt": "single_stream",
    "visual-bert": "single_stream",
}
"""Module in `waltz.models.encoders.kinds` of the function `load_KIND` of each kind of encoder."""
UNPACK_FORMATS = ("folder", "spanbert")
"""Formats that an archive of weights can be unpacked to; see `ModelSpec.unpack`."""
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of a parameter by dtype."""
COMMIT = re.compile("[0-9a-f]{40}")
HUB_PATH = re.compile(r"[\w.-]+(/[\w.-]+)*")
NOT_RECORDED = "not recorded"
"""Revision of a recorded model where the study gives none."""
DECISIVE_FIELDS = (
    "recorded",
    "server",
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
"""Fields that a model's numbers depend on, if they are set."""


@dataclass(frozen=True)
class ModelSpec:
    """A model: the fields that its numbers depend on, and information for readers.

    Attributes:
        name: Name in the study and in the results.
        kind: Family of the adapter: `text` (causal LM), `vision` (VL decoder), `masked` (masked LM),
            `classifier` (of texts), or one of `ENCODER_MODULES`.
        weights: Hub id, folder in transformers format or with a GGUF file, `package:NAME` (of several packages, names
            with commas between), url, GGUF or checkpoint file.
        revision: Full commit hash, package version (one for each package), `local` for a folder or file, or `lock` for
            the commit that the study's lock file records on the first download.
        dtype: Precision of weights and activations.
        parameters: Number of parameters; 0 if unknown.
        licence: Licence of the weights.
        note: Remark for users.
        recorded: Source with the results of a decoder that was run elsewhere; empty for a model that jobs run.
        server: Url of a server with the OpenAI API that runs it, such as http://localhost:8000/v1; `weights` is
            then the model's name there, and `revision` the version that its user gives it.
        tokenizer: Folder, GGUF file or hub id (`owner/name@commit`) of the tokenizer of a model behind a server; empty
            where `weights` is one.
        labels: A classifier's classes in the order of its outputs, with commas between; empty where the
            checkpoint's own config names them.
        masked_token: An encoder's token that replaces a masked one; empty for its tokenizer's own.
        regions: The .npz or folder of regions that an encoder reads instead of pixels.
        detector: The Faster R-CNN that finds regions for an encoder: a detector of the registry or the study, a file,
            a folder, or a hub id.
        detector_revision: Full commit hash of a hub id's repository.
        masks: `regions` if an encoder's regions are the players instead of patches.
        answers: JSON list of the answers that an encoder chooses from: a file, its name next to the weights, or a url
            (`#` and a path for a file of an archive).
        config: File or url with the sizes of a checkpoint that does not contain them.
        family: A decoder's prompt family in the `published` prompts; empty for unknown models.
        prompts: Prompt file that replaces the `equations` prompts; empty for those.
        chat_template: Jinja file for a decoder's checkpoint without a chat template.
        four_bit: Whether linear layers are loaded in 4 bits (NF4 of bitsandbytes), which needs a GPU.
        device_map: `auto` and the like of accelerate, to spread a decoder over devices; empty for the job's own.
        trust_remote_code: Whether the repository's own code may run, at this revision.
        allow_missing: Patterns of keys that may be missing or unexpected in the checkpoint, each with the reason why
            that is harmless.
        sha256: SHA-256 of the file at the url of `weights`, or `lock`; that of the wheel of each package.
        unpack: Format that an archive is unpacked to: `folder`, the folder with its config.json; `spanbert`, the
            released fairseq checkpoint in transformers format, with the config of the archive `config`.
        gpu_gb: GPU memory that a job needs, in GB; 0 for the estimate of `estimate_gpu_memory`.
        gpus: GPUs that a job requests; more than one for `device_map`, which spreads the weights over them.
        gated: Whether the hub requires a token and an accepted licence.
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
    """Return the registry, by name."""
    entries = yaml.safe_load(REGISTRY_FILE.read_text(encoding="utf-8"))
    return {
        name: ModelSpec(name, **{key: _to_plain_value(value) for key, value in entry.items()})
        for name, entry in entries.items()
    }


def resolve_model(name: str, entry: Mapping[str, Any] | None) -> ModelSpec:
    """Return a study's model: the registry's entry of that name, changed by the study's own fields.

    Raises:
        UserError: The name is not registered and the entry names no weights, weights from the hub come without a
            revision or those of a url without a checksum, the kind is unknown, a detector has a `config` that is not
            next to its weights, stored regions are not there, or there are several GPUs and nothing spreads the weights
            over them.
    """
    registry = load_registry()
    known_fields = {known_field.name for known_field in fields(ModelSpec)}
    changes = {key: value for key, value in (entry or {}).items() if key in known_fields}
    spec = replace(registry.get(name, ModelSpec(name)), **changes)
    spec = replace(spec, weights=find_in_checkout(spec.weights))
    if spec.recorded:
        if spec.kind not in DECODER_KINDS:
            raise UserError(
                f"study file: models.{name}.recorded: wrong kind of model (got {spec.kind}, expected"
                f" {' or '.join(DECODER_KINDS)}); set models.{name}.kind"
            )
        return replace(spec, revision=str(changes.get("revision", NOT_RECORDED)))
    if not spec.weights:
        hint = suggest_name(name, registry)
        raise UserError(
            f"study file: models.{name}: not in the registry{hint}; name its weights, or see `waltz models`"
        )
    if spec.server:
        return _check_server(spec)
    kinds = [*TEXT_KINDS, "vision", *DETECTOR_CONFIGS, *list_encoder_kinds()]
    if spec.kind not in kinds:
        hint = suggest_name(spec.kind, kinds)
        raise UserError(
            f"study file: models.{name}.kind: there is no kind {spec.kind!r}{hint}; there are {', '.join(kinds)}"
        )
    if spec.unpack and spec.unpack not in UNPACK_FORMATS:
        raise UserError(f"study file: models.{name}.unpack: {spec.unpack!r} is none of {', '.join(UNPACK_FORMATS)}")
    if spec.config and spec.kind in DETECTOR_CONFIGS:
        adjacent = f"{spec.weights.rpartition('/')[0]}/{DETECTOR_CONFIGS[spec.kind]}"
        if spec.config != adjacent:
            raise UserError(
                f"study file: models.{name}.config: a detector reads the {DETECTOR_CONFIGS[spec.kind]} beside its"
                " weights, and without one the released values; put the file there"
            )
    if spec.regions and not Path(spec.regions).exists():
        raise UserError(
            f"study file: models.{name}.regions: there is no file or folder {spec.regions}; store regions there (`waltz"
            " regions`), or remove the key, so that the model's detector finds them"
        )
    if spec.gpus > 1 and not spec.device_map:
        raise UserError(
            f"study file: models.{name}.gpus: without a device_map, weights are on one GPU (got {spec.gpus}, expected"
            f" 1); set models.{name}.device_map to auto"
        )
    if is_url(spec.weights):
        if not spec.sha256:
            raise UserError(
                f"study file: models.{name}: weights from a url need a sha256, or `sha256: lock`, which records it on"
                " the first download"
            )
        return replace(spec, revision=spec.sha256)
    if is_packaged(spec) and not _has_versions(spec):
        raise UserError(
            f"study file: models.{name}: weights from a package need its version as `revision`, and the sha256 of its"
            " wheel; of several packages, with commas between"
        )
    if Path(spec.weights).exists():
        return replace(spec, revision="local")
    if spec.weights.startswith(("/", ".", "~")):
        raise UserError(f"study file: models.{name}.weights: there is no file or folder {spec.weights}")
    if not spec.revision:
        raise UserError(f"study file: models.{name}: weights {spec.weights!r} need a revision (a full commit hash)")
    return spec


def _check_server(spec: ModelSpec) -> ModelSpec:
    """Return the entry of a model behind a server, which needs no GPU here."""
    where = f"study file: models.{spec.name}"
    if spec.kind not in DECODER_KINDS:
        raise UserError(
            f"{where}.kind: a server runs decoders (got {spec.kind}, expected {' or '.join(DECODER_KINDS)}); name"
            " weights instead"
        )
    if not is_url(spec.server) or may_hold_secret(spec.server):
        raise UserError(
            f"{where}.server: no url (expected such as http://localhost:8000/v1, without a password or key); correct it"
        )
    if not spec.revision or spec.revision == LOCK_ON_DOWNLOAD:
        raise UserError(
            f"{where}.revision: missing; a server does not prove which weights it has: name their version, such as a"
            " commit or Q4_K_M"
        )
    return replace(spec, gpus=0, parameters=0)


def list_encoder_kinds() -> list[str]:
    """Return the kinds of alignment encoders."""
    return sorted(ENCODER_MODULES)


def get_encoder_module(kind: str) -> str:
    """Return the full name of the module of a kind of encoder."""
    return f"waltz.models.encoders.kinds.{ENCODER_MODULES[kind]}"


def select_decisive_fields(spec: ModelSpec) -> dict[str, Any]:
    """Return the fields of a model's entry that its numbers depend on; the others are for readers."""
    options = (name for name in DECISIVE_FIELDS if getattr(spec, name))
    names = ("name", "kind", "weights", "revision", "dtype", *options)
    return {name: getattr(spec, name) for name in names}


def estimate_gpu_memory(spec: ModelSpec) -> int:
    """Return the GPU memory in GB that a job with a model needs: the entry's value, else an estimate.

    The estimate is 1.25 times the bytes of its parameters (half a byte each in 4 bits) and 4 GB for activations;
    it was not measured.
    """
    if spec.server:
        return 0
    bytes_per_parameter = 0.5 if spec.four_bit else DTYPE_BYTES[spec.dtype]
    return spec.gpu_gb or math.ceil(1.25 * spec.parameters * bytes_per_parameter / 1e9 + 4)


def _to_plain_value(value: Any) -> Any:
    return value if isinstance(value, int | dict) else str(value)


TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")
"""Files of a tokenizer next to an original checkpoint file."""
BERT_TOKENIZER, BERT_REVISION = "google-bert/bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594"
"""Repository, and its commit, of the tokenizer of checkpoints that come without one."""
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
    """Return whether a model takes BERT's tokenizer unless its repository has one: no file here is one."""
    weights = Path(spec.weights)
    folder = weights if weights.is_dir() else weights.parent
    return spec.kind in BORROWING_KINDS and not any((folder / name).is_file() for name in TOKENIZER_FILES)


def list_downloads(spec: ModelSpec, folder: str) -> dict[str, str]:
    """Return the local path of each url that a model's entry names, archives of single files included.

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
    """Return the packages that the weights of a model come in."""
    names = spec.weights.removeprefix(PACKAGE_PREFIX).split(",")
    return [*map(Package, names, spec.revision.split(","), spec.sha256.split(","))]


def _has_versions(spec: ModelSpec) -> bool:
    """Return whether each package of a model has a version and a checksum, and there are no others."""
    counts = {text.count(",") for text in (spec.weights, spec.revision, spec.sha256)}
    return len(counts) == 1 and all(
        all(PACKAGE_WORD.fullmatch(word) for word in (package.name, package.version))
        and re.fullmatch("[0-9a-f]{64}", package.sha256)
        for package in list_packages(spec)
    )


def get_package_folder(spec: ModelSpec, folder: str) -> str:
    """Return the folder of the weights of packages: names and versions below the folder of all fetched weights."""
    name = "+".join(f"{package.name}-{package.version}" for package in list_packages(spec))
    return f"{folder}/packages/{name}"


def is_hub_snapshot(spec: ModelSpec) -> bool:
    """Return whether a model is fetched completely from the hub, at the commit of the lock file."""
    return spec.revision == LOCK_ON_DOWNLOAD and not is_url(spec.weights) and not is_packaged(spec)


def list_hub_copies(spec: ModelSpec) -> list[tuple[str, str]]:
    """Return what a model is loaded from in the hub's cache: ids of repositories, or `ID/FILE`, and their commits."""
    if spec.server:
        return []
    named = ((spec.weights, spec.revision), (spec.detector, spec.detector_revision))
    return [(path, commit) for path, commit in named if COMMIT.fullmatch(commit) and HUB_PATH.fullmatch(path)]


def set_local_paths(spec: ModelSpec, folder: str, detectors: Mapping[str, str]) -> ModelSpec:
    """Return an entry with local paths in place of urls and names.

    Entries with the same url share its file, whose path shows its origin. Stored regions replace a detector.

    Args:
        spec: A resolved entry.
        folder: Folder of all fetched weights.
        detectors: Checkpoint files of detectors, by name.
    """
    web = list_downloads(spec, folder)
    weights = spec.weights
    if spec.unpack:
        weights = f"{folder}/unpacked/{spec.name}"
    elif is_hub_snapshot(spec):
        weights = f"{folder}/hub/{spec.weights}"
    elif is_packaged(spec):
        weights = get_package_folder(spec, folder)
    answers = (
        f"{folder}/members/{spec.name}/{Path(get_archive_member(spec.answers)).name}"
        if get_archive_member(spec.answers)
        else ""
    )
    return replace(
        spec,
        weights=web.get(weights, weights),
        answers=answers or web.get(spec.answers, spec.answers),
        config="" if spec.unpack else web.get(spec.config, spec.config),
        detector="" if spec.regions else detectors.get(spec.detector, spec.detector),
    )


def list_weight_files(spec: ModelSpec) -> list[str]:
    """Return a model's local files: those of its folder in order, or its checkpoint file with adjacent files.

    There are none for a hub id.
    """
    if spec.server:
        return []
    path = Path(spec.weights)
    if path.is_file():
        adjacent = (path.with_name(name) for name in (f"{path.stem}.json", "config.json", *TOKENIZER_FILES))
        return [str(path), *(str(file) for file in adjacent if file.is_file())]
    return sorted(str(entry) for entry in path.iterdir() if entry.is_file()) if path.is_dir() else []


def list_detector_files(spec: ModelSpec) -> list[str]:
    """Return local files of the detector that a model's entry names: its weights and the configuration next to them."""
    path = Path(spec.detector)
    if spec.detector and path.is_file():
        configs = (path.with_name(name) for name in DETECTOR_CONFIGS.values())
        return [str(file) for file in (path, *configs) if file.is_file()]
    return list_weight_files(replace(spec, weights=spec.detector)) if spec.detector else []


@functools.cache
def compute_fingerprint(spec: ModelSpec) -> str:
    """Return an identifier of the weights of a model and its detector: id and revision, or a digest of local files.

    Files are read once a process.
    """
    identity = _compute_identity(spec.weights, spec.revision, list_weight_files(spec))
    if not spec.detector:
        return identity
    return f"{identity}+{_compute_identity(spec.detector, spec.detector_revision, list_detector_files(spec))}"


def _compute_identity(weights: str, revision: str, files: list[str]) -> str:
    if not files:
        return f"{weights}@{revision}"
    hasher = hashlib.sha256()
    for file in files:
        with Path(file).open("rb") as opened:
            hasher.update(Path(file).name.encode() + hashlib.file_digest(opened, "sha256").digest())
    return f"{weights}@{hasher.hexdigest()}"
