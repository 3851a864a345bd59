"""The documentation: links lead somewhere, the map of modules is that of the code."""

import re
from pathlib import Path

import pytest

from docs import module_map

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def list_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub forms them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_lead_to_files_and_headings(page):
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http:", "https:")):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        if anchor:
            assert anchor in list_anchors(file), link


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text())}
    missing = {page for page in (ROOT / "docs").rglob("*.md") if page != index} - linked
    assert not missing


def test_the_map_of_modules_is_that_of_the_code():
    page = module_map.PAGE.read_text(encoding="utf-8")
    assert module_map.replace_map(page) == page, "run python tests/docs/module_map.py"
