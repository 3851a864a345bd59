"""Weights and configurations of detectors, and what is refused of them."""

import logging
import os
import pickle
from collections import OrderedDict

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from stand_ins.models.tiny_detector import CONFIG, save_tiny, tiny_weights
from waltz.core.errors import UserError
from waltz.model_registry import (
    DETECTOR_KIND,
    ModelSpec,
    compute_fingerprint,
    list_detector_files,
    select_decisive_fields,
)
from waltz.models.array_pickle import read_array_pickle
from waltz.models.networks.detector import DetectorSettings
from waltz.models.networks.detector_checkpoint import (
    load_configured_detector,
    load_detector,
    read_arrays,
    read_detector_config,
)


def load_named(spec):
    return load_configured_detector(spec, DETECTOR_KIND, load_detector)


def state(detector):
    return {key: value.tolist() for key, value in detector.state_dict().items()}


def test_sizes_are_read_from_the_weights(detector_file):
    sizes = load_detector(detector_file).sizes
    stages = {
        name: (stage.blocks, stage.width, stage.outputs, stage.groups)
        for name, stage in sizes.stages.items()
    }
    assert stages == {
        "res2": (1, 4, 8, 1),
        "res3": (2, 6, 12, 1),
        "res4": (2, 8, 16, 1),
        "res5": (3, 6, 12, 1),
    }
    assert (
        sizes.stem,
        sizes.hidden,
        sizes.anchors,
        sizes.classes,
        sizes.attributes,
    ) == (6, 10, 6, 7, 5)
    assert sizes.width == 12


def test_grouped_convolutions_are_read_from_the_weights(tmp_path):
    weights = tiny_weights()
    for block in range(2):
        key = f"backbone.res4.{block}.conv2.weight"
        weights[key] = weights[key][:, :4].clone()
    detector = load_detector(save_tiny(tmp_path, weights))
    assert detector.backbone.res4[1].conv2.groups == 2


def test_what_is_missing_unexpected_or_misshapen_is_listed(tmp_path):
    weights = tiny_weights()
    weights["roi_heads.mask.weight"] = torch.zeros(3)
    del (
        weights["roi_heads.box_predictor.bbox_pred.bias"],
        weights["backbone.res3.1.conv1.norm.running_var"],
    )
    weights["roi_heads.box_predictor.cls_score.bias"] = torch.zeros(9)
    with pytest.raises(UserError) as fault:
        load_detector(save_tiny(tmp_path, weights))
    for message in (
        "pytorch_model.bin",
        "lacks",
        "bbox_pred.bias",
        "res3.1.conv1.norm.running_var",
        "unexpected roi_heads.mask.weight",
        "cls_score.bias 9 for 8",
    ):
        assert message in str(fault.value)


def test_an_entry_excuses_keys_with_a_reason(tmp_path):
    file = save_tiny(
        tmp_path, {**tiny_weights(), "roi_heads.mask.weight": torch.zeros(3)}
    )
    excused = {"roi_heads.mask.*": "a head of another task"}
    assert (
        load_named(
            ModelSpec("mine", detector=str(file), allow_missing=excused)
        ).sizes.width
        == 12
    )
    with pytest.raises(
        UserError,
        match=r"^models\.mine\.detector: .*unexpected roi_heads\.mask\.weight",
    ):
        load_named(ModelSpec("mine", detector=str(file)))


@pytest.mark.parametrize("counter", [None, torch.tensor([7]), torch.tensor(7)])
def test_counters_of_training_do_not_matter(tmp_path, detector_file, counter):
    weights = tiny_weights(counters=False)
    if counter is not None:
        weights["backbone.stem.conv1.norm.num_batches_tracked"] = counter
    assert state(load_detector(save_tiny(tmp_path, weights))) == state(
        load_detector(detector_file)
    )


