"""Renew the pages of findings: `python -m tools.renew_findings docs RESULTS...`, after new runs of
the studies.

It writes `explanation/measures.json` and `calibration.json`, the numbers of the pages, and their
figures.
"""

import sys
from pathlib import Path

from tools.renew_findings.pages import renew_pages

if __name__ == "__main__":
    renew_pages(*map(Path, sys.argv[1:]))
