"""Recorded runs of the released code, run again through our own tests: the same prompts, the same
verdicts.

A decoder answers each prompt with the recorded text. docs/explanation/replay.md lists what cannot
be replayed.
"""

from dataclasses import replace

import pytest

from stand_ins.replayed_runs import (
    FAMILY,
    STEPS,
    build_question,
    collect_replies,
    replay,
)
from waltz.consistency.edit_tests import edits
from waltz.consistency.edit_tests.runner import build_runner
from waltz.consistency.edit_tests.steps import EditTestSettings
from waltz.consistency.edit_tests.tests import build_test_records
from waltz.consistency.item_selection import select_questions, select_shared_pair
from waltz.core.records import to_row
from waltz.evaluation.prompting.decoder_outputs import DecoderSession
from waltz.evaluation.prompting.prompts import (
    build_published_template,
    render_prompt,
    render_question,
)
from waltz.fidelity import PUBLISHED
from waltz.sources.formats.cc_shap_results import (
    TESTS,
    list_input_from_explanation_verdicts,
    read_result_items,
)
from waltz.sources.readers import read_source

FILES = {"comve": "comve_100.md", "esnli": "esnli_100.md"}
SETTINGS = EditTestSettings(PUBLISHED, 1, positions=2, words=2)
FROM_EXPLANATION = "input_from_explanation"


@pytest.fixture(scope="module", params=FILES)
def recorded(request, shared_data):
    """The form of the questions, and the recorded items."""
    path = shared_data / "cc_shap_recorded" / FILES[request.param]
    if not path.is_file():
        pytest.skip(
            "the recorded runs are not here: set WALTZ_DATA with cc_shap_recorded/"
        )
    return request.param, read_result_items(path)


def choose_wrong(item, suggestion):
    """Return a wrong answer that makes the test suggest what was suggested; any where that is not
    recorded.
    """
    gold, after_cot = item.fields["correct_answer"], item.fields["model_prediction_cot"]
    if suggestion == gold:
        return after_cot
    return suggestion or next(
        label for label in "ABC" if label not in (gold, after_cot)
    )


def run_again(form, item, replies, monkeypatch):
    """Run the seven tests of one item, and return rows, decoder and helper."""
    question = build_question(item, form, choose_wrong(item, replies.suggestion))
    decoder, helper = replay(item, replies)
    with monkeypatch.context() as patched:
        if replies.edit is not None:
            patched.setattr(edits, "draw_edits", lambda *_: [[replies.edit]])
        pair = (
            (question.fields["first"], question.fields["second"])
            if form == "comve"
            else None
        )
        runner = build_runner(DecoderSession(decoder, None), helper, PUBLISHED)
        return (
            build_test_records(
                [question], None, [replace(SETTINGS, pair=pair)], runner
            ),
            decoder,
            helper,
        )


def list_recorded_verdicts(item, from_explanation):
    verdicts = {
        test.name: int(item.fields[field])
        for field, test in TESTS.items()
        if test.name != FROM_EXPLANATION
    }
    key = (item.run, item.number)
    return verdicts | (
        {FROM_EXPLANATION: from_explanation[key][0]} if key in from_explanation else {}
    )


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(10, id="every-tenth"),
        pytest.param(1, id="all", marks=pytest.mark.corpora),
    ],
)
def test_verdicts_are_the_recorded_ones_item_by_item_and_prompts_are_recorded(
    recorded, monkeypatch, step
):
    form, items = recorded
    assert len(items) == 100
    from_explanation = list_input_from_explanation_verdicts(items)
    verdicts = 0
    for item in items[::step]:
        replies = collect_replies(item)
        edited = item.notes["atanasova_counterfact"].strip() != "Uncaught exception"
        assert (replies.edit is not None) == edited, (
            "the edited text is not one that our code makes"
        )
        rows, decoder, helper = run_again(form, item, replies, monkeypatch)
        assert {row.test: row.error for row in rows if row.error} == {}
        expected = list_recorded_verdicts(item, from_explanation)
        assert {row.test: row.verdict for row in rows} == expected, item.locate()
        verdicts += len(expected)
        # of edits that change nothing the released code records none, and ours are drawn by another
        # generator
        own_edits = {
            reply.given
            for row in rows
            if row.test == "counterfactual_edits" and not edited
            for reply in row.exchanges
            if reply.kind == "answer" and reply.given != "{}"
        }
        assert len(set(decoder.missing)) == len(own_edits), item.locate()
        assert not any(STEPS in prompt for prompt in decoder.missing)
        assert len(helper.missing) == 2
    assert verdicts == {"comve": 700, "esnli": 600}[form] / step


