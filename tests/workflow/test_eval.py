"""`waltz eval` and `waltz status` with the real workflow, on a file of four pairs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from docs.page_commands import list_page_commands
from workflow_runs.checkout import Checkout

pytestmark = pytest.mark.workflow

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
PAIRS = (
    ("0.png", "A dog is chasing a cow.", "A sheep is chasing a cow."),
    ("1.png", "A bus.", "A cat."),
)


def run_waltz(checkout: Checkout, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = checkout.environment() | {
        "PYTHONPATH": str(checkout.folder / "workflow")
    }
    program = "import sys; from waltz.cli.app import app; sys.argv[0] = 'waltz'; app()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=checkout.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_model_is_scored_and_attributed_on_a_file_of_pairs(fresh):
    photos = fresh.folder / "photos"
    photos.mkdir()
    Image.linear_gradient("L").convert("RGB").save(photos / "0.png")
    (photos / "1.png").write_bytes((photos / "0.png").read_bytes()[:200])  # truncated
    lines = ["image,caption,foil", *(",".join(pair) for pair in PAIRS)]
    (fresh.folder / "zoo.csv").write_text("\n".join(lines) + "\n")
    arguments = (
        "eval",
        "--model",
        "resources/scenes/models/clip",
        "--on",
        "zoo.csv",
        "--images",
        "photos",
    )
    result = run_waltz(
        fresh, *arguments, "--attribute", "--cores", "2", "--output", "results.json"
    )
    assert result.returncode == 0, result.stderr
    assert (
        "command: snakemake --cores 2 --config study=eval-clip-zoo -- metrics shares\n"
        in result.stderr
    )
    (row,) = json.loads((fresh.folder / "results.json").read_text())
    assert (row["model"], row["dataset"], row["items"]) == ("clip", "zoo", 1)
    assert row["accuracy"] in (0, 100)
    assert 0 < row["t_shap"] < 100
    cells = [cell.strip() for cell in result.stdout.splitlines()[3].split("│")]
    assert cells[1:-1] == [
        "clip",
        "zoo",
        "1",
        f"{row['accuracy']:.1f}",
        f"{row['t_shap']:.1f}",
    ]
    assert (
        "evaluation/clip/zoo: 2 texts that could not be scored (photos: image '1.png': cannot be"
        in result.stdout
    )

    status = run_waltz(fresh, "status")
    assert status.stdout.startswith(
        "study eval-clip-zoo (config/eval-clip-zoo.yaml, metrics, shares): done\n"
    )
    assert "failed" not in status.stdout
    for words in list_page_commands(PAGES / "evaluating-a-model.md"):
        if words[1] in ("status", "plan") and len(words) > 2:
            result = run_waltz(fresh, *words[1:])
            assert result.returncode == 0, result.stderr
            assert result.stdout


def test_two_models_are_compared_as_the_page_says(fresh):
    (fresh.folder / "zoo-images").mkdir()
    lines = ["image,caption,foil"]
    for number in range(3):
        Image.linear_gradient("L").convert("RGB").save(
            fresh.folder / "zoo-images" / f"{number}.png"
        )
        lines.append(f"{number}.png,There is a red circle.,There is a blue circle.")
    (fresh.folder / "zoo.csv").write_text("\n".join(lines) + "\n")
    command = list_page_commands(PAGES / "comparing-two-models.md")[0]
    result = run_waltz(fresh, *command[1:])
    assert result.returncode == 0, result.stderr
    assert "the same t test over images" in result.stdout
    assert "clip & matcher & zoo" in (fresh.folder / "comparison.tex").read_text()


def test_a_run_that_fails_is_explained_by_the_status(fresh, tiny_model_folder):
    (fresh.folder / "zoo.csv").write_text("image,caption,foil\na,b,c\n")
    weights = fresh.folder / "gpt2"
    shutil.copytree(tiny_model_folder, weights)
    (weights / "model.safetensors").write_bytes(b"cut off")
    result = run_waltz(
        fresh,
        "eval",
        "--model",
        "gpt2/",
        "--on",
        "zoo.csv",
        "--name",
        "mine",
        "--cores",
        "2",
    )
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].endswith("see: waltz status mine")
    assert "Traceback" not in result.stderr
    status = run_waltz(fresh, "status", "mine").stdout
    (line,) = [line for line in status.splitlines() if line.startswith("failed")]
    assert line.startswith("failed   perplexity own-gpt2/foils: models.")
    assert line.endswith("(logs/mine/perplexity/own-gpt2/foils.log)")
