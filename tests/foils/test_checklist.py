"""CheckList's own proposer compared with ours; needs the extra `checklist`."""

import itertools
import re
import sys
from importlib.util import find_spec

import pytest

from proposal_slots import SCENE_SLOTS, SCENES, SLOTS, load_scenes_model, mark_slot
from tiny_models import masked_model, roberta_model
from waltz.core.devices import Device
from waltz.core.errors import UserError
from waltz.foils.checklist import INSTALL, WORDNET_MODULE, build_text_generator, propose_spans_with_checklist
from waltz.foils.masked_proposals import load_proposer, propose_spans
from waltz.model_registry import ModelSpec

needs_checklist = pytest.mark.skipif(find_spec("checklist") is None, reason="the extra `checklist` is not installed")


@pytest.fixture(scope="module")
def tiny():
    return masked_model()


@needs_checklist
@pytest.mark.parametrize("kind", ["tiny", "scenes", "marked"])
def test_checklist_proposes_the_same_top_ten(kind, tiny):
    model, slots = {
        "tiny": lambda: (tiny, SLOTS),
        "scenes": lambda: (load_scenes_model(), SCENE_SLOTS),
        "marked": lambda: (roberta_model(), [mark_slot("a man <rides> a horse"), mark_slot("<a> dog sits")]),
    }[kind]()
    proposals = propose_spans(slots, model)
    checklist_proposals = propose_spans_with_checklist(slots, model)
    for slot, length in itertools.product(slots, (1, 2, 3)):
        ours = [proposal for proposal in proposals[slot] if len(proposal.pieces) == length]
        theirs = [proposal for proposal in checklist_proposals[slot] if len(proposal.pieces) == length]
        assert len(ours) == len(theirs) == 10
        words = [
            tuple(model.tokenizer.decode([t]).strip() for t in model.tokenizer.convert_tokens_to_ids(list(p.pieces)))
            for p in ours
        ]
        assert words == [proposal.pieces for proposal in theirs]
        assert [proposal.score for proposal in ours] == pytest.approx([p.score for p in theirs], abs=2e-5)


@needs_checklist
def test_the_generator_has_the_fields_that_checklists_own_constructor_sets(tiny, tmp_path):
    tiny.network.save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    generator = build_text_generator(tiny)
    original = type(generator)(model_name=str(tmp_path))
    assert vars(generator).keys() == vars(original).keys()
    for name in ("url", "prefix_sentence", "prefix_len", "allow_word_pieces", "space_prefix"):
        assert getattr(generator, name) == getattr(original, name)
    assert generator.with_space_set == {int(token) for token in original.with_space_set}
    assert generator.special_chars == original.special_chars


@needs_checklist
def test_a_study_that_names_checklist_gets_its_proposals(tmp_path):
    spec, device = ModelSpec("masked-lm", "masked", str(SCENES), "local"), Device("cpu", 1, "test")
    finished = []
    options = load_proposer(
        spec,
        device,
        longest=2,
        best=3,
        most_tokens=None,
        cache_folder=tmp_path,
        on_progress=finished.append,
        proposer="checklist",
    )
    slot = SCENE_SLOTS[0]
    proposals = options.propose_spans([slot])
    assert proposals == propose_spans_with_checklist([slot], load_scenes_model(), longest=2, top=3)
    assert finished == [1]


def test_checklist_that_is_not_installed_says_what_to_install(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "checklist.text_generation", None)
    with pytest.raises(UserError, match=rf"cannot be imported .*; run: {re.escape(INSTALL)}"):
        build_text_generator(tiny)
    assert WORDNET_MODULE in sys.modules
