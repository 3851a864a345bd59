"""Pieces and players of prompts with Mistral's tokenizer: those that the released CC-SHAP code
recorded.

Recorded are 200 items of Mistral-7B-Instruct-v0.1: prompts, tokens, and one contribution ratio a
shared player.
"""

import pytest

from real_tokenizers.build import build_mistral
from waltz.attribution.shapley.partition import cut_pieces
from waltz.consistency.cc_shap.dialogue import COT, POST_HOC, PROMPT_KINDS
from waltz.consistency.cc_shap.measure import find_shared_players
from waltz.consistency.cc_shap.pair_attribution import count_suffix_players
from waltz.evaluation.prompting.prompts import build_published_template, render_prompt
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import PUBLISHED
from waltz.model_registry import ModelSpec
from waltz.models.decoders.language_model import LanguageModel
from waltz.sources.formats.cc_shap_results import read_result_items

PLOTS = {POST_HOC: "shap_plot_info_post_hoc", COT: "shap_plot_info_cot"}
TEMPLATE = build_published_template("mistral-chat")


@pytest.fixture(scope="module")
def decoder(real_vocabularies):
    """Mistral's tokenizer; no network is needed to cut prompts into players."""
    return LanguageModel(
        ModelSpec("mistral"), "cpu", None, build_mistral(), frozenset(), 32768
    )


@pytest.fixture(scope="module")
def recorded_items(shared_data):
    """Return a reader of the fields of a data set's recorded items."""

    def read(dataset):
        path = shared_data / "cc_shap_recorded" / f"{dataset}_100.md"
        if not path.is_file():
            pytest.skip(f"{path} is not here")
        return [item.fields for item in read_result_items(path)]

    return read


@pytest.mark.parametrize("dataset", ["comve", "esnli"])
def test_pieces_and_players_are_the_recorded_ones(decoder, recorded_items, dataset):
    items = recorded_items(dataset)
    assert len(items) == 100
    for item in items:
        question = Question(
            "",
            dataset,
            dataset,
            None,
            {"first": "", "second": "", "premise": "", "hypothesis": ""},
            (),
            (),
            "",
        )
        texts = {"input": item["input"], "answer": item["model_prediction"]}
        for kind, plot in PLOTS.items():
            recorded = item[plot]
            prompts = [
                render_prompt(name, question, TEMPLATE, texts)
                for name in PROMPT_KINDS[kind]
            ]
            assert prompts[0].text == item["model_input"]
            pieces = [
                list(cut_pieces(prompt.text, decoder.tokenizer, joins_tokens=True))
                for prompt in prompts
            ]
            assert pieces == [recorded["input_tokens"], recorded["expl_input_tokens"]]
            suffixes = tuple(
                count_suffix_players(
                    decoder, prompt.counted_suffix, TEMPLATE.suffix_rule
                )
                for prompt in prompts
            )
            assert suffixes == (recorded["len_marg_pred"], recorded["len_marg_expl"])
            shared = find_shared_players(*pieces, suffixes, PUBLISHED)
            assert [len(numbers) for numbers in shared] == [
                len(recorded[name])
                for name in ("ratios_prediction", "ratios_explanation")
            ]
