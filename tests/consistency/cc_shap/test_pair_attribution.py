"""Attributions of answers and explanations, compared with the released code and with models built
by hand.
"""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins import restated_cc_shap as published_explanations
from stand_ins.models import scripted_decoders, tiny_decoders
from waltz.attribution.prompt_attribution import PromptGame, PromptSettings
from waltz.consistency.cc_shap.dialogue import generate_targets
from waltz.consistency.cc_shap.pair_attribution import (
    attribute_pairs,
    count_suffix_players,
)
from waltz.core.errors import UserError
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity

torch.set_num_threads(1)  # tiny batches: threads cost more than they give

QUESTION = "what is this ? a cat or a dog ?"
TAIL = ": the best answer is : ("
WHY = ": the best answer is : ( A ) USER : because ? ASSISTANT : this is because"


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    published_explanations.interpret(monkeypatch)


def photo():
    return Image.fromarray(
        np.random.default_rng(3).integers(0, 256, (40, 61, 3), dtype=np.uint8)
    )


def test_equations_draws_explanations_but_no_answers_and_no_text_of_a_model_that_does_not_sample():
    decoder = tiny_decoders.causal("llama")
    settings = decoder.network.model.generation_config
    settings.update(do_sample=True, temperature=1.5, top_k=20, top_p=0.9)
    prompt = decoder.build_prompt(QUESTION)

    def generate(kind, seed):
        return generate_targets(decoder, prompt, None, 6, EQUATIONS, seed, kind=kind)

    seeds = range(4)
    assert len({generate("post-hoc", seed) for seed in seeds}) > 1
    assert generate("cot", 1) == generate("cot", 1)
    assert len({generate("answer", seed) for seed in seeds}) == 1
    settings.update(do_sample=False)
    assert len({generate("post-hoc", seed) for seed in seeds}) == 1


def pair(
    decoder, picture, profile, lengths=(1, 4), tails=(TAIL, WHY), question=QUESTION
):
    begin = (
        f"{decoder.placeholder} {question} " if picture is not None else f"{question} "
    )
    prompts = [decoder.build_prompt(begin + tail) for tail in tails]
    targets = [
        generate_targets(
            decoder, prompt, picture, most, get_fidelity(profile), greedy=True
        )
        for prompt, most in zip(prompts, lengths, strict=True)
    ]
    return tuple(
        PromptGame(one.text, tail, ids)
        for one, tail, ids in zip(prompts, tails, targets, strict=True)
    )


def same(attribution, sides, tails):
    ratios_answer, ratios_explanation, value = published_explanations.compared(
        *(one.phi for one in sides), tails
    )
    for ours, theirs in zip(
        (attribution.answer, attribution.explanation), sides, strict=True
    ):
        assert ours.attribution.instance.targets == tuple(theirs.target)
        np.testing.assert_allclose(ours.attribution.estimate.phi, theirs.phi, atol=1e-5)
        assert np.abs(theirs.phi).max() > 0.05  # not all nothing
        assert ours.attribution.t_shap.value == pytest.approx(theirs.t_shap, abs=1e-4)
    # Percent.
    np.testing.assert_allclose(
        attribution.cc_shap.ratios_answer, ratios_answer, atol=1e-3
    )
    np.testing.assert_allclose(
        attribution.cc_shap.ratios_explanation, ratios_explanation, atol=1e-3
    )
    assert attribution.cc_shap.value == pytest.approx(value, abs=1e-4)


def test_published_explanations_of_a_language_model_are_those_of_the_released_code():
    words = tiny_decoders.tokenizer(start=False)
    decoder = tiny_decoders.causal("gpt2", words, seed=2)
    parts = pair(decoder, None, "published")
    attribution = attribute_pairs(
        decoder, None, [parts], PromptSettings(PUBLISHED, seed=7)
    )[0]
    sides = [
        published_explanations.of_text(
            decoder.network.model, words, part.text, most, seed=7
        )
        for part, most in zip(parts, (1, 4), strict=True)
    ]
    same(
        attribution,
        sides,
        [
            len(words(tail, add_special_tokens=False)["input_ids"])
            for tail in (TAIL, WHY)
        ],
    )
    assert attribution.explanation.attribution.estimate.requested == 500
    assert attribution.answer.attribution.tokens[0] == "what "
    assert attribution.answer.attribution.t_shap.value == 1


