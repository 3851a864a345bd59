"""Preflight against the rehearsal's server: each fault is named, and what is there is ok."""

import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import safetensors.torch
import torch
import yaml
from typer.testing import CliRunner

from rehearsal.server import MIRROR, Repository, World, serving
from waltz.cli.app import app
from waltz.cli.commands.preflight import _describe_total
from waltz.plan.build_plan import build_plan
from waltz.plan.read_study import read_study
from waltz.preflight import machine
from waltz.preflight.run import run_preflight

COMMIT = "0123456789abcdef0123456789abcdef01234567"
IMAGES = b"PK\x03\x04" + bytes(2000)
ITEMS = b"image,caption,foil\n1.jpg,a dog,a cat\n"
TIMEOUT = 20


@pytest.fixture
def world(tmp_path, tiny_model_folder):
    contents = {"images.zip": IMAGES, "zoo.csv": ITEMS}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    shutil.copytree(tiny_model_folder, tmp_path / "tiny")
    return World(
        {f"host/{name}": tmp_path / name for name in contents},
        {"some/tiny": Repository(tmp_path / "tiny", COMMIT)},
    )


@pytest.fixture(autouse=True)
def online(world, tmp_path, monkeypatch):
    """Let urls and the hub's client reach the server alone, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WALTZ_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(
        huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub")
    )
    with serving(world) as address:
        monkeypatch.setenv("WALTZ_MIRROR", address + MIRROR)
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(
            huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template
        )
        yield


def build_study(**models):
    url = "https://host"
    return {
        "study": "mine",
        "seed": 1,
        "profiles": ["equations"],
        "sources": {
            "own": {
                "format": "pairs",
                "files": {
                    "zoo": {
                        "url": f"{url}/zoo.csv",
                        "sha256": "lock",
                        "size": len(ITEMS),
                        "local": "own.csv",
                    }
                },
                "images": {"url": f"{url}/images.zip", "sha256": "lock"},
            }
        },
        "benchmark": {"valid_votes": 1},
        "models": models
        or {"tiny": {"kind": "text", "weights": "some/tiny", "revision": COMMIT}},
        "reporting": {"tables": [], "resamples": 100, "confidence": 0.9},
    }


def build_prompted_study(**entry):
    """Return a study that prompts the model with a text task, in both profiles."""
    study = build_study(
        tiny={
            "kind": "text",
            "weights": "some/tiny",
            "revision": COMMIT,
            "family": "gpt2",
            **entry,
        }
    )
    study["sources"]["comve"] = {
        "format": "comve",
        "files": {"sentences": {"path": __file__}, "answers": {"path": __file__}},
    }
    tasks = {
        "profiles": ["published", "equations"],
        "texts": {"comve": {"source": "comve", "size": 1}},
    }
    return {
        **study,
        **tasks,
        "groups": {"tasks": ["comve"]},
        "evaluation": {"models": ["tiny"], "groups": ["tasks"]},
    }


def check(study=None, timeout=TIMEOUT):
    """Return what was found by subject and name, as (state, finding)."""
    checks = run_preflight(
        build_plan(read_study(study or build_study())), None, timeout
    )
    return {(row.subject, row.name): (row.state.value, row.finding) for row in checks}


FILE, ITEM_FILE = ("file", "sources.own.images"), ("file", "sources.own.zoo")
REPOSITORY, MODEL = ("repository", "some/tiny"), ("model", "tiny")


def test_all_is_ok_and_no_weights_are_read(world, tmp_path):
    weights = tmp_path / "tiny/model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content + bytes(5_000_000))
    rows = check()
    assert {state for state, _ in rows.values()} == {"ok"}
    assert rows[FILE] == ("ok", f"images.zip: {len(IMAGES):,} bytes")
    assert "fit" in rows[MODEL][1]
    assert "0.0 GB" in next(
        finding for (subject, _), (_, finding) in rows.items() if subject == "disk"
    )
    assert (
        0
        < world.sent_bytes[f"/some/tiny/resolve/{COMMIT}/model.safetensors"]
        < 1_000_000
    )
    assert world.sent_bytes["/mirror/host/images.zip"] < len(IMAGES)


@pytest.mark.parametrize(
    ("lost", "state", "finding"),
    [("", "ok", "keys and shapes fit"), ("wte", "failure", "wte.weight")],
)
def test_the_keys_of_a_file_are_compared_with_its_base(tmp_path, lost, state, finding):
    stored = safetensors.torch.load_file(tmp_path / "tiny/model.safetensors")
    trained = {
        f"module.{key}": value
        for key, value in stored.items()
        if not (lost and lost in key)
    }
    torch.save({"state_dict": trained}, tmp_path / "last.ckpt")
    entry = {"kind": "text", "weights": "last.ckpt", "base": f"some/tiny@{COMMIT}"}
    found_state, found = check(build_study(tuned=entry))[("model", "tuned")]
    assert found_state == state
    assert finding in found


def test_what_is_here_is_ok_without_a_request(world, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/own.csv").write_bytes(ITEMS)
    target = tmp_path / "results/mine/sources/raw/own/images/images.zip"
    target.parent.mkdir(parents=True)
    target.touch()
    world.misbehave("/host/", "404")
    rows = check()
    assert rows[FILE] == ("ok", "images.zip is here")
    assert rows[ITEM_FILE][0] == "ok"
    assert not [path for _, path in world.request_counts if "/host/" in path]


FAULTS = {
    "404": (FILE, "failure", "HTTP 404"),
    "500": (FILE, "failure", "HTTP 500 Internal Server Error; run again later"),
    "page": (FILE, "failure", "it is a web page"),
    "whole": (FILE, "warning", "sends no ranges"),
    "wrong": (FILE, "failure", "its first bytes are not those of a zip file"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_file_that_the_web_does_not_give_is_named(world, kind):
    key, state, finding = FAULTS[kind]
    world.misbehave("images.zip", kind)
    rows = check()
    assert rows[key][0] == state
    assert finding in rows[key][1]
    assert "https://host/images.zip" in rows[key][1]
    assert rows[ITEM_FILE][0] == rows[MODEL][0] == "ok"


def test_a_server_that_does_not_answer_is_named(world):
    world.misbehave("images.zip", "hang")
    rows = check(timeout=1)
    assert rows[FILE][0] == "failure"
    assert "no answer within 1 s" in rows[FILE][1]


def test_a_file_of_another_size_is_named(tmp_path):
    (tmp_path / "zoo.csv").write_bytes(ITEMS * 2)
    assert check()[ITEM_FILE] == (
        "failure",
        f"zoo.csv (https://host/zoo.csv): wrong size (got {2 * len(ITEMS)} bytes, expected {len(ITEMS)}); correct the"
        " study, or put a copy there",
    )


def test_a_gated_repository_names_the_page_of_its_license(world):
    world.misbehave("/some/tiny/resolve", "gated")
    state, finding = check()[REPOSITORY]
    assert state == "failure"
    assert "accept the license on https://huggingface.co/some/tiny" in finding


@pytest.mark.parametrize(
    ("entry", "finding"),
    [
        ({"weights": "some/tiny", "revision": "f" * 40}, f"has no commit {'f' * 40}"),
        (
            {"weights": "other/tiny", "revision": COMMIT},
            "is not on the hub, or not for this account",
        ),
        (
            {"weights": "some/tiny/other.pth", "revision": COMMIT},
            f"some/tiny has no other.pth at commit {COMMIT}",
        ),
    ],
)
def test_a_repository_or_commit_that_is_not_there_is_named(entry, finding):
    rows = check(build_study(tiny={"kind": "text", **entry}))
    state, found = rows["repository", entry["weights"]]
    assert state == "failure"
    assert finding in found
    assert MODEL not in rows


def test_one_file_of_weights_and_a_detector_are_looked_for():
    detector = {"detector": "some/detector", "detector_revision": COMMIT}
    rows = check(
        build_study(
            own={
                "kind": "lxmert",
                "weights": "some/tiny/model.safetensors",
                "revision": COMMIT,
            }
            | detector
        )
    )
    assert rows["repository", "some/tiny/model.safetensors"][0] == "ok"
    assert "is not on the hub" in rows["repository", "some/detector"][1]


def change_weights(folder, change):
    file = folder / "tiny/model.safetensors"
    weights = safetensors.torch.load_file(file)
    change(weights)
    safetensors.torch.save_file(weights, file, {"format": "pt"})


KEY = "transformer.h.1.ln_1.weight"


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda weights: weights.pop(KEY), f"lacks the weights of {KEY}"),
        (
            lambda weights: weights.update({KEY: torch.ones(7)}),
            f"another shape: {KEY} [7] for [32]",
        ),
        (
            lambda weights: weights.update({KEY.replace("1", "7", 1): torch.ones(32)}),
            "has unexpected weights",
        ),
    ],
)
def test_a_checkpoint_of_other_keys_or_shapes_is_named(tmp_path, change, finding):
    change_weights(tmp_path, change)
    state, found = check()[MODEL]
    assert state == "failure"
    assert finding in found
    assert "some/tiny" in found
    assert str(tmp_path) not in found


@pytest.mark.parametrize(
    ("name", "content", "finding"),
    [
        ("config.json", b"{", "config.json"),
        ("config.json", b'{"model_type": "gpt7"}', "gpt7"),
        ("tokenizer.json", b"[]", "tokenizer.json: no JSON object"),
        (
            "model.safetensors",
            struct.pack("<Q", 9) + b"no header",
            "model.safetensors: is not a checkpoint",
        ),
    ],
)
def test_a_repository_that_does_not_load_is_named(tmp_path, name, content, finding):
    (tmp_path / "tiny" / name).write_bytes(content)
    state, found = check()[MODEL]
    assert state == "failure"
    assert finding in found


def test_a_shard_that_the_index_names_and_the_repository_lacks_is_named(tmp_path):
    folder = tmp_path / "tiny"
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {
        "weight_map": {
            KEY: "model-00001-of-00002.safetensors",
            "other": "model-00002-of-00002.safetensors",
        }
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    state, found = check()[MODEL]
    assert state == "failure"
    assert "lacks model-00002-of-00002.safetensors" in found


def test_a_prompt_is_rendered_in_each_profile():
    state, finding = check(build_prompted_study())[MODEL]
    assert (state, finding.count("a prompt of")) == ("ok", 2)


def test_a_tokenizer_whose_players_break_the_published_rule_is_named(tmp_path):
    vocabulary = tmp_path / "tiny/tokenizer.json"
    settings = json.loads(vocabulary.read_text())
    settings["pre_tokenizer"] = {"type": "CharDelimiterSplit", "delimiter": "W"}
    vocabulary.write_text(json.dumps(settings))
    state, finding = check(build_prompted_study())[MODEL]
    assert state == "failure"
    assert "players" in finding


def test_without_a_network_one_row_stands_for_all_servers(monkeypatch):
    monkeypatch.setenv("WALTZ_MIRROR", "http://127.0.0.1:9/")  # nothing listens there
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    rows = check()
    failures = [key for key, (state, _) in rows.items() if state == "failure"]
    assert failures == [("network", "all servers")]
    assert (
        "3 files and repositories could not be asked"
        in rows["network", "all servers"][1]
    )
    (disk,) = [row for (subject, _), row in rows.items() if subject == "disk"]
    assert disk[0] == "warning"
    # The size of the third is in the study.
    assert "2 files or repositories of unknown size are needed" in disk[1]


def test_one_server_that_does_not_answer_is_no_missing_network(world):
    world.misbehave("/host/", "hang")
    rows = check(timeout=1)
    assert rows[FILE][0] == rows[ITEM_FILE][0] == "failure"
    assert ("network", "all servers") not in rows


def test_an_unknown_size_is_no_zero(world, tmp_path):
    (row,) = machine.check_disk(
        [(tmp_path / "a", 3_000_000, "sources"), (tmp_path / "b", None, "sources")]
    )
    assert row.state == "warning"
    assert (
        "at least 0.0 GB (sources 0.0) and 1 files or repositories of unknown size are needed"
        in row.finding
    )


def test_too_little_disk_is_named(monkeypatch):
    monkeypatch.setattr(
        machine.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000)
    )
    (row,) = [row for (subject, _), row in check().items() if subject == "disk"]
    assert row[0] == "failure"
    assert "make room" in row[1]


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("waltz.plan.plan.importlib.util.find_spec", lambda _: None)
    state, finding = check(build_prompted_study(four_bit=True))[
        "package", "bitsandbytes"
    ]
    assert state == "failure"
    assert finding.startswith("tiny: four_bit needs the package bitsandbytes")


@pytest.mark.parametrize(
    ("gpus", "state"),
    [
        ([], "warning"),
        ([24.0, 24.0], "failure"),
        ([80.0], "failure"),
        ([24.0, 80.0, 80.0], "ok"),
    ],
)
def test_a_model_larger_than_the_gpus_is_named(gpus, state):
    (row,) = machine.check_gpus({"large": (112, 2)}, gpus, scheduled=False)
    assert (row.state, row.name) == (state, "large")
    assert "need 112 GB on 2 GPUs" in row.finding


def test_an_own_file_that_is_not_there_is_named():
    study = build_study()
    study["sources"]["own"]["images"] = {"path": "nowhere"}
    state, finding = check(study)[FILE]
    assert state == "failure"
    assert finding.startswith("nowhere: no such file or folder")


@pytest.mark.parametrize(
    "settings",
    [
        {"default-resources": {"slurm_partition": "gpus"}},
        {"default-resources": ["slurm_partition=gpus", "mem_mb=1"]},
        {"set-resources": {"attribute": {"slurm_partition": "gpus"}}},
    ],
)
def test_an_unknown_partition_is_named(tmp_path, monkeypatch, settings):
    (tmp_path / "config.yaml").write_text(
        yaml.safe_dump({"executor": "slurm", **settings})
    )
    listed = subprocess.CompletedProcess([], 0, "cpu\ngpu\n")
    monkeypatch.setattr(machine.subprocess, "run", lambda *_, **__: listed)
    (row,) = machine.check_scheduler(tmp_path)
    assert (row.state, row.name) == ("failure", "gpus")
    assert "(got gpus, expected one of cpu, gpu) (did you mean 'gpu'?)" in row.finding


def test_a_missing_executor_is_named_with_its_remedy(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("executor: slurm\n")
    monkeypatch.setattr(machine, "SLURM_PLUGIN", "snakemake_executor_plugin_absent")
    (row,) = machine.check_scheduler(tmp_path)
    assert row.state == "failure"
    assert row.finding.endswith("run: pip install -c constraints.txt -e '.[slurm]'")


def test_the_last_line_of_a_failed_sinfo_is_shown(tmp_path, monkeypatch):
    (tmp_path / "config.yaml").write_text("executor: slurm\n")
    (tmp_path / "sinfo").write_text(
        "#!/bin/sh\necho no host >&2\necho no source >&2\nexit 1\n"
    )
    (tmp_path / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (row,) = machine.check_scheduler(tmp_path)
    assert row.finding.startswith("sinfo cannot be run (no source); run this on")


def test_a_profile_without_slurm_needs_no_scheduler(tmp_path):
    (tmp_path / "config.yaml").write_text("cores: 2\n")
    assert machine.check_scheduler(tmp_path) == []


DRY_RUN = """Job stats:
 rule       count
 ----
 fetch archive     2
 fetch    45
 derived   3
 all   1
 total   51
