"""CC-SHAP of items: rows and contributions, what is found again, and contributions before and after
edits.
"""

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image

from stand_ins.models import scripted_decoders, tiny_decoders
from waltz.attribution.stored_rows import set_item_seed
from waltz.consistency.cc_shap.dialogue import Dialogue, generate_pairs
from waltz.consistency.cc_shap.measure import compute_cc_shap
from waltz.consistency.cc_shap.pair_attribution import attribute_pairs
from waltz.consistency.cc_shap.rows import (
    CCShapRun,
    CCShapSettings,
    build_setup,
    compute_cc_shap_records,
    compute_edit_records,
    count_values,
    explain_datasets,
    explain_edits,
    load_or_attribute_item,
)
from waltz.consistency.edit_claim import judge_claim
from waltz.core.errors import UserError
from waltz.core.files import parquet
from waltz.core.files.group_files import DatasetFiles
from waltz.core.intervals import Resampling
from waltz.core.records import to_row
from waltz.core.schema import (
    ATTRIBUTION,
    BENCHMARK,
    CC_SHAP,
    CONSISTENCY,
    EDITED,
    CcShapRecord,
    ConsistencyRecord,
    EditedRecord,
)
from waltz.evaluation.prompting.prompt_files import read_prompt_file
from waltz.evaluation.prompting.prompts import (
    build_equations_template,
    build_published_template,
)
from waltz.evaluation.prompting.questions import Question
from waltz.fidelity import EQUATIONS, Profile, get_fidelity

torch.set_num_threads(1)

ATTRIBUTE_PAIRS = "waltz.consistency.cc_shap.rows.attribute_pairs"
SHORT = """
forms:
  comve: {text: "A {first} B {second} ?"}
  pairwise: {text: "A: {first} B: {second} ?"}
turns:
  choice:
    answer: [{user: "{input} answer ("}]
    post-hoc: [{user: "{input} answer ( {answer} ) because"}]
    cot: [{user: "{input} what is this ?"}]
"""
TEXT = Question(
    "own:1",
    "own",
    "comve",
    None,
    {"first": "a dog", "second": "two cars"},
    ("A", "B"),
    ("A",),
    "B",
)
PAIR = Question(
    "own:2",
    "own",
    "pairwise",
    "0.png",
    {"first": "a man", "second": "a cat"},
    ("A", "B"),
    ("A",),
    "B",
)


def chat(turns):
    return " ".join(("<image> " if turn.image else "") + turn.text for turn in turns)


def photo(name="0.png"):
    return Image.fromarray(
        np.random.default_rng(3).integers(0, 256, (40, 61, 3), dtype=np.uint8)
    )


@pytest.fixture(scope="module")
def prompt_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("prompts") / "short.yaml"
    file.write_text(SHORT)
    return read_prompt_file(EQUATIONS, file)


@pytest.fixture(scope="module")
def decoders():
    return {"comve": tiny_decoders.causal("llama"), "pairwise": tiny_decoders.llava()}


@pytest.fixture
def how_of(prompt_file, decoders, tmp_path):
    def how(
        question,
        profile: Profile,
        permutations=2,
        seed=3,
        folder=tmp_path / "cache.sqlite",
        **given,
    ):
        families = {"comve": "gpt2", "pairwise": "bakllava"}
        template = (
            build_equations_template(chat, prompt_file)
            if profile == "equations"
            else build_published_template(families[question.form])
        )
        study = CCShapSettings(permutations=permutations, **given)
        setup = build_setup(
            decoders[question.form], template, seed, study, {"explanation": 3}, folder
        )
        return dataclasses.replace(
            setup, settings=dataclasses.replace(setup.settings, partition_rows=40)
        )

    return how


def set_seed(how, question):
    """The setup with the seed that the stage gives to the item."""
    settings = set_item_seed(how.settings, question.dataset, question.item_id)
    return dataclasses.replace(how, settings=settings)


def rows_of(how, *questions, load=photo):
    done: list[int] = []
    rows, contributions = compute_cc_shap_records(how, questions, load, done.append)
    assert sum(done) == len(questions)
    parquet.check(parquet.build_table(list(map(to_row, rows)), CC_SHAP), CC_SHAP)
    parquet.check(
        parquet.build_table(list(map(to_row, contributions)), ATTRIBUTION), ATTRIBUTION
    )
    return rows, contributions


