"""ALBEF as an encoder: captions and images as it reads them, scores, answers and coalitions."""

import json

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers.image_utils import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD

from stand_ins.models import restated_albef as restated
from stand_ins.models.tiny_albef import CONFIG, random_weights
from stand_ins.models.tiny_encoders import ANSWERS, TEXTS, bert_tokenizer
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.core.text_diff import slice_span
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import (
    EncoderCoalitions,
    build_equations_players,
    build_published_players,
)
from waltz.models.encoders.kinds import albef
from waltz.models.encoders.kinds.albef import prepare_square_image
from waltz.models.encoders.vqa import answer_question

TOKENIZER = albef.remove_end_token(bert_tokenizer())
ENCODER = albef.Albef(ModelSpec("albef"), "cpu", None, TOKENIZER, 14)


def clean_caption(text):
    return albef.clean_text(text)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A man's dog.", "a mans dog"),
        ("at 5:30", "at 530"),
        ("black-and-white, and/or grey!", "black and white and or grey"),
        ('"(One) two?" #3 *4; ~5', "one two 3 4 5"),
        ("salt & pepper < 5% [sic]", "salt & pepper < 5% [sic]"),
        ("a <person> runs", "a <person> runs"),
        ("two  blanks \t\n and - a dash", "two blanks and a dash"),
        ("a\ttab\u00a0stays", "a\ttab\u00a0stays"),
        ("  ends \n", "ends"),
        ("a feed\n", "a feed"),
        (".", ""),
        ("", ""),
        ("\u0130stanbul", "i\u0307stanbul"),
        ("\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c2"),
    ],
)
def test_cleaning(text, expected):
    assert clean_caption(text) == expected


def test_thirty_words_are_read_and_a_tab_divides_none():
    words = [f"w{number}" for number in range(40)]
    assert clean_caption(" ".join(words)) == " ".join(words[:30])
    assert clean_caption(" ".join(words[:30])) == " ".join(words[:30])
    assert clean_caption("a\tb " + " ".join(words)) == "a\tb " + " ".join(words[:29])


@given(st.text(st.sampled_from("aB.'-/ \t\n\u00a0\u0130\u03a3(")))
def test_each_character_is_one_of_the_given_text(text):
    clean, places = albef.clean_text(text)
    assert len(clean) == len(places)
    assert list(places) == sorted(places)
    assert not set(clean) & (albef.DELETED_CHARACTERS | albef.SEPARATORS)
    assert clean == clean.strip(" ")
    for letter, place in zip(clean, places, strict=True):
        assert letter in (*text[place].lower(), " ", "\u03c2")
        assert letter != " " or text[place].isspace() or text[place] in "-/"


def test_a_text_begins_with_cls_and_does_not_end_with_sep():
    text = ENCODER.tokenize("The dog's on-the (red) horse.")
    assert text.tokens == ("[CLS]", "the", "[UNK]", "on", "the", "red", "horse")
    assert text.special == (True, *[False] * 6)
    assert [
        slice_span("The dog's on-the (red) horse.", span) for span in text.spans
    ] == [
        "",
        "The",
        "dog's",
        "on",
        "the",
        "red",
        "horse",
    ]


def test_an_empty_text_is_cls_alone():
    text = ENCODER.tokenize("?!")
    assert (text.ids, text.tokens, text.special) == (
        (TOKENIZER.cls_token_id,),
        ("[CLS]",),
        (True,),
    )


def test_more_tokens_than_positions_are_refused():
    assert len(ENCODER.tokenize("dog " * 13).ids) == 14
    with pytest.raises(
        UserError, match=r"models\.albef: 15 tokens, at most 14 are read"
    ):
        ENCODER.tokenize("dog " * 14)


@pytest.mark.parametrize("size", [(50, 37), (400, 30), (384, 384), (1, 3)])
def test_an_image_is_prepared_as_by_clips_processor_without_a_crop(size):
    image = Image.fromarray(
        np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    )
    processor = transformers.CLIPImageProcessorPil(
        size={"height": 96, "width": 96},
        do_center_crop=False,
        resample=Image.Resampling.BICUBIC,
    )
    expected = processor(images=[image], return_tensors="pt")["pixel_values"][0]
    torch.testing.assert_close(
        prepare_square_image(image, 96), expected, rtol=0, atol=2e-6
    )


