"""The page about the study `photos` states the numbers of its record."""

import csv
import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "explanation"
ROW = re.compile(r"\| (\d+) \| ([\d.]+) \(([\d.]+) to ([\d.]+)\) \|")


def test_the_page_states_the_recorded_numbers():
    with (FOLDER / "photos.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    recorded = []
    for row in rows:
        numbers = (float(row[name]) for name in ("acc_r", "ci_low", "ci_high"))
        recorded.append((row["n"], *(f"{number:.1f}" for number in numbers)))
    stated = ROW.findall((FOLDER / "photos.md").read_text(encoding="utf-8"))
    assert len(stated) == 5
    # Both are in the order of the study.
    assert stated == recorded
