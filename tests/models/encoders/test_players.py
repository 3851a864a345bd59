"""Players under both profiles: which ids and pixels a coalition leaves, for long, short, thin and grey inputs."""

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.toy_encoders import Toy, game, picture, text
from waltz.core.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import Coalitions, build_equations_players, build_published_players

CLIP_SIDE = 224
SCENES = "resources/scenes/models"


def none(players):
    return np.zeros((1, len(players)), dtype=bool)


@pytest.mark.parametrize(("tokens", "grid", "rest"), [(9, 3, 2), (16, 4, 0), (25, 5, 4), (36, 6, 2), (49, 7, 0)])
def test_published_patches_leave_the_remainder_of_clips_image(tokens, grid, rest):
    image = torch.ones(3, CLIP_SIDE, CLIP_SIDE)
    players = build_published_players(Toy(), text(*range(2, 2 + tokens)), image)
    assert players.grid == grid
    left = players.mask_image(image, none(players)[:, players.words :])[0, 0]
    covered = CLIP_SIDE - rest
    assert (left[:covered, :covered] == 0).all()
    assert left.sum() == CLIP_SIDE**2 - covered**2


@pytest.mark.parametrize("tokens", range(1, 50, 6))
def test_equations_cover_every_pixel_once(tokens):
    image = torch.ones(3, CLIP_SIDE, CLIP_SIDE)
    players = build_equations_players(Toy(), text(2, *range(3, 3 + tokens), 99), image)
    assert players.words == tokens
    assert players.grid == int(np.ceil(np.sqrt(tokens)))
    alone = np.eye(players.patches, dtype=bool)
    assert (players.mask_image(image, alone).sum(dim=0) == 1).all()
    assert not players.mask_image(image, none(players)[:, tokens:]).any()


def test_masked_ids_by_hand():
    encoder, image = Toy(), picture()
    players = game(encoder, image, 50, 11, 12, 51)
    masks = np.array([[False] * 4, [False, True, False, False], [True] * 4])
    assert players.mask_text(masks).tolist() == [[50, 0, 0, 51], [50, 11, 0, 51], [50, 11, 12, 51]]
    players = game(encoder, image, 50, 11, 12, 51, profile="equations")
    masks = np.array([[False, False], [True, False]])
    assert players.mask_text(masks).tolist() == [[50, 1, 1, 51], [50, 11, 1, 51]]


def test_hidden_patches_by_hand():
    image = torch.arange(1.0, 28.0).reshape(3, 3, 3)
    players = build_published_players(
        Toy(), text(2, 3, 4), image
    )  # a grid of two on three pixels: patches of one, a rest of one
    shown = players.mask_image(image, np.array([[False, True, False, True]]))
    expected = image.clone()
    expected[:, 0, 0] = expected[:, 1, 0] = 0
    assert torch.equal(shown[0], expected)


@pytest.mark.parametrize("height", [1, 2])
@pytest.mark.parametrize("profile", ["published", "equations"])
def test_a_thin_image_has_as_many_players(height, profile):
    image = torch.ones(3, height, 30)
    players = game(Toy(), image, *range(2, 9), profile=profile)
    shown = players.mask_image(image, np.zeros((1, players.patches), dtype=bool))
    assert len(players) == players.words + 9
    if profile == "equations":
        assert not shown.any()
    else:
        assert shown.all()  # patches of 0 pixels: the released code hides nothing here


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_a_text_of_special_tokens_alone(profile):
    encoder, image = Toy(), picture()
    players = game(encoder, image, 2, 3, profile=profile)
    assert (players.words, players.patches) == ((2, 4) if profile == "published" else (0, 1))
    (values,) = Coalitions(encoder, image, [players], lambda logits: logits).values([np.vstack([none(players)] * 2)])
    assert values[0] == values[1]


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_a_text_of_77_tokens(profile):
    encoder, image = Toy(), picture()
    players = game(encoder, image, *range(2, 79), profile=profile)
    assert (players.words, players.grid) == ((77, 9) if profile == "published" else (75, 9))
    (values,) = Coalitions(encoder, image, [players], lambda logits: logits).values(
        [np.vstack([none(players), ~none(players)])]
    )
    assert values[0] != values[1]


@pytest.fixture(scope="module")
def clip():
    return load_encoder(
        ModelSpec("clip", "clip", f"{SCENES}/clip", "local", masked_token="[UNK]"), Device("cpu", 1, "test")
    )


@pytest.mark.parametrize("profile", ["published", "equations"])
@pytest.mark.parametrize("words", [1, 60])
def test_short_and_long_captions_of_a_real_network(clip, words, profile):
    image = clip.prepare_image(Image.new("RGB", (40, 30), "red"))
    read = clip.tokenize(" ".join(["cat"] * words))
    players = {"published": build_published_players, "equations": build_equations_players}[profile](clip, read, image)
    masks = np.vstack([none(players), ~none(players)])
    (values,) = Coalitions(clip, image, [players], lambda logits: logits).values([masks])
    assert np.isfinite(values).all()
    assert values[0] != values[1]


@pytest.mark.parametrize(("mode", "size"), [("L", (40, 30)), ("RGB", (60, 1)), ("RGB", (1, 1))])
def test_grey_and_thin_images_of_a_real_network(clip, mode, size):
    image = clip.prepare_image(Image.new(mode, size, 128).convert("RGB"))
    assert image.shape == (3, 128, 128)
    players = build_published_players(clip, clip.tokenize("a cat on a table"), image)
    shown = players.mask_image(image, none(players)[:, players.words :])
    assert not shown[:, :, :126, :126].any()
    assert np.isfinite(Coalitions(clip, image, [players], lambda logits: logits).values([none(players)])[0]).all()
