"""Texts that the commands print: as they are, whatever they contain."""

import errno
import io
import re
from pathlib import Path

import pytest
from rich.table import Table

import waltz
from waltz.cli.commands.preflight import _print_checks
from waltz.cli.output import create_console, name_output
from waltz.core.errors import UserError
from waltz.preflight.checks import Check, State

TEXTS = [
    "pip install -e '.[gpu]'",
    "/data/[old] runs/a[1].csv",
    "[red]model[/red]",
    "no such tag: [/x]",
    ":dog: \\[a]",
]


@pytest.mark.parametrize("stderr", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_no_text_is_markup_in_lines_cells_headings_and_titles(text, stderr):
    console = create_console(stderr)
    console.file = io.StringIO()
    table = Table(text, title=text)
    table.add_row(text)
    console.print(text)
    console.print(table)
    assert console.file.getvalue().count(text) == 4


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "a.csv: cannot be written: No space left on device; write",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "b.csv"),
            "b.csv: cannot be read or written: Permission d",
        ),
        (
            ConnectionError("no answer from example.org\nin 3 s"),
            "ConnectionError: no answer from example.org",
        ),
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
            "ConnectionRefusedError: [Errno 111] Conn",
        ),
    ],
)
def test_an_error_of_the_system_is_about_the_output_only_if_that_failed(error, line):
    with pytest.raises(UserError) as raised, name_output(Path("a.csv")):
        raise error
    assert str(raised.value).startswith(line)


def test_preflight_prints_the_extra_to_install(capsys):
    _print_checks([Check("package", "bitsandbytes", State.FAILURE, TEXTS[0])])
    assert TEXTS[0] in capsys.readouterr().out


def test_all_consoles_are_created_in_one_function():
    modules = Path(waltz.__file__).parent.rglob("*.py")
    creating = [
        module.name
        for module in modules
        if re.search(r"\bConsole\(", module.read_text())
    ]
    assert creating == ["output.py"]
