"""The command `waltz eval`: the study that it shows, and wrong inputs; tests/workflow runs it."""

from pathlib import Path

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from waltz.cli.app import app
from waltz.cli.eval_results import read_result_rows
from waltz.core.files import parquet
from waltz.core.jobs import run_lock
from waltz.core.schema import METRICS, SHARES

ROOT = Path(__file__).parents[3]
CLIP = ROOT / "resources" / "scenes" / "models" / "clip"
HEADER = "image,caption,foil\n"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with pairs and their images, from which the command is called in a checkout."""
    monkeypatch.chdir(ROOT)
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "a.png")
    (tmp_path / "zoo.csv").write_text(f"{HEADER}a.png,a dog,a cat\n")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(
        app, ["eval", *map(str, arguments), "--dry-run"], catch_exceptions=False
    )


def test_a_dry_run_shows_the_study_and_the_command_and_writes_nothing(data):
    result = run(
        "--model",
        CLIP,
        "--on",
        data / "zoo.csv",
        "--images",
        data / "photos",
        "--limit",
        3,
        "--cores",
        2,
    )
    study = yaml.safe_load(result.stdout)
    assert study["models"]["clip"]["weights"] == "resources/scenes/models/clip"
    assert study["sources"]["own"]["files"] == {"zoo": {"path": str(data / "zoo.csv")}}
    assert study["sources"]["own"]["images"] == {"path": str(data / "photos")}
    assert study["evaluation"]["sample"] == 3
    assert (
        "command: snakemake --cores 2 --config study=eval-clip-zoo -- metrics\n"
        in result.stderr
    )
    assert not (ROOT / "config" / "eval-clip-zoo.yaml").exists()


def test_the_scenes_without_t_shap_have_no_cost(data):
    result = run("--model", CLIP, "--on", "scenes")
    assert result.exit_code == 0
    assert "cost:" not in result.stderr


def test_t_shap_is_announced_with_its_cost(data):
    (data / "zoo.csv").write_text(
        HEADER + "".join(f"a.png,a dog {n},a cat {n}\n" for n in range(3))
    )
    arguments = [
        "--model",
        "ruler-50",
        "--on",
        data / "zoo.csv",
        "--images",
        data / "photos",
    ]
    cost = "cost:    T-SHAP takes at most this many forward passes: {} of ruler-50; for the time left: waltz status"
    # a caption and a foil of three items, each with at most 1,000 evaluations
    assert cost.format("6,000") in run(*arguments, "--attribute").stderr
    assert cost.format("2,000") in run(*arguments, "--attribute", "--limit", 1).stderr
    assert "cost:" not in run(*arguments).stderr


def test_the_file_of_a_study_that_is_running_stays(data, monkeypatch):
    folder = data / ".snakemake"
    monkeypatch.setattr(run_lock, "SNAKEMAKE_FOLDER", folder)
    monkeypatch.setattr(run_lock, "_locks", [])
    monkeypatch.setattr(
        "waltz.cli.run.written_study.start_snakemake",
        lambda *_: pytest.fail("it was started"),
    )
    run_lock.hold_study("eval-ruler-50-zoo", folder)
    command = [
        "eval",
        "--model",
        "ruler-50",
        "--on",
        str(data / "zoo.csv"),
        "--images",
        str(data / "photos"),
    ]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.startswith(
        "waltz: study eval-ruler-50-zoo is being run by another snakemake (process "
    )
    assert line.endswith(
        "; wait for it, or stop it; or give this one another name with --name"
    )
    assert not (ROOT / "config" / "eval-ruler-50-zoo.yaml").exists()


def test_images_are_looked_for_next_to_the_file(data):
    Image.new("RGB", (8, 8)).save(data / "a.png")
    study = yaml.safe_load(run("--model", "ruler-50", "--on", data / "zoo.csv").stdout)
    assert study["sources"]["own"]["images"] == {"path": str(data)}


def test_each_of_several_files_is_a_data_set_with_its_images(data):
    Image.new("RGB", (8, 8)).save(data / "a.png")
    other = data / "other"
    other.mkdir()
    Image.new("RGB", (8, 8)).save(other / "b.png")
    (other / "park.csv").write_text("image,caption,foil\nb.png,a cat,a dog\n")
    arguments = ("--model", "ruler-50", "--on", data / "zoo.csv", "--on")
    study = yaml.safe_load(run(*arguments, other / "park.csv").stdout)
    assert study["study"] == "eval-ruler-50-zoo-park"
    assert study["groups"] == {"foils": ["zoo", "park"]}
    folders = {name: s["images"]["path"] for name, s in study["sources"].items()}
    assert folders == {"own-zoo": str(data), "own-park": str(other)}
    (other / "zoo.csv").write_text("image,caption,foil\nb.png,a cat,a dog\n")
    result = run(*arguments, other / "zoo.csv")
    assert "another file is called zoo, too; rename one of them" in result.output
    result = run(*arguments, "valse")
    assert "--on valse: is a study of its own; name it alone" in result.output


def test_columns_of_other_names_stand_in_the_study(data):
    (data / "zoo.tsv").write_text("pic\tgood\tbad\na.png\ta dog\ta cat\n")
    arguments = ("--model", "gpt2", "--on", data / "zoo.tsv", "--columns")
    result = run(*arguments, "image=pic, caption=good,foil=bad")
    study = yaml.safe_load(result.stdout)
    assert study["sources"]["own"]["files"]["zoo"] == {
        "path": str(data / "zoo.tsv"),
        "columns": {"image": "pic", "caption": "good", "foil": "bad"},
    }
    faults = {
        "image=pic": "line 2: 'caption' is missing (got pic, good and bad)",
        "image": "--columns: 'image' is no mapping; write image=NAME",
        "image=a,image=b": "--columns: image stands twice; leave one out",
        "picture=a": "--columns: unknown part of a pair",
    }
    for columns, fault in faults.items():
        result = run(*arguments, columns)
        assert fault in result.output
        assert result.exit_code == 1
    result = run("--model", "gpt2", "--on", "scenes", "--columns", "image=pic")
    assert "--columns: scenes is no file of pairs" in result.output


def test_a_language_model_needs_no_images(data):
    study = yaml.safe_load(run("--model", "gpt2", "--on", data / "zoo.csv").stdout)
    assert "images" not in study["sources"]["own"]
    assert (
        "images"
        not in yaml.safe_load(run("--model", "gpt2", "--on", "valse").stdout)[
            "sources"
        ]["valse"]
    )


def test_a_device_is_a_variable_of_the_command(data):
    assert (
        "command: CUDA_VISIBLE_DEVICES= snakemake "
        in run("--model", "gpt2", "--on", "valse", "--device", "cpu").stderr
    )


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (
            ["--model", "rulr-50", "--on", "scenes"],
            "rulr-50: no registered model (did you mean 'ruler-50'?)",
        ),
        (
            ["--model", "bert-base-cased", "--on", "scenes"],
            "bert-base-cased: is of kind masked",
        ),
        (
            ["--model", "lxmert-vqa", "--on", "scenes"],
            "--model lxmert-vqa: answers questions and scores no texts",
        ),
        (
            ["--model", "ruler-50", "--on", "vals"],
            "--on: unknown data (got 'vals', expected valse, scenes or a",
        ),
        (["--model", "ruler-50", "--on", "vals"], "; did you mean 'valse'?"),
        (
            ["--model", str(CLIP).removesuffix("ip") + "p", "--on", "scenes"],
            f"no such file or folder (did you mean '{CLIP}'?)",
        ),
        (
            ["--model", "ruler-50", "--on", "valse"],
            "--images is missing: ruler-50 reads images",
        ),
        (["--model", "ruler-50", "--on", "no.csv"], "--on no.csv: no such file"),
        (
            ["--model", "ruler-50", "--on", "https://a.example/no.csv"],
            "no.csv: no such file; an address is not fetched: download the file",
        ),
        (["--model", "ruler-50", "--on", ""], "--on: unknown data (got ''"),
        (
            ["--model", "ruler-50", "--on", "tests/data/own"],
            "tests/data/own: no such file; did you mean",
        ),
        (
            ["--model", "ruler-50", "--on", "scenes", "--images", "no"],
            "--images no: no such folder or archive",
        ),
        (
            ["--model", "ruler-50", "--on", "scenes", "--profile", "publishd"],
            "; did you mean 'published'?",
        ),
        (
            ["--model", "ruler-50", "--on", "scenes", "--device", "gpu"],
            "--device: unknown device (got 'gpu', expected",
        ),
        (
            ["--model", "ruler-50", "--on", "scenes", "--output", "x.txt"],
            "--output x.txt: unknown format (got '.txt'",
        ),
        (
            ["--model", "ruler-50", "--on", "scenes", "--name", "My Run"],
            "--name: wrong value (got 'My Run', expected small letters a to z, digits and hyphens",
        ),
        (
            ["--model", "gpt2", "--on", "valse", "--attribute"],
            "--attribute: T-SHAP needs a model that reads images",
        ),
        (
            ["--model", "ruler-50", "--on", "scenes", "--limit", "0"],
            "Invalid value for '--limit'",
        ),
        (["--on", "valse"], "Missing option '--model'; see: "),
    ],
)
def test_wrong_options_are_one_line(data, arguments, fault):
    result = run(*arguments)
    assert result.exit_code in (1, 2)
    assert fault in result.output
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            "image,caption\na.png,a dog\n",
            "line 2: 'foil' is missing (got image and caption); name the column of the foil (--columns foil=NAME",
        ),
        (
            f"{HEADER}a.png,,a cat\n",
            "line 2: 'caption' is not a text with content (got '')",
        ),
        (
            f"{HEADER}b.png,a dog,a cat\n",
            "image 'b.png': is missing; name images by their paths below --images",
        ),
        (f"{HEADER}/x/a.png,a dog,a cat\n", "image '/x/a.png': the path is absolute"),
        (HEADER, "no rows in the file"),
        ("image;caption;foil\n", "no rows in the file"),
        (f"{HEADER}a.png,a dog\n", "line 2: 2 cells, not 3"),
    ],
)
def test_faults_in_the_pairs_are_one_line(data, content, fault):
    (data / "zoo.csv").write_text(content)
    result = run(
        "--model", "ruler-50", "--on", data / "zoo.csv", "--images", data / "photos"
    )
    assert result.exit_code == 1
    assert f"{data / 'zoo.csv'}: " in result.output
    assert fault in result.output
    assert len(result.output.splitlines()) == 1


def test_outside_of_a_checkout_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "waltz.__file__", str(tmp_path / "site-packages" / "waltz" / "__init__.py")
    )
    result = run("--model", "ruler-50", "--on", "scenes")
    assert result.output.startswith(
        f"waltz: no checkout of waltz: {tmp_path} is in none"
    )
    assert len(result.output.splitlines()) == 1


def test_the_average_t_shap_has_its_interval_and_needs_all_data_sets(tmp_path):
    # half widths 3 and 4: sqrt(9 + 16) / 2 = 2.5
    names = {"model": "clip", "profile": "equations", "setting": "alignment"}
    numbers = {"one": (20.0, 3.0), "two": (40.0, 4.0)}
    metrics = [
        {**names, "dataset": name, "metric": "acc_r", "value": 60.0, "n": 40}
        for name in (*numbers, "average")
    ]
    shares = [
        {
            **names,
            "dataset": name,
            "role": "caption",
            "items": 40,
            "standard_error_n": 0,
            "missing": [],
        }
        | {"value": value, "n": 40, "ci_low": value - half, "ci_high": value + half}
        for name, (value, half) in numbers.items()
    ]
    for stage in ("evaluation", "attribution"):
        (tmp_path / stage).mkdir()
    parquet.write_rows(tmp_path / "evaluation" / "metrics.parquet", metrics, METRICS)
    for written, measure in (
        (shares, (30.0, 27.5, 32.5)),
        (shares[:1], (None, None, None)),
    ):
        parquet.write_rows(tmp_path / "attribution" / "shares.parquet", written, SHARES)
        average = read_result_rows(tmp_path, ["clip"], True)[-1].to_columns()
        assert (
            average["t_shap"],
            average["t_shap_low"],
            average["t_shap_high"],
        ) == measure
