"""ViLBERT 12-in-1 by its retrieval head: the matching score that it was trained for.

The head ranks four candidates by softmax; its logit has no meaningful zero, so no threshold makes it a probability.
"""

from dataclasses import dataclass

import torch

from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders.encoder import States
from waltz.models.encoders.kinds.vilbert import Vilbert, build_fields

RETRIEVAL_TASK = 7
"""Number of the task of retrieval on COCO; 8 is that on Flickr30k."""


@dataclass(frozen=True)
class Vilbert12in1(Vilbert):
    """A loaded 12-in-1, whose logit ranks pairs and is no log odds; see `Vilbert`."""

    probability: bool = False

    def fuse(self, text: States, image: States) -> torch.Tensor:
        """Return the retrieval head's logit."""
        logit: torch.Tensor = self.network.retrieval_logit(self.network.fuse(text[0], image[0]))[:, 0].float()
        return logit


def load_vilbert_12in1(spec: ModelSpec, device: Device) -> Vilbert12in1:
    """Load a 12-in-1 by its original checkpoint file, or a folder or hub id with one.

    Raises:
        UserError: As `vilbert.load` does.
    """
    return Vilbert12in1(**build_fields(spec, device, task=RETRIEVAL_TASK))
