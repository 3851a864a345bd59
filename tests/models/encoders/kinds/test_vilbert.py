"""The three kinds of encoders on ViLBERT's networks: scores, regions and coalitions."""

import json
import logging
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.models.tiny_encoders import REGIONS, TEXTS, WIDTH
from stand_ins.models.tiny_vilbert import VILBERT, vilbert_weights, write_vilbert
from stand_ins.models.tiny_vilbert_detector import (
    save_config,
    save_tiny_pyramid,
    tiny_pyramid_weights,
)
from stand_ins.records import build_items
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.evaluation.alignment import build_alignment_record
from waltz.fidelity import EQUATIONS, get_fidelity
from waltz.model_registry import ModelSpec, list_encoder_kinds
from waltz.models.encoders import load_encoder
from waltz.models.encoders.alignment import compute_pair_scores
from waltz.models.encoders.coalitions import EncoderCoalitions
from waltz.models.networks.array_inputs import compute_logits
from waltz.models.networks.vilbert_detector_checkpoint import load_vilbert_detector
from waltz.models.regions import (
    detect_pyramid_regions,
    get_players_function,
    load_image_or_regions,
    write_regions,
)

CPU = Device("cpu", 1, "a test")
KINDS = ("vilbert", "vilbert-12in1", "vilbert-12in1-itm")


@pytest.fixture
def load(vilbert_file, regions):
    """Loads the tiny checkpoint of a kind."""

    def loaded(kind, **entry):
        fields = {
            "weights": str(vilbert_file(kind != "vilbert").parent),
            "regions": str(regions),
            **entry,
        }
        return load_encoder(
            ModelSpec("mine", kind=kind, revision="local", **fields), CPU
        )

    return loaded


def shown(encoder, name="0.jpg"):
    return encoder.prepare_image(
        load_image_or_regions(encoder, name, lambda: Image.new("RGB", (80, 60)))
    )


def ids_of(encoder, text):
    return torch.tensor([encoder.tokenize(text).ids])


def prepared(ids, regions, name):
    """One row of the inputs that the specification says."""
    stored = np.load(regions / f"{name}.npz")
    features = np.concatenate(
        [stored["features"].mean(axis=0, keepdims=True), stored["features"]]
    )
    boxes = [[0, 0, 1, 1, 1]]
    for left, top, right, bottom in stored["boxes"].tolist():
        boxes.append(
            [
                left / 80,
                top / 60,
                right / 80,
                bottom / 60,
                (right - left) * (bottom - top) / 4800,
            ]
        )
    return {
        "input_ids": ids.numpy(),
        "attention_mask": np.ones_like(ids.numpy()),
        "token_type_ids": np.zeros_like(ids.numpy()),
        "features": features[None],
        "boxes": np.array([boxes], dtype=np.float32),
        "image_mask": np.ones((1, REGIONS + 1)),
        "task_ids": np.array([7]),
    }


def test_all_kinds_are_known():
    assert set(KINDS) <= set(list_encoder_kinds())


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_the_parts_give_the_score_of_prepared_inputs(load, vilbert_file, regions, kind):
    encoder, scores = load(kind), []
    for text in TEXTS:
        for name in ("0.jpg", "1.jpg"):
            ids = ids_of(encoder, text)
            logit = encoder.fuse(
                encoder.encode_text(ids),
                encoder.encode_image(shown(encoder, name)[None]),
            )
            named = "vilbert" if kind == "vilbert" else "vilbert-12in1"
            logits = compute_logits(
                vilbert_file(kind != "vilbert"),
                None,
                prepared(ids, regions, name),
                named,
            )
            match = logits["match_logits"][0]
            expected = (
                logits["retrieval_logit"][0, 0]
                if kind == "vilbert-12in1"
                else match[0] - match[1]
            )
            assert float(logit) == pytest.approx(float(expected), abs=1e-5)
            scores.append(float(logit))
    assert np.std(scores) > 1e-2


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_rows_do_not_mix(load, kind):
    encoder = load(kind)
    images = torch.stack([shown(encoder, f"{index}.jpg") for index in range(3)])
    ids = ids_of(encoder, TEXTS[1])
    texts = torch.cat([ids, torch.where(ids == ids[0, 1], encoder.masked_id, ids), ids])
    together = encoder.fuse(encoder.encode_text(texts), encoder.encode_image(images))
    for row in range(3):
        alone = encoder.fuse(
            encoder.encode_text(texts[row][None]),
            encoder.encode_image(images[row][None]),
        )
        assert float(together[row]) == pytest.approx(float(alone), abs=1e-5)


