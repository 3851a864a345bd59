"""The target `export`: finished items in the release's layout, and a user's own with images that may travel along."""

import json

import pyarrow.parquet as pq
import pytest
from PIL import Image

pytestmark = pytest.mark.workflow


def test_the_export_is_a_target_of_its_own(after_run):
    results = after_run.folder / "results/tiny"
    assert not (results / "export").exists()
    (after_run.folder / "pictures").mkdir()
    for number in range(4):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(after_run.folder / "pictures" / f"{number}.png")
    after_run.change("sources.own.images", {"path": "pictures"})
    after_run.change("sources.own.licence", "CC BY 4.0")
    after_run.snakemake("export")

    exported = json.loads((results / "export/valse/relations.json").read_text())
    assert exported == json.loads((after_run.folder / "data/relations.json").read_text())
    own = pq.read_table(results / "export/dataset/own-counting/test-00000-of-00001.parquet").to_pylist()
    benchmark = pq.read_table(results / "benchmark/own-counting.parquet").to_pylist()
    assert [row["valid"] for row in own] == [row["valid"] for row in benchmark]
    assert own[2]["image"]["bytes"] == (after_run.folder / "pictures/2.png").read_bytes()
