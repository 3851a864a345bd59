"""All filters of an instrument, on hand-made scores and on the scenes' models."""

import math
from collections import Counter
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import build_network
from stand_ins.models.tiny_models import classifier_model, masked_model
from waltz.core.errors import UserError
from waltz.core.schema import CandidateRecord, FilteredRecord
from waltz.filters.gruen import score_texts
from waltz.filters.nli import Inference, infer_relations
from waltz.filters.pipeline import (
    NO_CONTRADICTION,
    READS_WORSE,
    WORDED_WORSE,
    CloseVerdict,
    FilterModels,
    Thresholds,
    apply_thresholds,
    filter_candidates,
)
from waltz.model_registry import ModelSpec
from waltz.models.text.causal import compute_mean_log_likelihoods, wrap_causal_model
from waltz.sources.formats.pairs import read_release


def candidate(
    number, caption, foil, *, image="1.png", words=("on", "in"), rejected=None
):
    return CandidateRecord(
        item_id=f"x:toy:{number}:0",
        instrument="x",
        piece="x",
        source="toy",
        source_id=str(number),
        image=image,
        caption=caption,
        foil=foil,
        caption_phrases=[words[0]],
        foil_phrases=[words[1]],
        direction="x",
        rejected=rejected,
    )


ROWS = [
    candidate(0, "A cat sits on a table.", "A cat sits in a table."),
    candidate(
        1, "A cat sits on a table.", "A cat sits at a table.", rejected="not attested"
    ),
    candidate(2, "A dog stands on a car.", "A dog stands over a car.", image="2.png"),
    candidate(3, "A man throws a ball.", "A man rides a ball.", image="3.png"),
    candidate(4, "A woman throws a ball.", "A woman sits a ball.", image="3.png"),
]
USABLE = [row for row in ROWS if row.rejected is None]


@pytest.fixture(scope="module")
def judges(tokenizer):
    spec = ModelSpec("tiny-gpt2", "text", weights="none", revision="0")
    return FilterModels(
        likelihood=masked_model(),
        acceptability=classifier_model("unacceptable", "acceptable"),
        nli=classifier_model("entailment", "neutral", "contradiction"),
        ranking=wrap_causal_model(spec, build_network("gpt2"), tokenizer, "cpu"),
    )


@pytest.fixture
def progress_counts():
    return []


def test_without_filters_no_model_is_needed_and_the_rules_verdict_stands(tmp_path):
    rows, close = filter_candidates(
        ROWS, FilterModels(), [], None, tmp_path / "cache.sqlite", lambda _: None
    )
    assert [row.kept for row in rows] == [True, False, True, True, True]
    assert [row.rejected for row in rows] == [None, "not attested", None, None, None]
    assert close == []
    assert all(isinstance(row, FilteredRecord) for row in rows)
    scores = [
        field.name
        for field in fields(FilteredRecord)
        if field.name.startswith(("nli", "gramm", "caption_g", "caption_pe"))
    ]
    assert len(scores) == 6
    assert all(getattr(row, name) is None for row in rows for name in scores)


def test_grammaticality_is_scored_for_usable_foils_and_gives_the_reason(
    judges, tmp_path, progress_counts
):
    scores = score_texts(
        sorted(row.foil for row in USABLE), judges.likelihood, judges.acceptability
    )
    threshold = sorted(scores.values())[1] + 1e-6
    rows, close = filter_candidates(
        ROWS,
        judges,
        ["grammaticality"],
        threshold,
        tmp_path / "cache.sqlite",
        progress_counts.append,
    )
    assert [row.grammaticality for row in rows] == [
        scores.get(row.foil) for row in ROWS
    ]
    assert [row.kept for row in rows] == [
        scores.get(row.foil, 0) >= threshold for row in ROWS
    ]
    assert sum(row.kept for row in rows) == 2
    assert {row.rejected for row in rows} == {
        None,
        "not attested",
        f"grammaticality below {threshold:g}",
    }
    near = [row.item_id for row in USABLE if abs(scores[row.foil] - threshold) < 1e-4]
    assert [(entry.item_id, entry.filter, entry.threshold) for entry in close] == [
        (item_id, "grammaticality", threshold) for item_id in near
    ]
    assert near
    assert all(
        row.nli_contradiction is None and row.caption_perplexity is None for row in rows
    )
    assert sum(progress_counts) > 0


def test_a_study_may_record_grammaticality_without_asking_for_any(
    judges, tmp_path, progress_counts
):
    rows, _ = filter_candidates(
        ROWS,
        judges,
        ["grammaticality"],
        None,
        tmp_path / "cache.sqlite",
        progress_counts.append,
    )
    assert [row.kept for row in rows] == [True, False, True, True, True]
    assert all(
        (row.grammaticality is None) == (row.item_id == "x:toy:1:0") for row in rows
    )