@torch.inference_mode()
def test_brain_floats_give_nearly_the_same_logit_as_float32(load):
    logits = []
    for dtype in ("float32", "bfloat16"):
        encoder = load("vilbert", dtype=dtype)
        logit = encoder.fuse(
            encoder.encode_text(ids_of(encoder, TEXTS[1])),
            encoder.encode_image(shown(encoder)[None]),
        )
        assert logit.dtype == torch.float32
        logits.append(float(logit))
    assert logits[1] != logits[0]
    assert logits[1] == pytest.approx(logits[0], abs=0.1, rel=0.1)


@torch.inference_mode()
def test_text_layers_before_the_first_meeting_belong_to_the_text_side(load):
    encoder = load("vilbert")
    layer = encoder.network.bert["encoder"]["layer"]
    calls = [0] * len(layer)
    for number, one in enumerate(layer):
        one.register_forward_hook(
            lambda *_, number=number: calls.__setitem__(number, calls[number] + 1)
        )
    text = encoder.encode_text(ids_of(encoder, TEXTS[0]))
    assert calls == [1, 1, 0, 0]
    encoder.fuse(text, encoder.encode_image(shown(encoder)[None]))
    assert calls == [1, 1, 1, 1]


def test_what_a_score_supports(load):
    numbers = {}
    for kind in KINDS:
        encoder = load(kind)
        aligned = compute_pair_scores(
            encoder,
            [("0.jpg", TEXTS[0])],
            lambda name, one=encoder: load_image_or_regions(one, name, None),
        )
        (item,) = build_items(
            [{"item_id": "0", "image": "0.jpg", "caption": TEXTS[0], "foil": ""}]
        )
        numbers[kind] = build_alignment_record(
            item, "caption", aligned["0.jpg", TEXTS[0]], encoder, EQUATIONS
        )
    assert {kind: row.probability is None for kind, row in numbers.items()} == dict(
        zip(KINDS, (False, True, False), strict=True)
    )
    assert all(row.score is not None and row.error is None for row in numbers.values())
    assert numbers["vilbert-12in1"].prediction is None


@pytest.mark.parametrize("kind", ["vilbert", "vilbert-12in1-itm"])
@torch.inference_mode()
def test_a_network_that_prefers_a_match_scores_high(tmp_path, regions, kind):
    path = write_vilbert(tmp_path, kind != "vilbert")
    weights = vilbert_weights(VILBERT, kind != "vilbert")
    weights["cls.bi_seq_relationship.weight"].zero_()
    weights["cls.bi_seq_relationship.bias"] = torch.tensor([3.0, -1.0])
    torch.save(weights, path)
    encoder = load_encoder(
        ModelSpec("mine", kind, str(path), "local", regions=str(regions)), CPU
    )
    pair = (
        encoder.encode_text(ids_of(encoder, TEXTS[0])),
        encoder.encode_image(shown(encoder)[None]),
    )
    assert encoder.probability
    assert encoder.fuse(*pair).tolist() == [4.0]


def test_a_text_is_read_to_the_last_position_and_refused_beyond(load):
    encoder = load("vilbert-12in1")
    full = encoder.tokenize(" ".join(["dog"] * 18))
    assert len(full.ids) == encoder.max_tokens == 20
    # The task token needs no position.
    assert encoder.encode_text(torch.tensor([full.ids]))[0].shape == (
        1,
        21,
        24,
    )
    with pytest.raises(UserError, match="21 tokens"):
        encoder.tokenize(" ".join(["dog"] * 19))


