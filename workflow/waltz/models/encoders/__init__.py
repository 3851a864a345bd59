"""Alignment encoders, loaded by their kind."""

import importlib
from dataclasses import replace
from typing import cast

from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import (
    TF32,
    ModelSpec,
    get_encoder_loader,
    get_encoder_module,
)
from waltz.models.encoders.encoder import Encoder
from waltz.models.pretrained import report_faults
from waltz.models.tf32 import use_tf32


def load_encoder(spec: ModelSpec, device: Device) -> Encoder:
    """Load an encoder of any kind.

    Raises:
        UserError: The weights cannot be loaded, or lack parameters of the network.
    """
    module = importlib.import_module(get_encoder_module(spec.kind))
    load = getattr(module, get_encoder_loader(spec.kind))
    with report_faults(spec):
        if spec.dtype != TF32:
            return cast(Encoder, load(spec, device))
        # Weights are float32; caches and rounding need the dtype of the entry.
        encoder = load(replace(spec, dtype="float32"), device)
        if not hasattr(encoder, "network"):
            raise UserError(
                f"models.{spec.name}.dtype: tf32 needs a network of torch (got {spec.kind}); set float32"
            )
        use_tf32(encoder.network)
        return cast(Encoder, replace(encoder, spec=spec))