@pytest.mark.parametrize("profile", ["equations", "published"])
@pytest.mark.parametrize("question", [TEXT, PAIR], ids=["text", "image"])
def test_rows_and_contributions_of_both_kinds(how_of, question, profile):
    how = how_of(question, profile)
    rows, contributions = rows_of(how, question)
    assert [row.kind for row in rows] == ["post-hoc", "cot"]
    assert [row.setting for row in contributions] == [
        f"{k}:{s}" for k in ("post-hoc", "cot") for s in ("answer", "explanation")
    ]
    stored = load_or_attribute_item(set_seed(how, question), question, photo)
    for row in rows:
        assert row.error is None
        one = stored.pairs[row.kind]
        sides = one.answer.estimate, one.explanation.estimate
        # The stored attribution, text first, gives the numbers that were computed in the order of
        # play.
        again = compute_cc_shap(*sides, get_fidelity(profile))
        assert row.value == pytest.approx(again.value)
        assert -1 <= row.value <= 1
        np.testing.assert_allclose(row.ratios_answer, again.ratios_answer)
        np.testing.assert_allclose(row.ratios_explanation, again.ratios_explanation)
        assert len(one.answer.identities) == len(again.ratios_answer)
        assert row.answer in ("A", "B")
        assert (row.t_shap_answer is None) == (question is TEXT)
    for row in contributions:
        words = len(row.tokens)
        phi = np.array(row.phi)
        assert phi.shape == (words + row.grid**2, len(row.outputs))
        assert (
            np.abs(phi.sum(axis=0) - (np.array(row.value) - row.base_value)).max()
            < 1e-4
        )
        shown = [row.text[span.start : span.end] for span in row.spans]
        if profile == "equations":
            assert shown == row.tokens
            assert "because" not in shown  # a tail plays no part
    if question is PAIR:
        for row, side in ((rows[0], "answer"), (rows[1], "explanation")):
            phi = np.array(
                next(
                    one for one in contributions if one.setting == f"{row.kind}:{side}"
                ).phi
            )
            if profile == "published":
                words = len(phi) - contributions[0].grid ** 2
                assert getattr(row, f"t_shap_{side}") == pytest.approx(
                    np.abs(phi[:words]).sum() / np.abs(phi).sum()
                )
    assert contributions[0].evaluated > 0


@pytest.mark.parametrize("profile", ["equations", "published"])
def test_shared_players_are_stored_by_token_and_by_row_and_column(
    how_of, decoders, profile
):
    stored = load_or_attribute_item(how_of(PAIR, profile), PAIR, photo)
    for side in ("answer", "explanation"):
        output = getattr(stored.pairs["post-hoc"], side)
        columns, shared = output.record, list(output.shared)
        words, grid = len(columns.tokens), stored.grid
        text = [player for player in shared if player < words]
        tokenizer = decoders["pairwise"].processor.tokenizer
        names = tokenizer.convert_ids_to_tokens(list(output.identities[: len(text)]))
        assert names == [columns.tokens[player] for player in text]
        assert list(output.identities[len(text) :]) == [
            (row, column) for row in range(grid) for column in range(grid)
        ]
        assert shared[len(text) :] == list(range(words, words + grid**2))
        assert grid == columns.grid > 1


def test_the_explanation_follows_the_answer_that_was_chosen(how_of, decoders):
    how = how_of(TEXT, "equations")
    pairs = generate_pairs(how.dialogue, TEXT, None)
    answer, explanation = pairs.pairs["post-hoc"]
    assert answer.text.endswith("answer (")
    assert explanation.text.endswith(f"answer ( {pairs.answer} ) because")
    assert decoders["comve"].decode_text(answer.targets) == pairs.answer
    assert explanation.query_suffix == f" answer ( {pairs.answer} ) because"
    assert len(explanation.targets) <= 3
    edited = generate_pairs(
        how.dialogue, TEXT, None, ("post-hoc",), "A the dog B cars ?"
    )
    assert edited.pairs["post-hoc"][0].text == "A the dog B cars ? answer ("


