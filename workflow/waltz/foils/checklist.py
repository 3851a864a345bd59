"""CheckList's own proposer, used for the published relations, with a model that is loaded already.

The extra `checklist` installs it. The distribution `checklist-pattern` is imported as `checklist`. It imports
`pattern.en`, which would download WordNet from NLTK at import; nothing here needs WordNet, so an empty module replaces
it.
"""

import sys
import types
from collections.abc import Iterable
from typing import Any

import torch

from waltz.core.errors import UserError
from waltz.foils.proposers import BEAM, Proposal, Slot
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.text.masked import MaskedModel

WORDNET_MODULE = "pattern.text.en.wordnet"
INSTALL = (
    "pip install -c constraints.txt -e '.[checklist]'"
    " && pip install -c constraints.txt --no-deps checklist-pattern patternfork-nosql-fix"
)
"""Command that installs CheckList in a checkout: `--no-deps`, because its requirements are outdated."""


def propose_spans_with_checklist(
    slots: Iterable[Slot],
    model: MaskedModel,
    *,
    longest: int = 3,
    top: int = 10,
    beam: int = BEAM,
    on_progress: ProgressCallback = ignore_progress,
) -> dict[Slot, list[Proposal]]:
    """Return the best spans of 1 to `longest` tokens for each slot by CheckList's code, one slot after another.

    Args:
        slots: Slots; repeated ones are filled once.
        model: A loaded masked language model with more than `beam` + 10 tokens.
        longest: Most tokens of a span.
        top: Number of proposals of each length.
        beam: Hypotheses that are continued from one token to the next.
        on_progress: Called with the number of slots that were finished, for a progress bar.
    Returns:
        By slot, proposals of all lengths with the best first, as `masked_proposals.propose_spans` gives them.
    Raises:
        UserError: CheckList is not installed.
    """
    generator = build_text_generator(model)
    tokenizer = model.tokenizer
    proposals = {}
    for slot in dict.fromkeys(slots):
        slot_proposals: list[Proposal] = []
        for masks in range(1, longest + 1):
            fillings = generator.unmask(slot.mask(tokenizer.mask_token, masks), beam_size=beam)[:top]
            for rank, (words, _, score) in enumerate(fillings):
                pieces = tuple(words)
                phrase = " ".join(pieces).replace(" ##", "")
                slot_proposals.append(Proposal(phrase, pieces, score, rank))
        proposals[slot] = sorted(slot_proposals, key=lambda proposal: -proposal.score)
        on_progress(1)
    return proposals


def build_text_generator(model: MaskedModel) -> Any:
    """Return CheckList's TextGenerator with this network and tokenizer.

    Its own constructor loads the newest revision, at the precision of the file; so its fields are set here.

    Raises:
        UserError: CheckList is not installed.
    """
    text_generator = _import_text_generator()
    vocabulary = model.tokenizer.get_vocab()
    generator = text_generator.__new__(text_generator)
    generator.url = None
    generator.device = torch.device(model.device)
    generator.tokenizer, generator.model = model.tokenizer, model.network
    generator.prefix_sentence, generator.prefix_len = "", 0
    generator.allow_word_pieces, generator.space_prefix = False, model.word_prefix
    generator.with_space = torch.tensor(model.word_starts, device=model.device)
    generator.with_space_set = set(model.word_starts)
    generator.special_chars = {
        index for piece, index in vocabulary.items() if not piece.strip(model.word_prefix).isalnum()
    }
    return generator


def _import_text_generator() -> Any:
    sys.modules.setdefault(WORDNET_MODULE, types.ModuleType(WORDNET_MODULE))
    try:
        from checklist.text_generation import TextGenerator
    except ImportError as error:
        raise UserError(f"CheckList's proposer cannot be imported ({error}); run: {INSTALL}") from None
    return TextGenerator
