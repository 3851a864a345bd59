"""The game that a decoder's prompt is in each profile: who plays, and what estimates the Shapley values."""

from collections.abc import Collection, Sequence

from waltz.attribution.settings import Settings
from waltz.attribution.shapley.estimate import Estimation
from waltz.attribution.shapley.estimators import FACTORISED_ESTIMATORS, begin_estimation
from waltz.attribution.shapley.exact import MAX_PLAYERS
from waltz.attribution.shapley.permutations import begin_permutations, count_published_evaluations
from waltz.core.errors import UserError
from waltz.models.decoders import players
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt
from waltz.models.decoders.players import Players
from waltz.models.decoders.prompts import UNDERSCORE

BUDGETS = (600, 700, 800, 900)
"""Most coalitions of one explanation in the released scripts of CC-SHAP-VLM: the first that do for a permutation."""
BLANK = "▁"
"""A blank by itself, as SentencePiece spells it."""


def published_players(
    decoder: Decoder,
    prompt: Prompt,
    picture: PreparedImage,
    *,
    masked_id: int | None = None,
    kept_ids: Collection[int] | None = None,
    grid: int | None = None,
) -> Players:
    """The players of the released scripts for any model that sees.

    Args:
        decoder: The model.
        prompt: The prompt.
        picture: Its image; patches of one that is no single tile are blackened in the raw image.
        masked_id: Id of a masked token; None takes the entry's, else the underscore's.
        kept_ids: Ids that are never masked; None takes the special ones and a blank by itself.
        grid: Patches a side; None takes ceil(sqrt(n)) of the prompt's ids.
    Source:
        CC-SHAP-VLM's released scripts, whose masks and kept ids are those of its models' tokenizers.
    """
    if masked_id is None:
        masked_id = decoder.masked_id if decoder.spec.masked_token else decoder.prompt(UNDERSCORE).ids[-1]
    if kept_ids is None:
        marked = zip(prompt.ids, prompt.tokens, prompt.special, strict=True)
        kept_ids = {one for one, token, special in marked if special or token == BLANK}
    raw = picture.pixels.ndim != 4 or len(picture.pixels) != 1
    return players.build_published_players(
        decoder, prompt, picture, masked_id=masked_id, unmasked_ids=kept_ids, grid=grid, raw=raw
    )


def published_budget(count: int, budgets: Sequence[int] = BUDGETS) -> int:
    """The first budget that does for a permutation of so many players.

    Raises:
        UserError: None does; the released code fails there.
    """
    least = 2 * count + 1
    found = next((budget for budget in budgets if budget >= least), None)
    if found is None:
        tried = ", ".join(map(str, budgets))
        raise UserError(
            f"{count} players need {least} evaluations for one permutation, more than {tried}: the published code fails"
            " here; shorten the prompt, allow more evaluations, or take the profile equations"
        )
    return found


def estimation_of(players: Players, settings: Settings) -> tuple[str, Estimation]:
    """An estimation of the values of a prompt's players, not begun, and its estimator's name.

    `auto` takes the exact values where they take no more coalitions than are allowed, unless a standard error is
    wanted. In `published` the budget is the released scripts' own.

    Raises:
        UserError: The estimator does not fit the profile or a decoder, or the evaluations do not do.
    """
    count = len(players)
    if settings.profile == "published":
        if settings.estimator not in ("auto", "permutation"):
            raise UserError(f"attribution.estimator: profile published draws permutations, not {settings.estimator!r}")
        return "permutation", begin_permutations(count, published_budget(count), settings.seed)
    name = settings.estimator
    if name in FACTORISED_ESTIMATORS:
        raise UserError(f"attribution.estimator: {name} is for encoders of late fusion; a decoder takes permutation")
    if name == "auto":
        allowed = settings.evaluations or count_published_evaluations(count)
        few = count <= MAX_PLAYERS and 2**count <= allowed
        name = "exact" if few and settings.standard_error is None else "permutation"
    return name, begin_estimation(name, count, players.words, settings)
