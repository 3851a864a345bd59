"""The report of a full thesis grid with made-up scores: seconds to write it, its size, seconds
until it can be used.

Usage: python benchmarks/report.py [--items N] [--shown N] [--maps N] [--keep FOLDER] [--chromium
PATH]

Every paper value of waltz/resources/published is filled in both profiles. Every model of the papers
has scores for caption and foil of N items of the eleven instruments, and contributions for eight
items of each; N heat maps are among the figures. Made-up inputs are not timed. The page is opened
in headless Chromium where Playwright is installed, filtered, browsed, and checked for external
requests.
"""

import argparse
import json
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from waltz.core.files import parquet
from waltz.core.files.resources import RESOURCES
from waltz.core.jobs.records import measure_peak_memory_mb
from waltz.core.measure import Measure
from waltz.core.schema import ATTRIBUTION, EVALUATION, ItemRecord
from waltz.reporting.figures.figure_files import save_figure
from waltz.reporting.figures.heatmaps import HeatmapPanel, draw_heatmaps
from waltz.reporting.page.example_items import describe_pair
from waltz.reporting.page.examples import (
    ResultFiles,
    compute_max_side,
    make_browser_data,
    open_thumbnails,
    read_examples,
)
from waltz.reporting.page.report import FigureSection, ReportInputs, write_report
from waltz.reporting.run_records import read_study_records
from waltz.reporting.tables.cells import Cell, format_csv, parse_csv
from waltz.reporting.tables.paper_values import (
    PaperValue,
    compare_with_paper,
    read_paper_values,
)

SCORES, CONTRIBUTIONS = EVALUATION.with_dataset(), ATTRIBUTION.with_dataset()
PUBLISHED = RESOURCES / "published"
PROFILES = ("published", "equations")
ATTRIBUTED, DISTINCT = 8, 5
WORDS = [
    "a",
    "cat",
    "sits",
    "on",
    "the",
    "table",
    "and",
    "two",
    "dogs",
    "look",
    "at",
    "it",
    "from",
    "below",
    ".",
]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]


