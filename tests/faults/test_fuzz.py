"""Readers of raw files given spoilt ones: rows, or one line that names the file, and nothing else.

By hand, for as long as one likes: WALTZ_FUZZ=100000 pytest tests/faults/test_fuzz.py, or guided by
coverage with tests/faults/atheris_readers.py.
"""

import random
import runpy
import sys
import types

import pytest

from stand_ins import spoilt_files
from stand_ins.spoilt_files import STUDY, small_world, trial
from workflow_runs.checkout import ROOT

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def drawn():
    return small_world()


@pytest.mark.parametrize("source", STUDY)
def test_a_spoilt_file_gives_rows_or_one_line(source, drawn, tmp_path_factory):
    trial(source, drawn, tmp_path_factory.mktemp("fuzz"))()


def test_what_atheris_would_run_finds_a_reader_that_fails(drawn, tmp_path, monkeypatch):
    given_bytes, lengths = (
        [random.Random(seed).randbytes(400) for seed in range(20)],
        [],
    )

    class Atheris(types.ModuleType):
        """Its two calls, with bytes that were drawn beforehand."""

        @staticmethod
        def instrument_all():
            lengths.append("instrumented")

        @staticmethod
        def Setup(arguments, one_input):
            lengths.append(arguments)
            Atheris.one_input = one_input

        @staticmethod
        def Fuzz():
            for drawn_bytes in given_bytes:
                Atheris.one_input(drawn_bytes)

    monkeypatch.setitem(sys.modules, "atheris", Atheris("atheris"))
    readers = runpy.run_path(str(ROOT / "tests/faults/atheris_readers.py"))
    readers["main"](["atheris_readers.py", "coco", "-runs=20"])
    assert lengths == ["instrumented", ["atheris_readers.py", "-runs=20"]]

    def fails(*_):
        raise KeyError("images")

    monkeypatch.setattr(spoilt_files, "read_source", fails)
    with pytest.raises(KeyError, match="images"):
        readers["main"](["atheris_readers.py", "coco", "-runs=20"])
