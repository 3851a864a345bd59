"""Encoder-decoders, and decoders whose processors place the image or append text, against the
forward passes of their networks.
"""

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Regex, pre_tokenizers

import waltz
from stand_ins.family_marks import mark_families
from stand_ins.models import tiny_decoder_types
from stand_ins.models.enumeration import enumerate_shapley, score_plainly
from stand_ins.models.tiny_decoders import random, spec
from waltz.attribution.prompt_attribution import (
    PromptGame,
    PromptSettings,
    attribute_prompts,
)
from waltz.core.errors import UserError
from waltz.fidelity import EQUATIONS
from waltz.models.decoders.continuations import score_targets
from waltz.models.decoders.decoder import expand_prompt
from waltz.models.decoders.network import RowImage
from waltz.models.decoders.vision_loading import wrap_vision_language_model

torch.set_num_threads(1)

TARGETS = (70, 41, 12)
FAMILIES = (
    "florence2",
    "blip-2-t5",
    "t5gemma2",
    "blip-2",
    "kosmos-2",
    "kosmos-2.5",
    "chameleon",
    "idefics",
    "instructblip",
)


def build(family):
    if family == "blip-2-t5":
        network, processor = tiny_decoder_types.blip_2(tiny_decoder_types.T5)
        return random(network), processor
    return tiny_decoder_types.build(family)


def draw_photo(seed=0):
    levels = np.random.default_rng(seed).integers(0, 255, (60, 44, 3), dtype=np.uint8)
    return Image.fromarray(levels)


@pytest.fixture(
    scope="module", params=mark_families(FAMILIES, "blip-2-t5", "blip-2", "kosmos-2")
)
def decoder(request):
    return wrap_vision_language_model(spec(request.param), *build(request.param), "cpu")


def test_shapley_values_are_those_of_all_coalitions_read_alone(decoder):
    image, text = draw_photo(), f"{decoder.placeholder} this dog"
    picture = decoder.prepare_image(image)
    games = [PromptGame(text, "", TARGETS)]
    settings = PromptSettings(EQUATIONS, evaluations=4096, value="logit")
    (attribution,) = attribute_prompts(decoder, picture, games, settings)
    players = attribution.players
    words = [players.prompt.tokens[position] for position in players.positions]
    assert words == ["this", "dog"]
    assert attribution.estimate.exact
    phi = enumerate_shapley(decoder, text, image, TARGETS, players)
    np.testing.assert_allclose(attribution.estimate.phi, phi, rtol=0, atol=2e-5)
    assert np.abs(phi).max(axis=1).min() > 1e-3


def test_scores_of_a_batch_are_those_of_prompts_alone(decoder):
    questions = ("what is this ?", "a dog sits on the table")
    texts = [f"{decoder.placeholder} {question}" for question in questions]
    images = [draw_photo(), draw_photo(1)]
    prompts = [decoder.build_prompt(text) for text in texts]
    pictures = [decoder.prepare_image(image) for image in images]
    scores = score_targets(decoder, prompts, pictures, [TARGETS] * 2, "logit")
    for text, image, score in zip(texts, images, scores, strict=True):
        expected = score_plainly(decoder, text, image, TARGETS)
        np.testing.assert_allclose(score, expected, rtol=0, atol=2e-5)


@torch.inference_mode()
def test_generations_are_those_of_transformers(decoder):
    text, image = f"{decoder.placeholder} what is this ?", draw_photo()
    processed = text.replace("<image>", "") if decoder.places_image else text
    inputs = decoder.processor(text=[processed], images=[image], return_tensors="pt")
    model = decoder.network.model
    outputs = model.generate(**inputs, max_new_tokens=6, do_sample=False)[0].tolist()
    prompt, picture = decoder.build_prompt(text), decoder.prepare_image(image)
    (tokens,) = decoder.generate([prompt], [picture], 4, None, [0], keep_end=True)
    start = getattr(decoder.network, "start_ids", ())
    if not start:
        # A decoder returns the prompt, too.
        outputs = outputs[inputs["input_ids"].shape[1] :]
    assert outputs[: len(start) + len(tokens)] == [*start, *tokens]


# The labels of the random T5Gemma 2 have no probability that could be shared.
@pytest.mark.parametrize(
    "family",
    mark_families(
        [*sorted({*FAMILIES} - {"t5gemma2", "idefics"}), "paligemma"], "blip-2-t5"
    ),
)
def test_a_loaded_model_without_a_chat_template_is_asked_plainly(family):
    network, processor = build(family)
    explanation = waltz.Explainer(network, processor).explain(
        draw_photo(), question="is it a dog ?", labels=["A", "B"], budget=60
    )
    assert 0 < explanation.t_shap < 1
    assert processor.chat_template is None


def test_the_image_comes_first_where_the_processor_places_it():
    decoder = wrap_vision_language_model(spec("blip-2"), *build("blip-2"), "cpu")
    prompt = decoder.build_prompt("a dog sits on it <image>")
    with pytest.raises(UserError, match="begin the prompt with its placeholder"):
        decoder.build_layout(prompt, decoder.prepare_image(draw_photo()))


def test_labels_begin_the_answer(decoder):
    prompt = decoder.build_prompt(f"{decoder.placeholder} is it a dog ?")
    label = decoder.find_label_id(prompt, " A")
    assert label == decoder.tokenizer.convert_tokens_to_ids("A")


def test_words_are_masked_where_another_part_reads_the_prompt_in_pieces():
    network, processor = build("instructblip")
    # Pieces of at most two letters: "do", "g"; "re", "d".
    core = processor.qformer_tokenizer.backend_tokenizer
    core.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"\w{1,2}"), behavior="removed", invert=True
    )
    decoder = wrap_vision_language_model(spec("pieces"), network, processor, "cpu")
    prompt = decoder.build_prompt("<image> red dog ?")
    picture = decoder.prepare_image(draw_photo())
    layout = decoder.build_layout(prompt, picture)
    ids, positions = expand_prompt(prompt, layout)
    ids[ids.index(decoder.tokenizer.convert_tokens_to_ids("dog"))] = decoder.masked_id
    image = RowImage(picture.pixels, positions, layout.inputs)
    inputs = decoder.network._build_inputs(torch.tensor(ids), image)
    masked_id = processor.qformer_tokenizer.mask_token_id
    is_masked = inputs["qformer_input_ids"][0] == masked_id
    # <s> re d do g </s>
    assert is_masked.tolist() == [False, False, False, True, True, False]


def test_another_tokenization_whose_letters_are_not_known_is_refused(monkeypatch):
    network, processor = build("instructblip")
    monkeypatch.setattr(type(processor.qformer_tokenizer), "is_fast", False)
    with pytest.raises(UserError, match="a second time, as qformer_input_ids"):
        wrap_vision_language_model(spec("instructblip"), network, processor, "cpu")


def test_an_encoder_decoder_needs_an_image(decoder):
    if not decoder.network.model.config.is_encoder_decoder:
        pytest.skip("decoders read prompts without images")
    with pytest.raises(UserError, match="has no image, which an encoder-decoder"):
        decoder.build_layout(decoder.build_prompt("what is this ?"), None)
