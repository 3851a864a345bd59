"""Answers of LXMERT and ViLT, and the game for the one that is given."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from stand_ins.models.tiny_encoders import ANSWERS
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.fidelity import EQUATIONS
from waltz.model_registry import ModelSpec
from waltz.models.encoders import load_encoder
from waltz.models.encoders.coalitions import EncoderCoalitions
from waltz.models.encoders.vqa import answer_question, build_answer_probability
from waltz.models.regions import get_players_function, load_image_or_regions

CPU = Device("cpu", 1, "a test")


@pytest.fixture
def load(checkpoint, regions, tmp_path):
    """Loads the tiny LXMERT with a vocabulary of answers."""

    def loaded(vocabulary):
        (tmp_path / "answers.json").write_text(json.dumps(vocabulary))
        fields = {
            "regions": str(regions),
            "masks": "regions",
            "answers": str(tmp_path / "answers.json"),
        }
        weights = str(checkpoint("lxmert-answering"))
        return load_encoder(
            ModelSpec(
                "mine",
                kind="lxmert-answering",
                weights=weights,
                revision="local",
                **fields,
            ),
            CPU,
        )

    return loaded


def test_the_answer_is_the_most_probable_one_and_its_probability_the_value_of_the_game(
    load,
):
    encoder = load(ANSWERS)
    image = encoder.prepare_image(
        load_image_or_regions(encoder, "1.jpg", lambda: Image.new("RGB", (8, 8)))
    )
    given = answer_question(encoder, image, "the red horse rides")
    text = encoder.tokenize("the red horse rides")
    with torch.inference_mode():
        logits = encoder.fuse(
            encoder.encode_text(torch.tensor([text.ids])),
            encoder.encode_image(image[None]),
        )[0].double()
    shares = (logits.exp() / logits.exp().sum()).tolist()
    assert given.text == ANSWERS[int(np.argmax(shares))]
    assert given.probability == pytest.approx(max(shares), rel=1e-5)
    players = get_players_function(encoder, EQUATIONS)(encoder, text, image)
    masks = np.ones((2, len(players)), dtype=bool)
    masks[1] = False
    everything, nothing = EncoderCoalitions(
        encoder, image, [players], build_answer_probability(given)
    ).values([masks])[0][:, 0]
    assert everything == pytest.approx(given.probability, rel=1e-6)
    assert nothing != pytest.approx(given.probability, rel=1e-3)


@torch.no_grad()
def test_a_biased_head_gives_its_favorite(load):
    encoder = load(ANSWERS)
    last = encoder.network.answer_head.logit_fc[-1]
    last.weight.zero_()
    last.bias.copy_(torch.tensor([0.0, 0.0, 5.0, 0.0]))
    given = answer_question(
        encoder,
        encoder.prepare_image(
            load_image_or_regions(encoder, "0.jpg", lambda: Image.new("RGB", (8, 8)))
        ),
        "a dog",
    )
    assert (given.index, given.text) == (2, "two")
    assert given.probability == pytest.approx(np.exp(5) / (np.exp(5) + 3), rel=1e-5)


@pytest.mark.parametrize("vocabulary", [["yes", "no"], {"0": "yes"}, [1, 2, 3, 4]])
def test_a_vocabulary_that_does_not_fit_is_refused(load, vocabulary):
    with pytest.raises(UserError, match="is not a list of the 4 answers"):
        load(vocabulary)


def test_a_missing_vocabulary_is_refused(checkpoint, regions):
    weights = str(checkpoint("lxmert-answering"))
    spec = ModelSpec(
        "mine",
        kind="lxmert-answering",
        weights=weights,
        revision="local",
        regions=str(regions),
    )
    with pytest.raises(UserError, match=r"models\.mine\.answers: missing"):
        load_encoder(spec, CPU)


@torch.inference_mode()
def test_vilt_answers_from_its_config_or_from_a_list(checkpoint, pictures, tmp_path):
    folder = checkpoint("vilt-answering")
    spec = ModelSpec("mine", "vilt-answering", str(folder), "local")
    encoder = load_encoder(spec, CPU)
    assert encoder.answers == ANSWERS
    image = encoder.prepare_image(pictures[0])
    given = answer_question(encoder, image, "the red horse rides")
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    ids = torch.tensor([encoder.tokenize("the red horse rides").ids])
    logits = encoder.network(
        input_ids=ids, **processor(images=pictures[0], return_tensors="pt")
    ).logits[0]
    assert given.index == int(logits.argmax())
    assert given.probability == pytest.approx(
        float(logits.softmax(dim=-1).max()), abs=1e-5
    )
    others = ["ja", "nein", "zwei", "rot"]
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(others), encoding="utf-8")
    renamed = load_encoder(replace(spec, answers=str(file)), CPU)
    assert renamed.answers == tuple(others)
