"""TSV files of bottom-up attention: what their rows say, which image a row is of, and what is refused."""

import base64
import contextlib
import os

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from waltz.core.errors import UserError
from waltz.models.regions import StoredRegions, decode_line, normalise_image_id, read_regions

DRAW = np.random.default_rng(3)
FEATURES = DRAW.normal(size=(3, 5)).astype(np.float32)
BOXES = np.array([[0, 0, 320, 480], [10, 20, 640, 470], [5.5, 6, 7, 300]], dtype=np.float32)


def packed(values):
    return base64.b64encode(values.astype("<f4").tobytes())


def row(image=b"42", width=b"640", height=b"480", count=b"3", boxes=BOXES, features=FEATURES):
    return b"\t".join([image, width, height, count, packed(boxes), packed(features)])


def lxmert_row(image):
    classes, shares = packed(np.arange(3)), packed(np.ones(3))
    return b"\t".join([image, b"480", b"640", classes, shares, classes, shares, b"3", packed(BOXES), packed(FEATURES)])


@pytest.fixture
def table(tmp_path):
    """Writes rows to a file."""

    def written(*rows, name="all.tsv"):
        (tmp_path / name).write_bytes(b"\n".join(rows) + b"\n")
        return tmp_path / name

    return written


@pytest.mark.parametrize("made", [row, lxmert_row])
def test_a_row_says_what_was_stored(table, made):
    other = row(b"7", features=FEATURES[:, ::-1])
    path = table(other if made is row else lxmert_row(b"7"), made(b"42"), row(b"43", features=-FEATURES))
    regions = StoredRegions(path, 5, "cpu").load_regions("COCO_val2014_000000000042.jpg")
    assert (regions.features == FEATURES).all()
    assert regions.features.dtype == np.float32
    assert (regions.boxes == BOXES).all()
    assert regions.size == (480, 640)
    assert regions.detector == ""
    shares = StoredRegions(path, 5, "cpu").prepare_image(regions)[0, 1, 5:]
    assert shares.tolist() == pytest.approx([10 / 640, 20 / 480, 1, 470 / 480])


def test_a_table_holds_what_an_archive_does(table, tmp_path):
    path = table(row(b"42"), name="part.tsv.0")
    np.savez(tmp_path / "one.npz", **{"42.jpg/features": FEATURES, "42.jpg/boxes": BOXES, "42.jpg/size": [480, 640]})
    first, second = (StoredRegions(source, 5, "cpu").load_regions("42.jpg") for source in (path, tmp_path / "one.npz"))
    assert first.tobytes() == second.tobytes()
    assert first.size == second.size


def test_an_archive_may_say_its_detector(tmp_path):
    arrays = {"a.jpg/features": FEATURES, "a.jpg/boxes": BOXES, "a.jpg/size": [480, 640]}
    for named in ("a.jpg/detector", "detector"):
        np.savez(tmp_path / "one.npz", **arrays, **{named: np.array("some detector")})
        assert StoredRegions(tmp_path / "one.npz", 5, "cpu").load_regions("a.jpg").detector == "some detector"
    np.savez(tmp_path / "one.npz", **arrays)
    assert StoredRegions(tmp_path / "one.npz", 5, "cpu").load_regions("a.jpg").detector == ""


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("42", "COCO_val2014_000000000042.jpg"),
        ("42", "000000000042.jpg"),
        ("42", "val2017/000000000042.jpg"),
        ("COCO_train2014_000000000042", "000000000042.jpg"),
        ("COCO_train2014_000000000042", "COCO_train2014_000000000042.jpg"),
        ("2370799", "2370799.jpg"),
        ("dev-12-0-img1", "dev-12-0-img1.png"),
        ("dev-12-0-img1.png", "dev-12-0-img1.png"),
    ],
)
def test_a_file_name_finds_its_row(table, image, name):
    path = table(row(b"1", features=-FEATURES), row(image.encode()))
    assert (read_regions(path, name).features == FEATURES).all()


