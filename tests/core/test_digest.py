import importlib
import sys
from pathlib import Path

import pytest

from waltz.core.digest import INFRASTRUCTURE, digest_files, find_file, find_modules

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"

FILES = {
    "__init__.py": '"""Package."""\n',
    "core/__init__.py": "",
    "core/numbers.py": 'def double(x):\n    """Twice."""\n    return 2 * x\n',
    "stage.py": "from waltz.core.numbers import double\n\ndef run(x):\n    return double(x)\n",
    "other.py": "VALUE = 1\n",
    "lazy.py": "def run():\n    from waltz import other\n    return other.VALUE\n",
}
SCRIPT = "from waltz.stage import run\n\nprint(run(3))\n"


@pytest.fixture
def compute_digest(tmp_path, monkeypatch):
    """Digest of a script that imports a small package named waltz; each call writes the files anew."""
    package = tmp_path / "waltz"
    for name, text in FILES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    script = tmp_path / "script.py"

    def digest(text=SCRIPT, named=(), version="1.0", **changes):
        (package / "__init__.py").write_text(
            FILES["__init__.py"] + f'__version__ = "{version}"\n'
        )
        for name, content in changes.items():
            (package / name.replace("__", "/")).with_suffix(".py").write_text(content)
        script.write_text(text)
        module = importlib.reload(sys.modules["waltz.core.digest"])
        monkeypatch.setattr(module, "PACKAGE", package)
        return module.digest(script, *named)

    importlib.import_module("waltz.core.digest")
    return digest


def test_comments_docstrings_and_formatting_do_not_count(compute_digest):
    before = compute_digest()
    assert before == compute_digest(
        "# why\nfrom waltz.stage import run\nprint( run(3) )\n"
    )
    assert before == compute_digest(
        core__numbers='def double(x):\n    """Two times x."""\n    # sum\n    return 2*x\n'
    )


def test_an_added_docstring_does_not_count(compute_digest):
    assert compute_digest() == compute_digest(
        '"""Runs it."""\n' + SCRIPT, stage='"""A stage."""\n' + FILES["stage.py"]
    )


def test_the_position_of_a_statement_counts(compute_digest):
    inside = "if VALUE:\n    first()\n    second()\n"
    assert compute_digest(inside) != compute_digest(
        inside.replace("    second", "second")
    )


def test_a_change_in_an_indirectly_imported_module_counts(compute_digest):
    assert compute_digest() != compute_digest(
        core__numbers="def double(x):\n    return x + x\n"
    )


def test_a_change_in_the_script_counts(compute_digest):
    assert compute_digest() != compute_digest(SCRIPT.replace("3", "4"))


def test_a_change_in_a_module_that_nothing_imports_does_not_count(compute_digest):
    assert compute_digest() == compute_digest(other="VALUE = 2\n")


def test_named_modules_count_with_their_imports(compute_digest):
    named = ("waltz.lazy",)
    before = compute_digest(named=named)
    assert before != compute_digest()
    assert before != compute_digest(named=named, other="VALUE = 4\n")
    assert compute_digest(named=("waltz.stage",)) == compute_digest()


def test_an_import_inside_a_function_and_of_a_module_by_name_counts(compute_digest):
    lazy = "from waltz.lazy import run\n"
    before = compute_digest(lazy)
    assert before != compute_digest(lazy, other="VALUE = 3\n")


def test_a_string_that_is_no_docstring_counts(compute_digest):
    before = compute_digest(SCRIPT + 'NAME = "a"\n')
    assert before != compute_digest(SCRIPT + 'NAME = "b"\n')


def test_infrastructure_does_not_count(compute_digest):
    script = "from waltz.core.errors import UserError\n" + SCRIPT
    before = compute_digest(
        script, core__errors="class UserError(Exception):\n    status = 1\n"
    )
    assert before == compute_digest(
        script, core__errors="class UserError(Exception):\n    status = 2\n"
    )
    assert before == compute_digest(script, version="2.0")


def test_the_modules_of_the_infrastructure_exist():
    assert all(find_file(module) for module in INFRASTRUCTURE)


RUN_MODELS = (
    "align",
    "answer",
    "attribute",
    "attribute_answers",
    "cc_shap",
    "consistency",
    "decode",
    "perplexity",
)


@pytest.mark.parametrize("script", RUN_MODELS)
def test_scripts_that_run_models_do_not_depend_on_summaries(script):
    # otherwise an edit of a metric or an interval would run every model again
    modules = find_modules(SCRIPTS / f"{script}.py")
    assert "waltz.core.schema" in modules
    assert not [
        name
        for name in modules
        if name.split(".")[-1] in ("intervals", "pair_metrics", "summary", "aggregates")
    ]


def test_of_yaml_only_the_values_count(tmp_path):
    def digest_text(text, name="table.yaml"):
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}-{name}"
        file.write_text(text)
        return digest_files([file])

    before = digest_text("nouns: [dog, cat]\nverbs: []\n")
    assert before == digest_text("# why\nnouns:\n- dog  # barks\n- cat\nverbs: []\n")
    # the order of tables is that of the page
    for other in ("nouns: [dog, cow]\nverbs: []\n", "verbs: []\nnouns: [dog, cat]\n"):
        assert before != digest_text(other)
    # a template has no comments that could be told from text
    assert digest_text("a", "chat.jinja") != digest_text("# a", "chat.jinja")
    assert digest_files([]) != before


def test_files_of_the_package_are_named_by_their_paths_in_it():
    assert digest_files(["resources/tables.yaml"]) != digest_files(
        ["resources/charts.yaml"]
    )
