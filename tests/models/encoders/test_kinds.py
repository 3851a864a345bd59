"""Each kind of encoder against the forward pass of its own transformers model."""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from stand_ins.family_marks import mark_families
from stand_ins.models.tiny_encoders import (
    ANSWERS,
    BUILDERS,
    TEXTS,
    build,
    gemma_tokenizer,
)
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.regions import load_image_or_regions
from waltz.models.resolve_name import detect_encoder_kind

CPU = Device("cpu", 1, "a test")
SEEING_REGIONS = ("lxmert", "lxmert-answering", "visual-bert")
SEEING_PIXELS = tuple(kind for kind in BUILDERS if kind not in SEEING_REGIONS)
ALL_KINDS = mark_families(BUILDERS, "clip", "siglip", "vilt", "lxmert")
"""Late fusion, late fusion with padding and a bias, early fusion of patches, and of regions, stand
for the others.
"""
ALL_SEEING_PIXELS = mark_families(SEEING_PIXELS, "clip", "siglip", "vilt")
MATCHING = {
    "flava": "itm_head.seq_relationship",
    "blip-2": "itm_head",
    "bridgetower": "itm_score.fc",
    "lxmert": "cls.seq_relationship",
    "visual-bert": "cls.seq_relationship",
}
"""Kinds with a head of two outputs, by the name of its last layer."""


@pytest.fixture
def load(checkpoint, regions):
    """Loads the tiny checkpoint of a kind."""

    def loaded(kind, **entry):
        if kind in SEEING_REGIONS:
            entry.setdefault("regions", str(regions))
        if kind == "lxmert-answering":
            (checkpoint(kind) / "answers.json").write_text(
                str(list(ANSWERS)).replace("'", '"')
            )
            entry.setdefault("answers", "answers.json")
        spec = ModelSpec(
            kind, kind=kind, weights=str(checkpoint(kind)), revision="local", **entry
        )
        return load_encoder(spec, CPU)

    return loaded


def shown(encoder, pictures):
    """What each of three images is to an encoder."""
    return [
        encoder.prepare_image(
            load_image_or_regions(encoder, f"{index}.jpg", lambda image=image: image)
        )
        for index, image in enumerate(pictures)
    ]


def ids_of(encoder, text):
    return torch.tensor([encoder.tokenize(text).ids])


