"""ALBEF against a restatement of its specification and parts of transformers, and what is refused
of its files.
"""

import copy
import re

import pytest
import safetensors.torch
import torch
import transformers

from stand_ins.models import restated_albef as restated
from stand_ins.models.tiny_albef import (
    CONFIG,
    DECODER_DEPTH,
    POSITIONS,
    VOCABULARY,
    random_weights,
    retrieval_shapes,
)
from waltz.core.errors import UserError
from waltz.models.networks.albef import (
    load_answering_network,
    load_matching_network,
    resize_positions,
)
from waltz.models.networks.answer_trees import build_answer_trees
from waltz.models.networks.array_inputs import build_padding_bias

NEEDED = [
    key
    for key in retrieval_shapes(CONFIG)
    if key.startswith(("visual_encoder.", "text_encoder.", "itm_head."))
    and not key.endswith("position_ids")
]


def sized(**changes):
    """The tiny settings with some changed; `bert_` before those of the text side."""
    config = copy.deepcopy(CONFIG)
    for name, value in changes.items():
        (config["bert_config"] if name.startswith("bert_") else config)[
            name.removeprefix("bert_")
        ] = value
    return config


def saved(folder, weights):
    safetensors.torch.save_file(
        {key: value.contiguous().clone() for key, value in weights.items()},
        folder / "a.safetensors",
    )
    return folder / "a.safetensors"


def pairs(config, tokens=7, seed=1):
    draw = torch.Generator().manual_seed(seed)
    images = torch.randn(3, 3, config["image_res"], config["image_res"], generator=draw)
    return images, torch.randint(0, VOCABULARY, (3, tokens), generator=draw)


@torch.inference_mode()
def logits(network, images, ids, mask=None, segments=None):
    bias = None if mask is None else build_padding_bias(mask.float())
    return network.compute_logits(
        network.text_encoder.encode_text(ids, bias, segments),
        network.visual_encoder(images),
        bias,
    )


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        sized(image_res=40, patch_size=10, vision_depth=1),
        sized(vision_heads=1, bert_fusion_layer=2, bert_num_attention_heads=8),
        sized(bert_num_hidden_layers=2, bert_fusion_layer=0),
    ],
    ids=["tiny", "larger image", "other heads", "all layers see"],
)
@pytest.mark.parametrize("layout", ["retrieval", "pretrained"])
def test_logits_are_those_of_the_restatement(tmp_path, config, layout):
    weights = random_weights(layout, config)
    images, ids = pairs(config)
    computed_logits = logits(
        load_matching_network(saved(tmp_path, weights), config), images, ids
    )
    for row in range(3):
        expected = restated.match_logits(weights, config, images[row], ids[row])
        torch.testing.assert_close(
            computed_logits[row].double(), expected, rtol=0, atol=1e-5
        )
    assert computed_logits.std(dim=0).min() > 0.01


def test_padding_and_segments_are_those_of_the_restatement(tmp_path):
    weights = random_weights("retrieval")
    images, ids = pairs(CONFIG)
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3, [1] + [0] * 6])
    segments = torch.tensor([[0, 1, 0, 1, 1, 0, 0]] * 3)
    network = load_matching_network(saved(tmp_path, weights), CONFIG)
    computed_logits = logits(network, images, ids, mask, segments)
    for row in range(3):
        expected = restated.match_logits(
            weights, CONFIG, images[row], ids[row], mask[row], segments[row]
        )
        torch.testing.assert_close(
            computed_logits[row].double(), expected, rtol=0, atol=1e-5
        )
    cut = logits(network, images[1:2], ids[1:2, :4], segments=segments[1:2, :4])
    torch.testing.assert_close(computed_logits[1:2], cut, rtol=0, atol=1e-5)


def test_positions_of_the_pretrained_file_are_resized(tmp_path):
    weights = random_weights("pretrained")
    larger = sized(image_res=40)
    images, ids = pairs(larger)
    torch.save(
        {"model": weights, "epoch": 3, "config": {"image_res": 24}},
        tmp_path / "ALBEF.pth",
    )
    network = load_matching_network(tmp_path / "ALBEF.pth", larger)
    assert network.image_size == 40
    computed_logits = logits(network, images, ids)
    for row in range(3):
        expected = restated.match_logits(weights, larger, images[row], ids[row])
        torch.testing.assert_close(
            computed_logits[row].double(), expected, rtol=0, atol=1e-5
        )


def by_library(weights):
    """Weights of the image side under the names of transformers, which splits the matrix of
    attention.
    """
    state = {}
    for key, value in weights.items():
        if key.startswith("visual_encoder."):
            for name, theirs in LIBRARY.items():
                key = re.sub(name, theirs, key)
            parts = value.chunk(3) if "qkv" in key else (value,)
            state |= {
                key.replace("qkv", f"{letter}_proj"): part
                for letter, part in zip("qkv", parts, strict=False)
            }
    return state


