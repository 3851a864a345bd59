"""The registry of models: its entries, its faults, and what studies may change."""

import re
from pathlib import Path

import pytest

from waltz.core.downloads.checksums import LOCK_ON_DOWNLOAD
from waltz.core.downloads.urls import is_url
from waltz.core.errors import UserError
from waltz.model_registry import (
    DETECTOR_CONFIGS,
    VILBERT_DETECTOR_KIND,
    ModelSpec,
    compute_fingerprint,
    estimate_gpu_memory,
    find_base_models,
    is_hub_snapshot,
    list_downloads,
    list_encoder_kinds,
    list_weight_files,
    load_registry,
    resolve_model,
    select_decisive_fields,
    set_local_paths,
)
from waltz.models.resolve_name import resolve_decoder, resolve_encoder


def test_every_registered_model_is_complete():
    kinds = {
        "text",
        "vision",
        "masked",
        "classifier",
        *DETECTOR_CONFIGS,
        *list_encoder_kinds(),
    }
    for spec in load_registry().values():
        assert spec.kind in kinds, spec.name
        assert spec.parameters > 0 or spec.kind == "ruler"
        assert spec.licence != "unknown"
        assert (
            re.fullmatch("[0-9a-f]{40}", spec.revision)
            or spec.weights.startswith(("package:", "share:"))
            or (spec.revision == LOCK_ON_DOWNLOAD and not is_url(spec.weights))
            or (re.fullmatch("[0-9a-f]{64}|lock", spec.sha256) and is_url(spec.weights))
        ), spec.name
        assert (
            not spec.detector or load_registry()[spec.detector].kind in DETECTOR_CONFIGS
        )


@pytest.mark.parametrize(
    ("model", "commit", "branch"),
    [
        (
            "bakllava",
            "f038f156966ff4d24078b260e9e9761fd480d325",
            "vicuna-mistral-bakllava-models",
        ),
        (
            "llava-next-mistral",
            "a1d521368f8d353afa4da2ed2bb1bf646ef1ff5f",
            "vicuna-mistral-bakllava-models",
        ),
        (
            "llava-next-vicuna",
            "0524afe4453163103dcefe78eb0a58b3f6424eac",
            "vicuna-mistral-bakllava-models",
        ),
        ("mplug-owl3", "eff25bcdc02ff1b513c25f376d761ec1ab6dfa1b", "main"),
    ],
)
def test_a_vl_decoder_has_the_commit_of_the_branch_of_cc_shap_vlm_that_runs_it(
    model, commit, branch
):
    """Branch main pins later commits of the three LLaVA models, whose processors its own code
    cannot run.
    """
    spec = load_registry()[model]
    assert spec.revision == commit
    assert f"branch {branch}" in spec.note


@pytest.mark.parametrize(
    ("spec", "gb"),
    [
        (ModelSpec("a", parameters=10**9), 9),
        (ModelSpec("a", parameters=10**9, dtype="float16"), 7),
        (ModelSpec("a", parameters=8 * 10**9, dtype="float16", four_bit=True), 9),
        (ModelSpec("a", parameters=10**9, gpu_gb=24), 24),
    ],
)
def test_gpu_memory_is_what_the_entry_says_or_an_estimate(spec, gb):
    assert estimate_gpu_memory(spec) == gb


def test_several_gpus_need_something_that_spreads_the_weights():
    assert resolve_model("falcon-40b", {}).gpus == 2
    with pytest.raises(
        UserError,
        match=r"models\.gpt2\.gpus: without a device_map, weights are on one GPU \(got 2",
    ):
        resolve_model("gpt2", {"gpus": 2})


def test_a_study_changes_what_it_names_and_keeps_the_rest():
    spec = resolve_model("gpt2", {"dtype": "bfloat16"})
    assert (spec.dtype, spec.weights) == ("bfloat16", "openai-community/gpt2")


def test_excused_keys_are_part_of_what_decides_a_models_numbers():
    excuses = {"*.pooler.*": "is not used"}
    spec = resolve_model("gpt2", {"allow_missing": excuses})
    assert select_decisive_fields(spec)["allow_missing"] == excuses
    assert ModelSpec(**select_decisive_fields(spec)).allow_missing == excuses
    assert hash(spec) == hash(resolve_model("gpt2", {}))
    assert "allow_missing" not in select_decisive_fields(resolve_model("gpt2", {}))


@pytest.mark.parametrize(
    ("name", "entry", "fault"),
    [
        ("gpt2-larg", {}, r"not in the registry \(did you mean 'gpt2-large'\?\)"),
        ("mine", {"weights": "some/model"}, "need a revision"),
        (
            "mine",
            {"weights": "/no/such.pth"},
            r"models\.mine\.weights: there is no file or folder /no/such\.pth",
        ),
        ("mine", {"weights": "../model"}, r"there is no file or folder \.\./model"),
        ("mine", {"weights": "https://example.org/a.pth"}, "from a url need a sha256"),
        (
            "mine",
            {"weights": "some/model", "kind": "klip"},
            r"models\.mine\.kind.*did you mean 'clip'",
        ),
        (
            "vg-frcnn",
            {"config": "mine.yaml"},
            r"models\.vg-frcnn\.config: a detector reads the config\.yaml next to",
        ),
    ],
)
def test_what_cannot_be_resolved_is_named(name, entry, fault):
    with pytest.raises(UserError, match=fault):
        resolve_model(name, entry)


