"""Players of decoders: who plays, what is hidden, and where patches lie in what the processor made."""

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins import tiny_decoders
from waltz.core.errors import UserError
from waltz.models.decoders import players

torch.set_num_threads(1)  # tiny batches: threads cost more than they give


def photo(width: int = 61, height: int = 40) -> Image.Image:
    return Image.fromarray(np.random.default_rng(3).integers(1, 256, (height, width, 3), dtype=np.uint8))


def hidden(played, decoder, picture, patches):
    mask = np.ones((1, played.patches), dtype=bool)
    mask[0, list(patches)] = False
    return played.mask_image(decoder, picture, mask)[0]


def test_equations_play_what_is_not_special_and_cover_the_whole_tile():
    decoder = tiny_decoders.llava()
    picture, prompt = decoder.prepare_image(photo()), decoder.build_prompt("USER : <image> what is this ?")
    played = players.build_equations_players(decoder, prompt, picture)
    assert [prompt.tokens[place] for place in played.positions] == ["USER", ":", "what", "is", "this", "?"]
    assert (played.grid, len(played), played.text, played.image) == (3, 15, slice(0, 6), slice(6, 15))
    assert not played.always_visible.any()
    assert played.mask_text(np.zeros(6, dtype=bool)) == (
        1,
        *[decoder.masked_id] * 2,
        decoder.image_id,
        *[decoder.masked_id] * 4,
    )
    assert not hidden(played, decoder, picture, range(9)).any()
    one = hidden(played, decoder, picture, [5]) != picture.pixels  # row 1, column 2 of 8 x 8 pixels
    assert one[..., 8:16, 16:24].all()
    assert one.sum() == 3 * 8 * 8


def test_published_players_are_patches_first_then_all_ids_and_leave_the_rest_of_the_image():
    decoder = tiny_decoders.llava()
    picture, prompt = (
        decoder.prepare_image(photo()),
        decoder.build_prompt("<image> what is this ? what ( A ) B a cat or C dog ? best"),
    )
    played = players.build_published_players(decoder, prompt, picture, masked_id=9, unmasked_ids=(1,))
    assert len(prompt.ids) == 18
    assert (played.grid, played.image, played.text) == (5, slice(0, 25), slice(25, 43))
    assert np.flatnonzero(played.always_visible).tolist() == [25, 26]  # start token and placeholder
    assert played.mask_text(played.always_visible[played.text]) == (1, decoder.image_id, *[9] * 16)
    seen = hidden(played, decoder, picture, range(25))
    assert not seen[..., :20, :20].any()  # 24 // 5 = 4 pixels a patch
    torch.testing.assert_close(seen[..., 20:, :], picture.pixels[..., 20:, :])
    assert players.build_published_players(decoder, prompt, picture, grid=2).patches == 4


def test_published_players_of_the_raw_image_are_black_in_its_corner():
    decoder = tiny_decoders.llava_next()
    image = photo()
    picture, prompt = decoder.prepare_image(image), decoder.build_prompt("<image> what is this ?")
    with pytest.raises(UserError, match="set raw"):
        players.build_published_players(decoder, prompt, picture)
    played = players.build_published_players(decoder, prompt, picture, raw=True)
    raw = np.asarray(image).copy()
    raw[:8, 8:16] = 0  # the second of 3 x 3 patches of 24 // 3 pixels
    expected = decoder.prepare_image(Image.fromarray(raw)).pixels
    torch.testing.assert_close(hidden(played, decoder, picture, [1]), expected)
    raw[:24, :24] = 0
    torch.testing.assert_close(
        hidden(played, decoder, picture, range(9)), decoder.prepare_image(Image.fromarray(raw)).pixels
    )
    small = decoder.prepare_image(photo(20, 12))
    assert (
        players.build_published_players(decoder, prompt, small, raw=True).always_visible[:9].tolist()
        == [False] * 6 + [True] * 3
    )


@pytest.mark.parametrize("name", ["llava-next", "smolvlm", "idefics2", "qwen2-vl"])
def test_patches_of_tiled_images_lie_where_the_image_does(name):
    decoder = tiny_decoders.SEEING[name]()
    image = photo()
    picture, prompt = decoder.prepare_image(image), decoder.build_prompt(f"{decoder.placeholder} what is this ?")
    if name in ("llava-next", "smolvlm"):
        assert picture.pixels.shape[1] > 2  # several tiles and the whole
    played = players.build_equations_players(decoder, prompt, picture, grid=2)
    counts = torch.bincount(played.cells.flatten(), minlength=5)
    assert (counts[:4] > 0.15 * counts[:4].sum()).all()
    # a change of the image within one patch, off its borders, changes what that patch hides and nothing else
    for patch, (left, top) in enumerate([(0, 0), (31, 0), (0, 21), (31, 21)]):
        raw = np.asarray(image).copy()
        raw[top + 6 : top + 13, left + 9 : left + 21] = 255 - raw[top + 6 : top + 13, left + 9 : left + 21]
        changed = (decoder.prepare_image(Image.fromarray(raw)).pixels - picture.pixels).abs() > 0.2  # resampling rings
        assert changed.any()
        assert (hidden(played, decoder, picture, [patch])[changed] == 0).all()
    padding = played.cells.expand(picture.pixels.shape) == 4
    white = decoder.prepare_image(Image.new("RGB", image.size, (255, 255, 255))).pixels
    torch.testing.assert_close(white[padding], picture.pixels[padding])  # padding is the same for every image


def test_players_without_an_image_are_the_tokens():
    decoder = tiny_decoders.causal()
    prompt = decoder.build_prompt("what is this ?")
    played = players.build_equations_players(decoder, prompt, None, positions=(1, 3))
    assert (len(played), played.patches, played.positions) == (2, 0, (1, 3))
    assert played.mask_text(np.array([False, True]))[1] == decoder.masked_id
