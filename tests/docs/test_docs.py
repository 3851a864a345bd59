"""The documentation: links, paths and module names exist, the map of modules is that of the code."""

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from docs import module_map
from waltz import LAZY_NAMES
from waltz.fidelity import RELEASED_CODE, Fidelity

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"[\w./<>{}*-]+\.(?:py|smk|yaml|tsv)\b")
DOTTED_NAME = re.compile(r"\bwaltz(?:\.\w+)+")
RULE = re.compile(r"\b[Rr]ule `(\w+)`")
IMPORT = re.compile(r"from (waltz[\w.]*) import ([\w, ]+)")
FILES = {
    file.relative_to(ROOT).as_posix()
    for folder in (
        "benchmarks",
        "config",
        "envs",
        "profiles",
        "resources",
        "rules",
        "tests",
        "workflow",
    )
    for file in (ROOT / folder).rglob("*.*")
}
"""Files that the pages may name. A path on a page may leave out the first folders of one of them.
"""
READERS_MODULE = "waltz.foils.colors"
"""The module that a reader writes who follows docs/how-to/add-an-instrument.md."""
OTHER_FILES = {
    *("mine.yaml", "my_models.py", "config.yaml", "detectron_config.yaml", "eval.yaml"),
    *("colors.yaml", "workflow/waltz/foils/colors.py", "tests/foils/test_colors.py"),
}
"""Files on the pages that are no part of waltz: a study, configurations of released detectors, an
exported file.
"""
RELEASED_FILES = {
    *("mm-shap_clip_dataset.py", "mm-shap_lxmert_dataset.py"),
    *("mm-shap_albef_dataset.py", "read_datasets.py", "faithfulness.py", "main.py"),
    *("shap/explainers/_permutation.py", "shap/explainers/_partition.py"),
    *("shap/maskers/_text.py", "shap/models/_teacher_forcing.py"),
    *("run-faithfulness.py", "run-valse-acc.py", "mm_shap_cc_shap.py"),
    *("run-valse-mm_shap-non_pairwise.py", "generation_and_prompting.py"),
    *("other_faith_tests.py", "unimodal_valse_eval.py", "lxmert_valse_eval.py"),
}
"""Files of the released code, which docs/explanation/fidelity.md names."""
NAMES = {"waltz.encoders", *(f"waltz.{name}" for name in LAZY_NAMES)}
"""Names that `waltz` imports at their first use, and its group of entry points."""


def list_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub forms them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_relative_links_lead_to_files_and_headings(page):
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http:", "https:")):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        if anchor:
            assert anchor in list_anchors(file), link


def list_paths(page: Path) -> list[str]:
    """Return the paths of code and data files that a page names as inline code, without results and
    placeholders.
    """
    spans = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    paths = [path for span in spans for path in PATH.findall(span)]
    return [
        path
        for path in paths
        if not (
            set(path) & set("<>{}*") or "STAGE" in path or path.startswith("results/")
        )
    ]


def resolve_name(dotted_name: str) -> bool:
    """Return True if a dotted name is a package, a module, or a name at the top level of one."""
    module = ROOT / "workflow"
    for part in dotted_name.split("."):
        if (module / part).is_dir():
            module = module / part
        elif (module / f"{part}.py").is_file():
            module = module / f"{part}.py"
        else:
            file = module / "__init__.py" if module.is_dir() else module
            return part in list_names(file)
    return True


def list_names(file: Path) -> set[str]:
    """Return the names that a module defines or imports at its top level."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(
                target.id for target in targets if isinstance(target, ast.Name)
            )
    return names


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_named_files_exist(page):
    missing = {
        path
        for path in list_paths(page)
        if path not in OTHER_FILES | RELEASED_FILES
        and not any(f"/{file}".endswith(f"/{path}") for file in FILES)
    }
    assert not missing


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_named_modules_exist(page):
    text = page.read_text(encoding="utf-8")
    imported = {
        f"{module}.{name.strip()}"
        for module, names in IMPORT.findall(text)
        for name in names.split(",")
    }
    missing = {
        name
        for name in (imported | set(DOTTED_NAME.findall(text))) - NAMES
        if not resolve_name(name)
    }
    missing = {name for name in missing if not name.startswith(READERS_MODULE)}
    assert not missing


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_named_rules_exist(page):
    rules = {
        rule
        for file in [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]
        for rule in re.findall(
            r"^(?:use rule \w+ as|rule) (\w+)(?: with)?:",
            file.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    }
    assert not set(RULE.findall(page.read_text(encoding="utf-8"))) - rules


def test_code_names_existing_pages():
    files = [
        ROOT / file for file in FILES if Path(file).suffix in {".py", ".smk", ".yaml"}
    ]
    named = {
        page
        for file in files
        for page in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text(encoding="utf-8"))
    }
    assert not {page for page in named if not (ROOT / page).is_file()}


def test_the_page_names_commit_and_file_of_every_rule_of_published():
    page = (ROOT / "docs/explanation/fidelity.md").read_text(encoding="utf-8")
    for name, code in RELEASED_CODE.items():
        assert f"| {name} |" in page
        assert str(code) in page
    rules = [field.name for field in dataclasses.fields(Fidelity)]
    unnamed = [rule for rule in rules if f"`{rule}`" not in page and rule != "name"]
    assert not unnamed, "name the file of the released code in the table of rules"


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "README.md"
    linked = {
        (index.parent / link.partition("#")[0]).resolve()
        for link in LINK.findall(index.read_text())
    }
    missing = {page for page in (ROOT / "docs").rglob("*.md") if page != index} - linked
    assert not missing


def test_the_map_of_modules_is_that_of_the_code():
    page = module_map.PAGE.read_text(encoding="utf-8")
    assert module_map.replace_map(page) == page, "run python tests/docs/module_map.py"
