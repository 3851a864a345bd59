"""The training code on a few steps, and the committed models on scenes of a new seed."""

from pathlib import Path
from random import Random

import pytest
import torch
import transformers
import yaml

from tools.train_scene_models import (
    MODELS,
    STARTS,
    decoder,
    examples,
    recipes,
    text,
    vision,
)
from tools.train_scene_models.loop import (
    draw_batches_by_length,
    swap_sides,
    train_word_pieces,
)
from tools.train_scene_models.patches import SIDE, label_patches, render_pixels
from waltz.models.training import Training
from waltz.scenes.graph import Graph, Object, SpriteCell
from waltz.scenes.language.acceptability import draw_judged_sentences
from waltz.scenes.language.entailment import draw_inferences
from waltz.scenes.lexicon import read_kinds
from waltz.scenes.model_scores import (
    MAXIMUM_SCORES,
    MINIMUM_SCORES,
    SCORES,
    is_sufficient,
    measure_model,
)
from waltz.scenes.oracle import decide_truth
from waltz.scenes.sampling import create_generator, draw_scenes

pytestmark = pytest.mark.training

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "resources" / "scenes" / "models"
NAMES = sorted(folder.name for folder in COMMITTED.iterdir())
NEW_SEED, SCENES = 991, 150
GRAPHS = draw_scenes(60, 5, "training")


def _quiet(step, loss):
    assert loss == loss


def test_every_model_has_a_recipe_and_scores():
    assert set(recipes.RECIPES) == set(SCORES) == set(MODELS)
    assert {name for name, _ in [*MINIMUM_SCORES, *MAXIMUM_SCORES]} == set(MODELS)
    assert STARTS.keys() | set(STARTS.values()) <= set(recipes.RECIPES)


def test_unknown_words_are_split_into_characters():
    tokenizer = train_word_pieces(
        ["Two zebras."], specials=text.BERT, template=text.BERT_ONE, pair=text.BERT_TWO
    )
    assert tokenizer.tokenize("two zebras, cat") == [
        "two",
        "zebras",
        ",",
        "c",
        "##a",
        "##t",
    ]
    assert (
        tokenizer.decode(
            tokenizer("Two zebras.")["input_ids"], skip_special_tokens=True
        )
        == "two zebras."
    )
    pair = tokenizer.convert_ids_to_tokens(tokenizer("two", "zebras")["input_ids"])
    assert pair == ["[CLS]", "two", "[SEP]", "zebras", "[SEP]"]


def test_masked_tokens_are_never_special_and_prefer_rare_words():
    mask = torch.tensor([[1] * 12, [1] * 5 + [0] * 7, [1] * 3 + [0] * 9, [1] * 12])
    weights = torch.ones(mask.shape)
    weights[3, 4] = 1e6
    hidden = text.draw_masked_tokens(mask, weights, torch.Generator().manual_seed(0))
    assert hidden.any(dim=1).all()
    assert not hidden[:, 0].any()
    for row, length in enumerate([12, 5, 3, 12]):
        assert not hidden[row, length - 1 :].any()
    assert hidden[1].sum() == hidden[3].sum() == 1
    assert hidden[3, 4]


def test_mirrored_images_exchange_left_and_right_in_their_texts():
    texts = ["to the left of a leftover", "to the right of it it"]
    tokenizer = train_word_pieces(texts, specials=text.BERT, template="$A")
    ids = torch.tensor(tokenizer(texts)["input_ids"])
    swapped = tokenizer.batch_decode(swap_sides(ids, [True, False], tokenizer))
    assert swapped == ["to the right of a leftover", "to the right of it it"]
    pixels = torch.arange(2 * 3 * 4 * 4, dtype=torch.uint8).reshape(2, 3, 4, 4)
    values, mirrored = vision.normalize_pixels(pixels, torch.Generator().manual_seed(1))
    plain, _ = vision.normalize_pixels(pixels)
    for index, is_mirrored in enumerate(mirrored):
        assert torch.equal(
            values[index], plain[index].flip(-1) if is_mirrored else plain[index]
        )


TRAINERS = {
    "masked-lm": (
        examples.draw_sentences,
        text.train_masked_lm,
        transformers.AutoModelForMaskedLM,
    ),
    "acceptability": (
        draw_judged_sentences,
        text.train_acceptability,
        transformers.AutoModelForSequenceClassification,
    ),
    "nli": (
        draw_inferences,
        text.train_nli,
        transformers.AutoModelForSequenceClassification,
    ),
    "causal-lm": (
        examples.draw_sentences,
        text.train_causal_lm,
        transformers.AutoModelForCausalLM,
    ),
}


