"""Number of items that are attributed in each profile."""

import pytest

from waltz.attribution.item_selection import SampleSettings, select_attributed_items
from waltz.core.files import parquet
from waltz.core.schema import CONDITIONS, PROBE_CONDITIONS
from waltz.fidelity import get_fidelity


@pytest.mark.parametrize(
    ("profile", "n", "groups"),
    [("published", None, 50), ("published", 7, 7), ("equations", None, 60)],
)
def test_published_attributes_fifty_samples_of_cv_probes_as_the_paper(
    tmp_path, profile, n, groups
):
    """CV-Probes, tables 5 to 7, 10 and 11."""
    rows = [
        {
            "item_id": f"{condition}:{group}",
            "form": "simplified",
            "condition": condition,
            "group": f"g{group}",
        }
        | {
            "image": f"{group}.png",
            "image_kind": "plain",
            "caption": "She holds it.",
            "caption_kind": "plain",
        }
        | {"match": True, "verb": "holding"}
        for group in range(60)
        for condition in PROBE_CONDITIONS
    ]
    parquet.write_rows(tmp_path / "probes.parquet", rows, CONDITIONS)
    items = select_attributed_items(
        tmp_path / "probes.parquet",
        get_fidelity(profile),
        SampleSettings(seed=1520, sample=n, scored="valid"),
    )
    assert len({item.group for item in items}) == groups
    assert len(items) == groups * len(PROBE_CONDITIONS)
