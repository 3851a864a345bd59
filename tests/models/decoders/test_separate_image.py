"""VL decoders whose processors have no placeholder for an image, against their networks."""

import numpy as np
import pytest
import torch
from PIL import Image

import waltz
from stand_ins.models import tiny_decoder_types
from stand_ins.models.enumeration import enumerate_shapley
from stand_ins.models.tiny_decoders import spec
from waltz.attribution.prompt_attribution import (
    PromptGame,
    PromptSettings,
    attribute_prompts,
)
from waltz.core.errors import UserError
from waltz.fidelity import EQUATIONS
from waltz.models.decoders.coalitions import build_equations_players
from waltz.models.decoders.vision_loading import wrap_vision_language_model

torch.set_num_threads(1)

FAMILIES = ("blip", "git", "pix2struct", "vision-encoder-decoder")
TARGETS = (70, 41)
TEXT = "what is this ?"


def draw_photo():
    levels = np.random.default_rng(0).integers(0, 255, (60, 44, 3), dtype=np.uint8)
    return Image.fromarray(levels)


@pytest.fixture(scope="module", params=FAMILIES)
def decoder(request):
    pair = tiny_decoder_types.build(request.param)
    return wrap_vision_language_model(spec(request.param), *pair, "cpu")


def prepare_arguments(decoder):
    """Arguments of `generate` as the documentation of each model builds them."""
    images, words = decoder.processor.image_processor, decoder.processor.tokenizer
    pixels = images([draw_photo()], return_tensors="pt")
    model_type = decoder.network.model.config.model_type
    if model_type == "blip":
        return decoder.processor(draw_photo(), TEXT, return_tensors="pt")
    ids = torch.tensor([[1, *words(TEXT, add_special_tokens=False)["input_ids"]]])
    name = "input_ids" if model_type == "git" else "decoder_input_ids"
    return {**pixels, name: ids}


@torch.inference_mode()
def test_generations_are_those_of_transformers(decoder):
    outputs = decoder.network.model.generate(
        **prepare_arguments(decoder), max_new_tokens=6, do_sample=False
    )[0].tolist()
    prompt = decoder.build_prompt(f"{decoder.placeholder} {TEXT}")
    picture = decoder.prepare_image(draw_photo())
    (tokens,) = decoder.generate([prompt], [picture], 6, None, [0], keep_end=True)
    start = [token for token in prompt.ids if token != decoder.image_id]
    assert outputs[: len(start) + len(tokens)] == [*start, *tokens]


def test_the_place_of_the_image_in_the_prompt_changes_nothing(decoder):
    picture = decoder.prepare_image(draw_photo())
    texts = [f"{decoder.placeholder} {TEXT}", f"{TEXT} {decoder.placeholder}"]
    prompts = [decoder.build_prompt(text) for text in texts]
    (first,), (second,) = decoder.generate(prompts, [picture] * 2, 1, None, [0, 0])
    assert first == second


def test_shapley_values_are_those_of_all_coalitions_read_alone(decoder):
    image, text = draw_photo(), f"{decoder.placeholder} this dog"
    settings = PromptSettings(EQUATIONS, evaluations=4096, value="logit")
    (attribution,) = attribute_prompts(
        decoder,
        decoder.prepare_image(image),
        [PromptGame(text, "", TARGETS)],
        settings,
    )
    players = attribution.players
    words = [players.prompt.tokens[position] for position in players.positions]
    assert words == ["this", "dog"]
    phi = enumerate_shapley(decoder, text, image, TARGETS, players)
    np.testing.assert_allclose(attribution.estimate.phi, phi, rtol=0, atol=2e-5)
    assert np.abs(phi).max(axis=1).min() > 1e-3


def test_patches_are_found_where_each_image_is_normalized_by_itself():
    pair = tiny_decoder_types.build("pix2struct")
    decoder = wrap_vision_language_model(spec("flat"), *pair, "cpu")
    # 4 rows of 6 patches of 4 by 4 pixels, each with its row and column before its 48 values.
    picture = decoder.prepare_image(draw_photo().resize((24, 16)))
    prompt = decoder.build_prompt(f"{decoder.placeholder} this dog")
    players = build_equations_players(decoder, prompt, picture, grid=2)
    assert players.cells[0, :, :2].unique().tolist() == [4]
    upper, lower = [0, 0, 0, 1, 1, 1], [2, 2, 2, 3, 3, 3]
    for cells, expected in zip(
        players.cells[0, :, 2:], [*upper, *upper, *lower, *lower], strict=True
    ):
        assert cells.unique().tolist() == [expected]


def test_a_question_drawn_onto_the_image_is_refused():
    network, processor = tiny_decoder_types.build("pix2struct")
    processor.image_processor.is_vqa = True
    with pytest.raises(UserError, match="header text must be provided"):
        wrap_vision_language_model(spec("vqa"), network, processor, "cpu")


def test_the_users_tokenizer_stays_as_it_is():
    network, processor = tiny_decoder_types.build("blip")
    size = len(processor.tokenizer)
    explanation = waltz.Explainer(network, processor).explain(
        draw_photo(), question="is it a dog ?", labels=["A", "B"], budget=60
    )
    assert 0 < explanation.t_shap < 1
    assert len(processor.tokenizer) == size
    assert processor.chat_template is None


def test_a_processor_of_videos_or_proteins_is_refused():
    network, processor = tiny_decoder_types.build("git")
    processor.image_processor = None
    with pytest.raises(UserError, match="processor of git prepares no images"):
        wrap_vision_language_model(spec("git"), network, processor, "cpu")