def test_the_defaults_of_the_released_code():
    decoder = tiny_decoders.llava()
    picture = decoder.prepare_image(photo())
    parts = pair(decoder, picture, "published")
    attribution = attribute_pairs(decoder, picture, [parts], PromptSettings(PUBLISHED))[
        0
    ]
    players = attribution.answer.attribution.players
    always_visible = {
        players.prompt.tokens[place]
        for place in np.flatnonzero(players.always_visible[players.text])
    }
    assert always_visible == {"<s>", "<image>"}
    assert decoder.processor.tokenizer.convert_ids_to_tokens(players.masked_id) == "_"
    assert attribution.answer.attribution.estimate.requested == 600 // (
        2 * len(players) + 1
    ) * (2 * len(players) + 1)
    with pytest.raises(
        UserError, match=r"need \d+ evaluations for one permutation, more than 30, 40"
    ):
        attribute_pairs(
            decoder, picture, [parts], PromptSettings(PUBLISHED, budgets=(30, 40))
        )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_targets_are_what_generate_says(seed):
    decoder = tiny_decoders.llava(seed)
    picture, model = decoder.prepare_image(photo()), decoder.network.model
    prompt = decoder.build_prompt(f"<image> {QUESTION} {TAIL}")
    given = decoder.processor(text=prompt.text, images=photo(), return_tensors="pt")

    def by_generate():
        generated = model.generate(
            **given, max_new_tokens=6, min_new_tokens=1, do_sample=False
        )
        return tuple(generated[0, given["input_ids"].shape[1] :].tolist())

    free = by_generate()
    assert generate_targets(decoder, prompt, picture, 6, PUBLISHED, greedy=True) == free
    for end in free[:4]:
        model.generation_config.eos_token_id = end
        ending = dataclasses.replace(decoder, ends=frozenset([end]))
        expected = by_generate()
        assert (
            generate_targets(ending, prompt, picture, 6, PUBLISHED, greedy=True)
            == expected
        )
        if end == free[0]:
            assert expected[0] != end  # it may not end at once
            with pytest.raises(UserError, match="generates nothing after"):
                generate_targets(ending, prompt, picture, 6, EQUATIONS)
        else:
            assert expected[-1] == end  # and the end is explained as well
            assert (
                generate_targets(ending, prompt, picture, 6, EQUATIONS) == expected[:-1]
            )


def test_special_tokens_at_the_ends_are_cut_off_for_language_models():
    words = tiny_decoders.tokenizer()
    decoder = tiny_decoders.causal("llama", words, seed=3)
    prompt = decoder.build_prompt(QUESTION)
    free = generate_targets(decoder, prompt, None, 5, PUBLISHED, greedy=True)
    names = words.convert_ids_to_tokens(free)
    assert len(set(free)) > 2
    words.unk_token = names[0]
    assert (
        generate_targets(decoder, prompt, None, 5, PUBLISHED, greedy=True) == free[1:]
    )
    words.eos_token = names[-1]
    assert (
        generate_targets(decoder, prompt, None, 5, PUBLISHED, greedy=True) == free[1:-1]
    )
    with pytest.raises(UserError, match="nothing to explain"):
        generate_targets(decoder, prompt, None, 1, PUBLISHED, greedy=True)


