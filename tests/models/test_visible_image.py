"""Models that crop to the middle square, of processors that do and do not."""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from stand_ins.models import tiny_decoders
from waltz.core.errors import UserError
from waltz.models.visible_image import crops_to_middle_square


def clip(**settings):
    processor = transformers.CLIPImageProcessorPil(**settings)
    return lambda image: processor(images=[image], return_tensors="pt")["pixel_values"][
        0
    ]


CROPS = {
    "size": {"shortest_edge": 32},
    "crop_size": {"height": 32, "width": 32},
    "do_center_crop": True,
}


def test_a_processor_of_clip_crops_unless_its_settings_disable_it():
    assert crops_to_middle_square(clip(**CROPS))
    assert not crops_to_middle_square(
        clip(size={"height": 32, "width": 32}, do_center_crop=False)
    )
    assert not crops_to_middle_square(
        clip(size={"shortest_edge": 32}, do_center_crop=False)
    )
    assert crops_to_middle_square(
        lambda image: tiny_decoders.llava().prepare_image(image).pixels
    )


@pytest.mark.parametrize("side", ["wide", "high"])
def test_a_model_that_crops_one_side_alone_sees_more(side):
    def prepare(image: Image.Image) -> torch.Tensor:
        middle = clip(**CROPS)(image)
        wide = image.width > image.height
        return (
            middle if wide == (side == "wide") else torch.from_numpy(np.asarray(image))
        )

    assert not crops_to_middle_square(prepare)


def test_a_model_without_new_images_is_not_reported_to_crop():
    def regions(image):
        raise UserError("holds regions by file name")

    assert not crops_to_middle_square(regions)
