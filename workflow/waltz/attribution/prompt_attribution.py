"""Shapley values of a decoder's prompts: one engine for MM-SHAP of decoders, CC-SHAP and `waltz explain`.

A game is a decoder's prompt, its image if there is one, and the tokens generated after it: the targets, each an output.
The tokens of the prompt and patches of the image are the players, by the rules of a profile (thesis 4.3, 5.2).
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from waltz.attribution.shapley.estimate import AttributionSettings, Estimate, Estimation, run_in_step, to_null
from waltz.attribution.shapley.estimators import (
    FACTORISED_ESTIMATORS,
    MAX_EXACT_PLAYERS,
    begin_estimation,
    begin_permutations,
    check_profile_estimator,
    choose_sampler,
)
from waltz.attribution.shapley.interactions import estimate_interactions
from waltz.attribution.shapley.partition import PUBLISHED_ROWS, compute_owen_values
from waltz.attribution.t_shap import MIN_CONTRIBUTION, TShap, measure_t_shap_of_outputs
from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.fidelity import Fidelity, Profile, get_fidelity
from waltz.models.batches import ProgressCallback, ignore_progress
from waltz.models.decoders.coalitions import Coalitions, Game, Players, build_equations_players, build_published_players
from waltz.models.decoders.continuations import FIRST_STEP, score_targets_in_batches
from waltz.models.decoders.decoder import SPACE, Decoder, PreparedImage

PROBABILITY = "probability"
"""The explained value of a token in `equations` where a study names no other (thesis 4.3.2)."""
PERMUTATIONS = 4
"""Permutations of one prompt in CC-SHAP with `equations` where a study gives no number."""
Regroup = Callable[[Players], Players]
"""From the players of a prompt to players of the user's own."""
BUDGETS = (600, 700, 800, 900)
"""Budgets of one prompt in the released scripts of CC-SHAP-VLM: the first that suffices for a permutation is used."""


@dataclass(frozen=True)
class PromptGame:
    """A prompt with the tokens after it that are explained.

    Attributes:
        text: The rendered prompt, the image one placeholder.
        query_suffix: Text that asks for this answer or explanation; CC-SHAP does not compare its tokens. In `equations`
            the prompt ends with it; in `published` only the number of its tokens counts, by the rule of the family.
        targets: Token ids of the generated text, each an output.
        positions: Positions of the text players, for `equations`; None takes all tokens that are not special.
        grid: Patches on a side; None takes ceil(sqrt(n)) of the text players.
    """

    text: str
    query_suffix: str
    targets: tuple[int, ...]
    positions: tuple[int, ...] | None = None
    grid: int | None = None


@dataclass(frozen=True)
class PromptSettings:
    """Settings of the attribution of prompts.

    Attributes:
        seed: Seed of the permutations (or of shap's choice among equal splits), the same for each prompt.
        estimator: For `equations`, a name in `estimators.COALITION_ESTIMATORS`, or `auto`: exact values where they take
            no more coalitions.
        evaluations: For `equations`, most coalitions of a prompt; None takes those of `permutations`.
        permutations: For `equations`, number of permutations, each with its reverse, whose coalitions are the budget.
        standard_error: For `equations`, standard error of T-SHAP, a share, at which sampling stops; None uses all
            evaluations.
        value: For `equations`, the explained value of a token: a key of `continuations.OUTCOMES`.
        min_contribution: For `equations`, see `t_shap.find_contributing_outputs`.
        budgets: For `published` with an image, numbers of coalitions; the first that suffices is used.
        partition_rows: For `published` without an image, rows of shap's partition explainer.
        suffix_rule: For `published`, how the tokens of a query suffix are counted: `bare`, `less-two` or `two`; None
            takes `less-two` with an image and `bare` without.
        masked_id: For `published` with an image, id of a masked token; None takes the entry's, else the underscore's.
        unmasked_ids: For `published` with an image, ids that are never masked; None takes special tokens and a space.
        joins_tokens: For `published` without an image, whether shap joins tokens by spaces (see `partition`).
    """

    profile: Profile
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

    @property
    def fidelity(self) -> Fidelity:
        """Rules of the profile."""
        return get_fidelity(self.profile)

    def explained_value(self, sees: bool) -> str:
        """Return the explained value of a token of a decoder that reads images or does not."""
        if not self.fidelity.first_step_only:
            return self.value
        return FIRST_STEP if sees else "log-odds"

    def build_key(self) -> dict[str, Any]:
        """Return the settings of CC-SHAP under the names that keys of stored results have."""
        settings = asdict(self)
        del settings["standard_error"]
        stored = {
            "min_contribution": "least",
            "partition_rows": "rows",
            "suffix_rule": "tail",
            "unmasked_ids": "kept_ids",
            "joins_tokens": "blanks",
        }
        return {stored.get(name, name): value for name, value in settings.items()}


