"""Read a COCO captions file to Parquet and print the seconds and the process's peak memory.

    python benchmarks/read_coco.py captions_val2017.json

The limits are 2 s and 300 MB for the 25,014 captions of val2017.
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

from waltz.core.records import write_records
from waltz.sources.formats.coco import read_captions
from waltz.sources.records import CaptionRecord


def main() -> None:
    """Time reading alone, then reading and writing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    path = parser.parse_args().path
    begin = time.perf_counter()
    captions = sum(1 for _ in read_captions(path, "coco", None))
    read = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        write_records(
            Path(folder) / "captions.parquet",
            read_captions(path, "coco", None),
            CaptionRecord,
        )
        written = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{captions} captions: read in {read:.2f} s, read and written in {written:.2f} s, peak {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()
