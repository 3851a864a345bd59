"""The study of the thesis, planned; and what it fetches, from a server on the loopback."""

import csv
import functools
import hashlib
import http.server
import io
import json
import re
import shutil
import threading
import zipfile

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from waltz.model_registry import load_registry
from waltz.reporting.tables.declarations import MEASUREMENTS, TABLES

pytestmark = pytest.mark.workflow

PLAN = ("--dry-run", "--quiet", "reason", "--config", "study=thesis")


def _jobs(output):
    lines = output.splitlines()
    start = (
        next(place for place, line in enumerate(lines) if line.startswith("job ")) + 2
    )
    counted = [line.split() for line in lines[start:] if line.strip()]
    return {
        name: int(count)
        for name, count, *_ in counted[: [name for name, *_ in counted].index("total")]
    }


def test_the_thesis_is_planned_completely_and_reports_what_it_skips(fresh):
    output = fresh.snakemake(*PLAN, study="")
    jobs = _jobs(output)
    assert {
        "fetch_weights",
        "unpack_weights",
        "vote_next_to_released",
        "audit",
        "cc_shap_shard",
        "report",
    } <= set(jobs)
    assert jobs["table"] == len(TABLES) - len(MEASUREMENTS)
    study = yaml.safe_load((fresh.folder / "config/thesis.yaml").read_text())
    messages = [
        line.split(": ")[1]
        for line in output.splitlines()
        if line.startswith("waltz: ")
    ]
    assert messages == ["cv-probes"]
    assert set(study["models"]) <= set(load_registry())


def test_one_table_asks_for_no_more_than_it_shows(fresh):
    jobs = _jobs(fresh.snakemake(*PLAN, "--", "table_3_5", study=""))
    assert set(jobs) == {
        "fetch",
        "fetch_hub_model",
        "list_images",
        "items",
        "decode",
        "merge_evaluation_shards",
        "metrics_part",
        "comparisons_part",
        "check_runs",
        "table",
        "table_3_5",
    }
    assert jobs["merge_evaluation_shards"] == 4
    assert jobs["decode"] > 4 * 4


def test_a_table_that_print_does_not_have_asks_for_its_kinds_of_models(fresh):
    """The papers show deviations over seeds in figures alone, so no paper value says which numbers
    are shown.
    """
    output = fresh.snakemake(*PLAN, "--", "table_seeds_images", study="")
    jobs = _jobs(output)
    assert jobs["consistency_part"] > 0
    assert {"self_consistency_tests", "cc_shap_shard"} <= set(jobs)
    assert "decoder=llava-next-mistral" in output
    assert "decoder=gpt2" not in output


def test_a_run_with_too_few_gpus_is_refused_only_for_what_needs_them(fresh):
    one_gpu = (*PLAN, "--resources", "gpu=1", "--logger", "waltz")
    library = str(fresh.folder / "workflow")  # with the logger
    output = fresh.snakemake(
        *one_gpu, "--", "table_5_2", study="", check=False, PYTHONPATH=library
    )
    message = r"waltz: models\.falcon-40b(-chat)?\.gpus: more GPUs than the run has \(got --resources gpu=1, expected"
    assert re.search(message, " ".join(output.split()))
    assert "Traceback" not in output
    output = fresh.snakemake(*PLAN, "--resources", "gpu=1", "--", "table_3_5", study="")
    assert _jobs(output)["merge_evaluation_shards"] == 4


STUB = """
import time
from pathlib import Path

FOLDERS = ("fetch_snapshot", "unpack_weights", "sample_figures", "explanation_figures", "edit_figures", "trace_figures")
start = time.time()
for output in map(Path, snakemake.output):
    output.mkdir(parents=True) if snakemake.rule in FOLDERS else output.write_text(output.name)
if snakemake.resources.get("gpu"):
    time.sleep(4)
with open("times.txt", "a") as times:
    times.write(f"{snakemake.resources.get('gpu', 0)} {start} {time.time()}\\n")
"""
"""Stands for every script: it writes its outputs, and holds its GPUs for four seconds."""


BUSY_SHARE = 0.8
"""Least share of the time that GPUs are held, with room for a busy machine (docs/how-to/scaling.md:
0.92).
"""


