import base64
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from stand_ins.paper_numbers import build_paper_cells
from stand_ins.report_of_two_models import (
    HOSTILE,
    attribution,
    cells,
    findings,
    items,
    pairs,
    picture,
    records,
    report,
    run_facts,
    runs,
    score,
)
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.records import to_row, write_records
from waltz.core.sampling import sample
from waltz.core.schema import EVALUATION, ItemRecord, StoredSpan
from waltz.reporting.figures.figure_files import save_examples
from waltz.reporting.page import embedded, examples
from waltz.reporting.page.embedded import (
    escape_json,
    inline_figures,
    list_field_names,
    make_table_json,
)
from waltz.reporting.page.examples import (
    ModelRun,
    describe_outcome,
    make_browser_data,
    select_examples,
)
from waltz.reporting.page.report import (
    ReportInputs,
    format_duration,
    get_declaration,
    list_example_figures,
    read_report,
    write_report,
)
from waltz.reporting.run_records import (
    RunModel,
    RunRecord,
    list_cropping_models,
    list_warnings,
    read_study_records,
    summarize_runs,
)
from waltz.reporting.tables.cells import (
    count_cells,
    count_cells_by,
    count_reasons,
    format_csv,
    select_compared,
)
from waltz.reporting.tables.declarations import TABLES
from waltz.reporting.tables.grid import lay_out_grid


class Parts(HTMLParser):
    """What a page loads and the data in it."""

    def __init__(self):
        super().__init__()
        self.loaded, self.scripts, self.inside = [], [], None

    def handle_starttag(self, tag, attributes):
        attrs = dict(attributes)
        self.loaded += [
            attrs[name]
            for name in ("src", "href", "srcset", "data")
            if attrs.get(name) and tag != "a"
        ]
        if tag == "script":
            self.inside = attrs.get("id", "code")
            self.scripts.append((self.inside, ""))

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside = None

    def handle_data(self, text):
        if self.inside:
            self.scripts[-1] = (self.inside, self.scripts[-1][1] + text)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(folder / "report.html", report(folder))
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_holds_all_it_shows_and_loads_nothing(page):
    parts = Parts()
    parts.feed(page)
    assert parts.loaded == ["data:,"]
    assert [name for name, _ in parts.scripts] == [
        "grids",
        "pictures",
        "browser",
        "code",
    ]
    data = {name: json.loads(text) for name, text in parts.scripts[:-1]}
    assert data["browser"]["items"][1]["texts"]["caption"] == HOSTILE
    assert [uri.split(";")[0] for uri in data["pictures"]] == [
        "data:image/svg+xml",
        "data:image/webp",
    ]
    assert not re.search(r"url\(|@import", page)
    sections = (
        "results",
        "samples",
        "tables",
        "figures",
        "construction",
        "reproduction",
        "run",
    )
    assert re.findall(r'<section id="(\w+)"', page) == list(sections)


def test_examples_can_be_selected_by_each_outcome(page):
    outcomes = re.findall(r'name="outcome" value="(\w*)"', page)
    assert outcomes == ["", "right", "wrong", "tie"]


def test_every_file_of_a_source_and_every_place_of_its_images_says_where_it_is_from(
    page,
):
    rows = re.findall(
        r'<th scope="row">coco</th><td>([^<]*)</td><td class="wrap">([^<]*)</td>', page
    )
    assert rows == [("val", "u"), ("images-1", "train.zip"), ("images-2", "val2014")]


def test_the_page_is_the_same_bytes_again(page, tmp_path):
    write_report(tmp_path / "report.html", report(tmp_path))
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page


def test_samples_are_in_folders_and_figures_name_those_of_the_paper(tmp_path):
    folder = tmp_path / "edits" / "clip"
    save_examples(folder, [("one", "One <edit>", Figure(figsize=(1, 1)))])
    (drawing,) = list_example_figures(
        [folder], [("Samples: edits", "thesis 5.3, C.13 to C.22")]
    )
    assert (drawing.name, drawing.title) == ("edits-clip-one", "One <edit>")
    write_report(tmp_path / "report.html", replace(report(tmp_path), figures=[drawing]))
    text = (tmp_path / "report.html").read_text()
    assert "<summary>Samples: edits (1)</summary>" in text
    assert (
        "<figcaption><b>Thesis 5.3, C.13 to C.22:</b> One &lt;edit&gt; <code>one.svg</code>"
        in text
    )


def test_models_that_crop_are_known_by_their_records():
    first, second = records()
    cropping = first.model_copy(update={"middle_square": True})
    uncropped = second.model_copy(update={"middle_square": False})
    assert list_cropping_models([cropping, uncropped, cropping]) == ["clip"]