def test_the_tail_is_counted_by_the_rule_of_the_family():
    decoder = tiny_decoders.llava()
    # Seven words, a start token.
    assert count_suffix_players(decoder, TAIL, "less-two") == 6
    assert count_suffix_players(decoder, TAIL, "bare") == 7
    assert count_suffix_players(decoder, TAIL, "two") == 2
    # a special token that stands in the text counts, and so does a token without text that is not
    # special
    prompt = decoder.build_prompt("the answer")
    assert prompt.special[0]
    for special, span, count in (
        (True, {"start": 0, "end": 3}, 3),
        (False, {"start": 0, "end": 0}, 3),
    ):
        changed = dataclasses.replace(
            prompt,
            special=(special, *prompt.special[1:]),
            spans=(span, *prompt.spans[1:]),
        )
        reading = SimpleNamespace(build_prompt=lambda text, changed=changed: changed)
        assert count_suffix_players(reading, "the answer", "bare") == count
    assert count_suffix_players(decoder, "the answer", "bare") == 2
    assert count_suffix_players(decoder, "", "less-two") == 0
    with pytest.raises(UserError, match="has too few tokens by the published rule"):
        count_suffix_players(decoder, "(", "less-two")


def test_equations_lets_shared_tokens_play():
    decoder = tiny_decoders.llava()
    picture = decoder.prepare_image(photo())
    parts = pair(decoder, picture, "equations")
    attribution = attribute_pairs(
        decoder, picture, [parts], PromptSettings(EQUATIONS, permutations=2, seed=1)
    )[0]
    words = tuple(QUESTION.replace("or", "<unk>").split())
    for side in (attribution.answer, attribution.explanation):
        assert side.attribution.tokens == words
        assert (
            len(side.attribution.estimate.phi)
            == len(words) + side.attribution.players.grid**2
        )
        np.testing.assert_array_equal(
            side.shared, np.arange(len(side.attribution.estimate.phi))
        )
    # Of 10 tokens, the unknown "or" among them.
    assert attribution.answer.attribution.players.grid == 4
    assert attribution.cc_shap.standard_error > 0
    assert 0 < attribution.explanation.attribution.t_shap.value < 1
    given = attribute_pairs(
        decoder, picture, [parts], PromptSettings(EQUATIONS, permutations=1), grid=2
    )[0]
    assert given.explanation.attribution.players.n_image_players == 4


def test_several_pairs_have_the_values_that_they_have_alone():
    decoder = tiny_decoders.llava()
    picture = decoder.prepare_image(photo())
    pairs = [
        pair(decoder, picture, "equations", tails=(TAIL, tail))
        for tail in (WHY, "because this is")
    ]
    rules = PromptSettings(EQUATIONS, permutations=2)
    together = attribute_pairs(decoder, picture, pairs, rules)
    alone = [attribute_pairs(decoder, picture, [one], rules)[0] for one in pairs]
    assert together[0].answer.attribution is together[1].answer.attribution
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(
            one.explanation.attribution.estimate.phi,
            other.explanation.attribution.estimate.phi,
            atol=1e-5,
        )
        assert one.cc_shap.value == pytest.approx(other.cc_shap.value, abs=1e-5)


def test_few_players_are_explained_exactly_where_it_costs_no_more():
    decoder = tiny_decoders.causal(seed=3)
    parts = pair(decoder, None, "equations", question="what is this ?")
    attribution = attribute_pairs(decoder, None, [parts], PromptSettings(EQUATIONS))[0]
    assert (
        attribution.answer.attribution.estimator,
        attribution.answer.attribution.estimate.requested,
    ) == (
        "exact",
        16,
    )
    assert attribution.cc_shap.standard_error == 0
    drawn = attribute_pairs(
        decoder,
        None,
        [parts],
        PromptSettings(EQUATIONS, estimator="permutation", evaluations=900),
    )[0]
    assert drawn.cc_shap.value == pytest.approx(attribution.cc_shap.value, abs=0.1)


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_a_model_that_ignores_its_input_has_no_cc_shap(profile):
    decoder = tiny_decoders.causal("llama")
    table = decoder.network.model.get_input_embeddings().weight.data
    table.copy_(table[:1].expand_as(table))  # every token is the same to it
    parts = [PromptGame(f"{QUESTION} {tail}", tail, (40, 41)) for tail in (TAIL, WHY)]
    attribution = attribute_pairs(
        decoder,
        None,
        [tuple(parts)],
        PromptSettings(get_fidelity(profile), permutations=2, partition_rows=80),
    )[0].cc_shap
    assert attribution.value is None
    assert attribution.standard_error is None
    assert "no shared player contributes to the answer" in attribution.reason
    assert "no shared player contributes to the explanation" in attribution.reason


