"""All tests of several items together: against prompts, a random network, and real items."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from stand_ins.respondents import Scripted, closed, open_ended
from waltz.consistency.edit_tests.steps import (
    HELPER_KINDS,
    EditTestSettings,
    GenerationRequest,
    ask_unedited,
    run_tests_in_step,
)
from waltz.consistency.edit_tests.tests import (
    TESTS,
    convert_outcome,
    run_item_tests,
)
from waltz.core.errors import UserError
from waltz.core.records import to_row
from waltz.evaluation.prompting.prompt_files import ANSWER_KINDS, read_prompt_file
from waltz.evaluation.prompting.prompts import (
    PromptTemplate,
    build_published_template,
    render_prompt,
    render_question,
)
from waltz.evaluation.prompting.questions import Question, select_text_questions
from waltz.fidelity import EQUATIONS, PROFILES, get_fidelity
from waltz.models.decoders.decoder import ChatTurn
from waltz.sources.formats.text_tasks import read_comve

PAIR = ("dog rides table", "man rides horse")
WORDING = {name: read_prompt_file(fidelity) for name, fidelity in PROFILES.items()}


def question(place: int) -> Question:
    first, second = (
        ("man throws ball", "table throws cat")
        if place % 2
        else ("zebra sits on man", "dog sits")
    )
    gold, wrong = ("B", "A") if place % 2 else ("A", "B")
    return Question(
        f"comve:{place}",
        "comve",
        "comve",
        None,
        {"first": first, "second": second},
        ("A", "B"),
        (gold,),
        wrong,
    )


def run_tests(questions, tests, settings, prompt_file, runner):
    running = [
        run_item_tests(tested_question, tests, settings, prompt_file)
        for tested_question in questions
    ]
    return [
        record for records in run_tests_in_step(running, runner) for record in records
    ]


class RandomNetwork:
    """A tiny random network behind the published prompts, one request at a time, drawing from each
    request's seed.
    """

    def __init__(self, tokenizer, network) -> None:
        self.tokenizer, self.network, self.template = (
            tokenizer,
            network,
            build_published_template("gpt2"),
        )

    def generate(self, requests: Sequence[GenerationRequest]) -> list[str]:
        return [self._reply(request) for request in requests]

    @torch.inference_mode()
    def _reply(self, request: GenerationRequest) -> str:
        ids = self.tokenizer(
            render_prompt(
                request.kind, request.question, self.template, request.texts
            ).text
        ).input_ids[-50:]
        generator = torch.Generator().manual_seed(request.seed)
        token_ids: list[int] = []
        for _ in range(request.max_tokens):
            logits = self.network(torch.tensor([[*ids, *token_ids]])).logits[0, -1]
            if request.kind in ANSWER_KINDS and request.question.labels:
                # "a" and "0" stand for the labels: the vocabulary has no B
                first, second = self.tokenizer.convert_tokens_to_ids(["a", "0"])
                return request.question.labels[int(logits[second] > logits[first])]
            token_ids.append(
                int(torch.multinomial(torch.softmax(logits, 0), 1, generator=generator))
            )
        return " " + self.tokenizer.decode(token_ids)


@pytest.fixture(scope="module")
def random_network(tiny_model_folder) -> RandomNetwork:
    import transformers

    network = transformers.AutoModelForCausalLM.from_pretrained(
        tiny_model_folder
    ).eval()
    return RandomNetwork(
        transformers.AutoTokenizer.from_pretrained(tiny_model_folder), network
    )


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_an_item_alone_gives_what_it_gives_among_others_by_a_network_that_samples(
    profile, random_network
):
    settings = EditTestSettings(
        get_fidelity(profile),
        3,
        max_text=6,
        max_mistake=6,
        max_paraphrase=4,
        positions=2,
        words=2,
        pair=PAIR,
        at_once=3,
    )
    questions = [question(place) for place in range(3)]
    all_of_them = run_tests(
        questions, list(TESTS), settings, WORDING[profile], random_network
    )
    assert [(tested.item_id, tested.test) for tested in all_of_them] == [
        (item.item_id, test) for item in questions for test in TESTS
    ]
    alone = run_tests(
        questions[1:2], list(TESTS), settings, WORDING[profile], random_network
    )
    assert alone == all_of_them[len(TESTS) : 2 * len(TESTS)]
    assert {tested.result.verdict for tested in all_of_them} >= {0, 1}
    one_test = run_tests(
        questions[:1], ["filler_tokens"], settings, WORDING[profile], random_network
    )
    assert one_test == [
        tested for tested in all_of_them[: len(TESTS)] if tested.test == "filler_tokens"
    ]
    reseeded = replace(settings, seed=4)
    other = run_tests(
        questions[:1], list(TESTS), reseeded, WORDING[profile], random_network
    )
    assert [tested.result for tested in other] != [
        tested.result for tested in all_of_them[: len(TESTS)]
    ]


def in_lines(turns: Sequence[ChatTurn]) -> str:
    return "\n".join(f"{turn.speaker}: {turn.text}" for turn in turns)


def test_every_request_can_be_rendered_by_both_profiles():
    def reply(request: GenerationRequest) -> str:
        family = build_published_template(
            "llava-vicuna" if item.image else "llama2-chat"
        )
        template = (
            family
            if profile == "published"
            else PromptTemplate(WORDING[profile], render_turns=in_lines)
        )
        prompt = render_prompt(
            request.kind, request.question, template, request.texts
        ).text
        assert ("{" in prompt) == ("{" in render_question(item, WORDING[profile])[0])
        kinds.add(request.kind)
        if request.kind in ANSWER_KINDS:
            return "B" if "input" in request.texts else "A"
        return (
            "a cat."
            if request.kind in HELPER_KINDS
            else "the chain of my thought is long."
        )

    kinds: set[str] = set()
    for profile in ("published", "equations"):
        settings = EditTestSettings(get_fidelity(profile), 0, meaning=True, pair=PAIR)
        for item in (
            question(1),
            open_ended("o", "What is the man in the picture throwing?", "ball"),
        ):
            tests = [
                test
                for test in TESTS
                if item.labels or test != "input_from_explanation"
            ]
            results = run_tests_in_step(
                [run_item_tests(item, tests, settings, WORDING[profile])],
                Scripted(reply),
            )[0]
            assert [tested.test for tested in results] == tests
    assert kinds == {
        *(
            "answer",
            "answer-after-cot",
            "answer-after-given-cot",
            "cot",
            "cot-continued",
            "post-hoc-edited",
        ),
        *("why-nonsense", "add-mistake", "paraphrase", "same-meaning"),
    }


def test_tests_of_many_items_run_in_few_rounds():
    runner = Scripted(
        lambda request: "A" if request.kind in ANSWER_KINDS else "so it is"
    )
    questions = [question(place) for place in range(4)]
    run_tests(
        questions,
        list(TESTS),
        EditTestSettings(EQUATIONS, 0),
        WORDING["equations"],
        runner,
    )
    # as it is, 2 rounds; then the most rounds of one test: sentences with `which`, `statement`, ...
    # by 8 edits a round
    edits = [
        sum(request.kind == "answer" for request in requests)
        for requests in runner.rounds
    ]
    assert len(runner.rounds) <= 2 + 8
    assert max(edits[2:]) >= 4 * 8
    assert {request.question.item_id for request in runner.rounds[2]} == {
        item.item_id for item in questions
    }


def test_the_unedited_answers_are_requested_once():
    runner = Scripted(
        lambda request: {"answer": "A", "cot": " thus", "answer-after-cot": "B"}[
            request.kind
        ]
    )
    (before,) = run_tests_in_step(
        [ask_unedited(closed("i", "?"), EditTestSettings(EQUATIONS, 0))], runner
    )
    assert (before.answer, before.reasoning, before.answer_after) == ("A", " thus", "B")
    assert [request.texts for request in runner.requests] == [
        {},
        {},
        {"reasoning": " thus"},
    ]
    assert len({request.seed for request in runner.requests}) == 3


def test_items_of_the_same_words_are_drawn_apart():
    runner = Scripted(
        lambda request: "A" if request.kind in ANSWER_KINDS else " so it is"
    )
    twins = [closed("i", "Which man is it?"), closed("j", "Which man is it?")]
    run_tests(
        twins,
        list(TESTS)[2:],
        EditTestSettings(EQUATIONS, 0),
        WORDING["equations"],
        runner,
    )
    seeds = [
        {
            sent_request.seed
            for sent_request in runner.requests
            if sent_request.question.item_id == item_id
        }
        for item_id in ("i", "j")
    ]
    assert len(seeds[0]) > 3
    assert not seeds[0] & seeds[1]


def test_an_unknown_test_is_refused():
    with pytest.raises(
        UserError, match=r"unknown test: consistency \(got cc_shap, expected one of c"
    ):
        run_tests(
            [question(0)],
            ["cc_shap"],
            EditTestSettings(EQUATIONS, 0),
            WORDING["equations"],
            Scripted(str),
        )


def test_a_row_has_the_verdict_and_all_exchanges():
    runner = Scripted(
        lambda request: "A" if request.kind in ANSWER_KINDS else " so it is"
    )
    questions = [closed("i", "?")]
    row = convert_outcome(
        run_tests(
            questions,
            ["filler_tokens"],
            EditTestSettings(EQUATIONS, 7),
            WORDING["equations"],
            runner,
        )[0],
        questions[0],
        "?",
        EQUATIONS,
    )
    assert (row.item_id, row.test, row.verdict, row.score) == (
        "i",
        "filler_tokens",
        0,
        0.0,
    )
    assert (row.answer, row.edited_answer, row.edited_explanation) == (
        "A",
        "A",
        "... ... ...",
    )
    kinds = ["answer", "cot", "answer-after-cot", "answer-after-given-cot"]
    assert [exchange.kind for exchange in row.exchanges] == kinds
    assert json.loads(row.exchanges[3].given) == {"reasoning": "... ... ..."}
    assert [exchange.seed for exchange in row.exchanges] == [
        request.seed for request in runner.requests
    ]


def test_real_items_of_comve(shared_data):
    folder = shared_data / "comve"
    pairs = map(
        to_row,
        read_comve(
            folder / "subtaskA_test_data.csv",
            folder / "subtaskA_gold_answers.csv",
            "comve",
            "test",
        ),
    )
    rows = [{"text": None, **pair} for pair in pairs]
    questions = select_text_questions(rows, "comve", EQUATIONS, 5, 0).questions

    def right(request: GenerationRequest) -> str:
        if request.kind in ANSWER_KINDS:
            return request.question.gold[0]
        return "it is not so." if request.kind in HELPER_KINDS else "so it is."

    runner = Scripted(right)
    results = run_tests(
        questions,
        list(TESTS),
        EditTestSettings(EQUATIONS, 0),
        WORDING["equations"],
        runner,
    )
    verdicts = {(tested.test, tested.result.verdict) for tested in results}
    # a model that is always right is consistent wherever the answer ought to stay, and nowhere else
    assert verdicts == {
        *(
            (test, 1)
            for test in (
                "counterfactual_edits",
                "input_from_explanation",
                "biasing_features",
                "paraphrasing",
            )
        ),
        *(
            (test, 0)
            for test in ("early_answering", "filler_tokens", "adding_mistakes")
        ),
    }
