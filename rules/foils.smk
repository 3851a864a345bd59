"""Stage foils: every candidate of every instrument and the captions of CV-Probes, before any filter."""

from waltz.instruments import SWIG_TABLES

# The model that proposes the foils of an instrument or counts its tokens; none for most instruments.
PROPOSING_MODELS = ask(BUILD.list_proposing_models, "{instrument}")


rule candidates:
    """All candidates of one instrument from the rows of its source."""
    input:
        rows=ask(BUILD.get_rows, "{instrument}"),
        weights=weights(PROPOSING_MODELS),
    output:
        candidates="<results>/foils/{instrument}.parquet",
        run="<results>/foils/{instrument}.run.json",
    log:
        "<logs>/candidates/{instrument}.log",
    priority: NEEDED_ON_GPUS
    conda:
        "../envs/environment.yaml"
    threads: threads_for(PROPOSING_MODELS)
    resources:
        **loads(PROPOSING_MODELS),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        tables=tables(ask(BUILD.list_tables, "{instrument}")),
        settings=entry(STUDY.instruments, "{instrument}", "splits", "most_tokens"),
        model=models(PROPOSING_MODELS),
        proposals=ask(BUILD.get_proposal_settings, "{instrument}"),
        code=ask(code, "candidates.py", ask(BUILD.get_maker, "{instrument}")),
    script:
        "../workflow/scripts/candidates.py"


rule contextual_captions:
    """CV-Probes: abstracts of contextual verbs filled with every annotation of the selected images."""
    input:
        rows=expand("<results>/sources/{source}.parquet", source=BUILD.probe_sources),
        weights=weights(*BUILD.repairing_models),
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
        **loads(*BUILD.repairing_models),
        runtime=per_attempt(SCORING_MINUTES),
    params:
        tables=tables(SWIG_TABLES),
        settings=BUILD.probe_settings,
        model=models(*BUILD.repairing_models),
        seed=STUDY.seed,
        code=code("contextual_captions.py"),
    script:
        "../workflow/scripts/contextual_captions.py"


# The foiling functions make foils from the captions of the released items.
rule reproduce:
    """Released items rebuilt by the foiling functions from their inputs, and why others are not."""
    input:
        **PLAN.released_files,
        captions=expand(
            "<results>/sources/{source}.parquet", source=PLAN.caption_sources
        ),
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
        tables=tables(SWIG_TABLES),
        released=list(PLAN.released_files),
        code=code("reproduce.py"),
    script:
        "../workflow/scripts/reproduce.py"


rule construction_fidelity:
    """Share of the released benchmark that the foiling functions rebuild."""
    input:
        rules.reproduce.output.table,