def test_contradiction_is_computed_from_caption_to_foil(
    judges, tmp_path, progress_counts
):
    rows, _ = filter_candidates(
        ROWS,
        judges,
        ["contradiction"],
        0.8,
        tmp_path / "cache.sqlite",
        progress_counts.append,
    )
    relations = infer_relations([(row.caption, row.foil) for row in USABLE], judges.nli)
    for row in rows:
        inference = relations.get((row.caption, row.foil))
        if inference is None:
            assert (row.nli_contradiction, row.rejected) == (None, "not attested")
        else:
            judged_rows = (
                row.nli_entailment,
                row.nli_neutral,
                row.nli_contradiction,
            )
            assert judged_rows == (
                inference.entailment,
                inference.neutral,
                inference.contradiction,
            )
            assert row.rejected == (None if inference.margin > 0 else NO_CONTRADICTION)
    assert all(row.grammaticality is None for row in rows)


def test_ranking_keeps_one_caption_an_image_and_one_wording_an_exchange(
    judges, tmp_path, progress_counts
):
    worded = [candidate(5, "A man throws a ball.", "A man sits a ball.", image="3.png")]
    other = [
        candidate(
            6,
            "A man throws a ball.",
            "A man stands a ball.",
            image="3.png",
            words=("on", "at"),
        )
    ]
    given = [*ROWS, *worded, *other]
    rows, close = filter_candidates(
        given,
        judges,
        ["ranking"],
        None,
        tmp_path / "cache.sqlite",
        progress_counts.append,
    )
    texts = sorted(
        {
            getattr(row, side)
            for row in given
            if row.rejected is None
            for side in ("caption", "foil")
        }
    )
    scores = score_texts(texts, judges.likelihood, judges.acceptability)
    captions = sorted({row.caption for row in USABLE})
    likelihoods = compute_mean_log_likelihoods(
        captions,
        judges.ranking,
        2048,
        tmp_path / "cache.sqlite",
        progress_counts.append,
    )
    by_id = {row.item_id: row for row in rows}
    assert list(by_id) == [row.item_id for row in given]
    for row in rows:
        if row.rejected != "not attested":
            assert row.grammaticality == scores[row.foil]
            assert row.caption_grammaticality == scores[row.caption]
            assert row.caption_perplexity == math.exp(-likelihoods[row.caption].value)
    man, woman = "A man throws a ball.", "A woman throws a ball."
    fluency = {
        text: (scores[text], -math.exp(-likelihoods[text].value))
        for text in (man, woman)
    }
    wins = sum(
        case > two for case, two in zip(fluency[man], fluency[woman], strict=True)
    )
    best = (
        man
        if wins == 2 or (wins == 1 and fluency[man][1] > fluency[woman][1])
        else woman
    )
    lost = {row.item_id for row in rows if row.rejected == READS_WORSE}
    assert lost == {
        row.item_id for row in given if row.image == "3.png" and row.caption != best
    }
    wordings = [row for row in rows if row.rejected == WORDED_WORSE]
    if best == man:
        (worse,) = wordings
        assert worse.item_id == min(
            ("x:toy:3:0", "x:toy:5:0"), key=lambda key: by_id[key].grammaticality
        )
    else:
        assert wordings == []
    assert all(row.kept == (row.rejected is None) for row in rows)
    assert close == []


def test_a_caption_that_the_ranking_model_cannot_read_is_named(
    judges, tmp_path, progress_counts
):
    rows = [candidate(7, "A cat " + "sits on a table " * 20 + ".", "A cat sits.")]
    short = replace(
        judges, likelihood=masked_model(400), acceptability=judges.acceptability
    )
    with pytest.raises(UserError, match=r"x:toy:7:0: its caption cannot be ranked: "):
        filter_candidates(
            rows,
            short,
            ["ranking"],
            None,
            tmp_path / "cache.sqlite",
            progress_counts.append,
        )


def test_a_second_run_reads_what_the_first_stored(judges, tmp_path, progress_counts):
    filters = ["grammaticality", "contradiction", "ranking"]
    cache = tmp_path / "cache.sqlite"
    first = filter_candidates(ROWS, judges, filters, 0.0, cache, progress_counts.append)
    stored = cache.read_bytes()
    assert (
        filter_candidates(
            list(ROWS), judges, filters, 0.0, cache, progress_counts.append
        )
        == first
    )
    assert cache.read_bytes() == stored
    backwards, _ = filter_candidates(
        ROWS[::-1], judges, filters, 0.0, cache, progress_counts.append
    )
    assert backwards[::-1] == first[0]


BOTH = Thresholds(grammaticality=0.8, contradiction=True)
CONTRADICTS, NEUTRAL = Inference(0.1, 0.2, 0.7), Inference(0.1, 0.6, 0.3)


def _row(number, rejected=None):
    return FilteredRecord(
        item_id=f"i{number}",
        instrument="x",
        piece="x",
        source="toy",
        image="1.png",
        caption="c",
        foil=f"f{number}",
        caption_phrases=[],
        foil_phrases=[],
        kept=rejected is None,
        rejected=rejected,
    )


