"""Players of encoders and the values of their coalitions."""

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.gpu_memory import SimulatedMemory
from stand_ins.models.toy_encoders import Toy, game, picture, text
from stand_ins.transfers import CountTransfers
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models import batch_size
from waltz.models.encoders import coalitions, load_encoder
from waltz.models.encoders.coalitions import (
    EncoderCoalitions,
    build_equations_players,
    build_published_players,
)

CLIP_SIDE = 224
SCENES = "resources/scenes/models"


def none(players):
    return np.zeros((1, len(players)), dtype=bool)


@pytest.mark.parametrize(
    ("tokens", "grid", "rest"),
    [(9, 3, 2), (16, 4, 0), (25, 5, 4), (36, 6, 2), (49, 7, 0)],
)
def test_published_patches_leave_the_remainder_of_clips_image(tokens, grid, rest):
    image = torch.ones(3, CLIP_SIDE, CLIP_SIDE)
    players = build_published_players(Toy(), text(*range(2, 2 + tokens)), image)
    assert players.grid == grid
    left = players.mask_image(image, none(players)[:, players.n_text_players :])[0, 0]
    covered = CLIP_SIDE - rest
    assert (left[:covered, :covered] == 0).all()
    assert left.sum() == CLIP_SIDE**2 - covered**2


@pytest.mark.parametrize("tokens", range(1, 50, 6))
def test_equations_cover_every_pixel_once(tokens):
    image = torch.ones(3, CLIP_SIDE, CLIP_SIDE)
    players = build_equations_players(Toy(), text(2, *range(3, 3 + tokens), 99), image)
    assert players.n_text_players == tokens
    assert players.grid == int(np.ceil(np.sqrt(tokens)))
    alone = np.eye(players.n_image_players, dtype=bool)
    assert (players.mask_image(image, alone).sum(dim=0) == 1).all()
    assert not players.mask_image(image, none(players)[:, tokens:]).any()


def test_masked_ids_by_hand():
    encoder, image = Toy(), picture()
    players = game(encoder, image, 50, 11, 12, 51)
    masks = np.array([[False] * 4, [False, True, False, False], [True] * 4])
    assert players.mask_text(masks).tolist() == [
        [50, 0, 0, 51],
        [50, 11, 0, 51],
        [50, 11, 12, 51],
    ]
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
    shown = players.mask_image(
        image, np.zeros((1, players.n_image_players), dtype=bool)
    )
    assert len(players) == players.n_text_players + 9
    if profile == "equations":
        assert not shown.any()
    else:
        assert shown.all()  # patches of 0 pixels: the released code hides nothing here


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_a_text_of_special_tokens_alone(profile):
    encoder, image = Toy(), picture()
    players = game(encoder, image, 2, 3, profile=profile)
    assert (players.n_text_players, players.n_image_players) == (
        (2, 4) if profile == "published" else (0, 1)
    )
    (values,) = EncoderCoalitions(
        encoder, image, [players], lambda logits: logits
    ).values([np.vstack([none(players)] * 2)])
    assert values[0] == values[1]


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_a_text_of_77_tokens(profile):
    encoder, image = Toy(), picture()
    players = game(encoder, image, *range(2, 79), profile=profile)
    assert (players.n_text_players, players.grid) == (
        (77, 9) if profile == "published" else (75, 9)
    )
    (values,) = EncoderCoalitions(
        encoder, image, [players], lambda logits: logits
    ).values([np.vstack([none(players), ~none(players)])])
    assert values[0] != values[1]


@pytest.fixture(scope="module")
def clip():
    return load_encoder(
        ModelSpec("clip", "clip", f"{SCENES}/clip", "local", masked_token="[UNK]"),
        Device("cpu", 1, "test"),
    )


@pytest.mark.parametrize("profile", ["published", "equations"])
@pytest.mark.parametrize("words", [1, 60])
def test_short_and_long_captions_of_a_real_network(clip, words, profile):
    image = clip.prepare_image(Image.new("RGB", (40, 30), "red"))
    read = clip.tokenize(" ".join(["cat"] * words))
    players = {
        "published": build_published_players,
        "equations": build_equations_players,
    }[profile](clip, read, image)
    masks = np.vstack([none(players), ~none(players)])
    (values,) = EncoderCoalitions(clip, image, [players], lambda logits: logits).values(
        [masks]
    )
    assert np.isfinite(values).all()
    assert values[0] != values[1]


