"""Encoders that read regions: stored ones, tables of them, and those of a detector; what is hidden,
what is refused.
"""

import base64
import contextlib
import copy
import json
import os
import shutil

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from stand_ins.models.tiny_detector import CONFIG, save_tiny, tiny_weights
from stand_ins.models.tiny_encoders import ANSWERS, REGIONS, WIDTH, build
from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.model_registry import ModelSpec
from waltz.models.encoders import base, load_encoder
from waltz.models.encoders.alignment import compute_pair_scores
from waltz.models.encoders.coalitions import EncoderCoalitions, build_published_players
from waltz.models.networks.detector_checkpoint import load_detector
from waltz.models.regions import (
    DetectedRegions,
    ImageRegions,
    StoredRegions,
    decode_line,
    get_players_function,
    load_image_or_regions,
    normalize_image_id,
    read_regions,
)
from waltz.models.visible_image import render_encoder_view

DRAW = np.random.default_rng(3)
FEATURES = DRAW.normal(size=(3, 5)).astype(np.float32)
BOXES = np.array(
    [[0, 0, 320, 480], [10, 20, 640, 470], [5.5, 6, 7, 300]], dtype=np.float32
)


def packed(values):
    return base64.b64encode(values.astype("<f4").tobytes())


def row(
    image=b"42", width=b"640", height=b"480", count=b"3", boxes=BOXES, features=FEATURES
):
    return b"\t".join([image, width, height, count, packed(boxes), packed(features)])


def lxmert_row(image):
    classes, shares = packed(np.arange(3)), packed(np.ones(3))
    return b"\t".join(
        [
            image,
            b"480",
            b"640",
            classes,
            shares,
            classes,
            shares,
            b"3",
            packed(BOXES),
            packed(FEATURES),
        ]
    )


@pytest.fixture
def table(tmp_path):
    """Writes rows to a file."""

    def written(*rows, name="all.tsv"):
        (tmp_path / name).write_bytes(b"\n".join(rows) + b"\n")
        return tmp_path / name

    return written


@pytest.mark.parametrize("models", [row, lxmert_row])
def test_a_row_says_what_was_stored(table, models):
    other = row(b"7", features=FEATURES[:, ::-1])
    path = table(
        other if models is row else lxmert_row(b"7"),
        models(b"42"),
        row(b"43", features=-FEATURES),
    )
    regions = StoredRegions(path, 5, "cpu").load_regions(
        "COCO_val2014_000000000042.jpg"
    )
    assert (regions.features == FEATURES).all()
    assert regions.features.dtype == np.float32
    assert (regions.boxes == BOXES).all()
    assert regions.size == (480, 640)
    assert regions.detector == ""
    shares = StoredRegions(path, 5, "cpu").prepare_image(regions)[0, 1, 5:]
    assert shares.tolist() == pytest.approx([10 / 640, 20 / 480, 1, 470 / 480])


def test_a_table_holds_what_an_archive_does(table, tmp_path):
    path = table(row(b"42"), name="part.tsv.0")
    np.savez(
        tmp_path / "one.npz",
        **{
            "42.jpg/features": FEATURES,
            "42.jpg/boxes": BOXES,
            "42.jpg/size": [480, 640],
        },
    )
    first, second = (
        StoredRegions(source, 5, "cpu").load_regions("42.jpg")
        for source in (path, tmp_path / "one.npz")
    )
    assert first.tobytes() == second.tobytes()
    assert first.size == second.size