@pytest.mark.parametrize(("profile", "words"), [("published", 6), ("equations", 4)])
def test_the_global_region_is_no_player_and_keeps_the_mean_of_all(load, profile, words):
    encoder = load("vilbert", masks="regions")
    image = shown(encoder)
    assert image.shape == (1, REGIONS + 1, WIDTH + 4)
    players = get_players_function(encoder, get_fidelity(profile))(
        encoder, encoder.tokenize("the dog rides horse"), image
    )
    assert (players.n_text_players, players.n_image_players, len(players)) == (
        words,
        REGIONS,
        words + REGIONS,
    )
    hidden = np.ones((2, REGIONS), dtype=bool)
    hidden[0, 2] = False
    hidden[1] = False
    one, none = players.mask_image(image, hidden)
    assert (one[0, 3, :WIDTH] == 0).all()  # region 2 stands in row 3
    assert (one[0, 3, WIDTH:] == image[0, 3, WIDTH:]).all()
    positions = [0, 1, 2, 4, 5]
    assert (one[:, positions] == image[:, positions]).all()
    assert (none[0, 1:, :WIDTH] == 0).all()
    assert (none[0, 0] == image[0, 0]).all()
    torch.testing.assert_close(none[0, 0, :WIDTH], image[0, 1:, :WIDTH].mean(dim=0))


@pytest.mark.parametrize("kind", KINDS)
def test_coalitions_have_the_values_of_single_passes(load, kind):
    encoder = load(kind, masks="regions")
    image, text = shown(encoder), encoder.tokenize("the dog rides horse")
    players = get_players_function(encoder, EQUATIONS)(encoder, text, image)
    masks = np.random.default_rng(1).random((24, len(players))) < 0.5
    game = EncoderCoalitions(encoder, image, [players], torch.sigmoid)
    values = game.values([masks])[0][:, 0]
    assert game.text_count == len({mask[:4].tobytes() for mask in masks}) < 24
    for mask, value in zip(masks, values, strict=True):
        features = image.clone()
        features[0, 1:][~torch.from_numpy(mask[4:]), :WIDTH] = 0
        ids = list(text.ids)
        for place in np.flatnonzero(~mask[:4]):
            ids[1 + place] = encoder.masked_id
        with torch.inference_mode():
            logit = encoder.fuse(
                encoder.encode_text(torch.tensor([ids])),
                encoder.encode_image(features[None]),
            )
        assert value == pytest.approx(float(logit.sigmoid()), abs=1e-6)
    assert values.std() > 1e-3


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        (
            None,
            "of a detector that the file does not name; it was trained on those of 'vqa-maskrcnn-benchmark'",
        ),
        ("vg-faster-rcnn", "of 'vg-faster-rcnn'; it was trained"),
        ("vqa-maskrcnn-benchmark", ""),
    ],
)
def test_regions_of_another_detector_are_warned_of_once(
    load, regions, tmp_path, caplog, detector, message
):
    for name in ("0.jpg", "1.jpg"):
        arrays = dict(np.load(regions / f"{name}.npz"))
        np.savez(
            tmp_path / f"{name}.npz",
            **arrays,
            **({"detector": np.array(detector)} if detector else {}),
        )
    encoder = load("vilbert", regions=str(tmp_path))
    with caplog.at_level(logging.WARNING):
        features = [shown(encoder, name) for name in ("0.jpg", "1.jpg", "0.jpg")]
    assert (features[0] == features[2]).all()
    assert [message in record.getMessage() for record in caplog.records] == [
        True
    ] * bool(message)


