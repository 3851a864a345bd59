"""Decoders: language models that answer and explain, with or without an image."""

from typing import TYPE_CHECKING

from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import DECODER_KINDS, ModelSpec

if TYPE_CHECKING:
    from waltz.models.decoders.decoder import Decoder


def load_decoder(spec: ModelSpec, device: Device) -> "Decoder":
    """Load a decoder of either kind, or connect to its server.

    Raises:
        UserError: The entry names another kind of model, its weights cannot be downloaded or read,
            or its family is unknown.
    """
    # Imported here, so that importing the package does not load torch and transformers.
    from waltz.models.decoders import (
        language_model,
        mplug_owl3,
        served_model,
        vision_loading,
    )
    from waltz.models.pretrained import report_faults

    if spec.kind not in DECODER_KINDS:
        kinds = " or ".join(DECODER_KINDS)
        raise UserError(
            f"models.{spec.name}: kind {spec.kind!r} is not a decoder; name a model of the kind {kinds}"
        )
    if spec.server:
        return served_model.connect_served_model(spec)
    with report_faults(spec):
        if spec.kind == "text":
            return language_model.load_language_model(spec, device)
        # mPLUG-Owl3 is not part of transformers, so it has a loader here.
        if mplug_owl3.is_mplug_owl3(spec):
            return mplug_owl3.load_mplug_owl3_decoder(spec, device)
        return vision_loading.load_vision_decoder(spec, device)
