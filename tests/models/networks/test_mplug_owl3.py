"""mPLUG-Owl3 against its specification: the released key list, and every step written down again in
float64.
"""

import hashlib
import json
import math

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image
from scipy.special import softmax
from typer.testing import CliRunner

from stand_ins.models.tiny_mplug_owl3 import (
    RELEASED,
    TINY,
    owl_layout,
    owl_weights,
    write_owl,
)
from waltz.cli.app import app
from waltz.core.errors import UserError
from waltz.models.networks.array_inputs import compute_logits
from waltz.models.networks.mplug_owl3 import (
    build_network,
    choose_grid,
    cut_image,
    load_mplug_owl3,
    spell_image,
)

RELEASED_KEYS = "736635e27a9c45b9dff9b6cb19ddca5bc93dbfbf5175668dbde06882c2d9d636"
"""SHA-256 of the sorted lines `key<TAB>shape` (3584x1152) of the original classes' 805 tensors at
full size.
"""
HEAD, GROUPS, THETA = 8, 2, TINY["rope_theta"]
SIDE, PATCHES = 20, 9


class Restated:
    """The specification of one row, position by position and head by head."""

    def __init__(self, weights):
        self.weights = {key: value.double().numpy() for key, value in weights.items()}

    def linear(self, name, states):
        return states @ self.weights[f"{name}.weight"].T + self.weights.get(
            f"{name}.bias", 0
        )

    def norm(self, name, states):
        return (
            states
            / np.sqrt((states**2).mean(axis=-1, keepdims=True) + 1e-6)
            * self.weights[f"{name}.weight"]
        )

    def layer_norm(self, name, states):
        centred = states - states.mean(axis=-1, keepdims=True)
        unit = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6)
        return unit * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    @staticmethod
    def rotate(vector, position):
        """Pairs (i, i + half) turn by position * theta^(-2i / width)."""
        half = len(vector) // 2
        angle = position * THETA ** (-np.arange(half) / half)
        first, second = vector[:half], vector[half:]
        return np.concatenate(
            [
                first * np.cos(angle) - second * np.sin(angle),
                second * np.cos(angle) + first * np.sin(angle),
            ]
        )

    @staticmethod
    def attend(query, keys, values):
        return softmax(keys @ query / math.sqrt(len(query))) @ values

    def encode(self, tile):
        """Embeddings of a tile: states before the tower's last layer, through the one linear
        projector.
        """
        prefix, tower = "vision_model", TINY["vision_config"]
        kernel, bias = (
            self.weights[f"{prefix}.embeddings.patch_embedding.{part}"]
            for part in ("weight", "bias")
        )
        states = np.stack(
            [
                (
                    kernel * tile[:, 6 * row : 6 * row + 6, 6 * column : 6 * column + 6]
                ).sum(axis=(1, 2, 3))
                + bias
                for row in range(3)
                for column in range(3)
            ]
        )
        states = states + self.weights[f"{prefix}.embeddings.position_embedding.weight"]
        for number in range(tower["num_hidden_layers"] - 1):
            layer = f"{prefix}.encoder.layers.{number}"
            normed = self.layer_norm(f"{layer}.layer_norm1", states)
            q, k, v = (
                self.linear(f"{layer}.self_attn.{part}_proj", normed) for part in "qkv"
            )
            context = np.zeros_like(q)
            for part in (slice(0, 8), slice(8, 16)):
                context[:, part] = [
                    self.attend(query, k[:, part], v[:, part]) for query in q[:, part]
                ]
            states = states + self.linear(f"{layer}.self_attn.out_proj", context)
            inner = self.linear(
                f"{layer}.mlp.fc1", self.layer_norm(f"{layer}.layer_norm2", states)
            )
            inner = (
                0.5
                * inner
                * (1 + np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
            )
            states = states + self.linear(f"{layer}.mlp.fc2", inner)
        return self.linear("vision2text_model", states)

    def hyper_attention(self, layer, contexts, queries, tiles, starts):
        """C (1 - g) + A g where a tile is seen: contexts and queries by position and head."""
        normed = [self.norm(f"{layer}.input_layernorm", tile) for tile in tiles]
        projected = [
            self.linear(f"{layer}.self_attn.v_kv_proj", tile) for tile in normed
        ]
        mixed = contexts.copy()
        for t in range(len(contexts)):
            seen = [
                (states, start)
                for states, start in zip(projected, starts, strict=True)
                if t > start
            ]
            for head in range(len(contexts[t]) if seen else 0):
                block = 2 * HEAD * (head // GROUPS)
                keys = [
                    self.rotate(row[block : block + HEAD], start + 1)
                    for states, start in seen
                    for row in states
                ]
                values = [
                    row[block + HEAD : block + 2 * HEAD]
                    for states, _ in seen
                    for row in states
                ]
                own = self.attend(queries[t, head], np.array(keys), np.array(values))
                gate = 1 / (
                    1
                    + np.exp(
                        -self.linear(
                            f"{layer}.self_attn.gate_proj.0", contexts[t, head]
                        )
                    )
                )
                mixed[t, head] = contexts[t, head] * (1 - gate) + own * gate
        return mixed

    def logits(self, ids, tiles, starts):
        """Logits of a row whose tiles' placeholders start at these positions."""
        body = "language_model.model"
        embeddings = [self.encode(tile) for tile in tiles]
        states = self.weights[f"{body}.embed_tokens.weight"][ids]
        for number in range(TINY["num_hidden_layers"]):
            layer = f"{body}.layers.{number}"
            normed = self.norm(f"{layer}.input_layernorm", states)
            q, k, v = (
                self.linear(f"{layer}.self_attn.{part}_proj", normed).reshape(
                    len(ids), -1, HEAD
                )
                for part in "qkv"
            )
            q, k = (
                np.array(
                    [
                        [self.rotate(head, t) for head in heads]
                        for t, heads in enumerate(rows)
                    ]
                )
                for rows in (q, k)
            )
            contexts = np.array(
                [
                    [
                        self.attend(
                            q[t, head],
                            k[: t + 1, head // GROUPS],
                            v[: t + 1, head // GROUPS],
                        )
                        for head in range(q.shape[1])
                    ]
                    for t in range(len(ids))
                ]
            )
            if number + 1 in TINY["hyper_layers"]:
                contexts = self.hyper_attention(layer, contexts, q, embeddings, starts)
            states = states + self.linear(
                f"{layer}.self_attn.o_proj", contexts.reshape(len(ids), -1)
            )
            normed = self.norm(f"{layer}.post_attention_layernorm", states)
            gate = self.linear(f"{layer}.mlp.gate_proj", normed)
            inner = (
                gate / (1 + np.exp(-gate)) * self.linear(f"{layer}.mlp.up_proj", normed)
            )
            states = states + self.linear(f"{layer}.mlp.down_proj", inner)
        return self.linear("language_model.lm_head", self.norm(f"{body}.norm", states))


STARTS = ([2, 5, 9], [], [3])
"""First positions of the placeholders of three rows."""
LENGTHS = (14, 9, 12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_owl(tmp_path_factory.mktemp("owl"))


@pytest.fixture(scope="module")
def batch():
    """Three rows with 3, 0 and 1 tiles, padded in front, in the original's interface."""
    draw = np.random.default_rng(4)
    longest, earlier = max(LENGTHS), 0
    arrays = {
        "input_ids": np.zeros((3, longest), dtype=np.int64),
        "attention_mask": np.zeros((3, longest), dtype=np.int64),
        "media_offset": np.full((3, longest, 2), -1000000, dtype=np.int64),
        "pixel_values": draw.normal(size=(4, 3, SIDE, SIDE)).astype(np.float32),
    }
    for row, (starts, length) in enumerate(zip(STARTS, LENGTHS, strict=True)):
        pad = longest - length
        arrays["input_ids"][row, pad:] = draw.integers(0, TINY["vocab_size"], length)
        arrays["attention_mask"][row, pad:] = 1
        if starts:
            arrays["media_offset"][row] = earlier
            for start in starts:
                arrays["media_offset"][row, pad + start + 1 :, 1] += 1
            earlier += len(starts)
    return arrays


def test_keys_and_shapes_are_those_of_the_original_classes_at_full_size():
    weights = build_network(RELEASED, "released").state_dict()
    lines = sorted(
        f"{key}\t{'x'.join(map(str, value.shape))}" for key, value in weights.items()
    )
    assert {key: tuple(value.shape) for key, value in weights.items()} == owl_layout(
        RELEASED
    )
    assert len(lines) == 805
    assert sum(value.numel() for value in weights.values()) == 8_061_197_888
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == RELEASED_KEYS


def test_logits_of_a_batch_are_those_of_the_restatement(folder, batch):
    logits = compute_logits(folder / "model.safetensors", None, batch, "mplug-owl3")[
        "logits"
    ]
    restated = Restated(owl_weights(TINY))
    tiles = iter(batch["pixel_values"].astype(float))
    assert (logits.shape, logits.dtype) == ((3, 14, TINY["vocab_size"]), np.float32)
    for row, (starts, length) in enumerate(zip(STARTS, LENGTHS, strict=True)):
        ids = batch["input_ids"][row, -length:]
        expected = restated.logits(ids, [next(tiles) for _ in starts], starts)
        assert expected.std() > 0.1
        np.testing.assert_allclose(logits[row, -length:], expected, rtol=0, atol=2e-4)
        assert not logits[row, :-length].any()


def test_only_positions_behind_a_placeholder_s_first_id_see_its_tile(folder, batch):
    def score(**changes):
        return compute_logits(
            folder / "model.safetensors", None, batch | changes, "mplug-owl3"
        )["logits"][0]

    before = score()
    pixels = batch["pixel_values"].copy()
    pixels[1] += 1
    after = score(pixel_values=pixels)
    changed = np.abs(after - before).max(axis=1) > 0
    assert changed.tolist() == [t > STARTS[0][1] for t in range(LENGTHS[0])]
    pixels = batch["pixel_values"].copy()
    pixels[:, :, 18:] += 1
    pixels[..., 18:] += 1
    # No patch reaches the last 2 pixels.
    assert np.array_equal(score(pixel_values=pixels), before)


def test_a_row_alone_has_the_numbers_of_its_batch(folder, batch):
    whole = compute_logits(folder / "model.safetensors", None, batch, "mplug-owl3")[
        "logits"
    ]
    last = {
        "input_ids": batch["input_ids"][2:, 2:],
        "media_offset": batch["media_offset"][2:, 2:] - 3,
        "pixel_values": batch["pixel_values"][3:],
    }
    np.testing.assert_array_equal(
        compute_logits(folder / "model.safetensors", None, last, "mplug-owl3")[
            "logits"
        ][0],
        whole[2, 2:],
    )
    text = {"input_ids": batch["input_ids"][1:2, 5:]}
    np.testing.assert_array_equal(
        compute_logits(folder / "model.safetensors", None, text, "mplug-owl3")[
            "logits"
        ][0],
        whole[1, 5:],
    )


def test_score_reads_a_folder_and_writes_logits(folder, batch, tmp_path):
    np.savez(tmp_path / "in.npz", **batch)
    words = [
        "--kind",
        "mplug-owl3",
        "--model",
        folder,
        "--inputs",
        tmp_path / "in.npz",
        "--out",
        tmp_path / "out.npz",
    ]
    result = CliRunner().invoke(app, ["score", *map(str, words)])
    assert result.exit_code == 0, result.output
    expected = compute_logits(folder / "model.safetensors", None, batch, "mplug-owl3")[
        "logits"
    ]
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["logits"], expected)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"media_offset": np.zeros((3, 14), dtype=int)},
            "media_offset is int64 of shape (3, 14), whole numbers",
        ),
        (
            {"media_offset": np.zeros((3, 14, 2))},
            "media_offset is float64 of shape (3, 14, 2), whole numbers",
        ),
        (
            {"media_offset": np.full((3, 14, 2), (0, 5))},
            "media_offset of row 0 is wrong",
        ),
        (
            {"media_offset": np.full((3, 14, 2), (1, 0))},
            "media_offset of row 0 is wrong",
        ),
        (
            {"pixel_values": np.zeros((4, 3, 24, 24))},
            "pixel_values is of shape (4, 3, 24, 24), (4, 3, 20, 20) is needed",
        ),
        (
            {"input_ids": np.full((3, 14), 300)},
            "input_ids holds other than whole numbers from 0 to 299",
        ),
        ({"media_offset": None}, "media_offset missing"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(folder, batch, changes, fault):
    arrays = {
        name: value for name, value in (batch | changes).items() if value is not None
    }
    with pytest.raises(UserError) as error:
        compute_logits(folder / "model.safetensors", None, arrays, "mplug-owl3")
    assert fault in str(error.value)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"language_model.model.norm.weight": None},
            "lacks language_model.model.norm.weight",
        ),
        (
            {"vision_model.post_layernorm.bias": None},
            "lacks vision_model.post_layernorm.bias",
        ),
        (
            {"vision2text_model.1.weight": (3, 3)},
            "has unexpected vision2text_model.1.weight",
        ),
        (
            {"vision2text_model.0.weight": (32, 16)},
            "as the later releases of mPLUG-Owl3 do",
        ),
        (
            {"language_model.model.layers.0.self_attn.gate": (32,)},
            "as the later releases of mPLUG-Owl3 do",
        ),
        (
            {"vision2text_model.bias": (31,)},
            "has of another shape vision2text_model.bias 31 for 32",
        ),
        ({"vision_model.head.probe": None}, ""),
    ],
)
def test_a_checkpoint_with_other_keys_is_refused(tmp_path, changes, fault):
    folder = write_owl(tmp_path)
    weights = owl_weights(TINY) | {
        key: torch.zeros(shape) for key, shape in changes.items() if shape
    }
    kept = {key: value for key, value in weights.items() if changes.get(key, True)}
    safetensors.torch.save_file(kept, folder / "model.safetensors")
    if not fault:
        assert load_mplug_owl3(folder / "model.safetensors", TINY).tile_size == SIDE
        return
    with pytest.raises(UserError) as error:
        load_mplug_owl3(folder / "model.safetensors", TINY)
    assert fault in str(error.value)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"hyper_layers": None},
            "hyper_layers of its config.json are wrong (got None, expected numbers from 1 to 5)",
        ),
        (
            {"hyper_layers": [0, 3]},
            "hyper_layers of its config.json are wrong (got [0, 3]",
        ),
        ({"vision_config": None}, "its config.json lacks vision_config"),
        (
            {"vision_config": {"hidden_size": 16}},
            "its config.json lacks vision_config.image_size, vision_config.patch",
        ),
        (
            {"rope_theta": None, "hidden_size": None},
            "its config.json lacks hidden_size, rope_theta",
        ),
        ({"hidden_size": 32.5}, "its config.json is not of mPLUG-Owl3"),
        ({"tie_word_embeddings": True}, "use_sliding_window or tie_word_embeddings"),
    ],
)
def test_settings_of_another_network_are_refused(folder, changes, fault):
    with pytest.raises(UserError) as error:
        load_mplug_owl3(folder / "model.safetensors", TINY | changes)
    assert fault in str(error.value)


