"""T-SHAP of answers that an encoder chooses from a vocabulary: a tiny LXMERT on pixels and on
stored regions.
"""

import dataclasses
from functools import cache
from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from stand_ins.models.tiny_encoders import ANSWERS, REGIONS, WIDTH, build
from stand_ins.paper_numbers import read_paper_table
from stand_ins.records import build_vqa_items
from waltz.attribution.encoder_rows import attribute_answers_of_items
from waltz.attribution.item_selection import SampleSettings, select_attributed_questions
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.stored_rows import count_attributions, load_or_attribute
from waltz.attribution.summary import build_share_records
from waltz.core.files import parquet
from waltz.core.files.result_cache import load_or_compute_json
from waltz.core.intervals import Resampling
from waltz.core.records import to_row, write_records
from waltz.core.schema import ATTRIBUTION, AttributionRecord, ShareRecord
from waltz.evaluation.encoder_vqa import build_answer_records, compute_answers
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.model_registry import ModelSpec
from waltz.models.encoders.kinds.lxmert import LxmertAnswering
from waltz.models.encoders.vqa import answer_question
from waltz.models.regions import load_region_provider
from waltz.reporting.tables.build_table import build_cells
from waltz.reporting.tables.declaration import ENCODER
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.numbers import StudyFacts, read_numbers
from waltz.sources.images import open_images

SIDE, MASK = 16, 4
ITEMS = build_vqa_items(
    [
        {
            "item_id": "q:0",
            "image": "0.png",
            "question": "a dog",
            "answer": "yes",
            "answers": [],
        },
        {
            "item_id": "q:1",
            "image": "1.png",
            "question": "the red horse rides",
            "answer": "two",
            "answers": [],
        },
    ]
)


