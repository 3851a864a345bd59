"""Players of a decoder, and values of their coalitions."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.gpu_memory import SimulatedMemory
from stand_ins.models import tiny_decoders
from stand_ins.transfers import CountTransfers
from waltz.core.errors import UserError
from waltz.models import batch_size
from waltz.models.decoders import coalitions
from waltz.models.decoders.coalitions import DecoderCoalitions, Game
from waltz.models.decoders.continuations import (
    FIRST_STEP,
    OUTCOMES,
    score_targets,
    score_targets_in_batches,
)

torch.set_num_threads(1)  # tiny batches: threads cost more than they give


def dark_photo(width: int = 61, height: int = 40) -> Image.Image:
    return Image.fromarray(
        np.random.default_rng(3).integers(1, 256, (height, width, 3), dtype=np.uint8)
    )


def hidden(played, decoder, picture, patches):
    mask = np.ones((1, played.n_image_players), dtype=bool)
    mask[0, list(patches)] = False
    return played.mask_image(decoder, picture, mask)[0]


def test_equations_play_tokens_that_are_not_special_and_cover_the_complete_tile():
    decoder = tiny_decoders.llava()
    picture, prompt = (
        decoder.prepare_image(dark_photo()),
        decoder.build_prompt("USER : <image> what is this ?"),
    )
    played = coalitions.build_equations_players(decoder, prompt, picture)
    assert [prompt.tokens[place] for place in played.positions] == [
        "USER",
        ":",
        "what",
        "is",
        "this",
        "?",
    ]
    assert (played.grid, len(played), played.text, played.image) == (
        3,
        15,
        slice(0, 6),
        slice(6, 15),
    )
    assert not played.always_visible.any()
    assert played.mask_text(np.zeros(6, dtype=bool)) == (
        1,
        *[decoder.masked_id] * 2,
        decoder.image_id,
        *[decoder.masked_id] * 4,
    )
    assert not hidden(played, decoder, picture, range(9)).any()
    # Row 1, column 2 of 8 x 8 pixels.
    one = hidden(played, decoder, picture, [5]) != picture.pixels
    assert one[..., 8:16, 16:24].all()
    assert one.sum() == 3 * 8 * 8


def test_published_players_are_patches_first_then_all_ids_and_leave_the_rest_of_the_image():
    decoder = tiny_decoders.llava()
    picture, prompt = (
        decoder.prepare_image(dark_photo()),
        decoder.build_prompt(
            "<image> what is this ? what ( A ) B a cat or C dog ? best"
        ),
    )
    played = coalitions.build_published_players(
        decoder, prompt, picture, masked_id=9, unmasked_ids=(1,)
    )
    assert len(prompt.ids) == 18
    assert (played.grid, played.image, played.text) == (5, slice(0, 25), slice(25, 43))
    # Start token and placeholder.
    assert np.flatnonzero(played.always_visible).tolist() == [
        25,
        26,
    ]
    assert played.mask_text(played.always_visible[played.text]) == (
        1,
        decoder.image_id,
        *[9] * 16,
    )
    seen = hidden(played, decoder, picture, range(25))
    assert not seen[..., :20, :20].any()  # 24 // 5 = 4 pixels a patch
    torch.testing.assert_close(seen[..., 20:, :], picture.pixels[..., 20:, :])
    assert (
        coalitions.build_published_players(
            decoder, prompt, picture, grid=2
        ).n_image_players
        == 4
    )


def test_published_players_of_the_raw_image_are_black_in_its_corner():
    decoder = tiny_decoders.llava_next()
    image = dark_photo()
    picture, prompt = (
        decoder.prepare_image(image),
        decoder.build_prompt("<image> what is this ?"),
    )
    with pytest.raises(UserError, match="set raw"):
        coalitions.build_published_players(decoder, prompt, picture)
    played = coalitions.build_published_players(decoder, prompt, picture, raw=True)
    raw = np.asarray(image).copy()
    raw[:8, 8:16] = 0  # the second of 3 x 3 patches of 24 // 3 pixels
    expected = decoder.prepare_image(Image.fromarray(raw)).pixels
    torch.testing.assert_close(hidden(played, decoder, picture, [1]), expected)
    raw[:24, :24] = 0
    torch.testing.assert_close(
        hidden(played, decoder, picture, range(9)),
        decoder.prepare_image(Image.fromarray(raw)).pixels,
    )
    small = decoder.prepare_image(dark_photo(20, 12))
    assert (
        coalitions.build_published_players(decoder, prompt, small, raw=True)
        .always_visible[:9]
        .tolist()
        == [False] * 6 + [True] * 3
    )


@pytest.mark.parametrize("name", ["llava-next", "smolvlm", "idefics2", "qwen2-vl"])
def test_patches_of_tiled_images_lie_where_the_image_does(name):
    decoder = tiny_decoders.SEEING[name]()
    image = dark_photo()
    picture, prompt = (
        decoder.prepare_image(image),
        decoder.build_prompt(f"{decoder.placeholder} what is this ?"),
    )
    if name in ("llava-next", "smolvlm"):
        assert picture.pixels.shape[1] > 2  # several tiles and the whole
    played = coalitions.build_equations_players(decoder, prompt, picture, grid=2)
    counts = torch.bincount(played.cells.flatten(), minlength=5)
    assert (counts[:4] > 0.15 * counts[:4].sum()).all()
    # a change of the image within one patch, off its borders, changes what that patch hides and
    # nothing else
    for patch, (left, top) in enumerate([(0, 0), (31, 0), (0, 21), (31, 21)]):
        raw = np.asarray(image).copy()
        raw[top + 6 : top + 13, left + 9 : left + 21] = (
            255 - raw[top + 6 : top + 13, left + 9 : left + 21]
        )
        # Resampling rings.
        changed = (
            decoder.prepare_image(Image.fromarray(raw)).pixels - picture.pixels
        ).abs() > 0.2
        assert changed.any()
        assert (hidden(played, decoder, picture, [patch])[changed] == 0).all()
    padding = played.cells.expand(picture.pixels.shape) == 4
    white = decoder.prepare_image(Image.new("RGB", image.size, (255, 255, 255))).pixels
    # Padding is the same for every image.
    torch.testing.assert_close(white[padding], picture.pixels[padding])


def test_players_without_an_image_are_the_tokens():
    decoder = tiny_decoders.causal()
    prompt = decoder.build_prompt("what is this ?")
    played = coalitions.build_equations_players(decoder, prompt, None, positions=(1, 3))
    assert (len(played), played.n_image_players, played.positions) == (2, 0, (1, 3))
    assert played.mask_text(np.array([False, True]))[1] == decoder.masked_id


torch.set_num_threads(1)  # tiny batches: threads cost more than they give
TEXT = "what is this ? ( A ) a cat or ( B ) a dog ? the best answer is : ("


def photo(width: int = 61, height: int = 40) -> Image.Image:
    return Image.fromarray(
        np.random.default_rng(3).integers(0, 256, (height, width, 3), dtype=np.uint8)
    )


def masks(count: int, width: int, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).random((count, width)) < 0.6
    drawn[0], drawn[1] = False, True
    return drawn


def seeing(name: str):
    decoder = tiny_decoders.SEEING[name]()
    picture = decoder.prepare_image(photo())
    return (
        decoder,
        picture,
        decoder.build_prompt(f"USER : {decoder.placeholder} {TEXT}"),
    )


@torch.inference_mode()
def own_logits(decoder, picture, prompt, mask, played, targets):
    """The network's own forward pass of a masked prompt and image with targets behind: (positions,
    vocabulary).
    """
    ids, shown = list(prompt.ids), mask | played.always_visible
    for place, visible in zip(played.positions, shown[played.text], strict=True):
        ids[place] = ids[place] if visible else played.masked_id
    if picture is None:
        return decoder.network.model(input_ids=torch.tensor([[*ids, *targets]])).logits[
            0
        ]
    given = dict(decoder._process(prompt.text, picture.image))
    expanded, at = given["input_ids"][0].tolist(), prompt.image_position
    block = len(expanded) - len(ids) + 1
    given["input_ids"] = torch.tensor(
        [[*ids[:at], *expanded[at : at + block], *ids[at + 1 :], *targets]]
    )
    given["attention_mask"] = torch.ones_like(given["input_ids"])
    if "mm_token_type_ids" in given:
        given["mm_token_type_ids"] = (given["input_ids"] == decoder.image_id).int()
    hidden = played.mask_image(decoder, picture, shown[None, played.image])[0]
    # the idefics family drops tiles of zeros as padding, so that the count of features would not
    # fit
    given["pixel_values"] = hidden.masked_fill(hidden == 0, 1e-30)
    return decoder.network.model(
        **{name: value for name, value in given.items() if torch.is_tensor(value)}
    ).logits[0]


def by_hand(logits, targets, value):
    steps = logits[-len(targets) :] if value != FIRST_STEP else None
    if steps is None:
        return logits[-1, list(targets)].double().numpy()
    log = torch.log_softmax(steps.double(), dim=-1)[
        torch.arange(len(targets)), list(targets)
    ]
    at = steps[torch.arange(len(targets)), list(targets)].double()
    return {
        "log-probability": log,
        "probability": log.exp(),
        "logit": at,
        "log-odds": log - torch.log1p(-log.exp()),
    }[value].numpy()


def plain(decoder, picture, prompt, coalition_masks, played, targets, value):
    before = () if value == FIRST_STEP else targets[:-1]
    return np.stack(
        [
            by_hand(
                own_logits(decoder, picture, prompt, row, played, before),
                targets,
                value,
            )
            for row in coalition_masks
        ]
    )


@pytest.mark.parametrize(
    "kind", ["llama", "gpt2", "openai-gpt", "bloom", "falcon", "mistral"]
)
def test_values_of_language_models_are_those_of_a_plain_forward_pass(kind):
    decoder = tiny_decoders.causal(kind)
    prompt, targets = decoder.build_prompt(TEXT), (30, 41, 30, 52)
    played = coalitions.build_equations_players(decoder, prompt, None)
    coalition_masks = masks(12, len(played))
    values = DecoderCoalitions(
        decoder, None, [Game(played, targets, "log-probability")]
    ).values([coalition_masks])[0]
    expected = plain(
        decoder, None, prompt, coalition_masks, played, targets, "log-probability"
    )
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, expected, atol=1e-5)
    assert np.ptp(expected, axis=0).min() > 0.01


@pytest.mark.parametrize("name", list(tiny_decoders.SEEING))
def test_values_of_models_that_see_are_those_of_their_own_forward_pass(name):
    decoder, picture, prompt = seeing(name)
    targets = (60, 41, 60)
    played = coalitions.build_equations_players(decoder, prompt, picture)
    coalition_masks = masks(6, len(played))
    values = DecoderCoalitions(
        decoder, picture, [Game(played, targets, "logit")]
    ).values([coalition_masks])[0]
    expected = plain(
        decoder, picture, prompt, coalition_masks, played, targets, "logit"
    )
    np.testing.assert_allclose(values, expected, atol=1e-4)
    only_image = np.ones((2, len(played)), dtype=bool)
    only_image[0, played.image] = False
    without, with_image = DecoderCoalitions(
        decoder, picture, [Game(played, targets, "logit")]
    ).values([only_image])[0]
    # The image counts, so that a test without it would fail.
    assert np.abs(without - with_image).max() > 1e-3


@pytest.mark.parametrize("value", list(OUTCOMES))
def test_each_kind_of_value_is_what_it_says(value):
    decoder, picture, prompt = seeing("llava")
    targets = (60, 41, 60)
    played = coalitions.build_published_players(
        decoder, prompt, picture, masked_id=5, unmasked_ids=(1,)
    )
    coalition_masks = masks(4, len(played))
    values = DecoderCoalitions(decoder, picture, [Game(played, targets, value)]).values(
        [coalition_masks]
    )[0]
    expected = plain(decoder, picture, prompt, coalition_masks, played, targets, value)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)


def test_log_odds_near_certainty_do_not_cancel():
    logits = torch.tensor([[[60.0, 0.0, 1.0]]])
    expected = 60 - math.log(1 + math.e)
    assert OUTCOMES["log-odds"](logits, logits[..., 0])[0, 0] == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("name", ["llava", "qwen2-vl", "llama", "bloom"])
def test_values_do_not_depend_on_the_size_of_batches_or_on_rounds(name):
    if name in tiny_decoders.SEEING:
        decoder, picture, prompt = seeing(name)
    else:
        decoder, picture = tiny_decoders.causal(name), None
        prompt = decoder.build_prompt(TEXT)
    played = coalitions.build_equations_players(decoder, prompt, picture)
    coalition_masks, games = (
        masks(24, len(played)),
        [Game(played, (60, 41), "log-probability")],
    )
    values = DecoderCoalitions(decoder, picture, games).values([coalition_masks])[0]
    object.__setattr__(decoder, "positions_per_batch", 40)
    np.testing.assert_allclose(
        DecoderCoalitions(decoder, picture, games).values([coalition_masks])[0],
        values,
        atol=1e-5,
    )
    table = DecoderCoalitions(decoder, picture, games)
    rounds = [
        table.values([coalition_masks[place : place + 5]])[0]
        for place in range(0, 24, 5)
    ]
    np.testing.assert_allclose(np.concatenate(rounds), values, atol=1e-5)


def limit_memory(decoder, monkeypatch, rows):
    """Let the network run out of memory above a number of rows; return the rows of all passes."""
    forward, passes = decoder.network.model.forward, []

    def limited(*args, **kwargs):
        inputs = kwargs.get("input_ids", kwargs.get("inputs_embeds"))
        passes.append(len(inputs))
        if len(inputs) > rows:
            raise torch.OutOfMemoryError("simulated")
        return forward(*args, **kwargs)

    monkeypatch.setattr(decoder.network.model, "forward", limited)
    return passes


@pytest.mark.parametrize("name", ["llava", "llama"])
def test_coalitions_that_do_not_fit_into_memory_are_halved(name, monkeypatch):
    if name == "llava":
        decoder, picture, prompt = seeing(name)
    else:
        decoder, picture = tiny_decoders.causal(name), None
        prompt = decoder.build_prompt(TEXT)
    played = coalitions.build_equations_players(decoder, prompt, picture)
    games = [Game(played, (60, 41), "log-probability")]
    whole = DecoderCoalitions(decoder, picture, games)
    expected = whole.values([masks(24, len(played))])[0]
    passes, progress = limit_memory(decoder, monkeypatch, 3), []
    parts = DecoderCoalitions(decoder, picture, games)
    parts.progress = progress.append
    values = parts.values([masks(24, len(played))])[0]
    np.testing.assert_allclose(values, expected, atol=1e-5)
    assert max(passes) > 3
    assert sum(progress) == len(parts.known[0])
    assert parts.position_count == whole.position_count
    limit_memory(decoder, monkeypatch, 0)
    with pytest.raises(torch.OutOfMemoryError):
        DecoderCoalitions(decoder, picture, games).values([masks(2, len(played))])


@pytest.mark.parametrize("name", ["llava", "llama"])
def test_rows_in_a_pass_grow_with_the_memory_of_a_gpu_and_values_stay(
    name, monkeypatch
):
    if name == "llava":
        decoder, picture, prompt = seeing(name)
    else:
        decoder, picture = tiny_decoders.causal(name), None
        prompt = decoder.build_prompt(TEXT)
    played = coalitions.build_equations_players(decoder, prompt, picture)
    games = [Game(played, (60, 41), "log-probability")]
    object.__setattr__(decoder, "positions_per_batch", 40)
    forward, memory, passes = (
        decoder.network.model.forward,
        SimulatedMemory(300, row_bytes=10),
        [],
    )

    def counted(*args, **kwargs):
        inputs = kwargs.get("input_ids", kwargs.get("inputs_embeds"))
        passes.append(len(inputs))
        memory.hold(len(inputs))
        return forward(*args, **kwargs)

    monkeypatch.setattr(decoder.network.model, "forward", counted)
    coalition_masks = masks(60, len(played))
    expected = DecoderCoalitions(decoder, picture, games).values([coalition_masks])[0]
    constant_passes = passes.copy()
    passes.clear()
    monkeypatch.setattr(batch_size, "open_memory", lambda device: memory)
    grown = DecoderCoalitions(decoder, picture, games)
    np.testing.assert_allclose(grown.values([coalition_masks])[0], expected, atol=1e-5)
    # Half of 300 bytes hold 15 rows.
    assert max(passes) <= 15
    assert len(passes) < 0.7 * len(constant_passes)


def test_scores_that_do_not_fit_into_memory_are_halved(monkeypatch):
    decoder, picture, prompt = seeing("llava")
    prompts = [
        decoder.build_prompt(prompt.text + end) for end in ("", " A", " B", " C")
    ]
    expected = score_targets(decoder, prompts, [picture] * 4, [(60, 41)] * 4)
    texts = [decoder.build_prompt(text) for text in ("a cat", "a dog", "the cat")]
    expected_texts = score_targets_in_batches(decoder, texts, (60, 41), "logit")
    passes = limit_memory(decoder, monkeypatch, 1)
    scores = score_targets(decoder, prompts, [picture] * 4, [(60, 41)] * 4)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert max(passes) == 4
    passes.clear()
    np.testing.assert_allclose(
        score_targets_in_batches(decoder, texts, (60, 41), "logit"),
        expected_texts,
        atol=1e-5,
    )
    assert max(passes) == 3


def test_the_values_of_all_batches_come_to_the_host_together():
    decoder, picture, prompt = seeing("llava")
    played = coalitions.build_equations_players(decoder, prompt, picture)
    object.__setattr__(decoder, "positions_per_batch", 40)
    table = DecoderCoalitions(decoder, picture, [Game(played, (60, 41), "logit")])
    with CountTransfers() as transfers:
        table.values([masks(24, len(played))])
    assert transfers.names == ["cpu"]


def test_nothing_is_computed_twice():
    decoder, picture, prompt = seeing("llava")
    played = coalitions.build_equations_players(decoder, prompt, picture)
    texts, images = (
        np.unique(masks(5, played.n_text_players), axis=0),
        np.unique(masks(4, played.n_image_players, 1), axis=0),
    )
    coalition_masks = np.array([[*text, *image] for text in texts for image in images])
    table = DecoderCoalitions(decoder, picture, [Game(played, (60, 41), "logit")])
    first = table.values([coalition_masks])[0]
    looks, positions = table.image_count, table.position_count
    assert looks == len(images)
    beginning = prompt.image_position + len(decoder.build_layout(prompt, picture).block)
    heads = {tuple(played.mask_text(text)[: prompt.image_position]) for text in texts}
    assert positions <= len(heads) * len(images) * beginning + len(coalition_masks) * (
        len(prompt.ids) - prompt.image_position
    )
    np.testing.assert_array_equal(table.values([coalition_masks[::-1]])[0], first[::-1])
    assert (table.image_count, table.position_count) == (looks, positions)


def test_games_that_are_masked_alike_share_images_and_what_stands_before():
    decoder, picture, prompt = seeing("llava")
    longer = decoder.build_prompt(prompt.text + " A ) because")
    played = [
        coalitions.build_equations_players(
            decoder, one, picture, positions=range(4, len(prompt.ids)), grid=3
        )
        for one in (prompt, longer)
    ]
    games = [Game(played[0], (60,), "logit"), Game(played[1], (41, 33, 60), "logit")]
    coalition_masks = masks(10, len(played[0]))
    together = DecoderCoalitions(decoder, picture, games)
    coalition_values = together.values([coalition_masks, coalition_masks])
    apart = [DecoderCoalitions(decoder, picture, [game]) for game in games]
    for values, one in zip(coalition_values, apart, strict=True):
        np.testing.assert_allclose(values, one.values([coalition_masks])[0], atol=1e-5)
    assert together.image_count == apart[0].image_count == apart[1].image_count
    assert together.position_count < apart[0].position_count + apart[1].position_count


def test_a_prompt_that_ends_with_its_image_is_read():
    decoder, picture, _ = seeing("llava")
    prompt = decoder.build_prompt(f"what is this ? {decoder.placeholder}")
    played = coalitions.build_equations_players(decoder, prompt, picture)
    coalition_masks = masks(5, len(played))
    for value in ("logit", FIRST_STEP):
        values = DecoderCoalitions(
            decoder, picture, [Game(played, (60, 41), value)]
        ).values([coalition_masks])[0]
        np.testing.assert_allclose(
            values,
            plain(decoder, picture, prompt, coalition_masks, played, (60, 41), value),
            atol=1e-4,
        )


def test_a_network_that_ignores_its_input_gives_one_value_to_every_coalition():
    decoder = tiny_decoders.causal("llama")
    table = decoder.network.model.get_input_embeddings().weight.data
    table.copy_(table[:1].expand_as(table))  # every token is the same to it
    prompt = decoder.build_prompt(TEXT)
    played = coalitions.build_equations_players(decoder, prompt, None)
    values = DecoderCoalitions(
        decoder, None, [Game(played, (60, 41, 5), "log-probability")]
    ).values([masks(20, len(played))])[0]
    assert np.ptp(values, axis=0).max() < 1e-5
    assert np.isfinite(values).all()


def test_scores_are_the_values_of_the_full_coalition():
    decoder, picture, prompt = seeing("llava-next")
    played = coalitions.build_equations_players(decoder, prompt, picture)
    coalition = np.ones((1, len(played)), dtype=bool)
    for value in ("log-probability", FIRST_STEP):
        game = Game(played, (60, 41), value)
        expected = DecoderCoalitions(decoder, picture, [game]).values([coalition])[0][0]
        np.testing.assert_allclose(
            score_targets(decoder, [prompt], [picture], [(60, 41)], value)[0],
            expected,
            atol=1e-5,
        )


@pytest.mark.parametrize("value", ["log-odds", FIRST_STEP])
def test_prompts_of_like_length_are_read_together_and_score_as_alone(
    value, monkeypatch
):
    decoder = tiny_decoders.causal()
    texts = ["a cat", "what is this ?", "a dog", "( A ) a cat", "( B ) a dog", TEXT]
    prompts = [decoder.build_prompt(text) for text in texts]
    alone = score_targets(
        decoder, prompts, [None] * len(texts), [(60, 41, 5)] * len(texts), value
    )
    lengths, network = [], decoder.network.model.forward

    def counted(*args, **kwargs):
        lengths.append(tuple(kwargs["input_ids"].shape))
        return network(*args, **kwargs)

    monkeypatch.setattr(decoder.network.model, "forward", counted)
    together = score_targets_in_batches(decoder, prompts, (60, 41, 5), value)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert sorted(rows for rows, _ in lengths) == [1, 2, 3]
    lengths.clear()
    few = dataclasses.replace(decoder, positions_per_batch=1)
    np.testing.assert_allclose(
        score_targets_in_batches(few, prompts, (60, 41, 5), value), alone, atol=1e-5
    )
    assert len(lengths) == len(texts)


def test_games_without_targets_are_refused():
    decoder = tiny_decoders.causal()
    played = coalitions.build_equations_players(
        decoder, decoder.build_prompt(TEXT), None
    )
    with pytest.raises(ValueError, match="0 targets"):
        Game(played, (), "logit")
    with pytest.raises(ValueError, match="known are"):
        Game(played, (3,), "logits")


def test_rows_are_cut_where_it_saves_most():
    # 100 rows of 40 symbols: one beginning of 20, then all differ
    distinct = np.array([1] * 21 + [100] * 20)
    assert coalitions.choose_cuts(distinct, np.arange(41), 0, 1) == [20, 40]
    # the same where the last 30 symbols must be read in one pass
    assert coalitions.choose_cuts(distinct, np.arange(41), 0, 30) == [10, 40]
    # two rows are not worth a pass
    assert coalitions.choose_cuts(np.minimum(distinct, 2), np.arange(41), 0, 1) == [40]
