"""The training code on a few steps, and the committed models on scenes of a new seed."""

from pathlib import Path
from random import Random

import pytest
import torch
import transformers
import yaml

from waltz.scenes.sample import scenes
from waltz.scenes.training import MODELS, TOWER, data, decoder, recipes, text, vision
from waltz.scenes.training.scores import LEAST, MOST, SCORES, measure, serves
from waltz.scenes.training.vocabulary import word_pieces

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "resources" / "scenes" / "models"
NAMES = sorted(folder.name for folder in COMMITTED.iterdir())
NEW_SEED, SCENES = 991, 150
GRAPHS = scenes(60, 5, "training")


def _quiet(step, loss):
    assert loss == loss


def test_every_model_has_a_recipe_and_a_measure():
    assert set(recipes.RECIPES) == set(SCORES) == {*MODELS, TOWER}
    assert {name for name, _ in [*LEAST, *MOST]} == set(MODELS)


def test_words_are_tokens_and_others_fall_into_characters():
    tokenizer = word_pieces(["Two zebras."], specials=text.BERT, template=text.BERT_ONE, pair=text.BERT_TWO)
    assert tokenizer.tokenize("two zebras, cat") == ["two", "zebras", ",", "c", "##a", "##t"]
    assert tokenizer.decode(tokenizer("Two zebras.")["input_ids"], skip_special_tokens=True) == "two zebras."
    pair = tokenizer.convert_ids_to_tokens(tokenizer("two", "zebras")["input_ids"])
    assert pair == ["[CLS]", "two", "[SEP]", "zebras", "[SEP]"]


def test_hidden_tokens_leave_the_special_ones_alone_and_prefer_rare_words():
    mask = torch.tensor([[1] * 12, [1] * 5 + [0] * 7, [1] * 3 + [0] * 9, [1] * 12])
    weights = torch.ones(mask.shape)
    weights[3, 4] = 1e6
    hidden = text.hidden_tokens(mask, weights, torch.Generator().manual_seed(0))
    assert hidden.any(dim=1).all()
    assert not hidden[:, 0].any()
    for row, length in enumerate([12, 5, 3, 12]):
        assert not hidden[row, length - 1 :].any()
    assert hidden[1].sum() == hidden[3].sum() == 1
    assert hidden[3, 4]


def test_a_mirrored_image_exchanges_left_and_right_in_its_texts_only():
    texts = ["to the left of a leftover", "to the right of it"]
    assert vision.mirrored(texts, [True, False]) == ["to the right of a leftover", "to the right of it"]
    pixels = torch.arange(2 * 3 * 4 * 4, dtype=torch.uint8).reshape(2, 3, 4, 4)
    values, turned = vision.normalised(pixels, torch.Generator().manual_seed(1))
    plain, _ = vision.normalised(pixels)
    for place, flip in enumerate(turned):
        assert torch.equal(values[place], plain[place].flip(-1) if flip else plain[place])


TRAINERS = {
    "masked-lm": (data.sentences, text.masked_lm, transformers.AutoModelForMaskedLM),
    "acceptability": (data.judged, text.acceptability, transformers.AutoModelForSequenceClassification),
    "nli": (data.inferences, text.nli, transformers.AutoModelForSequenceClassification),
    "causal-lm": (data.sentences, text.causal_lm, transformers.AutoModelForCausalLM),
}


@pytest.mark.parametrize("name", TRAINERS)
def test_a_text_model_is_the_same_twice_and_loads_again(name, tmp_path):
    prepare, learn, loader = TRAINERS[name]
    examples = [entry for graph in GRAPHS for entry in prepare(graph, data.generator("test", 5, graph))]
    networks = [learn(examples, seed=3, steps=2, told=_quiet) for _ in range(2)]
    for first, second in zip(networks[0][0].parameters(), networks[1][0].parameters(), strict=True):
        assert torch.equal(first, second)
    recipes.save(*networks[0], tmp_path)
    loaded, report = loader.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)("A dog.")["input_ids"]
    assert loaded.dtype == torch.float16


def test_the_image_models_learn_save_and_load(tmp_path):
    pixels = data.pixels(GRAPHS[:64])
    pairs = [data.example(graph, data.generator("test", 5, graph)) for graph in GRAPHS] * 2
    pixels = torch.cat([pixels, pixels])
    network, processor = vision.clip(pixels, pairs, seed=3, steps=1, told=_quiet)
    recipes.save(network, processor, tmp_path / "clip")
    further, _ = vision.clip(pixels, pairs, seed=4, steps=1, told=_quiet, start=(network.float(), processor))
    assert further is network
    tower = transformers.CLIPVisionModel.from_pretrained(tmp_path / "clip", dtype=torch.float32)
    turns = [data.turns(graph, data.generator("test", 5, graph)) for graph in GRAPHS] * 2
    for name, (model, words) in {
        "matcher": vision.matcher(pixels, pairs, seed=3, steps=1, told=_quiet),
        "llava": decoder.llava(tower, pixels, turns, seed=3, steps=1, told=_quiet),
    }.items():
        recipes.save(model, words, tmp_path / name)
        assert all(found.value is not None for found in measure(name, tmp_path / name, 4, 20).values())


def test_what_is_judged_is_half_acceptable():
    pairs = [pair for graph in GRAPHS for pair in data.judged(graph, Random(1))]
    share = sum(good for _, good in pairs) / len(pairs)
    assert 0.4 < share < 0.6


def test_a_score_serves_at_its_bound():
    assert serves("nli", "accuracy", 0.9)
    assert not serves("nli", "accuracy", 0.899)
    assert serves("causal-lm", "perplexity", 6.0)
    assert not serves("causal-lm", "perplexity", 6.01)
    assert serves("clip", "acc_r relation", 0.1) is None


def test_the_default_world_measures_every_committed_model():
    study = yaml.safe_load((ROOT / "config" / "scenes.yaml").read_text())
    assert sorted(study["scenes"]["models"]) == NAMES
    assert set(NAMES) <= set(MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_model_is_good_enough_on_scenes_of_a_new_seed(name):
    scores = measure(name, COMMITTED / name, NEW_SEED, SCENES)
    for metric, found in scores.items():
        assert serves(name, metric, found.value) is not False, f"{metric}: {found.value:.3f}"
    asked = {metric for asked, metric in [*LEAST, *MOST] if asked == name}
    assert asked <= set(scores)


def test_the_committed_models_weigh_six_megabytes_at_most_and_have_cards():
    assert sum(file.stat().st_size for file in COMMITTED.rglob("*") if file.is_file()) <= 6_000_000
    for name in NAMES:
        assert "| score | value |" in (COMMITTED / name / "README.md").read_text()
