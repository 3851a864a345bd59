"""The table of encoder types is that of the installed transformers, if the page is about it."""

import pytest
import transformers

from docs import encoder_types


def test_the_page_holds_the_table():
    page = encoder_types.PAGE.read_text(encoding="utf-8")
    if f"transformers {transformers.__version__}:" not in page:
        pytest.skip("the page is about another version of transformers")
    assert encoder_types.replace_table(page) == page, (
        "run python tests/docs/encoder_types.py"
    )


def test_every_type_is_read_or_refused_with_a_reason():
    for model_type, class_name in encoder_types.list_classes():
        kind, status = encoder_types.find_path(model_type, class_name)
        assert kind or len(status) > len("refused: "), (model_type, class_name)
