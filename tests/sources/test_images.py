"""Images of folders, zips and tars: looked up by name, converted to RGB, or listed as faulty."""

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from waltz.core.errors import UserError
from waltz.sources.images import (
    MAX_PIXELS,
    ImageFault,
    check_images,
    find_image_path,
    list_image_names,
    load_image,
    open_images,
    write_manifest,
)

RED, WHITE = (255, 0, 0), (255, 255, 255)


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def plain(
    colour: Any = RED, mode: str = "RGB", size: tuple[int, int] = (8, 6)
) -> Image.Image:
    return Image.new(mode, size, colour)


def as_folder(path: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (path / "folder" / name).write_bytes(content)
    return path / "folder"


def as_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path / "images.zip"


def as_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path / "images.tar", "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path / "images.tar"


CONTAINERS = [as_folder, as_zip, as_tar]
Container = Callable[[Path, Mapping[str, bytes]], Path]


def test_a_manifest_says_which_of_the_named_images_are_usable(tmp_path: Path) -> None:
    tables = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for table, names in zip(
        tables, (["x.png", None, "y.png"], ["y.png", "z.png"]), strict=True
    ):
        pq.write_table(pa.table({"image": names}), table)
    names = list_image_names(tables)
    write_manifest(
        tmp_path / "manifest.csv", names, [ImageFault("y.png", "is missing, a, b")]
    )
    assert (tmp_path / "manifest.csv").read_text().splitlines() == [
        "image,found,fault",
        "x.png,yes,",
        'y.png,no,"is missing, a, b"',
        "z.png,yes,",
    ]


@pytest.mark.parametrize("container", CONTAINERS)
def test_an_image_is_found_by_its_path_or_the_end_of_it(
    tmp_path: Path, container: Container
) -> None:
    files = {
        "val2014/a.png": encoded(plain("red")),
        "val2014/deep/b.png": encoded(plain("blue")),
        "train2014/c.png": encoded(plain("lime")),
        "val2014/c.png": encoded(plain("white")),
    }
    with open_images(container(tmp_path, files)) as source:
        assert load_image(source, "val2014/a.png").getpixel((0, 0)) == RED
        assert load_image(source, "a.png").getpixel((7, 5)) == RED
        assert load_image(source, "deep/b.png").getpixel((0, 0)) == (0, 0, 255)
        assert load_image(source, "train2014/c.png").getpixel((0, 0)) == (0, 255, 0)
        assert check_images(
            source, ["a.png", "c.png", "eep/b.png", "d.png", "a.png"]
        ) == [
            ImageFault("c.png", f"stands 2 times: {', '.join(source.members['c'])}"),
            ImageFault("eep/b.png", "is missing"),
            ImageFault("d.png", "is missing"),
        ]
        with pytest.raises(UserError, match=r"image 'd\.png': is missing"):
            load_image(source, "d.png")
        # The suffix of an id is a guess.
        assert load_image(source, "val2014/a.jpg").getpixel((0, 0)) == RED
        assert check_images(source, ["c.jpg", "eep/b.jpg"])[1] == ImageFault(
            "eep/b.jpg", "is missing"
        )


@pytest.mark.parametrize("container", CONTAINERS)
def test_faulty_files_are_named(tmp_path: Path, container: Container) -> None:
    jpeg = encoded(Image.effect_noise((64, 64), 50).convert("RGB"), "JPEG")
    png = encoded(Image.effect_noise((64, 64), 50))
    files = {
        "whole.jpg": jpeg,
        "cut.jpg": jpeg[: len(jpeg) // 2],
        "cut.png": png[: len(png) // 2],
        "header.jpg": jpeg[:20],
        "empty.jpg": b"",
        "text.jpg": b"<html>404 not found</html>",
    }
    with open_images(container(tmp_path, files)) as source:
        faults = {fault.image: fault.reason for fault in check_images(source, files)}
    assert set(faults) == set(files) - {"whole.jpg"}
    assert "truncated" in faults["cut.jpg"]
    assert faults["empty.jpg"] == "is empty"
    assert faults["text.jpg"] == "is not an image of a known format"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            b"\0\0\0\x18ftypheic\0\0",
            "is a HEIC image, which is not read; save it as JPEG",
        ),
        (b"\0\0\0\x18ftypavif\0\0", "is an AVIF image, which is not read"),
        (b"\0\0\0\x18ftypisom\0\0", "is a video, which is not read"),
        (b"<?xml version='1.0'?>\n<svg/>", "is an SVG drawing, which is not read"),
        (b"%PDF-1.4\n", "is a PDF document, which is not read"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"),
    ],
)
def test_a_file_that_is_no_image_is_named_by_its_content(tmp_path, content, reason):
    with open_images(as_folder(tmp_path, {"a.jpg": content})) as source:
        (fault,) = check_images(source, ["a.jpg"])
    assert fault.reason.startswith(reason)


def write_png_chunk(kind: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + checksum


def test_a_decompression_bomb_is_refused_from_its_header(tmp_path: Path) -> None:
    files = {}
    for side in (9000, 60_000):
        header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        files[f"{side}.png"] = (
            b"\x89PNG\r\n\x1a\n"
            + write_png_chunk(b"IHDR", header)
            + write_png_chunk(b"IDAT", zlib.compress(b"\0" * 99))
        )
    with open_images(as_folder(tmp_path, files)) as source:
        faults = check_images(source, files)
    assert [fault.reason for fault in faults] == [
        f"has 9000 x 9000 pixels, more than {MAX_PIXELS}",
        f"has more than {MAX_PIXELS} pixels",
    ]


@pytest.mark.parametrize(
    ("depth", "color_type", "pixels", "color", "other"),
    [
        (2, 0, b"\x40", b"\0\1", 0),  # 1 and 0, of at most 3
        (4, 0, b"\x35", b"\0\3", 85),  # 3 and 5, of at most 15
        (8, 0, b"\7\x64", b"\0\7", 100),
        (16, 0, b"\x12\x34\x12\x35", b"\x12\x34", 0x12),
        (16, 2, b"\x12\x34" * 3 + b"\x80\0" * 3, b"\x12\x34" * 3, 128),
    ],
)
def test_the_color_that_a_png_declares_transparent_is_white_at_every_depth(
    tmp_path, depth, color_type, pixels, color, other
) -> None:
    header = struct.pack(">IIBBBBB", 2, 1, depth, color_type, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + write_png_chunk(b"IHDR", header)
    content += write_png_chunk(b"tRNS", color)
    content += write_png_chunk(b"IDAT", zlib.compress(b"\0" + pixels))
    content += write_png_chunk(b"IEND", b"")
    with open_images(as_folder(tmp_path, {"key.png": content})) as source:
        image = load_image(source, "key.png")
    assert (image.getpixel((0, 0)), image.getpixel((1, 0))) == (WHITE, (other,) * 3)


def test_every_mode_becomes_rgb(tmp_path: Path) -> None:
    clear = plain((0, 0, 0, 0), "RGBA")
    clear.putpixel((0, 0), (255, 0, 0, 255))
    palette = clear.convert("RGB").quantize(2)
    hidden = palette.getpixel((5, 5))
    deep = Image.fromarray(np.full((6, 8), 128 * 257, np.uint16))
    files = {
        "grey.png": encoded(plain(128, "L")),
        "grey.jpg": encoded(plain(128, "L"), "JPEG"),
        "deep.png": encoded(deep),
        "bilevel.png": encoded(plain(1, "1")),
        "cmyk.jpg": encoded(plain((0, 0, 0, 0), "CMYK"), "JPEG"),
        "clear.png": encoded(clear),
        "grey-clear.png": encoded(plain((0, 0), "LA")),
        "palette.png": encoded(plain("red").quantize(2)),
        "palette-clear.png": encoded(palette, transparency=hidden),
        "palette.gif": encoded(plain("red").quantize(2), "GIF"),
        "key.png": encoded(plain("red"), transparency=(255, 0, 0)),
    }
    with open_images(as_zip(tmp_path, files)) as source:
        images = {name: load_image(source, name) for name in files}
    assert {image.mode for image in images.values()} == {"RGB"}
    assert {image.size for image in images.values()} == {(8, 6)}
    middle = {name: image.getpixel((5, 5)) for name, image in images.items()}
    grey = (128, 128, 128)
    assert middle == {
        "grey.png": grey,
        "grey.jpg": grey,
        "deep.png": grey,
        "bilevel.png": WHITE,
        "cmyk.jpg": WHITE,
        "clear.png": WHITE,
        "grey-clear.png": WHITE,
        "palette.png": RED,
        "palette-clear.png": WHITE,
        "palette.gif": RED,
        "key.png": WHITE,
    }
    assert (
        images["clear.png"].getpixel((0, 0))
        == images["palette-clear.png"].getpixel((0, 0))
        == RED
    )


@pytest.mark.parametrize(
    ("orientation", "corner"), [(1, (0, 0)), (3, (7, 5)), (6, (5, 0)), (8, (0, 7))]
)
def test_exif_turns_an_image_upright(
    tmp_path: Path, orientation: int, corner: tuple[int, int]
) -> None:
    image = plain("white")
    image.putpixel((0, 0), RED)
    exif = Image.Exif()
    exif[0x0112] = orientation
    with open_images(
        as_folder(tmp_path, {"turned.png": encoded(image, exif=exif)})
    ) as source:
        upright = load_image(source, "turned.png")
    assert upright.size == ((8, 6) if orientation in (1, 3) else (6, 8))
    assert upright.getpixel(corner) == RED


def test_members_that_point_outside_are_skipped(tmp_path: Path) -> None:
    red = encoded(plain())
    (tmp_path / "secret.png").write_bytes(red)
    outside = [
        "../secret.png",
        str(tmp_path / "secret.png"),
        "a/../../secret.png",
        "..\\secret.png",
    ]
    for container in (as_zip, as_tar):
        with open_images(container(tmp_path, dict.fromkeys(outside, red))) as source:
            assert source.members == {}
            assert check_images(source, outside) == [
                ImageFault(name, "is missing") for name in outside
            ]
    folder = as_folder(tmp_path, {"a.png": red})
    with open_images(folder) as source:
        assert check_images(source, outside) == [
            ImageFault(name, "is missing") for name in outside
        ]


@pytest.mark.parametrize("container", CONTAINERS)
def test_threads_share_a_source(tmp_path: Path, container: Container) -> None:
    gray = {
        f"{level}.png": encoded(plain((level, level, level), size=(200, 200)))
        for level in range(250)
    }
    with (
        open_images(container(tmp_path, gray)) as source,
        ThreadPoolExecutor(8) as pool,
    ):
        images = list(pool.map(partial(load_image, source), gray))
    assert [image.getpixel((0, 0))[0] for image in images] == list(range(250))


def test_links_in_a_tar_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(encoded(plain()))
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        for name, kind in (
            ("soft.png", tarfile.SYMTYPE),
            ("hard.png", tarfile.LNKTYPE),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, str(tmp_path / "secret.png")
            archive.addfile(entry)
    with open_images(tmp_path / "images.tar") as source:
        assert check_images(source, ["soft.png", "hard.png"]) == [
            ImageFault("soft.png", "is missing"),
            ImageFault("hard.png", "is missing"),
        ]


PARTS = st.lists(
    st.sampled_from(["..", ".", "", "a", "b.png", "secret.png", "C:", "~", "\\", "\0"]),
    max_size=5,
)


@given(parts=PARTS, absolute=st.booleans())
def test_no_name_reaches_outside(
    tmp_path_factory: Any, parts: list[str], absolute: bool
) -> None:
    """Check that only the end of the path of the one file inside is accepted, in all containers."""
    path = tmp_path_factory.mktemp("images")
    inside, outside = encoded(plain("white")), encoded(plain("red"))
    for name in ("secret.png", "b.png", "a"):
        (path / name).write_bytes(outside)
    name = ("/" if absolute else "") + "/".join(parts)
    for container in CONTAINERS:
        with open_images(container(path, {"a/b.png": inside})) as source:
            faults = check_images(source, [name])
            if faults:
                assert faults == [ImageFault(name, "is missing")]
            else:
                # A back slash stands for a slash.
                named = "/".join(parts).replace("\\", "/").split("/")
                assert [part for part in named if part not in ("", ".")] in (
                    ["b.png"],
                    ["a", "b.png"],
                )
                assert load_image(source, name).getpixel((0, 0)) == WHITE


@pytest.mark.parametrize(
    ("container", "message"),
    [(as_zip, "not a folder, zip or tar"), (as_tar, "broken or truncated archive")],
)
def test_a_broken_archive_is_named(
    tmp_path: Path, container: Container, message: str
) -> None:
    noise = encoded(Image.effect_noise((64, 64), 50))
    path = container(tmp_path, {f"{number}.png": noise for number in range(3)})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3])
    with pytest.raises(UserError, match=message), open_images(path):
        pass


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    path = as_zip(tmp_path, {"a.png": encoded(Image.effect_noise((64, 64), 50))})
    content = bytearray(path.read_bytes())
    content[600:700] = b"\0" * 100
    path.write_bytes(content)
    with open_images(path) as source:
        (fault,) = check_images(source, ["a.png"])
    assert fault.reason.startswith("cannot be read: ")


def test_paths_that_are_no_image_source_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match="no such folder or archive"),
        open_images(tmp_path / "none"),
    ):
        pass
    (tmp_path / "file").write_text("text")
    with (
        pytest.raises(UserError, match="not a folder, zip or tar"),
        open_images(tmp_path / "file"),
    ):
        pass


