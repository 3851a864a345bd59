import pytest
import torch
import transformers

from stand_ins.models.tiny_models import classifier_model
from waltz.core.errors import UserError
from waltz.filters.nli import Inference, find_label_order, infer_relations

PAIRS = [
    ("A man rides a horse.", "A man throws a horse."),
    ("A cat sits", "A dog sits"),
    ("zebra", "zebra"),
]


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (("entailment", "neutral", "contradiction"), [0, 1, 2]),
        (("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), [2, 1, 0]),
        (("contradict", "entail", "Neutral"), [1, 2, 0]),
        (("0: Entails", "1: contradictory", "2: neutral"), [0, 2, 1]),
    ],
)
def test_the_label_map_is_read_from_the_checkpoint(labels, order):
    assert find_label_order(classifier_model(*labels)) == order


@pytest.mark.parametrize(
    "labels",
    [
        ("LABEL_0", "LABEL_1", "LABEL_2"),
        ("entailment", "not_entailment"),
        ("entailment", "entailed", "contradiction"),
        ("entailment", "neutral", "contradiction", "hidden"),
    ],
)
def test_labels_that_do_not_say_it_are_refused_and_the_cure_is_named(labels):
    with pytest.raises(
        UserError,
        match=rf"are {', '.join(labels)}, which do not say .* give it as `labels`",
    ):
        infer_relations(PAIRS, classifier_model(*labels))


def test_labels_that_the_study_gives_are_taken():
    model = classifier_model(
        "LABEL_0", "LABEL_1", "LABEL_2", given="neutral, contradiction, entailment"
    )
    assert find_label_order(model) == [2, 0, 1]


@pytest.mark.parametrize("kind", [transformers.BertConfig, transformers.AlbertConfig])
def test_probabilities_are_the_softmax_of_single_passes_with_the_caption_as_premise(
    kind,
):
    model = classifier_model("contradiction", "entailment", "neutral", kind=kind)
    inferences = infer_relations([*PAIRS, PAIRS[0]], model)
    assert len(inferences) == 3
    for pair in PAIRS:
        with torch.inference_mode():
            logits = (
                model.network(**model.tokenizer(*pair, return_tensors="pt"))
                .logits[0]
                .double()
            )
        contradiction, entailment, neutral = torch.softmax(logits, dim=-1).tolist()
        relation = inferences[pair]
        assert (
            relation.entailment,
            relation.neutral,
            relation.contradiction,
        ) == pytest.approx((entailment, neutral, contradiction), abs=1e-5)
    turned = infer_relations([PAIRS[0][::-1]], model)[PAIRS[0][::-1]]
    assert turned.contradiction != pytest.approx(
        inferences[PAIRS[0]].contradiction, abs=1e-3
    )


def test_the_margin_is_over_the_next_relation():
    assert Inference(0.2, 0.3, 0.5).margin == pytest.approx(0.2)
    assert Inference(0.5, 0.1, 0.4).margin == pytest.approx(-0.1)
