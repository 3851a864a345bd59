import itertools
import sys

import pytest
import torch

from conftest import ROOT
from tiny_models import masked_model, roberta_model
from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.foils.checklist import WORDNET, checklist_proposals, text_generator
from waltz.foils.proposals import fitting, proposals
from waltz.foils.proposer_needs import Slot
from waltz.models.registry import ModelSpec
from waltz.models.text.masked import load_masked_model

SCENES = ROOT / "resources" / "scenes" / "models" / "masked-lm"


def _slot(text):
    """The slot between brackets."""
    return Slot(text.replace("<", "").replace(">", ""), text.index("<"), text.index(">") - 1)


SLOTS = [_slot(text) for text in ("A man <rides> a horse.", "<a> dog sits", "A cat sits <on> the table, and the dog")]
SCENE_SLOTS = [
    _slot("A red dog is <next to> the cat."),
    _slot("A man <throws> a ball."),
    _slot("<There> are two apples on the table, and a woman sits under it."),
]


@pytest.fixture(scope="module")
def tiny():
    return masked_model()


@pytest.fixture(scope="module")
def scenes():
    return load_masked_model(ModelSpec("masked-lm", "masked", str(SCENES), "local"), Device("cpu", 1, "test"))


def _scores(model, slot, tokens, scale):
    """Mean score of a filling: the definition, one forward pass a token."""
    ids = list(model.tokenize(slot.masked(model.tokenizer.mask_token, len(tokens))))
    places = [place for place, token in enumerate(ids) if token == model.tokenizer.mask_token_id]
    total = 0.0
    for place, token in zip(places, tokens, strict=True):
        with torch.inference_mode():
            logits = model.network(input_ids=torch.tensor([ids])).logits[0, place].double()
        total += float((torch.log_softmax(logits, dim=-1) if scale == "log_softmax" else logits)[token])
        ids[place] = token
    return total / len(tokens)


@pytest.mark.parametrize("scale", ["logit", "log_softmax"])
def test_scores_are_means_over_tokens_from_the_left_and_ranks_are_by_length(tiny, scale):
    found = proposals(SLOTS, tiny, top=4, beam=5, scale=scale)
    for slot in SLOTS:
        assert [proposal.score for proposal in found[slot]] == sorted((p.score for p in found[slot]), reverse=True)
        for length in (1, 2, 3):
            listed = [proposal for proposal in found[slot] if len(proposal.pieces) == length]
            assert [proposal.rank for proposal in listed] == [0, 1, 2, 3]
            for proposal in listed:
                tokens = tiny.tokenizer.convert_tokens_to_ids(list(proposal.pieces))
                assert proposal.score == pytest.approx(_scores(tiny, slot, tokens, scale), abs=2e-5)


def test_a_wide_beam_finds_the_best_of_all_pairs(tiny):
    slot, size = SLOTS[0], len(tiny.tokenizer)
    found = proposals([slot], tiny, longest=2, top=3, beam=size, scale="log_softmax")[slot]
    best = next(proposal for proposal in found if len(proposal.pieces) == 2)
    ids = list(tiny.tokenize(slot.masked("[MASK]", 2)))
    place = ids.index(4)
    with torch.inference_mode():
        first = torch.log_softmax(tiny.network(input_ids=torch.tensor([ids])).logits[0, place].double(), dim=-1)
        filled = torch.tensor([[*ids[:place], token, *ids[place + 1 :]] for token in range(size)])
        second = torch.log_softmax(tiny.network(input_ids=filled).logits[:, place + 1].double(), dim=-1)
    total = (first[:, None] + second) / 2
    expected = divmod(int(total.argmax()), size)
    assert tuple(tiny.tokenizer.convert_tokens_to_ids(list(best.pieces))) == expected
    assert best.score == pytest.approx(float(total.max()), abs=2e-5)


