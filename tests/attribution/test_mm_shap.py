"""MM-SHAP of encoders: rulers with a known share of text, ablated scores, missing images."""

from functools import partial
from itertools import combinations
from math import factorial

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from stand_ins.records import build_items
from waltz.attribution.companions import METRICS, compute_companion_measures
from waltz.attribution.encoder_rows import attribute_texts_of_items
from waltz.attribution.engine import build_ablation_masks, compute_ablated_values
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.summary import (
    build_ablated_records,
    build_ablation_records,
    build_share_records,
)
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.jobs.devices import Device
from waltz.core.measure import Measure
from waltz.core.records import to_row
from waltz.core.schema import ATTRIBUTION, AttributionRecord
from waltz.evaluation.alignment import score_items
from waltz.evaluation.metrics.summary import build_metric_records
from waltz.fidelity import EQUATIONS, get_fidelity
from waltz.model_registry import ModelSpec, resolve_model
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import PROFILES, EncoderCoalitions
from waltz.models.encoders.kinds.ruler import load_ruler
from waltz.sources.images import load_image, open_images

torch.set_num_threads(1)
SHARES = (0, 0.25, 0.5, 1)
IMAGE = Image.fromarray(
    np.random.default_rng(0).integers(0, 255, (90, 160, 3), dtype=np.uint8)
)


def ruler(share):
    return load_ruler(
        ModelSpec("ruler", "ruler", weights=f"share:{share}"),
        Device("cpu", 1, "a test"),
    )


def game(encoder, text, profile):
    """Players of a text with the image, and the logits of coalitions of them."""
    image = encoder.prepare_image(IMAGE)
    players = PROFILES[profile](encoder, encoder.tokenize(text), image)
    coalitions = EncoderCoalitions(encoder, image, [players], lambda logits: logits)
    return players, lambda masks: coalitions.values([np.asarray(masks, dtype=bool)])[0][
        :, 0
    ]


def text_share(players, phi):
    return np.abs(phi[: players.n_text_players]).sum() / np.abs(phi).sum()


def alone(values, size):
    """What each player adds to nobody, which is its Shapley value if that adds up to what all are
    worth.
    """
    worths = values(
        np.concatenate(
            [
                np.zeros((1, size), bool),
                np.eye(size, dtype=bool),
                np.ones((1, size), bool),
            ]
        )
    )
    phi = worths[1:-1] - worths[0]
    assert phi.sum() == pytest.approx(worths[-1] - worths[0], abs=1e-12)
    return phi


LENGTHS = {
    0: (1, 2, 7, 14, 48, 77),
    0.25: range(1, 78),
    0.5: (1, 2, 7, 14, 48, 77),
    1: (1, 2, 7, 14, 48, 77),
}


@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize("share", SHARES)
def test_the_share_is_met_at_every_length(profile, share):
    encoder = ruler(share)
    for count in LENGTHS[share]:
        players, values = game(
            encoder, " ".join(f"word{place}" for place in range(count)), profile
        )
        assert text_share(players, alone(values, len(players))) == pytest.approx(
            share, abs=1e-9
        )


@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("text", ["zebra", "two cats sit"])
def test_the_share_is_met_by_exact_enumeration(profile, share, text):
    players, values = game(ruler(share), text, profile)
    size = len(players)
    masks = (np.arange(2**size)[:, None] >> np.arange(size)) & 1
    coalition_values = values(masks)
    phi = np.zeros(size)
    for player in range(size):
        others = [other for other in range(size) if other != player]
        for taken in range(size):
            weight = factorial(taken) * factorial(size - taken - 1) / factorial(size)
            for chosen in combinations(others, taken):
                without = sum(1 << other for other in chosen)
                phi[player] += weight * (
                    coalition_values[without | 1 << player] - coalition_values[without]
                )
    assert phi.sum() == pytest.approx(
        coalition_values[-1] - coalition_values[0], abs=1e-12
    )
    assert text_share(players, phi) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("profile", list(PROFILES))
def test_one_permutation_with_its_reverse_is_exact(profile):
    players, values = game(
        ruler(0.25), "the man throws a red ball over the dog", profile
    )
    size = len(players)
    order = np.random.default_rng(4).permutation(size)
    steps = np.array(
        [np.isin(np.arange(size), order[:count]) for count in range(size + 1)]
    )
    phi = np.zeros(size)
    for walk, added in ((values(steps), order), (values(~steps)[::-1], order[::-1])):
        phi[added] += np.diff(walk) / 2
    assert text_share(players, phi) == pytest.approx(0.25, abs=1e-9)


