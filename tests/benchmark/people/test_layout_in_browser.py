"""The Mechanical Turk layout, filled with real tasks, in a real browser.

A page holds the layout twice, in frames of 360 and 1280 px as the site shows it in a frame, and
writes into its body what it measures; `chromium --dump-dom` prints that.
"""

import base64
import csv
import html
import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from PIL import Image

from waltz.benchmark.people.platforms import export_tasks
from waltz.benchmark.votes import ANSWERS
from waltz.core.schema import PairRecord, StoredSpan

pytestmark = pytest.mark.browser

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
)
WIDTHS = (360, 1280)
LONG = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenvitrinenschlüssel"
MEASURE = """
<pre id="measured"></pre>
<script>
window.onload = () => {
  const measured = [...document.querySelectorAll('iframe')].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const radios = [...page.querySelectorAll('input[type=radio]')];
    const edge = Math.max(...[...page.querySelectorAll('.task *')].map(part => part.getBoundingClientRect().right));
    return {
      width: root.clientWidth,
      overflow: Math.max(root.scrollWidth, edge) - root.clientWidth,
      texts: [...page.querySelectorAll('.text')].map(part => part.innerText),
      bold: [...page.querySelectorAll('.text b')].map(part => part.innerText),
      weights: [...page.querySelectorAll('.text b')].map(part => page.defaultView.getComputedStyle(part).fontWeight),
      image: page.querySelector('img').naturalWidth,
      alt: page.querySelector('img').alt,
      task: page.querySelector('input[name=task]').value,
      radios: radios.map(radio => {
        radio.focus();
        const focused = page.activeElement === radio;
        radio.labels[0].click();
        return {
          value: radio.value, group: radio.name, label: radio.labels[0].innerText.trim(), labels: radio.labels.length,
          focused, tab: radio.tabIndex, chosen: radio.checked, height: radio.labels[0].getBoundingClientRect().height,
          visible: radio.checkVisibility(),
        };
      }),
      chosen: page.querySelectorAll('input:checked').length,
    };
  });
  document.getElementById('measured').textContent = JSON.stringify(measured);
};
</script>
"""


def _fill(layout, record):
    """Replace each `${column}` of the layout by the column's cell, as the site does."""
    return re.sub(r"\$\{(\w+)\}", lambda match: record[match[1]], layout)


def _item(caption, foil, caption_span, foil_span):
    return PairRecord(
        item_id=caption,
        instrument="relations",
        piece="relations",
        source="scenes",
        image="scene.png",
        caption=caption,
        foil=foil,
        caption_span=StoredSpan(*caption_span),
        foil_span=StoredSpan(*foil_span),
        caption_phrases=(),
        foil_phrases=(),
    )


def _build_pages(tmp_path, item):
    """Return the measuring page and the batch's record."""
    Image.new("RGB", (640, 480), "steelblue").save(tmp_path / "scene.png")
    uri = (
        "data:image/png;base64,"
        + base64.b64encode((tmp_path / "scene.png").read_bytes()).decode()
    )
    export_tasks([replace(item, image=uri)], "mturk", tmp_path, "unused://", seed=1)
    layout = (tmp_path / "relations.html").read_text(encoding="utf-8")
    with (tmp_path / "relations.csv").open(encoding="ascii", newline="") as file:
        (record,) = csv.DictReader(file)
    page = "<!doctype html><meta name=viewport content='width=device-width'>" + _fill(
        layout, record
    )
    frames = "".join(
        f'<iframe width="{width}" height="1200" srcdoc="{html.escape(page)}"></iframe>'
        for width in WIDTHS
    )
    path = tmp_path / "page.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8>{frames}{MEASURE}", encoding="utf-8"
    )
    return path, record


def _measured(tmp_path, page):
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    dom = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--window-size=1800,1400",
            "--virtual-time-budget=5000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    return json.loads(
        html.unescape(re.search(r'<pre id="measured">(.*?)</pre>', dom, re.DOTALL)[1])
    )


def test_a_filled_layout_shows_image_texts_and_five_labeled_answers(tmp_path):
    caption = "A \"cat\" sits <on> the <i>mat</i> &amp; ${first}, 'so' 🐈 é."
    foil = caption.replace("on", "under")
    page, record = _build_pages(tmp_path, _item(caption, foil, (14, 16), (14, 19)))
    for frame, width in zip(_measured(tmp_path, page), WIDTHS, strict=True):
        # Less a scroll bar, where there is one.
        assert width - 20 <= frame["width"] <= width
        assert frame["overflow"] <= 0
        assert sorted(text.split("\n", 1)[1] for text in frame["texts"]) == sorted(
            [caption, foil]
        )
        assert [text.split("\n", 1)[0] for text in frame["texts"]] == [
            "Text 1",
            "Text 2",
        ]
        assert sorted(frame["bold"]) == ["on", "under"]
        assert all(int(weight) >= 600 for weight in frame["weights"])
        assert frame["image"] == 640
        assert frame["alt"]
        assert frame["task"] == record["task"]
        assert [radio["value"] for radio in frame["radios"]] == list(ANSWERS)
        assert {radio["group"] for radio in frame["radios"]} == {"answer"}
        for radio in frame["radios"]:
            assert radio["label"]
            assert radio["labels"] == 1
            assert radio["focused"]
            assert radio["tab"] == 0
            assert radio["chosen"]  # by a click on its label
            assert radio["visible"]
            assert radio["height"] >= 24
        assert frame["chosen"] == 1


def test_nothing_overflows_a_narrow_frame(tmp_path):
    caption = f"{LONG} " + "a long text that goes on " * 40
    foil = f"{LONG[::-1]} " + "a long text that goes on " * 40
    page, _ = _build_pages(
        tmp_path, _item(caption, foil, (0, len(LONG)), (0, len(LONG)))
    )
    assert [frame["overflow"] <= 0 for frame in _measured(tmp_path, page)] == [
        True,
        True,
    ]
