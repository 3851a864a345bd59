"""Perceptual score of answers, and their accuracy without one modality, on a tiny LXMERT and on
answers by rule.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from attribution.test_encoder_rows import MASK, SIDE, Quarters, build_encoder
from stand_ins.models.tiny_encoders import ANSWERS, build
from stand_ins.records import build_vqa_items
from waltz.attribution import answer_companions
from waltz.attribution.answer_companions import compute_answer_measures
from waltz.attribution.companions import draw_donors
from waltz.core.intervals import Resampling
from waltz.evaluation.vqa import compute_annotator_accuracy
from waltz.fidelity import EQUATIONS, PROFILES, PUBLISHED
from waltz.models.encoders.alignment import PairScore
from waltz.models.encoders.vqa import answer_question
from waltz.sources.images import open_images

HOW = Resampling(200, 0.95, 5)
WORDS = ("a dog", "a horse", "the red dog", "the red horse rides")
ITEMS = build_vqa_items(
    {
        "item_id": f"q:{number}",
        "image": f"{number}.png",
        "question": question,
        "answer": answer,
        "answers": [],
    }
    for number, (question, answer) in enumerate(
        zip(WORDS, ("yes", "no", "two", "red"), strict=True)
    )
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("lxmert")
    network, tokenizer = build("lxmert-answering")
    network.save_pretrained(folder)
    return build_encoder((folder, network.eval(), tokenizer), Quarters())


@pytest.fixture
def images(tmp_path):
    draw = np.random.default_rng(2)
    for item in ITEMS:
        Image.fromarray(draw.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(
            tmp_path / item.image
        )
    with open_images(tmp_path) as source:
        yield source


def measure(encoder, items, images, fidelity=EQUATIONS, repeats=5):
    return compute_answer_measures(encoder, items, images, fidelity, repeats, HOW)


def answer_by(rule):
    """Answers of a model by rule, of a question number and an image number to the index of an
    answer.
    """

    def compute(encoder, pairs, images, stored=None):
        numbers = {
            (image, question): rule(WORDS.index(question), int(image[0]))
            for image, question in pairs
        }
        return {
            pair: PairScore((0.0, float(index), 1.0), 2, None)
            for pair, index in numbers.items()
        }

    return compute


@pytest.mark.parametrize(
    ("rule", "text_counts", "image_counts"),
    [
        (lambda question, image: image, False, True),
        (lambda question, image: question, True, False),
        (lambda question, image: 0, False, False),
    ],
    ids=["image", "text", "neither"],
)
def test_permuting_a_modality_costs_accuracy_where_the_answers_rest_on_it(
    encoder, images, monkeypatch, rule, text_counts, image_counts
):
    monkeypatch.setattr(answer_companions, "compute_answers", answer_by(rule))
    measures = measure(encoder, ITEMS, images)
    # every gold answer is another one, so that a permuted item is right only where it keeps its own
    # modality
    donors = draw_donors([item.item_id for item in ITEMS], 5, HOW.seed)
    loss = 100 * (1 - (donors == np.arange(4)).mean())
    assert 0 < loss < 100
    assert measures["answering", "perceptual_text"].value == pytest.approx(
        loss if text_counts else 0
    )
    assert measures["answering", "perceptual_image"].value == pytest.approx(
        loss if image_counts else 0
    )
    assert measures["answering", "perceptual_text"].n == 4


def test_annotators_count_in_equations_and_the_agreed_answer_in_published(
    encoder, images, monkeypatch
):
    monkeypatch.setattr(
        answer_companions, "compute_answers", answer_by(lambda question, image: 0)
    )
    annotators = ["yes", "yes", *["no"] * 8]
    items = [replace(item, answer="no", answers=annotators) for item in ITEMS]
    credit = {
        name: answer_companions.build_answer_credit(encoder, items, images, fidelity)(
            np.arange(4), np.arange(4)
        )
        for name, fidelity in PROFILES.items()
    }
    assert credit["equations"] == pytest.approx(
        [compute_annotator_accuracy("yes", annotators)] * 4
    )
    assert credit["published"].tolist() == [0, 0, 0, 0]


def test_masked_modalities_are_those_of_the_game(encoder, images, tmp_path):
    def answer(item, without):
        image = encoder.prepare_image(Image.open(tmp_path / item.image).convert("RGB"))
        ids = list(encoder.tokenize(item.question).ids)
        if without == "image":
            image = torch.zeros_like(image)
        else:
            ids[1:-1] = [MASK] * (len(ids) - 2)
        with torch.inference_mode():
            text, pixels = (
                encoder.encode_text(torch.tensor([ids])),
                encoder.encode_image(image[None]),
            )
            return ANSWERS[int(encoder.fuse(text, pixels)[0].argmax())]

    for without in ("text", "image"):
        golds = [answer(item, without) for item in ITEMS]
        # gold answers that the masked input gets right twice, and wrong twice
        wrong = [next(other for other in ANSWERS if other != gold) for gold in golds]
        items = [
            replace(item, answer=gold if number < 2 else other)
            for number, (item, gold, other) in enumerate(
                zip(ITEMS, golds, wrong, strict=True)
            )
        ]
        row = measure(encoder, items, images)[f"without {without}", "accuracy"]
        assert (row.value, row.n) == (50, 4)


def test_whole_inputs_are_answered_as_in_stage_evaluation(encoder, images, tmp_path):
    own = [
        answer_question(
            encoder,
            encoder.prepare_image(Image.open(tmp_path / item.image).convert("RGB")),
            item.question,
        ).text
        for item in ITEMS
    ]
    items = [
        replace(item, answer=answer) for item, answer in zip(ITEMS, own, strict=True)
    ]
    credit = answer_companions.build_answer_credit(encoder, items, images, PUBLISHED)
    assert credit(np.arange(4), np.arange(4)).tolist() == [1, 1, 1, 1]


def test_questions_that_cannot_be_answered_are_skipped(encoder, images):
    missing = replace(ITEMS[0], item_id="q:9", image="9.png")
    assert (
        measure(encoder, [*ITEMS, missing], images)["answering", "perceptual_image"].n
        == 4
    )
    for row in measure(encoder, [missing], images).values():
        assert (row.value, row.n, row.reason) == (
            None,
            0,
            "none of its questions can be answered",
        )
