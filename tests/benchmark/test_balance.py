"""Selections whose captions and foils use words equally often."""

import importlib.util
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT
from stand_ins.records import build_candidates
from waltz.benchmark.balance import BalanceLimits, find_lowest_cap, select_balanced
from waltz.benchmark.statistics import compute_jensen_shannon
from waltz.core.errors import UserError
from waltz.core.sampling import rank, sample
from waltz.sources.formats.coco import read_captions


def candidate(number, caption, foil, source_id=None, direction="swap"):
    columns = {
        "item_id": f"toy:{number}",
        "image": "i",
        "instrument": "toy",
        "source": "toy",
        "source_id": str(number) if source_id is None else source_id,
        "direction": direction,
        "caption_phrases": [caption],
        "foil_phrases": [foil],
    }
    (record,) = build_candidates([columns])
    return record


def select_rows(rows, limits, seed=3):
    ids = select_balanced(rows, limits, seed)
    return [row for row in rows if row.item_id in ids]


def test_a_circulation_keeps_cycles_and_drops_swaps_that_nothing_reverses():
    # on → in → under → on is a cycle of three, on → by leads nowhere
    rows = [
        candidate(0, "on", "in"),
        candidate(1, "in", "under"),
        candidate(2, "under", "on"),
        candidate(3, "on", "by"),
    ]
    assert select_balanced(rows, BalanceLimits(js=0), 3) == {"toy:0", "toy:1", "toy:2"}


def test_a_size_that_cuts_a_cycle_gives_whole_items():
    # The linear program would select two thirds of each item.
    rows = [
        candidate(0, "on", "in"),
        candidate(1, "in", "under"),
        candidate(2, "under", "on"),
    ]
    assert select_balanced(rows, BalanceLimits(js=0, size=2), 3) == set()


def test_a_source_row_is_used_once():
    # rows 0 and 1 are two foils of one caption; only the second has a swap that inserts its removed
    # word again
    rows = [
        candidate(0, "on", "by", "a"),
        candidate(1, "on", "in", "a"),
        candidate(2, "in", "on", "b"),
    ]
    assert select_balanced(rows, BalanceLimits(js=0), 3) == {"toy:1", "toy:2"}
    assert len(select_balanced(rows, BalanceLimits(), 3)) == 2


@pytest.mark.parametrize("seed", range(4))
def test_of_equally_good_candidates_those_of_the_highest_rank_are_selected(seed):
    rows = [candidate(n, "on", "in", str(n % 5)) for n in range(20)]

    def rank_of(row):
        return rank(row.item_id, seed)

    best = {max(rows[source::5], key=rank_of).item_id for source in range(5)}
    assert select_balanced(rows, BalanceLimits(), seed) == best
    # but never at the cost of an item: on → in and in → on of the second row, or the first row
    # alone
    rows = [candidate(n, "on", "by", "a") for n in range(9)] + [
        candidate(9, "on", "in", "a"),
        candidate(10, "in", "on"),
    ]
    assert select_balanced(rows, BalanceLimits(js=0), seed) == {"toy:9", "toy:10"}


def test_candidates_are_added_to_the_circulation_up_to_the_distance_limit():
    rows = [candidate(n, "on", "in") for n in range(10)] + [
        candidate(n, "in", "on") for n in range(10, 18)
    ]
    # 8 of each kind balance; with one and two more on → in the distances are those of (9, 8) and (10, 8) of n
    one_more = compute_jensen_shannon([*rows[:9], *rows[10:]])
    two_more = compute_jensen_shannon(rows)
    assert 0 < one_more < two_more
    assert len(select_balanced(rows, BalanceLimits(js=0, size=20), 3)) == 16
    assert (
        len(
            select_balanced(
                rows, BalanceLimits(js=(one_more + two_more) / 2, size=20), 3
            )
        )
        == 17
    )
    assert (
        len(select_balanced(rows, BalanceLimits(js=two_more + 1e-9, size=20), 3)) == 18
    )
    assert (
        len(select_balanced(rows, BalanceLimits(js=two_more + 1e-9, size=17), 3)) == 17
    )


