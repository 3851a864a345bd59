"""MM-SHAP of decoders' prompts, for MM-SHAP itself, CC-SHAP and `waltz explain` (thesis 4.3, 5.2).

A game is a decoder's prompt, its image if there is one, and the tokens generated after it: the
targets, each an output. The tokens of the prompt and patches of the image are the players, by the
rules of a profile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.attribution.engine import (
    Additions,
    Attribution,
    GameEstimate,
    Instance,
    build_attributions,
    estimate_by_coalitions,
    refuse_interactions,
)
from waltz.attribution.published import (
    BUDGETS,
    PUBLISHED_ROWS,
    check_profile_estimator,
    choose_budget,
    count_permutation_coalitions,
)
from waltz.attribution.shapley.estimate import AttributionSettings, Estimation
from waltz.attribution.shapley.estimators import (
    FACTORISED_ESTIMATORS,
    MAX_EXACT_PLAYERS,
    begin_estimation,
    begin_permutations,
    choose_sampler,
)
from waltz.attribution.shapley.partition import compute_owen_values
from waltz.attribution.t_shap import (
    MIN_CONTRIBUTION,
    TShap,
    drop_share_without_contrast,
    measure_t_shap_of_outputs,
)
from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.fidelity import Fidelity, Profile
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.decoders.coalitions import (
    DecoderCoalitions,
    DecoderPlayers,
    Game,
    build_equations_players,
    build_published_players,
)
from waltz.models.decoders.continuations import FIRST_STEP, score_targets_in_batches
from waltz.models.decoders.decoder import SPACE, Decoder, PreparedImage, Prompt

PROBABILITY = "probability"
"""The explained value of a token in `equations` if a study does not name another value (thesis
4.3.2).
"""
PERMUTATIONS = 4
"""Number of permutations of one prompt in CC-SHAP with `equations` if a study does not give a
number.
"""
Regroup = Callable[[DecoderPlayers], DecoderPlayers]
"""Function that takes the players of a prompt and returns the players that the user chose."""


@dataclass(frozen=True)
class PromptGame:
    """Hold a prompt with the generated tokens that are explained.

    Attributes:
        text: The rendered prompt, in which one placeholder stands for the image.
        query_suffix: Text that asks for this answer or explanation; CC-SHAP does not compare its
            tokens. In `equations` the prompt ends with it; in `published` only the number of its
            tokens counts, by the rule of the family.
        targets: Token ids of the generated text, each an output of the game.
        positions: Positions of the text players, for `equations`; None takes all tokens that are
            not special.
        grid: Number of patches on a side; None takes ceil(sqrt(n)) for n text players.
    """

    text: str
    query_suffix: str
    targets: tuple[int, ...]
    positions: tuple[int, ...] | None = None
    grid: int | None = None


@dataclass(frozen=True)
class PromptSettings:
    """Hold the settings of the attribution of prompts.

    Attributes:
        fidelity: Rules of the players, the estimator and the explained value.
        seed: Seed of the permutations (or of shap's choice among equal splits), the same for each
            prompt that is attributed with them.
        estimator: For `equations`, a name in `estimators.COALITION_ESTIMATORS`, or `auto`, which
            takes exact values if the budget allows all coalitions.
        evaluations: For `equations`, maximum number of coalitions of a prompt; None takes as many
            as `permutations` need.
        permutations: For `equations`, number of permutations, each with its reverse, whose
            coalitions are the budget.
        standard_error: For `equations`, standard error of T-SHAP, a share, at which sampling stops;
            None uses all evaluations.
        value: For `equations`, the explained value of a token: a key of `continuations.OUTCOMES`.
        min_contribution: For `equations`, see `t_shap.find_contributing_outputs`.
        budgets: For `published` with an image, numbers of coalitions; the first that suffices is
            used.
        partition_rows: For `published` without an image, rows of shap's partition explainer.
        suffix_rule: For `published`, how the tokens of a query suffix are counted: `bare`,
            `less-two` or `two`; None takes `less-two` with an image and `bare` without.
        masked_id: For `published` with an image, id of a masked token; None takes the entry's, else
            the underscore's.
        unmasked_ids: For `published` with an image, ids that are never masked; None takes special
            tokens and a space.
        joins_tokens: For `published` without an image, whether shap joins tokens by spaces (see
            `partition`).
        interactions: For `equations`, whether interactions of text players with image players are
            computed too.
    """

    fidelity: Fidelity
    seed: int = 0
    estimator: str = "auto"
    evaluations: int | None = None
    permutations: int = PERMUTATIONS
    standard_error: float | None = None
    value: str = PROBABILITY
    min_contribution: float = MIN_CONTRIBUTION
    budgets: tuple[int, ...] = BUDGETS
    partition_rows: int = PUBLISHED_ROWS
    suffix_rule: str | None = None
    masked_id: int | None = None
    unmasked_ids: tuple[int, ...] | None = None
    joins_tokens: bool = False
    interactions: bool = False

    @property
    def profile(self) -> Profile:
        """Return the name of the profile, as files have it."""
        return self.fidelity.name

    def explained_value(self, sees: bool) -> str:
        """Return the name of the explained value of a token.

        Args:
            sees: Whether the decoder reads images.
        """
        if not self.fidelity.first_step_only:
            return self.value
        if sees:
            return FIRST_STEP
        # shap's teacher forcing explains log-odds of language models.
        return "log-odds"

    def build_key(self) -> dict[str, Any]:
        """Return the settings of CC-SHAP as they are in the keys of stored results."""
        # Older names stay here, so that stored results are found; interactions and target errors
        # are not stored.
        return {
            "profile": self.profile,
            "seed": self.seed,
            "estimator": self.estimator,
            "evaluations": self.evaluations,
            "permutations": self.permutations,
            "value": self.value,
            "least": self.min_contribution,
            "budgets": self.budgets,
            "rows": self.partition_rows,
            "tail": self.suffix_rule,
            "masked_id": self.masked_id,
            "kept_ids": self.unmasked_ids,
            "blanks": self.joins_tokens,
        }


def attribute_prompts(
    decoder: Decoder,
    picture: PreparedImage | None,
    games: Sequence[PromptGame],
    settings: PromptSettings,
    known_values: Sequence[dict[bytes, np.ndarray]] | None = None,
    ablate: bool = False,
    regroup: Regroup | None = None,
    progress: ProgressCallback = ignore_progress,
) -> list[Attribution]:
    """Return the Shapley values of some prompts for the tokens that were generated after each of
    them.

    All prompts show the same image, or none. The estimations of all games advance in step, and
    games with the same patches share masked images.

    Args:
        picture: The image, prepared by `decoder.prepare_image`, or None.
        games: Distinct prompts with their targets.
        settings: Fidelity, seed and estimator. `published` explains logits of the first step of
            decoders that read images, and explains language models by shap's partition explainer.
        known_values: For each game, known values of coalitions by what is visible; new values are
            added.
        ablate: Whether values without the text and without the image are computed too.
        regroup: Function that takes the players of the profile and returns the players that the
            user chose.
        progress: Called with the number of coalitions that are done.
    Raises:
        UserError: A prompt is longer than the model reads, or the evaluations do not suffice.
    Source:
        Thesis 4.3 and 5.2; the released scripts of CC-SHAP and CC-SHAP-VLM (`published`).
    """
    if settings.interactions:
        refuse_interactions(settings.fidelity)
    if picture is None and settings.fidelity.language_models == "partition":
        if regroup is not None:
            raise UserError(
                "players: the published code cuts a language model's text itself; take profile equations"
            )
        return [_attribute_pieces(decoder, game, settings) for game in games]

    # Each prompt has one game, played by its tokens and the patches of the shared image.
    value = settings.explained_value(decoder.reads_images)
    played_games: list[Game] = []
    instances: list[Instance] = []
    for game in games:
        prompt = decoder.build_prompt(game.text)
        players = build_players(decoder, game, prompt, picture, settings)
        if regroup is not None:
            players = regroup(players)
        played_games.append(Game(players, game.targets, value))
        instances.append(
            Instance(
                game.text,
                prompt.ids,
                prompt.tokens,
                prompt.spans,
                game.targets,
                game.query_suffix,
            )
        )
    coalitions = DecoderCoalitions(decoder, picture, played_games)
    coalitions.progress = progress
    # Values that earlier runs stored are not computed again.
    if known_values is not None:
        coalitions.known = list(known_values)

    def check_contrast(t_shap: TShap, game_players: DecoderPlayers) -> TShap:
        # Without an image the text has the whole share, so that there is nothing to compare it
        # with.
        if picture is None:
            return t_shap
        return drop_share_without_contrast(
            t_shap, game_players.can_mask_text(), game_players.can_mask_image(picture)
        )

    estimates = _estimate_games(coalitions, settings)
    additions = Additions(
        settings.seed, settings.evaluations, ablate, settings.interactions
    )
    return build_attributions(
        coalitions, instances, estimates, additions, check_contrast
    )


def _estimate_games(
    coalitions: DecoderCoalitions, settings: PromptSettings
) -> list[GameEstimate]:
    """Return the estimate of each game; the games are estimated together, so that they share masked
    images.
    """
    names: list[str] = []
    estimations: dict[int, Estimation] = {}
    for position, players in enumerate(coalitions.players):
        name, estimations[position] = begin_prompt_estimation(players, settings)
        names.append(name)
    estimates = estimate_by_coalitions(coalitions, estimations)
    results = []
    for position, (name, players) in enumerate(
        zip(names, coalitions.players, strict=True)
    ):
        estimate = estimates[position]
        t_shap = measure_t_shap_of_outputs(
            estimate, players.text, settings.fidelity, settings.min_contribution
        )
        results.append(
            GameEstimate(name, estimate, len(coalitions.requested[position]), t_shap)
        )
    return results


def build_players(
    decoder: Decoder,
    game: PromptGame,
    prompt: Prompt,
    picture: PreparedImage | None,
    settings: PromptSettings,
) -> DecoderPlayers:
    """Return the players of a prompt, chosen by the rules of a profile.

    Source:
        Thesis 4.3; CC-SHAP-VLM's released scripts, which list masks and unmasked ids for the
        tokenizer of each model.
    """
    if not settings.fidelity.special_tokens_play:
        return build_equations_players(
            decoder, prompt, picture, positions=game.positions, grid=game.grid
        )
    # The id that the caller names comes first, then the entry's, then the underscore of the
    # released scripts.
    masked_id = settings.masked_id
    if masked_id is None and decoder.spec.masked_token:
        masked_id = decoder.masked_id
    elif masked_id is None:
        masked_id = decoder.published_masked_id
    # The released scripts list such ids for each model: its special tokens and the token of a
    # single space.
    unmasked_ids = settings.unmasked_ids
    if unmasked_ids is None:
        tokens = zip(prompt.ids, prompt.tokens, prompt.special, strict=True)
        unmasked_ids = tuple(
            token_id for token_id, token, special in tokens if special or token == SPACE
        )
    # The released code masks the raw image of models that cut images into tiles.
    in_tiles = False
    if picture is not None:
        in_tiles = picture.pixels.ndim != 4 or len(picture.pixels) != 1
    return build_published_players(
        decoder,
        prompt,
        picture,
        masked_id=masked_id,
        unmasked_ids=unmasked_ids,
        grid=game.grid,
        raw=in_tiles,
    )


def begin_prompt_estimation(
    players: DecoderPlayers, settings: PromptSettings
) -> tuple[str, Estimation]:
    """Return the name of the estimator of a prompt, and an estimation that has not begun.

    `auto` takes exact values if the budget allows all coalitions and no target standard error is
    set. In `published` the released scripts set the budget.

    Raises:
        UserError: The estimator does not fit the profile or a decoder, or the evaluations do not
            suffice.
    """
    count = len(players)
    if settings.fidelity.estimators:
        check_profile_estimator(settings.estimator, settings.fidelity)
        return "permutation", begin_permutations(
            count, count_prompt_evaluations(count, settings), settings.seed
        )
    if settings.estimator in FACTORISED_ESTIMATORS:
        raise UserError(
            f"attribution.estimator: is for encoders of late fusion (got {settings.estimator!r} for a decoder); take"
            " permutation"
        )
    name = settings.estimator
    evaluations = count_prompt_evaluations(count, settings)
    if name == "auto":
        name = _choose_estimator(players, evaluations, settings.standard_error)
    estimation_settings = AttributionSettings(
        settings.fidelity, name, evaluations, settings.seed, settings.standard_error
    )
    return name, begin_estimation(
        name, count, players.n_text_players, estimation_settings, players.always_visible
    )


def _choose_estimator(
    players: DecoderPlayers, evaluations: int, standard_error: float | None
) -> str:
    """Return the estimator that `auto` takes for a prompt: `exact` if the budget allows it, else a
    sampler.
    """
    count = len(players)
    can_be_exact = count <= MAX_EXACT_PLAYERS and 2**count <= evaluations
    if can_be_exact and standard_error is None:
        return "exact"
    maskable_players = int((~players.always_visible).sum())
    return choose_sampler(maskable_players, count, evaluations)


def count_prompt_evaluations(count: int, settings: PromptSettings) -> int:
    """Return the maximum number of coalitions of a prompt.

    Args:
        count: Number of players of the prompt.
    Raises:
        UserError: No budget of `published` suffices.
    """
    if settings.fidelity.estimators:
        return choose_budget(count, settings.budgets)
    if settings.evaluations is not None:
        return settings.evaluations
    return settings.permutations * count_permutation_coalitions(count)


def _attribute_pieces(
    decoder: Decoder, game: PromptGame, settings: PromptSettings
) -> Attribution:
    """Return the Owen values of the pieces of a language model's prompt, computed by shap's
    partition explainer.
    """
    if decoder.reads_images:
        raise UserError(
            f"models.{decoder.spec.name}: the published code explains it with an image; name an image"
        )

    def compute_log_odds(texts: Sequence[str]) -> np.ndarray:
        value = settings.explained_value(decoder.reads_images)
        prompts = [decoder.build_prompt(text) for text in texts]
        return score_targets_in_batches(decoder, prompts, game.targets, value)

    pieces = compute_owen_values(
        game.text,
        decoder.tokenizer,
        compute_log_odds,
        seed=settings.seed,
        rows=settings.partition_rows,
        joins_tokens=settings.joins_tokens,
    )
    spans = _locate_pieces(pieces.pieces, game.text)
    text_slice = slice(0, len(pieces.pieces))
    return Attribution(
        instance=Instance(
            game.text, (), pieces.pieces, spans, game.targets, game.query_suffix
        ),
        tokens=pieces.pieces,
        spans=spans,
        text_slice=text_slice,
        players=None,
        estimate=pieces.estimate,
        estimator="partition",
        t_shap=measure_t_shap_of_outputs(
            pieces.estimate, text_slice, settings.fidelity, settings.min_contribution
        ),
        evaluated=pieces.evaluated,
        seed=settings.seed,
    )


def _locate_pieces(pieces: Sequence[str], text: str) -> tuple[Span, ...]:
    """Return the start and end of each piece in the text; empty spans if the joined pieces differ
    from the text.
    """
    # They differ where tokens were decoded one by one and joined by spaces.
    if "".join(pieces) != text:
        return (Span(start=0, end=0),) * len(pieces)
    spans = []
    start = 0
    for piece in pieces:
        spans.append(Span(start=start, end=start + len(piece)))
        start += len(piece)
    return tuple(spans)
