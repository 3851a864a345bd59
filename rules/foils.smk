"""Stage foils: every candidate of every instrument and the captions of CV-Probes, before any filter."""

from waltz.instruments import INSTRUMENTS, SWIG_TABLES


rule candidates:
    """All candidates of one instrument from the rows of its source."""
    input:
        rows=lambda w: f"<results>/sources/{STUDY.instruments[w.instrument].source}.parquet",
        weights=lambda w: MODELS.list_weight_files(
            *PLAN.list_proposing_models(w.instrument)
        ),
        tables=lambda w: list(map(locate_in_package, INSTRUMENTS[w.instrument].tables)),
    output:
        candidates="<results>/foils/{instrument}.parquet",
        run="<results>/foils/{instrument}.run.json",
    log:
        "<logs>/candidates/{instrument}.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: lambda w: MODEL_THREADS if PLAN.list_proposing_models(w.instrument) else 1
    resources:
        **request_resources(lambda w: PLAN.list_proposing_models(w.instrument)),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        settings=lambda w: STUDY.instruments[w.instrument].to_dict(
            "splits", "most_tokens"
        ),
        model=lambda w: list(
            map(MODELS.get_settings, PLAN.list_proposing_models(w.instrument))
        ),
        proposals=lambda w: PLAN.get_proposal_settings(w.instrument),
        code=lambda w: code("candidates.py", INSTRUMENTS[w.instrument].maker),
    script:
        "../workflow/scripts/candidates.py"


rule contextual_captions:
    """CV-Probes: abstracts of contextual verbs filled with every annotation of the selected images."""
    input:
        rows=PLAN.probe_rows,
        weights=MODELS.list_weight_files(*PLAN.repairing_models),
        tables=map(locate_in_package, SWIG_TABLES),
    output:
        captions="<results>/foils/cv-probes.parquet",
        run="<results>/foils/cv-probes.run.json",
    log:
        "<logs>/contextual_captions.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: MODEL_THREADS
    resources:
        **request_resources(lambda w: PLAN.repairing_models),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        settings=PLAN.probe_settings,
        model=list(map(MODELS.get_settings, PLAN.repairing_models)),
        seed=STUDY.seed,
        code=code("contextual_captions.py"),
    script:
        "../workflow/scripts/contextual_captions.py"


rule reproduce:
    """Released items rebuilt by the foiling functions from their inputs, and why others are not."""
    input:
        **PLAN.released_files,
        captions=PLAN.caption_rows,
        tables=map(locate_in_package, SWIG_TABLES),
    output:
        shares="<results>/foils/fidelity/shares.parquet",
        misses="<results>/foils/fidelity/misses.parquet",
        table=report(
            "<results>/reporting/construction_fidelity.md",
            caption="../workflow/report/fidelity.rst",
            category="Tables",
            labels={
                "table": "construction fidelity",
                "what": "released items made again by the foiling functions",
            },
        ),
    log:
        "<logs>/reproduce.log",
    conda:
        "../envs/environment.yaml"
    params:
        released=PLAN.released,
        code=code("reproduce.py"),
    script:
        "../workflow/scripts/reproduce.py"


rule construction_fidelity:
    """How close the foiling functions come to the released benchmark."""
    input:
        rules.reproduce.output.table,