def test_an_archive_may_say_its_detector(tmp_path):
    arrays = {
        "a.jpg/features": FEATURES,
        "a.jpg/boxes": BOXES,
        "a.jpg/size": [480, 640],
    }
    for named in ("a.jpg/detector", "detector"):
        np.savez(tmp_path / "one.npz", **arrays, **{named: np.array("some detector")})
        assert (
            StoredRegions(tmp_path / "one.npz", 5, "cpu").load_regions("a.jpg").detector
            == "some detector"
        )
    np.savez(tmp_path / "one.npz", **arrays)
    assert (
        StoredRegions(tmp_path / "one.npz", 5, "cpu").load_regions("a.jpg").detector
        == ""
    )


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
    with pytest.raises(
        UserError, match=r"no row has the id of dev-12-0-img1\.png \(dev-12-0-img1\)"
    ):
        read_regions(path, "dev-12-0-img1.png")
    assert [
        normalize_image_id(name)
        for name in ("0", "000", "0420", "COCO_val2014_x1", "٤٢")
    ] == [
        "0",
        "0",
        "420",
        "COCO_val2014_x1",
        "٤٢",
    ]


def test_a_header_and_blank_lines_are_no_rows(table):
    path = table(
        b"image_id\timage_w\timage_h\tnum_boxes\tboxes\tfeatures", b"", row(), b""
    )
    assert (read_regions(path, "42.jpg").features == FEATURES).all()


def test_a_row_twice_is_one_and_two_that_differ_are_refused(table):
    assert (
        read_regions(table(row(), row(b"8"), row()), "42.jpg").features == FEATURES
    ).all()
    path = table(row(), row(b"8"), row(features=-FEATURES), name="other.tsv")
    assert (read_regions(path, "8.jpg").features == FEATURES).all()
    with pytest.raises(
        UserError, match=r"lines 1 and 3 are regions of 42\.jpg, and differ"
    ):
        read_regions(path, "42.jpg")


def test_a_file_that_changes_is_read_anew(table):
    path = table(row(b"1"), row(b"42"))
    assert (read_regions(path, "42.jpg").features == FEATURES).all()
    table(row(b"42", features=-FEATURES))
    os.utime(path, ns=(1, 1))
    assert (read_regions(path, "42.jpg").features == -FEATURES).all()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            row()[:-7],
            "line 2: features is not float32 in base64|line 2: .* of features do not fit 3 regions",
        ),
        (
            row()[:-8],
            r"line 2: 12 numbers of boxes and \d+ of features do not fit 3 regions|not float32",
        ),
        (
            row(count=b"4"),
            "line 2: 12 numbers of boxes and 15 of features do not fit 4 regions",
        ),
        (row(count=b"-3"), "line 2: num_boxes is b'-3', no number"),
        (row(count=b"0"), "line 2: num_boxes is b'0'"),
        (
            row(count=b"9" * 40),
            "line 2: num_boxes is b'99999999999999999999', no number",
        ),
        (row(width=b"nan"), "line 2: image_w is b'nan'"),
        (
            row(features=FEATURES[:, :0]),
            "line 2: 12 numbers of boxes and 0 of features",
        ),
        (
            row().replace(packed(BOXES), b"!!!!"),
            "line 2: boxes is not float32 in base64",
        ),
        (row(boxes=BOXES * 10), "in pixels of an image of height 480 and width 640"),
        (row(features=FEATURES * np.nan), "not finite"),
    ],
)
def test_a_broken_row_is_refused_and_others_are_read(table, line, message):
    path = table(row(b"1"), line)
    assert (
        StoredRegions(path, 5, "cpu").load_regions("1.jpg").features == FEATURES
    ).all()
    with pytest.raises(UserError, match=message) as raised:
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
    regions = None
    with contextlib.suppress(UserError):
        regions = decode_line(line, "here")
    assert regions is None or len(regions.features) == len(regions.boxes) > 0


CPU = Device("cpu", 1, "a test")
IMAGE = Image.new("RGB", (80, 60))


@pytest.fixture
def lxmert(checkpoint, regions):
    """Loads the tiny LXMERT with an entry's further fields."""

    def loaded(**entry):
        fields = {"regions": str(regions), **entry}
        return load_encoder(
            ModelSpec(
                "mine",
                kind="lxmert",
                weights=str(checkpoint("lxmert")),
                revision="local",
                **fields,
            ),
            CPU,
        )

    return loaded


