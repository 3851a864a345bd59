"""Shapley values of prompts for what is said after them, under the rules of either profile (thesis 5.2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from waltz.attribution.prompt_games import BUDGETS, published_budget, published_players
from waltz.attribution.ratios import LEAST, Profile
from waltz.attribution.settings import Settings
from waltz.attribution.shapley.estimate import Estimate, Estimation, run_in_step
from waltz.attribution.shapley.estimators import begin_estimation
from waltz.attribution.shapley.partition import PUBLISHED_ROWS, compute_owen_values
from waltz.attribution.shapley.permutations import begin_permutations
from waltz.core.errors import UserError
from waltz.core.text_diff import Span
from waltz.models.decoders import players
from waltz.models.decoders.coalitions import Coalitions, Game
from waltz.models.decoders.decoder import Decoder, PreparedImage, Prompt
from waltz.models.decoders.outcomes import FIRST_STEP, scores_after
from waltz.models.decoders.players import Players

PERMUTATIONS = 4
"""Permutations of one explanation in `equations` where nobody says how many."""


@dataclass(frozen=True)
class Part:
    """A prompt, and what is said after it.

    Attributes:
        text: The rendered prompt, the image one placeholder.
        tail: Text that asks for just this answer or explanation (`prompts.Asked.counted`). In `equations` the prompt
            ends with it; in `published` only the number of its tokens counts, by the rule of the family.
        targets: Token ids of what is said, each an output; see `targets.target_ids`.
    """

    text: str
    tail: str
    targets: tuple[int, ...]

    @property
    def game(self) -> tuple[str, tuple[int, ...]]:
        """What its values depend on."""
        return self.text, self.targets


@dataclass(frozen=True)
class Rules:
    """What decides contributions beside model, image and prompts.

    Attributes:
        profile: `equations` or `published`.
        seed: Seed of the permutations (or of `shap`'s choice among equal splits), the same for each part.
        estimator: For `equations`, `permutation`, `exact`, another of `attribution.estimators.BY_MASKS`, or `auto`:
            exact where that takes no more coalitions.
        evaluations: For `equations`, most coalitions of a part; None takes `permutations`.
        permutations: For `equations`, permutations, each with its reverse.
        value: For `equations`, what is explained of a token: one of `outcomes.VALUES`.
        least: For `equations`, which tokens have next to no contribution: see `ratios.contributed`.
        budgets: For `published` with an image, most coalitions; the first number that does for a permutation.
        rows: For `published` without an image, rows of `shap`'s partition explainer.
        tail: For `published`, how the tokens of a tail are counted: `bare`, `less-two` or `two` (`prompts.Voice.tail`);
            None takes `less-two` with an image and `bare` without.
        masked_id: For `published` with an image, id of a masked token; None takes the entry's, else the underscore's.
        kept_ids: For `published` with an image, ids that are never masked; None takes the special ones and a blank.
        blanks: For `published` without an image, whether tokens are joined by blanks (see `partition`).
    """

    profile: Profile
    seed: int = 0
    estimator: str = "auto"
    evaluations: int | None = None
    permutations: int = PERMUTATIONS
    value: str = "log-probability"
    least: float = LEAST
    budgets: tuple[int, ...] = BUDGETS
    rows: int = PUBLISHED_ROWS
    tail: str | None = None
    masked_id: int | None = None
    kept_ids: tuple[int, ...] | None = None
    blanks: bool = False


@dataclass(frozen=True, eq=False)
class Played:
    """What the players of one prompt contribute, whatever it is compared with.

    Attributes:
        tokens: Tokens of the text players.
        spans: Characters of the prompt that each stands for; empty where that is not known.
        text: Places of the text players.
        players: Who plays; None where `shap`'s pieces of the text do.
        estimate: Shapley values of shape (players, outputs).
        estimator: Name of the estimator.
        evaluated: Distinct inputs that were read for it.
    """

    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    text: slice
    players: Players | None
    estimate: Estimate
    estimator: str
    evaluated: int


Games = dict[tuple[str, tuple[int, ...]], Played]
"""By `Part.game`."""


def played(
    decoder: Decoder,
    picture: PreparedImage | None,
    pairs: Sequence[tuple[Part, Part]],
    rules: Rules,
    grid: int | None,
) -> Games:
    """The values of all parts, each computed once; arguments and errors are those of `explained.explained`."""
    parts = {part.game: part for pair in pairs for part in pair}
    if rules.profile == "equations":
        return _by_equations(decoder, picture, [part for pair in pairs for part in pair], rules, grid)
    if picture is None:
        return {game: _in_pieces(decoder, part, rules) for game, part in parts.items()}
    return _as_published(decoder, picture, pairs, rules, grid)


def _by_equations(
    decoder: Decoder, picture: PreparedImage | None, parts: Sequence[Part], rules: Rules, grid: int | None
) -> Games:
    positions = _shared_positions(parts, [decoder.prompt(part.text) for part in parts])
    games = {}
    for part in {part.game: part for part in parts}.values():
        who = players.build_equations_players(
            decoder, decoder.prompt(part.text), picture, positions=positions, grid=grid
        )
        games[part.game] = Game(who, part.targets, rules.value)
    name, settings = _estimator(max(len(game.players) for game in games.values()), rules)
    begun = [begin_estimation(name, len(game.players), game.players.words, settings) for game in games.values()]
    return _estimated(decoder, picture, games, begun, name)


def _estimator(count: int, rules: Rules) -> tuple[str, Settings]:
    """The estimator of a game of so many players, and its settings."""
    evaluations = rules.permutations * (2 * count + 1) if rules.evaluations is None else rules.evaluations
    name = rules.estimator
    if name == "auto":
        name = "exact" if 2**count <= evaluations else "permutation"
    return name, Settings("equations", name, evaluations, rules.seed)


def _shared_positions(parts: Sequence[Part], prompts: Sequence[Prompt]) -> tuple[int, ...]:
    """Places of the tokens, special ones apart, with which all prompts begin, before any tail."""
    strange = next((part for part in parts if not part.text.endswith(part.tail)), None)
    if strange is not None:
        raise UserError(
            f"prompt {strange.text[-40:]!r}: does not end with its tail {strange.tail[-40:]!r}; give its end"
        )
    ends = [len(part.text) - len(part.tail) for part in parts]
    found: list[int] = []
    for place, ids in enumerate(zip(*(prompt.ids for prompt in prompts), strict=False)):
        if len(set(ids)) > 1 or any(
            prompt.spans[place]["end"] > end for prompt, end in zip(prompts, ends, strict=True)
        ):
            break
        if not prompts[0].special[place]:
            found.append(place)
    if not found:
        raise UserError(
            f"prompts {parts[0].text[:30]!r}... and {parts[-1].text[:30]!r}... share no tokens before their tails, so"
            " there is nothing to compare; begin both with the question"
        )
    return tuple(found)


def _as_published(
    decoder: Decoder, picture: PreparedImage, pairs: Sequence[tuple[Part, Part]], rules: Rules, grid: int | None
) -> Games:
    games: dict[tuple[str, tuple[int, ...]], Game] = {}
    for answer, explanation in pairs:
        side = grid or math.ceil(math.sqrt(len(decoder.prompt(answer.text).ids)))
        for part in (answer, explanation):
            if part.game not in games:
                prompt = decoder.prompt(part.text)
                who = published_players(
                    decoder, prompt, picture, masked_id=rules.masked_id, kept_ids=rules.kept_ids, grid=side
                )
                games[part.game] = Game(who, part.targets, FIRST_STEP)
    counts = [len(game.players) for game in games.values()]
    begun = [begin_permutations(count, published_budget(count, rules.budgets), rules.seed) for count in counts]
    return _estimated(decoder, picture, games, begun, "permutation")


def _estimated(
    decoder: Decoder,
    picture: PreparedImage | None,
    games: dict[tuple[str, tuple[int, ...]], Game],
    begun: list[Estimation],
    name: str,
) -> Games:
    """The values of games, whose estimations advance in step."""
    table = Coalitions(decoder, picture, list(games.values()))
    estimates = run_in_step(begun, table.values)
    found = {}
    for (key, game), estimate, known in zip(games.items(), estimates, table.known, strict=True):
        who = game.players
        tokens = tuple(who.prompt.tokens[place] for place in who.positions)
        spans = tuple(who.prompt.spans[place] for place in who.positions)
        found[key] = Played(tokens, spans, who.text, who, estimate, name, len(known))
    return found


def _in_pieces(decoder: Decoder, part: Part, rules: Rules) -> Played:
    """A part of a language model by `shap`'s partition explainer."""
    tokenizer: Any = getattr(decoder, "tokenizer", None)
    if tokenizer is None:
        raise UserError(f"models.{decoder.spec.name}: the published code explains it beside an image; name an image")

    def log_odds(texts: Sequence[str]) -> np.ndarray:
        return scores_after(decoder, [decoder.prompt(text) for text in texts], part.targets, "log-odds")

    found = compute_owen_values(part.text, tokenizer, log_odds, seed=rules.seed, rows=rules.rows, blanks=rules.blanks)
    ends = np.cumsum([len(piece) for piece in found.pieces]).tolist()
    spans = tuple(Span(start=end - len(piece), end=end) for piece, end in zip(found.pieces, ends, strict=True))
    if "".join(found.pieces) != part.text:
        spans = (Span(start=0, end=0),) * len(found.pieces)
    text = slice(0, len(found.pieces))
    return Played(found.pieces, spans, text, None, found.estimate, "partition", found.read)
