import copy

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.tiny_detector import CONFIG, WIDTH, restated, save_tiny, tiny_weights
from waltz.core.errors import UserError
from waltz.models.networks.detector import prepare_image
from waltz.models.networks.detector_checkpoint import load_detector


def picture(seed: int, height: int, width: int) -> Image.Image:
    """Patches of colours, some noise."""
    draw = np.random.default_rng(seed)
    patches = np.kron(draw.integers(0, 256, (height // 8, width // 8, 3)), np.ones((8, 8, 1)))
    return Image.fromarray((0.8 * patches + 0.2 * draw.integers(0, 256, patches.shape)).astype(np.uint8))


def changed(**settings):
    config = copy.deepcopy(CONFIG)
    config.update(settings)
    return config


@pytest.mark.parametrize(("seed", "height", "width"), [(0, 72, 104), (1, 160, 80), (2, 56, 56), (3, 96, 160)])
def test_regions_are_those_of_the_plain_restatement(tmp_path, seed, height, width):
    weights = tiny_weights(seed)
    detector = load_detector(save_tiny(tmp_path, weights))
    pixels = prepare_image(picture(seed, height, width), detector.settings)
    found, plain = detector(pixels), restated(weights, pixels)
    assert found.boxes.shape == (5, 4)
    assert found.features.shape == (5, WIDTH)
    np.testing.assert_allclose(found.boxes.numpy(), plain["boxes"], atol=2e-3)
    np.testing.assert_allclose(found.features.numpy(), plain["features"], atol=1e-4)
    np.testing.assert_allclose(found.scores.numpy(), plain["scores"], atol=1e-5)
    np.testing.assert_allclose(found.attribute_scores.numpy(), plain["attribute_scores"], atol=1e-5)
    assert found.classes.tolist() == plain["classes"].tolist()
    assert found.attributes.tolist() == plain["attributes"].tolist()
    assert (found.scores.diff() <= 0).all()


def test_later_limits_are_tried_where_too_few_regions_are_left(tmp_path):
    weights, image = tiny_weights(4), picture(4, 88, 88)
    crowded = {"pre_nms_topk_test": 150, "post_nms_topk_test": 60, "nms_thresh": 0.95}

    def detecting(fewest, most, **settings):
        config = changed(rpn=crowded, min_detections=fewest, max_detections=most, **settings)
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
        np.testing.assert_allclose(detector(pixels).boxes.numpy(), plain["boxes"], atol=2e-3)
    detector, pixels, _ = detecting(left[2] + 1, 60)
    with pytest.raises(UserError, match=rf"finds {left[2]} regions .* at least {left[2] + 1} are needed"):
        detector(pixels)


def test_the_map_has_the_size_of_ceil_mode(weights_file):
    # 168 -> 84 -> 42 -> 21 -> 11, where a plain sixteenth is 10; 96 -> 48 -> 24 -> 12 -> 6
    backbone = load_detector(weights_file).backbone
    sizes = []
    for name, part in backbone.named_children():
        part.register_forward_hook(lambda _, __, out, name=name: sizes.append((name, tuple(out.shape[-2:]))))
    with torch.inference_mode():
        backbone(torch.zeros(1, 3, 168, 96))
    assert sizes == [("stem", (42, 24)), ("res2", (42, 24)), ("res3", (21, 12)), ("res4", (11, 6))]


def test_what_is_not_finite_is_refused(tmp_path):
    weights = tiny_weights()
    weights["roi_heads.res5.2.conv3.norm.bias"][0] = torch.nan
    detector = load_detector(save_tiny(tmp_path, weights))
    with pytest.raises(UserError, match="not finite"):
        detector(prepare_image(picture(0, 80, 80), detector.settings))


def test_other_processes_of_chance_and_memory_change_nothing(weights_file):
    detector = load_detector(weights_file)
    pixels = prepare_image(picture(0, 72, 104), detector.settings)
    first, second = detector(pixels), detector(pixels.clone())
    assert (first.features == second.features).all()
    assert (first.boxes == second.boxes).all()
