"""The examples of docs/how-to/adding-a-model.md and a-function-as-a-model.md run as they are."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "how-to" / "adding-a-model.md"
BOXES = re.findall(
    r"> \*\*Box \d: ([^*]+)\*\*.*?> ```python\n(.*?)> ```",
    PAGE.read_text(encoding="utf-8"),
    re.DOTALL,
)


def test_there_are_three_boxes():
    assert [title for title, _ in BOXES] == [
        "an encoder",
        "a VL decoder",
        "a language model",
    ]


@pytest.mark.parametrize(
    "example", [code for _, code in BOXES], ids=[title for title, _ in BOXES]
)
def test_example_runs(example, monkeypatch, capsys):
    monkeypatch.chdir(CHECKOUT)
    exec(re.sub(r"(?m)^> ?", "", example), {})
    output = capsys.readouterr().out
    assert output.strip()
    assert "UserError" not in output


def test_the_examples_of_functions_run_one_after_the_other(monkeypatch, capsys):
    page = CHECKOUT / "docs" / "how-to" / "a-function-as-a-model.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(CHECKOUT)
    exec("".join(blocks), {})
    output = capsys.readouterr().out
    assert "T-SHAP" in output
    assert "bright" in output
