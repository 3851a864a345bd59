"""The command `waltz build`: the study that it shows, and what it prints of results; tests/workflow
runs it.
"""

import shutil
from pathlib import Path

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from waltz.cli.app import app
from waltz.cli.commands.build import _fetch_judges, _print_funnel, _write_tasks
from waltz.cli.commands.people import SERVER
from waltz.cli.run.written_study import plan_study
from waltz.core.errors import UserError
from waltz.core.records import write_records
from waltz.core.schema import FunnelRecord, PairRecord, ReasonCount
from waltz.plan.built_study import (
    FILTERS,
    build_caption_study,
    list_judges,
    omit_filters,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with images, from which the command is called in a checkout."""
    monkeypatch.chdir(ROOT)
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "a.png")
    return tmp_path


def write_captions(data, number):
    file = data / "captions.csv"
    lines = [f"a.png,{count} dogs sleep." for count in range(number)]
    file.write_text("\n".join(["image,caption", *lines, ""]))
    return file


def run(captions, *arguments):
    return CliRunner().invoke(
        app,
        ["build", *map(str, [captions, *arguments]), "--dry-run"],
        catch_exceptions=False,
    )


@pytest.mark.parametrize(
    ("number", "options", "js"),
    [(299, (), 1), (300, (), 0.3), (3, ("--js", "0.5"), 0.5)],
)
def test_few_captions_are_not_balanced(data, number, options, js):
    captions = write_captions(data, number)
    result = run(captions, "--images", data / "photos", *options)
    study = yaml.safe_load(result.stdout)
    assert {entry["js"] for entry in study["instruments"].values()} == {js}
    assert (f"{number} captions are too few" in result.stderr) == (js == 1)


def test_images_lie_in_a_zip(data):
    captions = write_captions(data, 1)
    archive = shutil.make_archive(str(data / "photos"), "zip", data / "photos")
    study = yaml.safe_load(run(captions, "--images", archive).stdout)
    assert study["sources"]["captions"]["images"] == {"path": archive}


def test_images_are_looked_for_next_to_the_file(data):
    captions = write_captions(data / "photos", 1)
    result = run(captions, "--instruments", "plurality,nouns")
    assert result.exit_code == 0, result.output
    study = yaml.safe_load(result.stdout)
    assert study["sources"]["captions"]["images"] == {"path": str(data / "photos")}
    assert "*id" not in result.stdout


@pytest.mark.parametrize(
    ("image", "fault"),
    [
        ("b.png", "name images by their paths below --images"),
        ("/a.png", "the path is absolute"),
    ],
)
def test_wrong_images_are_refused(data, image, fault):
    captions = data / "captions.csv"
    captions.write_text(f"image,caption\n{image},A dog.\n")
    result = run(captions, "--images", data / "photos")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"waltz: {captions}: ")
    assert fault in result.stderr


@pytest.mark.parametrize(
    ("names", "instruments"),
    [
        ("Plurality, nouns,", ["plurality", "foil-it"]),
        ("counting,counting-balanced", ["counting-balanced"]),
    ],
)
def test_instruments_are_named_in_any_case(data, names, instruments):
    captions = write_captions(data, 1)
    result = run(captions, "--images", data / "photos", "--instruments", names)
    assert list(yaml.safe_load(result.stdout)["instruments"]) == instruments


@pytest.mark.parametrize("names", [",", "plural", "coreference"])
def test_only_instruments_of_captions_are_offered(data, names):
    captions = write_captions(data, 1)
    result = run(captions, "--images", data / "photos", "--instruments", names)
    assert result.exit_code == 1
    assert "plurality" in result.stderr
    assert "coreference-standard" not in result.stderr


def test_a_missing_file_is_named(data):
    result = run(data / "no.csv", "--images", data / "photos")
    assert (
        result.stderr
        == f"waltz: {data / 'no.csv'}: no such file or folder; check the path\n"
    )


@pytest.mark.parametrize(
    ("name", "study"), [("zoo", "build-zoo"), ("build-zoo", "build-zoo")]
)
def test_the_name_starts_with_build_once(data, name, study):
    captions = write_captions(data, 1)
    result = run(captions, "--images", data / "photos", "--name", name)
    assert yaml.safe_load(result.stdout)["study"] == study


def test_the_funnel_says_what_balancing_left_out(tmp_path, capsys):
    lost = [ReasonCount(reason="balancing: not [chosen]", count=6)]
    rows = [
        FunnelRecord(instrument="plurality", step="candidates", count=10, lost=[]),
        FunnelRecord(instrument="plurality", step="balanced", count=4, lost=lost),
    ]
    write_records(tmp_path / "benchmark/funnel.parquet", rows, FunnelRecord)
    _print_funnel(tmp_path, 1000, 0.3, has_votes=False)
    output = capsys.readouterr().out
    assert "6 balancing: not [chosen]" in output
    assert "balancing left out 6 of 10 of plurality, so" in output
    # Without balancing, a caption still gives one item only.
    _print_funnel(tmp_path, 1000, 1, has_votes=False)
    assert "balancing left out" not in capsys.readouterr().out


def test_images_in_an_archive_are_unpacked_before_they_are_served(tmp_path, capsys):
    item = PairRecord(
        item_id="i",
        instrument="plurality",
        piece="plurality",
        source="captions",
        image="a.png",
        caption="Two dogs sleep.",
        foil="One dog sleeps.",
        caption_phrases=["Two dogs sleep"],
        foil_phrases=["One dog sleeps"],
    )
    archive = tmp_path / "photos.zip"
    archive.touch()
    _write_tasks([item], tmp_path, "doccano", SERVER, 0, archive)
    lines = [
        line for line in capsys.readouterr().out.splitlines() if line[:6] == "images"
    ]
    assert lines == [
        f"images:  unpack {archive} into a folder, and serve it:",
        "images:  python -m http.server 8765 --directory FOLDER",
    ]


def test_filters_without_weights_are_found(tmp_path, monkeypatch):
    study = build_caption_study(
        "build-c",
        {"format": "captions", "files": {"captions": {"path": "c.csv"}}},
        ["plurality"],
        size=10,
        js=1,
        seed=0,
        judges=yaml.safe_load((ROOT / "config/thesis.yaml").read_text()),
    )
    (tmp_path / "c.csv").write_text("image,caption\na.png,A dog.\n")
    plan = plan_study(study, tmp_path)

    def fail(*_, **__):
        raise UserError("study build-c did not end")

    monkeypatch.setattr("waltz.cli.commands.build.run_written_study", fail)
    assert _fetch_judges(study, plan, tmp_path, 1) == list(FILTERS)
    nli = study["filters"]["nli"]
    for file in plan.models.fetched.intersection(plan.models.list_files(nli)):
        (tmp_path / file).mkdir(parents=True)
    missing = _fetch_judges(study, plan, tmp_path, 1)
    assert missing == ["grammaticality"]
    left = omit_filters(study, missing)["instruments"]["plurality"]["filters"]
    assert left == ["contradiction"]
    assert list_judges(study, missing) == ["bert-base-cased", "gruen-cola"]