@pytest.mark.parametrize("name", TRAINERS)
def test_text_training_is_deterministic_and_models_load(name, tmp_path):
    prepare, train, loader = TRAINERS[name]
    entries = [
        entry
        for graph in GRAPHS
        for entry in prepare(graph, create_generator("test", 5, graph))
    ]
    networks = [train(entries, Training(3, 2, _quiet)) for _ in range(2)]
    for first, second in zip(
        networks[0][0].parameters(), networks[1][0].parameters(), strict=True
    ):
        assert torch.equal(first, second)
    recipes.save_model(*networks[0], tmp_path)
    loaded, report = loader.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)("A dog.")["input_ids"]
    assert loaded.dtype == torch.float16


def test_image_models_train_save_and_load(tmp_path):
    graphs = GRAPHS * 2
    pixels, labels = render_pixels(graphs), label_patches(graphs)
    pairs = [
        examples.draw_example(graph, create_generator("test", 5, graph))
        for graph in graphs
    ]
    network, processor = vision.train_clip(
        pixels, pairs, labels, Training(3, 1, _quiet)
    )
    recipes.save_model(network, processor, tmp_path / "clip")
    tower = transformers.CLIPVisionModel.from_pretrained(
        tmp_path / "clip", dtype=torch.float32
    )
    turns = [
        examples.draw_turns(graph, create_generator("test", 5, graph))
        for graph in graphs
    ]
    for name, (model, words) in {
        "matcher": vision.train_matcher(
            tower, pixels, pairs, labels, Training(3, 1, _quiet)
        ),
        "llava": decoder.train_llava(
            tower, pixels, turns, labels, Training(3, 1, _quiet)
        ),
    }.items():
        recipes.save_model(model, words, tmp_path / name)
        assert all(
            measure.value is not None
            for measure in measure_model(name, tmp_path / name, 4, 20).values()
        )


def test_patch_labels_hold_covering_kinds_and_centers():
    cells = (SpriteCell(0, 0, 64), SpriteCell(192, 192, 32))
    graph = Graph(
        "one",
        "beach",
        (
            Object("dog", cells),
            Object("car", (SpriteCell(40, 0, 24), SpriteCell(100, 0, 24)), "red"),
        ),
    )
    labels = label_patches([graph])
    names = list(read_kinds())
    dog, car = 1 + names.index("dog"), 1 + names.index("car")
    # A dog covers all of where the first car is.
    assert labels.kinds[0, 0].tolist() == [
        dog,
        dog,
        0,
        car,
        0,
        0,
        0,
        0,
    ]
    assert labels.kinds[0, 6, 6] == dog
    assert int((labels.kinds > 0).sum()) == 6
    assert (
        labels.centers[0, 1, 1]
        == labels.centers[0, 6, 6]
        == labels.centers[0, 0, 1]
        == labels.centers[0, 0, 3]
        == 1
    )
    assert int(labels.centers.sum()) == 4
    assert labels.colors[0, 0].tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert labels.counts[0, names.index("dog")] == 2
    assert int(labels.counts.sum()) == 4
    mirrored = labels.select([0], [True])
    assert torch.equal(mirrored.kinds, labels.kinds.flip(-1))
    assert torch.equal(mirrored.counts, labels.counts)


def test_presence_turns_agree_with_the_oracle_and_half_are_yes():
    for graph in GRAPHS:
        turns = examples.draw_presence_turns(graph, Random(1))
        for question, answer in turns:
            assert (
                decide_truth(graph, f"{question} yes.")
                == {"yes": "true", "no": "false"}[answer]
            )
        assert [answer for _, answer in turns].count("yes") == len(turns) / 2


def test_packed_turns_attend_to_the_image_and_their_own_turn():
    packed = decoder.pack_turns([[([5, 6], [7]), ([8], [9, 10])], [([5], [6])]], 2)
    assert packed.ids.tolist() == [[5, 6, 7, 8, 9, 10], [5, 6, 0, 0, 0, 0]]
    assert packed.positions[0].tolist() == [2, 3, 4, 2, 3, 4]
    assert packed.mask.shape == (2, 1, 6, 8)
    assert packed.mask[0, 0, 4].tolist() == [
        True,
        True,
        False,
        False,
        False,
        True,
        True,
        False,
    ]
    assert torch.stack(packed.answers).tolist() == [[0, 0, 0, 1], [2, 4, 5, 1]]
    assert packed.weights.tolist() == [1, 0.5, 0.5, 1]


