"""Original checkpoint files: whole, wrapped, truncated, hostile, and key by key."""

import argparse
import os
import pickle

import numpy as np
import pytest
import safetensors.torch
import torch

from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models import checkpoint_file

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.ones(2)}


def network():
    return torch.nn.ModuleDict({"a": torch.nn.Linear(3, 2)})


def never(key):
    return False


@pytest.mark.parametrize(
    "wrap",
    [
        lambda weights: weights,
        lambda weights: {"model": weights, "epoch": 3, "optimizer": {"state": {}}},
        lambda weights: {"state_dict": {"model_state_dict": weights}},
        lambda weights: {f"module.{key}": value for key, value in weights.items()},
        lambda weights: {
            "model": {f"module.{key}": value for key, value in weights.items()}
        },
        lambda weights: weights | {"epoch": 3},
    ],
    ids=["flat", "model", "two levels", "module", "model and module", "plain value"],
)
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_prefixes_of_training_code_are_removed_from_weights(tmp_path, wrap, zipped):
    file = tmp_path / "a.pth"
    torch.save(wrap(WEIGHTS), file, _use_new_zipfile_serialization=zipped)
    checkpoint = checkpoint_file.read_checkpoint(file)
    assert checkpoint.keys() == WEIGHTS.keys()
    assert all(torch.equal(checkpoint[key], WEIGHTS[key]) for key in WEIGHTS)


def test_weights_that_contain_themselves_are_read(tmp_path):
    content = dict(WEIGHTS)
    content["model"] = content
    torch.save(content, tmp_path / "a.pth")
    checkpoint = checkpoint_file.read_checkpoint(tmp_path / "a.pth")
    assert checkpoint.keys() == WEIGHTS.keys()


def test_safetensors_are_read(tmp_path):
    safetensors.torch.save_file(WEIGHTS, tmp_path / "a.safetensors")
    assert torch.equal(
        checkpoint_file.read_checkpoint(tmp_path / "a.safetensors")["a.weight"],
        WEIGHTS["a.weight"],
    )


@pytest.mark.parametrize("form", ["zip", "legacy", "safetensors"])
def test_a_truncated_file_is_refused_wherever_it_is_cut(tmp_path, form):
    complete_file = (
        tmp_path / f"whole.{'safetensors' if form == 'safetensors' else 'pth'}"
    )
    if form == "safetensors":
        safetensors.torch.save_file(WEIGHTS, complete_file)
    else:
        torch.save(WEIGHTS, complete_file, _use_new_zipfile_serialization=form == "zip")
    content = complete_file.read_bytes()
    cut = tmp_path / f"cut{complete_file.suffix}"
    for size in range(0, len(content) - 1, max(1, len(content) // 60)):
        cut.write_bytes(content[:size])
        with pytest.raises(UserError, match=rf"{cut}: is truncated") as raised:
            checkpoint_file.read_checkpoint(cut)
        assert "\n" not in str(raised.value)


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.system, (f"touch {self.file}",)


def pickled(protocol):
    return lambda value, file: file.write_bytes(pickle.dumps(value, protocol))


@pytest.mark.parametrize(
    "save",
    [torch.save, pickled(2), pickled(4)],
    ids=["torch", "protocol 2", "protocol 4"],
)
def test_code_in_a_file_is_not_run(tmp_path, save):
    trace = tmp_path / "trace"
    save({"model": WEIGHTS, "args": Hostile(trace)}, tmp_path / "a.pth")
    with pytest.raises(
        UserError,
        match=r"a\.pth: is truncated(, or holds an object of [\w.]+| or no checkpoint)",
    ):
        checkpoint_file.read_checkpoint(tmp_path / "a.pth")
    assert not trace.exists()


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x80\x04N."])
def test_another_file_is_refused(tmp_path, content):
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.bin: "):
        checkpoint_file.read_checkpoint(tmp_path / "a.bin")


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(2, 3, device="meta"),
        torch.eye(2, 3).to_sparse(),
        torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8),
        torch.ones(2, 3, dtype=torch.complex64),
    ],
    ids=["meta", "sparse", "quantized", "complex"],
)
def test_a_weight_that_is_no_dense_tensor_of_numbers_is_refused(tmp_path, tensor):
    torch.save({"model": WEIGHTS | {"a.weight": tensor}}, tmp_path / "a.pt")
    with pytest.raises(
        UserError, match=r"a\.pt: a\.weight is not a dense tensor of real numbers"
    ):
        checkpoint_file.read_checkpoint(tmp_path / "a.pt")


def test_a_skeleton_is_read_where_it_is_accepted(tmp_path):
    torch.save(
        {"model": WEIGHTS | {"a.weight": torch.zeros(2, 3, device="meta")}},
        tmp_path / "a.pt",
    )
    with checkpoint_file.accept_skeletons():
        assert checkpoint_file.read_checkpoint(tmp_path / "a.pt")["a.weight"].is_meta
    with pytest.raises(UserError, match="not a dense tensor"):
        checkpoint_file.read_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize(
    "value",
    [[1, 2], {"model": 3}, {"epoch": 1}, {"model": {"a": {"b": torch.ones(1)}}}],
)
def test_a_file_without_weights_by_name_is_refused(tmp_path, value):
    torch.save(value, tmp_path / "a.pt")
    with pytest.raises(UserError, match="holds no weights by name"):
        checkpoint_file.read_checkpoint(tmp_path / "a.pt")