def test_the_real_images(shared_data: Path) -> None:
    with open_images(shared_data / "coco_images") as source:
        names = [
            path
            for paths in source.members.values()
            for path in paths
            if path.endswith(".jpg")
        ]
        assert len(names) == 76
        assert check_images(source, names) == []
        grey = np.asarray(load_image(source, "000000431848.jpg"))
        assert grey.shape[2] == 3
        assert (grey[..., 0] == grey[..., 1]).all()


def test_images_of_several_archives_are_read_as_one_source(tmp_path):
    first, second = encoded(plain(RED)), encoded(plain(WHITE))
    archives = [
        as_zip(tmp_path, {"train/a.png": first, "both.png": first}),
        as_tar(tmp_path, {"b.png": second, "both.png": second}),
    ]
    list_file = tmp_path / "lists" / "images.txt"
    list_file.parent.mkdir()
    list_file.write_text("".join(f"../{archive.name}\n" for archive in archives))
    with open_images(list_file) as images:
        pixels = {
            name: load_image(images, name).getpixel((0, 0))
            for name in ("a.png", "b.png", "both.png")
        }
        assert pixels == {"a.png": RED, "b.png": WHITE, "both.png": RED}
        assert check_images(images, ["a.png", "c.png"]) == [
            ImageFault("c.png", "is missing")
        ]
    (tmp_path / "images.tar").unlink()
    with (
        pytest.raises(UserError, match=r"images\.tar: no such folder"),
        open_images(list_file),
    ):
        pass