@dataclasses.dataclass(frozen=True)
class Quarters:
    """Finds four regions in an image, its quarters, whose features are the means of smaller
    squares.
    """

    hides: str = "pixels"

    def prepare_image(self, picture):
        pixels = np.asarray(picture.resize((SIDE, SIDE)), dtype=np.float32) / 255 - 0.4
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()

    def compute_regions(self, images):
        cells = torch.nn.functional.avg_pool2d(images, SIDE // 4)  # (batch, 3, 4, 4)
        quarters = (
            cells.unfold(2, 2, 2)
            .unfold(3, 2, 2)
            .permute(0, 2, 3, 1, 4, 5)
            .reshape(len(images), 4, WIDTH)
        )
        boxes = torch.tensor(
            [[x, y, x + 0.5, y + 0.5] for y in (0, 0.5) for x in (0, 0.5)]
        )
        return 3 * quarters, boxes.expand(len(images), 4, 4)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("lxmert")
    network, tokenizer = build("lxmert-answering")
    network.save_pretrained(folder)
    return folder, network.eval(), tokenizer


@pytest.fixture
def encoder(parts):
    return build_encoder(parts, Quarters())


def build_encoder(parts, provider, **fields):
    folder, network, tokenizer = parts
    spec = ModelSpec(
        "mine", kind="lxmert-answering", weights=str(folder), revision="local", **fields
    )
    return LxmertAnswering(
        spec, "cpu", network, tokenizer, 20, provider=provider, answers=ANSWERS
    )


@pytest.fixture
def images(tmp_path):
    draw = np.random.default_rng(2)
    for name in ("0.png", "1.png"):
        Image.fromarray(draw.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(
            tmp_path / name
        )
    with open_images(tmp_path) as source:
        yield source


def rows_of(encoder, images, tmp_path, profile="equations", items=ITEMS, **settings):
    done = []
    rows = attribute_answers_of_items(
        encoder,
        tmp_path / ".store",
        "own",
        AttributionSettings(get_fidelity(profile), seed=3, **settings),
        items,
        images,
        done.append,
    )
    assert sum(done) == len(items)
    parquet.check(
        parquet.build_table(list(map(to_row, rows)), ATTRIBUTION), ATTRIBUTION
    )
    return rows


def by_definition(encoder, image, ids, index):
    """Shapley values of the two words and four quarters, from the network's own forward pass."""

    @cache
    def probability(coalition):
        seen = image.clone()
        for patch in range(4):
            if 2 + patch not in coalition:
                y, x = SIDE // 2 * (patch // 2), SIDE // 2 * (patch % 2)
                seen[:, y : y + SIDE // 2, x : x + SIDE // 2] = 0
        masked = [
            ids[0],
            *(ids[1 + word] if word in coalition else MASK for word in range(2)),
            ids[-1],
        ]
        features, boxes = Quarters().compute_regions(seen[None])
        with torch.inference_mode():
            scores = encoder.network(
                torch.tensor([masked]), features, boxes
            ).question_answering_score[0]
        return float(scores.double().softmax(0)[index])

    results = []
    for player in range(6):
        others = [other for other in range(6) if other != player]
        results.append(
            sum(
                (probability(frozenset({*some, player})) - probability(frozenset(some)))
                / (6 * comb(5, size))
                for size in range(6)
                for some in combinations(others, size)
            )
        )
    return np.array(results), probability(frozenset(range(6))), probability(frozenset())


def test_contributions_are_shapley_values_of_the_given_answers_probability(
    encoder, images, tmp_path
):
    (row,) = rows_of(
        encoder, images, tmp_path, items=ITEMS[:1], estimator="exact", evaluations=64
    )
    image = encoder.prepare_image(Image.open(tmp_path / "0.png").convert("RGB"))
    given = answer_question(encoder, image, "a dog")
    phi, all_players, nothing = by_definition(
        encoder, image, encoder.tokenize("a dog").ids, given.index
    )
    assert (row.role, row.setting, row.explained) == (
        "answer",
        "answering",
        "probability",
    )
    assert (row.text, row.outputs, row.tokens, row.grid) == (
        "a dog",
        [given.text],
        ["a", "dog"],
        2,
    )
    assert row.score == pytest.approx(given.probability, rel=1e-5)
    assert row.score == pytest.approx(all_players, rel=1e-5)
    assert row.base_value == pytest.approx([nothing], rel=1e-5)
    assert np.array(row.phi)[:, 0] == pytest.approx(phi, abs=1e-6)
    assert np.abs(phi).min() > 1e-5  # words and patches all play
    assert row.t_shap == pytest.approx(
        np.abs(phi[:2]).sum() / np.abs(phi).sum(), rel=1e-4
    )


def test_a_chosen_grid_takes_the_place_of_that_of_the_text(encoder, images, tmp_path):
    own, finer, coarser = (
        rows_of(
            encoder,
            images,
            tmp_path,
            items=ITEMS[:1],
            estimator="permutation",
            evaluations=100,
            grid=grid,
        )[0]
        for grid in (None, 3, 1)
    )
    assert [row.grid for row in (own, finer, coarser)] == [2, 3, 1]
    for row in (own, finer, coarser):
        assert len(row.phi) == 2 + row.grid**2
        assert np.sum(row.phi) == pytest.approx(
            row.value[0] - row.base_value[0], abs=1e-6
        )
        assert (row.value, row.base_value) == (own.value, own.base_value)


def test_the_published_profile_draws_ten_permutations_and_keeps_special_tokens(
    encoder, images, tmp_path
):
    rows = rows_of(encoder, images, tmp_path, "published")
    for row in rows:
        words = len(row.tokens)
        assert row.tokens[0] == "[CLS]"
        assert row.grid == int(np.ceil(np.sqrt(words)))
        assert row.requested == 10 * (2 * (words + row.grid**2) + 1)
        phi = np.array(row.phi)[:, 0]
        assert phi[[0, words - 1]].tolist() == [0, 0]
        assert phi.sum() == pytest.approx(row.value[0] - row.base_value[0], abs=1e-6)
        assert 0 < row.t_shap < 1
        assert row.t_shap_se > 0
        assert 0 < abs(row.t_shap_corrected - row.t_shap) < 2 * row.t_shap_se


def test_cached_questions_are_used_again(encoder, images, tmp_path, monkeypatch):
    first = rows_of(encoder, images, tmp_path, evaluations=100)

    def never(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr("waltz.attribution.encoder_rows.attribute_texts", never)
    assert rows_of(encoder, images, tmp_path, evaluations=100) == first
    with pytest.raises(AssertionError, match="computed again"):
        rows_of(encoder, images, tmp_path, evaluations=101)


def test_values_that_an_earlier_version_stored_have_no_corrected_t_shap(tmp_path):
    record = AttributionRecord(
        item_id="a", role="caption", profile="published", setting="alignment", text="b"
    )
    row = to_row(dataclasses.replace(record, t_shap=0.5))
    del row["t_shap_corrected"]
    cache, key = tmp_path / "cache.sqlite", {"text": "b"}
    load_or_compute_json(cache, key, lambda: [row])
    (read,) = load_or_attribute(cache, key, [record], lambda: [])
    assert (read.t_shap, read.t_shap_corrected) == (0.5, None)


def stored_regions(folder):
    draw = np.random.default_rng(6)
    folder.mkdir()
    for name in ("0.png", "1.png"):
        np.savez(
            folder / f"{name}.npz",
            features=draw.normal(size=(REGIONS, WIDTH)).astype(np.float32),
            boxes=np.tile(np.array([1, 1, 20, 20], dtype=np.float32), (REGIONS, 1)),
            size=np.array([60, 80]),
        )
    return str(folder)


def test_stored_regions_are_refused_or_play_under_their_own_setting(
    parts, images, tmp_path
):
    where = stored_regions(tmp_path / "regions")
    spec = ModelSpec(
        "mine", kind="lxmert-answering", weights="x", revision="local", regions=where
    )
    provider = load_region_provider(spec, WIDTH, "cpu")
    (refused, _) = rows_of(
        build_encoder(parts, provider, regions=where), images, tmp_path
    )
    assert "the method hides pixels" in refused.error
    (row, _) = rows_of(
        build_encoder(parts, provider, regions=where, masks="regions"),
        images,
        tmp_path,
        evaluations=40,
    )
    assert (row.setting, row.grid, len(row.phi)) == (
        "answering:regions",
        0,
        2 + REGIONS,
    )
    gone = [dataclasses.replace(ITEMS[0], image="9.png")]
    assert (
        "9.png"
        in rows_of(
            build_encoder(parts, provider, regions=where, masks="regions"),
            images,
            tmp_path,
            items=gone,
        )[0].error
    )


def test_shares_of_answers_fill_their_cell_of_the_table(
    encoder, parts, images, tmp_path
):
    rows = rows_of(encoder, images, tmp_path, "published")
    rows += rows_of(encoder, images, tmp_path, evaluations=60)
    answers = compute_answers(
        encoder, [(item.image, item.question) for item in ITEMS], images
    )
    scores = build_answer_records(ITEMS, answers, ANSWERS, ["published", "equations"])
    rows = parquet.build_table(list(map(to_row, rows)), ATTRIBUTION).to_pylist()
    how = Resampling(100, 0.95, 1)
    rows = [{**row, "player_share": 0.5} for row in rows]
    shares = build_share_records("lxmert-vqa", "vqa", pd.DataFrame(rows), scores, how)
    labelled = [{**row, "setting": "answering:regions"} for row in rows]
    others = build_share_records(
        "lxmert-gqa", "gqa", pd.DataFrame(labelled), scores, how
    )
    assert [one.rho_reason for one in others] == [one.rho_reason for one in shares]
    write_records(tmp_path / "shares.parquet", [*shares, *others], ShareRecord)
    declaration, paper_table = TABLES["thesis-4.1"], read_paper_table("thesis-4.1")
    study = StudyFacts({"lxmert-vqa": ENCODER, "lxmert-gqa": ENCODER}, True, 0.95, {})
    numbers = read_numbers({"shares": [tmp_path / "shares.parquet"]}, "published")
    cells = {
        (cell.metric, cell.model, cell.dataset, cell.setting): cell
        for cell in build_cells(declaration, "published", numbers, paper_table, study)
    }
    cell = cells["t_shap", "lxmert", "vqa", "qa"]
    mean = np.mean([row["t_shap"] for row in rows if row["profile"] == "published"])
    assert (cell.value, cell.n, cell.paper_value) == (
        pytest.approx(100 * mean),
        2,
        51.5,
    )
    assert cell.sd is not None
    # Of regions: another measure.
    assert cells["t_shap", "lxmert", "gqa", "qa"].value is None


def test_questions_are_some_of_those_that_are_answered():
    rows = [
        {
            "source_id": str(place),
            "image": f"m{place}",
            "question": f"q{place}?",
            "answers": [],
            "answer": "yes",
        }
        | {"rejected": "empty" if place == 5 else None}
        for place in range(30)
    ]
    drawn = {"size": 20, "choice": "vqa-encoders"}
    every = select_attributed_questions(
        rows, "d", drawn, PUBLISHED, SampleSettings(seed=7, sample=None)
    )
    assert (
        select_attributed_questions(
            rows, "d", drawn, PUBLISHED, SampleSettings(seed=7, sample=4)
        )
        == every[:4]
    )
    few = select_attributed_questions(
        rows, "d", drawn, EQUATIONS, SampleSettings(seed=7, sample=4)
    )
    more = select_attributed_questions(
        rows, "d", drawn, EQUATIONS, SampleSettings(seed=7, sample=9)
    )
    assert len(few) == 4
    assert all(item in more and item in every for item in few)
    own = select_attributed_questions(
        rows, "d", {"size": 6}, PUBLISHED, SampleSettings(seed=7, sample=4)
    )
    assert own == select_attributed_questions(
        rows, "d", {"size": 6}, EQUATIONS, SampleSettings(seed=7, sample=4)
    )
    assert (
        len(
            select_attributed_questions(
                rows, "d", {"size": None}, EQUATIONS, SampleSettings(seed=7, sample=400)
            )
        )
        == 29
    )


def test_requested_is_what_the_estimator_asked_for_and_not_its_budget(
    encoder, images, tmp_path
):
    (row,) = rows_of(
        encoder,
        images,
        tmp_path,
        items=ITEMS[:1],
        estimator="permutation",
        evaluations=100,
    )
    assert "budget" not in ATTRIBUTION.schema.names
    # Seven permutations of six players fit into 100 evaluations.
    assert row.requested == 7 * (2 * 6 + 1)
    assert row.evaluated <= row.requested
    counts = count_attributions([row])
    assert (counts["requested"], counts["evaluated"]) == (
        row.requested,
        row.evaluated,
    )