def test_a_candidate_passes_both_filters_or_keeps_the_first_reason():
    rows = [_row(0), _row(1), _row(2), _row(3), _row(4, "not attested")]
    scores = {"f0": 0.9, "f1": 0.7, "f2": 0.95, "f3": 0.1}
    relations = {
        ("c", "f0"): CONTRADICTS,
        ("c", "f1"): CONTRADICTS,
        ("c", "f2"): NEUTRAL,
        ("c", "f3"): NEUTRAL,
    }
    judged_rows, close = apply_thresholds(rows, BOTH, scores, relations)
    below = "grammaticality below 0.8"
    assert [row.rejected for row in judged_rows] == [
        None,
        below,
        "no contradiction",
        below,
        "not attested",
    ]
    assert [row.kept for row in judged_rows] == [True, False, False, False, False]
    assert [row.grammaticality for row in judged_rows] == [0.9, 0.7, 0.95, 0.1, None]
    assert (
        judged_rows[2].nli_entailment,
        judged_rows[2].nli_neutral,
        judged_rows[2].nli_contradiction,
    ) == (
        0.1,
        0.6,
        0.3,
    )
    assert judged_rows[4].nli_contradiction is None
    assert close == []
    assert rows[0] == _row(0)


def test_a_threshold_is_reached_by_its_own_value_and_near_ones_are_listed():
    rows = [_row(0), _row(1), _row(2)]
    scores = {"f0": 0.8, "f1": 0.79995, "f2": 0.8002}
    judged_rows, close = apply_thresholds(rows, Thresholds(grammaticality=0.8), scores)
    assert [row.kept for row in judged_rows] == [True, False, True]
    assert close == [
        CloseVerdict("i0", "grammaticality", value=0.8, threshold=0.8),
        CloseVerdict("i1", "grammaticality", value=0.79995, threshold=0.8),
    ]


def test_a_tie_with_another_relation_is_no_contradiction_and_is_listed():
    tie = Inference(0.25, 0.375, 0.375)
    judged_rows, close = apply_thresholds(
        [_row(0)], Thresholds(contradiction=True), inferences={("c", "f0"): tie}
    )
    assert judged_rows[0].rejected == "no contradiction"
    assert close == [CloseVerdict("i0", "contradiction", value=0.0, threshold=0.0)]


def test_scores_that_are_only_recorded_reject_nothing():
    judged_rows, close = apply_thresholds(
        [_row(0)], Thresholds(), {"f0": 0.0}, {("c", "f0"): NEUTRAL}
    )
    assert (
        judged_rows[0].kept,
        judged_rows[0].grammaticality,
        judged_rows[0].nli_neutral,
        close,
    ) == (
        True,
        0.0,
        0.6,
        [],
    )


def test_a_missing_score_is_no_verdict():
    with pytest.raises(ValueError, match="i0: no grammaticality for 'f0'"):
        apply_thresholds([_row(0)], BOTH, {}, {})
    with pytest.raises(ValueError, match="i0: no contradiction for 'f0'"):
        apply_thresholds([_row(0)], BOTH, {"f0": 0.9}, {})
    # Rejected before the pair was needed.
    judged_rows, _ = apply_thresholds([_row(0)], BOTH, {"f0": 0.1}, {})
    assert judged_rows[0].rejected == "grammaticality below 0.8"


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1), st.floats(0, 1), st.sampled_from([None, "not attested"])
        ),
        max_size=20,
    )
)
def test_a_higher_threshold_keeps_no_more_and_all_rows_stay(drawn):
    rows = [_row(number, rejected) for number, (*_, rejected) in enumerate(drawn)]
    scores = {f"f{number}": score for number, (score, *_) in enumerate(drawn)}
    relations = {
        ("c", f"f{number}"): Inference(0.0, 1 - p, p)
        for number, (_, p, _) in enumerate(drawn)
    }
    counts = []
    for threshold in (0.2, 0.5, 0.8):
        judged_rows, _ = apply_thresholds(
            rows, Thresholds(threshold, contradiction=True), scores, relations
        )
        assert [row.item_id for row in judged_rows] == [row.item_id for row in rows]
        reasons = Counter(row.rejected for row in judged_rows)
        assert reasons.keys() <= {
            None,
            "not attested",
            f"grammaticality below {threshold}",
            "no contradiction",
        }
        counts.append({row.item_id for row in judged_rows if row.kept})
    assert counts[0] >= counts[1] >= counts[2]


@pytest.mark.parametrize(
    ("file", "instrument"), [("plurals", "plurality"), ("relations", "relations")]
)
def test_the_released_scores_pass_the_published_thresholds(
    shared_data, file, instrument
):
    items = read_release(shared_data / "valse" / f"{file}.json", instrument, 2)
    scores = {item.foil: item.grammaticality for item in items}
    relations = {
        (item.caption, item.foil): Inference(
            item.nli_entailment, item.nli_neutral, item.nli_contradiction
        )
        for item in items
    }
    rows = [
        replace(_row(number), caption=item.caption, foil=item.foil)
        for number, item in enumerate(items)
    ]
    judged_rows, _ = apply_thresholds(rows, BOTH, scores, relations)
    assert len(judged_rows) == {"plurality": 1000, "relations": 614}[instrument]
    assert all(row.kept for row in judged_rows)
    stricter, _ = apply_thresholds(
        rows, Thresholds(0.81, contradiction=True), scores, relations
    )
    assert not all(row.kept for row in stricter)