@torch.inference_mode()
def test_regions_of_its_own_detector_are_read_with_boxes_in_the_padding(
    load, tmp_path, caplog
):
    file = save_tiny_pyramid(tmp_path / "detector", tiny_pyramid_weights(width=WIDTH))
    detector = load_vilbert_detector(file, save_config(tmp_path))
    colours = np.random.default_rng(0).integers(0, 256, (8, 11, 3)).astype(np.uint8)
    arrays = detect_pyramid_regions(
        detector, Image.fromarray(colours).resize((101, 70)), "cpu"
    )
    (tmp_path / "regions").mkdir()
    write_regions(tmp_path / "regions" / "0.jpg.npz", arrays)
    encoder = load("vilbert", regions=str(tmp_path / "regions"))
    rows = shown(encoder)[0]
    features, boxes = rows[:, :WIDTH].numpy(), rows[:, WIDTH:].numpy()
    np.testing.assert_allclose(features[0], arrays["features"].mean(axis=0), atol=1e-5)
    assert boxes[0].tolist() == [0, 0, 1, 1]
    assert (features[1:] == arrays["features"]).all()
    np.testing.assert_allclose(
        boxes[1:], arrays["boxes"] / [101, 70, 101, 70], rtol=1e-6
    )
    assert boxes.max() > 1.1
    assert not caplog.records
    logit = encoder.fuse(
        encoder.encode_text(ids_of(encoder, TEXTS[0])),
        encoder.encode_image(shown(encoder)[None]),
    )
    assert logit.isfinite().all()


def test_the_tokenizer_is_that_of_the_folder_or_of_bert(
    tmp_path, regions, monkeypatch, vilbert_file
):
    shutil.copytree(vilbert_file(False).parent, tmp_path / "bare")
    for path in (tmp_path / "bare").glob("*token*"):
        path.unlink()
    spec = ModelSpec(
        "mine", "vilbert", str(tmp_path / "bare"), "local", regions=str(regions)
    )
    with pytest.raises(
        UserError, match="cannot load the tokenizer google-bert/bert-base-uncased"
    ):
        load_encoder(spec, CPU)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (tmp_path / "bare" / "vocab.txt").write_text("\n".join([*special, "a", "dog"]))
    encoder = load_encoder(spec, CPU)
    assert encoder.tokenize("A dog").tokens == ("[CLS]", "a", "dog", "[SEP]")
    assert encoder.masked_id == 4
    (tmp_path / "bare" / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklm"])
    )
    with pytest.raises(UserError, match="knows 17 word pieces, its tokenizer 18"):
        load_encoder(spec, CPU)


def test_a_12_in_1_without_the_retrieval_task_is_refused(tmp_path, regions):
    path = write_vilbert(tmp_path, True)
    weights = vilbert_weights(VILBERT, True)
    weights["bert.embeddings.task_embeddings.weight"] = torch.zeros(7, 24)
    torch.save(weights, path)
    with pytest.raises(UserError, match="knows 7 tasks, none of number 7"):
        load_encoder(
            ModelSpec(
                "mine", "vilbert-12in1", str(path), "local", regions=str(regions)
            ),
            CPU,
        )


def test_missing_regions_are_an_error(load):
    with pytest.raises(
        UserError,
        match=r"models\.mine\.regions: missing: this model reads regions of 12 features",
    ):
        load("vilbert", regions="")


@pytest.fixture(scope="module")
def pyramid_file(tmp_path_factory):
    """A tiny detector of as many features as the tiny networks take, with its configuration next to
    it.
    """
    folder = tmp_path_factory.mktemp("pyramid")
    file = save_tiny_pyramid(folder, tiny_pyramid_weights(width=WIDTH))
    return (
        save_config(folder)
        .rename(folder / "detectron_config.yaml")
        .with_name(file.name)
    )


@pytest.fixture(scope="module")
def picture():
    colours = np.random.default_rng(0).integers(0, 256, (8, 11, 3)).astype(np.uint8)
    return Image.fromarray(colours).resize((101, 70))


