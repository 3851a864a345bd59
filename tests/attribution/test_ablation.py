import numpy as np
import pytest
import torch
from PIL import Image

from waltz.attribution.companions.ablation import build_ablated_rows, build_masks, compute_ablated_values
from waltz.core.devices import Device
from waltz.core.intervals import Resampling
from waltz.evaluation.metrics.pair_metrics import compute_pair_metrics
from waltz.evaluation.metrics.scored_pairs import pair_scores
from waltz.model_registry import ModelSpec
from waltz.models.encoders.coalitions import Coalitions
from waltz.models.encoders.kinds.ruler import load
from waltz.models.encoders.players import PROFILES

torch.set_num_threads(1)
IMAGE = Image.new("RGB", (50, 40), "red")
TEXTS = ["b b b", "b a"]  # 98 is even and counts for a match, 97 against


def coalitions(share, profile, texts=TEXTS):
    encoder = load(ModelSpec("ruler", "ruler", weights=f"share:{share}"), Device("cpu", 1, "a test"))
    image = encoder.prepare_image(IMAGE)
    games = [PROFILES[profile](encoder, encoder.tokenize(text), image) for text in texts]
    return Coalitions(encoder, image, games, lambda logits: logits)


@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize("share", [0, 0.25, 1])
def test_a_ruler_is_left_with_its_other_share(profile, share):
    caption, foil = compute_ablated_values(coalitions(share, profile))
    image = 1 - share
    assert caption == pytest.approx([share + image, image, share])
    assert foil == pytest.approx([image, image, 0])


def test_masks_leave_out_one_modality_whole():
    game = coalitions(0.5, "equations").players[0]
    everything, patches, words = build_masks(game)
    assert everything.all()
    assert patches.tolist() == [False] * 3 + [True] * 4
    assert words.tolist() == [True] * 3 + [False] * 4


def test_special_tokens_stay_in_the_published_profile():
    table = coalitions(0.5, "published", ["b"])
    _, patches, _ = build_masks(table.players[0])
    assert table.players[0].mask_text(patches[None, :3]).tolist() == [[1, 0, 2]]


def test_what_is_known_is_not_computed_again():
    table = coalitions(0.5, "equations")
    first = compute_ablated_values(table)
    looks, readings = table.looks, table.readings
    assert (looks, readings) == (2, 4)  # one grid: whole and hidden; two texts: whole and masked
    assert all(np.array_equal(one, two) for one, two in zip(first, compute_ablated_values(table), strict=True))
    assert (table.looks, table.readings) == (looks, readings)


ITEM = {"item_id": "one", "image": "one.png"}


def rows(caption, foil, probability=False):
    values = [np.array(values) for values in (caption, foil)]
    return build_ablated_rows(ITEM, ["caption", "foil"], "published", values, probability)


def test_rows_of_the_evaluation_layout():
    found = rows([0.9, 0.2, 0.8], [0.7, 0.6, 0.1], probability=True)
    assert [(row["setting"], row["role"], row["score"], row["probability"], row["correct"]) for row in found] == [
        ("without text", "caption", 0.2, 0.2, False),
        ("without text", "foil", 0.6, 0.6, False),
        ("without image", "caption", 0.8, 0.8, True),
        ("without image", "foil", 0.1, 0.1, True),
    ]
    assert [row["prediction"] for row in found] == ["mismatch", "match", "match", "mismatch"]
    assert all(row["probability"] is None for row in rows([1, 1, 1], [0, 0, 0]))


def test_texts_that_are_alike_once_masked_tie_and_are_wrong():
    values = compute_ablated_values(coalitions(0.5, "equations", ["b b", "b a"]))
    found = build_ablated_rows(ITEM, ["caption", "foil"], "equations", values, False)
    how = Resampling(resamples=10, confidence=0.95, seed=0)
    ranked = {
        setting: compute_pair_metrics(
            pair_scores([row for row in found if row["setting"] == setting], "equations"), "d", how
        )["acc_r"]
        for setting in ("without text", "without image")
    }
    assert ranked["without text"].value == 0
    assert ranked["without image"].value == 100


def test_a_single_text_is_a_match_or_not():
    found = build_ablated_rows(ITEM, ["caption"], "published", [np.array([1.0, 0.5, 0.2])], True)
    assert [row["prediction"] for row in found] == ["match", "mismatch"]
    assert [row["correct"] for row in found] == [True, False]
