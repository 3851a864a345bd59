"""A small export with images, and one without."""

from pathlib import Path

import pytest

from stand_ins.benchmark_rows import (
    NAUGHTY,
    draw_images,
    facts,
    item,
    part,
    probe,
    unvoted,
)
from waltz.export.folder import write_dataset


@pytest.fixture(scope="session")
def images(tmp_path_factory) -> Path:
    """Return a folder of three images, one of them broken."""
    return draw_images(tmp_path_factory.mktemp("images") / "all")


@pytest.fixture(scope="session")
def rows():
    """Return items of every kind: with and without votes, odd texts, a broken image, another suffix
    than the file's.
    """
    return [
        item(item_id="a"),
        unvoted(item_id="b", image="grey.jpg", caption=NAUGHTY, foil="no " + NAUGHTY),
        item(
            item_id="c",
            image="broken.png",
            valid=False,
            votes_caption=0,
            votes_other=3,
            caption_span=None,
        ),
        item(item_id="d", image="grey.png"),
    ]


@pytest.fixture(scope="session")
def parts(images, rows):
    """Return a part with images, CV-Probes with images, and a part without."""
    return [
        part(rows, images=str(images)),
        part(
            [
                probe(),
                probe(item_id="q", match=False, verb_span={"start": 0, "end": 1}),
            ],
            "cv-probes",
            "cv-probes",
            str(images),
        ),
        part(rows, "relations", no_images_reason="their licenses are <i>not</i> known"),
    ]


@pytest.fixture(scope="session")
def dataset(tmp_path_factory, parts) -> Path:
    """Return the data set folder of these parts; tests must not change it."""
    folder = tmp_path_factory.mktemp("dataset") / "small"
    write_dataset(folder, parts, facts())
    return folder