def store(arrays, folder):
    folder.mkdir(exist_ok=True)
    write_regions(folder / "0.jpg.npz", arrays)
    return str(folder)


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_an_image_has_the_score_of_the_regions_that_are_stored_of_it(
    load, pyramid_file, picture, tmp_path, kind
):
    arrays = detect_pyramid_regions(load_vilbert_detector(pyramid_file), picture, "cpu")
    assert (arrays["boxes"] / [101, 70, 101, 70]).max() > 1.1  # in the padding
    scores = []
    for entry in (
        {"regions": "", "detector": str(pyramid_file)},
        {"regions": store(arrays, tmp_path)},
    ):
        encoder = load(kind, **entry)
        shown_image = load_image_or_regions(encoder, "0.jpg", lambda: picture)
        assert (shown_image is picture) == ("detector" in entry)
        image = encoder.encode_image(encoder.prepare_image(shown_image)[None])
        assert image[0].shape[1] == 1 + len(arrays["boxes"])
        scores.append(
            float(encoder.fuse(encoder.encode_text(ids_of(encoder, TEXTS[0])), image))
        )
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


@torch.inference_mode()
def test_as_many_regions_are_read_as_there_are(load, pyramid_file, picture, tmp_path):
    config = json.loads((pyramid_file.parent / "detectron_config.yaml").read_text())
    file = shutil.copy(pyramid_file, tmp_path)
    (tmp_path / "detectron_config.yaml").write_text(
        json.dumps(config | {"num_features": 99})
    )
    encoder = load("vilbert", regions="", detector=file)
    (states,) = encoder.encode_image(encoder.prepare_image(picture)[None])
    count = len(encoder.provider.detector(encoder.prepare_image(picture)).boxes)
    assert 12 < count < 99
    assert states.shape[1] == 1 + count


def test_a_coalition_hides_pixels_of_the_image_before_the_detector_finds_regions(
    load, pyramid_file, picture, tmp_path
):
    encoder, text = load("vilbert", regions="", detector=str(pyramid_file)), TEXTS[0]
    image, tokens = encoder.prepare_image(picture), encoder.tokenize(text)
    players = get_players_function(encoder, EQUATIONS)(encoder, tokens, image)
    masks = np.random.default_rng(1).random((6, len(players))) < 0.5
    values = EncoderCoalitions(encoder, image, [players], torch.sigmoid).values(
        [masks]
    )[0][:, 0]
    detector = load_vilbert_detector(pyramid_file)
    stored = load(
        "vilbert",
        regions=store(detect_pyramid_regions(detector, picture, "cpu"), tmp_path),
    )
    for mask, value in zip(masks, values, strict=True):
        words, patches = (
            mask[: players.n_text_players],
            mask[players.n_text_players :].reshape(players.grid, players.grid),
        )
        hidden = image.clone()
        rows, columns = (
            np.round(np.linspace(0, side, players.grid + 1)).astype(int)
            for side in (70, 101)
        )
        for row, column in np.argwhere(~patches):
            hidden[
                :, rows[row] : rows[row + 1], columns[column] : columns[column + 1]
            ] = 0
        regions = detector(hidden)
        arrays = {
            "features": regions.features.numpy(),
            "boxes": regions.boxes.numpy(),
            "size": np.array([70, 101]),
        }
        store(
            {
                **arrays,
                "detector": np.array("vqa-maskrcnn-benchmark"),
                "scale": np.array(72 / 70),
            },
            tmp_path,
        )
        ids = np.array(tokens.ids)
        ids[1:-1] = np.where(words, ids[1:-1], encoder.masked_id)
        with torch.inference_mode():
            logit = stored.fuse(
                stored.encode_text(torch.from_numpy(ids)[None]),
                stored.encode_image(shown(stored)[None]),
            )
        assert value == pytest.approx(float(logit.sigmoid()), abs=1e-6)
    assert values.std() > 1e-3


def test_the_detector_of_other_encoders_is_refused(load, detector_file):
    with pytest.raises(
        UserError,
        match=r"models\.mine\.detector: .*pytorch_model\.bin.*: lacks backbone\.body",
    ):
        load("vilbert", regions="", detector=str(detector_file))