def test_what_a_url_gives_has_one_place_for_all_models():
    models = {
        name: resolve_model(name, {}) for name in ("vilbert-12in1", "vilbert-12in1-itm")
    }
    files = {
        name: set_local_paths(spec, "w", {}).weights for name, spec in models.items()
    }
    assert set(files.values()) == {
        "w/web/dl.fbaipublicfiles.com/vilbert-multi-task/multi_task_model.bin"
    }
    (of,) = {tuple(list_downloads(spec, "w").values()) for spec in models.values()}
    assert of == tuple(set(files.values()))


def test_vilberts_detector_is_fetched_next_to_its_configuration():
    spec = set_local_paths(resolve_model("vilbert-x152", {}), "w", {})
    assert (
        spec.weights
        == "w/web/dl.fbaipublicfiles.com/vilbert-multi-task/detectron_model.pth"
    )
    assert Path(spec.config) == Path(spec.weights).with_name(
        DETECTOR_CONFIGS[VILBERT_DETECTOR_KIND]
    )


@pytest.mark.parametrize("name", ["vg-frcnn", "vilbert-x152"])
def test_a_configuration_of_a_detector_stands_next_to_its_weights(name):
    with pytest.raises(
        UserError,
        match=rf"models\.{name}\.config: a detector reads the .*config\.yaml next to its",
    ):
        resolve_model(name, {"config": "elsewhere/config.yaml"})


def test_names_of_what_is_fetched_become_places(tmp_path):
    detector = resolve_model("vg-frcnn", {})
    detectors = {"vg-frcnn": set_local_paths(detector, "w", {}).weights}
    spec = set_local_paths(resolve_model("lxmert-vqa", {}), "w", detectors)
    assert spec.weights == "w/hub/unc-nlp/lxmert-vqa-uncased"
    assert (
        spec.detector == "w/web/nlp.cs.unc.edu/models/faster_rcnn_from_caffe_attr.pkl"
    )
    assert (
        set_local_paths(
            resolve_model("lxmert", {"regions": str(tmp_path)}), "w", detectors
        ).detector
        == ""
    )
    assert spec.answers.startswith("w/web/raw.githubusercontent.com/airsplay/lxmert/")
    assert (
        set_local_paths(resolve_model("albef-vqa", {}), "w", {}).answers
        == "w/members/albef-vqa/answer_list.json"
    )
    unpacked = resolve_model("spanbert", {})
    assert set_local_paths(unpacked, "w", {}).weights == "w/unpacked/spanbert"
    assert len(list_downloads(unpacked, "w")) == 2


def test_stored_regions_that_are_not_there_are_an_error():
    with pytest.raises(
        UserError,
        match=r"models\.vilbert\.regions: there is no file or folder nowhere; store regions",
    ):
        resolve_model("vilbert", {"regions": "nowhere"})


def test_only_models_without_a_commit_are_fetched_completely():
    assert is_hub_snapshot(resolve_model("flava", {}))
    assert not any(
        map(
            is_hub_snapshot,
            (
                resolve_model("gpt2", {}),
                resolve_model("albef-mscoco", {}),
                resolve_model("smollm2-135m-instruct", {}),
            ),
        )
    )


def test_a_study_names_the_commit_itself():
    assert not is_hub_snapshot(resolve_model("flava", {"revision": "0" * 40}))


def test_a_checkpoint_file_is_a_model_and_its_own_weight_file(tmp_path):
    file = tmp_path / "a.pth"
    file.write_bytes(b"x")
    spec = resolve_model("mine", {"kind": "clip", "weights": str(file)})
    assert (spec.revision, list_weight_files(spec)) == ("local", [str(file)])


def test_a_checkpoint_file_is_a_model_and_its_content_tells_it_from_others(tmp_path):
    file = tmp_path / "mscoco.pth"
    file.write_bytes(b"one")
    spec = resolve_model("mine", {"weights": str(file), "kind": "albef"})
    assert spec.revision == "local"
    assert list_weight_files(spec) == [str(file)]

    def compute_fresh_fingerprint() -> str:
        compute_fingerprint.cache_clear()
        return compute_fingerprint(spec)

    first = compute_fresh_fingerprint()
    assert first.startswith(f"{file}@")
    file.write_bytes(b"two")
    second = compute_fresh_fingerprint()
    (tmp_path / "mscoco.json").write_text("{}")
    assert len({first, second, compute_fresh_fingerprint()}) == 3


