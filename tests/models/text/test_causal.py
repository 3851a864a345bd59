"""Prefix trees, and losses of tiny causal language models."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import build_network
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import ModelSpec
from waltz.models.text import causal
from waltz.models.text.causal import batch_prefix_trees, build_prefix_trees

TREE_SEQUENCES = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=6).map(tuple),
    min_size=1,
    max_size=12,
)


def test_common_beginnings_are_nodes_once():
    trie = build_prefix_trees([(1, 2), (1, 2, 3), (1, 4), (5,)])
    assert trie.tokens.tolist() == [1, 2, 3, 4, 5]
    assert trie.parents.tolist() == [-1, 0, 1, 0, -1]
    assert trie.depths.tolist() == [0, 1, 2, 1, 0]
    assert trie.ends.tolist() == [1, 2, 3, 4]
    assert trie.build_ancestor_mask().astype(int).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]


@pytest.mark.parametrize("sequences", [[()], [(1,), (1,)], [(2,), (1,)]])
def test_what_is_no_sorted_set_of_texts_is_refused(sequences):
    with pytest.raises(ValueError, match="empty, repeated or out of order"):
        build_prefix_trees(sequences)


@given(TREE_SEQUENCES, st.integers(1, 12))
def test_every_sequence_is_in_the_tries_within_the_budget(sequences, budget):
    results = []
    for trie in batch_prefix_trees(sequences, budget):
        assert len(trie.tokens) <= budget or len(trie.sequences) == 1
        for index, sequence in enumerate(trie.sequences):
            path = trie.get_path(index)
            assert tuple(trie.tokens[path]) == sequence
            assert np.array_equal(
                np.flatnonzero(trie.build_ancestor_mask()[path[-1]]), path
            )
            results.append(sequence)
    assert results == sorted(set(sequences))


@given(TREE_SEQUENCES, st.randoms())
def test_the_cut_does_not_depend_on_the_order_of_the_texts(sequences, random):
    shuffled = random.sample(sequences, len(sequences))
    assert [trie.sequences for trie in batch_prefix_trees(sequences, 7)] == [
        trie.sequences for trie in batch_prefix_trees(shuffled, 7)
    ]


CPU = Device("cpu", 1, "test")
SEQUENCES = sorted([(1, 5, 6, 7), (1, 5, 6, 9, 4), (1, 5), (2, 3, 8)])


@pytest.fixture(params=["gpt2", "llama", "openai-gpt", "bloom"])
def model(request, tokenizer):
    return causal.wrap_causal_model(
        ModelSpec(request.param, weights="none", revision="0"),
        build_network(request.param),
        tokenizer,
        "cpu",
    )


def _plain(network, sequence):
    """The definition: one sequence, one forward pass, float64."""
    logits = network(input_ids=torch.tensor([sequence])).logits[0].double()
    logp = torch.log_softmax(logits, dim=-1)
    return [-float(logp[place, token]) for place, token in enumerate(sequence[1:])]


def test_shared_prefixes_give_what_single_passes_give(model):
    trie = build_prefix_trees(SEQUENCES)
    losses = causal.compute_node_losses(model, trie)
    for index, sequence in enumerate(trie.sequences):
        values = losses[trie.get_path(index)]
        assert np.isnan(values[0])
        with torch.inference_mode():
            np.testing.assert_allclose(
                values[1:], _plain(model.network, sequence), atol=2e-5
            )


def test_models_that_read_no_trees_are_detected(tokenizer):
    reads = {
        kind: causal.wrap_causal_model(
            ModelSpec(kind, weights="none", revision="0"),
            build_network(kind),
            tokenizer,
            "cpu",
        ).reads_trees
        for kind in ("gpt2", "llama", "openai-gpt", "bloom")
    }
    assert reads == {"gpt2": True, "llama": True, "openai-gpt": False, "bloom": False}


def test_out_of_memory_halves_the_batch(model, monkeypatch):
    expected = causal.compute_node_losses(model, build_prefix_trees(SEQUENCES))
    name = "_compute_tree_losses" if model.reads_trees else "_compute_row_losses"
    complete = getattr(causal, name)
    sizes = []

    def cramped(model, trie):
        sizes.append(len(trie.sequences))
        if len(trie.sequences) > 1:
            raise torch.OutOfMemoryError
        return complete(model, trie)

    monkeypatch.setattr(causal, name, cramped)
    np.testing.assert_allclose(
        causal.compute_node_losses(model, build_prefix_trees(SEQUENCES)),
        expected,
        atol=2e-5,
    )
    assert sizes == [4, 2, 1, 1, 2, 1, 1]


def test_a_device_that_has_no_room_for_the_probe_does_not_decide_how_a_model_reads(
    tiny_model_folder, monkeypatch
):
    def full(model, trie):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(causal, "_read_tree", full)
    with pytest.raises(torch.OutOfMemoryError):
        causal.load_causal_model(
            ModelSpec("tiny", weights=str(tiny_model_folder), revision="local"), CPU
        )


def test_a_network_without_finite_logits_is_not_said_to_see_later_tokens(tokenizer):
    network = build_network("gpt2")
    torch.nn.init.constant_(network.transformer.ln_f.weight, math.nan)
    model = causal.wrap_causal_model(
        ModelSpec("nan", weights="none", revision="0"), network, tokenizer, "cpu"
    )
    assert not model.reads_trees


def test_a_folder_is_loaded_and_its_files_are_its_fingerprint(tiny_model_folder):
    model = causal.load_causal_model(
        ModelSpec("tiny", weights=str(tiny_model_folder), revision="local"), CPU
    )
    assert model.tokenize("There are four zebras.") == (2, 3, 29, 24, 43)
    assert (model.start, model.window) == (1, 64)
    assert model.fingerprint.startswith(str(tiny_model_folder))
    assert len(model.fingerprint.rpartition("@")[2]) == 64


def test_a_checkpoint_without_all_weights_is_refused(tiny_model_folder, tmp_path):
    from safetensors.torch import load_file, save_file

    for file in tiny_model_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    del weights["transformer.h.1.mlp.c_fc.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        UserError, match=r"lacks the weights of transformer\.h\.1\.mlp\.c_fc\.weight"
    ):
        causal.load_causal_model(
            ModelSpec("tiny", weights=str(tmp_path), revision="local"), CPU
        )


def test_a_model_that_cannot_be_had_says_so_in_one_line():
    with pytest.raises(
        UserError, match=r"models\.far: cannot load no-such/model at abc: [^\n]*$"
    ):
        causal.load_causal_model(
            ModelSpec("far", weights="no-such/model", revision="abc"), CPU
        )