def test_an_open_answer_is_repeated_as_it_was_generated_and_drawn_with_seeds_of_its_item_and_kind():
    seeds = {}

    def say(prompt, seed):
        seeds.setdefault(seed, []).append(prompt)
        return " a  dog " if len(seeds) == 1 else " because"

    question = Question(
        "own:3",
        "own",
        "open",
        "0.png",
        {"question": "What is it?"},
        (),
        ("dog",),
        "cat",
    )
    for of_study, answer in ((True, " a  dog "), (False, "a  dog")):
        seeds.clear()
        decoder = scripted_decoders.scripted(lambda text: {}, says=say)
        dialogue = Dialogue(
            decoder, build_equations_template(decoder.render_chat), 3, of_study=of_study
        )
        generated = generate_pairs(dialogue, question, decoder.prepare_image(photo()))
        assert generated.answer == answer
        answer_game, explanation_game = generated.pairs["post-hoc"]
        # All tokens are explained.
        assert decoder.decode_text(answer_game.targets) == " a  dog "
        assert answer in explanation_game.text
        # the answer, an explanation after it and a chain of thought have a seed each; a single
        # question has one
        assert len(seeds) == (3 if of_study else 1)
        assert of_study or set(seeds) == {3}
    drawn = {
        dataclasses.replace(dialogue, of_study=True, seed=seed).draw_seed(
            dataclasses.replace(question, item_id=item), kind
        )
        for seed in (3, 4)
        for item in ("own:3", "own:4")
        for kind in ("answer", "post-hoc")
    }
    assert len(drawn) == 8
    assert all(0 <= seed < 2**63 for seed in drawn)


def test_cached_items_are_used_again_and_seeds_are_separate(how_of, monkeypatch):
    how = how_of(TEXT, "equations", 1)
    rows, contributions = rows_of(how, TEXT)
    other = how_of(TEXT, "equations", 1, seed=4)
    assert rows_of(other, TEXT)[0][0].value != rows[0].value

    def refuse(*_, **__):
        raise AssertionError("computed again")

    monkeypatch.setattr(ATTRIBUTE_PAIRS, refuse)
    assert rows_of(how, TEXT) == (rows, contributions)
    for changed in (
        how_of(TEXT, "equations", 2),
        how_of(TEXT, "equations", 1, value="log-probability"),
    ):
        with pytest.raises(AssertionError, match="computed again"):
            rows_of(changed, TEXT)


def test_what_cannot_be_explained_says_so_and_takes_nothing_else_with_it(
    how_of, monkeypatch
):
    def missing(name):
        raise UserError(f"image {name!r}: is missing")

    rows, contributions = rows_of(how_of(PAIR, "equations"), PAIR, load=missing)
    assert [row.error for row in rows] == ["image '0.png': is missing"] * 2
    assert [row.error for row in contributions] == ["image '0.png': is missing"] * 4
    attribute = attribute_pairs

    def long_chain(decoder, picture, pairs, *given):
        if any(pair[1].text.endswith("what is this ?") for pair in pairs):
            raise UserError("the chain is too long")
        return attribute(decoder, picture, pairs, *given)

    monkeypatch.setattr(ATTRIBUTE_PAIRS, long_chain)
    rows, contributions = rows_of(how_of(TEXT, "equations"), TEXT)
    assert rows[0].value is not None
    assert rows[1].error == "the chain is too long"
    assert [row.error for row in contributions] == [None, None] + [
        "the chain is too long"
    ] * 2


def in_lines(turns):
    return "\n".join(turn.text for turn in turns)


def test_a_model_that_ignores_its_input_has_no_cc_shap_and_one_that_explains_by_what_it_answers_from_has_1(
    prompt_file, tmp_path
):
    one = dataclasses.replace(TEXT, fields={"first": "x", "second": "y"})

    def compute_row(script):
        decoder = scripted_decoders.scripted(
            script, reads_images=False, says=lambda prompt, seed: "A"
        )
        how = build_setup(
            decoder,
            build_equations_template(in_lines, prompt_file),
            3,
            CCShapSettings(permutations=1, kinds=["post-hoc"]),
            {},
            tmp_path / "cache.sqlite",
        )
        rows, _ = rows_of(
            dataclasses.replace(
                how, stored=tmp_path / str(len(list(tmp_path.iterdir())))
            ),
            one,
        )
        return rows[0]

    deaf = compute_row(lambda text: {"A": 1.0})
    assert deaf.value is None
    assert "no shared player contributes" in deaf.reason
    same = compute_row(lambda text: {"A": 2.0 * ("x" in text) + 1.0 * ("y" in text)})
    assert same.value == pytest.approx(1)


def an_edit(question, **more):
    columns = {
        "test": "counterfactual_edits",
        "item_id": question.item_id,
        "profile": "equations",
        "setting": question.form,
        "seed": 3,
        "text": "",
        "reason": "there is no noun or verb to insert a word before",
    }
    return ConsistencyRecord(**columns | more)


