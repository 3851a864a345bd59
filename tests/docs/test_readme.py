"""The README: its length, and the version of the release."""

import re
from pathlib import Path

import yaml

import waltz

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_has_at_most_two_screens():
    assert len(README.splitlines()) <= 90


def test_the_version_is_that_of_the_changelog_and_the_citation():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\d\S+)", changelog, re.MULTILINE)[1] == waltz.__version__
    assert (
        yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"]
        == waltz.__version__
    )
