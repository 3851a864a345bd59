"""The release of VALSE is a list of its own: instruments that somebody adds change nothing of the
papers' numbers.
"""

import json
import subprocess
import sys

from waltz.valse_release import PUBLISHED_VALID_ITEMS, RELEASE

ADD_INSTRUMENTS = """
import json
from waltz.instruments import INSTRUMENTS, Instrument

for name in ("colours", "a-first-one", "sizes"):
    INSTRUMENTS[name] = Instrument(piece=name, source_format="coco-captions", maker="waltz.foils.plurality")

from waltz.consistency.edit_tests import tests
from waltz.consistency import metrics
from waltz.core.records import from_row
from waltz.core.schema import ItemRecord
from waltz.evaluation.prompting.questions import count_earlier_draws
from waltz.export.valse_layout import build_valse_records, get_file_name
from waltz.reporting.figures.chart_declarations import CHARTS

metrics.SETTING_OF_TEST["a_test_of_mine"] = "cot"
row = {
    "item_id": "colours:captions:1:0", "instrument": "colours", "piece": "colours", "source": "captions",
    "source_id": "1", "split": "val2017", "image": "1.jpg", "caption": "A red dog.", "foil": "A blue dog.",
    "caption_span": {"start": 2, "end": 5}, "foil_span": {"start": 2, "end": 6}, "caption_phrases": ["red"],
    "foil_phrases": ["blue"], "direction": None, "proposal_rank": None, "proposal_score": None,
    "grammaticality": 0.9, "caption_grammaticality": None, "caption_perplexity": None, "nli_entailment": 0.1,
    "nli_neutral": 0.2, "nli_contradiction": 0.7, "voter": None, "votes_caption": None, "votes_foil": None,
    "votes_other": None, "valid": None, "kept": True, "rejected": None, "release": None, "group": None,
}
cells = {("e-snli", name): 0 for name in metrics.SETTING_OF_TEST}
print(json.dumps({
    "files": [get_file_name(name) for name in ("colours", "sizes", "plurality")],
    "draws": {name: count_earlier_draws(name) for name in ("existence", "counting-small", "relations", "colours")},
    "chart": [part.label for part in CHARTS["thesis-5.3"].rows],
    "record": build_valse_records([from_row(row, ItemRecord)], {}, "", "coco-captions")["colours:captions:1:0"],
    "averaged": sorted(metrics.select_rescaled(cells, "rescaled_tests")),
}))
"""


def test_added_instruments_and_tests_move_nothing_of_the_papers() -> None:
    result = subprocess.run(
        [sys.executable, "-c", ADD_INSTRUMENTS],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(result.stdout)
    assert seen["files"] == ["colours.json", "sizes.json", "plurals.json"]
    assert seen["draws"] == {
        "existence": 943,
        "counting-small": 3167,
        "relations": 4758,
        "colours": 0,
    }
    assert seen["chart"] == [*RELEASE, "average"]
    assert ["e-snli", "a_test_of_mine"] not in seen["averaged"]
    assert len(seen["averaged"]) == 7
    record = seen["record"]
    assert (
        record["dataset"],
        record["linguistic_phenomena"],
        record["mturk"]["caption"],
    ) == (
        "captions",
        "colours",
        None,
    )
    assert (record["classes"], record["classes_foil"]) == ("red", "blue")
    assert (record["grammaticality_scores"], record["nli_scores"]["pred"]) == (
        [0.9],
        ["contradict"],
    )


def test_the_release_has_eleven_instruments_and_the_released_scripts_begin_with_foil_it() -> (
    None
):
    assert len(RELEASE) == len({entry.file for entry in RELEASE.values()}) == 11
    assert list(PUBLISHED_VALID_ITEMS) == [
        "foil-it",
        *(name for name in RELEASE if name != "foil-it"),
    ]
