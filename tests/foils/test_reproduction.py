"""Released items that the foiling functions reproduce, and the causes of the others."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from waltz.core.measure import Measure
from waltz.core.schema import MissRecord, ReproductionRecord
from waltz.foils.actant_swap import build_swaps
from waltz.foils.action_replacement import list_replacement_verbs
from waltz.foils.candidates import Refusal, replace_span
from waltz.foils.english.parsing import normalize_caption
from waltz.foils.english.wordnet import read_swig_verbs
from waltz.foils.released_items import (
    ReleasedItem,
    explain_plurality,
    explain_relations,
    read_released_items,
    reproduce_plurality,
    reproduce_relations,
)
from waltz.foils.reproduction import (
    FROM_CAPTIONS,
    FUNCTIONS,
    NO_CAPTIONS,
    NO_INPUTS,
    measure_reproduction,
    render_markdown,
)
from waltz.foils.swig import ActionCaption, build_action_captions
from waltz.instruments import INSTRUMENTS
from waltz.scenes.graph import Graph
from waltz.scenes.lexicon import read_scene_verbs
from waltz.scenes.oracle import decide_truth
from waltz.scenes.sampling import draw_scenes
from waltz.scenes.writers import annotations as written
from waltz.sources.formats.swig import read_frames, read_situation_space

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
"""Percent that is made again at least, of every item, or of every second item made from COCO
captions.
"""

RELEASE = "caption and foil of the release are alike"
COUNTS = {
    "existence": {"the released caption has the wrong article": 2, RELEASE: 1},
    "counting-balanced": {RELEASE: 9, "the numeral is not in the released caption": 0},
    "counting-small": {RELEASE: 0, "the numeral is not in the released caption": 0},
    "counting-adversarial": {
        RELEASE: 0,
        "the numeral is not in the released caption": 0,
    },
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
    read = json.loads(
        (shared_data / "coco_captions" / "captions_val2017.json").read_text(
            encoding="utf-8"
        )
    )
    items = [item for name in FROM_CAPTIONS for item in released(shared_data, name)]
    used = {item.dataset_idx for item in items}
    rows = [(str(row["id"]), row["caption"]) for row in read["annotations"]]
    return {
        key: caption
        for place, (key, caption) in enumerate(rows)
        if place % 10 == 0 or key in used
    }


def released(shared_data, instrument):
    path = shared_data / "valse" / f"{FILES.get(instrument, instrument)}.json"
    items = list(read_released_items(path))
    return items[::2] if instrument in FROM_CAPTIONS else items


LONG = ("plurality", "counting-small", "relations")
"""Instruments whose released items take seconds."""


@pytest.mark.parametrize(
    "instrument",
    [
        pytest.param(name, marks=pytest.mark.corpora if name in LONG else ())
        for name in LEAST
    ],
)
def test_the_released_items_are_reproduced(shared_data, captions, instrument):
    items = released(shared_data, instrument)
    share, missed = measure_reproduction(
        instrument, items, captions if instrument in FROM_CAPTIONS else {}
    )
    result = [miss.cause for miss in missed]
    assert share.n == len(items)
    assert share.value == pytest.approx(100 * (1 - len(missed) / len(items)))
    assert share.value >= LEAST[instrument], result
    assert {
        cause: result.count(cause) for cause in COUNTS.get(instrument, {})
    } == COUNTS.get(instrument, {})
    assert instrument not in CAUSES or set(result) == CAUSES[instrument]
    assert all(cause and not cause[0].isupper() for cause in result)


def test_every_instrument_is_reproduced_or_has_a_reason():
    assert {*FUNCTIONS, *FROM_CAPTIONS, "foil-it"} == set(INSTRUMENTS)
    item = ReleasedItem(item_id="0", caption="a", foil="b")
    share, missed = measure_reproduction("foil-it", [item], {})
    assert (share.value, share.n, share.reason, missed) == (None, 0, NO_INPUTS, [])
    share, _ = measure_reproduction("relations", [item], {})
    assert (share.value, share.reason) == (None, NO_CAPTIONS)


def test_classes_of_every_type_are_read_as_text(tmp_path):
    record = {"caption": "A dog.", "foil": "Dogs.", "classes": 3, "dataset_idx": 7}
    path = tmp_path / "plurals.json"
    path.write_text(json.dumps({"p:1": {**record, "classes_foil": False, "n": [1]}}))
    (item,) = read_released_items(path)
    assert (item.item_id, item.classes, item.classes_foil) == ("p:1", "3", "False")
    assert item.dataset_idx == "7"


def test_two_dialogues_worked_by_hand():
    item = ReleasedItem(
        item_id="0",
        only_caption="a dog",
        caption="a dog. is it wet? yes.",
        foil="A dog.  is it wet?  no",
    )
    changes = {"item_id": "1", "foil": "a cat. is it wet? no."}
    items = [item, item.model_copy(update=changes)]
    share, (miss,) = measure_reproduction("coreference-clean", items, {})
    assert (share.value, share.n) == (50, 2)
    assert (miss.item_id, miss.foil) == ("1", "a cat. is it wet? no.")


def test_the_page_has_shares_and_causes():
    shares = [
        ReproductionRecord(instrument=instrument, metric="x", measure=measure)
        for instrument, measure in (
            ("plurality", Measure(96.25, 80)),
            ("foil-it", Measure(None, 0, reason="no inputs")),
        )
    ]
    missed = [
        MissRecord(
            instrument="plurality",
            item_id=str(number),
            caption=f"c{number} \n",
            foil="f",
            cause=cause,
        )
        for number, cause in enumerate(("rare", "often", "often"))
    ]
    page = render_markdown(shares, missed)
    assert "| plurality | 96.2 % | 80 | 3 |" in page
    assert "| foil-it | no inputs | | |" in page
    assert page.index("- 2: often. “c1” / “f”") < page.index("- 1: rare. “c0” / “f”")
    assert "## foil-it" not in page


STREET = {
    "item_id": "0",
    "classes": "street",
    "classes_foil": "streets",
    "orig_caption": "A bus on the street.",
}


@pytest.mark.parametrize(
    ("caption", "foil", "cause"),
    [
        (
            "A bus on exactly one lane.",
            "A bus on some lanes.",
            "our parse has no such noun phrase",
        ),
        (
            "A bus on exactly one street.",
            "A bus is on some streets.",
            "other verbs change with the noun",
        ),
        (
            "A bus on exactly one street.",
            "A bus on some street.",
            "another form of the noun",
        ),
        (
            "A bus on exactly one street.",
            "A bus on their streets.",
            "other pronouns change with the noun",
        ),
        (
            "A bus on exactly one top of it.",
            "A bus on some tops of it.",
            "the noun is part of a preposition",
        ),
    ],
)
def test_causes_of_plurality(caption: str, foil: str, cause: str):
    candidates = reproduce_plurality("A bus on the street.")
    assert (
        explain_plurality(
            ReleasedItem(**STREET, caption=caption, foil=foil), candidates
        )
        == cause
    )


def test_causes_of_relations():
    item = ReleasedItem(
        item_id="0",
        caption="A bus on the street.",
        foil="A bus amid the street.",
        classes="on",
        classes_foil="amid",
    )
    candidates = reproduce_relations(item.caption, {"on", "in"})
    assert explain_relations(item, candidates) == "not attested in the captions"
    assert (
        explain_relations(item.model_copy(update={"classes": "bus"}), candidates)
        == "our parse has no such prepositions"
    )
    other = item.model_copy(update={"caption": "A bus on a street."})
    assert (
        explain_relations(other, candidates)
        == "the released caption is no longer the COCO caption"
    )


def test_a_caption_in_capitals_is_read_as_a_sentence():
    assert normalize_caption(" tHERE ARE  MANY DONUTS ") == "There are many donuts"
    assert normalize_caption("a TV in Paris\n") == "A TV in Paris"
    assert normalize_caption("") == ""


VERBS = read_swig_verbs()
SEED = 2026


@pytest.fixture(scope="module")
def drawn(
    tmp_path_factory: pytest.TempPathFactory,
) -> list[tuple[Graph, ActionCaption]]:
    """Captions of the frames of the first scenes, once each, with their scenes."""
    folder = tmp_path_factory.mktemp("swig")
    graphs = draw_scenes(160, SEED)
    space = folder / "space.json"
    space.write_text(json.dumps(written.build_verb_space()))
    results: dict[tuple[int, str], tuple[Graph, ActionCaption]] = {}
    for split in written.SWIG_SPLITS:
        path = folder / f"{split}.json"
        path.write_text(json.dumps(written.build_swig(graphs, SEED, split, True)))
        for frame in read_frames(path, read_situation_space(space), "swig", split):
            number = int(frame.image.rsplit("_", 1)[1].removesuffix(".png")) - 1
            for caption in build_action_captions(frame):
                if not isinstance(caption, Refusal):
                    results[number, caption.text] = (graphs[number], caption)
    return list(results.values())


def test_every_caption_of_a_scene_is_true(
    drawn: list[tuple[Graph, ActionCaption]],
) -> None:
    assert len(drawn) > 90
    assert [
        caption.text
        for graph, caption in drawn
        if decide_truth(graph, caption.text) != "true"
    ] == []


def verdicts(pairs: Iterator[tuple[Graph, str]]) -> Counter[str]:
    return Counter(decide_truth(graph, foil) for graph, foil in pairs)


def test_foils_of_scenes_are_false(drawn: list[tuple[Graph, ActionCaption]]) -> None:
    swaps = verdicts(
        (graph, candidate.foil)
        for graph, caption in drawn
        for candidate in build_swaps(caption)
        if candidate.rejected is None
    )
    replacements = verdicts(
        (graph, replace_span(caption.text, caption.verb_span, form)[0])
        for graph, caption in drawn
        for form, name in list_replacement_verbs(caption, VERBS).items()
        if name in read_scene_verbs()
    )
    for results in (swaps, replacements):
        assert results["false"] > 1000
        assert results["false"] / (results["false"] + results["true"]) >= 0.99
