"""mPLUG-Owl3 as a decoder on a tiny checkpoint in the released layout, against plain forward passes
of its network.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.models.tiny_mplug_owl3 import TINY, owl_tokenizer, write_owl
from waltz.attribution.prompt_attribution import (
    PromptGame,
    PromptSettings,
    attribute_prompts,
)
from waltz.consistency.cc_shap.pair_attribution import attribute_pairs
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.evaluation.prompting.prompts import build_published_template
from waltz.fidelity import EQUATIONS, PUBLISHED
from waltz.model_registry import ModelSpec
from waltz.models.decoders import coalitions, load_decoder
from waltz.models.decoders.coalitions import DecoderCoalitions, Game
from waltz.models.decoders.continuations import (
    FIRST_STEP,
    get_published_sampling,
    score_targets,
)
from waltz.models.decoders.decoder import ChatTurn
from waltz.models.decoders.mplug_owl3 import wrap_mplug_owl3
from waltz.models.networks.array_inputs import compute_logits
from waltz.models.networks.mplug_owl3 import PLACEHOLDER, load_mplug_owl3, spell_image
from waltz.models.resolve_name import resolve_decoder

HEAD = "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n"
TAIL = "<|im_end|>\n<|im_start|>assistant\n"
TEXTS = (
    f"{HEAD}{PLACEHOLDER}\n        is it a dog?.{TAIL}",
    f"{HEAD}{PLACEHOLDER}\n        no{TAIL}",
)
TARGETS = (70, 41, 12)


def photo(width=60, height=44, seed=0):
    pixels = np.random.default_rng(seed).integers(
        0, 255, (height, width, 3), dtype=np.uint8
    )
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_owl(tmp_path_factory.mktemp("owl"))


@pytest.fixture(scope="module")
def decoder(folder):
    spec = ModelSpec("owl", "vision", str(folder), "local", family="mplug-owl3")
    return load_decoder(spec, Device("cpu", 1, ""))


def read_plainly(folder, decoder, ids, pixels, targets=()):
    """Logits by `waltz score` of the ids of a prompt, whose placeholder's ids are spelt out, with
    targets behind.
    """
    marks, row = list(decoder.placeholder_ids), [*ids, *targets]
    starts = [
        place for place in range(len(row)) if row[place : place + len(marks)] == marks
    ]
    assert len(starts) == len(pixels)
    counts = [sum(start < place for start in starts) for place in range(len(row))]
    arrays = {
        "input_ids": np.array([row]),
        "media_offset": np.array([[(0, count) for count in counts]]),
        "pixel_values": pixels.numpy(),
    }
    return compute_logits(folder / "model.safetensors", None, arrays, "mplug-owl3")[
        "logits"
    ][0]


def spell_ids(decoder, text, grid):
    """Ids of a text with one image, each piece between placeholders tokenized on its own."""
    pieces = text.replace(PLACEHOLDER, spell_image(*grid)).split(PLACEHOLDER)
    ids = [
        decoder.tokenizer(piece, add_special_tokens=False)["input_ids"]
        for piece in pieces
    ]
    return [
        *ids[0],
        *(token for piece in ids[1:] for token in (*decoder.placeholder_ids, *piece)),
    ]


def test_a_placeholder_is_five_ids_and_its_tiles_stand_behind_the_first(decoder):
    picture, prompt = decoder.prepare_image(photo()), decoder.build_prompt(TEXTS[0])
    layout = decoder.build_layout(prompt, picture)
    assert decoder.tokenizer.convert_ids_to_tokens(list(decoder.placeholder_ids)) == [
        "<",
        "|",
        "image",
        "|",
        ">",
    ]
    assert tuple(picture.pixels.shape) == (7, 3, 20, 20)
    at = prompt.image_position
    expanded = [*prompt.ids[:at], *layout.block, *prompt.ids[at + 1 :]]
    text = [token for token in expanded if token != decoder.image_id]
    assert text == spell_ids(decoder, TEXTS[0], (2, 3))
    is_text = torch.tensor(expanded) != decoder.image_id
    assert layout.positions[is_text].tolist() == list(range(len(text)))
    first = layout.features[0]
    assert layout.block[first - 1 : first + 9] == (
        decoder.placeholder_ids[0],
        *[decoder.image_id] * 9,
    )
    assert set(layout.positions[at + first : at + first + 9].tolist()) == {
        int(layout.positions[at + first - 1]) + 1
    }
    assert len(layout.features) == 7 * 9


def test_scores_are_those_of_a_plain_forward_pass(folder, decoder):
    pictures = [decoder.prepare_image(photo()), decoder.prepare_image(photo(44, 60, 1))]
    prompts = [decoder.build_prompt(text) for text in TEXTS]
    scores = score_targets(decoder, prompts, pictures, [TARGETS] * 2, "logit")
    for text, picture, grid, score in zip(
        TEXTS, pictures, ((2, 3), (3, 2)), scores, strict=True
    ):
        logits = read_plainly(
            folder,
            decoder,
            spell_ids(decoder, text, grid),
            picture.pixels,
            TARGETS[:-1],
        )
        np.testing.assert_allclose(
            score, logits[range(-3, 0), TARGETS], rtol=0, atol=1e-4
        )


def test_a_text_without_an_image_is_read_by_plain_qwen2(folder, decoder):
    prompt = decoder.build_prompt("is it a dog?")
    score = score_targets(decoder, [prompt], [None], [TARGETS], "logit")[0]
    ids = np.array([[*prompt.ids, *TARGETS[:-1]]])
    logits = compute_logits(
        folder / "model.safetensors", None, {"input_ids": ids}, "mplug-owl3"
    )["logits"][0]
    np.testing.assert_allclose(score, logits[range(-3, 0), TARGETS], rtol=0, atol=1e-4)


@pytest.mark.parametrize("value", ["logit", FIRST_STEP])
def test_values_of_coalitions_are_those_of_plain_forward_passes(folder, decoder, value):
    picture, prompt = decoder.prepare_image(photo()), decoder.build_prompt(TEXTS[0])
    players = coalitions.build_published_players(
        decoder, prompt, picture, masked_id=decoder.published_masked_id, raw=True
    )
    masks = np.random.default_rng(0).random((5, len(players))) < 0.6
    masks[0], masks[1, players.image] = True, False
    values = DecoderCoalitions(
        decoder, picture, [Game(players, TARGETS, value)]
    ).values([masks])[0]
    before = () if value == FIRST_STEP else TARGETS[:-1]
    for mask, value_row in zip(masks | players.always_visible, values, strict=True):
        ids = list(players.mask_text(mask[players.text]))
        at = prompt.image_position
        block = [
            token
            for token in decoder.build_layout(prompt, picture).block
            if token != decoder.image_id
        ]
        pixels = players.mask_image(decoder, picture, mask[None, players.image])[0]
        logits = read_plainly(
            folder, decoder, [*ids[:at], *block, *ids[at + 1 :]], pixels, before
        )
        expected = (
            logits[-1, list(TARGETS)]
            if value == FIRST_STEP
            else logits[range(-3, 0), TARGETS]
        )
        np.testing.assert_allclose(value_row, expected, rtol=0, atol=1e-4)
    assert np.ptp(values, axis=0).min() > 1e-3


def compute_all_values(folder, decoder, picture, players, targets):
    """Logits of the targets for every coalition, read in one pass each: float64 of shape (2 **
    players, targets).
    """
    prompt, rows, tiles = players.prompt, [], []
    masks = np.array(list(itertools.product([False, True], repeat=len(players))))
    block = [
        token
        for token in decoder.build_layout(prompt, picture).block
        if token != decoder.image_id
    ]
    for mask in masks:
        ids = list(players.mask_text(mask[players.text]))
        at = prompt.image_position
        rows.append([*ids[:at], *block, *ids[at + 1 :], *targets[:-1]])
        tiles.append(
            players.mask_image(decoder, picture, mask[None, players.image])[0].numpy()
        )
    start = decoder.placeholder_ids[0]
    counts = np.cumsum(
        [[0, *(token == start for token in row[:-1])] for row in rows], axis=1
    )
    first = np.arange(len(rows))[:, None] * len(tiles[0])
    arrays = {
        "input_ids": np.array(rows),
        "media_offset": np.stack(
            [np.broadcast_to(first, counts.shape), first + counts], axis=2
        ),
        "pixel_values": np.concatenate(tiles),
    }
    logits = compute_logits(folder / "model.safetensors", None, arrays, "mplug-owl3")[
        "logits"
    ]
    return masks, logits[:, range(-len(targets), 0), targets].astype(np.float64)


def compute_shapley_values(masks, values):
    """Shapley values by their definition: the mean over all orders of what a player adds."""
    count = masks.shape[1]
    known = {
        tuple(np.flatnonzero(mask)): value
        for mask, value in zip(masks, values, strict=True)
    }
    phi = np.zeros((count, values.shape[1]))
    for players, value in known.items():
        for player in set(range(count)) - set(players):
            weight = 1 / (count * math.comb(count - 1, len(players)))
            phi[player] += weight * (known[tuple(sorted((*players, player)))] - value)
    return phi


def test_t_shap_and_cc_shap_are_those_of_all_coalitions_read_alone(folder, decoder):
    picture = decoder.prepare_image(photo())
    games = (
        PromptGame(f"{PLACEHOLDER}no!", "!", (70, 41)),
        PromptGame(f"{PLACEHOLDER}no??", "??", TARGETS),
    )
    settings = PromptSettings(EQUATIONS, evaluations=64, value="logit")
    (pair,) = attribute_pairs(decoder, picture, [games], settings)
    ratios = []
    for game, side in zip(games, (pair.answer, pair.explanation), strict=True):
        attribution = side.attribution
        assert len(attribution.players) == 6  # two letters and 2 x 2 patches
        assert attribution.estimate.exact
        phi = compute_shapley_values(
            *compute_all_values(
                folder, decoder, picture, attribution.players, game.targets
            )
        )
        np.testing.assert_allclose(attribution.estimate.phi, phi, rtol=0, atol=1e-4)
        assert np.abs(phi).max(axis=1).min() > 1e-3
        ratios.append((phi / np.abs(phi).sum(axis=0)).mean(axis=1))
        text_share = (
            np.abs(ratios[-1][attribution.text_slice]).sum() / np.abs(ratios[-1]).sum()
        )
        assert attribution.t_shap.value == pytest.approx(text_share, abs=1e-4)
    cosine = (
        ratios[0] @ ratios[1] / np.linalg.norm(ratios[0]) / np.linalg.norm(ratios[1])
    )
    assert pair.cc_shap.value == pytest.approx(cosine, abs=1e-3)


def test_equations_mask_a_patch_in_its_tile_and_in_the_whole_image(decoder):
    picture, prompt = (
        decoder.prepare_image(photo(60, 40)),
        decoder.build_prompt(TEXTS[1]),
    )
    players = coalitions.build_equations_players(decoder, prompt, picture, grid=2)
    mask = np.ones((1, 4), dtype=bool)
    mask[0, 0] = False
    hidden = (players.mask_image(decoder, picture, mask)[0] == 0).all(dim=1)
    # The upper left tile of 2 x 3 lies within the upper left quarter.
    assert hidden[0].all()
    assert hidden[1, :, :10].all()
    assert not hidden[1, :, 11:].any()
    assert not hidden[2:6].any()
    assert hidden[6, :10, :10].all()
    assert not hidden[6, 11:].any()
    assert not hidden[6, :, 11:].any()


def test_published_players_are_those_of_the_released_script(decoder):
    """Masked is a blank; special tokens, the image's text and one id more never are; the grid
    counts the ids behind.
    """
    picture, prompt = decoder.prepare_image(photo()), decoder.build_prompt(TEXTS[0])
    ids = spell_ids(decoder, TEXTS[0], (2, 3))
    last_mark = max(
        place for place, token in enumerate(ids) if token == decoder.placeholder_ids[2]
    )
    behind = len(ids) - (last_mark + 4)
    settings = PromptSettings(PUBLISHED)
    attributed = attribute_prompts(
        decoder, picture, [PromptGame(TEXTS[0], "", (70,))], settings
    )[0]
    players = attributed.players
    assert players.grid == math.ceil(math.sqrt(behind))
    assert decoder.tokenizer.decode([players.masked_id]) == " "
    assert players.raw
    maskable = [
        place
        for place, fixed in zip(
            players.positions, players.always_visible[players.text], strict=True
        )
        if not fixed
    ]
    special = {
        decoder.tokenizer.convert_tokens_to_ids(mark)
        for mark in ("<|im_start|>", "<|im_end|>")
    }
    expected = [
        place
        for place in range(len(prompt.ids) - behind, len(prompt.ids))
        if prompt.ids[place] not in {*special, players.masked_id}
    ]
    assert maskable == expected


def test_generations_of_a_batch_are_those_of_prompts_alone(decoder):
    pictures = [
        decoder.prepare_image(photo()),
        decoder.prepare_image(photo(44, 44, 1)),
        None,
    ]
    prompts = [decoder.build_prompt(text) for text in (*TEXTS, f"{HEAD}say no{TAIL}")]
    sampling = get_published_sampling(decoder)
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (1.0, 50, 1.0)
    object.__setattr__(decoder, "positions_per_batch", 100_000)
    for drawn in (None, sampling):
        together = decoder.generate(prompts, pictures, 6, drawn, [1, 2, 3])
        alone = [
            decoder.generate([prompt], [picture], 6, drawn, [seed])[0]
            for prompt, picture, seed in zip(prompts, pictures, (1, 2, 3), strict=True)
        ]
        assert together == alone


def test_cc_shap_of_an_answer_and_its_explanation_is_defined(decoder):
    template = build_published_template("mplug-owl3")
    assert template.suffix_rule == "two"
    picture = decoder.prepare_image(photo())
    games = PromptGame(TEXTS[1], "", (70,)), PromptGame(TEXTS[1], "", (70, 71))
    settings = PromptSettings(PUBLISHED, suffix_rule=template.suffix_rule)
    pair = attribute_pairs(decoder, picture, [games], settings)[0]
    assert -1 <= pair.cc_shap.value <= 1


def test_the_conversation_is_rendered_as_the_released_processor_does(decoder):
    turns = [ChatTurn("user", "is it a dog?", image=True)]
    assert decoder.render_chat(turns) == f"{HEAD}{PLACEHOLDER}\nis it a dog?{TAIL}"
    turns = [
        ChatTurn("system", "be brief"),
        *turns,
        ChatTurn("assistant", "no"),
        ChatTurn("user", "why?"),
        ChatTurn("assistant", "Be"),
    ]
    assert decoder.render_chat(turns) == (
        f"<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n{PLACEHOLDER}\nis it a dog?<|im_end|>"
        f"\n<|im_start|>assistant\nno<|im_end|><|endoftext|>\n<|im_start|>user\nwhy?{TAIL}Be"
    )


def test_a_folder_is_found_to_be_a_vl_decoder(folder):
    spec = resolve_decoder(str(folder))
    assert (spec.kind, spec.weights, spec.revision) == ("vision", str(folder), "local")


def test_a_tokenizer_of_another_model_is_refused(folder):
    network = load_mplug_owl3(folder / "model.safetensors", TINY)
    words = owl_tokenizer()
    words.add_tokens([f"word{number}" for number in range(40)])
    with pytest.raises(
        UserError,
        match="more tokens than the network \\(304 with the placeholder, expected at most 300",
    ):
        wrap_mplug_owl3(ModelSpec("owl", "vision"), network, words, "cpu")


@pytest.mark.parametrize("option", [{"four_bit": True}, {"device_map": "auto"}])
def test_options_of_transformers_are_refused(folder, option):
    with pytest.raises(
        UserError, match="four_bit and device_map are not for mPLUG-Owl3"
    ):
        load_decoder(
            ModelSpec("owl", "vision", str(folder), "local", **option),
            Device("cpu", 1, ""),
        )


def test_a_prompt_that_is_too_long_with_its_image_is_refused(decoder):
    picture = decoder.prepare_image(photo())
    prompt = decoder.build_prompt(f"{HEAD}{PLACEHOLDER}{'a' * 1900}")
    with pytest.raises(
        UserError, match=rf"at most {TINY['max_position_embeddings']} are read"
    ):
        decoder.build_layout(prompt, picture)
