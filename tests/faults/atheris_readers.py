"""Fuzz the readers of raw files by hand, guided by coverage, until one fails or the time is up.

    pip install atheris
    PYTHONPATH=workflow:tests python tests/faults/atheris_readers.py coco -max_total_time=3600

The first argument is a source of config/scenes.yaml, the others are libFuzzer's. What it finds is a
traceback, and the bytes of it in a file `crash-...`, which the same command takes as an argument.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from stand_ins.spoilt_files import STUDY, small_world, trial


def main(arguments: Sequence[str]) -> None:
    """Fuzz the source that is named first."""
    import atheris  # not among the requirements: it needs a compiler with libFuzzer

    program, source, *others = arguments
    if source not in STUDY:
        sys.exit(
            f"{source!r}: no source of config/scenes.yaml; name one of {', '.join(STUDY)}"
        )
    with tempfile.TemporaryDirectory() as folder:
        tried = trial(source, small_world(), Path(folder))
        atheris.instrument_all()
        atheris.Setup([program, *others], tried.hypothesis.fuzz_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
