"""Questions with labels: which label is chosen, what the rows say, and the metrics that follow."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stand_ins.models.scripted_decoders import scripted
from stand_ins.records import build_items
from waltz.core.errors import UserError
from waltz.core.intervals import Resampling
from waltz.core.records import to_row
from waltz.evaluation.decoder_rows import (
    GenerationSettings,
    build_choice_records,
    choose_best_label,
    compute_softmax,
    count_predictions,
    generate_chains_of_thought,
    score_labels,
)
from waltz.evaluation.metrics.comparisons import COMPARED_METRICS
from waltz.evaluation.metrics.pair_metrics import METRICS
from waltz.evaluation.metrics.summary import (
    build_comparison_records,
    build_metric_records,
)
from waltz.evaluation.prompting.decoder_outputs import DecoderOutput, DecoderSession
from waltz.evaluation.prompting.prompts import (
    build_equations_template,
    build_published_template,
    render_prompt,
)
from waltz.evaluation.prompting.questions import (
    assign_balanced_orders,
    build_pairwise_questions,
    build_single_questions,
    draw_published_orders,
    select_text_questions,
)
from waltz.fidelity import EQUATIONS, PUBLISHED, get_fidelity
from waltz.models.decoders.decoder import Sampling
from waltz.sources.formats import text_tasks

HOW = Resampling(200, 0.95, 0)
PAIR = re.compile(r'\(A\): "(.*?)" or is it \(B\): "(.*?)"')


def open_image(name):
    if name == "none.png":
        raise UserError("none.png is missing")
    return Image.new("RGB", (4, 4))


def session(decoder, **more):
    return DecoderSession(decoder, open_image, **more)


def item(place, caption, foil, image=None):
    known = {"item_id": f"i{place}", "image": image or f"m{place}.png"}
    (record,) = build_items([{**known, "caption": caption, "foil": foil}])
    return record


ITEMS = [item(place, f"caption {place}", f"foil {place}") for place in range(4)]
LIKED = {
    "caption 0": 2.0,
    "foil 0": 1.0,
    "caption 1": 1.0,
    "foil 1": -1.0,
    "caption 2": -2.0,
    "foil 2": 3.0,
} | {
    "caption 3": -1.0,
    "foil 3": -4.0,
}
"""Log-odds that a text describes its image; the pairwise answer goes by them too."""


def knows(text):
    """Labels of a decoder that likes texts as `LIKED` says."""
    pair = PAIR.search(text)
    if pair:
        return {"A": LIKED[pair[1]], "B": LIKED[pair[2]]}
    caption = re.search(r'image: "(.*?)"', text)
    return {"A": LIKED[caption[1]] + 1, "B": 1.0} if caption else {}


def voice_of(profile, decoder):
    return (
        build_equations_template(decoder.render_chat)
        if profile == "equations"
        else build_published_template("llava-vicuna")
    )


def rows_of(decoder, profile, items=ITEMS, orders=None):
    template = voice_of(profile, decoder)
    orders = (
        assign_balanced_orders([one.item_id for one in items], 0)
        if orders is None
        else orders
    )
    rows = []
    for questions in (
        build_pairwise_questions(items, "d", orders),
        build_single_questions(items, "d"),
    ):
        rows += build_choice_records(
            questions,
            score_labels(session(decoder), questions, template),
            get_fidelity(profile),
        )
    return rows


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_metrics_of_a_decoder_worked_by_hand(profile):
    rows = rows_of(scripted(knows), profile)
    assert [row.setting for row in rows] == ["pairwise"] * 4 + ["single"] * 8
    metrics = {
        (row.setting, row.metric): row.measure.value
        for row in build_metric_records({("m", "d"): rows}, [profile], HOW)
    }
    assert metrics["pairwise", "acc_r"] == 75  # all but item 2
    assert metrics["single", "p_c"] == 50  # captions 0 and 1
    assert metrics["single", "p_f"] == 50  # foils 1 and 3
    assert metrics["single", "acc"] == metrics["single", "min_pc_pf"] == 50
    # captions 2, 1, -2, -1 beat foils 1, -1, 3, -4 in 3 + 2 (and a tie with foil 0) + 1 + 1 (and a
    # tie) of 16 pairs
    assert metrics["single", "auroc"] == pytest.approx(100 * (3 + 2.5 + 1 + 1.5) / 16)
    assert metrics["single", "acc_r"] == 75
    choices = {("pairwise", "acc_r"), ("pairwise", "acc_r_paper")}
    assert set(metrics) == choices | {("single", metric) for metric in METRICS}


def test_rows_say_margin_probability_order_and_verdict():
    rows = rows_of(
        scripted(knows),
        "equations",
        orders={"i0": True, "i1": False, "i2": True, "i3": False},
    )
    assert [row.order for row in rows[:4]] == ["caption-first", "foil-first"] * 2
    assert [row.score for row in rows[:4]] == pytest.approx([1, 2, -5, 3])
    assert [row.prediction for row in rows[:4]] == [
        "caption",
        "caption",
        "foil",
        "caption",
    ]
    assert [row.correct for row in rows[:4]] == [True, True, False, True]
    assert rows[1].probability == pytest.approx(compute_softmax([2, 0])[0])
    caption, foil = rows[4:6]
    assert (
        caption.role,
        caption.score,
        caption.prediction,
        caption.correct,
    ) == (
        "caption",
        pytest.approx(2),
        "match",
        True,
    )
    assert (foil.role, foil.prediction, foil.correct, foil.order) == (
        "foil",
        "match",
        False,
        None,
    )
    assert count_predictions(rows) == {
        "orders": {"equations, caption-first": 2, "equations, foil-first": 2},
        "ties": 0,
        "unscored": 0,
        "errors": {},
    }


@given(
    st.sets(st.text("abcd", min_size=1, max_size=4), min_size=1, max_size=12),
    st.integers(0, 9),
)
def test_a_decoder_that_always_says_a_is_right_half_of_the_time(ids, seed):
    items = [replace(item(0, "caption", "foil"), item_id=one) for one in sorted(ids)]
    decoder = scripted(lambda text: {"A": 3.0})
    rows = rows_of(
        decoder, "equations", items, assign_balanced_orders(sorted(ids), seed)
    )
    right = [row.correct for row in rows if row.setting == "pairwise"]
    assert abs(2 * sum(right) - len(right)) <= 1
    single = [row.correct for row in rows if row.setting == "single"]
    assert single == [True, False] * len(items)


def test_published_rows_record_the_order_of_random_choice():
    random.seed(42)
    expected = [
        "caption-first" if random.choice([0, 1]) == 0 else "foil-first"
        for _ in range(30)
    ]
    items = [item(place, "caption 0", "foil 0") for place in range(30)]
    orders = draw_published_orders(items)
    rows = rows_of(scripted(knows), "published", items, orders)[:30]
    assert [row.order for row in rows] == expected
    assert len({row.prediction for row in rows}) == 1


def test_equal_labels_are_a_tie_or_the_first():
    assert choose_best_label(["caption", "foil"], [1.0, 1.0], EQUATIONS) == "tie"
    assert choose_best_label(["foil", "caption"], [1.0, 1.0], PUBLISHED) == "foil"
    decoder = scripted(lambda text: {})
    for profile, orders in (
        ("equations", ["tie"] * 4),
        ("published", ["caption", "foil"] * 2),
    ):
        rows = rows_of(
            decoder, profile, orders={f"i{place}": place % 2 == 0 for place in range(4)}
        )
        assert [row.prediction for row in rows[:4]] == orders
        assert {row.prediction for row in rows[4:]} == (
            {"tie"} if profile == "equations" else {"match"}
        )
    assert compute_softmax([1000.0, 1000.0]) == [0.5, 0.5]


def test_what_cannot_be_read_has_a_row_with_an_error():
    long = item(4, "long " * 400, "foil 0")
    unseen = item(5, "caption 0", "foil 0", "none.png")
    rows = rows_of(
        scripted(knows, window=1500),
        "equations",
        [ITEMS[0], long, unseen],
        {"i0": True, "i4": True} | {"i5": True},
    )
    by_key = {(row.item_id, row.role, row.setting): row for row in rows}
    assert "1 to 1500 are read" in by_key["i4", "caption", "pairwise"].error
    assert "1 to 1500 are read" in by_key["i4", "caption", "single"].error
    assert by_key["i5", "caption", "pairwise"].error == "none.png is missing"
    assert by_key["i5", "foil", "single"].error == "none.png is missing"
    for row in rows:
        assert (row.score is None) == (row.correct is None) == (row.error is not None)
    assert count_predictions(rows)["errors"]["none.png is missing"] == 3
    pairwise = [
        row
        for row in build_metric_records({("m", "d"): rows}, ["equations"], HOW)
        if row.setting == "pairwise"
    ]
    assert [(row.metric, row.measure.value, row.measure.n) for row in pairwise] == [
        ("acc_r", 100, 1),
        ("acc_r_paper", 100, 1),
    ]


def test_labels_that_begin_alike_are_refused():
    decoder = scripted(knows, start=False)
    (question,) = build_pairwise_questions(ITEMS[:1], "d", {"i0": True})
    object.__setattr__(decoder, "find_label_id", lambda prompt, label: 7)
    (output,) = score_labels(
        session(decoder), [question], build_equations_template(decoder.render_chat)
    )
    assert output.scores is None
    assert "A, B two begin with the same token" in output.error


def test_a_decoders_single_answers_are_compared_with_an_encoders_judgments():
    rows = rows_of(scripted(knows), "equations")
    encoder = [
        replace(row, setting="alignment") for row in rows if row.setting == "single"
    ]
    comparisons = build_comparison_records(
        {("decoder", "d"): rows, ("encoder", "d"): encoder}, ["equations"], HOW
    )
    assert {
        row.metric: (row.difference, row.n) for row in comparisons
    } == dict.fromkeys(COMPARED_METRICS, (0, 4))


def test_pairwise_answers_of_two_decoders_are_compared_item_by_item():
    rows = rows_of(scripted(knows), "equations")
    wrong = [replace(row, correct=row.correct != (row.item_id == "i0")) for row in rows]
    silent = [
        replace(row, correct=None) if row.item_id == "i1" else row for row in wrong
    ]
    comparisons = build_comparison_records(
        {("a", "d"): rows, ("b", "d"): silent}, ["equations"], HOW
    )
    (row,) = [row for row in comparisons if row.setting == "pairwise"]
    before = {one.item_id: one.correct for one in rows if one.setting == "pairwise"}
    assert (row.metric, row.n) == ("acc_r", len(before) - 1)
    assert row.difference == pytest.approx((100 if before["i0"] else -100) / row.n)
    assert row.p == row.p_holm > 0.1
    assert {row.setting for row in comparisons} == {"single", "pairwise"}


def test_pairwise_answers_are_averaged_over_data_sets():
    rows = rows_of(scripted(knows), "equations")
    better = rows_of(scripted(knows), "equations", ITEMS[:2])
    metrics = build_metric_records(
        {("m", "d"): rows, ("m", "e"): better}, ["equations"], HOW, averaged=["d", "e"]
    )
    values = {
        (row.setting, row.metric): row.measure.value
        for row in metrics
        if row.dataset == "average"
    }
    assert values["pairwise", "acc_r"] == (75 + 100) / 2
    assert values["single", "p_f"] == (50 + 50) / 2


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_text_questions_before_and_after_a_chain_of_thought(profile):
    common = {
        "source": "s",
        "task": "esnli",
        "rejected": None,
        "text": None,
        "choices": ["yes", "no", "maybe"],
    }
    source = [
        {
            **common,
            "source_id": str(place),
            "gold": place % 3,
            "premise": f"Premise {place}.",
            "hypothesis": "So.",
        }
        for place in range(6)
    ]
    questions = select_text_questions(
        source, "e-snli", get_fidelity(profile), 6, 0
    ).questions
    gold = {one.fields["premise"]: one.gold[0] for one in questions}

    def script(text):
        """Right at once about all but premise 1; after a chain of thought that doubts, always B."""
        if "doubt it" in text:
            return {"B": 1.0}
        return next(
            {"C" if words == "Premise 1." else right: 2.0}
            for words, right in gold.items()
            if words in text
        )

    decoder = scripted(
        script, says=lambda prompt, seed: " I doubt it.", reads_images=False
    )
    template = (
        build_equations_template(decoder.render_chat)
        if profile == "equations"
        else build_published_template("llama2-chat")
    )
    rows = build_choice_records(
        questions,
        score_labels(session(decoder), questions, template),
        get_fidelity(profile),
    )
    thoughts = generate_chains_of_thought(
        session(decoder), questions, template, GenerationSettings(0, cot_tokens=100)
    )
    assert thoughts == [" I doubt it."] * 6
    rows += build_choice_records(
        questions,
        score_labels(session(decoder), questions, template, thoughts),
        get_fidelity(profile),
        thoughts,
    )
    assert {row.image for row in rows} == {None}
    assert rows[0].probability == pytest.approx(compute_softmax([2.0, 0.0, 0.0])[0])
    metrics = {
        row.setting: row
        for row in build_metric_records({("m", "e-snli"): rows}, [profile], HOW)
    }
    assert metrics["choice"].measure.value == pytest.approx(100 * 5 / 6)
    assert metrics["choice-after-cot"].measure.value == pytest.approx(100 * 2 / 6)
    # Not one cluster.
    assert (
        metrics["choice"].measure.ci_low
        < metrics["choice"].measure.value
        < metrics["choice"].measure.ci_high
    )
    assert rows[6].reasoning == " I doubt it."


def test_each_item_draws_from_its_own_seed():
    seeds = {}

    def says(prompt, seed):
        seeds[re.search(r"Premise \d", prompt)[0]] = seed
        return "x"

    common = {
        "source": "s",
        "task": "esnli",
        "rejected": None,
        "text": None,
        "choices": ["yes", "no", "maybe"],
    }
    source = [
        {
            **common,
            "source_id": str(place),
            "gold": 0,
            "premise": f"Premise {place}.",
            "hypothesis": "So.",
        }
        for place in range(4)
    ]
    selected_questions = select_text_questions(
        source, "e-snli", EQUATIONS, None, 0
    ).questions
    decoder = scripted(lambda text: {}, says=says)
    template = build_equations_template(decoder.render_chat)

    def think(questions, seed):
        generate_chains_of_thought(
            session(decoder),
            questions,
            template,
            GenerationSettings(seed, Sampling(), 5),
        )

    think(selected_questions, seed=1)
    together = dict(seeds)
    think(selected_questions[2:3], seed=1)
    assert seeds == together
    assert len(set(together.values())) == 4
    think(selected_questions, seed=2)
    assert not set(seeds.values()) & set(together.values())


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_who_knows_the_answers_to_real_items_is_right(shared_data, profile):
    folder = shared_data / "comve"
    comves = map(
        to_row,
        text_tasks.read_comve(
            folder / "subtaskA_test_data.csv",
            folder / "subtaskA_gold_answers.csv",
            "comve",
            "test",
        ),
    )
    read = {
        "comve": list(comves),
        "esnli": list(
            map(
                to_row,
                text_tasks.read_esnli(
                    shared_data / "esnli" / "esnli_test_rebuilt.csv", "esnli", "test"
                ),
            )
        ),
    }
    for task in (
        "causal_judgement",
        "disambiguation_qa",
        "logical_deduction_five_objects",
    ):
        read[task] = list(
            map(
                to_row,
                text_tasks.read_bbh_examples(
                    shared_data / "bbh" / f"{task}.json", task, "bbh", None
                ),
            )
        )
    for name, source in read.items():
        questions = select_text_questions(
            source, name, get_fidelity(profile), 10, 0
        ).questions
        known = {one.item_id: one for one in questions}
        decoder = scripted(lambda text: {}, window=9000)
        template = (
            build_equations_template(decoder.render_chat)
            if profile == "equations"
            else build_published_template("mistral-chat")
        )
        golds = {
            render_prompt("answer", one, template).text: one.gold[0]
            for one in questions
        }
        decoder.network.script = lambda text, golds=golds: {golds[text]: 1.0}
        rows = build_choice_records(
            questions,
            score_labels(session(decoder), questions, template),
            get_fidelity(profile),
        )
        assert len(rows) == len(known)
        assert all(
            row.correct and row.prediction == known[row.item_id].gold[0] for row in rows
        )


def test_a_reply_without_numbers_makes_an_error_row():
    (question,) = build_pairwise_questions(ITEMS[:1], "d", {"i0": True})
    (row,) = build_choice_records(
        [question], [DecoderOutput(None, None, 5, "too long")], EQUATIONS
    )
    assert (row.score, row.correct, row.tokens, row.error) == (
        None,
        None,
        5,
        "too long",
    )
