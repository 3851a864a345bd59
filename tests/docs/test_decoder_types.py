"""The table of decoder types is what the loader decides for networks of these types."""

import pytest
import torch
import transformers

from docs import decoder_types
from stand_ins.models import tiny_decoder_types
from waltz.model_registry import ModelSpec
from waltz.models.decoders.vision_loading import wrap_vision_language_model

torch.set_num_threads(1)
WITHOUT_TORCHVISION = ("internvl", "qwen3_vl", "llava", "hunyuan_vl")
ROWS = decoder_types.read_record()


@pytest.fixture(autouse=True)
def _skip_other_versions():
    page = decoder_types.PAGE.read_text(encoding="utf-8")
    if f"transformers {transformers.__version__} (" not in page:
        pytest.skip("the page is about another version of transformers")


def test_the_page_holds_the_table():
    page = decoder_types.PAGE.read_text(encoding="utf-8")
    assert decoder_types.replace_table(page) == page, (
        "run python tests/docs/decoder_types.py"
    )


def test_the_readme_states_the_numbers():
    readme = (decoder_types.ROOT / "README.md").read_text(encoding="utf-8")
    assert decoder_types.summarize() in " ".join(readme.split())


def test_the_record_has_all_types_and_reasons():
    assert list(ROWS) == list(decoder_types.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    decided = {*tiny_decoder_types.TYPES, *decoder_types.REFUSED_REASONS}
    for row in ROWS.values():
        assert row.reason or row.path == "beginnings are read once", row
        assert (row.path != decoder_types.NOT_TRIED) == (row.model_type in decided)


@pytest.mark.parametrize("model_type", WITHOUT_TORCHVISION)
def test_the_loader_decides_as_recorded(model_type):
    network, processor = tiny_decoder_types.build(model_type)
    row = decoder_types.decide(model_type, network, processor)
    assert row == ROWS[model_type]


def test_types_of_tokens_that_a_processor_returns_on_demand_are_asked_for():
    network, processor = tiny_decoder_types.build("qwen3_vl")
    processor.return_mm_token_type_ids = False
    spec = ModelSpec("qwen3_vl", weights="tiny", revision="local")
    decoder = wrap_vision_language_model(spec, network, processor, "cpu")
    assert decoder.forward_pass == ROWS["qwen3_vl"].path
