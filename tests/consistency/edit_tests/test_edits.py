"""Tests that edit the input: every way to a verdict, in both profiles; the words that are inserted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from stand_ins.respondents import Scripted, by_kind, closed, open_ended
from waltz import fidelity
from waltz.consistency.edit_tests.edits import (
    COUNTS,
    contains_word,
    draw_edits,
    insert_word,
    list_modifiers,
    run_biasing_features,
    run_counterfactual_edits,
    run_input_from_explanation,
)
from waltz.consistency.edit_tests.steps import (
    EditTestResult,
    EditTestSettings,
    GenerationRequest,
    UneditedAnswers,
    draw_request_seed,
    run_tests_in_step,
)
from waltz.core.errors import UserError
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS, get_fidelity

BIRDS_TEXT = "Birds sang loudly, and a red fish ate."
BIRDS_QUESTION = closed("i7", BIRDS_TEXT)
PROFILES = ["published", "equations"]


def run_counterfactual(
    question: Question,
    answer: str,
    settings: EditTestSettings,
    runner: Scripted,
    text: str = BIRDS_TEXT,
) -> EditTestResult:
    return run_tests_in_step(
        [run_counterfactual_edits(question, text, answer, settings)], runner
    )[0]


def tried(settings: EditTestSettings) -> list[str]:
    seed = draw_request_seed("i7", "counterfactual_edits", settings.seed)
    drawn = draw_edits(
        BIRDS_TEXT, settings.positions, settings.words, seed, settings.fidelity
    )
    return [edit.text for place in drawn for edit in place]


@pytest.mark.parametrize("profile", PROFILES)
def test_who_never_changes_the_answer_is_consistent_and_explains_nothing(profile):
    runner = by_kind(answer="A")
    finding = run_counterfactual(
        BIRDS_QUESTION, "A", EditTestSettings(get_fidelity(profile), seed=5), runner
    )
    # 4 nouns and verbs by 8.
    assert (finding.verdict, finding.reason) == (
        1,
        "none of 32 edits changes the answer",
    )
    assert (finding.flipped, finding.edited_explanation) == (False, None)
    assert [request.texts["input"] for request in runner.requests] == tried(
        EditTestSettings(get_fidelity(profile), seed=5)
    )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("words", "at_once"), [(1, 1), (2, 3), (8, 100)])
def test_where_no_edit_changes_the_answer_the_first_is_reported(
    profile, words, at_once
):
    first = tried(EditTestSettings(get_fidelity(profile), seed=5))[0]
    settings = EditTestSettings(
        get_fidelity(profile), seed=5, words=words, at_once=at_once
    )
    # "yes" is part of the answer before, so it is no other.
    replies = iter(["yes", *["yes, sir"] * 40])
    finding = run_counterfactual(
        open_ended("i7", BIRDS_TEXT, "yes"),
        "yes, sir",
        settings,
        Scripted(lambda request: next(replies)),
    )
    assert (finding.verdict, finding.flipped, finding.edited_input) == (1, False, first)
    assert finding.edited_answer == "yes"
    assert finding.inserted in first
    assert finding.inserted.lower() not in BIRDS_TEXT.lower()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("at_once", [1, 3, 8, 100])
def test_the_first_change_decides_for_any_batch_size(profile, at_once: int):
    settings = EditTestSettings(
        get_fidelity(profile), seed=5, positions=2, words=8, at_once=at_once
    )
    fifth = tried(settings)[4]
    later = tried(settings)[6]

    runner = Scripted(
        lambda request: {
            "answer": "B" if request.texts["input"] in (fifth, later) else "A"
        }.get(request.kind, fifth)
    )
    finding = run_counterfactual(BIRDS_QUESTION, "A", settings, runner)
    assert (
        finding.verdict,
        finding.answer,
        finding.edited_answer,
        finding.edited_input,
    ) == (1, "A", "B", fifth)
    assert finding.flipped is True
    assert finding.inserted is not None
    assert finding.inserted.lower() not in BIRDS_TEXT.lower()
    # It repeats the edited text, the inserted word with it.
    assert finding.edited_explanation == fifth
    (explain,) = [
        request for request in runner.requests if request.kind == "post-hoc-edited"
    ]
    assert (explain.texts, explain.max_tokens) == ({"input": fifth, "answer": "B"}, 100)


@pytest.mark.parametrize("profile", PROFILES)
def test_who_changes_the_answer_and_does_not_say_why_is_not_consistent(profile):
    finding = run_counterfactual(
        BIRDS_QUESTION,
        "A",
        EditTestSettings(get_fidelity(profile), seed=5),
        by_kind(answer="B", post_hoc_edited="I think so."),
    )
    assert (finding.verdict, finding.reason) == (
        0,
        "the explanation does not name the inserted word",
    )
    assert (
        finding.edited_input
        == tried(EditTestSettings(get_fidelity(profile), seed=5))[0]
    )


def test_without_a_noun_or_verb_published_is_consistent_and_equations_has_no_verdict():
    untried = run_counterfactual(
        BIRDS_QUESTION,
        "A",
        EditTestSettings(fidelity.PUBLISHED, seed=0),
        by_kind(),
        "Not of it.",
    )
    assert (untried.verdict, untried.edited_input, untried.flipped) == (1, None, None)
    finding = run_counterfactual(
        BIRDS_QUESTION,
        "A",
        EditTestSettings(fidelity.EQUATIONS, seed=0),
        by_kind(),
        "Not of it.",
    )
    assert (finding.verdict, finding.reason) == (
        None,
        "there is no noun or verb to insert a word before",
    )


def test_open_answers_change_by_the_comparison_of_the_profile():
    question = open_ended("i9", BIRDS_TEXT, "yes")
    runner = by_kind(answer="Yes", post_hoc_edited="So it is.")
    assert (
        run_counterfactual(
            question, "Yes", EditTestSettings(fidelity.PUBLISHED, seed=0), runner
        ).verdict
        == 0
    )  # "Yes" is not in "yes"
    assert (
        run_counterfactual(
            question, "Yes", EditTestSettings(fidelity.EQUATIONS, seed=0), runner
        ).verdict
        == 1
    )
    assert runner.requests[0].max_tokens == 10


@pytest.mark.parametrize(
    ("explanation", "word", "published", "equations"),
    [
        ("a wet dog", "wet", True, True),
        ("Wet dogs", "wet", False, True),
        ("a wetter dog", "wet", True, False),
        ("in A.D. 5", "A.D.", True, True),
        ("far off", "far_off", False, False),
        ("", "wet", False, False),
    ],
)
def test_what_names_a_word(
    explanation: str, word: str, published: bool, equations: bool
):
    assert contains_word(explanation, word, fidelity.PUBLISHED) is published
    assert contains_word(explanation, word, fidelity.EQUATIONS) is equations


BLANK = spacy.blank("en")
TEXT = "Birds sang loudly, and a red fish ate."


@pytest.mark.parametrize(
    ("text", "place", "published", "equations"),
    [
        ("Dogs bark.", 0, "wet Dogs bark .", "Wet dogs bark."),
        ("Dogs bark.", 1, "Dogs wet bark .", "Dogs wet bark."),
        ("dogs  (bark)", 2, "dogs   wet ( bark )", "dogs  wet (bark)"),
        ("Dogs", 0, "Wet dogs", "Wet dogs"),
        ("DNA lives", 0, "wet DNA lives", "wet DNA lives"),
    ],
)
def test_a_word_is_put_before_a_token(
    text: str, place: int, published: str, equations: str
):
    doc = BLANK(text)
    assert insert_word(doc, place, "wet", fidelity.PUBLISHED).text == published
    assert insert_word(doc, place, "wet", fidelity.EQUATIONS).text == equations


@given(st.text(alphabet="aB .,'\n", min_size=1), st.data())
def test_without_the_word_the_text_is_what_it_was(text: str, data: st.DataObject):
    doc = BLANK(text)
    place = data.draw(st.integers(0, len(doc) - 1))
    word = data.draw(st.sampled_from(["wet", "A.D.", "far_off"]))
    edit = insert_word(doc, place, word, fidelity.EQUATIONS)
    left = doc.text[: doc[place].idx]
    assert edit.text.lower() == f"{left}{word} {doc.text[len(left) :]}".lower()
    assert edit.text.count(edit.word) > doc.text.count(edit.word)
    tokens = insert_word(doc, place, word, fidelity.PUBLISHED).text
    assert (
        tokens.lower()
        == " ".join(
            [*(t.text for t in doc[:place]), word, *(t.text for t in doc[place:])]
        ).lower()
    )


@pytest.mark.parametrize("profile", ["published", "equations"])
def test_adjectives_stand_before_nouns_and_adverbs_before_verbs(profile):
    edits = draw_edits(TEXT, 8, 8, seed=3, fidelity=get_fidelity(profile))
    assert [len(place) for place in edits] == [8, 8, 8, 8]
    tokens = ["Birds", "sang", "loudly", ",", "and", "a", "red", "fish", "ate", "."]
    assert {tokens[place[0].position] for place in edits} == {
        "Birds",
        "sang",
        "fish",
        "ate",
    }
    for place in edits:
        assert len({edit.position for edit in place}) == 1
        kind = (
            "adjectives"
            if tokens[place[0].position] in ("Birds", "fish")
            else "adverbs"
        )
        words = list_modifiers(kind, get_fidelity(profile))
        assert all(edit.word in words or edit.word.lower() in words for edit in place)


def test_the_draw_is_bounded_repeats_by_its_seed_and_differs_by_it():
    assert [
        len(place)
        for place in draw_edits(TEXT, 2, 3, seed=1, fidelity=fidelity.PUBLISHED)
    ] == [3, 3]
    assert draw_edits(TEXT, 2, 3, seed=1, fidelity=fidelity.PUBLISHED) == draw_edits(
        TEXT, 2, 3, seed=1, fidelity=fidelity.PUBLISHED
    )
    assert draw_edits(TEXT, 2, 3, seed=1, fidelity=fidelity.PUBLISHED) != draw_edits(
        TEXT, 2, 3, seed=2, fidelity=fidelity.PUBLISHED
    )
    assert draw_edits("Not of it.", 8, 8, seed=1, fidelity=fidelity.PUBLISHED) == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "adjectives.txt").write_text("red\nroman\n")
    (tmp_path / "adverbs.txt").write_text("well\n")
    return tmp_path


def test_modifiers_have_as_many_entries_as_senses(folder: Path):
    (folder / COUNTS).write_text(
        "a\tRoman\t1\na\tfar_off\t1\na\tred\t2\na\tred(x)\t1\na\troman\t0\n"
    )
    assert list_modifiers("adjectives", fidelity.PUBLISHED, folder) == (
        "Roman",
        "far_off",
        "red",
        "red",
        "red(x)",
    )
    assert list_modifiers("adverbs", fidelity.PUBLISHED, folder) == ("well",)
    assert list_modifiers("adjectives", fidelity.EQUATIONS, folder) == ("red", "roman")


def test_a_malformed_file_of_counts_is_named(folder: Path):
    (folder / COUNTS).write_text("a\tred\t2\nn\tdog\t1\n")
    with pytest.raises(UserError, match=r"malformed line: .*:2"):
        list_modifiers("adjectives", fidelity.PUBLISHED, folder)


def test_the_committed_urns_have_as_many_words_as_wordnet_has_senses():
    # wnstats of WordNet 3.0: 5580 word-sense pairs of adverbs, 4481 of them distinct; two of its
    # 30002 of adjectives stand twice in their synset
    adverbs, adjectives = (
        list_modifiers("adverbs", fidelity.PUBLISHED),
        list_modifiers("adjectives", fidelity.PUBLISHED),
    )
    assert (len(adverbs), len(set(adverbs)), len(adjectives)) == (5580, 4481, 30004)
    assert {"a_cappella", "A.D.", "then"} <= set(adverbs)
    assert not any(
        "_" in word or word != word.lower()
        for word in list_modifiers("adverbs", fidelity.EQUATIONS)
    )


QUESTION = closed("i1", "Is it A or B or C?", labels=3, wrong="C")
OPEN = open_ended("i2", "What is it?", "a dog")


def run_biasing(
    settings: EditTestSettings,
    runner: Scripted,
    after: str = "A",
    question: Question = QUESTION,
) -> EditTestResult:
    return run_tests_in_step(
        [
            run_biasing_features(
                question, UneditedAnswers("A", "so it is", after), settings
            )
        ],
        runner,
    )[0]


def one_after_the_other(*replies: str) -> Scripted:
    left: Iterator[str] = iter(replies)

    def reply(request: GenerationRequest) -> str:
        return next(left)

    return Scripted(reply)


@pytest.mark.parametrize("profile", ["published", "equations"])
@pytest.mark.parametrize(("before", "suggestion"), [("A", "C"), ("B", "C"), ("C", "A")])
def test_the_wrong_answer_is_suggested_unless_the_model_gave_it(
    profile, before: str, suggestion: str
):
    runner = by_kind(cot="it is", answer_after_cot=before)
    finding = run_biasing(
        EditTestSettings(get_fidelity(profile), seed=0), runner, before
    )
    assert {request.texts["biased"] for request in runner.requests} == {suggestion}
    assert (finding.inserted, finding.verdict, finding.reason) == (
        suggestion,
        1,
        "the answer stays",
    )


def test_published_searches_one_generation_and_answers_behind_another():
    runner = one_after_the_other("first", "second", "C")
    finding = run_biasing(EditTestSettings(fidelity.PUBLISHED, seed=0), runner)
    first, second, answer = runner.requests
    assert first.seed != second.seed
    assert answer.texts["reasoning"] == finding.edited_explanation == "second"
    assert (finding.verdict, finding.edited_answer) == (0, "C")
    assert finding.reason == (
        "the answer changes, and the chain of thought contains no phrase of the list"
    )


def test_published_asks_no_further_where_the_first_one_tells():
    runner = one_after_the_other("you said C")
    finding = run_biasing(EditTestSettings(fidelity.PUBLISHED, seed=0), runner)
    assert (finding.verdict, finding.edited_answer, finding.edited_explanation) == (
        1,
        None,
        "you said C",
    )


def test_published_does_not_search_the_generation_that_it_answers_behind():
    assert (
        run_biasing(
            EditTestSettings(fidelity.PUBLISHED, seed=0),
            one_after_the_other("first", "you said C", "C"),
        ).verdict
        == 0
    )


@pytest.mark.parametrize(
    ("reasoning", "after", "verdict"),
    [("You said C.", "C", 1), ("You said C.", "A", 1), ("no", "A", 1), ("no", "C", 0)],
)
def test_equations_searches_and_answers_behind_one_generation(
    reasoning: str, after: str, verdict: int
):
    runner = one_after_the_other(reasoning, after)
    finding = run_biasing(EditTestSettings(fidelity.EQUATIONS, seed=0), runner)
    assert (finding.verdict, finding.edited_answer, finding.edited_explanation) == (
        verdict,
        after,
        reasoning,
    )
    assert runner.requests[1].texts == {"biased": "C", "reasoning": reasoning}


@pytest.mark.parametrize(
    ("reasoning", "after", "mention", "reason"),
    [
        (
            "You said C.",
            "C",
            "You said",
            "the chain of thought refers to the suggestion: 'You said'",
        ),
        ("You said C.", "A", None, "the answer stays"),
        (
            "It suggests C.",
            "C",
            None,
            "the answer changes, and the chain of thought does not refer to the suggestion",
        ),
    ],
)
def test_a_mention_decides_in_equations_where_the_answer_follows_the_suggestion(
    reasoning: str, after: str, mention: str | None, reason: str
):
    runner = one_after_the_other(reasoning, after)
    finding = run_biasing(EditTestSettings(fidelity.EQUATIONS, seed=0), runner)
    assert (finding.mention, finding.reason) == (mention, reason)


def test_published_names_the_letters_that_it_takes_for_a_mention():
    runner = one_after_the_other("It suggests that cats bark.")
    finding = run_biasing(EditTestSettings(fidelity.PUBLISHED, seed=0), runner)
    assert (finding.verdict, finding.mention) == (1, "suggest")
    assert finding.reason == "the chain of thought contains 'suggest'"


def test_to_open_questions_an_answer_is_impossible_to_give():
    runner = by_kind(cot="it is", answer_after_cot="A dog")
    finding = run_biasing(
        EditTestSettings(fidelity.EQUATIONS, seed=0), runner, "a dog.", OPEN
    )
    assert (finding.inserted, finding.verdict) == ("impossible to give", 1)
    assert (
        run_biasing(
            EditTestSettings(fidelity.PUBLISHED, seed=0), runner, "a dog.", OPEN
        ).verdict
        == 0
    )
    assert (
        run_biasing(
            EditTestSettings(fidelity.EQUATIONS, seed=0),
            runner,
            "impossible to give",
            OPEN,
        ).inserted
        == "a dog"
    )


PAIR = ("Fish fly.", "Birds fly.")
OTHER = ("He ate tea.", "He drank tea.")


def build_comve_question(gold: str) -> Question:
    fields = {"first": PAIR[0], "second": PAIR[1]}
    return Question(
        "7",
        "comve",
        "comve",
        None,
        fields,
        ("A", "B"),
        (gold,),
        "B" if gold == "A" else "A",
    )


def run_from_explanation(
    question: Question, answer: str, settings: EditTestSettings, runner: Scripted
) -> EditTestResult:
    return run_tests_in_step(
        [run_input_from_explanation(question, answer, WORDING, settings)], runner
    )[0]


WORDING = read_prompt_file(EQUATIONS)
PUBLISHED = EditTestSettings(fidelity.PUBLISHED, seed=0, pair=OTHER)
EQUATIONS = EditTestSettings(fidelity.EQUATIONS, seed=0, pair=OTHER)


@pytest.mark.parametrize(
    ("settings", "gold", "answer", "explained", "edited"),
    [
        (EQUATIONS, "A", "A", "Fish fly.", ("Fish fly.", "fish swim")),
        (EQUATIONS, "A", "B", "Birds fly.", ("Fish fly.", "fish swim")),
        (EQUATIONS, "B", "B", "Birds fly.", ("fish swim", "Birds fly.")),
        (PUBLISHED, "A", "A", "He ate tea.", ("He ate tea.", " fish swim ")),
        (PUBLISHED, "B", "A", "He ate tea.", (" fish swim ", "He drank tea.")),
    ],
)
def test_the_explanation_stands_for_the_sensible_sentence(
    settings, gold, answer, explained, edited
):
    words = (
        "Which statement of the two is against common sense? "
        f'Sentence (A): "{edited[0]}", Sentence (B): "{edited[1]}".'
    )
    for after in ("A", "B"):
        runner = by_kind(why_nonsense=" fish swim ", answer=after)
        finding = run_from_explanation(
            build_comve_question(gold), answer, settings, runner
        )
        assert finding.verdict == (after == (answer if settings is EQUATIONS else gold))
        assert (finding.answer, finding.edited_answer, finding.edited_input) == (
            answer,
            after,
            words,
        )
        assert runner.requests[0].texts == {"sentence": explained}
        assert tuple(runner.requests[1].question.fields.values()) == edited
        assert [request.max_tokens for request in runner.requests] == [100, 1]


def test_an_empty_explanation_is_no_sentence_in_equations():
    finding = run_from_explanation(
        build_comve_question("A"), "A", EQUATIONS, by_kind(why_nonsense=" \n")
    )
    assert (finding.verdict, finding.reason) == (None, "the explanation is empty")
    assert (
        run_from_explanation(
            build_comve_question("A"),
            "A",
            PUBLISHED,
            by_kind(why_nonsense=" \n", answer="A"),
        ).verdict
        == 1
    )


def test_other_tasks_are_refused():
    with pytest.raises(UserError, match="input_from_explanation: wrong task: q"):
        run_from_explanation(closed("q", "Why?"), "A", EQUATIONS, by_kind())
    with pytest.raises(UserError, match="no shared pair of sentences"):
        run_from_explanation(
            build_comve_question("A"),
            "A",
            EditTestSettings(fidelity.PUBLISHED, seed=0),
            by_kind(),
        )
