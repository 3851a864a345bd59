import csv

import numpy as np
import pytest

from stand_ins.models.tiny_models import bert_tokenizer
from stand_ins.records import build_probes
from waltz.attribution.item_selection import select_probes
from waltz.attribution.verbs import (
    build_verb_table,
    compute_verb_values,
    find_verb_pieces,
)
from waltz.core.files.resources import RESOURCES
from waltz.core.intervals import Resampling
from waltz.core.schema import PROBE_CONDITIONS, AttributionRecord, StoredSpan
from waltz.models.encoders.encoder import tokenize_text

HOW = Resampling(resamples=200, confidence=0.95, seed=1)
PUBLISHED = RESOURCES / "published"


def span(start, end):
    return StoredSpan(start, end)


def spans_of(text):
    spans = tokenize_text(bert_tokenizer(), text, 40, "tiny").spans
    return [StoredSpan(**place) for place in spans]


def test_word_pieces_of_the_verb():
    text = "a man standing on the car"
    read = tokenize_text(bert_tokenizer(), text, 40, "tiny")
    assert read.tokens[3:5] == ("stand", "##ing")
    assert find_verb_pieces(spans_of(text), span(6, 14)) == [3, 4]


def test_a_verb_of_several_tokens():
    # [CLS] a girl ska ##ting . [SEP]
    spans = [
        span(0, 0),
        span(0, 1),
        span(2, 6),
        span(7, 10),
        span(10, 14),
        span(14, 15),
        span(0, 0),
    ]
    assert find_verb_pieces(spans, span(7, 14)) == [3, 4]


def test_a_verb_at_the_borders_of_the_text():
    text = "standing men on cars"
    spans = spans_of(text)
    # The start token's empty span shares nothing.
    assert find_verb_pieces(spans, span(0, 8)) == [
        1,
        2,
    ]
    # Nor does the end token's.
    assert find_verb_pieces(spans, span(16, 20)) == [len(spans) - 2]


def test_neighbors_that_touch_the_verb_are_not_its_pieces():
    spans = [span(0, 1), span(1, 4), span(4, 8), span(8, 9)]
    assert find_verb_pieces(spans, span(1, 8)) == [1, 2]
    # A piece that holds some of it.
    assert find_verb_pieces(spans, span(3, 5)) == [
        1,
        2,
    ]
    assert find_verb_pieces(spans, None) == []
    assert find_verb_pieces(spans, span(4, 4)) == []


SPANS = [span(0, 0), span(0, 1), span(2, 5), span(5, 8), span(0, 0)]


def test_values_worked_by_hand():
    phi = [[0.0], [0.2], [0.3], [-0.1], [0.0], [5.0], [-7.0]]
    verb_values = compute_verb_values(SPANS, phi, span(2, 8))
    assert verb_values.verb_shap == pytest.approx(0.2)
    assert verb_values.verb_share == pytest.approx(100 * 0.4 / 0.6)
    assert verb_values.pieces == 2
    assert verb_values.reason is None
    assert compute_verb_values(SPANS, np.array(phi)[:, 0], span(2, 8)) == verb_values


def test_values_that_are_undefined_say_why():
    assert "no verb is found" in compute_verb_values(SPANS, [[1.0]] * 6, None).reason
    assert "no token" in compute_verb_values(SPANS, [[1.0]] * 6, span(20, 22)).reason
    silent = compute_verb_values(SPANS, [[0.0]] * 5 + [[1.0]], span(2, 8))
    assert (silent.verb_shap, silent.verb_share) == (0, None)
    assert "nothing" in silent.reason
    with pytest.raises(ValueError, match="4 Shapley values"):
        compute_verb_values(SPANS, [[1.0]] * 4, None)


def item(group, condition, form="simplified", number=0, verb=None):
    return {
        "item_id": f"{form}:{condition}:{group}:{number}",
        "form": form,
        "condition": condition,
        "group": group,
        "verb_span": verb,
    }


def draw_probes(items, n, seed):
    probes = build_probes(
        {"image": "m", "caption": "c", "match": True} | row for row in items
    )
    return select_probes(probes, n, seed)


def everything(count):
    return [
        item(f"g{group}", condition, form, number, span(2, 8))
        for form in ("original", "simplified")
        for group in range(count)
        for condition in PROBE_CONDITIONS
        for number in range(1 if condition == "+img+cap" else 2)
    ]


