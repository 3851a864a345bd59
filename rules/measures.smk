"""Stage measures: what T-SHAP, CC-SHAP and the self-consistency tests themselves are worth, one rule a measurement."""

# All measurements read the same items; each takes its sample of them.
SHOWN_DATASETS = STUDY.measures.datasets if STUDY.measures.models else []
MEASURED_ITEMS = {
    "rows": rows_of(SHOWN_DATASETS),
    "images": images_of(SHOWN_DATASETS),
}
MEASURED_DATASETS = PLAN.get_settings(SHOWN_DATASETS)
# Rulers are synthetic encoders with a known share of text; only ground truth is about them.
RULERS = PLAN.select_measured_models("ruler")
MEASURED_ENCODERS = [
    name for name in PLAN.select_measured_models("encoder") if name not in RULERS
]
MEASURED_DECODERS = PLAN.select_measured_models("vision")


rule measure_bias:
    """Bias and error of T-SHAP from few evaluations, of encoders of late fusion."""
    input:
        **MEASURED_ITEMS,
        weights=weights(*MEASURED_ENCODERS),
    output:
        rows="<results>/measures/bias.parquet",
    log:
        "<logs>/measures/bias.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(*MEASURED_ENCODERS),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        resampling=settings("resampling"),
        user_images=USER_IMAGES,
        settings=settings("bias"),
        seed=STUDY.seed,
        models=models(*MEASURED_ENCODERS),
        datasets=MEASURED_DATASETS,
        code=code("measure_bias.py", *map(MODELS.get_module, MEASURED_ENCODERS)),
    message:
        "Bias and error of T-SHAP from few evaluations"
    script:
        "../workflow/scripts/measure_bias.py"


rule measure_multiverse:
    """Choices that papers leave open, and whether rankings by T-SHAP survive them."""
    input:
        **MEASURED_ITEMS,
        weights=weights(*MEASURED_ENCODERS),
    output:
        rows="<results>/measures/multiverse.parquet",
    log:
        "<logs>/measures/multiverse.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(*MEASURED_ENCODERS),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        resampling=settings("resampling"),
        user_images=USER_IMAGES,
        settings=settings("multiverse"),
        seed=STUDY.seed,
        models=models(*MEASURED_ENCODERS),
        datasets=MEASURED_DATASETS,
        code=code("measure_multiverse.py", *map(MODELS.get_module, MEASURED_ENCODERS)),
    message:
        "T-SHAP under choices that papers leave open"
    script:
        "../workflow/scripts/measure_multiverse.py"


rule measure_controls:
    """T-SHAP of other images and random weights, CC-SHAP of other explanations."""
    input:
        **MEASURED_ITEMS,
        weights=weights(*MEASURED_ENCODERS, *MEASURED_DECODERS),
        prompts=prompts(*MEASURED_DECODERS),
    output:
        rows="<results>/measures/controls.parquet",
    log:
        "<logs>/measures/controls.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(*MEASURED_ENCODERS, *MEASURED_DECODERS),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        resampling=settings("resampling"),
        user_images=USER_IMAGES,
        settings=settings("controls"),
        seed=STUDY.seed,
        encoders=models(*MEASURED_ENCODERS),
        decoders=models(*MEASURED_DECODERS),
        datasets=MEASURED_DATASETS,
        code=code("measure_controls.py", *map(MODELS.get_module, MEASURED_ENCODERS)),
    message:
        "T-SHAP and CC-SHAP where there is nothing to find"
    script:
        "../workflow/scripts/measure_controls.py"


rule measure_released_faults:
    """Deviations of the released code from the definitions, switched on one by one."""
    input:
        **MEASURED_ITEMS,
        weights=weights(*MEASURED_ENCODERS, *MEASURED_DECODERS),
        prompts=prompts(*MEASURED_DECODERS),
    output:
        rows="<results>/measures/released_faults.parquet",
    log:
        "<logs>/measures/released_faults.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(*MEASURED_ENCODERS, *MEASURED_DECODERS),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        resampling=settings("resampling"),
        user_images=USER_IMAGES,
        settings=settings("released_faults"),
        seed=STUDY.seed,
        encoders=models(*MEASURED_ENCODERS),
        decoders=models(*MEASURED_DECODERS),
        datasets=MEASURED_DATASETS,
        code=code(
            "measure_released_faults.py", *map(MODELS.get_module, MEASURED_ENCODERS)
        ),
    message:
        "Deviations of the released code, one by one"
    script:
        "../workflow/scripts/measure_released_faults.py"


rule measure_ground_truth:
    """T-SHAP of rulers and of built games, whose share of text is known."""
    input:
        **MEASURED_ITEMS,
    output:
        rows="<results>/measures/ground_truth.parquet",
    log:
        "<logs>/measures/ground_truth.log",
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(*RULERS),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        resampling=settings("resampling"),
        user_images=USER_IMAGES,
        settings=settings("ground_truth"),
        seed=STUDY.seed,
        models=models(*RULERS),
        datasets=MEASURED_DATASETS,
        code=code("measure_ground_truth.py"),
    message:
        "T-SHAP where the share of text is known"
    script:
        "../workflow/scripts/measure_ground_truth.py"


rule measure_calibration:
    """Sensitivity and specificity of self-consistency tests and CC-SHAP on constructed decoders."""
    input:
        words=[
            locate_in_package(f"resources/wordnet/{words}")
            for words in ("adjectives.txt", "adverbs.txt", "modifiers.tsv")
        ],
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


rule measure_ceiling:
    """Agreement of attributions of one output that are drawn twice, which bounds CC-SHAP."""
    input:
        **MEASURED_ITEMS,
        weights=weights(*MEASURED_DECODERS),
        prompts=prompts(*MEASURED_DECODERS),
    output:
        rows="<results>/measures/ceiling.parquet",
    log:
        "<logs>/measures/ceiling.log",
    priority: ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **loads(*MEASURED_DECODERS),
        runtime=per_attempt(EXPLAINING_MINUTES),
    params:
        resampling=settings("resampling"),
        user_images=USER_IMAGES,
        settings=settings("ceiling"),
        seed=STUDY.seed,
        models=models(*MEASURED_DECODERS),
        datasets=MEASURED_DATASETS,
        code=code("measure_ceiling.py"),
    message:
        "Agreement of attributions that are drawn twice"
    script:
        "../workflow/scripts/measure_ceiling.py"


SCORED = [run for run in PLAN.scored if run.dataset in STUDY.measures.datasets]
# In `published`, perplexities of overlapping windows are not likelihoods.
SCORED_PROFILE = "equations" if "equations" in STUDY.profiles else STUDY.profiles[0]


rule measure_plausibility:
    """acc_r where a language model finds caption and foil equally likely."""
    input:
        scores=results_of("evaluation", SCORED),
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
        scores=results_of("evaluation", SCORED),
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
