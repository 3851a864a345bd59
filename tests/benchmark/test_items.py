from collections import Counter

import pandas as pd

from waltz.benchmark.balance import BalanceLimits
from waltz.benchmark.items import NOT_SELECTED, build_items, select_candidates
from waltz.benchmark.statistics import count_funnel, find_lost_step
from waltz.benchmark.votes import ItemVotes
from waltz.core.schema import FilteredRecord, ReasonCount
from waltz.filters.pipeline import find_worse_wordings, select_best_captions


def record(*arguments, **columns):
    return FilteredRecord(**row(*arguments, **columns))


def row(number, caption="on", foil="in", selected=True, rejected=None):
    return {
        "item_id": f"relations:toy:{number}:0",
        "instrument": "relations",
        "piece": "relations",
        "source": "toy",
        "source_id": str(number),
        "split": None,
        "image": f"{number}.png",
        "caption": f"A cat {caption} a mat.",
        "foil": f"A cat {foil} a mat.",
        "caption_span": None,
        "foil_span": None,
        "caption_phrases": [caption],
        "foil_phrases": [foil],
        "direction": "preposition",
        "proposal_rank": 0,
        "proposal_score": 1.0,
        "grammaticality": 0.9,
        "caption_grammaticality": None,
        "caption_perplexity": None,
        "nli_entailment": None,
        "nli_neutral": None,
        "nli_contradiction": None,
        "kept": selected,
        "rejected": rejected,
    }


ROWS = [
    record(0),
    record(1),
    record(2, "in", "on"),
    record(3, selected=False, rejected="not attested in the captions"),
    record(4, selected=False, rejected="grammaticality below 0.8"),
    record(5, selected=False, rejected="no contradiction"),
]


def test_selection_keeps_every_row_with_its_reason():
    rows_after = select_candidates(ROWS, BalanceLimits(js=0), 1)
    assert [entry.item_id for entry in rows_after] == [entry.item_id for entry in ROWS]
    assert Counter(entry.rejected for entry in rows_after) == {
        None: 2,
        NOT_SELECTED: 1,
        "not attested in the captions": 1,
        "grammaticality below 0.8": 1,
        "no contradiction": 1,
    }
    assert [entry.kept for entry in rows_after] == [
        entry.rejected is None for entry in rows_after
    ]


def test_even_caps_follow_from_the_size():
    rows = [record(n, "1", "2") for n in range(5)] + [
        record(n, "2", "1") for n in range(5, 7)
    ]
    rows_after = select_candidates(rows, BalanceLimits(size=4, cap="even"), 1)
    assert Counter(entry.caption_phrases[0] for entry in rows_after if entry.kept) == {
        "1": 2,
        "2": 2,
    }


def test_items_have_votes_or_null():
    rows_after = select_candidates(ROWS, BalanceLimits(js=0), 1)
    selected_ids = [entry.item_id for entry in rows_after if entry.kept]
    votes = {
        selected_ids[0]: ItemVotes(caption=3, foil=0, other=0, valid=True),
    }
    voted, unvoted = build_items(rows_after, votes, "people")
    assert (voted.voter, voted.votes_caption, voted.valid) == (
        "people",
        3,
        True,
    )
    assert (unvoted.voter, unvoted.votes_caption, unvoted.valid) == (
        None,
        None,
        None,
    )


def test_the_funnel_of_six_candidates_worked_by_hand():
    rows_after = select_candidates(ROWS, BalanceLimits(js=0), 1)
    selected_ids = [entry.item_id for entry in rows_after if entry.kept]
    votes = {
        selected_ids[0]: ItemVotes(caption=1, foil=2, other=0, valid=False),
    }
    counts = {
        entry.step: entry
        for entry in count_funnel(
            "relations", rows_after, build_items(rows_after, votes, "people")
        )
    }
    assert {step: entry.count for step, entry in counts.items()} == {
        "candidates": 6,
        "attested": 5,
        "grammatical": 4,
        "contradiction": 3,
        "ranked": 3,
        "balanced": 2,
        "valid": 0,
    }
    assert counts["attested"].lost == [ReasonCount("not attested in the captions", 1)]
    assert counts["ranked"].lost == []
    assert counts["valid"].lost == [
        ReasonCount("nobody voted", 1),
        ReasonCount("too few votes for the caption", 1),
    ]


def test_reasons_of_an_instrument_belong_to_the_first_step():
    assert find_lost_step("the same words") == "attested"
    assert find_lost_step("another caption of the image reads better") == "ranked"


def test_the_best_caption_has_the_lowest_sum_of_ranks():
    def scored(image, caption, grammaticality, perplexity):
        return {
            "image": image,
            "caption": caption,
            "caption_grammaticality": grammaticality,
            "caption_perplexity": perplexity,
        }

    rows = [
        scored("x", "a", 0.9, 30.0),  # ranks 0 + 2
        scored("x", "b", 0.8, 10.0),  # ranks 1 + 0: best
        scored("x", "c", 0.7, 20.0),  # ranks 2 + 1
        # Ranks 0 + 1, equal to e's, whose perplexity is lower.
        scored("y", "d", 0.9, 20.0),
        scored("y", "e", 0.8, 10.0),
    ]
    best = select_best_captions(pd.DataFrame(rows))
    assert best.to_dict() == {"x": "b", "y": "e"}


def test_the_most_grammatical_wording_of_a_foil_stays():
    def worded(number, foil, grammaticality, phrases=("cat", "mat")):
        base = row(number) | {
            "image": "x",
            "caption": "A cat likes a mat.",
            "foil": foil,
        }
        return base | {"grammaticality": grammaticality, "foil_phrases": list(phrases)}

    rows = [
        worded(0, "A mat likes a cat.", 0.9),
        worded(1, "A mat likes at a cat.", 0.4),
        worded(2, "A mat likes a dog.", 0.2, ("dog", "mat")),
    ]
    assert find_worse_wordings(pd.DataFrame(rows)) == {"relations:toy:1:0"}
