"""The command `waltz regions` on tiny detectors."""

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from stand_ins.models.tiny_detector import (
    CONFIG,
    WIDTH,
    restated,
    save_tiny,
    tiny_weights,
)
from stand_ins.models.tiny_vilbert_detector import (
    CLASSES,
    restate,
    save_config,
    save_tiny_pyramid,
    tiny_pyramid_weights,
)
from stand_ins.models.tiny_vilbert_detector import WIDTH as PYRAMID_WIDTH
from waltz.cli.app import app
from waltz.models.networks.detector import prepare_image, read_image
from waltz.models.networks.detector_checkpoint import load_detector
from waltz.models.networks.vilbert_detector_checkpoint import load_vilbert_detector
from waltz.models.regions import StoredRegions


@pytest.fixture
def detector_file(tmp_path):
    return save_tiny(tmp_path / "detector")


def run(*options):
    return CliRunner().invoke(app, ["regions", *map(str, options)])


@pytest.fixture
def photographs(tmp_path):
    folder = tmp_path / "photographs"
    folder.mkdir()
    draw = np.random.default_rng(8)
    for name, height, width in (("a.png", 90, 120), ("b.png", 130, 70)):
        patches = np.kron(
            draw.integers(0, 256, (height // 10, width // 10, 3)), np.ones((10, 10, 1))
        )
        Image.fromarray(patches.astype(np.uint8)).save(folder / name)
    return folder


def test_regions_of_an_image_are_stored_as_encoders_read_them(
    detector_file, photographs, tmp_path
):
    file = photographs / "a.png"
    done = run(
        "--model", detector_file, "--image", file, "--out", tmp_path / "a.png.npz"
    )
    assert done.exit_code == 0, done.output
    regions = StoredRegions(tmp_path, WIDTH, "cpu").load_regions("a.png")
    assert regions.size == (90, 120)
    detector = load_detector(detector_file)
    pixels = prepare_image(read_image(file, is_upright=True), detector.settings)
    assert pixels.shape[-2:] == (96, 128)
    plain = restated(tiny_weights(), pixels)
    np.testing.assert_allclose(regions.boxes, plain["boxes"] * 90 / 96, atol=5e-3)
    np.testing.assert_allclose(regions.features, plain["features"], atol=1e-4)
    with np.load(tmp_path / "a.png.npz") as arrays:
        assert str(arrays["detector"]) == detector.name
        assert arrays["classes"].tolist() == plain["classes"].tolist()
        assert {
            name: arrays[name].shape
            for name in ("features", "boxes", "scores", "attributes")
        } == {
            "features": (5, WIDTH),
            "boxes": (5, 4),
            "scores": (5,),
            "attributes": (5,),
        }


def test_an_image_that_is_turned_has_the_size_and_boxes_of_the_upright_one(
    detector_file, photographs, tmp_path
):
    upright = Image.open(photographs / "a.png")
    exif = Image.Exif()
    exif[0x0112] = 8
    upright.rotate(-90, expand=True).save(photographs / "turned.png", exif=exif)
    for name in ("a.png", "turned.png"):
        assert (
            run(
                "--model",
                detector_file,
                "--image",
                photographs / name,
                "--out",
                tmp_path / f"{name}.npz",
            ).exit_code
            == 0
        )
    first, second = (
        np.load(tmp_path / f"{name}.npz") for name in ("a.png", "turned.png")
    )
    assert all((first[part] == second[part]).all() for part in first.files)


def test_a_folder_and_several_images_go_into_a_folder(
    detector_file, photographs, tmp_path
):
    (photographs / "notes.txt").write_text("none")
    done = run(
        "--model", detector_file, "--image", photographs, "--out", tmp_path / "out"
    )
    assert done.exit_code == 0
    assert (
        "skipped, because their names are not those of images: notes.txt" in done.stderr
    )
    again = run(
        *("--model", detector_file, "--out", tmp_path / "again"),
        *("--image", photographs / "b.png", "--image", photographs / "a.png"),
    )
    assert again.exit_code == 0
    for name in ("a.png.npz", "b.png.npz"):
        assert (tmp_path / "out" / name).read_bytes() == (
            tmp_path / "again" / name
        ).read_bytes()
    assert StoredRegions(tmp_path / "out", WIDTH, "cpu").load_regions("b.png").size == (
        130,
        70,
    )


def test_images_without_regions_are_named_and_the_others_written(
    detector_file, photographs, tmp_path
):
    (photographs / "broken.png").write_text("no image")
    done = run(
        "--model", detector_file, "--image", photographs, "--out", tmp_path / "out"
    )
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "broken.png: is not an image of a known format" in done.stderr
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "a.png.npz",
        "b.png.npz",
    ]


def test_too_few_regions_name_the_image(photographs, tmp_path):
    file = save_tiny(
        tmp_path / "few", config={**CONFIG, "min_detections": 30, "max_detections": 30}
    )
    done = run(
        "--model", file, "--image", photographs / "a.png", "--out", tmp_path / "a.npz"
    )
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert f"{photographs / 'a.png'}: pytorch_model.bin@" in done.stderr
    assert "at least 30 are needed" in done.stderr
    assert not (tmp_path / "a.npz").exists()


def test_a_named_configuration_decides(detector_file, photographs, tmp_path):
    (tmp_path / "three.yaml").write_text(
        "max_detections: 3\nmin_detections: 3\nroi_box_head: {pooler_resolution: 2}\n"
    )
    out = tmp_path / "a.npz"
    options = (
        "--config",
        tmp_path / "three.yaml",
        "--image",
        photographs / "a.png",
        "--out",
        out,
    )
    assert run("--model", detector_file, *options).exit_code == 0
    assert len(np.load(out)["boxes"]) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--image", "{photographs}/a.png", "--out", "{photographs}"),
            "is a folder; name the .npz",
        ),
        (
            ("--image", "{photographs}", "--out", "{photographs}/a.png"),
            "is a file, and there are 2 images",
        ),
        (
            (
                "--image",
                "{photographs}/a.png",
                "--image",
                "{photographs}/../photographs/a.png",
            ),
            "name of several images",
        ),
        (("--image", "{empty}"), "holds no image"),
        (
            ("--image", "{photographs}/a.png", "--config", "{empty}/no.yaml"),
            "no.yaml: no such file or folder",
        ),
        (
            ("--image", "{photographs}/no.png", "--out", "{empty}/a.npz"),
            "no.png: no such file or folder",
        ),
    ],
)
def test_wrong_input_is_refused_in_one_line(
    detector_file, photographs, tmp_path, options, message
):
    (tmp_path / "empty").mkdir()
    named = [
        option.format(photographs=photographs, empty=tmp_path / "empty")
        for option in options
    ]
    done = run(
        "--model",
        detector_file,
        *named,
        *(() if "--out" in named else ("--out", tmp_path / "out")),
    )
    assert done.exit_code == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.fixture
