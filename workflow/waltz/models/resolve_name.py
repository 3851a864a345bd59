"""Encoders and decoders by what a user types: a registered name, a folder, a hub id."""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from waltz.core.errors import UserError
from waltz.models.encoders.kind import kind_of
from waltz.models.registry import DECODER_KINDS, ModelSpec, encoder_kinds, registered

HUB_ID = re.compile(r"\w[\w.-]*/[\w.-]+(@[\w.-]+)?")


def encoder_named(name: str) -> ModelSpec:
    """An encoder by its registered name, by its folder in transformers format, or by its hub id.

    The kind of a folder or hub id is what its config says; of a hub id without `@revision` the newest is taken,
    and its commit noted.

    Raises:
        UserError: There is none of that name, or it is no alignment encoder.
    """
    known = {spec.name: spec for spec in registered().values() if spec.kind in encoder_kinds()}
    if name in known:
        return known[name]
    if name in registered():
        kind = registered()[name].kind
        raise UserError(f"{name}: is of kind {kind}, no alignment encoder; `waltz models` lists those")
    folder = Path(name).expanduser()
    if folder.is_dir():
        weights = str(folder)
        return ModelSpec(name, kind_of(weights, ""), weights, "local", masked_token=_stand_in(weights, {}))
    if not HUB_ID.fullmatch(name):
        raise UserError(f"{name}: no registered encoder{nearest(name, known)}, folder or hub id; see `waltz models`")
    weights, _, said = name.partition("@")
    try:
        kind = kind_of(weights, said or "main")
    except UserError as error:
        raise UserError(f"{name}: no registered encoder{nearest(name, known)}; {error}") from None
    config = transformers.AutoConfig.from_pretrained(weights, revision=said or "main")
    revision = config._commit_hash or said or "main"
    return ModelSpec(name, kind, weights, revision, masked_token=_stand_in(weights, {"revision": revision}))


def decoder_named(name: str) -> ModelSpec | None:
    """A decoder by its registered name, by its folder in transformers format, or by its hub id.

    Whether a folder or hub id is a decoder, and of which kind, is told by the network that its config names.

    Returns:
        None where there is none of that name: it may be an encoder's.
    """
    known = registered()
    if name in known:
        return known[name] if known[name].kind in DECODER_KINDS else None
    folder = Path(name).expanduser()
    if not folder.is_dir() and not HUB_ID.fullmatch(name):
        return None
    weights, _, said = (str(folder), "", "") if folder.is_dir() else name.partition("@")
    options = {} if folder.is_dir() else {"revision": said or "main"}
    try:
        config = transformers.AutoConfig.from_pretrained(weights, **options)
    except (OSError, ValueError):
        return None
    kind = _kind_of_decoder(config)
    if kind is None:
        return None
    return ModelSpec(name, kind, weights, "local" if folder.is_dir() else config._commit_hash or said or "main")


def _kind_of_decoder(config: Any) -> str | None:
    """`vision` or `text` by the classes of networks that transformers has for it; None for neither."""
    named = set(config.architectures or [])
    for kind, classes in (
        ("vision", MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES),
        ("text", MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
    ):
        found = classes.get(config.model_type, ())
        if named & {found, *(found if isinstance(found, (tuple, list)) else ())}:
            return kind
    return None


def nearest(given: str, known: Iterable[str]) -> str:
    """A hint at the closest known name, or nothing."""
    close = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close and close[0] != given else ""


def _stand_in(weights: str, options: dict[str, Any]) -> str:
    """The token that stands for a masked one in the `equations` profile of a model that nobody registered.

    Empty where the tokenizer has a mask token, or an unknown token that is not its end token; and where there is no
    tokenizer, which loading will tell. CLIP's unknown token is its end token: there the token of id 0, which the
    published code takes too, or of id 1 where 0 is the end token.
    """
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(weights, **options)
    except (OSError, ValueError):
        return ""
    if tokenizer.mask_token or (tokenizer.unk_token and tokenizer.unk_token_id != tokenizer.eos_token_id):
        return ""
    return str(tokenizer.convert_ids_to_tokens(1 if tokenizer.eos_token_id == 0 else 0))
