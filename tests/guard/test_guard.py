"""The values of small studies equal those of the stored snapshots, whatever was renamed.

Files that a snapshot does not hold are not compared: `write_snapshot.py` left out candidates, raw
sources and parts.
"""

import math
from pathlib import Path

import pytest

from guard.compare_results import (
    RENAMES,
    Difference,
    compare_results,
    read_renames,
    read_results,
)

SNAPSHOTS = Path(__file__).with_name("snapshots")
TOLERANCE = 5e-5
"""Of floats, relative or absolute: networks compute in float32, and processors of other types add
in other orders.

Between two types of processors, values of scenes-clip differed by up to 3e-6; other computations
differ by far more.
"""

NOISE_TOLERANCE = 0.02
"""Relative, of standard errors of T-SHAP. A regression takes the one of ten correlations that
predicts best. Where two predict as well, as for a ruler, rounding decides, which differs between
processors.
"""

pytestmark = pytest.mark.workflow


def is_rounding(difference: Difference) -> bool:
    """Return whether two standard errors differ by the choice of the correlation alone."""
    old, new = difference.old, difference.new
    if (
        difference.column != "noise"
        or not isinstance(old, float)
        or not isinstance(new, float)
    ):
        return False
    return math.isclose(old, new, rel_tol=NOISE_TOLERANCE)


@pytest.mark.parametrize(
    "study", sorted(path.stem for path in SNAPSHOTS.glob("*.jsonl"))
)
def test_values_equal_the_snapshot(study, request):
    run = request.getfixturevalue(f"{study}_run")
    snapshot = read_results(SNAPSHOTS / f"{study}.jsonl")
    results = read_results(run.folder / "results" / "tiny")
    differences = compare_results(snapshot, results, read_renames(RENAMES), TOLERANCE)
    lines = [
        str(difference)
        for difference in differences
        if difference.old != "no file" and not is_rounding(difference)
    ]
    assert not lines, "\n".join(lines[:50])
