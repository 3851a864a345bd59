"""VL decoders of many families against the forward passes of their networks, called as their
processors say.
"""

import functools
import logging
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import waltz
from stand_ins.family_marks import mark_families
from stand_ins.models import tiny_decoder_types, tiny_families
from stand_ins.models.enumeration import (
    enumerate_shapley,
    read_plainly,
    score_plainly,
)
from stand_ins.models.tiny_decoders import spec
from waltz.attribution.prompt_attribution import (
    PromptGame,
    PromptSettings,
    attribute_prompts,
)
from waltz.core.errors import UserError
from waltz.fidelity import EQUATIONS
from waltz.models.decoders import coalitions, own_forward
from waltz.models.decoders.coalitions import DecoderCoalitions, Game
from waltz.models.decoders.continuations import score_targets
from waltz.models.decoders.network import RowImage
from waltz.models.decoders.own_forward import OwnForwardModel
from waltz.models.decoders.vision_loading import wrap_vision_language_model

torch.set_num_threads(1)

READ_BY_THEMSELVES = ("gemma3", "mllama", "llama4", "paligemma")
"""Families whose embeddings of an image do not suffice."""
FAMILIES = (
    "qwen2.5-vl",
    "qwen3-vl",
    "internvl",
    "idefics3",
    "llava-onevision",
    *READ_BY_THEMSELVES,
)
ALL_FAMILIES = mark_families(FAMILIES, "qwen3-vl", "gemma3", "mllama")
ALL_READ_BY_THEMSELVES = mark_families(READ_BY_THEMSELVES, "gemma3", "mllama")
TEXT = "USER : <image> what is this ? ASSISTANT :"
TARGETS = (70, 41, 12)


def photo(width=44, height=60, seed=0):
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    )


@pytest.fixture(scope="module")
def decoders():
    return {}


@pytest.fixture
def decoder(request, decoders):
    """The decoder of a family, built once for all tests."""
    family = request.param
    if family not in decoders:
        decoders[family] = wrap_vision_language_model(
            spec(family), *tiny_families.build(family), "cpu"
        )
    return decoders[family]


def spell(decoder, text):
    return text.replace("<image>", decoder.placeholder)


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_a_family_is_read_with_embeddings_of_the_image_if_they_suffice(
    family, decoders, caplog
):
    with caplog.at_level(logging.WARNING):
        decoders[family] = wrap_vision_language_model(
            spec(family), *tiny_families.build(family), "cpu"
        )
    is_own = isinstance(decoders[family], OwnForwardModel)
    assert is_own == (family in READ_BY_THEMSELVES)
    lines = [
        record.getMessage()
        for record in caplog.records
        if "own forward pass" in record.getMessage()
    ]
    assert len(lines) == is_own
    assert ("own forward pass" in decoders[family].forward_pass) == is_own


def test_an_explanation_of_a_loaded_model_says_how_it_was_read():
    network, processor = tiny_families.build("mllama")
    processor.chat_template = tiny_families.build_chat_template(processor.image_token)
    explanation = waltz.Explainer(network, processor).explain(
        photo(), question="is it a dog ?", labels=["A", "B"], budget=60
    )
    record = explanation.record()
    assert record["forward_pass"] == "the model's own forward pass for each row"
    assert record["forward_pass_reason"]
    assert 0 < explanation.t_shap < 1


@pytest.mark.parametrize("decoder", ALL_FAMILIES, indirect=True)
def test_scores_are_those_of_the_own_forward_pass(decoder):
    texts = [spell(decoder, TEXT), spell(decoder, "<image> a dog sits on the table")]
    images = [photo(), photo(97, 40, 1)]
    prompts, pictures = (
        map(decoder.build_prompt, texts),
        map(decoder.prepare_image, images),
    )
    scores = score_targets(
        decoder, list(prompts), list(pictures), [TARGETS] * 2, "logit"
    )
    for text, image, score in zip(texts, images, scores, strict=True):
        np.testing.assert_allclose(
            score, score_plainly(decoder, text, image, TARGETS), rtol=0, atol=1e-4
        )


@pytest.mark.parametrize("decoder", ALL_FAMILIES, indirect=True)
def test_shapley_values_are_those_of_all_coalitions_read_alone(decoder):
    image, text = photo(), spell(decoder, "<image> this dog")
    settings = PromptSettings(EQUATIONS, evaluations=64, value="logit")
    (attribution,) = attribute_prompts(
        decoder, decoder.prepare_image(image), [PromptGame(text, "", TARGETS)], settings
    )
    players = attribution.players
    words = [players.prompt.tokens[position] for position in players.positions]
    assert (words, players.n_image_players) == (["this", "dog"], 4)
    assert attribution.estimate.exact
    phi = enumerate_shapley(decoder, text, image, TARGETS, players)
    np.testing.assert_allclose(attribution.estimate.phi, phi, rtol=0, atol=2e-4)
    assert np.abs(phi).max(axis=1).min() > 1e-3


