from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import pyarrow as pa
import pytest

from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.measure import Measure
from waltz.core.records import (
    INLINE,
    STORED_AS_NULLABLE,
    Int32,
    Record,
    build_frame,
    describe_columns,
    get_layout,
    read_frame,
    read_records,
    to_row,
    write_records,
)


@dataclass(frozen=True, slots=True)
class Range:
    """Half-open range.

    Attributes:
        start: First character.
        end: Character after the last.
    """

    start: Annotated[Int32, STORED_AS_NULLABLE]
    end: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class Animal(Record):
    """One row per animal.

    Attributes:
        animal_id: Name of the animal.
        legs: Number of legs: two
            or more.
    """

    LAYOUT_NAME: ClassVar = "animals"
    KEY: ClassVar = ("animal_id",)

    animal_id: str
    legs: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bird(Animal):
    """One row per bird.

    Attributes:
        songs: Where it sings.
        nest: Where it lives.
        pitch: Pitch of each song in each year, in Hertz.
        weight: Mean weight.
        sings: Whether it sings.
    """

    songs: Sequence[Range] | None = None
    nest: Range | None = None
    pitch: Sequence[Sequence[float]] | None = None
    weight: Annotated[Measure, INLINE]
    sings: bool


WREN = Bird(
    animal_id="wren",
    legs=2,
    songs=[Range(1, 3), Range(4, 9)],
    nest=Range(0, 2),
    pitch=[[1.5, 2.5], [3.5, 4.5]],
    weight=Measure(9.0, 12, 8.0, 10.0, "bootstrap", images=5),
    sings=True,
)
OWL = Bird(animal_id="owl", weight=Measure(None, 0, reason="no scales"), sings=False)


def test_a_layout_follows_from_its_dataclass():
    span = pa.struct(
        [pa.field("start", pa.int32()), pa.field("end", pa.int32(), nullable=False)]
    )
    layout = get_layout(Bird)
    assert (layout.name, layout.key) == ("animals", ("animal_id",))
    assert layout.schema == pa.schema(
        [
            pa.field("animal_id", pa.string(), nullable=False),
            pa.field("legs", pa.int32()),
            pa.field("songs", pa.list_(span)),
            pa.field("nest", span),
            pa.field("pitch", pa.list_(pa.list_(pa.float64()))),
            pa.field("value", pa.float64()),
            pa.field("n", pa.int64(), nullable=False),
            pa.field("ci_low", pa.float64()),
            pa.field("ci_high", pa.float64()),
            pa.field("ci_method", pa.string()),
            pa.field("reason", pa.string()),
            pa.field("images", pa.int64()),
            pa.field("sings", pa.bool_(), nullable=False),
        ]
    )


def test_columns_are_described_by_the_docstrings_of_a_record_and_its_bases():
    descriptions = describe_columns(Bird)
    assert list(descriptions) == get_layout(Bird).schema.names
    assert descriptions["legs"] == "Number of legs: two or more."
    assert descriptions["n"].startswith("Number of items")


def test_a_column_without_a_description_is_an_error():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Fish(Animal):
        """One row per fish."""

        fins: int

    with pytest.raises(ValueError, match=r"column without a description: Fish\.fins"):
        describe_columns(Fish)


def test_records_are_read_as_written(tmp_path):
    assert write_records(
        tmp_path / "birds.parquet", iter([WREN, OWL]), Bird, source="garden"
    ) == (2, 0)
    assert list(read_records(tmp_path / "birds.parquet", Bird)) == [WREN, OWL]
    assert parquet.read_rows(tmp_path / "birds.parquet", get_layout(Bird)) == [
        to_row(WREN),
        to_row(OWL),
    ]
    assert parquet.read_metadata(tmp_path / "birds.parquet") == {"source": "garden"}


def test_a_frame_holds_the_columns(tmp_path):
    write_records(tmp_path / "birds.parquet", [WREN, OWL], Bird)
    frame = read_frame(tmp_path / "birds.parquet", Bird)
    assert list(frame["animal_id"]) == ["wren", "owl"]
    assert frame["value"].isna().tolist() == [False, True]


def test_a_missing_text_in_a_frame_is_none():
    table = pa.table({"error": ["no image", None], "n_items": [1, None]})
    frame = build_frame(table)
    assert frame["error"].tolist() == ["no image", None]
    assert frame["n_items"].isna().tolist() == [False, True]


def test_records_with_one_key_are_not_written(tmp_path):
    with pytest.raises(
        ValueError, match=r"animals: \{'animal_id': 'owl'\} occurs in 2 rows"
    ):
        write_records(tmp_path / "birds.parquet", [OWL, OWL], Bird)
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_layout_is_refused_before_the_first_record(tmp_path):
    write_records(
        tmp_path / "animals.parquet", [Animal(animal_id="ant", legs=6)], Animal
    )
    with pytest.raises(
        UserError, match=r"animals: column 'songs' is missing; delete it and run again"
    ):
        read_records(tmp_path / "animals.parquet", Bird)


def test_an_annotation_without_an_arrow_type_is_an_error():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Plant(Record):
        """One row per plant."""

        LAYOUT_NAME: ClassVar = "plants"
        KEY: ClassVar = ()
        leaves: complex

    with pytest.raises(TypeError, match="annotation without an Arrow type"):
        get_layout(Plant)
