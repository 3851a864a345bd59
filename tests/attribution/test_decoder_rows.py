"""MM-SHAP of a decoder's answers: the games of both profiles, rows, and what is found again."""

import dataclasses
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from PIL import Image

from stand_ins.models import tiny_decoders
from stand_ins.records import build_evaluation, build_items
from waltz.attribution import decoder_rows
from waltz.attribution.decoder_rows import (
    AnswerAttribution,
    attribute_answers_about_items,
)
from waltz.attribution.item_selection import SampleSettings, select_decoder_items
from waltz.attribution.prompt_attribution import (
    PromptGame,
    PromptSettings,
    attribute_prompts,
    begin_prompt_estimation,
)
from waltz.attribution.published import choose_budget
from waltz.attribution.shapley.estimate import AttributionSettings
from waltz.attribution.stored_rows import add_values
from waltz.attribution.summary import build_share_records
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.intervals import Resampling
from waltz.core.records import to_row
from waltz.core.schema import ATTRIBUTION, BENCHMARK, AttributionRecord
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import (
    build_equations_template,
    build_published_template,
)
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.models.decoders.continuations import score_targets
from waltz.sources.published_samples import draw_caption_first

torch.set_num_threads(1)

ITEMS = build_items(
    {
        "item_id": f"own:{place}",
        "instrument": "own",
        "image": f"{place}.png",
        "caption": caption,
        "foil": foil,
    }
    for place, (caption, foil) in enumerate(
        [("a man and a dog", "a dog and a cat"), ("two cars", "four cars at a table")]
    )
)
ORDERS = {"own:0": True, "own:1": False}


def chat(turns):
    return " ".join(("<image> " if turn.image else "") + turn.text for turn in turns)


def photo(name="0.png"):
    return Image.fromarray(
        np.random.default_rng(int(name[0])).integers(
            0, 256, (40, 61, 3), dtype=np.uint8
        )
    )


@pytest.fixture(scope="module")
def decoder():
    return tiny_decoders.llava()


SHORT = """
forms:
  pairwise: {text: "A: {first} B: {second}"}
  single: {text: "{caption} ?"}
turns: {choice: {answer: [{user: "{input} answer ("}]}}
"""


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """Prompts of few tokens."""
    file = tmp_path_factory.mktemp("prompts") / "short.yaml"
    file.write_text(SHORT)
    return read_prompt_file(EQUATIONS, file)


@pytest.fixture
def answering(decoder, short):
    return partial(answering_of, decoder, short)


def answering_of(
    decoder, prompt_file, profile, folder, evaluations=None, seed=3, grid=None
):
    template = (
        build_equations_template(chat, prompt_file)
        if profile == "equations"
        else build_published_template("bakllava")
    )
    return AnswerAttribution(
        decoder,
        template,
        AttributionSettings(
            get_fidelity(profile), seed=seed, evaluations=evaluations, grid=grid
        ),
        stored=folder,
    )


def rows_of(how, items=ITEMS, load=photo):
    done: list[int] = []
    rows = attribute_answers_about_items(how, items, "own", ORDERS, load, done.append)
    assert sum(done) == len(items)
    return rows


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_values_sum_up_and_values_of_full_and_half_coalitions_are_the_models(
    decoder, profile
):
    picture = decoder.prepare_image(photo())
    prompt = decoder.build_prompt("<image> what is this ? a cat or a dog ? answer : (")
    (attribution,) = attribute_prompts(
        decoder,
        picture,
        [PromptGame(prompt.text, "", (7,))],
        PromptSettings(get_fidelity(profile), evaluations=200),
        ablate=True,
    )
    estimate, players = attribution.estimate, attribution.players
    assert estimate.residual < 1e-5
    value = "probability" if profile == "equations" else "first-step-logit"
    assert estimate.value == pytest.approx(
        score_targets(decoder, [prompt], [picture], [(7,)], value)[0], abs=1e-5
    )
    blank = dataclasses.replace(
        picture, pixels=picture.pixels * (players.cells == players.n_image_players)
    )
    hidden = score_targets(decoder, [prompt], [blank], [(7,)], value)[0]
    assert attribution.without_image == pytest.approx(hidden, abs=1e-5)
    masked = decoder.build_prompt("<image>" + " _" * (len(prompt.ids) - 2))
    assert masked.ids == players.mask_text(players.always_visible[players.text])
    assert attribution.without_text == pytest.approx(
        score_targets(decoder, [masked], [picture], [(7,)], value)[0], abs=1e-5
    )
    phi = np.abs(estimate.phi[:, 0])
    assert attribution.t_shap.value == pytest.approx(
        phi[players.text].sum() / phi.sum()
    )
    ids, special = len(prompt.ids), sum(prompt.special)
    if profile == "published":
        side = int(np.ceil(np.sqrt(ids)))
        assert (players.n_text_players, players.grid, players.image_first) == (
            ids,
            side,
            True,
        )
        assert estimate.requested == 600 // (2 * len(players) + 1) * (
            2 * len(players) + 1
        )
        assert np.all(estimate.phi[players.always_visible] == 0)
    else:
        assert (players.n_text_players, players.grid) == (
            ids - special,
            int(np.ceil(np.sqrt(ids - special))),
        )