def test_the_sample_never_splits_a_group():
    items = everything(80)
    picked = draw_probes(items, 50, 7)
    assert len(picked) == 200
    assert {row.form for row in picked} == {"simplified"}
    assert all(row.item_id.endswith(":0") for row in picked)
    by_condition = [
        [row.group for row in picked if row.condition == condition]
        for condition in PROBE_CONDITIONS
    ]
    assert by_condition == [by_condition[0]] * 4
    assert len(set(by_condition[0])) == 50
    fewer = {row.item_id for row in draw_probes(items, 20, 7)}
    assert fewer < {row.item_id for row in picked}
    assert fewer != {row.item_id for row in draw_probes(items, 20, 8)}


def test_a_group_that_lacks_a_condition_is_not_drawn():
    items = [
        row
        for row in everything(3)
        if not (row["group"] == "g1" and row["condition"] == "-img-cap")
    ]
    assert {row.group for row in draw_probes(items, 50, 0)} == {"g0", "g2"}


def attribution(item, phi, t_shap=0.6, error=None):
    return AttributionRecord(
        item_id=item.item_id,
        role="caption",
        profile="equations",
        setting="alignment",
        image=item.group,
        text="",
        spans=SPANS,
        phi=phi,
        t_shap=t_shap,
        error=error,
    )


def cell(table, metric, condition, setting):
    return next(
        row.measure
        for row in table
        if (row.metric, row.condition, row.setting) == (metric, condition, setting)
    )


def test_a_table_worked_by_hand():
    items = draw_probes(everything(4), None, 0)
    own = [row for row in items if row.condition == "+img+cap"]
    # verb |0.3| + |-0.1| of 0.6 in two matches, all of the text in a non-match
    some, most = (
        [[0.0], [0.2], [0.3], [-0.1], [0.0], [1.0]],
        [[0.0], [0.0], [-0.5], [-0.5], [0.0], [1.0]],
    )
    rows = [
        attribution(own[0], some, 0.2),
        attribution(own[1], some, 0.4),
        attribution(own[2], most, None),
        attribution(own[3], None, None, error="too long"),
        *(attribution(row, some) for row in items if row.condition == "+img-cap"),
    ]
    predictions = {row.item_id: "match" for row in items}
    predictions |= {own[2].item_id: "mismatch", own[3].item_id: None}
    table = build_verb_table(rows, predictions, items, HOW)
    assert len(table) == 4 * 4 * 3
    match = cell(table, "verb_shap", "+img+cap", "match")
    assert (match.value, match.n) == (pytest.approx(0.2), 2)
    assert cell(table, "verb_shap", "+img+cap", "non-match").value == pytest.approx(-1)
    assert cell(table, "verb_shap", "+img+cap", "all").value == pytest.approx(
        (0.2 + 0.2 - 1) / 3
    )
    assert cell(table, "verb_share", "+img+cap", "non-match").value == pytest.approx(
        100
    )
    assert cell(table, "verb_share", "+img+cap", "match").value == pytest.approx(
        100 * 0.4 / 0.6
    )
    shares = cell(table, "t_shap_overall", "+img+cap", "match")
    assert shares.value == pytest.approx(30)
    assert 0 < shares.ci_low < 30 < shares.ci_high < 100
    assert (
        cell(table, "t_shap_overall", "+img+cap", "non-match").reason
        == "T-SHAP is undefined"
    )
    assert cell(table, "verb_shap", "+img-cap", "match").value == pytest.approx(0.2)
    assert cell(table, "t_shap_overall", "+img-cap", "match").n == 4
    assert (
        cell(table, "verb_shap", "+img-cap", "non-match").reason
        == "the model calls no item a non-match"
    )
    assert "attributed" in cell(table, "verb_shap", "-img-cap", "all").reason


def test_a_model_without_match_probability_has_only_the_pooled_cells():
    items = draw_probes(everything(4), None, 0)
    rows = [attribution(row, [[0.1]] * 6) for row in items]
    table = build_verb_table(rows, {}, items, HOW)
    assert (
        cell(table, "verb_shap", "-img+cap", "match").reason
        == "the model has no match probability"
    )
    assert cell(table, "verb_shap", "-img+cap", "all").value == pytest.approx(0.2)


def test_the_cells_are_those_in_print():
    paper_cells = set()
    for number in (5, 6, 7, 10, 11):
        with (PUBLISHED / f"cv-probes-{number}.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                paper_cells.add(
                    (
                        row["metric"],
                        row["dataset"].removeprefix("cv-probes:"),
                        row["setting"],
                    )
                )
    cells = {
        (row.metric, row.condition, row.setting)
        for row in build_verb_table([], {}, [], HOW)
    }
    assert paper_cells < cells
    assert len(paper_cells) == 24
