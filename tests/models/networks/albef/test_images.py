import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers.image_utils import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD

from waltz.models.encoders.kinds.albef import prepare_square_image


@pytest.mark.parametrize("size", [(50, 37), (400, 30), (384, 384), (1, 3)])
def test_an_image_is_prepared_as_by_clips_processor_without_a_crop(size):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8))
    processor = transformers.CLIPImageProcessorPil(
        size={"height": 96, "width": 96}, do_center_crop=False, resample=Image.Resampling.BICUBIC
    )
    expected = processor(images=[image], return_tensors="pt")["pixel_values"][0]
    torch.testing.assert_close(prepare_square_image(image, 96), expected, rtol=0, atol=2e-6)


def test_zero_is_the_mean_colour():
    grey = prepare_square_image(Image.new("RGB", (5, 4), tuple(round(255 * mean) for mean in OPENAI_CLIP_MEAN)), 8)
    assert grey.abs().max() < 0.5 / 255 / min(OPENAI_CLIP_STD)
    white = prepare_square_image(Image.new("L", (5, 4), 255), 8)
    assert white[:, 0, 0].tolist() == pytest.approx(
        [(1 - m) / d for m, d in zip(OPENAI_CLIP_MEAN, OPENAI_CLIP_STD, strict=True)]
    )
