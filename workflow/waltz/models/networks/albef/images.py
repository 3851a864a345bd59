"""Images as ALBEF sees them: squeezed into a square by Pillow, and normalised by CLIP's constants."""

import numpy as np
import torch
from PIL import Image

MEAN = (0.48145466, 0.4578275, 0.40821073)
"""Of red, green and blue, each from 0 to 1."""
DEVIATION = (0.26862954, 0.26130258, 0.27577711)


def prepared(image: Image.Image, side: int) -> torch.Tensor:
    """An RGB image as the network takes it.

    Args:
        image: Of any shape; its aspect ratio is not kept.
        side: Pixels of the square's side.
    Returns:
        float32 of shape (3, side, side).
    """
    square = image.convert("RGB").resize((side, side), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.asarray(square, dtype=np.float32) / 255)
    return ((pixels - torch.tensor(MEAN)) / torch.tensor(DEVIATION)).permute(2, 0, 1).contiguous()
