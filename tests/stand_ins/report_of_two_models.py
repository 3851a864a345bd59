"""A small report with everything on it, some of it hostile, for tests of the page."""

from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from waltz.core.measure import Measure
from waltz.core.schema import (
    AttributionRecord,
    CcShapRecord,
    ConsistencyRecord,
    EvaluationRecord,
    ItemRecord,
    StoredSpan,
)
from waltz.reporting.page.embedded import inline_image
from waltz.reporting.page.example_items import describe_pair
from waltz.reporting.page.examples import (
    ModelRun,
    choose_typical_example,
    make_browser_data,
)
from waltz.reporting.page.findings import ModelFinding
from waltz.reporting.page.page_tables import PageTable, build_page_cells
from waltz.reporting.page.report import (
    FigureSection,
    ReportInputs,
    UnusableImage,
)
from waltz.reporting.page.sources import describe_sources
from waltz.reporting.run_records import RunRecord
from waltz.reporting.tables.cells import Cell
from waltz.reporting.tables.declaration import Declaration
from waltz.reporting.tables.paper_values import PaperKey, PaperValue, compare_with_paper

HOSTILE = "<script>window.harmed = 1</script><img src=x onerror='window.harmed = 2'>&amp; 🐈 A cat."
TEXT = "🐈 A cat sits."
TOKENS = ["<s>", "🐈", "a", "cat", "sit", "##s", "."]
SPANS = [(0, 0), (0, 1), (2, 3), (4, 7), (8, 11), (11, 12), (12, 13)]
PAPER_VALUES = {
    ("acc_r", "clip", "existence"): "66.9",
    ("acc_r", "clip", "plurality"): "56.2",
    ("acc", "clip", "existence"): "",
}
OURS = {
    ("acc_r", "clip", "existence"): 66.9,
    ("acc_r", "clip", "plurality"): 30.0,
    ("acc_r", "mine", "existence"): 80.0,
    ("acc_r", "mine", "plurality"): 20.0,
}


def cells():
    """Return cells of one table in both profiles: equal, different, without paper value, without
    value.
    """
    paper = {
        (*key, ""): PaperValue(PaperKey(*key, ""), value, "percent", "")
        for key, value in PAPER_VALUES.items()
    }
    table_cells = []
    for profile in ("published", "equations"):
        for key in dict.fromkeys([*PAPER_VALUES, *OURS]):
            value = OURS.get(key)
            reason = "" if value is not None else "not run in this study"
            measure = (
                Measure(value, 100, value - 1, value + 1)
                if value is not None
                else Measure(None, 0, reason=reason)
            )
            comparison = compare_with_paper(
                measure, paper.get((*key, "")) if profile == "published" else None, 0.95
            )
            table_cells.append(
                Cell(
                    "thesis-3.4",
                    profile,
                    *key,
                    "",
                    measure.value,
                    measure.n,
                    measure.ci_low,
                    measure.ci_high,
                    comparison.paper_value,
                    comparison.difference,
                    comparison.verdict,
                    comparison.reason,
                )
            )
    return table_cells


def page_table(name, rows, profile=""):
    """Return a table of the page with texts by data set and column."""
    declaration = Declaration(
        name, name, {}, rows=("dataset",), columns="metric", marks_best=False
    )
    texts = [
        {"dataset": dataset, "metric": column, "text": text}
        for dataset, columns in rows.items()
        for column, text in columns.items()
    ]
    return PageTable(
        declaration, build_page_cells(declaration, pd.DataFrame(texts)), profile
    )


def records():
    """Return run records of two models, one with ties and an error."""
    return [RunRecord.model_validate(facts) for facts in run_facts()]


def run_facts():
    """Return the content of the run records of two models."""
    common = {
        "rows_in": 2,
        "rows_out": 4,
        "peak_memory_mb": 100,
        "packages": {"torch": "2.13.0"},
        "seed": 7,
        "commit": "c" * 40,
    }
    named = [
        ("clip", 30.0, {"ties": 2}),
        ("mine", 61.0, {"errors": {"too long": 3}, "ties": 0}),
    ]
    return [
        {
            **common,
            **more,
            "name": f"evaluation/{name}/existence",
            "wall_seconds": seconds,
            "model": {"name": name, "weights": f"owner/{name}"},
        }
        for name, seconds, more in named
    ]


def pairs():
    """Return two items, one with a caption that would harm the page."""
    return [
        ItemRecord(
            item_id=f"existence:{number}",
            instrument="existence",
            piece="existence",
            source="",
            image="1.png",
            caption=caption,
            foil=foil,
            caption_span=StoredSpan(4, 7),
            caption_phrases=[],
            foil_phrases=[],
            kept=True,
            valid=True,
        )
        for number, (caption, foil) in enumerate(
            [(TEXT, "No cat."), (HOSTILE, "A dog.")]
        )
    ]


def items():
    """Return the two items as the page shows them."""
    return [describe_pair(pair) for pair in pairs()]


def score(item, role, value, profile="published", **more):
    """Return one score."""
    fields = {
        "item_id": item,
        "role": role,
        "profile": profile,
        "setting": "alignment",
        "score": value,
        **more,
    }
    return EvaluationRecord(**fields)