def test_caps_and_halves():
    rows = [candidate(n, "1", str(2 + n % 2), direction="a") for n in range(6)]
    rows += [candidate(n, "2", "1", direction="b") for n in range(6, 8)]
    selected = select_rows(rows, BalanceLimits(cap=3))
    assert Counter(row.caption_phrases[0] for row in selected) == {"1": 3, "2": 2}
    selected = select_rows(rows, BalanceLimits(foil_cap=1))
    assert Counter(row.foil_phrases[0] for row in selected) == {
        "1": 1,
        "2": 1,
        "3": 1,
    }
    selected = select_rows(rows, BalanceLimits(halves=True))
    assert Counter(row.direction for row in selected) == {"a": 2, "b": 2}


def test_candidates_that_are_added_to_a_circulation_stay_within_caps():
    # the circulation has two swaps from "on" and two back; all others come after it, whatever the
    # distance
    rows = [candidate(n, "on", "in") for n in range(4)] + [
        candidate(n, "on", "by") for n in range(4, 8)
    ]
    rows += [candidate(8, "in", "on"), candidate(9, "by", "on")]
    selected = select_rows(rows, BalanceLimits(js=1, cap=3))
    assert Counter(row.caption_phrases[0] for row in selected) == {
        "on": 3,
        "in": 1,
        "by": 1,
    }
    selected = select_rows(rows, BalanceLimits(js=1, foil_cap=3))
    assert Counter(row.foil_phrases[0] for row in selected) == {
        "in": 3,
        "by": 3,
        "on": 2,
    }
    # an item that exchanges a phrase twice counts twice, as it does in the circulation
    twice = [
        replace(
            row,
            caption_phrases=2 * row.caption_phrases,
            foil_phrases=2 * row.foil_phrases,
        )
        for row in rows
    ]
    assert len(select_rows(twice, BalanceLimits(js=1, cap=7))) == 3 + 2
    assert len(select_rows(twice, BalanceLimits(js=1, foil_cap=7))) == 3 + 3 + 2


def test_halves_of_one_direction_are_refused_with_counts():
    rows = [candidate(n, "1", "2", direction="a") for n in range(20)]
    with pytest.raises(
        UserError, match=r"one direction \(got 20 of 'a' and none of another"
    ):
        select_rows(rows, BalanceLimits(halves=True, size=10))


def test_the_lowest_cap_that_reaches_a_size():
    rows = [candidate(n, "1", "2") for n in range(5)] + [
        candidate(n, "2", "1") for n in range(5, 7)
    ]
    assert find_lowest_cap(rows, "caption", 4) == 2  # 2 + 2
    assert find_lowest_cap(rows, "caption", 5) == 3  # 3 + 2
    assert find_lowest_cap(rows, "caption", 50) == 5


def test_no_candidates_give_no_items():
    assert select_balanced([], BalanceLimits(js=0, size=3), 1) == set()


def test_sides_of_different_length_are_refused():
    row = replace(candidate(0, "0", "1"), foil_phrases=["1", "2"])
    with pytest.raises(ValueError, match="toy:0"):
        select_balanced([row], BalanceLimits(js=0), 1)