def test_packed_turns_have_the_losses_and_gradients_of_separate_turns():
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 12,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
    }
    network = transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(
            text_config=transformers.LlamaConfig(**sizes, num_attention_heads=2),
            vision_config=transformers.CLIPVisionConfig(
                **vision.build_vision_config(hidden=16, layers=1)
            ),
        )
    ).eval()
    prefix, embed = (
        torch.randn(1, 2, 16, requires_grad=True),
        network.get_input_embeddings(),
    )

    def compute_separate_loss(question, answer):
        inputs = torch.cat([prefix, embed(torch.tensor([question + answer]))], dim=1)
        states = network.model.language_model(inputs_embeds=inputs).last_hidden_state[0]
        logits = network.lm_head(
            states[1 + len(question) : 1 + len(question) + len(answer)]
        )
        return torch.nn.functional.cross_entropy(
            logits, torch.tensor(answer), reduction="none"
        )

    turns = [([5, 6], [7]), ([8], [9, 10])]
    prefix_cache = network.model.language_model(
        inputs_embeds=prefix, use_cache=True
    ).past_key_values
    packed = decoder.pack_turns([turns], 2)
    losses = [
        decoder.compute_losses(network, prefix_cache, packed) for _ in range(2)
    ]  # the first leaves `prefix_cache` as it is
    expected = torch.cat([compute_separate_loss(*turn) for turn in turns])
    assert torch.allclose(losses[0], expected, atol=1e-5)
    assert torch.equal(losses[0], losses[1])
    gradients = [
        torch.autograd.grad(part.sum(), prefix)[0] for part in (losses[1], expected)
    ]
    assert torch.allclose(*gradients, atol=1e-5)
    assert gradients[1].abs().max() > 1e-3


def test_imitate_tower_gives_the_states_of_the_tower():
    torch.manual_seed(0)
    tower = transformers.CLIPVisionModel(
        transformers.CLIPVisionConfig(**vision.build_vision_config(hidden=16, layers=2))
    )
    with torch.no_grad():
        tower.embeddings.patch_embedding.weight.zero_()  # so that every embedding deviates as much as the next
        tower.embeddings.position_embedding.weight[1:] = torch.randn(16).expand(64, -1)
    tokenizer = train_word_pieces(["a dog"], specials=text.BERT, template=text.BERT_ONE)
    network = transformers.BlipVisionModel(
        vision.build_matcher_config(tokenizer, tower.config).vision_config
    )
    images = torch.randn(2, 3, SIDE, SIDE)
    vision.imitate_tower(network, tower, images)
    with torch.inference_mode():
        states = network.encoder(
            inputs_embeds=network.embeddings(images)
        ).last_hidden_state
        assert torch.allclose(
            states, tower(pixel_values=images).last_hidden_state, atol=1e-4
        )


def test_batches_by_length_hold_every_row_once():
    lengths = torch.tensor([3, 1, 2, 9, 8, 7])
    order = draw_batches_by_length(lengths, 3, torch.Generator().manual_seed(1))
    assert sorted(sorted(next(order)) for _ in range(2)) == [[0, 1, 2], [3, 4, 5]]


def test_half_of_the_judged_sentences_are_acceptable():
    pairs = [
        pair for graph in GRAPHS for pair in draw_judged_sentences(graph, Random(1))
    ]
    share = sum(good for _, good in pairs) / len(pairs)
    assert 0.4 < share < 0.6


def test_score_bounds_are_inclusive():
    assert is_sufficient("nli", "accuracy", 0.9)
    assert not is_sufficient("nli", "accuracy", 0.899)
    assert is_sufficient("causal-lm", "perplexity", 6.0)
    assert not is_sufficient("causal-lm", "perplexity", 6.01)
    assert is_sufficient("clip", "acc_r relation", 0.1) is None


def test_scenes_study_measures_every_committed_model():
    study = yaml.safe_load((ROOT / "config" / "scenes.yaml").read_text())
    assert sorted(study["scenes"]["models"]) == NAMES
    assert set(NAMES) <= set(MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_committed_models_reach_their_scores_on_a_new_seed(name):
    scores = measure_model(name, COMMITTED / name, NEW_SEED, SCENES)
    for metric, measure in scores.items():
        assert is_sufficient(name, metric, measure.value) is not False, (
            f"{metric}: {measure.value:.3f}"
        )
    metrics = {
        metric for model, metric in [*MINIMUM_SCORES, *MAXIMUM_SCORES] if model == name
    }
    assert metrics <= set(scores)


def test_committed_models_have_cards_and_at_most_six_megabytes():
    assert (
        sum(file.stat().st_size for file in COMMITTED.rglob("*") if file.is_file())
        <= 6_000_000
    )
    for name in NAMES:
        assert "| score | value |" in (COMMITTED / name / "README.md").read_text()