def attribution(item, phi, **more):
    """Return one attribution, its phi of shape (players, outputs)."""
    fields = {
        "item_id": item,
        "role": "caption",
        "profile": "published",
        "setting": "alignment",
        "text": TEXT,
        "score": 1.25,
        "tokens": TOKENS,
        "spans": [StoredSpan(start, end) for start, end in SPANS],
        "grid": 2,
        "phi": np.asarray(phi).tolist(),
        "t_shap": 0.25,
        "estimator": "exact",
        **more,
    }
    return AttributionRecord(**fields)


def runs():
    """Return runs of CLIP, right on the first item and wrong on the second, and of a decoder with
    two output tokens.
    """
    scores = [
        score("existence:0", "caption", 2.0),
        score("existence:0", "foil", 1.0),
        score("existence:1", "caption", 1.0),
        score("existence:1", "foil", 2.0),
    ]
    phi = np.array([0.0, -0.5, 0.1, 0.2, 0.0, 0.0, 0.1, 0.25, -0.125, 0.0, 0.5])[
        :, None
    ]
    common = {
        "item_id": "existence:0",
        "profile": "published",
        "setting": "post-hoc",
        "answer": "A",
        "seed": 7,
    }
    test = ConsistencyRecord(
        **common,
        test="counterfactual edits",
        text=TEXT,
        verdict=0,
        edited_answer="B",
        inserted="really",
    )
    shap = CcShapRecord(
        **common,
        kind="post-hoc",
        value=0.75,
        explanation=HOSTILE,
        t_shap_answer=0.9,
    )
    two = attribution(
        "existence:0", np.hstack([phi, 2 * phi]), outputs=["A", ")"], role="answer"
    )
    return [
        ModelRun(
            "clip",
            "existence",
            [*scores, score("existence:0", "caption", 3.0, "equations")],
            [attribution("existence:0", phi)],
        ),
        ModelRun("llava", "existence", [], [two], [test], [shap]),
    ]


def picture(_dataset, _name):
    """Return a grey image."""
    return inline_image(Image.new("RGB", (40, 40), "grey"), 40), ""


def findings():
    """Return findings of an encoder, of a decoder with few explanations, and of a ruler."""
    return [
        ModelFinding(
            "clip",
            "encoder",
            "acc_r",
            Measure(66.9, 100, 60.0, 73.0),
            Measure(25.0, 40, 20.0, 31.0),
            player_share=44.0,
            t_shap_excess=Measure(-19.0, 40, -24.0, -13.0),
            accuracies={
                "existence": Measure(81.0, 50, 71.0, 91.0),
                "plurality": Measure(52.8, 50, 43.0, 63.0),
            },
        ),
        ModelFinding(
            "llava",
            "decoder",
            "acc_r",
            Measure(55.0, 40, 45.0, 65.0),
            Measure(74.0, 40, 71.0, 77.0),
            Measure(0.75, 1),
            player_share=70.0,
            t_shap_excess=Measure(4.0, 40, 1.0, 7.0),
            accuracies={
                "existence": Measure(60.0, 40, 50.1, 70.0),
                "plurality": Measure(50.0, 40, 40.0, 60.0),
            },
        ),
        ModelFinding(
            "ruler-50",
            "ruler",
            "acc_r",
            Measure(15.0, 100, 13.0, 17.0),
            Measure(50.0, 40, 45.0, 55.0),
            accuracies={
                "existence": Measure(10.0, 50, 8.0, 12.0),
                "plurality": Measure(20.0, 50, 18.0, 22.0),
            },
            known_share=50.0,
        ),
    ]


def report(folder):
    """Return the whole report; its figures are written to a folder."""
    (folder / "bars.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20"/></svg>'
    )
    Image.new("RGB", (800, 500), "steelblue").save(folder / "map.png")
    browser = make_browser_data(
        {"existence": items()}, runs(), picture, {"existence": 534}
    )
    browser["typical"] = choose_typical_example(
        browser, {"clip": 25.0}, {"clip": ["existence"]}
    )
    sources = {
        "coco": {
            "format": "coco-captions",
            "citation": "Lin et al.",
            "files": {"val": {"url": "u", "sha256": "5"}},
            "images": [{"url": "train.zip", "sha256": "6"}, {"path": "val2014"}],
        }
    }
    return ReportInputs(
        study="tiny",
        sources=describe_sources(sources, [], Path("no.lock")),
        records=records(),
        findings=findings(),
        cells=cells(),
        figures=[
            FigureSection("bars", str(folder / "bars.svg"), "Bars"),
            FigureSection("map", str(folder / "map.png"), "A map"),
        ],
        models=[
            page_table(
                "metrics",
                {"existence": {"n": "9"}, "plurality": {"n": "10"}},
                "published",
            ),
            page_table("metrics", {"existence": {"n": "11"}}, "equations"),
        ],
        construction=[
            page_table("funnel", {"existence": {"candidates": "1,200", "valid": "600"}})
        ],
        faults=[UnusableImage("coco", "7.jpg", "is missing")],
        browser=browser,
    )
