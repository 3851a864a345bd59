"""In each precision, decoders have the values of their own forward pass, also beyond their sliding
windows.
"""

import logging

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from stand_ins.family_marks import mark_families
from stand_ins.models import tiny_decoders, tiny_families
from stand_ins.models.tiny_decoders import TEXT, TOWER, random, spec, tokenizer
from waltz.core.errors import UserError
from waltz.models.decoders import (
    coalitions,
    language_model,
    own_forward,
    vision_loading,
)
from waltz.models.decoders.coalitions import DecoderCoalitions, Game
from waltz.models.decoders.continuations import score_targets_in_batches
from waltz.models.decoders.own_forward import OwnForwardModel
from waltz.models.decoders.vision_loading import wrap_vision_language_model
from waltz.models.forward_checks import Float32Mode

pytestmark = pytest.mark.newest
torch.set_num_threads(1)

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
DTYPE_PARAMETERS = [
    torch.float32,
    torch.bfloat16,
    pytest.param(torch.float16, marks=pytest.mark.families),
]
FAST = ("qwen2.5-vl", "qwen3-vl", "internvl", "idefics3", "llava-onevision")
SLOW = ("gemma3", "mllama", "llama4")
BROKEN = {"llama4": "image_outputs"}
"""Families whose own forward pass fails in a version of transformers, with its error."""
TARGETS = (70, 41, 12)
WORDS = ("what", "is", "this", "?", "a", "dog", "sits", "on", "the", "table")


def photo(seed=0):
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 255, (60, 44, 3), dtype=np.uint8)
    )


def wrap(family, dtype, build=tiny_families.build):
    network, processor = build(family)
    try:
        return wrap_vision_language_model(
            spec(family), network.to(dtype), processor, "cpu"
        )
    except UserError as error:
        if family in BROKEN and BROKEN[family] in str(error):
            pytest.skip(f"transformers {transformers.__version__}: {error}")
        raise


@torch.inference_mode()
def read_alone(decoder, image, prompt, row, players):
    """Logits of the targets of one coalition: the processor's inputs with masked tokens and pixels,
    read alone.
    """
    inputs = dict(
        decoder.processor(text=[prompt.text], images=[image], return_tensors="pt")
    )
    ids = inputs["input_ids"][0].tolist()
    behind = len(prompt.ids) - prompt.image_position
    masked = players.mask_text(row[players.text])
    for place, token in enumerate(masked):
        if place != prompt.image_position:
            ids[place if place < prompt.image_position else place - len(masked)] = token
    assert behind > 1
    inputs["input_ids"] = torch.tensor([[*ids, *TARGETS[:-1]]])
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    for name in ("token_type_ids", "mm_token_type_ids", "cross_attention_mask"):
        if name in inputs:
            inputs[name] = torch.cat(
                [inputs[name], *[inputs[name][:, -1:]] * (len(TARGETS) - 1)], dim=1
            )
    hidden = ~torch.tensor([*row[players.image], True])[players.cells].expand_as(
        inputs["pixel_values"]
    )
    pixels = inputs["pixel_values"].masked_fill(hidden, 0.0)
    inputs["pixel_values"] = decoder.fill_zeros(pixels)
    inputs = {
        name: values
        for name, values in inputs.items()
        if isinstance(values, torch.Tensor)
    }
    logits = decoder.network.model(**inputs).logits[0, -len(TARGETS) :].double()
    return logits[range(len(TARGETS)), TARGETS].numpy()


def compare(decoder, text, count=6):
    """The highest difference of values from those of coalitions alone in float32, and the own
    rounding, as shares.
    """
    image = photo()
    prompt, picture = decoder.build_prompt(text), decoder.prepare_image(image)
    players = coalitions.build_equations_players(decoder, prompt, picture, grid=2)
    masks = np.random.default_rng(0).random((count, len(players))) < 0.6
    masks[0, players.image] = False
    values = DecoderCoalitions(
        decoder, picture, [Game(players, TARGETS, "logit")]
    ).values([masks])[0]
    alone = np.stack(
        [read_alone(decoder, image, prompt, row, players) for row in masks]
    )
    exact = alone
    if decoder.network.model.dtype != torch.float32:
        with Float32Mode():
            exact = np.stack(
                [read_alone(decoder, image, prompt, row, players) for row in masks]
            )
    spread = exact.std()
    return np.abs(values - exact).max() / spread, np.abs(alone - exact).max() / spread


