"""ViLBERT 12-in-1 by its ITM head, which it keeps from pre-training: its multi-task run put no loss on it."""

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.kinds.vilbert import Vilbert, build_fields
from waltz.models.encoders.kinds.vilbert_12in1 import RETRIEVAL_TASK
from waltz.models.networks.vilbert.network import MATCH as MATCH


def load_vilbert_12in1_itm(spec: ModelSpec, device: Device) -> Vilbert:
    """Load a 12-in-1 by its original checkpoint file, or a folder or hub id with one.

    Raises:
        UserError: As `vilbert.load` does.
    """
    return Vilbert(**build_fields(spec, device, task=RETRIEVAL_TASK))