def prepared(encoder, name="0.jpg"):
    return encoder.prepare_image(load_image_or_regions(encoder, name, lambda: IMAGE))


def test_one_archive_holds_what_a_folder_does(regions, tmp_path):
    stored = {
        file.name.removesuffix(".npz"): dict(np.load(file))
        for file in regions.iterdir()
    }
    arrays = {
        f"{name}/{part}": values
        for name, parts in stored.items()
        for part, values in parts.items()
    }
    np.savez(tmp_path / "all.npz", **arrays)
    for name in stored:
        folder, archive = (
            StoredRegions(path, WIDTH, "cpu").load_regions(name)
            for path in (regions, tmp_path / "all.npz")
        )
        assert (folder.features == archive.features).all()
        assert (folder.boxes == archive.boxes).all()
        assert folder.size == archive.size == (60, 80)


def test_boxes_are_shares_of_width_and_height(regions, tmp_path):
    boxes = np.array([[8, 6, 40, 30], [0, 0, 80, 60]], dtype=np.float32)
    np.savez(
        tmp_path / "a.jpg.npz",
        features=np.ones((2, 3), np.float32),
        boxes=boxes,
        size=np.array([60, 80]),
    )
    source = StoredRegions(tmp_path, 3, "cpu")
    features, shares = source.compute_regions(
        source.prepare_image(source.load_regions("a.jpg"))[None]
    )
    assert shares[0].tolist() == [pytest.approx([0.1, 0.1, 0.5, 0.5]), [0, 0, 1, 1]]
    assert features.tolist() == [[[1, 1, 1], [1, 1, 1]]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"features": np.ones((REGIONS, WIDTH + 1))}, rf"not \(regions, {WIDTH}\)"),
        ({"features": np.full((REGIONS, WIDTH), np.nan)}, "not finite"),
        ({"boxes": np.ones((REGIONS, 5))}, "boxes are of shape"),
        ({"boxes": np.full((REGIONS, 4), 0.5)}, "in pixels"),
        (
            {"size": np.array([20, 30])},
            "in pixels of an image of height 20 and width 30",
        ),
        ({"boxes": None}, "can be read"),
    ],
)
def test_wrong_regions_are_refused(regions, tmp_path, changed, message):
    arrays = {**np.load(regions / "0.jpg.npz"), **changed}
    np.savez(
        tmp_path / "0.jpg.npz",
        **{name: values for name, values in arrays.items() if values is not None},
    )
    with pytest.raises(UserError, match=rf"0\.jpg.*{message}"):
        StoredRegions(tmp_path, WIDTH, "cpu").load_regions("0.jpg")


@pytest.mark.parametrize("named", ["stored", "expected"])
def test_boxes_in_the_padding_of_vilberts_detector_are_genuine(tmp_path, named):
    # 640 x 480 becomes 1067 x 800, which is padded to 1088 x 800: boxes end at 1087 / (800 / 480) = 652.2 pixels. Other
    # sides are padded by up to 31 pixels, which are 18.6 pixels of the image.
    def load(right, left=0, **arrays):
        boxes = np.array([[left, 0, right, 479.4], [10, 20, 30, 40]], dtype=np.float32)
        stored = {
            "features": np.ones((2, 3), np.float32),
            "boxes": boxes,
            "size": np.array([480, 640]),
            **arrays,
        }
        detector = (
            {"detector": np.array("vqa-maskrcnn-benchmark")}
            if named == "stored"
            else {}
        )
        np.savez(tmp_path / "a.jpg.npz", **stored, **detector)
        expected = "vqa-maskrcnn-benchmark" if named == "expected" else ""
        return StoredRegions(
            tmp_path, 3, "cpu", expected_detector=expected
        ).load_regions("a.jpg")

    assert load(652.2).boxes[0, 2] == np.float32(652.2)
    assert load(658.5).boxes[0, 2] == np.float32(658.5)
    assert load(795, scale=np.array(0.2)).boxes[0, 2] == 795  # 31 / 0.2 = 155
    for arrays in (
        {"right": 660},
        {"right": 600, "left": -3},
        {"right": 796, "scale": np.array(0.2)},
    ):
        with pytest.raises(
            UserError, match="in pixels of an image of height 480 and width 640"
        ):
            load(**arrays)
    with pytest.raises(UserError, match=r"scale is 0\.0, not a positive number"):
        load(600, scale=np.array(0.0))
    with pytest.raises(UserError, match=r"no regions of a\.jpg can be read"):
        load(600, scale=np.ones(3))


