import importlib
import sys
from pathlib import Path

import pytest

from waltz.core.digest import find_modules

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
def digest_of(tmp_path, monkeypatch):
    """Digest of a script over a small package called waltz, afresh at each call."""
    package = tmp_path / "waltz"
    for name, text in FILES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    script = tmp_path / "script.py"

    def digest(text=SCRIPT, named=(), **changes):
        for name, content in changes.items():
            (package / name.replace("__", "/")).with_suffix(".py").write_text(content)
        script.write_text(text)
        module = importlib.reload(sys.modules["waltz.core.digest"])
        monkeypatch.setattr(module, "PACKAGE", package)
        return module.digest(script, *named)

    importlib.import_module("waltz.core.digest")
    return digest


def test_comments_docstrings_and_formatting_say_nothing(digest_of):
    before = digest_of()
    assert before == digest_of("# why\nfrom waltz.stage import run\nprint( run(3) )\n")
    assert before == digest_of(core__numbers='def double(x):\n    """Two times x."""\n    # sum\n    return 2*x\n')


def test_a_docstring_more_says_nothing(digest_of):
    assert digest_of() == digest_of('"""Runs it."""\n' + SCRIPT, stage='"""A stage."""\n' + FILES["stage.py"])


def test_where_a_statement_stands_counts(digest_of):
    inside = "if VALUE:\n    first()\n    second()\n"
    assert digest_of(inside) != digest_of(inside.replace("    second", "second"))


def test_a_change_in_an_imported_module_counts_however_deep(digest_of):
    assert digest_of() != digest_of(core__numbers="def double(x):\n    return x + x\n")


def test_a_change_in_the_script_counts(digest_of):
    assert digest_of() != digest_of(SCRIPT.replace("3", "4"))


def test_a_change_in_a_module_that_nothing_imports_does_not_count(digest_of):
    assert digest_of() == digest_of(other="VALUE = 2\n")


def test_modules_that_are_named_count_with_what_they_import(digest_of):
    named = ("waltz.lazy",)
    before = digest_of(named=named)
    assert before != digest_of()
    assert before != digest_of(named=named, other="VALUE = 4\n")
    assert digest_of(named=("waltz.stage",)) == digest_of()


def test_an_import_inside_a_function_and_of_a_module_by_name_counts(digest_of):
    lazy = "from waltz.lazy import run\n"
    before = digest_of(lazy)
    assert before != digest_of(lazy, other="VALUE = 3\n")


def test_a_string_that_is_no_docstring_counts(digest_of):
    before = digest_of(SCRIPT + 'NAME = "a"\n')
    assert before != digest_of(SCRIPT + 'NAME = "b"\n')


RUN_MODELS = ("align", "answer", "attribute", "attribute_answers", "cc_shap", "consistency", "decode", "perplexity")


@pytest.mark.parametrize("script", RUN_MODELS)
def test_how_results_are_summed_up_is_no_part_of_what_runs_a_model(script):
    # an edit of a metric or an interval would else ask every model again
    named = find_modules(SCRIPTS / f"{script}.py")
    assert "waltz.core.schema" in named
    assert not [name for name in named if name.split(".")[-1] in ("intervals", "pair_metrics", "summary", "aggregates")]


def test_encoders_are_attributed_without_the_code_of_decoders():
    named = find_modules(SCRIPTS / "attribute.py")
    assert "waltz.models.encoders" in named
    assert not [name for name in named if ".decoders" in name]
