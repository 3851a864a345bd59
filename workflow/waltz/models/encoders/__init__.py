"""Alignment encoders: one module a kind, found by the kind's name, with `load(spec, device)`."""

import importlib
import pkgutil
from typing import cast

from waltz.core.devices import Device
from waltz.models.encoders.encoder import Encoder
from waltz.models.registry import ModelSpec

SUPPORT = frozenset({"encoder", "players", "game", "coalitions", "inputs", "late", "answers", "kind"})
"""Modules here that are no kind."""


def kinds() -> list[str]:
    """Every kind of encoder that a model can be of; `-` in a kind stands for `_` in its module's name."""
    return sorted(entry.name.replace("_", "-") for entry in pkgutil.iter_modules(__path__) if entry.name not in SUPPORT)


def module_of(kind: str) -> str:
    """Full name of the module of a kind."""
    return f"{__name__}.{kind.replace('-', '_')}"


def load_encoder(spec: ModelSpec, device: Device) -> Encoder:
    """Load an encoder of any kind.

    Raises:
        UserError: The weights cannot be had, or lack parameters of the network.
    """
    return cast(Encoder, importlib.import_module(module_of(spec.kind)).load(spec, device))