@dataclass(frozen=True, eq=False)
class PromptAttribution:
    """Shapley values of one prompt.

    Attributes:
        tokens: Tokens of the text players, or pieces of the text where shap's partition explainer cut it.
        spans: Characters of the prompt that each stands for; empty where they are not known.
        text: Text players among all players.
        players: The players; None where pieces of the text are.
        estimate: Shapley values of shape (players, outputs).
        t_shap: Share of the text: 1 without an image.
        evaluated: Distinct inputs among the coalitions.
        without_text: Value of each output where all text is masked; None where it was not computed.
        without_image: Value where all patches are masked.
        interactions: Shapley interaction indices of text players with image players, float64 of shape (words, patches,
            outputs); None where they were not requested.
    """

    game: PromptGame
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    text: slice
    players: Players | None
    estimate: Estimate
    estimator: str
    t_shap: TShap
    evaluated: int
    without_text: np.ndarray | None = None
    without_image: np.ndarray | None = None
    interactions: np.ndarray | None = None

    @property
    def grid(self) -> int:
        """Patches on a side; 0 without an image."""
        return 0 if self.players is None else self.players.grid

    @property
    def token_ids(self) -> Sequence[Hashable]:
        """Ids of the text players, or the pieces themselves, by which prompts are compared."""
        if self.players is None:
            return self.tokens
        ids = self.players.prompt.ids
        if self.players.groups is None:
            return [ids[position] for position in self.players.positions]
        return [tuple(ids[position] for position in positions) for positions in self.players.list_positions()]


def attribute_prompts(
    decoder: Decoder,
    picture: PreparedImage | None,
    games: Sequence[PromptGame],
    settings: PromptSettings,
    known_values: Sequence[dict[bytes, np.ndarray]] | None = None,
    ablate: bool = False,
    regroup: Regroup | None = None,
    interactions: bool = False,
    progress: ProgressCallback = ignore_progress,
) -> list[PromptAttribution]:
    """Return the Shapley values of prompts that show one image, or none, for the tokens generated after each.

    Estimations of all games advance in step, and games whose patches are the same share masked images.

    Args:
        picture: Prepared by `decoder.prepare_image`, or None.
        games: Distinct prompts with their targets.
        settings: Profile, seed and estimator. `published` explains logits of the first step of decoders that read
            images, and explains language models by shap's partition explainer.
        known_values: For each game, values of coalitions by what is visible; new ones are added.
        ablate: Whether values without the text and without the image are computed too.
        regroup: From the players of the profile to players of the user's own.
        interactions: Whether interactions between text and image players are computed too, for `equations`.
        progress: Called with the number of coalitions that are done.
    Raises:
        UserError: A prompt is longer than the model reads, or the evaluations do not suffice.
    Source:
        Thesis 4.3 and 5.2; the released scripts of CC-SHAP and CC-SHAP-VLM (`published`).
    """
    if interactions and settings.fidelity.estimators:
        raise UserError(f"interactions: profile {settings.profile} defines none; take profile equations")
    if picture is None and settings.fidelity.language_models == "partition":
        if regroup is not None:
            raise UserError("players: the published code cuts a language model's text itself; take profile equations")
        return [_attribute_pieces(decoder, game, settings) for game in games]
    players = [build_players(decoder, game, picture, settings) for game in games]
    if regroup is not None:
        players = [regroup(own) for own in players]
    value = settings.explained_value(decoder.reads_images)
    coalitions = Coalitions(
        decoder, picture, [Game(own, game.targets, value) for own, game in zip(players, games, strict=True)]
    )
    coalitions.progress = progress
    if known_values is not None:
        coalitions.known = list(known_values)
    estimations = [begin_prompt_estimation(own, settings) for own in players]
    estimates = run_in_step([estimation for _, estimation in estimations], coalitions.values)
    evaluated = [len(requested) for requested in coalitions.requested]
    halves: Sequence[Sequence[np.ndarray | None]] = [(None, None)] * len(games)
    if ablate:
        halves = [list(values) for values in coalitions.values([_build_halves(own) for own in players])]
    labels = [own.label_text(own.prompt.tokens, own.prompt.spans) for own in players]
    cross: Sequence[np.ndarray | None] = [None] * len(games)
    if interactions:
        counts, budgets = [len(own) for own in players], [settings.evaluations] * len(players)
        every = estimate_interactions(coalitions.values, counts, budgets, settings.seed)
        cross = [pairs[own.text, own.image] for own, pairs in zip(players, every, strict=True)]
    return [
        PromptAttribution(
            game=game,
            tokens=tokens,
            spans=spans,
            text=own.text,
            players=own,
            estimate=estimate,
            estimator=name,
            t_shap=measure_t_shap_of_outputs(estimate, own.text, settings.profile, settings.min_contribution),
            evaluated=count,
            without_text=without_text,
            without_image=without_image,
            interactions=pairs,
        )
        for game, own, (tokens, spans), (name, _), estimate, count, (without_text, without_image), pairs in zip(
            games, players, labels, estimations, estimates, evaluated, halves, cross, strict=True
        )
    ]


