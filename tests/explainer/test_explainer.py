"""`waltz.Explainer` on tiny networks: values of the workflow, loaded models, players of one's own,
wrong arguments.
"""

import contextlib
import io
import itertools
import math
import random
import re
import warnings
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tqdm import tqdm

import waltz
from stand_ins.models import tiny_clip, tiny_decoders, tiny_encoders, tiny_families
from waltz import Explainer
from waltz.attribution.custom_players import group_text_players
from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.prompt_attribution import (
    PromptGame,
    PromptSettings,
    attribute_prompts,
)
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.core.ambient_state import use_usual_settings
from waltz.core.jobs.devices import Device
from waltz.explainer.arguments import read_image_argument, split_messages
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import build_equations_players
from waltz.models.resolve_name import resolve_encoder

CPU = Device("cpu", 1, "")
TEXT, FOIL = "a dog sees the red ball", "a cat sees the red ball"
TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() }} : {% if message['content'] is string %}"
    "{{ message['content'] }}{% else %}{% for part in message['content'] %}{% if part['type'] == 'image' %}<image> "
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %} {% endfor %}ASSISTANT : "
)


@pytest.fixture(scope="module")
def pixels():
    return np.random.default_rng(5).integers(0, 256, (47, 61, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def picture(pixels):
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return tiny_clip.save_clip(tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture(scope="module")
def explainer(clip):
    return Explainer(clip)


@pytest.fixture(scope="module")
def llava():
    decoder = tiny_decoders.llava()
    decoder.processor.chat_template = TEMPLATE
    return Explainer(decoder.network.model, decoder.processor)


def load_clip(folder):
    processor = transformers.CLIPProcessor(
        transformers.CLIPImageProcessorPil.from_pretrained(folder),
        transformers.CLIPTokenizerFast.from_pretrained(folder),
    )
    return transformers.CLIPModel.from_pretrained(folder).eval(), processor


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_default_players_have_the_values_of_the_workflow(profile, clip, picture):
    explanation = Explainer(str(clip), profile=profile, seed=3).explain(picture, TEXT)
    encoder = load_encoder(resolve_encoder(str(clip)), CPU)
    (expected,) = attribute_texts(
        encoder, picture, [TEXT], AttributionSettings(get_fidelity(profile), seed=3)
    )
    np.testing.assert_array_equal(
        np.concatenate([explanation.text, explanation.image]),
        expected.estimate.phi[:, 0],
    )
    assert explanation.t_shap == expected.t_shap.value
    assert explanation.score == expected.score


def test_a_loaded_model_has_the_values_of_its_folder_and_stays_as_it_is(
    clip, explainer, picture
):
    network, processor = load_clip(clip)
    modules = [type(module) for module in network.modules()]
    loaded = Explainer(network, processor)
    explanation = loaded.explain(picture, TEXT)
    np.testing.assert_array_equal(
        explanation.text, explainer.explain(picture, TEXT).text
    )
    assert [type(module) for module in network.modules()] == modules
    assert next(network.parameters()) is next(loaded.model.network.parameters())
    assert explanation.model.kind == "clip"


@pytest.mark.parametrize("kind", ["clip", "siglip", "align", "flava", "blip-2", "vilt"])
def test_loaded_encoders_of_every_kind(kind, picture):
    network, tokenizer, images = tiny_encoders.build(kind)
    explainer = Explainer(
        network.eval(), SimpleNamespace(tokenizer=tokenizer, image_processor=images)
    )
    explanation = explainer.explain(picture, "a red dog", budget=2000)
    assert explainer.spec.kind == kind
    assert explanation.text.tokens == ("a", "red", "dog")
    total = float(explanation.text.sum() + explanation.image.sum())
    value, base = (
        explanation.attribution.score,
        explanation.attribution.estimate.base_value[0],
    )
    assert total == pytest.approx(value - base, abs=1e-5)
    assert np.abs(explanation.text).max() > 0


def test_every_type_of_image_is_the_same_image(explainer, picture, pixels, tmp_path):
    picture.save(tmp_path / "x.png")
    expected = explainer.explain(picture, "dog").text
    for image in (
        str(tmp_path / "x.png"),
        tmp_path / "x.png",
        pixels,
        pixels.transpose(2, 0, 1),
        pixels / 255,
        torch.from_numpy(pixels),
        torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255,
    ):
        np.testing.assert_array_equal(explainer.explain(image, "dog").text, expected)


def test_an_open_image_is_read_as_its_file(tmp_path):
    levels = np.linspace(0, 65535, 32 * 32).astype(np.uint16).reshape(32, 32)
    Image.fromarray(levels).save(tmp_path / "16-bits.png")
    Image.new("RGBA", (4, 4), (9, 9, 9, 0)).save(tmp_path / "transparent.png")
    turned = Image.Exif()
    turned[0x0112] = 6  # orientation: to be turned by 90 degrees
    Image.new("RGB", (8, 4)).save(tmp_path / "turned.png", exif=turned)
    for file in tmp_path.iterdir():
        np.testing.assert_array_equal(
            read_image_argument(Image.open(file)), read_image_argument(file)
        )
    assert read_image_argument(Image.open(tmp_path / "turned.png")).size == (4, 8)


@pytest.mark.parametrize("content", [None, 5, ["text"], [None]])
def test_messages_without_text_or_parts_are_refused(content):
    with pytest.raises(TypeError, match="messages: 'content' is not a text"):
        split_messages([{"role": "user", "content": content}])


def test_messages_need_parts_that_are_read():
    with pytest.raises(ValueError, match="messages: no messages"):
        split_messages([])
    with pytest.raises(
        ValueError,
        match="unknown part \\(got type 'audio', expected 'text' or 'image'\\)",
    ):
        split_messages(
            [{"role": "user", "content": [{"type": "audio", "audio": "a.wav"}]}]
        )


def test_lists_are_every_image_with_every_text(explainer, picture):
    other = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    explanations = explainer.explain([picture, other], [TEXT, FOIL])
    assert [explanation.caption for explanation in explanations] == [
        TEXT,
        FOIL,
        TEXT,
        FOIL,
    ]
    for explanation, image in zip(
        explanations, (picture, picture, other, other), strict=True
    ):
        np.testing.assert_allclose(
            explanation.text,
            explainer.explain(image, explanation.caption).text,
            atol=1e-5,
        )


def test_texts_of_one_image_share_its_masked_inputs(clip, picture):
    explainer = Explainer(clip)
    counts = []
    encode = explainer.model.encode_image
    object.__setattr__(
        explainer.model,
        "encode_image",
        lambda images: counts.append(len(images)) or encode(images),
    )
    explainer.explain(picture, TEXT)
    alone = sum(counts)
    counts.clear()
    explainer.explain(picture, [TEXT, FOIL])
    assert sum(counts) == alone


def test_images_of_one_text_share_its_masked_texts(clip, picture):
    explainer = Explainer(clip)
    counts = []
    encode = explainer.model.encode_text
    object.__setattr__(
        explainer.model,
        "encode_text",
        lambda ids: counts.append(len(ids)) or encode(ids),
    )
    explainer.explain(picture, TEXT)
    alone = sum(counts)
    counts.clear()
    explainer.explain([picture, picture.rotate(90)], TEXT)
    assert sum(counts) <= alone


def enumerate_values(explainer, picture, text_groups, cells, count):
    """Shapley values of groups of token positions and of regions, from the network's own logits of
    all coalitions.
    """
    encoder = explainer.model
    image = encoder.prepare_image(picture)
    ids = torch.tensor([encoder.tokenize(TEXT).ids])
    players = len(text_groups) + count
    scores = {}
    for present in itertools.product((0, 1), repeat=players):
        masked, seen = ids.clone(), image[None].clone()
        for positions, visible in zip(text_groups, present, strict=False):
            if not visible:
                masked[0, positions] = encoder.masked_id
        for region in range(count):
            if not present[len(text_groups) + region]:
                seen[:, :, cells == region] = 0
        with torch.no_grad():
            scores[present] = encoder.network(
                input_ids=masked, pixel_values=seen
            ).logits_per_image.item()
    phi = np.zeros(players)
    for present, score in scores.items():
        size = sum(present)
        for player in range(players):
            if present[player]:
                weight = (
                    math.factorial(size - 1)
                    * math.factorial(players - size)
                    / math.factorial(players)
                )
                phi[player] += weight * (
                    score - scores[(*present[:player], 0, *present[player + 1 :])]
                )
    return phi


SPANS = {"pieces": ["a dog", "red ball"], "characters": [(0, 5), (15, 23)]}


@pytest.mark.parametrize("spans", SPANS)
def test_spans_and_masks_of_regions_are_players(spans, explainer, picture):
    masks = np.zeros((2, 47, 61), dtype=bool)
    masks[0, :20], masks[1, 25:, 10:40] = True, True
    explanation = explainer.explain(picture, TEXT, players=SPANS[spans], grid=masks)
    # the image is resized to 45 or 46 x 35 pixels, and its middle is what the network sees
    expected = enumerate_values(
        explainer, picture, [[1, 2], [5, 6]], torch.from_numpy(explanation.cells), 2
    )
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(
        np.concatenate([explanation.text, explanation.image]), expected, atol=2e-5
    )
    assert explanation.text.tokens == ("a dog", "red ball")
    assert explanation.to_frame().player.tolist()[-2:] == ["region 0", "region 1"]
    assert explanation.text.spans == ((0, 5), (15, 23))
    top, bottom = explanation.image.boxes
    assert tuple(top[[0, 1, 2]]) == (0, 0, 35)
    assert top[3] == pytest.approx(20 * 35 / 47, abs=1)
    assert bottom[1] == pytest.approx(25 * 35 / 47, abs=1)


def test_spans_keep_the_order_in_which_they_are_given(explainer, llava, picture):
    pieces = ["red ball", "a dog", "sees"]
    given = explainer.explain(picture, TEXT, players=pieces)
    sorted_pieces = explainer.explain(
        picture, TEXT, players=["a dog", "sees", "red ball"]
    )
    assert given.text.tokens == tuple(pieces)
    assert given.text.spans == ((15, 23), (0, 5), (6, 10))
    assert np.unique(sorted_pieces.text).size == 3
    np.testing.assert_allclose(given.text, sorted_pieces.text[[2, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(given.image, sorted_pieces.image, atol=1e-6)
    assert given.to_frame().player.tolist()[:3] == pieces
    by_characters = explainer.explain(
        picture, TEXT, players=[(15, 23), (0, 5), (6, 10)]
    )
    np.testing.assert_array_equal(by_characters.text, given.text)
    answer = llava.explain(
        picture, question="what is this ?", players=["this", "what"], grid=1
    )
    assert answer.text.tokens == ("this", "what")


def test_a_grid_of_rows_and_columns(explainer, picture):
    explanation = explainer.explain(picture, TEXT, players=["dog"], grid=(2, 3))
    assert explanation.image.boxes.tolist() == [
        [0, 0, 12, 18], [12, 0, 23, 18], [23, 0, 35, 18], [0, 18, 12, 35], [12, 18, 23, 35], [23, 18, 35, 35]
    ]  # fmt: skip
    players = explanation.to_frame().player.tolist()
    assert players[-6:] == [
        f"patch {row},{column}" for row in range(2) for column in range(3)
    ]
    expected = enumerate_values(
        explainer, picture, [[2]], torch.from_numpy(explanation.cells), 6
    )
    np.testing.assert_allclose(
        np.concatenate([explanation.text, explanation.image]), expected, atol=2e-5
    )


def test_words_join_their_tokens(explainer, picture):
    text = "a dogs sees"
    tokens = explainer.explain(picture, text)
    words = explainer.explain(picture, text, players="word")
    assert len(tokens.text) > 3
    assert words.text.tokens == ("a", "dogs", "sees")
    assert len(words.image) == len(tokens.image)  # the grid stays that of the tokens
    single = explainer.explain(picture, TEXT, players="word")
    np.testing.assert_array_equal(single.text, explainer.explain(picture, TEXT).text)


def test_published_players_can_be_grouped(clip, picture):
    explanation = Explainer(clip, profile="published").explain(
        picture, "a dogs sees", players="word"
    )
    assert explanation.text.tokens == (
        "<|startoftext|>",
        "a",
        "dogs",
        "sees",
        "<|endoftext|>",
    )
    assert explanation.text[0] == explanation.text[-1] == 0
    assert (np.abs(explanation.text[1:-1]) > 0).all()


def test_a_token_that_is_never_masked_takes_no_part_in_a_word(explainer, picture):
    encoder = explainer.model
    text = encoder.tokenize("a dogs sees")
    players = build_equations_players(encoder, text, encoder.prepare_image(picture))
    fixed = players.always_visible.copy()
    fixed[2] = True  # the second token of dogs
    grouped = group_text_players(
        replace(players, always_visible=fixed), "a dogs sees", text.spans, "word"
    )
    assert [len(positions) for positions in players.list_positions()][:4] == [1] * 4
    assert grouped.n_text_players == 3
    masked = grouped.mask_text(np.zeros((1, 3), dtype=bool))[0].tolist()
    assert [token == encoder.masked_id for token in masked] == [
        False,
        True,
        True,
        False,
        *[True] * (len(masked) - 5),
        False,
    ]


FAMILIES = {"qwen2.5-vl": False, "internvl": False, "mllama": True}
"""Whether a family is read by its own forward pass for each coalition."""


@pytest.mark.parametrize("family", FAMILIES)
def test_loaded_decoders_of_other_families(family, picture):
    network, processor = tiny_families.build(family)
    processor.chat_template = TEMPLATE.replace("<image>", processor.image_token)
    halves = np.zeros((2, 47, 61), dtype=bool)
    halves[0, :, :30], halves[1, :, 30:] = True, True
    explainer = Explainer(network.eval(), processor)
    explanation = explainer.explain(
        picture,
        question="what is this ? a dog",
        players=["a dog", "this"],
        grid=halves,
        interactions=True,
    )
    estimate = explanation.attribution.estimate
    assert estimate.exact
    np.testing.assert_allclose(
        estimate.phi.sum(axis=0), estimate.value - estimate.base_value, atol=1e-9
    )
    assert (np.abs(explanation.image).max(axis=1) > 0).all()
    assert 0 < explanation.joint_share < 1


def test_long_work_shows_a_bar(clip, picture, monkeypatch, capsys):
    monkeypatch.setattr("waltz.explainer.explainer.PROGRESS_DELAY", 0.0)
    monkeypatch.setattr(
        "waltz.explainer.explainer.tqdm", partial(tqdm, mininterval=0, miniters=1)
    )
    Explainer(clip, progress=True).explain(picture, TEXT)
    assert "/310 [" in capsys.readouterr().err  # ten permutations of 15 players
    Explainer(clip).explain(picture, TEXT, budget=300)
    assert not capsys.readouterr().err


def test_long_work_without_a_terminal_shows_lines(clip, picture, monkeypatch, capsys):
    monkeypatch.setattr("waltz.core.jobs.records.LINE_SECONDS", 0.0)
    monkeypatch.setattr("waltz.explainer.explainer.LINE_SECONDS", 0.0)
    Explainer(clip).explain(picture, TEXT)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2
    form = re.compile(r"clip: \d+ of 310 evaluations, 00:\d\d so far, 00:\d\d left")
    assert sum(bool(form.fullmatch(line)) for line in lines) > 1
    Explainer(clip, progress=False).explain(picture, TEXT)
    assert not capsys.readouterr().err


def test_interactions_come_with_their_share(explainer, picture):
    explanation = explainer.explain(picture, TEXT, grid=(2, 2), interactions=True)
    assert explanation.interactions.shape == (6, 4)
    assert 0 < explanation.joint_share < 1
    assert math.isnan(explainer.explain(picture, "dog").joint_share)
    assert "together" in "".join(explanation.lines())
    assert explanation.plot_interactions()._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="explain with interactions=True"):
        explainer.explain(picture, "dog").plot_interactions()


def test_a_notebook_shows_image_heat_map_and_tokens(explainer, picture):
    explanation = explainer.explain(picture, TEXT, foil=FOIL)
    shown = explanation._repr_html_()
    assert shown.count('src="data:image/png;base64,') == 4
    assert shown.count("<span") == 12
    assert len(repr(explanation).splitlines()) <= 5
    assert explanation.plot()._repr_png_().startswith(b"\x89PNG")


def test_a_foil_that_is_the_text_is_refused(explainer, picture):
    with pytest.raises(ValueError, match="foil: the same text as the caption"):
        explainer.explain(picture, TEXT, foil=TEXT.replace(" ", "\u00a0"))


def test_a_table_has_a_row_for_each_player(explainer, picture):
    explanation = explainer.explain(picture, TEXT, foil=FOIL)
    frame = explanation.to_frame()
    assert len(frame) == 2 * (6 + 9)
    caption = frame[(frame.role == "caption") & (frame.modality == "text")]
    np.testing.assert_array_equal(caption.phi, explanation.text)
    assert caption.player.tolist() == TEXT.split()
    assert (
        frame[frame.modality == "image"][["left", "top", "right", "bottom"]]
        .notna()
        .all(axis=None)
    )


def test_a_loaded_decoder_answers_with_the_values_of_the_engine(llava, picture):
    explanation = llava.explain(
        picture,
        question="what is this ? ( A ) dog ( B ) cat",
        labels=["A", "B"],
        budget=190,
    )
    decoder = llava.model
    attribution = explanation.attribution
    game = PromptGame(attribution.text, "", attribution.instance.targets)
    settings = PromptSettings(EQUATIONS, evaluations=190)
    (expected,) = attribute_prompts(
        decoder, decoder.prepare_image(picture), [game], settings
    )
    np.testing.assert_array_equal(attribution.estimate.phi, expected.estimate.phi)
    assert explanation.label in ("A", "B")
    assert explanation.t_shap == expected.t_shap.value
    assert explanation.cc_shap is None
    assert explanation.text.shape == (len(explanation.text.tokens), 1)
    assert explanation.image.boxes.shape == (len(explanation.image), 4)


@pytest.mark.parametrize("kind", ["post-hoc", "cot"])
def test_an_explanation_gives_cc_shap(kind, llava, picture):
    explanation = llava.explain(
        picture,
        question="what is this ?",
        labels=["A", "B"],
        explanation=kind,
        budget=60,
        max_new_tokens=3,
    )
    assert -1 <= explanation.cc_shap <= 1
    assert len(repr(explanation).splitlines()) <= 5
    assert set(explanation.to_frame().side) == {"answer", "explanation"}
    assert explanation._repr_html_().count("<img") == 4
    assert explanation.plot()._repr_png_().startswith(b"\x89PNG")


def test_messages_are_rendered_by_the_model_s_template(llava, picture):
    content = [
        {"type": "image", "image": picture},
        {"type": "text", "text": "what is this ?"},
    ]
    explanation = llava.explain(
        messages=[{"role": "user", "content": content}], budget=60, max_new_tokens=2
    )
    assert explanation.attribution.text == "USER : <image> what is this ? ASSISTANT : "
    assert len(explanation.image) > 0


def test_words_and_regions_of_a_decoder(llava, picture):
    halves = np.zeros((2, 47, 61), dtype=bool)
    halves[0, :, :30], halves[1, :, 30:] = True, True
    explanation = llava.explain(
        picture,
        question="what is this ? a dog",
        players=["a dog", (0, 4)],
        grid=halves,
        interactions=True,
    )
    assert explanation.text.tokens == ("a dog", "what")
    assert explanation.text.shape[0] == explanation.image.shape[0] == 2
    estimate = explanation.attribution.estimate
    assert estimate.exact
    np.testing.assert_allclose(
        estimate.phi.sum(axis=0), estimate.value - estimate.base_value, atol=1e-9
    )
    assert explanation.interactions.shape == (2, 2, len(estimate.value))
    assert 0 < explanation.joint_share <= 1
    assert len(explanation.plot_interactions().axes) == 1 + 2


def test_regions_of_an_image_in_tiles(picture):
    decoder = tiny_decoders.llava_next()
    decoder.processor.chat_template = TEMPLATE
    explainer = Explainer(decoder.network.model, decoder.processor)
    explanation = explainer.explain(
        picture, question="what is this ?", players=["this"], grid=(1, 2)
    )
    assert explanation.image.boxes.tolist() == [[0, 0, 30, 47], [30, 0, 61, 47]]
    assert (np.abs(explanation.image).max(axis=1) > 0).all()


def test_a_language_model_explains_without_an_image():
    words = tiny_decoders.tokenizer()
    words.chat_template = TEMPLATE
    network = tiny_decoders.causal("llama", words).network.model
    explanation = Explainer(network, words).explain(
        question="what is this ?", labels=["A", "B"], players="word"
    )
    assert explanation.t_shap == 1
    assert explanation.view is None
    assert "<img" not in explanation._repr_html_()


def cut_image():
    """An open image whose file ends early."""
    file = io.BytesIO()
    Image.linear_gradient("L").save(file, "PNG")
    return Image.open(io.BytesIO(file.getvalue()[:300]))


CUT_IMAGE = cut_image()
WRONG = {
    "image": ({"image": 3}, TypeError, "image: no image (got int, expected a path"),
    "shape": ({"image": np.zeros((2, 4, 4, 3))}, ValueError, "got shape (2, 4, 4, 3)"),
    "range": (
        {"image": np.full((4, 4, 3), -2.0)},
        ValueError,
        "values out of range (got -2 to -2, expected 0 to 1)",
    ),
    "array's type": (
        {"image": np.full((4, 4, 3), 1j)},
        TypeError,
        "image: array of type complex128",
    ),
    "cut image": ({"image": CUT_IMAGE}, ValueError, "image: cannot be decoded"),
    "image without range": (
        {"image": Image.new("F", (4, 4))},
        ValueError,
        "mode F have no fixed range",
    ),
    "no image": ({"image": None}, TypeError, "image: missing"),
    "no image in a list": (
        {"image": [None]},
        TypeError,
        "image: no image (got NoneType, expected a path",
    ),
    "address": (
        {"image": "https://a.org/b.png"},
        ValueError,
        "https://a.org/b.png is an address",
    ),
    "images in one": (
        {"image": np.zeros((2, 4, 4, 3))},
        ValueError,
        "give several as a list",
    ),
    "text": ({"text": 5}, TypeError, "text: no text (got int"),
    "texts": (
        {"text": np.array(["a", "b"])},
        TypeError,
        "expected str or a list of texts",
    ),
    "labels": ({"labels": np.array(["A", "B"])}, TypeError, "labels: "),
    "empty": ({"text": " "}, ValueError, "text: empty"),
    "half a character": (
        {"text": "dog \ud800"},
        ValueError,
        "half of a surrogate pair",
    ),
    "question": ({"question": "who ?"}, TypeError, "question: "),
    "players": (
        {"players": "words"},
        ValueError,
        "players: unknown (got 'words', expected 'token', 'word'",
    ),
    "players' type": ({"players": 3}, TypeError, "players: got int"),
    "span": ({"players": ["zebra"]}, ValueError, "'zebra' occurs 0 times"),
    "span's end": (
        {"players": [(0, 99)]},
        ValueError,
        "no characters of the text (got (0, 99)",
    ),
    "shared token": ({"players": [(0, 4), (4, 5)]}, ValueError, "share a token"),
    "grid": ({"grid": "2x2"}, TypeError, "grid: got str"),
    "grid's size": ({"grid": (0, 3)}, ValueError, "grid: got 0 x 3 patches"),
    "masks": (
        {"grid": np.ones((1, 3, 3), dtype=bool)},
        ValueError,
        "expected (regions, 47, 61)",
    ),
    "three sides": (
        {"grid": (1, 2, 3)},
        ValueError,
        "grid: got (1, 2, 3), expected two whole numbers (rows, columns)",
    ),
    "sides' type": (
        {"grid": (2.0, 3.0)},
        ValueError,
        "grid: got (2.0, 3.0), expected two whole numbers (rows, columns)",
    ),
    "no masks": (
        {"grid": np.zeros((0, 47, 61), dtype=bool)},
        ValueError,
        "grid: masks of shape (0, 47, 61)",
    ),
    "masks' type": ({"grid": np.ones((1, 47, 61))}, TypeError, "masks of type float64"),
    "empty mask": (
        {"grid": np.zeros((2, 47, 61), dtype=bool)},
        ValueError,
        "without a pixel (got region 0, 1)",
    ),
    "overlap": (
        {"grid": np.ones((2, 47, 61), dtype=bool)},
        ValueError,
        "masks share pixels",
    ),
    "budget": ({"budget": 0}, ValueError, "budget: got 0"),
    "budget of two players": (
        {"players": ["dog"], "grid": (1, 1), "budget": 3},
        ValueError,
        "budget: too small for regressions on tokens and on patches (got 3, expected at least 4)",
    ),
    "budget's type": ({"budget": "9"}, TypeError, "budget: got str"),
    "standard error": ({"standard_error": 2.0}, ValueError, "standard_error: got 2.0"),
    "interactions": (
        {"interactions": "yes"},
        TypeError,
        "interactions: got str, expected True or False",
    ),
    "unknown": ({"colour": 1}, TypeError, "colour"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_arguments_say_what_is_expected(wrong, explainer, picture):
    changes, error, message = WRONG[wrong]
    with pytest.raises(error) as caught:
        explainer.explain(**{"image": picture, "text": TEXT} | changes)
    assert message in str(caught.value)


def test_mistakes_are_user_errors_and_value_errors(explainer, picture):
    with pytest.raises(ValueError, match="text: empty") as caught:
        explainer.explain(picture, "")
    assert isinstance(caught.value, waltz.UserError)
    with pytest.raises(ValueError, match="unknown profile"):
        Explainer("any", profile="eqs")


def test_a_processor_of_another_model_is_refused(clip):
    network, processor = load_clip(clip)
    processor.image_processor.size, processor.image_processor.do_center_crop = (
        {"height": 64, "width": 64},
        False,
    )
    with pytest.raises(
        ValueError,
        match=r"processor: CLIPProcessor does not fit this CLIPModel \(Input image size",
    ):
        Explainer(network, processor)


def test_a_standard_error_needs_no_budget_and_is_missed_aloud(
    explainer, picture, caplog
):
    assert explainer.explain(picture, TEXT, standard_error=0.002).t_shap_se <= 0.002
    assert not caplog.records
    assert (
        explainer.explain(picture, TEXT, standard_error=1e-6, budget=60).t_shap_se
        > 1e-6
    )
    assert "standard_error: not reached within the budget" in caplog.text


def test_arrays_are_spans_and_grids_too(explainer, picture):
    expected = explainer.explain(picture, TEXT, players=[(2, 5), (15, 23)], grid=(2, 3))
    for grid in ([2, 3], np.array([2, 3])):
        explanation = explainer.explain(
            picture, TEXT, players=np.array([(2, 5), (15, 23)]), grid=grid
        )
        np.testing.assert_array_equal(explanation.image, expected.image)
        assert explanation.text.tokens == expected.text.tokens == ("dog", "red ball")


def test_wrong_models_say_what_is_expected(clip):
    network, processor = load_clip(clip)
    with pytest.raises(TypeError, match="processor: missing"):
        Explainer(network)
    with pytest.raises(TypeError, match=r"no transformers model \(got Linear\)"):
        Explainer(torch.nn.Linear(1, 1), processor)
    with pytest.raises(TypeError, match=r"no transformers model \(got NoneType\)"):
        Explainer(None)
    with pytest.raises(TypeError, match="seed: got float, expected a whole number"):
        Explainer(clip, seed=1.5)
    with pytest.raises(
        ValueError, match=r"device: torch sees \d+ GPUs \(got 'cuda:99'\)"
    ):
        Explainer(clip, device="cuda:99")
    with pytest.raises(TypeError, match="processor: has no tokenizer"):
        Explainer(network, processor.tokenizer)
    with pytest.raises(ValueError, match="training mode"):
        Explainer(network.train(), processor)
    with pytest.raises(ValueError, match="dtype: a loaded model keeps its own"):
        Explainer(network.eval(), processor, dtype="float16")
    with pytest.raises(ValueError, match="dtype: got int8"):
        Explainer(clip, dtype="int8")
    vilt = tiny_encoders.build("vilt")[0].eval().vilt
    with pytest.raises(
        waltz.UserError,
        match=r"ViltModel gives no score .* \(expected ViltForImageAndTextRetrieval\)",
    ):
        Explainer(vilt, processor)


def test_a_decoder_refuses_what_is_an_encoder_s(llava, picture):
    with pytest.raises(TypeError, match="needs one of text, question and messages"):
        llava.explain(picture)
    with pytest.raises(TypeError, match="labels: got 'AB'"):
        llava.explain(picture, question="what ?", labels="AB")
    with pytest.raises(ValueError, match="labels: no labels"):
        llava.explain(picture, question="what ?", labels=[])
    with pytest.raises(TypeError, match=r"labels: got array\("):
        llava.explain(picture, question="what ?", labels=np.array(["A", "B"]))
    with pytest.raises(waltz.UserError, match="unknown kind of explanation"):
        llava.explain(picture, question="what ?", explanation="because")


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def raise_warnings():
    with warnings.catch_warnings(action="error"):
        yield


@contextlib.contextmanager
def flag(get, change, value):
    before = get()
    change(value)
    try:
        yield
    finally:
        change(before)


SETTINGS = {
    "warnings": raise_warnings,
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True),
    "precision": lambda: flag(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"
    ),
    "deterministic": lambda: flag(
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
        value=True,
    ),
    "default device": lambda: flag(lambda: None, torch.set_default_device, "meta"),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "dtype": lambda: default_dtype(torch.float64),
    "half": lambda: default_dtype(torch.float16),
    "device": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "numpy": lambda: np.errstate(all="raise"),
}


def read_state():
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_anomaly_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.get_num_threads(),
        np.geterr(),
        list(warnings.filters),
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_around_a_call_change_nothing(name, clip, explainer, picture):
    expected = explainer.explain(picture, TEXT)
    draws = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    with SETTINGS[name]():
        state = read_state()
        results = [
            explainer.explain(picture, TEXT),
            Explainer(clip).explain(picture, TEXT),
        ]
        assert read_state() == state
        for result in results:
            (
                result.record(),
                list(result.lines()),
                repr(result),
                result.to_frame(),
                result.plot(),
            )
    assert torch.equal(torch.get_rng_state(), draws[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == draws[1:]
    for result in results:
        np.testing.assert_array_equal(result.text, expected.text)
        np.testing.assert_array_equal(
            result.relevance.tokens, expected.relevance.tokens
        )


def test_inside_a_call_multiplications_have_full_precision_and_warnings_are_off():
    with (
        flag(
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
            "medium",
        ),
        raise_warnings(),
    ):
        with use_usual_settings():
            assert torch.get_float32_matmul_precision() == "highest"
            assert not torch.backends.cudnn.allow_tf32
            assert not torch.is_anomaly_enabled()
            warnings.warn("of another package", stacklevel=1)
        assert torch.get_float32_matmul_precision() == "medium"
        with pytest.raises(UserWarning, match="of ours"):
            warnings.warn("of ours", stacklevel=1)


def test_a_decoder_that_was_set_to_train_is_refused():
    decoder = tiny_decoders.causal("gpt2")
    network = decoder.network.model
    explainer = Explainer(network, decoder.tokenizer)
    ask = partial(
        explainer.explain, question="a dog sits ?", labels=["A", "B"], budget=100
    )
    expected = ask()
    for part in (network, network.transformer.h[0]):
        part.train()
        with pytest.raises(ValueError, match="GPT2LMHeadModel is in training mode"):
            ask()
        with pytest.raises(ValueError, match="GPT2LMHeadModel is in training mode"):
            Explainer(network, decoder.tokenizer)
        network.eval()
    np.testing.assert_array_equal(ask().text, expected.text)


def test_an_encoder_that_was_set_to_train_has_the_same_values(clip, picture):
    network, processor = load_clip(clip)
    explainer = Explainer(network, processor)
    expected = explainer.explain(picture, TEXT)
    network.train()
    np.testing.assert_array_equal(explainer.explain(picture, TEXT).text, expected.text)
    assert network.training


def test_scores_that_are_not_finite_leak_no_warning(clip, picture):
    network, processor = load_clip(clip)
    with torch.no_grad():
        network.text_model.embeddings.token_embedding.weight.fill_(math.nan)
    with warnings.catch_warnings(action="error"):
        explanation = Explainer(network, processor).explain(
            picture, TEXT, foil=FOIL, interactions=True
        )
        (
            explanation.record(),
            list(explanation.lines()),
            repr(explanation),
            explanation._repr_html_(),
        )
        explanation.plot(), explanation.plot_interactions()
    assert math.isnan(explanation.t_shap)


def score_by_length(images, texts):
    """Return the length of each text, and no finite score for a text without a dog."""
    scores = []
    for text in texts:
        scores.append(len(text) if "dog" in text else score_by_length.undefined)
    return scores


@pytest.mark.parametrize("undefined", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_warn_of_nothing(
    undefined, picture, monkeypatch, caplog
):
    monkeypatch.setattr(score_by_length, "undefined", undefined, raising=False)
    with warnings.catch_warnings(action="error"):
        explanation = Explainer(score_by_length).explain(
            picture,
            "dog sees ball",
            players=["dog", "ball"],
            grid=(1, 2),
            interactions=True,
            standard_error=0.01,
        )
        explanation.plot()._repr_png_(), explanation.plot_interactions()._repr_png_()
        explanation._repr_html_(), explanation.record(), list(explanation.lines())
        explanation.to_frame().groupby("modality").phi.mean()
        assert math.isnan(explanation.t_shap)
    assert explanation.reason == "the model's score is not finite"
    assert "unknown for 1 of 1 explanations (the model's score" in caplog.text


def test_undefined_shares_have_a_reason(explainer, llava, picture):
    explanation = explainer.explain(picture, TEXT, grid=(1, 2))
    assert explanation.reason is None
    silent = Explainer(lambda images, texts: [0.0] * len(texts)).explain(
        picture, TEXT, foil=FOIL, grid=(1, 2)
    )
    assert silent.reason == "every Shapley value is 0, so no share is defined"
    assert silent.foil.reason == silent.record()["foil"]["reason"] == silent.reason
    answer = llava.explain(picture, question="what is this ?", budget=62)
    assert math.isnan(answer.t_shap_se)
    assert answer.reason == answer.record()["answer"]["reason"]
    assert answer.reason.startswith("fewer than two pairs of coalitions")


def test_weights_without_values_are_refused(clip):
    network, processor = load_clip(clip)
    with pytest.raises(ValueError, match="meta"):
        Explainer(network.to("meta"), processor)
    with pytest.raises(ValueError, match="device: weights on the device meta"):
        Explainer(clip, device="meta")


@pytest.mark.filterwarnings("ignore:Some parameters")
def test_weights_that_a_device_map_left_on_disk_are_refused(clip, tmp_path):
    processor = load_clip(clip)[1]
    network = transformers.CLIPModel.from_pretrained(
        clip, device_map={"": "disk"}, offload_folder=tmp_path
    )
    with pytest.raises(ValueError, match="device_map left weights on disk"):
        Explainer(network.eval(), processor)


def test_a_device_that_torch_cannot_use_is_refused(clip):
    with pytest.raises(ValueError, match=r"device: torch cannot use xpu here \("):
        Explainer(clip, device="xpu")


def test_an_image_of_masked_pixels_has_no_t_shap(explainer, monkeypatch):
    prepare = type(explainer.model).prepare_image
    monkeypatch.setattr(
        type(explainer.model),
        "prepare_image",
        lambda self, image: 0 * prepare(self, image),
    )
    explanation = explainer.explain(Image.new("RGB", (40, 40)), TEXT)
    assert math.isnan(explanation.t_shap)
    assert explanation.record()["t_shap"] is None
    assert "masking the image changes nothing" in explanation.record()["reason"]


def test_a_text_of_masked_tokens_has_no_t_shap(explainer, picture):
    tokens = explainer.explain(picture, "dog").attribution.tokens
    masking = Explainer(replace(explainer.spec, masked_token=tokens[0]))
    explanation = masking.explain(picture, "dog dog dog")
    assert set(explanation.attribution.tokens) == set(tokens)
    assert not explanation.text.any()
    assert explanation.image.any()
    assert math.isnan(explanation.t_shap)
    assert explanation.record()["t_shap"] is None
    assert (
        "every token of the text is the masked token" in explanation.record()["reason"]
    )
    # One word that masking changes gives the text a share.
    assert masking.explain(picture, "dog dog cat").t_shap > 0


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_a_prompt_of_masked_tokens_has_no_t_shap(llava, picture, profile):
    decoder = llava.model
    prepared = decoder.prepare_image(picture)
    settings = PromptSettings(get_fidelity(profile), evaluations=300)
    blank = replace(prepared, pixels=torch.zeros_like(prepared.pixels))
    plain, masked = (
        PromptGame(f"<image> {text}", "", (7,)) for text in ("a dog _ _", "_ _ _ _")
    )
    for image, game, reason in (
        (prepared, plain, None),
        (prepared, masked, "every token of the text is the masked token"),
        (blank, plain, "every pixel has the masked value"),
    ):
        (attribution,) = attribute_prompts(decoder, image, [game], settings)
        assert math.isnan(attribution.t_shap.value) == (reason is not None)
        assert (attribution.t_shap.reason or "").startswith(reason or "")


def test_a_black_image_in_tiles_has_no_t_shap():
    decoder = tiny_decoders.llava_next()
    game = PromptGame("<image> a dog sits", "", (7,))
    settings = PromptSettings(PUBLISHED)
    for color, is_undefined in (("white", False), ("black", True)):
        picture = decoder.prepare_image(Image.new("RGB", (60, 40), color))
        (attribution,) = attribute_prompts(decoder, picture, [game], settings)
        assert math.isnan(attribution.t_shap.value) == is_undefined


def test_a_model_with_prompts_of_its_own_is_asked_with_them():
    explanation = Explainer("scenes-llava").explain(
        np.zeros((32, 32, 3), dtype=np.uint8), "A dog.", foil="A cow.", explanation=None
    )
    assert explanation.question.startswith("Which sentence describes the image? A:")


@pytest.fixture(scope="module")
def vilt_answering():
    network, tokenizer, images = tiny_encoders.build("vilt-answering")
    processor = SimpleNamespace(tokenizer=tokenizer, image_processor=images)
    return Explainer(network.eval(), processor)


@torch.no_grad()
def test_an_encoder_s_answer_has_the_exact_values_of_its_own_forward_pass(
    vilt_answering, picture
):
    question = "a red dog"
    explanation = vilt_answering.explain(
        picture, question=question, grid=(1, 2), budget=2000
    )
    encoder, network = vilt_answering.model, vilt_answering.spec.network
    ids, pixels = encoder.tokenize(question).ids, encoder.prepare_image(picture)
    half = pixels.shape[-1] // 2

    def compute_probabilities(visible):
        masked, shown = list(ids), pixels.clone()
        for player in range(3):
            if not visible[player]:
                masked[player + 1] = encoder.masked_id
        for side in range(2):
            if not visible[3 + side]:
                shown[..., side * half : (side + 1) * half] = 0
        logits = network(
            input_ids=torch.tensor([masked]), pixel_values=shown[None]
        ).logits
        return logits[0].softmax(dim=-1)

    whole = compute_probabilities([True] * 5)
    answer = int(whole.argmax())
    expected = np.zeros(5)
    for player, others in itertools.product(
        range(5), itertools.product([False, True], repeat=4)
    ):
        weight = math.factorial(sum(others)) * math.factorial(4 - sum(others)) / 120
        for sign, seen in ((1, True), (-1, False)):
            visible = [*others[:player], seen, *others[player:]]
            value = compute_probabilities(visible)[answer]
            expected[player] += sign * weight * float(value)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(
        np.concatenate([explanation.text, explanation.image]), expected, atol=1e-5
    )
    assert explanation.label == tiny_encoders.ANSWERS[answer]
    assert explanation.score == pytest.approx(float(whole[answer]), abs=1e-6)
    assert explanation.text.tokens == ("a", "red", "dog")
    assert explanation.record()["label"] == explanation.label
    assert f"answer {explanation.label}, probability 0." in "\n".join(
        explanation.lines()
    )
    assert explanation.plot() is not None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"text": "a dog"}, "text: .* chooses an answer to a question"),
        ({}, "question: missing"),
        ({"question": "a", "explanation": "cot"}, "explanation: .* chooses an answer"),
    ],
)
def test_an_encoder_that_answers_takes_a_question_alone(
    vilt_answering, picture, arguments, expected
):
    with pytest.raises(TypeError, match=expected):
        vilt_answering.explain(picture, **arguments)


def test_each_image_of_a_list_gets_its_answer(vilt_answering, picture):
    both = vilt_answering.explain([picture, picture], question="a red dog", budget=50)
    alone = vilt_answering.explain(picture, question="a red dog", budget=50)
    assert [one.label for one in both] == [alone.label] * 2
    np.testing.assert_allclose(both[1].text, alone.text, atol=1e-6)


@torch.no_grad()
def test_labels_limit_the_answers_of_an_encoder(vilt_answering, picture):
    first, second = tiny_encoders.ANSWERS[:2]
    explanation = vilt_answering.explain(
        picture, question="a red dog", labels=[second, first], budget=50
    )
    encoder, network = vilt_answering.model, vilt_answering.spec.network
    logits = network(
        input_ids=torch.tensor([encoder.tokenize("a red dog").ids]),
        pixel_values=encoder.prepare_image(picture)[None],
    ).logits[0, :2]
    assert explanation.label == [first, second][int(logits.argmax())]
    expected = float(logits.softmax(dim=-1).max())
    assert explanation.score == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ValueError, match=r"labels: .*'never'"):
        vilt_answering.explain(picture, question="a red dog", labels=["never"])
