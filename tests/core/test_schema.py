import pytest

from waltz.core import schema
from waltz.core.layout import Layout
from waltz.core.records import Record, describe_columns, get_layout

RECORDS = [
    value
    for value in vars(schema).values()
    if isinstance(value, type) and issubclass(value, Record) and hasattr(value, "KEY")
]


def test_each_layout_belongs_to_a_record_and_names_are_unique():
    layouts = {
        value.name for value in vars(schema).values() if isinstance(value, Layout)
    }
    names = [record.LAYOUT_NAME for record in RECORDS]
    assert layouts <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_each_column_of_a_layout_is_described_and_the_key_is_required(record):
    layout = get_layout(record)
    assert list(describe_columns(record)) == layout.schema.names
    assert all(not layout.schema.field(name).nullable for name in layout.key)
