"""ViLBERT's detector part by part, by hand and against plain restatements."""

import copy
import hashlib
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stand_ins.models.tiny_vilbert_detector import (
    CONFIG,
    WIDTH,
    restate,
    restate_image,
    restate_selection,
    save_config,
    save_tiny_pyramid,
    tiny_pyramid_weights,
)
from waltz.core.errors import UserError
from waltz.models.networks.detector import StageSizes
from waltz.models.networks.vilbert_detector import (
    PyramidDetector,
    PyramidProposalGenerator,
    PyramidSettings,
    PyramidSizes,
    assign_maps,
    compute_scale,
    extend_boxes,
    resize_image,
    select_by_class,
    subtract_mean,
)
from waltz.models.networks.vilbert_detector_checkpoint import (
    UNUSED_KEY,
    load_vilbert_detector,
)

RELEASED_SIZES = PyramidSizes(
    stem=64,
    stages={
        "layer1": StageSizes(3, 256, 256, 32),
        "layer2": StageSizes(8, 512, 512, 32),
        "layer3": StageSizes(36, 1024, 1024, 32),
        "layer4": StageSizes(3, 2048, 2048, 32),
    },
    channels=512,
    anchors=3,
    resolution=7,
    width=2048,
    hidden=2048,
    classes=1600,
)
UNUSED_WEIGHTS = {
    "roi_heads.box.predictor.bbox_pred.weight": "6404x2048",
    "roi_heads.box.predictor.bbox_pred.bias": "6404",
    "roi_heads.box.predictor.cls_embed.weight": "1601x256",
    "roi_heads.box.predictor.attr_linear1.weight": "512x2304",
    "roi_heads.box.predictor.attr_linear1.bias": "512",
    "roi_heads.box.predictor.attr_linear2.weight": "400x512",
    "roi_heads.box.predictor.attr_linear2.bias": "400",
}
DIGEST = "10b31f611ccf4dbd53adef8377ed94be510b9eb2dd3941c12cca1242147a7492"
"""sha256 of the lines `KEY<tab>SHAPE` of the original network's 815 weights, in the order of keys.
"""


def test_keys_and_shapes_are_those_of_the_original_network():
    with torch.device("meta"):
        network = PyramidDetector("released", RELEASED_SIZES, PyramidSettings())
    shapes = {
        key: "x".join(map(str, value.shape))
        for key, value in network.state_dict().items()
    }
    assert len(shapes) == 808
    assert shapes["backbone.body.layer3.35.conv2.weight"] == "1024x32x3x3"
    assert shapes["roi_heads.box.feature_extractor.fc6.weight"] == "2048x25088"
    assert shapes["rpn.head.bbox_pred.weight"] == "12x512x1x1"
    assert not shapes.keys() & UNUSED_WEIGHTS.keys()
    assert all(UNUSED_KEY.fullmatch(key) for key in UNUSED_WEIGHTS)
    lines = "".join(
        f"{key}\t{shape}\n"
        for key, shape in sorted({**shapes, **UNUSED_WEIGHTS}.items())
    )
    assert hashlib.sha256(lines.encode()).hexdigest() == DIGEST


@pytest.mark.parametrize(
    ("size", "scale"),
    [
        ((480, 640), 800 / 480),
        ((640, 480), 800 / 480),
        ((100, 1000), 1.333),
        ((600, 1000), 800 / 600),  # 1333.33 is rounded to 1333, which is not above
        ((2000, 3334), 1333 / 3334),  # 1333.6
    ],
)
def test_scales_worked_by_hand(size, scale):
    assert compute_scale(*size, 800, 1333) == scale


def prepare(image, settings):
    return resize_image(subtract_mean(image, settings), settings)


def test_sides_are_rounded_half_to_even_and_padded_to_multiples_of_32_on_the_right_and_below():
    # 64 / 32 = 2 for the shorter side; 0.5 x 65 = 32.5, which becomes 32, and 0.5 x 67 = 33.5, which becomes 34
    for width, rounded, padded in ((65, 32, 32), (67, 34, 64)):
        image = prepare(
            Image.new("RGB", (width, 64), (255, 10, 0)), PyramidSettings(shortest=32)
        )
        assert image.scale == 0.5
        assert image.pixels.shape == (3, 32, padded)
        inside, padding = image.pixels[:, :, :rounded], image.pixels[:, :, rounded:]
        assert inside[:, 5, -1].tolist() == pytest.approx(
            [0 - 102.9801, 10 - 115.9465, 255 - 122.7717], abs=1e-4
        )
        assert (padding == 0).all()