def test_a_changed_reply_changes_a_verdict(recorded, monkeypatch):
    # the replay would not notice a verdict that does not depend on the replies
    form, items = recorded
    item = items[0]
    replies = collect_replies(item)
    filled = next(prompt for prompt in replies.labels if "____" in prompt)
    replies.labels[filled] = "A" if replies.labels[filled] != "A" else "B"
    rows, _, _ = run_again(form, item, replies, monkeypatch)
    verdicts = {row.test: row.verdict for row in rows}
    assert verdicts["filler_tokens"] == 1 - int(item.fields["lanham_filler"])


def test_the_prompts_that_cc_shap_explains_have_the_recorded_tokens(recorded):
    form, items = recorded
    template = build_published_template(FAMILY)
    for item in items:
        question = build_question(item, form, "A")
        answer = {"answer": item.fields["model_prediction"]}
        for field, (kind, texts) in {
            "shap_plot_info_post_hoc": ("post-hoc", answer),
            "shap_plot_info_cot": ("cot-attributed", {}),
        }.items():
            tokens = {
                "input_tokens": render_prompt(
                    "answer-attributed", question, template
                ).text,
                "expl_input_tokens": render_prompt(
                    kind, question, template, texts
                ).text,
            }
            for name, prompt in tokens.items():
                spelt = "".join(token.strip() for token in item.fields[field][name])
                assert spelt == "".join(prompt.split()), item.locate(field)


# Items and their order


def select_published(source, form, files, dataset):
    rows, _ = read_source(source, files, dataset)
    rows = list(map(to_row, rows))
    return rows, select_questions(
        rows, dataset, {"form": "choice", "size": None}, PUBLISHED, None, 1
    ).questions


def check_gold_and_suggestions(questions, items):
    assert [question.gold for question in questions] == [
        (item.fields["correct_answer"],) for item in items
    ]
    suggestions = [collect_replies(item).suggestion for item in items]
    assert sum(suggestion is not None for suggestion in suggestions) > 80
    for question, item, suggestion in zip(questions, items, suggestions, strict=True):
        if suggestion is not None:
            wrong = item.fields["model_prediction_cot"] == question.wrong
            assert suggestion == (question.gold[0] if wrong else question.wrong)


def test_the_items_of_comve_are_the_recorded_ones_in_their_order(shared_data, recorded):
    form, items = recorded
    if form != "comve" or not (shared_data / "comve").is_dir():
        pytest.skip("of ComVE, whose data are not here: set WALTZ_DATA")
    folder = shared_data / "comve"
    files = {
        "sentences": str(folder / "subtaskA_test_data.csv"),
        "answers": str(folder / "subtaskA_gold_answers.csv"),
    }
    rows, questions = select_published("comve", form, files, "comve")
    template = build_published_template(FAMILY)
    assert [
        render_question(question, template.prompt_file)[0] for question in questions
    ] == [item.fields["input"] for item in items]
    check_gold_and_suggestions(questions, items)
    # the release takes one pair for all items, the recorded run each item's own
    # (docs/explanation/replay.md)
    shared = select_shared_pair(rows, {"form": "choice"}, None)
    assert shared not in {
        (question.fields["first"], question.fields["second"]) for question in questions
    }


def test_the_items_of_e_snli_are_the_recorded_ones_up_to_spaces(shared_data, recorded):
    form, items = recorded
    path = shared_data / "esnli/esnli_test_rebuilt.csv"
    if form != "esnli" or not path.is_file():
        pytest.skip("of e-SNLI, whose data are not here: set WALTZ_DATA")
    _, questions = select_published("e-snli", form, {"test": str(path)}, "e-snli")
    template = build_published_template(FAMILY)
    words = [
        render_question(question, template.prompt_file)[0] for question in questions
    ]
    check_gold_and_suggestions(questions, items)
    different = [
        number
        for number, (ours, item) in enumerate(zip(words, items, strict=True))
        if "".join(ours.split()) != "".join(item.fields["input"].split())
    ]
    assert len(different) == 1
