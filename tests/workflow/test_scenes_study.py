"""The default study: drawn, written, read back, reported."""

import json

import pyarrow.parquet as pq
import pytest
import yaml


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, tiny_model_folder):
    from workflow_checkout import checkout

    done = checkout(tmp_path_factory.mktemp("scenes") / "waltz", tiny_model_folder)
    study = yaml.safe_load((done.folder / "config" / "scenes.yaml").read_text())
    study["scenes"] |= {"count": 40, "models": ["acceptability"], "held_out": 20}
    (done.folder / "tiny.yaml").write_text(yaml.safe_dump({**study, "study": "tiny"}, sort_keys=False))
    done.snakemake()
    return done


def test_every_source_is_read_back_and_every_image_opens(drawn):
    study = yaml.safe_load((drawn.folder / "tiny.yaml").read_text())
    results = drawn.folder / "results" / "tiny"
    for name, entry in study["sources"].items():
        record = json.loads((results / f"sources/{name}.run.json").read_text())
        rows = pq.read_table(results / f"sources/{name}.parquet")
        assert record["rows_in"] == len(rows) > 0
        reasons = set(rows["rejected"].drop_null().to_pylist())
        assert reasons <= {"a correct caption, no foil"}, name
        if "images" in entry:
            assert pq.read_table(results / f"sources/images/{name}.parquet").to_pylist() == [], name
    assert len(pq.read_table(results / "sources/coco.parquet")) == 5 * 40


def test_the_page_shows_sheet_sources_and_scores(drawn):
    page = (drawn.folder / "results/tiny/reporting/index.html").read_text()
    for text in ("figures/scenes.png", "visual7w", "AUROC against corrupted sentences", "0 images cannot be used"):
        assert text in page


def test_a_second_run_has_nothing_to_do(drawn):
    assert drawn.planned() == set()


def test_an_edited_table_of_the_world_draws_it_anew(drawn):
    path = drawn.folder / "workflow/waltz/scenes/verbs.yaml"
    text = path.read_text()
    path.write_text(text + "\n# edited\n")
    assert {"draw_scenes", "source", "scene_model_scores", "page"} <= drawn.planned()
    path.write_text(text)
    assert drawn.planned() == set()
