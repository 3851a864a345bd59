"""The examples of docs/how-to/adding-a-model.md run as they are."""

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
