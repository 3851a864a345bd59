"""Attributions of answers and of their explanations, with the CC-SHAP of each pair (thesis 4.3,
5.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from waltz.attribution.engine import Attribution
from waltz.attribution.prompt_attribution import (
    PromptGame,
    PromptSettings,
    Regroup,
    attribute_prompts,
)
from waltz.consistency.cc_shap.measure import (
    CCShap,
    SharedEstimate,
    add_cc_shap,
    compute_cc_shap,
    find_shared_players,
)
from waltz.core.errors import UserError, shorten_value
from waltz.core.schema import CcShapRecord
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.decoders.coalitions import choose_published_grid
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt

Pair = tuple[PromptGame, PromptGame]
"""The games of an answer and of an explanation of this answer."""


@dataclass(frozen=True, eq=False)
class SideAttribution:
    """Hold the attribution of an answer, or of an explanation.

    Attributes:
        attribution: The Shapley values.
        shared: Numbers of the players that the other prompt has too, in the same order for both,
            int64 of shape (shared,).
    """

    attribution: Attribution
    shared: np.ndarray

    @property
    def shared_estimate(self) -> SharedEstimate:
        """Return the Shapley values in the form that CC-SHAP compares."""
        return SharedEstimate(self.attribution.estimate, self.shared)

    @property
    def text_first_positions(self) -> np.ndarray:
        """Return the positions that the shared players have when text players stand before patches:
        int64 of shape (shared,), in the order in which CC-SHAP compares the players.
        """
        n_players = len(self.attribution.estimate.phi)
        n_text = len(self.attribution.tokens)
        patches_before = n_players - n_text if self.attribution.text_slice.start else 0
        # Patches before the text move behind it: their positions become negative, and the modulus
        # moves them to the end.
        positions: np.ndarray = (self.shared - patches_before) % n_players
        return positions


@dataclass(frozen=True, eq=False)
class PairAttribution:
    """Hold the attributions of an answer and of one explanation of it, with their CC-SHAP."""

    answer: SideAttribution
    explanation: SideAttribution
    cc_shap: CCShap


def add_pair(record: CcShapRecord, pair: PairAttribution) -> CcShapRecord:
    """Return a record with CC-SHAP of a pair and the ratios that it compares, text players first."""
    # The games of `published` have patches first.
    players = pair.answer.text_first_positions
    order = np.argsort(players)
    tokens = pair.answer.attribution.tokens
    return replace(
        add_cc_shap(record, pair.cc_shap, order),
        shared_tokens=[
            tokens[player] for player in players[order] if player < len(tokens)
        ],
        standard_error=pair.cc_shap.standard_error,
        reason=pair.cc_shap.reason,
    )


def attribute_pairs(
    decoder: Decoder,
    picture: PreparedImage | None,
    pairs: Sequence[Pair],
    settings: PromptSettings,
    grid: int | None = None,
    regroup: Regroup | None = None,
    progress: ProgressCallback = ignore_progress,
) -> list[PairAttribution]:
    """Attribute answers and their explanations, and compute CC-SHAP of each pair.

    Several pairs, such as one answer with a post-hoc explanation and with a chain of thought, share
    computations. A game that is in several pairs is computed once.

    In `equations` the players are the tokens with which all prompts begin, before any query suffix
    and without special tokens; all prompts have the same grid of patches. In `published` all tokens
    are players, an explanation has the grid of its answer, and language models are explained by
    shap's partition explainer.

    Args:
        picture: The image, prepared by `decoder.prepare_image`, or None.
        pairs: Games of answers and their explanations.
        grid: Number of patches on a side. None takes ceil(sqrt(n)), with n the number of shared
            tokens, or in `published` of all ids of the answer's prompt. An edited prompt needs the
            grid of the unedited prompt.
        regroup: See `attribute_prompts`.
        progress: See `attribute_prompts`.
    Returns:
        The attributions of each pair. CC-SHAP and T-SHAP are undefined, with a reason, if nothing
        contributes.
    Raises:
        UserError: Prompts share no tokens or do not end with their query suffixes, or the
            evaluations do not suffice.
    Source:
        Thesis 4.3 and 5.2; the released scripts of CC-SHAP and CC-SHAP-VLM.
    """
    # Prompts that cannot be compared are refused here, before anything is computed.
    suffixes = [_count_suffixes(decoder, picture, pair, settings) for pair in pairs]
    games = _choose_players(decoder, picture, pairs, settings, grid)
    # Equal games, such as an answer that is in several pairs, are attributed once.
    distinct = list(dict.fromkeys(game for pair in games for game in pair))
    attributed = attribute_prompts(
        decoder, picture, distinct, settings, regroup=regroup, progress=progress
    )
    attributions = dict(zip(distinct, attributed, strict=True))
    compared = []
    for (answer_game, explanation_game), suffix_counts in zip(
        games, suffixes, strict=True
    ):
        answer, explanation = attributions[answer_game], attributions[explanation_game]
        answer_players, explanation_players = find_shared_players(
            answer.token_ids,
            explanation.token_ids,
            suffix_counts,
            settings.fidelity,
            patches=0 if answer.players is None else answer.players.n_image_players,
            image_first=answer.text_slice.start > 0,
        )
        answer_side = SideAttribution(answer, answer_players)
        explanation_side = SideAttribution(explanation, explanation_players)
        cc_shap = compute_cc_shap(
            answer_side.shared_estimate,
            explanation_side.shared_estimate,
            settings.fidelity,
            settings.min_contribution,
        )
        compared.append(PairAttribution(answer_side, explanation_side, cc_shap))
    return compared


def count_suffix_players(decoder: Decoder, suffix: str, rule: str) -> int:
    """Return how many players at the end of a prompt the released code counts as the query suffix.

    Args:
        decoder: The model, whose tokenizer counts.
        suffix: The text of the suffix; an empty text has no tokens.
        rule: `bare` counts the tokens of the text without tokens that the tokenizer adds.
            `less-two` counts all tokens and subtracts 2. `two` is always 2.
    Raises:
        UserError: The text has no tokens by this rule; the released code cannot handle that.
    """
    if rule == "two":
        return 2
    if not suffix:
        return 0
    prompt = decoder.build_prompt(suffix)
    if rule == "less-two":
        length = len(prompt.ids) - 2
    else:
        # A token that the tokenizer adds is special and has no characters.
        length = 0
        for special, span in zip(prompt.special, prompt.spans, strict=True):
            if not special or span["start"] < span["end"]:
                length += 1
    if length < 1:
        raise UserError(
            f"query suffix {suffix!r}: has too few tokens by the published rule {rule!r} (got {length}, expected at"
            " least 1); give a longer one"
        )
    return length


def _count_suffixes(
    decoder: Decoder,
    picture: PreparedImage | None,
    pair: Pair,
    settings: PromptSettings,
) -> tuple[int, int]:
    """Return the numbers of players in both query suffixes; refuse prompts that cannot be compared."""
    # In `equations` no token of a suffix is a player.
    if settings.fidelity.shared_players == "prefix":
        return 0, 0
    rule = settings.suffix_rule
    if not rule:
        rule = "bare" if picture is None else "less-two"
    answer, explanation = pair
    suffixes = (
        count_suffix_players(decoder, answer.query_suffix, rule),
        count_suffix_players(decoder, explanation.query_suffix, rule),
    )
    answer_ids = decoder.build_prompt(answer.text).ids
    explanation_ids = decoder.build_prompt(explanation.text).ids
    find_shared_players(answer_ids, explanation_ids, suffixes, settings.fidelity)
    return suffixes


def _choose_players(
    decoder: Decoder,
    picture: PreparedImage | None,
    pairs: Sequence[Pair],
    settings: PromptSettings,
    grid: int | None,
) -> list[Pair]:
    """Return the pairs with those text players and grids that make an answer and its explanation
    comparable.
    """
    if settings.fidelity.shared_players == "prefix":
        games = list(chain.from_iterable(pairs))
        positions = _find_shared_positions(
            games, [decoder.build_prompt(game.text) for game in games]
        )
        return [_set_players(pair, positions, grid) for pair in pairs]
    if picture is None:
        return list(pairs)
    # In `published` an explanation takes the grid of its answer, so that both have the same
    # patches.
    pairs_with_grid = []
    for pair in pairs:
        answer, _ = pair
        pair_grid = grid or choose_published_grid(
            decoder, decoder.build_prompt(answer.text)
        )
        pairs_with_grid.append(_set_players(pair, None, pair_grid))
    return pairs_with_grid


def _set_players(
    pair: Pair, positions: tuple[int, ...] | None, grid: int | None
) -> Pair:
    answer, explanation = pair
    return (
        replace(answer, positions=positions, grid=grid),
        replace(explanation, positions=positions, grid=grid),
    )


def _find_shared_positions(
    games: Sequence[PromptGame], prompts: Sequence[Prompt]
) -> tuple[int, ...]:
    """Return the positions of the tokens with which all prompts begin, before any suffix and
    without special tokens.
    """
    for game in games:
        if not game.text.endswith(game.query_suffix):
            raise UserError(
                f"prompt {game.text[-40:]!r}: does not end with its query suffix {game.query_suffix[-40:]!r}; give its"
                " end"
            )
    suffix_starts = [len(game.text) - len(game.query_suffix) for game in games]

    # Compare the prompts position by position; each token of a position belongs to one prompt.
    positions: list[int] = []
    shortest = min(len(prompt.ids) for prompt in prompts)
    for position in range(shortest):
        tokens = {prompt.ids[position] for prompt in prompts}
        room = [
            start - prompt.spans[position]["end"]
            for prompt, start in zip(prompts, suffix_starts, strict=True)
        ]
        if len(tokens) > 1 or min(room) < 0:
            break  # the prompts differ, or a query suffix begins
        if not prompts[0].special[position]:
            positions.append(position)
    if not positions:
        first, last = (shorten_value(repr(game.text)) for game in (games[0], games[-1]))
        raise UserError(
            f"prompts {first} and {last} share no tokens before their query"
            " suffixes, so there is nothing to compare; begin both with the question"
        )
    return tuple(positions)