def build_texts(placeholder):
    """Prompts as templates have them: the image between line breaks, near the text's end or far in
    front of it.
    """
    long = " ".join(WORDS * 4)
    return [
        f"{placeholder} what is this ?",
        f"USER\n{placeholder}\nwhat is this ?",
        f"USER\n{placeholder}\n{long}",
        f"{long}\n{placeholder}\nwhat is this ?",
    ]


@pytest.mark.parametrize("dtype", DTYPE_PARAMETERS, ids=str)
@pytest.mark.parametrize("family", mark_families([*FAST, *SLOW], "internvl", "gemma3"))
def test_values_are_those_of_coalitions_alone(family, dtype):
    decoder = wrap(family, dtype)
    assert isinstance(decoder, OwnForwardModel) == (family in SLOW)
    assert decoder.network.reuses_prefixes == (family in FAST)
    for text in build_texts(decoder.placeholder)[
        : 4 if family in ("gemma3", "internvl") else 3
    ]:
        error, own_error = compare(decoder, text)
        assert error <= 1e-4 + 4 * own_error


def gemma3_with_window(window, layers, pattern):
    """A Gemma 3 whose attention has windows, the image's tokens inside or outside of them."""
    network, processor = tiny_families.gemma3()
    config = network.config
    config.text_config.sliding_window = window
    config.text_config.num_hidden_layers = layers
    config.text_config.layer_types = pattern * (layers // len(pattern))
    return random(transformers.Gemma3ForConditionalGeneration(config)), processor


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.families)],
    ids=str,
)
@pytest.mark.parametrize("window", [3, pytest.param(8, marks=pytest.mark.families), 64])
@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(["sliding_attention"], marks=pytest.mark.families),
        ["sliding_attention", "full_attention"],
    ],
    ids=len,
)
def test_gemma3_is_right_with_any_window(window, pattern, dtype):
    network, processor = gemma3_with_window(window, 2, pattern)
    # no line breaks are added around the image, so that nothing but its logits tells how it has to
    # be read
    processor.full_image_sequence = processor.full_image_sequence.strip()
    decoder = wrap_vision_language_model(
        spec("gemma3"), network.to(dtype), processor, "cpu"
    )
    assert isinstance(decoder, OwnForwardModel)
    assert "logits differ by" in decoder.forward_pass_reason
    for text in build_texts(decoder.placeholder)[::2]:
        error, own_error = compare(decoder, text)
        assert error <= 1e-4 + 4 * own_error


@pytest.mark.parametrize("share", [0.05, 0.005])
def test_differences_below_the_rounding_of_half_precision_are_seen(share, caplog):
    # attention adds little to the states, so that what the image's tokens see of each other changes
    # logits little
    network, processor = gemma3_with_window(512, 2, ["full_attention"])
    processor.full_image_sequence = processor.full_image_sequence.strip()
    for layer in network.base_model.language_model.layers:
        # The norm multiplies by 1 + weight.
        layer.post_attention_layernorm.weight.data.fill_(share - 1)
    with caplog.at_level(logging.WARNING):
        decoder = wrap_vision_language_model(
            spec("gemma3"), network.to(torch.bfloat16), processor, "cpu"
        )
    assert isinstance(decoder, OwnForwardModel)
    difference = float(
        decoder.forward_pass_reason.partition("differ by ")[2].split()[0]
    )
    assert 4 * share < difference < 8 * share
    assert decoder.forward_pass_reason in caplog.text


