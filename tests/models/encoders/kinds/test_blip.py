"""BLIP's matching head, taken apart into text, image and fusion: the logits of the transformers
forward pass.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from PIL import Image

from stand_ins.models import tiny_towers
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import EncoderCoalitions, build_published_players
from waltz.models.encoders.kinds.blip import Blip
from waltz.models.encoders.vqa import answer_question
from waltz.models.resolve_name import resolve_encoder

MATCHER = Path("resources/scenes/models/matcher")


def tiny(dtype=torch.float64, layers=3, noise=0.4):
    """Random weights, large enough that neither side is drowned."""
    torch.manual_seed(0)
    shape = {
        "num_attention_heads": 4,
        "num_hidden_layers": layers,
        "intermediate_size": 48,
    }
    text = shape | {
        "hidden_size": 48,
        "encoder_hidden_size": 40,
        "vocab_size": 120,
        "max_position_embeddings": 32,
    }
    text |= {"bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3}
    vision = shape | {"hidden_size": 40, "image_size": 48, "patch_size": 8}
    network = transformers.BlipForImageTextRetrieval(
        transformers.BlipConfig(text_config=text, vision_config=vision)
    ).eval()
    with torch.no_grad():
        for weights in network.parameters():
            weights.add_(
                torch.randn_like(weights), alpha=noise if weights.ndim > 1 else 0.1
            )
    return Blip(ModelSpec("tiny"), "cpu", network.to(dtype), None, 32, None)


@torch.inference_mode()
def both(encoder, ids, images):
    """Logits of a match over a mismatch: of the whole network, and of its parts."""
    network_logits = encoder.network(
        input_ids=ids, pixel_values=images.to(encoder.network.dtype)
    ).itm_score.float()
    return network_logits[:, 1] - network_logits[:, 0], encoder.fuse(
        encoder.encode_text(ids), encoder.encode_image(images.to(encoder.network.dtype))
    )


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 2, 30])
def test_parts_give_the_logits_of_the_network(layers, length):
    ids = torch.randint(4, 120, (5, length), generator=torch.Generator().manual_seed(1))
    images = torch.randn(5, 3, 48, 48, generator=torch.Generator().manual_seed(2))
    expected, logits = both(tiny(layers=layers), ids, images.double())
    assert expected.std() > 0.3
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-6)


def test_half_the_precision_gives_nearly_the_same():
    ids, images = torch.randint(4, 120, (6, 9)), torch.randn(6, 3, 48, 48)
    expected, _ = both(tiny(torch.float32, noise=0.15), ids, images)
    _, logits = both(tiny(torch.bfloat16, noise=0.15), ids, images)
    assert logits.dtype == torch.float32
    error = (logits - expected).abs().max() / expected.abs().max()
    assert 1e-5 < error < 0.05


@pytest.fixture(scope="module")
def matcher():
    return load_encoder(
        ModelSpec("matcher", "blip", str(MATCHER), "local"), Device("cpu", 1, "test")
    )


def test_the_scenes_matcher_gives_its_own_probability(matcher):
    picture = Image.fromarray(
        np.random.default_rng(0).integers(0, 255, (90, 120, 3), dtype=np.uint8)
    )
    image, words = (
        matcher.prepare_image(picture),
        matcher.tokenize("there are two cats on the table."),
    )
    inputs = {"input_ids": torch.tensor([words.ids]), "pixel_values": image[None]}
    with torch.inference_mode():
        expected = matcher.network(**inputs).itm_score.softmax(dim=-1)[0, 1]
        logit = matcher.fuse(
            matcher.encode_text(torch.tensor([words.ids])),
            matcher.encode_image(image[None]),
        )
    assert matcher.probability
    assert float(torch.sigmoid(logit)[0]) == pytest.approx(float(expected), abs=1e-5)


def test_coalitions_have_the_values_of_the_network(matcher):
    image = matcher.prepare_image(
        Image.fromarray(
            np.random.default_rng(1).integers(0, 255, (90, 120, 3), dtype=np.uint8)
        )
    )
    players = build_published_players(matcher, matcher.tokenize("a dog runs."), image)
    masks = np.random.default_rng(2).random((20, len(players))) < 0.5
    values = EncoderCoalitions(matcher, image, [players], torch.sigmoid).values(
        [masks]
    )[0][:, 0]
    with torch.inference_mode():
        network_logits = matcher.network(
            input_ids=players.mask_text(masks[:, : players.n_text_players]),
            pixel_values=players.mask_image(image, masks[:, players.n_text_players :]),
        ).itm_score.softmax(dim=-1)[:, 1]
    np.testing.assert_allclose(values, network_logits.numpy(), rtol=0, atol=1e-5)


def test_too_long_a_text_is_refused(matcher):
    with pytest.raises(UserError, match=r"matcher: \d+ tokens, at most 64 are read"):
        matcher.tokenize("cat " * 80)


def test_a_checkpoint_without_the_head_is_refused(tmp_path):
    for file in MATCHER.iterdir():
        if file.suffix == ".json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = safetensors.torch.load_file(MATCHER / "model.safetensors")
    remaining = {
        name: tensor
        for name, tensor in weights.items()
        if not name.startswith("itm_head")
    }
    safetensors.torch.save_file(
        remaining, tmp_path / "model.safetensors", metadata={"format": "pt"}
    )
    with pytest.raises(UserError, match="lacks the weights of itm_head"):
        load_encoder(
            ModelSpec("headless", "blip", str(tmp_path), "local"),
            Device("cpu", 1, "test"),
        )


ANSWERS = ["yes", "a dog", "a dog runs", "two"]


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    """A tiny BLIP for questions with a list of answers, loaded from its folder by its name."""
    towers, tokenizer, processor = tiny_towers.TOWERS["blip"]()
    torch.manual_seed(0)
    network = transformers.BlipForQuestionAnswering(towers.config).eval()
    with torch.no_grad():
        for weights in network.parameters():
            weights.add_(torch.randn_like(weights), alpha=0.4)
    folder = tmp_path_factory.mktemp("answering")
    for part in (network, tokenizer, processor):
        part.save_pretrained(folder)
    (folder / "answers.json").write_text(json.dumps(ANSWERS), encoding="utf-8")
    spec = resolve_encoder(str(folder))
    assert spec.kind == "blip-answering"
    return load_encoder(spec, Device("cpu", 1, "test"))


@torch.inference_mode()
def test_answers_have_the_losses_of_the_network_s_own_forward_pass(answering):
    network, tokenizer = answering.network, answering.tokenizer
    levels = np.random.default_rng(3).integers(0, 255, (40, 30, 3), dtype=np.uint8)
    image = answering.prepare_image(Image.fromarray(levels))
    question = answering.tokenize("the red horse rides")
    ids = torch.tensor([question.ids])
    logits = answering.fuse(
        answering.encode_text(ids), answering.encode_image(image[None])
    )[0]
    expected = []
    for answer in ANSWERS:
        tokens = tokenizer(answer, add_special_tokens=False)["input_ids"]
        labels = torch.tensor([[2, *tokens, 3]])
        network.text_decoder.label_smoothing = 0.0
        loss = network(input_ids=ids, pixel_values=image[None], labels=labels).loss
        expected.append(-float(loss) * (labels.shape[1] - 1))
    assert np.std(expected) > 0.3
    np.testing.assert_allclose(logits.numpy(), expected, rtol=0, atol=1e-4)
    given = answer_question(answering, image, "the red horse rides")
    assert given.text == ANSWERS[int(np.argmax(expected))]


@torch.inference_mode()
def test_other_answers_have_the_probabilities_that_they_have_in_the_list(answering):
    image = answering.prepare_image(Image.new("RGB", (30, 30), "red"))
    ids = torch.tensor([answering.tokenize("the horse").ids])
    states = answering.encode_text(ids), answering.encode_image(image[None])
    limited = answering.limit_answers(["two", "yes"])
    expected = answering.fuse(*states)[:, [3, 0]]
    torch.testing.assert_close(limited.fuse(*states), expected, rtol=0, atol=1e-5)
    with pytest.raises(UserError, match="labels: missing"):
        answer_question(answering.limit_answers([]), image, "the horse")
