"""`waltz score` on a tiny ALBEF: numbers of the restatement, and one line for what is wrong."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from stand_ins.models import restated_albef as restated
from stand_ins.models.tiny_albef import CONFIG, VOCABULARY, random_weights
from waltz.cli.app import app


@pytest.fixture
def files(tmp_path):
    """A checkpoint file, its settings and inputs, as arguments."""
    torch.save({"model": random_weights("pretrained")}, tmp_path / "ALBEF.pth")
    (tmp_path / "settings").write_text(json.dumps(CONFIG))
    draw = np.random.default_rng(0)
    mask = np.ones((20, 6), dtype=np.int64)
    mask[1, 4:] = 0
    arrays = {
        "pixel_values": draw.normal(size=(20, 3, 24, 24)).astype(np.float32),
        "input_ids": draw.integers(0, VOCABULARY, (20, 6)),
        "attention_mask": mask,
        "token_type_ids": draw.integers(0, 2, (20, 6)),
    }
    return tmp_path, arrays


def score(folder, arrays, **changes):
    np.savez(folder / "in.npz", **arrays)
    options = {
        "model": "ALBEF.pth",
        "kind": "albef",
        "config": "settings",
        "inputs": "in.npz",
        "out": "out.npz",
    }
    words = []
    for name, value in (options | changes).items():
        if value is not None:
            words += [f"--{name}", value if name == "kind" else str(folder / value)]
    return CliRunner().invoke(app, ["score", *words])


def test_scores_are_those_of_the_restatement(files):
    folder, arrays = files
    result = score(folder, arrays)
    assert result.exit_code == 0, result.output
    logits = np.load(folder / "out.npz")["match_logits"]
    assert (logits.shape, logits.dtype) == ((20, 2), np.float32)
    weights = random_weights("pretrained")
    for row in (0, 1, 19):
        given = (torch.from_numpy(array[row]) for array in arrays.values())
        expected = restated.match_logits(weights, CONFIG, *given)
        assert logits[row] == pytest.approx(expected.numpy(), abs=1e-5)


def test_a_mask_of_ones_and_types_of_zero_need_not_be_given(files):
    folder, arrays = files
    arrays["attention_mask"][:] = 1
    arrays["token_type_ids"][:] = 0
    assert score(folder, arrays).exit_code == 0
    complete_logits = np.load(folder / "out.npz")["match_logits"]
    arrays = {name: arrays[name] for name in ("pixel_values", "input_ids")}
    assert score(folder, arrays).exit_code == 0
    np.testing.assert_allclose(
        np.load(folder / "out.npz")["match_logits"], complete_logits, rtol=0, atol=1e-6
    )


def test_a_folder_with_settings_is_a_model(files):
    folder, arrays = files
    (folder / "config.json").write_text(json.dumps(CONFIG))
    assert score(folder, arrays, model=".", config=None).exit_code == 0


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"kind": "alebf"},
            "unknown kind 'alebf'; choose from albef, vilbert, vilbert-12in1",
        ),
        ({"model": "none.pth"}, "none.pth: no such file or folder"),
        ({"model": "settings"}, "settings: is truncated or no checkpoint"),
        ({"config": "none.json"}, "none.json: no such file or folder"),
        ({"config": "in.npz"}, "in.npz: cannot be read as JSON"),
        (
            {"config": None},
            "ALBEF.pth: width 24 is not a multiple of 64; set vision_heads in its JSON config",
        ),
        ({"inputs": "none.npz"}, "none.npz: cannot be read: No such file"),
        ({"inputs": "settings"}, "settings: not an .npz of arrays"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(files, changes, fault):
    folder, arrays = files
    result = score(folder, arrays, **changes)
    assert result.exit_code == 1
    assert fault in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (folder / "out.npz").exists()


@pytest.mark.parametrize(
    ("name", "array", "fault"),
    [
        ("pixel_values", None, "pixel_values missing"),
        ("input_ids", None, "input_ids missing"),
        ("input_ids", np.zeros(20, dtype=int), "input_ids is of shape (20,)"),
        (
            "input_ids",
            np.zeros((20, 14), dtype=int),
            "attention_mask is of shape (20, 6), (20, 14) is needed",
        ),
        (
            "input_ids",
            np.full((20, 6), VOCABULARY),
            f"whole numbers from 0 to {VOCABULARY - 1}",
        ),
        ("input_ids", np.zeros((20, 6)), "input_ids holds other than whole numbers"),
        (
            "pixel_values",
            np.zeros((20, 3, 32, 32)),
            "pixel_values is of shape (20, 3, 32, 32), (20, 3, 24, 24)",
        ),
        (
            "pixel_values",
            np.zeros((19, 3, 24, 24)),
            "pixel_values is of shape (19, 3, 24, 24), (20, 3, 24, 24)",
        ),
        ("pixel_values", np.array("x"), "pixel_values is of shape ()"),
        (
            "attention_mask",
            np.ones((20, 5)),
            "attention_mask is of shape (20, 5), (20, 6) is needed",
        ),
        (
            "token_type_ids",
            np.full((20, 6), 2),
            "token_type_ids holds other than whole numbers from 0 to 1",
        ),
        ("token_type_ids", np.array([{}]), "in.npz: not an .npz of arrays"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_in_one_line(files, name, array, fault):
    folder, arrays = files
    arrays = {
        key: value
        for key, value in (arrays | {name: array}).items()
        if value is not None
    }
    result = score(folder, arrays)
    assert result.exit_code == 1
    assert fault in result.stderr
    assert result.stderr.count("\n") == 1