def forward(kind, network, ids, image, tokenizer):
    """The logit of one pair by transformers' own forward pass, all inputs named as its processor
    names them.
    """
    here = torch.ones_like(ids)
    pixels = {"pixel_values": image[None]}
    if kind in ("clip", "align", "metaclip-2"):
        return network(input_ids=ids, attention_mask=here, **pixels).logits_per_image[0]
    if kind == "siglip":
        text = tokenizer.decode(ids[0, :-1])
        padded = tokenizer(
            text, padding="max_length", max_length=14, return_tensors="pt"
        )
        return network(input_ids=padded["input_ids"], **pixels).logits_per_image[0]
    if kind == "flava-contrastive":
        # The towers alone have no logits in transformers.
        whole = transformers.FlavaForPreTraining(network.config).eval()
        whole.flava = network
        return whole(
            input_ids=ids, **pixels, return_loss=False
        ).contrastive_logits_per_image[0]
    if kind == "bridgetower":
        return odds(network(input_ids=ids, attention_mask=here, **pixels).logits, 1)
    if kind in ("vilt", "vilt-answering"):
        seen = torch.ones((1, *image.shape[1:]), dtype=torch.long)
        return network(
            input_ids=ids, attention_mask=here, pixel_mask=seen, **pixels
        ).logits[0]
    if kind == "flava":
        unmasked = torch.zeros(
            (1, (image.shape[1] // 8) * (image.shape[2] // 8)), dtype=torch.bool
        )
        masked = {
            "input_ids_masked": ids,
            "bool_masked_pos": unmasked,
            "return_loss": False,
        }
        return odds(
            network(input_ids=ids, attention_mask=here, **pixels, **masked).itm_logits,
            1,
        )
    if kind == "blip-2":
        output = network(
            input_ids=ids,
            attention_mask=here,
            use_image_text_matching_head=True,
            **pixels,
        )
        return odds(output.logits_per_image, 1)
    features, boxes = image[..., :-4], image[..., -4:]
    if kind == "visual-bert":
        return odds(
            network(input_ids=ids, visual_embeds=features).seq_relationship_logits, 0
        )
    output = network(
        input_ids=ids, attention_mask=here, visual_feats=features, visual_pos=boxes
    )
    return (
        output.question_answering_score[0]
        if kind == "lxmert-answering"
        else odds(output.cross_relationship_score, 1)
    )


def odds(logits, match):
    return logits[:, match] - logits[:, 1 - match]


@pytest.mark.parametrize("kind", ALL_KINDS)
@torch.inference_mode()
def test_text_side_image_side_and_fusion_together_are_the_forward_pass(
    load, pictures, kind
):
    encoder = load(kind)
    images = shown(encoder, pictures)
    logits = []
    for text in TEXTS:
        ids = ids_of(encoder, text)
        for image in images:
            logit = encoder.fuse(
                encoder.encode_text(ids), encoder.encode_image(image[None])
            )[0]
            expected = forward(kind, encoder.network, ids, image, encoder.tokenizer)
            assert logit.numpy() == pytest.approx(
                expected.squeeze().numpy(), abs=1e-5, rel=1e-5
            )
            logits.append(logit)
    assert torch.stack(logits).reshape(9, -1).std(dim=0).min() > 1e-3


@pytest.mark.parametrize("kind", ALL_KINDS)
@torch.inference_mode()
def test_rows_do_not_mix(load, pictures, kind):
    encoder = load(kind)
    first = shown(encoder, pictures)[0]
    images = torch.stack([first, first.flip(-2), first * 0.5])
    ids = ids_of(encoder, TEXTS[1])
    texts = torch.cat([ids, torch.where(ids == ids[0, 1], encoder.masked_id, ids), ids])
    together = encoder.fuse(encoder.encode_text(texts), encoder.encode_image(images))
    for row in range(3):
        alone = encoder.fuse(
            encoder.encode_text(texts[row][None]),
            encoder.encode_image(images[row][None]),
        )[0]
        assert together[row].numpy() == pytest.approx(alone.numpy(), abs=1e-5)


@pytest.mark.parametrize("kind", ALL_KINDS)
@torch.inference_mode()
def test_brain_floats_give_nearly_the_same_logit_as_float32(load, pictures, kind):
    logits = []
    for dtype in ("float32", "bfloat16"):
        encoder = load(kind, dtype=dtype)
        image = shown(encoder, pictures)[1]
        logit = encoder.fuse(
            encoder.encode_text(ids_of(encoder, TEXTS[1])),
            encoder.encode_image(image[None]),
        )
        assert logit.dtype == torch.float32
        logits.append(logit[0].numpy())
    assert logits[1] == pytest.approx(logits[0], abs=0.1, rel=0.1)


@pytest.mark.parametrize("kind", mark_families(MATCHING, "lxmert", "visual-bert"))
@torch.inference_mode()
def test_a_network_that_prefers_a_match_scores_high(load, pictures, kind):
    match = {"visual-bert": 0}.get(kind, 1)
    encoder = load(kind)
    head = encoder.network.get_submodule(MATCHING[kind])
    head.weight.zero_()
    head.bias.copy_(torch.tensor([3.0, -1.0] if match == 0 else [-1.0, 3.0]))
    pair = (
        encoder.encode_text(ids_of(encoder, TEXTS[0])),
        encoder.encode_image(shown(encoder, pictures)[0][None]),
    )
    assert encoder.probability
    assert encoder.fuse(*pair).tolist() == pytest.approx([4.0])


@pytest.mark.parametrize(
    "kind",
    mark_families(
        ["clip", "metaclip-2", "siglip", "align", "flava-contrastive"], "clip", "siglip"
    ),
)
@torch.inference_mode()
def test_late_fusion_is_a_scaled_product_of_unit_vectors_plus_a_bias(
    load, pictures, kind
):
    encoder = load(kind)
    text, image = (
        encoder.encode_text(ids_of(encoder, TEXTS[1]))[0],
        encoder.encode_image(shown(encoder, pictures)[0][None])[0],
    )
    assert encoder.late
    assert [float(text.norm()), float(image.norm())] == pytest.approx([1, 1])
    product = float(text[0].double() @ image[0].double())
    assert float(encoder.fuse((text,), (image,))) == pytest.approx(
        encoder.scale * product + encoder.bias, abs=1e-5
    )
    assert (encoder.bias != 0) == (kind == "siglip")


def test_siglips_padding_is_no_token(load):
    encoder = load("siglip")
    text = encoder.tokenize("a dog")
    assert text.tokens == ("a", "dog", "</s>")
    assert text.special == (False, False, True)
    assert encoder.probability
    assert encoder.padded_length == 14


@torch.inference_mode()
def test_siglip_pads_to_the_length_of_its_tokenizer(pictures, tmp_path):
    network, tokenizer, processor = build("siglip")
    tokenizer.model_max_length = 9
    for part in (network, tokenizer, processor):
        part.save_pretrained(tmp_path)
    encoder = load_encoder(
        ModelSpec("short", kind="siglip", weights=str(tmp_path), revision="local"), CPU
    )
    image = shown(encoder, pictures)[0]
    logit = encoder.fuse(
        encoder.encode_text(ids_of(encoder, "a dog")), encoder.encode_image(image[None])
    )
    padded = tokenizer("a dog", padding="max_length", return_tensors="pt")["input_ids"]
    assert padded.shape == (1, 9)
    expected = encoder.network(
        input_ids=padded, pixel_values=image[None]
    ).logits_per_image[0]
    assert logit.numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    with pytest.raises(UserError, match="10 tokens, at most 9 are read"):
        encoder.tokenize("a dog " * 4 + "a")


@pytest.mark.parametrize("side", ["right", "left"])
@torch.inference_mode()
def test_siglip_2_reads_gemmas_tokens_padded_to_its_full_length(
    pictures, tmp_path, side
):
    network, _, processor = BUILDERS["siglip"]()
    tokenizer = gemma_tokenizer(side)
    for part in (network, tokenizer, processor):
        part.save_pretrained(tmp_path)
    encoder = load_encoder(
        ModelSpec("siglip2", kind="siglip", weights=str(tmp_path), revision="local"),
        CPU,
    )
    text = encoder.tokenize("a dog a")
    assert text.tokens == ("a", "▁dog", "▁a", "<eos>")
    assert text.special == (False, False, False, True)
    assert encoder.masked_id == tokenizer.convert_tokens_to_ids("<mask>")
    padded = tokenizer(
        "a dog a", padding="max_length", max_length=14, return_tensors="pt"
    )["input_ids"]
    image = shown(encoder, pictures)[0]
    logit = encoder.fuse(
        encoder.encode_text(ids_of(encoder, "a dog a")),
        encoder.encode_image(image[None]),
    )
    expected = encoder.network(
        input_ids=padded, pixel_values=image[None]
    ).logits_per_image[0]
    assert logit.numpy() == pytest.approx(expected.numpy(), abs=1e-5)


@pytest.mark.parametrize("kind", ALL_SEEING_PIXELS)
@torch.inference_mode()
def test_images_of_any_shape_are_seen(load, kind):
    encoder = load(kind)
    draw = np.random.default_rng(0)
    grey = Image.fromarray(draw.integers(0, 255, (30, 40), dtype=np.uint8)).convert(
        "RGB"
    )
    flat = Image.fromarray(draw.integers(0, 255, (1, 300, 3), dtype=np.uint8))
    tall = Image.fromarray(draw.integers(0, 255, (300, 1, 3), dtype=np.uint8))
    three = Image.fromarray(draw.integers(0, 255, (3, 3, 3), dtype=np.uint8))
    for image in (grey, flat, tall, three):
        prepared = encoder.prepare_image(image)
        assert prepared.shape[0] == 3
        assert prepared.dtype == torch.float32
        logit = encoder.fuse(
            encoder.encode_text(ids_of(encoder, "a")),
            encoder.encode_image(prepared[None]),
        )
        assert logit.shape in ((1,), (1, len(ANSWERS)))
        assert logit.isfinite().all()
    wide = encoder.prepare_image(flat)
    # Columns differ: its three channels were not taken for rows.
    assert wide[:, :, 0].std() > 0 or wide.shape[1] == 8
    assert wide[0].std(dim=1).mean() > 0


@pytest.mark.parametrize("kind", ALL_SEEING_PIXELS)
def test_images_are_resized_by_pil(load, kind):
    assert type(load(kind).processor).__name__.endswith("Pil")


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_text_is_read_to_the_models_last_position_and_refused_beyond(load, kind):
    encoder = load(kind)
    ends = sum(encoder.tokenize("a").special)
    full = encoder.tokenize(" ".join(["dog"] * (encoder.max_tokens - ends)))
    assert len(full.ids) == encoder.max_tokens
    assert encoder.encode_text(torch.tensor([full.ids]))[0].isfinite().all()
    with pytest.raises(UserError, match=f"{encoder.max_tokens + 1} tokens"):
        encoder.tokenize(" ".join(["dog"] * (encoder.max_tokens - ends + 1)))


@pytest.mark.parametrize(
    "kind", [kind for kind in BUILDERS if kind != "flava-contrastive"]
)
def test_a_checkpoint_says_its_kind(checkpoint, kind):
    assert detect_encoder_kind(str(checkpoint(kind)), "") == kind


def test_a_checkpoint_of_another_sort_is_refused_with_the_kinds_there_are(tmp_path):
    transformers.BertConfig().save_pretrained(tmp_path)
    with pytest.raises(
        UserError,
        match=r"'bert' is not a kind of encoder; known are .*clip, .*lxmert, .*siglip",
    ):
        detect_encoder_kind(str(tmp_path), "")
    with pytest.raises(UserError, match="no config"):
        detect_encoder_kind(str(tmp_path / "nothing"), "local")


def test_a_checkpoint_without_its_head_is_refused(checkpoint, tmp_path, regions):
    network = transformers.LxmertModel.from_pretrained(checkpoint("lxmert"))
    network.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(checkpoint("lxmert")).save_pretrained(
        tmp_path
    )
    spec = ModelSpec(
        "mine",
        kind="lxmert",
        weights=str(tmp_path),
        revision="local",
        regions=str(regions),
    )
    with pytest.raises(
        UserError, match="name a checkpoint that was trained with its matching head"
    ):
        load_encoder(spec, CPU)


def test_a_checkpoint_without_a_tokenizer_is_refused(checkpoint, tmp_path):
    network = transformers.ViltForImageAndTextRetrieval.from_pretrained(
        checkpoint("vilt")
    )
    network.save_pretrained(tmp_path)
    transformers.AutoImageProcessor.from_pretrained(checkpoint("vilt")).save_pretrained(
        tmp_path
    )
    with pytest.raises(UserError, match="no tokenizer"):
        load_encoder(
            ModelSpec("mine", kind="vilt", weights=str(tmp_path), revision="local"), CPU
        )


def test_a_vilt_that_draws_patches_is_refused(checkpoint, tmp_path):
    network = transformers.ViltForImageAndTextRetrieval.from_pretrained(
        checkpoint("vilt")
    )
    network.config.max_image_length = 4
    for part in (
        network,
        *(cls.from_pretrained(checkpoint("vilt")) for cls in READERS),
    ):
        part.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="4 patches drawn at random"):
        load_encoder(
            ModelSpec("mine", kind="vilt", weights=str(tmp_path), revision="local"), CPU
        )


READERS = (transformers.AutoTokenizer, transformers.AutoImageProcessor)


@pytest.mark.parametrize(
    ("kind", "token"), [("clip", "<unk>"), ("siglip", "<unk>"), ("vilt", "[MASK]")]
)
def test_a_masked_token_is_the_tokenizers_own(load, kind, token):
    encoder = load(kind)
    assert encoder.masked_id == encoder.tokenizer.convert_tokens_to_ids(token)


def test_a_masked_token_is_never_the_end_token(load):
    encoder = load("clip")
    # As in the published tokenizers.
    encoder.tokenizer.unk_token = encoder.tokenizer.eos_token
    assert encoder.masked_id == encoder.tokenizer.convert_tokens_to_ids("!")
    named = load("clip", masked_token="</s>")
    with pytest.raises(UserError, match="masked_token: '</s>'"):
        _ = named.masked_id
    # Who needs no masked token can go on.
    assert named.tokenize("a dog").tokens[-1] == "</s>"
