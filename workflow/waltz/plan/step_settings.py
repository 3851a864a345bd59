"""Settings of each step: the part of a study that decides the numbers of the step, so that only
these jobs run again.

A rule passes `settings=settings(STEP)`, and its script builds from them the dataclass that the
function of the step takes (such as `ScoringSettings` or `Resampling`), or passes them by name. A
new setting is therefore added in the study, here, and to that dataclass.
"""

from collections.abc import Callable

from waltz.fidelity import get_fidelity
from waltz.plan.study import Settings, Study, to_settings


def get_step_settings(study: Study, step: str) -> Settings:
    """Return the settings that decide the numbers of a step.

    Args:
        study: The study.
        step: A key of `STEPS`, or a measurement of stage measures, whose settings are its section
            in the study; empty if the study does not make it.
    """
    if step in STEPS:
        return STEPS[step](study)
    return to_settings(getattr(study.measures, step))


def _align(study: Study) -> Settings:
    """Return the settings for scores of images and texts by encoders."""
    evaluation = study.evaluation
    return {
        "profiles": study.profiles,
        "scored": evaluation.items,
        "sample": evaluation.sample,
        "seed": study.seed,
    }


def _perplexity(study: Study) -> Settings:
    """Return the settings for perplexities of language models."""
    return {**_align(study), "tokens_per_batch": study.evaluation.tokens_per_batch}


def _answer(study: Study) -> Settings:
    """Return the settings for answers of encoders with an answering head."""
    return {"profiles": study.profiles, "seed": study.seed}


def _decode(study: Study) -> Settings:
    """Return the settings for answers of decoders."""
    return {
        **_align(study),
        "sample": get_decoder_sample(study),
        "cot_tokens": study.evaluation.cot_tokens,
    }


def _attribute(study: Study) -> Settings:
    """Return the settings for MM-SHAP of encoders."""
    return {
        "estimation": get_estimation(study),
        "scored": study.evaluation.items,
        "scored_sample": study.evaluation.sample,
        "sample": study.attribution.sample,
        "seed": study.seed,
    }


def _attribute_answers(study: Study) -> Settings:
    """Return the settings for MM-SHAP of the answers of VL decoders."""
    return {
        **_attribute(study),
        "value": study.attribution.value,
        "scored_sample": get_decoder_sample(study),
        "sample": study.attribution.decoder_sample or study.attribution.sample,
    }


def _attribute_questions(study: Study) -> Settings:
    """Return the settings for MM-SHAP of encoders that answer questions."""
    return {
        "estimation": get_estimation(study),
        "sample": study.attribution.sample,
        "seed": study.seed,
    }


def _companions(study: Study) -> Settings:
    """Return the settings for EMAP and the perceptual score of encoders."""
    return {**_deal(study), "scored": study.evaluation.items}


def _answer_companions(study: Study) -> Settings:
    """Return the settings for the perceptual score of encoders that answer questions."""
    return {**_deal(study), "profiles": study.profiles}


def _deal(study: Study) -> Settings:
    """Return the settings by which EMAP and the perceptual score pair texts with the images of
    other items.
    """
    return {**to_settings(study.attribution.companions), "seed": study.seed}


def _tests(study: Study) -> Settings:
    """Return the settings for the self-consistency tests."""
    consistency = study.consistency
    return {
        **_consistency(study),
        "tests": consistency.tests,
        "compare_meaning": bool(consistency.meaning),
        "edits": consistency.edits.to_dict(),
    }


def _cc_shap(study: Study) -> Settings:
    """Return the settings for CC-SHAP."""
    settings = to_settings(study.consistency.cc_shap)
    # This key decides which jobs exist, but none of their numbers.
    settings.pop("edits", None)
    return {**_consistency(study), "cc_shap": settings}


def _consistency(study: Study) -> Settings:
    """Return the settings that the self-consistency tests and CC-SHAP share."""
    consistency = study.consistency
    return {
        "profiles": study.profiles,
        "sample": consistency.sample,
        "tokens": consistency.tokens.to_dict(),
        "seed": study.seed,
        "seeds": get_consistency_seeds(study),
        "repeated": consistency.repeated,
    }


def _resampling(study: Study) -> Settings:
    """Return the settings for bootstrap intervals."""
    reporting = study.reporting
    return {
        "resamples": reporting.resamples,
        "confidence": reporting.confidence,
        "seed": study.seed,
    }


def _scenes(study: Study) -> Settings:
    """Return the settings that decide the drawn scenes; empty if the study draws none."""
    return to_settings(study.scenes, "count", "seed")


STEPS: dict[str, Callable[[Study], Settings]] = {
    "align": _align,
    "perplexity": _perplexity,
    "answer": _answer,
    "decode": _decode,
    "attribute": _attribute,
    "attribute_answers": _attribute_answers,
    "attribute_questions": _attribute_questions,
    "companions": _companions,
    "answer_companions": _answer_companions,
    "self_consistency_tests": _tests,
    "cc_shap": _cc_shap,
    "resampling": _resampling,
    "scenes": _scenes,
}
"""Function that selects the settings of a step, by the name of the step. All rules that compute
intervals share `resampling`, all rules of the embedded world share `scenes`.
"""


def get_decoder_sample(study: Study) -> int | None:
    """Return the number of pairs of a data set with which decoders are prompted; None for all
    pairs.
    """
    return study.evaluation.decoder_sample or study.evaluation.sample


def get_consistency_seeds(study: Study) -> list[int]:
    """Return the seeds of stage consistency: the seeds that the study lists there, or else the seed
    of the study.
    """
    return study.consistency.seeds or [study.seed]


def get_estimation(study: Study) -> dict[str, Settings]:
    """Return the settings of the estimator by profile; empty for a profile that prescribes an
    estimator.
    """
    attribution = study.attribution
    # The settings of the study hold in profiles that prescribe no estimator.
    settings = {
        "estimator": attribution.estimator,
        "evaluations": attribution.evaluations,
        "standard_error": attribution.standard_error,
        "grid": attribution.grid,
    }
    # The released code fixes its numbers of permutations, so `published` ignores the settings of
    # the study.
    estimation: dict[str, Settings] = {}
    for profile in study.profiles:
        has_estimator = bool(get_fidelity(profile).estimators)
        estimation[profile] = {} if has_estimator else settings
    return estimation
