"""Tables are declared in one file; what it gets wrong is named."""

import pytest
import yaml

from waltz.core.errors import UserError
from waltz.core.files.bounded_yaml import read_yaml
from waltz.core.measure import Measure
from waltz.fidelity import RELEASED_CODE
from waltz.plan import table_entries
from waltz.plan.table_entries import TABLES_FILE, list_table_ids, read_tables_file
from waltz.reporting.tables.build_table import build_cells
from waltz.reporting.tables.declaration import ENCODER, LANGUAGE, NumberSource
from waltz.reporting.tables.declarations import TABLES, build_declaration
from waltz.reporting.tables.numbers import Number, NumberKey, StudyFacts

MINE = {"title": "Mine", "sources": {"acc_r": {"kind": "evaluation"}}}


def test_the_file_is_plain_and_its_ids_are_those_of_the_tables():
    assert read_yaml(TABLES_FILE) == read_tables_file()
    assert list_table_ids() == list(TABLES)


def test_an_entry_of_two_lines_is_a_table():
    declaration = build_declaration("mine", {"mine": MINE})
    assert declaration.sources == {"acc_r": (NumberSource("evaluation", "acc_r"),)}
    assert declaration.rows == ("metric", "model")
    assert declaration.paper_tables == ()


def test_an_entry_takes_the_fields_that_it_lacks_from_the_table_that_it_extends():
    base = {**MINE, "model_kinds": ["encoder"], "notes": ["a remark"]}
    declaration = build_declaration(
        "mine", {"base": base, "mine": {"extends": "base", "notes": []}}
    )
    assert declaration.id == "mine"
    assert declaration.model_kinds == ("encoder",)
    assert declaration.notes == ()


def test_a_table_names_the_commits_that_published_follows():
    entry = {**MINE, "notes": ["a remark"], "released_code": ["VALSE", "CC-SHAP"]}
    assert build_declaration("mine", {"mine": entry}).notes == (
        "a remark",
        "`published` follows Heidelberg-NLP/VALSE 2152d90 (2024-02-15), Heidelberg-NLP/CC-SHAP 6918e5d (2024-07-23).",
    )


@pytest.mark.parametrize(
    "table",
    ["thesis-4.3", "thesis-5.5", "thesis-C.25", "decoders-paper-2", "decoders-paper-3"],
)
def test_tables_of_vl_decoders_name_the_upload_of_their_paper_values(table):
    notes = " ".join(TABLES[table].notes)
    assert "be40212" in notes
    assert RELEASED_CODE["CC-SHAP-VLM"].commit in notes


def test_a_table_of_ones_own_shows_its_models_data_sets_and_settings():
    entry = {
        **MINE,
        "sources": {
            "acc_r": {"kind": "evaluation", "settings": ["alignment", "perplexity"]}
        },
        "model_kinds": ["encoder"],
        "datasets": ["existence", "relations"],
    }
    declaration = build_declaration("mine", {"mine": entry})
    numbers = {
        NumberKey("evaluation", "acc_r", model, dataset, setting): Number(
            Measure(60.0, 100)
        )
        for model, setting in (
            ("clip", "alignment"),
            ("gpt2", "perplexity"),
            ("clip", "pairwise"),
        )
        for dataset in ("relations", "existence", "plurality")
    }
    study = StudyFacts({"clip": ENCODER, "gpt2": LANGUAGE}, False, 0.95, {})
    cells = build_cells(declaration, "equations", numbers, {}, study)
    assert [(cell.model, cell.dataset, cell.setting, cell.value) for cell in cells] == [
        ("clip", "relations", "", 60.0),
        ("clip", "existence", "", 60.0),
    ]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"row": ["model"]}, r"tables\.mine\.row: "),
        (
            {"sources": {"acc_r": {"kind": "evaluation", "setting": "a"}}},
            r"tables\.mine\.sources\.acc_r\.0\.setting: ",
        ),
        ({"sources": {"acc_r": {}}}, r"tables\.mine\.sources\.acc_r\.0\.kind: "),
        ({"notes": "a remark"}, r"tables\.mine\.notes: "),
        (
            {"released_code": ["CC-SHAPE"]},
            r"tables\.mine\.released_code: .*did you mean 'CC-SHAP'",
        ),
        (
            {"extends": "bas"},
            r"tables\.mine\.extends: no entry 'bas' .*did you mean 'base'",
        ),
    ],
)
def test_a_faulty_entry_names_its_field(changes, fault):
    with pytest.raises(UserError, match=fault):
        build_declaration("mine", {"base": MINE, "mine": {**MINE, **changes}})


def test_an_id_that_stands_twice_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "tables.yaml"
    file.write_text("metrics: {}\ntables:\n  mine: {}\n  mine: {}\n")
    monkeypatch.setattr(table_entries, "TABLES_FILE", file)
    with pytest.raises(yaml.YAMLError, match="key 'mine' stands twice: line 4"):
        read_tables_file.__wrapped__()
