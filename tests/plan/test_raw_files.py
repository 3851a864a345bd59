"""Raw files of a study: the user's own images."""

import os

from waltz.plan.raw_files import describe_folder


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