def test_weights_that_sizes_are_read_from_are_named(tmp_path):
    weights = tiny_weights()
    del weights["roi_heads.res5.0.conv1.weight"]
    with pytest.raises(
        UserError, match=r"lacks roi_heads\.res5\.0\.conv1\.weight; name a checkpoint"
    ):
        load_detector(save_tiny(tmp_path, weights))
    weights = tiny_weights()
    weights["proposal_generator.anchor_generator.cell_anchors.0"] = torch.zeros(24)
    with pytest.raises(
        UserError, match=r"cell_anchors\.0 is of shape \(24,\), 2 axes are expected"
    ):
        load_detector(save_tiny(tmp_path, weights))


def test_safetensors_and_old_files_of_torch_hold_the_same(tmp_path, detector_file):
    save_file(tiny_weights(), tmp_path / "model.safetensors")
    torch.save(
        tiny_weights(), tmp_path / "old.bin", _use_new_zipfile_serialization=False
    )
    for name in ("model.safetensors", "old.bin"):
        assert state(load_detector(tmp_path / name)) == state(
            load_detector(detector_file)
        )


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_the_first_release_is_a_pickle_of_arrays(tmp_path, detector_file, protocol):
    arrays = {key: value.numpy() for key, value in tiny_weights(counters=False).items()}
    content = {"model": arrays, "__author__": "Caffe", "matching_heuristics": True}
    (tmp_path / "caffe.pkl").write_bytes(pickle.dumps(content, protocol))
    assert state(load_detector(tmp_path / "caffe.pkl")) == state(
        load_detector(detector_file)
    )


def test_old_names_of_numpy_are_read(tmp_path, detector_file):
    arrays = {key: value.numpy() for key, value in tiny_weights(counters=False).items()}
    old = pickle.dumps({"model": arrays}, 2).replace(
        b"numpy._core.multiarray", b"numpy.core.multiarray"
    )
    assert b"numpy.core.multiarray" in old
    (tmp_path / "caffe.pkl").write_bytes(old)
    assert state(load_detector(tmp_path / "caffe.pkl")) == state(
        load_detector(detector_file)
    )


class Harm:
    def __reduce__(self):
        return os.mkdir, ("harm",)


