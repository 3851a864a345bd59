"""What `published` does in MM-SHAP and CC-SHAP: the rules and numbers of the released code, in one
place.

| step | `published`: the released code | `equations`: the thesis | field of `Fidelity` |
|---|---|---|---|
| items | those that the released scripts draw | a sample by seeded rank | `sampling` |
| text players | all token ids, special tokens too | tokens that are not special | `special_tokens_play` |
| masked token | id 0; of decoders the underscore | the model's mask or unknown token | `special_tokens_play` |
| patches | square, a remainder stays visible | every pixel lies in some patch | `special_tokens_play` |
| estimator of encoders | ten permutations with their reverses | any | `estimators` |
| estimator of VL decoders | permutations, as many as a budget holds | any | `estimators` |
| seed of an item | that of the run | its own, by data set and item | `estimator_seed` |
| language models | Owen values by shap's partition explainer | coalitions of tokens | `language_models` |
| explained token of a decoder | the first generated one | the label that the model chooses | `decoder_target` |
| its value | the logit where the first token is generated | its probability | `first_step_only` |
| several outputs in T-SHAP | magnitudes are added up | contribution ratios are averaged | `output_weights` |

The functions that build players stand next to the models (`models.encoders.coalitions`,
`models.decoders.coalitions`). The partition explainer is `shapley.partition`, T-SHAP `t_shap`.
docs/explanation/fidelity.md gives reasons and sizes.

Source:
    The released scripts of MM-SHAP, CC-SHAP and CC-SHAP-VLM (`fidelity.RELEASED_CODE`).
"""

import random
from collections.abc import Sequence

from waltz.core.errors import UserError
from waltz.fidelity import Fidelity

PUBLISHED_PERMUTATIONS = 10
"""Number of permutations of one explanation in the fork of `shap` that MM-SHAP was released with,
for every budget.
"""
BUDGETS = (600, 700, 800, 900)
"""Budgets of one prompt in the released scripts of CC-SHAP-VLM; the first that suffices for a
permutation is used.
"""
PUBLISHED_ROWS = 500
"""Number of texts (rows) that the partition explainer evaluates for one explanation in the released
CC-SHAP.
"""
PUBLISHED_PROBES = 50
"""Number of groups of CV-Probes in the paper, each with four conditions."""
PUBLISHED_SEED = 1520
"""Seed with which MM-SHAP's released scripts draw the items."""


def check_profile_estimator(estimator: str, fidelity: Fidelity) -> None:
    """Refuse an estimator that is not among the fixed estimators of a profile."""
    allowed = fidelity.estimators
    if estimator not in allowed:
        raise UserError(
            f"attribution.estimator: does not fit the profile {fidelity.name} (got {estimator!r}, expected"
            f" {' or '.join(allowed)}); take another profile"
        )


def count_permutation_coalitions(players: int) -> int:
    """Return the number of coalitions of one permutation with its reverse: 2 * players + 1.

    The walk goes from no player to all players and back; the coalition of all players is evaluated
    once.
    """
    return 2 * players + 1


def count_published_evaluations(players: int) -> int:
    """Return the number of evaluations in the released MM-SHAP scripts: ten permutations of 2 *
    players + 1 each.
    """
    return PUBLISHED_PERMUTATIONS * count_permutation_coalitions(players)


def choose_budget(players: int, budgets: Sequence[int] = BUDGETS) -> int:
    """Return the first budget that suffices for one permutation of the players.

    Raises:
        UserError: No budget suffices; the released code fails there too.
    """
    required = count_permutation_coalitions(players)
    for budget in budgets:
        if budget >= required:
            return budget
    tried_budgets = ", ".join(map(str, budgets))
    raise UserError(
        f"{players} players need {required} evaluations for one permutation, more than {tried_budgets}: the published"
        " code fails here; shorten the prompt, allow more evaluations, or take the profile equations"
    )


def select_published_sample(
    item_ids: Sequence[str], valid: Sequence[bool], n: int | None
) -> list[str]:
    """Select the items of one instrument that MM-SHAP's scripts for encoders attribute, in their
    order.

    The scripts set the seed for each instrument, draw from all its items, and then skip the items
    that annotators did not find valid. A draw of 100 items therefore gives fewer.

    Args:
        item_ids: All items of the instrument in the order of the released file.
        valid: For each item, whether at least two annotators chose the caption.
        n: Number of items to draw; None, or a number larger than the instrument, takes all items.
    Source:
        MM-SHAP's released scripts (`fidelity.RELEASED_CODE`).
    """
    positions: Sequence[int] = range(len(item_ids))
    if n is not None and n < len(item_ids):
        positions = random.Random(PUBLISHED_SEED).sample(positions, n)
    return [item_ids[position] for position in positions if valid[position]]