@pytest.mark.parametrize("is_zip", [True, False])
def test_settings_and_counters_next_to_the_weights_are_read_past(tmp_path, is_zip):
    content = {
        "model": WEIGHTS,
        "config": argparse.Namespace(image_res=384, lr=np.float64(1e-5)),
        "epoch": np.int64(4),
        "best": np.float32(0.5),
    }
    torch.save(content, tmp_path / "a.pth", _use_new_zipfile_serialization=is_zip)
    weights = checkpoint_file.read_checkpoint(tmp_path / "a.pth")
    assert weights.keys() == WEIGHTS.keys()


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"none\.pth: cannot be read: No such file"):
        checkpoint_file.read_checkpoint(tmp_path / "none.pth")


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_weights_are_copied_at_the_networks_precision(tmp_path, device):
    with torch.device(device):
        fitted = network().to(torch.bfloat16)
    given = {key: value.clone() for key, value in WEIGHTS.items()}
    checkpoint_file.load_weights(fitted, given, tmp_path, "", never)
    given["a.weight"].zero_()
    assert fitted["a"].weight.dtype == torch.bfloat16
    assert torch.equal(fitted["a"].weight.float(), WEIGHTS["a.weight"])
    assert isinstance(fitted["a"].weight, torch.nn.Parameter)


def test_what_is_missing_unexpected_or_of_another_shape_is_listed(tmp_path):
    given = {
        "a.weight": torch.ones(3, 2),
        "b.weight": torch.ones(1),
        "b_m.weight": torch.ones(1),
    }
    fault = (
        r"^models\.mine: x\.pth: lacks a\.bias; has unexpected b\.weight;"
        r" has of another shape a\.weight 3x2 for 2x3; [^\n]*$"
    )
    with pytest.raises(UserError, match=fault):
        checkpoint_file.load_weights(
            network(), given, "x.pth", "mine", lambda key: key.startswith("b_m")
        )


def test_the_first_eight_of_many_are_named():
    many = WEIGHTS | {f"k{number}": torch.ones(1) for number in range(11)}
    with pytest.raises(
        UserError, match=r"^x\.pth: has unexpected k0, .*k7 and 3 more;"
    ):
        checkpoint_file.load_weights(network(), many, "x.pth", "", never)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_is_excused_may_lack_and_is_zero(device):
    with torch.device(device):
        fitted = network()
    excuses = {"*.bias": "is zero anyway", "old.*": "is read no more"}
    checkpoint_file.load_weights(
        fitted,
        {"a.weight": WEIGHTS["a.weight"], "old.x": torch.ones(1)},
        "x.pth",
        "",
        never,
        excuses,
    )
    assert fitted["a"].bias.tolist() == [0, 0]
    with pytest.raises(UserError, match="of another shape"):
        checkpoint_file.load_weights(
            fitted, WEIGHTS | {"a.bias": torch.ones(3)}, "x.pth", "", never, excuses
        )


def spec(weights):
    return ModelSpec("mine", weights=str(weights), revision="local")


def test_the_one_checkpoint_of_a_folder_is_found(tmp_path):
    with pytest.raises(
        UserError, match=r"models\.mine: .* holds 0 checkpoints \(none\)"
    ):
        checkpoint_file.find_checkpoint_file(spec(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "a.pth").touch()
    assert checkpoint_file.find_checkpoint_file(spec(tmp_path)) == tmp_path / "a.pth"
    assert (
        checkpoint_file.find_checkpoint_file(spec(tmp_path / "a.pth"))
        == tmp_path / "a.pth"
    )
    (tmp_path / "a.safetensors").touch()
    assert (
        checkpoint_file.find_checkpoint_file(spec(tmp_path))
        == tmp_path / "a.safetensors"
    )
    (tmp_path / "b.bin").touch()
    with pytest.raises(
        UserError,
        match=r"holds 2 checkpoints \(a\.pth, a\.safetensors, b\.bin\).*name the file",
    ):
        checkpoint_file.find_checkpoint_file(spec(tmp_path))


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A hub cache that holds one repository."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--some--albef" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    return snapshot


def test_a_file_of_a_repository_is_had_from_the_cache(cache):
    (cache / "mscoco.pth").touch()
    (cache / "README.md").touch()
    for weights in ("some/albef", "some/albef/mscoco.pth"):
        path = checkpoint_file.find_checkpoint_file(
            ModelSpec("mine", weights=weights, revision=COMMIT)
        )
        assert path == cache / "mscoco.pth"


@pytest.mark.parametrize(
    "weights", ["some/other", "some/albef/vqa.pth", "no-such-thing"]
)
def test_what_cannot_be_had_from_the_hub_is_refused_in_one_line(cache, weights):
    with pytest.raises(
        UserError, match=rf"models\.mine: cannot load {weights} at {COMMIT}: [^\n]*$"
    ):
        checkpoint_file.find_checkpoint_file(
            ModelSpec("mine", weights=weights, revision=COMMIT)
        )


def test_settings_are_read_next_to_a_file(tmp_path):
    file = tmp_path / "a.pth"
    assert checkpoint_file.read_adjacent_settings(file) == {}
    (tmp_path / "config.json").write_text('{"x": 1}')
    assert checkpoint_file.read_adjacent_settings(file) == {"x": 1}
    (tmp_path / "a.json").write_text('{"x": 2}')
    assert checkpoint_file.read_adjacent_settings(file) == {"x": 2}
    for content in ("[1]", "{", "\x00"):
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(
            UserError, match=r"a\.json: (is not a JSON mapping|cannot be read as JSON)"
        ):
            checkpoint_file.read_adjacent_settings(file)


def test_weights_below_another_name_are_refused_with_the_names_of_the_file(tmp_path):
    file = tmp_path / "net.pt"
    torch.save({"net": {"a": torch.ones(2)}, "epoch": 1}, file)
    with pytest.raises(UserError, match=r"got net, epoch, expected .* state_dict"):
        checkpoint_file.read_checkpoint(file)