def edited_of(how, question, *tests):
    done: list[int] = []
    rows, contributions = compute_edit_records(
        how, [question], photo, done.append, tests
    )
    assert done == [1]
    parquet.check(parquet.build_table(list(map(to_row, rows)), EDITED), EDITED)
    parquet.check(
        parquet.build_table(list(map(to_row, contributions)), ATTRIBUTION), ATTRIBUTION
    )
    (row,) = rows
    assert bool(contributions) == (row.edited_input is not None)
    return row


def test_contributions_after_an_edit_are_stored_with_the_edit(how_of):
    how, words = how_of(TEXT, "equations"), "A a red dog B two cars ?"
    (row,), contributions = compute_edit_records(
        how,
        [TEXT],
        photo,
        lambda _: 0,
        [an_edit(TEXT, edited_input=words, inserted="red")],
    )
    assert [one.setting for one in contributions] == [
        "post-hoc-edited:answer",
        "post-hoc-edited:explanation",
    ]
    assert all(one.text.startswith(words) for one in contributions)
    post_hoc = dataclasses.replace(set_seed(how, TEXT), kinds=("post-hoc",))
    stored = load_or_attribute_item(post_hoc, TEXT, photo, item_text=words).pairs[
        "post-hoc"
    ]
    assert [one.phi for one in contributions] == [
        getattr(stored, side).record.phi for side in ("answer", "explanation")
    ]
    assert (row.edited_answer, row.edited_explanation) == (
        stored.record.answer,
        stored.record.explanation,
    )
    again = compute_cc_shap(
        stored.answer.estimate, stored.explanation.estimate, EQUATIONS
    )
    assert row.cc_shap == pytest.approx(again.value)


@pytest.mark.parametrize("question", [TEXT, PAIR], ids=["text", "image"])
def test_edits_that_change_nothing_move_nothing_and_others_do(
    how_of, question, monkeypatch
):
    how = how_of(question, "equations")
    words = {"comve": "A a dog B two cars ?", "pairwise": "A: a man B: a cat ?"}[
        question.form
    ]
    still = edited_of(
        how,
        question,
        an_edit(question, edited_input=words, inserted="big", flipped=False),
    )
    assert still.answer == pytest.approx(0, abs=1e-9)
    assert still.inserted_answer == pytest.approx(0, abs=1e-9)
    attribute, grids = attribute_pairs, []

    def watched(decoder, picture, pairs, rules, grid, *given):
        grids.append(grid)
        return attribute(decoder, picture, pairs, rules, grid, *given)

    monkeypatch.setattr(ATTRIBUTE_PAIRS, watched)
    changed = words.replace("B", "red B")
    moved = edited_of(
        how,
        question,
        an_edit(question, edited_input=changed, inserted="red", flipped=True),
    )
    assert (moved.edited_input, moved.inserted) == (changed, "red")
    assert (still.flipped, moved.flipped) == (False, True)
    assert moved.answer > 1e-6
    assert moved.explanation > 1e-6
    assert 0 < moved.inserted_answer < 1
    # the unedited item was found again, and the edited one has its grid: that of nine shared tokens
    unedited = load_or_attribute_item(set_seed(how, question), question, photo)
    assert unedited.grid == (0 if question is TEXT else 3)
    assert grids == [None if question is TEXT else 3]


ITEM = {
    "instrument": "d",
    "piece": "d",
    "source": "d",
    "caption_phrases": [],
    "foil_phrases": [],
    "kept": True,
}
ITEM |= {"image": "0.png", "foil": "two cars", "valid": True}
STUDY = {
    "sample": None,
    "seed": 0,
    "cc_shap": CCShapSettings(permutations=1, kinds=["post-hoc"]),
    "tokens": {"explanation": 2},
}


