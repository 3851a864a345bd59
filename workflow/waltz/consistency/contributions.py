"""What contributes to an item's answer and explanations, kept as soon as it is computed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from waltz.attribution.answers import fields
from waltz.attribution.shapley.estimate import Estimate
from waltz.consistency.cc_shap import CCShap, Contributions
from waltz.consistency.explained import Explained, Side, explained
from waltz.consistency.played import Part, Rules
from waltz.consistency.saying import KINDS, Speaking, Spoken, spoken
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.evaluation.prompting.generation_cache import Load
from waltz.evaluation.prompting.prompts import Voice, render
from waltz.evaluation.prompting.questions import Question
from waltz.models.decoders.decoder import Decoder, PreparedImage
from waltz.models.decoders.outcomes import FIRST_STEP
from waltz.models.registry import select_decisive_fields
from waltz.models.weights import compute_fingerprint

Row = dict[str, Any]
SLOW = ("llama2", "llama2-chat", "mistral", "mistral-chat", "gpt2")
"""Families whose tokenizers the released code loads without offsets, so that `shap` joins their tokens by blanks."""


@dataclass(frozen=True)
class Explaining:
    """A decoder whose answers and explanations are compared, in one profile and with one seed.

    Attributes:
        speaking: The decoder, and how it answers and explains.
        rules: Profile, seed and estimator.
        kinds: Kinds of explanation.
        stored: Folder of finished work.
    """

    speaking: Speaking
    rules: Rules
    kinds: tuple[str, ...] = KINDS
    stored: Path = Path(".store")

    @property
    def value(self) -> str:
        """What is explained of a token."""
        if self.rules.profile == "equations":
            return self.rules.value
        return FIRST_STEP if self.speaking.decoder.sees else "log-odds"


@dataclass(frozen=True, eq=False)
class Kept:
    """One item as it is kept.

    Attributes:
        kinds: By kind of explanation: `row`, columns of the layout `CC_SHAP`; `answer` and `explanation`, of which
            `columns` are of the attribution layout, `shared` the places of the shared players and `names` what those
            are. Of one that could not be explained, a row with its error alone.
        grid: Patches a side.
    """

    kinds: Mapping[str, Mapping[str, Any]]
    grid: int


def explaining(
    decoder: Decoder,
    voice: Voice,
    seed: int,
    given: Mapping[str, Any],
    tokens: Mapping[str, int],
    stored: Path,
) -> Explaining:
    """What a study says of CC-SHAP.

    Args:
        decoder: A loaded decoder.
        voice: How it is spoken to; its profile decides the rules.
        seed: Seed of permutations and draws.
        given: The study's `consistency.cc_shap`: permutations, value, kinds.
        tokens: The study's `consistency.tokens`.
        stored: Folder of finished work.
    """
    most = {"most_text": tokens.get("explanation", 100), "most_answer": tokens.get("answer", 10)}
    speaking = Speaking(decoder, voice, seed, **most)
    kinds = tuple(kind for kind in KINDS if kind in given.get("kinds", KINDS))
    if speaking.profile == "equations":
        rules = Rules(
            "equations", seed, permutations=given["permutations"], value=given.get("value", "log-probability")
        )
    else:
        rules = Rules("published", seed, tail=voice.tail, blanks=not decoder.sees and voice.family in SLOW)
    return Explaining(speaking, rules, kinds, stored)


def contributions_of(
    how: Explaining, question: Question, load: Load, words: str | None = None, grid: int | None = None
) -> Kept:
    """What contributes to one item's answer and explanations, computed or found again.

    Args:
        how: The decoder, profile and seed.
        question: The item.
        load: Opens images.
        words: The item's words where they were edited.
        grid: Patches a side; the item's own where None.
    Raises:
        UserError: There is no image or no answer.
    """
    decoder = how.speaking.decoder
    image = None if question.image is None else load(question.image)
    asked = [
        render(kind, question, how.speaking.voice, {"answer": "", **({} if words is None else {"input": words})}).text
        for kind in ("answer-attributed", "post-hoc", "cot-attributed")
    ]
    key = result_cache.compute_key(
        texts=asked,
        question=[question.item_id, question.role, question.labels],
        image=None if image is None else result_cache.compute_array_key(image.tobytes(), image.size),
        model=compute_fingerprint(decoder.spec),
        entry=select_decisive_fields(decoder.spec),
        device=decoder.device.partition(":")[0],
        code=digest(__file__, type(decoder).__module__),
        rules=asdict(how.rules),
        kinds=how.kinds,
        most=[how.speaking.seed, how.speaking.most_text, how.speaking.most_answer],
        grid=grid,
    )
    found = result_cache.load_json(how.stored, key)
    if found is None:
        picture = None if image is None else decoder.image(image)
        said = spoken(how.speaking, question, picture, how.kinds, words)
        made = {kind: _kept(how, said, kind, one) for kind, one in _explained(how, said, picture, grid).items()}
        sides = [one["answer"]["columns"]["grid"] for one in made.values() if "answer" in one]
        found = {"kinds": made, "grid": sides[0] if sides else 0}
        result_cache.save_json(how.stored, key, found)
    return Kept(found["kinds"], found["grid"])


def side_of(kept: Mapping[str, Any]) -> Contributions:
    """The contributions of one side of a kept item."""
    columns = kept["columns"]
    phi, base, value = (np.array(columns[name], dtype=np.float64) for name in ("phi", "base_value", "value"))
    return Contributions(Estimate(phi, base, value, columns["asked"]), np.array(kept["shared"], dtype=np.int64))


def _explained(
    how: Explaining, said: Spoken, picture: PreparedImage | None, grid: int | None
) -> dict[str, Explained | UserError]:
    """Answer and explanation of each kind, together where that can be, else one by one."""
    found: dict[str, Explained | UserError] = {}
    pairs: dict[str, tuple[Part, Part]] = {}
    for kind, pair in said.pairs.items():
        if isinstance(pair, UserError):
            found[kind] = pair
        else:
            pairs[kind] = pair
    decoder = how.speaking.decoder
    try:
        made = explained(decoder, picture, list(pairs.values()), how.rules, grid) if pairs else []
        return found | dict(zip(pairs, made, strict=True))
    except UserError as error:
        if len(pairs) == 1:
            return found | dict.fromkeys(pairs, error)
    for kind, pair in pairs.items():
        try:
            (found[kind],) = explained(decoder, picture, [pair], how.rules, grid)
        except UserError as error:
            found[kind] = error
    return found


def _kept(how: Explaining, said: Spoken, kind: str, found: Explained | UserError) -> Row:
    """One kind of explanation of one item, as it is kept."""
    decoder = how.speaking.decoder
    if isinstance(found, UserError):
        return {"row": {"answer": said.answer, "error": str(found)}}
    sides = {"answer": found.answer, "explanation": found.explanation}
    order = np.argsort(_places(found.answer))
    row = _cc_shap(found.cc_shap, order) | {
        "answer": said.answer,
        "explanation": decoder.said(found.explanation.part.targets),
        "evaluated": sum(side.played.evaluated for side in sides.values()),
    }
    if decoder.sees:
        for name, side in sides.items():
            row[f"t_shap_{name}"] = _or_null(side.t_shap.value)
            row[f"t_shap_{name}_se"] = _or_null(side.t_shap.standard_error)
    return {"row": row, **{name: _side(decoder, side, how.rules.seed) for name, side in sides.items()}}


def _cc_shap(found: CCShap, order: np.ndarray) -> Row:
    beside = found.companions
    names = ("correlation", "mse", "variance", "kl", "js")
    return {
        "value": found.value,
        "standard_error": found.standard_error,
        **{name: None if beside is None else getattr(beside, name) for name in names},
        "with_weak": found.with_weak,
        "weak_answer": found.weak_answer,
        "weak_explanation": found.weak_explanation,
        "ratios_answer": _listed(found.ratios_answer[order]),
        "ratios_explanation": _listed(found.ratios_explanation[order]),
        "reason": found.reason or found.standard_error_reason,
    }


def _side(decoder: Decoder, side: Side, seed: int) -> Row:
    """One side, text players before patches."""
    played = side.played
    words, shared = len(played.tokens), sorted(_places(side).tolist())
    grid = played.players.grid if played.players else 0
    ids = [played.players.prompt.ids[place] for place in played.players.positions] if played.players else played.tokens
    names = [ids[place] if place < words else list(divmod(place - words, grid)) for place in shared]
    columns = fields(
        played.estimate,
        played.text,
        side.t_shap,
        tokens=played.tokens,
        spans=played.spans,
        grid=grid,
        outputs=[decoder.said([token]) for token in side.part.targets],
        estimator=played.estimator,
        seed=seed,
    )
    return {
        "columns": {"text": side.part.text, **columns, "evaluated": played.evaluated},
        "shared": shared,
        "names": names,
    }


def _places(side: Side) -> np.ndarray:
    """Places of the shared players where text stands before patches, in the order in which they are compared."""
    players, words = len(side.played.estimate.phi), len(side.played.tokens)
    behind = players - words if side.played.text.start else 0
    places: np.ndarray = (side.contributions.shared - behind) % players
    return places


def _listed(ratios: np.ndarray) -> list[float | None]:
    return [_or_null(ratio) for ratio in ratios]


def _or_null(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