class Forged:
    """A call, with a state for its result, that a pickle asks for."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


RECONSTRUCT, EMPTY = np.zeros(1).__reduce__()[:2]
FROM_BUFFER = np.zeros(1).__reduce_ex__(5)[0]
SCALAR = np.float64(0).__reduce__()[0]
PLAIN_STATE = (3, "<", None, None, None, -1, -1, 0)


def forge_type(name="f4", state=PLAIN_STATE):
    return Forged(np.dtype, (name, False, True), state)


def forge_array(shape=(2,), data=bytes(8), stored_type=forge_type()):  # noqa: B008
    return Forged(RECONSTRUCT, EMPTY, (1, shape, stored_type, False, data))


NESTED = b")\x94" + b"".join(
    b"0h%ch%c\x86\x94" % (number, number) for number in range(60)
)
"""Operations for a tuple whose hash visits 2 to the power of 60 values."""


def name(value, protocol=4):
    return pickle.dumps({"model": {"a": value}}, protocol)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (name(Harm()), "holds an object of posix.mkdir, which is not loaded"),
        (
            name(np.array([Harm()], dtype=object)),
            "an array of 'O8' is not an array of numbers",
        ),
        (
            name(np.array([None], dtype=object)),
            "an array of 'O8' is not an array of numbers",
        ),
        (name(np.array(["a"])), "an array of 'U1' is not an array of numbers"),
        (
            name(np.zeros(1, dtype=[("a", "f4")])),
            "an array of 'V4' is not an array of numbers",
        ),
        (
            name(np.zeros(1, dtype="f16")),
            "an array of 'f16' is not an array of numbers",
        ),
        (name(np.zeros(1, dtype=bool)), "a is not an array of numbers"),
        (name(np.zeros(1, dtype=">f4")), "an array of float32 in another byte order"),
        (name(3), "holds no arrays by name"),
        (pickle.dumps([1, 2]), "holds no arrays by name"),
        (name(np.zeros(99))[:200], "truncated or no pickle of arrays"),
        (b"", "truncated or no pickle of arrays"),
        (
            name(Forged(SCALAR, (forge_type("O8"), b"ABCDEFGH"))),
            "not an array of numbers",
        ),
        (
            name(forge_array(stored_type=forge_type("f4", (*PLAIN_STATE[:-1], 63)))),
            "a forged dtype",
        ),
        (
            name(
                forge_array(
                    stored_type=forge_type("f4", (*PLAIN_STATE[:2], *([None] * 6)))
                )
            ),
            "a forged dtype",
        ),
        (
            name(forge_array(stored_type=forge_type("f4", (*PLAIN_STATE, {})))),
            "a forged dtype",
        ),
        (name(forge_array(stored_type=np.zeros(3))), "of another kind"),
        (name(Forged(np.ndarray, ((2,), np.dtype("f4")))), "an array without values"),
        (name(Forged(RECONSTRUCT, EMPTY)), "an array without values"),
        (
            name(Forged(RECONSTRUCT, (np.dtype, (0,), b"b"))),
            "an array of an unknown class",
        ),
        (name(forge_array(data=bytes(7))), "an array of 8 bytes has 7"),
        (name(forge_array(data=bytes(9))), "an array of 8 bytes has 9"),
        (
            name(Forged(FROM_BUFFER, (bytes(4), forge_type(), (2,), "C"))),
            "an array of 8 bytes has 4",
        ),
        (name(forge_array(data=[None, None])), "of another kind"),
        (name(forge_array(data="\u20ac" * 8)), "can't encode"),
        (name(forge_array(shape=(-1,))), "an invalid shape"),
        (name(forge_array(shape=(True, 2))), "an invalid shape"),
        (name(forge_array(shape=(2**62, 4))), "an invalid shape"),
        (name(forge_array(shape=(2**10**6,) * 20)), "an invalid shape"),
        (name(forge_array(shape=[2])), "of another kind"),
        (b"\x80\x04}" + NESTED + b"Ns.", "a key that is not a text or number"),
        (b"\x80\x04}(" + NESTED + b"Nu.", "a key that is not a text or number"),
        (b"\x80\x04(" + NESTED + b"Nd.", "a key that is not a text or number"),
        (b"\x80\x04\x8f(" + NESTED + b"\x90.", "is not among those of arrays"),
        (
            b"\x80\x04ccollections\nOrderedDict\n](](" + NESTED + b"Nee\x85R.",
            "a key that is not a text or number",
        ),
        (name(Forged(dict, (), {"a": 1})), "holds an object of builtins.dict"),
        (name(Forged(OrderedDict, (), {"a": 1})), "an object with a state"),
        (b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b"a.", "EOFError"),
        (
            b"\x80\x04N"
            + pickle.LONG_BINPUT
            + (2**31 - 1).to_bytes(4, "little")
            + b".",
            "holds no arrays by name",
        ),
        (b"\x80\x04\x82\x01.", "is not among those of arrays"),
    ],
)
def test_pickles_of_other_things_are_refused(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "caffe.pkl").write_bytes(content)
    with pytest.raises(UserError, match=message) as raised:
        load_detector(tmp_path / "caffe.pkl")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "harm").exists()


def test_arrays_that_share_their_values_are_not_multiplied(tmp_path):
    values = bytes(10**5)
    arrays = {str(number): forge_array((10**5 // 4,), values) for number in range(10)}
    (tmp_path / "caffe.pkl").write_bytes(pickle.dumps(arrays))
    with pytest.raises(UserError, match="larger than the file"):
        load_detector(tmp_path / "caffe.pkl")


def test_one_array_may_have_several_names(tmp_path):
    array = np.arange(6, dtype="f4")
    (tmp_path / "caffe.pkl").write_bytes(pickle.dumps({"a": array, "b": array}))
    arrays = read_array_pickle(tmp_path / "caffe.pkl")
    assert arrays["a"] is arrays["b"]
    assert arrays["a"].tolist() == array.tolist()


ARRAYS = {
    "model": OrderedDict(
        a=np.arange(6, dtype="f4").reshape(2, 3), b=np.asfortranarray(np.ones((3, 2)))
    ),
    "best": np.float64(0.5),
}


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_are_read_as_they_were_written(tmp_path, protocol):
    (tmp_path / "caffe.pkl").write_bytes(pickle.dumps(ARRAYS, protocol))
    arrays = read_array_pickle(tmp_path / "caffe.pkl")
    assert {key: value.tolist() for key, value in arrays.items()} == {
        key: value.tolist() for key, value in ARRAYS["model"].items()
    }
    assert [array.dtype.name for array in arrays.values()] == ["float32", "float64"]


OPCODES = [bytes([code]) for code in range(256)]


@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(
    protocol=st.integers(0, 5),
    cut=st.integers(0, 100),
    changes=st.lists(
        st.tuples(st.integers(0, 10**4), st.sampled_from(OPCODES)), max_size=4
    ),
)
def test_a_spoilt_pickle_gives_arrays_or_one_line(
    tmp_path_factory, protocol, cut, changes
):
    content = bytearray(pickle.dumps(ARRAYS, protocol))
    for position, byte in changes:
        content[position % len(content)] = byte[0]
    file = tmp_path_factory.getbasetemp() / "spoilt.pkl"
    file.write_bytes(content[: len(content) - cut])
    try:
        tensors = read_arrays(file)
    except UserError as error:
        tensors, line = {}, str(error)
    else:
        line = ""
    assert "\n" not in line
    assert all(isinstance(tensor, torch.Tensor) for tensor in tensors.values())


def config_of(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    return tmp_path / "config.yaml"


def test_the_configuration_ignores_case_and_unread_keys_are_reported(
    detector_file, tmp_path, caplog
):
    text = """
    MODEL: {PIXEL_MEAN: [1, 2, 3], DEVICE: cpu}
    input: {min_size_test: 600, format: BGR}
    anchor_generator: {offset: 0.5}
    rpn: {nms_thresh: 0.6, pre_nms_topk_train: 12000, bbox_reg_weights: [1.0, 1.0, 2.0, 2.0]}
    roi_heads: {nms_thresh_test: 0.4, score_thresh_test: 0.2}
    min_detections: 10
    max_detections: 100
    """
    with caplog.at_level(logging.INFO):
        regions = read_detector_config(
            config_of(tmp_path, text), load_detector(detector_file).sizes
        )
    assert regions == DetectorSettings(
        mean=(1, 2, 3),
        shortest=600,
        anchor_offset=0.5,
        proposal_overlap=0.6,
        proposal_weights=(1, 1, 2, 2),
        overlaps=(0.4,),
        fewest=10,
        most=100,
    )
    assert (
        "not read: model.device, roi_heads.score_thresh_test, rpn.pre_nms_topk_train"
        in caplog.text
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "input: {format: RGB}",
            r"input.format: unsupported value (got 'RGB', expected 'BGR')",
        ),
        (
            "roi_box_head: {res5halve: true}",
            r"res5halve: unsupported value (got True, expected False)",
        ),
        ("max_detections: 20", "min_detections: 36 is above max_detections, 20"),
        (
            "min_detections: many",
            "min_detections: 'many' is invalid; the released value is 36",
        ),
        ("min_detections: 3.5", "min_detections: 3.5 is invalid"),
        ("rpn: {nms_thresh: -0.1}", "rpn.nms_thresh: -0.1 is invalid"),
        ("rpn: {post_nms_topk_test: 0}", "rpn.post_nms_topk_test: must be above 0"),
        ("model: {pixel_mean: [1, 2]}", "model.pixel_mean: 3 numbers are expected"),
        (
            "model: {pixel_std: [1, 1, 0]}",
            "model.pixel_std: nothing can be divided by 0",
        ),
        (
            "roi_heads: {num_classes: a}",
            "roi_heads.num_classes: 'a' is invalid; remove the key",
        ),
        ("- a list", "is not a mapping"),
        ("a: [", "cannot be read"),
        ("a: !!python/name:os.mkdir", "cannot be read"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    detector_file, tmp_path, text, message
):
    with pytest.raises(UserError) as fault:
        load_detector(detector_file, config_of(tmp_path, text))
    assert message in str(fault.value)
    assert str(tmp_path / "config.yaml") in str(fault.value)


def test_a_configuration_of_another_detector_is_refused(tmp_path, detector_file):
    fits = """
    roi_heads: {num_classes: 7}
    roi_box_head: {num_attrs: 5, pooler_resolution: 4}
    proposal_generator: {hidden_channels: 10}
    anchor_generator: {sizes: [[24, 48]], aspect_ratios: [[0.5, 1.0, 2.0]]}
    resnets: {depth: 26, stem_out_channels: 6, res2_out_channels: 8, width_per_group: 4, num_groups: 1}
    """
    assert (
        load_detector(detector_file, config_of(tmp_path, fits)).settings.resolution == 4
    )
    with pytest.raises(UserError, match=r"num_classes: 8 for 7; .*anchors: 9 for 6"):
        load_detector(
            detector_file,
            config_of(
                tmp_path, fits.replace("7}", "8}").replace("24, 48", "24, 48, 96")
            ),
        )


def test_a_named_configuration_overrides_the_one_next_to_the_weights(
    tmp_path, detector_file
):
    assert load_detector(detector_file).settings.most == CONFIG["max_detections"]
    assert (
        load_detector(
            detector_file, config_of(tmp_path, "max_detections: 40")
        ).settings.most
        == 40
    )
    assert (
        load_detector(save_tiny(tmp_path / "bare", config=None)).settings
        == DetectorSettings()
    )


def test_the_name_tells_weights_and_settings_apart(tmp_path, detector_file):
    names = {
        load_detector(detector_file).name,
        load_detector(save_tiny(tmp_path / "same")).name,
        load_detector(save_tiny(tmp_path / "other", tiny_weights(9))).name,
        load_detector(detector_file, config_of(tmp_path, "max_detections: 40")).name,
    }
    assert len(names) == 3
    assert all(name.startswith("pytorch_model.bin@") for name in names)


def test_an_entry_names_a_file_a_folder_or_a_revision_of_the_hub(detector_file):
    def named(detector, revision=""):
        return load_named(
            ModelSpec("mine", detector=str(detector), detector_revision=revision)
        )

    assert named(detector_file).name == named(detector_file.parent).name
    with pytest.raises(
        UserError,
        match=r"models\.mine\.detector: 'unc-nlp/frcnn' is not a file .* detector_revision",
    ):
        named("unc-nlp/frcnn")
    with pytest.raises(
        UserError, match=r"^models\.mine\.detector: cannot load unc-nlp/frcnn at abc: "
    ):
        named("unc-nlp/frcnn", "abc")


def test_a_repository_of_the_hub_holds_both_files(detector_file, tmp_path, monkeypatch):
    revision, cached = "0" * 40, tmp_path / "models--unc-nlp--frcnn"
    snapshot, absent = cached / "snapshots" / revision, cached / ".no_exist"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    spec = ModelSpec("mine", detector="unc-nlp/frcnn", detector_revision=revision)
    save_tiny(snapshot)
    assert load_named(spec).name == load_detector(detector_file).name
    (snapshot / "config.yaml").unlink()
    with pytest.raises(
        UserError,
        match=r"models\.mine\.detector: cannot load config\.yaml of unc-nlp/frcnn: ",
    ):
        load_named(spec)
    (absent / revision).mkdir(parents=True)
    (absent / revision / "config.yaml").touch()
    assert load_named(spec).settings == DetectorSettings()


def test_the_detector_is_part_of_a_models_identity(tmp_path):
    file = save_tiny(tmp_path)
    spec = ModelSpec("mine", weights="a/b", revision="1", detector=str(file))
    assert list_detector_files(spec) == [str(file), str(tmp_path / "config.yaml")]
    before = compute_fingerprint(spec)
    assert before.startswith(f"a/b@1+{file}@")
    assert select_decisive_fields(spec)["detector"] == str(file)
    (tmp_path / "config.yaml").write_text("max_detections: 7")
    compute_fingerprint.cache_clear()
    assert compute_fingerprint(spec) != before
    on_hub = ModelSpec(
        "mine", weights="a/b", revision="1", detector="c/d", detector_revision="2"
    )
    assert compute_fingerprint(on_hub) == "a/b@1+c/d@2"
    assert (
        compute_fingerprint(ModelSpec("mine", weights="a/b", revision="1")) == "a/b@1"
    )
