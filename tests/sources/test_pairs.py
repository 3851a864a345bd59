"""The released VALSE benchmark, and a user's file of pairs."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from waltz.benchmark.items import read_benchmark_items
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.records import to_row
from waltz.core.schema import BENCHMARK, StoredSpan
from waltz.core.text_diff import SAME_TEXT, are_same_text, fold_text
from waltz.sources import tables
from waltz.sources.formats.pairs import read_pairs, read_release
from waltz.sources.pair_layouts import FLAGS
from waltz.valse_release import RELEASE

ITEM = {
    "dataset": "coco_2017",
    "original_split": "val",
    "dataset_idx": 212732,
    "image_file": "000000462576.jpg",
    "linguistic_phenomena": "relations",
    "caption": "Juice is on the table.",
    "foil": "Juice is off the table.",
    "classes": "on",
    "classes_foil": "off",
    "grammaticality_scores": [0.87],
    "nli_scores": {
        "entail": [0.01],
        "contradict": [0.97],
        "neutral": [0.02],
        "pred": ["contradict"],
    },
    "mturk": {"foil": 0, "caption": 2, "other": 1},
}
FILES = {
    "existence": ("existence", 534, 505),
    "plurality": ("plurals", 1000, 851),
    "counting-balanced": ("counting-hard", 1000, 868),
    "counting-small": ("counting-small-quant", 1000, 900),
    "counting-adversarial": ("counting-adversarial", 756, 691),
    "relations": ("relations", 614, 535),
    "action-replacement": ("action-replacement", 779, 648),
    "actant-swap": ("actant-swap", 1042, 949),
    "coreference-standard": ("coreference-standard", 916, 708),
    "coreference-clean": ("coreference-hard", 141, 104),
    "foil-it": ("foil-it", 1000, 943),
}


@pytest.fixture
def read(tmp_path):
    def run(content, instrument="relations"):
        file = tmp_path / "items.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        rows = read_release(file, instrument, 2)
        parquet.build_table(map(to_row, rows), BENCHMARK)
        return rows

    return run


def test_an_item_becomes_a_row_that_keeps_the_released_record(read):
    (row,) = read({"relations:1": ITEM})
    assert row.item_id == "relations:1"
    assert (row.instrument, row.piece, row.source, row.source_id) == (
        "relations",
        "relations",
        "coco2017",
        "212732",
    )
    assert (row.caption_phrases, row.foil_phrases) == (["on"], ["off"])
    assert (row.caption_span, row.foil_span) == (
        StoredSpan(9, 11),
        StoredSpan(9, 12),
    )
    assert (row.grammaticality, row.nli_contradiction) == (0.87, 0.97)
    assert (row.votes_caption, row.votes_other, row.valid) == (2, 1, True)
    assert json.loads(row.release) == ITEM


@pytest.mark.parametrize(
    ("classes_foil", "phrases"),
    [
        (3, ["3"]),
        ([2, 1, 8], ["2", "1", "8"]),
        ([], []),
        (False, ["false"]),
        ("a", ["a"]),
    ],
)
def test_lexical_items_of_every_released_type_are_read(read, classes_foil, phrases):
    (row,) = read({"1": {**ITEM, "classes_foil": classes_foil}})
    assert row.foil_phrases == phrases


def test_both_texts_of_an_actant_swap_contain_both_fillers(read):
    (row,) = read({"1": ITEM}, "actant-swap")
    assert row.caption_phrases == row.foil_phrases == ["on", "off"]


def test_a_missing_dataset_idx_is_null(read):
    missing = {key: value for key, value in ITEM.items() if key != "dataset_idx"}
    for item in read({"1": missing, "2": {**ITEM, "dataset_idx": None}}):
        assert item.source_id is None


def test_one_vote_is_not_enough_even_as_a_majority(read):
    (row,) = read({"1": {**ITEM, "mturk": {"caption": 1, "foil": 0, "other": 2}}})
    assert row.valid is False


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('{"1": {"caption": ', r"items\.json: truncated: the file ends at byte 18"),
        ("[]", "is a list, not an object"),
        ({"7": []}, "'7' of .* is a list, not an object"),
        ({"7": {**ITEM, "caption": None}}, "id '7': field 'caption' is null"),
        (
            {"7": {key: value for key, value in ITEM.items() if key != "foil"}},
            "id '7': field 'foil' is missing",
        ),
        ({"7": {**ITEM, "mturk": {"caption": 3}}}, "mturk: field 'foil' is missing"),
        ({"7": {**ITEM, "classes": None}}, "field 'classes' is null"),
        (
            '{"7": %s, "7": %s}' % ((json.dumps(ITEM),) * 2),
            "the root: key '7' stands twice",
        ),
        ({"7": {**ITEM, "dataset": "imagenet"}}, "field 'dataset' is 'imagenet'"),
        (
            {"7": {**ITEM, "original_split": 5}},
            "id '7': field 'original_split' is a whole number, not a text",
        ),
        (
            {"7": {**ITEM, "provenance_of_foils": ["x"]}},
            "id '7': field 'provenance_of_foils' is a list, not a text",
        ),
        (
            {"7": {**ITEM, "dataset_idx": {}}},
            "id '7': field 'dataset_idx' is an object, not a whole number",
        ),
        (
            {"7": {**ITEM, "grammaticality_scores": [None]}},
            "id '7': field 'grammaticality_scores': entry 0 is null, not a number",
        ),
        (
            {"7": {**ITEM, "nli_scores": {"entail": 1}}},
            "id '7': nli_scores: field 'entail' is a whole number, not a list",
        ),
        (
            {"7": {**ITEM, "mturk": {**ITEM["mturk"], "foil": 2**40}}},
            "id '7': mturk: field 'foil' is 1099511627776, not a number of at most 32",
        ),
        ('{"7": {}, "7": {}}', "id '7': field 'dataset' is missing"),
    ],
)
def test_a_fault_is_named_with_file_id_and_field(read, content, fault):
    with pytest.raises(UserError, match=fault):
        read(content)


def test_an_unknown_instrument_is_named(read):
    with pytest.raises(
        UserError, match="unknown instrument 'colours'; the release has existence"
    ):
        read({}, "colours")


def test_a_file_that_is_not_text_is_named(tmp_path):
    (tmp_path / "items.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(UserError, match="byte 7"):
        read_release(tmp_path / "items.json", "relations", 2)


@pytest.mark.parametrize(("instrument", "facts"), FILES.items())
def test_the_release_as_counted_in_its_readme(shared_data, instrument, facts):
    name, items, valid = facts
    path = shared_data / "valse" / f"{name}.json"
    rows = read_release(path, instrument, 2)
    parquet.build_table(map(to_row, rows), BENCHMARK)
    assert (len(rows), sum(row.valid for row in rows)) == (items, valid)
    released = json.loads(path.read_text())
    assert {row.item_id: json.loads(row.release) for row in rows} == released


def test_caption_equals_foil_in_24_items_and_none_is_valid(shared_data):
    same = [
        (instrument, row.valid)
        for instrument, (name, _, _) in FILES.items()
        for row in read_release(shared_data / "valse" / f"{name}.json", instrument, 2)
        if row.caption == row.foil
    ]
    counts = {
        instrument: sum(name == instrument for name, _ in same)
        for instrument, _ in same
    }
    assert counts == {"existence": 1, "counting-balanced": 9, "actant-swap": 14}
    assert not any(valid for _, valid in same)


def test_every_instrument_of_the_release_is_tested_here():
    assert list(FILES) == list(RELEASE)


ROWS = [
    {
        "image": "a.png",
        "caption": "four, zebras",
        "foil": "six, zebras",
        "phenomenon": "counting",
    },
    {"image": "b.png", "caption": "NA", "foil": "null", "phenomenon": "nouns"},
]


def _write(folder, form, rows):
    path = folder / f"pairs.{form}"
    frame = pd.DataFrame(rows)
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "parquet":
        frame.to_parquet(path)
    else:
        path.write_text(json.dumps(rows))
    return path


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_every_file_format_gives_the_same_pairs(tmp_path, form):
    rows = read_pairs(_write(tmp_path, form, ROWS), "mine", "own")
    parquet.build_table(map(to_row, rows), BENCHMARK)
    assert [(row.item_id, row.piece, row.caption, row.foil) for row in rows] == [
        ("1", "counting", "four, zebras", "six, zebras"),
        ("2", "nouns", "NA", "null"),
    ]
    assert rows[0].caption_phrases == ["four"]
    assert json.loads(rows[0].release) == ROWS[0]


def test_ids_of_a_user_are_unchanged(tmp_path):
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps({"x7": {"image": "a", "caption": "b", "foil": "c"}}))
    (row,) = read_pairs(path, "mine", "own")
    assert (row.item_id, row.piece) == ("x7", "mine")


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (
            [{"image": "a", "caption": "b"}],
            r"item 1: 'foil' is missing \(got image and caption\)",
        ),
        (
            [{"image": "a", "caption": " ", "foil": "c"}],
            "item 1: 'caption' is not a text with content \\(got ' '\\)",
        ),
        (
            [{"image": "a", "caption": True, "foil": "c"}],
            "item 1: 'caption' is not a text with content \\(got True\\)",
        ),
        (
            [{"id": "1", "image": "a", "caption": "b", "foil": foil} for foil in "cd"],
            "item 2: duplicate id '1', with other content than above",
        ),
        ([], "no rows in the file"),
        (7, "the root is a whole number"),
    ],
)
def test_a_fault_is_named_with_file_item_and_field(tmp_path, rows, fault):
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(rows))
    with pytest.raises(UserError, match=rf"pairs\.json: {fault}"):
        read_pairs(path, "mine", "own")


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.txt", ""), ("a.json", "{"), ("a.csv", ""), ("a.parquet", "no")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=name):
        read_pairs(tmp_path / name, "mine", "own")


SAME = [
    ("A dog.", "A dog."),
    ("A dog.", " A  dog. "),
    ("A dog.", "A\u00a0dog."),
    ("A dog.", "A\u2003dog.\n"),
    ("A dog.", "A dog\u200b."),
    ("A dog.", "\ufeffA do\u00adg."),
    ("A dog.", "\uff21 \uff44og."),
    ("A caf\u00e9.", "A cafe\u0301."),
    ("A caf\u00e9.", "A cafe\u200d\u0301."),
    ("A \ufb01sh.", "A fish."),
    ("A dog's cow.", "A dog\u2019s cow."),
    ("A dog's cow.", "A dog`s cow."),
    ("A dog's cow.", "A dog\u00b4s cow."),
    ("A dog - brown.", "A dog \u2015 brown."),
]


@pytest.mark.parametrize(("caption", "foil"), SAME)
@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_caption_that_equals_its_foil_is_no_item(tmp_path, form, caption, foil):
    rows = [
        {"image": "a.png", "caption": caption, "foil": foil},
        {"image": "a.png", "caption": "A dog.", "foil": "A cat."},
    ]
    items, _, unusable = read_benchmark_items(
        str(_write(tmp_path, form, rows)),
        form="pairs",
        dataset="own",
        source="own",
        annotations=None,
        valid_votes=2,
    )
    assert [item.item_id for item in items] == ["2"]
    assert unusable == {SAME_TEXT: 1}
    with pytest.raises(
        UserError,
        match="none of 1 items can be used: caption and foil are the same text",
    ):
        read_pairs(_write(tmp_path, form, rows[:1]), "mine", "own")


@pytest.mark.parametrize("text", ["\u200b", "\u00ad \ufeff"])
def test_a_text_of_invisible_characters_is_no_text(tmp_path, text):
    rows = [{"image": "a.png", "caption": "A dog.", "foil": text}]
    with pytest.raises(UserError, match="item 1: 'foil' is not a text with content"):
        read_pairs(_write(tmp_path, "json", rows), "mine", "own")


def test_texts_that_differ_in_a_letter_its_case_or_accent_are_a_pair():
    for caption, foil in (
        ("A dog.", "A dag."),
        ("A turkey.", "A Turkey."),
        ("A resume.", "A r\u00e9sum\u00e9."),
        ("1", "2"),
    ):
        assert not are_same_text(caption, foil)


TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1
).filter(fold_text)


def test_damaged_parquet_files_of_a_user_are_named(tmp_path):
    file = tmp_path / "a.parquet"
    _, offsets, letters = pa.array([b"\xff\xfe"], pa.binary()).buffers()
    no_text = pa.StringArray.from_buffers(1, offsets, letters)
    pq.write_table(
        pa.table({"image": ["i.png"], "caption": no_text, "foil": ["b"]}), file
    )
    with pytest.raises(UserError, match=r"a\.parquet: cannot be read"):
        read_pairs(file, "own", "mine")
    options = {
        "compression": "none",
        "use_dictionary": False,
        "write_statistics": False,
        "write_page_checksum": True,
    }
    pq.write_table(
        pa.table({"image": ["i.png"], "caption": ["one zebra"], "foil": ["b"]}),
        file,
        **options,
    )
    file.write_bytes(file.read_bytes().replace(b"one zebra", b"two zebra", 1))
    with pytest.raises(UserError, match=r"a\.parquet: cannot be read: .*CRC"):
        read_pairs(file, "own", "mine")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    st.lists(
        st.fixed_dictionaries({"image": TEXT, "caption": TEXT, "foil": TEXT}),
        min_size=1,
        max_size=4,
    )
)
def test_any_text_is_read_unchanged(tmp_path, rows):
    assume(not all(are_same_text(row["caption"], row["foil"]) for row in rows))
    assume(not all(row["foil"].strip().lower() in FLAGS for row in rows))
    for form in ("csv", "json", "parquet"):
        read = read_pairs(_write(tmp_path, form, rows), "mine", "own")
        assert [
            {"image": item.image, "caption": item.caption, "foil": item.foil}
            for item in read
        ] == rows


PAIR = {"image": ["a.jpg"], "caption": ["a dog"], "foil": ["a cat"]}


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**62], pa.timestamp("us")),
        pa.array([10**8], pa.date32()),
        pa.array([2**61], pa.date64()),
        pa.array([2**62], pa.duration("s")),
        pa.array([0], pa.timestamp("us", tz="Nowhere/None")),
    ],
    ids=["timestamp", "date32", "date64", "duration", "time zone"],
)
def test_a_time_out_of_range_in_another_column_is_one_line(tmp_path, column):
    pq.write_table(pa.table({**PAIR, "more": column}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet: cannot be read: ") as raised:
        read_pairs(tmp_path / "a.parquet", "own", "own")
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        (pa.array([float("nan")]), None),
        (pa.array([float("-inf")]), None),
        (pa.array([[float("nan"), 1.0]]), [None, 1.0]),
        (pa.array([{"a": float("nan")}]), {"a": None}),
    ],
)
def test_a_number_that_json_lacks_is_stored_as_null(tmp_path, column, stored):
    pq.write_table(pa.table({**PAIR, "more": column}), tmp_path / "a.parquet")
    (row,) = read_pairs(tmp_path / "a.parquet", "own", "own")
    assert json.loads(row.release, parse_constant=pytest.fail)["more"] == stored


def test_a_file_that_states_millions_of_rows_is_refused_at_once(tmp_path):
    rows = 3_000_000
    columns = {
        name: pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(rows, np.int32)), pa.array(value)
        ).cast(pa.string())
        for name, value in PAIR.items()
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 10**6
    with pytest.raises(
        UserError,
        match=r"too many pairs or rows \(got 3000000, expected 1000000 or fewer\)",
    ):
        read_pairs(tmp_path / "a.parquet", "own", "own")


def test_values_that_are_larger_than_their_file_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_TABLE_BYTES", 10**6)
    columns = {name: value * 2000 for name, value in PAIR.items()}
    pq.write_table(
        pa.table({**columns, "more": ["a" * 1000] * 2000}), tmp_path / "a.parquet"
    )
    with pytest.raises(UserError, match="values are too large"):
        read_pairs(tmp_path / "a.parquet", "own", "own")