@pytest.mark.parametrize(
    ("mode", "size"), [("L", (40, 30)), ("RGB", (60, 1)), ("RGB", (1, 1))]
)
def test_grey_and_thin_images_of_a_real_network(clip, mode, size):
    image = clip.prepare_image(Image.new(mode, size, 128).convert("RGB"))
    assert image.shape == (3, 128, 128)
    players = build_published_players(clip, clip.tokenize("a cat on a table"), image)
    shown = players.mask_image(image, none(players)[:, players.n_text_players :])
    assert not shown[:, :, :126, :126].any()
    assert np.isfinite(
        EncoderCoalitions(clip, image, [players], lambda logits: logits).values(
            [none(players)]
        )[0]
    ).all()


CAPTION, FOIL, LONG = (
    (2, 9, 14, 7, 3),
    (2, 9, 21, 22, 3),
    (2, 9, 21, 22, 23, 24, 25, 26, 3),
)


def itself(logits):
    return logits


def drawn(seed, rows, players):
    return np.random.default_rng(seed).random((rows, players)) < 0.5


def one_by_one(encoder, image, players, masks):
    """One forward pass of both sides a coalition."""
    words = players.n_text_players
    return np.array(
        [
            float(
                encoder.fuse(
                    encoder.encode_text(players.mask_text(row[None, :words])),
                    encoder.encode_image(players.mask_image(image, row[None, words:])),
                )[0]
            )
            for row in masks
        ]
    )


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("profile", ["published", "equations"])
def test_values_are_those_of_single_passes(late, profile):
    encoder, image = Toy(late=late), picture()
    games = [game(encoder, image, *ids, profile=profile) for ids in (CAPTION, LONG)]
    coalition_masks = [
        drawn(index, 60, len(players)) for index, players in enumerate(games)
    ]
    coalition_values = EncoderCoalitions(encoder, image, games, itself).values(
        coalition_masks
    )
    for players, masks, values in zip(
        games, coalition_masks, coalition_values, strict=True
    ):
        assert values.shape == (60, 1)
        assert values.dtype == np.float64
        np.testing.assert_allclose(
            values[:, 0], one_by_one(encoder, image, players, masks), rtol=0, atol=1e-13
        )


@pytest.mark.parametrize("late", [True, False])
def test_no_masked_text_image_or_pair_is_computed_twice(late):
    encoder, image = Toy(late=late), picture()
    games = [game(encoder, image, *ids) for ids in (CAPTION, FOIL)]
    masks = drawn(0, 200, len(games[0]))
    table = EncoderCoalitions(encoder, image, games, itself)
    for part in np.split(masks, 4):
        table.values([part, part])
    visible = masks | games[0].always_visible
    images = len(np.unique(visible[:, 5:], axis=0))
    texts = len(np.unique(visible[:, :5], axis=0))
    pairs = len(np.unique(visible, axis=0))
    assert pairs < 200
    assert (table.image_count, table.text_count, table.pair_count) == (
        images,
        2 * texts,
        2 * pairs,
    )
    assert [sum(encoder.passes[side]) for side in ("see", "read", "fuse")] == [
        images,
        2 * texts,
        2 * pairs,
    ]
    before = dict(encoder.passes)
    table.values([masks, masks])
    assert encoder.passes == before


@pytest.mark.parametrize("late", [True, False])
def test_the_values_of_a_round_come_to_the_host_together(late):
    encoder, image = Toy(late=late), picture()
    games = [game(encoder, image, *ids) for ids in (CAPTION, FOIL)]
    masks = drawn(0, 50, len(games[0]))
    table = EncoderCoalitions(encoder, image, games, itself)
    with CountTransfers() as transfers:
        table.values([masks, masks])
    assert len(encoder.passes["see"]) >= 6
    assert transfers.names == ["cpu"]


def test_players_that_change_nothing_are_not_evaluated():
    encoder, image = Toy(), picture()
    players = game(encoder, image, *CAPTION)
    masks = np.ones((3, len(players)), dtype=bool)
    masks[1, 0] = masks[2, 4] = False
    table = EncoderCoalitions(encoder, image, [players], itself)
    (values,) = table.values([masks])
    assert table.image_count == table.text_count == table.pair_count == 1
    assert (values == values[0]).all()


