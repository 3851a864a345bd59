"""Proposals of a masked language model, ours and those of CheckList's own code."""

import itertools
import re
import sys
from importlib.util import find_spec

import pytest
import torch

from stand_ins.models.tiny_models import masked_model, roberta_model
from stand_ins.proposal_slots import (
    SCENE_SLOTS,
    SCENES,
    SLOTS,
    load_scenes_model,
    mark_slot,
)
from waltz.core.errors import UserError
from waltz.core.jobs.devices import Device
from waltz.foils.candidates import Slot, check_readable
from waltz.foils.masked_proposals import (
    INSTALL,
    WORDNET_MODULE,
    ProposalSettings,
    build_text_generator,
    load_proposer,
    propose_spans,
    propose_spans_with_checklist,
    rank_words,
)
from waltz.model_registry import ModelSpec


@pytest.fixture(scope="module")
def tiny():
    return masked_model()


@pytest.fixture(scope="module")
def scenes():
    return load_scenes_model()


def _scores(model, slot, tokens):
    """Mean score of a filling: the definition, one forward pass a token."""
    ids = list(
        model.tokenize_masked(slot.mask(model.tokenizer.mask_token, len(tokens)))
    )
    places = [
        place
        for place, token in enumerate(ids)
        if token == model.tokenizer.mask_token_id
    ]
    total = 0.0
    for place, token in zip(places, tokens, strict=True):
        with torch.inference_mode():
            logits = (
                model.network(input_ids=torch.tensor([ids])).logits[0, place].double()
            )
        total += float(logits[token])
        ids[place] = token
    return total / len(tokens)


def test_scores_are_means_over_tokens_from_the_left_and_ranks_are_by_length(tiny):
    proposals = propose_spans(SLOTS, tiny, top=4, beam=5)
    for slot in SLOTS:
        assert [proposal.score for proposal in proposals[slot]] == sorted(
            (p.score for p in proposals[slot]), reverse=True
        )
        for length in (1, 2, 3):
            listed = [
                proposal
                for proposal in proposals[slot]
                if len(proposal.pieces) == length
            ]
            assert [proposal.rank for proposal in listed] == [0, 1, 2, 3]
            for proposal in listed:
                tokens = tiny.tokenizer.convert_tokens_to_ids(list(proposal.pieces))
                assert proposal.score == pytest.approx(
                    _scores(tiny, slot, tokens), abs=2e-5
                )


def test_a_wide_beam_finds_the_best_of_all_pairs(tiny):
    slot, size = SLOTS[0], len(tiny.tokenizer)
    proposals = propose_spans([slot], tiny, longest=2, top=3, beam=size)[slot]
    best = next(proposal for proposal in proposals if len(proposal.pieces) == 2)
    ids = list(tiny.tokenize_masked(slot.mask("[MASK]", 2)))
    place = ids.index(4)
    with torch.inference_mode():
        first = tiny.network(input_ids=torch.tensor([ids])).logits[0, place].double()
        filled = torch.tensor(
            [[*ids[:place], token, *ids[place + 1 :]] for token in range(size)]
        )
        second = tiny.network(input_ids=filled).logits[:, place + 1].double()
    total = (first[:, None] + second) / 2
    expected = divmod(int(total.argmax()), size)
    assert tuple(tiny.tokenizer.convert_tokens_to_ids(list(best.pieces))) == expected
    assert best.score == pytest.approx(float(total.max()), abs=2e-5)


def test_no_proposal_depends_on_the_other_slots(tiny):
    together = propose_spans(SLOTS, tiny, top=5)
    for slot in SLOTS:
        alone = propose_spans([slot], tiny, top=5)[slot]
        assert [proposal.pieces for proposal in alone] == [
            proposal.pieces for proposal in together[slot]
        ]


def test_given_forms_are_ranked_whatever_their_number_of_pieces(tiny):
    slot = mark_slot("A man <rides> a horse.")
    proposals = rank_words(
        {
            slot: [
                "rides",
                "sits",
                "standing",
                "standboard",
                "sitting",
                "throws",
                "Xyz",
                "rides",
            ]
        },
        tiny,
    )[slot]
    assert sorted(proposal.phrase for proposal in proposals) == [
        "rides",
        "sits",
        "standboard",
        "standing",
        "throws",
    ]
    assert {p.phrase: p.pieces for p in proposals}["standing"] == ("stand", "##ing")
    assert [proposal.rank for proposal in proposals] == [0, 1, 2, 3, 4]
    for proposal in proposals:
        tokens = tiny.tokenizer.convert_tokens_to_ids(list(proposal.pieces))
        assert proposal.score == pytest.approx(_scores(tiny, slot, tokens), abs=2e-5)
    assert [proposal.score for proposal in proposals] == sorted(
        (proposal.score for proposal in proposals), reverse=True
    )


def test_forms_carry_the_blank_of_their_slot_where_the_vocabulary_marks_it():
    model = roberta_model()
    slot, first = mark_slot("a man <rides> a horse"), mark_slot("<rides> a horse")
    proposals = rank_words({slot: ["rides"], first: ["rides"]}, model)
    assert proposals[slot][0].pieces == ("Ġrides",)
    assert proposals[first][0].pieces[0] == "r"


