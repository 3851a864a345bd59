"""With the real tokenizers, the prompts for answer and explanation have as many players before
their query suffixes.

The published CC-SHAP compares as many players of both, so each other item has no value but a
reason.
"""

import pytest

from real_tokenizers import build
from waltz.consistency.cc_shap.dialogue import POST_HOC, PROMPT_KINDS
from waltz.consistency.cc_shap.measure import find_shared_players
from waltz.consistency.cc_shap.pair_attribution import count_suffix_players
from waltz.core.records import to_row
from waltz.evaluation.prompting.prompts import build_published_template, render_prompt
from waltz.evaluation.prompting.questions import (
    build_pairwise_questions,
    draw_published_orders,
    select_text_questions,
)
from waltz.fidelity import PUBLISHED
from waltz.model_registry import ModelSpec
from waltz.models.decoders.language_model import LanguageModel
from waltz.sources.formats.pairs import read_release
from waltz.sources.formats.text_tasks import read_comve, read_esnli

pytestmark = pytest.mark.usefixtures("real_vocabularies")

ADDED = ("<image>", "<pad>")
TEXT_FAMILIES = {
    "llama2": build.build_llama2,
    "llama2-chat": build.build_llama2,
    "mistral": build.build_mistral,
    "mistral-chat": build.build_mistral,
    "falcon": build.build_falcon,
    "falcon-chat": build.build_falcon,
    "gpt2": build.build_gpt2,
}
IMAGE_FAMILIES = {
    "bakllava": lambda: build.build_mistral(ADDED),
    "llava-mistral": lambda: build.build_mistral(ADDED),
    "llava-vicuna": lambda: build.build_llama2(ADDED),
    "mplug-owl3": build.build_qwen2,
}


@pytest.fixture(scope="module")
def text_questions(shared_data):
    """Return the published items of ComVE and e-SNLI."""
    comve, esnli = shared_data / "comve", shared_data / "esnli"
    rows = {
        "comve": map(
            to_row,
            read_comve(
                comve / "subtaskA_test_data.csv",
                comve / "subtaskA_gold_answers.csv",
                "comve",
                "test",
            ),
        ),
        "e-snli": map(
            to_row, read_esnli(esnli / "esnli_test_rebuilt.csv", "e-snli", "test")
        ),
    }
    return [
        question
        for name, read in rows.items()
        for question in select_text_questions(
            list(read), name, PUBLISHED, 100, 42
        ).questions
    ]


@pytest.fixture(scope="module")
def image_questions(shared_data):
    """Return the first published items of an instrument of VALSE."""
    items = [
        item
        for item in read_release(shared_data / "valse/existence.json", "existence", 2)
        if item.valid
    ][:100]
    return build_pairwise_questions(items, "existence", draw_published_orders(items))


def count_players(decoder, template, question, kind):
    """Return the numbers of players before both query suffixes; they are refused where they differ."""
    repeated = {"answer": "A"} if kind == POST_HOC else {}
    prompts = [
        render_prompt(name, question, template, repeated) for name in PROMPT_KINDS[kind]
    ]
    suffixes = [
        count_suffix_players(decoder, prompt.counted_suffix, template.suffix_rule)
        for prompt in prompts
    ]
    players = [decoder.build_prompt(prompt.text).ids for prompt in prompts]
    return [
        len(numbers)
        for numbers in find_shared_players(*players, tuple(suffixes), PUBLISHED)
    ]


def check_family(name, build_tokenizer, questions):
    decoder = LanguageModel(
        ModelSpec(name), "cpu", None, build_tokenizer(), frozenset(), 4096
    )
    template = build_published_template(name)
    for question in questions:
        for kind in PROMPT_KINDS:
            answer, explanation = count_players(decoder, template, question, kind)
            assert answer == explanation > 0


@pytest.mark.parametrize("name", TEXT_FAMILIES)
def test_each_published_text_has_as_many_players_in_both_prompts(text_questions, name):
    assert len(text_questions) == 200
    check_family(name, TEXT_FAMILIES[name], text_questions)


@pytest.mark.parametrize("name", IMAGE_FAMILIES)
def test_each_published_pair_has_as_many_players_in_both_prompts(image_questions, name):
    assert len(image_questions) == 100
    check_family(name, IMAGE_FAMILIES[name], image_questions)
