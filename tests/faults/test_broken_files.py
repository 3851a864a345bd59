"""Files that are cut off or hold no numbers: named in one line, and mended by the next run."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from waltz.core.files import parquet
from waltz.core.schema import EVALUATION, METRICS
from workflow_runs.checkout import TARGET, list_user_messages

pytestmark = pytest.mark.faults

SCORED = "results/tiny/evaluation/tiny-gpt2/pairs.parquet"


def cut(path):
    """Leave the first half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.fixture
def model(fresh, tiny_model_folder, tmp_path):
    """The study's model, to be broken."""
    copy = tmp_path / "model"
    shutil.copytree(tiny_model_folder, copy)
    fresh.change("models.tiny-gpt2.weights", str(copy))
    return copy


@pytest.mark.parametrize(
    "name", ["benchmark/own-counting.parquet", "evaluation/tiny-gpt2/pairs.parquet"]
)
def test_a_truncated_parquet_file_is_named_and_written_again(
    name, finished, undisturbed
):
    cut(finished.folder / "results/tiny" / name)
    (line, *_) = list_user_messages(finished.snakemake(TARGET, check=False))
    assert f"{name}: damaged Parquet file" in line
    assert line.endswith("delete it and run again")
    (finished.folder / "results/tiny" / name).unlink()
    finished.snakemake(*(f"results/{file}" for file in undisturbed.parquet()))
    assert finished.parquet() == undisturbed.parquet()


def test_a_checkpoint_that_is_cut_off_is_named(fresh, model, undisturbed):
    weights = model / "model.safetensors"
    content = weights.read_bytes()
    cut(weights)
    (line,) = list_user_messages(fresh.snakemake(TARGET, check=False))
    assert str(model) in line
    assert not (fresh.folder / SCORED).exists()
    weights.write_bytes(content)
    fresh.snakemake(TARGET)
    assert fresh.parquet().keys() == undisturbed.parquet().keys()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_no_numbers_are_rows_with_an_error_and_in_no_mean(
    fresh, model, value
):
    weights = load_file(model / "model.safetensors")
    name = next(name for name in weights if name.endswith("ln_f.weight"))
    save_file(
        {**weights, name: torch.full_like(weights[name], value)},
        model / "model.safetensors",
        {"format": "pt"},
    )
    fresh.snakemake(TARGET)
    rows = parquet.read_rows(fresh.folder / SCORED, EVALUATION.with_dataset())
    assert rows
    assert all(row["error"] and row["score"] is None for row in rows)
    metrics = (
        fresh.folder / "results/tiny/evaluation/metrics/language.benchmark.parquet"
    )
    numbers = parquet.read_rows(metrics, METRICS)
    accuracies = [row for row in numbers if row["metric"] == "acc_r"]
    assert accuracies
    assert all(row["value"] is None and row["reason"] for row in accuracies)
