import numpy as np
import pytest
import torch
from PIL import Image

from waltz.core.errors import UserError
from waltz.models.networks.detector import DetectorSettings, compute_resized_size, prepare_image, read_upright_image

PLAIN = DetectorSettings(shortest=4, longest=99, mean=(0, 0, 0))


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ((480, 640), (800, 1067)),  # 1066.67
        ((640, 480), (1067, 800)),
        ((10, 10), (800, 800)),
        ((1600, 1700), (800, 850)),
        ((100, 1000), (133, 1333)),  # 800 x 8000 first
        ((375, 500), (800, 1067)),
        ((500, 333), (1201, 800)),  # 1201.2
    ],
)
def test_sizes_worked_by_hand(size, wanted):
    assert compute_resized_size(*size, 800, 1333) == wanted


def test_levels_are_blue_green_red_less_their_mean():
    image = Image.new("RGB", (3, 3), (255, 10, 0))
    found = prepare_image(image, DetectorSettings(shortest=3))
    assert found.dtype == torch.float32
    assert found[:, 1, 1].tolist() == pytest.approx([0 - 102.9801, 10 - 115.9465, 255 - 122.7717], abs=1e-4)
    halved = prepare_image(image, DetectorSettings(shortest=3, deviation=(1, 2, 4)))
    assert halved[:, 1, 1].tolist() == pytest.approx([-102.9801, (10 - 115.9465) / 2, (255 - 122.7717) / 4], abs=1e-4)


def row(*levels: int) -> Image.Image:
    return Image.fromarray(np.tile(np.array(levels, dtype=np.uint8), (len(levels), 1))).convert("RGB")


def test_pixels_are_resized_as_floats_with_centres_at_their_halves():
    # two columns to four: centres at -0.25, 0.25, 0.75, 1.25; 101 makes levels that no integer holds
    assert prepare_image(row(0, 101), PLAIN)[0, 0].tolist() == [0, 25.25, 75.75, 101]


def test_shrinking_looks_at_the_nearest_pixels_alone():
    # six columns to two: centres at 1 and 4, where an antialiased resize would average three
    assert prepare_image(row(0, 30, 0, 0, 60, 0), DetectorSettings(shortest=2, mean=(0, 0, 0)))[0, 0].tolist() == [
        30,
        60,
    ]


def saved(image: Image.Image, file, **options):
    image.save(file, **options)
    return np.asarray(read_upright_image(file))


def test_files_are_turned_as_their_exif_data_says(tmp_path):
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    found = saved(Image.fromarray(pixels), tmp_path / "a.png", exif=exif)
    assert (found == np.rot90(pixels, -1)).all()
    assert (saved(Image.fromarray(pixels), tmp_path / "b.png") == pixels).all()


def test_every_mode_becomes_three_channels(tmp_path):
    grey = np.array([[0, 100], [200, 255]], dtype=np.uint8)
    assert (saved(Image.fromarray(grey), tmp_path / "grey.png") == grey[..., None]).all()
    clear = Image.fromarray(np.dstack([grey, grey // 2, grey // 4, np.zeros_like(grey)]))
    assert (saved(clear, tmp_path / "clear.png") == np.dstack([grey, grey // 2, grey // 4])).all()
    deep = Image.fromarray(grey.astype(np.uint16) * 256 + 17)
    assert (saved(deep, tmp_path / "deep.png") == grey[..., None]).all()
    palette = Image.fromarray(np.dstack([grey] * 3)).quantize(4)
    assert (saved(palette, tmp_path / "palette.png") == grey[..., None]).all()


def test_what_is_no_image_is_refused_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "text.jpg").write_text("no image")
    Image.new("RGB", (40, 40)).save(tmp_path / "cut.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "cut.jpg").read_bytes()[:300])
    Image.new("RGB", (40, 40)).save(tmp_path / "large.png")
    with pytest.raises(UserError, match=r"text\.jpg: is no image"):
        read_upright_image(tmp_path / "text.jpg")
    with pytest.raises(UserError, match=r"cut\.jpg: (cannot be read|is no image)"):
        read_upright_image(tmp_path / "cut.jpg")
    with pytest.raises(UserError, match=r"nowhere\.jpg: cannot be read"):
        read_upright_image(tmp_path / "nowhere.jpg")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(UserError, match=r"large\.png: has more than 1000 pixels"):
        read_upright_image(tmp_path / "large.png")