def test_zero_is_the_mean_color():
    grey = prepare_square_image(
        Image.new("RGB", (5, 4), tuple(round(255 * mean) for mean in OPENAI_CLIP_MEAN)),
        8,
    )
    assert grey.abs().max() < 0.5 / 255 / min(OPENAI_CLIP_STD)
    white = prepare_square_image(Image.new("L", (5, 4), 255), 8)
    assert white[:, 0, 0].tolist() == pytest.approx(
        [(1 - m) / d for m, d in zip(OPENAI_CLIP_MEAN, OPENAI_CLIP_STD, strict=True)]
    )


CPU = Device("cpu", 1, "a test")


@pytest.fixture
def load(albef_folder):
    """Loads the tiny matching network, or the answering one."""

    def loaded(kind="albef", **entry):
        layout = "answering" if kind == "albef-answering" else "retrieval"
        return load_encoder(
            ModelSpec(
                "mine",
                kind=kind,
                weights=str(albef_folder(layout)),
                revision="local",
                **entry,
            ),
            CPU,
        )

    return loaded


@pytest.fixture
def load_answering(load, albef_folder):
    def loaded(vocabulary=ANSWERS, **entry):
        (albef_folder("answering") / "answers.json").write_text(json.dumps(vocabulary))
        return load("albef-answering", answers="answers.json", **entry)

    return loaded


def picture(seed=0, shape=(40, 56)):
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 255, (*shape, 3), dtype=np.uint8)
    )


def ids_of(encoder, text):
    return torch.tensor([encoder.tokenize(text).ids])


@torch.inference_mode()
def test_the_three_parts_are_the_restatement(load, albef_folder):
    encoder, weights = (
        load(),
        torch.load(albef_folder("retrieval") / "weights.pth", weights_only=True),
    )
    logits = []
    for seed in range(3):
        image = encoder.prepare_image(picture(seed))
        for text in TEXTS:
            ids = ids_of(encoder, text)
            mismatch, match = restated.match_logits(weights, CONFIG, image, ids[0])
            logit = encoder.fuse(
                encoder.encode_text(ids), encoder.encode_image(image[None])
            )
            assert float(logit) == pytest.approx(float(match - mismatch), abs=2e-5)
            logits.append(float(logit))
    assert np.std(logits) > 0.05


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["albef", "albef-answering"])
def test_rows_do_not_mix(load, load_answering, kind):
    encoder = load() if kind == "albef" else load_answering()
    images = torch.stack([encoder.prepare_image(picture(seed)) for seed in range(3)])
    ids = ids_of(encoder, TEXTS[1]).repeat(3, 1)
    ids[1, 1:] = encoder.masked_id
    together = encoder.fuse(encoder.encode_text(ids), encoder.encode_image(images))
    for row in range(3):
        alone = encoder.fuse(
            encoder.encode_text(ids[row][None]), encoder.encode_image(images[row][None])
        )[0]
        torch.testing.assert_close(together[row], alone, rtol=0, atol=1e-5)


@torch.inference_mode()
def test_a_checkpoint_that_prefers_a_match_scores_high(albef_folder, tmp_path):
    for file in albef_folder("retrieval").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = random_weights("retrieval")
    weights["itm_head.weight"].zero_()
    weights["itm_head.bias"].copy_(torch.tensor([-1.0, 3.0]))
    torch.save(weights, tmp_path / "weights.pth")
    encoder = load_encoder(
        ModelSpec("mine", "albef", str(tmp_path / "weights.pth"), "local"), CPU
    )
    assert encoder.probability
    pair = (
        encoder.encode_text(ids_of(encoder, TEXTS[0])),
        encoder.encode_image(encoder.prepare_image(picture())[None]),
    )
    assert encoder.fuse(*pair).tolist() == pytest.approx([4.0])


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["albef", "albef-answering"])
def test_brain_floats_give_nearly_the_same(load, load_answering, kind):
    logits = []
    for dtype in ("float32", "bfloat16"):
        encoder = load(dtype=dtype) if kind == "albef" else load_answering(dtype=dtype)
        pair = (
            encoder.encode_text(ids_of(encoder, TEXTS[1])),
            encoder.encode_image(encoder.prepare_image(picture())[None]),
        )
        logits.append(encoder.fuse(*pair))
        assert logits[-1].dtype == torch.float32
    torch.testing.assert_close(logits[1], logits[0], rtol=0.05, atol=0.1)


