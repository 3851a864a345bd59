"""Encoders of regions: what is stored, who plays, what is refused."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.tiny_encoders import REGIONS, WIDTH
from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.alignment import compute_pair_scores
from waltz.models.encoders.coalitions import Coalitions
from waltz.models.encoders.kinds import single_stream
from waltz.models.regions import StoredRegions, get_players_function, load_image_or_regions

CPU = Device("cpu", 1, "a test")
IMAGE = Image.new("RGB", (80, 60))


@pytest.fixture
def lxmert(checkpoint, regions):
    """Loads the tiny LXMERT with an entry's further fields."""

    def loaded(**entry):
        fields = {"regions": str(regions), **entry}
        return load_encoder(
            ModelSpec("mine", kind="lxmert", weights=str(checkpoint("lxmert")), revision="local", **fields), CPU
        )

    return loaded


def prepared(encoder, name="0.jpg"):
    return encoder.prepare_image(load_image_or_regions(encoder, name, lambda: IMAGE))


def test_one_archive_holds_what_a_folder_does(regions, tmp_path):
    stored = {file.name.removesuffix(".npz"): dict(np.load(file)) for file in regions.iterdir()}
    arrays = {f"{name}/{part}": values for name, parts in stored.items() for part, values in parts.items()}
    np.savez(tmp_path / "all.npz", **arrays)
    for name in stored:
        folder, archive = (
            StoredRegions(path, WIDTH, "cpu").load_regions(name) for path in (regions, tmp_path / "all.npz")
        )
        assert (folder.features == archive.features).all()
        assert (folder.boxes == archive.boxes).all()
        assert folder.size == archive.size == (60, 80)


def test_boxes_are_shares_of_width_and_height(regions, tmp_path):
    boxes = np.array([[8, 6, 40, 30], [0, 0, 80, 60]], dtype=np.float32)
    np.savez(tmp_path / "a.jpg.npz", features=np.ones((2, 3), np.float32), boxes=boxes, size=np.array([60, 80]))
    source = StoredRegions(tmp_path, 3, "cpu")
    features, shares = source.compute_regions(source.prepare_image(source.load_regions("a.jpg"))[None])
    assert shares[0].tolist() == [pytest.approx([0.1, 0.1, 0.5, 0.5]), [0, 0, 1, 1]]
    assert features.tolist() == [[[1, 1, 1], [1, 1, 1]]]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"features": np.ones((REGIONS, WIDTH + 1))}, rf"not \(regions, {WIDTH}\)"),
        ({"features": np.full((REGIONS, WIDTH), np.nan)}, "not finite"),
        ({"boxes": np.ones((REGIONS, 5))}, "boxes are of shape"),
        ({"boxes": np.full((REGIONS, 4), 0.5)}, "in pixels"),
        ({"size": np.array([20, 30])}, "in pixels of an image of height 20 and width 30"),
        ({"boxes": None}, "can be read"),
    ],
)
def test_wrong_regions_are_refused(regions, tmp_path, changed, said):
    arrays = {**np.load(regions / "0.jpg.npz"), **changed}
    np.savez(tmp_path / "0.jpg.npz", **{name: values for name, values in arrays.items() if values is not None})
    with pytest.raises(UserError, match=rf"0\.jpg.*{said}"):
        StoredRegions(tmp_path, WIDTH, "cpu").load_regions("0.jpg")


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
        get_players_function(lxmert(), "published")
    assert callable(get_players_function(lxmert(masks="regions"), "published"))


@pytest.mark.parametrize(("profile", "words"), [("published", 6), ("equations", 4)])
def test_regions_play_in_the_place_of_patches(lxmert, profile, words):
    encoder = lxmert(masks="regions")
    image = prepared(encoder)
    players = get_players_function(encoder, profile)(encoder, encoder.tokenize("the dog rides horse"), image)
    assert (players.words, players.patches, len(players)) == (words, REGIONS, words + REGIONS)
    hidden = np.ones((1, REGIONS), dtype=bool)
    hidden[0, 2] = False
    seen = players.mask_image(image, hidden)[0]
    assert (seen[0, 2, :WIDTH] == 0).all()
    assert (seen[0, 2, WIDTH:] == image[0, 2, WIDTH:]).all()
    kept = [0, 1, 3, 4]
    assert (seen[:, kept] == image[:, kept]).all()


