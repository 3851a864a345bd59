"""The layout of the release: what was read from it goes out as it came in, what was built gets all
of its fields.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stand_ins.benchmark_rows import (
    NAUGHTY,
    ORIGINALS,
    TEXTS,
    item,
    released_item,
    unvoted,
    write_release,
)
from waltz.benchmark.items import read_benchmark_items
from waltz.core.errors import UserError
from waltz.core.records import from_row, read_records, to_row, write_records
from waltz.core.schema import ItemRecord
from waltz.export.valse_layout import (
    FIELDS,
    build_pair_records,
    build_valse_records,
    get_file_name,
    render_json,
    restore_records,
)
from waltz.sources.formats.pairs import read_release
from waltz.valse_release import RELEASE

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def through_parquet(items, folder):
    write_records(folder / "rows.parquet", items, ItemRecord)
    return list(read_records(folder / "rows.parquet", ItemRecord))


def build(instrument, rows=None):
    return build_valse_records(
        [from_row(row, ItemRecord) for row in rows or [item(instrument)]],
        ORIGINALS.get(instrument, {}),
        "a method",
        RELEASE[instrument].source_format,
    )


@pytest.mark.parametrize("instrument", RELEASE)
def test_every_released_file_is_exported_byte_for_byte(
    instrument, shared_data, tmp_path
):
    path = shared_data / "valse" / get_file_name(instrument)
    rows = through_parquet(read_release(path, instrument, 2), tmp_path)
    assert render_json(restore_records(rows)).encode() == path.read_bytes()


@pytest.mark.parametrize("instrument", RELEASE)
def test_the_fields_are_those_of_the_release_in_its_order(instrument, shared_data):
    items = json.loads((shared_data / "valse" / get_file_name(instrument)).read_text())
    assert {tuple(record) for record in items.values()} == {FIELDS[instrument]}


def test_fields_beyond_those_of_the_release_survive(tmp_path):
    records = {
        "é 1": released_item(
            surprise=[1, None, {"x": 1e-300}], caption=NAUGHTY, foil="x" + NAUGHTY
        )
    }
    path = write_release(tmp_path / "relations.json", records)
    rows = through_parquet(read_release(path, "relations", 2), tmp_path)
    assert render_json(restore_records(rows)) == path.read_text()


@settings(max_examples=40, deadline=None)
@given(caption=TEXT, foil=TEXT, key=TEXT)
def test_any_text_survives(caption, foil, key, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    records = {key: released_item(caption=caption, foil=foil, key=key)}
    rows = read_release(write_release(folder / "any.json", records), "relations", 2)
    assert (
        json.loads(render_json(restore_records(through_parquet(rows, folder))))
        == records
    )


@pytest.mark.parametrize("instrument", TEXTS)
def test_built_items_have_all_fields_of_the_release_and_can_be_read_again(
    instrument, tmp_path
):
    row = item(instrument)
    records = build(instrument, [row])
    assert tuple(records[row["item_id"]]) == (*FIELDS[instrument], "waltz")
    (back,) = read_release(write_release(tmp_path / "x.json", records), instrument, 2)
    back = to_row(back)
    same = (
        "item_id",
        "instrument",
        "piece",
        "image",
        "caption",
        "foil",
        "caption_span",
        "foil_span",
        "valid",
    )
    assert {name: back[name] for name in same} == {name: row[name] for name in same}
    assert [back[f"votes_{side}"] for side in ("caption", "foil", "other")] == [3, 0, 0]


def test_built_existence_has_the_number():
    (record,) = build("existence").values()
    assert (record["answer"], record["classes"], record["classes_foil"]) == (2, 2, [0])
    assert record["provenance_of_foils"] == "something_to_zero"
    assert record["declarative_statement_foils"] == ["There are no dogs."]
    none = item(
        caption="There are no dogs.",
        foil="There are dogs.",
        direction="zero-to-something",
    )
    (record,) = build("existence", [none]).values()
    assert (record["answer"], record["classes"], record["classes_foil"]) == (0, 0, [])


def test_built_counting_has_numbers():
    (record,) = build("counting-balanced").values()
    assert (
        record["answer"],
        record["classes"],
        record["classes_foil"],
        record["dataset_idx"],
    ) == (4, 4, 1, "13")


def test_built_plurality_has_its_original_caption_and_its_scores():
    scores = {
        "grammaticality": 0.75,
        "nli_entailment": 0.125,
        "nli_neutral": 0.25,
        "nli_contradiction": 0.625,
    }
    (record,) = build("plurality", [item("plurality", **scores)]).values()
    assert (record["orig_caption"], record["dataset"], record["dataset_idx"]) == (
        "A dog runs.",
        "coco2017",
        7,
    )
    assert (record["original_split"], record["foil_method"]) == (
        "val",
        "checklist method, change NP to PL",
    )
    assert record["grammaticality_scores"] == [0.75]
    assert record["nli_scores"] == {
        "entail": [0.125],
        "neutral": [0.25],
        "contradict": [0.625],
        "pred": ["contradict"],
    }


def test_scores_that_nobody_computed_are_empty_lists():
    (record,) = build("relations").values()
    assert record["grammaticality_scores"] == []
    assert record["nli_scores"] == {
        "entail": [],
        "neutral": [],
        "contradict": [],
        "pred": [],
    }


def test_built_actions_have_the_words_of_their_texts():
    (record,) = build("action-replacement").values()
    assert (record["classes"], record["classes_foil"], record["dataset_idx"]) == (
        "exercises",
        "lifts",
        "red.png",
    )
    (record,) = build("actant-swap").values()
    assert (record["classes"], record["classes_foil"]) == ("man", "dog")


def test_built_coreference_has_the_original_caption():
    (record,) = build("coreference-standard").values()
    assert record["only_caption"] == "a dog runs"
    assert record["caption"].startswith(record["only_caption"] + ". ")
    assert "dataset_idx" not in record


def test_missing_votes_are_null_and_read_again_as_null(tmp_path):
    records = build("existence", [unvoted()])
    assert records["unvoted"]["mturk"] == {"foil": None, "caption": None, "other": None}
    assert (
        records["unvoted"]["waltz"]["valid"],
        records["unvoted"]["waltz"]["voter"],
    ) == (None, None)
    (back,) = read_release(write_release(tmp_path / "x.json", records), "existence", 2)
    assert [
        getattr(back, name)
        for name in ("valid", "votes_caption", "votes_foil", "votes_other")
    ] == [None] * 4


def test_columns_without_a_released_field_are_in_waltz():
    (record,) = build(
        "relations", [item("relations", voter="oracle", proposal_rank=3)]
    ).values()
    assert record["waltz"]["voter"] == "oracle"
    assert (record["waltz"]["proposal_rank"], record["waltz"]["direction"]) == (
        3,
        "on>under",
    )


def test_new_annotations_replace_the_released_votes(tmp_path):
    path = write_release(
        tmp_path / "r.json", {"1": released_item(), "2": released_item()}
    )
    annotations = tmp_path / "votes.csv"
    annotations.write_text(
        "item_id,annotator,answer,caption_position\n1,a,second,first\n"
    )
    arguments = {
        "form": "valse-release",
        "dataset": "relations",
        "source": "r",
        "valid_votes": 2,
    }
    rows, *_ = read_benchmark_items(
        str(path), annotations=str(annotations), **arguments
    )
    records = restore_records(through_parquet(rows, tmp_path))
    assert records["1"]["mturk"] == {"foil": 1, "caption": 0, "other": 0}
    assert records["1"]["waltz"] == {
        "valid": False,
        "released_mturk": released_item()["mturk"],
    }
    assert records["2"] == released_item()


def test_pairs_of_a_user_keep_their_record(tmp_path):
    path = tmp_path / "own.json"
    path.write_text(
        json.dumps(
            [
                {
                    "image": "red.png",
                    "caption": "A dog.",
                    "foil": "A cat.",
                    "mood": "good",
                }
            ]
        )
    )
    arguments = {
        "form": "pairs",
        "dataset": "pets",
        "source": "zoo",
        "valid_votes": 2,
        "annotations": None,
    }
    rows, *_ = read_benchmark_items(str(path), **arguments)
    record = build_pair_records(through_parquet(rows, tmp_path))["1"]
    assert (
        record["dataset"],
        record["linguistic_phenomena"],
        record["dataset_idx"],
    ) == ("zoo", "pets", "1")
    assert (record["classes"], record["classes_foil"], record["mturk"]["caption"]) == (
        "dog",
        "cat",
        None,
    )
    assert record["waltz"]["release"]["mood"] == "good"


def test_a_missing_source_row_is_named():
    with pytest.raises(UserError, match="'existence:1': own has no row '12'"):
        build_valse_records([from_row(item(), ItemRecord)], {}, "", "visual7w")


def test_items_of_captions_do_not_claim_the_data_set_of_the_release():
    (record,) = build_valse_records(
        [from_row(item(), ItemRecord)],
        {"12": {"caption": "Two cats."}},
        "",
        "coco-captions",
    ).values()
    assert (record["dataset"], record["answer"], record["classes"]) == (
        item()["source"],
        None,
        None,
    )