def test_pixels_are_read_at_the_factor_and_not_at_the_ratio_of_the_sides():
    # 3 columns of 2 rows by 1.5: 4.5 columns become 4, of which the last is read at 3.5 / 1.5 - 0.5 = 1.8333; at the
    # ratio 4 / 3 it would be read at 2.125, which is the last column
    levels = np.array([[0, 30, 90]] * 2, dtype=np.uint8)
    settings = PyramidSettings(shortest=3, mean=(0, 0, 0))
    pixels = prepare(Image.fromarray(levels), settings).pixels
    assert pixels[0, 0, :5].tolist() == pytest.approx([0, 15, 40, 80, 0], abs=1e-4)


def draw_picture(seed: int, height: int, width: int) -> np.ndarray:
    """Patches of colours."""
    draw = np.random.default_rng(seed)
    patches = np.kron(
        draw.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3)), np.ones((8, 8, 1))
    )
    return patches[:height, :width].astype(np.uint8)


def test_a_picture_is_prepared_as_the_plain_restatement():
    for shape in ((41, 60), (60, 41), (20, 90)):
        levels = draw_picture(1, *shape)
        image = prepare(
            Image.fromarray(levels), PyramidSettings(shortest=72, longest=120)
        )
        pixels, scale = restate_image(levels, 72, 120)
        assert image.scale == scale
        np.testing.assert_allclose(image.pixels.numpy(), pixels, atol=5e-3)


@pytest.mark.parametrize(
    ("side", "number"),
    [(20, 0), (111, 0), (112, 1), (223, 1), (224, 2), (447, 2), (448, 3), (2000, 3)],
)
def test_boxes_are_pooled_from_the_map_of_their_size(side, number):
    # floor(4 + log2(side / 224)) is 2 for the first map; a box of 112 pixels ends at 111
    assert assign_maps(
        torch.tensor([[10.0, 20, 10 + side - 1, 20 + side - 1]])
    ).tolist() == [number]


corners = st.integers(0, 12)
boxes_of_pixels = st.lists(
    st.tuples(corners, corners, corners, corners), min_size=1, max_size=14
)


@given(
    boxes_of_pixels,
    st.sampled_from([0.25, 0.5, 0.7]),
    st.integers(1, 16),
    st.integers(0, 2**32 - 1),
)
def test_walking_pairs_gives_the_choice_of_a_suppression_for_each_class(
    rows, limit, most, seed
):
    boxes = np.array(
        [[min(a, c), min(b, d), max(a, c), max(b, d)] for a, b, c, d in rows],
        dtype=np.float32,
    )
    # few levels, so that many probabilities are equal, and some are 0
    probabilities = (
        np.random.default_rng(seed).integers(0, 6, (len(boxes), 5)) / 8
    ).astype(np.float32)
    selected, scores = select_by_class(
        extend_boxes(torch.from_numpy(boxes)),
        torch.from_numpy(probabilities),
        limit,
        most,
    )
    expected, expected_scores = restate_selection(boxes, probabilities, limit, most)
    assert selected.tolist() == expected
    assert scores.tolist() == expected_scores.tolist()


def test_walking_pairs_gives_the_same_choice_of_many_boxes():
    draw = np.random.default_rng(0)
    start = draw.uniform(0, 300, (150, 2))
    boxes = np.concatenate(
        [start, start + draw.uniform(40, 200, (150, 2))], axis=1
    ).astype(np.float32)
    probabilities = torch.from_numpy(
        draw.normal(size=(150, 40)).astype(np.float32) * 3
    ).softmax(dim=1)
    selected, scores = select_by_class(
        extend_boxes(torch.from_numpy(boxes)), probabilities, 0.5, 100
    )
    expected, expected_scores = restate_selection(
        boxes, probabilities.numpy(), 0.5, 100
    )
    assert selected.tolist() == expected
    assert scores.tolist() == expected_scores.tolist()


def test_the_last_pixels_belong_to_boxes_that_overlap():
    # 4 x 4 and 4 x 2 pixels: the intersection over union is 8 / 16, not above the limit
    boxes = torch.tensor([[0.0, 0, 3, 3], [0, 0, 3, 1], [0, 0, 3, 2]])
    probabilities = torch.tensor([[0.9], [0.8], [0.7]])
    selected, scores = select_by_class(extend_boxes(boxes), probabilities, 0.5, 9)
    assert selected.tolist() == [0, 1, 2]  # the third, 12 / 16, survives for no class
    assert scores.tolist() == pytest.approx([0.9, 0.8, 0])


def build_generator(settings: PyramidSettings) -> PyramidProposalGenerator:
    """A generator on maps of one channel, whose score is the map and whose boxes are its anchors of
    8 x 8 pixels.
    """
    sizes = PyramidSizes(
        stem=1,
        stages={},
        channels=1,
        anchors=1,
        resolution=1,
        width=1,
        hidden=1,
        classes=1,
    )
    generator = PyramidProposalGenerator(sizes, settings)
    with torch.no_grad():
        for part in generator.parameters():
            part.zero_()
        generator.head.conv.weight[0, 0, 1, 1] = 1
        generator.head.cls_logits.weight.fill_(1)
        for anchors in generator.anchor_generator.cell_anchors:
            anchors.copy_(torch.tensor([[-4.0, -4, 3, 3]]))
    return generator


