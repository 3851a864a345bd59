"""The example browser of the page."""

import zipfile

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from stand_ins.report_of_two_models import attribution, score
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.records import to_row
from waltz.core.sampling import sample
from waltz.core.schema import (
    ATTRIBUTION,
    CONSISTENCY,
    EVALUATION,
    ConsistencyRecord,
)
from waltz.reporting.page.example_items import ExampleItem
from waltz.reporting.page.examples import (
    compute_max_side,
    open_thumbnails,
    read_examples,
)

IDS = [f"existence:{number}" for number in range(40)]
ITEMS = [ExampleItem(item, "1.png", {"caption": "A cat."}, {}, []) for item in IDS]


def written(path, records, layout):
    rows = [{"dataset": "existence", **to_row(record)} for record in records]
    parquet.write(
        path, parquet.build_table(rows, layout.with_dataset()), layout.with_dataset()
    )
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Scores of 30 items, contributions of four that are not those of lowest rank, tests of two."""
    scores = [
        score(item, role, 1.0) for item in IDS[:30] for role in ("caption", "foil")
    ]
    explained = [
        attribution(item, np.ones((11, 1)), image="1.png") for item in IDS[10:14]
    ]
    tests = [
        ConsistencyRecord(
            item_id=item,
            profile="published",
            setting="post-hoc",
            test="edits",
            seed=1,
            text="A cat.",
        )
        for item in IDS[10:12]
    ]
    return {
        "evaluation": [
            (
                "clip",
                "existence",
                written(tmp_path / "evaluation.parquet", scores, EVALUATION),
            )
        ],
        "attribution": [
            (
                "clip",
                "existence",
                written(tmp_path / "attribution.parquet", explained, ATTRIBUTION),
            )
        ],
        "consistency": [
            (
                "clip",
                "existence",
                written(tmp_path / "tests.parquet", tests, CONSISTENCY),
            )
        ],
    }


def test_only_rows_of_the_items_drawn_are_read(files):
    shown, (run,) = read_examples({"existence": ITEMS, "plurality": ITEMS}, files, 6, 3)
    ids = [item.id for item in shown["existence"]]
    assert list(shown) == ["existence"]
    assert set(ids[:4]) == set(IDS[10:14])
    assert set(ids[4:]) == set(
        sample([item for item in IDS[:30] if item not in IDS[10:14]], 2, 3)
    )
    assert {score.item_id for score in run.evaluation} == set(ids)
    assert (
        len(run.evaluation),
        len(run.attribution),
        len(run.consistency),
        len(run.cc_shap),
    ) == (12, 4, 2, 0)
    again = read_examples({"existence": ITEMS[::-1]}, files, 6, 3)[0]["existence"]
    assert [item.id for item in again] == ids


def test_a_missing_file_is_named(tmp_path):
    files = {"evaluation": [("clip", "existence", str(tmp_path / "gone.parquet"))]}
    with pytest.raises(UserError, match=r"gone\.parquet: no such file"):
        read_examples({"existence": ITEMS}, files, 5, 1)


@pytest.mark.parametrize("column", ["item_id", "dataset", "score"])
def test_a_file_that_lacks_a_column_is_named_with_the_column(files, column):
    (_, _, file) = files["evaluation"][0]
    pq.write_table(pq.read_table(file).drop_columns(column), file)
    with pytest.raises(
        UserError, match=rf"evaluation\.parquet: .*{column}.*; delete it and run again"
    ) as error:
        read_examples({"existence": ITEMS}, files, 5, 1)
    assert len(str(error.value).splitlines()) == 1


def test_images_are_small_and_a_missing_one_says_so(tmp_path):
    Image.new("RGB", (900, 600), "green").save(tmp_path / "1.png")
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        archive.write(tmp_path / "1.png", "deep/1.png")
    with open_thumbnails({"existence": str(tmp_path / "images.zip")}, 240) as picture:
        uri, fault = picture("existence", "1.png")
        assert uri.startswith("data:image/webp;base64,")
        assert fault == ""
        assert len(uri) < 30 * 240
        assert picture("existence", "2.png") == (
            None,
            f"{tmp_path / 'images.zip'}: image '2.png': is missing",
        )
        assert picture("e-snli", "1.png") == (
            None,
            "this study has no images of the data set",
        )


def test_few_images_are_large_and_many_are_small():
    # 1.5 million bytes for 100 images of a tenth of a byte per pixel: 150,000 pixels each, 387 squared
    assert [compute_max_side(images) for images in (0, 10, 100, 10_000)] == [
        640,
        640,
        387,
        240,
    ]
