"""The documentation site, built by Sphinx without warnings; its links lead somewhere."""

import importlib.util
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.site

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


class Page(HTMLParser):
    """Links, ids, and files that a browser loads to show the page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.text = file.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.ids.add(attributes.get("id", ""))
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if tag in ("img", "script") and "src" in attributes:
            self.loaded.append(attributes["src"])
        if tag == "link" and attributes.get("rel") == "stylesheet":
            self.loaded.append(attributes["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if importlib.util.find_spec("sphinx") is None:
        pytest.skip("Sphinx is not installed (the extra `docs`)")
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-c",
        "docs",
        ".",
        str(folder),
    ]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {file: Page(file) for file in site.rglob("*.html")}


def test_every_page_is_on_the_site_and_in_its_search(site):
    sources = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "docs").rglob("*.rst"),
        *NOTEBOOKS,
    ]
    names = [source.relative_to(ROOT).with_suffix("").as_posix() for source in sources]
    assert len(names) == len(set(names))
    assert not [name for name in names if not (site / f"{name}.html").is_file()]
    index = json.loads(
        (site / "searchindex.js")
        .read_text()
        .removeprefix("Search.setIndex(")
        .removesuffix(")")
    )
    assert set(names) <= set(index["docnames"])
    assert (site / "index.html").is_file()


def test_links_lead_to_pages_and_headings(pages):
    broken = []
    for file, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "data"):
                continue
            target = (
                (file.parent / unquote(parts.path)).resolve() if parts.path else file
            )
            anchor = unquote(parts.fragment)
            if not target.is_file() or (
                anchor and target in pages and anchor not in pages[target].ids
            ):
                broken.append(f"{file.name}: {link}")
    assert not broken


def test_pages_load_nothing_from_elsewhere(pages):
    assert not [
        link
        for page in pages.values()
        for link in page.loaded
        if urlsplit(link).scheme not in ("", "data")
    ]


def test_the_reference_describes_the_explainer(site):
    page = Page(site / "docs" / "reference" / "api.html")
    assert {
        "waltz.Explainer.explain",
        "waltz.explainer.explanation.Explanation.t_shap",
        "waltz.UserError",
    } <= page.ids
    assert "Maximum number of evaluations for each text or prompt" in page.text
    # Napoleon takes a property's text before a colon for its type.
    assert "Type<span" not in page.text


def test_formulas_are_mathml(site):
    for file in (site / "docs" / "reference" / "metrics").glob("*.html"):
        assert (
            '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'
            in file.read_text()
        ), file.name


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_is_shown_with_its_stored_pictures(site, notebook):
    stored = json.loads(notebook.read_text(encoding="utf-8"))
    outputs = [output for cell in stored["cells"] for output in cell.get("outputs", ())]
    pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    page = Page(site / notebook.relative_to(ROOT).with_suffix(".html"))
    assert sum("/_images/" in link for link in page.loaded) == pictures > 0