def test_known_values_are_taken():
    encoder, image = Toy(), picture()
    games = [game(encoder, image, *ids) for ids in (CAPTION, LONG)]
    masks = [drawn(1, 20, len(players)) for players in games]
    first = EncoderCoalitions(encoder, image, games, itself)
    expected = first.values(masks)
    calls = sum(encoder.passes["see"])
    second = EncoderCoalitions(encoder, image, games, itself)
    for known, stored in zip(second.known, first.known, strict=True):
        known.update(stored)
    for values, before in zip(second.values(masks), expected, strict=True):
        np.testing.assert_array_equal(values, before)
    assert sum(encoder.passes["see"]) == calls
    assert second.values([masks[0][:0], masks[1]])[0].shape == (0, 1)


@pytest.mark.parametrize("late", [True, False])
def test_a_larger_budget_begins_with_the_numbers_of_a_smaller_one(late):
    image = picture()
    rounds = [drawn(seed, 40, 14) for seed in range(3)]
    results = []
    for number in (1, 3):
        encoder = Toy(late=late)
        table = EncoderCoalitions(
            encoder, image, [game(encoder, image, *CAPTION)], itself
        )
        values = [table.values([masks])[0] for masks in rounds[:number]]
        results.append(values[0])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("late", [True, False])
def test_batches_are_bounded_and_halved_where_memory_is_short(late, caplog):
    image, masks = picture(), drawn(3, 100, 14)
    encoder = Toy(late=late)
    (expected,) = EncoderCoalitions(
        encoder, image, [game(encoder, image, *CAPTION)], itself
    ).values([masks])
    assert max(encoder.passes["see"]) <= encoder.images_per_batch
    assert max(encoder.passes["read"]) <= encoder.texts_per_batch
    assert max(encoder.passes["fuse"]) <= encoder.pairs_per_batch
    short = Toy(late=late, out_of_memory_above=3)
    (values,) = EncoderCoalitions(
        short, image, [game(short, image, *CAPTION)], itself
    ).values([masks])
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-13)
    assert "halving the batch" in caplog.text
    none = Toy(late=late, out_of_memory_above=0)
    table = EncoderCoalitions(none, image, [game(none, image, *CAPTION)], itself)
    with pytest.raises(torch.OutOfMemoryError):
        table.values([masks])


def test_states_of_early_fusion_stay_within_bounds(monkeypatch):
    encoder, image = Toy(late=False), picture()
    monkeypatch.setattr(coalitions, "MAX_STATE_BYTES", 20 * encoder.width * 8)
    players = game(encoder, image, *CAPTION)
    masks = drawn(4, 60, len(players))
    table = EncoderCoalitions(encoder, image, [players], itself)
    (first,) = table.values([masks])
    seen = table.image_count
    other = masks.copy()
    other[:, 1] ^= True
    (second,) = table.values([other])
    # Some states stayed, the others were dropped and seen again.
    assert seen < table.image_count < 2 * seen
    np.testing.assert_allclose(
        second[:, 0], one_by_one(encoder, image, players, other), rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(
        first[:, 0], one_by_one(encoder, image, players, masks), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("late", [True, False])
def test_batches_grow_with_the_memory_of_a_gpu_and_values_stay(late, monkeypatch):
    image, masks = picture(), drawn(3, 100, 14)
    small = Toy(late=late)
    players = game(small, image, *CAPTION)
    (expected,) = EncoderCoalitions(small, image, [players], itself).values([masks])
    memory = SimulatedMemory(capacity=1300, row_bytes=10)
    monkeypatch.setattr(batch_size, "open_memory", lambda device: memory)
    encoder = Toy(late=late, memory=memory)
    (values,) = EncoderCoalitions(encoder, image, [players], itself).values([masks])
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-13)
    # Half of 1,300 bytes hold 65 rows: the largest power of two times 8 rows is 64.
    assert encoder.passes["see"][0] == 8
    assert 8 < max(encoder.passes["see"]) <= 64
    assert len(encoder.passes["see"]) < len(small.passes["see"])
    assert sum(encoder.passes["see"]) == sum(small.passes["see"])