@pytest.mark.parametrize("decoder", ALL_READ_BY_THEMSELVES, indirect=True)
def test_values_do_not_depend_on_the_size_of_batches(decoder):
    picture, prompt = (
        decoder.prepare_image(photo()),
        decoder.build_prompt(spell(decoder, TEXT)),
    )
    players = coalitions.build_equations_players(decoder, prompt, picture)
    masks = np.random.default_rng(0).random((9, len(players))) < 0.5
    joined, alone = (
        DecoderCoalitions(
            replace(decoder, positions_per_batch=size),
            picture,
            [Game(players, TARGETS, "logit")],
        )
        for size in (100_000, 1)
    )
    np.testing.assert_allclose(
        joined.values([masks])[0], alone.values([masks])[0], rtol=0, atol=1e-5
    )
    one_by_one = replace(decoder, network=replace(decoder.network, joins_rows=False))
    values = DecoderCoalitions(
        one_by_one, picture, [Game(players, TARGETS, "logit")]
    ).values([masks])[0]
    np.testing.assert_array_equal(values, alone.values([masks])[0])
    assert decoder.network.joins_rows


@pytest.mark.parametrize(
    "decoder", ["qwen3-vl", *ALL_READ_BY_THEMSELVES], indirect=True
)
def test_generations_of_a_batch_are_the_likeliest_tokens_of_prompts_alone(decoder):
    texts = [
        spell(decoder, TEXT),
        spell(decoder, "USER : <image> is it a dog ? ASSISTANT :"),
        "USER : what is this ?",
    ]
    images = [photo(), photo(97, 40, 1), None]
    prompts = [decoder.build_prompt(text) for text in texts]
    pictures = [
        None if image is None else decoder.prepare_image(image) for image in images
    ]
    together = decoder.generate(prompts, pictures, 3, None, [0] * 3)
    for text, image, generated in zip(texts[:2], images[:2], together[:2], strict=True):
        assert generated
        assert (
            tuple(read_plainly(decoder, text, image, generated).argmax(axis=1))
            == generated
        )
    alone = [
        decoder.generate([prompt], [picture], 3, None, [0])[0]
        for prompt, picture in zip(prompts, pictures, strict=True)
    ]
    assert together == alone


@pytest.mark.parametrize("decoder", ["gemma3"], indirect=True)
def test_tokens_that_merge_with_the_text_of_the_image_belong_to_the_placeholder(
    decoder,
):
    text = f"USER\n{decoder.placeholder}\nwhat is this ?"
    prompt, image = decoder.build_prompt(text), photo()
    assert prompt.tokens == (
        "<s>",
        "USER",
        decoder.placeholder,
        "what",
        "is",
        "this",
        "?",
    )
    span = prompt.spans[prompt.image_position]
    assert text[span["start"] : span["end"]] == f"\n{decoder.placeholder}\n"
    score = score_targets(
        decoder, [prompt], [decoder.prepare_image(image)], [TARGETS], "logit"
    )[0]
    np.testing.assert_allclose(
        score, score_plainly(decoder, text, image, TARGETS), rtol=0, atol=1e-4
    )


@torch.inference_mode()
@pytest.mark.parametrize("decoder", ["paligemma"], indirect=True)
def test_a_prefix_model_reads_targets_as_the_suffix_of_its_processor(decoder):
    text, image = spell(decoder, "<image> what is this ?"), photo()
    suffix = " a dog"
    inputs = decoder.processor(
        text=[text], images=[image], suffix=[suffix], return_tensors="pt"
    )
    labels = inputs.pop("labels")[0]
    count = int((labels >= 0).sum())
    targets = labels[-count:].tolist()
    logits = decoder.network.model(**inputs).logits[0, -count - 1 : -1]
    prompt, picture = decoder.build_prompt(text), decoder.prepare_image(image)
    (scores,) = score_targets(decoder, [prompt], [picture], [targets], "logit")
    assert decoder.tokenizer.decode(targets[:-1]).split() == ["a", "dog"]
    np.testing.assert_allclose(scores, logits[range(count), targets], atol=2e-5)


@torch.inference_mode()
@pytest.mark.parametrize("decoder", ["paligemma"], indirect=True)
def test_a_prefix_model_generates_what_transformers_generates(decoder):
    text, image = spell(decoder, "<image> what is this ?"), photo()
    inputs = decoder.processor(text=[text], images=[image], return_tensors="pt")
    del inputs["labels"]
    outputs = decoder.network.model.generate(
        **inputs, max_new_tokens=4, do_sample=False
    )
    prompt, picture = decoder.build_prompt(text), decoder.prepare_image(image)
    (tokens,) = decoder.generate([prompt], [picture], 4, None, [0], keep_end=True)
    assert list(tokens) == outputs[0, inputs["input_ids"].shape[1] :].tolist()


@pytest.mark.parametrize("decoder", ["paligemma"], indirect=True)
def test_text_that_the_processor_appends_is_no_player_and_precedes_labels(decoder):
    prompt = decoder.build_prompt(spell(decoder, "<image> is it a dog ?"))
    assert (prompt.tokens[-2:], prompt.special[-2:]) == (("?", "\n"), (False, True))
    label = decoder.find_label_id(prompt, "A")
    assert label == decoder.tokenizer.convert_tokens_to_ids("A")