def test_the_items_of_a_shard_are_explained_once_a_seed_and_attributions_are_those_of_the_first(
    how_of, decoders, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "waltz.consistency.cc_shap.rows.build_template",
        lambda decoder, profile: template,
    )
    template = how_of(PAIR, "equations").dialogue.template
    (tmp_path / "images").mkdir()
    photo().save(tmp_path / "images" / "0.png")
    items = [
        ITEM | {"item_id": f"i{number}", "caption": f"a dog {number}"}
        for number in range(3)
    ]
    parquet.write_rows(tmp_path / "rows.parquet", items, BENCHMARK)
    dataset = DatasetFiles(
        "d", str(tmp_path / "rows.parquet"), str(tmp_path / "images"), {"form": "pairs"}
    )

    def explain(first, tests=None):
        run = CCShapRun(
            ["equations"],
            tmp_path / "stored.sqlite",
            seeds=[4, 5],
            shard=slice(first, None, 2),
            **STUDY,
        )
        decoder = decoders["pairwise"]
        if tests is None:
            (result,) = explain_datasets(decoder, [dataset], run)
        else:
            (result,) = explain_edits(decoder, [dataset], run, tests)
        return result

    shards = [explain(0), explain(1)]
    rows = [row for shard in shards for row in shard.tables["rows"]]
    assert [len(shard.tables["rows"]) for shard in shards] == [4, 2]
    assert {(row.item_id, row.seed) for row in rows} == {
        (f"i{item}", seed) for item in range(3) for seed in (4, 5)
    }
    assert [row.error for row in rows] == [None] * 6
    assert len({row.estimator_seed for row in rows}) == 6
    assert [
        (row.item_id, row.seed)
        for shard in shards
        for row in shard.tables["contributions"]
    ] == [
        (row.item_id, row.estimator_seed)
        for row in rows
        if row.seed == 4
        for _ in range(2)
    ]
    assert [shard.rows_in for shard in shards] == [3, 3]
    assert shards[1].facts == {
        "skipped": {"equations": {}},
        "rows_with_error": 0,
        "rows_without_value": 0,
        "small_contributions": sum(
            row.weak_answer + row.weak_explanation for row in shards[1].tables["rows"]
        ),
        "evaluated": sum(row.evaluated for row in shards[1].tables["rows"]),
    }
    # two items were tested with one seed, and one of them was edited
    tests = [
        an_edit(
            dataclasses.replace(PAIR, item_id="i0"),
            edited_input="A: a man B: a red cat ?",
            inserted="red",
            seed=4,
            flipped=False,
        ),
        an_edit(dataclasses.replace(PAIR, item_id="i1"), seed=4),
    ]
    table = parquet.build_table(list(map(to_row, tests)), CONSISTENCY)
    edited = [explain(shard, {"d": table}) for shard in (0, 1)]
    outcomes = {
        (row.item_id, row.seed): row for shard in edited for row in shard.tables["rows"]
    }
    assert outcomes.keys() == {(row.item_id, row.seed) for row in rows}
    assert outcomes["i0", 4].inserted == "red"
    assert (
        outcomes["i1", 4].reason == "there is no noun or verb to insert a word before"
    )
    assert [shard.facts for shard in edited] == [
        {"rows_with_error": 3},
        {"rows_with_error": 1},
    ]
    assert [shard.rows_in for shard in edited] == [2, 2]
    assert [
        row.setting for shard in edited for row in shard.tables["contributions"]
    ] == [
        "post-hoc-edited:answer",
        "post-hoc-edited:explanation",
    ]


def test_outcomes_are_counted():
    record = CcShapRecord(
        item_id="i", profile="equations", setting="open", kind="cot", seed=0
    )
    measured = dataclasses.replace(
        record, value=1.0, weak_answer=1, weak_explanation=2, evaluated=7
    )
    undefined = dataclasses.replace(record, evaluated=3)
    failed = dataclasses.replace(record, error="no image")
    assert count_values([measured, undefined, failed]) == {
        "rows_with_error": 1,
        "rows_without_value": 2,
        "small_contributions": 3,
        "evaluated": 10,
    }


def test_items_without_an_edit_say_why(how_of):
    how = how_of(TEXT, "equations")
    assert (
        edited_of(how, TEXT, an_edit(TEXT)).reason
        == "there is no noun or verb to insert a word before"
    )
    assert edited_of(how, TEXT).error == "the item was not edited"
    assert (
        edited_of(how, TEXT, an_edit(TEXT, seed=9)).error == "the item was not edited"
    )
    assert edited_of(how, TEXT, an_edit(TEXT, error="no answer")).error == "no answer"


def test_the_claim_from_rows():
    def rows(answer, explanation):
        names = {"profile": "equations", "setting": "choice", "seed": 0}
        return [
            EditedRecord(
                **names,
                item_id=str(place),
                answer=answer,
                explanation=explanation + 0.01 * place,
            )
            for place in range(6)
        ]

    how = Resampling(500, 0.95, 1)
    claim = judge_claim(
        [*rows(0.0, 0.4), dataclasses.replace(rows(0.0, 0.4)[0], answer=None)], "m", how
    )
    assert (claim.verdict, claim.difference.n) == ("supports", 6)
    assert claim.difference.value == pytest.approx(0.425)
    assert judge_claim(rows(0.4, 0.1), "m", how).verdict == "refutes"
    assert judge_claim(rows(0.0, 0.4)[:3], "m", how).verdict == "undecided"
