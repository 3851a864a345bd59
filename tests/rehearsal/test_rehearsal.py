"""The dress rehearsal: the thesis study end to end, the world outside in small, and a server that
misbehaves.
"""

import csv
import hashlib
import json
import time
from pathlib import Path

import pytest

from rehearsal import dress
from rehearsal.server import MIRROR
from rehearsal.upstream import bare
from waltz.core.downloads.transfer import ATTEMPTS
from waltz.reporting.figures.chart_declarations import CHARTS

pytestmark = pytest.mark.rehearsal

TABLES_OF = {
    "clip": ("thesis-3.4", "thesis-4.1", "thesis-4.2", "thesis-A.1", "thesis-B.1"),
    "lxmert": (
        "thesis-3.4",
        "thesis-4.1",
        "thesis-4.2",
        "thesis-A.1",
        "thesis-B.1",
        "cv-probes-3",
        "cv-probes-10",
    ),
    "vilbert": ("thesis-3.4", "thesis-A.1"),
    "vilbert-12in1": ("thesis-3.4", "thesis-A.1"),
    "visualbert": ("thesis-3.4", "thesis-A.1"),
    "gpt1": ("thesis-3.4", "thesis-A.1"),
    "gpt2": ("thesis-3.4", "thesis-A.1", "thesis-5.2", "thesis-C.2", "thesis-C.3"),
    **dict.fromkeys(
        ("albef-mscoco", "albef-flickr", "albef-refcoco", "albef-vqa"),
        ("thesis-4.1", "thesis-4.2", "thesis-B.1"),
    ),
    "albef": ("cv-probes-3", "cv-probes-4", "cv-probes-11"),
    "blip": ("cv-probes-3", "cv-probes-4", "cv-probes-5"),
    "blip2": ("cv-probes-3", "cv-probes-4", "cv-probes-6"),
    "flava": ("cv-probes-3", "cv-probes-4", "cv-probes-7"),
    **dict.fromkeys(
        ("bakllava", "llava-next-mistral", "llava-next-vicuna"),
        ("thesis-3.5", "thesis-4.3", "thesis-5.5", "thesis-C.25", "decoders-paper-1"),
    ),
    "mplug-owl3": ("decoders-paper-1", "decoders-paper-2", "decoders-paper-3"),
    **dict.fromkeys(
        (
            *(
                "llama2-7b",
                "llama2-7b-chat",
                "llama2-13b",
                "llama2-13b-chat",
                "mistral-7b",
                "mistral-7b-chat",
            ),
            *("falcon-7b", "falcon-7b-chat", "falcon-40b", "falcon-40b-chat"),
        ),
        ("thesis-5.2", "thesis-C.2", "thesis-C.3"),
    ),
}
"""Tables of the thesis and the papers that contain each model."""


@pytest.fixture(scope="module")
def settings(request):
    return dress.study(request.config.getoption("--whole"))


@pytest.fixture(scope="module")
def stage(tmp_path_factory, settings, real_vocabularies):
    with dress.dressed(tmp_path_factory.mktemp("rehearsal"), settings) as dressed:
        yield dressed


RAW = {
    "404": ("comve", "sentences"),
    "500": ("bbh-causal", "causal-judgement"),
    "cut": ("bbh-logical", "logical-deduction"),
    "wrong": ("bbh-disambiguation", "disambiguation-qa"),
}
"""Requests that fail, by the server's fault."""
MESSAGES = {
    "404": "HTTP 404",
    "500": "HTTP 500",
    "cut": "the connection ended after",
    "wrong": "the received file has sha256",
}


def test_each_fault_that_stays_is_one_line_and_the_run_goes_on_when_the_server_is_well(
    stage, settings
):
    paths = {
        kind: MIRROR + bare(settings["sources"][source]["files"][name]["url"])
        for kind, (source, name) in RAW.items()
    }
    wrong, name = RAW["wrong"]
    content = stage.world.urls[paths["wrong"].removeprefix(MIRROR)].read_bytes()
    known = {
        "sources": {
            wrong: {"files": {name: {"sha256": hashlib.sha256(content).hexdigest()}}}
        }
    }
    (stage.folder / "known.yaml").write_text(json.dumps(known))
    targets = ["known.yaml", "--keep-going", "--"]
    targets += [
        f"results/thesis/sources/{source}.parquet" for source, _ in RAW.values()
    ]
    for kind, path in paths.items():
        stage.world.misbehave(path, kind)
    output = stage.snakemake(*targets, check=False)
    lines = [
        line
        for line in output.splitlines()
        if line.startswith("waltz: ") and "cannot be fetched" in line
    ]
    assert len(lines) == len(RAW)
    for kind, path in paths.items():
        (line,) = [line for line in lines if MESSAGES[kind] in line]
        assert Path(path).name in line
        assert stage.world.request_counts["GET", path] == (
            1 if kind == "404" else ATTEMPTS
        )
    assert not list((stage.results / "sources").glob("*.parquet"))
    stage.world.behave()
    stage.world.misbehave(paths["404"], "slow", times=1)
    stage.world.misbehave(paths["500"], "500", times=2)
    stage.snakemake(*targets)
    assert len(list((stage.results / "sources").glob("*.parquet"))) == len(RAW)
    stage.world.behave()


