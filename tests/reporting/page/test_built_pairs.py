"""First screen of a study that builds pairs and has no results of models."""

from waltz.benchmark.items import NOT_SELECTED
from waltz.core.schema import FunnelRecord, ItemRecord, ReasonCount, StoredSpan
from waltz.reporting.page.built_pairs import choose_shown_pairs, describe_built_pairs
from waltz.reporting.page.example_items import describe_pair
from waltz.reporting.page.examples import make_browser_data
from waltz.reporting.page.report import ReportInputs, write_report


def build_item(number, valid=None):
    return ItemRecord(
        item_id=f"foil-it:{number}",
        instrument="foil-it",
        piece="nouns",
        source="captions",
        image=f"{number}.png",
        caption="A <cat> sits.",
        foil="A <dog> sits.",
        caption_span=StoredSpan(3, 6),
        foil_span=StoredSpan(3, 6),
        caption_phrases=["cat"],
        foil_phrases=["dog"],
        kept=True,
        valid=valid,
    )


def build_funnel(n_pairs, n_valid=0):
    lost = [ReasonCount(NOT_SELECTED, 5), ReasonCount("the noun is a name", 7)]
    waiting = [ReasonCount("nobody voted", n_pairs - n_valid)]
    steps = (
        ("candidates", 12 + n_pairs, []),
        ("balanced", n_pairs, lost),
        ("valid", n_valid, [] if n_valid else waiting),
    )
    return [
        FunnelRecord(instrument="foil-it", step=step, count=count, lost=reasons)
        for step, count, reasons in steps
    ]


def test_what_was_built_and_lost_is_said_with_what_nobody_checked():
    items = {"foil-it": [build_item(number) for number in range(2)]}
    built = describe_built_pairs(
        "build-zoo", build_funnel(2), items, {"foil-it": ["grammaticality"]}
    )
    assert built.heading.startswith("2 pairs of a caption and a foil were built")
    (kind,) = built.kinds
    assert (kind.n_candidates, kind.n_pairs, kind.n_valid) == (14, 2, None)
    # The largest loss first, and no word that only the code explains.
    assert kind.losses[0] == ("the noun is a name", 7)
    assert kind.losses[1][0].startswith("not chosen: ")
    # "cat" stands in captions alone, so a judge that saw no image is always right.
    assert kind.told_by_words.value == 100
    assert "No model judged whether it contradicts its caption." in built.unchecked
    assert any(sentence.startswith("Nobody ") for sentence in built.unchecked)
    commands = [command for _, command in built.commands]
    assert commands[-1] == "waltz eval --model ID_OR_FOLDER --on build-zoo"
    assert "results/build-zoo/benchmark/foil-it.parquet" in commands[0]


def test_votes_are_counted_and_ask_for_no_judges():
    items = {"foil-it": [build_item(0, valid=True), build_item(1, valid=False)]}
    filters = {"foil-it": ["grammaticality", "contradiction"]}
    built = describe_built_pairs("zoo", build_funnel(2, 1), items, filters)
    assert built.kinds[0].n_valid == 1
    assert built.unchecked == [
        "The rules that make foils read the caption alone, never the image."
    ]
    # The file of a study that waltz build did not write may lie anywhere.
    assert built.commands == []


def test_the_page_shows_ten_pairs_with_their_exchanged_words(tmp_path):
    items = [build_item(number) for number in range(12)]
    examples = {"foil-it": list(map(describe_pair, items))}
    browser = make_browser_data(
        examples, [], lambda _, name: (f"data:{name}", ""), {"foil-it": 12}
    )
    assert len(choose_shown_pairs(browser["items"])) == 10
    built = describe_built_pairs(
        "build-zoo", build_funnel(12), {"foil-it": items}, {"foil-it": []}
    )
    report = ReportInputs("build-zoo", browser=browser, built_pairs=built)
    write_report(tmp_path / "report.html", report)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count('<img src="data:') == 10
    assert "A &lt;<mark>cat</mark>&gt; sits." in page
    # There is nothing to browse without models, and no legend of models.
    assert 'id="samples"' not in page
    assert "T-SHAP" not in page.partition("<script")[0]
