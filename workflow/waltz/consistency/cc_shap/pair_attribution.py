"""Attributions of answers and of their explanations, with the CC-SHAP of each pair (thesis 4.3, 5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from waltz.attribution.prompt_attribution import (
    PromptAttribution,
    PromptGame,
    PromptSettings,
    Regroup,
    attribute_prompts,
)
from waltz.consistency.cc_shap.measure import CCShap, SharedEstimate, compute_cc_shap, find_shared_players
from waltz.core.errors import UserError
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.decoders.coalitions import choose_published_grid
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt

Pair = tuple[PromptGame, PromptGame]
"""An answer and an explanation of it."""


@dataclass(frozen=True, eq=False)
class SideAttribution:
    """Attribution of an answer, or of an explanation.

    Attributes:
        shared: The players that the other prompt has too, in the same order on both sides: int64 of shape (shared,).
    """

    attribution: PromptAttribution
    shared: np.ndarray

    @property
    def shared_estimate(self) -> SharedEstimate:
        """Values as CC-SHAP compares them."""
        return SharedEstimate(self.attribution.estimate, self.shared)


@dataclass(frozen=True, eq=False)
class PairAttribution:
    """An answer with one explanation of it."""

    answer: SideAttribution
    explanation: SideAttribution
    cc_shap: CCShap


def attribute_pairs(
    decoder: Decoder,
    picture: PreparedImage | None,
    pairs: Sequence[Pair],
    settings: PromptSettings,
    grid: int | None = None,
    regroup: Regroup | None = None,
    interactions: bool = False,
    progress: ProgressCallback = ignore_progress,
) -> list[PairAttribution]:
    """Attribute answers and their explanations, and compute CC-SHAP of each pair.

    Several pairs, such as one answer with a post-hoc explanation and with a chain of thought, share computations; a
    game in several pairs is computed once.

    In `equations` those tokens are players that are not special and with which all prompts begin, before any query
    suffix; their patches are one grid. In `published` all tokens are players, an explanation has its answer's grid, and
    language models are explained by shap's partition explainer.

    Args:
        picture: Prepared by `decoder.prepare_image`, or None.
        grid: Patches on a side; None takes ceil(sqrt(n)) of the shared tokens, in `published` of all ids of the
            answer's prompt. Give an edited prompt the grid of the unedited one.
        regroup: See `attribute_prompts`.
        interactions: See `attribute_prompts`.
        progress: See `attribute_prompts`.
    Returns:
        One for each pair. CC-SHAP and T-SHAP are undefined, with a reason, where nothing contributes.
    Raises:
        UserError: Prompts share no tokens or do not end with their query suffixes, or the evaluations do not suffice.
    Source:
        Thesis 4.3 and 5.2; the released scripts of CC-SHAP and CC-SHAP-VLM.
    """
    suffixes = [_count_suffixes(decoder, picture, pair, settings) for pair in pairs]
    games = _choose_players(decoder, picture, pairs, settings, grid)
    distinct = list(dict.fromkeys(game for pair in games for game in pair))
    attributed = attribute_prompts(
        decoder, picture, distinct, settings, regroup=regroup, interactions=interactions, progress=progress
    )
    attributions = dict(zip(distinct, attributed, strict=True))
    compared = []
    for (answer_game, explanation_game), suffix in zip(games, suffixes, strict=True):
        answer, explanation = attributions[answer_game], attributions[explanation_game]
        shared = find_shared_players(
            answer.token_ids,
            explanation.token_ids,
            suffix,
            settings.fidelity,
            patches=0 if answer.players is None else answer.players.patches,
            image_first=answer.text.start > 0,
        )
        sides = SideAttribution(answer, shared[0]), SideAttribution(explanation, shared[1])
        estimates = [side.shared_estimate for side in sides]
        cc_shap = compute_cc_shap(estimates[0], estimates[1], settings.profile, settings.min_contribution)
        compared.append(PairAttribution(*sides, cc_shap))
    return compared


def count_suffix_players(decoder: Decoder, suffix: str, rule: str) -> int:
    """Return how many of the last players the released code takes for the query suffix.

    Args:
        decoder: The model, whose tokenizer counts.
        suffix: The text; an empty one has no tokens.
        rule: `bare`, its tokens without those that the tokenizer adds; `less-two`, with them and less 2; `two`, 2.
    Raises:
        UserError: A text has no tokens by this rule; the released code cannot handle that.
    """
    if rule == "two":
        return 2
    if not suffix:
        return 0
    prompt = decoder.build_prompt(suffix)
    if rule == "less-two":
        length = len(prompt.ids) - 2
    else:
        tokens = zip(prompt.special, prompt.spans, strict=True)
        length = sum(not special or span["start"] < span["end"] for special, span in tokens)
    if length < 1:
        raise UserError(
            f"query suffix {suffix!r}: has too few tokens by the published rule {rule!r} (got {length}, expected at"
            " least 1); give a longer one"
        )
    return length


def _count_suffixes(
    decoder: Decoder, picture: PreparedImage | None, pair: Pair, settings: PromptSettings
) -> tuple[int, int]:
    """Return the players in both query suffixes; refuse prompts that cannot be compared before they are attributed."""
    if settings.fidelity.shared_players == "prefix":
        return 0, 0
    rule = settings.suffix_rule or ("bare" if picture is None else "less-two")
    answer, explanation = pair
    suffixes = (
        count_suffix_players(decoder, answer.query_suffix, rule),
        count_suffix_players(decoder, explanation.query_suffix, rule),
    )
    ids = decoder.build_prompt(answer.text).ids, decoder.build_prompt(explanation.text).ids
    find_shared_players(*ids, suffixes, settings.fidelity)
    return suffixes


def _choose_players(
    decoder: Decoder, picture: PreparedImage | None, pairs: Sequence[Pair], settings: PromptSettings, grid: int | None
) -> list[Pair]:
    """Return the pairs with the text players and grids that make them comparable."""
    if settings.fidelity.shared_players == "prefix":
        games = [game for pair in pairs for game in pair]
        positions = _find_shared_positions(games, [decoder.build_prompt(game.text) for game in games])
        return [
            (_place(answer, positions, grid), _place(explanation, positions, grid)) for answer, explanation in pairs
        ]
    if picture is None:
        return list(pairs)
    placed = []
    for answer, explanation in pairs:
        side = grid or choose_published_grid(decoder, decoder.build_prompt(answer.text))
        placed.append((_place(answer, None, side), _place(explanation, None, side)))
    return placed


def _place(game: PromptGame, positions: tuple[int, ...] | None, grid: int | None) -> PromptGame:
    return replace(game, positions=positions, grid=grid)


def _find_shared_positions(games: Sequence[PromptGame], prompts: Sequence[Prompt]) -> tuple[int, ...]:
    """Return the positions of the tokens, without special ones, with which all prompts begin before any suffix."""
    wrong = next((game for game in games if not game.text.endswith(game.query_suffix)), None)
    if wrong is not None:
        raise UserError(
            f"prompt {wrong.text[-40:]!r}: does not end with its query suffix {wrong.query_suffix[-40:]!r}; give its"
            " end"
        )
    ends = [len(game.text) - len(game.query_suffix) for game in games]
    positions: list[int] = []
    for position, ids in enumerate(zip(*(prompt.ids for prompt in prompts), strict=False)):
        if len(set(ids)) > 1 or any(
            prompt.spans[position]["end"] > end for prompt, end in zip(prompts, ends, strict=True)
        ):
            break
        if not prompts[0].special[position]:
            positions.append(position)
    if not positions:
        raise UserError(
            f"prompts {games[0].text[:30]!r}... and {games[-1].text[:30]!r}... share no tokens before their query"
            " suffixes, so there is nothing to compare; begin both with the question"
        )
    return tuple(positions)