def test_a_study_without_tables_or_models_has_a_page(tmp_path):
    write_report(tmp_path / "report.html", ReportInputs("empty"))
    text = (tmp_path / "report.html").read_text()
    assert "This study has no results of models" in text
    assert "Tables" not in text.partition("<script")[0]


def test_paper_values_and_verdicts_are_shown_only_where_there_are_some(page, tmp_path):
    without = [
        replace(cell, paper_value=None, paper_text="", difference=None, verdict="")
        for cell in cells()
    ]
    write_report(tmp_path / "report.html", replace(report(tmp_path), cells=without))
    text = (
        (tmp_path / "report.html")
        .read_text(encoding="utf-8")
        .partition('<script type="application/json"')[0]
    )
    for shown in (
        'id="reproduction"',
        'href="#reproduction"',
        "ours and paper",
        'id="verdict"',
    ):
        assert shown in page, shown
        assert shown not in text, shown
    assert "8 numbers" in text


def test_the_contents_of_a_report_are_read_from_the_files_of_its_rule(tmp_path):
    (tmp_path / "thesis-3.4.csv").write_text(format_csv(cells()))
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "clip.run.json").write_text(json.dumps(run_facts()[0]))
    Image.new("RGB", (40, 20)).save(tmp_path / "scenes.png")
    write_records(tmp_path / "existence.parquet", pairs(), ItemRecord)
    scores = [
        {
            **to_row(score(f"existence:{number}", "caption", 1.0)),
            "dataset": "existence",
        }
        for number in (0, 1)
    ]
    layout = EVALUATION.with_dataset()
    parquet.write_rows(tmp_path / "scores.parquet", scores, layout)
    inputs = dict.fromkeys(("questions", "images", "scores", "faults"), ()) | {
        "cells": [tmp_path / "thesis-3.4.csv"],
        "records": [tmp_path / "evaluation" / "clip.run.json"],
        "figures": [str(tmp_path / "scenes.png")],
        "pairs": [tmp_path / "existence.parquet"],
    }
    settings = {
        "study": "tiny",
        "filters": {},
        "sources": {},
        "lock": tmp_path / "no.lock",
        "locked": {},
        "datasets": ["existence"],
        "averaged": [],
        "questions": {},
        "images": [],
        "runs": {
            "evaluation": [("clip", "existence", str(tmp_path / "scores.parquet"))]
        },
        "samples": 1,
        "seed": 3,
        "confidence": 0.95,
        "excess_margin": 0.05,
        "figures": {"scenes": ("Drawn scenes", "Scenes")},
        "sample_figures": [],
    }
    contents = read_report(inputs, settings, tmp_path)
    assert contents.cells == cells()
    assert [record.name for record in contents.records] == ["evaluation/clip"]
    assert [
        (figure.name, figure.title, figure.group) for figure in contents.figures
    ] == [("scenes", "Drawn scenes", "Scenes")]
    assert (contents.models, contents.construction) == ([], [])
    assert contents.browser["datasets"] == [
        {"name": "existence", "items": 2, "shown": 1}
    ]
    write_report(tmp_path / "report.html", contents)
    assert "Drawn scenes" in (tmp_path / "report.html").read_text()


def test_a_study_without_a_run_says_whose_answers_it_shows(tmp_path):
    recorded = RunModel(name="clip", recorded="coco")
    record = records()[0].model_copy(update={"models": (recorded,)})
    contents = replace(
        report(tmp_path), findings=findings()[:1], records=[record], differences=()
    )
    write_report(tmp_path / "recorded.html", contents)
    page = (tmp_path / "recorded.html").read_text(encoding="utf-8")
    assert "No model ran here: the answers of clip are recorded in coco; of 2" in page
    assert '<p class="lead">coco: Lin et al.' in page
    # a study with one more model shows its findings first
    write_report(tmp_path / "mixed.html", replace(contents, findings=findings()))
    assert "No model ran" not in (tmp_path / "mixed.html").read_text(encoding="utf-8")


def test_json_of_data_ends_no_script_and_comes_back():
    data = {"caption": "</script><!-- \u2028 &amp;", "value": 0.5}
    text = escape_json(data)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == data
    with pytest.raises(ValueError, match="JSON"):
        escape_json({"value": float("nan")})