def build_players(
    decoder: Decoder, game: PromptGame, picture: PreparedImage | None, settings: PromptSettings
) -> Players:
    """Return the players of a prompt by the rules of a profile.

    Source:
        Thesis 4.3; CC-SHAP-VLM's released scripts, whose masks and unmasked ids are those of its models' tokenizers.
    """
    prompt = decoder.build_prompt(game.text)
    if not settings.fidelity.special_tokens_play:
        return build_equations_players(decoder, prompt, picture, positions=game.positions, grid=game.grid)
    masked_id, unmasked_ids = settings.masked_id, settings.unmasked_ids
    if masked_id is None:
        masked_id = decoder.masked_id if decoder.spec.masked_token else decoder.published_masked_id
    if unmasked_ids is None:
        tokens = zip(prompt.ids, prompt.tokens, prompt.special, strict=True)
        unmasked_ids = tuple(token_id for token_id, token, special in tokens if special or token == SPACE)
    return build_published_players(
        decoder,
        prompt,
        picture,
        masked_id=masked_id,
        unmasked_ids=unmasked_ids,
        grid=game.grid,
        raw=picture is not None and (picture.pixels.ndim != 4 or len(picture.pixels) != 1),
    )


def begin_prompt_estimation(players: Players, settings: PromptSettings) -> tuple[str, Estimation]:
    """Return the estimator's name and an estimation of the values of a prompt's players, not begun.

    `auto` takes exact values where they take no more coalitions than are allowed, unless a standard error is wanted. In
    `published` the budget is that of the released scripts.

    Raises:
        UserError: The estimator does not fit the profile or a decoder, or the evaluations do not suffice.
    """
    count, name = len(players), settings.estimator
    if settings.fidelity.estimators:
        check_profile_estimator(name, settings.profile)
        return "permutation", begin_permutations(count, count_prompt_evaluations(count, settings), settings.seed)
    if name in FACTORISED_ESTIMATORS:
        raise UserError(
            f"attribution.estimator: is for encoders of late fusion (got {name!r} for a decoder); take permutation"
        )
    evaluations = count_prompt_evaluations(count, settings)
    if name == "auto":
        is_small = count <= MAX_EXACT_PLAYERS and 2**count <= evaluations
        free = int((~players.always_visible).sum())
        name = "exact" if is_small and settings.standard_error is None else choose_sampler(free, count, evaluations)
    own_settings = AttributionSettings(settings.profile, name, evaluations, settings.seed, settings.standard_error)
    return name, begin_estimation(name, count, players.words, own_settings, players.always_visible)