def test_pixels_that_no_patch_covers_do_not_count():
    encoder = ruler(0.5)
    players, values = game(encoder, " ".join(["word"] * 70), "published")
    assert players.grid == 9
    assert (players.cells == 81).any()  # 120 - 9 x 13 pixels are left over
    everything, nothing = values(
        np.array([[True] * len(players), [False] * len(players)])
    )
    sign = 1 - 2 * ((encoder.tokenize("word").ids[1] - 3) % 2)
    assert everything == pytest.approx(0.5 * sign + 0.5)
    assert nothing == pytest.approx(0)


def test_words_count_for_or_against():
    encoder = ruler(1)
    players, values = game(encoder, "b a", "equations")  # 98 is even, 97 is odd
    phi = alone(values, len(players))
    assert phi[:2] == pytest.approx([0.5, -0.5])
    assert np.all(phi[2:] == 0)


RED_IMAGE = Image.new("RGB", (50, 40), "red")
TEXTS = ["b b b", "b a"]  # 98 is even and counts for a match, 97 against


def coalitions(share, profile, texts=TEXTS):
    encoder = load_ruler(
        ModelSpec("ruler", "ruler", weights=f"share:{share}"),
        Device("cpu", 1, "a test"),
    )
    image = encoder.prepare_image(RED_IMAGE)
    games = [
        PROFILES[profile](encoder, encoder.tokenize(text), image) for text in texts
    ]
    return EncoderCoalitions(encoder, image, games, lambda logits: logits)


@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize("share", [0, 0.25, 1])
def test_a_ruler_is_left_with_its_other_share(profile, share):
    caption, foil = (
        values[:, 0] for values in compute_ablated_values(coalitions(share, profile))
    )
    image = 1 - share
    assert caption == pytest.approx([share + image, image, share])
    assert foil == pytest.approx([image, image, 0])


def test_masks_remove_one_modality_completely():
    game = coalitions(0.5, "equations").players[0]
    everything, patches, words = build_ablation_masks(game)
    assert everything.all()
    assert patches.tolist() == [False] * 3 + [True] * 4
    assert words.tolist() == [True] * 3 + [False] * 4


def test_special_tokens_stay_in_the_published_profile():
    table = coalitions(0.5, "published", ["b"])
    _, patches, _ = build_ablation_masks(table.players[0])
    assert table.players[0].mask_text(patches[None, :3]).tolist() == [[1, 0, 2]]


def test_what_is_known_is_not_computed_again():
    table = coalitions(0.5, "equations")
    first = compute_ablated_values(table)
    looks, readings = table.image_count, table.text_count
    # One grid: whole and hidden; two texts: whole and masked.
    assert (looks, readings) == (
        2,
        4,
    )
    assert all(
        np.array_equal(one, two)
        for one, two in zip(first, compute_ablated_values(table), strict=True)
    )
    assert (table.image_count, table.text_count) == (looks, readings)


def build_ablated_attribution(role, without_text, without_image, **fields):
    """Attribution of one item without players, with the scores of its ablations."""
    fields = {"explained": "logit", "profile": "published"} | fields
    return AttributionRecord(
        item_id="one",
        role=role,
        setting="alignment",
        image="one.png",
        text="",
        without_text=without_text,
        without_image=without_image,
        **fields,
    )


def ablated_rows(without_text, without_image, explained="logit", profile="published"):
    """Records of one item from the ablated scores of its caption, and of its foil."""
    records = []
    for role, text, image in zip(
        ("caption", "foil"), without_text, without_image, strict=False
    ):
        records += build_ablated_records(
            build_ablated_attribution(
                role, [text], [image], explained=explained, profile=profile
            )
        )
    return records


def test_rows_of_the_evaluation_layout():
    rows = ablated_rows([0.2, 0.6], [0.8, 0.1], "probability")
    assert [
        (row.setting, row.role, row.score, row.probability, row.correct) for row in rows
    ] == [
        ("without text", "caption", 0.2, 0.2, False),
        ("without image", "caption", 0.8, 0.8, True),
        ("without text", "foil", 0.6, 0.6, False),
        ("without image", "foil", 0.1, 0.1, True),
    ]
    assert [row.prediction for row in rows] == [
        "mismatch",
        "match",
        "match",
        "mismatch",
    ]
    assert all(row.probability is None for row in ablated_rows([1, 0], [1, 0]))


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_texts_that_are_alike_once_masked_tie_and_are_wrong(profile):
    values = compute_ablated_values(coalitions(0.5, "equations", ["b b", "b a"]))
    attributions = [
        build_ablated_attribution(role, text, image, profile=profile)
        for role, (_, text, image) in zip(("caption", "foil"), values, strict=True)
    ]
    how = Resampling(resamples=10, confidence=0.95, seed=0)
    metrics = {
        (record.setting, record.metric): record.measure.value
        for record in build_ablation_records("m", "d", attributions, how)
    }
    assert (metrics["without text", "acc_r"], metrics["without text", "ties"]) == (
        50,
        100,
    )
    assert (metrics["without image", "acc_r"], metrics["without image", "ties"]) == (
        100,
        0,
    )