def test_columns_put_text_first(decoder):
    prompt = decoder.build_prompt("<image> what is this ?")
    (attribution,) = attribute_prompts(
        decoder,
        decoder.prepare_image(photo()),
        [PromptGame(prompt.text, "", (7, 8))],
        PromptSettings(PUBLISHED),
    )
    players, phi = attribution.players, attribution.estimate.phi
    names = dict.fromkeys(("item_id", "role", "profile", "setting", "text"), "")
    columns = add_values(AttributionRecord(**names), attribution)
    again = np.array(columns.phi)
    np.testing.assert_array_equal(
        again[: players.n_text_players], phi[players.n_image_players :]
    )
    np.testing.assert_array_equal(
        again[players.n_text_players :], phi[: players.n_image_players]
    )
    assert columns.score is None  # two outputs have no one value


def test_budgets_and_estimators(decoder):
    assert [choose_budget(count) for count in (299, 300, 350, 449)] == [
        600,
        700,
        800,
        900,
    ]
    with pytest.raises(UserError, match="450 players need 901 evaluations"):
        choose_budget(450)
    picture = decoder.prepare_image(photo())
    (attribution,) = attribute_prompts(
        decoder,
        picture,
        [PromptGame("<image> dog", "", (7,))],
        PromptSettings(EQUATIONS, evaluations=8),
    )
    assert (
        attribution.estimator,
        attribution.estimate.exact,
        attribution.evaluated,
    ) == ("exact", True, 4)
    for name, profile in (
        ("KernelSHAP", "published"),
        ("exact-factorised", "equations"),
    ):
        with pytest.raises(UserError, match=name):
            begin_prompt_estimation(
                attribution.players,
                PromptSettings(get_fidelity(profile), estimator=name),
            )
    too_small = PromptSettings(
        get_fidelity("published"), estimator="KernelSHAP", budgets=(1,)
    )
    # The wrong estimator is told of before the budget.
    with pytest.raises(UserError, match="KernelSHAP"):
        begin_prompt_estimation(attribution.players, too_small)


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_rows_of_caption_and_foil_in_each_setting(answering, profile, tmp_path):
    rows = rows_of(answering(profile, tmp_path / "cache.sqlite", 90))
    parquet.check(
        parquet.build_table(list(map(to_row, rows)), ATTRIBUTION), ATTRIBUTION
    )
    assert [(row.item_id, row.setting, row.role) for row in rows[:3]] == [
        ("own:0", "pairwise", "caption"),
        ("own:0", "single", "caption"),
        ("own:0", "single", "foil"),
    ]
    assert rows[0].text.index("a man and a dog") < rows[0].text.index("a dog and a cat")
    assert rows[3].text.index("two cars") > rows[3].text.index("four cars")
    assert "a dog and a cat" in rows[2].text
    for row in rows:
        assert row.error is None
        assert len(row.phi) == len(row.tokens) + row.grid**2
        assert 0 <= row.t_shap <= 1
        (output,) = row.outputs
        # A label, not whatever is likeliest.
        assert profile == "published" or output in (
            "A",
            "B",
        )
    assert len({row.t_shap for row in rows}) == 6
    # All questions about an item share its draws.
    assert len({row.seed for row in rows[:3]}) == 1
    assert (rows[0].seed == rows[3].seed) == (profile == "published")


def test_a_chosen_grid_takes_the_place_of_that_of_the_prompt(answering, tmp_path):
    for grid in (None, 2, 3):
        rows = rows_of(
            answering("equations", tmp_path / "cache.sqlite", 120, grid=grid), ITEMS[:1]
        )
        assert grid is None or {row.grid for row in rows} == {grid}
        for row in rows:
            assert len(row.phi) == len(row.tokens) + row.grid**2
            assert np.sum(row.phi) == pytest.approx(
                row.value[0] - row.base_value[0], abs=1e-5
            )