def pyramid_file(tmp_path):
    return save_tiny_pyramid(tmp_path / "pyramid")


def test_regions_of_vilberts_detector_are_stored_as_vilbert_reads_them(
    pyramid_file, photographs, tmp_path
):
    config = save_config(tmp_path)
    named = ("--kind", "vilbert-detector", "--model", pyramid_file, "--config", config)
    done = run(*named, "--image", photographs, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    for name, size in (("a.png", (90, 120)), ("b.png", (130, 70))):
        with Image.open(photographs / name) as image:
            plain = restate(tiny_pyramid_weights(), np.asarray(image))
        with np.load(tmp_path / "out" / f"{name}.npz") as arrays:
            np.testing.assert_allclose(arrays["boxes"], plain["boxes"], atol=2e-3)
            np.testing.assert_allclose(arrays["features"], plain["features"], atol=1e-3)
            np.testing.assert_allclose(arrays["cls_prob"], plain["cls_prob"], atol=1e-4)
            np.testing.assert_allclose(arrays["scores"], plain["scores"], atol=1e-4)
            assert arrays["objects"].tolist() == plain["objects"].tolist()
            assert arrays["cls_prob"].shape == (12, 1 + CLASSES)
            assert (
                str(arrays["weights"])
                == load_vilbert_detector(pyramid_file, config).name
            )
        stored = StoredRegions(
            tmp_path / "out",
            PYRAMID_WIDTH,
            "cpu",
            expected_detector="vqa-maskrcnn-benchmark",
        )
        regions = stored.load_regions(name)
        assert regions.size == size
        assert regions.detector == "vqa-maskrcnn-benchmark"


def test_vilberts_detector_reads_pixels_as_they_are_stored(
    pyramid_file, photographs, tmp_path
):
    upright = Image.open(photographs / "a.png")
    exif = Image.Exif()
    exif[0x0112] = 8
    upright.save(photographs / "turned.png", exif=exif)
    named = (
        "--kind",
        "vilbert-detector",
        "--model",
        pyramid_file,
        "--config",
        save_config(tmp_path),
    )
    for name in ("a.png", "turned.png"):
        assert (
            run(
                *named, "--image", photographs / name, "--out", tmp_path / f"{name}.npz"
            ).exit_code
            == 0
        )
    first, second = (
        np.load(tmp_path / f"{name}.npz") for name in ("a.png", "turned.png")
    )
    assert all((first[part] == second[part]).all() for part in first.files)


def test_detectors_of_other_kinds_are_refused(
    detector_file, pyramid_file, photographs, tmp_path
):
    options = ("--image", photographs / "a.png", "--out", tmp_path / "a.npz")
    for kind, file, message in (
        (
            "vilbert-detector",
            detector_file,
            "lacks backbone.body.layer1.0.conv1.weight",
        ),
        ("detector", pyramid_file, "lacks backbone.stem.conv1.weight"),
        (
            "vilbert",
            pyramid_file,
            "--kind: unknown kind 'vilbert'; choose from detector, vilbert-detector",
        ),
    ):
        done = run("--kind", kind, "--model", file, *options)
        assert done.exit_code == 1
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
