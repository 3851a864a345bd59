"""Weights and configurations of ViLBERT's detector, and what is refused of them."""

import copy
import json
import logging

import pytest
import torch
import yaml

from stand_ins.models.tiny_vilbert_detector import (
    CLASSES,
    CONFIG,
    GROUPS,
    save_config,
    save_tiny_pyramid,
    tiny_pyramid_weights,
)
from waltz.core.errors import UserError
from waltz.models.networks.vilbert_detector import PyramidSettings
from waltz.models.networks.vilbert_detector_checkpoint import (
    load_vilbert_detector,
    read_pyramid_config,
)


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    return load_vilbert_detector(
        save_tiny_pyramid(tmp_path_factory.mktemp("detector"))
    ).sizes


def test_sizes_are_read_from_the_weights(sizes):
    stages = {
        name: (stage.blocks, stage.width, stage.outputs, stage.groups)
        for name, stage in sizes.stages.items()
    }
    assert stages == {
        "layer1": (1, 4, 8, GROUPS),
        "layer2": (2, 8, 12, GROUPS),
        "layer3": (2, 8, 16, GROUPS),
        "layer4": (1, 12, 20, GROUPS),
    }
    assert (sizes.stem, sizes.channels, sizes.anchors, sizes.resolution) == (
        6,
        10,
        2,
        3,
    )
    assert (sizes.width, sizes.hidden, sizes.classes) == (14, 9, CLASSES)


def test_only_weights_that_the_regions_depend_on_are_required(tmp_path):
    weights = tiny_pyramid_weights()
    unused = ("bbox_pred", "cls_embed", "attr_linear")
    needed = {
        key: value
        for key, value in weights.items()
        if not key.startswith("roi_heads") or "fc" in key
    }
    needed |= {key: value for key, value in weights.items() if "cls_score" in key}
    assert {
        key.split(".")[3].rstrip("12") for key in weights.keys() - needed.keys()
    } == set(unused)
    torch.save(needed, tmp_path / "flat.pth")
    first, second = (
        load_vilbert_detector(file)
        for file in (tmp_path / "flat.pth", save_tiny_pyramid(tmp_path))
    )
    states = first.state_dict(), second.state_dict()
    assert states[0].keys() == states[1].keys() == needed.keys()
    assert all((states[0][key] == states[1][key]).all() for key in needed)
    for key in sorted(needed)[::9]:
        torch.save(
            {name: value for name, value in needed.items() if name != key},
            tmp_path / "flat.pth",
        )
        with pytest.raises(UserError, match=rf"flat\.pth: .*lacks {key}"):
            load_vilbert_detector(tmp_path / "flat.pth")


def test_what_is_unexpected_or_misshapen_is_listed(tmp_path):
    weights = tiny_pyramid_weights()
    weights["roi_heads.mask.weight"] = torch.zeros(3)
    weights["roi_heads.box.predictor.bbox_pred.scale"] = torch.zeros(3)
    weights["backbone.fpn.fpn_layer2.bias"] = torch.zeros(4)
    with pytest.raises(UserError) as fault:
        load_vilbert_detector(save_tiny_pyramid(tmp_path, weights))
    for message in (
        "detectron_model.pth",
        "unexpected roi_heads.mask.weight",
        "bbox_pred.scale",
        "bias 4 for 10",
    ):
        assert message in str(fault.value)
    allowed = {"roi_heads.mask.*": "another task", "*.bbox_pred.scale": "unused"}
    del weights["backbone.fpn.fpn_layer2.bias"]
    with pytest.raises(UserError, match=r"lacks backbone\.fpn\.fpn_layer2\.bias; name"):
        load_vilbert_detector(
            save_tiny_pyramid(tmp_path, weights), allow_missing=allowed
        )


def test_the_resnext_101_of_the_same_file_name_is_refused(tmp_path):
    weights = tiny_pyramid_weights()
    for stage, blocks in (("layer1", 3), ("layer2", 4), ("layer3", 23), ("layer4", 3)):
        weights[f"backbone.body.{stage}.{blocks - 1}.conv1.weight"] = torch.zeros(
            1, 1, 1, 1
        )
    with pytest.raises(
        UserError, match=r"detectron_model\.pth: is a ResNeXt-101, .*23 blocks"
    ):
        load_vilbert_detector(save_tiny_pyramid(tmp_path, weights))


def test_pooled_cells_are_a_square(tmp_path):
    weights = tiny_pyramid_weights()
    weights["roi_heads.box.feature_extractor.fc6.weight"] = torch.zeros(14, 80)
    with pytest.raises(
        UserError,
        match=r"fc6\.weight has 80 inputs, which are not a square of cells with 10 channels",
    ):
        load_vilbert_detector(save_tiny_pyramid(tmp_path, weights))