"""


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (23.9, "1,908 jobs, 24 GPU hours"),
        (9635, "1,908 jobs, 9,635 GPU hours: 401 days of one GPU, 201 days of two"),
    ],
)
def test_the_total_says_how_long_gpus_need(hours, text):
    assert _describe_total(1908, hours) == text


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "workflow/waltz").mkdir(parents=True)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/sources.smk").write_text(
        "rule fetch:\n    output:\n\nrule fetch_archive:\n\nuse rule fetch as derived with:\n"
    )
    (tmp_path / "Snakefile").touch()
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(build_study()))
    monkeypatch.setattr(
        "waltz.cli.commands.preflight.start_snakemake",
        lambda *_, **__: subprocess.CompletedProcess([], 0, DRY_RUN, ""),
    )


@pytest.mark.usefixtures("checkout")
def test_the_command_prints_one_table_and_exits_with_1_on_a_failure(world):
    command = ["preflight", "mine.yaml", "--json", "checks.json"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0
    rows = json.loads(Path("checks.json").read_text())
    assert {
        "subject": "work",
        "name": "sources",
        "state": "ok",
        "finding": "50 jobs",
    } in rows
    (total,) = (row["finding"] for row in rows if row["name"] == "total")
    assert re.fullmatch(r"50 jobs, \d+ GPU hours", total)
    world.misbehave("images.zip", "404")
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 1
    assert "HTTP 404" in result.output
    assert "1 failure" in result.output.splitlines()[-1]