def test_cells_are_counted_by_verdict_table_and_model():
    of = select_compared(cells())
    total = count_cells("all", of)
    assert (total.cells, total.compared) == (5, 2)
    assert list(total.kinds.values()) == [1, 0, 0, 1, 2, 1]
    assert "equivalent" not in total.named_kinds
    assert total.share("no value") == 0.2
    assert {
        counts.name: counts.kinds["no verdict"]
        for counts in count_cells_by(of, "model")
    } == {
        "clip": 0,
        "mine": 2,
    }
    assert count_reasons(of) == [("not run in this study", 1)]


def test_a_grid_gives_back_every_cell():
    of = cells()
    data = make_table_json(get_declaration("thesis-3.4", of), of)
    names, fields = data["names"], list_field_names()
    back = [dict(zip(fields, row, strict=True)) for row in data["cells"]]
    assert data["layouts"]["published"] == {
        "corner": ("metric", "model"),
        "columns": (("existence",), ("plurality",)),
        "rows": [("acc_r", "clip"), ("acc_r", "mine"), ("acc", "clip")],
    }
    assert [(row["row"], row["column"]) for row in back[:5]] == [
        (0, 0),
        (0, 1),
        (2, 0),
        (1, 0),
        (1, 1),
    ]
    assert len(back) == len(of) == 10
    assert {
        (names[row["profile"]], names[row["model"]], row["value"]) for row in back
    } == {(cell.profile, cell.model, cell.value) for cell in of}
    (equal,) = (row for row in back if names[row["verdict"]] == "equal to the paper")
    assert (equal["value"], equal["paper_value"], equal["difference"]) == (
        66.9,
        66.9,
        0,
    )


def test_a_text_in_place_of_a_number_is_a_value_and_paper_values_are_unchanged():
    absent = next(cell for cell in cells() if cell.value is None)
    not_a_number = replace(absent, text="nan", paper_text="nan", verdict="")
    data = make_table_json(
        get_declaration("thesis-3.4", [not_a_number]), [not_a_number]
    )
    row = dict(zip(list_field_names(), data["cells"][0], strict=True))
    assert [data["names"][row[name]] for name in ("text", "paper_text", "verdict")] == [
        "nan",
        "nan",
        "no verdict",
    ]
    assert count_reasons([not_a_number]) == []


def test_fields_that_tell_cells_apart_name_rows_even_where_the_declaration_forgets_them():
    of = [
        replace(cell, setting=setting) for cell in cells() for setting in ("qa", "isa")
    ]
    data = make_table_json(get_declaration("thesis-3.4", of), of)
    assert data["layouts"]["published"]["corner"] == ("metric", "model", "setting")
    places = [(data["names"][row[0]], *row[-3:-1]) for row in data["cells"]]
    assert len(set(places)) == len(of)


def test_the_page_has_the_marks_and_places_of_the_other_forms():
    for table in ("thesis-B.1", "thesis-4.1", "thesis-5.5", "thesis-3.4"):
        of = build_cells_with_intervals(table)
        data, laid = make_table_json(TABLES[table], of), lay_out_grid(TABLES[table], of)
        assert data["layouts"]["published"]["columns"] == laid.columns
        rows = {
            (packed[-3], packed[-2]): dict(zip(list_field_names(), packed, strict=True))
            for packed in data["cells"]
        }
        for row, (_, entries) in enumerate(laid.rows):
            for column, marked in enumerate(entries):
                shown = rows.get((row, column))
                assert (shown is None) == (marked is None)
                if marked is not None:
                    assert data["names"][shown["model"]] == marked.cell.model
                    assert shown["mark"] == marked.best + 2 * marked.at_chance
                    assert (shown["sd"] or 0) == pytest.approx(
                        marked.cell.sd or 0, rel=1e-6
                    )
        assert sum(packed[-3] < 0 for packed in data["cells"]) == len(of) - len(
            [key for key in rows if key[0] >= 0]
        )
    packed_cells = make_table_json(
        TABLES["thesis-3.4"], build_cells_with_intervals("thesis-3.4")
    )["cells"]
    assert {packed[-1] for packed in packed_cells} >= {0, 1, 2}


def build_cells_with_intervals(table):
    """Return a table's cells with paper values as our numbers, in intervals of ± 0.1."""
    return [
        cell
        if cell.value is None
        else replace(cell, ci_low=cell.value - 0.1, ci_high=cell.value + 0.1)
        for cell in build_paper_cells(table)
    ]