class Characters:
    """A tokenizer of single characters, for `shap`'s masker."""

    sep_token = sep_token_id = mask_token = bos_token_id = None
    all_special_ids = ()
    special_tokens_map: dict = {}  # noqa: RUF012

    def __call__(self, text, return_offsets_mapping=False):
        spans = [(place, place + 1) for place in range(len(text))]
        return {"input_ids": list(map(ord, text)), "offset_mapping": spans}


@pytest.mark.parametrize("profile", ["equations", "published"])
@pytest.mark.parametrize(("sign", "expected"), [(1, 1), (-1, -1)])
def test_a_model_that_explains_by_the_tokens_it_answers_from(profile, sign, expected):
    # "z" follows the likelier the more of these characters stand in the prompt, "y" after "why"
    # likewise, or less so
    weights = {"a": 2.0, "b": -1.0, "c": 0.5}

    def script(text):
        total = sum(weights.get(character, 0.0) for character in text)
        return {"z": total, "y": sign * total}

    decoder = scripted_decoders.scripted(script, start=False, reads_images=False)
    decoder.tokenizer = Characters()
    parts = (
        PromptGame("abcd: ", ": ", (ord("z"),)),
        PromptGame("abcd? so ", "? so ", (ord("y"),)),
    )
    rules = PromptSettings(get_fidelity(profile), value="logit", partition_rows=500)
    cc_shap = attribute_pairs(decoder, None, [parts], rules)[0].cc_shap
    if profile == "published":
        # The rest of the vocabulary counts in log-odds.
        assert cc_shap.value == pytest.approx(expected, abs=0.02)
    else:
        assert cc_shap.value == pytest.approx(expected, abs=1e-6)


def test_players_end_where_the_first_query_suffix_begins():
    # both prompts go on alike for two characters, which belong to the suffixes
    decoder = scripted_decoders.scripted(
        lambda text: {"z": float(len(text))}, start=False, reads_images=False
    )
    decoder.tokenizer = Characters()
    parts = (
        PromptGame("abcd: x", ": x", (ord("z"),)),
        PromptGame("abcd: y", ": y", (ord("z"),)),
    )
    (attribution,) = attribute_pairs(
        decoder, None, [parts], PromptSettings(EQUATIONS, value="logit")
    )
    assert (
        attribution.answer.attribution.tokens
        == attribution.explanation.attribution.tokens
        == tuple("abcd")
    )


def test_what_cannot_be_compared_is_refused():
    decoder = tiny_decoders.causal(seed=3)
    parts = pair(decoder, None, "equations")
    rules = PromptSettings(EQUATIONS, permutations=1)
    with pytest.raises(UserError, match="does not end with its query suffix"):
        attribute_pairs(
            decoder,
            None,
            [(dataclasses.replace(parts[0], query_suffix="another"), parts[1])],
            rules,
        )
    with pytest.raises(UserError, match="share no tokens before their query suffixes"):
        attribute_pairs(
            decoder,
            None,
            [(dataclasses.replace(parts[0], text=f"dog {parts[0].text}"), parts[1])],
            rules,
        )
    longer = dataclasses.replace(parts[0], text=f"dog {parts[0].text}")
    with pytest.raises(UserError, match="the published CC-SHAP compares as many"):
        attribute_pairs(
            decoder,
            None,
            [(longer, parts[1])],
            PromptSettings(PUBLISHED, partition_rows=4),
        )
    seeing = tiny_decoders.llava()
    with pytest.raises(UserError, match="name an image"):
        attribute_pairs(seeing, None, [parts], PromptSettings(PUBLISHED))
