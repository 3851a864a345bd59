"""Encoders of regions that are shown images: what they see, what is hidden from them, what is refused."""

import copy

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.tiny_detector import CONFIG, save_tiny, tiny_weights
from stand_ins.tiny_encoders import WIDTH, build
from waltz.attribution.mm_shap import attribute_texts
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.alignment import compute_pair_scores
from waltz.models.encoders.coalitions import build_published_players
from waltz.models.networks.detector_checkpoint import load_detector
from waltz.models.regions import DetectedRegions, ImageRegions, get_players_function, load_image_or_regions
from waltz.models.visible_image import render_encoder_view

CPU = Device("cpu", 1, "a test")


@pytest.fixture(scope="module")
def image():
    draw = np.random.default_rng(2)
    return Image.fromarray(np.kron(draw.integers(0, 256, (6, 8, 3)), np.ones((12, 12, 1))).astype(np.uint8))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}
    for kind in ("lxmert", "visual-bert"):
        made[kind] = tmp_path_factory.mktemp(kind)
        for part in build(kind):
            part.save_pretrained(made[kind])
    return made


@pytest.fixture
def encoder(folders, weights_file):
    """Loads a tiny encoder with an entry's fields; a detector unless they say otherwise."""

    def loaded(kind="lxmert", **fields):
        entry = {"detector": str(weights_file), **fields}
        return load_encoder(ModelSpec("mine", kind, str(folders[kind]), "local", **entry), CPU)

    return loaded


@pytest.mark.parametrize("kind", ["lxmert", "visual-bert"])
def test_an_image_is_scored_by_the_regions_of_it(encoder, weights_file, image, kind):
    made = encoder(kind)
    detector = load_detector(weights_file)
    prepared = made.prepare_image(image)
    found = detector(prepared)
    height, width = prepared.shape[-2:]
    boxes = found.boxes / torch.tensor([width, height, width, height])
    ids = torch.tensor([made.tokenize("a dog rides").ids])
    shown = {"visual_feats": found.features[None], "visual_pos": boxes[None]}
    if kind == "visual-bert":
        shown = {"visual_embeds": found.features[None]}
    with torch.inference_mode():
        whole = made.network(ids, **shown)
        score = float(made.fuse(made.encode_text(ids), made.encode_image(prepared[None])))
    logits = whole.cross_relationship_score[0] if kind == "lxmert" else whole.seq_relationship_logits[0]
    match = 1 if kind == "lxmert" else 0
    assert score == pytest.approx(float(logits[match] - logits[1 - match]), abs=1e-5)
    assert load_image_or_regions(made, "0.jpg", lambda: image) is image


def test_a_coalition_hides_pixels_before_the_detector_looks(encoder, weights_file, image):
    made = encoder()
    prepared, text = made.prepare_image(image), made.tokenize("the red horse")
    assert prepared.shape == (3, 96, 128)
    players = get_players_function(made, "published")(made, text, prepared)
    assert (players.words, players.patches) == (5, 9)
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
    features, boxes = made.provider.compute_regions(hidden)
    detector = load_detector(weights_file)
    for place, shown in enumerate(hidden):
        found = detector(shown)
        assert (features[place] == found.features).all()
        assert (boxes[place] == found.boxes / torch.tensor([128, 96, 128, 96])).all()
    assert len({tuple(rows.flatten().tolist()) for rows in features}) == 4


def test_t_shap_runs_through_and_its_values_are_those_of_masked_passes(encoder, image):
    made = encoder()
    (found,) = attribute_texts(made, image, ["a dog"], AttributionSettings("published", "auto", None, 0))
    assert found.phi.shape == (8, 1)
    assert 0 < found.t_shap < 1
    assert np.abs(found.phi[4:]).max() > 1e-6
    assert found.residual < 1e-6
    with torch.inference_mode():
        text, prepared = made.tokenize("a dog"), made.prepare_image(image)
        nothing = build_published_players(made, text, prepared).mask_image(prepared, np.zeros((1, 4), dtype=bool))
        ids = torch.tensor([[text.ids[0], 0, 0, text.ids[-1]]])
        base = made.fuse(made.encode_text(ids), made.encode_image(nothing)).sigmoid()
    assert float(found.base_value[0]) == pytest.approx(float(base), abs=1e-6)


def test_a_figure_shows_the_colours_of_the_image(encoder, image):
    flat = Image.new("RGB", (64, 48), (200, 100, 20))
    assert render_encoder_view(encoder(), flat)[10, 10] == pytest.approx([200 / 255, 100 / 255, 20 / 255], abs=1e-3)


def test_fewer_regions_are_followed_by_rows_of_zeros(weights_file, image, tmp_path):
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
    made = encoder(detector=str(save_tiny(tmp_path, config=config)))
    with pytest.raises(UserError, match=r"^7\.jpg: pytorch_model\.bin@.* at least 30 are needed"):
        compute_pair_scores(made, [("7.jpg", "a dog")], lambda _: image)


def test_regions_come_from_one_place(encoder, tmp_path):
    with pytest.raises(UserError, match=r"models\.mine\.regions: needs stored regions"):
        encoder(regions=str(tmp_path))
    with pytest.raises(UserError, match=r"models\.mine\.masks: needs stored regions"):
        encoder(masks="regions")
    with pytest.raises(UserError, match=r"models\.mine\.regions: missing: .*, or a `detector`"):
        encoder(detector="")


def test_a_detector_of_other_features_is_refused(encoder, tmp_path):
    weights = tiny_weights()
    narrow = {
        key: value[:8].clone() if key.startswith("roi_heads.res5") and ("conv3" in key or "shortcut" in key) else value
        for key, value in weights.items()
        if value.ndim
    }
    for block in (1, 2):
        narrow[f"roi_heads.res5.{block}.conv1.weight"] = weights[f"roi_heads.res5.{block}.conv1.weight"][:, :8].clone()
    for head in ("cls_score", "bbox_pred"):
        key = f"roi_heads.box_predictor.{head}.weight"
        narrow[key] = weights[key][:, :8].clone()
    key = "roi_heads.box_predictor.fc_attr.weight"
    narrow[key] = weights[key][:, :9].clone()
    with pytest.raises(UserError, match="gives 8 features of a region, and the model takes 12"):
        encoder(detector=str(save_tiny(tmp_path, narrow)))


def test_stored_regions_are_not_given_to_a_detector(encoder):
    stored = ImageRegions("3.jpg", np.zeros((5, WIDTH)), np.zeros((5, 4)), (10, 10))
    with pytest.raises(UserError, match=r"3\.jpg: a detector needs the image"):
        encoder().prepare_image(stored)