@torch.inference_mode()
def test_proposals_of_all_maps_are_ordered_and_end_a_pixel_before_the_side():
    maps = [torch.zeros(1, 1, 1, 1) for _ in range(5)]
    maps[0] = torch.tensor([1.0, 0, 5]).view(1, 1, 1, 3)  # cells at 0, 4 and 8
    maps[2] = torch.tensor([3.0, 2]).view(1, 1, 1, 2)  # at 0 and 16
    boxes = build_generator(PyramidSettings(candidates=2))(maps, 8, 18)
    # of the first map the cells 2 and 0; of the third both; of the others one each, with equal
    # scores in their order
    assert boxes.tolist() == [
        [4, 0, 11, 3],
        [0, 0, 3, 3],
        [12, 0, 17, 3],
        [0, 0, 3, 3],
        *[[0, 0, 3, 3]] * 3,
    ]
    few = build_generator(PyramidSettings(candidates=2, map_proposals=1, proposals=3))(
        maps, 8, 18
    )
    assert few.tolist() == [[4, 0, 11, 3], [0, 0, 3, 3], [0, 0, 3, 3]]
    large = build_generator(PyramidSettings(smallest=5))(maps, 8, 18)
    assert large.tolist() == []


@torch.inference_mode()
def test_proposals_of_one_map_that_overlap_are_removed():
    # boxes of 8 pixels at 0 and 4 share 4 of 12 columns
    maps = [
        torch.tensor([1.0, 5, 3]).view(1, 1, 1, 3),
        *[torch.full((1, 1, 1, 1), -9.0)] * 4,
    ]
    proposals = build_generator(PyramidSettings(proposal_overlap=0.3, proposals=2))(
        maps, 16, 99
    )
    assert proposals.tolist() == [[0, 0, 7, 3], [0, 0, 3, 3]]


def change_config(shortest: int, longest: int, **rpn: float) -> dict:
    config = copy.deepcopy(CONFIG)
    config["INPUT"] = {"MIN_SIZE_TEST": shortest, "MAX_SIZE_TEST": longest}
    config["MODEL"]["RPN"].update(rpn)
    return config


@pytest.mark.parametrize(
    ("seed", "height", "width", "config"),
    [
        (0, 70, 101, CONFIG),
        (1, 130, 60, CONFIG),
        (2, 50, 50, change_config(64, 99, NMS_THRESH=0.4)),
        (3, 90, 120, change_config(224, 400)),
    ],
)
def test_regions_are_those_of_the_plain_restatement(
    tmp_path, seed, height, width, config
):
    weights, levels = tiny_pyramid_weights(seed), draw_picture(seed, height, width)
    detector = load_vilbert_detector(
        save_tiny_pyramid(tmp_path, weights), save_config(tmp_path, config)
    )
    regions = detector(detector.prepare_image(Image.fromarray(levels)))
    plain = restate(weights, levels, config)
    assert regions.boxes.shape == (12, 4)
    assert regions.features.shape == (12, WIDTH)
    np.testing.assert_allclose(regions.boxes.numpy(), plain["boxes"], atol=2e-3)
    np.testing.assert_allclose(regions.features.numpy(), plain["features"], atol=1e-3)
    np.testing.assert_allclose(
        regions.class_probabilities.numpy(), plain["cls_prob"], atol=1e-4
    )
    np.testing.assert_allclose(regions.scores.numpy(), plain["scores"], atol=1e-4)
    assert plain["maps"] == ([0, 1] if seed == 3 else [0])
    assert plain["features"].std() > 0.1


@torch.inference_mode()
def test_maps_have_the_sizes_of_their_strides(tmp_path):
    detector = load_vilbert_detector(save_tiny_pyramid(tmp_path))
    maps = detector.backbone(torch.zeros(1, 3, 96, 160))
    assert [tuple(states.shape[-2:]) for states in maps] == [
        (24, 40),
        (12, 20),
        (6, 10),
        (3, 5),
        (2, 3),
    ]
    assert (maps[4] == maps[3][..., ::2, ::2]).all()


def test_what_is_not_finite_is_refused(tmp_path):
    weights = tiny_pyramid_weights()
    weights["roi_heads.box.feature_extractor.fc6.bias"][0] = math.inf
    detector = load_vilbert_detector(save_tiny_pyramid(tmp_path, weights))
    with pytest.raises(UserError, match="not finite"):
        detector(torch.zeros(3, 64, 64))
