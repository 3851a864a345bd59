"""Test runners of decoders: which model generates, from which prompt; and the rows of the results."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from PIL import Image

from stand_ins.models import tiny_decoders
from stand_ins.models.scripted_decoders import scripted
from stand_ins.models.tiny_models import bert_tokenizer
from waltz.consistency.edit_tests import runner as runner_module
from waltz.consistency.edit_tests.runner import build_runner
from waltz.consistency.edit_tests.steps import GenerationRequest
from waltz.consistency.edit_tests.tests import (
    TESTS,
    build_settings,
    build_test_records,
    count_missing_verdicts,
    list_fitting_tests,
)
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.records import to_row
from waltz.core.schema import CONSISTENCY
from waltz.evaluation.decoder_rows import is_right_answer
from waltz.evaluation.prompting.decoder_outputs import DecoderSession, choose_sampling
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.filters.nli import Inference

TEXTS = {"explanation": 6, "answer": 3, "mistake": 6, "paraphrase": 4}
EDITS = {"positions": 2, "words": 2}


def comve(place: int) -> Question:
    first, second = ("the man throws a ball", "the table throws a cat")
    gold, wrong = ("B", "A") if place % 2 else ("A", "B")
    fields = {"first": f"{first} {place}", "second": second}
    return Question(
        f"c:{place}", "comve", "comve", None, fields, ("A", "B"), (gold,), wrong
    )


def shown(place: int) -> Question:
    if place % 2:
        return Question(
            f"o:{place}",
            "vqa",
            "open",
            f"{place}",
            {"question": "what is this?"},
            (),
            ("dog",),
            "impossible to give",
        )
    fields = {"first": "a man sits", "second": "a dog sits"}
    return Question(
        f"p:{place}",
        "x",
        "pairwise",
        f"{place}",
        fields,
        ("A", "B"),
        ("A",),
        "B",
        order="caption-first",
    )


def picture(name: str) -> Image.Image:
    if name == "none":
        raise UserError("image 'none': is missing")
    return Image.new("RGB", (24, 24), (40 * int(name), 90, 10))


def family(decoder, name: str):
    return replace(
        decoder,
        spec=replace(
            decoder.spec, kind="vision" if decoder.reads_images else "text", family=name
        ),
    )


@pytest.mark.parametrize(
    ("decoder", "question", "profile"),
    [
        (tiny_decoders.causal(), comve, "equations"),
        (family(tiny_decoders.causal(), "gpt2"), comve, "published"),
        (family(tiny_decoders.llava(), "bakllava"), shown, "published"),
    ],
    ids=["language model", "published language model", "published model that sees"],
)
def test_an_item_alone_gives_what_it_gives_among_others(decoder, question, profile):
    questions = [question(place) for place in range(3)]
    runs = build_settings(
        get_fidelity(profile),
        [3, 4],
        TEXTS,
        EDITS,
        compare_meaning=True,
        pair=("a cat sits", "a zebra throws"),
    )
    runner = build_runner(
        DecoderSession(decoder, picture), decoder, get_fidelity(profile)
    )
    rows = build_test_records(questions, None, runs, runner)
    assert (
        parquet.build_table(list(map(to_row, rows)), CONSISTENCY).num_rows
        == len(rows)
        == 2 * 3 * (7 if question is comve else 6)
    )
    assert not count_missing_verdicts(rows)["errors"]
    right = {
        row.item_id: row.correct
        for row in rows
        if row.test == "paraphrasing" and row.seed == 3
    }
    answers = {
        row.item_id: row.answer
        for row in rows
        if row.test == "paraphrasing" and row.seed == 3
    }
    fidelity = get_fidelity(profile)
    assert right == {
        one.item_id: is_right_answer(answers[one.item_id], one, fidelity)
        for one in questions
    }
    for alone in questions[1:3]:
        assert build_test_records([alone], None, runs, runner) == [
            row for row in rows if row.item_id == alone.item_id
        ]
    drawn = [[row.explanation for row in rows if row.seed == seed] for seed in (3, 4)]
    assert (drawn[0] == drawn[1]) == (choose_sampling(decoder) is None)


def test_labels_come_from_logits_and_texts_from_generation_and_the_helper_has_its_own_prompts():
    speaks = scripted(
        lambda text: {"B": 2.0, "A": 1.0},
        says=lambda prompt, seed: f" mine {len(prompt)}",
    )
    helps = scripted(lambda text: {}, says=lambda prompt, seed: f" helped: {prompt}")
    runner = build_runner(DecoderSession(speaks, picture), helps, EQUATIONS)
    replies = runner.generate(
        [
            GenerationRequest("cot", comve(0), {}, 99, 0),
            GenerationRequest("answer", comve(0), {}, 1, 0),
            GenerationRequest("paraphrase", comve(0), {"text": "so"}, 400, 0),
            GenerationRequest("answer", shown(1), {}, 99, 0),
            GenerationRequest("cot", comve(0), {}, 3, 0),
        ]
    )
    assert replies[0].startswith(" mine ")
    assert replies[1] == "B"
    assert replies[2].startswith(
        ' helped: Can you please paraphrase the following to me? "so".'
    )
    assert replies[3].startswith(" mine ")
    assert replies[4] == " mi"


def test_published_asks_the_helper_by_the_tested_model_s_markers_shows_it_nothing_and_cuts_nothing_of_it():
    speaks = scripted(
        lambda text: {}, says=lambda prompt, seed: "123456789", start=False
    )
    speaks.spec = replace(speaks.spec, kind="vision", family="bakllava")
    speaks.network.model = helped = scripted(
        lambda text: {}, says=lambda prompt, seed: prompt, start=False
    )
    helped.generation_config = type(
        "Settings",
        (),
        {"top_k": 0, "temperature": 1.0, "top_p": 1.0, "do_sample": False},
    )
    helped.network.model, helped.reads_images = helped, False
    runner = build_runner(DecoderSession(speaks, picture), helped, PUBLISHED)
    requests = [
        GenerationRequest("cot", shown(0), {}, 9, 0),
        GenerationRequest("cot", shown(0), {}, 10, 0),
    ]
    assert runner.generate(requests) == ["12345", "123456789"]
    (prompt,) = runner.generate(
        [GenerationRequest("paraphrase", shown(0), {"text": "so"}, 500, 0)]
    )
    assert prompt.startswith("<<SYS>>")
    assert "[INST] Can you please paraphrase" in prompt
    full_request = GenerationRequest(
        "paraphrase", replace(shown(0), image="none"), {"text": "so"}, 20, 0
    )
    assert runner.generate([full_request]) == [prompt[:20]]


def test_a_skipped_test_is_a_row_with_the_reason():
    decoder = scripted(
        lambda text: {"A": 1.0}, says=lambda prompt, seed: " so it is", window=700
    )
    runner = build_runner(DecoderSession(decoder, picture), decoder, EQUATIONS)
    runs = build_settings(
        EQUATIONS, [0], {**TEXTS, "explanation": 99}, EDITS, compare_meaning=False
    )
    long = replace(comve(1), fields={"first": "a man " * 200, "second": "a cat"})
    blind = replace(shown(2), image="none")
    rows = build_test_records(
        [comve(0), long, blind], ["early_answering", "filler_tokens"], runs, runner
    )
    assert [(row.item_id, row.test, row.error is None) for row in rows] == [
        (item, test, item == "c:0")
        for item in ("c:0", "c:1", "p:2")
        for test in ("early_answering", "filler_tokens")
    ]
    assert [row.error for row in rows[4:]] == ["image 'none': is missing"] * 2
    assert "1 to 700 are read" in rows[2].error
    assert all(row.verdict is None and row.answer is None for row in rows[2:])
    assert count_missing_verdicts(rows)["without_verdict"] == 4
    assert count_missing_verdicts(rows)["errors"]["image 'none': is missing"] == 2
    assert parquet.build_table(list(map(to_row, rows)), CONSISTENCY).num_rows == 6


def test_one_skipped_test_leaves_the_others():
    decoder = scripted(
        lambda text: {"A": 1.0},
        says=lambda prompt, seed: "so it is " * (60 if "paraphrase" in prompt else 1),
    )
    decoder.window = 620
    runner = build_runner(DecoderSession(decoder, picture), decoder, EQUATIONS)
    runs = build_settings(
        EQUATIONS,
        [0],
        {"explanation": 9, "paraphrase": 400},
        EDITS,
        compare_meaning=False,
    )
    rows = {
        row.test: row
        for row in build_test_records(
            [comve(0)], ["filler_tokens", "paraphrasing"], runs, runner
        )
    }
    assert rows["filler_tokens"].verdict == 0
    assert "620 are read" in rows["paraphrasing"].error
    assert [exchange.kind for exchange in rows["paraphrasing"].exchanges] == [
        "answer",
        "cot",
        "answer-after-cot",
        "paraphrase",
    ]


def test_labels_that_are_equally_likely_are_no_answer_but_in_published():
    decoder = scripted(lambda text: {})
    runner = build_runner(DecoderSession(decoder, picture), decoder, EQUATIONS)
    (reply,) = runner.generate([GenerationRequest("answer", comve(0), {}, 1, 0)])
    assert isinstance(reply, UserError)
    assert str(reply) == "none of the labels A, B is the likeliest"
    decoder.spec, decoder.reads_images = replace(decoder.spec, family="gpt2"), False
    decoder.network.model = type(
        "Model", (), {"generation_config": type("Settings", (), {"do_sample": False})}
    )
    assert build_runner(DecoderSession(decoder, picture), decoder, PUBLISHED).generate(
        [GenerationRequest("answer", comve(0), {}, 1, 0)]
    ) == ["A"]


def test_meanings_are_compared_by_the_helper_or_by_entailment_in_both_directions(
    monkeypatch,
):
    helps = scripted(lambda text: {}, says=lambda prompt, seed: "Yes")
    likely = {("two", "2"), ("2", "two"), ("a dog", "an animal")}

    def inferred(pairs, model, stored):
        return {
            pair: Inference(0.8, 0.1, 0.1)
            if pair in likely
            else Inference(0.1, 0.8, 0.1)
            for pair in pairs
        }

    monkeypatch.setattr(runner_module, "infer_relations", inferred)
    requests = [
        GenerationRequest(
            "same-meaning", shown(1), {"text": text, "other": other}, 3, 0
        )
        for text, other in (("two", "2"), ("a dog", "an animal"))
    ]
    by_helper = build_runner(DecoderSession(helps, picture), helps, EQUATIONS)
    assert by_helper.generate(requests) == ["Yes", "Yes"]
    assert replace(
        by_helper, judge=SimpleNamespace(tokenizer=bert_tokenizer())
    ).generate(requests) == ["yes", "no"]


def test_equations_samples_texts_by_seed_whatever_the_batch_and_no_labels():
    decoder = tiny_decoders.causal("llama")
    decoder.network.model.generation_config.update(
        do_sample=True, temperature=1.5, top_k=20, top_p=0.9
    )
    runner = build_runner(DecoderSession(decoder, picture), decoder, EQUATIONS)

    def build_requests(seed):
        return [
            GenerationRequest(kind, comve(item), {}, 6, seed + item)
            for kind in ("cot", "answer")
            for item in range(3)
        ]

    first, second = (runner.generate(build_requests(seed)) for seed in (10, 20))
    assert first[:3] != second[:3]
    assert first[3:] == second[3:]
    assert runner.generate(build_requests(10)[::-1]) == first[::-1]
    assert [runner.generate([one])[0] for one in build_requests(10)] == first
    decoder.network.model.generation_config.update(do_sample=False)
    runner = build_runner(DecoderSession(decoder, picture), decoder, EQUATIONS)
    greedy = [runner.generate(build_requests(seed)) for seed in (10, 20)]
    assert greedy[0] == greedy[1]


def test_requests_without_sampling_run_once_for_all_seeds():
    prompts = []
    decoder = scripted(
        lambda text: {"A": 1.0},
        says=lambda prompt, seed: prompts.append(prompt) or " so it is",
    )
    decoder.reads_images = False
    settings = build_settings(EQUATIONS, [1, 2, 3], {}, {}, False)
    runner = build_runner(DecoderSession(decoder, picture), decoder, EQUATIONS)
    rows = build_test_records([comve(0)], ["early_answering"], settings, runner)
    assert len(rows) == 3
    assert len(prompts) == 1
    assert [row.sampled for row in rows] == [False] * 3
    # A decoder that samples draws with another seed for each run.
    decoder.reads_images = True
    runner = build_runner(DecoderSession(decoder, picture), decoder, EQUATIONS)
    rows = build_test_records([comve(0)], ["early_answering"], settings, runner)
    assert len(prompts) == 1 + 3
    assert [row.sampled for row in rows] == [True] * 3


def test_a_finished_run_is_taken_from_its_folder(tmp_path):
    prompts = []
    decoder = scripted(
        lambda text: {"A": 1.0},
        says=lambda prompt, seed: prompts.append(prompt) or " so it is",
    )
    runs = build_settings(EQUATIONS, [0], TEXTS, EDITS, False)
    first = build_test_records(
        [comve(0)],
        None,
        runs,
        build_runner(
            DecoderSession(decoder, picture, tmp_path / "cache.sqlite"),
            decoder,
            EQUATIONS,
        ),
    )
    prompt_count, read = len(prompts), len(decoder.network.read_texts)
    again = build_test_records(
        [comve(0)],
        None,
        runs,
        build_runner(
            DecoderSession(decoder, picture, tmp_path / "cache.sqlite"),
            decoder,
            EQUATIONS,
        ),
    )
    assert again == first
    assert (len(prompts), len(decoder.network.read_texts)) == (prompt_count, read)


def test_input_from_explanation_fits_comve_alone():
    assert list_fitting_tests(comve(0), None) == list(TESTS)
    assert list_fitting_tests(shown(0), None) == [
        test for test in TESTS if test != "input_from_explanation"
    ]
    assert list_fitting_tests(comve(0), ["paraphrasing", "counterfactual_edits"]) == [
        "counterfactual_edits",
        "paraphrasing",
    ]


def test_lengths_are_the_published_ones_unless_the_study_says_otherwise():
    (plain,) = build_settings(EQUATIONS, [5], {}, {}, False)
    assert (
        plain.seed,
        plain.max_text,
        plain.max_answer,
        plain.max_mistake,
        plain.max_paraphrase,
    ) == (
        *(5, 100, 10),
        *(60, 30),
    )
    assert (plain.positions, plain.words) == (8, 8)
    (own,) = build_settings(PUBLISHED, [5], TEXTS, EDITS, True, ("a", "b"))
    assert (own.max_text, own.max_answer, own.max_mistake, own.max_paraphrase) == (
        6,
        3,
        6,
        4,
    )
    assert (own.positions, own.words, own.meaning, own.pair) == (2, 2, True, ("a", "b"))
