"""The snippets of the how-to pages: studies are valid, entries are tables, and code runs."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from waltz.plan.read_study import merge_study, read_study
from waltz.plan.study import Study
from waltz.plan.table_entries import read_tables_file
from waltz.reporting.tables.declarations import build_declaration

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"
BLOCK = re.compile(r"^(?:> )?```(\w+)\n(.*?)^(?:> )?```$", re.MULTILINE | re.DOTALL)
COMMIT = re.compile(r"<[\w ]*commit[\w ]*>")
REGISTERED_NAMES = {"colors": "plurality", "accuracy-and-share": "thesis-A.2"}
"""Registered names in place of an instrument and a table that readers add themselves."""
PROGRAM = re.compile(r'python -c "\n(.*)"', re.DOTALL)


def list_snippets(page: str, language: str) -> list[str]:
    """Return the blocks of a how-to page in a language, in order."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return [
        re.sub("(?m)^> ?", "", body)
        for name, body in BLOCK.findall(text)
        if name == language
    ]


def list_study_parts():
    """Return the YAML blocks that are parts of a study, each as a parameter of a test."""
    parts = []
    for page in sorted(PAGES.glob("*.md")):
        for number, snippet in enumerate(list_snippets(page.name, "yaml")):
            filled = COMMIT.sub(40 * "c", snippet)
            for own_name, registered_name in REGISTERED_NAMES.items():
                filled = filled.replace(own_name, registered_name)
            part = yaml.safe_load(filled)
            if part.keys() <= Study.model_fields.keys() | {"extends"}:
                parts.append(pytest.param(part, id=f"{page.stem}-{number}"))
    return parts


@pytest.mark.parametrize("part", list_study_parts())
def test_a_part_of_a_study_is_valid_in_the_study_valse(part):
    is_whole = "study" in part and "extends" not in part
    base = {} if is_whole else {"study": "own", "extends": "valse"}
    read_study(merge_study({**base, **part}, ROOT / "config"))


def test_the_data_set_of_the_page_joins_those_of_the_extended_study():
    (part,) = list_snippets("adding-a-dataset.md", "yaml")
    study = read_study(merge_study(yaml.safe_load(part), ROOT / "config"))
    assert study.groups["zoo"] == ["zoo-pairs"]
    assert study.evaluation.groups == ["valse", "zoo"]


def test_the_tables_of_the_page_are_declared_with_their_sources():
    entries = dict(read_tables_file()["tables"])
    own = {}
    for snippet in list_snippets("add-a-table.md", "yaml"):
        block = yaml.safe_load(snippet)
        if "reporting" not in block:
            own |= block
    declared = {name: build_declaration(name, entries | own) for name in own}
    metrics = {name: list(table.sources) for name, table in declared.items()}
    assert metrics == {
        "accuracy-and-share": ["acc_r", "t_shap_c"],
        "auroc-on-valse": ["auroc"],
    }


def test_the_instrument_of_the_page_is_made_and_tested(monkeypatch, capsys):
    maker, _, test = list_snippets("add-an-instrument.md", "python")
    module = ModuleType("waltz.foils.colors")
    exec(maker, module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    shell = list_snippets("add-an-instrument.md", "bash")[0]
    exec(PROGRAM.search(shell)[1], {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("(")[0] for line in lines] == 6 * ["Candidate"] + ["Refusal"]
    namespace = {}
    exec(test, namespace)
    namespace["test_a_color_is_replaced_by_each_other_color"]()
