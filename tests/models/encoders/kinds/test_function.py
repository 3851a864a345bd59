"""Functions of the user as encoders."""

import itertools
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import waltz
from stand_ins.models import tiny_decoders
from waltz import model_registry
from waltz.cli.commands.eval import _resolve_model
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.model_registry import (
    ModelSpec,
    compute_fingerprint,
    list_encoder_kinds,
    resolve_model,
)
from waltz.models.encoders import load_encoder
from waltz.models.encoders.kinds.function import (
    FunctionEncoder,
    FunctionModel,
    describe_function,
    wrap_function,
)
from waltz.models.resolve_name import resolve_decoder, resolve_encoder

PIXELS = np.random.default_rng(3).integers(0, 256, (12, 18, 3), dtype=np.uint8)
PICTURE = Image.fromarray(PIXELS)


def measure(images, texts):
    """Brightness of the left half times the number of "dog", and the length of the text."""
    scores = []
    for image, text in zip(images, texts, strict=True):
        light = np.asarray(image, dtype=float)[:, :9].mean() / 255
        scores.append(light * text.count("dog") + 0.1 * len(text.split()))
    return scores


def encode_text(texts):
    return [[1.0, len(text), text.count("dog")] for text in texts]


def encode_image(images):
    levels = [np.asarray(image, dtype=float).mean(axis=(0, 1)) for image in images]
    return torch.tensor(np.array(levels), dtype=torch.float32)


def wrap(**fields) -> FunctionEncoder:
    model = FunctionModel(**{"score": measure, **fields})
    return wrap_function(describe_function(model), model)