@pytest.mark.parametrize(
    "entry",
    [{"revision": "1.0"}, {"sha256": "0" * 64}, {"revision": "1.0", "sha256": "lock"}],
)
def test_a_package_needs_a_version_and_a_checksum(entry):
    with pytest.raises(UserError, match="its version as `revision`, and the sha256"):
        resolve_model("m", {"kind": "text", "weights": "package:p", **entry})


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("--index-url=http://localhost", "1.0"),
        ("git+file:///tmp/taken", "1.0"),
        ("p @ http://localhost/p.whl#", "1.0"),
        ("../p", "1.0"),
        ("p", "1.0 --pre"),
        ("p", "../1.0"),
        ("p", "1.0\n"),
    ],
)
def test_what_pip_would_not_take_for_a_package_is_refused(name, version):
    entry = {
        "kind": "text",
        "weights": f"package:{name}",
        "revision": version,
        "sha256": "0" * 64,
    }
    with pytest.raises(UserError, match="its version as `revision`, and the sha256"):
        resolve_model("m", entry)


def test_a_package_lies_below_the_weights():
    spec = resolve_model(
        "m",
        {"kind": "text", "weights": "package:p", "revision": "1.0", "sha256": "0" * 64},
    )
    assert set_local_paths(spec, "weights", {}).weights == "weights/packages/p-1.0"


SCENE_MODELS = Path(__file__).parents[1] / "resources" / "scenes" / "models"


@pytest.mark.parametrize(
    ("model", "kind", "kept", "part"),
    [
        ("clip", "clip", (), "processor"),
        ("llava", "vision", (), "processor"),
        ("clip", "clip", ("processor_config.json",), "tokenizer"),
        ("causal-lm", "text", (), "tokenizer"),
        ("nli", "classifier", (), "tokenizer"),
    ],
)
def test_a_folder_with_weights_alone_says_what_to_save(
    tmp_path, model, kind, kept, part
):
    weights_alone = ("config.json", "generation_config.json", "model.safetensors")
    for file in (SCENE_MODELS / model).iterdir():
        if file.name in (*weights_alone, *kept):
            (tmp_path / file.name).symlink_to(file)
    with pytest.raises(
        UserError,
        match=rf"models.own: {tmp_path} has no {part} .* save it there: \w+\.save_pretrained",
    ):
        resolve_model("own", {"weights": str(tmp_path), "kind": kind})


@pytest.mark.parametrize("kind", ["clip", "vision", "text", "classifier"])
def test_a_folder_without_a_model_is_refused_before_it_is_loaded(tmp_path, kind):
    (tmp_path / "notes.txt").write_text("nothing to load")
    with pytest.raises(
        UserError,
        match=rf"models.own: {tmp_path} holds no model \(expected config.json\); name",
    ):
        resolve_model("own", {"weights": str(tmp_path), "kind": kind})


@pytest.mark.parametrize("file", ["model.gguf", "open_clip_config.json"])
def test_a_folder_in_another_format_is_left_to_its_loader(tmp_path, file):
    (tmp_path / file).touch()
    assert (
        resolve_model("own", {"weights": str(tmp_path), "kind": "text"}).revision
        == "local"
    )


@pytest.mark.parametrize(
    "model",
    ["clip", "llava", "causal-lm", "nli", "matcher", "masked-lm", "acceptability"],
)
def test_a_complete_folder_has_all_parts(model):
    kind = {"clip": "clip", "llava": "vision", "matcher": "blip"}.get(model, "text")
    assert (
        resolve_model(
            "own", {"weights": str(SCENE_MODELS / model), "kind": kind}
        ).revision
        == "local"
    )


def test_base_models_are_those_of_the_family_with_as_many_parameters():
    assert find_base_models(load_registry()) == {
        "llama2-7b-chat": "llama2-7b",
        "llama2-13b-chat": "llama2-13b",
        "mistral-7b-chat": "mistral-7b",
        "falcon-7b-chat": "falcon-7b",
        "falcon-40b-chat": "falcon-40b",
    }
    mine = {
        "tuned": ModelSpec("tuned", family="mistral-chat", parameters=7),
        "small": ModelSpec("small", family="mistral", parameters=1),
    }
    assert find_base_models(mine) == {}
    mine["plain"] = ModelSpec("plain", family="mistral", parameters=7)
    assert find_base_models(mine) == {"tuned": "plain"}


def test_models_of_the_scenes_are_known_by_their_names():
    spec = resolve_encoder("scenes-clip")
    assert (spec.kind, spec.revision) == ("clip", "local")
    assert Path(spec.weights).is_dir()
    decoder = resolve_decoder("scenes-llava")
    assert decoder is not None
    assert decoder.prompts == "scenes.yaml"
    with pytest.raises(UserError, match="did you mean 'scenes-clip'"):
        resolve_encoder("scenes-clp")