@pytest.mark.parametrize("kind", ["tiny", "scenes", "marked"])
def test_checklist_proposes_the_same_top_ten(kind, tiny, scenes):
    model = {"tiny": tiny, "scenes": scenes}.get(kind) or roberta_model()
    slots = {"tiny": SLOTS, "scenes": SCENE_SLOTS, "marked": [_slot("a man <rides> a horse"), _slot("<a> dog sits")]}[
        kind
    ]
    ours = proposals(slots, model)
    theirs = checklist_proposals(slots, model)
    for slot, length in itertools.product(slots, (1, 2, 3)):
        mine = [proposal for proposal in ours[slot] if len(proposal.pieces) == length]
        other = [proposal for proposal in theirs[slot] if len(proposal.pieces) == length]
        assert len(mine) == len(other) == 10
        words = [
            tuple(model.tokenizer.decode([t]).strip() for t in model.tokenizer.convert_tokens_to_ids(list(p.pieces)))
            for p in mine
        ]
        assert words == [proposal.pieces for proposal in other]
        assert [proposal.score for proposal in mine] == pytest.approx([p.score for p in other], abs=2e-5)


def test_the_adapter_sets_what_checklists_own_constructor_sets(tiny, tmp_path):
    tiny.network.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    adopted = text_generator(tiny)
    original = type(adopted)(model_name=str(tmp_path))
    assert vars(adopted).keys() == vars(original).keys()
    for name in ("url", "prefix_sentence", "prefix_len", "allow_word_pieces", "space_prefix"):
        assert getattr(adopted, name) == getattr(original, name)
    assert adopted.with_space_set == {int(token) for token in original.with_space_set}
    assert adopted.special_chars == original.special_chars


def test_checklist_that_is_not_installed_says_what_to_install(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "checklist.text_generation", None)
    with pytest.raises(
        UserError, match=r"cannot be imported .*; run: pip install --no-deps checklist-pattern==0\.0\.11"
    ):
        text_generator(tiny)
    assert WORDNET in sys.modules


def test_no_proposal_depends_on_the_other_slots(tiny):
    together = proposals(SLOTS, tiny, top=5)
    for slot in SLOTS:
        alone = proposals([slot], tiny, top=5)[slot]
        assert [proposal.pieces for proposal in alone] == [proposal.pieces for proposal in together[slot]]


def test_given_forms_are_ranked_whatever_their_number_of_pieces(tiny):
    slot = _slot("A man <rides> a horse.")
    found = fitting({slot: ["rides", "sits", "standing", "standboard", "sitting", "throws", "Xyz", "rides"]}, tiny)[
        slot
    ]
    assert sorted(proposal.phrase for proposal in found) == ["rides", "sits", "standboard", "standing", "throws"]
    assert {p.phrase: p.pieces for p in found}["standing"] == ("stand", "##ing")
    assert [proposal.rank for proposal in found] == [0, 1, 2, 3, 4]
    for proposal in found:
        tokens = tiny.tokenizer.convert_tokens_to_ids(list(proposal.pieces))
        assert proposal.score == pytest.approx(_scores(tiny, slot, tokens, "logit"), abs=2e-5)
    assert [proposal.score for proposal in found] == sorted((proposal.score for proposal in found), reverse=True)


def test_forms_carry_the_blank_of_their_slot_where_the_vocabulary_marks_it():
    model = roberta_model()
    slot, first = _slot("a man <rides> a horse"), _slot("<rides> a horse")
    found = fitting({slot: ["rides"], first: ["rides"]}, model)
    assert found[slot][0].pieces == ("Ġrides",)
    assert found[first][0].pieces[0] == "r"


def test_the_scene_model_finds_the_verb_that_the_object_asks_for(scenes):
    slot = _slot("A man <...> a ball.")
    ranked = [proposal.phrase for proposal in fitting({slot: ["throws", "eats", "drinks"]}, scenes)[slot]]
    assert ranked[0] == "throws"


def test_a_slot_beyond_the_window_and_a_mask_in_the_text_are_named(tiny):
    late = Slot("dog " * 60, 230, 233)
    with pytest.raises(UserError, match=r"characters 230 to 233 of 'dog .* 40 positions that it reads"):
        proposals([late], tiny)
    with pytest.raises(UserError, match=r"or the text holds '\[MASK\]' itself"):
        proposals([Slot("a [MASK] dog", 0, 1)], tiny)


def test_progress_counts_slots_and_finished_batches_are_kept(tiny, tmp_path, monkeypatch):
    told = []
    first = proposals([*SLOTS, SLOTS[0]], tiny, stored=tmp_path, done=told.append)
    assert sum(told) == len(SLOTS)
    monkeypatch.setattr("waltz.models.text.masked._compute_scores_at", lambda *_: pytest.fail("computed again"))
    assert proposals(SLOTS, tiny, stored=tmp_path) == first