def count_prompt_evaluations(count: int, settings: PromptSettings) -> int:
    """Return the most coalitions of a prompt with this number of players.

    Raises:
        UserError: No budget of `published` suffices.
    """
    if settings.fidelity.estimators:
        return choose_budget(count, settings.budgets)
    if settings.evaluations is not None:
        return settings.evaluations
    return settings.permutations * (2 * count + 1)


def choose_budget(count: int, budgets: Sequence[int] = BUDGETS) -> int:
    """Return the first budget that suffices for one permutation of the players.

    Raises:
        UserError: None suffices; the released code fails there.
    """
    least = 2 * count + 1
    budget = next((budget for budget in budgets if budget >= least), None)
    if budget is None:
        tried = ", ".join(map(str, budgets))
        raise UserError(
            f"{count} players need {least} evaluations for one permutation, more than {tried}: the published code fails"
            " here; shorten the prompt, allow more evaluations, or take the profile equations"
        )
    return budget


def build_columns(decoder: Decoder, attribution: PromptAttribution, seed: int) -> dict[str, Any]:
    """Return columns of the layout `ATTRIBUTION`: text players before patches, whatever their order in the game."""
    estimate, text, t_shap = attribution.estimate, attribution.text, attribution.t_shap
    columns = {
        "outputs": [decoder.decode_text([token]) for token in attribution.game.targets],
        "score": float(estimate.value[0]) if len(estimate.value) == 1 else None,
        "tokens": list(attribution.tokens),
        "spans": [{"start": span["start"], "end": span["end"]} for span in attribution.spans],
        "grid": attribution.grid,
        "phi": np.concatenate([estimate.phi[text], np.delete(estimate.phi, text, axis=0)]).tolist(),
        "base_value": estimate.base_value.tolist(),
        "value": estimate.value.tolist(),
        "t_shap": to_null(t_shap.value),
        "t_shap_se": to_null(t_shap.standard_error),
        "reason": t_shap.reason,
        "estimator": attribution.estimator,
        "budget": estimate.requested,
        "evaluated": attribution.evaluated,
        "residual": estimate.residual,
        "seed": seed,
    }
    if attribution.without_text is not None and attribution.without_image is not None:
        columns["without_text"] = attribution.without_text.tolist()
        columns["without_image"] = attribution.without_image.tolist()
    return columns


def _attribute_pieces(decoder: Decoder, game: PromptGame, settings: PromptSettings) -> PromptAttribution:
    """Return the Owen values of a language model's prompt by shap's partition explainer."""
    if decoder.reads_images:
        raise UserError(f"models.{decoder.spec.name}: the published code explains it with an image; name an image")

    def compute_log_odds(texts: Sequence[str]) -> np.ndarray:
        value = settings.explained_value(decoder.reads_images)
        return score_targets_in_batches(decoder, [decoder.build_prompt(text) for text in texts], game.targets, value)

    pieces = compute_owen_values(
        game.text,
        decoder.tokenizer,
        compute_log_odds,
        seed=settings.seed,
        rows=settings.partition_rows,
        joins_tokens=settings.joins_tokens,
    )
    ends = np.cumsum([len(piece) for piece in pieces.pieces]).tolist()
    spans = tuple(Span(start=end - len(piece), end=end) for piece, end in zip(pieces.pieces, ends, strict=True))
    if "".join(pieces.pieces) != game.text:
        spans = (Span(start=0, end=0),) * len(pieces.pieces)
    text = slice(0, len(pieces.pieces))
    return PromptAttribution(
        game=game,
        tokens=pieces.pieces,
        spans=spans,
        text=text,
        players=None,
        estimate=pieces.estimate,
        estimator="partition",
        t_shap=measure_t_shap_of_outputs(pieces.estimate, text, settings.profile, settings.min_contribution),
        evaluated=pieces.evaluated,
    )


def _build_halves(players: Players) -> np.ndarray:
    """Return two coalitions: all patches, and all text players."""
    masks = np.zeros((2, len(players)), dtype=bool)
    masks[0, players.image] = True
    masks[1, players.text] = True
    return masks
