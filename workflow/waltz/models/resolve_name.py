"""Encoders and decoders by user input: a registered name, a folder, or a hub id."""

import logging
import re
from pathlib import Path
from typing import Any

import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from waltz.core.errors import UserError, get_first_line, suggest_name
from waltz.core.files.archives import MODEL_CONFIG
from waltz.core.files.downloads import is_url
from waltz.model_registry import DECODER_KINDS, ModelSpec, list_encoder_kinds, load_registry
from waltz.models.decoders.mplug_owl3 import is_mplug_owl3
from waltz.models.hub import build_options
from waltz.models.pretrained import GGUF_SUFFIX, OPEN_CLIP_CONFIG, LoadedSpec, describe_fault, find_gguf_file

HUB_ID = re.compile(r"\w[\w.-]*/[\w.-]+(@[\w.-]+)?")


def resolve_encoder(name: str) -> ModelSpec:
    """Return an encoder by its registered name, its folder in transformers format, or its hub id.

    The kind of a folder or hub id is read from its config; a hub id without `@revision` resolves to its newest commit.

    Raises:
        UserError: There is no encoder of that name.
    """
    _check_name(name)
    encoders = {spec.name: spec for spec in load_registry().values() if spec.kind in list_encoder_kinds()}
    if name in encoders:
        return encoders[name]
    if name in load_registry():
        kind = load_registry()[name].kind
        raise UserError(f"{name}: is of kind {kind}, no alignment encoder; `waltz models` lists those")
    folder = Path(name).expanduser()
    if folder.is_dir():
        weights = str(folder)
        return ModelSpec(
            name, detect_encoder_kind(weights, ""), weights, "local", masked_token=_find_masked_token(weights, {})
        )
    if folder.exists():
        raise UserError(
            f"{name}: is a file (expected a folder in transformers format, a {GGUF_SUFFIX} file, a registered name or a"
            " hub id); name a checkpoint file in an entry of a study, see docs/how-to/adding-a-model.md"
        )
    if not HUB_ID.fullmatch(name):
        raise UserError(
            f"{name}: no registered encoder{suggest_name(name, encoders)}, folder or hub id; see `waltz models`"
        )
    weights, _, requested = name.partition("@")
    kind = detect_encoder_kind(weights, requested or "main")
    file = OPEN_CLIP_CONFIG if kind == "open-clip" else transformers.utils.CONFIG_NAME
    path = transformers.utils.cached_file(weights, file, **build_options(requested or "main"))
    revision = transformers.utils.hub.extract_commit_hash(path, None) or requested or "main"
    return ModelSpec(name, kind, weights, revision, masked_token=_find_masked_token(weights, build_options(revision)))


def resolve_decoder(name: str, tokenizer: str = "") -> ModelSpec | None:
    """Return a decoder by its registered name, its folder in transformers format, its GGUF file, or its hub id.

    The network class in the config of a folder or hub id determines whether it is a decoder, and its kind. A GGUF file
    holds a language model. A url is that of a server (`URL#MODEL` where it has several); its model is taken for a
    language model unless there is a VL decoder's config next to the tokenizer.

    Args:
        name: The name.
        tokenizer: Folder, GGUF file or hub id of the tokenizer of a model behind a server; empty where the model's
            name at the server is one.

    Returns:
        None if there is no decoder of that name; it may be an encoder's.
    Raises:
        UserError: The name is that of a folder or hub id without a config that can be read.
    """
    _check_name(name)
    if is_url(name):
        from waltz.models.decoders.served_model import find_served_model

        url, _, model = name.partition("#")
        model = model or find_served_model(url)
        served_kind = _detect_served_kind(*(tokenizer or model).partition("@")[::2])
        return ModelSpec(model, served_kind, model, "unknown", server=url, tokenizer=tokenizer, gpus=0)
    registry = load_registry()
    if name in registry:
        return registry[name] if registry[name].kind in DECODER_KINDS else None
    folder = Path(name).expanduser()
    if folder.exists() and (gguf_file := find_gguf_file(folder, name)):
        return ModelSpec(name, "text", str(gguf_file), "local")
    if not folder.is_dir() and not HUB_ID.fullmatch(name):
        return None
    weights, _, requested = (str(folder), "", "") if folder.is_dir() else name.partition("@")
    own = ModelSpec(name, "vision", weights, "local")
    if folder.is_dir() and is_mplug_owl3(own):
        return own
    config = _find_config(weights, requested or "main")
    kind = config and _detect_decoder_kind(config, set(config.architectures or []))
    if kind is None:
        return None
    return ModelSpec(name, kind, weights, "local" if folder.is_dir() else config._commit_hash or requested or "main")


def _detect_served_kind(tokenizer: str, revision: str) -> str:
    """Return the kind of a decoder behind a server by the config next to its tokenizer; `text` without one."""
    try:
        if not (Path(tokenizer).is_dir() or HUB_ID.fullmatch(tokenizer)):
            return "text"
        config = _find_config(tokenizer, revision or "main")
    except (UserError, OSError, ValueError):  # no config, or a name that is too long for a path
        return "text"
    kind = _detect_decoder_kind(config, set(config.architectures or [])) if config else None
    return kind or "text"


def _check_name(name: str) -> None:
    """Refuse an empty name, and the path of a file or folder that does not exist."""
    try:
        exists = Path(name).expanduser().exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, a home of nobody, a zero byte
        raise UserError(f"{name[:80]}: no registered model and no path ({get_first_line(error)[:80]})") from None
    if not exists and (name.startswith(("/", ".", "~")) or name.endswith(GGUF_SUFFIX)):
        raise UserError(f"{name}: no such file or folder; correct the path")
    if not name.strip():
        raise UserError(
            f"model: empty (got {name!r}, expected a registered name, folder or hub id); see `waltz models`"
        )