def test_facts_say_models_time_and_what_differs_between_runs():
    changes = {
        "name": "attribution/clip/existence",
        "commit": "d" * 40,
        "wall_seconds": 10.0,
    }
    other = records()[0].model_copy(update=changes)
    both = {
        "nli": {"name": "nli"},
        "likelihood": {"name": "mine", "weights": "owner/mine"},
    }
    filtered = RunRecord.model_validate(
        {
            **run_facts()[0],
            "name": "filters/existence",
            "model": None,
            "models": both,
            "wall_seconds": 9.0,
        }
    )
    facts = summarize_runs([*records(), other, filtered])
    assert [(row.model.name, row.runs, row.seconds) for row in facts.models] == [
        ("clip", 2, 40.0),
        ("mine", 2, 61.0),
        ("nli", 1, 0),
    ]
    assert [(row.stage, row.seconds) for row in facts.stages] == [
        ("evaluation", 91.0),
        ("attribution", 10.0),
        ("filters", 9.0),
    ]
    assert facts.settings["commit"] == ["c" * 40, "d" * 40]
    assert facts.settings["torch"] == ["2.13.0"]


def test_warnings_are_counted_with_their_reasons():
    first, second = records()
    assert list(list_warnings(first)) == [
        ("ties, in which neither text is preferred", 2, "")
    ]
    assert list(list_warnings(second)) == [
        ("texts that could not be scored", 3, "too long: 3")
    ]


def test_records_are_read_with_their_shards_and_a_broken_one_is_named(tmp_path):
    (tmp_path / "attribution").mkdir()
    (tmp_path / "attribution/a.run.json").write_text(
        json.dumps([{"shard": "1 of 2"}, {"shard": "2 of 2"}])
    )
    run_records = read_study_records([tmp_path / "attribution/a.run.json"], tmp_path)
    assert [(record.name, record.stage, record.shard) for record in run_records] == [
        ("attribution/a", "attribution", "1 of 2"),
        ("attribution/a", "attribution", "2 of 2"),
    ]
    (tmp_path / "b.run.json").write_text("{")
    with pytest.raises(UserError, match=r"b\.run\.json: run record cannot be read"):
        read_study_records([tmp_path / "b.run.json"], tmp_path)


def test_the_draw_takes_attributed_items_first_and_else_what_the_study_draws():
    ids = [f"item-{number}" for number in range(50)]
    assert set(select_examples([], ids, 10, 3)) == set(sample(ids, 10, 3))
    assert set(select_examples(sample(ids, 4, 3), ids, 10, 3)) == set(
        sample(ids, 10, 3)
    )
    assert select_examples(["item-7", "item-7"], ids, 3, 3)[0] == "item-7"
    assert (
        select_examples([], ids, 5, 3)
        == select_examples([], ids[::-1], 5, 3)
        == select_examples([], ids, 10, 3)[:5]
    )


def test_a_pair_is_right_where_the_caption_wins_and_one_text_where_it_is_judged_right():
    caption, foil = score("i", "caption", 1.0), score("i", "mismatched", 2.0)
    assert describe_outcome([caption, foil]) == "wrong"
    assert describe_outcome([replace(caption, score=3.0), foil]) == "right"
    assert describe_outcome([replace(caption, score=2.0), foil]) == "tie"
    assert describe_outcome([replace(caption, score=2.0 + 1e-7), foil]) == "tie"
    assert (
        describe_outcome([caption])
        == describe_outcome([replace(caption, score=None), foil])
        == ""
    )
    assert describe_outcome([replace(caption, correct=True)]) == "right"
    pairwise = replace(caption, setting="pairwise", prediction="foil", correct=False)
    assert describe_outcome([replace(caption, score=3.0), foil, pairwise]) == "wrong"


def test_contributions_come_back_from_their_steps():
    data = make_browser_data(
        {"existence": items()}, runs(), picture, {"existence": 534}
    )
    first = data["items"][0]["results"][0]["contributions"][0]
    (column,) = first["columns"]
    phi = np.array([0.0, -0.5, 0.1, 0.2, 0.0, 0.0, 0.1, 0.25, -0.125, 0.0, 0.5])
    assert np.array(column["phi"]) * column["step"] == pytest.approx(
        phi, abs=0.5 / examples.STEPS
    )
    assert data["players"][first["players"]]["tokens"][3] == "cat"
    fields = data["fields"]["contributions"]
    assert dict(zip(fields, first["is"], strict=False))["t_shap"] == 0.25


