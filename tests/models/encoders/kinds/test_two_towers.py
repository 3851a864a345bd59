"""Networks with two towers of any class, against all coalitions by their own forward pass."""

import itertools

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import waltz
from stand_ins.family_marks import mark_families
from stand_ins.models.tiny_encoders import build
from stand_ins.models.tiny_towers import TOWERS, build_towers, siglip2
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec, resolve_model
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import (
    EncoderCoalitions,
    build_equations_players,
)
from waltz.models.resolve_name import detect_encoder_kind

CPU = Device("cpu", 1, "a test")
ALL_TOWERS = mark_families(
    TOWERS, "altclip", "owlvit detecting", "vision-text-dual-encoder"
)
TEXT = "two cat sleeps"


def save(folder, build):
    parts = build_towers(build)
    for part in parts:
        part.save_pretrained(folder)
    return parts


def load(folder):
    kind = detect_encoder_kind(str(folder), "")
    return load_encoder(ModelSpec("mine", kind, str(folder), "local"), CPU)


def compute_values(encoder, picture):
    """The masks of all coalitions of three words and four patches, and their values."""
    image = encoder.prepare_image(picture)
    players = build_equations_players(encoder, encoder.tokenize(TEXT), image, grid=2)
    masks = np.array(list(itertools.product([False, True], repeat=len(players))))
    assert masks.shape == (128, 7)
    game = EncoderCoalitions(encoder, image, [players], lambda logits: logits)
    return masks, game.values([masks])[0][:, 0]


def mask_ids(encoder, tokenizer, visible):
    """The ids of the text with some words hidden, which follow at most a start token."""
    ids = torch.tensor(tokenizer(TEXT)["input_ids"])
    words = [index for index, name in enumerate(ids) if int(name) > 4]
    assert len(words) == 3
    for index, shown in zip(words, visible, strict=True):
        if not shown:
            ids[index] = encoder.masked_id
    return ids[None]


def mask_quarters(pixels, visible):
    """Pixels of shape (1, 3, height, width) with some quarters set to zero."""
    masked = pixels.clone()
    middle, centre = (length // 2 for length in pixels.shape[-2:])
    rows = [slice(0, middle), slice(middle, None)]
    columns = [slice(0, centre), slice(centre, None)]
    for (row, column), shown in zip(
        itertools.product(rows, columns), visible, strict=True
    ):
        if not shown:
            masked[..., row, column] = 0
    return masked


@pytest.mark.parametrize("name", ALL_TOWERS)
@torch.inference_mode()
def test_all_coalitions_have_the_logits_of_the_forward_pass(tmp_path, pictures, name):
    network, tokenizer, _ = save(tmp_path, TOWERS[name])
    assert detect_encoder_kind(str(tmp_path), "") == "two-towers"
    encoder = load(tmp_path)
    masks, values = compute_values(encoder, pictures[1])
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil")
    pixels = processor(images=pictures[1], return_tensors="pt")["pixel_values"]
    own = []
    for mask in masks:
        ids = mask_ids(encoder, tokenizer, mask[:3])
        output = network.base_model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            pixel_values=mask_quarters(pixels, mask[3:]),
        )
        own.append(float(output.logits_per_image))
    np.testing.assert_allclose(values, own, rtol=1e-6, atol=2e-5)
    assert np.std(own) > 1e-2


@torch.inference_mode()
def test_all_coalitions_of_siglip_2_have_the_logits_of_its_padded_forward_pass(
    tmp_path, pictures
):
    network, tokenizer, _ = save(tmp_path, siglip2)
    encoder = load(tmp_path)
    masks, values = compute_values(encoder, pictures[1])
    inputs = transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil")(
        images=pictures[1], return_tensors="pt"
    )
    rows, columns = inputs["spatial_shapes"][0].tolist()
    assert (rows, columns) == (4, 3)  # 12 patches of 16, the image is not square
    own = []
    for mask in masks:
        ids = torch.nn.functional.pad(
            mask_ids(encoder, tokenizer, mask[:3]), (0, 10), value=1
        )
        patches = inputs["pixel_values"].clone()
        for row, column in itertools.product(range(rows), range(columns)):
            for line, place in itertools.product(range(8), range(8)):
                y, x = row * 8 + line, column * 8 + place
                if not mask[3 + 2 * (y >= 16) + (x >= 12)]:
                    start = (line * 8 + place) * 3
                    patches[0, row * columns + column, start : start + 3] = 0
        output = network(input_ids=ids, **{**inputs, "pixel_values": patches})
        own.append(float(output.logits_per_image))
    np.testing.assert_allclose(values, own, rtol=1e-6, atol=2e-5)
    assert np.std(own) > 1e-2
    assert encoder.probability


