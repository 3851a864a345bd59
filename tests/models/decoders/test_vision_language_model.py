"""Each picture is processed and looked at once, and numbers are those of a decoder that remembers
nothing.
"""

import copy
import gc
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.models import tiny_decoder_types, tiny_decoders
from waltz.models.decoders import vision_language_model
from waltz.models.decoders.continuations import score_targets
from waltz.models.decoders.vision_language_model import (
    MAX_CACHED_IMAGES,
    CachedImageProcessor,
    ImageCache,
)
from waltz.models.decoders.vision_loading import wrap_vision_language_model

TEXTS = (
    "USER: <image> is it a dog ?",
    "USER: <image> a dog sits on the table",
    "USER: <image> is it a dog ?",
)


def drawn(shade, size=(30, 24)):
    return (
        Image.linear_gradient("L")
        .resize(size)
        .convert("RGB")
        .point(lambda value: (value + shade) % 256)
    )


class Counted:
    """An image processor that counts its calls."""

    size = 3

    def __init__(self):
        self.calls = 0

    def __call__(self, images, **settings):
        self.calls += 1
        return {"pixels": [image.getpixel((0, 0)) for image in images], **settings}


@pytest.mark.parametrize(
    "family", ["llava", "llava_next", "smolvlm", "idefics2", "qwen2_vl"]
)
def test_numbers_are_those_of_a_decoder_that_remembers_nothing(family, monkeypatch):
    decoder = getattr(tiny_decoders, family)()
    texts = [text.replace("<image>", decoder.placeholder) for text in TEXTS]
    prompts, pictures = [], []
    for shade in (0, 90):
        picture = decoder.prepare_image(drawn(shade))
        prompts += [decoder.build_prompt(text) for text in texts]
        pictures += [picture] * len(texts)
    targets = [(5, 6)] * len(prompts)
    with torch.inference_mode():
        generations = score_targets(decoder, prompts, pictures, targets)
        again = score_targets(decoder, prompts, pictures, targets)
        generated = decoder.generate(prompts, pictures, 4, None, [0] * len(prompts))
        monkeypatch.setattr(
            vision_language_model, "is_unmasked", lambda picture, pixels: False
        )
        processor = copy.copy(decoder.processor)
        processor.image_processor = decoder.processor.image_processor.processor
        plain = replace(decoder, processor=processor, cache=ImageCache())
        fresh = [plain.prepare_image(drawn(shade)) for shade in (0, 0, 0, 90, 90, 90)]
        expected = score_targets(plain, prompts, fresh, targets)
        assert plain.generate(prompts, fresh, 4, None, [0] * len(prompts)) == generated
    assert not np.array_equal(generations[0], generations[3])
    for ours, repeated, theirs in zip(generations, again, expected, strict=True):
        assert ours.tobytes() == repeated.tobytes()
        # Pictures of their own share no beginning.
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_picture_is_looked_at_once_and_forgotten_with_its_last_holder(monkeypatch):
    decoder = tiny_decoders.llava()
    looks = []
    look = vision_language_model.VisionLanguageModel._encode_image
    monkeypatch.setattr(
        vision_language_model.VisionLanguageModel,
        "_encode_image",
        lambda self, *given: (looks.append(1), look(self, *given))[1],
    )
    picture = decoder.prepare_image(drawn(0))
    prompts = [decoder.build_prompt(text) for text in TEXTS]
    score_targets(decoder, prompts, [picture] * 3, [(5,)] * 3)
    assert len(looks) == 1
    assert len(decoder.cache.embeddings) == len(decoder.cache.layouts) == 1
    with torch.inference_mode():
        masked = decoder.encode_image(picture, torch.zeros_like(picture.pixels)[None])
        assert not torch.equal(
            masked, decoder.encode_image(picture, picture.pixels[None])
        )
    assert len(looks) == 2
    del picture
    gc.collect()
    assert len(decoder.cache.embeddings) == len(decoder.cache.layouts) == 0


def test_once_processes_an_image_once_for_each_setting_and_forgets_the_oldest():
    once = CachedImageProcessor(Counted())
    assert once.size == 3
    first = once([drawn(0)], crop=True)
    first.pop("pixels")
    assert once([drawn(0)], crop=True)["pixels"] == [drawn(0).getpixel((0, 0))]
    assert once.processor.calls == 1
    once([drawn(0)], crop=False)
    once([drawn(1)], crop=True)
    assert once.processor.calls == 3
    for shade in range(2, MAX_CACHED_IMAGES + 2):
        once([drawn(shade)], crop=True)
    once([drawn(0)], crop=True)
    assert once.processor.calls == MAX_CACHED_IMAGES + 4
    assert len(once.results) == MAX_CACHED_IMAGES


def test_a_placeholder_is_wrapped_once_where_its_processor_takes_it_only_wrapped():
    network, processor = tiny_decoder_types.build("hunyuan_vl")
    decoder = wrap_vision_language_model(
        tiny_decoders.spec("hunyuan"), network, processor, "cpu"
    )
    texts = ("a <image> dog", "a <img><image></img> dog")
    bare, wrapped = (decoder._process(text, drawn(0))["input_ids"] for text in texts)
    assert torch.equal(bare, wrapped)
    names = decoder.tokenizer.convert_ids_to_tokens(bare[0])
    assert (names.count("<img>"), names.count("</img>")) == (1, 1)
