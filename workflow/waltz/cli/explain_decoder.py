"""What the options of `waltz explain` mean for a decoder, and which of them go together."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waltz.core.errors import UserError

if TYPE_CHECKING:
    from waltz.attribution.prompt_attribution import PromptSettings
    from waltz.explainer.decoder import DecoderQuestion, ReadyPrompts
    from waltz.explainer.decoder_explanation import DecoderExplanation
    from waltz.fidelity import Profile
    from waltz.model_registry import ModelSpec

PROMPTS = ("prompt_answer", "tail_answer", "prompt_explanation", "tail_explanation")
"""Options of ready prompts, all of which are needed."""
DECODER = frozenset({"image", "max_new_tokens", "estimator", "evaluations", "permutations", "value"})
READY = DECODER | {*PROMPTS, "greedy_target", "max_evals", "mask_id", "keep_ids", "family"}
QUESTION = DECODER | {"question", "labels", "text", "foil", "family", "prompts", "explanation", "max_evals"}
EQUATIONS = frozenset({"estimator", "evaluations", "permutations", "value"})
"""Options that only the profile `equations` of a decoder has."""
PUBLISHED = frozenset({"max_evals", "mask_id", "keep_ids", "family"})
"""Options that only its profile `published` has."""
NEW_TOKENS = 40
"""Most tokens of an explanation where nobody says how many."""


def explain_by_options(
    spec: "ModelSpec", profile: str | None, seed: int, options: Mapping[str, Any]
) -> "DecoderExplanation":
    """Explain a decoder's answer as the options say.

    Args:
        spec: The decoder.
        profile: `published`, `equations` or None for what is usual.
        seed: Seed of what is drawn.
        options: The other options that were given, by their names with underscores.
    Raises:
        UserError: Options do not go together, or the model cannot be asked this.
    """
    ready = any(name in options for name in PROMPTS)
    if spec.kind == "text" and "image" in options:
        raise UserError(f"{spec.name}: a language model sees no images; leave out --image, or name a model that sees")
    if ready:
        check_allowed(options, READY, "the prompts are ready")
        check_needed(options, PROMPTS, "ready prompts come with the texts that end them")
    else:
        check_allowed(options, QUESTION, "it belongs to ready prompts, --prompt-answer and the like")
    chosen = _check_profile(profile or ("equations" if not ready and "family" not in options else "published"))
    other = PUBLISHED if chosen == "equations" else EQUATIONS
    check_allowed(options, frozenset(options) - other, f"profile {chosen} has its own way")
    from waltz.explainer.decoder import explain_decoder

    most = options.get("max_new_tokens", NEW_TOKENS)
    if most < 1:
        raise UserError(f"--max-new-tokens {most}: an explanation has at least 1")
    asked = _build_ready_prompts(options) if ready else _build_question(spec, options)
    return explain_decoder(spec, asked, _build_settings(chosen, seed, options), image=options.get("image"), most=most)


def _check_profile(name: str) -> "Profile":
    for known in ("published", "equations"):
        if name == known:
            return known
    from waltz.models.resolve_name import suggest_name

    raise UserError(f"profile {name!r}{suggest_name(name, ('published', 'equations'))}; there are published, equations")


def _build_ready_prompts(options: Mapping[str, Any]) -> "ReadyPrompts":
    from waltz.explainer.decoder import ReadyPrompts

    answer, answer_tail, explanation, explanation_tail = (_read_text(options[name], name) for name in PROMPTS)
    return ReadyPrompts(
        answer, answer_tail, explanation, explanation_tail, bool(options.get("greedy_target")), options.get("family")
    )


def _build_question(spec: "ModelSpec", options: Mapping[str, Any]) -> "DecoderQuestion":
    from waltz.consistency.cc_shap.dialogue import EXPLANATION_KINDS
    from waltz.explainer.decoder import DecoderQuestion, build_image_question, build_own_question

    if ("question" in options) == ("text" in options):
        ways = "a --question" if spec.kind == "text" else "a --question about the image, or its --text with a --foil"
        raise UserError(f"{spec.name}: is a decoder: ask it {ways}, one of them")
    if "text" in options:
        if spec.kind == "text":
            raise UserError(f"{spec.name}: a language model sees no images, so --text describes none; ask a --question")
        check_allowed(options, frozenset(options) - {"labels"}, "the labels of --text are those of its prompt")
        question = build_image_question(options["text"], options.get("foil"))
    else:
        check_allowed(options, frozenset(options) - {"foil"}, "a foil belongs to a --text")
        named = [label.strip() for label in options.get("labels", "").split(",")] if "labels" in options else []
        question = build_own_question(_read_text(options["question"], "question"), named)
    kind = options.get("explanation", "post-hoc")
    if kind not in EXPLANATION_KINDS:
        raise UserError(f"--explanation {kind}: there are {', '.join(EXPLANATION_KINDS)}")
    return DecoderQuestion(question, kind, options.get("family"), options.get("prompts"))


def _build_settings(profile: "Profile", seed: int, options: Mapping[str, Any]) -> "PromptSettings":
    from waltz.attribution.prompt_attribution import PromptSettings
    from waltz.attribution.shapley.estimators import COALITION_ESTIMATORS
    from waltz.models.decoders.continuations import OUTCOMES

    if not 0 <= seed < 2**32:
        raise UserError(f"seed {seed}: give a number from 0 to {2**32 - 1}")
    if {"evaluations", "permutations"} <= set(options):
        raise UserError("--permutations: says the same as --evaluations; leave one of them out")
    for name, known in (("estimator", ("auto", *COALITION_ESTIMATORS)), ("value", tuple(OUTCOMES))):
        if name in options and options[name] not in known:
            raise UserError(f"--{name} {options[name]}: there are {', '.join(known)}")
    if options.get("permutations", 1) < 1:
        raise UserError(f"--permutations {options['permutations']}: give at least 1")
    given: dict[str, Any] = {
        name: options[name] for name in ("estimator", "evaluations", "permutations", "value") if name in options
    }
    if "max_evals" in options:
        given["budgets"] = _parse_numbers(options["max_evals"], "max-evals")
    if "mask_id" in options:
        given["masked_id"] = options["mask_id"]
    if "keep_ids" in options:
        given["unmasked_ids"] = _parse_numbers(options["keep_ids"], "keep-ids")
    return PromptSettings(profile, seed, **given)


def _parse_numbers(text: str, name: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UserError(f"--{name} {text}: give whole numbers with commas between") from None


def _read_text(given: str, name: str) -> str:
    """A text, or what a file holds but for its last line break, where the text is @FILE."""
    if not given.startswith("@"):
        return given
    path = Path(given[1:])
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--{name.replace('_', '-')} {given}: cannot be read as text: {error}") from None


def check_allowed(options: Mapping[str, Any], allowed: frozenset[str] | set[str], why: str) -> None:
    """Refuse an option that is not among those allowed.

    Raises:
        UserError: There is one; it says why.
    """
    odd = next((name for name in options if name not in allowed), None)
    if odd is not None:
        raise UserError(f"--{odd.replace('_', '-')}: does not go with this: {why}; leave it out")


def check_needed(options: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    """Refuse options among which one is missing.

    Raises:
        UserError: One is; it says why.
    """
    lacking = next((name for name in names if name not in options), None)
    if lacking is not None:
        raise UserError(f"--{lacking.replace('_', '-')} is missing: {why}")
