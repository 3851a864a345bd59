"""The values of small studies equal those of the stored snapshots, whatever was renamed.

Files that a snapshot does not hold are not compared: `write_snapshot.py` left out candidates, raw sources and parts.
"""

from pathlib import Path

import pytest

from guard.compare_results import RENAMES, compare_results, read_renames, read_results

SNAPSHOTS = Path(__file__).with_name("snapshots")
TOLERANCE = 5e-5
"""Of floats, relative or absolute: networks compute in float32, and processors of other types add in other orders.

Between two types of processors, values of scenes-clip differed by up to 3e-6; other computations differ by far more.
"""

pytestmark = pytest.mark.workflow


@pytest.mark.parametrize("study", sorted(path.stem for path in SNAPSHOTS.glob("*.jsonl")))
def test_values_equal_the_snapshot(study, request):
    run = request.getfixturevalue(f"{study}_run")
    snapshot = read_results(SNAPSHOTS / f"{study}.jsonl")
    results = read_results(run.folder / "results" / "tiny")
    differences = compare_results(snapshot, results, read_renames(RENAMES), TOLERANCE)
    lines = [str(difference) for difference in differences if difference.old != "no file"]
    assert not lines, "\n".join(lines[:50])
