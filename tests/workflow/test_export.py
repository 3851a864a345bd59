"""The target `export`: finished items in the release's layout, and a user's own with images that
may travel along.
"""

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
        Image.new("RGB", (4, 4), (number, 0, 0)).save(
            after_run.folder / "pictures" / f"{number}.png"
        )
    after_run.change("sources.own.images", {"path": "pictures"})
    after_run.change("sources.own.licence", "CC BY 4.0")
    after_run.snakemake("export", "export_results")

    exported = json.loads((results / "export/valse/relations.json").read_text())
    assert exported == json.loads(
        (after_run.folder / "data/relations.json").read_text()
    )
    folder, benchmark = (
        results / "export/dataset/own-counting",
        results / "benchmark/own-counting.parquet",
    )
    valid, invalid = (
        pq.read_table(folder / f"{name}-00000-of-00001.parquet").to_pylist()
        for name in ("valid", "invalid")
    )
    ids = [row["item_id"] for row in pq.read_table(benchmark).to_pylist()]
    assert [row["item_id"] for row in valid] == [ids[0], ids[1], ids[3]]
    assert [row["item_id"] for row in invalid] == [ids[2]]
    assert (
        invalid[0]["image"]["bytes"]
        == (after_run.folder / "pictures/2.png").read_bytes()
    )
    assert (results / "export/dataset/lmms_eval/waltz_tiny_own-counting.yaml").exists()
    (document,) = (results / "export/results/data/tiny").rglob("*.json")
    assert json.loads(document.read_text())["evaluation_results"]
