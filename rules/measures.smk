"""Stage measures: what T-SHAP, CC-SHAP and the self-consistency tests themselves are worth, one file a measurement."""

# All measurements with models read the same items; each takes its sample of them.
SHOWN_DATASETS = STUDY.measures.datasets if STUDY.measures.models else []
# Rulers are synthetic encoders with a known share of text; only ground truth is about them.
RULERS = PLAN.select_measured_models("ruler")
MEASURED_ENCODERS = [
    name for name in PLAN.select_measured_models("encoder") if name not in RULERS
]
MEASURED_DECODERS = PLAN.select_measured_models("vision")
ENCODERS_OF = {
    "bias": MEASURED_ENCODERS,
    "multiverse": MEASURED_ENCODERS,
    "reliability": MEASURED_ENCODERS,
    "controls": MEASURED_ENCODERS,
    "released_faults": MEASURED_ENCODERS,
    "ground_truth": RULERS,
    "ceiling": [],
}
DECODERS_OF = {
    "bias": [],
    "multiverse": [],
    "reliability": MEASURED_DECODERS,
    "controls": MEASURED_DECODERS,
    "released_faults": MEASURED_DECODERS,
    "ground_truth": [],
    "ceiling": MEASURED_DECODERS,
}
ENCODERS = ask(ENCODERS_OF.get, "{measurement}")
DECODERS = ask(DECODERS_OF.get, "{measurement}")


rule measure:
    """One measurement with models: bias, multiverse, reliability, controls, released_faults, ground_truth or ceiling."""
    input:
        rows=expand("<results>/benchmark/{dataset}.parquet", dataset=SHOWN_DATASETS),
        images=images_of(SHOWN_DATASETS),
        weights=weights(ENCODERS, DECODERS),
    output:
        rows="<results>/measures/{measurement}.parquet",
    log:
        "<logs>/measures/{measurement}.log",
    wildcard_constraints:
        measurement=PLAN.build_pattern(ENCODERS_OF),
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(ENCODERS, DECODERS),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        prompts=prompts(DECODERS),
        resampling=settings("resampling"),
        user_images=USER_IMAGES,
        settings=ask(settings, "{measurement}"),
        seed=STUDY.seed,
        encoders=models(ENCODERS),
        decoders=models(DECODERS),
        datasets=PLAN.get_settings(SHOWN_DATASETS),
        code=code_of("measure_{measurement}.py", ENCODERS),
    message:
        "Measurement {wildcards.measurement}: how far the measures can be trusted"
    script:
        "../workflow/scripts/measure_{wildcards.measurement}.py"


rule measure_calibration:
    """Sensitivity and specificity of self-consistency tests and CC-SHAP on constructed decoders."""
    input:
        words=expand(
            "<package>/resources/wordnet/{words}",
            words=["adjectives.txt", "adverbs.txt", "modifiers.tsv"],
        ),
    output:
        rows="<results>/measures/calibration.parquet",
    log:
        "<logs>/measures/calibration.log",
    conda:
        "../envs/environment.yaml"
    resources:
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        resampling=settings("resampling"),
        settings=settings("calibration"),
        seed=STUDY.seed,
        code=code("measure_calibration.py"),
    message:
        "Tests and CC-SHAP of constructed decoders"
    script:
        "../workflow/scripts/measure_calibration.py"


rule measure_validity:
    """CC-SHAP and self-consistency tests of decoders that are trained here to explain faithfully, or not."""
    input:
        words=expand(
            "<package>/resources/wordnet/{words}",
            words=["adjectives.txt", "adverbs.txt", "modifiers.tsv"],
        ),
        prompts="<package>/resources/prompts/validity.yaml",
    output:
        rows="<results>/measures/validity.parquet",
    log:
        "<logs>/measures/validity.log",
    conda:
        "../envs/environment.yaml"
    resources:
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        resampling=settings("resampling"),
        settings=settings("validity"),
        seed=STUDY.seed,
        code=code("measure_validity.py"),
    message:
        "CC-SHAP and tests of decoders that are trained to explain"
    script:
        "../workflow/scripts/measure_validity.py"


SCORED = [run for run in PLAN.scored if run.dataset in STUDY.measures.datasets]
# In `published`, perplexities of overlapping windows are not likelihoods.
SCORED_PROFILE = "equations" if "equations" in STUDY.profiles else STUDY.profiles[0]


rule measure_plausibility:
    """acc_r where a language model finds caption and foil equally likely."""
    input:
        scores=expand(
            "<results>/evaluation/{file.model}/{file.name}.parquet",
            file=files_of("evaluation", SCORED),
        ),
    output:
        rows="<results>/measures/plausibility.parquet",
    log:
        "<logs>/measures/plausibility.log",
    conda:
        "../envs/environment.yaml"
    params:
        resampling=settings("resampling"),
        settings=settings("plausibility"),
        runs=SCORED,
        profile=SCORED_PROFILE,
        filters={
            name: STUDY.instruments[name].filters
            for name in STUDY.measures.datasets
            if name in STUDY.instruments
        },
        code=code("measure_plausibility.py"),
    script:
        "../workflow/scripts/measure_plausibility.py"


rule measure_power:
    """Smallest differences between models that paired tests can show."""
    input:
        scores=expand(
            "<results>/evaluation/{file.model}/{file.name}.parquet",
            file=files_of("evaluation", SCORED),
        ),
    output:
        rows="<results>/measures/power.parquet",
    log:
        "<logs>/measures/power.log",
    conda:
        "../envs/environment.yaml"
    params:
        resampling=settings("resampling"),
        settings=settings("power"),
        runs=SCORED,
        profile=SCORED_PROFILE,
        code=code("measure_power.py"),
    script:
        "../workflow/scripts/measure_power.py"