def test_the_scene_model_finds_the_verb_that_the_object_asks_for(scenes):
    slot = mark_slot("A man <...> a ball.")
    ranked = [
        proposal.phrase
        for proposal in rank_words({slot: ["throws", "eats", "drinks"]}, scenes)[slot]
    ]
    assert ranked[0] == "throws"


def test_a_slot_beyond_the_window_and_a_mask_in_the_text_are_named(tiny):
    late = Slot("dog " * 60, 230, 233)
    with pytest.raises(
        UserError, match=r"characters 230 to 233 of 'dog .* 40 positions that it reads"
    ):
        propose_spans([late], tiny)
    with pytest.raises(UserError, match=r"control token in a text: .a .MASK. dog"):
        propose_spans([Slot("a [MASK] dog", 0, 1)], tiny)


def test_progress_counts_slots_and_finished_batches_are_cached(
    tiny, tmp_path, monkeypatch
):
    progress = []
    first = propose_spans(
        [*SLOTS, SLOTS[0]],
        tiny,
        cache_file=tmp_path / "cache.sqlite",
        on_progress=progress.append,
    )
    assert sum(progress) == len(SLOTS)
    monkeypatch.setattr(
        "waltz.models.text.masked._compute_scores_at",
        lambda *_: pytest.fail("computed again"),
    )
    assert propose_spans(SLOTS, tiny, cache_file=tmp_path / "cache.sqlite") == first


needs_checklist = pytest.mark.skipif(
    find_spec("checklist") is None, reason="the extra `checklist` is not installed"
)


@needs_checklist
@pytest.mark.parametrize("kind", ["tiny", "scenes", "marked"])
def test_checklist_proposes_the_same_top_ten(kind, tiny):
    model, slots = {
        "tiny": lambda: (tiny, SLOTS),
        "scenes": lambda: (load_scenes_model(), SCENE_SLOTS),
        "marked": lambda: (
            roberta_model(),
            [mark_slot("a man <rides> a horse"), mark_slot("<a> dog sits")],
        ),
    }[kind]()
    proposals = propose_spans(slots, model)
    checklist_proposals = propose_spans_with_checklist(slots, model)
    for slot, length in itertools.product(slots, (1, 2, 3)):
        ours = [
            proposal for proposal in proposals[slot] if len(proposal.pieces) == length
        ]
        theirs = [
            proposal
            for proposal in checklist_proposals[slot]
            if len(proposal.pieces) == length
        ]
        assert len(ours) == len(theirs) == 10
        words = [
            tuple(
                model.tokenizer.decode([t]).strip()
                for t in model.tokenizer.convert_tokens_to_ids(list(p.pieces))
            )
            for p in ours
        ]
        assert words == [proposal.pieces for proposal in theirs]
        assert [proposal.score for proposal in ours] == pytest.approx(
            [p.score for p in theirs], abs=2e-5
        )


@needs_checklist
def test_the_generator_has_the_fields_that_checklists_own_constructor_sets(
    tiny, tmp_path
):
    tiny.network.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    generator = build_text_generator(tiny)
    original = type(generator)(model_name=str(tmp_path))
    assert vars(generator).keys() == vars(original).keys()
    for name in (
        "url",
        "prefix_sentence",
        "prefix_len",
        "allow_word_pieces",
        "space_prefix",
    ):
        assert getattr(generator, name) == getattr(original, name)
    assert generator.with_space_set == {int(token) for token in original.with_space_set}
    assert generator.special_chars == original.special_chars


def test_the_limit_of_a_caption_counts_no_special_tokens(tmp_path):
    spec = ModelSpec("masked-lm", kind="masked", weights=str(SCENES), revision="local")
    options = load_proposer(
        spec,
        Device("cpu", 1, "test"),
        ProposalSettings(longest=1, best=1, most_tokens=3),
        cache_file=tmp_path / "cache.sqlite",
        on_progress=lambda count: None,
    )
    model = load_scenes_model()
    text = "a cat sleeps"
    n_pieces = len(model.tokenizer.tokenize(text))
    assert n_pieces == 3
    assert options.count_tokens(text) == n_pieces
    assert check_readable(text, options.count_tokens, options.most_tokens) is None


@needs_checklist
def test_a_study_that_names_checklist_gets_its_proposals(tmp_path):
    settings = {
        "name": "masked-lm",
        "kind": "masked",
        "weights": str(SCENES),
        "revision": "local",
    }
    finished = []
    options = load_proposer(
        ModelSpec(**settings),
        Device("cpu", 1, "test"),
        ProposalSettings(longest=2, best=3, proposer="checklist"),
        cache_file=tmp_path / "cache.sqlite",
        on_progress=finished.append,
    )
    slot = SCENE_SLOTS[0]
    proposals = options.propose_spans([slot])
    assert proposals == propose_spans_with_checklist(
        [slot], load_scenes_model(), longest=2, top=3
    )
    assert finished == [1]


def test_checklist_that_is_not_installed_says_what_to_install(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "checklist.text_generation", None)
    with pytest.raises(
        UserError, match=rf"cannot be imported .*; run: {re.escape(INSTALL)}"
    ):
        build_text_generator(tiny)
    assert WORDNET_MODULE in sys.modules