def test_two_gpus_are_busy_and_other_jobs_run_beside_them(fresh):
    for script in (fresh.folder / "workflow/scripts").glob("*.py"):
        script.write_text(STUB)
    fresh.edit("Snakefile", "fork_scripts(workflow)", "fork_scripts(workflow).wait(60)")
    fresh.edit(
        "config/thesis.yaml",
        "  standard_error: 0.02\n",
        "  standard_error: 0.02\n  shards: 8\n",
    )
    gpus = (
        "--cores",
        "8",
        "--resources",
        "gpu=2",
        "--config",
        "study=thesis",
        "only=clip-vit-base-patch32,albef-mscoco",
    )
    fresh.snakemake(*gpus, "--", "table_4_2", study="")
    jobs = [
        line.split() for line in (fresh.folder / "times.txt").read_text().splitlines()
    ]
    held = [
        (int(gpus), float(start), float(end))
        for gpus, start, end in jobs
        if gpus != "0"
    ]
    begin, end = min(start for _, start, _ in held), max(end for *_, end in held)
    assert len(held) == 20
    assert (
        sum(gpus * (stop - start) for gpus, start, stop in held) / 2 / (end - begin)
        > BUSY_SHARE
    )
    assert (
        max(
            sum(gpus for gpus, start, stop in held if start <= moment < stop)
            for _, moment, _ in held
        )
        == 2
    )
    assert any(gpu == "0" and begin < float(start) < end for gpu, start, _ in jobs)


@pytest.fixture
def web(tmp_path):
    (tmp_path / "web").mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(tmp_path / "web"))
    )
    threading.Thread(
        target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.01}
    ).start()
    yield tmp_path / "web", f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def _zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_archives_are_fetched_once_locked_and_missing_images_counted(fresh, web):
    folder, address = web
    picture = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(picture, "PNG")
    captions = {
        name: json.dumps(
            {
                "images": [
                    {
                        "id": number,
                        "file_name": f"{number}.png",
                        "width": 8,
                        "height": 6,
                    }
                ],
                "annotations": [
                    {"id": number, "image_id": number, "caption": "A red square."}
                ],
            }
        )
        for number, name in enumerate(("val", "train"), 1)
    }
    _zip(
        folder / "annotations.zip",
        {f"in/{name}.json": text for name, text in captions.items()},
    )
    known = _zip(folder / "one.zip", {"1.png": picture.getvalue()})
    _zip(folder / "two.zip", {"other.png": picture.getvalue()})
    archive = f"{address}/annotations.zip"
    study = yaml.safe_load((fresh.folder / "tiny.yaml").read_text())
    study["sources"]["coco"] = {
        "format": "coco-captions",
        "files": {
            name: {"url": f"{archive}#in/{name}.json", "sha256": "lock"}
            for name in captions
        },
        "images": [
            {"url": f"{address}/one.zip", "sha256": known},
            {"url": f"{address}/two.zip", "sha256": "lock"},
        ],
    }
    (fresh.folder / "tiny.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    target = "results/tiny/sources/images/coco.csv"
    assert fresh.snakemake("--", target).count("rule fetch_archive:") == 1
    assert (
        pq.read_metadata(fresh.folder / "results/tiny/sources/coco.parquet").num_rows
        == 2
    )
    with (fresh.folder / target).open(newline="") as file:
        images = {
            row["image"]: (row["found"], row["fault"]) for row in csv.DictReader(file)
        }
    assert images == {"1.png": ("yes", ""), "2.png": ("no", "is missing")}
    record = json.loads(
        (fresh.folder / "results/tiny/sources/images/coco.run.json").read_text()
    )
    assert (record["rows_in"], record["rows_out"], record["rejected"]) == (
        2,
        1,
        {"is missing": 1},
    )
    locked = yaml.safe_load((fresh.folder / "config/locks/tiny.yaml").read_text())
    assert set(locked) == {archive, f"{address}/two.zip"}
    assert fresh.planned("--", target) == set()
    _zip(
        folder / "annotations.zip",
        {f"in/{name}.json": text + " " for name, text in captions.items()},
    )
    raw = fresh.folder / "results/tiny/sources/raw/coco/val/val.json"
    deleted = [
        fresh.folder / "results/tiny/sources/archives/coco/val/annotations.zip",
        raw,
    ]
    for file in deleted:
        file.unlink()
    # From the cache of downloads.
    fresh.snakemake("--", "results/tiny/sources/raw/coco/val/val.json")
    assert json.loads(raw.read_text()) == json.loads(captions["val"])
    for file in deleted:
        file.unlink()
    shutil.rmtree(fresh.folder / "results/.downloads")
    output = fresh.snakemake(
        "--", "results/tiny/sources/raw/coco/val/val.json", check=False
    )
    (line,) = [line for line in output.splitlines() if line.startswith("waltz: ")]
    assert "annotations.zip: cannot be fetched" in line
    assert "config/locks/tiny.yaml records the checksum of the first download" in line
