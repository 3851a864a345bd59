"""Raw files of a study: the user's own images."""

import os
from pathlib import Path

from stand_ins.yaml_files import read_yaml
from waltz.plan.raw_files import RawFiles, describe_folder
from waltz.plan.read_study import read_study

ROOT = Path(__file__).parents[2]


def test_an_image_that_is_mended_renamed_or_added_is_noticed(tmp_path):
    image = tmp_path / "train" / "one.png"
    image.parent.mkdir()
    image.write_bytes(b"broken")
    digests = [describe_folder.__wrapped__(str(tmp_path))]
    os.utime(image.parent)  # the folder alone
    assert describe_folder.__wrapped__(str(tmp_path)) == digests[0]
    image.write_bytes(b"mended image")
    digests.append(describe_folder.__wrapped__(str(tmp_path)))
    image = image.rename(image.with_name("two.png"))
    digests.append(describe_folder.__wrapped__(str(tmp_path)))
    (tmp_path / "three.png").write_bytes(b"")
    digests.append(describe_folder.__wrapped__(str(tmp_path)))
    os.utime(image, ns=(0, 1))
    digests.append(describe_folder.__wrapped__(str(tmp_path)))
    assert len(set(digests)) == 5


def test_each_of_several_folders_of_images_has_a_digest(tmp_path):
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
        (folder / "1.png").write_bytes(folder.name.encode())
    images = [{"path": str(folder)} for folder in folders]
    study = read_yaml(ROOT / "config" / "scenes.yaml")
    study["sources"]["mine"] = {
        "format": "pairs",
        "files": {"mine": {"path": "a.csv"}},
        "images": images,
    }
    raw = RawFiles(read_study(study), "results")
    assert list(raw.describe_user_images()) == [str(folder) for folder in folders]