def test_half_precision_loads_into_the_dtype_asked_for(folder):
    network = load_mplug_owl3(
        folder / "model.safetensors", json.loads((folder / "config.json").read_text())
    )
    half = load_mplug_owl3(folder / "model.safetensors", TINY, dtype=torch.float16)
    ids = torch.arange(6)[None]
    with torch.inference_mode():
        full, low = (
            one.compute_logits(ids, torch.arange(6)[None]).float()
            for one in (network, half)
        )
    assert half.vision2text_model.weight.dtype == torch.float16
    assert (full - low).abs().max() < 0.05 * full.std()


@pytest.mark.parametrize(
    ("width", "height", "grid"),
    [
        # Overlap of the shapes: 768 of 864 rows, and 576 of 768 for 2 x 2.
        (
            640,
            480,
            (2, 3),
        ),
        (500, 500, (2, 2)),
        (480, 640, (3, 2)),
        (1000, 300, (1, 3)),
        (2000, 400, (1, 4)),
        (100, 350, (4, 1)),
    ],
)
def test_the_grid_follows_the_aspect_ratio(width, height, grid):
    assert choose_grid(width, height, 384) == grid


def test_tiles_are_cut_row_by_row_and_the_whole_image_is_last():
    colours = [
        (250, 0, 0),
        (0, 250, 0),
        (0, 0, 250),
        (250, 250, 0),
        (0, 250, 250),
        (250, 0, 250),
    ]
    image = Image.new("RGB", (96, 64))
    for place, colour in enumerate(colours):
        image.paste(
            colour,
            (
                32 * (place % 3),
                32 * (place // 3),
                32 * (place % 3) + 32,
                32 * (place // 3) + 32,
            ),
        )
    tiles, grid = cut_image(image, 16)
    assert (grid, tuple(tiles.shape)) == ((2, 3), (7, 3, 16, 16))
    for tile, colour in zip(tiles, colours, strict=False):
        np.testing.assert_allclose(
            tile[:, 8, 8], np.array(colour) / 127.5 - 1, atol=1e-6
        )
    np.testing.assert_allclose(
        tiles[6, :, 2, 2], np.array(colours[0]) / 127.5 - 1, atol=0.05
    )
    np.testing.assert_allclose(
        tiles[6, :, 13, 13], np.array(colours[5]) / 127.5 - 1, atol=0.05
    )


def test_the_text_of_an_image_names_its_tiles():
    assert spell_image(2, 3) == (
        "Cut to 2 rows 3 columns with a global view\n"
        "subimg(0,0)<|image|> subimg(0,1)<|image|> subimg(0,2)<|image|>\n"
        "subimg(1,0)<|image|> subimg(1,1)<|image|> subimg(1,2)<|image|>\n"
        "global_view<|image|>"
    )