def mistral_vl(window):
    """A LLaVA on a Mistral whose window is shorter than its prompts."""
    words = tokenizer()
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(
            image_size=24, patch_size=8, **TOWER
        ),
        text_config=transformers.MistralConfig(
            vocab_size=len(words), sliding_window=window, **TEXT
        ),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
    )
    images = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 24},
        crop_size={"height": 24, "width": 24},
        do_center_crop=True,
    )
    processor = transformers.LlavaProcessor(
        images,
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    return random(transformers.LlavaForConditionalGeneration(config)), processor


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("window", [4, 12])
def test_a_decoder_with_a_window_shares_prefixes(window, dtype):
    decoder = wrap("llava", dtype, lambda family: mistral_vl(window))
    assert decoder.network.reuses_prefixes
    for text in build_texts(decoder.placeholder):
        error, own_error = compare(decoder, text)
        assert error <= 1e-4 + 4 * own_error


def test_rows_beyond_a_length_that_is_not_tested_are_read_whole():
    decoder = wrap("llava", torch.float32, lambda family: mistral_vl(4096))
    assert decoder.network.checked_length == 4096
    assert decoder.network.can_reuse(4096)
    assert not decoder.network.can_reuse(4097)
    assert "4096 positions" in decoder.forward_pass_reason


def hide_signature(network):
    """A network whose forward pass takes anything, as those of wrappers do."""
    forward = network.forward
    network.forward = lambda *arguments, **options: forward(*arguments, **options)
    return network


@pytest.mark.parametrize("family", ["internvl", "llava-onevision", "qwen2.5-vl"])
def test_a_hidden_signature_changes_nothing(family):
    network, processor = tiny_families.build(family)
    features = network.get_image_features
    network.get_image_features = lambda **options: features(**options)
    decoder = wrap_vision_language_model(
        spec(family), hide_signature(network), processor, "cpu"
    )
    assert decoder.network.reuses_prefixes
    assert compare(decoder, build_texts(decoder.placeholder)[2])[0] <= 1e-4


def test_the_log_and_the_record_say_why_prefixes_are_not_reused(caplog):
    decoder = tiny_decoders.causal("llama")
    network = decoder.network.model
    forward = network.forward

    def forward_without_cache(*arguments, cache=None, past_key_values=None, **options):
        return forward(*arguments, **options)

    network.forward = forward_without_cache
    with caplog.at_level(logging.WARNING):
        wrapped = language_model.wrap_language_model(
            spec("llama"), network, decoder.tokenizer, "cpu"
        )
    assert wrapped.describe_forward_pass()["forward_pass"] == "whole rows"
    assert (
        "no keys and values are returned"
        in wrapped.describe_forward_pass()["forward_pass_reason"]
    )
    assert wrapped.forward_pass_reason in caplog.text


def causal_kinds():
    ends = {"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 2}
    small = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    return {
        "llama": transformers.LlamaConfig(vocab_size=95, **TEXT),
        "mistral": transformers.MistralConfig(vocab_size=95, sliding_window=6, **TEXT),
        "gemma3": transformers.Gemma3TextConfig(
            vocab_size=95, head_dim=8, sliding_window=8, **TEXT
        ),
        "gpt_neo": transformers.GPTNeoConfig(
            vocab_size=95,
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=6,
            max_position_embeddings=256,
            **ends,
        ),
        "rwkv": transformers.RwkvConfig(
            vocab_size=95,
            hidden_size=32,
            num_hidden_layers=2,
            attention_hidden_size=32,
            context_length=256,
        ),
        # counts positions from 2, so that positions given from 0 are wrong
        "roberta": transformers.RobertaConfig(
            vocab_size=95,
            is_decoder=True,
            max_position_embeddings=256,
            pad_token_id=1,
            **small,
        ),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", list(causal_kinds()))
def test_prompts_of_different_lengths_have_the_values_of_prompts_alone(kind, dtype):
    network = random(
        transformers.AutoModelForCausalLM.from_config(
            causal_kinds()[kind], dtype=torch.float32
        )
    ).to(dtype)
    decoder = language_model.wrap_language_model(
        spec(kind), network, tokenizer(), "cpu"
    )
    prompts = [
        decoder.build_prompt(" ".join(WORDS[:count] * 2)) for count in (5, 6, 7, 10)
    ]
    values = score_targets_in_batches(decoder, prompts, TARGETS, "logit")

    @torch.inference_mode()
    def read(prompt):
        ids = torch.tensor([[*prompt.ids, *TARGETS[:-1]]])
        logits = network(input_ids=ids).logits[0, -len(TARGETS) :].double()
        return logits[range(len(TARGETS)), TARGETS].numpy()

    alone = np.stack([read(prompt) for prompt in prompts])
    with Float32Mode():
        exact = np.stack([read(prompt) for prompt in prompts])
    spread = exact.std()
    assert (
        np.abs(values - exact).max() / spread
        <= 1e-4 + 4 * np.abs(alone - exact).max() / spread
    )


def test_a_model_that_sees_later_tokens_is_refused_in_half_precision(monkeypatch):
    monkeypatch.setattr(own_forward, "CONTINUATION_VALUES", {})
    network, processor = tiny_families.build("paligemma")
    for layer in network.base_model.language_model.layers:
        layer.self_attn.v_proj.weight.data *= (
            0.2  # later tokens change logits by about as much as rounding
        )
    for dtype in DTYPES:
        with pytest.raises(UserError, match="see those behind them"):
            vision_loading.wrap_vision_language_model(
                spec("paligemma"), network.to(dtype), processor, "cpu"
            )