def _detect_decoder_kind(config: Any, architectures: set[str]) -> str | None:
    """Return `vision` or `text` by the network classes that transformers has for the config; None for neither."""
    for kind, classes in (
        ("vision", MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES),
        ("text", MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
    ):
        names = classes.get(config.model_type, ())
        if architectures & {names, *(names if isinstance(names, (tuple, list)) else ())}:
            return kind
    return None


def describe_loaded(network: Any, processor: Any) -> LoadedSpec:
    """Return the entry of a model that its user has loaded, of the kind that its class determines.

    Args:
        network: A transformers model in evaluation mode.
        processor: Its processor; for a language model, its tokenizer.
    Raises:
        TypeError: The network is no transformers model, or the processor is missing or lacks a part.
        ValueError: The network is in training mode.
        UserError: There is no adapter for its class.
    """
    if not isinstance(network, transformers.PreTrainedModel):
        advice = "give model.merge_and_unload()" if hasattr(network, "merge_and_unload") else "give one, or a name"
        raise TypeError(f"model: no transformers model (got {type(network).__name__}); {advice}")
    if processor is None:
        raise TypeError("processor: missing; a loaded model comes with its processor, as AutoProcessor loads it")
    name, config = type(network).__name__, network.config
    if network.training:
        raise ValueError(f"model: {name} is in training mode, where scores are random; call model.eval() first")
    kind = _detect_decoder_kind(config, {name})
    parts = ("apply_chat_template",) if kind == "text" else ("tokenizer", "image_processor")
    if missing := [part for part in parts if not hasattr(processor, part)]:
        expected = "AutoTokenizer" if kind == "text" else "AutoProcessor"
        raise TypeError(
            f"processor: has no {missing[0]} (got {type(processor).__name__}, expected what {expected} loads for"
            f" {name})"
        )
    tokenizer = processor if kind == "text" else processor.tokenizer
    return LoadedSpec(
        network.name_or_path or name,
        kind or _detect_encoder_kind(config, {name}, name),
        network.name_or_path or name,
        "loaded",
        dtype=str(network.dtype).removeprefix("torch."),
        masked_token="" if kind else _choose_masked_token(tokenizer),
        device_map="auto" if getattr(network, "hf_device_map", None) else "",
        network=network,
        processor=processor,
    )


def _find_masked_token(weights: str, options: dict[str, Any]) -> str:
    """Return the token that replaces a masked one in the `equations` profile of an unregistered model.

    Empty if the tokenizer has a mask token, or an unknown token that is not its end token, or if there is no tokenizer,
    which loading reports. CLIP's unknown token is its end token: there the token of id 0, as in the published code, or
    of id 1 if 0 is the end token.
    """
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(weights, trust_remote_code=False, **options)
    except Exception:  # a damaged tokenizer can raise anything
        return ""
    return _choose_masked_token(tokenizer)


def _choose_masked_token(tokenizer: Any) -> str:
    if tokenizer.mask_token or (tokenizer.unk_token and tokenizer.unk_token_id != tokenizer.eos_token_id):
        return ""
    return str(tokenizer.convert_ids_to_tokens(1 if tokenizer.eos_token_id == 0 else 0))


def detect_encoder_kind(weights: str, revision: str) -> str:
    """Return the kind of a checkpoint from its config: the `model_type`, or the answering head of an LXMERT.

    Args:
        weights: Hub id or folder in transformers format.
        revision: Full commit hash of a hub id, empty for its newest state; not used for a folder.
    Raises:
        UserError: There is no config, or no adapter for what it says.
    """
    config = _find_config(weights, revision)
    if config is None:
        return "open-clip"
    return _detect_encoder_kind(config, set(config.architectures or []), weights)


def _detect_encoder_kind(config: Any, architectures: set[str], name: str) -> str:
    kind = "lxmert-answering" if "LxmertForQuestionAnswering" in architectures else config.model_type.replace("_", "-")
    if kind not in list_encoder_kinds():
        raise UserError(
            f"{name}: {kind!r} is no kind of encoder; known are {', '.join(list_encoder_kinds())}, and decoders by"
            f" their class (got {', '.join(sorted(architectures)) or 'none'} as architectures); see"
            " docs/how-to/adding-a-model.md"
        )
    return kind


def _is_open_clip(weights: str, revision: str) -> bool:
    """Return whether a hub id or folder has the settings of a checkpoint of open_clip."""
    options = {} if Path(weights).is_dir() else build_options(revision or "main")
    try:
        return bool(transformers.utils.cached_file(weights, OPEN_CLIP_CONFIG, **options))
    except OSError:
        return False


def _find_config(weights: str, revision: str) -> Any:
    """Return the config of a hub id or folder, or None for the layout of open_clip; raises as `_read_config`."""
    try:
        return _read_config(weights, revision)
    except UserError:
        if _is_open_clip(weights, revision):
            return None
        raise


def _read_config(weights: str, revision: str) -> Any:
    """Return the config of a hub id, or of a folder in transformers format.

    Raises:
        UserError: There is none, or the hub cannot be reached.
    """
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it shows each of five attempts to reach the hub
    options = {} if Path(weights).is_dir() else build_options(revision or "main")
    try:
        return transformers.AutoConfig.from_pretrained(weights, trust_remote_code=False, **options)
    except Exception as error:  # a damaged config can raise anything
        hint = suggest_name(weights, load_registry())
        fault = f"{weights}: no config of a model can be read{hint}: {describe_fault(error, weights, MODEL_CONFIG)}"
        raise UserError(f"{fault}; check the name, see `waltz models`") from None
