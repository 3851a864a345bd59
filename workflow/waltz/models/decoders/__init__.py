"""Decoders: language models that answer and explain, with or without an image."""

from typing import TYPE_CHECKING

from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import DECODER_KINDS, ModelSpec

if TYPE_CHECKING:
    from waltz.models.decoders.decoder import Decoder


def load_decoder(spec: ModelSpec, device: Device) -> "Decoder":
    """Load a decoder of either kind, or connect to its server.

    Raises:
        UserError: The model is no decoder, its weights cannot be had, or its family is not known.
    """
    from waltz.models.decoders import language_model, mplug_owl3, served_model, vision_loading
    from waltz.models.pretrained import report_faults

    if spec.kind not in DECODER_KINDS:
        raise UserError(
            f"models.{spec.name}: kind {spec.kind!r} is no decoder; decoders are {', '.join(DECODER_KINDS)}"
        )
    if spec.server:
        return served_model.load(spec)
    with report_faults(spec):
        if spec.kind == "text":
            return language_model.load(spec, device)
        if mplug_owl3.is_mplug_owl3(spec):
            return mplug_owl3.load(spec, device)
        return vision_loading.load(spec, device)
