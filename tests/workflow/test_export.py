"""The target `export`: on finished items of the release's layout and of a user's own, with images of the user's."""

import json

import pyarrow.parquet as pq
from PIL import Image


def test_the_export_is_a_target_of_its_own(after_run):
    assert "export_benchmark" not in after_run.planned()
    (after_run.folder / "pictures").mkdir()
    for number in range(4):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(after_run.folder / "pictures" / f"{number}.png")
    after_run.change("sources.own.images", {"path": "pictures"})
    after_run.change("sources.own.licence", "CC BY 4.0")
    assert after_run.planned("export") == {"export", "export_benchmark"}
    after_run.snakemake("export")

    results = after_run.folder / "results/tiny"
    exported = json.loads((results / "export/valse/relations.json").read_text())
    assert exported == json.loads((after_run.folder / "data/relations.json").read_text())
    own = pq.read_table(results / "export/dataset/own-counting/test-00000-of-00001.parquet").to_pylist()
    benchmark = pq.read_table(results / "benchmark/own-counting.parquet").to_pylist()
    assert [row["valid"] for row in own] == [row["valid"] for row in benchmark]
    assert own[2]["image"]["bytes"] == (after_run.folder / "pictures/2.png").read_bytes()
    assert after_run.planned("export") == set()

    before = {path: path.read_bytes() for path in (results / "export/dataset").rglob("*") if path.is_file()}
    (after_run.folder / "pictures/2.png").write_bytes((after_run.folder / "pictures/1.png").read_bytes())
    after_run.snakemake("export")
    changed = {path.name for path, content in before.items() if path.read_bytes() != content}
    assert changed == {"README.md", "croissant.json", "test-00000-of-00001.parquet"}