def test_preflight_finds_no_fault_before_the_run_and_names_one_that_is_there(stage):
    """Before models of the hub are fetched: what lies in its cache needs no hub."""
    output = stage.preflight()
    assert " 0 failure" in output.splitlines()[-1]
    stage.world.misbehave(f"{dress.HUB_MODEL}/resolve", "gated")
    output = stage.preflight(check=False)
    assert f"https://huggingface.co/{dress.HUB_MODEL}" in output
    stage.world.behave()


def test_a_hub_that_is_down_is_one_line_and_the_run_goes_on_when_it_is_well(
    stage, settings
):
    folder = f"{settings['weights']}/hub/{dress.HUB_MODEL}"
    served = stage.world.hub[dress.HUB_MODEL].files()
    weights = next(name for name in served if name.endswith((".bin", ".safetensors")))
    stage.world.misbehave(f"/api/models/{dress.HUB_MODEL}", "500")
    output = stage.snakemake("--", folder, check=False)
    (line,) = [
        line
        for line in output.splitlines()
        if line.startswith(f"waltz: {dress.HUB_MODEL.partition('/')[0]}")
    ]
    assert "500 Internal Server Error" in line
    stage.world.behave()
    stage.world.misbehave(weights, "wrong", times=1)
    stage.world.misbehave(weights, "cut", times=1)
    stage.snakemake("--", folder)
    assert {name: (stage.folder / folder / name).read_bytes() for name in served} == {
        name: path.read_bytes() for name, path in served.items()
    }
    stage.world.behave()


def test_a_model_at_a_commit_lies_in_the_hubs_cache_before_jobs_load_it(
    stage, settings
):
    helper = dress.models(settings)[settings["consistency"]["helper"]]
    served = stage.world.hub[helper.weights].files()
    weights = next(name for name in served if name.endswith(".safetensors"))
    stage.world.misbehave(
        f"{helper.weights}/resolve/{helper.revision}/{weights}", "cut", times=1
    )
    stage.snakemake(
        "--", f"{settings['weights']}/cached/{helper.weights}@{helper.revision}"
    )
    stage.world.behave()
    cache = (
        Path(stage.environment["HF_HOME"])
        / "hub"
        / f"models--{helper.weights.replace('/', '--')}"
    )
    folder = cache / "snapshots" / helper.revision
    assert (folder / weights).read_bytes() == served[weights].read_bytes()


@pytest.fixture(scope="module")
def performed(stage):
    """The stage after the whole study."""
    began = time.monotonic()
    output = stage.snakemake()
    (stage.folder / "whole.log").write_text(output)
    print(f"the whole study took {(time.monotonic() - began) / 60:.1f} minutes")
    return stage


def cells(stage, table):
    with (stage.results / f"reporting/tables/{table}.csv").open(
        encoding="utf-8"
    ) as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("model", "table"),
    [(model, table) for model, tables in TABLES_OF.items() for table in tables],
)
def test_each_model_has_a_value_or_a_reason_in_every_cell_of_the_paper(
    performed, settings, model, table
):
    rows = [
        row
        for row in cells(performed, table)
        if row["model"] == model and row["paper_value"]
    ]
    assert rows, f"{table} has no row of {model}"
    assert not [row for row in rows if not row["value"] and not row["reason"]]
    assert not [row for row in rows if row["reason"] == "not run in this study"]
    assert not [
        row for row in rows if "players stand before the query suffix" in row["reason"]
    ]
    if model in settings["skipped"]:
        assert any("skipped" in row["reason"] for row in rows)


def test_a_second_run_does_nothing(performed):
    assert "Nothing to be done" in performed.snakemake("--dry-run")


def test_every_figure_and_the_page_are_there(performed):
    reporting = performed.results / "reporting"
    page = (reporting / "report.html").read_text(encoding="utf-8")
    shown = {
        file.stem
        for file in (reporting / "tables").glob("*.csv")
        if not file.stem.startswith("reproduction")
    }
    assert shown >= {table for tables in TABLES_OF.values() for table in tables}
    assert not [table for table in shown if table not in page]
    drawn = {file.stem for file in (reporting / "figures").glob("*.svg")}
    assert drawn >= {
        f"{name}-{profile}" for name in CHARTS for profile in dress.study()["profiles"]
    }
    for stage_name in ("evaluation", "shares", "consistency"):
        manifests = list((reporting / "runs" / stage_name).glob("*.json"))
        assert manifests
        assert all(json.loads(file.read_text(encoding="utf-8")) for file in manifests)