def test_of_several_outputs_the_mean_of_ratios_comes_first():
    phi = np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 4.0]])
    row = attribution(
        "existence:0",
        phi,
        tokens=["a", "b"],
        spans=[StoredSpan(0, 1)] * 2,
        grid=1,
        outputs=["x", "y"],
    )
    data = make_browser_data(
        {"existence": items()[:1]},
        [ModelRun("m", "existence", attribution=[row])],
        picture,
        {"existence": 1},
    )
    mean, x, y = data["items"][0]["results"][0]["contributions"][0]["columns"]
    assert [column["name"] for column in (mean, x, y)] == ["mean of ratios", "x", "y"]
    assert np.array(mean["phi"]) * mean["step"] == pytest.approx(
        [0.125, -0.125, 0.75], abs=1e-3
    )
    assert np.array(x["phi"]) * x["step"] == pytest.approx([1, -1, 2], abs=0.02)


def test_a_value_that_is_no_number_stays_one(monkeypatch):
    phi = np.array([[np.nan], [1.0], [0.5]])
    row = attribution(
        "existence:0",
        phi,
        tokens=["a", "b"],
        spans=[StoredSpan(0, 1)] * 2,
        grid=1,
        t_shap=None,
    )
    data = make_browser_data(
        {"existence": items()[:1]},
        [ModelRun("m", "existence", attribution=[row])],
        picture,
        {"existence": 1},
    )
    assert data["items"][0]["results"][0]["contributions"][0]["columns"][0]["phi"] == [
        None,
        examples.STEPS,
        500,
    ]


def test_the_verdict_of_a_test_is_shown_in_words():
    data = make_browser_data({"existence": items()}, runs(), picture, {"existence": 2})
    (test,) = data["items"][0]["results"][-1]["tests"]
    assert test["verdict"] == "not consistent"


def test_what_has_no_room_is_left_out_of_the_last_items_and_says_so(monkeypatch):
    rows = [attribution(f"existence:{number}", np.ones((11, 3))) for number in (0, 1)]
    run = ModelRun("m", "existence", attribution=rows)

    def parts():
        data = make_browser_data(
            {"existence": items()}, [run], picture, {"existence": 2}
        )
        return [item["results"][0]["contributions"][0] for item in data["items"]]

    size = sum(len(str(column)) for column in parts()[0]["columns"][1:])
    monkeypatch.setattr(examples, "MAX_DETAILS", size)
    first, second = parts()
    assert (
        len(first["columns"]),
        len(second["columns"]),
        second["outputs_skipped"],
    ) == (4, 1, 3)
    monkeypatch.setattr(examples, "MAX_CHARACTERS", 0)
    assert [("columns" in part, part["skipped"]) for part in parts()] == [
        (False, True)
    ] * 2


def test_images_that_items_share_are_carried_once():
    data = make_browser_data(
        {"existence": items()}, runs(), picture, {"existence": 534}
    )
    assert len(data["images"]) == 1
    assert [item["image"] for item in data["items"]] == [0, 0]
    broken = make_browser_data(
        {"existence": items()},
        runs(),
        lambda *_: (None, "is missing"),
        {"existence": 534},
    )
    assert (broken["images"], broken["items"][0]["fault"]) == ([], "is missing")


def test_many_pictures_share_the_room(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "PICTURES_BYTES", 40_000)
    noise = np.random.default_rng(0).integers(0, 255, (12, 15, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((900, 720), Image.Resampling.BILINEAR).save(
        tmp_path / "one.png"
    )
    sizes = {}
    for number in (1, 2, 4):
        carried = inline_figures([tmp_path / "one.png"] * number)
        assert sum(map(len, carried)) * 3 / 4 <= 40_000
        with Image.open(
            io.BytesIO(base64.b64decode(carried[0].partition(",")[2]))
        ) as image:
            sizes[number] = image.width
    assert sizes[1] == 900
    assert sizes[1] >= sizes[2] >= sizes[4] < 900
    (tmp_path / "drawing.svg").write_text("<svg>" + " " * 30_000 + "</svg>")
    _, picture = inline_figures([tmp_path / "drawing.svg", tmp_path / "one.png"])
    assert len(picture) * 3 / 4 <= 10_000


def test_a_large_drawing_is_replaced_by_its_picture(tmp_path):
    (tmp_path / "large.svg").write_text("<svg>" + " " * 200_000 + "</svg>")
    (tmp_path / "alone.svg").write_text("<svg>" + " " * 200_000 + "</svg>")
    Image.new("RGB", (10, 10)).save(tmp_path / "large.png")
    large, alone = inline_figures([tmp_path / "large.svg", tmp_path / "alone.svg"])
    assert large.startswith("data:image/webp")
    assert alone.startswith("data:image/svg+xml")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1.25, "1.2 s"), (99.0, "99 s"), (150, "2 min"), (9000, "2 h 30 min")],
)
def test_durations_are_shown_in_their_unit(seconds, expected):
    assert format_duration(seconds) == expected