words = st.sampled_from("abcde")
swaps = st.lists(
    st.tuples(words, words, st.integers(0, 12)).filter(lambda swap: swap[0] != swap[1]),
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(swaps, st.sampled_from([0.0, 0.1, 0.4]), st.integers(1, 20), st.randoms())
def test_a_selection_keeps_its_limits_in_any_order_of_rows(swap_list, js, size, rng):
    rows = [
        candidate(n, caption, foil, str(source))
        for n, (caption, foil, source) in enumerate(swap_list)
    ]
    limits = BalanceLimits(size=size, js=js)
    selected = select_rows(rows, limits)
    assert len(selected) <= size
    assert len({row.source_id for row in selected}) == len(selected)
    assert not selected or compute_jensen_shannon(selected) <= js + 1e-9
    shuffled = rng.sample(rows, len(rows))
    assert select_balanced(shuffled, limits, 3) == {row.item_id for row in selected}


@settings(max_examples=25, deadline=None)
@given(swaps)
def test_a_circulation_is_at_least_as_large_as_the_mirrored_swaps(swap_list):
    rows = [
        candidate(n, caption, foil) for n, (caption, foil, _) in enumerate(swap_list)
    ]
    counts = Counter((caption, foil) for caption, foil, _ in swap_list)
    mirrored = sum(
        min(number, counts[foil, caption]) for (caption, foil), number in counts.items()
    )
    assert len(select_balanced(rows, BalanceLimits(js=0), 3)) >= mirrored


@settings(max_examples=25, deadline=None)
@given(swaps, st.sampled_from([0.2, 0.5, 0.8]))
def test_each_added_candidate_raises_the_distance_least(swap_list, js):
    rows = [
        candidate(n, caption, foil) for n, (caption, foil, _) in enumerate(swap_list)
    ]
    selected = select_rows(rows, BalanceLimits(js=0))
    left = [row for row in rows if row not in selected]

    def read_swap(row):
        return row.caption_phrases, row.foil_phrases

    while left:
        # Rounded, since equal distances are decided by the letters of the phrases.
        distance, _, _, best = min(
            (
                round(compute_jensen_shannon([*selected, row]), 9),
                read_swap(row),
                rank(row.item_id, 3),
                row.item_id,
            )
            for row in left
        )
        if distance > js:
            break
        selected += [row for row in left if row.item_id == best]
        left = [row for row in left if row.item_id != best]
    balanced = select_rows(rows, BalanceLimits(js=js))
    assert {row.item_id for row in balanced} == {row.item_id for row in selected}


SIZES = {"plurality": 120, "relations": 100}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(
        "balance_coco", ROOT / "benchmarks" / "balance_coco.py"
    )
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.fixture(scope="module")
def candidates(shared_data, script):
    file = shared_data / "coco_captions" / "captions_val2017.json"
    rows = list(read_captions(file, "coco", None))
    sampled_ids = set(sample([row.source_id for row in rows], 600, 5))
    return script.candidates(
        [row for row in rows if row.source_id in sampled_ids], 400, 4, 5
    )


@pytest.mark.corpora
@pytest.mark.parametrize("instrument", SIZES)
def test_the_published_distance_is_reached_at_a_tenth_of_the_size(
    script, candidates, instrument
):
    rows, (_, paper_value) = candidates[instrument], script.PAPER_VALUES[instrument]
    count, distance, _ = script.measured(rows, SIZES[instrument], paper_value, 5)
    assert count == SIZES[instrument]
    assert distance <= paper_value
    images = {row.image for row in rows}
    assert len(images) > SIZES[instrument]
    assert len({row.item_id for row in rows}) == len(rows)


@pytest.mark.corpora
def test_relations_come_from_the_captions(candidates):
    assert all(
        row.caption_phrases != row.foil_phrases for row in candidates["relations"]
    )
    counts = {
        phrase: 0 for row in candidates["relations"] for phrase in row.foil_phrases
    }
    for row in candidates["relations"]:
        counts[row.foil_phrases[0]] += 1
    assert max(counts, key=counts.get) in {"of", "on", "in", "with"}


@pytest.mark.parametrize(
    "limits", [BalanceLimits(js=1, cap=3), BalanceLimits(js=1, foil_cap=3)]
)
def test_candidates_that_are_added_to_the_balanced_ones_keep_the_cap(limits):
    # nothing inserts "a" or removes "b", so that every candidate is added after the circulation,
    # which is empty
    rows = [candidate(number, "a", "b") for number in range(10)]
    assert len(select_balanced(rows, limits, seed=0)) == 3
