"""Attributions of one item's answer and explanations, stored as soon as they are computed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from waltz.attribution.prompt_attribution import (
    LOG_PROBABILITY,
    AttributionColumns,
    PromptSettings,
    build_columns,
)
from waltz.attribution.shapley.estimate import Estimate, to_null
from waltz.consistency.cc_shap.dialogue import (
    EXPLANATION_KINDS,
    MAX_ANSWER_TOKENS,
    MAX_EXPLANATION_TOKENS,
    Dialogue,
    GeneratedPairs,
    apply_family_rules,
    generate_pairs,
)
from waltz.consistency.cc_shap.measure import CCShap, SharedEstimate
from waltz.consistency.cc_shap.pair_attribution import Pair, PairAttribution, SideAttribution, attribute_pairs
from waltz.core.digest import digest
from waltz.core.errors import UserError
from waltz.core.files import result_cache
from waltz.evaluation.prompting.generation_cache import LoadImage
from waltz.evaluation.prompting.prompts import PromptTemplate, render_prompt
from waltz.evaluation.prompting.questions import Question
from waltz.model_registry import compute_fingerprint, select_decisive_fields
from waltz.models.decoders.decoder import Decoder, PreparedImage


@dataclass(frozen=True)
class CCShapSetup:
    """A decoder whose answers and explanations are compared, in one profile and with one seed.

    Attributes:
        dialogue: The decoder and its prompts.
        settings: Profile, seed and estimator.
        kinds: Kinds of explanation.
        stored: Folder of stored results.
    """

    dialogue: Dialogue
    settings: PromptSettings
    kinds: tuple[str, ...] = EXPLANATION_KINDS
    stored: Path = Path(".store")

    @property
    def explained(self) -> str:
        """Explained value of a token."""
        return self.settings.explained_value(self.dialogue.decoder.reads_images)


class StoredSide(TypedDict):
    """Attribution of an answer or an explanation, as it is stored.

    Attributes:
        columns: Columns of the attribution layout.
        shared: Numbers of the shared players among these, text players first.
        names: Identities of the shared players: token ids or pieces; [row, column] of patches.
    """

    columns: AttributionColumns
    shared: list[int]
    names: list[Any]


class StoredPair(TypedDict, total=False):
    """One kind of explanation with its answer, as it is stored.

    Attributes:
        row: Columns of the layout `CC_SHAP`; with an error alone where there is no attribution.
        answer: Attribution of the answer.
        explanation: Attribution of the explanation.
    """

    row: dict[str, Any]
    answer: StoredSide
    explanation: StoredSide


@dataclass(frozen=True, eq=False)
class ItemAttributions:
    """One item as it is stored.

    Attributes:
        kinds: Attributions by kind of explanation.
        grid: Patches on a side.
    """

    kinds: Mapping[str, StoredPair]
    grid: int


def build_setup(
    decoder: Decoder,
    template: PromptTemplate,
    seed: int,
    cc_shap: Mapping[str, Any],
    tokens: Mapping[str, int],
    stored: Path,
) -> CCShapSetup:
    """Return the setup that a study describes.

    Args:
        decoder: A loaded decoder.
        template: Its prompts, whose profile decides the rules.
        seed: Seed of permutations and draws.
        cc_shap: The study's `consistency.cc_shap`: permutations, value, kinds.
        tokens: The study's `consistency.tokens`.
        stored: Folder of stored results.
    """
    dialogue = Dialogue(
        decoder,
        template,
        seed,
        tokens.get("explanation", MAX_EXPLANATION_TOKENS),
        tokens.get("answer", MAX_ANSWER_TOKENS),
    )
    kinds = tuple(kind for kind in EXPLANATION_KINDS if kind in cc_shap.get("kinds", EXPLANATION_KINDS))
    settings = PromptSettings(dialogue.fidelity.name, seed)
    if dialogue.fidelity.estimators:
        settings = apply_family_rules(settings, decoder, template)
    else:
        settings = PromptSettings(
            dialogue.fidelity.name,
            seed,
            permutations=cc_shap["permutations"],
            value=cc_shap.get("value", LOG_PROBABILITY),
        )
    return CCShapSetup(dialogue, settings, kinds, stored)


def load_or_attribute_item(
    setup: CCShapSetup, question: Question, load: LoadImage, item_text: str | None = None, grid: int | None = None
) -> ItemAttributions:
    """Return the attributions of one item's answer and explanations, computed or stored.

    Args:
        setup: The decoder, profile and seed.
        question: The item.
        load: Opens images.
        item_text: The item's text where it was edited.
        grid: Patches on a side; the item's own where None.
    Raises:
        UserError: There is no image or no answer.
    """
    dialogue, decoder = setup.dialogue, setup.dialogue.decoder
    image = None if question.image is None else load(question.image)
    fields = {"answer": ""} if item_text is None else {"answer": "", "input": item_text}
    content = {
        "texts": [
            render_prompt(kind, question, dialogue.template, fields).text
            for kind in ("answer-attributed", "post-hoc", "cot-attributed")
        ],
        "question": [question.item_id, question.role, question.labels],
        "image": None if image is None else result_cache.compute_array_key(image.tobytes(), image.size),
        "model": compute_fingerprint(decoder.spec),
        "entry": select_decisive_fields(decoder.spec),
        "device": decoder.device.partition(":")[0],
        "code": digest(__file__, type(decoder).__module__),
        "rules": setup.settings.build_key(),
        "kinds": setup.kinds,
        "most": [dialogue.seed, dialogue.max_explanation, dialogue.max_answer],
        "grid": grid,
    }

    def compute() -> dict[str, Any]:
        picture = None if image is None else decoder.prepare_image(image)
        generated = generate_pairs(dialogue, question, picture, setup.kinds, item_text)
        attributions = _attribute_kinds(setup, generated, picture, grid)
        kinds = {kind: _build_stored_pair(setup, generated, pair) for kind, pair in attributions.items()}
        grids = [pair["answer"]["columns"]["grid"] for pair in kinds.values() if "answer" in pair]
        return {"kinds": kinds, "grid": grids[0] if grids else 0}

    item = result_cache.load_or_compute_json(setup.stored, content, compute)
    return ItemAttributions(item["kinds"], item["grid"])


def read_side(side: StoredSide) -> SharedEstimate:
    """Return the values of one side of a stored item."""
    columns = side["columns"]
    estimate = Estimate(
        np.array(columns["phi"], dtype=np.float64),
        np.array(columns["base_value"], dtype=np.float64),
        np.array(columns["value"], dtype=np.float64),
        columns["budget"],
    )
    return SharedEstimate(estimate, np.array(side["shared"], dtype=np.int64))


def _attribute_kinds(
    setup: CCShapSetup, generated: GeneratedPairs, picture: PreparedImage | None, grid: int | None
) -> dict[str, PairAttribution | UserError]:
    """Return the attributions of each kind, computed together where that is possible, else one by one."""
    attributions: dict[str, PairAttribution | UserError] = {}
    pairs: dict[str, Pair] = {}
    for kind, pair in generated.pairs.items():
        if isinstance(pair, UserError):
            attributions[kind] = pair
        else:
            pairs[kind] = pair
    decoder = setup.dialogue.decoder
    try:
        joint = attribute_pairs(decoder, picture, list(pairs.values()), setup.settings, grid) if pairs else []
        return attributions | dict(zip(pairs, joint, strict=True))
    except UserError as error:
        if len(pairs) == 1:
            return attributions | dict.fromkeys(pairs, error)
    for kind, pair in pairs.items():
        try:
            (attributions[kind],) = attribute_pairs(decoder, picture, [pair], setup.settings, grid)
        except UserError as error:
            attributions[kind] = error
    return attributions


def _build_stored_pair(setup: CCShapSetup, generated: GeneratedPairs, pair: PairAttribution | UserError) -> StoredPair:
    """Return one kind of explanation of one item, as it is stored."""
    decoder = setup.dialogue.decoder
    if isinstance(pair, UserError):
        return {"row": {"answer": generated.answer, "error": str(pair)}}
    order = np.argsort(_renumber_shared(pair.answer))
    row = _build_cc_shap_columns(pair.cc_shap, order) | {
        "answer": generated.answer,
        "explanation": decoder.decode_text(pair.explanation.attribution.game.targets),
        "evaluated": pair.answer.attribution.evaluated + pair.explanation.attribution.evaluated,
    }
    if decoder.reads_images:
        for name, side in (("answer", pair.answer), ("explanation", pair.explanation)):
            row[f"t_shap_{name}"] = to_null(side.attribution.t_shap.value)
            row[f"t_shap_{name}_se"] = to_null(side.attribution.t_shap.standard_error)
    seed = setup.settings.seed
    return {
        "row": row,
        "answer": _build_stored_side(decoder, pair.answer, seed),
        "explanation": _build_stored_side(decoder, pair.explanation, seed),
    }


def _build_cc_shap_columns(cc_shap: CCShap, order: np.ndarray) -> dict[str, Any]:
    names = ("correlation", "mse", "variance", "kl", "js")
    return {
        "value": cc_shap.value,
        "standard_error": cc_shap.standard_error,
        **(dict.fromkeys(names) if cc_shap.companions is None else asdict(cc_shap.companions)),
        "with_weak": cc_shap.with_weak,
        "weak_answer": cc_shap.weak_answer,
        "weak_explanation": cc_shap.weak_explanation,
        "ratios_answer": [to_null(ratio) for ratio in cc_shap.ratios_answer[order]],
        "ratios_explanation": [to_null(ratio) for ratio in cc_shap.ratios_explanation[order]],
        "reason": cc_shap.reason or cc_shap.standard_error_reason,
    }


def _build_stored_side(decoder: Decoder, side: SideAttribution, seed: int) -> StoredSide:
    """Return one side with text players before patches."""
    attribution = side.attribution
    words, shared = len(attribution.tokens), sorted(_renumber_shared(side).tolist())
    token_ids = attribution.token_ids
    return {
        "columns": {"text": attribution.game.text, **build_columns(decoder, attribution, seed)},
        "shared": shared,
        "names": [
            token_ids[player] if player < words else list(divmod(player - words, attribution.grid)) for player in shared
        ],
    }


def _renumber_shared(side: SideAttribution) -> np.ndarray:
    """Return the shared players' numbers where text players stand before patches, in the order of comparison."""
    players, words = len(side.attribution.estimate.phi), len(side.attribution.tokens)
    patches_before = players - words if side.attribution.text.start else 0
    numbers: np.ndarray = (side.shared - patches_before) % players
    return numbers