def test_coalitions_of_regions_have_the_values_of_single_passes(lxmert):
    encoder = lxmert(masks="regions")
    image, text = prepared(encoder), encoder.tokenize("the dog rides horse")
    players = get_players_function(encoder, "equations")(encoder, text, image)
    masks = np.random.default_rng(1).random((12, len(players))) < 0.5
    found = Coalitions(encoder, image, [players], torch.sigmoid).values([masks])[0][:, 0]
    for mask, value in zip(masks, found, strict=True):
        shown = image.clone()
        shown[0, ~torch.from_numpy(mask[4:]), :WIDTH] = 0
        ids = [text.ids[0], *text.ids[1:5], text.ids[5]]
        for place in np.flatnonzero(~mask[:4]):
            ids[1 + place] = encoder.masked_id
        with torch.inference_mode():
            logit = encoder.fuse(encoder.encode_text(torch.tensor([ids])), encoder.encode_image(shown[None]))
        assert value == pytest.approx(float(logit.sigmoid()), abs=1e-6)
    assert found.std() > 1e-3


def test_regions_are_scored_and_kept_as_images_are(lxmert, regions, tmp_path):
    encoder = lxmert()
    shutil.copytree(regions, tmp_path / "regions")
    moving = lxmert(regions=str(tmp_path / "regions"))
    pairs = [("0.jpg", "a dog"), ("1.jpg", "a dog"), ("1.jpg", "the red horse")]
    found = compute_pair_scores(encoder, pairs, lambda name: load_image_or_regions(encoder, name, lambda: IMAGE))
    for (name, text), aligned in found.items():
        with torch.inference_mode():
            states = (
                encoder.encode_text(torch.tensor([encoder.tokenize(text).ids])),
                encoder.encode_image(prepared(encoder, name)[None]),
            )
            assert aligned.logit == pytest.approx(float(encoder.fuse(*states)), abs=1e-5)
    assert len({aligned.logit for aligned in found.values()}) == 3

    def again():
        return compute_pair_scores(
            moving, pairs, lambda name: load_image_or_regions(moving, name, lambda: IMAGE), tmp_path / "stored"
        )

    assert again() == found
    shutil.copy(regions / "2.jpg.npz", tmp_path / "regions" / "1.jpg.npz")
    changed = again()
    assert [changed[pair] == found[pair] for pair in pairs] == [True, False, False]


def test_an_encoder_of_pixels_is_shown_the_image(checkpoint):
    spec = ModelSpec("mine", kind="vilt", weights=str(checkpoint("vilt")), revision="local")
    encoder = load_encoder(spec, CPU)
    assert load_image_or_regions(encoder, "0.jpg", lambda: IMAGE) is IMAGE
    text = encoder.tokenize("a dog")
    assert len(get_players_function(encoder, "equations")(encoder, text, encoder.prepare_image(IMAGE))) == 2 + 4


def test_a_visual_bert_without_a_tokenizer_takes_berts(checkpoint, regions, tmp_path, monkeypatch):
    shutil.copytree(checkpoint("visual-bert"), tmp_path / "bare")
    for file in (tmp_path / "bare").glob("tokenizer*"):
        file.unlink()
    fields = {"weights": str(tmp_path / "bare"), "revision": "local", "regions": str(regions)}
    spec = ModelSpec("mine", kind="visual-bert", **fields)
    with pytest.raises(UserError, match="bert-base-uncased at 86b5e0934494bd15c9632b12f734a8a67f723594 cannot be had"):
        load_encoder(spec, CPU)
    monkeypatch.setattr(single_stream, "BERT_TOKENIZER", str(checkpoint("lxmert")))
    assert load_encoder(spec, CPU).tokenize("a dog").tokens == ("[CLS]", "a", "dog", "[SEP]")
