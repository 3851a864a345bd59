"""CheckList's proposer, which the published relations were made with, around a model that is loaded already.

The distribution `checklist-pattern` is imported as `checklist`. It imports `pattern.en`, which would download
WordNet from NLTK at import; nothing here needs WordNet, so an empty module stands in its place.
"""

import sys
import types
from collections.abc import Iterable
from typing import Any

import torch

from waltz.core.errors import UserError
from waltz.foils.proposals import BEAM
from waltz.foils.proposer_needs import Proposal, Slot
from waltz.models.text.masked import MaskedModel

WORDNET = "pattern.text.en.wordnet"
INSTALL = "pip install --no-deps checklist-pattern==0.0.11 patternfork-nosql-fix==3.6"


def checklist_proposals(
    slots: Iterable[Slot], model: MaskedModel, *, longest: int = 3, top: int = 10, beam: int = BEAM
) -> dict[Slot, list[Proposal]]:
    """The best spans of 1 to `longest` tokens for each slot by CheckList's own code, one slot after another.

    Args:
        slots: Slots; repeated ones are filled once.
        model: A loaded masked language model with more than `beam` + 10 tokens.
        longest: Most tokens of a span.
        top: How many proposals of each length.
        beam: Hypotheses that are kept from one token to the next.
    Returns:
        By slot, proposals of all lengths with the best first, as `proposals.proposals` gives them.
    Raises:
        UserError: CheckList is not installed.
    """
    generator = text_generator(model)
    tokenizer = model.tokenizer
    found = {}
    for slot in dict.fromkeys(slots):
        listed: list[Proposal] = []
        for masks in range(1, longest + 1):
            filled = generator.unmask(slot.masked(tokenizer.mask_token, masks), beam_size=beam)[:top]
            for rank, (words, _, score) in enumerate(filled):
                pieces = tuple(words)
                phrase = " ".join(pieces).replace(" ##", "")
                listed.append(Proposal(phrase, pieces, score, rank))
        found[slot] = sorted(listed, key=lambda proposal: -proposal.score)
    return found


def text_generator(model: MaskedModel) -> Any:
    """CheckList's TextGenerator with this network and tokenizer.

    Its own constructor loads the newest revision, at the precision of the file; so its fields are set here.

    Raises:
        UserError: CheckList is not installed.
    """
    original = _original()
    vocabulary = model.tokenizer.get_vocab()
    generator = original.__new__(original)
    generator.url = None
    generator.device = torch.device(model.device)
    generator.tokenizer, generator.model = model.tokenizer, model.network
    generator.prefix_sentence, generator.prefix_len = "", 0
    generator.allow_word_pieces, generator.space_prefix = False, model.word_prefix
    generator.with_space = torch.tensor(model.word_starts, device=model.device)
    generator.with_space_set = set(model.word_starts)
    generator.special_chars = {
        place for piece, place in vocabulary.items() if not piece.strip(model.word_prefix).isalnum()
    }
    return generator


def _original() -> Any:
    sys.modules.setdefault(WORDNET, types.ModuleType(WORDNET))
    try:
        from checklist.text_generation import TextGenerator
    except ImportError as error:
        raise UserError(f"CheckList's proposer cannot be imported ({error}); run: {INSTALL}") from None
    return TextGenerator
