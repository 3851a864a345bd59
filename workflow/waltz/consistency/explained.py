"""What the prompt contributes to a model's answer and to its explanation, with CC-SHAP and T-SHAP (thesis 4.3, 5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from waltz.attribution.t_shap import TShap, measure_outputs
from waltz.consistency.cc_shap import CCShap, Contributions, cc_shap
from waltz.consistency.played import Part, Played, Rules, played
from waltz.consistency.shared_players import Token, shared_players
from waltz.core.errors import UserError
from waltz.models.decoders.decoder import Decoder, PreparedImage


@dataclass(frozen=True, eq=False)
class Side:
    """What contributes to an answer, or to an explanation.

    Attributes:
        part: The prompt and what is said.
        played: The players and their values.
        contributions: The values, and the places of the shared players.
        t_shap: Share of text: 1 without an image.
    """

    part: Part
    played: Played
    contributions: Contributions
    t_shap: TShap


@dataclass(frozen=True, eq=False)
class Explained:
    """An answer with one explanation of it.

    Attributes:
        answer: What contributes to the answer.
        explanation: What contributes to the explanation.
        cc_shap: How alike both are.
    """

    answer: Side
    explanation: Side
    cc_shap: CCShap


def explained(
    decoder: Decoder,
    picture: PreparedImage | None,
    pairs: Sequence[tuple[Part, Part]],
    rules: Rules,
    grid: int | None = None,
) -> list[Explained]:
    """What contributes to answers and to their explanations, with CC-SHAP of each pair.

    Several pairs, such as one answer with a post-hoc explanation and with a chain of thought, share what they can; a
    part that stands in several is computed once.

    In `equations` those tokens play that are not special and with which all prompts begin, before any tail; their
    patches are one grid. In `published` all tokens play, an explanation has its answer's grid, and language models are
    explained by `shap`'s partition explainer.

    Args:
        decoder: A loaded model.
        picture: What `decoder.image` made of the image, or None.
        pairs: Each an answer and an explanation.
        rules: Profile, seed, estimator.
        grid: Patches a side; None takes ceil(sqrt(n)) of the shared tokens, in `published` of all ids of the answer's
            prompt. Give an edited prompt the grid of the first.
    Returns:
        One of each pair, in order. CC-SHAP and T-SHAP are undefined, with a reason, where nothing contributes.
    Raises:
        UserError: Prompts share no tokens or do not end with their tails, or the evaluations do not do.
    Source:
        Thesis 4.3 and 5.2; the released scripts of CC-SHAP and CC-SHAP-VLM.
    """
    tails = [_tails(decoder, picture, pair, rules) for pair in pairs]
    found = played(decoder, picture, pairs, rules, grid)
    compared = []
    for pair, lengths in zip(pairs, tails, strict=True):
        one, other = (found[part.game] for part in pair)
        patches = one.players.patches if one.players else 0
        places = shared_players(
            _names(one), _names(other), lengths, rules.profile, patches=patches, image_first=one.text.start > 0
        )
        answer = _side(pair[0], one, places[0], rules)
        explanation = _side(pair[1], other, places[1], rules)
        both = cc_shap(answer.contributions, explanation.contributions, rules.profile, rules.least)
        compared.append(Explained(answer, explanation, both))
    return compared


def tail_length(decoder: Decoder, tail: str, rule: str) -> int:
    """How many of the last players the released code takes for the tail.

    Args:
        decoder: The model, whose tokenizer counts.
        tail: The text; an empty one has no tokens.
        rule: `bare`, its tokens without those that the tokenizer adds; `less-two`, with them and less 2; `two`, 2.
    Raises:
        UserError: A text has no tokens by this rule, which the released code has no case for.
    """
    if rule == "two":
        return 2
    if not tail:
        return 0
    prompt = decoder.prompt(tail)
    if rule == "less-two":
        length = len(prompt.ids) - 2
    else:
        marked = zip(prompt.special, prompt.spans, strict=True)
        length = sum(not special or span["start"] < span["end"] for special, span in marked)
    if length < 1:
        raise UserError(f"tail {tail!r}: has {length} tokens by the published rule {rule!r}; give a longer one")
    return length


def _tails(decoder: Decoder, picture: PreparedImage | None, pair: tuple[Part, Part], rules: Rules) -> tuple[int, int]:
    """Players in the tails of a pair, refused before anything is computed where prompts cannot be compared."""
    if rules.profile == "equations":
        return 0, 0
    rule = rules.tail or ("bare" if picture is None else "less-two")
    tails = tail_length(decoder, pair[0].tail, rule), tail_length(decoder, pair[1].tail, rule)
    shared_players(decoder.prompt(pair[0].text).ids, decoder.prompt(pair[1].text).ids, tails, rules.profile)
    return tails


def _names(game: Played) -> Sequence[Token]:
    """What tells the text players of two prompts apart: their ids, or the pieces themselves."""
    if game.players is None:
        return game.tokens
    return [game.players.prompt.ids[place] for place in game.players.positions]


def _side(part: Part, game: Played, shared: np.ndarray, rules: Rules) -> Side:
    share = measure_outputs(game.estimate, game.text, rules.profile, rules.least)
    return Side(part, game, Contributions(game.estimate, shared), share)