def test_a_network_whose_prompt_sees_what_follows_is_refused(monkeypatch):
    monkeypatch.setattr(own_forward, "CONTINUATION_VALUES", {})
    with pytest.raises(UserError, match="see those behind them"):
        wrap_vision_language_model(
            spec("paligemma"), *tiny_families.build("paligemma"), "cpu"
        )


def test_a_network_that_counts_positions_of_an_image_needs_a_placeholder():
    network, processor = tiny_families.build("idefics3")
    del processor.image_token, processor.image_token_id
    with pytest.raises(UserError, match="image tokens do not match, tokens: 0"):
        wrap_vision_language_model(spec("idefics3"), network, processor, "cpu")


def test_a_patch_is_masked_in_all_tensors_of_pixels():
    pair = tiny_decoder_types.build("deepseek_vl_hybrid")
    decoder = wrap_vision_language_model(spec("hybrid"), *pair, "cpu")
    # The image fills the tensors of 64 by 64 and 128 by 128 pixels.
    picture = decoder.prepare_image(photo().resize((60, 60)))
    prompt = decoder.build_prompt(f"{decoder.placeholder} what")
    players = coalitions.build_equations_players(decoder, prompt, picture, grid=2)
    mask = np.array([[False, True, True, True]])
    (pixels,) = players.mask_image(decoder, picture, mask)
    inputs = decoder.build_layout(prompt, picture).inputs
    parts = decoder.network._split_pixels(RowImage(pixels, (), inputs))
    assert [part.shape[-1] for part in parts.values()] == [64, 128]
    for name, part in parts.items():
        half = part.shape[-1] // 2
        assert not part[..., :half, :half].any()
        part[..., :half, :half] = inputs[name][..., :half, :half]
        assert torch.equal(part, inputs[name])


def test_out_of_memory_halves_the_rows(decoders, monkeypatch):
    decoder = decoders.get("llama4") or wrap_vision_language_model(
        spec("llama4"), *tiny_families.build("llama4"), "cpu"
    )
    picture, prompt = (
        decoder.prepare_image(photo()),
        decoder.build_prompt(spell(decoder, TEXT)),
    )
    players = coalitions.build_equations_players(decoder, prompt, picture)
    masks = np.random.default_rng(0).random((5, len(players))) < 0.5
    expected = DecoderCoalitions(
        decoder, picture, [Game(players, TARGETS, "logit")]
    ).values([masks])[0]
    forward = type(decoder.network.model).forward

    def forward_of_two(model, input_ids, **inputs):
        if len(input_ids) > 2:
            raise torch.OutOfMemoryError
        return forward(model, input_ids=input_ids, **inputs)

    monkeypatch.setattr(type(decoder.network.model), "forward", forward_of_two)
    values = DecoderCoalitions(
        decoder, picture, [Game(players, TARGETS, "logit")]
    ).values([masks])[0]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)


def _change(change):
    """Return a forward pass whose logits are changed."""

    def wrap(forward):
        @functools.wraps(forward)
        def call(*arguments, **options):
            output = forward(*arguments, **options)
            output.logits = change(output.logits)
            return output

        return call

    return wrap


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda logits: logits * math.nan, "are not finite"),
        (lambda logits: logits + math.inf, "are not finite"),
        (
            lambda logits: torch.cat([logits, logits]),
            "its logits have type torch.float32 and shape (2, 1,",
        ),
        (lambda logits: logits[:, -1], "its logits have type"),
        (lambda logits: logits[:, :0], "its logits have type"),
        (lambda logits: logits.long(), "its logits have type torch.int64"),
        (
            lambda logits: logits[..., :50],
            "its logits are for 50 tokens, its config has",
        ),
        (lambda logits: 1 / 0, "cannot be read: division by zero"),
        (lambda logits: None, "cannot be read: 'NoneType'"),
    ],
)
def test_a_forward_pass_without_usable_logits_is_one_line(change, fault):
    network, processor = tiny_families.build("gemma3")
    network.forward = _change(change)(network.forward)
    with pytest.raises(UserError, match=re.escape(fault)) as refused:
        wrap_vision_language_model(spec("gemma3"), network, processor, "cpu")
    assert "\n" not in str(refused.value)


def test_nothing_is_generated_from_logits_that_are_no_numbers():
    network, processor = tiny_families.build("gemma3")
    decoder = wrap_vision_language_model(spec("gemma3"), network, processor, "cpu")
    network.forward = _change(lambda logits: logits * math.nan)(network.forward)
    prompt, picture = (
        decoder.build_prompt(spell(decoder, TEXT)),
        decoder.prepare_image(photo()),
    )
    with pytest.raises(
        UserError, match="logits are not finite, so that no token is the likeliest"
    ):
        decoder.generate([prompt], [picture], 3, None, [0])