def enumerate_values(score, words, image, hidden):
    """Exact Shapley values of words and 2 x 2 patches, from every coalition, by their definition."""
    n_players = len(words) + 4
    values = {}
    for coalition in itertools.product([False, True], repeat=n_players):
        shown = coalition[: len(words)]
        text = "".join(
            word for word, is_shown in zip(words, shown, strict=True) if is_shown
        )
        pixels = hidden.copy()
        for patch in range(4):
            if coalition[len(words) + patch]:
                rows = slice(6 * (patch // 2), 6 * (patch // 2) + 6)
                columns = slice(9 * (patch % 2), 9 * (patch % 2) + 9)
                pixels[rows, columns] = image[rows, columns]
        values[coalition] = score([Image.fromarray(pixels)], [text])[0]
    orders = list(itertools.permutations(range(n_players)))
    phi = np.zeros(n_players)
    for order in orders:
        shown = [False] * n_players
        for player in order:
            before = values[tuple(shown)]
            shown[player] = True
            phi[player] += values[tuple(shown)] - before
    return phi / len(orders)


def test_values_are_those_of_every_coalition():
    mean = np.round(PIXELS.reshape(-1, 3).astype(np.float32).mean(axis=0))
    hidden = np.broadcast_to(mean, PIXELS.shape).astype(np.uint8)
    expected = enumerate_values(measure, ["Two ", "dogs."], PIXELS, hidden)
    explainer = waltz.Explainer(measure, estimator="exact")
    explanation = explainer.explain(PICTURE, "Two dogs.", grid=(2, 2))
    values = [*explanation.text, *np.ravel(explanation.image)]
    np.testing.assert_allclose(values, expected, atol=1e-9)
    assert explanation.score == pytest.approx(measure([PICTURE], ["Two dogs."])[0])


def test_two_encoders_give_what_their_score_gives():
    def score(images, texts):
        vectors = torch.nn.functional.cosine_similarity(
            torch.tensor(encode_text(texts), dtype=torch.float64),
            encode_image(images).double(),
        )
        return 7 * vectors

    late = FunctionModel(encode_text=encode_text, encode_image=encode_image, scale=7)
    both = [
        waltz.Explainer(model).explain(PICTURE, "Two dogs.", grid=(2, 2), budget=64)
        for model in (score, late)
    ]
    assert both[0].score == pytest.approx(both[1].score)
    np.testing.assert_allclose(both[0].image, both[1].image, atol=1e-9)
    assert both[0].t_shap == pytest.approx(both[1].t_shap)


@given(st.text(max_size=40))
def test_a_text_is_what_its_pieces_join_to(text):
    encoder = wrap()
    tokens = encoder.tokenize(text)
    assert encoder._join_pieces(torch.tensor([tokens.ids])) == [text]
    assert [text[span["start"] : span["end"]] for span in tokens.spans] == [
        *tokens.tokens
    ]


def test_players_are_words_or_the_tokens_of_a_tokenizer():
    assert wrap().tokenize("A dog, 2 cats!").tokens == ("A", "dog", "2", "cats")
    words = tiny_decoders.tokenizer()
    encoder = wrap(tokenizer=words)
    text = "A dog sleeps."
    offsets = words(text, return_offsets_mapping=True, add_special_tokens=False)
    spans = [text[start:end] for start, end in offsets["offset_mapping"] if end > start]
    assert list(encoder.tokenize(text).tokens) == spans


def test_a_hidden_word_is_left_out_or_replaced():
    for hidden_word, text in (("", "A "), ("[MASK]", "A [MASK] ")):
        encoder = wrap(hidden_word=hidden_word)
        first, _ = encoder.tokenize("A dog.").ids
        assert encoder._join_pieces(torch.tensor([[first, encoder.masked_id]])) == [
            text
        ]


def test_hidden_pixels_show_a_colour_or_a_blurred_image():
    prepared = wrap().prepare_image(PICTURE)
    mean = wrap().hide_image(prepared)
    torch.testing.assert_close(mean[:, 0, 0], prepared.mean(dim=(1, 2)))
    assert wrap(hidden_image="black").hide_image(prepared).max() == 0
    blurred = wrap(hidden_image="blur").hide_image(prepared)
    assert blurred.std() < prepared.std() / 2
    assert abs(blurred.mean() - prepared.mean()) < 0.05


def test_batches_change_nothing():
    options = {"grid": (2, 2), "budget": 40}
    explanations = [
        waltz.Explainer(FunctionModel(score=measure, batch_size=size)).explain(
            PICTURE, "Two dogs chase a big cow.", **options
        )
        for size in (1, 32)
    ]
    np.testing.assert_array_equal(explanations[0].image, explanations[1].image)


def test_calls_have_at_most_a_batch():
    sizes = []

    def count(images, texts):
        sizes.append(len(images))
        return measure(images, texts)

    waltz.Explainer(FunctionModel(score=count, batch_size=5)).explain(
        PICTURE, "Two dogs."
    )
    assert max(sizes) == 5


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (lambda images: [1.0], "failed for 2 inputs .TypeError"),
        (
            lambda images, texts: 3.0,
            r"the scores have the shape \(\) \(expected \(2,\)",
        ),
        (lambda images, texts: [[1.0, 2.0]] * 2, r"the scores have the shape \(2, 2\)"),
        (lambda images, texts: ["a", "b"], "failed for 2 inputs"),
        (lambda images, texts: [float("nan")] * 2, "gave no numbers for two images"),
    ],
)
def test_a_function_that_gives_no_scores_is_refused(function, fault):
    with pytest.raises(ValueError, match=fault):
        waltz.Explainer(function)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"score": None}, "score: missing"),
        ({"encode_text": encode_text}, "leave one out"),
        ({"hidden_image": "white"}, "hidden_image: got 'white'"),
        ({"batch_size": 0}, "batch_size: got 0"),
        ({"tokenizer": object()}, "tokenizer: got object"),
    ],
)
def test_settings_that_make_no_model_are_refused(fields, fault):
    with pytest.raises(ValueError, match=fault):
        FunctionModel(**{"score": measure, **fields})


def test_arguments_of_networks_are_refused():
    with pytest.raises(TypeError, match="leave out processor and dtype"):
        waltz.Explainer(measure, processor=object())
    with pytest.raises(ValueError, match="published is about released models"):
        waltz.Explainer(measure, profile="published")
    with pytest.raises(TypeError, match="no transformers model"):
        waltz.Explainer(transformers.CLIPConfig())


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_scorer.py").write_text(
        "import waltz\n"
        "def score(images, texts):\n    return [float(len(text)) for text in texts]\n"
        "model = waltz.FunctionModel(score=score, batch_size=3)\n"
        "number = 7\n"
    )
    yield tmp_path / "my_scorer.py"
    sys.modules.pop("my_scorer", None)


