import re

import pytest

from waltz.core.errors import UserError
from waltz.core.files.download_lock import LOCK_ON_DOWNLOAD
from waltz.core.files.urls import is_url
from waltz.model_registry import (
    ModelSpec,
    estimate_gpu_memory,
    list_encoder_kinds,
    load_registry,
    resolve_model,
    select_decisive_fields,
)


def test_every_registered_model_is_complete():
    for spec in load_registry().values():
        assert spec.kind in {"text", "vision", "masked", "classifier", "detector", *list_encoder_kinds()}, spec.name
        assert spec.parameters > 0 or spec.kind == "ruler"
        assert spec.licence != "unknown"
        assert (
            re.fullmatch("[0-9a-f]{40}", spec.revision)
            or spec.weights.startswith(("package:", "share:"))
            or (spec.revision == LOCK_ON_DOWNLOAD and not is_url(spec.weights))
            or (re.fullmatch("[0-9a-f]{64}|lock", spec.sha256) and is_url(spec.weights))
        ), spec.name
        assert not spec.detector or load_registry()[spec.detector].kind == "detector"


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


def test_a_study_changes_what_it_names_and_keeps_the_rest():
    spec = resolve_model("gpt2", {"dtype": "bfloat16"})
    assert (spec.dtype, spec.weights) == ("bfloat16", "openai-community/gpt2")


def test_a_folder_is_a_model(tmp_path):
    assert resolve_model("mine", {"weights": str(tmp_path)}).revision == "local"


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
        ("mine", {"weights": "/no/such.pth"}, r"models\.mine\.weights: there is no file or folder /no/such\.pth"),
        ("mine", {"weights": "../model"}, r"there is no file or folder \.\./model"),
        ("mine", {"weights": "https://example.org/a.pth"}, "from a url need a sha256"),
        ("mine", {"weights": "https://example.org/a", "sha256": "lock", "unpack": "tar"}, "'tar' is none of folder"),
        ("mine", {"weights": "some/model", "kind": "klip"}, r"models\.mine\.kind.*did you mean 'clip'"),
        ("vg-frcnn", {"config": "mine.yaml"}, r"models\.vg-frcnn\.config: a detector reads the config\.yaml beside"),
    ],
)
def test_what_cannot_be_resolved_is_named(name, entry, fault):
    with pytest.raises(UserError, match=fault):
        resolve_model(name, entry)
