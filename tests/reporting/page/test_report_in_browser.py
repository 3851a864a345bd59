"""The report in headless Chromium: what a reader can do with it, and that nothing leaves the file.

`WALTZ_AXE` names the file `axe.min.js` of the npm package axe-core; without it, faults of
accessibility are not looked for.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stand_ins.report_of_two_models import HOSTILE, attribution, items, picture, report
from waltz.instruments import INSTRUMENTS
from waltz.reporting.page.examples import ModelRun, make_browser_data
from waltz.reporting.page.report import ReportInputs, write_report
from waltz.reporting.tables.cells import Cell

pytestmark = pytest.mark.browser

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = os.environ.get("WALTZ_AXE", "")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started.new_context(
            viewport={"width": 1280, "height": 900}, color_scheme="light"
        )
        started.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(folder / "report.html", report(folder))
    return (folder / "report.html").as_uri()


@pytest.fixture
def page(browser, url):
    """Open the page; check afterwards that it sent no request and wrote nothing to the console."""
    tab = browser.new_page()
    tab.set_default_timeout(10_000)
    requests, messages = [], []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("console", lambda message: messages.append(message.text))
    tab.on("pageerror", lambda error: messages.append(str(error)))
    tab.goto(url)
    tab.wait_for_selector("html[data-ready]")
    yield tab
    tab.close()
    assert {
        one.partition("#")[0] for one in requests if not one.startswith("data:")
    } == {url}
    assert messages == []


@pytest.fixture
def opened(page):
    """Open all tables of the page."""
    page.get_by_role("button", name="Open all").click()
    page.wait_for_selector("table.grid")
    return page


def becomes(page, selector, text):
    """Wait until an element has a text; the page's own rules forbid to evaluate code in it."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_text(text)


