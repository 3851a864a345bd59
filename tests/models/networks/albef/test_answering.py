"""The decoder's weights of answers against transformers' BERT, one answer and question at a time."""

import pytest
import torch
import transformers

from stand_ins import restated_albef as restated
from stand_ins.tiny_albef import CONFIG, DECODER_DEPTH, POSITIONS, VOCABULARY, random_weights
from waltz.models.networks.albef import build_answer_trees, load_answering_network

START, END = 2, 3
ANSWERS = [(5,), (6, 7), (6, 7, 8), (6,), (9, 5, 5, 6), (5,), (6, 9)]
"""Some begin alike, one continues another, one is there twice."""


@pytest.fixture(scope="module")
def weights():
    return random_weights("answering")


@pytest.fixture(scope="module")
def network(weights, tmp_path_factory):
    file = tmp_path_factory.mktemp("answering") / "vqa.pth"
    torch.save(weights, file)
    return load_answering_network(file, CONFIG)


@pytest.fixture(scope="module")
def bert(weights):
    """The decoder of the library."""
    sizes = CONFIG["bert_config"]
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=sizes["hidden_size"],
        num_hidden_layers=DECODER_DEPTH,
        num_attention_heads=sizes["num_attention_heads"],
        intermediate_size=sizes["intermediate_size"],
        max_position_embeddings=POSITIONS,
        is_decoder=True,
        add_cross_attention=True,
        attn_implementation="eager",
        tie_word_embeddings=False,
    )
    decoder = transformers.BertLMHeadModel(config).eval()
    own = {key.removeprefix("text_decoder."): value for key, value in weights.items() if "text_decoder." in key}
    problems = decoder.load_state_dict(own, strict=False)
    assert not problems.missing_keys
    return decoder


@torch.inference_mode()
def likelihood(bert, question, answer):
    ids = torch.tensor([[START, *answer, END]])
    logits = bert(input_ids=ids[:, :-1], encoder_hidden_states=question[None]).logits[0].log_softmax(dim=-1)
    return float(logits.double().gather(1, ids[0, 1:, None]).sum())


@torch.inference_mode()
@pytest.mark.parametrize("nodes", [512, 5, 1])
def test_likelihoods_are_those_of_the_library(network, bert, nodes):
    question = torch.randn(3, 6, CONFIG["bert_config"]["hidden_size"], generator=torch.Generator().manual_seed(0))
    found = network.text_decoder(question, build_answer_trees(ANSWERS, START, END, "cpu", nodes))
    assert found.shape == (3, len(ANSWERS))
    expected = torch.tensor([[likelihood(bert, states, answer) for answer in ANSWERS] for states in question])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert found.std(dim=0).min() > 1e-3
    assert torch.equal(found[:, 0], found[:, 5])


@torch.inference_mode()
def test_the_question_is_read_as_the_restatement_reads_it(network, weights):
    draw = torch.Generator().manual_seed(2)
    image, ids = torch.randn(3, 24, 24, generator=draw), torch.randint(0, VOCABULARY, (5,), generator=draw)
    double = {key: value.double() for key, value in weights.items()}
    patches = restated.seen(double, image.double(), CONFIG["vision_heads"])
    expected = restated.read(double, ids, CONFIG["bert_config"]["num_attention_heads"], patches)
    states = network.text_encoder.fuse(network.text_encoder.encode_text(ids[None]), network.visual_encoder(image[None]))
    torch.testing.assert_close(states[0].double(), expected, rtol=0, atol=1e-5)
