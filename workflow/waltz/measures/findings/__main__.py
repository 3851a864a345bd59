"""Renew the pages of findings: `python -m waltz.measures.findings docs RESULTS...`, after new runs of the studies.

It writes `explanation/measures.json` and `calibration.json`, the numbers of the pages, and their figures.
"""

import sys
from pathlib import Path

from waltz.measures.findings.pages import renew_pages

renew_pages(*map(Path, sys.argv[1:]))