LIBRARY = {
    r"^visual_encoder\.": "",
    r"^(cls_token)": r"embeddings.\1",
    r"^pos_embed": "embeddings.position_embeddings",
    r"^patch_embed\.proj": "embeddings.patch_embeddings.projection",
    r"^blocks": "layers",
    r"norm1": "layernorm_before",
    r"norm2": "layernorm_after",
    r"^norm": "layernorm",
    r"attn\.proj": "attention.o_proj",
    r"attn\.qkv": "attention.qkv",
}


@torch.inference_mode()
def test_images_are_seen_as_by_the_library(tmp_path):
    weights = random_weights("retrieval")
    vit = transformers.ViTConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=48,
        image_size=24,
        patch_size=8,
        layer_norm_eps=1e-6,
    )
    library = transformers.ViTModel(vit, add_pooling_layer=False).eval()
    library.load_state_dict(by_library(weights))
    images, _ = pairs(CONFIG)
    states = load_matching_network(saved(tmp_path, weights), CONFIG).visual_encoder(
        images
    )
    torch.testing.assert_close(
        states, library(pixel_values=images).last_hidden_state, rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(("old", "new"), [(16, 24), (5, 3), (1, 2)])
def test_resized_positions_are_keys_cubic_interpolation(old, new):
    given = torch.randn(1, old * old + 1, 3, generator=torch.Generator().manual_seed(0))
    weights = {"visual_encoder.pos_embed": given.double()}
    torch.testing.assert_close(
        resize_positions(given, old, new)[0].double(),
        restated.positions(weights, new),
        rtol=0,
        atol=1e-5,
    )
    assert torch.equal(resize_positions(given, old, old), given)


def test_shapes_alone_say_the_size(tmp_path):
    config = sized(
        vision_width=128,
        vision_heads=2,
        bert_hidden_size=64,
        bert_num_attention_heads=1,
        bert_encoder_width=128,
    )
    weights = random_weights("retrieval", config)
    images, ids = pairs(config)
    expected = restated.match_logits(weights, config, images[0], ids[0])
    computed_logits = logits(
        load_matching_network(saved(tmp_path, weights)), images[:1], ids[:1]
    )[0]
    torch.testing.assert_close(computed_logits.double(), expected, rtol=0, atol=3e-5)


def test_heads_that_no_shape_determines_must_be_configured(tmp_path):
    file = saved(tmp_path, random_weights("retrieval"))
    with pytest.raises(
        UserError,
        match=r"a\.safetensors: width 24 is not a multiple of 64; set vision_heads",
    ):
        load_matching_network(file)
    with pytest.raises(UserError, match="vision_heads 5 does not divide the width 24"):
        load_matching_network(file, sized(vision_heads=5))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"vision_width": 48},
            r"of another shape visual_encoder\.cls_token 1x1x24 for 1x1x48, .* and \d+ more",
        ),
        (
            {"vision_depth": 3},
            r"lacks visual_encoder\.blocks\.2\.norm1\.weight, .* and 4 more",
        ),
        ({"vision_depth": 1}, r"unexpected visual_encoder\.blocks\.1\."),
        (
            {"bert_fusion_layer": 0},
            r"lacks text_encoder\.encoder\.layer\.0\.crossattention\.",
        ),
        (
            {"bert_fusion_layer": 2},
            r"unexpected text_encoder\.encoder\.layer\.1\.crossattention\.",
        ),
        ({"bert_hidden_act": "relu"}, r"hidden_act: unsupported \(got 'relu'"),
        (
            {"bert_num_attention_heads": "two"},
            "num_attention_heads: 'two' is not a positive whole number",
        ),
        ({"image_res": 25}, "image_res 25 is not a multiple of patch_size 8"),
        (
            {"bert_config": "config_bert.json"},
            "bert_config: 'config_bert.json' is not a mapping",
        ),
    ],
)
def test_settings_that_the_file_contradicts_are_refused(tmp_path, changes, fault):
    config = CONFIG | changes if "bert_config" in changes else sized(**changes)
    with pytest.raises(UserError, match=fault) as raised:
        load_matching_network(saved(tmp_path, random_weights("retrieval")), config)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("layout", ["retrieval", "pretrained"])
def test_momentum_copies_and_what_training_compared_with_do_not_count(tmp_path, layout):
    weights = random_weights(layout)
    remaining = {
        key: value
        for key, value in weights.items()
        if key.startswith(("visual_encoder.", "text_encoder.", "itm_head."))
        and ".cls." not in key
    }
    assert len(remaining) < len(weights) / 1.9
    images, ids = pairs(CONFIG)
    given, alone = (
        logits(load_matching_network(saved(tmp_path, part), CONFIG), images, ids)
        for part in (weights, remaining)
    )
    assert torch.equal(given, alone)


def test_each_weight_is_needed(tmp_path, monkeypatch):
    weights = random_weights("retrieval")
    assert len(NEEDED) == 105
    for key in NEEDED:
        left = {name: value for name, value in weights.items() if name != key}
        monkeypatch.setattr(
            "waltz.models.checkpoint_file.read_checkpoint", lambda file, left=left: left
        )
        with pytest.raises(UserError, match=rf"a\.pth: lacks {key}[;,]"):
            load_matching_network(tmp_path / "a.pth", CONFIG)


