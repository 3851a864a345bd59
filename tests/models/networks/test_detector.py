"""The detector part by part, by hand and against plain restatements."""

import copy

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.models.tiny_detector import (
    CONFIG,
    WIDTH,
    restated,
    save_tiny,
    tiny_weights,
)
from waltz.core.errors import UserError
from waltz.models.networks.detector import (
    DetectorSettings,
    ProposalGenerator,
    ProposalHead,
    compute_resized_size,
    prepare_image,
    read_image,
)
from waltz.models.networks.detector_checkpoint import load_detector

PLAIN = DetectorSettings(shortest=4, longest=99, mean=(0, 0, 0))


@pytest.mark.parametrize(
    ("size", "expected"),
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
def test_sizes_worked_by_hand(size, expected):
    assert compute_resized_size(*size, 800, 1333) == expected


def test_levels_are_blue_green_red_less_their_mean():
    image = Image.new("RGB", (3, 3), (255, 10, 0))
    prepared = prepare_image(image, DetectorSettings(shortest=3))
    assert prepared.dtype == torch.float32
    assert prepared[:, 1, 1].tolist() == pytest.approx(
        [0 - 102.9801, 10 - 115.9465, 255 - 122.7717], abs=1e-4
    )
    halved = prepare_image(image, DetectorSettings(shortest=3, deviation=(1, 2, 4)))
    assert halved[:, 1, 1].tolist() == pytest.approx(
        [-102.9801, (10 - 115.9465) / 2, (255 - 122.7717) / 4], abs=1e-4
    )


def row(*levels: int) -> Image.Image:
    return Image.fromarray(
        np.tile(np.array(levels, dtype=np.uint8), (len(levels), 1))
    ).convert("RGB")


def test_pixels_are_resized_as_floats_with_centres_at_their_halves():
    # two columns to four: centres at -0.25, 0.25, 0.75, 1.25; 101 makes levels that no integer
    # holds
    assert prepare_image(row(0, 101), PLAIN)[0, 0].tolist() == [0, 25.25, 75.75, 101]


def test_shrinking_looks_at_the_nearest_pixels_alone():
    # six columns to two: centres at 1 and 4, where an antialiased resize would average three
    assert prepare_image(
        row(0, 30, 0, 0, 60, 0), DetectorSettings(shortest=2, mean=(0, 0, 0))
    )[0, 0].tolist() == [
        30,
        60,
    ]


def saved(image: Image.Image, file, **options):
    image.save(file, **options)
    return np.asarray(read_image(file, is_upright=True))


def test_files_are_turned_as_their_exif_data_says(tmp_path):
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    path = saved(Image.fromarray(pixels), tmp_path / "a.png", exif=exif)
    assert (path == np.rot90(pixels, -1)).all()
    assert (saved(Image.fromarray(pixels), tmp_path / "b.png") == pixels).all()


def test_every_mode_becomes_three_channels(tmp_path):
    grey = np.array([[0, 100], [200, 255]], dtype=np.uint8)
    assert (
        saved(Image.fromarray(grey), tmp_path / "grey.png") == grey[..., None]
    ).all()
    clear = Image.fromarray(
        np.dstack([grey, grey // 2, grey // 4, np.zeros_like(grey)])
    )
    assert (
        saved(clear, tmp_path / "clear.png") == np.dstack([grey, grey // 2, grey // 4])
    ).all()
    deep = Image.fromarray(grey.astype(np.uint16) * 256 + 17)
    assert (saved(deep, tmp_path / "deep.png") == grey[..., None]).all()
    palette = Image.fromarray(np.dstack([grey] * 3)).quantize(4)
    assert (saved(palette, tmp_path / "palette.png") == grey[..., None]).all()


def test_what_is_no_image_is_refused_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "text.jpg").write_text("no image")
    Image.new("RGB", (40, 40)).save(tmp_path / "cut.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "cut.jpg").read_bytes()[:300])
    Image.new("RGB", (40, 40)).save(tmp_path / "large.png")
    with pytest.raises(UserError, match=r"text\.jpg: is not an image"):
        read_image(tmp_path / "text.jpg", is_upright=True)
    with pytest.raises(UserError, match=r"cut\.jpg: (cannot be read|is not an image)"):
        read_image(tmp_path / "cut.jpg", is_upright=True)
    with pytest.raises(UserError, match=r"nowhere\.jpg: cannot be read"):
        read_image(tmp_path / "nowhere.jpg", is_upright=True)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(UserError, match=r"large\.png: has more than 1000 pixels"):
        read_image(tmp_path / "large.png", is_upright=True)


def with_anchors(module: torch.nn.Module, boxes: list[list[float]]) -> None:
    with torch.no_grad():
        next(iter(module.parameters())).copy_(torch.tensor(boxes))


def test_scores_and_deltas_go_with_their_anchor():
    # of each cell the channels are anchor 0: dx, dy, dw, dh; anchor 1: dx, ...; the map counts its
    # cells
    head = ProposalHead(1, 1, 2)
    with torch.no_grad():
        for part in head.parameters():
            part.zero_()
        head.conv.weight[0, 0, 1, 1] = 1
        head.objectness_logits.weight[:, 0, 0, 0] = torch.tensor([1.0, 10])
        head.anchor_deltas.bias.copy_(torch.arange(8.0))
    scores, deltas = head(torch.arange(6.0).view(1, 1, 2, 3))
    assert scores.tolist() == [0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50]
    assert deltas.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] * 6


def test_the_best_candidates_are_chosen_before_they_are_cut_and_thinned():
    # one anchor of 20 x 20 in each of 6 cells, not moved; scores 0 to 5 from left to right
    settings = DetectorSettings(candidates=3, proposals=2, proposal_overlap=0.0)
    generator = ProposalGenerator(1, 1, 1, settings)
    with torch.no_grad():
        for part in generator.parameters():
            part.zero_()
        generator.rpn_head.conv.weight[0, 0, 1, 1] = 1
        generator.rpn_head.objectness_logits.weight.fill_(1)
    with_anchors(generator, [[-10, -10, 10, 10]])
    states = torch.arange(6.0).view(1, 1, 1, 6)
    # at the image's end of 70 pixels the last anchor is nothing, and no fourth takes its place; of
    # the other two, which overlap, the better stays
    assert generator(states, 16, 70).tolist() == [[54, 0, 70, 10]]
    assert generator(states, 16, 100).tolist() == [[70, 0, 90, 10], [38, 0, 58, 10]]


def picture(seed: int, height: int, width: int) -> Image.Image:
    """Patches of colours, some noise."""
    draw = np.random.default_rng(seed)
    patches = np.kron(
        draw.integers(0, 256, (height // 8, width // 8, 3)), np.ones((8, 8, 1))
    )
    return Image.fromarray(
        (0.8 * patches + 0.2 * draw.integers(0, 256, patches.shape)).astype(np.uint8)
    )


def changed(**settings):
    config = copy.deepcopy(CONFIG)
    config.update(settings)
    return config


@pytest.mark.parametrize(
    ("seed", "height", "width"), [(0, 72, 104), (1, 160, 80), (2, 56, 56), (3, 96, 160)]
)
def test_regions_are_those_of_the_plain_restatement(tmp_path, seed, height, width):
    weights = tiny_weights(seed)
    detector = load_detector(save_tiny(tmp_path, weights))
    pixels = prepare_image(picture(seed, height, width), detector.settings)
    regions, plain = detector(pixels), restated(weights, pixels)
    assert regions.boxes.shape == (5, 4)
    assert regions.features.shape == (5, WIDTH)
    np.testing.assert_allclose(regions.boxes.numpy(), plain["boxes"], atol=2e-3)
    np.testing.assert_allclose(regions.features.numpy(), plain["features"], atol=1e-4)
    np.testing.assert_allclose(regions.scores.numpy(), plain["scores"], atol=1e-5)
    np.testing.assert_allclose(
        regions.attribute_scores.numpy(), plain["attribute_scores"], atol=1e-5
    )
    assert regions.classes.tolist() == plain["classes"].tolist()
    assert regions.attributes.tolist() == plain["attributes"].tolist()
    assert (regions.scores.diff() <= 0).all()


def test_later_limits_are_tried_where_too_few_regions_are_left(tmp_path):
    weights, image = tiny_weights(4), picture(4, 88, 88)
    crowded = {"pre_nms_topk_test": 150, "post_nms_topk_test": 60, "nms_thresh": 0.95}

    def detecting(fewest, most, **settings):
        config = changed(
            rpn=crowded, min_detections=fewest, max_detections=most, **settings
        )
        detector = load_detector(save_tiny(tmp_path, weights, config))
        return detector, prepare_image(image, detector.settings), config

    left = []
    for limit in (0.5, 0.6, 0.7):
        detector, pixels, _ = detecting(1, 60, roi_heads={"nms_thresh_test": [limit]})
        left.append(len(detector(pixels).boxes))
    assert left[0] < left[1] < left[2] < 60
    for count, limit in ((left[0], 0.5), (left[0] + 1, 0.6), (left[1] + 1, 0.7)):
        detector, pixels, config = detecting(count, count)
        plain = restated(weights, pixels, config)
        assert plain["limit"] == limit
        np.testing.assert_allclose(
            detector(pixels).boxes.numpy(), plain["boxes"], atol=2e-3
        )
    detector, pixels, _ = detecting(left[2] + 1, 60)
    with pytest.raises(
        UserError,
        match=rf"finds {left[2]} regions .* at least {left[2] + 1} are needed",
    ):
        detector(pixels)


def test_the_map_has_the_size_of_ceil_mode(detector_file):
    # 168 -> 84 -> 42 -> 21 -> 11, where a plain sixteenth is 10; 96 -> 48 -> 24 -> 12 -> 6
    backbone = load_detector(detector_file).backbone
    sizes = []
    for name, part in backbone.named_children():
        part.register_forward_hook(
            lambda _, __, out, name=name: sizes.append((name, tuple(out.shape[-2:])))
        )
    with torch.inference_mode():
        backbone(torch.zeros(1, 3, 168, 96))
    assert sizes == [
        ("stem", (42, 24)),
        ("res2", (42, 24)),
        ("res3", (21, 12)),
        ("res4", (11, 6)),
    ]


def test_what_is_not_finite_is_refused(tmp_path):
    weights = tiny_weights()
    weights["roi_heads.res5.2.conv3.norm.bias"][0] = torch.nan
    detector = load_detector(save_tiny(tmp_path, weights))
    with pytest.raises(UserError, match="not finite"):
        detector(prepare_image(picture(0, 80, 80), detector.settings))


def test_other_processes_of_chance_and_memory_change_nothing(detector_file):
    detector = load_detector(detector_file)
    pixels = prepare_image(picture(0, 72, 104), detector.settings)
    first, second = detector(pixels), detector(pixels.clone())
    assert (first.features == second.features).all()
    assert (first.boxes == second.boxes).all()