def read_clocks() -> np.ndarray:
    """Return wall and CPU seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def make_cells(generator: np.random.Generator) -> list[Cell]:
    """Return a cell for each paper value, with a number of ours close to it."""
    cells: list[Cell] = []
    for file in sorted(PUBLISHED.glob("*.csv")):
        paper_values = read_paper_values(file)
        for profile in PROFILES:
            for key, paper in paper_values.items():
                ours = make_number(paper, generator)
                comparison = compare_with_paper(ours, paper, 0.95)
                cells.append(
                    Cell(
                        file.stem,
                        profile,
                        *key,
                        ours.value,
                        ours.n,
                        ours.ci_low,
                        ours.ci_high,
                        comparison.paper_value,
                        comparison.difference,
                        comparison.verdict,
                        comparison.reason,
                    )
                )
    return cells


def make_number(paper: PaperValue, generator: np.random.Generator) -> Measure:
    """Return a number of ours that is often equal to the paper value."""
    try:
        value = (
            float(paper.value)
            + float(generator.choice([0.0, 1.0, 9.0])) * generator.normal()
        )
    except ValueError:
        value = float(generator.uniform(0, 100))
    return Measure(value, 1000, value - 2.0, value + 2.0)


def write_results(
    folder: Path, items: int, generator: np.random.Generator
) -> tuple[dict[str, list[ItemRecord]], ResultFiles]:
    """Write Parquet files of all models on all instruments, and return the instruments' items with
    the files.
    """
    names = {
        file.stem: list(read_paper_values(file))
        for file in sorted(PUBLISHED.glob("*.csv"))
    }
    models = sorted(
        {
            key[1]
            for keys in names.values()
            for key in keys
            if key[1] and key[1] != "random"
        }
    )
    instruments = list(
        dict.fromkeys(key[2] for key in names["thesis-3.4"] if key[2] != "average")
    )
    benchmark = {
        name: [make_item(name, number) for number in range(items)]
        for name in instruments
    }
    tables = {
        name: make_score_table(rows, generator) for name, rows in benchmark.items()
    }
    files: dict[str, list[tuple[str, str, str]]] = {"evaluation": [], "attribution": []}
    for model in models:
        for name in instruments:
            for kind in files:
                files[kind].append(
                    (model, name, str(folder / kind / model / f"{name}.parquet"))
                )
            scores = randomize_scores(tables[name], generator)
            parquet.write(files["evaluation"][-1][2], scores, SCORES)
            rows = list(make_attribution_rows(benchmark[name][:ATTRIBUTED], generator))
            parquet.write(
                files["attribution"][-1][2],
                parquet.build_table(rows, CONTRIBUTIONS),
                CONTRIBUTIONS,
            )
            record = {
                "model": {
                    "name": model,
                    "kind": "made up",
                    "weights": f"owner/{model}",
                    "revision": "0" * 40,
                },
                "rows_in": items,
                "rows_out": scores.num_rows,
                "wall_seconds": 1.0,
                "peak_memory_mb": 1000,
                "packages": {"torch": "2.13.0"},
                "commit": "f" * 40,
                "ties": int(generator.integers(0, 3)),
            }
            for kind in files:
                (folder / kind / model / f"{name}.run.json").write_text(
                    json.dumps(record)
                )
    return benchmark, files


def make_item(name: str, number: int) -> ItemRecord:
    """Return one item of an instrument."""
    return ItemRecord(
        item_id=f"{name}:made-up:{number}",
        instrument=name,
        piece=name,
        source="made-up",
        image=f"{name}-{number}.jpg",
        caption=" ".join(WORDS),
        foil=" ".join(WORDS).replace("two", "four"),
        caption_phrases=[],
        foil_phrases=[],
        kept=True,
        valid=True,
    )


def make_score_table(
    items: list[ItemRecord], generator: np.random.Generator
) -> pa.Table:
    """Return scores of caption and foil in both profiles."""
    rows = [
        {
            "dataset": row.instrument,
            "item_id": row.item_id,
            "role": role,
            "profile": profile,
            "setting": "alignment",
            "image": row.image,
        }
        for profile in PROFILES
        for row in items
        for role in ("caption", "foil")
    ]
    return randomize_scores(parquet.build_table(rows, SCORES), generator)


def randomize_scores(table: pa.Table, generator: np.random.Generator) -> pa.Table:
    """Return the same rows with other scores."""
    score = generator.normal(size=table.num_rows)
    columns = {
        "score": score,
        "probability": 1 / (1 + np.exp(-score)),
        "prediction": np.where(score > 0, "match", "mismatch"),
        "correct": (score > 0) == (np.array(table.column("role")) == "caption"),
    }
    for name, values in columns.items():
        place = SCORES.schema.get_field_index(name)
        table = table.set_column(place, SCORES.schema.field(name), pa.array(values))
    return table


def make_attribution_rows(
    items: list[ItemRecord], generator: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Yield contributions to caption and foil in both profiles."""
    ends = np.cumsum([len(word) + 1 for word in WORDS]) - 1
    spans = [
        {"start": int(end) - len(word), "end": int(end)}
        for word, end in zip(WORDS, ends, strict=True)
    ]
    for profile in PROFILES:
        for row in items:
            for role in ("caption", "foil"):
                yield {
                    "dataset": row.instrument,
                    "item_id": row.item_id,
                    "role": role,
                    "profile": profile,
                    "setting": "alignment",
                    "image": row.image,
                    "text": getattr(row, role),
                    "explained": "logit",
                    "score": float(generator.normal()),
                    "tokens": WORDS,
                    "spans": spans,
                    "grid": 4,
                    "phi": generator.normal(size=(len(WORDS) + 16, 1)).tolist(),
                    "t_shap": float(generator.uniform()),
                    "t_shap_se": 0.01,
                    "estimator": "permutation",
                    "evaluated": 1000,
                }