def test_published_masks_always_show_the_start_token_alone(load):
    encoder = load()
    text, image = encoder.tokenize(TEXTS[0]), encoder.prepare_image(picture())
    assert text.tokens == ("[CLS]", "a", "dog")
    players = build_published_players(encoder, text, image)
    assert players.always_visible.tolist() == [True] + [False] * 6
    assert players.mask_text(np.zeros((1, 3), dtype=bool)).tolist() == [
        [text.ids[0], 0, 0]
    ]
    exact = build_equations_players(encoder, text, image)
    assert exact.positions == (1, 2)
    assert encoder.masked_id == encoder.tokenizer.mask_token_id


@pytest.mark.parametrize(
    "players_of", [build_published_players, build_equations_players]
)
def test_coalitions_are_those_of_the_restatement(load, albef_folder, players_of):
    encoder, weights = (
        load(),
        torch.load(albef_folder("retrieval") / "weights.pth", weights_only=True),
    )
    image = encoder.prepare_image(picture())
    players = players_of(encoder, encoder.tokenize(TEXTS[0]), image)
    masks = np.random.default_rng(2).random((6, len(players))) < 0.5
    game = EncoderCoalitions(encoder, image, [players], torch.sigmoid)
    values = game.values([masks])[0][:, 0]
    ids = players.mask_text(masks[:, : players.n_text_players])
    images = players.mask_image(image, masks[:, players.n_text_players :])
    for row in range(6):
        logits = restated.match_logits(weights, CONFIG, images[row], ids[row])
        assert values[row] == pytest.approx(float(logits.softmax(dim=0)[1]), abs=1e-5)


@torch.inference_mode()
def test_the_answer_is_the_likeliest_of_the_list(load_answering):
    encoder = load_answering()
    image = encoder.prepare_image(picture())
    question = encoder.network.text_encoder.fuse(
        *encoder.encode_text(ids_of(encoder, TEXTS[1])),
        *encoder.encode_image(image[None]),
    )
    logits = encoder.network.text_decoder(question, encoder.answer_trees)[0].double()
    given = answer_question(encoder, image, TEXTS[1])
    assert given.text == ANSWERS[int(logits.argmax())]
    assert given.probability == pytest.approx(
        float(logits.exp().max() / logits.exp().sum()), rel=1e-5
    )


@torch.inference_mode()
def test_a_head_that_prefers_one_word_answers_it(load_answering):
    encoder = load_answering()
    head = encoder.network.text_decoder.cls["predictions"].decoder
    head.weight.zero_()
    head.bias.zero_()
    head.bias[encoder.tokenizer.convert_tokens_to_ids("two")] = 9
    given = answer_question(encoder, encoder.prepare_image(picture()), "the dog")
    assert given.text == "two"


@pytest.mark.parametrize(
    "vocabulary", [[], {"0": "yes"}, [1], ["dog", ""], ["dog " * 14]]
)
def test_a_list_of_answers_that_cannot_be_weighed_is_refused(
    load_answering, vocabulary
):
    with pytest.raises(UserError, match=r"models\.mine\.answers: "):
        load_answering(vocabulary)


def test_the_published_tokenizer_is_the_default(albef_folder, tmp_path):
    for name in ("weights.pth", "weights.json"):
        (tmp_path / name).write_bytes((albef_folder("retrieval") / name).read_bytes())
    with pytest.raises(
        UserError,
        match=r"cannot load the tokenizer google-bert/bert-base-uncased.*next to the weights",
    ):
        load_encoder(ModelSpec("mine", "albef", str(tmp_path), "local"), CPU)


def test_a_vocabulary_file_alone_is_a_tokenizer(albef_folder, tmp_path):
    for name in ("weights.pth", "weights.json"):
        (tmp_path / name).write_bytes((albef_folder("retrieval") / name).read_bytes())
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog", "##s", "the", "cafe"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    encoder = load_encoder(ModelSpec("mine", "albef", str(tmp_path), "local"), CPU)
    assert encoder.tokenize("The dog's Caf\u00e9, &").tokens == (
        "[CLS]",
        "the",
        "dog",
        "##s",
        "cafe",
        "[UNK]",
    )


@torch.inference_mode()
def test_settings_of_the_entry_override_those_of_the_folder(
    load, albef_folder, tmp_path
):
    assert load().network.visual_encoder.blocks[0].attn.heads != 1
    elsewhere = tmp_path / "named.json"
    elsewhere.write_text(json.dumps(CONFIG | {"vision_heads": 1}))
    assert load(config=str(elsewhere)).network.visual_encoder.blocks[0].attn.heads == 1
    with pytest.raises(UserError, match=r"nowhere\.json: cannot be read"):
        load(config="nowhere.json")