def test_a_file_that_answers_has_no_matching_head(tmp_path):
    file = saved(tmp_path, random_weights("answering"))
    with pytest.raises(
        UserError,
        match=rf"models\.albef-vqa: {file}: lacks itm_head\.weight, itm_head\.bias;",
    ):
        load_matching_network(file, CONFIG, "albef-vqa")
    with pytest.raises(UserError, match=r"lacks text_decoder\.bert\."):
        load_answering_network(saved(tmp_path, random_weights("retrieval")), CONFIG)


def test_entailment_is_no_matching_and_strange_weights_are_listed(tmp_path):
    weights = random_weights("retrieval")
    moved = {
        key.replace("itm_head", "cls_head.2"): value for key, value in weights.items()
    }
    fault = r"lacks itm_head\.weight, itm_head\.bias; has unexpected cls_head\.2\.bias, cls_head\.2\.weight;"
    with pytest.raises(UserError, match=fault):
        load_matching_network(saved(tmp_path, moved), CONFIG)
    strange = {
        f"text_encoder.encoder.layer.2.attention.self.distance_{n}": torch.zeros(2)
        for n in range(11)
    }
    with pytest.raises(UserError, match=r"distance_0, .* and 3 more"):
        load_matching_network(saved(tmp_path, weights | strange), CONFIG)
    load_matching_network(
        saved(tmp_path, weights | strange),
        CONFIG,
        "mine",
        {"*.distance_*": "is not used without relative heads"},
    )


def test_texts_longer_than_the_positions_are_not_read(tmp_path):
    assert (
        load_matching_network(
            saved(tmp_path, random_weights("retrieval")), CONFIG
        ).longest
        == POSITIONS
    )


START, END = 2, 3
ANSWERS = [(5,), (6, 7), (6, 7, 8), (6,), (9, 5, 5, 6), (5,), (6, 9)]
"""Some begin alike, one continues another, one is there twice."""


@pytest.fixture(scope="module")
def weights():
    return random_weights("answering")


@pytest.fixture(scope="module")
def network(weights, tmp_path_factory):
    file = tmp_path_factory.mktemp("answering") / "vqa.pth"
    torch.save(weights, file)
    return load_answering_network(file, CONFIG)


@pytest.fixture(scope="module")
def bert(weights):
    """The decoder of the library."""
    sizes = CONFIG["bert_config"]
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=sizes["hidden_size"],
        num_hidden_layers=DECODER_DEPTH,
        num_attention_heads=sizes["num_attention_heads"],
        intermediate_size=sizes["intermediate_size"],
        max_position_embeddings=POSITIONS,
        is_decoder=True,
        add_cross_attention=True,
        attn_implementation="eager",
        tie_word_embeddings=False,
    )
    decoder = transformers.BertLMHeadModel(config).eval()
    own = {
        key.removeprefix("text_decoder."): value
        for key, value in weights.items()
        if "text_decoder." in key
    }
    problems = decoder.load_state_dict(own, strict=False)
    assert not problems.missing_keys
    return decoder


@torch.inference_mode()
def likelihood(bert, question, answer):
    ids = torch.tensor([[START, *answer, END]])
    logits = (
        bert(input_ids=ids[:, :-1], encoder_hidden_states=question[None])
        .logits[0]
        .log_softmax(dim=-1)
    )
    return float(logits.double().gather(1, ids[0, 1:, None]).sum())


@torch.inference_mode()
@pytest.mark.parametrize("nodes", [512, 5, 1])
def test_likelihoods_are_those_of_the_library(network, bert, nodes):
    question = torch.randn(
        3,
        6,
        CONFIG["bert_config"]["hidden_size"],
        generator=torch.Generator().manual_seed(0),
    )
    losses = network.text_decoder(
        question, build_answer_trees(ANSWERS, START, END, "cpu", nodes)
    )
    assert losses.shape == (3, len(ANSWERS))
    expected = torch.tensor(
        [
            [likelihood(bert, states, answer) for answer in ANSWERS]
            for states in question
        ]
    )
    torch.testing.assert_close(losses, expected, rtol=0, atol=1e-5)
    assert losses.std(dim=0).min() > 1e-3
    assert torch.equal(losses[:, 0], losses[:, 5])


@torch.inference_mode()
def test_the_question_is_read_as_the_restatement_reads_it(network, weights):
    draw = torch.Generator().manual_seed(2)
    image, ids = (
        torch.randn(3, 24, 24, generator=draw),
        torch.randint(0, VOCABULARY, (5,), generator=draw),
    )
    double = {key: value.double() for key, value in weights.items()}
    patches = restated.seen(double, image.double(), CONFIG["vision_heads"])
    expected = restated.read(
        double, ids, CONFIG["bert_config"]["num_attention_heads"], patches
    )
    states = network.text_encoder.fuse(
        network.text_encoder.encode_text(ids[None]), network.visual_encoder(image[None])
    )
    torch.testing.assert_close(states[0].double(), expected, rtol=0, atol=1e-5)