def test_cached_items_are_used_again_and_a_larger_budget_continues(
    answering, tmp_path, monkeypatch
):
    how = answering("equations", tmp_path / "cache.sqlite", 120)
    rows = rows_of(how, ITEMS[:1])

    def refuse(*_, **__):
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(decoder_rows, "attribute_prompts", refuse)
        assert rows_of(how, ITEMS[:1]) == rows
        with pytest.raises(AssertionError, match="computed again"):
            rows_of(
                answering("equations", tmp_path / "cache.sqlite", 120, seed=4),
                ITEMS[:1],
            )
        with pytest.raises(AssertionError, match="computed again"):
            rows_of(how, ITEMS)  # the second item is new
        with pytest.raises(AssertionError, match="computed again"):
            rows_of(how, ITEMS[:1], lambda name: photo("5.png"))
    read: list[int] = []
    attribute = decoder_rows.attribute_prompts
    larger = answering("equations", tmp_path / "cache.sqlite", 240)

    def counting(*given, ablate):
        read.append(len(given[-1][0]))
        return attribute(*given, ablate=ablate)

    monkeypatch.setattr(decoder_rows, "attribute_prompts", counting)
    gone_on = rows_of(larger, ITEMS[:1])
    fresh = rows_of(
        dataclasses.replace(larger, stored=tmp_path / "fresh" / "cache.sqlite"),
        ITEMS[:1],
    )
    assert gone_on == fresh
    assert read[0] > 50
    assert read[1] == 0


def test_what_cannot_be_attributed_says_so(answering, tmp_path):
    def missing(name):
        raise UserError(f"image {name!r}: is missing")

    rows = rows_of(answering("equations", tmp_path / "cache.sqlite"), load=missing)
    assert [row.error for row in rows] == ["image '0.png': is missing"] * 3 + [
        "image '1.png': is missing"
    ] * 3
    few = rows_of(answering("equations", tmp_path / "cache.sqlite", 20), ITEMS[:1])
    assert all("too small for regression" in row.error for row in few)
    long = replace(ITEMS[0], foil="dog " * 3000)
    errors = [
        row.error
        for row in rows_of(
            answering("equations", tmp_path / "cache.sqlite", 90), [long]
        )
    ]
    assert errors[1] is None
    assert all("tokens" in error for error in (errors[0], errors[2]))


def test_published_takes_the_first_valid_items_and_the_drawn_orders(tmp_path):
    empty = {pa.string(): "a", pa.bool_(): True, pa.list_(pa.string()): []}
    common = {
        column.name: empty[column.type]
        for column in BENCHMARK.schema
        if not column.nullable
    }
    rows = [
        {**common, "item_id": f"own:{place}", "valid": place not in (0, 2)}
        for place in range(8)
    ]
    file = tmp_path / "own.parquet"
    parquet.write_rows(file, rows, BENCHMARK)
    items, orders = select_decoder_items(
        file, "own", PUBLISHED, SampleSettings(seed=5, sample=3, scored="valid")
    )
    assert [item.item_id for item in items] == ["own:1", "own:3", "own:4"]
    assert list(orders.values()) == draw_caption_first(6)
    items, orders = select_decoder_items(
        file, "own", EQUATIONS, SampleSettings(seed=5, sample=4, scored="valid")
    )
    assert len(items) == 4
    assert sum(orders[item.item_id] for item in items) == 2


def test_shares_join_correctness_in_the_same_setting():
    common = {
        "profile": "equations",
        "t_shap_se": None,
        "t_shap_corrected": None,
        "reason": None,
        "error": None,
    }
    rows, scored = [], []
    for place, (share, right) in enumerate(
        [(0.1, False), (0.2, False), (0.3, True), (0.4, True)]
    ):
        for setting, role, correct in (
            ("pairwise", "caption", right),
            ("single", "caption", not right),
        ):
            one = {
                "item_id": str(place),
                "image": str(place),
                "role": role,
                "setting": setting,
            }
            rows.append(
                {
                    **common,
                    **one,
                    "t_shap": share if setting == "pairwise" else share + 0.5,
                }
            )
            scored.append(
                {"profile": "equations", **one, "score": 0.0, "correct": correct}
            )
    shares = {
        record.setting: record
        for record in build_share_records(
            "m",
            "d",
            pd.DataFrame(rows).assign(player_share=0.5),
            build_evaluation(scored),
            Resampling(200, 0.9, 1),
        )
    }
    assert shares["pairwise"].measure.value == pytest.approx(25)
    assert shares["single"].measure.value == pytest.approx(75)
    assert shares["pairwise"].rho == pytest.approx(-shares["single"].rho)
    assert shares["pairwise"].rho > 0.8
