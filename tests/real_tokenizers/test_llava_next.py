"""LLaVA-NeXT with the real tokenizers and sizes of tiles: positions as the real processor gives
them.
"""

import pytest
from PIL import Image

from real_tokenizers.build import build_mistral
from waltz.models.decoders.decoder import expand_prompt

pytestmark = pytest.mark.families

QUESTION = "[INST] <image>\nIs this artwork created by linard, jacques? Please answer yes or no. [/INST]"
IDS, PIXELS = 2369, (1, 5, 3, 336, 336)
"""Recorded from the real processor for this prompt and an image of 1100 by 808 pixels."""


def test_an_example_has_the_ids_and_pixels_of_the_real_processor(llava_next):
    prompt = llava_next.build_prompt(QUESTION)
    picture = llava_next.prepare_image(Image.new("RGB", (1100, 808)))
    ids, features = expand_prompt(prompt, llava_next.build_layout(prompt, picture))
    assert (len(ids), picture.pixels.shape) == (IDS, PIXELS)
    assert llava_next.encode_image(picture, picture.pixels[None]).shape[1] == len(
        features
    )


def test_a_space_stands_between_image_and_line_break(llava_next):
    tokens = llava_next.build_prompt(QUESTION).tokens
    position = tokens.index("<image>")
    assert tokens[position - 1 : position + 4] == ("▁", "<image>", "▁", "<0x0A>", "Is")
    without = build_mistral().tokenize(QUESTION.partition("<image>")[2])
    assert list(tokens[position + 1 :]) == without
