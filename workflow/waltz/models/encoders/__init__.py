"""Alignment encoders, loaded by their kind."""

import importlib
from typing import cast

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec, get_encoder_loader, get_encoder_module
from waltz.models.encoders.encoder import Encoder
from waltz.models.pretrained import report_faults


def load_encoder(spec: ModelSpec, device: Device) -> Encoder:
    """Load an encoder of any kind.

    Raises:
        UserError: The weights cannot be loaded, or lack parameters of the network.
    """
    module = importlib.import_module(get_encoder_module(spec.kind))
    load = getattr(module, get_encoder_loader(spec.kind))
    with report_faults(spec):
        return cast(Encoder, load(spec, device))