def test_digits_at_the_end_of_any_name_are_no_id(table):
    path = table(row(b"1"))
    with pytest.raises(UserError, match=r"no row has the id of dev-12-0-img1\.png \(dev-12-0-img1\)"):
        read_regions(path, "dev-12-0-img1.png")
    assert [normalise_image_id(name) for name in ("0", "000", "0420", "COCO_val2014_x1", "٤٢")] == [
        "0",
        "0",
        "420",
        "COCO_val2014_x1",
        "٤٢",
    ]


def test_a_header_and_blank_lines_are_no_rows(table):
    path = table(b"image_id\timage_w\timage_h\tnum_boxes\tboxes\tfeatures", b"", row(), b"")
    assert (read_regions(path, "42.jpg").features == FEATURES).all()


def test_a_row_twice_is_one_and_two_that_differ_are_refused(table):
    assert (read_regions(table(row(), row(b"8"), row()), "42.jpg").features == FEATURES).all()
    path = table(row(), row(b"8"), row(features=-FEATURES), name="other.tsv")
    assert (read_regions(path, "8.jpg").features == FEATURES).all()
    with pytest.raises(UserError, match=r"lines 1 and 3 are regions of 42\.jpg, and differ"):
        read_regions(path, "42.jpg")


def test_a_file_that_changes_is_read_anew(table):
    path = table(row(b"1"), row(b"42"))
    assert (read_regions(path, "42.jpg").features == FEATURES).all()
    table(row(b"42", features=-FEATURES))
    os.utime(path, ns=(1, 1))
    assert (read_regions(path, "42.jpg").features == -FEATURES).all()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (row()[:-7], "line 2: features is no float32 in base64|line 2: .* of features are none of 3 regions"),
        (row()[:-8], r"line 2: 12 numbers of boxes and \d+ of features are none of 3 regions|no float32"),
        (row(count=b"4"), "line 2: 12 numbers of boxes and 15 of features are none of 4 regions"),
        (row(count=b"-3"), "line 2: num_boxes is b'-3', no number"),
        (row(count=b"0"), "line 2: num_boxes is b'0'"),
        (row(count=b"9" * 40), "line 2: num_boxes is b'99999999999999999999', no number"),
        (row(width=b"nan"), "line 2: image_w is b'nan'"),
        (row(features=FEATURES[:, :0]), "line 2: 12 numbers of boxes and 0 of features"),
        (row().replace(packed(BOXES), b"!!!!"), "line 2: boxes is no float32 in base64"),
        (row(boxes=BOXES * 10), "in pixels of an image of height 480 and width 640"),
        (row(features=FEATURES * np.nan), "not finite"),
    ],
)
def test_a_broken_row_is_refused_and_others_are_read(table, line, said):
    path = table(row(b"1"), line)
    assert (StoredRegions(path, 5, "cpu").load_regions("1.jpg").features == FEATURES).all()
    with pytest.raises(UserError, match=said) as raised:
        StoredRegions(path, 5, "cpu").load_regions("42.jpg")
    assert "\n" not in str(raised.value)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("line", [b"42", row()[:30], b"<html>", row() + b"\tmore"])
def test_a_file_that_is_cut_off_or_another_one_is_refused_at_once(table, line):
    with pytest.raises(UserError, match="line 2: no row of 6 or 10 columns"):
        read_regions(table(row(b"1"), line), "1.jpg")


def test_a_line_without_end_is_not_read_into_memory(table, monkeypatch):
    monkeypatch.setattr("waltz.models.regions.MAX_LINE_BYTES", 100)
    with pytest.raises(UserError, match="line 1: no row"):
        read_regions(table(row()), "42.jpg")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(row())), st.integers(0, 12), st.binary(max_size=6))
def test_a_row_that_was_tampered_with_is_read_or_refused(start, length, instead):
    line = row()[:start] + instead + row()[start + length :]
    assume(line.count(b"\t") == 5)
    found = None
    with contextlib.suppress(UserError):
        found = decode_line(line, "here")
    assert found is None or len(found.features) == len(found.boxes) > 0