def test_a_link_that_leads_out_of_its_folder_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(encoded(plain()))
    folder = as_folder(tmp_path, {"own.png": encoded(plain())})
    (folder / "out.png").symlink_to("../secret.png")
    (folder / "inside.png").symlink_to("own.png")
    with open_images(folder) as source:
        reason = "cannot be read: it is a link that leads out of its folder; put the file itself there"
        assert check_images(source, ["own.png", "inside.png", "out.png"]) == [
            ImageFault("out.png", reason)
        ]


def test_postscript_named_as_a_photo_does_not_reach_its_decoder(tmp_path: Path) -> None:
    file = io.BytesIO()
    plain().save(file, "EPS")
    assert Image.open(file).format == "EPS"
    with open_images(as_folder(tmp_path, {"photo.png": file.getvalue()})) as source:
        assert check_images(source, ["photo.png"]) == [
            ImageFault("photo.png", "is not an image of a known format")
        ]


@pytest.mark.parametrize("form", ["BMP", "GIF", "JPEG", "MPO", "PNG", "TIFF", "WEBP"])
def test_formats_of_photos_are_read(tmp_path: Path, form: str) -> None:
    with open_images(
        as_folder(tmp_path, {"photo.jpg": encoded(plain(), form)})
    ) as source:
        assert load_image(source, "photo.jpg").size == plain().size


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "names no folder or archive"),
        (b"\n \n", "names no folder or archive"),
        (b"caf\xe9\n", "not UTF-8 at byte 3"),
        (
            b"images.txt\n",
            r"line 1: a list names folders and archives \(got the list 'images\.txt'\)",
        ),
        (b"a\n\na\n", r"line 3: 'a' stands in line 1, too"),
        (b"a" * 5000, "no such folder or archive of images, named in .*line 1"),
        (b"a\x00b\n", "no such folder or archive of images, named in .*line 1"),
        (b"a\n" * 10**6, "is not a list of folders and archives"),
        (b"note.pdf\n", "not a folder, zip or tar"),
    ],
)
def test_an_odd_list_of_images_is_one_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "note.pdf").write_bytes(b"%PDF")
    (tmp_path / "images.txt").write_bytes(content)
    with (
        pytest.raises(UserError, match=message) as raised,
        open_images(tmp_path / "images.txt"),
    ):
        pass
    assert len(str(raised.value).splitlines()) == 1


