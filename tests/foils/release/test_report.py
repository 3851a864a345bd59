"""The released benchmark, made again from its inputs."""

import json

import pytest

from waltz.foils.release.report import (
    FROM_CAPTIONS,
    FUNCTIONS,
    NO_CAPTIONS,
    NO_INPUTS,
    measure_reproduction,
    render_markdown,
)
from waltz.instruments import INSTRUMENTS

FILES = {
    "plurality": "plurals",
    "counting-balanced": "counting-hard",
    "counting-small": "counting-small-quant",
    "coreference-clean": "coreference-hard",
}
"""Names of released files that are not their instrument's."""

LEAST = {
    "existence": 99,
    "plurality": 95,
    "counting-balanced": 97.5,
    "counting-small": 97,
    "counting-adversarial": 98,
    "relations": 99,
    "action-replacement": 96,
    "actant-swap": 82,
    "coreference-standard": 100,
    "coreference-clean": 100,
}
"""Percent that is made again at least, of every item, or of every second item made from COCO captions."""

RELEASE = "caption and foil of the release are alike"
COUNTS = {
    "existence": {"the released caption has the wrong article": 2, RELEASE: 1},
    "counting-balanced": {RELEASE: 9, "the numeral is not in the released caption": 0},
    "counting-small": {RELEASE: 0, "the numeral is not in the released caption": 0},
    "counting-adversarial": {RELEASE: 0, "the numeral is not in the released caption": 0},
    "action-replacement": {"the release misspells the verb of the foil": 19},
    "actant-swap": {"the released foil is the caption": 14},
}
"""How often a cause keeps items away."""

CAUSES = {
    "action-replacement": {
        "the release misspells the verb of the foil",
        "the verb of the release does not agree with its subject",
        "the release changes the preposition as well",
    },
    "actant-swap": {
        "an article that is not tried",
        "a preposition not tried",
        "the release treats the noun as a plural",
        "refused: the verb is true both ways",
        "the released foil is the caption",
        "the caption does not begin with the one filler and end with the other",
        "the release words a filler otherwise",
        "the release misspells the verb",
    },
}
"""All causes of an instrument's misses."""


@pytest.fixture(scope="module")
def captions(shared_data):
    """COCO captions by id: a tenth of them all, and all that released items were made from."""
    read = json.loads((shared_data / "coco_captions" / "captions_val2017.json").read_text(encoding="utf-8"))
    items = [item for name in FROM_CAPTIONS for item in released(shared_data, name)]
    used = {str(item["dataset_idx"]) for item in items}
    rows = [(str(row["id"]), row["caption"]) for row in read["annotations"]]
    return {key: caption for place, (key, caption) in enumerate(rows) if place % 10 == 0 or key in used}


def released(shared_data, instrument):
    path = shared_data / "valse" / f"{FILES.get(instrument, instrument)}.json"
    items = [{"id": key, **item} for key, item in json.loads(path.read_text(encoding="utf-8")).items()]
    return items[::2] if instrument in FROM_CAPTIONS else items


@pytest.mark.parametrize("instrument", LEAST)
def test_the_released_items_are_made_again(shared_data, captions, instrument):
    items = released(shared_data, instrument)
    share, missed = measure_reproduction(instrument, items, captions if instrument in FROM_CAPTIONS else {})
    result = [miss.cause for miss in missed]
    assert share.n == len(items)
    assert share.value == pytest.approx(100 * (1 - len(missed) / len(items)))
    assert share.value >= LEAST[instrument], result
    assert {cause: result.count(cause) for cause in COUNTS.get(instrument, {})} == COUNTS.get(instrument, {})
    assert instrument not in CAUSES or set(result) == CAUSES[instrument]
    assert all(cause and not cause[0].isupper() for cause in result)


def test_every_instrument_is_made_again_or_says_why_not():
    assert {*FUNCTIONS, *FROM_CAPTIONS, "foil-it"} == set(INSTRUMENTS)
    share, missed = measure_reproduction("foil-it", [{"id": "0"}], {})
    assert (share.value, share.n, share.reason, missed) == (None, 0, NO_INPUTS, [])
    share, _ = measure_reproduction("relations", [{"id": "0"}], {})
    assert (share.value, share.reason) == (None, NO_CAPTIONS)


def test_two_dialogues_worked_by_hand():
    made = {"only_caption": "a dog", "caption": "a dog. is it wet? yes.", "foil": "A dog.  is it wet?  no"}
    items = [{"id": "0", **made}, {"id": "1", **made, "foil": "a cat. is it wet? no."}]
    share, (miss,) = measure_reproduction("coreference-clean", items, {})
    assert (share.value, share.n) == (50, 2)
    assert (miss.item_id, miss.foil) == ("1", "a cat. is it wet? no.")


def test_the_page_has_shares_and_causes():
    shares = [
        {"instrument": "plurality", "value": 96.25, "n": 80, "reason": None},
        {"instrument": "foil-it", "value": None, "n": 0, "reason": "no inputs"},
    ]
    missed = [
        {"instrument": "plurality", "item_id": str(number), "caption": f"c{number} \n", "foil": "f", "cause": cause}
        for number, cause in enumerate(("rare", "often", "often"))
    ]
    page = render_markdown(shares, missed)
    assert "| plurality | 96.2 % | 80 | 3 |" in page
    assert "| foil-it | no inputs | | |" in page
    assert page.index("- 2: often. “c1” / “f”") < page.index("- 1: rare. “c0” / “f”")
    assert "## foil-it" not in page