def test_a_single_text_is_a_match_or_not():
    rows = ablated_rows([0.5], [0.2], "probability")
    assert [row.prediction for row in rows] == ["match", "mismatch"]
    assert [row.correct for row in rows] == [True, False]


HOW = Resampling(100, 0.95, 0)
ITEMS = build_items(
    {
        "item_id": f"i{number}",
        "instrument": "existence",
        "image": f"{number}.png",
        "caption": f"there are {number} dogs",
        "foil": "there is no dog at all",
    }
    for number in range(4)
)


@pytest.fixture
def seen(tmp_path):
    """A ruler, and three of the four images."""
    for number in range(3):
        Image.new("RGB", (20, 20), (80 * number, 30, 90)).save(
            tmp_path / f"{number}.png"
        )
    with open_images(tmp_path) as images:
        yield (
            load_encoder(resolve_model("ruler-50", {}), Device("cpu", 1, "test")),
            images,
            tmp_path / "stored",
        )


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_an_item_has_its_seed_whatever_else_is_attributed(seen, tmp_path, profile):
    encoder, images, _ = seen
    settings = AttributionSettings(get_fidelity(profile), "permutation", 80, seed=5)

    def attribute(folder, dataset, items):
        records = attribute_texts_of_items(
            encoder, tmp_path / folder, dataset, settings, items, images, lambda _: None
        )
        return {(record.item_id, record.role): record for record in records}

    together, alone = (
        attribute("a", "own", ITEMS[:3]),
        attribute("b", "own", ITEMS[2:3]),
    )
    # The cache has other draws of the same item under another seed.
    other = attribute("a", "other", ITEMS[:3])
    assert alone == {key: together[key] for key in alone}
    assert len(alone) == 2
    for item in ITEMS[:3]:
        caption, foil = (together[item.item_id, role] for role in ("caption", "foil"))
        assert caption.seed == foil.seed
    seeds = {record.seed for record in [*together.values(), *other.values()]}
    if profile == "published":
        assert seeds == {5}
    else:
        assert len(seeds) == 6


def test_shares_and_metrics_are_those_of_the_images_that_are_there(seen):
    encoder, images, stored = seen
    settings = AttributionSettings(EQUATIONS, "auto", 40, 0)
    records = attribute_texts_of_items(
        encoder, stored, "own", settings, ITEMS, images, lambda _: None
    )
    rows = parquet.build_table(list(map(to_row, records)), ATTRIBUTION).to_pylist()
    scores = score_items(encoder, ITEMS, images, ["equations"])
    for table in (list(map(to_row, scores)), rows):
        failed = {row["item_id"] for row in table if row["error"] is not None}
        assert failed == {"i3"}
        assert all(
            "is missing" in row["error"] for row in table if row["item_id"] == "i3"
        )
    (accuracy,) = [
        row
        for row in build_metric_records(
            {("ruler-50", "mine"): scores}, ["equations"], HOW
        )
        if row.metric == "acc_r"
    ]
    assert accuracy.measure.n == 3
    assert {
        record.measure.n
        for record in build_share_records(
            "ruler-50",
            "mine",
            pd.DataFrame(rows).assign(player_share=0.5),
            scores,
            HOW,
        )
        if record.role == "caption"
    } == {3}


def test_companions_leave_out_what_is_missing(seen):
    encoder, images, _ = seen
    some = compute_companion_measures(
        encoder, ITEMS, partial(load_image, images), 2, HOW
    )
    assert {measure.n for measure in some.values()} == {3}
    assert some == compute_companion_measures(
        encoder, ITEMS[:3], partial(load_image, images), 2, HOW
    )
    none = compute_companion_measures(
        encoder, ITEMS[3:], partial(load_image, images), 2, HOW
    )
    assert list(none) == list(some) == list(METRICS)
    assert set(none.values()) == {
        Measure(None, 0, reason="no image of its items can be had")
    }