@pytest.mark.parametrize("kind", [np.complex64, np.bool_, "m8[s]"])
def test_features_that_are_no_real_numbers_are_refused(tmp_path, kind):
    boxes = np.array([[0, 0, 600, 479]], dtype=np.float32)
    np.savez(
        tmp_path / "a.npz",
        features=np.ones((1, 3), kind),
        boxes=boxes,
        size=np.array([480, 640]),
    )
    with pytest.raises(
        UserError, match=r"regions of a: numbers are of type .*, not real"
    ):
        StoredRegions(tmp_path, 3, "cpu").load_regions("a")


def test_a_file_that_is_no_npz_is_not_advised_to_be_unpickled(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"\x80\x04N.")
    with pytest.raises(
        UserError, match=r"no regions of a can be read \(it is not an npz file\)"
    ):
        StoredRegions(tmp_path, 3, "cpu").load_regions("a")


def test_boxes_of_other_detectors_end_at_the_image(tmp_path):
    boxes = np.array([[0, 0, 652.2, 479]], dtype=np.float32)
    np.savez(
        tmp_path / "a.jpg.npz",
        features=np.ones((1, 3), np.float32),
        boxes=boxes,
        size=np.array([480, 640]),
    )
    with pytest.raises(UserError, match="in pixels"):
        StoredRegions(tmp_path, 3, "cpu").load_regions("a.jpg")


def test_missing_regions_are_named(lxmert, tmp_path):
    with pytest.raises(UserError, match=r"no regions of 9\.jpg"):
        prepared(lxmert(), "9.jpg")
    with pytest.raises(UserError, match=r"models\.mine\.regions: missing"):
        lxmert(regions="")
    with pytest.raises(UserError, match="nowhere"):
        lxmert(regions=str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="pass the file name"):
        lxmert().prepare_image(IMAGE)


def test_a_game_on_regions_is_refused_unless_the_entry_says_so(lxmert):
    with pytest.raises(UserError, match="only scores are possible"):
        get_players_function(lxmert(), PUBLISHED)
    assert callable(get_players_function(lxmert(masks="regions"), PUBLISHED))


@pytest.mark.parametrize(("profile", "words"), [("published", 6), ("equations", 4)])
def test_regions_play_in_the_place_of_patches(lxmert, profile, words):
    encoder = lxmert(masks="regions")
    image = prepared(encoder)
    players = get_players_function(encoder, get_fidelity(profile))(
        encoder, encoder.tokenize("the dog rides horse"), image
    )
    assert (players.n_text_players, players.n_image_players, len(players)) == (
        words,
        REGIONS,
        words + REGIONS,
    )
    hidden = np.ones((1, REGIONS), dtype=bool)
    hidden[0, 2] = False
    seen = players.mask_image(image, hidden)[0]
    assert (seen[0, 2, :WIDTH] == 0).all()
    assert (seen[0, 2, WIDTH:] == image[0, 2, WIDTH:]).all()
    positions = [0, 1, 3, 4]
    assert (seen[:, positions] == image[:, positions]).all()


