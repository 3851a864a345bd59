"""Encoders and decoders by what a user names: a registered name, a folder, a hub id, a GGUF file or
a server.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from waltz.core.downloads.urls import is_url
from waltz.core.errors import UserError, suggest_name
from waltz.core.files.archives import MODEL_CONFIG
from waltz.core.files.user_modules import FUNCTION_NAME, find_module_file
from waltz.model_registry import (
    ADAPTER_CONFIG,
    DECODER_KINDS,
    FUNCTION_KIND,
    GGUF_SUFFIX,
    HUB_ID,
    ModelSpec,
    answers_questions,
    check_base_kind,
    check_model_name,
    check_saved_parts,
    find_adapter_base,
    is_packaged,
    list_encoder_kinds,
    load_architectures,
    load_registry,
    load_scene_models,
    split_file,
)
from waltz.models.decoders.mplug_owl3 import is_mplug_owl3
from waltz.models.hub import LoaderOptions, build_options
from waltz.models.pretrained import (
    OPEN_CLIP_CONFIG,
    LoadedSpec,
    describe_fault,
    find_gguf_file,
)

DECODER_CLASSES: dict[str, Mapping[str, str | Sequence[str]]] = {
    "vision": MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    "text": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
}
"""For each kind of decoder, the network classes of transformers by `model_type` of the config."""
KINDS_BY_CLASS = {
    "BlipForQuestionAnswering": "blip-answering",
    "BlipModel": "two-towers",
    "FlavaModel": "flava-contrastive",
    "LxmertForQuestionAnswering": "lxmert-answering",
    "ViltForQuestionAnswering": "vilt-answering",
}
"""Kind of encoder by the network class, where the `model_type` of the config has another kind."""
TOWER_FUNCTIONS = ("get_text_features", "get_image_features")
"""Functions of a network that encodes a text, and an image, to one vector each."""
READS_VIDEOS = "it reads videos, and its vector of a text depends on the video"
DETECTS_OBJECTS = (
    "it finds objects in an image, and gives no score of a text with the image"
)
REFUSED_TYPES = {
    "grounding-dino": DETECTS_OBJECTS,
    "mm-grounding-dino": DETECTS_OBJECTS,
    "omdet-turbo": DETECTS_OBJECTS,
    "videoprism": "it reads videos",
    "xclip": READS_VIDEOS,
}
"""Reason why the networks of a `model_type` are no encoders."""
COMPARES_VECTORS = (
    "its score compares many vectors of a text with many vectors of an image"
)
REFUSED_CLASSES = {
    "BridgeTowerForContrastiveLearning": "it gives vectors, and no score",
    "BridgeTowerForMaskedLM": "its head fills in words",
    "ColModernVBertForRetrieval": COMPARES_VECTORS,
    "ColPaliForRetrieval": COMPARES_VECTORS,
    "ColQwen2ForRetrieval": COMPARES_VECTORS,
    "NeoMMEForRetrieval": COMPARES_VECTORS,
    "ViltForImagesAndTextClassification": "it compares several images",
    "ViltForMaskedLM": "its head fills in words",
    "VisualBertForMultipleChoice": "it chooses among several texts",
    "VisualBertForQuestionAnswering": "its head for questions has no adapter",
    "VisualBertForRegionToPhraseAlignment": "it aligns regions with words of a text",
    "VisualBertForVisualReasoning": "it compares two images",
}
"""Reason why a network class is no encoder, where another class of its `model_type` is."""
ANSWERS_FILE = "answers.json"
"""JSON list of answers in the folder of a model that is named by its path."""
REGION_TYPES = ("lxmert", "visual_bert")
"""Types of networks that read regions of an image."""
ADVICE = "explain a function of it, see docs/how-to/a-function-as-a-model.md"
"""What the user of a network without a kind should do."""


def resolve_encoder(name: str) -> ModelSpec:
    """Return an encoder by its registered name, its folder in transformers format, its hub id, or
    `module:name` of a function.

    The kind of a folder or hub id is read from its config, that of a PEFT adapter from its base; a
    hub id without `@revision` resolves to its newest commit.

    Raises:
        UserError: There is no encoder of that name.
    """
    check_model_name(name)
    changed = _find_file(name) or _find_adapter(name)
    if changed is not None and changed.base in load_architectures():
        return replace(changed, kind="open-clip")
    if changed is not None:
        return _put_on(changed, resolve_encoder(changed.base))
    registry = {**load_registry(), **load_scene_models()}
    if name in registry:
        spec = registry[name]
        if spec.kind in list_encoder_kinds():
            return spec
        raise UserError(
            f"{name}: is of kind {spec.kind}, no alignment encoder; `waltz models` lists those"
        )

    if FUNCTION_NAME.fullmatch(name):
        find_module_file(name)
        return ModelSpec(name, FUNCTION_KIND, name, "local")

    folder = Path(name).expanduser()
    if folder.is_dir():
        weights = str(folder)
        kind = detect_encoder_kind(weights, "")
        check_saved_parts(name, kind, folder)
        spec = ModelSpec(
            name, kind, weights, "local", masked_token=_find_masked_token(weights, {})
        )
        if answers_questions(spec) and (folder / ANSWERS_FILE).is_file():
            return replace(spec, answers=ANSWERS_FILE)
        return spec
    if folder.exists():
        raise UserError(
            f"{name}: is a file (expected a folder in transformers format, a {GGUF_SUFFIX} file, a registered name or a"
            " hub id); name its base before it, as BASE:FILE, see docs/how-to/adding-a-model.md"
        )

    weights, _, requested = name.partition("@")
    requested = requested or "main"
    kind = detect_encoder_kind(weights, requested)
    file = OPEN_CLIP_CONFIG if kind == "open-clip" else transformers.utils.CONFIG_NAME
    # The path in the hub's cache names the commit.
    path = transformers.utils.cached_file(weights, file, **build_options(requested))
    revision = transformers.utils.hub.extract_commit_hash(path, None) or requested
    return ModelSpec(
        name,
        kind,
        weights,
        revision,
        masked_token=_find_masked_token(weights, build_options(revision)),
    )


def resolve_decoder(name: str, tokenizer: str = "") -> ModelSpec | None:
    """Return a decoder by its registered name, its folder in transformers format, its GGUF file, or
    its hub id.

    The network class in the config of a folder or hub id determines whether it is a decoder, and
    its kind. A GGUF file holds a language model. A url names a server (`URL#MODEL` if it has
    several models); its model is taken for a language model unless there is a VL decoder's config
    next to the tokenizer.

    Args:
        name: The name.
        tokenizer: Folder, GGUF file or hub id of the tokenizer of a model behind a server; empty if
            the model's name at the server is one of these.
    Returns:
        None if no decoder has that name; an encoder may have it.
    Raises:
        UserError: The name belongs to a folder or hub id without a config that can be read.
    """
    check_model_name(name)
    if is_url(name):
        return _resolve_served(name, tokenizer)
    changed = _find_file(name) or _find_adapter(name)
    if changed is not None:
        if changed.base in load_architectures():
            return None
        base = resolve_decoder(changed.base)
        # An encoder may have that name.
        if base is None:
            return None
        return _put_on(changed, base)
    registry = {**load_registry(), **load_scene_models()}
    if name in registry:
        spec = registry[name]
        return spec if spec.kind in DECODER_KINDS else None

    folder = Path(name).expanduser()
    gguf_file = find_gguf_file(folder, name) if folder.exists() else None
    if gguf_file is not None:
        return ModelSpec(name, "text", str(gguf_file), "local")
    if folder.is_dir():
        return _resolve_decoder_folder(name, folder)
    if HUB_ID.fullmatch(name):
        return _resolve_decoder_repository(name)
    return None


def _find_file(name: str) -> ModelSpec | None:
    """Return an entry with the weights and base of `BASE:FILE`; None for other names."""
    parts = split_file(name)
    if parts is None:
        return None
    base, file = parts
    return ModelSpec(name, "", str(file), "local", base=base)


def _find_adapter(name: str) -> ModelSpec | None:
    """Return an entry with the weights, revision and base of a PEFT adapter, by its folder or hub
    id; None for other models.
    """
    if name in load_registry():
        return None
    folder = Path(name).expanduser()
    if folder.is_dir():
        base = find_adapter_base(folder)
        if not base:
            return None
        return ModelSpec(name, "", str(folder), "local", base=base)
    if folder.exists() or not HUB_ID.fullmatch(name):
        return None
    weights, _, requested = name.partition("@")
    options = build_options(requested or "main")
    try:
        path = transformers.utils.cached_file(weights, ADAPTER_CONFIG, **options)
    except OSError:  # no such file, or no such repository, which is reported later
        return None
    base = find_adapter_base(Path(path).parent)
    # The path in the hub's cache names the commit.
    revision = transformers.utils.hub.extract_commit_hash(path, None) or requested
    return ModelSpec(name, "", weights, revision, base=base)


def _put_on(changed: ModelSpec, base: ModelSpec) -> ModelSpec:
    """Return the entry of an adapter or a checkpoint file on its base."""
    if base.base or base.server or is_packaged(base):
        raise UserError(
            f"{changed.name}: {changed.base} is no folder or hub id with complete weights; name one that is"
        )
    # A folder has no revision.
    base_name = base.weights
    if not Path(base_name).is_dir():
        base_name += f"@{base.revision}"
    spec = replace(
        base,
        name=changed.name,
        weights=changed.weights,
        revision=changed.revision,
        base=base_name,
    )
    check_base_kind(spec.name, spec)
    return spec


def _resolve_served(name: str, tokenizer: str) -> ModelSpec:
    """Return the decoder behind the url of a server; see `resolve_decoder`."""
    from waltz.models.decoders.served_model import find_served_model

    url, _, model = name.partition("#")
    if not model:
        model = find_served_model(url)
    source, _, revision = (tokenizer or model).partition("@")
    kind = _detect_served_kind(source, revision)
    return ModelSpec(
        model, kind, model, "unknown", server=url, tokenizer=tokenizer, gpus=0
    )


def _resolve_decoder_folder(name: str, folder: Path) -> ModelSpec | None:
    """Return the decoder in a folder in transformers format; None if it holds another model."""
    weights = str(folder)
    # Its folder has a config of its authors' code.
    owl = ModelSpec(name, "vision", weights, "local")
    if is_mplug_owl3(owl):  # transformers has no config of this family
        return owl
    config = _find_config(weights, "main")
    kind = _detect_decoder_kind(config, _list_architectures(config))
    if kind is None:
        return None
    check_saved_parts(name, kind, folder)
    return ModelSpec(name, kind, weights, "local")


def _resolve_decoder_repository(name: str) -> ModelSpec | None:
    """Return the decoder of a hub id, at its newest commit unless the id has one; None if it is
    another model.
    """
    weights, _, requested = name.partition("@")
    requested = requested or "main"
    config = _find_config(weights, requested)
    kind = _detect_decoder_kind(config, _list_architectures(config))
    if kind is None:
        return None
    return ModelSpec(name, kind, weights, config._commit_hash or requested)


def _list_architectures(config: Any) -> set[str]:
    """Return the network classes that a config names; `config` is None for the layout of open_clip."""
    if config is None:
        return set()
    return set(config.architectures or [])


def _detect_served_kind(tokenizer: str, revision: str) -> str:
    """Return the kind of a decoder behind a server by the config next to its tokenizer; `text`
    without a config.
    """
    try:
        if not (Path(tokenizer).is_dir() or HUB_ID.fullmatch(tokenizer)):
            return "text"
        config = _find_config(tokenizer, revision or "main")
    except (
        UserError,
        OSError,
        ValueError,
    ):
        # No config, or a name that is too long for a path.
        return "text"
    return _detect_decoder_kind(config, _list_architectures(config)) or "text"


def _detect_decoder_kind(config: Any, architectures: set[str]) -> str | None:
    """Return `vision` or `text` by the network classes that transformers has for the config; None
    for neither.
    """
    if config is None:
        return None
    for kind, classes_by_type in DECODER_CLASSES.items():
        classes = classes_by_type.get(config.model_type, ())
        # transformers lists one class, or several.
        if isinstance(classes, str):
            classes = (classes,)
        if not architectures.isdisjoint(classes):
            return kind
    return None


def check_evaluation_mode(network: Any) -> None:
    """Refuse a network of which a part is in training mode.

    Raises:
        ValueError: A part is in training mode.
    """
    if any(module.training for module in network.modules()):
        raise ValueError(
            f"model: {type(network).__name__} is in training mode, where scores are random; call model.eval() first"
        )


def _unwrap_adapter(network: Any) -> Any:
    """Return the network inside a model of peft, whose layers contain the adapter; any other model
    as it is.

    Raises:
        TypeError: The adapter adds input outside of the layers.
    """
    if not hasattr(network, "get_base_model"):
        return network
    if network.active_peft_config.is_prompt_learning:
        raise TypeError(
            f"model: adapters of type {network.active_peft_config.peft_type.value} add input outside of the network;"
            " give one that changes weights, such as LORA"
        )
    return network.get_base_model()


def describe_loaded(network: Any, processor: Any) -> LoadedSpec:
    """Return the entry of a model that its user has loaded, of the kind that its class determines.

    Args:
        network: A transformers model in evaluation mode.
        processor: Its processor; for a language model, its tokenizer.
    Raises:
        TypeError: The network is not a transformers model, or the processor is missing or lacks a
            part.
        ValueError: The network is in training mode.
        UserError: There is no adapter for its class.
    """
    network = _unwrap_adapter(network)
    if not isinstance(network, transformers.PreTrainedModel):
        raise TypeError(
            f"model: no transformers model (got {type(network).__name__}); give one, or a name"
        )
    if network.config.model_type in REGION_TYPES:
        raise UserError(
            f"{type(network).__name__}: reads regions of an image, which a loaded model comes without; name its folder"
            " or hub id in a study, with a detector or its regions, see docs/how-to/adding-a-model.md"
        )
    if processor is None:
        raise TypeError(
            "processor: missing; a loaded model comes with its processor, as AutoProcessor loads it"
        )
    check_evaluation_mode(network)

    class_name = type(network).__name__
    decoder_kind = _detect_decoder_kind(network.config, {class_name})
    _check_processor(processor, class_name, is_language_model=decoder_kind == "text")
    # Decoders hide tokens in another way.
    kind, masked_token = decoder_kind, ""
    if kind is None:
        kind = _detect_encoder_kind(network.config, {class_name}, class_name)
        masked_token = _choose_masked_token(processor.tokenizer)
    return LoadedSpec(
        network.name_or_path or class_name,
        kind,
        network.name_or_path or class_name,
        "loaded",
        dtype=str(network.dtype).removeprefix("torch."),
        masked_token=masked_token,
        device_map="auto" if getattr(network, "hf_device_map", None) else "",
        network=network,
        processor=processor,
    )


def _check_processor(processor: Any, class_name: str, is_language_model: bool) -> None:
    """Refuse a processor, or the tokenizer of a language model, that lacks a part; `class_name` is
    the network's.
    """
    parts, loader = ["tokenizer", "image_processor"], "AutoProcessor"
    if is_language_model:
        parts, loader = ["apply_chat_template"], "AutoTokenizer"
    for part in parts:
        if not hasattr(processor, part):
            raise TypeError(
                f"processor: has no {part} (got {type(processor).__name__}, expected what {loader} loads for"
                f" {class_name})"
            )


def _find_masked_token(weights: str, options: LoaderOptions) -> str:
    """Return the token that replaces a masked one in the `equations` profile of an unregistered
    model.

    Empty if the tokenizer has a mask token, or an unknown token that is not its end token, or if
    there is no tokenizer, which loading reports. CLIP's unknown token is its end token: its masked
    token has the id 0, as in the published code, or the id 1 if 0 is the end token.
    """
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            weights, trust_remote_code=False, **options
        )
    except Exception:  # a damaged tokenizer can raise anything
        return ""
    return _choose_masked_token(tokenizer)


def _choose_masked_token(tokenizer: Any) -> str:
    """Return the token that replaces a masked one; see `_find_masked_token`."""
    # BERT's mask token, or an unknown token, is the masked token by default.
    if tokenizer.mask_token:
        return ""
    if tokenizer.unk_token and tokenizer.unk_token_id != tokenizer.eos_token_id:
        return ""
    masked_id = 1 if tokenizer.eos_token_id == 0 else 0
    return str(tokenizer.convert_ids_to_tokens(masked_id))


def detect_encoder_kind(weights: str, revision: str) -> str:
    """Return the kind of a checkpoint from its config: the kind of its class, the `model_type`,
    or `two-towers` for other classes with two towers.

    Args:
        weights: Hub id or folder in transformers format.
        revision: Full commit hash of a hub id, empty for its newest state; not used for a folder.
    Raises:
        UserError: There is no config, or no adapter for its kind.
    """
    config = _find_config(weights, revision)
    if config is None:
        return "open-clip"
    return _detect_encoder_kind(config, _list_architectures(config), weights)


def _detect_encoder_kind(config: Any, architectures: set[str], name: str) -> str:
    for class_name in architectures & set(KINDS_BY_CLASS):
        return KINDS_BY_CLASS[class_name]
    _check_supported(config, architectures, name)
    kind: str = config.model_type.replace("_", "-")
    if kind not in list_encoder_kinds() and _has_two_towers(config):
        return "two-towers"
    if kind not in list_encoder_kinds():
        raise UserError(
            f"{name}: {kind!r} is not a kind of encoder; known are {', '.join(list_encoder_kinds())}, and decoders by"
            f" their class (got {', '.join(sorted(architectures)) or 'none'} as architectures); {ADVICE}"
        )
    return kind


def _check_supported(config: Any, architectures: set[str], name: str) -> None:
    """Refuse a network that gives no score of a text with an image in one forward pass."""
    reason = REFUSED_TYPES.get(config.model_type, "")
    for class_name in sorted(architectures):
        reason = REFUSED_CLASSES.get(class_name, reason)
    if reason:
        shown = ", ".join(sorted(architectures)) or config.model_type
        raise UserError(f"{name}: {shown} cannot be explained: {reason}; {ADVICE}")


def _has_two_towers(config: Any) -> bool:
    """Return whether the network of a config encodes a text, and an image, to one vector each."""
    network_class = transformers.MODEL_MAPPING.get(type(config), None)
    return all(hasattr(network_class, name) for name in TOWER_FUNCTIONS)


def _build_source_options(weights: str, revision: str) -> LoaderOptions:
    """Return the options of a loader: none for a folder; an empty revision is the newest state."""
    if Path(weights).is_dir():
        return {}
    return build_options(revision or "main")


def _is_open_clip(weights: str, revision: str) -> bool:
    """Return whether a hub id or folder has the settings of a checkpoint of open_clip."""
    options = _build_source_options(weights, revision)
    try:
        return bool(
            transformers.utils.cached_file(weights, OPEN_CLIP_CONFIG, **options)
        )
    except OSError:
        return False


def _find_config(weights: str, revision: str) -> Any:
    """Return the config of a hub id or folder, or None for the layout of open_clip; raises as
    `_read_config`.
    """
    try:
        return _read_config(weights, revision)
    except UserError:
        if _is_open_clip(weights, revision):
            return None
        raise


def _read_config(weights: str, revision: str) -> Any:
    """Return the config of a hub id, or of a folder in transformers format.

    Raises:
        UserError: There is no config that can be read, or the hub cannot be reached.
    """
    # It shows each of five attempts to reach the hub.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    options = _build_source_options(weights, revision)
    try:
        return transformers.AutoConfig.from_pretrained(
            weights, trust_remote_code=False, **options
        )
    except Exception as error:  # a damaged config can raise anything
        hint = suggest_name(weights, load_registry())
        fault = f"{weights}: no config of a model can be read{hint}: {describe_fault(error, weights, MODEL_CONFIG)}"
        raise UserError(f"{fault}; check the name, see `waltz models`") from None