RELEASED_YAML = """
MODEL:
  META_ARCHITECTURE: GeneralizedRCNN
  BACKBONE: {CONV_BODY: R-152-FPN, OUT_CHANNELS: 10}
  RESNETS: {NUM_GROUPS: 2, WIDTH_PER_GROUP: 2, STRIDE_IN_1X1: False, RES2_OUT_CHANNELS: 8}
  RPN:
    ANCHOR_STRIDE: (4, 8, 16, 32, 64)
    PRE_NMS_TOP_N_TEST: 900
    POST_NMS_TOP_N_TEST: 800
    FPN_POST_NMS_TOP_N_TEST: 700
    NMS_THRESH: 0.6
    MIN_SIZE: 3
    USE_FPN: True
  ROI_HEADS: {USE_FPN: True, NMS: 0.3, DETECTIONS_PER_IMG: 7}
  ROI_BOX_HEAD:
    POOLER_RESOLUTION: 3
    POOLER_SCALES: (0.25, 0.125, 0.0625, 0.03125)
    POOLER_SAMPLING_RATIO: 3
    NUM_CLASSES: 8
    MLP_HEAD_DIM: 14
  RETINANET: {NUM_CLASSES: 81}
INPUT: {MIN_SIZE_TEST: 600, MAX_SIZE_TEST: 1000, PIXEL_MEAN: [1, 2, 3], TO_BGR255: True}
"""


def test_the_released_configuration_is_read(tmp_path, sizes, caplog):
    (tmp_path / "detectron_config.yaml").write_text(RELEASED_YAML)
    with caplog.at_level(logging.INFO):
        settings = read_pyramid_config(tmp_path / "detectron_config.yaml", sizes)
    assert settings == PyramidSettings(
        shortest=600,
        longest=1000,
        mean=(1, 2, 3),
        candidates=900,
        map_proposals=800,
        proposals=700,
        proposal_overlap=0.6,
        smallest=3,
        samples=3,
        class_overlap=0.5,  # that of the script; those of its detections are thrown away
        most=100,
    )
    assert (
        "not read: backbone.conv_body, meta_architecture, retinanet.num_classes, roi_heads.detections"
        in caplog.text
    )
    (tmp_path / "config.json").write_text(json.dumps(yaml.safe_load(RELEASED_YAML)))
    assert read_pyramid_config(tmp_path / "config.json", sizes) == settings


def test_keys_may_be_written_without_their_levels(tmp_path, sizes):
    flat = {
        "NUM_GROUPS": 2,
        "pre_nms_top_n_test": 30,
        "NMS_THRESH": 0.4,
        "MIN_SIZE": 64,
        "max_size": 99,
    }
    file = save_config(tmp_path, {**flat, "num_features": 5})
    expected = PyramidSettings(
        candidates=30, proposal_overlap=0.4, shortest=64, longest=99, most=5
    )
    assert read_pyramid_config(file, sizes) == expected
    script = {
        "script": {"min_size": 64, "max_size": 99, "num_features": 5},
        "MODEL": {"RPN": {"MIN_SIZE": 2}},
    }
    expected = PyramidSettings(shortest=64, longest=99, most=5, smallest=2)
    assert read_pyramid_config(save_config(tmp_path, script), sizes) == expected


def change_key(*path, value):
    config = copy.deepcopy(CONFIG)
    level = config
    for key in path[:-1]:
        level = level[key]
    level[path[-1]] = value
    return config


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            change_key("MODEL", "RESNETS", "STRIDE_IN_1X1", value=True),
            "stride_in_1x1: unsupported value (got True",
        ),
        (
            change_key("MODEL", "RPN", "ANCHOR_STRIDE", value="(4, 8)"),
            "anchor_stride: unsupported value (got [4, 8]",
        ),
        (
            change_key("MODEL", "ROI_BOX_HEAD", "NUM_CLASSES", value=9),
            "roi_box_head.num_classes: 9 for 8",
        ),
        (
            change_key("MODEL", "RESNETS", "NUM_GROUPS", value="two"),
            "resnets.num_groups: two for 2",
        ),
        (
            change_key("MODEL", "RPN", "NMS_THRESH", value="a"),
            "nms_thresh: 'a' is invalid; the released value is 0.7",
        ),
        (change_key("num_features", value=0), "num_features: must be above 0"),
        (
            change_key("INPUT", "PIXEL_MEAN", value=[1, 2]),
            "input.pixel_mean: 3 numbers are expected",
        ),
        ([], "is not a mapping"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(tmp_path, sizes, config, message):
    with pytest.raises(UserError) as fault:
        read_pyramid_config(save_config(tmp_path, config), sizes)
    assert message in str(fault.value)
    assert str(tmp_path / "config.json") in str(fault.value)


def test_a_named_configuration_overrides_the_one_next_to_the_weights(tmp_path):
    file = save_tiny_pyramid(tmp_path)
    assert load_vilbert_detector(file).settings == PyramidSettings()
    (tmp_path / "detectron_config.yaml").write_text("num_features: 30")
    assert load_vilbert_detector(file).settings.most == 30
    assert (
        load_vilbert_detector(file, save_config(tmp_path)).settings.most
        == CONFIG["num_features"]
    )
    names = {
        load_vilbert_detector(file, config).name
        for config in (None, tmp_path / "config.json")
    }
    assert len(names) == 2