def numbers(page, selector, count):
    """Wait until there are so many elements."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_count(count)


def loaded(page):
    """Wait until all figures have come."""
    page.wait_for_selector("[data-figure='0'][src^='data:']")
    page.wait_for_selector("[data-figure='1'][src^='data:']")
    return page.evaluate(
        "Promise.all([...document.querySelectorAll('[data-figure]')].map(image => image.decode()))"
    )


def column(page, place, selector="details[data-table] tbody tr:not(.group)"):
    return [
        cell.strip()
        for cell in page.locator(f"{selector} > :nth-child({place})").all_inner_texts()
    ]


def samples(page):
    page.locator("#samples").scroll_into_view_if_needed()
    page.wait_for_selector("#sample h2")
    page.select_option("#s-model", "clip")
    return page


EXTREMES = ["60", "on", "existence,", "50", "on", "plurality"]
"""Words of the best and the worst data set of `llava`."""


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_first_screen_says_what_was_found(page, width, height):
    page.set_viewport_size({"width": width, "height": height})
    heading = page.locator("h1").first
    assert heading.inner_text().startswith(
        "T-SHAP, the text's share of what moves the score, is above the share of players that are text"
    )
    assert page.locator(".findings tbody th b").all_inner_texts() == ["1", "2", "3"]
    assert page.locator(".findings tbody tr").nth(1).inner_text().split() == (
        [
            "2",
            "llava",
            "decoder",
            *EXTREMES,
            "55.0",
            "[45.0,",
            "65.0]",
            "50",
            "74.0",
            "[71.0,",
            "77.0]",
            "0.75†",
            "n",
            "=",
            "1",
        ]
        if width > 400
        else ["2", "llava", *EXTREMES, "55.0", "50", "74.0", "0.75†"]
    )
    for part in (".findings", ".scatter svg", "#typical .map"):
        box = page.locator(part).bounding_box()
        assert box["y"] + box["height"] <= height, part
        assert box["x"] + box["width"] <= width, part
    bar, half = (
        page.locator(f".findings .t-shap {part}").first.bounding_box()
        for part in (".track", ".half")
    )
    assert half["x"] == pytest.approx(bar["x"] + bar["width"] / 2, abs=1)
    assert "clip 67 % at T-SHAP 25 %" in page.get_by_role(
        "img", name="Accuracy against T-SHAP"
    ).get_attribute("aria-label")


def test_an_address_links_to_a_table_or_an_example(page, url):
    page.locator("#samples").scroll_into_view_if_needed()
    page.select_option("#s-model", "clip")
    page.locator("#s-list button", has_text="harmed").click()
    link = page.url
    assert (
        link
        == f"{url}#samples?dataset=existence&model=clip&profile=published&item=existence%3A1"
    )
    page.locator("#metrics-published > summary").click()
    assert page.url == f"{url}#metrics-published"
    for address, shown in (
        (link, "#sample h2"),
        (f"{url}#table-thesis-3.4", "#table-thesis-3\\.4 .grid"),
    ):
        page.goto("about:blank")
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        assert page.locator(shown).is_visible()
    page.goto(link)
    becomes(page, "#sample h2", "existence:1 ✗ wrong")
    assert page.locator("#s-model").input_value() == "clip"
    page.get_by_role("link", name="All numbers of this example").click()
    becomes(page, "#sample h2", "existence:0 ✓ right")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_headings_stop_below_the_bar(page, width, height):
    page.set_viewport_size({"width": width, "height": height})
    for link in page.locator(".top nav a").all()[1:]:
        link.click()
        heading = page.locator(link.get_attribute("href")).locator("h1")
        bar = page.locator(".top").bounding_box()["height"]
        assert heading.bounding_box()["y"] >= bar
        assert (
            page.evaluate("getComputedStyle(document.documentElement).scrollBehavior")
            == "auto"
        )


def test_an_image_is_shown_large_without_its_values(page):
    samples(page)
    page.locator("#sample").get_by_role(
        "button", name="Show the image large"
    ).first.click()
    assert page.locator("#lightbox img").bounding_box()["height"] > 600
    assert page.locator("#lightbox img").get_attribute("alt") == "Image of existence:0"


def test_small_values_have_a_unit_and_none_is_rounded_to_nothing(browser, tmp_path):
    phi = (
        1e-4
        * np.array([0.0, -0.5, 0.1, 0.2, 0.0, 0.0, 0.1, 0.25, -0.125, 0.001, 0.5])[
            :, None
        ]
    )
    run = ModelRun("clip", "existence", attribution=[attribution("existence:0", phi)])
    data = make_browser_data({"existence": items()}, [run], picture, {"existence": 2})
    write_report(tmp_path / "report.html", ReportInputs("small", browser=data))
    tab = browser.new_page()
    tab.goto((tmp_path / "report.html").as_uri())
    assert tab.locator(".token small").all_inner_texts()[:4] == [
        "0",
        "−50",
        "+10",
        "+20",
    ]
    assert "Values in units of 10⁻⁶." in tab.inner_text("#sample .readout")
    assert tab.locator(".labels span").all_inner_texts() == [
        "+25",
        "−13",
        "+1·10⁻⁷",
        "+50",
    ]
    tab.close()


def test_our_values_are_next_to_paper_values_and_are_marked(opened):
    assert column(opened, 1) == ["clip", "mine", "clip"]
    assert column(opened, 2) == ["66.9=66.9", "80.0", "–"]
    assert column(opened, 3) == ["30.0≠56.2", "20.0", ""]


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        ("value", ["66.9=", "80.0", "–"]),
        ("paper_value", ["66.9", "–", "–"]),
        ("difference", ["0.0=", "–", "–"]),
    ],
)
def test_the_switch_shows_ours_print_or_their_difference(opened, view, shown):
    opened.check(f"[name=view][value={view}]")
    assert column(opened, 2) == shown


def test_the_profile_switch_changes_every_table(opened):
    assert opened.locator("#metrics-published").is_visible()
    opened.select_option("#profile", "equations")
    assert column(opened, 2) == ["66.9", "80.0", "–"]
    assert not opened.locator("#metrics-published").is_visible()
    assert opened.locator("#metrics-equations").is_visible()


def test_a_table_of_one_profile_is_shown_whichever_is_chosen(browser, tmp_path):
    numbers = (3.5, 20, 1.0, 6.0, None, None, "", "")
    only = Cell(
        "measures-plausibility", "equations", "share", "", "existence", "", *numbers
    )
    whole = report(tmp_path)
    write_report(tmp_path / "report.html", replace(whole, cells=[*whole.cells, only]))
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    page.get_by_role("button", name="Open all").click()
    table = page.locator("[data-table=measures-plausibility]")
    for profile, noted in (("published", True), ("equations", False)):
        page.select_option("#profile", profile)
        assert table.locator("table.grid").is_visible()
        assert (
            "This table has cells of profile equations only." in table.inner_text()
        ) == noted
    page.close()


def test_a_column_sorts_down_then_up_then_as_in_print(opened):
    button = opened.get_by_role("button", name="plurality")
    results = []
    for _ in range(3):
        button.click()
        results.append(
            (column(opened, 1), button.locator("xpath=..").get_attribute("aria-sort"))
        )
    assert results == [
        (["clip", "mine", "clip"], "descending"),
        (["mine", "clip", "clip"], "ascending"),
        (["clip", "mine", "clip"], "none"),
    ]


def test_a_plain_table_sorts_by_number_not_by_letter(opened):
    rows = "#metrics-published tbody tr"
    opened.locator("#metrics-published").get_by_role(
        "button", name="n", exact=True
    ).click()
    assert column(opened, 2, rows) == ["10", "9"]


def test_a_filter_picks_rows_or_columns_and_says_how_many(opened):
    opened.fill("#filter", "mine")
    becomes(opened, "#filtered", "1 rows and 1 of 1 tables match.")
    assert column(opened, 1) == ["mine"]
    assert not opened.locator("#metrics-published").is_visible()
    opened.fill("#filter", "plurality")
    becomes(opened, "#filtered", "3 rows and 1 of 1 tables match.")
    assert opened.locator("table.grid thead th").all_inner_texts() == [
        "model",
        "plurality",
    ]
    assert column(opened, 2) == ["30.0≠56.2", "20.0"]
    opened.fill("#filter", "no such model")
    opened.wait_for_selector("details[data-table]", state="hidden")
    opened.fill("#filter", "")
    opened.wait_for_selector("#metrics-published", state="visible")
    assert column(opened, 1) == ["clip", "mine", "clip"]


def test_a_verdict_picks_the_rows_that_have_it(opened):
    opened.select_option("#verdict", "no value")
    assert column(opened, 2) == ["–"]
    opened.select_option("#verdict", "differs")
    assert column(opened, 3) == ["30.0≠56.2"]


def test_arrows_move_among_cells_and_the_reason_is_shown(opened):
    first = opened.locator("table.grid td").first
    first.focus()
    detail = opened.locator(".detail")
    assert detail.inner_text().startswith(
        "acc_r · clip · existence: ours 66.9 [65.9, 67.9], n = 100; paper 66.9"
    )
    opened.keyboard.press("ArrowDown")
    assert "mine · existence" in detail.inner_text()
    opened.keyboard.press("ArrowDown")
    assert detail.inner_text().endswith("no value; not run in this study")
    opened.keyboard.press("ArrowUp")
    opened.keyboard.press("ArrowUp")
    opened.keyboard.press("ArrowRight")
    assert "difference −26.2; differs" in detail.inner_text()
    assert opened.locator("table.grid td[tabindex='0']").count() == 1


def test_a_table_is_saved_with_all_its_cells(opened):
    with opened.expect_download() as download:
        opened.get_by_role("button", name="Save as CSV").click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("profile,metric,model")
    assert len(lines) == 11
    assert (
        "published,acc_r,clip,existence,,equal to the paper,,,,66.9,100,65.9,67.9,66.9,0,,,,"
        in lines
    )


def test_best_guessed_and_spread_are_marked_as_in_the_other_forms(browser, tmp_path):
    def cell(metric, model, dataset, value, sd=None, setting="", text=""):
        names = ("thesis-B.1", "published", metric, model, dataset, setting)
        chance = 50.0 if metric == "acc_r" else None
        ends = (None, None) if value is None else (value - 2, value + 2)
        return Cell(
            *names, value, 9, *ends, None, None, "", "", sd=sd, chance=chance, text=text
        )

    of = [
        *(
            cell("acc_r", *given)
            for given in (
                ("a", "x", 60.0, 2.0),
                ("b", "x", 49.0),
                ("a", "average", 61.0),
            )
        ),
        *(
            cell("t_shap_c", model, "x", value)
            for model, value in (("a", 70.0), ("b", 80.0))
        ),
        cell("mm_skew", "a", "average", None, setting="t_shap_c", text="text"),
        Cell(
            "thesis-4.1",
            "published",
            "accuracy",
            "a",
            "vqa",
            "qa",
            9.0,
            9,
            None,
            None,
            None,
            None,
            "",
            "",
        ),
        Cell(
            "thesis-4.1",
            "published",
            "t_shap",
            "a",
            "vqa",
            "qa",
            8.0,
            9,
            None,
            None,
            None,
            None,
            "",
            "",
        ),
        Cell(
            "thesis-4.1",
            "published",
            "p_c",
            "a",
            "vqa",
            "isa",
            7.0,
            9,
            None,
            None,
            None,
            None,
            "",
            "",
        ),
    ]
    write_report(tmp_path / "report.html", ReportInputs("marks", cells=of))
    tab = browser.new_page()
    tab.goto((tmp_path / "report.html").as_uri())
    tab.wait_for_selector("html[data-ready]")
    tab.get_by_role("button", name="Open all").click()
    shares = "#table-thesis-B\\.1"
    tab.wait_for_selector(f"{shares} thead th")  # tables are filled when they open
    assert tab.locator(f"{shares} thead th").all_inner_texts() == [
        "model",
        "x",
        "average",
        "MM skew",
    ]
    assert tab.locator(f"{shares} tr.group").all_inner_texts() == [
        "acc_r (chance 50)",
        "T-SHAP_c",
    ]
    rows = f"{shares} tbody tr:not(.group)"
    assert column(tab, 2, rows) == ["60.0† ± 2.0", "▽49.0†", "70.0†", "80.0†"]
    # Shares have no best, one model neither.
    assert tab.locator(f"{rows} strong").all_inner_texts() == ["60.0"]
    assert column(tab, 4, rows) == ["", "", "text", ""]
    tab.locator(f"{rows} .guessed").hover()
    assert "at or below chance, 50" in tab.inner_text(f"{shares} .detail")
    levels = [
        row.locator("th").all_inner_texts()
        for row in tab.locator("#table-thesis-4\\.1 thead tr").all()
    ]
    assert levels == [
        ["qa", "isa"],
        ["vqa", "vqa"],
        ["model", "accuracy", "T-SHAP", "p_c"],
    ]
    spans = tab.locator("#table-thesis-4\\.1 thead [colspan]").evaluate_all(
        "all => all.map(one => one.colSpan)"
    )
    assert spans == [2, 1, 2, 1]
    tab.fill("#filter", "t-shap")
    numbers(tab, "#table-thesis-4\\.1 thead th", 4)
    tab.close()


def test_samples_are_browsed_by_outcome_model_and_keyboard(page):
    samples(page)
    texts = page.locator("#s-list .clip")
    assert texts.count() == 2
    page.get_by_label("wrong", exact=True).check()
    assert page.locator("#sample h2").inner_text() == "existence:1 ✗ wrong"
    assert page.inner_text("#s-count") == "1 of 2 examples; the data set has 534 items."
    page.get_by_label("all", exact=True).check()
    page.locator("#s-list button").first.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    assert page.locator("#s-list [aria-current=true]").count() == 1
    page.locator("#s-next").click()
    page.locator("#s-next").click()
    before = page.locator("#sample h2").inner_text()
    page.locator("#s-previous").click()
    assert page.locator("#sample h2").inner_text() != before
    page.select_option("#s-profile", "equations")
    assert page.locator("#sample h2").inner_text() == "existence:0"


def test_tokens_and_patches_tell_their_values_by_mouse_and_keyboard(page):
    samples(page)
    page.locator("#s-list button", has_text="sits").click()
    assert page.locator("#sample .token b").all_inner_texts() == [
        "<s>",
        "🐈",
        "A",
        "cat",
        "sit",
        "s",
        ".",
    ]
    assert page.locator("#sample .token.joined b").all_inner_texts() == ["s", "."]
    readout = page.locator("#sample .readout")
    page.locator("#sample .token", has_text="cat").hover()
    assert readout.inner_text() == "“cat”: +0.20, 22.2 % of the text, 11.3 % of all"
    page.locator("#sample .patch").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert (
        readout.inner_text()
        == "Patch in row 2, column 2: +0.50, 57.1 % of the image, 28.2 % of all"
    )
    assert page.locator("#sample .token.against").count() == 1
    page.get_by_label("each modality its own").check()
    assert page.locator("#sample .token small").all_inner_texts() == [
        "0",
        "−56",
        "+11",
        "+22",
        "0",
        "0",
        "+11",
    ]
    assert "T-SHAP 25.0 % text, 75.0 % image" in page.inner_text("#sample")
    page.get_by_text("All values as a table").click()
    numbers(page, "#sample details tbody tr", 11)


def test_a_decoder_shows_output_tokens_tests_and_explanations(page):
    samples(page)
    page.select_option("#s-model", "llava")
    output = page.get_by_label("Output token")
    assert output.locator("option").all_inner_texts() == [
        "mean of ratios",
        "1: A",
        "2: )",
    ]
    output.select_option("2")
    page.locator("#sample .token", has_text="cat").hover()
    assert page.locator("#sample .readout").inner_text().startswith("“cat”: +0.4")
    text = page.inner_text("#sample")
    for part in ("counterfactual edits", "not consistent", "really", "0.75", HOSTILE):
        assert part in text


def test_a_caption_that_holds_a_script_shows_as_text(page):
    samples(page)
    page.locator("#s-list button", has_text="harmed").click()
    assert HOSTILE in page.inner_text("#sample .texts")
    assert page.locator("#sample .texts mark").inner_text() == HOSTILE[4:7]
    assert page.evaluate("window.harmed") is None
    assert page.locator("main script, main img[src='x']").count() == 0


def test_figures_come_when_they_are_near_and_can_be_enlarged(page):
    page.locator("#figures").scroll_into_view_if_needed()
    loaded(page)
    page.get_by_role("button", name="Enlarge: A map").click()
    assert page.locator("#lightbox img").get_attribute("alt") == "A map"
    page.keyboard.press("Escape")
    assert not page.locator("#lightbox").is_visible()


def test_the_theme_follows_the_system_until_it_is_chosen(page):
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(paper)
    assert dark != light
    page.locator("#theme").click()
    assert page.evaluate(paper) == light
    page.locator("#theme").click()
    assert page.evaluate(paper) == dark
    assert page.inner_text("#theme") == "Theme: dark"


def test_print_shows_what_is_open_on_white(page):
    page.locator("#metrics-published > summary").click()
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert (
        page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert page.locator("#metrics-published tbody").first.is_visible()
    assert page.locator("section > details:not([open], .table):visible").count() == 0
    assert not page.locator("#samples").is_visible()
    assert not page.locator("#table-controls").is_visible()
    loaded(page)


@pytest.mark.parametrize("width", [390, 1440])
def test_links_of_the_bar_are_in_sight_and_named_like_their_sections(page, width):
    page.set_viewport_size({"width": width, "height": 844})
    for link in page.locator(".top nav a").all():
        box = link.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        link.click()
        becomes(page, ".top nav a[aria-current]", link.inner_text())
        section = link.get_attribute("href")
        if section != "#results":
            assert page.locator(f"{section} h1").inner_text() == link.inner_text()
    page.evaluate("history.replaceState(null, '', '#'); scrollTo(0, 1e6)")
    becomes(page, ".top nav a[aria-current]", "What was run")


def test_the_first_tab_skips_to_the_report(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_but_wide_tables_scrolls_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    samples(page)
    page.evaluate(
        "document.querySelectorAll('details').forEach(details => { details.open = true; })"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width


BROKEN_WORDS = r"""() => {
    const broken = [];
    for (const cell of document.querySelectorAll("table th, table td")) {
        if (!cell.getBoundingClientRect().width) continue;
        const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            for (const word of walker.currentNode.data.matchAll(/[A-Za-z0-9]{2,12}/g)) {
                const range = document.createRange();
                range.setStart(walker.currentNode, word.index);
                range.setEnd(walker.currentNode, word.index + word[0].length);
                const lines = new Set([...range.getClientRects()].map(line => Math.round(line.top)));
                if (lines.size > 1) broken.push(word[0]);
            }
        }
    }
    return broken;
}"""
"""Words of cells that are broken between letters."""


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_word_of_a_wide_table_is_broken(browser, tmp_path, width):
    cells = [
        Cell(
            "thesis-4.2",
            "published",
            metric,
            model,
            dataset,
            "",
            54.5,
            9,
            40.1,
            60.2,
            None,
            None,
            "",
            "",
        )
        for metric in ("acc_r", "t_shap_c")
        for model in ("scenes-clip", "scenes-matcher", "ruler-25")
        for dataset in (*INSTRUMENTS, "average")
    ]
    write_report(tmp_path / "report.html", replace(report(tmp_path), cells=cells))
    tab = browser.new_page()
    tab.set_viewport_size({"width": width, "height": 844})
    tab.goto((tmp_path / "report.html").as_uri())
    tab.wait_for_selector("html[data-ready]")
    tab.evaluate(
        "document.querySelectorAll('details').forEach(details => { details.open = true; })"
    )
    tab.wait_for_selector("table.grid")
    broken = tab.evaluate(BROKEN_WORDS)
    tab.close()
    assert broken == []


@pytest.mark.skipif(
    not Path(AXE).is_file(),
    reason="axe-core is not here: set WALTZ_AXE to its axe.min.js",
)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_axe_finds_no_serious_fault(page, width, scheme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    samples(page)
    page.select_option("#s-model", "llava")
    page.evaluate(
        "document.querySelectorAll('details').forEach(details => { details.open = true; })"
    )
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))
    axe_report = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    faults = [
        (fault["id"], [node["html"] for node in fault["nodes"]])
        for fault in axe_report["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
    assert faults == []
    assert len(axe_report["passes"]) > 20