def test_coalitions_of_regions_have_the_values_of_single_passes(lxmert):
    encoder = lxmert(masks="regions")
    image, text = prepared(encoder), encoder.tokenize("the dog rides horse")
    players = get_players_function(encoder, EQUATIONS)(encoder, text, image)
    masks = np.random.default_rng(1).random((12, len(players))) < 0.5
    values = EncoderCoalitions(encoder, image, [players], torch.sigmoid).values(
        [masks]
    )[0][:, 0]
    for mask, value in zip(masks, values, strict=True):
        shown = image.clone()
        shown[0, ~torch.from_numpy(mask[4:]), :WIDTH] = 0
        ids = [text.ids[0], *text.ids[1:5], text.ids[5]]
        for place in np.flatnonzero(~mask[:4]):
            ids[1 + place] = encoder.masked_id
        with torch.inference_mode():
            logit = encoder.fuse(
                encoder.encode_text(torch.tensor([ids])),
                encoder.encode_image(shown[None]),
            )
        assert value == pytest.approx(float(logit.sigmoid()), abs=1e-6)
    assert values.std() > 1e-3


def test_regions_are_scored_and_cached_like_images(lxmert, regions, tmp_path):
    encoder = lxmert()
    shutil.copytree(regions, tmp_path / "regions")
    moving = lxmert(regions=str(tmp_path / "regions"))
    pairs = [("0.jpg", "a dog"), ("1.jpg", "a dog"), ("1.jpg", "the red horse")]
    scores = compute_pair_scores(
        encoder, pairs, lambda name: load_image_or_regions(encoder, name, lambda: IMAGE)
    )
    for (name, text), aligned in scores.items():
        with torch.inference_mode():
            states = (
                encoder.encode_text(torch.tensor([encoder.tokenize(text).ids])),
                encoder.encode_image(prepared(encoder, name)[None]),
            )
            assert aligned.logit == pytest.approx(
                float(encoder.fuse(*states)), abs=1e-5
            )
    assert len({aligned.logit for aligned in scores.values()}) == 3

    def again():
        return compute_pair_scores(
            moving,
            pairs,
            lambda name: load_image_or_regions(moving, name, lambda: IMAGE),
            tmp_path / "stored",
        )

    assert again() == scores
    shutil.copy(regions / "2.jpg.npz", tmp_path / "regions" / "1.jpg.npz")
    changed = again()
    assert [changed[pair] == scores[pair] for pair in pairs] == [True, False, False]


def test_an_encoder_of_pixels_is_shown_the_image(checkpoint):
    spec = ModelSpec(
        "mine", kind="vilt", weights=str(checkpoint("vilt")), revision="local"
    )
    encoder = load_encoder(spec, CPU)
    assert load_image_or_regions(encoder, "0.jpg", lambda: IMAGE) is IMAGE
    text = encoder.tokenize("a dog")
    assert (
        len(
            get_players_function(encoder, EQUATIONS)(
                encoder, text, encoder.prepare_image(IMAGE)
            )
        )
        == 2 + 4
    )


@pytest.mark.parametrize("kind", ["visual-bert", "lxmert", "lxmert-answering"])
def test_an_encoder_of_regions_without_a_tokenizer_takes_berts(
    checkpoint, regions, tmp_path, monkeypatch, kind
):
    shutil.copytree(checkpoint(kind), tmp_path / "bare")
    (tmp_path / "bare/answers.json").write_text(json.dumps(ANSWERS))
    for file in (tmp_path / "bare").glob("tokenizer*"):
        file.unlink()
    fields = {
        "weights": str(tmp_path / "bare"),
        "revision": "local",
        "regions": str(regions),
    }
    spec = ModelSpec("mine", kind=kind, answers="answers.json", **fields)
    with pytest.raises(
        UserError, match="cannot load the tokenizer google-bert/bert-base-uncased"
    ):
        load_encoder(spec, CPU)
    monkeypatch.setattr(base, "BERT_TOKENIZER", str(checkpoint("lxmert")))
    assert load_encoder(spec, CPU).tokenize("a dog").tokens == (
        "[CLS]",
        "a",
        "dog",
        "[SEP]",
    )