def test_a_function_is_found_by_module_and_name(module):
    name = "my_scorer:score"
    assert resolve_decoder(name) is None
    spec = resolve_encoder(name)
    assert (spec.kind, spec.weights, spec.revision) == ("function", name, "local")
    assert load_encoder(spec, Device("cpu", 1, "test")).images_per_batch == 32
    explanation = waltz.Explainer("my_scorer:model").explain(PICTURE, "Two dogs.")
    assert explanation.t_shap == 1
    with pytest.raises(UserError, match="my_scorer:number: is no function"):
        load_encoder(
            replace(spec, weights="my_scorer:number"), Device("cpu", 1, "test")
        )
    with pytest.raises(UserError, match="no attribute 'other'"):
        load_encoder(replace(spec, weights="my_scorer:other"), Device("cpu", 1, "test"))
    for missing in ("no_scorer:score", "no.scorer:score"):
        with pytest.raises(UserError, match="write module:function"):
            resolve_encoder(missing)


def test_a_function_is_found_in_the_folder_of_its_name(module, monkeypatch, tmp_path):
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    explanation = waltz.Explainer("../my_scorer:score").explain(PICTURE, "Two dogs.")
    assert explanation.t_shap == 1
    spec = _resolve_model(f"{tmp_path}/my_scorer:score", tmp_path)
    assert spec.weights == "my_scorer:score"
    # Jobs run in the checkout, so that a module elsewhere has its folder.
    monkeypatch.chdir(tmp_path)
    spec = _resolve_model("my_scorer:score", tmp_path / "deeper")
    assert spec.weights == f"{tmp_path}/my_scorer:score"
    spec = _resolve_model("json:dumps", tmp_path / "deeper")
    assert spec.weights == "json:dumps"


def test_scores_may_be_a_list_of_tensors(module):
    def score(images, texts):
        return [torch.ones((), requires_grad=True) * len(text) for text in texts]

    assert waltz.Explainer(score).explain(PICTURE, "Two dogs.").t_shap == 1


def test_a_study_names_a_function_whose_file_is_part_of_its_identity(module):
    entry = {"kind": "function", "weights": "my_scorer:score"}
    spec = resolve_model("mine", entry)
    identity = compute_fingerprint(spec)
    assert identity.startswith("my_scorer:score@")
    module.write_text(module.read_text() + "\n")
    compute_fingerprint.cache_clear()
    assert compute_fingerprint(spec) != identity
    with pytest.raises(UserError, match="there is no such module"):
        resolve_model("mine", {**entry, "weights": "no_scorer:score"})


def load_registered(spec, device):
    """A loader as another package registers it."""
    return wrap_function(spec, FunctionModel(score=measure))


def test_a_package_registers_a_kind(monkeypatch):
    point = EntryPoint("my-kind", f"{__name__}:load_registered", "waltz.encoders")
    monkeypatch.setattr(model_registry, "entry_points", lambda group: [point])
    model_registry.list_installed_kinds.cache_clear()
    try:
        assert "my-kind" in list_encoder_kinds()
        spec = ModelSpec("mine", "my-kind", "weights", "local")
        assert isinstance(load_encoder(spec, Device("cpu", 1, "test")), FunctionEncoder)
    finally:
        monkeypatch.undo()
        model_registry.list_installed_kinds.cache_clear()


def test_a_function_that_fails_for_a_text_without_words_says_what_to_do():
    explainer = waltz.Explainer(
        lambda images, texts: [1 / len(text.split()) for text in texts]
    )
    with pytest.raises(
        ValueError, match=r"failed for .*ZeroDivisionError.*a text is empty where all"
    ):
        explainer.explain(Image.new("RGB", (8, 8)), "a dog")
    masked = waltz.FunctionModel(score=explainer.spec.model.score, hidden_word="_")
    assert (
        waltz.Explainer(masked).explain(Image.new("RGB", (8, 8)), "a dog").score == 0.5
    )