def test_an_empty_line_of_a_list_does_not_stand_for_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/in.png").write_bytes(encoded(plain(RED)))
    (tmp_path / "out.png").write_bytes(encoded(plain(RED)))
    (tmp_path / "images.txt").write_text("a\n\n")
    with open_images(tmp_path / "images.txt") as images:
        assert set(images.members) == {"in"}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_rare_members_of_a_zip_are_faults_of_their_images(tmp_path: Path) -> None:
    photo = encoded(plain(RED))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("link.png")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "good.png")
        for name in ("good.png", "secret.png", "rare.png", "twice.png", "twice.png"):
            archive.writestr(name, photo)
    content = bytearray((tmp_path / "a.zip").read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[content.index(b"secret.png", directory) - 46 + 8] |= 1  # encrypted
    content[content.index(b"rare.png", directory) - 46 + 10] = 99  # compression
    (tmp_path / "a.zip").write_bytes(content)
    with open_images(tmp_path / "a.zip") as images:
        faults = {
            fault.image: fault.reason
            for fault in check_images(
                images,
                [f"{name}.png" for name in ("good", "link", "secret", "rare", "twice")],
            )
        }
    assert faults.keys() == {"link.png", "secret.png", "rare.png", "twice.png"}
    assert faults["link.png"] == "is missing"
    assert faults["twice.png"].startswith("stands 2 times")
    assert all(
        faults[name].startswith("cannot be read: ")
        for name in ("secret.png", "rare.png")
    )


@pytest.mark.parametrize(
    ("stored", "written"),
    [
        ("caf\u00e9.png", "cafe\u0301.png"),
        ("cafe\u0301.png", "caf\u00e9.png"),
        ("a.PNG", "a.png"),
        ("IMG_1.png", "img_1.png"),
        ("sub/a.png", "sub\\a.png"),
        ("Sub/a b.png", "sub/a%20b.png"),
        ("a%20b.png", "a b.png"),
        ("sub/a.b.v1.png", "a.b.v1"),
        ("Sub/A.b.v1.png", "sub/a.B.v1"),
        ("000000000139.png", "139"),
        ("139.png", "000000000139.png"),
    ],
)
@pytest.mark.parametrize("pack", [as_folder, as_zip, as_tar])
def test_a_name_in_another_form_is_found(tmp_path, pack, stored, written):
    with open_images(pack(tmp_path, {stored: encoded(plain())})) as source:
        assert find_image_path(source, written) == stored


def test_a_name_that_fits_two_files_in_another_form_is_refused(tmp_path):
    files = dict.fromkeys(["x/A.png", "x/a.PNG"], encoded(plain()))
    with open_images(as_zip(tmp_path, files)) as source:
        assert find_image_path(source, "A.png") == "x/A.png"
        with pytest.raises(UserError, match="stands 2 times"):
            find_image_path(source, "X/A.pNg")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sub/dog.png", r"is missing; did you mean 'dog.png'\?$"),
        ("dgo.png", r"is missing; did you mean 'dog.png'\?$"),
        ("img_3.png", "is missing$"),
        ("..\\dog.png", r"is missing; did you mean 'dog.png'\?$"),
        ("https://a.org/cat.png", "is missing; an address is not fetched: download it"),
        (
            "/home/ann/cat.png",
            "is missing; write the path from the folder of images",
        ),
    ],
)
def test_a_missing_image_is_named_with_one_that_is_like_it(tmp_path, name, hint):
    files = dict.fromkeys(["dog.png", "img_1.png"], encoded(plain()))
    with (
        open_images(as_folder(tmp_path, files)) as source,
        pytest.raises(UserError, match=hint),
    ):
        find_image_path(source, name)


@pytest.mark.parametrize("pack", [as_folder, as_zip, as_tar])
def test_files_that_systems_put_next_to_images_are_passed_over(tmp_path, pack):
    names = [
        "a.png",
        "._a.png",
        "__MACOSX/a.png",
        "@eaDir/a.png/a.png",
        ".cache/a.png",
        "sub/Thumbs.db",
    ]
    with open_images(pack(tmp_path, dict.fromkeys(names, encoded(plain())))) as source:
        assert find_image_path(source, "a.png") == "a.png"
        assert source.members == {"a": ("a.png",)}