@pytest.fixture(scope="module")
def image():
    draw = np.random.default_rng(2)
    return Image.fromarray(
        np.kron(draw.integers(0, 256, (6, 8, 3)), np.ones((12, 12, 1))).astype(np.uint8)
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    paths = {}
    for kind in ("lxmert", "visual-bert"):
        paths[kind] = tmp_path_factory.mktemp(kind)
        for part in build(kind):
            part.save_pretrained(paths[kind])
    return paths


@pytest.fixture
def encoder(folders, detector_file):
    """Loads a tiny encoder with an entry's fields; a detector unless they say otherwise."""

    def loaded(kind="lxmert", **fields):
        entry = {"detector": str(detector_file), **fields}
        return load_encoder(
            ModelSpec("mine", kind, str(folders[kind]), "local", **entry), CPU
        )

    return loaded


@pytest.mark.parametrize("kind", ["lxmert", "visual-bert"])
def test_an_image_is_scored_by_the_regions_of_it(encoder, detector_file, image, kind):
    loaded = encoder(kind)
    detector = load_detector(detector_file)
    prepared = loaded.prepare_image(image)
    regions = detector(prepared)
    height, width = prepared.shape[-2:]
    boxes = regions.boxes / torch.tensor([width, height, width, height])
    ids = torch.tensor([loaded.tokenize("a dog rides").ids])
    shown = {"visual_feats": regions.features[None], "visual_pos": boxes[None]}
    if kind == "visual-bert":
        shown = {"visual_embeds": regions.features[None]}
    with torch.inference_mode():
        output = loaded.network(ids, **shown)
        score = float(
            loaded.fuse(loaded.encode_text(ids), loaded.encode_image(prepared[None]))
        )
    logits = (
        output.cross_relationship_score[0]
        if kind == "lxmert"
        else output.seq_relationship_logits[0]
    )
    match = 1 if kind == "lxmert" else 0
    assert score == pytest.approx(float(logits[match] - logits[1 - match]), abs=1e-5)
    assert load_image_or_regions(loaded, "0.jpg", lambda: image) is image


def test_a_coalition_hides_pixels_before_the_detector_looks(
    encoder, detector_file, image
):
    loaded = encoder()
    prepared, text = loaded.prepare_image(image), loaded.tokenize("the red horse")
    assert prepared.shape == (3, 96, 128)
    players = get_players_function(loaded, PUBLISHED)(loaded, text, prepared)
    assert (players.n_text_players, players.n_image_players) == (5, 9)
    rng = np.random.default_rng(0)
    masks = rng.random((4, 9)) < 0.5
    hidden = players.mask_image(prepared, masks)
    for mask, shown in zip(masks, hidden, strict=True):
        plain = prepared.clone()
        for patch in np.flatnonzero(~mask):
            row, column = divmod(int(patch), 3)
            plain[:, row * 32 : (row + 1) * 32, column * 42 : (column + 1) * 42] = 0
        assert (plain == shown).all()
        assert (shown[:, :, 126:] == prepared[:, :, 126:]).all()
    features, boxes = loaded.provider.compute_regions(hidden)
    detector = load_detector(detector_file)
    for place, shown in enumerate(hidden):
        regions = detector(shown)
        assert (features[place] == regions.features).all()
        assert (boxes[place] == regions.boxes / torch.tensor([128, 96, 128, 96])).all()
    assert len({tuple(rows.flatten().tolist()) for rows in features}) == 4


def test_t_shap_runs_through_and_its_values_are_those_of_masked_passes(encoder, image):
    loaded = encoder()
    (attribution,) = attribute_texts(
        loaded, image, ["a dog"], AttributionSettings(PUBLISHED, "auto", None, 0)
    )
    assert attribution.estimate.phi.shape == (8, 1)
    assert 0 < attribution.t_shap.value < 1
    assert np.abs(attribution.estimate.phi[4:]).max() > 1e-6
    assert attribution.estimate.residual < 1e-6
    with torch.inference_mode():
        text, prepared = loaded.tokenize("a dog"), loaded.prepare_image(image)
        nothing = build_published_players(loaded, text, prepared).mask_image(
            prepared, np.zeros((1, 4), dtype=bool)
        )
        ids = torch.tensor([[text.ids[0], 0, 0, text.ids[-1]]])
        base = loaded.fuse(
            loaded.encode_text(ids), loaded.encode_image(nothing)
        ).sigmoid()
    assert float(attribution.estimate.base_value[0]) == pytest.approx(
        float(base), abs=1e-6
    )


def test_a_figure_shows_the_colors_of_the_image(encoder, image):
    flat = Image.new("RGB", (64, 48), (200, 100, 20))
    assert render_encoder_view(encoder(), flat)[10, 10] == pytest.approx(
        [200 / 255, 100 / 255, 20 / 255], abs=1e-3
    )


def test_fewer_regions_are_followed_by_rows_of_zeros(detector_file, image, tmp_path):
    config = copy.deepcopy(CONFIG)
    config.update(min_detections=1, max_detections=28)
    config["roi_heads"] = {"nms_thresh_test": [0.1]}
    detector = load_detector(save_tiny(tmp_path, config=config))
    source = DetectedRegions(detector, "cpu")
    prepared = source.prepare_image(image)
    count = len(detector(prepared).boxes)
    assert 1 <= count < 28
    features, boxes = source.compute_regions(prepared[None])
    assert features.shape == (1, 28, WIDTH)
    assert (features[0, count:] == 0).all()
    assert (boxes[0, count:] == 0).all()
    assert (features[0, :count] != 0).any(dim=1).all()


def test_an_image_with_too_few_regions_is_named(encoder, image, tmp_path):
    config = {**CONFIG, "min_detections": 30, "max_detections": 30}
    loaded = encoder(detector=str(save_tiny(tmp_path, config=config)))
    with pytest.raises(
        UserError, match=r"^7\.jpg: pytorch_model\.bin@.* at least 30 are needed"
    ):
        compute_pair_scores(loaded, [("7.jpg", "a dog")], lambda _: image)


def test_regions_come_from_one_place(encoder, tmp_path):
    with pytest.raises(UserError, match=r"models\.mine\.regions: needs stored regions"):
        encoder(regions=str(tmp_path))
    with pytest.raises(UserError, match=r"models\.mine\.masks: needs stored regions"):
        encoder(masks="regions")
    with pytest.raises(
        UserError, match=r"models\.mine\.regions: missing: .*, or a `detector`"
    ):
        encoder(detector="")


def test_a_detector_of_other_features_is_refused(encoder, tmp_path):
    weights = tiny_weights()
    narrow = {
        key: value[:8].clone()
        if key.startswith("roi_heads.res5") and ("conv3" in key or "shortcut" in key)
        else value
        for key, value in weights.items()
        if value.ndim
    }
    for block in (1, 2):
        narrow[f"roi_heads.res5.{block}.conv1.weight"] = weights[
            f"roi_heads.res5.{block}.conv1.weight"
        ][:, :8].clone()
    for head in ("cls_score", "bbox_pred"):
        key = f"roi_heads.box_predictor.{head}.weight"
        narrow[key] = weights[key][:, :8].clone()
    key = "roi_heads.box_predictor.fc_attr.weight"
    narrow[key] = weights[key][:, :9].clone()
    with pytest.raises(
        UserError, match="gives 8 features of a region, and the model takes 12"
    ):
        encoder(detector=str(save_tiny(tmp_path, narrow)))


def test_stored_regions_are_not_given_to_a_detector(encoder):
    stored = ImageRegions("3.jpg", np.zeros((5, WIDTH)), np.zeros((5, 4)), (10, 10))
    with pytest.raises(UserError, match=r"3\.jpg: a detector needs the image"):
        encoder().prepare_image(stored)