@pytest.mark.parametrize("name", ALL_TOWERS)
@torch.inference_mode()
def test_a_text_is_read_to_the_last_position(tmp_path, name):
    save(tmp_path, TOWERS[name])
    encoder = load(tmp_path)
    ends = sum(encoder.tokenize("dog").special)
    words = ["dog"] * (encoder.max_tokens - ends)
    full = encoder.tokenize(" ".join(words))
    assert encoder.max_tokens == 20
    assert encoder.encode_text(torch.tensor([full.ids]))[0].isfinite().all()
    with pytest.raises(UserError, match="21 tokens, at most 20 are read"):
        encoder.tokenize(" ".join([*words, "dog"]))


def test_a_tokenizer_that_reads_fewer_tokens_than_the_network_limits_the_text(tmp_path):
    parts = build_towers(TOWERS["chinese_clip"])
    parts[1].model_max_length = 12
    for part in parts:
        part.save_pretrained(tmp_path)
    assert load(tmp_path).max_tokens == 12


def test_a_logit_that_is_not_that_of_the_vectors_is_refused(tmp_path, monkeypatch):
    save(tmp_path, TOWERS["altclip"])
    forward = transformers.AltCLIPModel.forward

    def change(self, **inputs):
        output = forward(self, **inputs)
        output.logits_per_image = output.logits_per_image + 1
        return output

    monkeypatch.setattr(transformers.AltCLIPModel, "forward", change)
    with pytest.raises(
        UserError,
        match="the logit of AltCLIPModel is not the scaled cosine of its vectors",
    ):
        load(tmp_path)


@pytest.mark.parametrize("name", ["altclip", "owlvit detecting"])
def test_a_loaded_network_with_its_processor_is_explained(pictures, name):
    network, tokenizer, images = build_towers(TOWERS[name])
    processor_class = {
        "altclip": transformers.AltCLIPProcessor,
        "owlvit detecting": transformers.OwlViTProcessor,
    }[name]
    processor = processor_class(image_processor=images, tokenizer=tokenizer)
    explanation = waltz.Explainer(network, processor).explain(pictures[0], TEXT)
    pixels = images(images=pictures[0], return_tensors="pt")["pixel_values"]
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    with torch.inference_mode():
        own = network.base_model(
            input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=pixels
        )
    assert explanation.score == pytest.approx(float(own.logits_per_image), abs=1e-4)


@pytest.mark.parametrize(
    ("config_class", "class_name", "reason"),
    [
        (transformers.XCLIPConfig, "XCLIPModel", "it reads videos"),
        (
            transformers.VisualBertConfig,
            "VisualBertForVisualReasoning",
            "it compares two images",
        ),
        (
            transformers.GroundingDinoConfig,
            "GroundingDinoForObjectDetection",
            "it finds objects in an image",
        ),
        (transformers.BertConfig, "BertModel", "is not a kind of encoder"),
    ],
)
def test_a_network_that_gives_no_score_is_refused_with_reason_and_a_way_on(
    tmp_path, config_class, class_name, reason
):
    config_class(architectures=[class_name]).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=f"{reason}.*; explain a function of it"):
        detect_encoder_kind(str(tmp_path), "")


@pytest.mark.parametrize("with_processor", [False, True])
def test_a_loaded_network_that_reads_regions_is_refused_in_one_true_line(
    with_processor,
):
    network, tokenizer = build("lxmert")
    processor = tokenizer
    if with_processor:
        images = transformers.CLIPImageProcessor()
        processor = transformers.CLIPProcessor(
            image_processor=images, tokenizer=tokenizer
        )
    with pytest.raises(
        UserError, match="LxmertForPreTraining: reads regions of an image"
    ):
        waltz.Explainer(network.eval(), processor)


def test_the_towers_of_flava_alone_have_the_score_of_its_contrastive_head(tmp_path):
    network, *parts = build("flava")
    for part in (network.flava, *parts):
        part.save_pretrained(tmp_path / "towers")
    for part in (network, *parts):
        part.save_pretrained(tmp_path / "whole")
    picture = Image.new("RGB", (32, 32), "red")
    assert detect_encoder_kind(str(tmp_path / "towers"), "") == "flava-contrastive"
    towers = waltz.Explainer(str(tmp_path / "towers")).explain(picture, "a dog")
    spec = resolve_model(
        "whole", {"kind": "flava-contrastive", "weights": str(tmp_path / "whole")}
    )
    whole = waltz.Explainer(spec).explain(picture, "a dog")
    assert towers.score == pytest.approx(whole.score, rel=1e-6)