def draw_heatmap_figures(
    folder: Path, number: int, generator: np.random.Generator
) -> list[FigureSection]:
    """Draw figures as the workflow does, a few of them distinct."""
    spans: list[Any] = [{"start": 0, "end": 0}] * len(WORDS)
    cells = np.arange(16).reshape(4, 4).repeat(56, axis=0).repeat(56, axis=1)
    figures = []
    for index in range(number):
        file = folder / f"heat-map-{index}.svg"
        if index < DISTINCT:
            image = np.kron(generator.uniform(size=(28, 28, 3)), np.ones((8, 8, 1)))
            values = [generator.normal(size=len(WORDS) + 16) for _ in range(2)]
            panels = [
                HeatmapPanel(role, " ".join(WORDS), WORDS, spans, cells, phi, 1.0, 0.5)
                for role, phi in zip(("caption", "foil"), values, strict=True)
            ]
            save_figure(
                draw_heatmaps(image, panels, f"Heat map {index}"),
                [file, file.with_suffix(".png")],
            )
        else:
            for suffix in (".svg", ".png"):
                first = folder / f"heat-map-{index % DISTINCT}{suffix}"
                file.with_suffix(suffix).write_bytes(first.read_bytes())
        figures.append(
            FigureSection(file.stem, str(file), f"Heat map {index}", "Heat maps")
        )
    return figures


def open_page(page: Path, chromium: str) -> None:
    """Open the page and print how long it takes."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("Playwright is not installed: the page was not opened")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        requests: list[str] = []
        faults: list[str] = []
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("console", lambda message: faults.append(message.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        start = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready]")
        tab.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        print(f"interactive after {time.perf_counter() - start:.2f} s")
        for name, act in (
            ("filter", lambda: tab.fill("#filter", "clip counting")),
            ("no filter", lambda: tab.fill("#filter", "")),
            ("samples", lambda: tab.locator("#samples").scroll_into_view_if_needed()),
            ("next sample", lambda: tab.click("#s-next")),
            (
                "open all tables",
                lambda: tab.evaluate("document.getElementById('open-all').click()"),
            ),
        ):
            start = time.perf_counter()
            act()
            tab.evaluate(
                "() => new Promise(done => setTimeout(() => requestAnimationFrame(done), 200))"
            )
            print(f"{name}: {time.perf_counter() - start:.2f} s, 0.20 s of them waited")
        external = [
            url for url in requests if not url.startswith(("data:", page.as_uri()))
        ]
        print(f"external requests: {external}; messages: {faults}")
        browser.close()


def main() -> None:
    """Measure the report and print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--shown", type=int, default=12)
    parser.add_argument("--maps", type=int, default=100)
    parser.add_argument("--keep", type=Path, help="folder in which the page is left")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    pa.set_cpu_count(1)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        text = format_csv(make_cells(generator))
        benchmark, files = write_results(folder, arguments.items, generator)
        figures = draw_heatmap_figures(folder, arguments.maps, generator)
        n_runs = len(files["evaluation"])
        rows = n_runs * len(PROFILES) * 2 * arguments.items
        print(
            f"{n_runs} runs of {arguments.items} items, {rows:,} rows of scores, {len(figures)} figures"
        )
        start = read_clocks()
        records = read_study_records(sorted(folder.rglob("*.run.json")), folder)
        items = {
            name: list(map(describe_pair, pairs)) for name, pairs in benchmark.items()
        }
        examples, runs = read_examples(items, files, arguments.shown, 1)
        read = read_clocks() - start
        for row in chain.from_iterable(examples.values()):
            image = Image.fromarray(
                generator.integers(0, 255, (48, 64, 3), dtype=np.uint8)
            )
            image.resize((640, 480), Image.Resampling.BICUBIC).save(folder / row.image)
        start = read_clocks()
        folders = dict.fromkeys(benchmark, str(folder))
        max_side = compute_max_side(sum(map(len, examples.values())))
        with open_thumbnails(folders, max_side) as load_thumbnail:
            browser = make_browser_data(
                examples,
                runs,
                load_thumbnail,
                {name: len(entries) for name, entries in benchmark.items()},
            )
        packed = read_clocks() - start
        page = (arguments.keep or folder) / "report.html"
        report = ReportInputs(
            "made-up",
            records=records,
            cells=parse_csv(text),
            figures=figures,
            browser=browser,
        )
        write_report(page, report)
        written = read_clocks() - start
        wall, cpu = read + written
        print(
            f"{len(report.cells):,} cells, {len(browser['items'])} examples: {wall:.1f} s wall, {cpu:.1f} s CPU (read"
            f" {read[1]:.1f}, for examples {packed[1]:.1f}); page {page.stat().st_size / 1e6:.1f} MB;"
            f" peak memory {measure_peak_memory_mb()} MB"
        )
        open_page(page, arguments.chromium)


if __name__ == "__main__":
    main()
